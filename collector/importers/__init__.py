"""Importing what people already have: OTLP files, exports of tracing tools, transcripts, trajectories."""

from ._import import Progress, import_paths
from ._registry import FORMATS
from ._report import Counts, FileReport, ImportReport, Skipped

__all__ = ["FORMATS", "Counts", "FileReport", "ImportReport", "Progress", "Skipped", "import_paths"]
