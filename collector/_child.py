"""A workbench in a process of its own, for a server with much to fold.

Decoding and deriving are Python and would compete with the server's pages and receiver for one interpreter.
The child reads segments and answers with Arrow tables; it never opens the database. It ends when its parent
does.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..guard import LoopscopeError, StoreError
from ._agent_child import import_paths
from ._batch import Decoders
from ._build import Changes, Limits, Outline, Plan, Refused, Workbench, named
from ._no_pandas import leave_out_pandas
from ._spool import Spool
from ._stored import Stored
from ._talk import Talk

__all__ = ["ChildBench", "main"]

_BUSY_SECONDS = 5.0  # that a child has for what it is doing when its parent closes,
_IDLE_SECONDS = 60.0  # and for ending, where it does nothing: milliseconds, but on a very busy machine


class ChildBench:
    """Speaks to a `Workbench` in a child process. To be used by one thread at a time.

    Every method raises StoreError if the child died; make a new one then.
    """

    def __init__(self, db_path: str | os.PathLike[str]) -> None:
        ours, theirs = socket.socketpair()
        # Not multiprocessing: it would run the server's main script again.
        command = [sys.executable, "-m", __name__, str(theirs.fileno()), os.fspath(db_path)]
        environment = {**os.environ, **import_paths()}
        try:
            self._process = subprocess.Popen(  # noqa: S603
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=environment
            )
        except OSError as error:
            ours.close()
            raise StoreError(f"cannot start a process that decodes spans: {error.strerror}") from error
        finally:
            theirs.close()
        self._talk = Talk(ours)
        self._sent = 0
        self._expected: list[int] = []  # numbers of questions that are not answered yet
        self._answers: dict[int, tuple[bool, Any]] = {}
        self._asked = 0
        self._finished: set[str] = set()  # since the last question

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    def ask(self, limits: Limits) -> None:
        """Have the next batch taken, meanwhile."""
        self._asked = self._send("take", limits)

    def taken(self) -> Outline:
        """The batch that was asked for."""
        return self._answer(self._asked)

    def build(self, number: int, plan: Plan, stored: Stored, taken: dict[int, int]) -> Changes:
        """As `Workbench.build`."""
        return self._answer(self._send("build", number, plan, stored, taken))

    def finish(self, names: set[str]) -> None:
        """As `Workbench.finish`. Said with the next question: its answer would come after deriving."""
        self._finished |= names

    def requeue(self, paths: list[Path]) -> None:
        """As `Workbench.requeue`."""
        self._answer(self._send("requeue", paths))

    def skip(self, path: Path) -> None:
        """As `Workbench.skip`."""
        self._answer(self._send("skip", path))

    def reset(self) -> None:
        """Forget all that was taken; a new fold begins."""
        self._answer(self._send("reset"))

    def close(self) -> None:
        """End the child."""
        patience = _BUSY_SECONDS if self._expected else _IDLE_SECONDS
        self._talk.close()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:  # in the middle of a large batch
            self._process.kill()
            self._process.wait()

    def _send(self, method: str, *arguments: Any) -> int:
        # Both sides writing at once could wait for each other for ever: hear what is to be said first.
        while self._expected:
            self._hear()
        self._sent += 1
        try:
            self._talk.say((self._sent, method, arguments, self._finished))
        except OSError as error:
            raise self._lost() from error
        self._finished = set()
        self._expected.append(self._sent)
        return self._sent

    def _answer(self, number: int) -> Any:
        while number not in self._answers:
            self._hear()
        good, value = self._answers.pop(number)
        if good:
            return value
        raise value

    def _hear(self) -> None:
        try:
            number, good, value = self._talk.heard()
        except (OSError, EOFError) as error:
            raise self._lost() from error
        self._expected.remove(number)
        self._answers[number] = (good, value)

    def _lost(self) -> StoreError:
        self.close()
        code = self._process.returncode
        return StoreError(
            f"the process that decodes spans (PID {self.pid}) ended with code {code}; its work is redone"
        )


def main(descriptor: int, db_path: str) -> None:
    """The child: answer until the parent is gone."""
    leave_out_pandas()
    from ._derive import derive_trace
    from ._otlp import decode_logs, decode_traces

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole terminal; the parent decides
    # Two batches are a hundred thousand objects without cycles: looking through them took 3 µs a span.
    # Only what is left over of batches that are gone can add up to so many.
    gc.freeze()
    gc.set_threshold(300_000, 20, 20)
    talk = Talk(socket.socket(fileno=descriptor))
    spool = Spool(db_path)
    decoders = Decoders(decode_traces, decode_logs)
    bench = Workbench(spool, derive_trace, decoders)
    while True:
        try:
            number, method, arguments, finished = talk.heard()
        except (EOFError, OSError):
            return
        try:
            bench.finish(finished)
            if method == "reset":
                bench = Workbench(spool, derive_trace, decoders)
                answer = (number, True, None)
            else:
                answer = (number, True, getattr(bench, method)(*arguments))
        except (LoopscopeError, Refused, OSError) as error:
            answer = (number, False, error)
        except Exception as error:  # noqa: BLE001
            answer = (number, False, StoreError(f"decoding spans failed: {named(error)}"))
        try:
            talk.say(answer)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            talk.say((number, False, StoreError(f"decoding spans failed: {named(error)}")))
        except OSError:
            return
        if method == "take":
            # The parent is still writing the batch before, and asks the database about this one after that.
            with suppress(Exception):  # what cannot be derived now says why when it has to be
                bench.derive_ahead()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
