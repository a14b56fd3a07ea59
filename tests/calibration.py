"""Do posteriors, errors and intervals mean what they say? Simulated data, whose truth is known: `python tests/calibration.py`.

Posteriors: a truth drawn from the prior and data drawn from the truth; the place of the truth among draws of the posterior is then
uniform (Talts et al. 2018), for any function of the parameters that does not depend on the order of topics. Probabilities: what is
said with p comes true with p. Intervals: of many data sets 95% of the intervals should have the truth in them. Every study ends in
figures with what they should be, and a verdict whose false alarms are rarer than one in 10,000.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy import special, stats

import tallies
from tallies import FEM, GDA, LDA, PLN, FEMNetwork, NaiveBayes, PLNNetwork
from tallies.counts.evidence import gaussians, weigh
from tallies.errors import ConvergenceWarning, DataWarning
from tallies.html.common import wilson

ALARM = 1e-4  # p-value below which a study has failed


class Found(NamedTuple):
    """What a study says."""

    figures: dict[str, float]
    p_value: float  # of all its tests together, were all well
    told: str  # what was done

    @property
    def good(self) -> bool:
        return self.p_value > ALARM


def uniform(places: np.ndarray, bins: int = 10) -> float:
    """p-value of chi-square: places in [0, 1], whether they are uniform."""
    counts = np.histogram(places, np.linspace(0, 1, bins + 1))[0]
    return float(stats.chisquare(counts).pvalue)


def together(values: list[float]) -> float:
    """One p-value of several, by Bonferroni."""
    return float(min(1.0, min(values) * len(values)))


def share_found(covered: np.ndarray, figures: dict[str, float], name: str, low: float, high: float) -> float:
    """Notes a coverage; p-value of its being within [low, high], from the spread over data sets (rows), which are independent."""
    each = np.asarray(covered, dtype=float).reshape(len(covered), -1).mean(axis=1)
    mean, error = float(each.mean()), float(max(each.std(ddof=1), 0.02) / np.sqrt(len(each)))
    figures[name] = round(mean, 4)
    beyond = max(low - mean, mean - high, 0.0)
    return float(2 * stats.norm.sf(beyond / error))


# posteriors


def lda(n: int, seed: int) -> Found:
    """Topics: theta and phi of collapsed Gibbs sampling. Of many short documents, each of which adds to what a wrong sampler gets
    wrong, and takes hardly longer than of few."""
    rng, D, V, K, length, draws, thin = np.random.default_rng(seed), 20, 5, 2, 5, 9, 8
    alpha, beta, places, bins = np.array([0.6, 0.9]), 0.5, [], 5 if n < 100 else 10  # ten truths a bin at least
    options = {
        "n_topics": K,
        "alpha": alpha.tolist(),
        "beta": beta,
        "max_iter": 20 + draws * thin,
        "burn_in": 20,
        "start": "random",
    }
    kept: list[list[float]] = []

    def look(stage: Any, state: Any) -> None:
        t = state.params.t - 20
        if t > 0 and t % thin == 0:
            part = stage.model.rows(stage.sources[0].shard, state.latents[0]._replace(kept=None), state.params)
            n_dk, n_wk = part.n_dk.toarray(), part.n_wk.toarray()
            kept.append(_of_topics([rng.dirichlet(row + alpha) for row in n_dk], [rng.dirichlet(c + beta) for c in n_wk.T]))

    for _ in range(n):
        phi, theta = rng.dirichlet(np.full(V, beta), K), rng.dirichlet(alpha, D)
        X = sp.csr_array(np.array([rng.multinomial(length, row @ phi) for row in theta]))
        kept.clear()
        LDA(**options, random_state=int(rng.integers(2**31))).fit(X, callback=look)
        below = (np.array(kept) < _of_topics(theta, phi)).sum(axis=0)
        places.append((below + rng.random(below.shape)) / (draws + 1))
        p = [uniform(each, bins) for each in np.array(places).T]
        if len(places) >= 50 and together(p) < ALARM / n**2:  # far off already; all n looks add ALARM / n of false alarms
            break
    names = ("sum theta^2", "sum phi^2", "largest phi")
    told = f"{len(places)} truths from the prior, {draws} draws each, thinned by {thin}; p-values of uniform places"
    return Found({name: round(v, 4) for name, v in zip(names, p, strict=True)}, together(p), told)


def _of_topics(theta: Any, phi: Any) -> list[float]:
    """Functions of topics that do not know their order."""
    theta, phi = np.asarray(theta), np.asarray(phi)
    return [float((theta**2).sum()), float((phi**2).sum()), float(phi.max())]


def classes(n: int, seed: int) -> Found:
    """Classifiers: what they say of rows that they drew themselves."""
    rng, found = np.random.default_rng(seed), {}
    y = rng.integers(0, 3, 120)
    X = rng.normal(size=(120, 4)) @ rng.normal(size=(4, 4)) * 0.8 + y[:, None] * [1.0, 0.3, 0.0, -0.5]
    counts = rng.poisson(np.exp(0.3 + 0.4 * y[:, None] * [1, -1, 0, 0.5]))
    models = {f"GDA {c}": GDA(covariance=c).fit(X, y) for c in ("shared", "class", "diagonal")}
    models |= {f"NaiveBayes {f}": NaiveBayes(families=f).fit(counts, y) for f in ("poisson", "categorical", "multinomial")}
    p = []
    for name, model in models.items():
        rows, truth = model.sample(100 * n, random_state=int(rng.integers(2**31)))
        stated = model.predict_proba(rows)
        z = []
        for k in range(3):
            group = np.minimum((stated[:, k] * 10).astype(int), 9)
            for g in range(10):
                mine = stated[group == g, k]
                spread = np.sqrt(np.sum(mine * (1 - mine)))
                if spread > 3:
                    z.append((np.sum(truth[group == g] == k) - mine.sum()) / spread)
        p.append(float(stats.chi2.sf(np.sum(np.square(z)), len(z))))
        found[name] = round(p[-1], 4)
    return Found(found, together(p), f"{100 * n} rows drawn from each fitted model; p-values of calibration in tenths")


def latents(n: int, seed: int) -> Found:
    """PLN by importance sampling: the latents of a row given its counts."""
    rng, p, q, k = np.random.default_rng(seed), 5, 2, 400
    C, mean = rng.normal(size=(p, q)) * 0.8, rng.normal(1.0, 0.7, p)
    V = rng.normal(size=(10 * n, q))
    Y = rng.poisson(np.exp(mean + V @ C.T)).astype(float)
    base = np.tile(mean, (len(V), 1))
    found, log_w, rates = weigh(Y, base, C, gaussians(Y, base, C), rng.normal(size=(len(V), k, q)))
    w = np.exp(log_w - log_w.max(axis=1, keepdims=True))
    w /= w.sum(axis=1, keepdims=True)
    truth = {"V_1": (found[:, :, 0], V[:, 0]), "V_2": (found[:, :, 1], V[:, 1])}
    truth["total rate"] = rates.sum(axis=2), np.exp(mean + V @ C.T).sum(axis=1)
    figures = {name: round(uniform((w * (draws < real[:, None])).sum(axis=1)), 4) for name, (draws, real) in truth.items()}
    p_value = together(list(figures.values()))
    # what a variational fit says of its latents is an approximation: how far it goes wrong is told, not judged
    Z = mean + rng.normal(size=(max(n, 50), p)) @ (np.diag(np.full(p, 0.7)) + 0.2)
    model = PLN().fit(rng.poisson(np.exp(Z)))
    close = np.abs(model.latent_mean_ - Z) < 1.96 * np.sqrt(model.latent_variance_)
    figures["variational, 95% intervals of Z"] = round(float(close.mean()), 4)
    told = (
        f"{10 * n} rows, {k} weighted draws each; p-values of uniform places; coverage of a variational fit, which is approximate"
    )
    return Found(figures, p_value, told)


def estimates(n: int, seed: int) -> Found:
    """PLN: 95% intervals of estimates of log p(rows), whose truth is an integral over one latent."""
    rng, p, hits = np.random.default_rng(seed), 4, []
    model = PLN(rank=1).fit(rng.poisson(np.exp(0.5 + rng.normal(size=(100, 1)) * rng.normal(size=p))))
    c, mean = model.fitted_.model.components[:, 0], model.fitted_.model.B[0]
    nodes, weights = np.polynomial.hermite_e.hermegauss(160)
    rates, weights = np.exp(mean + nodes[:, None] * c), np.log(weights / np.sqrt(2 * np.pi))
    for k in range(n):
        Y = rng.poisson(np.exp(mean + rng.normal(size=(10, 1)) * c))
        truth = special.logsumexp(weights + stats.poisson.logpmf(Y[:, None], rates).sum(axis=2), axis=1).mean()
        found = tallies.evaluate(model, Y, method="importance", n_draws=300, random_state=k)
        hits.append([abs(found.value - truth) < 1.96 * found.stderr])
    figures: dict[str, float] = {}
    return Found(
        figures,
        share_found(np.array(hits), figures, "PLN, log p of 10 rows", 0.93, 0.965),
        f"{n} tables, 300 draws a row; coverage of 95%",
    )


# intervals and errors


def coefficients(n: int, seed: int) -> Found:
    """PLN: 95% intervals of coefficients."""
    figures: dict[str, float] = {}
    p = []
    cases: list[tuple[str, dict[str, Any], int, int, int]] = [
        ("full, n=100, p=5", {}, 100, 5, 0),
        ("diagonal, n=100, p=5", {"covariance": "diagonal"}, 100, 5, -1),
        ("rank 2, n=100, p=6", {"rank": 2}, 100, 6, 2),
    ]
    for name, options, rows, columns, rank in cases:
        rng, hit = np.random.default_rng(seed), []
        C = rng.normal(size=(columns, rank or columns)) * 0.5 if rank >= 0 else np.diag(rng.uniform(0.4, 0.9, columns))
        C = np.linalg.cholesky(C @ C.T + 0.1 * np.eye(columns)) if rank == 0 else C
        B = np.vstack([rng.normal(1.0, 0.6, columns), rng.normal(0, 0.4, columns)])
        for _ in range(n):
            X = np.column_stack([np.ones(rows), rng.normal(size=rows)])
            Y = rng.poisson(np.exp(X @ B + rng.normal(size=(rows, C.shape[1])) @ C.T))
            table = PLN(**options).fit(Y, covariates=X).coefficient_table()
            hit.append((table["lower"] <= B.ravel()) & (B.ravel() <= table["upper"]))
        hit = np.array(hit)
        p.append(share_found(hit, figures, name, 0.94, 0.96))
        figures[f"{name}, worst of {2 * columns}"] = round(float(hit.mean(axis=0).min()), 4)
    return Found(figures, together(p), f"{n} tables each, an intercept and a slope a column; coverage, wanted .94 to .96")


def edges(n: int, seed: int) -> Found:
    """PLNNetwork: 95% intervals of edges and of pairs without one; p-values of differences between networks that are the same."""
    rng, p, hits, alarms = np.random.default_rng(seed), 6, [], []
    sign, (a, b) = np.array([1, 1, -1, 1, -1, -1]), np.triu_indices(p, 1)
    Omega = np.eye(p) - 0.35 * (np.eye(p, k=1) + np.eye(p, k=-1)) * np.outer(sign, sign)
    truth = -Omega[a, b]
    for _ in range(n):
        both = []
        for _ in range(2):
            X, effort = np.column_stack([np.ones(200), rng.normal(size=200)]), rng.normal(0, 0.5, 200)
            Z = X @ [[0.7], [0.3]] + effort[:, None] + rng.multivariate_normal(np.zeros(p), np.linalg.inv(Omega), 200)
            both.append(PLNNetwork(penalty=0.1, select=None).fit(rng.poisson(np.exp(Z)), covariates=X, offsets=effort))
        tables = [model.edge_table(every=True) for model in both]
        hits += [(table["lower"] <= truth) & (truth <= table["upper"]) for table in tables]
        alarms.append(both[0].difference(both[1])["p_value"] >= 0.05)
    figures: dict[str, float] = {}
    hit, there = np.array(hits), truth != 0
    p_values = [
        share_found(hit[:, there], figures, "edges", 0.93, 0.97),
        share_found(hit[:, ~there], figures, "others", 0.93, 0.97),
    ]
    p_values.append(share_found(np.array(alarms), figures, "no difference, p above .05", 0.93, 0.97))
    return Found(
        figures, together(p_values), f"{2 * n} tables of 200 rows, 6 columns in a chain; coverage of 95%, wanted .93 to .97"
    )


def network_errors(n: int, seed: int) -> Found:
    """FEM and FEMNetwork: bootstrap errors against the spread of estimates over data sets, and their 95% intervals."""
    rng, hits, means, network = np.random.default_rng(seed), [], [], []
    effect = np.array([[0.6, -0.6], [-0.4, 0.4]])  # of two binary columns on the log odds
    for _ in range(n):
        X = rng.integers(0, 2, (300, 2))
        h = 0.2 + effect[0][X[:, 0]] + effect[1][X[:, 1]]
        y = (rng.random(300) < 1 / (1 + np.exp(-2 * h))).astype(int)  # weights are of h and -h
        model = FEM(ridge=0.1).fit(X, y)
        draws = int(rng.integers(2**31))
        W, errors = (t.to_numpy()[:, 1] for t in (model.weights_, model.standard_errors(X, y, n_boot=60, random_state=draws)))
        hits.append(np.abs(W - np.array([0.2, *effect[0], *effect[1]]))[[0, 1, 3]] < 1.96 * errors[[0, 1, 3]])
        a = rng.integers(0, 2, 300)
        Z = np.column_stack([a, np.where(rng.random(300) < 0.7, a, 1 - a)])
        J = FEMNetwork(ridge=0.1).fit(Z)
        network.append((J.couplings_[0, 2], J.standard_errors(Z, n_boot=40, random_state=int(rng.integers(2**31)))[0, 2]))
        means.append((W, errors))
    figures: dict[str, float] = {}
    p = [share_found(np.array(hits), figures, "FEM, coverage of 95%", 0.93, 0.965)]
    W, errors = (np.array([pair[i] for pair in means]) for i in (0, 1))
    figures["FEM, mean error over spread"] = round(float((errors.mean(axis=0) / W.std(axis=0, ddof=1))[[0, 1, 3]].mean()), 3)
    found = np.array(network)
    truth = 0.5 * np.log(0.7 / 0.3)  # of two coins that agree with 0.7, in zero-sum gauge
    p.append(share_found(np.abs(found[:, :1] - truth) < 1.96 * found[:, 1:], figures, "FEMNetwork, coverage of 95%", 0.93, 0.965))
    return Found(figures, together(p), f"{n} tables of 300 rows, 60 and 40 bootstrap fits each, ridge 0.1")


def scores(n: int, seed: int) -> Found:
    """Held-out scores (LDA by tokens, GDA by rows) and paired differences: 95% intervals of what many rows would say."""
    rng, figures = np.random.default_rng(seed), {}
    phi, lengths = rng.dirichlet(np.full(20, 0.3), 3), np.arange(10, 60)

    def documents(m: int) -> sp.csr_array:
        theta = rng.dirichlet(np.full(3, 0.4), m)
        return sp.csr_array(np.array([rng.multinomial(rng.choice(lengths), row @ phi) for row in theta]))

    lda = LDA(n_topics=3, max_iter=60, burn_in=30, random_state=0).fit(documents(100))
    one = LDA(n_topics=2, max_iter=60, burn_in=30, random_state=0).fit(documents(100))
    long = documents(20_000)
    truth, other = (tallies.evaluate(model, long).value for model in (lda, one))
    hits, paired = [], []
    for k in range(n):
        new = documents(60)
        found = tallies.evaluate(lda, new, random_state=k)
        hits.append([abs(found.value - truth) < 1.96 * found.stderr])
        table = tallies.compare({"three": lda, "two": one}, new, random_state=k)
        row = table[table["difference"] != 0].iloc[0]
        gap = (other - truth) if row.name == "two" else (truth - other)
        paired.append([abs(row["difference"] - gap) < 1.96 * row["difference_stderr"]])
    p = [share_found(np.array(hits), figures, "LDA score of 60 documents", 0.92, 0.965)]
    p.append(share_found(np.array(paired), figures, "LDA paired difference", 0.92, 0.965))
    X, y = rng.normal(size=(200, 3)) + np.arange(200)[:, None] % 2, np.arange(200) % 2
    gda = GDA().fit(X, y)
    truth = gda.log_prob(rng.normal(size=(200_000, 3)) + np.arange(200_000)[:, None] % 2).mean()
    hits = []
    for _ in range(4 * n):
        found = tallies.evaluate(gda, rng.normal(size=(80, 3)) + np.arange(80)[:, None] % 2)
        hits.append([abs(found.value - truth) < 1.96 * found.stderr])
    p.append(share_found(np.array(hits), figures, "GDA score of 80 rows", 0.92, 0.965))
    shares, size = np.linspace(0.02, 0.98, 97), 40  # exactly, over all outcomes
    low, high = wilson(np.arange(size + 1), size)
    inside = (low <= shares[:, None]) & (shares[:, None] <= high)
    figures["Wilson, 40 rows, mean over shares"] = round(
        float((inside * stats.binom.pmf(np.arange(size + 1), size, shares[:, None])).sum(axis=1).mean()), 4
    )
    folds = []
    for _ in range(n):
        X, y = rng.normal(size=(100, 3)) + np.arange(100)[:, None] % 2, np.arange(100) % 2
        part = rng.permutation(100) % 5
        each = [GDA().fit(X[part != k], y[part != k]) for k in range(5)]
        found = np.array([each[k].log_prob(X[part == k]).mean() for k in range(5)])
        new = rng.normal(size=(4000, 3)) + np.arange(4000)[:, None] % 2
        truth = np.mean([fold.log_prob(new).mean() for fold in each])
        folds.append([abs(found.mean() - truth) < stats.t.ppf(0.975, 4) * found.std(ddof=1) / np.sqrt(5)])
    p.append(share_found(np.array(folds), figures, "mean of five folds, Student's t", 0.92, 0.965))
    return Found(figures, together(p), f"{n} held-out sets; coverage of 95%")


def probabilities(n: int, seed: int) -> Found:
    """FEM with a ridge by cross-validation, 600 rows: the slope of the truth on what is said, in log odds, and what it loses."""
    rng, slopes, gaps, excess = np.random.default_rng(seed), [], [], []

    def rows(m: int, W: np.ndarray, b: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        X = rng.integers(0, 3, (m, len(W)))
        p = 1 / (1 + np.exp(-b - sum(W[j][X[:, j]] for j in range(len(W)))))
        return X, (rng.random(m) < p).astype(int), p

    for _ in range(n):
        W, b = rng.normal(size=(6, 3)) * rng.uniform(0.2, 1.0), float(rng.normal(0, 0.5))
        X, y, _ = rows(600, W, b)
        model = FEM().fit(X, y)
        new, outcome, truth = rows(2000, W, b)
        p = np.clip(model.predict_proba(new)[:, 1], 1e-9, 1 - 1e-9)
        A, theta = np.column_stack([np.ones(len(p)), np.log(p / (1 - p))]), np.array([0.0, 1.0])
        for _ in range(20):  # Newton's method for logit(outcome) = a + slope h
            q = 1 / (1 + np.exp(-A @ theta))
            theta = theta + np.linalg.solve((A * (q * (1 - q))[:, None]).T @ A, A.T @ (outcome - q))
        slopes.append(theta[1])
        gaps.append(np.mean(p) - np.mean(truth))
        excess.append(np.mean(truth * np.log(truth / p) + (1 - truth) * np.log((1 - truth) / (1 - p))))
    mean, error = float(np.mean(slopes)), float(np.std(slopes, ddof=1) / np.sqrt(n))
    figures = {"slope, mean": mean, "slope, 5%": float(np.quantile(slopes, 0.05)), "slope, 95%": float(np.quantile(slopes, 0.95))}
    figures |= {"mean probability less the truth": float(np.mean(gaps)), "nats a row above the truth": float(np.mean(excess))}
    beyond = max(0.9 - mean, mean - 1.1, 0.0)
    told = f"{n} generated tables of 600 rows, 6 columns of 3 states; slope wanted .9 to 1.1"
    return Found({name: round(v, 4) for name, v in figures.items()}, float(2 * stats.norm.sf(beyond / error)), told)


STUDIES: dict[str, tuple[Callable[[int, int], Found], int]] = {  # and how many data sets of the whole campaign
    "lda": (lda, 500),
    "classes": (classes, 1000),
    "latents": (latents, 1000),
    "estimates": (estimates, 300),
    "coefficients": (coefficients, 300),
    "edges": (edges, 150),
    "networks": (network_errors, 200),
    "scores": (scores, 200),
    "probabilities": (probabilities, 100),
}


def study(name: str, n: int, seed: int) -> Found:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", DataWarning)
        return STUDIES[name][0](n, seed)


def main() -> int:
    parser = argparse.ArgumentParser(description="See whether posteriors, errors and intervals mean what they say.")
    parser.add_argument("--only", nargs="*", choices=list(STUDIES), default=list(STUDIES))
    parser.add_argument("--share", type=float, default=1.0, help="of the data sets of the whole campaign")
    parser.add_argument("--seed", type=int, default=0)
    words, bad = parser.parse_args(), 0
    for name in words.only:
        begun = time.monotonic()
        found = study(name, max(10, round(words.share * STUDIES[name][1])), words.seed)
        bad += not found.good
        verdict = "good" if found.good else "NOT CALIBRATED"
        print(f"{name}: {verdict} (p {found.p_value:.3g}, {time.monotonic() - begun:.0f} s). {found.told}")
        print(f"    {json.dumps(found.figures)}", flush=True)
    return bad


if __name__ == "__main__":
    sys.exit(main())
