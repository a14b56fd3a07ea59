"""Tables beyond memory: a folder of files, a lazy frame, a large file; as good as the same rows in memory."""

from __future__ import annotations

import os
from functools import partial

import numpy as np
import pandas as pd
import pytest

import tallies
from tallies.categories import choose
from tallies.data import lazy
from tallies.data import parquet as databases
from tallies.data.bags import open_texts
from tallies.data.lazy import is_lazy, open_table
from tallies.errors import DataError

ROWS = 2200  # in four files of three row groups: more pieces than are added in one go


def table(n=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    frame = pd.DataFrame(
        {
            "row_id": np.arange(n),
            "size": rng.normal(y, 1.0),
            "width": rng.normal(2.0 * y, 1.0),
            "eggs": rng.poisson(1.0 + y),
            "colour": np.array(["red", "green", "blue"], dtype=object)[(y + rng.integers(0, 2, n)) % 3],
            "wings": rng.random(n) < 0.3 + 0.2 * y,
            "when": pd.Timestamp("2020-01-01"),
            "weight": rng.random(n),
            "kind": np.array(["a", "b", "c"])[y],
        }
    )
    frame.loc[rng.random(n) < 0.1, "colour"] = "NA"
    frame.loc[rng.random(n) < 0.1, "size"] = np.nan
    return frame


def parted(frame, folder, write, parts=4):
    folder.mkdir(exist_ok=True)
    for k, rows in enumerate(np.array_split(np.arange(len(frame)), parts)):
        write(frame.iloc[rows], folder / f"part-{k}")
    return folder


def parquet(frame, path):
    frame.to_parquet(path.with_suffix(".parquet"), index=False, row_group_size=200)


def csv(frame, path):
    frame.to_csv(path.with_suffix(".csv"), index=False)


def jsonl(frame, path):
    frame.assign(when="2020-01-01").to_json(path.with_suffix(".jsonl.gz"), orient="records", lines=True, double_precision=15)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(lazy, "PIECE", 300 * 200)


@pytest.fixture
def folder(tmp_path):
    return parted(table(), tmp_path / "table", parquet)


def in_memory(tmp_path):
    path = tmp_path / "whole.parquet"
    table().to_parquet(path, index=False)
    return path


USED = ["size", "width", "eggs", "colour", "wings"]


@pytest.mark.parametrize("write", [parquet, csv, jsonl])
def test_naive_bayes_of_a_folder_is_that_of_its_rows(tmp_path, write):
    whole = tallies.NaiveBayes().fit(in_memory(tmp_path), "kind", sample_weight="weight")
    found = tallies.NaiveBayes().fit(parted(table(), tmp_path / "table", write), "kind", sample_weight="weight")
    assert found.feature_names_in_.tolist() == USED
    assert found.families_ == whole.families_
    assert found.columns_["use"].tolist() == whole.columns_["use"].tolist()
    assert found.columns_["gaps"].tolist() == whole.columns_["gaps"].tolist()
    X = table()[USED]
    np.testing.assert_allclose(found.predict_proba(X), whole.predict_proba(X), rtol=1e-9)
    np.testing.assert_allclose(found.history_, whole.history_, rtol=1e-11)


@pytest.mark.parametrize("options", [{}, {"covariance": "class", "shrinkage": "auto"}])
def test_gda_of_a_folder_is_that_of_its_rows(tmp_path, options):
    frame = table()[["size", "width", "kind"]]
    whole = tallies.GDA(tol=1e-12, **options).fit(frame[["size", "width"]], frame["kind"])  # by EM: size has gaps
    found = tallies.GDA(tol=1e-12, **options).fit(parted(frame, tmp_path / "table", parquet), y="kind")
    np.testing.assert_allclose(found.means_, whole.means_, rtol=1e-9)
    np.testing.assert_allclose(found.covariance_, whole.covariance_, rtol=1e-9)


def test_gda_leaves_words_out(folder):
    model = tallies.GDA().fit(folder, "kind")
    assert model.feature_names_in_.tolist() == ["size", "width", "eggs", "wings", "weight"]
    assert model.columns_.set_index("column")["use"]["colour"].startswith("left out: GDA takes numbers")


def test_missing_labels_are_hidden_ones(tmp_path):
    frame = table()[["width", "eggs", "kind"]]
    frame.loc[::3, "kind"] = None
    folder = parted(frame, tmp_path / "table", parquet)
    with pytest.raises(DataError, match="missing labels"):
        tallies.NaiveBayes().fit(folder, "kind")
    whole = tallies.NaiveBayes(semi_supervised=True).fit(frame[["width", "eggs"]], frame["kind"])
    found = tallies.NaiveBayes(semi_supervised=True).fit(folder, "kind")
    X = frame[["width", "eggs"]]
    np.testing.assert_allclose(found.predict_proba(X), whole.predict_proba(X), rtol=1e-6)


def test_lazy_frames_and_datasets_are_tables(folder):
    import polars as pl
    import pyarrow.dataset as ds

    whole = tallies.NaiveBayes().fit(folder, "kind")
    for X in (pl.scan_parquet(folder / "*.parquet"), ds.dataset(folder), open_table(folder)):
        assert is_lazy(X)
        found = tallies.NaiveBayes().fit(X, "kind")
        np.testing.assert_allclose(found.params_.n, whole.params_.n)
        np.testing.assert_allclose(found.history_, whole.history_, rtol=1e-12)


@pytest.mark.parametrize("missing", ["state", "ignore"])
def test_a_network_of_a_folder_is_that_of_its_rows(folder, missing, run, tmp_path):
    frame = table()[["eggs", "colour", "wings", "kind"]].replace({"colour": {"NA": None}})
    whole = tallies.FEMNetwork(ridge=1.0, missing=missing).fit(frame, sample_weight=table()["weight"].to_numpy())
    opened = open_table(folder)._replace(drop=["size", "width"])
    for workers in (1, 2):
        with tallies.backend("threads", workers=workers):
            found = tallies.FEMNetwork(ridge=1.0, missing=missing).fit(opened, sample_weight="weight")
        assert found.feature_names_in_.tolist() == list(frame.columns)
        np.testing.assert_array_equal(found.couplings_, whole.couplings_)
    assert found.columns_.set_index("column")["use"]["size"] == "left out: as told"
    code, _, err = run(
        "fit", "fem-network", str(folder), "--drop", "size,width,weight", "--ridge", "1", "--out", str(tmp_path / "run")
    )
    assert code == 0, err


def test_collections_of_dask_are_tables(folder, cluster, tmp_path):
    """Written by the workers, a file for each partition; those without rows have none."""
    dataframe, array, bag = (pytest.importorskip(f"dask.{name}") for name in ("dataframe", "array", "bag"))
    whole = tallies.NaiveBayes().fit(folder, "kind")
    frame = dataframe.from_pandas(table(), npartitions=5)
    with tallies.backend(cluster, scratch=tmp_path / "scratch"):
        for X in (
            frame,
            dataframe.concat([frame, frame[frame["eggs"] < 0]]),
            bag.from_sequence(table().to_dict("records"), npartitions=3),
        ):
            assert is_lazy(X)
            found = tallies.NaiveBayes().fit(X, "kind")
            np.testing.assert_allclose(found.params_.n, whole.params_.n)
            np.testing.assert_allclose(found.history_, whole.history_, rtol=1e-11)
        opened = open_table(array.from_array(np.arange(12.0).reshape(4, 3), chunks=(3, 2)))
        assert opened.rows == 4
        assert list(opened.facts) == ["x0", "x1", "x2"]
        texts = open_texts(bag.from_sequence(["one text", "another"], npartitions=2), "text")
        assert [text for part in texts.read() for text in part] == ["one text", "another"]


def test_workers_memory_and_a_cluster_change_no_bit(folder, cluster):
    def fitted():
        model = tallies.NaiveBayes().fit(folder, "kind")
        return model.params_.laws.gaussian.ss.tobytes() + model.params_.laws.categorical.log_p.tobytes()

    with tallies.backend("threads", workers=1):
        one = fitted()
    with tallies.backend("threads", workers=3, memory=1):
        assert fitted() == one
    with tallies.backend(cluster):
        assert fitted() == one


def test_a_large_file_is_read_in_pieces(tmp_path, monkeypatch):
    path = in_memory(tmp_path)
    assert not is_lazy(path)
    monkeypatch.setattr(lazy, "LARGE", 1000)
    monkeypatch.setattr("tallies.data.files.read_table", lambda *a, **k: pytest.fail("it was read whole"))
    assert tallies.NaiveBayes().fit(path, "kind").params_.n.sum() == ROWS


def test_a_fit_is_resumed_on_the_same_files_alone(tmp_path, folder):
    short = tallies.GDA(max_iter=2, semi_supervised=True)
    frame = table()[["size", "width", "kind"]]
    folder = parted(frame, tmp_path / "numbers", parquet)
    with pytest.warns(tallies.errors.ConvergenceWarning):
        short.fit(folder, "kind", checkpoint=tmp_path / "c")
    whole = tallies.GDA(semi_supervised=True).fit(folder, "kind")
    rest = tallies.GDA(semi_supervised=True).fit(folder, "kind", resume=tmp_path / "c")
    assert rest.means_.tobytes() == whole.means_.tobytes()
    parquet(frame.iloc[:100], folder / "part-0")
    with pytest.raises(tallies.errors.FileError, match="other data"):
        tallies.GDA(semi_supervised=True).fit(folder, "kind", resume=tmp_path / "c")


@pytest.mark.parametrize("write", [csv, jsonl])
def test_a_fit_of_files_that_are_written_anew_is_resumed_by_what_is_in_them(tmp_path, write):
    folder = parted(table(300), tmp_path / "table", write)
    make = partial(tallies.GDA, semi_supervised=True, tol=1e-10)
    whole = make().fit(folder, "kind")
    make().fit(folder, "kind", checkpoint=tmp_path / "c", callback=lambda *_: True)
    rest = make().fit(folder, "kind", resume=tmp_path / "c")
    np.testing.assert_array_equal(rest.history_, whole.history_)
    np.testing.assert_array_equal(rest.means_, whole.means_)
    other = table(300)
    other.loc[0, "width"] += 1e-9
    parted(other, folder, write)
    with pytest.raises(tallies.errors.FileError, match="other data"):
        make().fit(folder, "kind", resume=tmp_path / "c")


def test_pieces_are_whole_row_groups_while_they_are_small(folder, monkeypatch):
    pieces = open_table(folder).pieces
    assert {piece.stop - piece.first for piece in pieces} <= {200, 150}
    assert sum(piece.stop - piece.first for piece in pieces) == ROWS
    monkeypatch.setattr(lazy, "PIECE", 300 * 20)  # a group is ten times as large
    assert max(piece.stop - piece.first for piece in open_table(folder).pieces) <= 100


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda f: tallies.NaiveBayes().fit(f, "kin"), "did you mean 'kind'"),
        (lambda f: tallies.NaiveBayes().fit(f, ["a", "b"]), "must be the name of one of its columns"),
        (lambda f: tallies.NaiveBayes().fit(f, "kind", sample_weight="colour"), "must be numbers without gaps"),
        (
            lambda f: tallies.NaiveBayes(families={"colour": "poisson"}).fit(f, "kind"),
            "column 'colour' is poisson and expects numbers",
        ),
        (lambda f: tallies.NaiveBayes().fit(f.parent, "kind"), "tables of one format"),
    ],
)
def test_errors_say_what_to_do(folder, ask, told):
    csv(table(), folder.parent / "other")
    with pytest.raises(DataError, match=told):
        ask(folder)


def test_a_folder_is_fitted_on_the_command_line(folder, tmp_path, run):
    out = tmp_path / "RUN"
    words = ["fit", "naive-bayes", str(folder), "--target", "kind", "--weights", "weight", "--drop", "eggs", "--memory", "1GB"]
    code, text, told = run(*words, "--scratch", str(tmp_path / "s"), "--out", str(out))
    assert code == 0, told
    assert "left out: as told" in told
    model = tallies.load(out / "model.tallies")
    assert model.feature_names_in_.tolist() == ["size", "width", "colour", "wings"]
    path = tmp_path / "new.csv"
    table(20, 1).to_csv(path, index=False)
    code, text, told = run("predict", str(out), str(path))
    assert code == 0, told
    assert len(text.splitlines()) == 21
    for more, why in ((["--holdout", "0.2"], "no rows are held out"), (["--drop", "egg"], "did you mean 'eggs'")):
        code, _, told = run(*words[:5], *more, "--out", str(tmp_path / "OTHER"))
        assert code == 2
        assert why in told


FEM_USED = ["eggs", "colour", "wings"]


@pytest.mark.parametrize("options", [{"ridge": 1.0}, {"ridge": 1.0, "missing": "ignore"}, {"ridge": 1.0, "degree": 2}])
def test_fem_of_a_folder_is_that_of_its_rows(tmp_path, options):
    frame = table()[[*FEM_USED, "kind", "weight"]]
    whole = tallies.FEM(tol=1e-13, **options).fit(frame[FEM_USED].replace("NA", None), frame["kind"], sample_weight=frame["weight"])
    folder = parted(frame, tmp_path / "table", parquet)
    found = tallies.FEM(tol=1e-13, **options).fit(folder, "kind", sample_weight="weight")
    assert found.n_rows_ == ROWS
    assert found.categories_.labels == whole.categories_.labels
    X = frame[FEM_USED].replace("NA", None)
    np.testing.assert_allclose(found.predict_proba(X), whole.predict_proba(X), rtol=1e-4)
    with tallies.backend("threads", workers=3, memory=1):
        again = tallies.FEM(tol=1e-13, **options).fit(folder, "kind", sample_weight="weight")
    assert again.fitted_.W.tobytes() == found.fitted_.W.tobytes()


def test_fem_chooses_its_ridge_on_a_sample(tmp_path):
    frame = table()[[*FEM_USED, "kind"]]
    folder = parted(frame, tmp_path / "table", parquet)
    found = tallies.FEM().fit(folder, "kind")
    assert found.ridge_ in found.path_["ridge"]
    assert found.score(frame[FEM_USED].replace("NA", None), frame["kind"]) > 0.5
    with pytest.raises(DataError, match="bins need all values"):
        tallies.FEM(bins=3).fit(folder, "kind")
    with pytest.raises(ValueError, match="beyond memory has none"):
        tallies.FEM(solver="kernel").fit(folder, "kind")


def test_fem_of_files_holds_no_features_of_all_rows(tmp_path, monkeypatch):
    """What rows in memory may take is no limit of those that stay in files."""
    frame = table()[[*FEM_USED, "kind"]]
    folder = parted(frame, tmp_path / "table", parquet)
    monkeypatch.setattr(choose, "BUDGET", 10_000)  # three features of 2,200 rows are 26 kB
    assert tallies.FEM(ridge=1.0, solver="lbfgs").fit(folder, "kind").n_rows_ == ROWS
    with pytest.raises(DataError, match="distinct rows"):
        tallies.FEM(ridge=1.0, solver="lbfgs", cv=2).fit(frame[FEM_USED].assign(eggs=np.arange(ROWS)), frame["kind"])


def test_fem_of_a_folder_on_a_cluster_has_the_same_bits(tmp_path, cluster):
    folder = parted(table()[[*FEM_USED, "kind"]], tmp_path / "table", parquet)
    here = tallies.FEM(ridge=1.0).fit(folder, "kind")
    with tallies.backend(cluster):
        there = tallies.FEM(ridge=1.0).fit(folder, "kind")
    assert here.fitted_.W.tobytes() == there.fitted_.W.tobytes()


@pytest.mark.parametrize("model", [tallies.NaiveBayes(), tallies.FEM(ridge=1.0)])
def test_answers_are_written_piece_by_piece_also_by_a_cluster(folder, tmp_path, model, cluster):
    model.fit(folder, "kind")
    with pytest.raises(DataError, match="out=FOLDER"):
        model.predict(folder)
    with tallies.backend("threads", workers=2):
        here = model.predict(folder, out=tmp_path / "here")
    with tallies.backend(cluster):
        there = model.predict(folder, out=tmp_path / "there")
    found = pd.concat([pd.read_parquet(path) for path in sorted(here.iterdir())], ignore_index=True)
    assert found["row_id"].tolist() == list(range(ROWS))
    X = table()[model.feature_names_in_].replace("NA", None)
    assert (found["prediction"] == model.predict(X)).all()
    np.testing.assert_allclose(found[[f"p({c})" for c in "abc"]], model.predict_proba(X), rtol=1e-12)
    assert [path.read_bytes() for path in sorted(here.iterdir())] == [path.read_bytes() for path in sorted(there.iterdir())]
    with pytest.raises(DataError, match="a new folder"):
        model.predict(folder, out=here)


def test_prepared_tables_are_made_once(tmp_path, run, monkeypatch):
    folder, out = parted(table(), tmp_path / "table", csv), tmp_path / "prepared"
    code, _, told = run("prepare", str(folder), "--out", str(out))
    assert code == 0, told
    stamps = {path.name: path.stat().st_mtime_ns for path in out.glob("*.parquet")}
    assert len(stamps) == 4
    (out / "000001.parquet").write_bytes(b"broken")  # the disk, or a hand
    with pytest.raises(tallies.errors.FileError, match="prepare the data again"):
        tallies.NaiveBayes().fit(out, "kind")
    csv(table(50, 3), folder / "part-2")
    assert run("prepare", str(folder), "--out", str(out))[0] == 0
    made = [name for name, stamp in stamps.items() if (out / name).stat().st_mtime_ns != stamp]
    assert sorted(made) == ["000001.parquet", "000002.parquet"]
    assert tallies.NaiveBayes().fit(out, "kind").params_.n.sum() == ROWS - ROWS // 4 + 50
    code, text, _ = run("describe", str(out))
    assert code == 0
    assert text.startswith("1,700 rows, 9 columns")
    code, _, told = run("prepare", str(out), "--out", str(tmp_path / "again"))
    assert code == 2
    assert "is Parquet already" in told
    code, _, told = run("prepare", str(folder), "--out", str(folder))
    assert code == 2
    assert "no folder of prepared data" in told


def test_files_of_a_folder_may_differ_in_types(tmp_path):
    """A column is a number in one file, empty in another, a text in a third; a name may hold anything."""
    folder = tmp_path / "table"
    folder.mkdir()
    (folder / "a.csv").write_text('size,tag,odd AS "x",y\n1,7,u,a\n2,8,v,b\n3,7,u,a\n'.replace('odd AS "x"', '"odd AS ""x"""'))
    (folder / "b.csv").write_text('size,tag,"odd AS ""x""",y\n,s,u,a\n,7,v,b\n,s,v,b\n')
    (folder / "c.csv").write_text('size,tag,"odd AS ""x""",y\n1.5,s,u,a\n2.5,t,v,b\n9.5,t,v,b\n')
    model = tallies.NaiveBayes().fit(folder, "y")
    assert model.families_ == {"size": "gaussian", "tag": "categorical", 'odd AS "x"': "categorical"}
    assert model.layout_.states[1].tolist() == ["7", "8", "s", "t"]
    assert model.params_.laws.gaussian.n.sum() == 6


def test_texts_without_dictionaries_are_surveyed_within_the_memory_of_the_database(tmp_path, monkeypatch):
    """DuckDB holds those of a row group for each column that a query reads: then it is asked for fewer at a time."""
    import duckdb

    texts = ", ".join(f"'state ' || (7 * i + {j}) % 8 AS c{j}" for j in range(20))
    plain = "FORMAT parquet, COMPRESSION uncompressed, DICTIONARY_SIZE_LIMIT 1"
    duckdb.sql(f"COPY (SELECT 'a b c d' AS said, {texts} FROM range(122880) t(i)) TO '{tmp_path / 'plain.parquet'}' ({plain})")
    (tmp_path / "folder").mkdir()
    (tmp_path / "plain.parquet").rename(tmp_path / "folder" / "plain.parquet")
    usual = open_table(tmp_path / "folder").facts
    monkeypatch.setattr(databases, "DATABASE", 32 << 20)
    found = open_table(tmp_path / "folder")
    assert found.facts == usual
    assert {fact.kind for fact in usual.values()} == {"constant", "category"}
    assert found.distinct("c3").tolist() == [f"state {k}" for k in range(8)]


def test_filters_and_indices_are_minded(tmp_path, folder):
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    some = ds.dataset(folder).filter(pc.field("kind") != "c")
    assert tallies.NaiveBayes().fit(some, "kind").classes_.tolist() == ["a", "b"]
    (tmp_path / "indexed").mkdir()
    table()[["width", "kind"]].iloc[::-1].to_parquet(tmp_path / "indexed" / "t.parquet")  # with its index as a column
    assert tallies.GDA().fit(tmp_path / "indexed", "kind").feature_names_in_.tolist() == ["width"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_may_fork_after_files_were_read(folder):
    with tallies.backend("threads", workers=2):
        tallies.NaiveBayes().fit(folder, "kind")
    child = os.fork()
    if child == 0:
        model = tallies.NaiveBayes().fit(folder, "kind")
        os._exit(0 if model.params_.n.sum() == ROWS else 1)
    assert os.waitpid(child, 0)[1] == 0
