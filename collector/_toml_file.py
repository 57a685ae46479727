"""Settings that a user keeps in a TOML file."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from ..guard import LoopscopeError

__all__ = ["read_toml"]


def read_toml(path: str | os.PathLike[str], what: str) -> dict[str, Any]:
    """What stands in the file. Raises LoopscopeError, one line that names it; `what` it holds, in words."""
    try:
        return tomllib.loads(Path(path).expanduser().read_text(encoding="utf-8"))
    except OSError as error:
        raise LoopscopeError(f"cannot read {what} {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise LoopscopeError(f"{path} is not TOML: {error}") from error
