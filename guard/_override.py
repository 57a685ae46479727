"""The reasoned override: a call that was made before runs again only for a new reason."""

from __future__ import annotations

import os
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from hashlib import blake2b
from threading import Lock
from typing import Literal

from ._canonical import DEFAULT_METADATA_KEYS, fingerprint
from ._exceptions import PolicyError
from ._metadata import split_metadata
from ._outcome import Outcome
from ._policy import GuardPolicy
from ._templates import TEMPLATES, check_template, fill, read_template

__all__ = ["Decision", "OverrideAction", "OverrideMessages", "ReasonedOverrideGuard", "Refusal"]

REASON_KEY = "_duplicate_reasoning"

_MAX_STRESS_STEPS = 15
_MAX_QUOTED_CHARS = 200

Refusal = Literal["no_reason", "used_reason"]


class OverrideAction(StrEnum):
    """What becomes of a call before it is made."""

    RUN = "run"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Decision:
    """What the guard says of a call that is about to be made.

    Attributes:
        action: run it, or refuse it and hand `message` to the model in place of a result.
        arguments: what the tool is to get: the arguments without the metadata. The very object
            that came in where there was none in it.
        message: for a refused call, what was refused and how to go on; else None.
        stress: the level of the run after this call, 0.0 to 1.5.
        refusal: why it is refused; None where it runs. In shadow mode why it would have been,
            beside an action RUN.
    """

    action: OverrideAction
    arguments: object
    message: str | None
    stress: float
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True)
class OverrideMessages:
    """The wording of refusals. `{tool_name}` and `{reason}` are filled in.

    Raises:
        PolicyError: a text that does not name `_duplicate_reasoning`, without which the model
            cannot know how to go on, or one of more than 3,000 characters.
    """

    no_reason: str
    used_reason: str

    def __post_init__(self) -> None:
        for name, text in (("no_reason", self.no_reason), ("used_reason", self.used_reason)):
            check_template(name, text, REASON_KEY, "where the model gives its reason")

    @classmethod
    def default(cls) -> OverrideMessages:
        """Our own wording."""
        return _default_messages()

    @classmethod
    def from_folder(cls, folder: str | os.PathLike[str]) -> OverrideMessages:
        """Read `refuse_no_reason.txt` and `refuse_used_reason.txt`; an absent one stays our own.

        Raises:
            PolicyError: the folder has neither file, or a file cannot be read or used.
        """
        own = cls.default()
        first, used = (read_template(os.path.join(folder, name)) for name in _FILES)
        if first is None and used is None:
            raise PolicyError(f"{os.fspath(folder)}: no {_FILES[0]} and no {_FILES[1]} in this folder")
        try:
            return cls(own.no_reason if first is None else first, own.used_reason if used is None else used)
        except PolicyError as error:
            raise PolicyError(f"{os.fspath(folder)}: {error}") from None


_FILES = ("refuse_no_reason.txt", "refuse_used_reason.txt")


@cache
def _default_messages() -> OverrideMessages:
    first, used = (read_template(os.path.join(TEMPLATES, name)) or "" for name in _FILES)
    return OverrideMessages(first, used)


class ReasonedOverrideGuard:
    """Refuses the repeats of one run. Make a new one for every run and for every retry of it.

    A call equal to any earlier one of the run is refused before it is made, unless its arguments
    bring a `_duplicate_reasoning` that was not used before in the run, for whatever call. What
    came of the earlier call does not matter, nor do calls in between. A call is written down when
    it is allowed, so that of two equal calls at once one runs; a refused call is not.

    Safe to use from several threads and from asyncio tasks. Memory: about 300 bytes per
    different call with a reason.

    Args:
        policy: gives exemptions, tools that reset, metadata keys and shadow mode; its thresholds
            and outcomes say nothing here. In shadow mode every call runs, stress stays at 0, and
            `Decision.refusal` says what would have happened.
        messages: the wording of refusals; None is our own.
    """

    def __init__(
        self, policy: GuardPolicy | None = None, *, messages: OverrideMessages | None = None
    ) -> None:
        self._policy = GuardPolicy() if policy is None else policy
        self._messages = messages
        self._calls: set[int | None] = set()
        self._kept: set[int | None] = set()  # of tools that reset the others
        self._reasons: set[bytes] = set()
        self._steps = 0
        self._lock = Lock()

    @property
    def policy(self) -> GuardPolicy:
        """The policy this guard follows."""
        return self._policy

    @property
    def stress(self) -> float:
        """0.0 at first, 0.1 more for each refusal and each failed tool, at most 1.5; never less.

        A host may raise the temperature by it, or the effort of reasoning.
        """
        return self._steps / 10

    def before(self, tool_name: str, arguments: object) -> Decision:
        """Decide about a call before it is made.

        Args:
            tool_name: the tool to be called.
            arguments: JSON text, XML-ish text, other text or any object. None, empty and blank
                text are all "no arguments".
        """
        rules = self._policy.rules_for(tool_name)
        passed, said = split_metadata(arguments, DEFAULT_METADATA_KEYS)
        if rules.exempt:
            return Decision(OverrideAction.RUN, passed, None, self.stress)
        given = said.get(REASON_KEY)
        reason = _normal_form(given) if isinstance(given, str) else b""
        call = fingerprint(tool_name, _known(passed), metadata_keys=rules.metadata_keys)
        refusal: Refusal | None = None
        with self._lock:
            calls = self._kept if rules.resets else self._calls
            if call in calls:
                refusal = "no_reason" if not reason else "used_reason" if reason in self._reasons else None
            if refusal is None:
                calls.add(call)
                if reason:
                    self._reasons.add(reason)
            elif not self._policy.shadow:
                self._raise_stress()
            stress = self.stress
        if refusal is None or self._policy.shadow:
            return Decision(OverrideAction.RUN, passed, None, stress, refusal)
        message = self._message(refusal, tool_name, given)
        return Decision(OverrideAction.REFUSE, passed, message, stress, refusal)

    def after(self, outcome: Outcome | str | None, *, tool_name: str | None = None) -> None:
        """Say how a call that ran has ended. Not for refused calls.

        Args:
            outcome: an error of either kind raises the stress; None where it is not known.
            tool_name: the tool, so that a success of one that resets is seen.

        Raises:
            ValueError: `outcome` is none of the Outcome values.
        """
        if outcome is None:
            return
        outcome = Outcome(outcome)
        with self._lock:
            if outcome is not Outcome.SUCCESS:
                if not self._policy.shadow:
                    self._raise_stress()
            elif tool_name is not None and self._policy.rules_for(tool_name).resets:
                self._calls.clear()

    def _raise_stress(self) -> None:
        self._steps = min(self._steps + 1, _MAX_STRESS_STEPS)

    def _message(self, refusal: Refusal, tool_name: str, given: object) -> str:
        texts = self._messages or OverrideMessages.default()
        text = texts.no_reason if refusal == "no_reason" else texts.used_reason
        quoted = " ".join(str(given)[:1_000].split())
        if len(quoted) > _MAX_QUOTED_CHARS:
            quoted = quoted[:_MAX_QUOTED_CHARS] + "…"
        return fill(text, tool_name, {"reason": quoted if refusal == "used_reason" else ""})


def _known(arguments: object) -> object:
    """Arguments as a call is known by: outer blanks of text do not matter, nothing is an empty text."""
    if arguments is None:
        return ""
    return arguments.strip() if isinstance(arguments, str) else arguments


def _normal_form(reason: str) -> bytes:
    """A reason in the form that case, blanks and ways of encoding do not change; b"" for a blank one."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", reason).casefold())
    if not folded.isascii():  # format characters (joiners, marks of direction) have no shape of their own
        folded = "".join(one for one in folded if unicodedata.category(one) != "Cf")
    text = " ".join(folded.split())
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest() if text else b""
