"""One run of an agent, written as OTLP spans while its session file is read.

A run is a trace (a very long one is several): a root span (`invoke_agent`), a `chat` span for each request to
the model, an `execute_tool` span for each call. Ids follow from what the file says, so that the same entries
give the same spans wherever they lie. Spans go out as soon as nothing can be added to them: memory does not
grow with the file.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict, deque
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span, Status

from ..._transcripts import HISTORY_AFTER, TRANSCRIPT_SCOPE
from .._clock import SYNTHETIC_BASE_NS, Clock
from .._otlp import Part
from .._report import printable
from .._transcript import set_attribute
from ._history import Before, Contents, Node, Text, before, everything
from ._model import Call, Sink, Turn, dumps

__all__ = ["SessionRun", "run_id_of", "volume_id"]

_PART_BYTES = 256 << 10
# A session of more than this is written as several traces of one run: a trace is derived in one go.
_TRACE_TURNS = 500
_TRACE_BYTES = 16 << 20
_WHOLE_HISTORY = 4 << 20  # characters; there is no larger context
_OPEN_TURNS = 4  # lines of one answer may come between those of the next
_OPEN_CALLS = 10_000
_LONGEST_FACT = 1000


def volume_id(dialect: str, key: str, volume: int = 0) -> bytes:
    """The id of a trace of a run, the first one by default."""
    text = f"{dialect}\n{key}" + (f"\n{volume}" if volume else "")
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()


def run_id_of(dialect: str, names: tuple[str, ...], first_id: bytes) -> str:
    """The id of a run, from what it is called and its first trace."""
    return printable("/".join([dialect, *(part[:80] for part in names), first_id.hex()[:16]]))


class SessionRun:
    """Writes one run.

    `key`: what makes it this run and no other, the same in every file that holds a part of it.
    `begun`: when it began, Unix nanoseconds; None if the file does not say.
    """

    def __init__(
        self,
        sink: Sink,
        dialect: str,
        key: str,
        *,
        begun: int | None,
        session_id: str | None = None,
        agent: str | None = None,
        name: tuple[str, ...] = (),
        contents: Contents | None = None,
    ) -> None:
        self._key = key
        self._volume = 0
        self.dialect = dialect
        self.trace_id = self._first_id = self._volume_id()
        self.session_id = session_id
        self.agent = agent or dialect
        self.provider: str | None = None
        self.model: str | None = None
        self.facts: dict[str, str | int | float | bool] = {}
        self.failure: str | None = None
        self.parent: str | None = None  # id of the run that started this one
        self._name = name
        self._sink = sink
        self._contents = contents or Contents()
        self._clock = Clock(begun, [begun])
        self._turns: deque[Turn] = deque()
        self._open: dict[str, list[Call]] = {}
        self._open_order: OrderedDict[int, Call] = OrderedDict()
        self._answered: deque[Call] = deque()
        self._used: set[bytes] = set()
        self._begun = self._clock.start
        self._trace_turns = self._trace_bytes = 0
        self._new_request()

    # -- what the file says ---------------------------------------------------------------------------

    @property
    def run_id(self) -> str:
        """As calls and requests have it."""
        return run_id_of(self.dialect, self._name, self._first_id)

    def start(self) -> Node:
        """The point before anything is said."""
        return Node(self)

    def lost(self) -> Node:
        """A point whose past is not known."""
        return Node(self, lost=True)

    def fact(self, name: str, value: object) -> None:
        """Something about the session, for its root span; the first value stays."""
        if isinstance(value, str) and value:
            self.facts.setdefault(f"loopscope.source.{name}", value[:_LONGEST_FACT])
        elif isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 1 << 62):
            self.facts.setdefault(f"loopscope.source.{name}", value)

    def say(self, node: Node, role: str, parts: list[dict[str, Any]], *, call: Call | None = None) -> Node:
        """A message that is not the model's. `call`: the one that it answers."""
        said = self._contents.add(dumps({"role": role, "parts": parts}))
        if call is not None:
            call.turn.results.append(said)
        return Node(self, node, said=said)

    def begin(self, key: str, node: Node, at: int | None) -> tuple[Turn, Node]:
        """A turn of the model that was asked at `node`; and the point after it."""
        span = self._request(key, node, at)
        turn = Turn(span, span.span_id, span.trace_id, Text(None))
        self._turns.append(turn)
        while len(self._turns) > _OPEN_TURNS:
            self._close(self._turns.popleft())
        return turn, Node(self, node, turn=turn)

    def go_on(self, turn: Turn, parts: list[dict[str, Any]], at: int | None) -> None:
        """More of the answer."""
        turn.parts += parts
        turn.span.end_time_unix_nano = self._clock.tick(at)

    def call(self, turn: Turn, key: str, call_id: str | None, name: str, arguments: str | None) -> Call:
        """A call that the turn asks for. Its part of the answer is given to `go_on`."""
        span = self._span("call", key, f"execute_tool {name}")
        span.kind = Span.SPAN_KIND_INTERNAL
        span.start_time_unix_nano = self._clock.tick()
        set_attribute(span, "gen_ai.operation.name", "execute_tool")
        set_attribute(span, "gen_ai.tool.name", name)
        set_attribute(span, "gen_ai.agent.name", self.agent)
        if call_id is not None:
            set_attribute(span, "gen_ai.tool.call.id", call_id)
        if arguments is not None:
            set_attribute(span, "gen_ai.tool.call.arguments", arguments)
        call = Call(turn, call_id, span, name)
        turn.asked += 1
        turn.calls[call_id or f"\n{turn.asked}"] = call
        if call_id is not None:
            self._open.setdefault(call_id, []).append(call)
        self._open_order[id(call)] = call
        if len(self._open_order) > _OPEN_CALLS:
            self._forget(next(iter(self._open_order.values())))
        return call

    def waiting(self, call_id: str | None) -> Call | None:
        """The nearest call with this id that has no result yet; without an id, the only open one."""
        if call_id is None:
            return next(iter(self._open_order.values())) if len(self._open_order) == 1 else None
        calls = self._open.get(call_id)
        return calls[-1] if calls else None

    def answer(
        self,
        call: Call,
        result: str | None,
        at: int | None,
        *,
        failed: bool | None = None,
        error_type: str | None = None,
    ) -> None:
        """What a call came to. `failed`: the source's own flag."""
        span = call.span
        self._no_longer_open(call)
        call.answered = True
        span.end_time_unix_nano = self._clock.tick(at)
        if result is not None:
            set_attribute(span, "gen_ai.tool.call.result", result)
        if failed is not None:
            self.flag(call, failed, error_type)
        self._answered.append(call)
        while len(self._answered) > _OPEN_CALLS:
            self._write(self._answered.popleft())

    def flag(self, call: Call, failed: bool, error_type: str | None = None) -> None:
        """Say whether a call failed, if nothing has yet."""
        span = call.span
        if not span.span_id or any(pair.key == "loopscope.outcome.failed" for pair in span.attributes):
            return
        set_attribute(span, "loopscope.outcome.failed", failed)
        if failed:
            span.status.code = Status.STATUS_CODE_ERROR
            if error_type:
                set_attribute(span, "error.type", error_type[:200])

    def settle(self) -> None:
        """Nothing more will be said about the calls answered so far."""
        while self._answered:
            self._write(self._answered.popleft())

    def fail(
        self,
        key: str,
        node: Node,
        at: int | None,
        text: str,
        *,
        status: int | None = None,
        kind: str | None = None,
    ) -> None:
        """A request that was refused, or came to nothing."""
        span = self._request(key, node, at)
        self.fail_span(span, text, status=status, kind=kind)
        self._describe(span)
        self._emit(span)

    def fail_span(
        self, span: Span, text: str | None, *, status: int | None = None, kind: str | None = None
    ) -> None:
        span.status.code = Status.STATUS_CODE_ERROR
        if text:
            span.status.message = text.encode("utf-8", "replace").decode()
        if status is not None:
            set_attribute(span, "http.response.status_code", status)
        if kind:
            set_attribute(span, "error.type", kind[:200])

    def finish(self) -> None:
        """The file ends."""
        while self._turns:
            self._close(self._turns.popleft())
        self.settle()
        for call in list(self._open_order.values()):
            self._forget(call)
        if self._trace_turns:
            self._add_root()
        self._flush()

    # -- how it is written ----------------------------------------------------------------------------

    def _request(self, key: str, node: Node, at: int | None) -> Span:
        if self._trace_turns >= _TRACE_TURNS or self._trace_bytes >= _TRACE_BYTES:
            self._next_trace()
        span = self._span("chat", key, "chat")
        span.kind = Span.SPAN_KIND_CLIENT
        span.start_time_unix_nano = self._clock.now
        span.end_time_unix_nano = self._clock.tick(at)
        set_attribute(span, "gen_ai.operation.name", "chat")
        set_attribute(span, "gen_ai.agent.name", self.agent)
        had = self._before(node)
        set_attribute(span, "gen_ai.input.messages", f"[{','.join(had.messages)}]")
        if not had.whole:
            set_attribute(span, HISTORY_AFTER, self._span_id("lost", key).hex())
        elif had.turn is not None:
            set_attribute(span, HISTORY_AFTER, had.turn.span_id.hex())
        self._trace_turns += 1
        return span

    def _before(self, node: Node) -> Before:
        """What goes before a request: as a reference where that lies in the same trace, else whole."""
        had = before(node)
        if had.turn is not None and had.turn.trace_id != self.trace_id:
            whole = everything(node, _WHOLE_HISTORY)
            return whole if whole.whole else Before(None, had.messages, whole=False)
        return had

    def _next_trace(self) -> None:
        while self._turns:
            self._close(self._turns.popleft())
        self.settle()
        self._add_root()
        self._flush()
        self._volume += 1
        self.trace_id = self._volume_id()
        self._used.clear()
        self._begun = self._clock.now
        self._trace_turns = self._trace_bytes = 0

    def _volume_id(self) -> bytes:
        return volume_id(self.dialect, self._key, self._volume)

    def _describe(self, span: Span) -> None:
        if self.model:
            set_attribute(span, "gen_ai.request.model", self.model)
            span.name = f"chat {self.model[:200]}".encode("utf-8", "replace").decode()
        if self.provider:
            set_attribute(span, "gen_ai.provider.name", self.provider)

    def describe(self, turn: Turn) -> None:
        """Write the model and provider that are in force now onto a turn."""
        if not turn.closed and not any(pair.key == "gen_ai.request.model" for pair in turn.span.attributes):
            self._describe(turn.span)

    def close(self, turn: Turn) -> None:
        """Nothing will be added to this turn."""
        if turn in self._turns:
            self._turns.remove(turn)
            self._close(turn)

    def _close(self, turn: Turn) -> None:
        self.describe(turn)
        span, usage = turn.span, turn.usage
        message = dumps({"role": "assistant", "parts": turn.parts})
        set_attribute(span, "gen_ai.output.messages", f"[{message}]")
        self._contents.fill(turn.said, message)
        if usage is not None:
            for name, value in (
                ("input_tokens", usage.input),
                ("output_tokens", usage.output),
                ("cache_read.input_tokens", usage.cache_read),
                ("cache_creation.input_tokens", usage.cache_write),
                ("cost", usage.cost),
            ):
                if value is not None:
                    set_attribute(span, f"gen_ai.usage.{name}", value)
        turn.parts = []
        turn.closed = True
        self._emit(span)
        turn.span = Span()

    def _forget(self, call: Call) -> None:
        """Nobody answers this call."""
        self._no_longer_open(call)
        self._write(call)

    def _write(self, call: Call) -> None:
        self._emit(call.span)
        call.span = Span()

    def _no_longer_open(self, call: Call) -> None:
        self._open_order.pop(id(call), None)
        if call.call_id is not None:
            calls = self._open.get(call.call_id, [])
            if call in calls:
                calls.remove(call)
            if not calls:
                self._open.pop(call.call_id, None)

    def _add_root(self) -> None:
        root = self._span("root", "", f"invoke_agent {self.agent}")
        root.parent_span_id = b""
        root.kind = Span.SPAN_KIND_INTERNAL
        root.start_time_unix_nano = self._begun
        root.end_time_unix_nano = self._clock.tick()
        set_attribute(root, "gen_ai.operation.name", "invoke_agent")
        set_attribute(root, "gen_ai.agent.name", self.agent)
        set_attribute(root, "loopscope.run.id", self.run_id)
        if self.parent is not None:
            set_attribute(root, "loopscope.run.parent", self.parent)
        if self.session_id is not None:
            set_attribute(root, "gen_ai.conversation.id", self.session_id[:200])
        for key, value in self.facts.items():
            set_attribute(root, key, value)
        if self.failure is not None:
            root.status.code = Status.STATUS_CODE_ERROR
            root.status.message = self.failure.encode("utf-8", "replace").decode()
        self._emit(root)

    def _span(self, kind: str, key: str, name: str) -> Span:
        span = Span()
        span.trace_id = self.trace_id
        span.span_id = self._span_id(kind, key)
        again = 0
        while span.span_id in self._used:  # the same was said before, at another point
            again += 1
            span.span_id = self._span_id(kind, f"{key}\n{again}")
        self._used.add(span.span_id)
        span.parent_span_id = self._span_id("root", "")
        span.name = name[:300].encode("utf-8", "replace").decode()
        set_attribute(span, "loopscope.dialect", self.dialect)
        return span

    def _span_id(self, kind: str, key: str) -> bytes:
        text = f"{kind}:{key}".encode("utf-8", "replace")
        return hashlib.blake2b(text, key=self.trace_id, digest_size=8).digest()

    def _new_request(self) -> None:
        self._pending = ExportTraceServiceRequest()
        self._size = 0
        self._traces: set[bytes] = set()
        outer = self._pending.resource_spans.add()
        set_attribute(outer.resource, "service.name", self.dialect)
        recorded = self._clock.start != SYNTHETIC_BASE_NS
        set_attribute(outer.resource, "loopscope.times", "recorded" if recorded else "synthetic")
        self._scope: ScopeSpans = outer.scope_spans.add()
        self._scope.scope.name = TRANSCRIPT_SCOPE

    def _emit(self, span: Span) -> None:
        self._scope.spans.append(span)
        self._traces.add(span.trace_id)
        size = span.ByteSize()
        self._size += size
        self._trace_bytes += size
        if self._size >= _PART_BYTES:
            self._flush()

    def _flush(self) -> None:
        records = len(self._scope.spans)
        if records:
            data = self._pending.SerializeToString()
            self._sink.put(Part("traces", data, self._traces, records))
        self._new_request()
