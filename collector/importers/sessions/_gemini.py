"""Gemini CLI: `~/.gemini/tmp/<project>/chats/session-*.jsonl`, older `.json`, and saved chats.

A log of records: a head, messages, `$set` (which can hold all messages anew) and `$rewindTo`. A message can
be written again under its id while its calls run; the last version counts. A message of the model holds its
calls with their results. Older files are one object with all of it; a chat that was saved by hand is a list
of `Content` objects without ids and times.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from .._clock import parse_time
from .._report import SkipList
from ._blocks import arguments_text, call_part, count, inner, kind_of, result_part, text_of, text_part, total
from ._history import Contents, Node, Nodes
from ._lines import Entry
from ._model import Sink, Usage, digest, dumps
from ._run import SessionRun

__all__ = ["Gemini", "matches", "matches_file"]

NAME = "gemini-cli"
_TYPES = frozenset({"user", "gemini", "info", "error", "warning"})
_ENDED = {"success": False, "error": True, "cancelled": True}
# Messages that are held back, since they can still be written anew.
_PENDING = 8
_REMEMBERED = 50_000


def matches(entry: dict[str, Any]) -> bool:
    """Whether a line is of this format."""
    if isinstance(entry.get("sessionId"), str) and isinstance(entry.get("projectHash"), str):
        return True
    if "$set" in entry or "$rewindTo" in entry:
        return True
    return (
        kind_of(entry) in _TYPES
        and isinstance(entry.get("id"), str)
        and "content" in entry
        and "timestamp" in entry
    )


def matches_file(value: Any) -> bool:
    """Whether the first value of a file is a session as one object, or a saved chat."""
    if isinstance(value, list):
        return bool(value) and _is_content(value[0])
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("messages"), list) and isinstance(value.get("sessionId"), str):
        return True
    if any(isinstance(value.get(key), list) and matches_file(value[key]) for key in ("history", "contents")):
        return True
    return _is_content(value)


def _is_content(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("parts"), list)
        and value.get("role") in ("user", "model")
    )


class Gemini:
    """Reads one file, record by record."""

    def __init__(self, sink: Sink, skipped: SkipList) -> None:
        self._sink = sink
        self._skipped = skipped
        self._contents = Contents()
        self._nodes = Nodes()  # by message id: the point before that message
        self._head: dict[str, Any] = {}
        self._run: SessionRun | None = None
        self._start: Node | None = None
        self._tip: Node | None = None
        self._pending: OrderedDict[str, tuple[dict[str, Any], str]] = OrderedDict()
        self._written: OrderedDict[str, Node] = OrderedDict()  # the point after each message
        self._saved: list[str] = []
        self.known = 0

    def feed(self, line: Entry) -> None:
        """A record; a whole session; a `Content` or a list of them."""
        record = line.value
        if not isinstance(record, dict):
            self._skipped.add(line.where, "not an object")
            return
        if isinstance(record.get("$set"), dict):
            self._take_head(record["$set"], line)
        elif isinstance(record.get("$rewindTo"), str):
            self.known += 1
            self._rewind(record["$rewindTo"])
        elif kind_of(record) in _TYPES and isinstance(record.get("id"), str):
            self.known += 1
            self._message(record, line.where)
        elif isinstance(record.get("sessionId"), str):
            self._take_head(record, line)
        elif _is_content(record):
            self.known += 1
            self._content(record, line.where)
        elif isinstance(saved := record.get("history", record.get("contents")), list):
            self.known += 1
            for number, content in enumerate(saved, 1):
                if isinstance(content, dict) and _is_content(content):
                    self._content(content, f"{line.where}, message {number}")
        elif "type" not in record:
            self._skipped.add(line.where, "not a record of Gemini CLI")

    def finish(self) -> None:
        self._write_pending()
        if self._run is not None:
            self._run.finish()

    # -- the session ----------------------------------------------------------------------------------

    def _take_head(self, head: dict[str, Any], line: Entry) -> None:
        self.known += 1
        messages = head.get("messages")
        for key, value in head.items():
            if key != "messages":
                self._head.setdefault(key, value)
        if isinstance(messages, list):
            self._checkpoint(messages, line.where)

    def _checkpoint(self, messages: list[Any], where: str) -> None:
        """All messages anew. Those that are known were said once; a compression leaves some of them out."""
        found: list[tuple[dict[str, Any], str]] = []
        for number, message in enumerate(messages, 1):
            if isinstance(message, dict) and kind_of(message) in _TYPES and text_of(message.get("id")):
                found.append((message, f"{where}, message {number}"))
                if message["id"] in self._pending:
                    self._pending[message["id"]] = found[-1]
            else:
                self._skipped.add(f"{where}, message {number}", "not a message of Gemini CLI")
        self._write_pending()
        node, same = self._start, True
        for message, place in found:
            after = self._written.get(message["id"])
            if after is None:
                self._tip = node
                self._write(message, place)
                node = self._tip
            elif same and self._nodes.get(message["id"]) is node:
                node = after
            elif message["type"] in ("user", "gemini") and node is not None:
                same = False
                role = "user" if message["type"] == "user" else "assistant"
                node = node.run.say(node, role, _parts(message.get("content")))
        if node is not None:
            self._tip = node

    def _ready(self, first: object, begun: int | None) -> tuple[SessionRun, Node]:
        if self._run is None or self._tip is None:
            session = text_of(self._head.get("sessionId"))
            run = self._run = SessionRun(
                self._sink,
                NAME,
                session or digest(first),
                begun=begun,
                session_id=session,
                agent="subagent" if self._head.get("kind") == "subagent" else None,
                name=(session,) if session else (),
                contents=self._contents,
            )
            run.provider = "gcp.gemini"
            run.fact("project_hash", self._head.get("projectHash"))
            directories = self._head.get("directories")
            if isinstance(directories, list) and directories:
                run.fact("cwd", directories[0])
            self._start = self._tip = run.start()
        return self._run, self._tip

    # -- messages -------------------------------------------------------------------------------------

    def _message(self, message: dict[str, Any], where: str) -> None:
        key = message["id"]
        if key in self._written:
            return
        self._pending[key] = (message, where)
        while len(self._pending) > _PENDING:
            self._write(*self._pending.popitem(last=False)[1])

    def _rewind(self, target: str) -> None:
        """That message and all after it are taken back; what their calls did was done."""
        self._write_pending()
        node = self._nodes.get(target)
        if node is not None:
            self._tip = node

    def _write_pending(self) -> None:
        while self._pending:
            self._write(*self._pending.popitem(last=False)[1])

    def _write(self, message: dict[str, Any], where: str) -> None:
        key = message["id"]
        at = parse_time(message.get("timestamp"))
        run, node = self._ready(message, at)
        self._nodes.put(key, node)
        kind = message["type"]
        if kind == "user":
            parts = _parts(message.get("content"))
            self._tip = run.say(node, "user", parts) if parts else node
        elif kind == "gemini":
            self._tip = self._answer(run, message, key, node, at, where)
        elif kind == "error":
            text = "".join(part.get("content", "") for part in _parts(message.get("content")))
            run.fail(key, node, at, text)
        assert self._tip is not None
        self._written[key] = self._tip
        if len(self._written) > _REMEMBERED:
            self._written.popitem(last=False)

    def _answer(
        self, run: SessionRun, message: dict[str, Any], key: str, node: Node, at: int | None, where: str
    ) -> Node:
        run.model = text_of(message.get("model")) or run.model
        run.settle()
        turn, node = run.begin(key, node, at)
        run.describe(turn)
        thoughts = message.get("thoughts")
        for thought in thoughts if isinstance(thoughts, list) else ():
            if text := text_of(inner({"t": thought}, "t").get("description")):
                run.go_on(turn, [{"type": "reasoning", "content": text}], at)
        run.go_on(turn, _parts(message.get("content")), at)
        tokens = inner(message, "tokens")
        if tokens:
            turn.usage = Usage(
                total(count(tokens.get("input")), count(tokens.get("tool"))),
                total(count(tokens.get("output")), count(tokens.get("thoughts"))),
                count(tokens.get("cached")),
            )
        raw = message.get("toolCalls")
        asked = []
        for number, call in enumerate(raw if isinstance(raw, list) else (), 1):
            call_id, name = (
                (text_of(call.get("id")), text_of(call.get("name")))
                if isinstance(call, dict)
                else (None, None)
            )
            if name is None:
                self._skipped.add(f"{where}, call {number}", "the call has no tool name")
                continue
            run.go_on(turn, [call_part(call_id, name, call.get("args"))], at)
            asked.append(
                (run.call(turn, f"{key} {number}", call_id, name, arguments_text(call.get("args"))), call)
            )
        run.close(turn)
        # In the order in which they ended, which is the order of counting.
        asked.sort(key=lambda pair: parse_time(pair[1].get("timestamp")) or 0)
        for call, raw_call in asked:
            failed = _ENDED.get(str(raw_call.get("status")))
            if failed is None:
                continue  # it never ran, or did not come to its end
            text = _result_text(raw_call.get("result"))
            if text is None and isinstance(raw_call.get("resultDisplay"), str):
                text = raw_call["resultDisplay"]
            kind = "cancelled" if raw_call["status"] == "cancelled" else None
            at_end = parse_time(raw_call.get("timestamp"))
            run.answer(call, text, at_end, failed=failed, error_type=kind)
            node = run.say(node, "tool", [result_part(call.call_id, text)], call=call)
        return node

    def _content(self, content: dict[str, Any], where: str) -> None:
        """A message of a saved chat: no ids, no times, and no flags but the form of a result."""
        run, node = self._ready(content, None)
        key = digest(*self._saved[-1:], content)
        self._saved = [key]
        parts = [part for part in content["parts"] if isinstance(part, dict)]
        if content["role"] == "model":
            turn, node = run.begin(key, node, None)
            run.go_on(turn, _parts([p for p in parts if "functionCall" not in p]), None)
            for number, part in enumerate(parts):
                asked = inner(part, "functionCall")
                if not asked:
                    continue
                call_id, name = text_of(asked.get("id")), text_of(asked.get("name"))
                if name is None:
                    self._skipped.add(where, "the call has no tool name")
                    continue
                run.go_on(turn, [call_part(call_id, name, asked.get("args"))], None)
                # Without ids a response answers the open call of its name.
                run.call(
                    turn, f"{key} {number}", call_id or f"\n{name}", name, arguments_text(asked.get("args"))
                )
            run.close(turn)
        else:
            for part in parts:
                answered = inner(part, "functionResponse")
                if not answered:
                    continue
                call_id, name = text_of(answered.get("id")), text_of(answered.get("name"))
                call = run.waiting(call_id or f"\n{name}")
                text = _result_text([part])
                if call is None:
                    self._skipped.add(where, f"a result for {call_id or name!r}, which no open call has")
                    continue
                failed = True if "error" in inner(answered, "response") else None
                run.answer(call, text, None, failed=failed)
                node = run.say(node, "tool", [result_part(call_id, text)], call=call)
            said = _parts([p for p in parts if "functionResponse" not in p])
            node = run.say(node, "user", said) if said else node
        self._tip = node


def _parts(content: Any) -> list[dict[str, Any]]:
    """Parts of Gemini's notation: a text, a part, or a list of them."""
    if isinstance(content, str):
        return [text_part(content)] if content else []
    parts: list[dict[str, Any]] = []
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, str):
            parts.append(text_part(part))
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            kind = "reasoning" if part.get("thought") is True else "text"
            parts.append({"type": kind, "content": part["text"]})
        elif isinstance(part, dict) and "inlineData" in part:
            mime = inner(part, "inlineData").get("mimeType")
            parts.append({"type": "blob", "mime_type": mime})
        elif isinstance(part, dict) and part:
            parts.append({"type": "other", "content": part})
    return parts


def _result_text(result: Any) -> str | None:
    """What a tool gave, out of the parts that were sent to the model."""
    if result is None or isinstance(result, str):
        return result
    texts: list[str] = []
    for part in result if isinstance(result, list) else [result]:
        response = inner(inner({"p": part}, "p"), "functionResponse").get("response")
        if isinstance(response, dict) and len(response) == 1:
            response = next(iter(response.values()))
        if response is None:
            response = part.get("text") if isinstance(part, dict) and "text" in part else part
        texts.append(response if isinstance(response, str) else dumps(response))
    return "\n".join(texts) if texts else None
