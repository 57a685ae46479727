"""Redaction by key and by pattern: nothing of what the rules name is written, the rest stays as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from span_tools import call, provider, spooled
from store_tools import logs_payload, spans_payload

from loopscope.collector import (
    DuckDBSpanExporter,
    DuckDBSpanProcessor,
    RedactionRules,
    Spool,
    Store,
    decode_logs,
    decode_traces,
    fold,
    import_paths,
    otlp_app,
)
from loopscope.collector._redact_rules import redactor
from loopscope.guard import LoopscopeError

SECRET = "s3cr3t-value"
RULES = RedactionRules(keys=["password", "*_token"], patterns=[r"sk-[a-z0-9]+", r"\b\d{16}\b"])


# -- texts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"password": "x", "user": "ann"}', '{"password": "[redacted]", "user": "ann"}'),
        ('{"a": [{"API_Token": {"deep": 1}}]}', '{"a": [{"API_Token": "[redacted]"}]}'),
        ('{"a": "{\\"password\\": 5}"}', '{"a": "{\\"password\\": \\"[redacted]\\"}"}'),
        ('["sk-abc", "sk", 4111111111111111, 42]', '["[redacted]", "sk", "[redacted]", 42]'),
        ('{"a": "s\\u006b-abc"}', '{"a": "[redacted]"}'),  # an escape hides nothing
        ('"sk-abc"', '"[redacted]"'),
        ("call with sk-abc, then sk-def", "call with [redacted], then [redacted]"),
        ('{"user": "ann", "password": "cut off in the mid', '{"user": "ann", "password": "[redacted]'),
        ('{"password": "a\\"b", "x": cut', '{"password": "[redacted]", "x": cut'),
        ("{'password': 'two words', 'x': 1}", "{'password': '[redacted]', 'x': 1}"),
        ("/login?password=abc&next=1", "/login?password=[redacted]&next=1"),
        ("x_token: Bearer abc.def\nHost: x", "x_token: [redacted]\nHost: x"),
        ("password = abc; path=/", "password = [redacted]; path=/"),
    ],
)
def test_texts(text, expected):
    assert RULES.text(text) == expected
    assert RULES.text(expected) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no secrets here",
        "my_passwords are many",
        '{"b":1.10,  "a":[1e3,"x"]}',  # nothing to redact: spelled as before
        '{"token": "no underscore before it"}',
        "[redacted]",
        "{",
    ],
)
def test_what_is_left_alone(text):
    assert RULES.text(text) == text


def test_text_stays_writable_and_bounded():
    assert RULES.text('{"a": "\\ud800", "password": 1}').encode()
    nested = '{"password": "x"}'
    for _ in range(8):
        nested = json.dumps({"a": nested})
    assert '"x' not in RULES.text(nested)
    assert "deep" not in RULES.text("[" * 500 + '"deep"' + "]" * 500)


# Values that no rule concerns: a number of 16 digits and a text with "sk-" would be redacted, rightly.
unnamed = st.text(max_size=8).filter(lambda text: "sk-" not in text)
leaves = st.none() | st.booleans() | st.integers(-(10**12), 10**12) | unnamed
trees = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@settings(max_examples=80, deadline=None)
@given(trees, trees, st.integers(0, 3), st.booleans(), st.data())
def test_a_secret_is_found_wherever_it_is(tree, other, wraps, by_key, data):
    """Planted somewhere in a JSON value: gone afterwards, while everything else of the value is the same."""

    def plant(node):
        if isinstance(node, dict):
            return {**node, "planted": hidden}
        return [*node, hidden] if isinstance(node, list) else [node, hidden]

    hidden = {"password": SECRET} if by_key else f"before sk-{SECRET.replace('-', '')} after"
    value = {"left": plant(tree), "right": other}
    expected = json.loads(json.dumps(value))
    text = json.dumps(value, ensure_ascii=data.draw(st.booleans()))
    for _ in range(wraps):
        text = json.dumps({"wrapped": text})
    redacted = RULES.text(text)
    assert SECRET not in redacted
    assert SECRET.replace("-", "") not in redacted
    for _ in range(wraps):
        redacted = json.loads(redacted)["wrapped"]
    hidden = {"password": "[redacted]"} if by_key else "before [redacted] after"
    expected = json.loads(json.dumps({"left": plant(tree), "right": other}))
    assert json.loads(redacted) == expected
    assert RULES.text(redacted) == redacted


# -- requests -------------------------------------------------------------------------------------


def test_every_place_of_a_span():
    secrets = {
        "user.password": SECRET,
        "note": "see sk-abc1",
        "list": ["a", "sk-abc1"],
        "map": {"password": [SECRET]},
    }
    data = spans_payload(
        {"span": 1, "name": "call sk-abc1", "attributes": secrets, "events": [("e", secrets)], "status": 2}
    )
    request = ExportTraceServiceRequest.FromString(data)
    group = request.resource_spans[0]
    span = group.scope_spans[0].spans[0]
    span.status.message = "HTTP 401: bad key sk-abc1"
    span.links.add(trace_id=b"1" * 16, span_id=b"2" * 8).attributes.extend(span.attributes)
    group.resource.attributes.extend(span.attributes)
    group.scope_spans[0].scope.attributes.extend(span.attributes)
    data = request.SerializeToString()
    redacted = RULES.apply("traces", data)
    assert SECRET.encode() not in redacted
    assert b"sk-abc1" not in redacted
    (found,) = decode_traces(redacted)
    assert found.name == "call [redacted]"
    assert found.status_message == "HTTP 401: bad key [redacted]"
    assert found.attributes == {
        "user.password": "[redacted]",
        "note": "see [redacted]",
        "list": ["a", "[redacted]"],
        "map": {"password": "[redacted]"},
    }
    assert RULES.apply("traces", redacted) == redacted


def test_every_place_of_a_log_record():
    data = logs_payload(
        {"body": {"password": SECRET, "x": 1}, "attributes": {"a_token": 5, "number": 4111111111111111}},
        {"body": f"password={SECRET}"},
    )
    first, second = decode_logs(RULES.apply("logs", data))
    assert first.body == {"password": "[redacted]", "x": 1}
    assert first.attributes == {"a_token": "[redacted]", "number": "[redacted]"}
    assert second.body == "password=[redacted]"


def test_a_request_with_nothing_to_redact_comes_back_as_it_was():
    data = spans_payload({"span": 1, "attributes": {"a": '{"b":1}'}}) + b"\xa2\x06\x00"
    assert RULES.apply("traces", data) is data


# -- where rules come from ------------------------------------------------------------------------


@pytest.fixture
def rules_file(tmp_path) -> Path:
    path = tmp_path / "redact.toml"
    path.write_text('version = 1\nkeys = ["query"]\npatterns = ["No doc[a-z]+"]\n')
    return path


def test_from_a_file_and_the_environment(rules_file):
    environ = {
        "LOOPSCOPE_REDACT": str(rules_file),
        "LOOPSCOPE_REDACT_KEYS": "ssn, *_id",
        "LOOPSCOPE_REDACT_PATTERNS": "a{2,3}\n\nb+",
    }
    found = RedactionRules.from_environment(environ)
    assert found == RedactionRules(["query", "ssn", "*_id"], ["No doc[a-z]+", "a{2,3}", "b+"])
    assert not RedactionRules.from_environment({})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("keys = 5", "keys"),
        ('keys = "password"', "keys"),
        ("keys = ['']", "keys"),
        ("patterns = ['(']", "no pattern"),
        ("patterns = ['x*']", "matches every text"),
        ("key = ['a']", "unknown key 'key'"),
        ("version = 2", "version 2"),
        ("keys = [", "not TOML"),
    ],
)
def test_a_wrong_file_is_one_clear_line(tmp_path, text, says):
    path = tmp_path / "redact.toml"
    path.write_text(text)
    with pytest.raises(LoopscopeError, match=says) as found:
        RedactionRules.from_file(path)
    assert str(path) in str(found.value)
    assert "\n" not in str(found.value)


def test_an_absent_file_stops_every_way_in(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOPSCOPE_REDACT", str(tmp_path / "absent.toml"))
    db = tmp_path / "traces.duckdb"
    for start in (DuckDBSpanProcessor, DuckDBSpanExporter, otlp_app, lambda path: import_paths(path, [])):
        with pytest.raises(LoopscopeError, match=r"absent\.toml"):
            start(db)


def test_rules_hold_for_what_is_kept_without_content():
    rules = RedactionRules(keys=["gen_ai.tool.name"])
    redact = redactor(False, rules)
    assert redact is not None
    data = spans_payload(
        {"span": 1, "attributes": {"gen_ai.tool.name": SECRET, "gen_ai.tool.call.arguments": SECRET}}
    )
    assert SECRET.encode() not in redact("traces", data)
    assert redactor(True, RedactionRules()) is None


# -- every way in ---------------------------------------------------------------------------------


def spool_bytes(db: Path) -> bytes:
    return b"".join(path.read_bytes() for path in Spool(db).pending())


@pytest.mark.parametrize("way", ["processor", "exporter"])
@pytest.mark.parametrize("by", ["argument", "environment"])
def test_in_the_agent(tmp_path, monkeypatch, rules_file, way, by):
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    monkeypatch.setattr("loopscope.collector._agent_fold.AgentFold.wrote", lambda *_: None)
    options = {}
    if by == "argument":
        options["redaction"] = RedactionRules.from_file(rules_file)
    else:
        monkeypatch.setenv("LOOPSCOPE_REDACT", str(rules_file))
    db = tmp_path / "traces.duckdb"
    if way == "processor":
        processor = DuckDBSpanProcessor(db, **options)
    else:
        processor = SimpleSpanProcessor(DuckDBSpanExporter(db, **options))
    made = provider(processor)
    call(made.get_tracer("agent"), query="refund policy")
    assert made.force_flush()
    assert b"refund policy" not in spool_bytes(db)
    (found,) = spooled(db)
    assert json.loads(found.attributes["gen_ai.tool.call.arguments"]) == {"query": "[redacted]"}
    assert found.attributes["gen_ai.tool.call.result"] == "[redacted] found"
    made.shutdown()


def test_in_the_importers(tmp_path):
    chat = [
        {"role": "user", "content": "my key is sk-abc1"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {
                        "name": "login",
                        "arguments": json.dumps({"password": SECRET, "user": "ann"}),
                    },
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": f'{{"session_token": "{SECRET}"}}'},
    ]
    source = tmp_path / "chat.json"
    source.write_text(json.dumps(chat))
    db = tmp_path / "traces.duckdb"
    assert import_paths(db, [source], redaction=RULES).totals.calls == 1
    with Store(db).lease() as con:
        rows = con.execute("SELECT arguments, result FROM tool_calls").fetchall()
        texts = con.execute("SELECT attributes FROM spans").fetchall()
    (arguments, result) = rows[0]
    assert json.loads(arguments) == {"password": "[redacted]", "user": "ann"}
    assert json.loads(result) == {"session_token": "[redacted]"}
    assert not any(SECRET in text or "sk-abc1" in text for (text,) in texts)
    assert SECRET.encode() not in db.read_bytes()


def test_in_the_receiver(tmp_path):
    from test_receiver import Client

    db = tmp_path / "traces.duckdb"
    client = Client(otlp_app(db, redaction=RULES))
    headers = {"content-type": "application/x-protobuf"}
    payload = spans_payload({"span": 1, "end": 2_000, "attributes": {"password": SECRET, "kept": "here"}})
    assert client.post("/v1/traces", content=payload, headers=headers).status_code == 200
    body = logs_payload({"body": f"password={SECRET}"})
    assert client.post("/v1/logs", content=body, headers=headers).status_code == 200
    written = spool_bytes(db)
    assert SECRET.encode() not in written
    assert b"here" in written
    result = fold(Store(db))
    assert (result.spans, result.logs) == (1, 1)
