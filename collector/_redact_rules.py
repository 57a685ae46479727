"""Redaction by key and by pattern: chosen values are replaced before anything is written.

Finer than leaving content out altogether (`_redact`): what a key names (`password`, `*_token`) and what a
pattern finds (`sk-[A-Za-z0-9]+`) becomes `[redacted]`, everything else stays. Applied to values of
attributes of spans, events, links, log records, resources and scopes, to log bodies, names of spans and
status messages; in JSON texts at every depth, a JSON text inside a JSON text included.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from functools import cached_property
from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from ..guard import LoopscopeError, OtlpDecodeError
from ._redact import captures_content, redact_logs, redact_traces
from ._segment import Signal
from ._toml_file import read_toml

__all__ = [
    "REDACT_KEYS_VARIABLE",
    "REDACT_PATTERNS_VARIABLE",
    "REDACT_VARIABLE",
    "RedactionRules",
    "Redactor",
    "redactor",
]

REDACT_VARIABLE = "LOOPSCOPE_REDACT"  # a file
REDACT_KEYS_VARIABLE = "LOOPSCOPE_REDACT_KEYS"  # key,key
REDACT_PATTERNS_VARIABLE = "LOOPSCOPE_REDACT_PATTERNS"  # a pattern a line
REDACTED = "[redacted]"

Redactor = Callable[[Signal, bytes], bytes]

_MAX_DEPTH = 64  # of JSON texts and values; deeper ones are replaced whole
_FILE_KEYS = {"version", "keys", "patterns"}


@dataclass(frozen=True)
class RedactionRules:
    """What is replaced by `[redacted]`.

    Args:
        keys: names of attributes and of keys in JSON, with `*` and `?`, case ignored. An attribute's key is
            compared whole and by what follows its last dot (`password` also means `user.password`).
        patterns: regular expressions (Python's `re`); every match in a text is replaced, and a number whose
            digits match. One that matches the empty text is refused.

    Raises LoopscopeError for a pattern that is none.
    """

    keys: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    _compiled: tuple[re.Pattern[str], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("keys", "patterns"):
            found = getattr(self, name)
            if not isinstance(found, list | tuple) or not all(isinstance(one, str) and one for one in found):
                raise LoopscopeError(f"redaction: {name} must be a list of texts that are not empty")
            object.__setattr__(self, name, tuple(found))
        compiled = []
        for pattern in self.patterns:
            try:
                compiled.append(re.compile(pattern))
            except re.error as error:
                raise LoopscopeError(f"redaction: {pattern!r} is no pattern: {error}") from error
            if compiled[-1].search(""):
                raise LoopscopeError(
                    f"redaction: the pattern {pattern!r} matches every text, the empty one too"
                )
        object.__setattr__(self, "_compiled", tuple(compiled))

    def __bool__(self) -> bool:
        return bool(self.keys or self.patterns)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> RedactionRules:
        """Rules of a TOML file with `keys` and `patterns`. Raises LoopscopeError."""
        found = read_toml(path, "the redaction rules")
        if unknown := sorted(found.keys() - _FILE_KEYS):
            raise LoopscopeError(f"{path}: unknown key {unknown[0]!r}; there are version, keys and patterns")
        if found.get("version", 1) != 1:
            raise LoopscopeError(f"{path}: version {found['version']!r} is not known; this Loopscope reads 1")
        try:
            return cls(found.get("keys", ()), found.get("patterns", ()))
        except LoopscopeError as error:
            raise LoopscopeError(f"{path}: {error}") from error

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> RedactionRules:
        """What `LOOPSCOPE_REDACT` (a file), `…_KEYS` and `…_PATTERNS` say together. Raises LoopscopeError."""
        path = environ.get(REDACT_VARIABLE, "").strip()
        rules = cls.from_file(path) if path else cls()
        keys = [key.strip() for key in environ.get(REDACT_KEYS_VARIABLE, "").split(",")]
        patterns = environ.get(REDACT_PATTERNS_VARIABLE, "").split("\n")
        return cls(
            (*rules.keys, *filter(None, keys)),
            (*rules.patterns, *(pattern for pattern in patterns if pattern.strip())),
        )

    # -- on a request -------------------------------------------------------------------------------

    def apply(self, signal: Signal, data: bytes) -> bytes:
        """A serialized Export…ServiceRequest with its values redacted. Twice is the same as once.

        Raises OtlpDecodeError where the bytes are not such a request.
        """
        request: Any = ExportTraceServiceRequest() if signal == "traces" else ExportLogsServiceRequest()
        try:
            request.ParseFromString(data)
        except DecodeError as error:
            raise OtlpDecodeError(f"not an OTLP {signal} request: {error}") from error
        changed = False
        for outer in request.resource_spans if signal == "traces" else request.resource_logs:
            changed |= self._pairs(outer.resource.attributes)
            for scope in outer.scope_spans if signal == "traces" else outer.scope_logs:
                changed |= self._pairs(scope.scope.attributes)
                for record in scope.spans if signal == "traces" else scope.log_records:
                    changed |= self._span(record) if signal == "traces" else self._log(record)
        return request.SerializeToString() if changed else data

    def _span(self, span: Any) -> bool:
        changed = self._pairs(span.attributes)
        if (name := self.text(span.name)) != span.name:
            span.name = name
            changed = True
        if span.status.message and (message := self.text(span.status.message)) != span.status.message:
            span.status.message = message
            changed = True
        for item in (*span.events, *span.links):
            changed |= self._pairs(item.attributes)
        return changed

    def _log(self, record: Any) -> bool:
        changed = self._pairs(record.attributes)
        if record.HasField("body"):
            changed |= self._any(record.body, 0)
        return changed

    def _pairs(self, pairs: Iterable[KeyValue], depth: int = 0) -> bool:
        changed = False
        for pair in pairs:
            if self.names(pair.key) or self.names(pair.key.rpartition(".")[2]):
                changed |= _replace(pair.value)
            else:
                changed |= self._any(pair.value, depth)
        return changed

    def _any(self, value: AnyValue, depth: int) -> bool:
        kind = value.WhichOneof("value")
        if depth > _MAX_DEPTH:
            return _replace(value)
        if kind == "string_value":
            return _set_text(value, self.text(value.string_value))
        if kind == "array_value":
            found = [self._any(item, depth + 1) for item in value.array_value.values]
            return any(found)
        if kind == "kvlist_value":
            return self._pairs(value.kvlist_value.values, depth + 1)
        if kind == "bytes_value":
            text = value.bytes_value.decode("utf-8", "surrogateescape")
            return self._replaced(text) != text and _replace(value)
        if kind in {"int_value", "double_value"}:
            return self._finds(str(getattr(value, kind))) and _replace(value)
        return False

    # -- on a text ----------------------------------------------------------------------------------

    def names(self, key: str) -> bool:
        """Whether a key is one of those whose values are replaced."""
        return self._keys is not None and self._keys.fullmatch(key) is not None

    def text(self, text: str, depth: int = 0) -> str:
        """A text with what the rules name replaced; JSON is changed inside, and stays JSON."""
        if text.lstrip()[:1] in {"{", "[", '"'} and text != REDACTED:
            try:
                parsed = json.loads(text)
            except (ValueError, RecursionError):
                pass  # cut off, or no JSON at all
            else:
                redacted = self._json(parsed, depth + 1)
                # Compared by identity: what is not touched comes back as the same object.
                return text if redacted is parsed else _dumped(redacted)
        return self._replaced(text)

    def _json(self, value: Any, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            return REDACTED
        if isinstance(value, str):
            found = self.text(value, depth)
            return value if found == value else found
        if isinstance(value, list):
            items = [self._json(item, depth + 1) for item in value]
            return value if all(a is b for a, b in zip(items, value, strict=True)) else items
        if isinstance(value, dict):
            pairs = {
                key: (item if item == REDACTED else REDACTED)
                if self.names(key)
                else self._json(item, depth + 1)
                for key, item in value.items()
            }
            return value if all(pairs[key] is value[key] for key in value) else pairs
        if isinstance(value, int | float) and not isinstance(value, bool) and self._finds(json.dumps(value)):
            return REDACTED
        return value

    def _finds(self, text: str) -> bool:
        return any(pattern.search(text) for pattern in self._compiled)

    def _replaced(self, text: str) -> str:
        if self._assignments is not None:
            text = self._assignments.sub(_without_value, text)
        for pattern in self._compiled:
            text = pattern.sub(REDACTED, text)
        return text

    @cached_property
    def _keys(self) -> re.Pattern[str] | None:
        return _any_of([translate(key) for key in self.keys], re.IGNORECASE)

    @cached_property
    def _assignments(self) -> re.Pattern[str] | None:
        """`key: value` and `key=value` in texts that are no JSON: cut JSON, Python's, headers, queries."""
        names = [
            "".join(r"[\w.-]{0,64}" if c == "*" else r"[\w.-]" if c == "?" else re.escape(c) for c in key)
            for key in self.keys
        ]
        if not names:
            return None
        return re.compile(
            rf"""(?P<head>(?<![\w-])(?:{"|".join(names)})\\?["']?\s{{0,4}}[:=]\s{{0,4}})
            (?:(?P<open>\\?["'])(?:\\.|[^\\])*?(?P<close>(?P=open)|$)
            |\[redacted\]|(?:(?:bearer|basic|token)[ ]{{1,4}})?[^\s,;&}}\])"']+)""",
            re.IGNORECASE | re.VERBOSE | re.DOTALL,
        )


def redactor(capture_content: bool | None, redaction: RedactionRules | None) -> Redactor | None:
    """What every way in does with a request before it is written; None: nothing.

    None for an argument: as the environment says. Raises LoopscopeError for rules that cannot be read: a
    typo must not publish secrets.
    """
    rules = RedactionRules.from_environment() if redaction is None else redaction
    if captures_content(capture_content):
        return rules.apply if rules else None

    def redact(signal: Signal, data: bytes) -> bytes:
        kept = redact_traces(data) if signal == "traces" else redact_logs(data)
        return rules.apply(signal, kept) if rules else kept

    return redact


def _dumped(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can spell and protobuf cannot
        return json.dumps(value)
    return text


def _any_of(patterns: Sequence[str], flags: re.RegexFlag) -> re.Pattern[str] | None:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), flags) if patterns else None


def _without_value(match: re.Match[str]) -> str:
    mark = match["open"] or ""
    return f"{match['head']}{mark}{REDACTED}{mark if match['close'] else ''}"


def _replace(value: AnyValue) -> bool:
    return _set_text(value, REDACTED)


def _set_text(value: AnyValue, text: str) -> bool:
    if value.WhichOneof("value") == "string_value" and value.string_value == text:
        return False
    value.string_value = text
    return True
