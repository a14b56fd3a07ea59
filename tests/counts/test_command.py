"""The command module of PLN, without the command line around it."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tallies
from families import write_files
from tallies.cli.holdout import parts
from tallies.counts import command as commands
from tallies.counts.estimator import PLN
from tallies.errors import DataError


def test_fit_predict_score_sample(tmp_path):
    rng = np.random.default_rng(0)
    site = np.array(["east", "west"])[np.arange(40) % 2]
    Y = pd.DataFrame(rng.poisson(np.exp(rng.normal(1, 0.5, (40, 3)))), columns=list("abc"), index=[f"s{i}" for i in range(40)])
    Y.to_csv(tmp_path / "y.csv")
    pd.DataFrame({"sample": Y.index, "site": site}).iloc[::-1].to_csv(tmp_path / "x.csv", index=False)
    options = {"data": str(tmp_path / "y.csv"), "covariates": str(tmp_path / "x.csv"), "formula": "~ 1 + site", "offsets": "logsum"}
    model = commands.fit(PLN(), options)
    assert list(model.covariate_names_) == ["Intercept", "site[T.west]"]
    assert commands.fit(PLN(), {**options, "formula": None}).elbo_ == pytest.approx(model.elbo_)
    assert commands.predict(model, options, options["data"]).index.tolist() == Y.index.tolist()
    found, _ = commands.score(model, options, options["data"])
    assert found["variational"]["value"] <= found["importance"]["value"] + 4 * found["importance"]["stderr"]
    assert commands.sample(model, options, 4, 0).columns.tolist() == list("abc")
    with pytest.raises(DataError, match="needs --covariates"):
        commands.fit(PLN(), {"data": options["data"], "formula": "~ 1"})


@pytest.fixture
def files(tmp_path, monkeypatch):
    """counts.csv and sites.csv with the names of the samples; new.csv, other samples without; effort.csv, reversed."""
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    rng = np.random.default_rng(1)
    counts = pd.read_csv("counts.csv", index_col=0)
    pd.DataFrame(rng.poisson(4.0, (30, 3)), columns=list("cab")).to_csv("new.csv", index=False)
    pd.DataFrame({"sample": counts.index, "effort": np.log(counts.sum(axis=1))}).iloc[::-1].to_csv("effort.csv", index=False)
    pd.DataFrame({"sample": counts.index, "effort": counts.sum(axis=1)}).to_csv("raw.csv", index=False)


def test_offsets_of_a_file_are_matched_by_name(files, run):
    for name, offsets in (("RULE", "logsum"), ("FILE", "effort.csv")):
        assert run("fit", "pln", "counts.csv", "--offsets", offsets, "-o", name)[0] == 0
    objectives = [json.loads(run("info", name, "--json")[1])["history"][-1] for name in ("RULE", "FILE")]
    assert objectives[0] == pytest.approx(objectives[1])
    code, _, err = run("fit", "pln", "counts.csv", "--offsets", "raw.csv", "-o", "RAW")
    assert (code, Path("RAW").exists()) == (2, False)
    assert "take the log of the sampling effort" in err


def test_new_samples_do_not_get_the_covariates_of_the_fit(files, run):
    assert run("fit", "pln", "counts.csv", "--covariates", "sites.csv", "--offsets", "effort.csv", "-o", "RUN")[0] == 0
    for words in (["score", "RUN"], ["predict", "RUN"], ["report", "RUN"], ["compare", "RUN", "RUN", "--data"]):
        assert run(*words, "counts.csv")[0] == 0  # its own
        code, _, err = run(*words, "new.csv")
        assert (code, "--covariates FILE" in err) == (2, True), err
    pd.read_csv("sites.csv").drop(columns="sample").to_csv("more.csv", index=False)
    code, _, err = run("score", "RUN", "new.csv", "--covariates", "more.csv")
    assert (code, "--offsets FILE" in err) == (2, True), err
    pd.DataFrame({"effort": np.zeros(30)}).to_csv("zero.csv", index=False)
    assert run("score", "RUN", "new.csv", "--covariates", "more.csv", "--offsets", "zero.csv")[0] == 0


def test_edges_are_exported_from_a_run(tmp_path, monkeypatch, run):
    """What the estimator writes, with the options of the line; a fit without an export says what there is."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(120, 4)) @ (np.eye(4) + 0.8 * np.eye(4, k=1))
    pd.DataFrame(rng.poisson(np.exp(1 + Z)), columns=list("abcd")).to_csv("counts.csv", index=False)
    assert run("fit", "pln-network", "counts.csv", "--subsamples", "4", "--out", "NET")[0] == 0
    code, out, err = run("export", "NET", "--out", "edges.csv", "--probability", "0.75", "--confidence", "0.9", "--json")
    assert code == 0, err
    assert json.loads(out) == {"wrote": "edges.csv", "bytes": Path("edges.csv").stat().st_size}
    model = tallies.load("NET/model.tallies")
    pd.testing.assert_frame_equal(pd.read_csv("edges.csv"), pd.read_csv(model.export("own.csv", probability=0.75, confidence=0.9)))
    assert {"lower", "upper"} <= set(pd.read_csv("edges.csv"))
    assert run("export", "NET", "--out", "edges.doc")[0] == 2
    assert run("fit", "pln", "counts.csv", "--out", "PLN")[0] == 0
    code, _, err = run("export", "PLN", "--out", "edges.csv")
    assert (code, "a fit of pln has nothing to export" in err) == (2, True)
    assert "--probability is for pln-network" in run("export", "PLN", "--out", "edges.csv", "--probability", "0.9")[2]


def test_weights_of_pairs_and_differences_are_reached_from_the_line(files, run):
    """Three species: of two networks one may not join the first two."""
    rng = np.random.default_rng(0)
    pd.DataFrame(rng.poisson(np.exp(rng.normal(1.5, 0.8, (60, 3)))), columns=list("abc")).to_csv("more.csv", index=False)
    weights = pd.DataFrame([[0, "inf", 1], ["inf", 0, 1], [1, 1, 0]], list("abc"), list("abc"))
    weights.to_csv("weights.csv")
    one = ["fit", "pln-network", "more.csv", "--penalty", "0.01", "--set", "select=none", "-q"]
    assert run(*one, "-o", "FREE")[0] == 0
    assert run(*one, "--weights", "weights.csv", "-o", "HELD")[0] == 0
    for name, joined in (("FREE", True), ("HELD", False)):
        assert run("export", name, "-o", "edges.csv")[0] == 0
        assert (["a", "b"] in pd.read_csv("edges.csv")[["a", "b"]].to_numpy().tolist()) == joined
    assert run("export", "FREE", "-o", "between.csv", "--against", "HELD")[0] == 0
    table = pd.read_csv("between.csv")
    assert table.columns[:5].tolist() == ["a", "b", "first", "second", "difference"]
    assert len(table) == 3
    run("fit", "pln", "counts.csv", "-q", "-o", "PLAIN")
    code, _, err = run("export", "FREE", "-o", "between.csv", "--against", "PLAIN")
    assert code == 2
    assert "is no network of counts" in err


def test_a_table_of_the_target_alone_is_not_asked_for_again(files, run):
    pd.read_csv("sites.csv")[["sample", "site"]].to_csv("target.csv", index=False)
    assert run("fit", "pln-discriminant", "counts.csv", "--covariates", "target.csv", "-t", "site", "-o", "RUN")[0] == 0
    code, out, err = run("predict", "RUN", "new.csv")
    assert (code, len(out.splitlines())) == (0, 31), err


def test_the_first_column_of_a_file_may_be_the_class(files, run):
    counts, site = pd.read_csv("counts.csv").drop(columns="sample"), pd.read_csv("sites.csv")["site"]
    pd.concat([site, counts], axis=1).to_csv("first.csv", index=False)
    pd.concat([counts, site], axis=1).to_csv("last.csv", index=False)
    for name in ("first", "last"):
        words = f"{name}.csv", "-t", "site", "-o", name, "--holdout", "0.3"
        assert run("fit", "pln-discriminant", *words)[0] == 0
    for verb in (["predict"], ["score"], ["report"]):
        for model in ("first", "last"):
            told = [run(*verb, model, f"{name}.csv") for name in ("first", "last")]
            assert [code for code, *_ in told] == [0, 0], told
            assert verb == ["report"] or told[0][1].replace("first", "last") == told[1][1]
    found = [json.loads(run("info", name, "--json")[1])["held_out"]["scores"] for name in ("first", "last")]
    assert found[0] == found[1]
    assert run("predict", "first", "new.csv")[0] == 0  # no class there, and the model asks for none


def test_a_target_of_the_covariates_leaves_the_names_of_rows(files, run):
    """Counts whose first column has the same name keep it as their names."""
    sites = pd.read_csv("sites.csv").rename(columns={"sample": "plot", "site": "sample"})
    sites.to_csv("named.csv", index=False)
    words = "counts.csv", "--covariates", "named.csv", "-t", "sample", "-o", "RUN"
    code, _, err = run("fit", "pln-discriminant", *words)
    assert code == 0, err


@pytest.mark.parametrize("asked", ["site", ["site"], ["depth", "site"]])
def test_a_first_column_may_be_a_covariate(files, asked):
    counts, sites = pd.read_csv("counts.csv").drop(columns="sample"), pd.read_csv("sites.csv")[["site", "depth"]]
    pd.concat([sites, counts], axis=1)[[*(c for c in ("site", "depth") if c in asked), "a", "b", "c"]].to_csv("t.csv", index=False)
    names = [asked] if isinstance(asked, str) else asked
    model, same = PLN().fit("t.csv", covariates=asked), PLN().fit_formula(" + ".join(["~ 1", *names]), counts, sites)
    np.testing.assert_array_equal(model.coefficients_, same.coefficients_)
    np.testing.assert_array_equal(model.transform("t.csv", covariates=asked), same.transform(counts, covariates=sites))


@pytest.mark.parametrize(
    "words", [["--offsets", "logsum"], ["--offsets", "effort.csv"], ["--covariates", "sites.csv"], ["--covariates", "bare.csv"]]
)
@pytest.mark.parametrize("data", ["counts.csv", "nameless.csv"])
def test_rows_are_held_out_whatever_has_names(files, run, data, words):
    """Offsets by a rule, and tables with the names of samples beside one without them, either way round."""
    pd.read_csv("counts.csv").drop(columns="sample").to_csv("nameless.csv", index=False)
    sites = pd.read_csv("sites.csv")
    sites.drop(columns="sample").to_csv("bare.csv", index=False)
    pd.read_csv("effort.csv").iloc[::-1].to_csv("effort.csv", index=False)  # as the counts are, for those without names
    code, _, err = run("fit", "pln", data, *words, "--holdout", "0.3", "-o", "RUN")
    assert code == 0, err
    found = json.loads(run("info", "RUN", "--json")[1])["held_out"]["scores"]
    held, counts = parts(30, {"holdout": 0.3, "seed": 0}) == 1, pd.read_csv("nameless.csv").to_numpy()
    X = np.column_stack([np.ones(30), sites["site"] == "west", sites["depth"]])

    def given(rows):
        more = {"covariates": X[rows]} if "--covariates" in words else {"offsets": "logsum"}
        return {"counts": counts[rows], **more}

    model = PLN().fit(**given(~held))
    assert found["variational"]["value"] == pytest.approx(model.score(**given(held)), rel=1e-4)
