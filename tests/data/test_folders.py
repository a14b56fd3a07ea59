"""Folders as people have them: files that differ in columns, types, dialects and encodings, empty and broken ones."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pytest

import tallies
from tallies.data import lines as texts
from tallies.data.files import told as read_as
from tallies.data.lazy import Piece, open_table
from tallies.data.prepared import prepare
from tallies.errors import DataError, DataWarning, FileError
from tallies.mapped import Home


def table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    colour = np.where(rng.random(n) < 0.3 + 0.4 * y, "red", "blue")
    return pd.DataFrame({"size": rng.normal(y), "eggs": rng.poisson(1 + y), "colour": colour, "kind": np.where(y, "a", "b")})


def parts(frame):
    return [frame.iloc[:100], frame.iloc[100:200], frame.iloc[200:]]


WRITE = {
    "parquet": lambda frame, path: frame.to_parquet(path, index=False),
    "csv": lambda frame, path: frame.to_csv(path, index=False),
    "jsonl": lambda frame, path: frame.to_json(path, orient="records", lines=True, double_precision=15),
}


def folder_of(frames, folder, suffix):
    folder.mkdir()
    for k, frame in enumerate(frames):
        WRITE[suffix](frame, folder / f"{k}.{suffix}")
    return folder


def frame_of(folder):
    """What a fit reads of a folder."""
    found = open_table(folder)
    return pd.concat([piece.frame(found.cells(list(found.facts))) for piece in found.pieces], ignore_index=True)


@pytest.mark.parametrize("suffix", WRITE)
def test_files_may_lack_columns_and_have_others(tmp_path, suffix):
    one, two, three = parts(table())
    frames = [one, two[["kind", "colour", "size", "eggs"]], three.drop(columns="eggs").assign(legs=4.5)]
    folder = folder_of(frames, tmp_path / "table", suffix)
    with pytest.warns(DataWarning, match=r"columns \['legs', 'eggs'\] are not in all of the 3 files"):
        found = tallies.NaiveBayes().fit(folder, y="kind")
    whole = pd.concat(frames, ignore_index=True)
    known = tallies.NaiveBayes().fit(whole.drop(columns="kind"), whole["kind"])
    assert found.families_ == known.families_
    assert found.columns_.set_index("column")["gaps"].to_dict() == {"size": 0, "eggs": 100, "colour": 0, "kind": 0, "legs": 200}
    np.testing.assert_allclose(found.predict_proba(known_of(whole)), known.predict_proba(known_of(whole)), rtol=1e-9)


def known_of(frame):
    return frame[["size", "eggs", "colour", "legs"]]


@pytest.mark.parametrize("suffix", WRITE)
def test_a_column_has_one_type_in_all_files(tmp_path, suffix):
    """Also one whose names differ in capitals, and one that is empty in some files."""
    one, two, three = parts(table())
    eggs = two["eggs"].astype(object).where(two["eggs"] > 1, "many")
    frames = [one, two.assign(eggs=eggs.astype(str)).rename(columns={"size": "Size"}), three.assign(colour=None)]
    found = frame_of(folder_of(frames, tmp_path / "table", suffix))
    assert found["eggs"].tolist() == [*one["eggs"].astype(str), *eggs.astype(str), *three["eggs"].astype(str)]
    np.testing.assert_allclose(found["size"], table()["size"], rtol=1e-12)
    assert found["colour"].isna().sum() == 100


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_files_without_anything_have_no_rows(tmp_path, suffix):
    folder = folder_of([table(), table().iloc[:0]], tmp_path / "table", suffix)
    (folder / f"9.{suffix}").write_text("")
    (folder / f"99.{suffix}.gz").write_bytes(gzip.compress(b""))
    assert list(frame_of(folder)) == list(table())
    out = prepare(folder, tmp_path / "prepared")
    assert len(frame_of(out)) == 300
    for path in folder.iterdir():
        path.write_bytes(b"")
    (folder / f"99.{suffix}.gz").unlink()
    with pytest.raises(DataError, match="is empty; expected columns with names, and rows"):
        open_table(folder)


def lines():
    return parts(table())[1].to_csv(index=False).splitlines()


def cut(body):
    return body[: len(body) // 2]


BROKEN = {
    "cut short": (lambda: cut("\n".join(lines())), "line 51 has . cells, but the first 4; is it complete"),
    "a long line": (
        lambda: "\n".join([*lines()[:50], lines()[50] + ",9,9", *lines()[51:]]),
        "line 51 has 6 cells, but the first 4",
    ),
    "a short line": (lambda: "\n".join([*lines()[:50], "1.0,2", *lines()[51:]]), "line 51 has 2 cells, but the first 4"),
    "open quotes": (lambda: "\n".join([*lines()[:50], '1.0,2,"re,a', *lines()[51:]]), "quotes that open in row 50 do not close"),
    "a NUL": (lambda: "\n".join([*lines()[:50], lines()[50] + "\0", *lines()[51:]]), "line 51 of the file holds a NUL byte"),
    "no names": (lambda: "\n".join(lines()[1:]), "has no row of names above its columns, as others have"),
    "names twice": (
        lambda: "\n".join(["size,Size,colour,kind", *lines()[1:]]),
        r"must differ, not by capitals alone, but \['size'",
    ),
    "a line of 3 MB": (
        lambda: "\n".join([*lines(), f"1.0,2,{'red ' * 800_000},a"]),
        "a line of more than 2 MB; write such texts as",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_no_table_of_text_is_told_with_its_file(tmp_path, case):
    """DuckDB's sniffer takes most of these for a table: of one column, or with other classes."""
    body, told = BROKEN[case]
    folder = folder_of(parts(table()), tmp_path / "table", "csv")
    (folder / "1.csv").write_text(body())
    with pytest.raises(DataError, match=rf"1\.csv'.*{told}"):
        tallies.NaiveBayes().fit(folder, y="kind")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
def test_files_in_other_encodings_are_read_as_they_are_in_memory(tmp_path, encoding):
    frame = table().assign(colour=np.where(table()["eggs"] > 1, "röt", "grün"))
    folder = folder_of(parts(frame), tmp_path / "table", "csv")
    (folder / "1.csv").write_bytes((folder / "1.csv").read_bytes().decode().encode(encoding))
    assert frame_of(folder)["colour"].tolist() == frame["colour"].tolist()


def test_decimal_commas_and_words_for_yes_are_those_of_a_file_in_memory(tmp_path):
    frame = table().assign(wet=np.where(table()["eggs"] > 1, "yes", "no"), old=table()["eggs"] > 2)
    folder = tmp_path / "table"
    folder.mkdir()
    for k, some in enumerate(parts(frame)):
        some.to_csv(folder / f"{k}.csv", sep=";", decimal=",", index=False)
    found = frame_of(folder)
    known = pd.concat([tallies.read_table(folder / f"{k}.csv") for k in range(3)], ignore_index=True)
    pd.testing.assert_frame_equal(found, known, check_dtype=False)


@pytest.mark.parametrize("suffix", WRITE)
def test_folders_that_name_a_column_are_one(tmp_path, suffix):
    for year, some in zip((2019, 2020, 2021), parts(table()), strict=True):
        folder_of([some], tmp_path / f"year={year}", suffix)
    assert frame_of(tmp_path)["year"].tolist() == [2019] * 100 + [2020] * 100 + [2021] * 100


def test_folders_that_name_a_column_are_one_whatever_the_encodings(tmp_path):
    """Copies in UTF-8 stood elsewhere, and the column was lost without a word."""
    frame = table().assign(colour=np.where(table()["eggs"] > 1, "röt", "grün"))
    for year, some in zip((2019, 2020, 2021), parts(frame), strict=True):
        (tmp_path / f"year={year}").mkdir()
        some.to_csv(tmp_path / f"year={year}" / "0.csv", index=False, encoding="cp1252" if year == 2020 else "utf-8")
    assert frame_of(tmp_path)["year"].tolist() == [2019] * 100 + [2020] * 100 + [2021] * 100


def test_a_text_of_many_columns_is_read(tmp_path):
    """As those of genes are: more than 4,000 did not fit into what DuckDB was allowed."""
    names = [f"gene{j}" for j in range(5000)]
    pd.DataFrame(np.arange(15000).reshape(3, 5000), columns=names).to_csv(tmp_path / "counts.csv", index=False)
    folder = prepare(tmp_path / "counts.csv", tmp_path / "prepared")
    found = Piece(Home(str(folder)), "000000.parquet", 0, 3, (0, 0)).frame(", ".join(f"{name} AS {name}" for name in names))
    np.testing.assert_array_equal(found, np.arange(15000).reshape(3, 5000))


def test_data_are_prepared_again_where_they_are_read_in_another_way(tmp_path):
    """What was read in a wrong encoding stayed."""
    (tmp_path / "a.csv").write_bytes(b"name,x\n" + b"".join(b"gr\xf1%d,%d\n" % (i % 3, i) for i in range(30)))
    for encoding in ("latin-1", "cp1250"):
        with read_as(encoding=encoding):
            folder = prepare(tmp_path / "a.csv", tmp_path / "prepared")
        assert pd.read_parquet(folder / "000000.parquet")["name"][0] == b"gr\xf10".decode(encoding)


def test_names_that_tables_in_files_cannot_have_are_told(tmp_path):
    for name in ("SIZE", "file_row_number"):
        folder = folder_of([table().assign(**{name: 1.5})], tmp_path / name, "parquet")
        with pytest.raises(DataError, match=f"column name '{name}' .*; rename or drop it"):
            tallies.NaiveBayes().fit(folder, y="kind")
    table().to_parquet(folder / "0.csv", index=False)
    (folder / "0.parquet").unlink()
    with pytest.raises(DataError, match="holds a table of the kind parquet; rename it"):
        tallies.NaiveBayes().fit(folder, y="kind")


def test_prepared_tables_that_are_not_finished_are_no_data(tmp_path, monkeypatch):
    """A fit took what was there for all."""
    folder, out = folder_of(parts(table()), tmp_path / "table", "csv"), tmp_path / "prepared"
    write = texts.Tables.write

    def stopped(self, k, file):
        if k == 2:
            raise KeyboardInterrupt
        return write(self, k, file)

    monkeypatch.setattr(texts.Tables, "write", stopped)
    with pytest.raises(KeyboardInterrupt):
        prepare(folder, out)
    monkeypatch.undo()
    with pytest.raises(FileError, match="is not finished"):
        tallies.NaiveBayes().fit(out, y="kind")
    made = (out / "000000.parquet").stat().st_mtime_ns
    assert len(frame_of(prepare(folder, out))) == 300
    assert (out / "000000.parquet").stat().st_mtime_ns == made
    (folder / "1.csv").write_text(cut((folder / "1.csv").read_text()))
    with pytest.raises(DataError, match="is it complete"):
        prepare(folder, out)
    assert len(frame_of(out)) == 300


def test_prepared_tables_are_those_of_the_manifest(tmp_path):
    out = prepare(folder_of(parts(table()), tmp_path / "table", "csv"), tmp_path / "prepared")
    body = (out / "000001.parquet").read_bytes()
    (out / "000001.parquet").write_bytes(body[:200] + bytes([body[200] ^ 1]) + body[201:])  # as many bytes
    with pytest.raises(FileError, match=r"'.*000001\.parquet' is not what manifest.json beside it tells of"):
        open_table(out)
    (out / "000001.parquet").write_bytes(body)
    (out / "more.parquet").write_bytes(body)
    with pytest.raises(FileError, match=r"'.*more\.parquet' is none of the tables"):
        open_table(out)
    (out / "more.parquet").unlink()
    with pytest.raises(DataError, match="holds prepared tables; choose another folder for texts"):
        tallies.Corpus.prepare(tmp_path / "table", out, text="colour")


def test_answers_go_where_a_folder_can_be(tmp_path):
    folder = folder_of(parts(table()), tmp_path / "table", "parquet")
    model = tallies.NaiveBayes().fit(folder, y="kind")
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"no folder can be made at '.*/below': Not a directory; choose another place"):
        model.predict(folder, out=tmp_path / "file" / "below")


def test_answers_do_not_become_data(tmp_path):
    folder = folder_of(parts(table()), tmp_path / "table", "parquet")
    model = tallies.NaiveBayes().fit(folder, y="kind")
    for out in (folder / "answers", folder):
        with pytest.raises(DataError, match=r"choose another place|a new folder"):
            model.predict(folder, out=out)
    assert len(list(folder.iterdir())) == 3


@pytest.mark.parametrize("ask", ["predict_proba", "log_prob", "score", "partial_fit"])
def test_what_takes_rows_in_memory_says_so_of_a_folder(tmp_path, ask):
    folder = folder_of(parts(table()), tmp_path / "table", "parquet")
    model = tallies.NaiveBayes().fit(folder, y="kind")
    with pytest.raises(DataError, match=r"fit and predict\(X, out=FOLDER\) read in pieces; this takes rows in memory"):
        getattr(model, ask)(folder, *(["kind"] if ask in ("score", "partial_fit") else []))


def test_a_scratch_folder_that_cannot_be_and_a_lazy_frame_that_fails_are_told(tmp_path):
    import polars as pl

    folder = folder_of(parts(table()), tmp_path / "table", "csv")
    with (
        pytest.raises(DataError, match=r"no folder can be made at '.*scratch': Not a directory"),
        tallies.backend("threads", scratch=folder / "0.csv" / "scratch"),
    ):
        tallies.NaiveBayes().fit(folder, y="kind")
    with pytest.raises(DataError, match=r"'LazyFrame' cannot be read as a table: .*nope"):
        tallies.NaiveBayes().fit(pl.scan_csv(folder / "*.csv").with_columns(pl.col("nope")), y="kind")


def test_truths_with_gaps_are_no_numbers_of_gda(tmp_path):
    frame = table().assign(wet=(table()["eggs"] > 1).where(table()["eggs"] > 0).astype("boolean"))[["size", "wet", "kind"]]
    folder = folder_of(parts(frame), tmp_path / "table", "parquet")
    WRITE["parquet"](frame, tmp_path / "whole.parquet")
    found, known = (tallies.GDA(tol=1e-12).fit(X, y="kind") for X in (folder, tmp_path / "whole.parquet"))
    assert found.feature_names_in_.tolist() == known.feature_names_in_.tolist() == ["size"]
    np.testing.assert_allclose(found.means_, known.means_, rtol=1e-9)


def test_dates_are_no_weights_and_no_counts(tmp_path):
    for day in (pd.Timestamp("2020-01-01"), pd.date_range("2020", periods=300)):
        folder = folder_of(parts(table().assign(day=day)), tmp_path / f"{np.size(day)}", "parquet")
        with pytest.raises(DataError, match="the weights in the column 'day' must be numbers"):
            tallies.NaiveBayes().fit(folder, y="kind", sample_weight="day")
        with pytest.raises(DataError, match=r"counts must be numbers, but columns \['colour', 'kind', 'day'\]"):
            tallies.PLN().fit(folder)


def test_answers_to_small_files_are_written_and_to_rows_in_memory_refused(tmp_path):
    """They were given back, and nothing was written."""
    path, frame = tmp_path / "birds.csv", table()
    frame.to_csv(path, index=False)
    for model in (tallies.NaiveBayes(), tallies.FEM(ridge=1.0)):
        X = frame[["eggs", "colour"]]
        model.fit(X, frame["kind"])
        folder = model.predict(path, out=tmp_path / type(model).__name__)
        found = pd.concat(map(pd.read_parquet, sorted(folder.iterdir())))
        assert found["prediction"].tolist() == model.predict(X).tolist()
        with pytest.raises(DataError, match="these are in memory: leave it out"):
            model.predict(X, out=tmp_path / "none")
    texts = [f"{row} tree and bird" for row in frame["colour"]]
    lda = tallies.LDA(n_topics=2, max_iter=4, burn_in=2).fit(tallies.Corpus.from_texts(texts))
    folder = lda.transform(path, text="colour", out=tmp_path / "topics")
    assert len(pd.concat(map(pd.read_parquet, sorted(folder.iterdir())))) == 300
    pln = tallies.PLN(rank=1, max_iter=3).fit(frame[["eggs"]].assign(more=frame["eggs"] + 1))
    for ask in (lambda: lda.transform(texts, out=tmp_path / "none"), lambda: pln.transform(frame[["eggs"]], out=tmp_path / "none")):
        with pytest.raises(DataError, match="these are in memory: leave it out"):
            ask()
    assert not (tmp_path / "none").exists()


def test_answers_to_a_small_matrix_of_cells_are_written(tmp_path):
    anndata = pytest.importorskip("anndata")
    rng = np.random.default_rng(0)
    kinds = np.array(["a", "b"])[np.arange(60) % 2]
    cells = anndata.AnnData(
        rng.poisson(2.0, (60, 5)).astype(np.float32), obs=pd.DataFrame({"kind": kinds}, index=[f"c{i}" for i in range(60)])
    )
    cells.write_h5ad(tmp_path / "cells.h5ad")
    model = tallies.NaiveBayes().fit(tmp_path / "cells.h5ad", y="kind")
    found = pd.concat(map(pd.read_parquet, sorted(model.predict(tmp_path / "cells.h5ad", out=tmp_path / "out").iterdir())))
    assert found["prediction"].tolist() == model.predict(cells).tolist()
    with pytest.raises(DataError, match="these are in memory: leave it out"):
        model.predict(cells, out=tmp_path / "none")
