"""`loopscope label`, `labels`: what people say incidents were."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..guard import ImportFileError, LoopscopeError
from ._filters import Agent, Model, Run, Service, Since, Tool, Until, filters_of
from ._options import Db, Format, FormatOption
from ._output import console, plural, print_csv, print_json, print_note, print_table
from ._score import share
from ._store import reading

if TYPE_CHECKING:
    from ..replay import Filters

__all__ = ["label", "labels"]

_SHORT_KEY = 10  # characters of a key in a table, as in `incidents`
_MOST_BYTES = 50_000_000  # of a CSV


def label(
    db: Db,
    key: Annotated[
        str | None,
        typer.Argument(help="Key of an incident, or its first 6 characters or more.", metavar="KEY"),
    ] = None,
    verdict: Annotated[
        str | None,
        typer.Argument(
            help="true_loop, polling, legitimate_repeat, retry_that_worked or unsure.", metavar="VERDICT"
        ),
    ] = None,
    note: Annotated[
        str | None, typer.Option(help="A note. Without it the note stays as it is; '' takes it away.")
    ] = None,
    group: Annotated[
        bool,
        typer.Option(
            "--group", help="All incidents of the group; KEY is the group's key or that of one of them."
        ),
    ] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Take the label off.")] = False,
    import_file: Annotated[
        Path | None,
        typer.Option(
            "--import",
            help="Set the labels of a CSV with the columns key, verdict and note; - is standard input. "
            "A wrong line: nothing is changed.",
            metavar="FILE",
        ),
    ] = None,
    export_file: Annotated[
        Path | None,
        typer.Option(
            "--export",
            help="Write the labels as CSV, to be read by --import; - is standard output.",
            metavar="FILE",
        ),
    ] = None,
    all_incidents: Annotated[
        bool,
        typer.Option("--all", help="With --export: incidents without a label, too, to be filled in."),
    ] = False,
) -> None:
    """Say what an incident was: a true loop, polling, a legitimate repeat, a retry that worked.

    Labels stay when traces are imported again. `loopscope labels` lists them, `loopscope score` uses them.
    """
    _one_thing(key, verdict, note, group, remove, import_file, export_file, all_incidents)
    if import_file is not None:
        _import(db, import_file)
    elif export_file is not None:
        _export(db, export_file, all_incidents)
    elif remove:
        _remove(db, str(key), group)
    else:
        _set(db, str(key), str(verdict), note, group)


def _one_thing(
    key: str | None,
    verdict: str | None,
    note: str | None,
    group: bool,
    remove: bool,
    import_file: Path | None,
    export_file: Path | None,
    all_incidents: bool,
) -> None:
    """Raises LoopscopeError where the options do not go together."""
    files = (import_file is not None) + (export_file is not None)
    if files and (files > 1 or key is not None or remove or group or note is not None):
        raise LoopscopeError("--import and --export stand alone: give one of them, and no KEY")
    if all_incidents and export_file is None:
        raise LoopscopeError("--all goes with --export")
    if files:
        return
    if key is None:
        raise LoopscopeError(
            "which incident? loopscope label KEY VERDICT; `loopscope incidents` lists the keys"
        )
    if remove and (verdict is not None or note is not None):
        raise LoopscopeError("--remove takes the label off: leave out the verdict and the note")
    if not remove and verdict is None:
        raise LoopscopeError(
            "what was it? loopscope label KEY VERDICT: true_loop, polling, legitimate_repeat, "
            "retry_that_worked or unsure"
        )


def _keys(db: Path, key: str, group: bool) -> tuple[str, ...]:
    from .. import replay as engine

    with reading(db) as connection:
        if group:
            return engine.keys_of_group(connection, key)
        return (engine.labelled_key(connection, key),)


def _set(db: Path, key: str, verdict: str, note: str | None, group: bool) -> None:
    from .. import replay as engine
    from ..collector import Store

    chosen = engine.label_verdict(verdict)
    keys = _keys(db, key, group)
    changes = engine.set_labels(Store(db, create=False), dict.fromkeys(keys, (chosen, note)))
    out = console()
    if not group:
        before = changes.changed.get(keys[0])
        was = f" (was {before.value})" if before not in (None, chosen) else ""
        out.print(f"{keys[0]}: {chosen.value}{was}" + (", as before" if changes.unchanged else ""))
        return
    parts = [f"{changes.added:,} new"]
    was = sorted({one.value for one in changes.changed.values()})
    if changes.changed:
        parts.append(f"{len(changes.changed):,} changed (were {', '.join(was)})")
    if changes.unchanged:
        parts.append(f"{changes.unchanged:,} as before")
    several = "1 incident" if len(keys) == 1 else f"{len(keys):,} incidents"
    out.print(f"{chosen.value}: {several} of the group; {', '.join(parts)}")


def _remove(db: Path, key: str, group: bool) -> None:
    from .. import replay as engine
    from ..collector import Store

    keys = _keys(db, key, group)
    store = Store(db, create=False)
    removed = sum(engine.remove_label(store, one) for one in keys)
    if not removed:
        raise LoopscopeError(
            f"{keys[0] if not group else 'the group'} has no label; `loopscope labels` lists them"
        )
    console().print(f"Removed {plural(removed, 'label')}.")


def _import(db: Path, file: Path) -> None:
    from .. import replay as engine
    from ..collector import Folder, Store

    store = Store(db, create=False)
    text = _read(file)
    Folder(store, role="cli").catch_up()
    try:
        done = engine.labels_from_csv(store, text)
    except ImportFileError as error:
        raise ImportFileError(f"{file}: {error}") from None
    parts = [f"{done.added:,} new", f"{done.changed:,} changed", f"{done.unchanged:,} as before"]
    if done.skipped:
        parts.append(f"{done.skipped:,} without a verdict skipped")
    console().print(f"{file}: {', '.join(parts)}.")
    if done.unknown:
        print_note(
            f"{len(done.unknown):,} of the keys have no incident here, such as {done.unknown[0]}; "
            "their labels are kept for when their traces come in"
        )


def _read(file: Path) -> str:
    try:
        if str(file) == "-":
            data = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with file.open("rb") as opened:
                data = opened.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ImportFileError(f"{file}: cannot be read: {error.strerror or error}") from None
    if len(data) > _MOST_BYTES:
        raise ImportFileError(f"{file}: more than {_MOST_BYTES:,} bytes; divide it")
    try:
        wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))  # what spreadsheets call "Unicode text"
        return data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError:
        raise ImportFileError(f"{file}: not UTF-8 text; save it as CSV UTF-8") from None


def _export(db: Path, file: Path, unlabelled: bool) -> None:
    from .. import replay as engine

    with reading(db) as connection:
        text = engine.labels_to_csv(connection, unlabelled=unlabelled)
        count = len(engine.read_labels(connection))
    if str(file) == "-":
        print(text.replace("\r\n", "\n"), end="")  # noqa: T201
        return
    try:
        file.write_text(
            text, encoding="utf-8-sig", newline=""
        )  # the mark tells spreadsheets that it is UTF-8
    except OSError as error:
        raise LoopscopeError(f"{file}: cannot be written: {error.strerror or error}") from error
    console().print(
        f"Wrote {file}: {plural(count, 'label')}" + (" and the incidents without one." if unlabelled else ".")
    )


def labels(
    db: Db,
    weak: Annotated[
        bool,
        typer.Option(
            "--weak",
            help="Instead, what the recording itself suggests of incidents that nobody labelled, and why; "
            "and how often people agree with each rule.",
        ),
    ] = False,
    service: Service = None,
    agent: Agent = None,
    tool: Tool = None,
    model: Model = None,
    run: Run = None,
    since: Since = None,
    until: Until = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """List the labels. Those whose incident is no longer found are shown as such, and stay.

    Options that choose calls choose labels by their incidents; labels without one are then left out.
    """
    filters = filters_of(service, agent, tool, model, run, since, until)
    if weak:
        _list_weak(db, format, filters)
    else:
        _list(db, format, filters)


def _list(db: Path, format: Format, filters: Filters) -> None:
    from .. import replay as engine

    with reading(db) as connection:
        said = engine.read_labels(connection)
        found = engine.find_incidents(connection, filters)
    incidents = {one.key: one for one in found if one.key in said}
    if filters != engine.Filters():
        said = {key: one for key, one in said.items() if key in incidents}
    rows: list[dict[str, Any]] = [
        {
            "key": one.key,
            "verdict": one.verdict.value,
            "note": one.note,
            "labelled_ns": one.labelled_ns,
            "incident": one.key in incidents,
            **_context(incidents.get(one.key)),
        }
        for one in said.values()
    ]
    if format is Format.JSON:
        print_json({"schema_version": engine.SCHEMA_VERSION, "labels": rows})
        return
    if format is Format.CSV:
        print_csv(("key", "verdict", "note", "labelled_ns", "incident", *_CONTEXT), rows)
        return
    if not rows:
        console().print(
            "No labels. `loopscope incidents` lists what can be labelled: loopscope label KEY VERDICT"
        )
        return
    for row in rows:
        row["short_key"] = row["key"][:_SHORT_KEY] if row["incident"] else row["key"]
        row["kind"] = row["kind"] if row["incident"] else "(no incident)"
    print_table(
        {
            "short_key": "key",
            "verdict": "verdict",
            "kind": "incident",
            "agent_name": "agent",
            "tool_name": "tool",
            "calls": "calls",
            "note": "note",
        },
        rows,
        optional=("agent_name", "calls"),
    )
    gone = sum(not row["incident"] for row in rows)
    if gone:
        console().print(
            f"{gone:,} without an incident: its traces were pruned, or are not in this database. "
            "The labels stay.",
            style="dim",
        )


_CONTEXT = ("kind", "agent_name", "tool_name", "calls", "first_ns", "run_id", "group")


def _context(incident: Any) -> dict[str, Any]:
    if incident is None:
        return dict.fromkeys(_CONTEXT)
    return {
        "kind": incident.kind.value,
        "agent_name": incident.agent_name or incident.service_name,
        "tool_name": incident.tool_name,
        "calls": incident.calls,
        "first_ns": incident.first_ns,
        "run_id": incident.run_id,
        "group": incident.group,
    }


def _list_weak(db: Path, format: Format, filters: Filters) -> None:
    from .. import replay as engine

    with reading(db) as connection:
        said = engine.read_labels(connection)
        offered = [one for one in engine.weak_labels(connection, filters) if one.key not in said]
        agreement = engine.weak_agreement(connection, filters)
        incidents = {one.key: one for one in engine.find_incidents(connection)}
    rows = [{**one.to_json(), **_context(incidents.get(one.key))} for one in offered]
    if format is Format.JSON:
        print_json(
            {
                "schema_version": engine.SCHEMA_VERSION,
                "weak_labels": rows,
                "agreement": [one.to_json() for one in agreement],
            }
        )
        return
    if format is Format.CSV:
        print_csv(("key", "verdict", "rule", "evidence", *_CONTEXT), rows)
        return
    out = console()
    if rows:
        for row in rows:
            row["short_key"] = row["key"][:_SHORT_KEY]
        print_table(
            {
                "short_key": "key",
                "verdict": "perhaps",
                "tool_name": "tool",
                "calls": "calls",
                "rule": "rule",
                "evidence": "evidence",
            },
            rows,
            title="Weak labels: what the recording suggests. None of them is stored.",
            width=160,
            optional=("calls", "rule"),
            wrap=True,
        )
    else:
        out.print("No weak labels: the recording suggests nothing of incidents that nobody labelled.")
    measured = [one for one in agreement if one.agree.n or one.unsure]
    if measured:
        print_table(
            {"rule": "rule", "says": "says", "agree": "people agree", "side": "loop or not agrees"},
            [
                {
                    "rule": one.rule,
                    "says": one.verdict.value,
                    "agree": share(one.agree),
                    "side": share(one.same_side),
                }
                for one in measured
            ],
            title="Where people labelled as well",
        )
