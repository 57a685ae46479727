"""Every error that Loopscope raises on purpose.

    LoopscopeError
    ├── PolicyError          a policy, or a policy file, that cannot be used   (also a ValueError)
    ├── StoreError           the database cannot be used
    │   ├── StoreBusyError       another process holds the file; names the holder
    │   └── StoreVersionError    written by a newer Loopscope, or not a Loopscope database
    ├── SpoolError           the spool folder cannot be used (network file system, no permission)
    ├── OtlpDecodeError      bytes that are not the OTLP message they claim to be
    ├── ImportFileError      a file or folder that cannot be imported; nothing of it was stored
    └── NotFoundError        no incident, run or file by that name

A message is one line that says what is wrong, where, and what to do about it. The
facts are attributes too, so that callers need not parse the text.
"""

from __future__ import annotations

__all__ = [
    "ImportFileError",
    "LoopscopeError",
    "NotFoundError",
    "OtlpDecodeError",
    "PolicyError",
    "SpoolError",
    "StoreBusyError",
    "StoreError",
    "StoreVersionError",
]


class LoopscopeError(Exception):
    """Base of all errors below. `str(error)` is one line, fit to be shown to a user."""


class PolicyError(LoopscopeError, ValueError):
    """A guard policy that contradicts itself, or a policy file that cannot be read."""


class StoreError(LoopscopeError):
    """The DuckDB store cannot be used."""


class StoreBusyError(StoreError):
    """Another process held the database for longer than the caller was willing to wait.

    Attributes:
        path: the database file.
        holder: who holds it, as far as the system tells ("PID 4711 (python agent.py)"), or None.
    """

    def __init__(self, message: str, *, path: str = "", holder: str | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.holder = holder


class StoreVersionError(StoreError):
    """The file is of a newer schema version than this Loopscope, or is not a Loopscope database.

    Attributes:
        found: the schema version in the file, None where there is none.
        supported: the newest version this Loopscope reads.
    """

    def __init__(self, message: str, *, found: int | None = None, supported: int = 0) -> None:
        super().__init__(message)
        self.found = found
        self.supported = supported


class SpoolError(LoopscopeError):
    """The spool folder beside the database cannot be used."""


class OtlpDecodeError(LoopscopeError):
    """Bytes that are not the OTLP message they claim to be."""


class ImportFileError(LoopscopeError):
    """A file or folder that cannot be imported; nothing of it was stored.

    Attributes:
        path: the file or folder, as the user named it.
    """

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class NotFoundError(LoopscopeError):
    """No incident, run or file by that name."""
