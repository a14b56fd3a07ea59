"""`make bench`: the tables are what is stored, a promise that is not kept is told, and so is what is missing."""

import json
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import bench
from cases import Pair
from measurements import MEASUREMENTS, PROMISED

FILES = sorted(bench.RESULTS.glob("*.json"))


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A folder of results and a page of its own."""
    monkeypatch.setattr(bench, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(bench, "PAGE", tmp_path / "benchmarks.md")
    markers = "".join(f"<!-- bench{name} -->\n<!-- /bench -->\n\n" for name in ("", ":classifiers", ":cold"))
    bench.PAGE.write_text(f"# Benchmarks\n\nWords.\n\n{markers}More.\n")
    return bench.PAGE


def result(ratio, name="classifiers", case="GDA class, QDA: fit"):
    rows = bench.grouped([Pair(case, 9.0, 9.0, cold=True), *(Pair(case, 2.0, 2.0 * ratio * k) for k in (0.9, 1, 1.2))], more=False)
    machine = {"processor": "one", "cores": 2, "load": 0.1}
    return {
        "name": name,
        "date": "2026-01-01",
        "unit": "s",
        "repeats": 3,
        "versions": {"tallies": "0"},
        "machine": machine,
        "rows": rows,
    }


def test_the_page_is_what_is_stored():
    text = bench.PAGE.read_text(encoding="utf-8")
    assert bench.page(text, bench.stored(bench.RESULTS)) == text, "write it with: python benchmarks/bench.py write"
    assert FILES and "<!-- bench -->" in text


def test_every_table_of_the_page_is_written_from_what_is_stored():
    text = bench.PAGE.read_text(encoding="utf-8")
    named = re.findall(r"<!-- bench:([\w-]+) -->", text)
    assert sorted(named) == sorted(bench.BY_NAME)
    assert "|" not in re.sub(r"<!-- bench.*?<!-- /bench -->", "", text, flags=re.S)  # no table is typed


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_is_stored_agrees_with_its_runs(file):
    """Medians and ranges follow from the pairs; there is no path in it, and its name is one of the list."""
    text = file.read_text(encoding="utf-8")
    found = json.loads(text)
    m = bench.BY_NAME[file.stem]
    assert found["name"] == m.name and found["unit"] == m.unit
    for row in found["rows"]:
        if m.rival is None:
            assert row and all(isinstance(cell, str) for cell in row.values())
        else:
            assert {**row, **bench.summary(row["pairs"], m.more)} == row
    assert {"tallies", "python", "numpy"} <= set(found["versions"]) and set(found["machine"]) == {"processor", "cores", "load"}
    assert not re.search(r"[/\\]\w+[/\\]", text)


def test_a_table_is_stored_as_it_is_printed(elsewhere):
    rows = bench.cells([{"model": "GDA", "cold s": 1.23456, "rows": 12345}, {"model": "LDA", "cold s": 0.5, "settled": True}])
    bench.store(result(1.0, "cold") | {"rows": rows}, bench.RESULTS)
    assert bench.main(["write"]) == 0
    text = elsewhere.read_text()
    table = "| model | cold s | rows | settled |\n| --- | --- | --- | --- |\n| GDA | 1.23 | 12,345 |  |\n| LDA | 0.5 |  | yes |"
    assert f"<!-- bench:cold -->\n{table}\n\n`make bench NAMES=cold`: " in text
    with pytest.raises(SystemExit, match="no row was measured"):
        bench.cells([])


def test_names_and_promises_are_of_the_list():
    assert len(bench.BY_NAME) == len(MEASUREMENTS) and set(PROMISED) <= set(bench.BY_NAME)
    assert {m.family for m in MEASUREMENTS} == {"floor", "bayes", "topics", "counts", "categories", "concepts"}


def test_a_ratio_below_its_promise_fails(elsewhere, capsys):
    promise = PROMISED["classifiers"]["GDA class, QDA: fit"]
    bench.store(result(promise * 1.01), bench.RESULTS)
    assert bench.main(["write"]) == 0
    assert "missed" not in elsewhere.read_text()
    bench.store(result(promise * 0.99), bench.RESULTS)
    assert bench.main(["write"]) == 1
    told = capsys.readouterr()
    assert "FAILED: classifiers, GDA class, QDA: fit: 9.9, and 10 was promised" in told.err
    assert "10, **missed**" in told.out and elsewhere.read_text().count("10, **missed**") == 1
    assert "**1 missed**" in elsewhere.read_text()


def test_tables_stand_between_markers_and_nothing_else_changes(elsewhere):
    before = elsewhere.read_text()
    assert bench.main(["write"]) == 0
    empty = elsewhere.read_text()
    assert "Not measured yet: `make bench NAMES=classifiers`." in empty and "Not measured yet: cold, classifiers, " in empty
    bench.store(result(12.0), bench.RESULTS)
    bench.write()
    text = elsewhere.read_text()
    assert text.count("| GDA class, QDA: fit (cold 9 and 9) | 2 | 24 | 12 | 10.8 to 14.4 | 3 | 10 |") == 1
    assert "wall s | scikit-learn | 1 | 12 | 9, all kept | one, 2026-01-01 |" in text
    assert re.sub(r"(bench(?::\w+)? -->\n).*?(<!-- /bench)", r"\1\2", text, flags=re.S) == before
    bench.write()
    assert elsewhere.read_text() == text


def test_what_is_missing_is_said(elsewhere, tmp_path, capsys, monkeypatch):
    def none(name):
        raise bench.PackageNotFoundError(name)

    assert bench.main(["run", "concept-rank", "--data", str(tmp_path)]) == 0
    assert "concept-rank: left out, no craft_sentences.jsonl.gz, " in capsys.readouterr().out
    monkeypatch.setattr(bench, "version", none)
    assert bench.main(["run", "--quick", "pln-oaks"]) == 0
    told = capsys.readouterr().out
    assert "pyPLNmodels is not installed: pip install -e '.[bench-pln]'" in told and "no oaks_Abundance.csv, " in told
    with pytest.raises(SystemExit):
        bench.main(["run", "nothing-of-this-name"])
    assert "there are cold, classifiers, " in capsys.readouterr().err


def test_no_ratio_is_made_of_what_never_came():
    with pytest.raises(SystemExit, match="no ratio"):
        bench.grouped([Pair("a", float("inf"), 1.0)], more=False)


def test_where_more_is_better_ours_is_over_the_rivals():
    assert bench.grouped([Pair("a", 0.6, 0.3)], more=True)[0]["ratio"] == 2.0
