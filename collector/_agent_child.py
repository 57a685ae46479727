"""A short-lived process that folds for an agent.

Folding is several times the work of recording. In the agent's own process it would take the interpreter from
the agent's threads, load DuckDB there, and stand in the way of a fork.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..guard import LoopscopeError
from ._turns import is_locked

__all__ = ["AgentChild", "NoChildError", "fold_here", "import_paths", "main", "somebody_folds"]

_START_SECONDS = 15.0  # more than Python and DuckDB take to start on a machine with ten times too much to do
_LEAST_SECONDS = 0.1  # that a child waits for the file, however long it took to start


class NoChildError(Exception):
    """No such process can be started here, or it died without a word."""


class AgentChild:
    """Folds the spool of a database in a process of its own.

    Raises:
        NoChildError: the process cannot be started.
    """

    def __init__(self, db_path: Path, seconds: float, *, settle: bool) -> None:
        # Where Python is embedded, `executable` may be the host (a web server); running that again does harm.
        if not Path(sys.executable or "").name.startswith(("python", "pypy")):
            raise NoChildError(sys.executable)
        command = [sys.executable, "-m", __name__, os.fspath(db_path), repr(time.monotonic() + seconds)]
        command.append("settle" if settle else "")
        # An agent that is instrumented from outside must not have its helpers instrumented, too.
        environment = {**os.environ, **import_paths(), "OTEL_SDK_DISABLED": "true"}
        try:
            self._process = subprocess.Popen(  # noqa: S603
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
        except (OSError, RuntimeError) as error:  # RuntimeError: the interpreter is shutting down
            raise NoChildError(str(error)) from error
        self._seconds = seconds

    def stop(self) -> None:
        """Have it end after its present round."""
        self._process.terminate()

    def result(self) -> tuple[bool, str | None]:
        """Whether it was the one to fold, and what went wrong.

        Raises:
            NoChildError: it died, or did not come to an end.
        """
        try:
            said, _ = self._process.communicate(timeout=self._seconds + _START_SECONDS)
            done, trouble = json.loads(said)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            return False, "folding did not come to an end"
        except (ValueError, TypeError) as error:
            raise NoChildError(f"ended with {self._process.returncode}") from error
        return bool(done), trouble


def import_paths() -> dict[str, str]:
    """Variables with which a child imports from where this process does, and from nowhere else.

    Without the second one `python -m` looks first into the working folder: a json.py of somebody's would run.
    """
    paths: list[str] = []
    for path in sys.path:
        with suppress(OSError):  # "" is the working folder, which may be gone
            paths.append(path or os.getcwd())
    return {"PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1"}


def somebody_folds(db_path: Path) -> bool:
    """Whether a process folds into the database now (see `_folder.py`, which is costly to import)."""
    return is_locked(f"{db_path}.lock", fcntl.LOCK_SH)


def fold_here(folder: Any, *, settle: bool) -> tuple[bool, str | None]:
    """Fold in this process: whether it was the one to fold, and what went wrong.

    Nothing is raised: a traceback would keep connections alive in frames that end outside the lock.
    """
    try:
        return folder.try_fold(settle=settle) is not None, None
    except (LoopscopeError, OSError) as error:
        return False, str(error)
    except Exception as error:  # noqa: BLE001  folding is a service to the agent, never its problem
        return False, f"{type(error).__name__}: {error}"


def main(db_path: str, deadline: float, *, settle: bool) -> None:
    """The child: fold until `deadline` (of the clock that all processes share) and say what came of it."""
    from ._no_pandas import leave_out_pandas

    leave_out_pandas()
    from ._folder import Folder
    from ._store import FOLDING_MEMORY, Store

    stopped: list[int] = []
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole terminal; the agent decides
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    store = Store(db_path, timeout=max(deadline - time.monotonic(), _LEAST_SECONDS), memory=FOLDING_MEMORY)
    rounds = itertools.count()  # the first one is not given up, however long it took to get here

    def stop() -> bool:
        return bool(stopped) or (next(rounds) > 0 and time.monotonic() > deadline)

    folder = Folder(store, role="agent", stop=stop)
    sys.stdout.write(json.dumps(fold_here(folder, settle=settle)))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), settle=bool(sys.argv[3]))
