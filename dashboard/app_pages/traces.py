"""Which runs there are; and one of them whole, under its own URL."""

from __future__ import annotations

import streamlit as st

from loopscope.dashboard import _data, _filters, _policy, _traces, _traces_link, _traces_table, _ui
from loopscope.guard import NotFoundError

view, saved = _filters.current_view(), _policy.saved()


def main() -> None:
    _traces_link.follow()
    name = st.query_params.get(_traces_link.PARAMETER)
    if not name:
        _traces_table.draw(saved.policy, view)
        return
    with _data.reader() as ask:
        try:
            head = ask.run(name, saved.policy)
        except NotFoundError:
            ask.release()
            _ui.back("All runs", _traces_link.PARAMETER, _traces_link.SPAN)
            _ui.sentence("That run is not in this database.")
            st.caption(
                "The link may belong to another database, or the run was pruned. The database in use "
                "stands at "
                "the foot of the sidebar."
            )
            return
        _traces.draw(ask, head, saved.policy)


main()
