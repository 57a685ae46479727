"""Helper processes do without pandas.

pyarrow imports it, where it is installed, when the first array is made, to be able to tell whether that is
made of pandas objects: 0.2 s of the processor for every process that folds for an agent.
"""

from __future__ import annotations

import sys

__all__ = ["leave_out_pandas"]


class _Refusal:
    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is left out here", name=name)


def leave_out_pandas() -> None:
    """For this process: as if pandas were not installed."""
    sys.meta_path.insert(0, _Refusal())  # pyright: ignore[reportArgumentType]  find_spec is all that is asked for
