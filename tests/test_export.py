"""Scorings as plain JSON: other languages give the same probabilities, whatever the rows lack."""

import json
import shutil
import subprocess
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris

import scoring
import tallies
from tallies import FEM, GDA, NaiveBayes
from tallies.errors import DataError, DataWarning

NODE = shutil.which("node")
READER = Path(__file__).parent / "scoring.js"
SCHEMA = json.loads((Path(__file__).parents[1] / "docs" / "scoring.schema.json").read_text())


def mixed(n=60, seed=0):
    """Numbers, categories, booleans and counts, all with gaps, and two classes that differ in each."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    table = {
        "size": rng.normal(2.0 * y, 1.0 + y),
        "colour": np.where(rng.random(n) < 0.3 + 0.4 * y, "red", rng.choice(["blue", "grün"], n)).astype(object),
        "flies": (rng.random(n) < 0.2 + 0.5 * y).astype(object),
        "eggs": rng.poisson(2.0 + 3.0 * y).astype(float),
        "legs": rng.choice([2, 4, 6], n).astype(float),
    }
    frame = pd.DataFrame(table)
    for j, name in enumerate(frame):
        frame.loc[(np.arange(n) + j) % 11 == 0, name] = None
    return frame, np.array(["duck", "owl"])[y]


FRAME, Y = mixed()
NEW = pd.DataFrame(
    {
        "size": [0.1, None, 1e4, -3.0, None, 2.0],
        "colour": ["red", "purple", None, "purple", None, "blue"],
        "flies": [True, False, None, True, None, False],
        "eggs": [3.0, 5000.0, 0.0, None, None, 17.0],
        "legs": [2.0, 3.0, None, 6.0, None, 4.0],
    }
)
FAMILIES = {"legs": "categorical", "eggs": "poisson", "flies": "bernoulli"}


def as_json(X):
    """Rows as JSON has them: objects of a table with names, else lists; None where a cell is empty."""
    named = isinstance(X, pd.DataFrame)
    rows = X.astype(object).to_numpy() if named else np.asarray(X, dtype=object)
    cells = [
        [None if value is None or value != value else getattr(value, "item", lambda v=value: v)() for value in row] for row in rows
    ]
    return [dict(zip(X.columns, row, strict=True)) for row in cells] if named else cells


def agree(model, X, tmp_path):
    """Both readers give the probabilities of the model."""
    path = model.export(tmp_path / "scoring.json")
    read, rows, wanted = scoring.read(path), as_json(X), model.predict_proba(X)
    assert read["classes"] == model.classes_.tolist()
    jsonschema.validate(read, SCHEMA)
    assert np.abs(np.array([scoring.probabilities(read, row) for row in rows]) - wanted).max() < 1e-9
    if NODE:
        text = subprocess.run([NODE, READER, path], input=json.dumps(rows), capture_output=True, text=True, check=True).stdout
        assert np.abs(np.array(json.loads(text)) - wanted).max() < 1e-9
    return read


@pytest.mark.skipif(NODE is None, reason="needs node, another language that reads the file")
def test_there_is_another_language():
    """So that a run without one says so; the tests below then read with Python alone."""
    assert subprocess.run([NODE, "--check", READER], check=False).returncode == 0


@pytest.mark.parametrize("smoothing", [1.0, 0.0])
@pytest.mark.parametrize("priors", [None, [0.1, 0.9]])
def test_naive_bayes(tmp_path, smoothing, priors):
    model = NaiveBayes(families=FAMILIES, smoothing=smoothing, priors=priors).fit(FRAME, Y)
    read = agree(model, pd.concat([FRAME, NEW], ignore_index=True), tmp_path)
    assert [column["name"] for column in read["columns"]] == list(FRAME)
    assert {column["kind"] for column in read["columns"]} == {"gaussian", "categorical", "bernoulli", "poisson"}


def test_what_all_classes_hold_for_impossible_leaves_them_equal(tmp_path):
    X = pd.DataFrame({"a": ["x", "x", "z", "z"], "b": [0, 0, 2, 3]})
    model = NaiveBayes(smoothing=0).fit(X, [1, 1, 2, 2])
    read = agree(model, pd.DataFrame({"a": ["x", "x", "z", "w"], "b": [4, 0, 0, 4]}), tmp_path)
    assert scoring.probabilities(read, {"a": "x", "b": 4}) == [0.5, 0.5]
    assert read["columns"][0]["log_p"] == [[0.0, None], [None, 0.0]]


def test_a_class_that_no_row_has_is_impossible(tmp_path):
    model = NaiveBayes(families=FAMILIES).partial_fit(FRAME, Y, classes=["duck", "emu", "owl"])
    assert agree(model, NEW, tmp_path)["log_prior"][1] is None


def test_multinomial_counts(tmp_path):
    rng = np.random.default_rng(1)
    y = np.arange(40) % 3
    X = rng.poisson(np.array([[5, 1, 1, 0.2], [1, 5, 1, 0.2], [1, 1, 5, 0.2]])[y])
    model = NaiveBayes().fit(sp.csr_array(X), y)
    read = agree(model, np.vstack([X, [[0, 0, 0, 0], [900, 0, 2, 7]]]).astype(float), tmp_path)
    assert read["columns"][0] == {"name": None, "kind": "multinomial", "log_p": read["columns"][0]["log_p"]}


@pytest.mark.parametrize(
    "settings", [{}, {"covariance": "class"}, {"covariance": "diagonal"}, {"covariance": "class", "shrinkage": "auto"}]
)
@pytest.mark.parametrize("degenerate", [False, True])
def test_gaussians(tmp_path, settings, degenerate):
    """Also where columns are sums of others, constant, or constant in one class, and rows have every kind of gap."""
    X, y = (part[:115] for part in load_iris(return_X_y=True))  # classes of unequal size
    if degenerate:
        X = np.column_stack([X, X[:, 0] + 2 * X[:, 1], np.full(len(X), 1e5), np.where(y == 0, 1.0, X[:, 3] ** 2)])
    model = GDA(**settings).fit(X, y)
    new = X[::3].copy()
    new[np.random.default_rng(0).random(new.shape) < 0.3] = np.nan
    new[0] = np.nan
    read = agree(model, np.vstack([X[::7], new]), tmp_path)
    assert ("gaussian" in read) == (settings.get("covariance") != "diagonal")


def test_a_class_without_variance_has_a_share_of_the_pooled_one(tmp_path):
    """Rows between the classes, where its least variance tells how probable it is."""
    rng = np.random.default_rng(2)
    y = np.repeat([0, 1], [60, 15])
    X = np.column_stack([rng.normal(5.0 * y, 1.0), np.where(y == 0, 1.0, rng.normal(size=75)), rng.normal(size=75)])
    with pytest.warns(DataWarning, match="span fewer directions"):
        model = GDA(covariance="class").fit(X, y)
    new = np.column_stack([np.linspace(0, 10, 41), np.ones(41), np.full(41, np.nan)])
    agree(model, new, tmp_path)
    assert ((model.predict_proba(new) > 0.01) & (model.predict_proba(new) < 0.99)).any()


@pytest.mark.parametrize(
    "settings",
    [
        {"degree": 1, "ridge": 0.5},
        {"degree": 2, "ridge": 0.5, "solver": "lbfgs"},
        {"degree": 3, "ridge": 0.5, "solver": "kernel"},
        {"degree": (1, 3), "ridge": 0.5, "solver": "lbfgs"},
        {"degree": 3, "ridge": 0.5, "screen": 3},
    ],
    ids=str,
)
@pytest.mark.parametrize("missing", ["state", "ignore"])
def test_fem(tmp_path, settings, missing):
    model = FEM(**settings, missing=missing, bins={"size": 3, "eggs": 4}).fit(FRAME, Y)
    whole = FRAME.assign(legs=4.0)  # a column that had gaps in the fit, and one state here
    read = agree(model, pd.concat([FRAME, NEW, whole], ignore_index=True), tmp_path)
    assert [column["kind"] for column in read["columns"]] == ["binned", "categorical", "categorical", "binned", "categorical"]


def test_fem_of_arrays_without_gaps(tmp_path):
    X = [["a", 1], ["a", 2], ["b", 1], ["b", 2]] * 5
    for kind in (object, str):
        model = FEM(degree=2, ridge=0.1).fit(np.array(X, dtype=kind), [True, False, False, True] * 5)
        new = np.array([["a", 1], ["c", 2], [None, 2]], dtype=object) if kind is object else np.array([["a", "1"], ["c", "2"]])
        assert agree(model, new, tmp_path)["columns"][0]["name"] is None


def test_what_a_scoring_cannot_hold_is_refused_in_words(tmp_path):
    model = GDA().fit([[0.0], [1.0], [5.0], [6.0]], [0, 0, 1, 1])
    with pytest.raises(DataError, match=r"written to \.json, got 'model\.onnx'"):
        model.export(tmp_path / "model.onnx")
    X = pd.DataFrame({"a": [(1, 2), (3, 4)] * 4})
    with pytest.raises(DataError, match=r"the states of the column 'a' hold \(1, 2\); make texts"):
        NaiveBayes(families="categorical").fit(X, [0, 1] * 4).export(tmp_path / "a.json")
    with pytest.raises(DataError, match=r"hold 9007199254740993"):
        FEM(ridge=1.0).fit([[2**53 + 1], [5]] * 4, [0, 1] * 4).export(tmp_path / "a.json")
    assert not list(tmp_path.iterdir())
    wide = np.random.default_rng(0).integers(3, size=(50, 30))
    with pytest.raises(DataError, match="degree 4 of 30 variables has too many weights to write down"):
        FEM(degree=4, ridge=1.0, solver="kernel").fit(wide, wide[:, 0]).export(tmp_path / "a.json")
    with pytest.raises(AttributeError, match="not fitted"):
        tallies.GDA().export(tmp_path / "a.json")
