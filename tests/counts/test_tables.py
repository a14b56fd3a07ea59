"""Count tables and offsets at the door."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.io import mmwrite
from scipy.special import gammaln

from tallies.counts.alignment import as_design, as_offsets
from tallies.counts.offsets import OFFSETS
from tallies.counts.records import SMALL, log_factorial
from tallies.counts.tables import as_counts, read_counts
from tallies.data import cells
from tallies.errors import DataError, DataWarning

TABLE = pd.DataFrame({"oak": [3, 0, 5], "elm": [1, 7, 2]}, index=["a", "b", "c"])


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz", "t.parquet"])
def test_tables_come_back(tmp_path, name):
    path = tmp_path / name
    if "parquet" in name:
        pytest.importorskip("pyarrow")
        TABLE.to_parquet(path)
    else:
        TABLE.to_csv(path, sep="\t" if "tsv" in name else ",")
    pd.testing.assert_frame_equal(read_counts(path), TABLE, check_names=False)
    assert read_counts(path, transpose=True).shape == (2, 3)


def test_matrix_market_with_names_beside(tmp_path):
    mmwrite(tmp_path / "t.mtx", sp.coo_matrix(TABLE.to_numpy()))
    assert read_counts(tmp_path / "t.mtx").shape == (3, 2)
    (tmp_path / "t.rows.txt").write_text("a\nb\nc\n")
    (tmp_path / "t.columns.txt").write_text("oak\nelm\n")
    pd.testing.assert_frame_equal(read_counts(tmp_path / "t.mtx"), TABLE)
    (tmp_path / "t.columns.txt").write_text("oak\n")
    with pytest.raises(DataError, match="names 1 columns"):
        read_counts(tmp_path / "t.mtx")


def test_an_h5ad_at_which_its_library_loops_is_refused(tmp_path, monkeypatch):
    """An object of no size in the heap of texts: HDF5 looks for the next one at the same place, for ever."""
    anndata = pytest.importorskip("anndata")
    path = tmp_path / "t.h5ad"
    anndata.AnnData(TABLE.astype(float)).write_h5ad(path)
    body = bytearray(path.read_bytes())
    heap = body.index(b"GCOL")
    at, end = heap + 16, heap + int.from_bytes(body[heap + 8 : heap + 16], "little")
    while at < end and (number := int.from_bytes(body[at : at + 2], "little")):
        at += 16 + -(-int.from_bytes(body[at + 8 : at + 16], "little") // 8) * 8
    assert number == 0  # the free room at the end
    body[at + 8 : at + 16] = bytes(8)
    path.write_bytes(body)
    monkeypatch.setattr(cells, "PATIENCE", 5)
    with pytest.raises(DataError, match=r"t.h5ad' .*damaged"):
        read_counts(path)


def test_h5ad_and_biom(tmp_path):
    anndata = pytest.importorskip("anndata")
    anndata.AnnData(TABLE.astype(float)).write_h5ad(tmp_path / "t.h5ad")
    pd.testing.assert_frame_equal(read_counts(tmp_path / "t.h5ad"), TABLE.astype(float), check_names=False)
    biom = pytest.importorskip("biom")
    table = biom.Table(TABLE.to_numpy().T, TABLE.columns, TABLE.index)
    (tmp_path / "t.biom").write_text(table.to_json("test"))
    pd.testing.assert_frame_equal(read_counts(tmp_path / "t.biom"), TABLE.astype(float), check_names=False)


def test_unknown_files_are_told(tmp_path):
    (tmp_path / "t.xls").write_text("")
    with pytest.raises(DataError, match=r"expected a \.csv"):
        read_counts(tmp_path / "t.xls")
    with pytest.raises(FileNotFoundError, match="nothing"):
        read_counts(tmp_path / "absent.csv")


def test_missing_sparse_and_named():
    table = as_counts(TABLE.astype(float).mask(TABLE == 0))
    assert table.missing.sum() == 1
    assert table.Y[1, 0] == 0
    assert table.rows.tolist() == ["a", "b", "c"]
    assert as_counts(sp.csr_array(TABLE.to_numpy())).missing is None
    assert (as_offsets(None, table)[table.missing] == -1e4).all()


def test_covariates_are_matched_by_name():
    X = pd.DataFrame({"h": [1.0, 2.0, 3.0]}, index=["c", "a", "b"])
    rows = np.array(["a", "b", "c"], dtype=object)
    assert as_design(X, 3, rows, False)[0].ravel().tolist() == [2, 3, 1]
    with pytest.raises(DataError, match="no row for samples"):
        as_design(X.iloc[:2], 3, rows, False)
    with pytest.warns(DataWarning, match="left out"):
        as_design(pd.concat([X, X.rename(index=lambda s: s + "2")]), 3, rows, False)
    with pytest.raises(DataError, match="not numbers"):
        as_design(pd.DataFrame({"t": list("xyz")}), 3, None, False)
    assert as_design(X, 3, rows, True)[1].tolist() == ["intercept", "h"]


@pytest.mark.parametrize("name", sorted(OFFSETS))
def test_offsets_follow_the_sampling_effort(name):
    """A sample counted twice as deeply has a log size log 2 larger, within the noise of its counts."""
    rng = np.random.default_rng(0)
    rates = rng.gamma(2, 20, 200)
    effort = np.repeat([1.0, 2.0, 4.0], 10)
    Y = rng.poisson(effort[:, None] * rates * rng.lognormal(0, 0.2, (30, 200))).astype(float)
    found = OFFSETS[name](Y)
    relative = found - found[:10].mean()
    close = 0.08 if name == "gmpr" else 0.02  # whose medians of skewed ratios are a little too large
    assert relative[10:20].mean() == pytest.approx(np.log(2), abs=close)
    assert relative[20:].mean() == pytest.approx(np.log(4), abs=close)


def test_ratio_offsets_resist_one_dominant_column():
    rng = np.random.default_rng(0)
    Y = rng.poisson(50, (20, 100)).astype(float)
    Y[10:, 0] = 20_000
    for name in ("rle", "gmpr", "tmm", "css"):
        found = OFFSETS[name](Y)
        assert abs(found[10:].mean() - found[:10].mean()) < 0.2, name
    found = OFFSETS["logsum"](Y)
    assert found[10:].mean() - found[:10].mean() > 1


def test_offsets_by_hand():
    Y = np.array([[1.0, 2, 4], [2, 4, 8], [1, 2, 4]])
    np.testing.assert_allclose(OFFSETS["rle"](Y), np.log([1, 2, 1]) - np.log(2) / 3)
    np.testing.assert_allclose(OFFSETS["gmpr"](Y), [-np.log(2) / 2, np.log(2), -np.log(2) / 2])
    np.testing.assert_allclose(OFFSETS["tss"](Y), np.log([7, 14, 7]))
    with pytest.raises(DataError, match="one row"):
        OFFSETS["gmpr"](Y[:1])
    with pytest.raises(DataError, match="share no column"):
        OFFSETS["gmpr"](np.array([[1.0, 0], [0, 1]]))
    with pytest.raises(DataError, match="fewer than two"):
        OFFSETS["css"](np.array([[1.0, 0], [1, 1]]))


def test_a_formula_from_a_file_runs_no_code(tmp_path):
    import tallies

    rng, target = np.random.default_rng(0), tmp_path / "made"
    Y, data = rng.poisson(3.0, (20, 3)), pd.DataFrame({"h": rng.normal(size=20)})
    model = tallies.PLN.from_formula("~ 1 + h", Y, data)
    design = model.fitted_.design
    code = f"~ 1 + {{h + 0 * len(str(open({str(target)!r}, 'w')))}}"
    model.fitted_ = model.fitted_._replace(design=design._replace(formula=design.formula._replace(text=code)))
    model.save(tmp_path / "model")
    with pytest.raises(ValueError, match="is code"):
        tallies.load(tmp_path / "model").transform(Y, covariates=data)
    assert not target.exists()


def test_log_factorials_of_small_and_large_counts():
    Y = np.array([[0.0, 1, 2, len(SMALL) - 1], [len(SMALL), len(SMALL) + 1, 1e6, 3]])
    np.testing.assert_array_equal(log_factorial(Y), gammaln(Y + 1))
