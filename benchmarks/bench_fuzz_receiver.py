"""Hostile requests to the receivers: an error answer or a kept span, never a crash, never a lost neighbour.

    python benchmarks/bench_fuzz_receiver.py [--bodies 100000] [--seed 1]

Bodies are made in five ways:

- bytes      a valid request (protobuf, JSON, either of them gzipped) with bits, bytes and pieces changed
- tree       valid JSON with a node anywhere replaced by something hostile
- neighbour  JSON and protobuf in which one span or log record is hostile and the one beside it is sound
- text       protobuf with bytes that are no UTF-8 in a text, beside a sound span
- extreme    gzip bombs, deep nesting, 20,000 attributes, and one span of 10^6

Every answer must be 200 or an error of the sender (4xx); the receiver must go on. Every so often the spool is
folded: nothing may land in quarantine, no trace may fail to be derived, and every sound record must be there.
A tenth of the protobuf bodies go by gRPC.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import gzip
import json
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from loopscope.collector import Spool, Store, fold, logs_json_to_protobuf, traces_json_to_protobuf
from loopscope.collector._grpc_receiver import GrpcReceiver
from loopscope.collector._intake import Intake
from loopscope.collector._receiver import http_app
from loopscope.collector._varint import varint

PROTOBUF, JSON = "application/x-protobuf", "application/json"
LIMIT = 1 << 20  # for most bodies, so that bombs are cheap to make
ROUND = 5_000  # bodies between two folds
TOGETHER = 64  # requests at a time

HOSTILE: list[Any] = [
    None,
    True,
    0,
    -1,
    -(10**18),  # before 1970
    9_300_000_000_000_000_000,  # after 2262, where signed nanoseconds end
    2**63 - 1,
    2**63,
    2**64 - 1,
    2**64,
    10**40,
    1e308,
    float("nan"),
    float("inf"),
    -0.0,
    "",
    "-1",
    "1e3",
    "9" * 5000,
    "NaN",
    "../../../../etc/passwd",
    "C:\\windows\\system32",
    "file:///etc/passwd",
    "/dev/null\0.duckdb",
    "'; DROP TABLE span_rows; --",
    "<script>alert(1)</script>",
    "\x00",
    "\x01s\x01j",  # looks like a mark of the store
    "\ud800",
    "\u202e\ufffe\uffff",
    "é" * 3000,
    "0" * 32,
    "f" * 31,
    "f" * 33,
    "zz",
    "0x12",
    [],
    {},
    [[]],
    [None],
    [1, "a", {}],
    {"stringValue": 7},
    {"intValue": "x"},
    {"intValue": 1e300},
    {"doubleValue": "x"},
    {"arrayValue": {"values": "x"}},
    {"kvlistValue": {"values": [{"key": None}]}},
    {"bytesValue": "%%%"},
    {"boolValue": []},
    {"key": "k"},
]


def deep(levels: int) -> Any:
    value: Any = {"stringValue": "bottom"}
    for level in range(levels):
        inner = {"values": [value]} if level % 2 else {"values": [{"key": "k", "value": value}]}
        value = {"arrayValue" if level % 2 else "kvlistValue": inner}
    return value


def attribute(key: str, value: Any) -> dict[str, Any]:
    kind = {str: "stringValue", bool: "boolValue", int: "intValue", float: "doubleValue"}[type(value)]
    return {"key": key, "value": {kind: value}}


def a_span(number: int, name: str = "execute_tool search") -> dict[str, Any]:
    """A sound span with something in every field."""
    return {
        "traceId": f"{number + 1:032x}",
        "spanId": f"{number + 1:016x}",
        "parentSpanId": "",
        "name": name,
        "kind": 1,
        "startTimeUnixNano": str(1_700_000_000_000_000_000 + number),
        "endTimeUnixNano": str(1_700_000_000_000_001_000 + number),
        "attributes": [
            attribute("gen_ai.operation.name", "execute_tool"),
            attribute("gen_ai.tool.name", "search"),
            attribute("gen_ai.tool.call.id", f"call_{number}"),
            attribute("gen_ai.tool.call.arguments", '{"query": "refund"}'),
            attribute("gen_ai.tool.call.result", "nothing found"),
            attribute("gen_ai.usage.input_tokens", 7),
            {"key": "nested", "value": deep(3)},
            {"key": "raw", "value": {"bytesValue": "AAEC"}},
        ],
        "events": [
            {
                "name": "exception",
                "timeUnixNano": "1700000000000000500",
                "attributes": [attribute("exception.message", "no")],
            }
        ],
        "links": [{"traceId": "1" * 32, "spanId": "2" * 16, "attributes": [attribute("x", 1.5)]}],
        "status": {"code": 2, "message": "HTTP 503: no"},
        "droppedAttributesCount": 0,
    }


def a_model_span(number: int) -> dict[str, Any]:
    span = a_span(number, "chat gpt")
    messages = [
        {"role": "user", "parts": [{"type": "text", "content": "refund?"}]},
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c", "name": "search", "arguments": {"q": [1]}}],
        },
    ]
    span["attributes"] = [
        attribute("gen_ai.operation.name", "chat"),
        attribute("gen_ai.request.model", "gpt"),
        attribute("gen_ai.input.messages", json.dumps(messages)),
        attribute("gen_ai.usage.output_tokens", 9),
    ]
    return span


def a_log(number: int) -> dict[str, Any]:
    return {
        "timeUnixNano": str(1_700_000_000_000_000_000 + number),
        "traceId": f"{number + 1:032x}",
        "spanId": f"{number + 1:016x}",
        "severityNumber": 9,
        "severityText": "INFO",
        "eventName": "gen_ai.user.message",
        "body": {"kvlistValue": {"values": [attribute("content", "hello")]}},
        "attributes": [attribute("n", number)],
    }


def request_of(signal: str, *records: dict[str, Any], service: Any = "agent") -> dict[str, Any]:
    outer, scope, items = (
        ("resourceSpans", "scopeSpans", "spans")
        if signal == "traces"
        else ("resourceLogs", "scopeLogs", "logRecords")
    )
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    scoped = {"scope": {"name": "fuzz", "version": "1"}, items: list(records)}
    return {outer: [{"resource": resource, scope: [scoped]}]}


def to_protobuf(signal: str, request: dict[str, Any]) -> bytes:
    return (traces_json_to_protobuf if signal == "traces" else logs_json_to_protobuf)(request)


@dataclass
class Body:
    way: str
    signal: str
    data: bytes
    content_type: str
    packing: str = "identity"
    sound: int | None = None  # the number of a record that must be kept
    statuses: frozenset[int] = frozenset({200, 400, 413})


class Maker:
    """Hostile bodies, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.number = 0

    def next_number(self) -> int:
        self.number += 1
        return self.number

    def body(self) -> Body:
        ways = ("bytes", "tree", "neighbour", "text", "extreme")
        way = self.random.choices(ways, weights=(40, 20, 30, 9.5, 0.5))[0]
        return getattr(self, way)()

    def signal(self) -> str:
        return self.random.choice(("traces", "traces", "logs"))

    def record(self, signal: str) -> dict[str, Any]:
        number = self.next_number()
        if signal == "logs":
            return a_log(number)
        return a_model_span(number) if self.random.random() < 0.3 else a_span(number)

    def bytes(self) -> Body:
        signal = self.signal()
        request = request_of(signal, *(self.record(signal) for _ in range(self.random.randint(1, 3))))
        as_json = self.random.random() < 0.5
        data = json.dumps(request).encode() if as_json else to_protobuf(signal, request)
        packing = "identity"
        if self.random.random() < 0.2:
            data, packing = gzip.compress(data, 1, mtime=0), "gzip"
        for _ in range(self.random.choice((1, 1, 1, 2, 3, 8, 50))):
            data = self.mutate(data)
        return Body("bytes", signal, data, JSON if as_json else PROTOBUF, packing)

    def mutate(self, data: bytes) -> bytes:
        if not data:
            return self.random.randbytes(3)
        at = self.random.randrange(len(data))
        some = self.random.randint(1, 16)
        match self.random.randrange(7):
            case 0:
                return data[:at] + bytes((data[at] ^ 1 << self.random.randrange(8),)) + data[at + 1 :]
            case 1:
                return data[:at]
            case 2:
                return data[:at] + self.random.randbytes(some) + data[at:]
            case 3:
                return data[:at] + data[at + some :]
            case 4:
                other = self.random.randrange(len(data))
                return data[:at] + data[other : other + 8 * some] + data[at:]
            case 5:
                return data[:at] + bytes((self.random.choice((0, 0x7F, 0x80, 0xFF)),)) + data[at + 1 :]
            case _:
                return data[:at] + b"\xff" * min(some, 10) + data[at + some :]

    def tree(self) -> Body:
        signal = self.signal()
        request = request_of(signal, self.record(signal), self.record(signal))
        for _ in range(self.random.choice((1, 1, 2, 5))):
            self.spoil(request)
        return Body("tree", signal, self.dumped(request), JSON)

    def dumped(self, request: Any) -> bytes:
        return json.dumps(request, ensure_ascii=self.random.random() < 0.8).encode("utf-8", "surrogatepass")

    def spoil(self, tree: Any) -> None:
        """Replace, remove or rename a node somewhere."""
        places: list[tuple[Any, Any]] = []
        stack = [tree]
        while stack:
            node = stack.pop()
            pairs = node.items() if isinstance(node, dict) else enumerate(node)
            for key, value in list(pairs):
                places.append((node, key))
                if isinstance(value, dict | list):
                    stack.append(value)
        if not places:
            return
        node, key = self.random.choice(places)
        if self.random.random() < 0.15:
            del node[key]
        elif self.random.random() < 0.1 and isinstance(node, dict):
            node[self.random.choice(("", "\x00", "value", "stringValue", "x" * 3000))] = node.pop(key)
        else:
            node[key] = self.hostile()

    def hostile(self) -> Any:
        if self.random.random() < 0.05:
            return deep(self.random.choice((5, 30, 60, 120)))
        return copy.deepcopy(self.random.choice(HOSTILE))

    def neighbour(self) -> Body:
        """One hostile record beside a sound one."""
        signal = self.signal()
        sound, other = self.record(signal), self.record(signal)
        number = self.number - 1
        service = self.random.choice([value for value in HOSTILE if isinstance(value, str)])
        if self.random.random() < 0.5:
            for _ in range(self.random.choice((1, 2, 4))):
                self.spoil(other)
            records = [sound, other] if self.random.random() < 0.5 else [other, sound]
            request = request_of(signal, *records, service=service)
            return Body("neighbour", signal, self.dumped(request), JSON, "identity", number, frozenset({200}))
        message = ExportTraceServiceRequest() if signal == "traces" else ExportLogsServiceRequest()
        message.ParseFromString(to_protobuf(signal, request_of(signal, sound, other, service=service)))
        if signal == "traces":
            self.spoil_span(message.resource_spans[0].scope_spans[0].spans[1])
        else:
            self.spoil_log(message.resource_logs[0].scope_logs[0].log_records[1])
        data = message.SerializeToString()
        return Body("neighbour", signal, data, PROTOBUF, "identity", number, frozenset({200}))

    def spoil_span(self, span: Any) -> None:
        for _ in range(self.random.choice((1, 2, 4))):
            match self.random.randrange(9):
                case 0:
                    span.trace_id = self.random.randbytes(self.random.choice((0, 1, 8, 15, 17, 200)))
                case 1:
                    span.span_id = self.random.randbytes(self.random.choice((0, 1, 7, 9, 200)))
                case 2:
                    span.parent_span_id = self.random.choice((b"\0" * 8, b"x", span.span_id, b"y" * 9))
                case 3:
                    span.start_time_unix_nano = self.a_time()
                case 4:
                    span.end_time_unix_nano = self.a_time()
                case 5:
                    span.kind = self.random.choice((0, 5, 99, -1))
                    span.status.code = self.random.choice((0, 3, 99, -1))
                case 6:
                    span.dropped_attributes_count = self.random.choice((0, 2**32 - 1))
                    span.flags = 2**32 - 1
                case 7:
                    span.links.add(trace_id=b"x", span_id=self.random.randbytes(9))
                    span.events.add(time_unix_nano=self.a_time())
                case _:
                    self.spoil_attributes(span.attributes)

    def spoil_log(self, log: Any) -> None:
        for _ in range(self.random.choice((1, 2, 4))):
            match self.random.randrange(6):
                case 0:
                    log.trace_id = self.random.randbytes(self.random.choice((0, 1, 15, 17, 200)))
                case 1:
                    log.span_id = self.random.randbytes(self.random.choice((0, 1, 9, 200)))
                case 2:
                    log.time_unix_nano = self.a_time()
                    log.observed_time_unix_nano = self.a_time()
                case 3:
                    log.severity_number = self.random.choice((0, 25, 9999, -1))
                case 4:
                    log.body.CopyFrom(self.a_value())
                case _:
                    self.spoil_attributes(log.attributes)

    def spoil_attributes(self, attributes: Any) -> None:
        known = [pair.key for pair in attributes] or ["x"]
        pair = attributes.add(key=self.random.choice([*known, "", "\x01s", "k" * 3000]))
        pair.value.CopyFrom(self.a_value())

    def a_value(self) -> AnyValue:
        match self.random.randrange(6):
            case 0:
                return AnyValue(double_value=self.random.choice((float("nan"), float("-inf"), 5e-324)))
            case 1:
                return AnyValue(int_value=self.random.choice((-(2**63), 2**63 - 1)))
            case 2:
                return AnyValue(bytes_value=self.random.randbytes(40))
            case 3:
                texts = [value for value in HOSTILE if isinstance(value, str) and value != "\ud800"]
                return AnyValue(string_value=self.random.choice(texts))
            case 4:
                value = AnyValue()
                for _ in range(self.random.randint(0, 28)):
                    value = AnyValue(array_value={"values": [value]})
                return value
            case _:
                return AnyValue()

    def a_time(self) -> int:
        return self.random.choice((0, 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1, self.random.getrandbits(64)))

    def text(self) -> Body:
        """Bytes that are no UTF-8 in the texts of one record."""
        signal = self.signal()
        sound, other = self.record(signal), self.record(signal)
        number = self.number - 1
        mark = "QQQQ"
        other["attributes"].append(attribute(mark + "key", mark + "value"))
        other["name"] = other["severityText"] = mark
        data = to_protobuf(signal, request_of(signal, sound, other, service=mark))
        bad = self.random.choice((b"\xff\xff\xff\xff", b"\xc3(\xa0\xa1", b"ab\xe2\x82", b"\xed\xa0\x80x"))
        data = data.replace(mark.encode(), bad)
        return Body("text", signal, data, PROTOBUF, "identity", number, frozenset({200}))

    def extreme(self) -> Body:
        match self.random.randrange(4):
            case 0:
                bomb = gzip.compress(b"\0" * (8 << 20), 9, mtime=0)
                content_type = self.random.choice((PROTOBUF, JSON))
                return Body("extreme", "traces", bomb, content_type, "gzip", None, frozenset({413}))
            case 1:
                opening = self.random.choice((b"[", b'{"resourceSpans":', b'[{"a":'))
                return Body("extreme", "traces", opening * 5000, JSON, "identity", None, frozenset({400}))
            case 2:
                levels = self.random.choice((99, 300, 3000))
                data = b""
                for _ in range(levels):
                    data = b"\x0a" + varint(len(data)) + data
                return Body("extreme", "traces", data, PROTOBUF)
            case _:
                sound, other = a_span(self.next_number()), a_span(self.next_number())
                number = self.number - 1
                other["attributes"] += [attribute(f"a{index}", index) for index in range(20_000)]
                data = to_protobuf("traces", request_of("traces", sound, other))
                return Body("extreme", "traces", data, PROTOBUF, "identity", number, frozenset({200}))


@dataclass
class Report:
    bodies: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    ways: Counter[str] = field(default_factory=Counter)
    sound: int = 0
    stored_spans: int = 0
    stored_logs: int = 0
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)


class Fuzz:
    """Sends bodies to the receivers of one database, and looks at what was kept."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.maker = Maker(seed)
        self.db = folder / "traces.duckdb"
        self.intake = Intake(self.db, max_body_bytes=LIMIT)
        self.app = http_app(self.intake, loopback_only=True)
        self.report = Report()
        self.sound: dict[str, set[int]] = {"traces": set(), "logs": set()}

    def run(self, bodies: int) -> Report:
        begun = time.perf_counter()
        with GrpcReceiver(self.intake, port=0) as receiver:
            address = receiver.address.removeprefix("http://")
            options = [("grpc.max_send_message_length", -1)]
            with grpc.insecure_channel(address, options=options) as channel:
                for start in range(0, bodies, ROUND):
                    batch = [self.maker.body() for _ in range(min(ROUND, bodies - start))]
                    asyncio.run(self.send_all(batch, channel))
                    self.look()
        self.report.seconds = time.perf_counter() - begun
        return self.report

    async def send_all(self, bodies: list[Body], channel: grpc.Channel) -> None:
        waiting = iter(bodies)

        async def send() -> None:
            for body in waiting:
                by_grpc = body.content_type == PROTOBUF and self.maker.random.random() < 0.1
                if by_grpc:
                    answer = await asyncio.to_thread(self.by_grpc, body, channel)
                else:
                    answer = await self.by_http(body)
                self.note(body, answer, "gRPC" if by_grpc else "HTTP")

        await asyncio.gather(*(send() for _ in range(TOGETHER)))

    def note(self, body: Body, status: int | str, how: str) -> None:
        self.report.bodies += 1
        self.report.answers[f"{how} {status}"] += 1
        self.report.ways[body.way] += 1
        if status not in body.statuses:
            self.report.faults.append(f"{how} {status} for {body.way}: {body.data[:200]!r}")
        elif body.sound is not None:
            self.report.sound += 1
            self.sound[body.signal].add(body.sound)

    async def by_http(self, body: Body) -> int | str:
        headers = {"content-type": body.content_type, "content-encoding": body.packing, "host": "localhost"}
        scope = {
            "type": "http",
            "method": "POST",
            "path": f"/v1/{body.signal}",
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body.data, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        try:
            await self.app(scope, receive, send)
        except Exception as error:  # noqa: BLE001  that is what is looked for
            return repr(error)
        return sent[0]["status"]

    def by_grpc(self, body: Body, channel: grpc.Channel) -> int | str:
        kind = "trace.v1.TraceService" if body.signal == "traces" else "logs.v1.LogsService"
        method = channel.unary_unary(f"/opentelemetry.proto.collector.{kind}/Export")
        try:
            method(body.data, timeout=60)
        except grpc.RpcError as error:
            known = {grpc.StatusCode.INVALID_ARGUMENT: 400, grpc.StatusCode.RESOURCE_EXHAUSTED: 413}
            return known.get(error.code(), f"{error.code()} {error.details()}")
        return 200

    def look(self) -> None:
        """Fold, and see that every sound record is in."""
        store = Store(self.db)
        result = fold(store)
        faults = self.report.faults
        if result.quarantined:
            faults += [f"quarantined: {reason}" for _, reason in Spool(self.db).quarantined()]
        with store.lease() as con:
            errors = con.execute(
                "SELECT DISTINCT derive_error FROM trace_rows WHERE derive_error IS NOT NULL"
            )
            faults += [f"not derived: {error}" for (error,) in errors.fetchall()]
            spans = {row[0] for row in con.execute("SELECT trace_id FROM span_rows").fetchall()}
            logs = {row[0] for row in con.execute("SELECT trace_id FROM log_rows").fetchall()}
            (self.report.stored_spans,) = con.execute("SELECT count(*) FROM span_rows").fetchall()[0]
            (self.report.stored_logs,) = con.execute("SELECT count(*) FROM log_rows").fetchall()[0]
            for view in ("spans", "logs", "tool_calls", "llm_requests"):
                con.execute(f"SELECT count(COLUMNS(*)) FROM {view}").fetchall()
        for signal, kept in (("traces", spans), ("logs", logs)):
            lost = [number for number in self.sound[signal] if f"{number + 1:032x}" not in kept]
            faults += [f"lost: record {number} of {signal}" for number in lost[:5]]


def a_million_attributes(folder: Path) -> str:
    """One span of 10^6 attributes beside a sound one, through the receiver and the fold."""
    sound, other = a_span(1), a_span(2)
    request = ExportTraceServiceRequest.FromString(to_protobuf("traces", request_of("traces", sound, other)))
    attributes = request.resource_spans[0].scope_spans[0].spans[1].attributes
    for index in range(1_000_000):
        attributes.add(key=f"a{index}").value.int_value = index
    fuzz = Fuzz(folder, 0)
    fuzz.intake = Intake(fuzz.db)
    fuzz.app = http_app(fuzz.intake, loopback_only=True)
    body = Body("extreme", "traces", request.SerializeToString(), PROTOBUF, sound=1)
    begun = time.perf_counter()
    status = asyncio.run(fuzz.by_http(body))
    fuzz.note(body, status, "HTTP")
    fuzz.look()
    assert not fuzz.report.faults, fuzz.report.faults
    assert fuzz.report.stored_spans == 2
    return f"{len(body.data) / 1e6:.0f} MB, answered {status}, stored in {time.perf_counter() - begun:.1f} s"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bodies", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = Fuzz(Path(folder), options.seed).run(options.bodies)
    print(f"bodies             {report.bodies:,} in {report.seconds:.0f} s (seed {options.seed})")
    print(f"ways               {', '.join(f'{way} {count:,}' for way, count in sorted(report.ways.items()))}")
    print(f"answers            {', '.join(f'{a} {count:,}' for a, count in sorted(report.answers.items()))}")
    print(f"sound neighbours   {report.sound:,}, all kept" if not report.faults else "FAULTS")
    print(f"stored             {report.stored_spans:,} spans, {report.stored_logs:,} log records")
    for fault in report.faults[:20]:
        print(f"  {fault}")
    with tempfile.TemporaryDirectory() as folder:
        print(f"10^6 attributes    {a_million_attributes(Path(folder))}")
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
