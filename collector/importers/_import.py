"""`import_paths`: files to spool segments to the store."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from ...guard import ImportFileError, StoreBusyError, StoreError
from .._fold import fold
from .._redact_rules import RedactionRules, Redactor, redactor
from .._spool import Spool
from .._store import FOLDING_MEMORY, Store
from ._chats import conversations
from ._conversations import conversation_parts
from ._counts import count_traces, fingerprints
from ._detect import FORMATS as PLAIN_FORMATS
from ._detect import classify, container_of, is_message, looks_meant, not_a_trace
from ._eval_archive import eval_parts
from ._files import ByteSource, Candidate, find_files
from ._json_stream import JsonValue, json_values
from ._otlp import Part, json_parts, proto_parts
from ._parquet import parquet_values
from ._registry import FORMATS, json_format, recognise
from ._report import (
    FileReport,
    FormatError,
    ImportReport,
    NotATraceError,
    SkipList,
    Skipped,
    printable,
)
from ._stage import Stage
from ._zip import Archive
from .sessions import session_format, tell_lines, tell_values

__all__ = ["Progress", "import_paths"]

Progress = Callable[[int, int, Path], None]

_HEAD = 4096
# How far to look for what tells whose messages they are, in characters and in messages.
_LOOK_AHEAD = 4 << 20
_LOOK_AHEAD_VALUES = 500
# Good files wait together for their turn on the database, since each turn costs it being opened.
_BATCH_BYTES = 64 << 20
_BATCH_FILES = 100
# How long to wait for another process that is folding what was written here.
_FOLD_SECONDS = 600.0


def import_paths(
    db_path: str | os.PathLike[str],
    paths: Sequence[str | os.PathLike[str]],
    *,
    format: str = "auto",
    progress: Progress | None = None,
    capture_content: bool | None = None,
    redaction: RedactionRules | None = None,
) -> ImportReport:
    """Bring trace files and chat transcripts into a database.

    Args:
        db_path: the database; made if absent and anything comes in.
        paths: files, and folders that are searched for files which could be traces.
        format: "auto", or one of `FORMATS` to read every file as that.
        progress: called with (bytes read, bytes in all, the file being read); then, while what was read is
            brought into the database, with (bytes stored, bytes in all, the database).
        capture_content: False leaves out arguments, results and messages before anything is written;
            None asks the environment variable LOOPSCOPE_CAPTURE_CONTENT.
        redaction: values to replace before anything is written; None asks LOOPSCOPE_REDACT and its relatives.

    A file comes in whole or not at all; one that cannot be imported is a FileReport with `error` set and
    does not keep the others out. Importing again changes nothing in the store.

    Raises:
        ImportFileError: no such format.
        StoreError: the database cannot be used. SpoolError: the spool cannot be written, the disk is full.
    """
    if format != "auto" and format not in FORMATS:
        raise ImportFileError(f"no such format: {format!r}; there are auto, {', '.join(FORMATS)}")
    importer = _Importer(Path(db_path), format, progress, redactor(capture_content, redaction))
    return importer.run([Path(path) for path in paths])


class _Importer:
    def __init__(
        self, db_path: Path, format: str, progress: Progress | None, redact: Redactor | None
    ) -> None:
        self._format = format
        self._progress = progress
        self._redact = redact
        self._store = Store(db_path, memory=FOLDING_MEMORY)
        self._spool = Spool(db_path)
        self._folder = db_path.absolute().parent
        if not self._folder.is_dir():
            raise StoreError(f"cannot make the database {db_path}: there is no folder {self._folder}")
        if db_path.exists():
            with self._store.lease():  # a database that cannot be used is said at once
                pass
        self._report = ImportReport()
        self._batch: list[tuple[int, Stage]] = []
        self._before: dict[int, str] = {}
        self._stored: dict[int, Stage] = {}  # staged data is gone; what it counted stays
        self._segments: dict[str, tuple[int, int]] = {}  # name: number of the file, bytes
        self._bytes_done = 0
        self._bytes_total = 0

    def run(self, paths: Sequence[Path]) -> ImportReport:
        found = [(path, self._find(path)) for path in paths]
        self._bytes_total = sum(file.size for _, files in found for file in files or ())
        seen: set[str] = set()
        try:
            for path, files in found:
                if files is not None:
                    self._files_of(path, files, seen)
            self._publish()
        finally:
            for _, stage in self._batch:
                stage.close()
        if self._stored:
            self._fold()
            self._count()
        return self._report

    def _find(self, path: Path) -> list[Candidate] | None:
        try:
            return list(find_files(path, leave_out=lambda folder: folder.name.endswith(".spool")))
        except FormatError as error:
            self._report.files.append(FileReport(path=path, error=error.for_path(path)))
            return None

    def _files_of(self, path: Path, files: list[Candidate], seen: set[str]) -> None:
        any_trace = False
        for file in files:
            identity = os.path.realpath(file.path)
            if identity not in seen:
                seen.add(identity)
                any_trace |= self._file(file)
                self._bytes_done += file.size
            else:
                any_trace = True
        if not any_trace:
            looked = f"{len(files)} looked at" if files else "no file that could be one"
            error = FormatError(
                f"no trace file and no transcript in this folder ({looked})",
                hint="name a file, or see which formats can be imported",
            )
            self._report.files.append(FileReport(path=path, error=error.for_path(path)))

    def _file(self, file: Candidate) -> bool:
        """Import one file; False if it is no trace and nobody said it was."""
        report = FileReport(path=file.path)
        skipped = SkipList()
        stage = Stage(self._folder, self._redact)
        try:
            try:
                with ByteSource(file.path, self._on_progress(file.path)) as source:
                    for part in _parts(source, self._format, report, skipped):
                        stage.add(part)
                stage.finish()
            except RecursionError:
                raise FormatError("nested too deeply to be read") from None
        except FormatError as error:
            stage.close()
            if isinstance(error, NotATraceError) and not file.named:
                self._report.skipped.append(Skipped(printable(str(file.path)), error.what))
                return False
            report.error = error.for_path(file.path)
            self._report.files.append(report)
            return True
        except BaseException:
            stage.close()
            raise
        report.skipped = list(skipped)
        report.spans, report.logs = stage.spans, stage.logs
        report.trace_ids = frozenset(trace.hex() for trace in stage.trace_ids)
        self._batch.append((len(self._report.files), stage))
        self._report.files.append(report)
        if sum(s.size for _, s in self._batch) >= _BATCH_BYTES or len(self._batch) >= _BATCH_FILES:
            self._publish()
        return True

    def _on_progress(self, path: Path) -> Callable[[int], None] | None:
        progress = self._progress
        if progress is None:
            return None
        return lambda done: progress(self._bytes_done + done, self._bytes_total, path)

    def _publish(self) -> None:
        """Hand what is staged to the spool: from here on it is durable and visible."""
        filled = {number: stage for number, stage in self._batch if stage.size}
        if filled:
            traces = {number: stage.trace_ids for number, stage in filled.items()}
            self._before |= fingerprints(self._store, traces)
        for number, stage in self._batch:
            self._write(number, stage)
            stage.close()
            if number in filled:
                self._stored[number] = stage
        self._batch.clear()

    def _write(self, number: int, stage: Stage) -> None:
        written: list[Path] = []
        report = self._report.files[number]
        meta = {"source": "import", "file": report.path.name[:200]}
        try:
            for portion in stage.segments():
                written.append(self._spool.write(portion, meta=meta))
                self._segments[written[-1].name] = (number, sum(len(data) for _, data in portion))
        except BaseException:  # the disk is full, or the user had enough: as little as possible stays of it
            for path in written:
                self._spool.remove(path)
            raise

    def _fold(self) -> None:
        deadline = time.monotonic() + _FOLD_SECONDS
        while True:
            fold(self._store, self._spool, stop=self._tell_folded)
            if not self._waiting():
                break
            if time.monotonic() > deadline:
                raise StoreBusyError(
                    f"another process is still bringing the import into {self._store.path};"
                    " what was imported is safe in the spool and will appear",
                    path=str(self._store.path),
                )
            time.sleep(0.2)
        self._tell_folded()
        for name, reason in self._spool.quarantined():
            if name in self._segments:
                report = self._report.files[self._segments[name][0]]
                report.error = ImportFileError(
                    f"{report.path}: a part of it could not be stored and was set aside: {reason}",
                    path=str(report.path),
                )

    def _waiting(self) -> int:
        """Bytes of this import that are not in the database yet."""
        pending = {path.name for path in self._spool.pending()}
        return sum(size for name, (_, size) in self._segments.items() if name in pending)

    def _tell_folded(self) -> bool:
        if self._progress is not None:
            total = sum(size for _, size in self._segments.values())
            self._progress(total - self._waiting(), total, self._store.path)
        return False  # the answer to "stop?"

    def _count(self) -> None:
        files = {number: stage.trace_ids for number, stage in self._stored.items()}
        everything = set().union(*files.values())
        after = fingerprints(self._store, files)
        with self._store.lease() as con:
            counts = count_traces(con, files | {-1: everything})
        totals = self._report.totals
        totals.runs, totals.calls, totals.requests = counts.get(-1, (0, 0, 0))
        for number in self._stored:
            report = self._report.files[number]
            report.runs, report.calls, report.requests = counts.get(number, (0, 0, 0))
            report.already_there = number in after and self._before.get(number) == after[number]
            totals.spans += report.spans
            totals.logs += report.logs


def _parts(source: ByteSource, format: str, report: FileReport, skipped: SkipList) -> Iterator[Part]:
    """Requests of one file. Sets `report.format` as soon as it is known."""
    head = source.peek(_HEAD)
    if not head:
        raise NotATraceError("the file is empty")
    container = container_of(head)
    if container in ("zip", "parquet"):
        yield from _archive_parts(source, container, format, report, skipped)
        return
    lines = tell_lines(source.peek, session_format(format))
    if lines is not None and (format == "auto" or lines is session_format(format)):
        report.format = lines.name
        yield from lines.of_lines(source.read, skipped, source.path)
        return
    if format == "otlp-proto" or (format == "auto" and container == "binary"):
        for part in proto_parts(source.read, skipped):
            report.format = "otlp-proto"
            yield part
        if report.format is None:
            raise NotATraceError("OTLP protobuf without a single span or log record")
        return
    if container == "binary":
        raise NotATraceError("this is not JSON", hint="leave --format out to have it recognised")
    yield from _json_parts(json_values(source.read), head, format, report, skipped)


def _archive_parts(
    source: ByteSource, container: str, format: str, report: FileReport, skipped: SkipList
) -> Iterator[Part]:
    """Requests of a file that is read from its end: an archive of Inspect's, or a Parquet file of rows."""
    raw = source.seekable()
    if container == "parquet":
        rows = parquet_values(raw, source.size, source.on_progress)
        yield from _json_parts(rows, b"", format, report, skipped)
        return
    if format not in ("auto", "inspect"):
        raise NotATraceError(f"read as {format}, but it is a zip archive")
    yield from eval_parts(Archive(raw, source.size, source.on_progress), report, skipped)


def _json_parts(
    values: Iterator[JsonValue], head: bytes, format: str, report: FileReport, skipped: SkipList
) -> Iterator[Part]:
    session = session_format(format)
    try:
        # Collectors write an empty request now and then; the first one with content says what this is.
        first = next((item for item in values if item.value != {}), None)
    except FormatError as error:
        if looks_meant(head):
            raise
        raise NotATraceError(error.what, where=error.where, hint=error.hint) from None
    if first is None:
        raise NotATraceError("nothing but empty lists and objects")
    ahead, values = _look_ahead(first, values)
    found = recognise(first.value)
    if format == "auto" and found in (None, "openai-chat"):
        session = tell_values([item.value for item in ahead])
    if session is not None:
        report.format = session.name
        yield from session.of_values(values, skipped)
        return
    if format == "auto":
        if found is None:
            raise NotATraceError(not_a_trace(first.value))
        format = found
    elif not _readable_as(format, found, first.value):
        what = f"looks like {found}" if found else not_a_trace(first.value)
        raise NotATraceError(f"read as {format}, but it {what}" if found else what)
    report.format = format
    if (own := json_format(format)) is not None:
        yield from own.parts(values, skipped)
    elif format == "otlp-json":
        yield from json_parts(values, skipped)
    else:
        yield from _chat_parts(_of_one_kind(values, found or format), format, skipped)


def _look_ahead(first: JsonValue, values: Iterator[JsonValue]) -> tuple[list[JsonValue], Iterator[JsonValue]]:
    """The first values of a file, more than one where they are single messages; and all of them again."""
    ahead = [first]
    size = first.size
    error: FormatError | None = None
    while is_message(first.value) and size < _LOOK_AHEAD and len(ahead) < _LOOK_AHEAD_VALUES:
        try:
            item = next(values, None)
        except FormatError as found:
            error = found
            break
        if item is None or item.array != first.array:
            values = chain([item] if item else [], values)
            break
        ahead.append(item)
        size += item.size

    def again() -> Iterator[JsonValue]:
        yield from ahead
        if error is not None:
            raise error
        yield from values

    return ahead, again()


def _readable_as(format: str, found: str | None, value: Any) -> bool:
    """Whether a file that looks like `found` can be read as the format that the user named."""
    own = json_format(format)
    if own is not None:
        return own.matches(value)
    # A chat with the marks of a benchmark can be read as any chat.
    chats = {name for name in PLAIN_FORMATS if not name.startswith("otlp-")}
    return found == format or (found in chats and format in chats)


def _of_one_kind(values: Iterable[JsonValue], kind: str) -> Iterator[JsonValue]:
    for item in values:
        found = classify(item.value)
        if found != kind:
            what = f"{found} in a file of {kind}" if found else not_a_trace(item.value)
            raise FormatError(what, where=item.where)
        yield item


def _chat_parts(values: Iterable[JsonValue], dialect: str, skipped: SkipList) -> Iterator[Part]:
    return conversation_parts(conversations(values, dialect, skipped), skipped)
