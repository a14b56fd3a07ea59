"""A table beyond memory and a second one with the same keys: the fit of one table that has all columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import tallies
from tallies.errors import DataError, DataWarning

n = 90


def table(seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    keys = rng.permutation(np.arange(1000, 1000 + n))
    return pd.DataFrame({"id": keys, "size": rng.normal(y), "width": rng.normal(2.0 * y), "kind": np.array(["a", "b"])[y]})


def apart(tmp_path, write="to_parquet"):
    """Two files of rows, and in another order, in three files, what is known of them besides."""
    frame, suffix = table(), write.removeprefix("to_")
    more = frame[["id", "kind"]].assign(weight=np.linspace(0.5, 2.0, n)).sample(frac=1.0, random_state=0)
    for folder, rows, parts in (("rows", frame.drop(columns="kind"), 2), ("more", more, 3)):
        (tmp_path / folder).mkdir()
        for k, some in enumerate(np.array_split(np.arange(n), parts)):
            getattr(rows.iloc[some], write)(tmp_path / folder / f"{k}.{suffix}", index=False)
    return frame.merge(more.drop(columns="kind"), on="id"), tmp_path / "rows", tmp_path / "more"


@pytest.mark.parametrize("write", ["to_parquet", "to_csv"])
def test_labels_and_weights_may_be_in_a_second_table(tmp_path, write):
    whole, rows, more = apart(tmp_path, write)
    both = tallies.join_tables(rows, more, on="id")
    found = tallies.GDA().fit(both, y="kind", sample_weight="weight")
    alone = tallies.GDA().fit(whole[["size", "width"]], whole["kind"], sample_weight=whole["weight"])
    assert found.feature_names_in_.tolist() == ["size", "width"]  # what tells rows apart is left out
    np.testing.assert_allclose(found.means_, alone.means_, rtol=1e-13)
    out = pd.read_parquet(found.predict(both, out=tmp_path / "answers"))
    assert out["id"].tolist() == whole["id"].tolist()  # rows stay in their order
    assert out["prediction"].tolist() == alone.predict(whole[["size", "width"]]).tolist()


def test_a_fit_of_joined_tables_is_resumed(tmp_path):
    _, rows, more = apart(tmp_path)

    def fit(**run):
        return tallies.FEM(ridge=1.0, max_iter=run.pop("most", 50)).fit(tallies.join_tables(rows, binned, on="id"), y="kind", **run)

    binned = pd.read_parquet(more).drop(columns="weight").assign(colour=["red", "blue", "green"] * (n // 3))
    rows = pd.read_parquet(rows)[["id"]]
    with pytest.warns(tallies.errors.ConvergenceWarning):
        fit(most=2, checkpoint=tmp_path / "c")
    rest, whole = fit(resume=tmp_path / "c"), fit()
    assert rest.n_iter_ == whole.n_iter_ > 2
    np.testing.assert_array_equal(rest.weights_, whole.weights_)


def test_texts_and_authors_may_be_apart(tmp_path):
    body = pd.DataFrame({"id": ["p1", "p2"], "text": ["Cell death was seen.", "The gene is expressed."]})
    names = pd.DataFrame({"id": ["p2", "p1"], "authors": ["Bob", "Ann"]})
    concepts = tallies.Ontology(["x", "y"], ["cell death", "gene expression"])
    model = tallies.AuthorConcept().fit(tallies.join_tables(body, names, on="id"), concepts)
    assert model.author_profile("Ann", 1)["name"].tolist() == ["cell death"]


def test_covariates_may_be_apart(tmp_path):
    rng = np.random.default_rng(0)
    counts = pd.DataFrame(rng.poisson(3.0, size=(n, 3)), columns=list("abc"))
    counts.insert(0, "sample", [f"s{i}" for i in range(n)])
    sites = pd.DataFrame({"sample": counts["sample"], "height": rng.normal(size=n)}).sample(frac=1.0, random_state=1)
    found = tallies.PLN(rank=1, tol=1e-3).fit(tallies.join_tables(counts, sites, on="sample"), covariates=["height"])
    heights = sites.set_index("sample").loc[counts["sample"], "height"]
    np.testing.assert_array_equal(found.design_[:, 1], heights)


def test_keys_that_do_not_fit_are_told(tmp_path):
    frame, rows, _ = apart(tmp_path)
    kinds = frame[["id", "kind"]]
    with pytest.warns(DataWarning, match="30 of 90 rows of .* have no row in 'a DataFrame' with the same 'id'"):
        assert tallies.join_tables(rows, kinds[30:], on="id").facts["kind"].gaps == 30
    words = kinds.assign(id=kinds["id"].astype(str))  # numbers in one, texts in the other
    assert tallies.join_tables(rows, words, on="id").facts["kind"].gaps == 0
    for other, on, told in (
        (kinds.assign(id=kinds["id"] + 10_000), "id", "no row of .* has a key of"),
        (kinds, "ident", "the key should be in the column 'ident', which .* lacks; .*id"),
        (kinds.rename(columns={"kind": "size"}), "id", r"columns \['size'\] are in both tables; rename"),
        (kinds[["id"]], "id", "has no column besides the key"),
        (pd.concat([kinds, kinds[:1]]), "id", "is in more than one row of 'a DataFrame'; keep one"),
    ):
        with pytest.raises(DataError, match=told):
            tallies.join_tables(rows, other, on=on)


def test_tables_are_joined_on_the_command_line(tmp_path, run):
    whole, rows, more = apart(tmp_path)
    code, _, told = run("prepare", str(rows), "--join", str(more), "--on", "id", "--out", str(tmp_path / "both"))
    assert code == 0, told
    found = pd.concat([pd.read_parquet(path) for path in sorted((tmp_path / "both").glob("*.parquet"))])
    assert found["weight"].tolist() == whole["weight"].tolist()
    assert run("fit", "gda", str(tmp_path / "both"), "--target", "kind", "--out", str(tmp_path / "RUN"))[0] == 0
    for words, sentence in (
        (["prepare", str(tmp_path / "both"), "--join", str(more), "--out", str(tmp_path / "both")], "has one of the tables itself"),
        (["prepare", str(rows), "--join", str(more), "--text", "kind", "--out", str(tmp_path / "new")], "join first, and count"),
    ):
        code, _, told = run(*words)
        assert code == 2 and sentence in told


def test_files_of_others_stay_where_tables_are_joined_again(tmp_path):
    _, rows, more = apart(tmp_path)
    tallies.join_tables(rows, more, on="id", out=tmp_path / "both")
    own = tmp_path / "both" / "own.parquet"
    table().to_parquet(own)
    tallies.join_tables(rows, more, on="id", out=tmp_path / "both")
    assert own.exists() and sorted(path.name for path in (tmp_path / "both").glob("0*")) == ["000000.parquet", "000001.parquet"]


def test_a_table_of_many_columns_is_joined():
    """They did not fit into what DuckDB was allowed."""
    keys = list("abcdef")
    counts = pd.DataFrame(np.ones((6, 5000)), columns=[f"gene{j}" for j in range(5000)]).assign(id=keys)
    assert tallies.join_tables(counts, pd.DataFrame({"id": keys, "kind": list("xyxyxy")}), on="id").rows == 6
