"""What a refused request comes from: retries of one broken history, and what came just before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...guard.messages._words import ErrorClass
from .._sql import rows, sql_text
from ._judge import Judgement
from ._types import Cause, CauseEvent

if TYPE_CHECKING:
    import duckdb

    from ._histories import Reader

__all__ = ["Failure", "Group", "Groups", "causes_of", "repeated_whole"]

_UNANSWERED = frozenset({ErrorClass.MISSING_RESULT, ErrorClass.COUNT_MISMATCH, ErrorClass.MISPLACED_RESULT})
_DUPLICATES = frozenset({ErrorClass.DUPLICATE_CALL_ID, ErrorClass.DUPLICATE_RESULT})
_FETCH = 1_000  # causes whose earlier requests are asked for at once


@dataclass(slots=True, eq=False)
class Failure:
    """One judged request."""

    row: dict[str, Any]  # of sql/request_failures.sql
    error_class: ErrorClass
    provider: str | None  # whose rules were used
    judgement: Judgement
    keys: tuple[int, ...] | None
    group: Group | None = None


@dataclass(slots=True, eq=False)
class Group:
    """Requests that carried one fault. Only the first is kept whole."""

    first: Failure
    requests: int = 0
    last_ns: int = 0
    number: int | None = None


class Groups:
    """Puts judged requests together, oldest first."""

    def __init__(self) -> None:
        self.all: dict[Any, Group] = {}

    def add(self, failure: Failure) -> None:
        """Put a request to the others with its fault."""
        group = self.all.get(fault := _fault(failure))
        if group is None:
            light = {**failure.row, "error_text": None, "input_parts": None}
            group = self.all[fault] = Group(replace(failure, row=light))
        failure.group = group
        group.requests += 1
        group.last_ns = failure.row["start_ns"]


def causes_of(
    con: duckdb.DuckDBPyConnection,
    reader: Reader,
    groups: Groups,
    resolve: Callable[[str | None, str | None], str | None],
    limit: int,
) -> list[Cause]:
    """The causes of which a request is newest, at most `limit`, numbered from 1.

    `resolve` gives the name of a provider for its recorded name and the model.
    """
    ordered = sorted(groups.all.values(), key=lambda group: group.last_ns, reverse=True)[:limit]
    causes: list[Cause] = []
    for start in range(0, len(ordered), _FETCH):
        some = ordered[start : start + _FETCH]
        earlier = _earlier(con, [group.first for group in some])
        finished = _finished_calls(con, some)
        wanted = {key for group in some for key in group.first.keys or ()}
        for candidates in earlier.values():
            for row in candidates:
                wanted.update(row["input_parts"] or ())
                wanted.update(row["output_parts"] or ())
        reader.load(con, wanted)
        for offset, group in enumerate(some):
            group.number = start + offset + 1
            causes.append(_cause(group.number, group, earlier.get(offset, []), finished, reader, resolve))
    return causes


def _fault(failure: Failure) -> tuple[Any, ...]:
    row, judged = failure.row, failure.judgement
    scope = row["session_id"] or row["run_id"]
    what = (judged.call_id,) if judged.call_id else judged.fault
    # Services may name their sessions alike without knowing of each other.
    return (row["service_name"], scope, failure.error_class, what)


def _earlier(con: duckdb.DuckDBPyConnection, firsts: Sequence[Failure]) -> dict[int, list[dict[str, Any]]]:
    """A few requests before each of `firsts` in its session or run, newest first."""
    import pyarrow as pa

    names = ("trace_id", "span_id", "run_id", "session_id")
    columns = {name: pa.array([first.row[name] for first in firsts], pa.string()) for name in names}
    con.register("first_requests", pa.table({"number": pa.array(range(len(firsts)), pa.int64()), **columns}))
    try:
        found = rows(con, sql_text("requests_before"))
    finally:
        con.unregister("first_requests")
    grouped: dict[int, list[dict[str, Any]]] = {}
    for row in found:
        grouped.setdefault(row["number"], []).append(row)
    return grouped


def _finished_calls(con: duckdb.DuckDBPyConnection, groups: Iterable[Group]) -> dict[tuple[str, str], str]:
    """How the recorded calls at fault ended: (run, call id) → finished | cancelled | open."""
    import pyarrow as pa

    pairs = {
        (group.first.row["run_id"], group.first.judgement.call_id)
        for group in groups
        if group.first.judgement.call_id and group.first.error_class in _UNANSWERED
    }
    if not pairs:
        return {}
    listed = sorted(pairs)
    table = pa.table({"run_id": [run for run, _ in listed], "call_id": [call_id for _, call_id in listed]})
    con.register("calls_at_fault", table)
    try:
        found = rows(con, sql_text("calls_at_fault"))
    finally:
        con.unregister("calls_at_fault")
    return {(row["run_id"], row["call_id"]): row["state"] for row in found}


def _cause(
    number: int,
    group: Group,
    candidates: Sequence[dict[str, Any]],
    finished: dict[tuple[str, str], str],
    reader: Reader,
    resolve: Callable[[str | None, str | None], str | None],
) -> Cause:
    first = group.first
    row = first.row
    before = _predecessor(first, candidates, reader)
    events = _events(first, before, finished, reader, resolve)
    return Cause(
        number=number,
        error_class=str(first.error_class),
        verdict=first.judgement.verdict,
        requests=group.requests,
        run_id=row["run_id"],
        session_id=row["session_id"],
        service_name=row["service_name"],
        agent_name=row["agent_name"],
        provider=first.provider or row["provider"],
        model=row["model"],
        call_id=first.judgement.call_id,
        first_ns=row["start_ns"],
        last_ns=group.last_ns,
        first_trace_id=row["trace_id"],
        first_span_id=row["span_id"],
        events=tuple(events),
        before=_sentence(first, before, events),
    )


def _predecessor(
    first: Failure, candidates: Sequence[dict[str, Any]], reader: Reader
) -> dict[str, Any] | None:
    """The request whose history this one goes on with, out of some before it, newest first.

    The latest that shares messages with it (a system prompt is none: every conversation of an agent has it);
    else the latest of its own agent in its own run.
    """
    mine = {key for key in first.keys or () if not reader.is_system(key)}
    for row in candidates:
        if not mine.isdisjoint(row["input_parts"] or ()):
            return row
    for row in candidates:
        if row["agent_name"] == first.row["agent_name"] and row["run_id"] == first.row["run_id"]:
            return row
    return None


def _events(
    first: Failure,
    before: dict[str, Any] | None,
    finished: dict[tuple[str, str], str],
    reader: Reader,
    resolve: Callable[[str | None, str | None], str | None],
) -> list[CauseEvent]:
    events: list[CauseEvent] = []
    keys, row = first.keys, first.row
    previous = before["input_parts"] if before else None
    if keys is not None and previous and len(keys) < len(previous):
        events.append(
            CauseEvent(
                "history_shrank",
                f"The history shrank from {len(previous):,} to {len(keys):,} messages.",
                before=len(previous),
                after=len(keys),
            )
        )
    if keys is not None:
        repeated = _repeated(keys, before, reader)
        if repeated:
            tokens = _tokens(repeated, before, row, keys, reader)
            worth = "" if tokens is None else f", about {tokens:,} tokens in every request"
            what = "message stands" if len(repeated) == 1 else "messages stand"
            events.append(
                CauseEvent(
                    "messages_repeated",
                    f"Loaded with repeats: {len(repeated):,} {what} in the history a second time{worth}.",
                    messages=len(repeated),
                    tokens=tokens,
                )
            )
    reused = _reused(first, before, reader)
    if reused:
        events.append(CauseEvent("answer_reused_id", reused))
    cut = _interruption(first, before, finished, reader)
    if cut:
        events.append(CauseEvent("interrupted", cut))
    if before is not None:
        events += _moved(first, before, resolve)
    return events


def _moved(
    first: Failure, before: dict[str, Any], resolve: Callable[[str | None, str | None], str | None]
) -> list[CauseEvent]:
    row, events = first.row, list[CauseEvent]()
    was = resolve(before["provider"], before["model"]) or before["provider"]
    now = first.provider or row["provider"]
    if was and now and was != now:
        events.append(CauseEvent("other_provider", f"The conversation went from {was} to {now}."))
    elif before["model"] and row["model"] and before["model"] != row["model"]:
        detail = f"The conversation went from model {before['model']} to {row['model']}."
        events.append(CauseEvent("other_model", detail))
    if before["agent_name"] and row["agent_name"] and before["agent_name"] != row["agent_name"]:
        detail = f"The history went from agent {before['agent_name']} to {row['agent_name']}."
        events.append(CauseEvent("other_agent", detail))
    return events


def _reused(first: Failure, before: dict[str, Any] | None, reader: Reader) -> str | None:
    """Did the model itself, or what stands before it, answer with an id that is taken?"""
    if before is None or not before["output_parts"] or first.error_class not in _DUPLICATES:
        return None
    ids = Counter(
        name for key in before["output_parts"] for found, _ in reader.calls(key) for name in found[:1]
    )
    wanted = first.judgement.call_id
    twice = next((name for name, count in ids.items() if count > 1 and wanted in (None, name)), None)
    if twice:
        return f"The model's answer before it already held two calls under the id {twice}."
    earlier = {
        name for key in before["input_parts"] or () for found, _ in reader.calls(key) for name in found[:1]
    }
    again = next((name for name in ids if name in earlier and wanted in (None, name)), None)
    if again:
        return f"The model's answer before it gave its call the id {again}, which an earlier call has."
    return None


def _interruption(
    first: Failure, before: dict[str, Any] | None, finished: dict[tuple[str, str], str], reader: Reader
) -> str | None:
    """How the conversation was cut, as far as the recording shows it."""
    call_id = first.judgement.call_id
    if first.error_class in _UNANSWERED and call_id:
        state = finished.get((first.row["run_id"], call_id))
        if state == "open":
            return f"Cut by an interruption: the call {call_id} was started and never ended."
        if state == "cancelled":
            return f"Cut by an interruption: the call {call_id} was cancelled."
        if state is None and first.keys is not None and _spoken_over(first, call_id, reader):
            return f"Cut by an interruption: the next message came before a result of the call {call_id}."
    if before is None:
        return None
    if before["end_ns"] is None:
        return "Cut by an interruption: the request before it was never finished."
    if (
        before["status"] == "error"
        and before["http_status"] is None
        and before["error_class"] in (None, "other")
    ):
        return (
            f"Cut by an interruption: the request before it ended with {before['error_type'] or 'an error'}."
        )
    return None


def _spoken_over(first: Failure, call_id: str, reader: Reader) -> bool:
    """Has the call no result anywhere, and a user's message behind it?"""
    messages = reader.history(first.keys or ()).messages
    asked = [at for at, message in enumerate(messages) if any(call_id in call.ids for call in message.calls)]
    answered = any(call_id in one.ids for message in messages for one in message.results)
    if not asked or answered:
        return False
    return any(message.role == "user" and not message.results for message in messages[asked[-1] + 1 :])


def _repeated(keys: Sequence[int], before: dict[str, Any] | None, reader: Reader) -> list[int]:
    """Keys of the messages that stand in the history a second time since the request before."""
    previous = (before["input_parts"] if before else None) or ()
    start = 0
    while start < min(len(keys), len(previous)) and keys[start] == previous[start]:
        start += 1
    outputs = (before["output_parts"] if before else None) or None
    spoken: set[str] | None = None
    if outputs is not None:
        spoken = {name for key in outputs for ids, name in reader.calls(key) for name in ids[:1]}
    facts = {key: _round_facts(key, reader) for key in set(keys)}
    return [keys[at] for at in repeated_whole([facts[key] for key in keys], keys, start, spoken)]


def _round_facts(key: int, reader: Reader) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Ids that a message calls and ids that it answers."""
    messages = reader.history([key]).messages
    calls = tuple(name for message in messages for call in message.calls for name in call.ids[:1])
    results = tuple(name for message in messages for one in message.results for name in one.ids[:1])
    return calls, results


def repeated_whole(
    facts: Sequence[tuple[tuple[str, ...], tuple[str, ...]]],
    keys: Sequence[int],
    start: int,
    spoken: Collection[str] | None,
) -> list[int]:
    """Places from `start` on whose message stood in the history before.

    `facts` are the ids that each message calls and answers. A model may say the same again, with the same
    id: a turn that calls one of the ids in `spoken` is new once, with the first result of each of its calls.
    Where `spoken` is None (what the model answered was not recorded), so is a turn behind a new message. A
    user may say the same again, too: one message that is no result counts only beside another repeated one.
    """
    first_at: dict[int, int] = {}
    for at, key in enumerate(keys):
        first_at.setdefault(key, at)
    said = None if spoken is None else set(spoken)
    fresh: Counter[str] = Counter()
    repeated: set[int] = set()
    for at in range(start, len(keys)):
        calls, results = facts[at]
        if calls and (at - 1 not in repeated if said is None else not said.isdisjoint(calls)):
            fresh.update(calls)
            if said is not None:
                said.difference_update(calls)
        elif results and all(fresh[name] > 0 for name in results):
            fresh.subtract(results)
        elif first_at[keys[at]] < at:
            repeated.add(at)
    return [at for at in sorted(repeated) if facts[at][1] or at - 1 in repeated or at + 1 in repeated]


def _tokens(
    repeated: Sequence[int],
    before: dict[str, Any] | None,
    row: dict[str, Any],
    keys: Sequence[int],
    reader: Reader,
) -> int | None:
    """Tokens of the repeated messages, at the tokens per character of a request nearby that counted them."""
    counted: int | None = row.get("input_tokens")
    parts: Sequence[int] | None = keys
    if not counted and before is not None:
        counted, parts = before["input_tokens"], before["input_parts"]
    chars = reader.chars(parts) if counted and parts else 0
    return round(reader.chars(repeated) * counted / chars) if counted and chars else None


def _sentence(first: Failure, before: dict[str, Any] | None, events: Sequence[CauseEvent]) -> str:
    if events:
        return " ".join(event.detail for event in events)
    if first.keys is None:
        return "What came before it is not known: its messages were not recorded."
    if before is None:
        return "No request of this conversation was recorded before it."
    if not before["input_parts"]:
        return "What came before it is not known: the messages of the request before it were not recorded."
    return "As recorded, nothing unusual came before it: the history grew as it does in every turn."
