"""`repair_messages`: a stored history made fit to go on from, when a session is loaded again.

The sanitizer answers for one request: it changes as little as it can, and puts stubs where results are
missing. Here the history itself is put right, once: turns that a crash or a retry doubled become one,
calls that nothing answered go, and nothing is made up. What is left needs no stub.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from ._formats import Format, detect_format, format_of
from ._formats._base import get, plain, same
from ._model import Block, Message, Other
from ._pairing import pair
from ._placing import place
from ._repairs import Log
from ._sanitize import calls_of_the_model, has_references, without_empty_calls
from ._types import SanitizeResult
from ._words import MessageFormat, RepairKind

__all__ = ["repair_messages"]

# Each round but the last merges or drops something; a history needs two or three.
_MAX_ROUNDS = 50


def repair_messages(
    messages: Iterable[Any],
    format: MessageFormat | None = None,
    *,
    pending_call_ids: Collection[str] = (),
    previous_response_id: str | None = None,
    exempt: Callable[[Any], bool] | None = None,
) -> SanitizeResult:
    """Repair a stored history before a session goes on from it.

    * Messages of the assistant in a row become one: calls together, texts joined by a line break, the
      first reasoning kept. So do messages of the user, joined by a blank line, unless there is more than
      text in them. Interim output of Codex stays apart.
    * A result without a call goes, a second result for a call goes, one in the wrong place is moved.
    * A call that nothing answers is taken away, and its turn where nothing else is in it. No stubs.

    Args:
        messages: dicts or SDK objects; never modified.
        format: None finds it out.
        pending_call_ids: calls that run just now; they stay.
        previous_response_id: (openai-responses) see `sanitize_messages`.
        exempt: messages for which this is true are never merged with another (summaries, notes put in
            between by the host).

    A history in which nothing is wrong comes back with the very same objects. Repairing twice changes
    nothing. `SanitizeResult.cursor` maps how many messages were stored already to the new history.

    Raises:
        ValueError: the format is unknown.
    """
    given = list(messages)
    form = format_of(format if format is not None else detect_format(given))
    parsed = [form.read(raw, index) for index, raw in enumerate(given)]
    several = (pending_call_ids,) if isinstance(pending_call_ids, str) else pending_call_ids
    pending = frozenset(one.strip() for one in several)
    log = Log()
    merger = _Merger(form, exempt, log)
    stored = previous_response_id is not None or has_references(parsed)
    done = without_empty_calls(calls_of_the_model(parsed, form, log), log)
    for _ in range(_MAX_ROUNDS):
        before = len(log.repairs), len(done)
        done = merger.merged(done)
        done = _paired(done, form, pending, form.placement == "anywhere" and stored, log)
        if (len(log.repairs), len(done)) == before:
            break
    log.repairs.sort(key=lambda repair: repair.message_index)
    return SanitizeResult(
        [form.write(message) for message in done] if log.repairs else given,
        tuple(log.repairs),
        form.name,
        tuple(message.index for message in done),
        tuple(merger.sources(message) for message in done) if merger.merges else (),
    )


# -- calls and results ---------------------------------------------------------------------------------


def _paired(
    messages: list[Message], form: Format, pending: frozenset[str], keep_orphans: bool, log: Log
) -> list[Message]:
    """Every result behind its call, and no call without a result."""
    pairs = pair(messages, form, keep_orphans, log, pending)
    for slot in pairs.slots:
        if slot.found is None and pending.isdisjoint(slot.original.ids):
            slot.dropped = True
            name = log.quoted(slot.call.name)
            why = f"dropped this call of {name}: nothing answers it"
            log.add(RepairKind.DROPPED_UNPAIRED_CALL, messages[slot.at], slot.original.id, why)
    done = place(pairs, pending, log, fill=False)
    return [message for message in done if not (message.changed and _is_bare(message, form))]


def _is_bare(message: Message, form: Format) -> bool:
    """Is nothing left of a message? Reasoning alone, which led to what is gone, is nothing."""
    if form.placement == "anywhere" and message.blocks:
        return False  # an item
    return all(
        isinstance(block, Other) and (block.empty or block.kind == "reasoning") for block in message.blocks
    )


# -- turns in a row ------------------------------------------------------------------------------------


class _Merger:
    """Makes one message of several of one role, and remembers which."""

    def __init__(self, form: Format, exempt: Callable[[Any], bool] | None, log: Log) -> None:
        self.form, self.exempt, self.log = form, exempt, log
        self._sources: dict[int, tuple[int, ...]] = {}  # index of a merged message -> those of its parts

    @property
    def merges(self) -> bool:
        """Was anything merged?"""
        return bool(self._sources)

    def sources(self, message: Message) -> tuple[int, ...]:
        """Which messages of the input are in it."""
        if message.index is None:
            return ()
        return self._sources.get(message.index, (message.index,))

    def merged(self, messages: Sequence[Message]) -> list[Message]:
        if self.form.placement == "anywhere":
            return list(messages)  # items, of which several in a row make one turn
        runs: list[list[Message]] = []
        for message in messages:
            # What makes two of them one holds for all of a run: each is asked about the one before it.
            if runs and self._belongs(runs[-1][-1], message):
                runs[-1].append(message)
            else:
                runs.append([message])
        return [run[0] if len(run) == 1 else self._merge(run) for run in runs]

    def _belongs(self, one: Message, other: Message) -> bool:
        roles = {one.wire_role or one.role, other.wire_role or other.role}
        if one.role != other.role or len(roles) > 1 or one.protected or other.protected:
            return False
        if one.role not in ("user", "assistant") or not same(get(one.raw, "name"), get(other.raw, "name")):
            return False
        if self.exempt is not None and any(
            message.raw is not None and self.exempt(message.raw) for message in (one, other)
        ):
            return False
        chat = self.form.placement == "after"
        if one.role == "user":
            return not chat or (_plain_text(one) is not None and _plain_text(other) is not None)
        if chat:
            return not (_is_interim(one) or _is_interim(other))
        return not any(_reasons(message) for message in (one, other))  # signed with what follows it

    def _merge(self, run: list[Message]) -> Message:
        """The messages of a run put into the first of them, all at once: a run may be long."""
        first = run[0]
        what = "turn of the assistant" if first.role == "assistant" else "message of the user"
        why = f"merged this {what} into the one before it"
        content = _Content(self.form, first)
        for message in run[1:]:
            self.log.add(RepairKind.MERGED_MESSAGES, message, None, why)
            content.add(message)
        raw, added = self._raw(run)
        calls = [block for message in run for block in _calls(message)]
        index = next((message.index for message in run if message.index is not None), None)
        if index is not None:
            self._sources[index] = tuple(source for message in run for source in self.sources(message))
        return replace(first, blocks=(*content.blocks(), *added, *calls), raw=raw, index=index, changed=True)

    @staticmethod
    def _raw(run: list[Message]) -> tuple[Any, list[Block]]:
        """What the message is written from: the first, with the reasoning that only a later one has.

        Also the blocks for that, as chat completions keep reasoning in keys of the message.
        """
        first = run[0]
        added: list[Block] = [block for block in first.blocks if isinstance(block, Other) and block.key]
        keys: dict[str, Any] = {}
        known = {block.key for block in added if isinstance(block, Other)}
        for message in run[1:]:
            new = [
                block
                for block in message.blocks
                if isinstance(block, Other) and block.key and block.key not in known
            ]
            added += new
            keys.update((block.key, block.raw) for block in new)
            known.update(block.key for block in new)
        return ({**plain(first.raw), **keys} if keys else first.raw), added


class _Content:
    """What the messages of a run say, put together: one text as long as all say plain text, else blocks."""

    def __init__(self, form: Format, first: Message) -> None:
        self.form, self.role = form, first.role
        self._said = _said(first)
        text = _plain_text(first)
        self._texts = None if text is None else [text]
        self._spoke = bool(self._said)  # is there a block, be it an empty one?
        self._keeps_blocks = get(first.raw, "parts") is not None or bool(first.results)
        self._may_be_text = False

    def add(self, message: Message) -> None:
        said, text = _said(message), _plain_text(message)
        if self._texts is None and self._may_be_text and len(self._said) < 2:
            texts = [block.text for block in self._said]
            if None not in texts:  # so little was said so far that it may as well be a text
                self._texts, self._spoke = [one or "" for one in texts or [""]], bool(self._said)
        self._keeps_blocks = self._keeps_blocks or bool(message.results)
        self._may_be_text = not self._keeps_blocks
        if text is not None and self._texts is not None:
            self._texts.append(text)
            self._spoke = self._spoke or bool(said)
        elif said or message.results:
            self._said, self._texts = self.blocks(), None
            self._said += said

    def blocks(self) -> list[Other]:
        texts = self._texts
        if texts is None or len(texts) == 1:
            return self._said
        spoken = [text for text in texts if text.strip()]
        if len(spoken) < 2:
            text = (spoken or [text for text in reversed(texts) if text] or [""])[0]
        elif self.role == "assistant":
            text = "\n".join(map(str.strip, spoken))
        else:
            text = "\n\n".join(spoken)
        return [self.form.text_block(text)] if self._spoke else []


def _calls(message: Message) -> list[Block]:
    return [block for block in message.blocks if not isinstance(block, Other)]


def _said(message: Message) -> list[Other]:
    return [block for block in message.blocks if isinstance(block, Other) and not block.key]


def _reasons(message: Message) -> bool:
    return any(isinstance(block, Other) and block.kind == "reasoning" for block in message.blocks)


def _plain_text(message: Message) -> str | None:
    """The content of a message whose content is a text, or nothing; None for a list of blocks."""
    said = [block for block in message.blocks if isinstance(block, Other) and not block.key]
    if message.changed:
        if len(said) > 1 or any(block.text is None for block in said):
            return None
    elif not isinstance(get(message.raw, "content"), str | None):
        return None
    if get(message.raw, "parts") is not None or message.results:
        return None
    return said[0].text or "" if said else ""


def _is_interim(message: Message) -> bool:
    """Interim output of Codex, which is kept in pieces."""
    raw = message.raw
    if get(raw, "finish_reason") == "incomplete":
        return True
    keys = raw if isinstance(raw, dict) else getattr(raw, "__dict__", {})
    return any(
        isinstance(key, str) and key.startswith("codex_") and key.endswith("_items") and keys[key]
        for key in keys
    )
