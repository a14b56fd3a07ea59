"""Bad input gets a clear error or the documented treatment; whatever comes, a fit never ends in NaN or a bare crash."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tallies import FEM, GDA, PLN, NaiveBayes
from tallies.errors import DataError, TalliesError

MODELS = [GDA(), GDA(covariance="class"), GDA(covariance="diagonal"), NaiveBayes(families="gaussian")]
X = np.random.default_rng(0).normal(size=(20, 3))
Y = np.arange(20) % 2


@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.where(np.arange(60).reshape(20, 3) == 7, np.inf, X), Y, "infinity in 1 cells"),
        (X, np.zeros(20), "one class"),
        (X, np.full(20, np.nan), "missing"),
        (X, Y[:10], "20 rows, y has 10"),
        (X, None, "y is None"),
        (X, np.linspace(0, 1, 20), "continuous"),
        (X[:0], Y[:0], "0 sample"),
        (X[:, :0], Y, "0 feature"),
        (X[0], Y, "1D array"),
        (np.full((20, 3), np.nan), Y, "no observed value"),
        (pd.DataFrame({"a": ["x"] * 20}), Y, "expects numbers"),
    ],
)
def test_bad_data_are_refused_in_words(model, X, y, message):
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_bad_weights(model):
    for weight, message in ((-np.ones(20), "negative"), (np.zeros(20), "zero"), (np.ones(3), "sample_weight.shape")):
        with pytest.raises(ValueError, match=message):
            model.fit(X, Y, sample_weight=weight)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_prediction_with_other_columns(model):
    model.fit(X, Y)
    with pytest.raises(ValueError, match="2 features"):
        model.predict(X[:, :2])
    with pytest.raises(DataError, match="infinity"):
        model.predict(np.where(np.arange(60).reshape(20, 3) == 7, np.inf, X))
    with pytest.raises(DataError, match="infinity"):
        model.log_prob(np.where(np.arange(60).reshape(20, 3) == 7, -np.inf, X))


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_constant_columns_say_nothing(model):
    wide = np.hstack([X, np.full((20, 1), 3.0)])
    np.testing.assert_allclose(model.fit(wide, Y).predict_proba(wide), model.fit(X, Y).predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_shard_without_a_class(model):
    order = np.argsort(Y, kind="stable")
    whole = model.fit(X[order], Y[order]).predict_proba(X)
    model.shard_rows = 5
    np.testing.assert_allclose(model.fit(X[order], Y[order]).predict_proba(X), whole, atol=1e-12)
    model.shard_rows = None


@pytest.mark.parametrize(
    "options",
    [
        {"covariance": "full"},
        {"shrinkage": 2.0},
        {"shrinkage": "some"},
        {"priors": [0.5]},
        {"priors": [1.5, -0.5]},
    ],
)
def test_bad_options_of_gda(options):
    with pytest.raises(ValueError, match="must be"):
        GDA(**options).fit(X, Y)


def test_gaps_and_ledoit_wolf():
    rng = np.random.default_rng(0)
    wide, y = rng.normal(size=(60, 8)) + np.arange(60)[:, None] % 2, np.arange(60) % 2
    gappy = np.where(rng.random(wide.shape) < 0.02, np.nan, wide)
    moved = {}
    for shrinkage in (None, "auto"):
        model = GDA(shrinkage=shrinkage).fit(gappy, y)
        assert model.converged_
        moved[shrinkage] = np.abs(model.covariance_ - GDA(shrinkage=shrinkage).fit(wide, y).covariance_).max()
    assert moved["auto"] < 1.1 * moved[None]  # what the gaps change, shrinking does not make worse


finite = st.floats(-1e6, 1e6, allow_subnormal=False)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    X=hnp.arrays(
        np.float64, st.tuples(st.integers(2, 12), st.integers(1, 4)), elements=st.one_of(finite, st.just(np.nan), st.just(0.0))
    ),
    model=st.sampled_from(MODELS),
    seed=st.integers(0, 100),
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_table_of_numbers_breaks_a_fit(X, model, seed):
    y = np.random.default_rng(seed).integers(0, 2, len(X))
    try:
        model.fit(X, y)
    except TalliesError as error:
        assert len(str(error)) > 30  # a sentence
        return
    p = model.predict_proba(X)
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-9)
    assert np.isfinite(model.log_prob(X)).all()
    assert np.isfinite(model.history_).all()


cell = st.one_of(
    st.none(), st.text(max_size=2), st.integers(-3, 5), st.booleans(), st.floats(allow_nan=True, allow_infinity=False, width=32)
)
column = st.one_of(
    st.just(st.text(max_size=2)),
    st.just(st.one_of(st.none(), st.text(max_size=2))),
    st.just(st.integers(-3, 5)),
    st.just(st.integers(0, 9)),
    st.just(st.booleans()),
    st.just(st.floats(-1e6, 1e6)),
    st.just(cell),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_mixed_table_breaks_naive_bayes(data):
    n = data.draw(st.integers(2, 10))
    kinds = data.draw(st.lists(column, min_size=1, max_size=4))
    frame = pd.DataFrame({f"c{j}": data.draw(st.lists(kind, min_size=n, max_size=n)) for j, kind in enumerate(kinds)})
    y = data.draw(st.lists(st.sampled_from(["a", "b", "c"]), min_size=n, max_size=n))
    model = NaiveBayes(smoothing=data.draw(st.sampled_from([0.0, 0.5, 1.0])))
    try:
        model.fit(frame, y)
    except TalliesError as error:
        assert len(str(error)) > 30
        return
    p = model.predict_proba(frame)
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-9)
    drawn, labels = model.sample(4, random_state=0)
    assert set(labels) <= set(y)
    assert np.isfinite(model.predict_proba(drawn)).all()


@pytest.mark.parametrize("model", [*MODELS, FEM(ridge=1.0), PLN()], ids=repr)
def test_weights_beyond_the_range_of_floats(model):
    for weight in (np.full(20, 1e300), np.full(20, 1e-300), np.where(np.arange(20) == 0, 1e-111, 1e30)):
        with pytest.raises(DataError, match="multiply all weights"):
            model.fit(np.arange(60).reshape(20, 3) % 7, Y, sample_weight=weight)


@pytest.mark.parametrize("model", [NaiveBayes(), FEM()], ids=repr)
def test_names_that_are_no_texts_must_differ_too(model):
    with pytest.raises(DataError, match="must differ"):
        model.fit(pd.DataFrame(np.arange(40).reshape(20, 2) % 7, columns=[1, 1]), Y)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_number_of_samples(model):
    for n in (True, 0, 2.5, None):
        with pytest.raises(ValueError, match="whole number"):
            model.fit(X, Y).sample(n)


@pytest.mark.parametrize("model", [GDA, NaiveBayes, FEM])
@pytest.mark.parametrize("options", [{"tol": "auto"}, {"tol": -1.0}, {"tol": np.nan}, {"max_iter": 0}, {"max_iter": None}])
def test_a_fit_must_be_able_to_stop(model, options):
    with pytest.raises(ValueError, match="must be"):
        model(**options).fit(np.arange(60).reshape(20, 3) % 7, Y)


@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_numbers_too_large_to_be_squared(model):
    for number in (1.7e308, 1e200):
        big = np.where(np.arange(60).reshape(20, 3) % 7 == 0, number, X)
        with pytest.raises(DataError, match="too large"):
            model.fit(big, Y)
        model.fit(X, Y)
        with pytest.raises(DataError, match="too large"):
            model.log_prob(big)
