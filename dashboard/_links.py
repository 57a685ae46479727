"""Links from a run to the same trace in other tools: Jaeger, Phoenix, Langfuse, by templates of the user.

A template is an http or https address with names in braces, such as `http://localhost:16686/trace/{trace_id}`.
What a trace says goes into it percent-encoded, and never into the part that names the host.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

from ..guard import LoopscopeError

__all__ = ["LINKS_VARIABLE", "NAMES", "Link", "Links", "checked", "file", "links", "parsed"]

LINKS_VARIABLE = "LOOPSCOPE_LINKS"
"""Templates, one `Name=https://…` a line; they win over the file's."""
NAMES = ("trace_id", "span_id", "run_id", "session_id", "service_name", "agent_name", "start_ms", "end_ms")
"""What a template may name."""

_MOST = 12
_NAME = 40  # characters
_LONGEST = 2_000
_FILE = 64_000  # bytes
_PLACE = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class Link:
    """Where one tool shows a trace."""

    name: str
    template: str

    def to(self, values: Mapping[str, object]) -> str | None:
        """The address for these values; None where one that it needs is not recorded."""
        wanted = _PLACE.findall(self.template)
        if any(values.get(name) in (None, "") for name in wanted):
            return None
        return _PLACE.sub(lambda place: quote(str(values[place[1]]), safe=""), self.template)


@dataclass(frozen=True, slots=True)
class Links:
    """The links of this server, and why some are not among them."""

    links: tuple[Link, ...]
    problem: str | None = None


def file(db: Path) -> Path:
    """The file of templates beside a database."""
    return db.with_suffix(".links.toml")


def links(db: Path) -> Links:
    """The templates in force: those of `<database>.links.toml`, then those of `LOOPSCOPE_LINKS`."""
    found: dict[str, Link] = {}
    problem = None
    for read in (lambda: _of_file(file(db)), lambda: parsed(os.environ.get(LINKS_VARIABLE, "").splitlines())):
        try:
            found.update((link.name, link) for link in read())
        except LoopscopeError as error:
            problem = problem or str(error)
    return Links(tuple(found.values())[:_MOST], problem)


def parsed(lines: Iterable[str]) -> Sequence[Link]:
    """Templates from `Name=https://…` lines. Raises LoopscopeError."""
    made = []
    for line in lines:
        if not line.strip():
            continue
        name, equals, template = line.partition("=")
        if not equals:
            raise LoopscopeError(f"{_short(line)} is no link: write Name=https://…/{{trace_id}}")
        made.append(checked(name, template))
    return made


def checked(name: str, template: object) -> Link:
    """A link that is safe to offer. Raises LoopscopeError that says what is wrong with it."""
    name = " ".join(name.split())
    if not name or len(name) > _NAME:
        raise LoopscopeError(f"the name of a link has 1 to {_NAME} characters; {_short(name)} does not")
    if not isinstance(template, str):
        raise LoopscopeError(f"the link {name!r} needs an address in quotes")
    address = template.strip()
    if len(address) > _LONGEST or not address.isprintable() or any(sign in address for sign in ' "<>\\^`|'):
        raise LoopscopeError(f"the link {name!r} is no address: {_short(address)}")
    unknown = [place for place in _PLACE.findall(address) if place not in NAMES]
    if unknown or re.search("[{}]", _PLACE.sub("", address)):
        what = f"there is no {{{unknown[0]}}}" if unknown else "a brace is left open"
        raise LoopscopeError(f"the link {name!r}: {what}; names are {', '.join(NAMES)}")
    try:
        parts = urlsplit(address)
        host = parts.hostname
    except ValueError:
        parts, host = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not host:
        raise LoopscopeError(f"the link {name!r} must begin with http:// or https://, not {_short(address)}")
    if "{" in parts.netloc:
        raise LoopscopeError(f"the link {name!r}: what a trace says must not choose the host")
    return Link(name, address)


def _of_file(path: Path) -> Sequence[Link]:
    try:
        with path.open("rb") as opened:
            data = opened.read(_FILE + 1)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise LoopscopeError(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > _FILE:
        raise LoopscopeError(f"{path} is larger than {_FILE:,} bytes; it holds a line for each link")
    try:
        named = tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise LoopscopeError(f"{path} is no TOML: {error}") from None
    try:
        return [checked(name, template) for name, template in named.items()]
    except LoopscopeError as error:
        raise LoopscopeError(f"{path}: {error}") from None


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:79]}…")
