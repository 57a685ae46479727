"""What the names of tools and keys tell: a hint, never the whole evidence."""

from __future__ import annotations

import re
from itertools import pairwise

__all__ = ["changes_things", "is_address", "is_noise", "tells_why", "words_of"]

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_READING = _set("""
    get read list search find check view show can is has status fetch query lookup look describe test inspect
    poll wait watch count open glob grep ls cat head tail think ask validate verify preview track
""")
_CHANGING = _set("""
    edit write create update delete remove set toggle reset reseat restart reboot apply patch insert replace
    append move rename copy install uninstall deploy rollback commit merge push save add grant revoke enable
    disable connect disconnect make modify change put post send submit book cancel refund pay refuel resume
    suspend start stop kill migrate upgrade downgrade fix format mkdir touch rm mv upload transfer assign
    close reopen approve reserve schedule clear undo redo
""")

# Names that say "of this one call": nothing that a tool would search by.
_NOISE = _set("""
    nonce uuid guid traceid trace spanid requestid correlationid idempotency idempotencykey timestamp ts
    elapsed duration latency took runtime uptime epoch salt seed generated servertime pid now
""")
# ... and two words in a row that do.
_NOISE_PAIRS = _set("""
    request_id trace_id span_id correlation_id call_id process_id idempotency_key client_token query_time
    execution_time response_time server_time cpu_time wall_time time_taken took_ms time_ms generated_at
    fetched_at checked_at retrieved_at requested_at date_generated
""")
# What a model says beside the call.
_WHY = _set("""
    description explanation reason reasoning rationale thought thoughts justification intent purpose comment
    progress why motivation reflection note
""")
# Where a call goes to: never noise, however it looks.
_ADDRESS = _set("""
    page cursor offset limit start next prev previous after before from until since token line lines row
    index step version updated modified changed path file url query
""")


def words_of(name: str) -> list[str]:
    """The words of a name in snake_case, kebab-case or camelCase, in lower case; at most 12."""
    return [word.lower() for word in _WORDS.findall(name[:120])[:12]]


def changes_things(tool_name: str) -> bool:
    """Does the name of a tool say that it changes something? The first word that tells decides."""
    words = words_of(tool_name)
    if "replace" in words or "patch" in words:  # find_and_replace
        return True
    for word in words:
        if word in _READING:
            return False
        if word in _CHANGING:
            return True
    return False


def is_noise(key: str) -> bool:
    """Does a key name what belongs to one call alone: a nonce, an id of the request, a duration, a clock?"""
    words = words_of(key)
    pairs = {f"{one}_{other}" for one, other in pairwise(words)}
    if pairs & _NOISE_PAIRS:
        return True
    return not set(words) & _ADDRESS and bool(set(words) & _NOISE or "".join(words) in _NOISE)


def tells_why(key: str) -> bool:
    """Does a key name what a model says beside its call: a description, a reason?"""
    words = words_of(key)
    return bool(set(words) & _WHY) and not set(words) & _ADDRESS


def is_address(key: str) -> bool:
    """Does a key say where to go on: a page, a cursor, a version?"""
    return bool(set(words_of(key)) & _ADDRESS)
