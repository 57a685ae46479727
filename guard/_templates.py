"""Texts for the model that a user can replace: read from files, filled in one pass."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from ._exceptions import PolicyError

__all__ = ["TEMPLATES", "check_template", "fill", "read_template"]

TEMPLATES = os.path.join(os.path.dirname(__file__), "templates")

_MAX_CHARS = 3_000
_MAX_NAME_CHARS = 200


def check_template(name: str, text: str, must_say: str, what: str) -> None:
    """A text that says what it has to and is not too long. Raises PolicyError."""
    if must_say not in text:
        raise PolicyError(f"the {name} text must say {must_say}, {what}")
    if len(text) > _MAX_CHARS:
        raise PolicyError(f"the {name} text has {len(text)} characters; at most {_MAX_CHARS} are allowed")


def read_template(path: str) -> str | None:
    """The text of a file without blank lines around it; None where there is no such file."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise PolicyError(f"{path}: cannot be read: not UTF-8 text") from None
    except OSError as error:
        raise PolicyError(f"{path}: cannot be read: {error.strerror or error}") from None


def fill(template: str, tool_name: str, values: Mapping[str, str]) -> str:
    """The template with `{tool_name}` and the names in `values` filled in."""
    # One pass, so that braces in a tool's name stay what they are.
    known = {"tool_name": tool_name[:_MAX_NAME_CHARS], **values}
    return re.sub(rf"\{{({'|'.join(known)})\}}", lambda match: known[match[1]], template)
