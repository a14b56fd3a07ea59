"""Columns of a data frame are matched by name, whatever their order."""

import numpy as np
import pandas as pd
import pytest

from tallies import FEM, GDA, FEMNetwork, NaiveBayes

RNG = np.random.default_rng(0)
Y = np.repeat(["a", "b", "c"], 40)
NUMBERS = pd.DataFrame(RNG.normal(size=(120, 3)) * [1, 5, 20] + (Y == "b")[:, None] * [2, -4, 9], columns=["u", "v", "w"])
STATES = pd.DataFrame({c: RNG.choice(list("xyz"), 120) for c in "pqr"})
STATES.loc[Y == "a", "p"] = "x"
MIXED = NUMBERS.assign(**STATES, n=RNG.poisson(3, 120), flag=Y == "c")
ANSWERS = (
    "predict",
    "predict_proba",
    "predict_log_proba",
    "log_prob",
    "log_joint",
    "log_prob_given",
    "decision_function",
    "energy",
)
CASES = {
    "GDA": (GDA(), NUMBERS),
    "GDA by class": (GDA(covariance="class"), NUMBERS),
    "GDA diagonal": (GDA(covariance="diagonal"), NUMBERS),
    "NaiveBayes": (NaiveBayes(), MIXED),
    "FEM": (FEM(ridge=1.0), STATES),
    "FEMNetwork": (FEMNetwork(ridge=1.0), STATES),
}


def fitted(model, X):
    return model.fit(X) if isinstance(model, FEMNetwork) else model.fit(X, Y)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_columns_in_another_order_give_the_same_answers(case, kind):
    model, X = case
    fitted(model, X)
    turned = X[X.columns[::-1]]
    if kind == "polars":
        turned = pytest.importorskip("polars").DataFrame({name: turned[name].to_numpy() for name in turned})
    elif kind == "pyarrow":
        turned = pytest.importorskip("pyarrow").table({name: turned[name].to_numpy() for name in turned})
    asked = [name for name in ANSWERS if hasattr(model, name)]
    assert asked
    for name in asked:
        np.testing.assert_array_equal(getattr(model, name)(turned), getattr(model, name)(X), err_msg=name)


@pytest.mark.parametrize("model", [GDA(), NaiveBayes()], ids=["GDA", "NaiveBayes"])
def test_rows_are_added_by_the_names_of_their_columns(model):
    X = NUMBERS if isinstance(model, GDA) else MIXED
    model.partial_fit(X[::2], Y[::2])
    one = type(model)().partial_fit(X[::2], Y[::2]).partial_fit(X[1::2], Y[1::2])
    two = model.partial_fit(X[X.columns[::-1]][1::2], Y[1::2])
    assert two.feature_names_in_.tolist() == list(X.columns)
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_columns_that_are_not_those_of_the_fit_are_told(case):
    """What scikit-learn's check_dataframe_column_names_consistency asks for besides an error for another order."""
    model, X = case
    fitted(model, X)
    assert model.feature_names_in_.tolist() == list(X.columns)
    ask = model.predict if hasattr(model, "predict") else model.energy
    with pytest.raises(ValueError, match="unseen at fit time:\n- another"):
        ask(X.rename(columns={X.columns[0]: "another"}))
    with pytest.raises(ValueError, match="yet now missing:\n- "):
        ask(X[X.columns[:-1]])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        ask(X.to_numpy())
