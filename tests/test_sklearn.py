"""scikit-learn's own contract, and life inside its pipelines and searches."""

from __future__ import annotations

import pickle
from importlib.metadata import version

import numpy as np
import pytest
from joblib.externals.loky import get_reusable_executor
from packaging.version import Version
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks as checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from tallies import (
    FEM,
    GDA,
    PLN,
    AuthorConcept,
    FEMNetwork,
    Multinomial,
    NaiveBayes,
    Ontology,
    PLNDiscriminant,
    PLNMixture,
    PLNNetwork,
)

MOST = 25  # sweeps of a stage
MODELS = [
    FEM(ridge=1.0),
    FEMNetwork(ridge=1.0),
    GDA(),
    GDA(semi_supervised=True),
    NaiveBayes(),
    PLN(),
    # which fit some hundred times, and are asked nothing that depends on how near to its maximum a fit ends
    PLNNetwork(penalty=0.2, select=None, max_iter=MOST),
    PLNDiscriminant(max_iter=MOST),
    PLNMixture(n_components=2, n_starts=1, max_iter=MOST),
]
OTHER_SETTINGS = [
    FEM(cv=2),
    GDA(covariance="class"),
    GDA(covariance="diagonal"),
    GDA(shrinkage="auto"),
    NaiveBayes(families="gaussian", semi_supervised=True),
    PLN(rank=1),
]
FRACTIONS = "the check has fractions for data, and a PLN refuses all but whole numbers; test_contract weighs rows of counts"
TABLE = "predict gives the expected counts, one column a species; the check asks for one number a row"
COUNTS = {f"check_sample_weight_equivalence_on_{kind}_data": FRACTIONS for kind in ("dense", "sparse")} | {
    f"check_estimator_sparse_{kind}": TABLE for kind in ("array", "matrix")
}

BY_NAME = {
    "check_dataframe_column_names_consistency": "the check asks for an error where columns come in another order; here they are "
    "matched by name. tests/data/test_column_order.py has the rest of it"
}


def expected_failures(model):
    """The checks that a model of ours fails, and why; check_array_api_input skips itself unless SCIPY_ARRAY_API is set."""
    if isinstance(model, PLNDiscriminant):
        checks = (
            *(f"sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")),
            "classifiers_one_label_sample_weights",
        )
        return {f"check_{name}": FRACTIONS for name in checks}
    if isinstance(model, PLN | PLNNetwork | PLNMixture):
        return COUNTS
    if getattr(model, "semi_supervised", False):
        reason = "-1 is a missing label here, as in scikit-learn's own semi-supervised estimators; the check has it as a class"
        return {"check_classifiers_classes": reason} | BY_NAME
    return BY_NAME


@parametrize_with_checks(MODELS, expected_failed_checks=expected_failures)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.long
@parametrize_with_checks(OTHER_SETTINGS, expected_failed_checks=expected_failures)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_scikit_learn_contract_with_other_settings(estimator, check):
    check(estimator)


def test_pipelines_and_searches():
    X, y = load_iris(return_X_y=True)
    assert cross_val_score(make_pipeline(StandardScaler(), GDA()), X, y).mean() > 0.97
    search = GridSearchCV(GDA(), {"covariance": ["shared", "class", "diagonal"], "shrinkage": [None, 0.1]}, n_jobs=2).fit(X, y)
    get_reusable_executor().shutdown()  # its processes hold the pipe of this one: were it killed, pytest-xdist would wait for ever
    assert search.best_score_ > 0.97


def test_counts_in_pipelines():
    """Labels that a pipeline passes are no covariates; a table in their place is told."""
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 2
    Y = rng.poisson(np.exp(1 + labels[:, None] * [1.0, -1.0, 0.5] + rng.normal(0, 0.5, (60, 3))))
    alone, labelled = PLN(rank=2).fit(Y), PLN(rank=2).fit(Y, labels)
    np.testing.assert_array_equal(labelled.latent_mean_, alone.latent_mean_)
    assert labelled.coefficients_.shape == (1, 3)
    np.testing.assert_array_equal(PLN().fit(Y, labels[:, None]).coefficients_, PLN().fit(Y).coefficients_)
    with pytest.raises(ValueError, match="covariates="):
        PLN().fit(Y, rng.normal(size=(60, 2)))
    found = make_pipeline(PLN(rank=2), StandardScaler()).fit(Y, labels).transform(Y)
    assert make_pipeline(PLN(rank=2), GDA()).fit(Y, labels).score(Y, labels) > 0.7
    np.testing.assert_allclose(found.std(axis=0), 1.0, rtol=1e-5)
    assert cross_val_score(PLN(rank=1), Y, labels, cv=3).shape == (3,)
    frame = PLN(rank=2).set_output("pandas").fit(Y).transform(Y)
    assert frame.columns.tolist() == ["pln0", "pln1"]
    assert PLN().fit(Y).get_feature_names_out().tolist() == ["x0", "x1", "x2"]


def test_clone_and_repr():
    model = NaiveBayes(families={"a": "poisson"}, smoothing=0.5)
    assert repr(model) == "NaiveBayes(families={'a': 'poisson'}, smoothing=0.5)"
    assert clone(model).get_params() == model.get_params()
    assert not hasattr(clone(GDA().fit(np.arange(6.0)[:, None], [0, 1] * 3)), "params_")


# AuthorConcept is fitted to sentences and an ontology, which no check of scikit-learn can make: those that fit to arrays of
# numbers do not apply. All others do, and what the rest would say is said below of its own input.
@pytest.mark.parametrize("model", [AuthorConcept(), AuthorConcept(words=Multinomial(anchor=2.0), preset="seed")])
@pytest.mark.parametrize(
    "name",
    [
        "estimator_cloneable",
        "estimator_repr",
        "no_attributes_set_in_init",
        "get_params_invariance",
        "set_params",
        "parameters_default_constructible",
        "estimator_tags_renamed",
        "valid_tag_types",
    ],
)
def test_checks_that_need_no_array(model, name):
    getattr(checks, f"check_{name}")("AuthorConcept", model)


def test_a_model_of_sentences_keeps_the_contract_of_fit():
    concepts, texts = Ontology(["x"], ["cell death"]), ["Cell death was seen.", "Nothing."]
    model = AuthorConcept(keep=3)
    for ask in (lambda: model.rank(texts), lambda: model.score(texts), lambda: model.concept_words_, lambda: model.history_):
        with pytest.raises(NotFittedError):
            ask()
    assert model.fit(texts, concepts) is model  # fit returns self
    before = model.rank(texts)[1]
    assert set(vars(model)) == {*model.get_params(), "fitted_"}  # and sets nothing but what was learned
    assert model.get_params() == AuthorConcept(keep=3).get_params()
    np.testing.assert_array_equal(model.fit(texts, concepts=concepts).rank(texts)[1], before)  # idempotent
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).rank(texts)[1], before)
    np.testing.assert_array_equal(model.rank(texts[:1])[1], before[:1])  # each sentence by itself
    assert not clone(model).__sklearn_is_fitted__()


@pytest.mark.skipif(
    Version(version("scikit-learn")) < Version("1.8"), reason="older pipelines ask for weights of scores themselves"
)
@pytest.mark.parametrize("model", [GDA(), NaiveBayes(), FEM(ridge=1.0, bins=3)], ids=lambda m: type(m).__name__)
def test_weights_are_routed_through_pipelines_and_folds(model):
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(60, 3)), rng.integers(1, 4, 60).astype(float)
    y = (X[:, 0] + rng.normal(size=60) > 0).astype(int)
    folds = list(KFold(3).split(X))
    with config_context(enable_metadata_routing=True):
        asked = clone(model).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        line = make_pipeline(asked).fit(X, y, sample_weight=weight)
        found = cross_validate(line, X, y, params={"sample_weight": weight}, cv=folds)["test_score"]
    by_hand = clone(model).fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(line.predict_proba(X), by_hand.predict_proba(X))
    assert not np.array_equal(line.predict_proba(X), clone(model).fit(X, y).predict_proba(X))
    for (train, test), score in zip(folds, found, strict=True):
        right = clone(model).fit(X[train], y[train], sample_weight=weight[train]).predict(X[test]) == y[test]
        assert score == pytest.approx(np.average(right, weights=weight[test]))


def test_weights_of_counts_are_routed_through_pipelines():
    rng = np.random.default_rng(1)
    Y, weight = rng.poisson(3, (40, 5)), rng.integers(1, 4, 40).astype(float)
    with config_context(enable_metadata_routing=True):
        line = make_pipeline(PLN(rank=2).set_fit_request(sample_weight=True)).fit(Y, sample_weight=weight)
    np.testing.assert_array_equal(line[0].coefficients_, PLN(rank=2).fit(Y, sample_weight=weight).coefficients_)
