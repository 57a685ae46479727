"""Claude Code: `~/.claude/projects/<folder>/<session>.jsonl`, and what `--output-format stream-json` prints.

Entries form a tree through `parentUuid`. One answer of the model is written as one line for each block, all
with the same `message.id`. Sub-agents are sidechains, in the same file or in one of their own. A compaction
starts a new tree. A resumed session can repeat earlier lines whole, under a new session id.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
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
    total,
)
from ._history import Contents, Node, Nodes
from ._lines import Entry, parse_line
from ._model import Call, Sink, Turn, Usage, digest
from ._run import SessionRun, run_id_of, volume_id

__all__ = ["ClaudeCode", "matches"]

NAME = "claude-code"
_CONVERSATION = ("user", "assistant", "system", "attachment", "progress")
# Entries beside the conversation, as of 2.1.
_OTHERS = frozenset(
    {
        "ai-title", "agent-name", "agent-color", "custom-title", "file-history-snapshot", "last-prompt",
        "mode", "permission-mode", "pr-link", "queue-operation", "result", "summary", "tag", "worktree-state",
    }
)  # fmt: skip
_OWN_KEYS = ("sessionId", "session_id", "uuid", "leafUuid", "parentUuid", "messageId")
_SUBAGENT_TOOLS = ("Task", "Agent")
_STATUS = re.compile(r"API Error: (\d{3})\b")
# Claude Code's own words for calls that the user did not let run.
_REFUSED = (
    "The user doesn't want to proceed with this tool use",
    "The user doesn't want to take this action",
)
_INTERRUPTED = "[Request interrupted by user"
_REMEMBERED = 100_000
_MOST_BEGUN = 2_000
_SAYING = ("user", "assistant", "system")  # entries that can begin a run
_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_HEAD = 1 << 20  # bytes in which the first entry of a session's file is looked for


def matches(entry: dict[str, Any]) -> bool:
    """Whether a line is of this format."""
    kind = kind_of(entry)
    if not any(isinstance(entry.get(key), str) for key in _OWN_KEYS):
        return False
    if kind in ("user", "assistant"):
        return isinstance(entry.get("message"), dict)
    if kind == "system":
        return isinstance(entry.get("subtype"), str)
    return kind in _OTHERS or (kind in _CONVERSATION and "parentUuid" in entry)


class ClaudeCode:
    """Reads one file, entry by entry."""

    def __init__(self, sink: Sink, skipped: SkipList) -> None:
        self._sink = sink
        self._skipped = skipped
        self._contents = Contents()
        self._nodes = Nodes()
        self._runs: dict[str, SessionRun] = {}
        self._tips: dict[SessionRun, Node] = {}  # for entries that do not name their parent
        self._turns: OrderedDict[tuple[str, str, str], Turn] = OrderedDict()
        self._ordinals: dict[str, int] = {}
        self._seen: OrderedDict[str, None] = OrderedDict()
        # By the prompt of a sub-agent and by the id of the call: its type, and the run that began it.
        self._begun: OrderedDict[str, tuple[str | None, SessionRun]] = OrderedDict()
        self._path: Path | None = None
        self._outside: dict[str, str | None] = {}  # by session that is another file: its run
        self.known = 0

    def lies_at(self, path: Path) -> None:
        """Where the file lies: that of its session is looked for around it."""
        self._path = path

    def feed(self, line: Entry) -> None:
        entry = line.value
        if not isinstance(entry, dict):
            self._skipped.add(line.where, "not an object")
            return
        if not matches(entry) and kind_of(entry) not in _CONVERSATION:
            if not kind_of(entry):
                self._skipped.add(line.where, "not an entry of Claude Code")
            return
        self.known += 1
        if kind_of(entry) not in _CONVERSATION or self._repeated(entry):
            return
        node = self._parent(entry)
        if node is None:
            return
        self._facts(node.run, entry)
        kind = kind_of(entry)
        if kind == "assistant":
            node = self._assistant(entry, node, line)
        elif kind == "user":
            node = self._user(entry, node, line)
        elif kind == "system":
            node = self._system(entry, node)
        elif kind == "attachment":
            node = self._attachment(entry, node)
        self._tips[node.run] = node
        if uuid := text_of(entry.get("uuid")):
            self._nodes.put(uuid, node)

    def finish(self) -> None:
        for run in dict.fromkeys(self._runs.values()):
            run.finish()

    # -- which run, and where in it -------------------------------------------------------------------

    def _repeated(self, entry: dict[str, Any]) -> bool:
        """A line that the file had before: a session that was resumed can begin with what was in it."""
        key = text_of(entry.get("uuid"))
        if key is None:
            if entry.get("timestamp") is None:
                return False
            key = digest(kind_of(entry), entry["timestamp"], entry.get("message"))
        if key in self._seen:
            return True
        self._seen[key] = None
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return False

    def _parent(self, entry: dict[str, Any]) -> Node | None:
        parent = text_of(entry.get("parentUuid"))
        known = self._nodes.get(parent) if parent else None
        aside = bool(entry.get("isSidechain")) or bool(text_of(entry.get("parent_tool_use_id")))
        if known is not None and (not aside or known.run.agent != NAME):
            return known
        run = self._run(entry, aside)
        if run is None:
            return None
        if parent is not None and known is None and (not aside or run in self._tips):
            return run.lost()
        if "parentUuid" in entry:
            return run.start()
        return self._tips.get(run) or run.start()

    def _run(self, entry: dict[str, Any], aside: bool) -> SessionRun | None:
        """The run of an entry whose parent is not known."""
        session = text_of(entry.get("sessionId")) or text_of(entry.get("session_id")) or ""
        first = _first_id(entry)
        agent = text_of(entry.get("agentId")) or text_of(entry.get("parent_tool_use_id"))
        key = f"{session}\n{agent or first}" if aside else session
        run = self._runs.get(key)
        if run is None:
            if entry["type"] not in _SAYING:
                return None  # nothing has been said yet
            kind, parent = self._beginning(entry, session) if aside else (None, None)
            run = SessionRun(
                self._sink,
                NAME,
                _key(agent, first),
                begun=parse_time(entry.get("timestamp")),
                session_id=session or None,
                agent=(kind or "subagent") if aside else None,
                name=tuple(part for part in (session, agent if aside else None) if part),
                contents=self._contents,
            )
            run.provider = "anthropic"
            run.parent = parent
            if aside and agent:
                run.fact("agent_id", agent)
            self._runs[key] = run
        return run

    def _beginning(self, entry: dict[str, Any], session: str) -> tuple[str | None, str | None]:
        """The type of a sub-agent whose first entry this is, and the id of the run that began it."""
        content = inner(entry, "message").get("content")
        prompt = items_text(content) if kind_of(entry) == "user" else None
        for key in (text_of(entry.get("parent_tool_use_id")), prompt):
            if key and (found := self._begun.get(key)) is not None:
                return found[0], found[1].run_id
        if (run := self._runs.get(session)) is not None:
            return None, run.run_id
        if session not in self._outside:
            self._outside[session] = self._run_outside(session)
        return None, self._outside[session]

    def _run_outside(self, session: str) -> str | None:
        """The run of a session whose file lies where Claude Code puts it, as seen from a sub-agent's."""
        if self._path is None or not _SESSION_ID.fullmatch(session):
            return None
        above = self._path.absolute().parents
        places = [above[0]]
        if len(above) > 2 and above[1].name == session:  # <session>/subagents/agent-….jsonl
            places.append(above[2])
        for place in places:
            with suppress(OSError), (place / f"{session}.jsonl").open("rb") as file:
                return _first_run(file.read(_HEAD).split(b"\n"), session)
        return None

    def _facts(self, run: SessionRun, entry: dict[str, Any]) -> None:
        for name, key in (("cwd", "cwd"), ("version", "version"), ("git_branch", "gitBranch")):
            run.fact(name, entry.get(key))

    # -- what was said --------------------------------------------------------------------------------

    def _assistant(self, entry: dict[str, Any], node: Node, line: Entry) -> Node:
        run, message = node.run, inner(entry, "message")
        at = parse_time(entry.get("timestamp"))
        uuid = text_of(entry.get("uuid")) or digest(entry.get("timestamp"), message)
        if entry.get("isApiErrorMessage") is True:
            text = items_text(message.get("content"))
            run.fail(
                uuid, node, at, text or "", status=_status(entry, text), kind=text_of(entry.get("error"))
            )
            return node
        if message.get("model") == "<synthetic>":
            return node  # Claude Code's own words: no request was made
        message_id = text_of(message.get("id")) or uuid
        identity = (message_id, text_of(entry.get("requestId")) or "", "")
        turn = self._turns.get(identity)
        if turn is not None and self._is_next_answer(turn, message_id, identity[1], message):
            turn = None
        if turn is None:
            ordinal = self._ordinals.get(message_id, 0)
            self._ordinals[message_id] = ordinal + 1
            run.model = text_of(message.get("model")) or run.model
            turn, node = run.begin(f"{message_id} {ordinal}" if ordinal else message_id, node, at)
            run.describe(turn)
            self._turns[identity] = turn
            if len(self._turns) > _REMEMBERED:
                (gone, _, _), _ = self._turns.popitem(last=False)
                self._ordinals.pop(gone, None)
        else:
            node = Node(run, node, turn=turn)
        if not turn.closed:
            self._blocks(run, turn, message, at, line)
        return node

    def _is_next_answer(self, turn: Turn, message_id: str, request_id: str, message: dict[str, Any]) -> bool:
        """Whether a known message id stands for another answer: some proxies give all the same id."""
        if request_id or message_id.startswith("msg_"):
            return False
        asked = [block.get("id") for block in _blocks(message) if kind_of(block) == "tool_use"]
        if any(call_id in turn.calls for call_id in asked):
            return False  # the line is repeated
        return bool(turn.results) or turn.closed

    def _blocks(
        self, run: SessionRun, turn: Turn, message: dict[str, Any], at: int | None, line: Entry
    ) -> None:
        usage = inner(message, "usage")
        if usage:
            read, written = (count(usage.get(f"cache_{kind}_input_tokens")) for kind in ("read", "creation"))
            fresh = count(usage.get("input_tokens"))
            turn.usage = Usage(total(fresh, read, written), count(usage.get("output_tokens")), read, written)
        run.go_on(turn, anthropic_parts(message.get("content")), at)
        for block in _blocks(message):
            if kind_of(block) != "tool_use":
                continue
            call_id, name, arguments = (
                text_of(block.get("id")),
                text_of(block.get("name")),
                block.get("input"),
            )
            if name is None:
                self._skipped.add(line.where, "the call has no tool name")
                continue
            if call_id is not None and call_id in turn.calls:
                continue
            key = f"{turn.span_id.hex()} {call_id or turn.asked}"
            run.call(turn, key, call_id, name, arguments_text(arguments))
            if name in _SUBAGENT_TOOLS and isinstance(arguments, dict):
                prompt, kind = text_of(arguments.get("prompt")), text_of(arguments.get("subagent_type"))
                for begun in (prompt, call_id):
                    if begun:
                        self._begun[begun] = kind, run
                while len(self._begun) > _MOST_BEGUN:
                    self._begun.popitem(last=False)

    def _user(self, entry: dict[str, Any], node: Node, line: Entry) -> Node:
        run, message = node.run, inner(entry, "message")
        for block in _blocks(message):
            if kind_of(block) == "tool_result":
                node = self._result(entry, block, node, line)
        parts = anthropic_parts(message.get("content"))
        return run.say(node, "user", parts) if parts else node

    def _result(self, entry: dict[str, Any], block: dict[str, Any], node: Node, line: Entry) -> Node:
        call_id = text_of(block.get("tool_use_id"))
        owner, call = self._waiting(call_id, node.run)
        text = items_text(block.get("content"))
        if call is None:
            if not self._answered(call_id, node):
                self._skipped.add(line.where, f"a result for {call_id!r}, which no open call has")
            return node
        failed, kind = _failure(entry, block, text)
        owner.answer(call, text, parse_time(entry.get("timestamp")), failed=failed, error_type=kind)
        return node.run.say(node, "tool", [result_part(call_id, text)], call=call)

    def _waiting(self, call_id: str | None, run: SessionRun) -> tuple[SessionRun, Call | None]:
        call = run.waiting(call_id)
        if call is not None or call_id is None:
            return run, call
        for other in self._runs.values():
            if (call := other.waiting(call_id)) is not None:
                return other, call
        return run, None

    def _answered(self, call_id: str | None, node: Node) -> bool:
        """Whether this result came in before, under another uuid."""
        here: Node | None = node
        while here is not None and here.turn is None:
            here = here.before
        return here is not None and here.turn is not None and call_id in here.turn.calls

    def _system(self, entry: dict[str, Any], node: Node) -> Node:
        if entry.get("subtype") == "compact_boundary":
            return node.run.start()
        if entry.get("subtype") == "api_error":
            error = inner(entry, "error")
            text = text_of(error.get("message")) or items_text(
                error.get("error") or error or entry.get("content")
            )
            key = text_of(entry.get("uuid")) or digest(entry.get("timestamp"), error)
            at = parse_time(entry.get("timestamp"))
            body = inner(error, "error")
            kind = text_of(inner(body, "error").get("type")) or text_of(kind_of(body))
            node.run.fail(key, node, at, text or "", status=_http(error.get("status")), kind=kind)
        return node

    def _attachment(self, entry: dict[str, Any], node: Node) -> Node:
        """What the user typed while the model was at work is sent along with the next results."""
        attachment = inner(entry, "attachment")
        if kind_of(attachment) != "queued_command":
            return node
        parts = anthropic_parts(attachment.get("prompt"))
        return node.run.say(node, "user", parts) if parts else node


def _key(agent: str | None, first: str) -> str:
    """What makes a run this one: the agent's id, and the first thing that is said in it."""
    return f"{agent or ''}\n{first}"


def _first_id(entry: dict[str, Any]) -> str:
    return text_of(entry.get("uuid")) or digest(entry.get("timestamp"), entry.get("message"))


def _first_run(lines: list[bytes], session: str) -> str | None:
    """The id of the run that a session's file begins with; None if that cannot be told."""
    for raw in lines:
        entry = parse_line(raw)
        if not isinstance(entry, dict) or kind_of(entry) not in _SAYING or entry.get("isSidechain"):
            continue
        if not matches(entry) or text_of(entry.get("sessionId")) != session:
            return None  # it is not what its name says
        first = volume_id(NAME, _key(text_of(entry.get("agentId")), _first_id(entry)))
        return run_id_of(NAME, (session,), first)
    return None


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _failure(entry: dict[str, Any], block: dict[str, Any], text: str | None) -> tuple[bool, str | None]:
    """Claude Code flags failed results; one without a flag came to its end."""
    failed = block.get("is_error") is True
    start = text or ""
    if inner(entry, "toolUseResult").get("interrupted") is True or (
        failed and start.startswith(_INTERRUPTED)
    ):
        return True, "interrupted"
    if failed and (entry.get("toolDenialKind") or start.startswith(_REFUSED)):
        return True, "denied"
    return failed, None


def _status(entry: dict[str, Any], text: str | None) -> int | None:
    status = _http(entry.get("apiErrorStatus"))
    if status is None and (found := _STATUS.match(text or "")):
        status = _http(int(found[1]))
    return status


def _http(value: Any) -> int | None:
    number = count(value)
    return number if number is not None and 100 <= number <= 599 else None
