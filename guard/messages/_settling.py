"""What follows from the pairing: twins and lone results go, ids and names are mended; nothing is moved."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from typing import TYPE_CHECKING

from ._names import legal_name
from ._repairs import Log
from ._words import RepairKind

if TYPE_CHECKING:
    from ._pairing import Pairs, Slot

__all__ = ["settled"]


def settled(pairs: Pairs, keep_orphans: bool, log: Log, pending: Set[str]) -> Pairs:
    _drop_twins(pairs, log)
    _settle_lone_results(pairs, keep_orphans, log)
    for slot in pairs.slots:
        if slot.found is None and not pending.isdisjoint(slot.call.ids):
            slot.renamed = False
        _settle_kind(pairs, slot, log)
        _settle_ids(pairs, slot, log)
        _settle_names(pairs, slot, log)
    return pairs


def _drop_twins(pairs: Pairs, log: Log) -> None:
    for turn in pairs.turns:
        for slot in turn.slots:
            if slot.dropped:
                name = log.quoted(slot.call.name)
                log.add(
                    RepairKind.DROPPED_DUPLICATE_CALL,
                    pairs.messages[slot.at],
                    slot.call.id,
                    f"dropped the second of two equal calls of {name} under one id",
                )
    for at in pairs.dropped_messages:
        message = pairs.messages[at]
        log.add(
            RepairKind.DROPPED_DUPLICATE_CALL,
            message,
            pairs.form.item_id(message),
            "dropped an item that stands in the history a second time",
        )


def _settle_lone_results(pairs: Pairs, keep_orphans: bool, log: Log) -> None:
    pairs.lone = [found for found in pairs.founds if found.slot is None]
    seen: set[str] = set()
    for found in pairs.lone:
        message, result = pairs.messages[found.at], found.result
        if found.rival is not None or not seen.isdisjoint(result.ids) or pairs.has_call(result):
            said = "a stub" if result.synthetic else f"a second result, {log.cut(result.content)}"
            why = f"dropped {said}: the call has one that counts"
            log.add(RepairKind.DROPPED_DUPLICATE_RESULT, message, result.id, why)
        elif keep_orphans and result.ids:
            pairs.kept_orphans.add(id(found))
            seen.update(result.ids)
        elif result.ids:
            why = f"dropped a result whose call is not in the history: {log.cut(result.content)}"
            log.add(RepairKind.DROPPED_ORPHAN_RESULT, message, result.id, why)
        else:
            why = (
                "dropped a result without an id, as not exactly one call was waiting for a result:"
                f" {log.cut(result.content)}"
            )
            log.add(RepairKind.DROPPED_ORPHAN_RESULT, message, None, why)


def _settle_kind(pairs: Pairs, slot: Slot, log: Log) -> None:
    """Of chat completions: `tool_calls` are answered by the role `tool`, `function_call` by `function`."""
    call, found = slot.call, slot.found
    if found is None or pairs.form.placement != "after":
        return
    legacy = call.kind == "function_call"
    if (found.result.kind == "function_call") == legacy:
        return
    role = "function" if legacy else "tool"
    why = f'gave this result of {log.quoted(call.name)} the role "{role}", as its call asks for it'
    log.add(RepairKind.FIXED_ROLE, pairs.messages[found.at], call.id, why)
    name = call.name if legacy else found.result.name
    found.result = replace(found.result, kind="function_call" if legacy else "", name=name)


def _settle_ids(pairs: Pairs, slot: Slot, log: Log) -> None:
    form, call, found = pairs.form, slot.call, slot.found
    message = pairs.messages[slot.at]
    if slot.renamed:
        new = pairs.free_id(call.id or "")
        log.add(
            RepairKind.RENAMED_CALL_ID,
            message,
            call.id,
            f"renamed this call of {log.quoted(call.name)} and its result to {log.quoted(new)}:"
            " another call of the turn has the same id",
        )
        slot.call = form.rename_call(call, new)
    elif not call.ids and form.needs_id(call):
        new = pairs.id_for(call)
        why = f"gave this call of {log.quoted(call.name)} the id {log.quoted(new)}: it had none"
        log.add(RepairKind.REWROTE_ID, message, call.id, why)
        slot.call = form.rename_call(call, new)
    if found is None:
        return
    if found.via is None:
        home = form.positional and found.at == slot.at + 1
        if slot.call.ids and not found.result.ids and not home:
            found.result = form.rename_result(found.result, slot.call.id)
            if call.ids:  # else the repair above tells it
                why = f"gave this result the id {log.quoted(slot.call.id)}, as only that call was waiting"
                log.add(RepairKind.REWROTE_ID, pairs.messages[found.at], slot.call.id, why)
        return
    own, said = (slot.call.id or "").strip(), (found.original.id or "").strip()
    unclear = said != own and (said in slot.turn.by_wire or not slot.turn.shared.isdisjoint(found.result.ids))
    early = said != own and found.at < slot.at  # behind its call it may read as the result of another
    if found.via not in slot.call.ids or unclear or early:
        found.result = form.rename_result(found.result, slot.call.id)
        if not slot.renamed:
            cause = "several calls share the id it had" if unclear else "it spelled that otherwise"
            why = f"keyed this result on {log.quoted(slot.call.id)}: {cause}"
            log.add(RepairKind.REWROTE_ID, pairs.messages[found.at], found.original.id, why)


def _settle_names(pairs: Pairs, slot: Slot, log: Log) -> None:
    call, found = slot.call, slot.found
    if pairs.form.has_name(call):
        name = legal_name(pairs.form, call.name)
        if name != call.name:
            why = f"renamed the function {log.quoted(call.name)} to {log.quoted(name)}, which providers take"
            log.add(RepairKind.FIXED_FUNCTION_NAME, pairs.messages[slot.at], call.id, why)
            slot.call = call = replace(call, name=name)
    if found is None or found.result.name is None or found.result.name == call.name or call.name is None:
        return
    why = f"renamed this result from {log.quoted(found.result.name)} to {log.quoted(call.name)}, as its call"
    log.add(RepairKind.FIXED_RESULT_NAME, pairs.messages[found.at], call.id, why)
    found.result = replace(found.result, name=call.name)
