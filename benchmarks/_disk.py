"""Where the bytes of a database file are."""

from __future__ import annotations

from typing import Any

_BLOCKS = """
SELECT count(DISTINCT block), count(DISTINCT row_group_id)
FROM (
    SELECT block_id AS block, row_group_id FROM pragma_storage_info('{table}') WHERE block_id >= 0
    UNION ALL
    SELECT unnest(additional_block_ids), row_group_id FROM pragma_storage_info('{table}')
)
"""


def disk_by_table(con: Any, spans: int) -> str:
    """Bytes a span in the blocks of each table (and its groups of rows), and in others that are not free."""
    size, total, free = con.execute(
        "SELECT block_size, total_blocks, free_blocks FROM pragma_database_size()"
    ).fetchall()[0]
    tables = [name for (name,) in con.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
    found = [(*con.execute(_BLOCKS.format(table=table)).fetchall()[0], table) for table in tables]
    rest = total - free - sum(blocks for blocks, _, _ in found)
    parts = [
        f"{table} {blocks * size / spans:.0f} ({groups})"
        for blocks, groups, table in sorted(found)[::-1]
        if blocks
    ]
    return ", ".join([*parts, f"the rest {rest * size / spans:.0f}"])
