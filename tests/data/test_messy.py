"""Thirty files as they come, and twelve more: they are read with the right names, rows, gaps, kinds; what was forgiven is told."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

import tallies
from messier import messier_files
from messy import messy_files, random_dialect
from tallies.data.files import read_table, told
from tallies.data.kinds import describe
from tallies.errors import DataError

FILES = {messy.name: messy for messy in [*messy_files(), *messier_files()]}


@pytest.mark.parametrize("name", FILES)
def test_a_messy_file_is_read(tmp_path, name):
    messy = FILES[name]
    (tmp_path / name).write_bytes(messy.body)
    frame = tallies.read_table(tmp_path / name)
    assert list(frame.columns) == list(messy.kinds)
    assert len(frame) == messy.rows
    assert frame.isna().sum().sum() == messy.gaps
    assert [c for c, kind in messy.kinds.items() if kind == "number" and frame[c].dtype.kind not in "fi"] == []
    columns = describe(frame)
    assert dict(zip(columns.names, columns.kinds, strict=True)) == messy.kinds
    assert [words for words in messy.told if words not in frame.attrs["read"]] == []


def test_dialects_that_nobody_has_looked_at(tmp_path):
    for seed in range(100, 160):
        messy = random_dialect(seed)
        (tmp_path / messy.name).write_bytes(messy.body)
        frame = tallies.read_table(tmp_path / messy.name)
        assert list(frame.columns) == list(messy.kinds), seed
        assert (len(frame), frame.isna().sum().sum()) == (messy.rows, messy.gaps), seed
        assert all(frame[c].dtype.kind in "fi" for c, kind in messy.kinds.items() if kind == "number"), seed


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b"a,b\n1,2\nx\xff,4\n", {"a": ["1", "xÿ"], "b": [2, 4]}),  # no UTF-8
        ("a,b\n1,é\n".encode("utf-16"), {"a": [1], "b": ["é"]}),
        (b"a,b\n1,2\r\n3,4\n", {"a": [1, 3], "b": [2, 4]}),  # two ends of lines
        (b"a,b\n1,2\n\n3,4\n\n", {"a": [1, 3], "b": [2, 4]}),
        (b"a,b,c\n1,2,3\n4,5\n", {"a": [1, 4], "b": [2, 5], "c": [3.0, np.nan]}),  # a short line
        (b"0,1,2\n5.1,2.2,3.3\n1.1,1.2,1.3\n", {"0": [5.1, 1.1], "1": [2.2, 1.2], "2": [3.3, 1.3]}),  # names from pandas
        (b"state,2019,2020\nOhio,3,4\nUtah,5,6\n", {"state": ["Ohio", "Utah"], "2019": [3, 5], "2020": [4, 6]}),
        (b"x,x,o\no,x,o\nx,x,x\no,o,o\n", {"column1": list("xoxo"), "column2": list("xxxo"), "column3": list("ooxo")}),
        (b"rh,n\n+,1\n-,2\n-,3\n", {"rh": ["+", "-", "-"], "n": [1, 2, 3]}),  # "-" beside "+" is no gap
        (b"plz,n\n01067,1\n10115,2\n", {"plz": ["01067", "10115"], "n": [1, 2]}),
        (b"chapter,n\n1_2,1\n3_4,2\n", {"chapter": ["1_2", "3_4"], "n": [1, 2]}),
        (b"price\n1.234\n5.678\n", {"price": [1.234, 5.678]}),
        (b"price;size\n1.234;a\n5.678;b\n", {"price": [1.234, 5.678], "size": ["a", "b"]}),  # nothing says thousands
        (b"price;size\n1.234;1,5\n5.678;2,5\n", {"price": [1234, 5678], "size": [1.5, 2.5]}),  # thousands, since beside 1,5
        (b'price,size\n"1,234",1.5\n"5,678",2.5\n', {"price": [1234, 5678], "size": [1.5, 2.5]}),
        (b"done\ntrue\nFALSE\n", {"done": [True, False]}),
        (b"title;;\n;;\na;b;c\n1;2;3\n4;5;6\n", {"a": [1, 4], "b": [2, 5], "c": [3, 6]}),
        (b"a  b\n1  2.5\n3  4.5\n", {"a": [1, 3], "b": [2.5, 4.5]}),  # in columns, by spaces
        (b"a\n \n x\n", {"a": ["x"]}),
        (b"Na,NA\n1,2\n", {"Na": [1], "NA": [2]}),  # a name is no gap
        (b"size\n" + b"9" * 30 + b"\n1e400\n", {"size": [1e30, np.inf]}),
    ],
)
def test_what_comes_out(tmp_path, body, found):
    name = "t.txt" if b"  " in body[:4] else "t.csv"
    (tmp_path / name).write_bytes(body)
    frame = tallies.read_table(tmp_path / name)
    assert list(frame.columns) == list(found)
    for column, values in found.items():
        there = frame[column].to_numpy()
        np.testing.assert_array_equal(there, np.array(values, dtype=there.dtype))


@pytest.mark.parametrize(
    ("body", "kinds", "told"),
    [
        (
            "chr,n\n" + "".join(f"{c},{n}.5\n" for n, c in enumerate([*range(1, 23), "X", "Y"])),
            ["id", "number"],
            "'X' is no number",
        ),
        ("lead,n\n" + "".join(f"{'<0.05' if i % 5 else i},{i}.5\n" for i in range(12)), ["category", "number"], ""),
        ("lead,n\n" + "".join(f"{i % 4 or '<0.05'},{i}.5\n" for i in range(12)), ["category", "number"], "'<0.05' is no number"),
        ("code,n\n" + "".join(f"{i}A,{i}.5\n" for i in range(12)), ["id", "number"], ""),  # a letter makes a code
        ("code,n\n" + "".join(f"OTU {i},{i}.5\n" for i in range(12)), ["id", "number"], ""),
        ("part,n\n" + "".join(f"({i % 3}),{i}.5\n" for i in range(12)), ["category", "number"], ""),
        ("age,n\n" + "".join(f"{i % 4}-{i % 4 + 9},{i}.5\n" for i in range(12)), ["category", "number"], ""),
        ("size,n\n" + "".join(f"{i} {'mg' if i % 2 else 'g'},{i}.5\n" for i in range(12)), ["id", "number"], ""),  # two units
        ("plot,n\n" + "".join(f"5 Main 20{i:02},{i}.5\n" for i in range(10, 22)), ["date", "number"], ""),
        ("place,n\n" + "".join(f"{i} {chr(97 + i) * 4} 2020,{i}.5\n" for i in range(13)), ["id", "number"], ""),  # thirteen months
        (
            "site,a,b\n" + "".join(f"s{i},{int(i == 3)},{int(i == 5)}\n" for i in range(10)) + "s10,1,1\n",
            ["id", "number", "number"],
            "",
        ),
    ],
)
def test_what_only_looks_like_dress(tmp_path, body, kinds, told):
    """Codes, ranges, two units and rare species stay what they are, and numbers below detection are told."""
    (tmp_path / "t.csv").write_text(body)
    frame = tallies.read_table(tmp_path / "t.csv")
    assert describe(frame).kinds == kinds and len(frame) == body.count("\n") - 1
    assert told in frame.attrs["read"] and bool(told) == bool(frame.attrs["read"])


def test_dressed_numbers_keep_their_values(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a;b;c;d\n(1,5);R$ 1.234,50;1 234,5 m;−3\n2,5;R$ 0,50;7 m;unknown\n", encoding="utf-8")
    assert tallies.read_table(path).fillna(-99).to_dict("list") == {
        "a": [-1.5, 2.5],
        "b": [1234.5, 0.5],
        "c": [1234.5, 7],
        "d": [-3, -99],
    }


def test_what_is_told_wins(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("size,name\n1,é\n".encode("latin-1"))
    assert tallies.read_table(path, encoding="cp1251")["name"].tolist() == ["й"]
    assert tallies.read_table(path, sep=";").columns.tolist() == ["size,name"]
    assert tallies.read_table(path, header=False)["column1"].tolist() == ["size", "1"]
    path.write_text("a;b\n1,234;x\n")
    assert tallies.read_table(path)["a"].tolist() == [1.234]
    assert tallies.read_table(path, decimal=".")["a"].tolist() == [1234]
    path.write_text("a;b\n1.234;x\n")
    assert tallies.read_table(path, decimal=",")["a"].tolist() == [1234]
    path.write_text("a\tb\n1.5\tx\n")
    with told(sep="tab", decimal=","):
        assert tallies.read_table(path)["a"].tolist() == ["1.5"]
    for wrong, words in (("klingon", "no encoding 'klingon'"), ("utf-16", "that was told")):
        with pytest.raises(DataError, match=rf"a\.csv.*{words}"):
            tallies.read_table(path, encoding=wrong)
    with pytest.raises(DataError, match="point or a comma"):
        tallies.read_table(path, decimal=";")


def test_archives_hold_one_table(tmp_path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("a.csv", "x\n1\n")
        archive.writestr("b.csv", "x\n1\n")
    with pytest.raises(DataError, match=r"one table .*two.zip.*'a.csv', 'b.csv'"):
        tallies.read_table(tmp_path / "two.zip")


def test_counts_in_any_dialect(tmp_path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "counts.zip", "w") as archive:
        archive.writestr("counts.csv", "Probe;Eiche;Ulme\na;3;0\nb;1.234;7\nc;2.000;1\nd;-;0\n")
    frame = tallies.read_counts(tmp_path / "counts.zip")
    assert frame.index.tolist() == ["a", "b", "c", "d"]
    assert frame["Ulme"].tolist() == [0, 7, 1, 0]


def test_the_index_of_a_parquet_file_comes_back(tmp_path):
    pytest.importorskip("pyarrow")
    import pandas as pd

    frame = pd.DataFrame({"oak": [1, 2], "elm": [3, 4]}, index=["a", "b"])
    frame.to_parquet(tmp_path / "[1].parquet")  # a name that is a pattern, too
    pd.testing.assert_frame_equal(tallies.read_table(tmp_path / "[1].parquet"), frame)
    pd.testing.assert_frame_equal(tallies.read_counts(tmp_path / "[1].parquet"), frame)


def test_nothing_is_fetched_for_a_file():
    from tallies.data.dialect import connect

    with connect() as base:
        settings = "SELECT value FROM duckdb_settings() WHERE name IN ('autoinstall_known_extensions', 'autoload_known_extensions')"
        assert base.execute(settings).fetchall() == [("false",), ("false",)]


@pytest.mark.parametrize(
    ("late", "kind"),
    [("007", "text"), ("1.5", "float64"), ("1e3", "float64"), ("12_5", "text"), ("x", "text"), ("NA", "float64")],
)
def test_a_cell_below_the_first_rows_still_says_what_a_column_is(tmp_path, late, kind):
    path = tmp_path / "late.csv"
    path.write_text("n,m\n" + "".join(f"{i},{i}.5\n" for i in range(3000)) + f"{late},7\n")
    frame = read_table(path)
    assert frame["n"].dtype == (pd.Series(["x"]).dtype if kind == "text" else kind)  # which pandas has renamed
    assert frame["m"].tolist() == [i + 0.5 for i in range(3000)] + [7.0]


def test_numbers_below_a_screen_of_gaps_or_words(tmp_path):
    path = tmp_path / "late.csv"
    path.write_text("a;b;c;d\n" + "NA; 7;true;+\n" * 50 + "1,5;08 ;-;-\n" * 50)
    frame = read_table(path)
    assert frame["a"].tolist()[49:51] != frame["a"].tolist()[50:52]
    assert frame["a"].sum() == 75
    assert frame["b"].tolist() == ["7"] * 50 + ["08"] * 50  # codes, without the spaces around them
    assert frame["c"].tolist()[0] is True
    assert frame["c"].isna().sum() == 50
    assert frame["d"].tolist() == ["+"] * 50 + ["-"] * 50


def test_a_wide_table_is_read_as_its_columns_are_alone_and_in_time_that_grows_with_them(tmp_path):
    rng = np.random.default_rng(0)
    kinds = [
        lambda: f"{rng.normal():.3f}",
        lambda: str(rng.integers(100)),
        lambda: rng.choice(["true", "false"]),
        lambda: rng.choice(["a", "b"]),
    ]

    def seconds(n, name):
        rows = [[f"v{j}" for j in range(n)], *([kinds[j % 4]() for j in range(n)] for _ in range(12))]
        text = "\n".join(";".join(row) for row in rows)
        (tmp_path / name).write_text(text)
        begun = time.process_time()
        found.append(read_table(tmp_path / name))
        (tmp_path / "some.csv").write_text("\n".join(";".join(row[:24]) for row in rows))
        pd.testing.assert_frame_equal(found[-1].iloc[:, :24], read_table(tmp_path / "some.csv"))
        return time.process_time() - begun

    found = []
    few = seconds(160, "few.csv")
    assert seconds(640, "many.csv") < 9 * few  # 4 where it grows with the columns, 16 with their square
    assert found[1].shape == (12, 640)


def test_of_one_column_no_line_is_short(tmp_path):
    (tmp_path / "eggs.csv").write_text("eggs\n1\n2\n3\n")
    frame = tallies.read_table(tmp_path / "eggs.csv")
    assert frame["eggs"].tolist() == [1, 2, 3]
    assert frame.attrs["read"] == ""


NOTEBOOK = """
import sys, types
shell = types.ModuleType("IPython")
shell.get_ipython = lambda: types.SimpleNamespace(config={"IPKernelApp": {}})
sys.modules |= {"IPython": shell, "ipywidgets": None}
import tallies
print(tallies.read_table(sys.argv[1]).shape, tallies.read_table(sys.argv[1]).shape)
"""


def test_a_notebook_without_widgets_reads_files(tmp_path):
    """DuckDB draws its progress by ipywidgets there, and fails where it is told not to and has none."""
    (tmp_path / "table.csv").write_text("a,b\n1,x\n2,y\n")
    done = subprocess.run([sys.executable, "-c", NOTEBOOK, tmp_path / "table.csv"], capture_output=True, text=True)
    assert done.stdout.split("\n")[0] == "(2, 2) (2, 2)", done.stderr


@pytest.mark.parametrize("title", [False, True])
@pytest.mark.parametrize("upright", [False, True], ids=["blank below", "merged below"])
def test_a_header_of_two_lines_with_merged_cells(tmp_path, title, upright):
    from openpyxl import Workbook

    book = Workbook()
    sheet, top = book.active, 1 + title
    if title:
        sheet["A1"] = "Survey of 2024"
        sheet.merge_cells("A1:D1")
    for cell, word in (("A", "where"), ("B", "size"), ("D", "kind")):
        sheet[f"{cell}{top}"] = word
    sheet[f"B{top + 1}"], sheet[f"C{top + 1}"] = "wide", "long"
    sheet.merge_cells(f"B{top}:C{top}")
    for column in "AD" if upright else "":
        sheet.merge_cells(f"{column}{top}:{column}{top + 1}")
    for i in range(12):
        sheet.append([f"s{i}", i + 0.5, i + 0.25, "ab"[i % 2]])
    book.save(tmp_path / "t.xlsx")
    frame = read_table(tmp_path / "t.xlsx")
    assert list(frame) == ["where", "size wide", "size long", "kind"]
    assert len(frame) == 12 and frame["size long"].sum() == 69.0


def test_whole_numbers_of_more_digits_than_a_number_holds_stay_codes(tmp_path):
    long = [10**25 + i for i in range(12)]
    (tmp_path / "t.csv").write_text("tag,bar,x\n" + "".join(f"{n},{2**55 + 7 * i},{i}.5\n" for i, n in enumerate(long)))
    frame = read_table(tmp_path / "t.csv")
    assert frame["tag"].tolist() == list(map(str, long)) and frame["bar"].tolist() == [2**55 + 7 * i for i in range(12)]
    assert describe(frame).kinds == ["id", "id", "number"]


@pytest.mark.parametrize("rest", ["", '\n"one, of two"'])
def test_line_breaks_in_the_only_column_are_read(tmp_path, rest):
    """DuckDB refused them, for short lines could be filled up."""
    (tmp_path / "a.csv").write_text(f'text\n"a tree\nof the wood"\n"c bird"\n"d bird"{rest}\n')
    assert read_table(tmp_path / "a.csv")["text"].tolist()[:3] == ["a tree\nof the wood", "c bird", "d bird"]


def test_what_is_no_line_break_begins_no_comment(tmp_path):
    (tmp_path / "a.csv").write_text("text\na tree\nb\x0c# one\nc bird\n# by hand\nd\u2028#2\n", encoding="utf-8")
    assert read_table(tmp_path / "a.csv")["text"].tolist() == ["a tree", "b\x0c# one", "c bird", "d\u2028#2"]


def test_lists_in_parquet_are_told_of(tmp_path):
    """The search for words for gaps failed at them, and the file was said not to be whole."""
    for name, cells in {"list": [[1, 2], [3]], "dict": [{"a": 1}, {"a": 2}]}.items():
        pd.DataFrame({"size": [1.0, 2.0], "more": cells}).to_parquet(tmp_path / "a.parquet")
        with pytest.raises(DataError, match=rf"column 'more' holds a {name} in row 1; expected a number or a text: drop"):
            read_table(tmp_path / "a.parquet")
