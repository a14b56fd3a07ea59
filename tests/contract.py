"""What every model must obey, as data: one line a model in CASES, and `test_contract.py` puts each through the whole contract.

A case says how to make the model, how to make data for it, what of the fitted model to compare, and which promises it makes.
To add a model, add a line (see CONTRIBUTING).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse as sp

import tallies


class Case(NamedTuple):
    name: str
    make: Callable[[], Any]  # an estimator with its hyperparameters
    data: Callable[[np.random.Generator, int], dict[str, Any]]  # keyword arguments of `fit`, for about n rows
    view: Callable[[Any, dict[str, Any]], list[np.ndarray]]  # what of a fitted model must agree between two fits
    other: dict[str, Any]  # further settings, with which a refit is another model
    z_scores: Callable[[Any], np.ndarray] | None = None  # of parameters refitted to the model's own samples
    weights: bool = True  # takes sample_weight
    # three reasons why other shards, or another order of rows, may change a result by more than rounding
    stochastic: bool = False  # draws random numbers in a sweep: other shards, other draws
    approximate: str = ""  # several shards are an approximation, and why
    tolerance: float = 1e-12  # relative: where the path of an optimiser amplifies rounding
    by_place: bool = False  # which rows are held out is drawn by their place: another order of rows is another draw
    whole: str = ""  # why its rows are never cut into shards

    def __hash__(self) -> int:
        return hash(self.name)


def arrays(tree: Any) -> list[np.ndarray]:
    """All arrays of nested tuples and lists, in order; numbers as arrays, sparse matrices as their parts."""
    if isinstance(tree, tuple | list):
        return [leaf for item in tree for leaf in arrays(item)]
    if sp.issparse(tree):
        return arrays([tree.data, tree.indices, tree.indptr])
    return [] if tree is None or isinstance(tree, str) else [np.asarray(tree)]


def take(data: dict[str, Any], rows: np.ndarray) -> dict[str, Any]:
    """The same keyword arguments with the given rows of each."""
    return {k: v.iloc[rows] if hasattr(v, "iloc") else v[rows] for k, v in data.items() if v is not None}


# classifiers


def numbers(rng: np.random.Generator, n: int) -> dict[str, Any]:
    y = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 4)) @ rng.normal(size=(4, 4)) + rng.normal(size=(3, 4))[y] + 100.0
    return {"X": X, "y": y}


def gaps(rng: np.random.Generator, n: int) -> dict[str, Any]:
    data = numbers(rng, n)
    X, y = data["X"].copy(), data["y"].astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    y[rng.random(n) < 0.3] = np.nan
    return {"X": X, "y": y}


def mixed(rng: np.random.Generator, n: int) -> dict[str, Any]:
    y = rng.integers(0, 3, n)
    frame = pd.DataFrame(
        {
            "size": rng.normal(y, 1.0 + 0.2 * y),
            "colour": np.array(["red", "green", "blue", "white"], dtype=object)[
                (rng.integers(0, 4, n) * (rng.random(n) < 0.6) + y) % 4
            ],
            "eggs": rng.poisson(1.0 + 2 * y),
            "wings": rng.random(n) < 0.2 + 0.3 * y,
        }
    )
    frame.loc[rng.random(n) < 0.1, "size"] = np.nan
    frame.loc[rng.random(n) < 0.1, "colour"] = None
    return {"X": frame, "y": np.array(["a", "b", "c"])[y]}


def mixed_unlabelled(rng: np.random.Generator, n: int) -> dict[str, Any]:
    data = mixed(rng, n)
    y = data["y"].astype(object)
    y[rng.random(n) < 0.4] = None
    return {"X": data["X"], "y": y}


def words(rng: np.random.Generator, n: int) -> dict[str, Any]:
    y = rng.integers(0, 3, n)
    rates = rng.gamma(0.5, 1.0, (3, 30))
    return {"X": sp.csr_array(rng.poisson(rates[y])), "y": y}


def posterior(model: Any, data: dict[str, Any]) -> list[np.ndarray]:
    return [model.predict_proba(data["X"]), model.log_prob(data["X"])]


def refit(model: Any, n: int = 20_000) -> tuple[Any, np.ndarray]:
    """The same kind of model fitted to samples of the given one, and the rows of each class among them."""
    X, y = model.sample(n, random_state=1)
    again = type(model)(**{**model.get_params(), "semi_supervised": False}).fit(X, y)
    return again, again.params_.n


def gda_z(model: Any) -> np.ndarray:
    again, n = refit(model)
    variance = model.covariance_ if model.covariance == "diagonal" else np.diagonal(model.covariance_, axis1=-2, axis2=-1)
    found = again.covariance_ if model.covariance == "diagonal" else np.diagonal(again.covariance_, axis1=-2, axis2=-1)
    rows = n.sum() if model.covariance == "shared" else n[:, None]
    means = (again.means_ - model.means_) / np.sqrt(variance / n[:, None])
    return np.concatenate([means.ravel(), ((found - variance) / (variance * np.sqrt(2 / rows))).ravel()])


def bayes_z(model: Any) -> np.ndarray:
    again, n = refit(model)
    old, new, z = model.params_.laws, again.params_.laws, []
    if old.gaussian is not None:
        z.append((new.gaussian.mean - old.gaussian.mean) / np.sqrt(old.gaussian.variance / n[:, None]))
    if old.categorical is not None:
        p, q = np.exp(old.categorical.log_p), np.exp(new.categorical.log_p)
        z.append((q - p) / np.sqrt(p * (1 - p) / n))
    if old.poisson is not None:
        z.append((new.poisson.rate - old.poisson.rate) / np.sqrt(old.poisson.rate / n[:, None]))
    if old.multinomial is not None:
        p, q, total = np.exp(old.multinomial.log_p), np.exp(new.multinomial.log_p), new.multinomial.counts.sum(axis=1)
        z.append((q - p) / np.sqrt(p / total))
    return np.concatenate([part.ravel() for part in z])


# topics


def documents(rng: np.random.Generator, n: int) -> dict[str, Any]:
    topics = rng.dirichlet(np.full(25, 0.1), 3)
    return {"X": np.array([rng.multinomial(30, p) for p in rng.dirichlet(np.full(3, 0.3), n) @ topics])}


def topics(model: Any, data: dict[str, Any]) -> list[np.ndarray]:
    return [model.topics_, model.document_topics_, model.transform(data["X"])]


# categories


def states(rng: np.random.Generator, n: int) -> dict[str, Any]:
    X = rng.permutation(4**6)[:n, None] // 4 ** np.arange(6) % 4  # distinct rows: FEM fits equal ones as one
    y = (X[:, 0] == X[:, 1]).astype(int) + (X[:, 2] + rng.integers(0, 2, n) > 2)
    return {"X": pd.DataFrame(X, columns=list("abcdef")), "y": np.array(["no", "some", "yes"])[y]}


def series(rng: np.random.Generator, n: int) -> dict[str, Any]:
    X = rng.integers(0, 3, (n, 5))
    X[:, 2] = np.where(rng.random(n) < 0.5, X[:, 3], X[:, 2])
    return {"X": X}


def proba(model: Any, data: dict[str, Any]) -> list[np.ndarray]:
    return [model.predict_proba(data["X"])]


def couplings(model: Any, data: dict[str, Any]) -> list[np.ndarray]:
    return [model.couplings_, model.energy(data["X"])]


# sentences


def sentences(rng: np.random.Generator, n: int) -> dict[str, Any]:
    words = np.array([f"{a}{b}{c}" for a in "bdfgk" for b in "aeiou" for c in "lmnr"])
    pairs = [(f"d{i // 5}", " ".join(rng.choice(words, 5))) for i in range(n)]
    authors = [(f"d{i}", f"author {i % 7}") for i in range(-(-n // 5))]
    names = [" ".join(rng.choice(words, 2, replace=False)) for _ in range(12)]
    parents = [[] if g == 0 else [f"c{(g - 1) // 2}"] for g in range(12)]
    concepts = tallies.Ontology([f"c{g}" for g in range(12)], names, parents=parents)
    return {"corpus": tallies.Corpus.from_pairs(pairs, authors, stop_words=None), "concepts": concepts}


def ranks(model: Any, data: dict[str, Any]) -> list[np.ndarray]:
    given = model.log_prob_given(data["corpus"].sentences[:50])  # log odds of mentions may be -inf
    return [model.rank(data["corpus"], k=5)[1], model.log_prob(data["corpus"]), np.exp(given), model.document_concepts_]


# counts


def abundances(rng: np.random.Generator, n: int) -> dict[str, Any]:
    X = np.hstack([np.ones((n, 1)), rng.normal(size=(n, 1))])
    Z = X @ rng.normal(0.5, 0.5, (2, 5)) + rng.normal(size=(n, 5)) @ np.tril(rng.normal(size=(5, 5)) * 0.4 + 0.4 * np.eye(5)).T
    return {"counts": rng.poisson(np.exp(Z)), "covariates": X}


def labelled(rng: np.random.Generator, n: int) -> dict[str, Any]:
    data, y = abundances(rng, n), rng.integers(0, 3, n)
    more = rng.poisson(np.exp(rng.normal(0.0, 0.7, (3, 5)))[y])
    return {"counts": data["counts"] + more, "y": np.array(["moor", "wood", "shore"])[y], "covariates": data["covariates"]}


def mixed_counts(rng: np.random.Generator, n: int) -> dict[str, Any]:
    group, x = rng.integers(0, 2, n), rng.normal(size=(n, 1))
    means = np.array([[0.0, 2.0, 1.0, 0.0, 1.0], [2.0, 0.0, 1.5, 1.0, 0.0]])
    Z = means[group] + x * rng.normal(0, 0.3, 5) + rng.normal(0, 0.5, (n, 5))
    return {"counts": rng.poisson(np.exp(Z)), "covariates": np.hstack([np.ones((n, 1)), x])}


def clustered(model: Any, data: dict[str, Any]) -> list[np.ndarray]:
    found = model.predict_proba(data["counts"], covariates=data["covariates"])
    return [model.coefficients_, model.covariances_, model.shares_, found]


def told_apart(model: Any, data: dict[str, Any]) -> list[np.ndarray]:
    return [model.coefficients_, model.predict_log_proba(data["counts"], covariates=data["covariates"])]


def gappy(rng: np.random.Generator, n: int) -> dict[str, Any]:
    X = np.hstack([np.ones((n, 1)), rng.normal(size=(n, 1))])
    Z = 2.0 + X @ rng.normal(0.0, 0.3, (2, 5)) + rng.normal(0.0, 0.7, (n, 5)) + rng.normal(0.0, 0.4, (n, 1))
    return {"counts": np.where(rng.random((n, 5)) < 0.3, 0, rng.poisson(np.exp(Z))), "covariates": X}


def latent(model: Any, data: dict[str, Any]) -> list[np.ndarray]:
    return [model.coefficients_, model.covariance_]


def sparse(model: Any, data: dict[str, Any]) -> list[np.ndarray]:
    return [*latent(model, data), model.precision_]


CASES = [
    # bayes
    Case("gda shared", lambda: tallies.GDA(), numbers, posterior, {"covariance": "diagonal"}, gda_z),
    Case("gda class", lambda: tallies.GDA(covariance="class"), numbers, posterior, {"covariance": "shared"}, gda_z),
    Case("gda diagonal", lambda: tallies.GDA(covariance="diagonal"), numbers, posterior, {"shrinkage": 0.5}, gda_z),
    Case("gda ledoit-wolf", lambda: tallies.GDA(covariance="class", shrinkage="auto"), numbers, posterior, {"shrinkage": None}),
    Case("gda with gaps", lambda: tallies.GDA(semi_supervised=True), gaps, posterior, {"covariance": "class"}, gda_z),
    Case(
        "gda class with gaps",
        lambda: tallies.GDA(covariance="class", semi_supervised=True),
        gaps,
        posterior,
        {"covariance": "diagonal"},
        gda_z,
    ),
    Case("naive bayes mixed", lambda: tallies.NaiveBayes(), mixed, posterior, {"smoothing": 3.0}, bayes_z),
    Case("naive bayes words", lambda: tallies.NaiveBayes(), words, posterior, {"smoothing": 3.0}, bayes_z),
    Case(
        "naive bayes unlabelled",
        lambda: tallies.NaiveBayes(semi_supervised=True),
        mixed_unlabelled,
        posterior,
        {"families": {"eggs": "gaussian"}},
        bayes_z,
    ),
    # topics
    Case(
        "lda",
        lambda: tallies.LDA(n_topics=3, max_iter=40, burn_in=20, random_state=3),
        documents,
        topics,
        {"n_topics": 4, "n_chains": 2},
        weights=False,
        stochastic=True,
        approximate="topics of other shards are a sweep old (AD-LDA)",
    ),
    # categories
    Case("fem", lambda: tallies.FEM(degree=2, ridge=1.0, solver="lbfgs", tol=1e-12), states, proba, {"degree": 1, "solver": "fem"}),
    Case(
        "fem by cross-validation",
        lambda: tallies.FEM(degree="auto", max_degree=2, cv=3, solver="lbfgs"),
        states,
        proba,
        {"degree": 2, "ridge": 3.0},
        weights=False,  # it takes them, but a row that is there twice may be in two folds, where one of weight 2 is in one
        tolerance=1e-6,
    ),
    Case(
        "fem by cross-validation, kernel",
        lambda: tallies.FEM(degree="auto", max_degree=2, cv=3, solver="kernel"),
        states,
        proba,
        {"degree": 2, "ridge": 3.0},
        weights=False,  # as above
        tolerance=1e-6,
        whole="the kernel is a matrix of all rows",
    ),
    Case(
        "fem, screened",
        lambda: tallies.FEM(degree=2, screen=5, cv=3),
        states,
        proba,
        {"screen": 2},
        weights=False,  # as above
        tolerance=1e-6,
    ),
    Case(
        "fem, the seed's iteration",
        lambda: tallies.FEM(degree=1, ridge=1.0, solver="fem", tol=1e-7),
        states,
        proba,
        {"degree": 2, "solver": "kernel"},
    ),
    Case("fem network", lambda: tallies.FEMNetwork(ridge=1.0, tol=1e-12), series, couplings, {"lag": 1}),
    Case(
        "fem network by cross-validation",
        lambda: tallies.FEMNetwork(),
        series,
        couplings,
        {"ridge": 2.0},
        weights=False,  # as above, with rows that are held out
        tolerance=1e-6,
        by_place=True,
    ),
    # concepts: a corpus has no order of rows to change
    Case(
        "author-concept mentions",
        lambda: tallies.AuthorConcept(),
        sentences,
        ranks,
        {"words": "multinomial"},
        weights=False,
        tolerance=1e-9,
    ),
    Case(
        "author-concept words",
        lambda: tallies.AuthorConcept(words=tallies.Multinomial(anchor=5.0), document_backoff=5.0),
        sentences,
        ranks,
        {"words": "mention"},
        weights=False,
        tolerance=1e-9,
    ),
    # counts: the path of L-BFGS amplifies rounding
    Case("pln", lambda: tallies.PLN(tol=1e-14), abundances, latent, {"rank": 2}, tolerance=1e-5),
    Case(
        "pln diagonal",
        lambda: tallies.PLN(covariance="diagonal", tol=1e-14),
        abundances,
        latent,
        {"covariance": "full"},
        tolerance=1e-5,
    ),
    Case("pln of rank 2", lambda: tallies.PLN(rank=2, tol=1e-13, n_starts=2), abundances, latent, {"rank": None}, tolerance=1e-3),
    Case(
        "pln network by stability",
        lambda: tallies.PLNNetwork(n_penalties=4, n_subsamples=3, tol=1e-14),
        abundances,
        sparse,
        {"joint": True, "select": "bic"},
        weights=False,  # it takes them, but a subsample holds a row that is there twice once, or twice
        tolerance=1e-5,
        by_place=True,
    ),
    Case(
        "pln network, joint",
        lambda: tallies.PLNNetwork(joint=True, select="ebic", n_penalties=3, tol=1e-14),
        abundances,
        sparse,
        {"penalty": 0.3, "select": None},
        tolerance=1e-5,
    ),
    Case(
        "pln, zeros inflated",
        lambda: tallies.PLN(zero_inflation="column", tol=1e-14),
        gappy,
        lambda model, data: [*latent(model, data), model.inflation_, model.log_prob(**data)],
        {"zero_inflation": None},
        tolerance=1e-5,
    ),
    Case(
        "pln mixture",
        lambda: tallies.PLNMixture(n_components=[1, 2], covariance="full", n_starts=2, tol=1e-13),
        mixed_counts,
        clustered,
        {"covariance": "diagonal", "n_components": 2},
        weights=False,  # it takes them, but groupings to begin with are of rows, and a row that is there twice counts twice in them
        tolerance=1e-4,
    ),
    Case(
        "pln discriminant",
        lambda: tallies.PLNDiscriminant(tol=1e-14),
        labelled,
        told_apart,
        {"shrinkage": 0.5, "max_iter": 3},
        tolerance=1e-5,
    ),
    Case(
        "pln by importance sampling",
        lambda: tallies.PLN(rank=1, method=tallies.Importance(max_epochs=3, n_plateau=1, n_trigger=1, accuracy=0.1)),
        abundances,
        latent,
        {"method": "variational"},
        weights=False,
        stochastic=True,
    ),
]
