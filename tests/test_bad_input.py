"""Bad input gets a clear error or the documented treatment; whatever comes, a fit never ends in NaN or a bare crash."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tallies
from tallies import FEM, GDA, LDA, PLN, AuthorConcept, Corpus, FEMNetwork, NaiveBayes, Ontology
from tallies.errors import DataError, DataWarning, TalliesError

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
        (pd.DataFrame({"a": X[:, 0], "b": X[:, 1] + 1j}), Y, "Complex data|expects"),
    ],
)
def test_bad_data_are_refused_in_words(model, X, y, message):
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)


@pytest.mark.filterwarnings("error")
def test_infinite_labels_are_refused_without_a_warning_of_numpy():
    with pytest.raises(ValueError, match=r"infinity|continuous"):
        GDA().fit(X, np.where(Y, 1.0, np.inf))


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


DAYS = pd.date_range("2020-01-01", periods=20)
COUNTS = np.random.default_rng(0).poisson(3.0, (20, 4))


def _short_lda(**options):
    return LDA(n_topics=2, max_iter=6, burn_in=3, **options)


@pytest.mark.parametrize("model", [GDA(), NaiveBayes(), FEM(ridge=1.0), FEMNetwork(ridge=1.0), PLN(), _short_lda()], ids=repr)
@pytest.mark.parametrize(
    ("X", "message"),
    [
        (pd.DataFrame({"a": range(20), "d": DAYS}), "date|Datetime|not"),
        (pd.DataFrame({"a": range(20), "d": list(DAYS.date)}), "date|not"),
        (pd.DataFrame({"a": range(20), "d": DAYS.to_period("W")}), "date|not"),
        (pd.DataFrame({"a": range(20), "d": DAYS.to_period("W").astype(object)}), "date|not"),
        (np.tile(DAYS.to_numpy()[:, None], (1, 2)), "date"),
        ({"a": [1, 2], "b": [3, 4]}, "expected a table .*, got a dict; pass pandas.DataFrame"),
        ([{"a": 1, "b": 2}] * 20, "expected a table .*, got a list of dicts; pass pandas.DataFrame"),
        (pd.DataFrame(COUNTS, columns=list("aabc")), "'a'.* more than once"),
        (pd.DataFrame(COUNTS, columns=[1, 1, 2, 3]), "1.* more than once"),
    ],
    ids=["dates", "objects", "periods", "objects that are periods", "array", "dict", "records", "twice", "numbered twice"],
)
def test_dates_dicts_and_two_columns_of_one_name(model, X, message):
    with pytest.raises(DataError, match=message):
        model.fit(X, Y) if hasattr(model, "predict_proba") else model.fit(X)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_numbers_whose_squares_are_infinite(model):
    with pytest.raises(DataError, match="beyond 1e"):
        model.fit(X * 1e300, Y)
    try:
        assert np.isfinite(model.fit(X, Y).predict_proba(np.full((2, 3), 1e300))).all()  # of a plane
    except DataError as error:
        assert "beyond 1e" in str(error)
    with pytest.raises(DataError, match="multiply all weights"):
        model.fit(X, Y, sample_weight=np.full(20, 1e308))
    for weight in (np.full(20, np.nan), ["a"] * 20):
        with pytest.raises(DataError, match="sample_weight must be 20 finite numbers"):
            model.fit(X, Y, sample_weight=weight)


def test_none_among_whole_labels():
    gaps = [0, 1, None, 1] * 5
    with pytest.raises(DataError, match="5 missing labels"):
        GDA().fit(X, gaps)
    model = GDA(semi_supervised=True).fit(X, gaps)
    assert model.classes_.tolist() == [0, 1]
    assert model.classes_.dtype.kind == "i"
    with pytest.raises(DataError, match="number and text"):
        GDA(semi_supervised=True).fit(X, [0, "a", None, 1] * 5)
    for labels, message in ((gaps, "missing labels"), (["a", "b"] * 10, "not among the classes")):
        with pytest.raises(DataError, match=message):
            tallies.evaluate(model, X, labels)


@pytest.mark.parametrize("count", [1e12, 1e18, 1e300])
def test_counts_that_no_memory_holds(count):
    table = COUNTS.astype(float)
    table[0, 0] = count
    with pytest.raises(DataError, match="scale the counts down"):
        _short_lda().fit(table)
    with pytest.raises(ValueError, match="whole numbers"):
        _short_lda(word_prior={0: {0: count}}).fit(COUNTS)
    with pytest.raises(ValueError, match="at most"):
        LDA(n_topics=10**9).fit(COUNTS)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("prior", [1e300, 1e-300])
def test_priors_at_the_ends_of_the_numbers(prior):
    with pytest.raises(ValueError, match="from 1e-30 to 1e"):
        _short_lda(alpha=prior).fit(COUNTS)
    with pytest.raises(ValueError, match="from 1e-30 to 1e"):
        _short_lda(beta=prior).fit(COUNTS)
    least = np.clip(prior, 1e-30, 1e30)
    for options in ({"alpha": least}, {"beta": float(least)}, {"alpha": [least, 1.0]}):
        model = _short_lda(**options).fit(COUNTS)
        assert np.isfinite(model.transform(COUNTS)).all()
        assert np.isfinite(model.history_).all()
    for family in ("categorical", "poisson", "multinomial"):
        model = NaiveBayes(smoothing=prior, families=family).fit(COUNTS, Y)
        assert np.isfinite(model.predict_proba(COUNTS)).all()
        assert np.isfinite(model.history_).all()
    assert np.isfinite(GDA(priors=[min(prior, 1e-300), 1.0]).fit(X, Y).predict_proba(X)).all()


@pytest.mark.parametrize("prior", [np.inf, np.nan, "x", -1.0])
def test_priors_that_are_none(prior):
    for options in ({"alpha": prior}, {"beta": prior}, {"alpha": [prior, 1.0]}):
        with pytest.raises(ValueError, match="must be"):
            _short_lda(**options).fit(COUNTS)
    with pytest.raises(ValueError, match="smoothing must be a number"):
        NaiveBayes(smoothing=prior).fit(COUNTS, Y)
    with pytest.raises(DataError, match="priors must be"):
        GDA(priors=[prior, 1.0]).fit(X, Y)
    for name in ("gamma", "author_sparsity", "temperature", "author_backoff"):
        with pytest.raises(ValueError, match=f"{name} must"):
            AuthorConcept(**{name: prior}).fit(["A cell."], concepts=Ontology(["a"], ["cell"]))


def test_more_intervals_than_rows():
    for model in (FEM(bins=1000), FEM(bins={"a": 1000})):
        with pytest.raises(DataError, match="bins=1000 is more than the 2 observed values"):
            model.fit(pd.DataFrame({"a": [0.0, 1.0], "b": [1.0, 5.0]}), [0, 1])
    with pytest.raises(DataError, match="infinity"):
        FEM(bins=2).fit(pd.DataFrame({"a": [0.0, np.inf, 1.0]}), [0, 1, 1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"offsets": np.full((20, 4), 1e300)}, "logarithms"),
        ({"offsets": [["a"] * 4] * 20}, "offsets must be numbers"),
        ({"offsets": pd.DataFrame(np.zeros((20, 4)), columns=list("aabc"))}, "more than once"),
        ({"covariates": [["a"]] * 20}, "covariates must be numbers"),
        ({"covariates": DAYS.to_numpy()[:, None]}, "dates"),
        ({"covariates": pd.DataFrame(X, columns=list("aab"))}, "more than once"),
        ({"covariates": X[:, :1] * 1e300}, "finite"),
    ],
)
def test_bad_tables_beside_counts(options, message):
    with pytest.raises(DataError, match=message):
        PLN().fit(COUNTS, **options)


def test_a_file_of_covariates_in_the_place_of_labels():
    Y = np.random.default_rng(0).poisson(3.0, (20, 3))
    for place in ("groups.csv", Path("groups.csv")):
        with pytest.raises(DataError, match=r"y is a file, 'groups.csv', .* fit\(counts, covariates='groups.csv'\)"):
            PLN().fit(Y, place)


@pytest.mark.parametrize("formula", ["~ 1 + zz", "~ 1 + a(", "~ 1 + 1 / 0"])
def test_bad_formulas(formula):
    with pytest.raises(DataError, match="does not fit the columns"):
        PLN().fit_formula(formula, COUNTS, pd.DataFrame({"a": X[:, 0]}))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ontology(["a"], ["cell"], parents=[["zz"]]), r"parents must be .*'zz'"),
        (lambda: Ontology.from_pairs([1, 2]), "item 0 is 1"),
        (lambda: Ontology.from_pairs(3), "got 3"),
        (lambda: Ontology.from_pairs(pd.DataFrame([["a", "b"]], columns=["x", "x"])), "more than once"),
        (lambda: Ontology.from_table(pd.DataFrame([["a", "b"]], columns=["id", "id"])), "more than once"),
        (lambda: Ontology.from_table(pd.DataFrame([["a", "b"]])), "needs a column 'id'"),
        (lambda: Ontology.from_table([["a"]]), "got a list"),
        (lambda: Corpus.from_texts(None), "got None"),
        (lambda: Corpus.from_texts(["A cat."], authors=[3]), "authors of a text.* got 3"),
    ],
)
def test_bad_texts_and_concepts(make, message):
    with pytest.raises(DataError, match=message):
        make()


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
        with pytest.raises(DataError, match="beyond 1e"):
            model.fit(big, Y)
        model.fit(X, Y)
        with pytest.raises(DataError, match="beyond 1e"):
            model.log_prob(big)


def test_a_text_that_only_sounds_like_a_date():
    with pytest.raises(DataError, match="encode or drop such columns"):
        GDA().fit(pd.DataFrame({"a": ["candidate", "update"] * 10}), Y)


@pytest.mark.parametrize("model", [GDA(), NaiveBayes(), FEM()], ids=lambda model: type(model).__name__)
def test_labels_with_fractions_are_told_of_with_one_and_a_remedy(model):
    with pytest.raises(DataError, match=r"Unknown label type: .*numbers such as .*0\.5.*cut the numbers into groups"):
        model.fit(np.arange(9.0)[:, None], np.arange(9) + 0.5)


@pytest.mark.parametrize("model", [GDA(), GDA(covariance="class"), NaiveBayes()], ids=str)
def test_classes_of_one_row_each_are_told_of(model):
    names = [f"s{i}" for i in range(9)]
    with pytest.warns(DataWarning, match="each of the 9 classes has one row.*a name of rows"):
        model.fit(np.arange(9.0)[:, None], names)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "each of the", DataWarning)
        model.fit(np.arange(10.0)[:, None], [*names, "s0"])
