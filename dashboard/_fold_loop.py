"""The server's folding: what lies in the spool is in the database within a second."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from ..collector import Folder, Spool, Store
from ..guard import LoopscopeError, StoreBusyError

__all__ = ["FoldLoop"]

_logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.25  # listing an empty spool costs 10 µs
_TROUBLE_SECONDS = 2.0


class FoldLoop:
    """Folds in a thread, as long as the `with` block runs."""

    def __init__(self, db_path: Path) -> None:
        self._spool = Spool(db_path)
        self._folder = Folder(Store(db_path))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="loopscope-fold", daemon=True)
        self._said = ""

    def __enter__(self) -> FoldLoop:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(1.0)

    def _run(self) -> None:
        pause = 0.0
        while not self._stop.wait(pause):
            pause = _POLL_SECONDS
            try:
                if self._spool.pending():
                    self._folder.try_fold()
                self._said = ""
            except StoreBusyError as error:
                self._say(str(error))
            except LoopscopeError as error:
                self._say(str(error))
                pause = _TROUBLE_SECONDS
            except Exception:
                _logger.exception("folding failed; it is tried again")
                pause = _TROUBLE_SECONDS

    def _say(self, message: str) -> None:
        """Once per trouble, not at every try."""
        if message != self._said:
            self._said = message
            _logger.warning("%s", message)
