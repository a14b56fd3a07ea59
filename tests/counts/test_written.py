"""Latent positions of counts in files, written as files."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tallies import PLN
from tallies.cli.main import app
from tallies.errors import DataError


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    depth = rng.normal(size=90)
    Z = 1.0 + 0.5 * depth[:, None] + rng.normal(size=(90, 2)) @ rng.normal(0, 0.7, (2, 5))
    counts = pd.DataFrame(rng.poisson(np.exp(Z)), columns=[f"species {j}" for j in range(5)])
    return counts.assign(sample=[f"s{i:03d}" for i in range(90)], depth=depth)


@pytest.fixture
def folder(table, tmp_path):
    home = tmp_path / "counts"
    home.mkdir()
    for k in range(3):
        table.iloc[30 * k : 30 * (k + 1)].to_parquet(home / f"{k}.parquet")
    return home


def species(table):
    return table.filter(like="species")


@pytest.mark.parametrize("rank", [None, 2, 5])
def test_positions_of_files_are_those_of_the_table(table, folder, tmp_path, rank):
    model = PLN(rank=rank).fit(species(table), covariates=table[["depth"]])
    out = model.transform(folder, covariates=["depth"], out=tmp_path / "places")
    found = pd.read_parquet(out)
    expected = model.transform(species(table).copy(), covariates=table[["depth"]])
    assert found["sample"].tolist() == table["sample"].tolist()
    assert found.columns.tolist() == [
        "sample",
        *(species(table).columns if rank is None else [f"component{k + 1}" for k in range(rank)]),
    ]
    np.testing.assert_allclose(found.drop(columns="sample"), expected, atol=1e-5)  # rows of a piece end together
    assert len(list(out.iterdir())) == 3


def test_what_cannot_be_matched_is_said(table, folder, tmp_path):
    named, unnamed = PLN().fit(species(table)), PLN().fit(species(table).to_numpy())
    with pytest.raises(DataError, match=r"those of the fit had none; fit a data frame"):
        unnamed.transform(folder, out=tmp_path / "places")
    with pytest.raises(DataError, match=r"covariates are names of columns of the same table"):
        named.transform(folder, covariates=table[["depth"]], out=tmp_path / "places")
    with pytest.raises(DataError, match=r"offsets the rule of the fit"):
        named.transform(folder, offsets=np.zeros(90), out=tmp_path / "places")
    with pytest.raises(DataError, match=r"deepth"):
        named.transform(folder, covariates="deepth", out=tmp_path / "places")
    assert not (tmp_path / "places").exists()


def test_the_command_writes_a_folder_for_a_folder(table, folder, tmp_path):
    species(table).to_csv(tmp_path / "counts.csv", index=False)
    run, out = str(tmp_path / "run"), str(tmp_path / "places")
    assert CliRunner().invoke(app, ["fit", "pln", str(tmp_path / "counts.csv"), "--out", run, "--rank", "2"]).exit_code == 0
    found = CliRunner().invoke(app, ["predict", run, str(folder), "--out", out, "--json"])
    assert found.exit_code == 0 and json.loads(found.stdout)["out"] == out
    assert pd.read_parquet(out).columns.tolist() == ["sample", "component1", "component2"]
    for more, told in ((["--covariates", str(tmp_path / "counts.csv"), "--out", out + "2"], "same table"), ([], "--out")):
        refused = CliRunner().invoke(app, ["predict", run, str(folder), *more])
        assert refused.exit_code != 0 and told in str(refused.exception)
