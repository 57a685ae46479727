"""Codex CLI: `~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl`.

Lines are `{timestamp, type, payload}`; `response_item` payloads are items of the Responses API. Older files
hold the items bare. A fork is a new file that begins with what it was forked from, under new timestamps.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict, deque
from typing import Any

from .._clock import parse_time
from .._report import SkipList
from ._blocks import (
    arguments_text,
    call_part,
    count,
    inner,
    items_text,
    kind_of,
    reasoning_parts,
    responses_parts,
    result_part,
    text_of,
    text_part,
)
from ._history import Contents, Node
from ._lines import Entry
from ._model import Call, Sink, Turn, Usage, digest
from ._run import SessionRun

__all__ = ["Codex", "matches"]

NAME = "codex"
_TYPES = frozenset({"session_meta", "turn_context", "response_item", "event_msg", "compacted", "world_state"})
_CALLS = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "local_shell_call": "action",
    "tool_search_call": "arguments",
}
_OUTPUTS = frozenset(
    {"function_call_output", "custom_tool_call_output", "tool_search_output", "mcp_tool_call_output"}
)
_MODEL_ITEMS = frozenset(
    {"reasoning", "web_search_call", "image_generation_call", "code_interpreter_call", "file_search_call"}
) | set(_CALLS)  # fmt: skip
# The head that Codex writes over the output of a command: exit code, wall time, which differ each time.
_HEAD = re.compile(
    r"(?=(?:[^\n]*\n){0,3}?Wall time: )"
    r"(?:(?:Chunk ID: \S+|Exit code: -?\d+|Wall time: [\d.]+ seconds|Process exited with code -?\d+"
    r"|Process running with session ID \S+|Original token count: \d+|Total output lines: \d+)\r?\n){1,8}"
    r"Output:\n"
)
_EXIT_CODE = re.compile(r"^(?:Exit code: |Process exited with code )(-?\d+)", re.MULTILINE)
_STATUS = re.compile(r"unexpected status (\d{3})\b")
_ABORTED = re.compile(r"aborted(?: by user after [\d.]+s)?\Z")
_REMEMBERED = 100_000
_ROLLBACKS = 1_000


def matches(entry: dict[str, Any]) -> bool:
    """Whether a line is of this format."""
    if isinstance(entry.get("payload"), dict):
        return kind_of(entry) in _TYPES
    return _is_old_head(entry) or "record_type" in entry


def _is_old_head(entry: dict[str, Any]) -> bool:
    return "type" not in entry and {"id", "timestamp", "instructions"} <= entry.keys()


class Codex:
    """Reads one file, entry by entry."""

    def __init__(self, sink: Sink, skipped: SkipList) -> None:
        self._sink = sink
        self._skipped = skipped
        self._contents = Contents()
        self._metas: list[dict[str, Any]] = []
        self._context: dict[str, Any] = {}
        self._run: SessionRun | None = None
        self._node: Node | None = None
        self._turn: Turn | None = None
        self._last_turn: Turn | None = None
        self._chain = ""
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._calls: OrderedDict[str, Call] = OrderedDict()
        self._ends: OrderedDict[str, tuple[bool, str | None, int | None]] = OrderedDict()
        self._prompts: deque[Node] = deque(maxlen=_ROLLBACKS)
        self._tokens: Any = None
        self.known = 0

    def feed(self, line: Entry) -> None:
        entry = line.value
        if not isinstance(entry, dict):
            self._skipped.add(line.where, "not an object")
            return
        kind, payload = kind_of(entry), entry.get("payload")
        if not isinstance(payload, dict):
            if _is_old_head(entry):
                kind, payload = "session_meta", entry
            elif kind and self._metas:
                kind, payload = "response_item", entry
            else:
                if "record_type" not in entry:
                    self._skipped.add(line.where, "not an entry of Codex")
                return
        self.known += 1
        at = parse_time(entry.get("timestamp"))
        if kind == "session_meta":
            self._metas.append(payload)
        elif kind == "turn_context":
            self._take_context(payload)
        elif kind == "response_item":
            self._item(payload, at, line, entry.get("timestamp"))
        elif kind == "compacted":
            self._compacted(payload, at)
        elif kind == "event_msg":
            self._event(payload, at)

    def finish(self) -> None:
        self._lone_results()
        if self._run is not None:
            self._run.finish()

    # -- the session ----------------------------------------------------------------------------------

    def _ready(self, at: int | None) -> tuple[SessionRun, Node]:
        if self._run is None or self._node is None:
            meta = self._metas[0] if self._metas else {}
            # A fork repeats what it came from, the heads of that too; the oldest names the conversation.
            oldest = self._metas[-1] if self._metas else {}
            forked = text_of(oldest.get("forked_from_id"))
            key = forked or text_of(oldest.get("id")) or f"{at}"
            session = text_of(meta.get("id"))
            run = SessionRun(
                self._sink,
                NAME,
                key,
                begun=parse_time(meta.get("timestamp")) or at,
                session_id=session,
                # What a sub-agent was forked from, it shares with the one that started it.
                agent="subagent" if "subagent" in inner(meta, "source") and not forked else None,
                name=(session,) if session else (),
                contents=self._contents,
            )
            run.provider = text_of(meta.get("model_provider")) or "openai"
            for name in ("cwd", "originator", "cli_version", "forked_from_id"):
                run.fact(name, meta.get(name))
            self._run, self._node = run, run.start()
            system = text_of(inner(meta, "base_instructions").get("text")) or text_of(
                meta.get("instructions")
            )
            if system is not None:
                self._node = run.say(self._node, "system", [text_part(system)])
            self._take_context(self._context)
        return self._run, self._node

    def _take_context(self, context: dict[str, Any]) -> None:
        self._context = context
        if self._run is not None:
            self._run.model = text_of(context.get("model")) or self._run.model

    # -- what was said --------------------------------------------------------------------------------

    def _item(self, item: dict[str, Any], at: int | None, line: Entry, stamp: Any) -> None:
        kind = kind_of(item)
        identity = digest(stamp, item)
        if stamp is not None:
            if identity in self._seen:
                return  # repeated whole by a resumed session
            self._seen[identity] = None
            if len(self._seen) > _REMEMBERED:
                self._seen.popitem(last=False)
        run, node = self._ready(at)
        self._chain = digest(self._chain, item)
        if kind == "message" and item.get("role") != "assistant":
            self._close_turn()
            parts = responses_parts(item.get("content"))
            if parts:
                role = "user" if item.get("role") == "user" else "system"
                if role == "user":
                    self._prompts.append(node)
                self._node = run.say(node, role, parts)
        elif kind == "message" or kind in _MODEL_ITEMS:
            self._answer_item(run, item, at, line)
        elif kind in _OUTPUTS:
            self._output(run, item, at, line)

    def _answer_item(self, run: SessionRun, item: dict[str, Any], at: int | None, line: Entry) -> None:
        if self._turn is None:
            self._lone_results()
            run.settle()
            assert self._node is not None
            self._turn, self._node = run.begin(self._chain, self._node, at)
            run.describe(self._turn)
        turn, kind = self._turn, item["type"]
        if kind == "message":
            run.go_on(turn, responses_parts(item.get("content")), at)
        elif kind == "reasoning":
            run.go_on(turn, reasoning_parts(item), at)
        elif kind in _CALLS:
            self._call(run, turn, item, at, line)
        else:  # what the provider itself runs: no call of the agent
            run.go_on(turn, [item], at)

    def _call(self, run: SessionRun, turn: Turn, item: dict[str, Any], at: int | None, line: Entry) -> None:
        kind = item["type"]
        call_id = text_of(item.get("call_id")) or text_of(item.get("id"))
        named = kind in ("function_call", "custom_tool_call")
        name = text_of(item.get("name")) or (None if named else kind.removesuffix("_call"))
        if name is None:
            self._skipped.add(line.where, "the call has no tool name")
            return
        if (space := text_of(item.get("namespace"))) is not None:
            name = f"{space}{name}" if space.endswith("__") else f"{space}__{name}"
        arguments = item.get(_CALLS[kind])
        run.go_on(turn, [call_part(call_id, name, arguments)], at)
        call = run.call(turn, self._chain, call_id, name, arguments_text(arguments))
        if call_id is not None:
            self._calls[call_id] = call
            if len(self._calls) > _REMEMBERED:
                self._calls.popitem(last=False)

    def _output(self, run: SessionRun, item: dict[str, Any], at: int | None, line: Entry) -> None:
        self._close_turn()
        call_id = text_of(item.get("call_id"))
        call = run.waiting(call_id)
        whole = _output_text(item.get("output", item.get("tools")))
        if call is None:
            self._skipped.add(line.where, f"a result for {call_id!r}, which no open call has")
            return
        result, failed, kind = _read_output(item.get("output"), whole)
        if call_id in self._ends:
            failed = self._ends.pop(call_id)[0]
        run.answer(call, result, at)
        if failed is not None:
            run.flag(call, failed, kind)
        assert self._node is not None
        self._node = run.say(self._node, "tool", [result_part(call_id, whole)], call=call)

    def _compacted(self, payload: dict[str, Any], at: int | None) -> None:
        run, _ = self._ready(at)
        self._close_turn()
        self._chain = digest(self._chain, payload)
        node = run.start()
        history = payload.get("replacement_history")
        for item in history if isinstance(history, list) else ():
            if not isinstance(item, dict):
                continue
            role = item.get("role")
            if kind_of(item) == "message" and isinstance(role, str):
                role = "system" if role == "developer" else role
                node = run.say(node, role, responses_parts(item.get("content")))
            elif kind_of(item) in _OUTPUTS:
                part = result_part(text_of(item.get("call_id")), _output_text(item.get("output")))
                node = run.say(node, "tool", [part])
            elif kind_of(item) in _CALLS:
                part = call_part(item.get("call_id"), item.get("name"), item.get(_CALLS[item["type"]]))
                node = run.say(node, "assistant", [part])
        if not history and (summary := text_of(payload.get("message"))):
            node = run.say(node, "user", [text_part(summary)])
        self._node = node

    def _event(self, event: dict[str, Any], at: int | None) -> None:
        kind = kind_of(event)
        run, turn = self._run, self._turn or self._last_turn
        if kind == "token_count":
            self._usage(event, turn)
        elif kind in ("exec_command_end", "mcp_tool_call_end", "patch_apply_end"):
            self._ended(event, at)
        elif kind in ("error", "stream_error") and run is not None and self._node is not None:
            self._close_turn()
            text = text_of(event.get("message")) or ""
            status = _STATUS.search(text[:500])
            details = event.get("codex_error_info")
            name = next(iter(details), None) if isinstance(details, dict) else details
            self._chain = digest(self._chain, "error", text)
            run.fail(
                self._chain,
                self._node,
                at,
                text,
                status=int(status[1]) if status else None,
                kind=text_of(name),
            )
        elif kind == "thread_rolled_back":
            turns = count(event.get("num_turns")) or 0
            self._close_turn()
            for _ in range(min(turns, len(self._prompts))):
                self._node = self._prompts.pop()
        elif kind in ("turn_aborted", "task_complete", "turn_complete"):
            self._close_turn()

    def _usage(self, event: dict[str, Any], turn: Turn | None) -> None:
        """Tokens so far; the same figures are told again and again."""
        info = inner(event, "info")
        last, sum_ = inner(info, "last_token_usage"), info.get("total_token_usage")
        if not last or (sum_ is not None and sum_ == self._tokens):
            return
        self._tokens = sum_
        if turn is not None and not turn.closed and turn.usage is None:
            turn.usage = Usage(
                count(last.get("input_tokens")),
                count(last.get("output_tokens")),
                count(last.get("cached_input_tokens")),
            )
            self._close_turn()  # told when the answer is whole

    def _ended(self, event: dict[str, Any], at: int | None) -> None:
        """How a command, a tool of an MCP server or a patch ended: Codex's own flag."""
        call_id = text_of(event.get("call_id"))
        if call_id is None:
            return
        failed, text = _event_failed(event)
        if failed is None:
            return
        call = self._calls.get(call_id)
        if call is None or self._run is None:
            return
        if call.answered:
            self._run.flag(call, failed)
        else:
            self._ends[call_id] = (failed, text, at)

    def _lone_results(self) -> None:
        """Answer calls whose end was told, but whose output never came."""
        while self._ends and self._run is not None and self._node is not None:
            call_id, (failed, text, at) = self._ends.popitem(last=False)
            call = self._run.waiting(call_id)
            if call is not None:
                self._run.answer(call, text, at, failed=failed)
                self._node = self._run.say(self._node, "tool", [result_part(call_id, text)], call=call)

    def _close_turn(self) -> None:
        if self._turn is not None:
            self._last_turn, self._turn = self._turn, None


def _output_text(output: Any) -> str | None:
    """What the model was given."""
    if isinstance(output, dict):  # {content, success}
        return items_text(output.get("content_items") or output.get("content"))
    return items_text(output)


def _read_output(output: Any, whole: str | None) -> tuple[str | None, bool | None, str | None]:
    """What the tool printed, whether Codex takes it for a failure, and of what kind."""
    failed: bool | None = None
    if isinstance(output, dict) and isinstance(output.get("success"), bool):
        failed = not output["success"]
    if whole is None:
        return None, failed, None
    if _ABORTED.match(whole):
        return whole, True, "aborted"
    if whole.startswith("{") and '"metadata"' in whole:
        try:
            value = json.loads(whole)
        except (ValueError, RecursionError):
            value = None
        code = inner(value, "metadata").get("exit_code")
        if isinstance(value, dict) and isinstance(value.get("output"), str) and isinstance(code, int):
            return value["output"], code != 0, None
    head = _HEAD.match(whole)
    if head is not None:
        code = _EXIT_CODE.search(head[0])
        return whole[head.end() :], (int(code[1]) != 0) if code else failed, None
    return whole, failed, None


def _event_failed(event: dict[str, Any]) -> tuple[bool | None, str | None]:
    code = event.get("exit_code")
    if isinstance(code, int) and not isinstance(code, bool):
        return code != 0, text_of(event.get("aggregated_output"))
    if isinstance(event.get("success"), bool):
        return not event["success"], None
    result = event.get("result")
    if isinstance(result, dict):
        if "Err" in result:
            return True, text_of(result["Err"])
        found = inner(result, "Ok")
        flag = found.get("isError", found.get("is_error"))
        return flag is True, items_text(found.get("content"))
    return None, None
