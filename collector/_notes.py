"""Values of the table `meta` that a transaction reads and changes, with one statement each way.

A statement costs a millisecond, however small the table, and a fold needs a dozen of these values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

__all__ = ["Notes"]


class Notes:
    """What `meta` says. To be made inside the transaction that saves it."""

    def __init__(self, con: DuckDBPyConnection) -> None:
        self._con = con
        self._values: dict[str, str] = dict(con.execute("SELECT key, value FROM meta").fetchall())
        self._changed: set[str] = set()
        self.rewritten = 0  # bytes of rows that the transaction took out to write them again

    def get(self, key: str) -> str | None:
        """A value; None where there is none."""
        return self._values.get(key)

    def set(self, key: str, value: str) -> None:
        """Change a value, or add one."""
        if self._values.get(key) != value:
            self._values[key] = value
            self._changed.add(key)

    def save(self) -> None:
        """Write what changed, and nothing else: counters grow by statements of their own meanwhile."""
        if self._changed:
            pairs = [(key, self._values[key]) for key in sorted(self._changed)]
            self._con.execute(
                f"INSERT INTO meta VALUES {', '.join(['(?, ?)'] * len(pairs))}"  # noqa: S608
                " ON CONFLICT DO UPDATE SET value = excluded.value",
                [item for pair in pairs for item in pair],
            )
            self._changed.clear()
