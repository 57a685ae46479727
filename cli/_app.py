"""The command tree, and how a failure becomes one line and an exit code.

Exit codes: 0 done, 1 something was found (`check`, `doctor`, `lint`, `sanitize --check`), 2 bad input or
a refusal (one line on stderr says what, where, what to do), 70 a bug in Loopscope, 130 interrupted.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import version as distribution_version

import typer

from ..guard import LoopscopeError
from . import (
    _analysis,
    _check,
    _demo,
    _doctor,
    _export,
    _import,
    _label,
    _messages,
    _policy,
    _prune,
    _query,
    _report,
    _requests,
    _rules,
    _score,
    _serve,
    _suggest,
)
from ._output import one_line, print_error

__all__ = ["app", "main"]

app = typer.Typer(
    name="loopscope",
    help="See where LLM agents go round in circles, and tune the guard that stops them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command("demo")(_demo.demo)
app.command("serve")(_serve.serve)
app.command("import")(_import.import_)
app.command("replay")(_analysis.replay)
app.command("sweep")(_analysis.sweep)
app.command("rules")(_rules.rules)
app.command("incidents")(_analysis.incidents)
app.command("errors")(_analysis.errors)
app.command("label")(_label.label)
app.command("labels")(_label.labels)
app.command("score")(_score.score)
app.command("suggest")(_suggest.suggest)
app.command("requests")(_requests.requests)
app.command("report")(_report.report)
app.command("check")(_check.check)
app.command("sanitize")(_messages.sanitize)
app.command("lint")(_messages.lint)
app.command("query")(_query.query)
app.command("prune")(_prune.prune)
app.command("doctor")(_doctor.doctor)
app.add_typer(_policy.commands, name="policy")
app.add_typer(_export.commands, name="export")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"loopscope {distribution_version('loopscope')}")  # noqa: T201
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(
        False, "--version", help="Print the version and exit.", callback=_print_version, is_eager=True
    ),
) -> None:
    """See where LLM agents go round in circles, and tune the guard that stops them."""


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code. Never lets a traceback out."""
    _ready_streams()
    try:
        code = _run(args)
        sys.stdout.flush()  # else what cannot be written is found out only when the process is gone
    except BrokenPipeError:
        return _say_no_more()
    except OSError as error:
        if not _is_of_output(error):
            return _report_unexpected(error)
        print_error(f"the output cannot be written: {error.strerror}; write it to another place")
        _say_no_more()
        return 2
    return code


def _ready_streams() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Half of a pair of surrogates, left where a text was cut, goes out as its escape.
            stream.reconfigure(errors="backslashreplace")
    # Python leaves None for a stream that was closed before the start (`>&-`).
    if sys.stdout is None:
        sys.stdout = _Closed()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


class _Closed(io.TextIOBase):
    """A standard output that was closed: a command may run that writes nothing to it."""

    encoding = "utf-8"

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        raise OSError(errno.EBADF, "standard output is closed")


# A full disk, a quota, a failing device, a closed descriptor.
_OUTPUT_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})


def _is_of_output(error: OSError) -> bool:
    """Did writing to a stream fail, and not a call that names a file?"""
    return error.errno in _OUTPUT_ERRORS and error.filename is None


def _run(args: Sequence[str] | None) -> int:
    try:
        code = app(args=list(sys.argv[1:] if args is None else args), standalone_mode=False)
    except LoopscopeError as error:
        print_error(str(error))
        return 2
    except (KeyboardInterrupt, typer.Abort):
        print_error("interrupted")
        return 130
    except OSError as error:
        if isinstance(error, BrokenPipeError) or _is_of_output(error):
            raise
        return _report_unexpected(error)
    except SystemExit as done:  # click and rich make one of a broken pipe
        if isinstance(done.__context__, BrokenPipeError):
            return _say_no_more()
        raise
    except typer.Exit as done:
        return done.exit_code
    except Exception as error:  # noqa: BLE001
        return _report_unexpected(error)
    return code if isinstance(code, int) else 0


def _say_no_more() -> int:
    """The reader of our output went away (`loopscope … | head`): nothing left to say."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    return 0


def _report_unexpected(error: Exception) -> int:
    usage = getattr(error, "format_message", None)
    if callable(usage):  # typer's own family: a wrong option, a missing argument
        context = getattr(error, "ctx", None)
        where = f" (see {context.command_path} --help)" if context is not None else ""
        if type(error).__name__ == "NoArgsIsHelpError":  # `loopscope` alone asks for the help
            print(usage())  # noqa: T201
            return 0
        text = one_line(str(usage()))
        print_error(text.rstrip(".") + where)
        return 2
    if os.environ.get("LOOPSCOPE_DEBUG"):
        traceback.print_exc()
    print_error(
        f"unexpected {type(error).__name__}: {one_line(str(error))} — this is a bug in Loopscope; "
        "set LOOPSCOPE_DEBUG=1 to see where, and please report it"
    )
    return 70
