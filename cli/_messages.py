"""`loopscope sanitize` and `loopscope lint`: one message history out of a file."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..guard import LoopscopeError
from ._history_file import History, as_json, read_histories, where, write_documents
from ._options import Format, FormatOption
from ._output import console, print_csv, print_json, print_note, print_table

if TYPE_CHECKING:
    from ..guard import ProviderRules, Repair, SanitizeResult
    from ..guard.messages import MessageFormat

__all__ = ["known_provider", "lint", "sanitize"]

_MAKERS = {"openai-chat": "openai", "bedrock-converse": "bedrock"}  # others are named like their format

Source = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="A JSON file, or - for standard input: a list of messages, or a request's body with messages, "
        "input or contents; or JSON Lines, with one of these or one message a line.",
    ),
]
MessageFormatOption = Annotated[
    str | None,
    typer.Option(
        "--message-format",
        help="openai-chat, openai-responses, anthropic, gemini or bedrock-converse. Not given: recognised.",
    ),
]
Pending = Annotated[
    list[str] | None,
    typer.Option("--pending", metavar="ID", help="A call that still runs: it needs no result. Repeatable."),
]
Model = Annotated[
    str | None,
    typer.Option(
        help="The model that it goes to: some rules differ by model, behind a gateway it tells whose hold."
    ),
]


def sanitize(
    source: Source,
    provider: Annotated[
        str | None, typer.Option(help="Also repair what only this provider refuses, e.g. deepseek.")
    ] = None,
    model: Model = None,
    message_format: MessageFormatOption = None,
    pending: Pending = None,
    reload: Annotated[
        bool,
        typer.Option(
            "--reload",
            help="Repair a saved session: also merge turns and drop unanswered calls. With --provider or "
            "--model what comes of that is sanitized for it.",
        ),
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the repaired history here.")
    ] = None,
    report: Annotated[
        bool, typer.Option("--report", help="Print the list of repairs in place of the history.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Exit with 1 where a repair is needed. Prints no history; -o still writes it."
        ),
    ] = False,
    format: FormatOption = Format.TABLE,
) -> None:
    """Repair a message history: pair calls with results, drop doubles, mend what a provider would refuse.

    Prints the repaired history in the shape in which it came, and says on stderr what was changed.
    """
    known_format = _known_format(message_format)
    known_provider(provider, model)
    rows: list[dict[str, Any]] = []
    documents: list[Any] = []
    lines = flat = False
    still: set[str] = set()
    for history in read_histories(source):
        lines = lines or history.line is not None
        options: dict[str, Any] = {"format": known_format}
        if pending:
            options["pending_call_ids"] = tuple(pending)
        if history.previous_response_id:
            options["previous_response_id"] = history.previous_response_id
        try:
            rules = _rules_of(history, provider, model, known_format)
            done, repairs = _repaired(history.messages, reload, rules, options)
        except ValueError as error:
            raise LoopscopeError(f"{where(source, history)}: {error}") from None
        if history.spread:
            documents.extend(done.messages)
        else:
            documents.append(history.with_messages(done.messages))
        flat = flat or history.spread or history.flat
        if rules is None:
            still |= _still_refused(done.messages, known_format, options)
        for one in repairs:
            rows.append(
                {
                    "line": history.line,
                    "message": one.message_index,
                    "repair": str(one.kind),
                    "call_id": one.call_id,
                    "detail": one.detail,
                }
            )
    if output is not None:
        write_documents(output, documents, lines or flat)
    if report:
        _print_findings(rows, "repairs", lines, format, "Nothing to repair.")
    else:
        for row in rows:
            place = f"line {row['line']}, " if lines else ""
            print_note(f"{place}message {row['message']}: {row['repair']}: {row['detail']}")
        if not rows:
            print_note("nothing to repair")
        if output is None and not check:
            sys.stdout.write(as_json(documents, lines or flat))
    for name in sorted(still):
        print_note(f"{name} would still refuse this: give --provider {name}")
    if check and rows:
        raise typer.Exit(1)


def lint(
    source: Source,
    provider: Annotated[
        str | None,
        typer.Option(
            help="The provider that the history goes to. Not given: the model's, else all of its format."
        ),
    ] = None,
    model: Model = None,
    message_format: MessageFormatOption = None,
    pending: Pending = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """Say which rules of a provider a message history breaks, before the provider answers HTTP 400.

    Exit code 0: none; 1: at least one; 2: bad input.
    """
    from .. import guard

    known_format = _known_format(message_format)
    known_provider(provider, model)
    rows: list[dict[str, Any]] = []
    lines = False
    for history in read_histories(source):
        lines = lines or history.line is not None
        try:
            named = known_format or guard.detect_format(history.messages)
            rules = _rules_of(history, provider, model, named)
            asked = guard.PROVIDERS if rules is None else {provider or rules.name: rules}
            for name in sorted(asked):
                if rules is None and named not in asked[name].formats:
                    continue
                for one in guard.lint_messages(
                    history.messages,
                    asked[name],
                    named,
                    pending_call_ids=tuple(pending or ()),
                    previous_response_id=history.previous_response_id,
                ):
                    rows.append(
                        {
                            "line": history.line,
                            "message": one.message_index,
                            "class": str(one.error_class),
                            "rule": one.rule,
                            "provider": name,
                            "call_id": one.call_id,
                            "detail": one.detail,
                        }
                    )
        except ValueError as error:
            raise LoopscopeError(f"{where(source, history)}: {error}") from None
    who = f"of {provider or model}" if provider or model else "of any provider of this format"
    _print_findings(_merged(rows), "violations", lines, format, f"Clean: breaks no known rule {who}.")
    if rows:
        raise typer.Exit(1)


def _rules_of(
    history: History, provider: str | None, model: str | None, form: MessageFormat | None
) -> ProviderRules | None:
    """Whose rules hold for a history; None where neither provider nor model is given."""
    from .. import guard

    if not provider and not model:
        return None
    return guard.provider_rules(provider, model=model, format=form or guard.detect_format(history.messages))


def _repaired(
    messages: list[Any], reload: bool, rules: ProviderRules | None, options: dict[str, Any]
) -> tuple[SanitizeResult, list[Repair]]:
    """The repaired history, and the repairs at their messages of the input."""
    from .. import guard

    if not reload:
        done = guard.sanitize_messages(messages, provider=rules, **options)
        return done, list(done.repairs)
    loaded = guard.repair_messages(messages, **options)
    if rules is None:
        return loaded, list(loaded.repairs)
    done = guard.sanitize_messages(loaded.messages, provider=rules, **{**options, "format": loaded.format})
    places: list[int] = []  # of the loaded messages, in the input; one that was made stands at that before it
    for at, origin in enumerate(loaded.origins):
        place = min(loaded.sources[at], default=None) if loaded.sources else origin
        places.append(place if place is not None else places[-1] if places else 0)
    return done, [
        *loaded.repairs,
        *(replace(one, message_index=places[one.message_index]) for one in done.repairs),
    ]


def _still_refused(
    messages: list[Any], known_format: MessageFormat | None, options: dict[str, Any]
) -> set[str]:
    """The maker of the format, if a history repaired for no provider still breaks a rule of its."""
    from .. import guard

    named = known_format or guard.detect_format(messages)
    maker = _MAKERS.get(named, named)
    given = {key: value for key, value in options.items() if key != "format"}
    return {maker} if guard.lint_messages(messages, maker, named, **given) else set()


def _merged(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for what several providers refuse alike."""
    found: dict[tuple[object, ...], dict[str, Any]] = {}
    for row in rows:
        key = tuple(value for name, value in row.items() if name != "provider")
        known = found.setdefault(key, {**row, "provider": []})
        known["provider"].append(row["provider"])
    merged = sorted(found.values(), key=lambda row: (row["line"] or 0, row["message"]))
    return [{**row, "provider": ", ".join(row["provider"])} for row in merged]


def _few(providers: str) -> str:
    """Of many names two, the makers of formats first: a table has to leave room for the reason."""
    makers = ("openai", "openai-responses", "anthropic", "gemini", "bedrock")
    names = sorted(providers.split(", "), key=lambda name: name not in makers)
    return providers if len(names) <= 2 else f"{', '.join(names[:2])} +{len(names) - 2}"


def _print_findings(rows: list[dict[str, Any]], what: str, lines: bool, format: Format, empty: str) -> None:
    if not lines:
        rows = [{key: value for key, value in row.items() if key != "line"} for row in rows]
    if format is Format.JSON:
        print_json({"schema_version": 1, what: rows})
    elif not rows:
        if format is Format.TABLE:
            console().print(empty)
    elif format is Format.CSV:
        print_csv(list(rows[0]), rows)
    else:
        rows = [{**row, "provider": _few(row["provider"])} if "provider" in row else row for row in rows]
        print_table(
            {key: key.replace("_", " ") for key in rows[0]}, rows, width=300, optional=("rule",), wrap=True
        )


def _known_format(name: str | None) -> MessageFormat | None:
    from ..guard import FORMATS

    for known in FORMATS:
        if name == known:
            return known
    if name is not None:
        raise LoopscopeError(f"--message-format {name!r}: choose one of {', '.join(FORMATS)}")
    return None


def known_provider(name: str | None, model: str | None = None) -> None:
    """LoopscopeError for names given as --provider and --model whose rules are not known."""
    from ..guard import PROVIDERS, provider_rules

    if (name is None and model is None) or provider_rules(name, model=model) is not None:
        return
    known = ", ".join(sorted(PROVIDERS))
    if name is None:
        raise LoopscopeError(f"--model {model!r}: its provider is not known; give --provider, one of {known}")
    gateway = "" if model else "; behind a gateway give --model, too"
    raise LoopscopeError(f"--provider {name!r}: no rules are known; choose one of {known}{gateway}")
