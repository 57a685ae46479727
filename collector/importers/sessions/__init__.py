"""Session files of agents, and transcripts of the APIs that they talk to."""

from ._formats import SESSION_FORMATS, SessionFormat, session_format, tell_lines, tell_values

__all__ = ["SESSION_FORMATS", "SessionFormat", "session_format", "tell_lines", "tell_values"]
