"""What is asked of a fitted model: name -> answer."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import tallies
from odd.cases import Case

Asks = dict[str, Callable[[], Any]]


def ask_table(model: Any, case: Case, names: str) -> Asks:
    """Answers about rows, of those of the fit and of new ones."""
    asks: Asks = {}
    for which, data in (("", case.fit), ("new ", case.new)):
        for name in names.split():
            asks[which + name] = partial(getattr(model, name), data["X"])
    return asks


def ask_classifier(model: Any, case: Case) -> Asks:
    X, y, more = case.fit["X"], case.fit["y"], case.more
    asks = ask_table(model, case, "predict predict_proba predict_log_proba log_joint log_prob_given log_prob explain")
    label = model.classes_[0]
    return asks | {
        "score": lambda: model.score(X, y),
        "log score": lambda: tallies.evaluate(model, X, y),
        "sample": lambda: model.sample(more["n"], random_state=more["random_state"]),
        "sample of a class": lambda: model.sample(2, y=label, random_state=0),
        "samples are rows": lambda: model.predict_proba(model.sample(2, random_state=0)[0]),
        "partial_fit": lambda: again(model).partial_fit(X, y).predict_proba(X),
        "partial_fit of new rows": lambda: again(model).partial_fit(X, y).partial_fit(X, y).predict_proba(X),
        "merge": lambda: again(model).fit(**case.fit).merge(model).predict_proba(X),
        "attributes": lambda: [model.priors_, *([model.means_, model.covariance_] if case.model == "GDA" else [model.tables_])],
    }


def ask_lda(model: Any, case: Case) -> Asks:
    X, new, more = case.fit["X"], case.new["X"], case.more
    return ask_table(model, case, "transform score perplexity assignments") | {
        "gibbs": lambda: model.transform(new, method="gibbs", random_state=more["random_state"]),
        "left to right": lambda: tallies.evaluate(model, X, method="left_to_right"),
        "similar": lambda: model.similar(new, more["k"]),
        "coherence": lambda: [model.coherence(X, measure, 3) for measure in ("umass", "npmi", "c_v")],
        "sample": lambda: model.sample(more["n"], length=more["length"], random_state=more["random_state"]),
        "top_words": lambda: model.top_words(more["k"]),
        "tables": lambda: [model.topic_table(), model.topic_correlations(), model.topics_, model.document_topics_, model.alpha_],
        "partial_fit": lambda: again(model, fitted=True).partial_fit(new).transform(new),
    }


def ask_pln(model: Any, case: Case) -> Asks:
    more, asks = case.more, {}
    old = {name: value for name, value in case.fit.items() if name != "sample_weight"}
    for which, data in (("", old), ("new ", case.new)):
        for name in ("transform", "predict", "log_prob", "score"):
            (_, counts), *rest = data.items()
            asks[which + name] = partial(getattr(model, name), counts, **dict(rest))
    beside = {name: value for name, value in case.new.items() if name != "counts"}
    return asks | {
        "predict without counts": lambda: model.predict(**beside),
        "predict_conditional": lambda: model.predict_conditional(case.new["counts"], [0], **beside),
        "evidence": lambda: model.evidence(**old, n_draws=20),
        "sample": lambda: model.sample(more["n"], random_state=more["random_state"]),
        "sample beside": lambda: model.sample(3, **beside, random_state=0),
        "coefficients": lambda: [model.coefficients_, model.covariance_, model.correlation_, model.latent_mean_],
        "fit again": lambda: again(model, fitted=True).fit(**case.fit).coefficients_,
    }


def ask_undetermined(model: Any, case: Case) -> Asks:
    """Standard errors, which may have no value: they are NaN then."""
    return {"coefficient_table": model.coefficient_table, "coefficient_covariance": model.coefficient_covariance}


def ask_fem(model: Any, case: Case) -> Asks:
    X, y, more = case.fit["X"], case.fit["y"], case.more
    return ask_table(model, case, "predict predict_proba predict_log_proba decision_function") | {
        "score": lambda: model.score(X, y),
        "log score": lambda: tallies.evaluate(model, X, y),
        "sample_y": lambda: model.sample_y(case.new["X"], random_state=more["random_state"]),
        "weights": lambda: [model.weights_, model.interactions(more["k"]), *model.weights_by_degree().values()],
        "standard_errors": lambda: model.standard_errors(X, y, n_boot=3),
    }


def ask_network(model: Any, case: Case) -> Asks:
    X, more = case.fit["X"], case.more
    return ask_table(model, case, "log_conditional score energy") | {
        "simulate": lambda: model.simulate(more["n"], random_state=more["random_state"]),
        "sample": lambda: model.sample(2, burn_in=3, thin=2, random_state=0),
        "samples are rows": lambda: model.energy(model.sample(3, burn_in=3, thin=2, random_state=0)),
        "couplings": lambda: [model.couplings_, model.scores(), model.scores("direct_information"), model.scores(apc=False)],
        "top_couplings": lambda: model.top_couplings(more["k"]),
        "standard_errors": lambda: model.standard_errors(X, n_boot=3),
    }


def ask_concepts(model: Any, case: Case) -> Asks:
    sentences, authors, more, first = case.new["sentences"], case.new["authors"], case.more, model.concept_ids_[0]
    return {
        "rank": lambda: model.rank(sentences, authors, more["k"]),
        "annotate": lambda: model.annotate(sentences, authors),
        "explained log odds": lambda: model.explain("cell death", first, authors),
        "profiles": lambda: [model.concept_profile(first), model.document_profile(model.document_ids_[0])],
        "author_profile": lambda: [model.author_profile(name) for name in model.authors_],
        "log_prob": lambda: model.log_prob(sentences, authors),
        "log_prob_given": lambda: model.log_prob_given(sentences),
        "score": lambda: [model.score(sentences), model.score(case.fit["corpus"])],
        "sample": lambda: model.sample(more["n"], length=4, random_state=more["random_state"]),
        "document_log_likelihood": lambda: model.document_log_likelihood(case.fit["corpus"]),
        "tables": lambda: [model.concept_words_, model.author_concepts_, model.document_concepts_, model.responsibilities_],
        "roll_up": lambda: model.roll_up(model.document_concepts_),
    }


ASKS = {"LDA": ask_lda, "PLN": ask_pln, "FEM": ask_fem, "FEMNetwork": ask_network, "AuthorConcept": ask_concepts}
SAME = {"LDA": "transform", "PLN": "transform", "FEMNetwork": "log_conditional", "AuthorConcept": "log_prob"}  # else predict_proba


def again(model: Any, fitted: bool = False) -> Any:
    """Another estimator with the same settings, and where asked the same fit."""
    other = type(model)(**model.get_params(deep=False))
    if fitted:
        other.fitted_ = model.fitted_
    return other


def stored(model: Any) -> Any:
    """A model written and read."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "model.tallies"))
        return tallies.load(Path(folder, "model.tallies"))
