"""Reports: whatever a trace holds is shown as text, bounded, and the same bytes every time."""

from __future__ import annotations

import csv
import io
import json
import re
from html.parser import HTMLParser

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from replay_rows import call, database, request

from loopscope.guard import GuardPolicy, LoopscopeError, NotFoundError, ToolPolicy
from loopscope.replay import FORMATS, Filters, find_incidents, report
from loopscope.replay.reports._csv import safe_cell
from loopscope.replay.reports._document import Code, Document, Fields, Paragraph, Quoted, Table
from loopscope.replay.reports._html import to_html
from loopscope.replay.reports._markdown import to_markdown

HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</pre></code><h1>gone</h1>",
    "```\n# out of the fence\n~~~~\n</code>",
    "a | b \\| c `d` ``e``",
    "![pixel](https://evil.example/p.png) [click](javascript:alert(1))",
    "https://evil.example/ www.evil.example <https://evil.example> @octocat mail@evil.example",
    "\x1b[31mred\x1b[0m \x1b]8;;https://evil.example\x07link\x1b]8;;\x07",
    "\u202edesrever\u202c \u2066isolate\u2069 zero\u200bwidth",
    "&lt;b&gt; &#60;i&#62; &amp;",
    "*bold* _em_ ~~gone~~ # head\n- item\n1. one\n> quote\n---",
    "=cmd|'/c calc'!A1",
    "${jndi:ldap://x} {{7*7}} <%= 7 %>",
    "lone \ud800 surrogate",
)


def hostile_store() -> duckdb.DuckDBPyConnection:
    # DuckDB holds UTF-8 only: a lone surrogate cannot get in.
    texts = [text for text in HOSTILE if "\ud800" not in text]
    calls = []
    for number, text in enumerate(texts):
        names = {"run": f"run {text}", "agent": text, "service_name": text, "session_id": text}
        calls += [call(text, json.dumps({"q": text}), text, **names)] * 3
        names["dialect"] = texts[(number + 1) % len(texts)]
        calls += [call("fails", json.dumps({text: n}), text, "schema_error", **names) for n in range(3)]
    return database(calls, [request(f"run {text}", model=text) for text in texts])


class Tags(HTMLParser):
    """Collects tags, attributes and text; knows what may stand in a report."""

    ALLOWED = frozenset(
        {
            "html",
            "head",
            "meta",
            "title",
            "style",
            "body",
            "main",
            "h1",
            "h2",
            "h3",
            "p",
            "dl",
            "dt",
            "dd",
            "div",
        }
        | {"table", "thead", "tbody", "tr", "th", "td", "span", "code", "pre", "em"}
    )

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in self.ALLOWED, tag
        for name, _ in attrs:
            assert name in {"lang", "charset", "http-equiv", "content", "name", "class", "title", "dir"}, name
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def html_text(page: str) -> str:
    tags = Tags()
    tags.feed(page)
    tags.close()
    assert tags.open == []
    return "".join(tags.text)


def markdown_tokens(text: str) -> list:
    tokens = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(text)
    flat = []
    for token in tokens:
        flat.append(token)
        flat.extend(token.children or [])
    return flat


_KINDS = frozenset(
    {
        "heading",
        "inline",
        "paragraph",
        "text",
        "code_inline",
        "fence",
        "bullet_list",
        "list_item",
        "softbreak",
    }
    | {"table", "thead", "tbody", "tr", "th", "td", "html_inline", "text_special"}
)


def markdown_text(text: str) -> str:
    """What a reader sees; fails on any markup that we do not write ourselves."""
    seen = []
    for token in markdown_tokens(text):
        kind = token.type.removesuffix("_open").removesuffix("_close")
        assert kind in _KINDS, (kind, token.content)
        if kind == "html_inline":
            assert token.content in ("<code>", "</code>")
        elif kind in ("text", "code_inline", "fence", "text_special"):
            seen.append(token.content)
    return "\n".join(seen)


def no_unseen(text: str) -> None:
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text
    )


def test_hostile_text_stays_text_in_every_format() -> None:
    con = hostile_store()
    policy = GuardPolicy(tools={"<b>|`": ToolPolicy(exempt=True)})
    keys = [one.key for one in find_incidents(con)]
    for key in [None, *keys[::3]]:
        pages = {name: report(con, key, policy, name, db="/tmp/it's <b> `x`.duckdb") for name in FORMATS}
        for name in ("md", "html", "csv"):
            no_unseen(pages[name].replace("\r\n", "\n"))
        assert pages["json"].isascii()
        json.loads(pages["json"])
        assert "alert(1)" in html_text(pages["html"]) or key is not None
        markdown_text(pages["md"])


def test_hostile_text_can_be_read_in_full() -> None:
    con = hostile_store()
    for text in ("<script>alert(1)</script>", "```\n# out of the fence\n~~~~\n</code>"):
        (one,) = find_incidents(con, Filters(tools=(text,)))
        assert text in html_text(report(con, one.key, GuardPolicy(), "html"))
        assert text in markdown_text(report(con, one.key, GuardPolicy(), "md"))


pieces = st.lists(st.sampled_from([*HOSTILE, *"`|\\<>[]()*_~#!&@\n\t =+-:."]), max_size=12)


@settings(max_examples=150, deadline=None)
@given(
    st.text(max_size=40)
    | st.lists(st.sampled_from([*HOSTILE, *"`|\\<>[]()*_~#!&@\n\t =+-:."]), max_size=12).map("".join)
)
def test_any_text_is_shown_as_text(text: str) -> None:
    document = Document(
        f"T \x02{Quoted(text).shown}\x03",
        (
            Paragraph(("before ", Quoted(text), " after")),
            Fields((("name", Quoted(text)),)),
            Table(("a", "b", "c"), (("1", Quoted(text), "3"), (Quoted(text), Quoted(text), "3"))),
            Code(text, "note"),
        ),
    )
    page = html_text(to_html(document))
    markdown = to_markdown(document)
    seen = markdown_text(markdown)
    no_unseen(markdown)
    cells = [token.type for token in markdown_tokens(markdown)].count("td_open")
    assert cells == 6
    shown = Quoted(text).shown
    if text:
        assert page.count(shown) >= 4
        # Readers take one space off both ends of a code span, and of a line of only spaces none.
        if shown == shown.strip() and "\\|" not in shown:
            assert seen.count(shown) >= 5


def test_reports_are_the_same_bytes_every_time() -> None:
    pages = []
    for _ in range(2):
        con = hostile_store()
        key = find_incidents(con)[0].key
        pages.append([report(con, which, GuardPolicy(), name) for which in (None, key) for name in FORMATS])
    assert pages[0] == pages[1]


def test_a_report_can_be_read_by_someone_who_never_saw_the_tool() -> None:
    con = database([call()] * 8, [request(at=3)])
    text = report(con, find_incidents(con)[0].key, GuardPolicy(), "md", db="t.duckdb")
    for part in (
        "# Loop: `support-bot` / `search_docs`, 8 calls",
        "`support-bot` called `search_docs` 8 times with the same arguments and got the same answer each "
        "time; a guard at 3/5 would have nudged at call 3 and blocked at call 5; "
        "3 calls came after (3 avoidable).",
        "## Impact",
        "`· · ▲ ▲ ■ □ □ □`",
        "The verdicts from call 4 on are projected, not exact",
        "| 3 | +2 s | `search_docs` | success | 500 ms | 3 | ▲ nudged | same | same |",
        '```text\n{"q": "refund"}\n```',
        "loopscope report --db t.duckdb --incident",
        "Arguments and results of all 8 calls were recorded whole.",
        "- Projected: ",
    ):
        assert part in text


def test_html_needs_nothing_from_outside() -> None:
    con = hostile_store()
    for key in (None, find_incidents(con)[0].key):
        page = report(con, key, GuardPolicy(), "html")
        assert not re.search(r"<(script|link|img|iframe|object|embed|form|base)\b", page)
        assert not re.search(r"url\(|@import|<[^>]+\s(src|href|on\w+)=", page)
        assert "prefers-color-scheme: dark" in page
        assert "@media print" in page
        assert "default-src 'none'" in page


def test_long_texts_are_cut_and_say_so() -> None:
    con = database([call(args='{"q": "' + "x" * 50_000 + '"}', result="y" * 90_000)] * 4)
    key = find_incidents(con)[0].key
    for name in ("md", "html"):
        page = report(con, key, GuardPolicy(), name)
        assert "cut at 4,000 of 90,000 characters" in page
        assert len(page) < 40_000
    assert "(cut at 2,000 of 90,000 characters)" in report(con, key, GuardPolicy(), "csv")
    value = json.loads(report(con, key, GuardPolicy(), "json"))
    assert value["calls"][0]["result_length"] == 90_000
    assert len(value["calls"][0]["call"]["result"]) == 20_000


def test_long_incidents_are_cut_and_say_so() -> None:
    con = database([call(at=n) for n in range(230)])
    text = report(con, find_incidents(con)[0].key, GuardPolicy(), "md")
    assert "30 more calls left out." in text
    many = database([call(run=f"run-{n}") for n in range(210) for _ in range(3)])
    assert "10 more incidents left out." in report(many, None, GuardPolicy(), "md")


def test_what_was_not_recorded_is_not_called_empty() -> None:
    con = database([call(args="{}", result=None, outcome="general_tool_error")] * 3 + [call(result="")] * 3)
    pages = [report(con, one.key, GuardPolicy(), "md") for one in find_incidents(con)]
    assert any("Result: not recorded." in page for page in pages)
    assert any("Result: empty." in page for page in pages)
    assert all("Cost of these requests: not recorded" in page for page in pages)


def test_a_policy_that_is_no_pair_of_numbers_comes_with_its_file() -> None:
    con = database([call()] * 4)
    policy = GuardPolicy(2, 9, tools={"search_docs": ToolPolicy(block_threshold=3)})
    text = report(con, find_incidents(con)[0].key, policy, "md")
    assert "--policy policy.toml" in text
    assert policy.to_toml().strip() in text
    assert "a guard at 2/3 would have nudged at call 2 and blocked at call 3" in text


def test_json_of_an_incident() -> None:
    con = database([call()] * 5)
    key = find_incidents(con)[0].key
    value = json.loads(report(con, key, GuardPolicy(), "json"))
    assert (value["kind"], value["schema_version"], value["incident"]["key"]) == ("incident", 1, key)
    assert [one["action"] for one in value["calls"]] == ["allow", "allow", "nudge", "nudge", "block"]
    assert value["policy"]["policy_hash"] == GuardPolicy().policy_hash
    whole = json.loads(report(con, None, GuardPolicy(), "json"))
    assert whole["kind"] == "report"
    assert whole["incidents"][0]["key"] == key


def test_csv_has_a_row_per_call_or_incident() -> None:
    con = database([call(), call("read"), call(), call()])
    key = find_incidents(con)[0].key
    rows = list(csv.DictReader(io.StringIO(report(con, key, GuardPolicy(), "csv"), newline="")))
    assert [row["number"] for row in rows] == ["1", "", "2", "3"]
    assert [row["action"] for row in rows] == ["allow", "allow", "allow", "nudge"]
    (only,) = csv.DictReader(io.StringIO(report(con, None, GuardPolicy(), "csv"), newline=""))
    assert (only["key"], only["nudge_at"], only["block_at"]) == (key, "3", "")
    empty = report(database(), None, GuardPolicy(), "csv")
    assert empty.startswith("started_at,key,kind,")


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("  =1", "'  =1"),
        ("\t=1", "\\t=1"),
        ("\uff1d1", "'\uff1d1"),
        ("plain = text", "plain = text"),
        (-1, "-1"),
        (None, ""),
        (True, "true"),
    ],
)
def test_no_cell_is_a_formula(value: object, cell: str) -> None:
    assert safe_cell(value) == cell


def test_an_empty_store_has_a_report() -> None:
    for name in FORMATS:
        assert report(database(), None, GuardPolicy(), name)
    assert "there is nothing to say" in report(database(), None, GuardPolicy(), "md")


def test_filters_choose_what_a_report_is_about() -> None:
    con = database([call()] * 3 + [call("read", run="run-2")] * 3)
    text = report(con, None, GuardPolicy(), "md", Filters(tools=("read",)))
    assert "`read`" in text
    assert "search_docs" not in text


def test_wrong_names_are_one_clear_line() -> None:
    with pytest.raises(LoopscopeError, match="choose one of md, html, json, csv"):
        report(database(), None, GuardPolicy(), "pdf")
    with pytest.raises(NotFoundError, match="no incident"):
        report(database(), "abcdef", GuardPolicy(), "md")
