"""The rules."""
from ._exceptions import *  # noqa: F403
