"""Reports to take away: Markdown, self-contained HTML, JSON, CSV.

Text of a trace may hold anything. In every format it is shown as text, bounded, and a text that was
cut says so. The same store, policy and filter give the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...guard import LoopscopeError
from .._detail import incident_detail
from .._filters import ALL, Filters
from .._labelled import Label, read_labels
from .._totals import replay
from .._types import SCHEMA_VERSION, IncidentDetail
from ._all import all_document
from ._csv import incident_csv, incidents_csv, safe_cell
from ._html import to_html
from ._incident import incident_document
from ._markdown import to_markdown

if TYPE_CHECKING:
    import duckdb

    from ...guard import GuardPolicy

__all__ = ["FORMATS", "report", "safe_cell"]

FORMATS = ("md", "html", "json", "csv")

_TEXT_LIMIT = 20_000  # characters of one text in JSON
_CALL_LIMIT = 1_000


def report(
    con: duckdb.DuckDBPyConnection,
    incident_key: str | None,
    policy: GuardPolicy,
    format: str = "md",
    filters: Filters = ALL,
    *,
    db: str = "traces.duckdb",
    keys: Sequence[str] | None = None,
) -> str:
    """A report of one incident, or (key None) of all under the filter. `db` is named in its commands.

    Labels of people and their notes are in it. With `keys` only those incidents are listed, in this order;
    totals stay those of the filter. Byte-stable for the same store, policy and filter.

    Raises:
        NotFoundError: no incident has that key.
        LoopscopeError: `format` is not one of `FORMATS`.
    """
    if format not in FORMATS:
        raise LoopscopeError(f"there is no report format {format!r}; choose one of {', '.join(FORMATS)}")
    if incident_key is None:
        result = replay(con, policy, filters)
        if keys is not None:
            found = {one.key: one for one in result.incidents}
            result = replace(result, incidents=tuple(found[key] for key in keys if key in found))
        labels = read_labels(con)
        if format == "csv":
            return incidents_csv(result.incidents, labels)
        if format == "json":
            value = result.to_json()
            value["incidents"] = [{**one, **_said(labels.get(one["key"]))} for one in value["incidents"]]
            return _json({"kind": "report", **value})
        document = all_document(result, db, labels)
    else:
        detail = incident_detail(con, incident_key, policy, text_limit=_TEXT_LIMIT, call_limit=_CALL_LIMIT)
        label = read_labels(con).get(detail.incident.key)
        if format == "csv":
            return incident_csv(detail)
        if format == "json":
            return _json(_incident_json(detail, policy, label))
        document = incident_document(detail, policy, db, label)
    return to_html(document) if format == "html" else to_markdown(document)


def _said(label: Label | None) -> dict[str, Any]:
    """As in `loopscope incidents --format json`."""
    return {
        "label": None if label is None else label.verdict.value,
        "label_note": None if label is None else label.note,
    }


def _incident_json(detail: IncidentDetail, policy: GuardPolicy, label: Label | None) -> dict[str, Any]:
    rules = {**policy.to_dict(), "policy_hash": policy.policy_hash}
    value = detail.to_json()
    value["incident"] = {**value["incident"], **_said(label)}
    return {"kind": "incident", "schema_version": SCHEMA_VERSION, "policy": rules, **value}


def _json(value: dict[str, Any]) -> str:
    # ASCII only: control and bidi characters stand as \u escapes, lone surrogates too.
    return json.dumps(value, indent=2, ensure_ascii=True, allow_nan=False) + "\n"
