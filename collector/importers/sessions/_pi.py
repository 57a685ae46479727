"""The pi coding agent: `~/.pi/agent/sessions/<folder>/<time>_<id>.jsonl`.

A head (`session`), then entries. Since version 2 they form a tree through `id` and `parentId`; before, each
follows the one above. A session that was branched off begins with what it was branched from, whole.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from typing import Any

from .._clock import parse_time
from .._report import SkipList
from ._blocks import (
    anthropic_parts,
    arguments_text,
    count,
    inner,
    items_text,
    kind_of,
    result_part,
    text_of,
    text_part,
    total,
)
from ._history import Contents, Node, Nodes, Text, since
from ._lines import Entry
from ._model import Sink, Turn, Usage, digest, dumps
from ._run import SessionRun

__all__ = ["Pi", "matches"]

NAME = "pi"
_ENTRIES = frozenset(
    {
        "message", "model_change", "thinking_level_change", "compaction", "branch_summary", "custom",
        "custom_message", "label", "session_info", "context_transform", "ephemeral", "leaf",
    }
)  # fmt: skip
_ROLES = frozenset({"user", "assistant", "toolResult", "bashExecution", "custom", "hookMessage"})
_STATUS = re.compile(r"(?:Error: )?([45]\d\d)\b")
_REMEMBERED = 100_000


def matches(entry: dict[str, Any]) -> bool:
    """Whether a line is of this format."""
    kind = kind_of(entry)
    if kind == "session":
        return isinstance(entry.get("id"), str) and ("cwd" in entry or "timestamp" in entry)
    if kind == "message":
        return kind_of(inner(entry, "message"), "role") in _ROLES and "timestamp" in entry
    return False


class Pi:
    """Reads one file, entry by entry."""

    def __init__(self, sink: Sink, skipped: SkipList) -> None:
        self._sink = sink
        self._skipped = skipped
        self._contents = Contents()
        self._nodes = Nodes()
        self._head: dict[str, Any] = {}
        self._run: SessionRun | None = None
        self._tip: Node | None = None
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._index = -1  # of the entry in the file, the head's is 0
        self._cut_off: tuple[Turn, Node] | None = None  # a turn that ended early, and what follows
        self.known = 0

    def feed(self, line: Entry) -> None:
        entry = line.value
        if not isinstance(entry, dict):
            self._skipped.add(line.where, "not an object")
            return
        kind = kind_of(entry)
        if kind != "session" and kind not in _ENTRIES:
            if not kind:
                self._skipped.add(line.where, "not an entry of pi")
            return
        self.known += 1
        self._index += 1
        if kind == "session":
            self._head = self._head or entry
            return
        if self._run is None and kind != "message":
            self._model_change(entry)
            return
        key = digest(entry)
        if key in self._seen and entry.get("timestamp") is not None:
            return
        self._seen[key] = None
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        node = self._before(entry)
        if kind == "message":
            node = self._message(entry, key, node, line)
        elif kind == "compaction":
            node = self._compaction(entry, node)
        elif kind in ("branch_summary", "custom_message"):
            parts = anthropic_parts(entry.get("summary") or entry.get("content"))
            node = node.run.say(node, "user", parts) if parts else node
        else:
            self._model_change(entry)
        self._tip = node
        self._nodes.put(f"index {self._index}", node)
        if own := text_of(entry.get("id")):
            self._nodes.put(own, node)

    def finish(self) -> None:
        if self._run is not None:
            self._run.finish()

    def _before(self, entry: dict[str, Any]) -> Node:
        run = self._run
        if run is None:
            session = text_of(self._head.get("id"))
            begun = parse_time(entry.get("timestamp"))
            # What a session was branched from is repeated whole: the first entry names the conversation.
            run = self._run = SessionRun(
                self._sink,
                NAME,
                digest(entry.get("id"), entry.get("timestamp"), entry.get("message")),
                begun=begun,
                session_id=session,
                name=(session,) if session else (),
                contents=self._contents,
            )
            run.provider, run.model = text_of(self._head.get("provider")), text_of(self._head.get("modelId"))
            for name, key in (
                ("cwd", "cwd"),
                ("branched_from", "branchedFrom"),
                ("parent_session", "parentSession"),
            ):
                run.fact(name, self._head.get(key))
        if "parentId" in entry:
            parent = text_of(entry["parentId"])
            if parent is None:
                return run.start()
            # An entry before the first message stands for the beginning.
            return self._nodes.get(parent) or (run.start() if self._tip is None else run.lost())
        return self._tip or run.start()

    def _model_change(self, entry: dict[str, Any]) -> None:
        if kind_of(entry) == "model_change":
            target = self._head if self._run is None else None
            if target is not None:
                self._head = {**target, "provider": entry.get("provider"), "modelId": entry.get("modelId")}
            elif self._run is not None:
                self._run.provider = text_of(entry.get("provider")) or self._run.provider
                self._run.model = text_of(entry.get("modelId")) or self._run.model

    # -- what was said --------------------------------------------------------------------------------

    def _message(self, entry: dict[str, Any], key: str, node: Node, line: Entry) -> Node:
        message = inner(entry, "message")
        role = message.get("role")
        at = parse_time(entry.get("timestamp")) or parse_time(message.get("timestamp"))
        if role == "assistant":
            return self._assistant(message, key, node, at, line)
        if role == "toolResult":
            return self._result(message, node, at, line)
        if role == "bashExecution":
            if message.get("excludeFromContext") is True:
                return node
            text = f"$ {message.get('command')}\n{message.get('output')}"
            return node.run.say(node, "user", [text_part(text)])
        parts = anthropic_parts(message.get("content"))
        return node.run.say(node, "user", parts) if parts else node

    def _assistant(self, message: dict[str, Any], key: str, node: Node, at: int | None, line: Entry) -> Node:
        run = node.run
        run.settle()
        run.provider = text_of(message.get("provider")) or run.provider
        run.model = text_of(message.get("model")) or run.model
        parts = anthropic_parts(message.get("content"))
        stop, text = message.get("stopReason"), text_of(message.get("errorMessage"))
        status = _STATUS.match(text or "")
        code, kind = int(status[1]) if status else None, "aborted" if stop == "aborted" else None
        if stop in ("error", "aborted") and not parts:
            run.fail(key, node, at, text or "", status=code, kind=kind)
            return node
        turn, after = run.begin(key, node, at)
        run.describe(turn)
        if stop in ("error", "aborted"):
            run.fail_span(turn.span, text, status=code, kind=kind)
        run.go_on(turn, parts, at)
        turn.usage = _usage(inner(message, "usage"))
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            if not isinstance(block, dict) or kind_of(block) != "toolCall":
                continue
            call_id, name = text_of(block.get("id")), text_of(block.get("name"))
            if name is None:
                self._skipped.add(line.where, "the call has no tool name")
                continue
            run.call(turn, f"{key} {turn.asked}", call_id, name, arguments_text(block.get("arguments")))
        run.close(turn)
        if stop in ("error", "aborted") and turn.calls:
            after = Node(run, node, said=self._without_open_calls(turn))
            self._cut_off = turn, after
        return after

    def _without_open_calls(self, turn: Turn) -> Text | None:
        """The turn as pi sends it later on: without the calls that nobody answered; None: not at all."""
        if turn.said.text is None or all(call.answered for call in turn.calls.values()):
            return turn.said
        message = json.loads(turn.said.text)
        answered = [part_id for part_id, call in turn.calls.items() if call.answered]
        parts = [part for part in message["parts"] if part["type"] != "tool_call" or part["id"] in answered]
        return self._contents.add(dumps({**message, "parts": parts})) if parts else None

    def _result(self, message: dict[str, Any], node: Node, at: int | None, line: Entry) -> Node:
        call_id = text_of(message.get("toolCallId"))
        call = node.run.waiting(call_id)
        text = items_text(message.get("content"))
        if call is None:
            self._skipped.add(line.where, f"a result for {call_id!r}, which no open call has")
            return node
        node.run.answer(call, text, at, failed=message.get("isError") is True)
        if self._cut_off is not None and self._cut_off[0] is call.turn:
            self._cut_off[1].said = self._without_open_calls(call.turn)
        return node.run.say(node, "tool", [result_part(call_id, text)], call=call)

    def _compaction(self, entry: dict[str, Any], node: Node) -> Node:
        """The history begins anew with a summary, followed by what was kept of it."""
        run = node.run
        first: Node | None = None
        if (kept := text_of(entry.get("firstKeptEntryId"))) is not None:
            first = self._nodes.get(kept)
        elif isinstance(index := entry.get("firstKeptEntryIndex"), int):
            first = self._nodes.get(f"index {index}")
        summary = text_of(entry.get("summary"))
        new = run.say(run.start(), "user", [text_part(summary)]) if summary else run.start()
        if first is None or first.run is not run:
            return new
        texts, whole = since(node, first, self._without_open_calls)
        if not whole:
            return Node(run, new, lost=True)
        for text in texts:
            new = Node(run, new, said=text)
        return new


def _usage(usage: dict[str, Any]) -> Usage | None:
    if not usage:
        return None
    read, written = count(usage.get("cacheRead")), count(usage.get("cacheWrite"))
    cost = inner(usage, "cost").get("total")
    return Usage(
        total(count(usage.get("input")), read, written),
        count(usage.get("output")),
        read,
        written,
        float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) else None,
    )
