"""Rows of Parquet files, as the JSON values that the same export would hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from ._json_stream import JsonValue
from ._report import FormatError, printable

__all__ = ["parquet_values"]

_BATCH_ROWS = 64
_MAX_BATCH = 256 << 20
# As for gzip: what is worth reading unpacks to 10 to 60 times its size.
_BOMB_RATIO = 300
_BOMB_FROM = 64 << 20


def parquet_values(
    raw: BinaryIO, size: int, on_progress: Callable[[int], None] | None = None
) -> Iterator[JsonValue]:
    """Each row as an object, a few at a time; times become whole numbers since 1970.

    Raises FormatError for a file that is damaged, or unpacks to more than any export does.
    """
    given = row = 0
    try:
        file = pq.ParquetFile(raw)
        for batch in file.iter_batches(batch_size=_BATCH_ROWS):
            given += batch.nbytes
            if given > max(_BOMB_FROM, size * _BOMB_RATIO) or batch.nbytes > _MAX_BATCH:
                raise FormatError("unpacks to more than an export does", where=f"row {row + 1:,}")
            for value in _plain(batch).to_pylist():
                row += 1
                yield JsonValue(value, row, None, row, 0)
            if on_progress is not None:
                on_progress(min(raw.tell(), size))
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        where = f"row {row + 1:,}" if row else ""
        why = printable(" ".join(str(error).split()))[:100]
        raise FormatError(
            f"the Parquet file is damaged, or of an unknown kind ({why})", where=where, hint="export it again"
        ) from None


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Times as numbers: Python has no nanoseconds."""
    columns: list[Any] = []
    for column in batch.columns:
        plain = column
        if pa.types.is_timestamp(column.type):
            plain = column.cast(pa.int64())
        elif pa.types.is_dictionary(column.type):
            plain = column.cast(column.type.value_type)
        columns.append(plain)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
