"""What would other thresholds have caught, and what would they have broken?"""

from __future__ import annotations

from loopscope.dashboard import _data, _filters, _policy, _snippets, _tuning

view, saved = _filters.current_view(), _policy.saved()


def main() -> None:
    with _data.reader() as ask:
        seen = ask.replay(saved.policy, view.filters)
    if not seen.totals.calls:
        _snippets.nothing_here(
            view,
            "Two sliders stand here, and what they would have done to every recorded run "
            "the moment you move them.",
        )
        return
    _tuning.draw(view, saved)


main()
