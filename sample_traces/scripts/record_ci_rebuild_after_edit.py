"""A coding agent builds after every edit. The command is always the same and so is the first error, for a while.

The build stops at the first file that does not compile, so three edits in other files change
nothing in its output. This is work, not a loop: what repeats is the question, and between two
questions the world was changed.
"""

from _model import Call, Say, ScriptedModel
from _traceloop_agent import run_agent, start

recording = start("ci_rebuild_after_edit", service="ci-fixer", version="1.1.0")

UNDEFINED = """[3/9] CC src/flags.c
src/main.c:41:9: error: too few arguments to function 'parse_flags'
ninja: build stopped: subcommand failed. (exit code 1)"""
UNUSED = """[8/9] CC src/report.c
src/report.c:12:6: error: unused variable 'width' [-Werror=unused-variable]
ninja: build stopped: subcommand failed. (exit code 1)"""
builds = iter([UNDEFINED] * 4 + [UNUSED, "[9/9] LINK report\nbuild finished (exit code 0)"])

FILES = {
    "src/flags.h": "int parse_flags(int argc, char **argv, struct options *out);\n",
    "src/main.c": "    if (parse_flags(argc, argv))\n        return usage();\n",
}


def read_file(path: str) -> str:
    """The part of a file around the last error."""
    recording.work(0.01, 0.04)
    return FILES[path]


def edit_file(path: str, old: str, new: str) -> str:
    """Replace a text in a file."""
    recording.work(0.01, 0.04)
    return f"{path}: 1 replacement"


def run_build(target: str) -> str:
    """Build with ninja; stops at the first error."""
    recording.work(0.7, 1.4)
    return next(builds)


def edit(path: str, old: str, new: str) -> Call:
    return Call("edit_file", {"path": path, "old": old, "new": new})


BUILD = Call("run_build", {"target": "all"})
script = [
    BUILD,
    Call("read_file", {"path": "src/flags.h"}),
    edit("src/flags.c", "int parse_flags(int argc, char **argv)", "int parse_flags(int argc, char **argv, struct options *out)"),
    BUILD,
    edit("src/options.h", "struct options;", "struct options { int verbose; };"),
    BUILD,
    edit("tests/flags_test.c", "parse_flags(2, args)", "parse_flags(2, args, &options)"),
    BUILD,
    Call("read_file", {"path": "src/main.c"}),
    edit("src/main.c", "parse_flags(argc, argv)", "parse_flags(argc, argv, &options)"),
    BUILD,
    edit("src/report.c", "    int width = 80;\n", ""),
    BUILD,
    Say("The build passes. parse_flags takes the options now, and an unused variable is gone."),
]
with ScriptedModel({"ci": script}) as model:
    run_agent(
        base_url=model.base_url, script="ci", name="fixer", workflow="fix_build", model="qwen3-coder-30b",
        instructions="You make a broken build pass with small edits.", prompt="The build of branch flags-struct is broken.",
        tools=[read_file, edit_file, run_build], properties={"session_id": "build-8831", "branch": "flags-struct"},
    )
recording.write()
