"""`loopscope policy`: make, read and compare policy files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..guard import GuardPolicy, LoopscopeError
from . import _policy_diff, _policy_test
from ._output import console, plain

__all__ = ["commands"]

commands = typer.Typer(
    help="Make, read and compare policy files.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

_File = Annotated[Path, typer.Argument(help="A policy file (TOML).", metavar="FILE")]


@commands.command("init")
def init(
    file: Annotated[Path, typer.Argument(help="File to write.", metavar="FILE")] = Path("policy.toml"),
    force: Annotated[bool, typer.Option("--force", help="Write over an existing file.")] = False,
) -> None:
    """Write the default policy to a file, to be edited."""
    if file.exists() and not force:
        raise LoopscopeError(f"{file} is there already; --force writes over it")
    GuardPolicy().to_file(file)
    console().print(f"Wrote {file}. docs/policy.md explains each line.")


@commands.command("show")
def show(file: _File) -> None:
    """Read a policy file, check it, and say in words how it differs from the default."""
    policy = GuardPolicy.from_file(file)
    print(plain(policy.to_toml()).rstrip())  # noqa: T201
    print()  # noqa: T201
    _policy_diff.print_changes(GuardPolicy(), policy, same="This is the default policy.")


commands.command("diff")(_policy_diff.diff)
commands.command("test")(_policy_test.run_tests)
