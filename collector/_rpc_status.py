"""Serialized google.rpc.Status and RetryInfo; the Python package of these messages is not a dependency."""

from __future__ import annotations

from ._varint import varint

__all__ = ["retry_info", "rpc_status"]

_MAX_MESSAGE = 1000
_RETRY_INFO = b"type.googleapis.com/google.rpc.RetryInfo"


def rpc_status(code: int, message: str, *, retry_after: int | None = None) -> bytes:
    """google.rpc.Status: int32 code = 1, string message = 2, repeated Any details = 3."""
    data = bytes((0x08, code)) + _field(2, message[:_MAX_MESSAGE].encode("utf-8", "replace"))
    if retry_after is not None:
        # Any: string type_url = 1, bytes value = 2
        data += _field(3, _field(1, _RETRY_INFO) + _field(2, retry_info(retry_after)))
    return data


def retry_info(seconds: int) -> bytes:
    """google.rpc.RetryInfo: Duration retry_delay = 1; Duration: int64 seconds = 1. Below 128 seconds."""
    return _field(1, bytes((0x08, seconds)))


def _field(number: int, data: bytes) -> bytes:
    return bytes((number << 3 | 2,)) + varint(len(data)) + data
