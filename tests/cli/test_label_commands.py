"""`loopscope label`, `labels`, `score` and `incidents --label`, as a user runs them."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pytest

VERDICTS = ("true_loop", "polling", "legitimate_repeat", "retry_that_worked", "unsure")


@pytest.fixture
def db(samples_db: Path, tmp_path: Path) -> Path:
    """A database of this test's own."""
    return Path(shutil.copy(samples_db, tmp_path / "own.duckdb"))


@pytest.fixture
def keys(run, db: Path) -> dict[str, str]:
    """Incident keys by tool; of the search, the longer one."""
    found = json.loads(run("incidents", "--db", db, "--format", "json").out)["incidents"]
    return {one["tool_name"]: one["key"] for one in reversed(found)}


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_label_is_set_changed_listed_and_removed(run, db: Path, keys: dict[str, str]) -> None:
    key = keys["get_pod"]
    assert run("labels", "--db", db).out.startswith("No labels.")
    assert (
        run("label", key[:6], "true_loop", "--db", db, "--note", "never\x1b[31m ended").out
        == f"{key}: true_loop\n"
    )
    assert run("label", key, "polling", "--db", db).out == f"{key}: polling (was true_loop)\n"
    assert run("label", key, "Polling", "--db", db).out == f"{key}: polling, as before\n"
    listed = run("labels", "--db", db).out
    assert key[:10] in listed
    assert "never\ufffd[31m ended" in listed
    [label] = json.loads(run("labels", "--db", db, "--format", "json").out)["labels"]
    assert (label["key"], label["verdict"], label["incident"], label["tool_name"]) == (
        key,
        "polling",
        True,
        "get_pod",
    )
    assert [row["key"] for row in rows(run("labels", "--db", db, "--format", "csv").out)] == [key]
    assert run("label", key, "--remove", "--db", db).out == "Removed 1 label.\n"
    gone = run("label", key, "--remove", "--db", db)
    assert (gone.code, gone.err.count("\n")) == (2, 1)
    assert "has no label" in gone.err


def test_a_group_is_labelled_at_once(run, db: Path, keys: dict[str, str]) -> None:
    key = keys["search_help_center"]
    run("label", key, "polling", "--db", db)
    done = run("label", key, "true_loop", "--group", "--db", db)
    assert done.out == "true_loop: 2 incidents of the group; 1 new, 1 changed (were polling)\n"
    assert run("label", key, "true_loop", "--group", "--db", db).out.endswith("; 0 new, 2 as before\n")
    assert run("label", key, "--remove", "--group", "--db", db).out == "Removed 2 labels.\n"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "which incident?"),
        (("KEY",), "what was it?"),
        (("KEY", "poling"), "did you mean polling?"),
        (("ffffffff", "polling"), "no incident 'ffffffff'"),
        (("KEY", "polling", "--remove"), "leave out the verdict"),
        (("KEY", "--import", "a.csv"), "stand alone"),
        (("--import", "a.csv", "--export", "b.csv"), "stand alone"),
        (("KEY", "polling", "--all"), "--all goes with --export"),
        (("--import", "absent.csv"), "loopscope: absent.csv: cannot be read: No such file"),
        (("--export", "absent/folder/a.csv"), "cannot be written: No such file"),
    ],
)
def test_what_does_not_go_is_one_line(run, db: Path, keys: dict[str, str], args: tuple, message: str) -> None:
    done = run("label", *(keys["get_pod"] if arg == "KEY" else arg for arg in args), "--db", db)
    assert done.code == 2
    assert message in done.err
    assert done.err.count("\n") == 1
    assert done.out == ""


def test_labels_go_out_are_filled_in_and_come_back(
    run, db: Path, keys: dict[str, str], tmp_path: Path
) -> None:
    sheet = tmp_path / "labels.csv"
    run("label", keys["get_pod"], "true_loop", "--note", "=x", "--db", db)
    assert "1 label and the incidents without one" in run("label", "--export", sheet, "--all", "--db", db).out
    table = rows(sheet.read_text(encoding="utf-8-sig"))
    assert len(table) == 10
    for row in table:
        if row["tool"] == "run_build":
            row["verdict"] = "Legitimate repeat"
    out = io.StringIO()
    writer = csv.DictWriter(out, list(table[0]), delimiter=";")
    writer.writeheader()
    writer.writerows(table)
    for encoding in ("utf-8-sig", "utf-16"):
        sheet.write_text(out.getvalue(), encoding=encoding)
        done = run("label", "--import", sheet, "--db", db)
        assert done.code == 0
    assert done.out == f"{sheet}: 0 new, 0 changed, 2 as before, 8 without a verdict skipped.\n"
    printed = run("label", "--export", "-", "--db", db).out
    assert {(row["tool"], row["verdict"], row["note"]) for row in rows(printed)} == {
        ("get_pod", "true_loop", "'=x"),
        ("run_build", "legitimate_repeat", ""),
    }
    sheet.write_bytes(b"key,verdict\n\xff\xfe,polling\n")
    assert "not UTF-8" in run("label", "--import", sheet, "--db", db).err
    sheet.write_text(f"key,verdict\n{'0' * 16},polling\n{keys['run_sql']},trueloop\n", encoding="utf-8")
    wrong = run("label", "--import", sheet, "--db", db)
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)
    assert "line 3: there is no verdict 'trueloop'; did you mean true_loop?" in wrong.err
    sheet.write_text(f"key,verdict\n{'0' * 16},polling\n", encoding="utf-8")
    kept = run("label", "--import", sheet, "--db", db)
    assert "1 of the keys have no incident here" in kept.err
    listed = run("labels", "--db", db).out
    assert "(no incident)" in listed
    assert "1 without an incident" in listed
    assert run("label", "000000", "--remove", "--db", db).out == "Removed 1 label.\n"


def test_incidents_are_listed_by_label(run, db: Path, keys: dict[str, str]) -> None:
    assert '"label": null' in run("incidents", "--db", db, "--format", "json").out
    run("label", keys["get_pod"], "true_loop", "--note", "n", "--db", db)
    run("label", keys["run_build"], "polling", "--db", db)

    def listed(*args: str) -> list[tuple[str, str, str]]:
        text = run("incidents", "--db", db, "--format", "json", *args).out
        return [(one["tool_name"], one["label"], one["label_note"]) for one in json.loads(text)["incidents"]]

    assert listed("--label", "true loop") == [("get_pod", "true_loop", "n")]
    assert len(listed("--label", "none")) == 8
    assert {one[0] for one in listed("--label", "true_loop", "--label", "polling")} == {
        "get_pod",
        "run_build",
    }
    assert run("incidents", "--db", db, "--label", "unsure").out == "No incidents with that label.\n"
    wrong = run("incidents", "--db", db, "--label", "pole")
    assert (wrong.code, "did you mean polling?" in wrong.err) == (2, True)
    assert "polling" in run("incidents", "--db", db).out


def test_weak_labels_are_offered_where_nobody_labelled(run, db: Path, keys: dict[str, str]) -> None:
    first = json.loads(run("labels", "--weak", "--db", db, "--format", "json").out)
    offered = {one["tool_name"]: one for one in first["weak_labels"]}
    assert offered["run_build"]["verdict"] == "legitimate_repeat"
    assert offered["fetch_invoice"]["rule"] == "succeeded_later"
    assert offered["get_pod"]["evidence"].startswith("The run ended in it: after its third call")
    table = run("labels", "--weak", "--db", db).out
    assert "None of them is stored" in table
    assert "people agree" not in table
    run("label", keys["get_pod"], "true_loop", "--db", db)
    second = rows(run("labels", "--weak", "--db", db, "--format", "csv").out)
    assert {one["tool_name"] for one in second} == set(offered) - {"get_pod"}
    assert "1/1 100% (21-100)" in run("labels", "--weak", "--db", db).out


def test_scores_say_what_they_rest_on(run, db: Path, keys: dict[str, str]) -> None:
    empty = run("score", "--db", db)
    assert empty.code == 0
    assert "Nothing to score by" in empty.out
    run("label", keys["get_pod"], "true_loop", "--db", db)  # 12 calls
    run("label", keys["run_build"], "legitimate_repeat", "--db", db)  # 4 calls
    run("label", keys["run_sql"], "unsure", "--db", db)
    found = json.loads(run("score", "--db", db, "--block", "4:5", "--nudge", "3", "--format", "json").out)
    assert set(found) == {"schema_version", "policy", "labels", "at_policy", "blocks", "nudges"}
    assert (found["labels"]["human"], found["labels"]["weak"], found["labels"]["unsure"]) == (2, 0, 1)
    four, five = (row["by_block"]["all"] for row in found["blocks"])
    assert (four["tp"], four["fp"], four["precision"]["value"]) == (1, 1, 0.5)
    assert (five["tp"], five["fp"], five["tn"], five["recall"]["n"]) == (1, 0, 1, 1)
    assert found["at_policy"]["by_block"]["all"]["projected"] == 1
    assert [(row["nudge"], row["block"]) for row in found["nudges"]] == [(3, None)]
    pairs = json.loads(run("score", "--db", db, "--pairs", "--weak", "--format", "json").out)
    assert len(pairs["pairs"]) == sum(nudge < block for nudge in range(2, 9) for block in range(3, 13))
    assert pairs["labels"]["weak"] > 0
    assert run("score", "--db", db, "--weak").out.startswith(
        "6 labelled incidents of 6 groups: 4 true loops, 2 others; 2 labelled by people, 4 by weak rules."
    )
    table = run("score", "--db", db).out
    assert table.startswith("2 labelled incidents of 2 groups: 1 true loop, 1 other. Left out: 1 unsure, 7 ")
    assert "policy: 3/5" in table
    assert "Too few labels to choose by; label more." in table
    assert [line.split()[0] for line in table.splitlines() if line[:1].isdigit()][1:] == [
        "3-4",
        "5-12",
        "2-4",
        "5-8",
    ]
    lines = rows(run("score", "--db", db, "--block", "4", "--nudge", "3", "--format", "csv").out)
    assert [(one["by"], one["nudge"], one["block"], one["split"]) for one in lines[6:9]] == [
        ("block", "", "4", split) for split in ("tuning", "held_out", "all")
    ]
    assert (lines[8]["precision"], lines[8]["n"]) == ("0.5", "2")
    wrong = run("score", "--db", db, "--block", "5:4")
    assert (wrong.code, "first:last" in wrong.err) == (2, True)
