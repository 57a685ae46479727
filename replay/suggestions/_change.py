"""A change to a policy as data, in the shape of the policy file.

A key that holds a list adds to the policy's list, a table is merged, anything else takes the place of
what the policy says. So changes can be put on a policy one after the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from ...guard import GuardPolicy, PolicyError

if TYPE_CHECKING:
    from ._types import Suggestion

__all__ = ["accept", "changed", "key_of"]


def changed(policy: GuardPolicy, change: Mapping[str, Any]) -> GuardPolicy:
    """The policy with a change put on it. Raises PolicyError where the two do not go together."""
    return GuardPolicy.from_dict(_merged(policy.to_dict(), change))


def accept(policy: GuardPolicy, suggestions: Iterable[Suggestion]) -> GuardPolicy:
    """One policy with all these suggestions accepted, in this order.

    Raises:
        PolicyError: a suggestion does not go together with those before it.
    """
    for one in suggestions:
        try:
            policy = changed(policy, one.change)
        except PolicyError as error:
            raise PolicyError(f"{one.key} does not go together with the others: {error}") from None
    return policy


def key_of(kind: str, change: Mapping[str, Any]) -> str:
    """The name of a change: it stays while the change does, so that what was shown is what is accepted."""
    text = json.dumps(change, sort_keys=True)
    return f"{kind}-{blake2b(text.encode('utf-8', 'surrogatepass'), digest_size=4).hexdigest()}"


def _merged(data: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(data)
    for key, value in change.items():
        old = merged.get(key)
        if isinstance(value, Mapping):
            merged[key] = _merged(old if isinstance(old, Mapping) else {}, value)
        elif isinstance(value, list):
            kept = list(old) if isinstance(old, list) else []
            merged[key] = [*kept, *(item for item in value if item not in kept)]
        else:
            merged[key] = value
    return merged
