"""The rest of the PLN family: discriminants beside logistic regression, and both beside pyPLNmodels.

    python benchmarks/pln_family.py [--part discriminant misfit lda mixture zeros] [--seeds 5] [--first 0]

discriminant  log loss in four folds of labelled counts (depth varies), beside multinomial logistic regression on log counts
misfit        the same of counts that are not of its model: negative binomial, multinomial, with zeros put in
lda           CPU seconds of a fit, and its exact bound, beside PlnLDA (pip install pyPLNmodels torch "setuptools<81")
mixture       CPU seconds of a fit with diagonal covariances, and its bound, beside PlnMixture: the parameters of both scored by placing
              the samples under each component, exactly; 500 x 50 and 1,000 x 100, four clusters
zeros         a PLN with shares of structural zeros for each column, beside ZIPln: CPU seconds, the bound of the parameters of both (by
              one scorer), the error of the shares, and the Brier score of which zeros are structural; 500 x 30 and 1,000 x 60

One thread, CPU seconds.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402
from plnmodels import Curve, near, reach, watched  # noqa: E402
from scipy.special import gammaln  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.metrics import log_loss  # noqa: E402
from sklearn.model_selection import StratifiedKFold  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402

import tallies  # noqa: E402


def labelled(seed: int, n: int, p: int, K: int = 3, apart: float = 0.5, mean: float = 1.0) -> tuple[np.ndarray, ...]:
    """Counts, classes and log depths."""
    rng = np.random.default_rng(seed)
    L = rng.normal(size=(p, p)) / np.sqrt(p)
    mu, y, depth = rng.normal(mean, 1, p) + apart * rng.normal(size=(K, p)), rng.integers(0, K, n), rng.normal(0, 0.5, n)
    Z = mu[y] + rng.multivariate_normal(np.zeros(p), 0.5 * L @ L.T + 0.3 * np.eye(p), n) + depth[:, None]
    return rng.poisson(np.exp(Z)), y, depth


def cpu(run: Any) -> tuple[Any, float]:
    start = time.process_time()
    found = run()
    return found, time.process_time() - start


def looking(curve: Curve, start: float, name: str | None = None) -> Any:
    """A callback that writes down the bound of the stages of this name, or of all."""

    def look(stage: Any, state: Any) -> None:
        if name in (None, stage.name):
            curve.append((time.process_time() - start, state.objective[-1]))

    return look


def beside(case: str, mine: Curve, theirs: Curve, long: float, other: float) -> dict[str, Any]:
    """A row of results: the seconds of both to their ends and the bounds there, and those to near the bound of theirs."""
    seconds, ours = mine[-1]
    told = {"case": case, "ours": seconds, "theirs": long, "bounds": (ours, other)}
    return {**told, "near": (near(mine, other), near(theirs))}


def bound(Y: Any, O: Any, X: Any, M: Any, S2: Any) -> float:
    """The exact bound of a PLN whose rows are there, at the B and Sigma that are best for them."""
    R = M - X @ np.linalg.lstsq(X, M, rcond=None)[0]
    Sigma = (R.T @ R + np.diag(S2.sum(axis=0))) / len(Y)
    fit = float((Y * (O + M) - np.exp(O + M + S2 / 2) - gammaln(Y + 1) + 0.5 * np.log(S2)).sum())
    return fit - 0.5 * len(Y) * float(np.linalg.slogdet(Sigma)[1])


def unlike(kind: str, seed: int, n: int, p: int, K: int = 3, apart: float = 0.4) -> tuple[np.ndarray, ...]:
    """Counts, classes and log depths, whose columns vary independently given the class, and not as a log-normal does."""
    rng = np.random.default_rng([seed, 7])
    mu, y, depth = rng.normal(0.5, 1, p) + apart * rng.normal(size=(K, p)), rng.integers(0, K, n), rng.normal(0, 0.5, n)
    rate = np.exp(mu[y] + depth[:, None])
    if kind.startswith("multinomial"):
        total = rng.poisson(rate.sum(axis=1))
        Y = np.array([rng.multinomial(m, row / row.sum()) for m, row in zip(total, rate, strict=True)])
    else:
        Y = rng.poisson(rate * rng.gamma(1.0, 1.0, rate.shape))  # size 1: variance mu + mu^2
    return np.where(rng.random(Y.shape) < (0.3 if kind.endswith("zeros") else 0.0), 0, Y), y, depth


def losses_of(Y: np.ndarray, y: np.ndarray, depth: np.ndarray) -> list[float]:
    """Log loss in four folds: ours, logistic regression on log counts, and on these less the depths."""
    proba = np.zeros((3, len(Y), 3))
    for train, test in StratifiedKFold(4, shuffle=True, random_state=0).split(Y, y):
        model = tallies.PLNDiscriminant().fit(Y[train], y[train], offsets=depth[train])
        proba[0, test] = model.predict_proba(Y[test], offsets=depth[test])
        for k, X in enumerate((np.log1p(Y), np.log1p(Y) - depth[:, None]), 1):
            logistic = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)).fit(X[train], y[train])
            proba[k, test] = logistic.predict_proba(X[test])
    return [float(log_loss(y, found)) for found in proba]


def part_misfit(options: Any) -> list[dict[str, Any]]:
    rows = []
    for kind in ("negative binomial", "negative binomial, zeros", "multinomial", "multinomial, zeros"):
        for n, p in ((300, 30), (100, 30), (600, 60)):
            losses = np.array([losses_of(*unlike(kind, seed, n, p)) for seed in range(options.seeds)])
            below = int((losses[:, 0] <= losses[:, 1:].min(axis=1)).sum())
            told = "ours {:.3f}, logistic {:.3f}, less the depths {:.3f}".format(*losses.mean(axis=0))
            print(f"{kind}, {n} x {p}: {told}; below both in {below} of {len(losses)}", flush=True)
            rows += [{"case": f"{kind}, {n} x {p}", "ours": a, "theirs": min(b)} for a, *b in losses]
    return rows


def part_discriminant(options: Any) -> list[dict[str, Any]]:
    cases = (
        (300, 30, 0.5, 1.0),
        (100, 30, 0.5, 1.0),
        (100, 60, 0.5, 1.0),
        (300, 30, 0.5, -1.0),
        (200, 100, 0.3, 0.0),
        (600, 20, 0.3, 1.0),
    )
    rows = []
    for n, p, apart, mean in cases[:1] if options.small else cases:
        losses = []
        for seed in range(options.seeds):
            Y, y, depth = labelled(seed, n, p, apart=apart, mean=mean)
            losses.append(losses_of(Y, y, depth))
        below = int(np.sum(np.array(losses)[:, 0] <= np.array(losses)[:, 1:].min(axis=1)))
        ours, raw, scaled = np.mean(losses, axis=0)
        told = f"ours {ours:.3f}, logistic {raw:.3f}, less the depths {scaled:.3f}"
        print(f"{n} x {p}, means {apart:g} apart, mean log {mean:g}: {told}; below both in {below} of {len(losses)}", flush=True)
        rows += [{"case": f"{n} x {p}, means {apart:g} apart, mean log {mean:g}", "ours": a, "theirs": min(b)} for a, *b in losses]
    return rows


def part_lda(options: Any) -> list[dict[str, Any]]:
    import torch
    from pyPLNmodels import PlnLDA

    torch.set_num_threads(1)
    Y, y, _ = labelled(9, 300, 40)
    tallies.PLNDiscriminant().fit(Y, y)  # compiled
    PlnLDA(Y, clusters=y).fit(maxiter=5, verbose=False)
    rows = []
    for n, p in ((300, 30), (1000, 100))[: 1 if options.small else 2]:
        Y, y, depth = labelled(0, n, p)
        O, X = np.repeat(depth[:, None], p, axis=1), np.eye(3)[y]
        mine: Curve = []
        start = time.process_time()
        ours = tallies.PLNDiscriminant().fit(Y, y, offsets=depth, callback=looking(mine, start))
        seconds = time.process_time() - start
        theirs = PlnLDA(Y, clusters=y, offsets=O, add_const=False)
        with watched() as curve:
            _, long = cpu(lambda theirs=theirs: theirs.fit(verbose=False))
        M, S = (np.asarray(getattr(theirs, name), float) for name in ("latent_mean", "latent_sqrt_variance"))
        other = bound(Y, O, X, M, S**2)
        print(f"{n} x {p}: ours {ours.elbo_:.2f} in {seconds:.2f} s, PlnLDA {other:.2f} in {long:.2f} s", flush=True)
        rows.append(beside(f"{n} x {p}", [*mine, (seconds, ours.elbo_)], curve, long, other))
    return rows


def score(Y: Any, O: Any, share: Any, means: Any, variances: Any) -> float:
    """The exact bound of a mixture with these parameters: one scorer for both."""
    from tallies.counts.door import Rows
    from tallies.counts.fitted import Learned
    from tallies.counts.plan import project

    rows, J = Rows(Y.astype(float), O, np.ones((len(Y), 1)), np.ones(len(Y))), []
    for pi, mean, variance in zip(share, means, variances, strict=True):
        model = Learned(None, "variational", "diagonal", np.asarray(mean)[None], np.diag(variance), None, None)
        found = project(model, rows, None, close=True).bound
        assert found is not None
        J.append(np.log(pi) + found)
    return float(np.logaddexp.reduce(J, axis=0).sum())


def part_mixture(options: Any) -> list[dict[str, Any]]:
    import torch
    from pyPLNmodels import PlnMixture

    torch.set_num_threads(1)
    tallies.PLNMixture(n_components=2).fit(labelled(9, 300, 40)[0])  # compiled
    PlnMixture(labelled(9, 300, 40)[0], n_cluster=2).fit(maxiter=5, verbose=False)
    rows = []
    for n, p in ((500, 50), (1000, 100))[: 1 if options.small else 2]:
        for seed in range(options.first, options.first + min(options.seeds, 3)):
            Y, _, depth = labelled(seed, n, p, K=4, apart=0.5)
            O, start = np.repeat(depth[:, None], p, axis=1), time.process_time()
            mine: Curve = []
            model = tallies.PLNMixture(n_components=4).fit(Y, offsets=depth, callback=looking(mine, start, "4 components"))
            seconds = time.process_time() - start
            theirs = PlnMixture(Y, offsets=O, n_cluster=4, add_const=False)
            with watched() as curve:
                _, long = cpu(lambda theirs=theirs: theirs.fit(verbose=False))
            variances = np.diagonal(model.covariances_, axis1=1, axis2=2)
            ours = score(Y, O, model.shares_, model.means_, variances)
            other = score(Y, O, *(np.asarray(getattr(theirs, name), float) for name in ("weights", "cluster_bias", "covariances")))
            told = f"ours {ours:.2f} in {seconds:.2f} s (past theirs after {reach(mine, other):.2f}), PlnMixture {other:.2f} in {long:.2f} s"
            print(f"{n} x {p}, seed {seed}: {told}", flush=True)
            rows.append(beside(f"{n} x {p}", [*mine, (seconds, ours)], curve, long, other))
    return rows


def part_zeros(options: Any) -> list[dict[str, Any]]:
    import torch
    from pyPLNmodels import ZIPln

    from tallies.counts.door import Rows
    from tallies.counts.fitted import Learned
    from tallies.counts.plan import project

    torch.set_num_threads(1)
    tallies.PLN(zero_inflation="column").fit(labelled(9, 300, 40)[0])  # compiled
    ZIPln(labelled(9, 300, 40)[0]).fit(maxiter=5, verbose=False)
    rows = []
    for n, p in ((500, 30), (1000, 60))[: 1 if options.small else 2]:
        for seed in range(options.first, options.first + min(options.seeds, 2)):
            Y, _, depth = labelled(seed, n, p, K=1, apart=0.0, mean=1.5)
            rng = np.random.default_rng([seed, 1])
            pi = rng.uniform(0.05, 0.5, p)
            W = rng.random(Y.shape) < pi
            Y, O = np.where(W, 0, Y), np.repeat(depth[:, None], p, axis=1)
            keep = (Y > 0).any(axis=1)  # theirs refuses rows without counts
            Y, O, W, X = Y[keep], O[keep], W[keep], np.ones((keep.sum(), 1))
            mine: Curve = []
            start = time.process_time()
            ours = tallies.PLN(zero_inflation="column").fit(Y, offsets=O, callback=looking(mine, start, "zero inflation"))
            seconds = time.process_time() - start
            theirs = ZIPln(Y, exog=X, exog_inflation=X, offsets=O, add_const=False, add_const_inflation=False)
            with watched() as curve:
                _, long = cpu(lambda theirs=theirs: theirs.fit(verbose=False))
            get = lambda name, theirs=theirs: np.asarray(getattr(theirs, name).detach().cpu(), float)  # noqa: E731
            share = np.clip(1 / (1 + np.exp(-get("coef_inflation")[0])), 1e-9, 1 - 1e-9)
            other = Learned(None, "variational", "full", get("coef"), get("covariance"), None, None, "column", share)
            found = project(other, Rows(Y.astype(float), O, X, np.ones(len(Y))), None, close=True).bound
            assert found is not None
            value = float(found.sum())
            zero = Y == 0
            told = [
                f"ours {ours.elbo_:.1f} in {seconds:.2f} s (past theirs after {reach(mine, value):.2f}), ZIPln {value:.1f} in {long:.2f} s"
            ]
            for name, shares, rho in (("ours", ours.inflation_, ours.zero_probability_), ("ZIPln", share, get("latent_prob"))):
                brier = float(np.mean((rho[zero] - W[zero]) ** 2))
                told.append(f"{name}: error of shares {np.abs(shares - pi).mean():.3f}, Brier {brier:.3f}")
            blind = float(W[zero].mean() * (1 - W[zero].mean()))
            print(f"{len(Y)} x {p}, seed {seed}: {'; '.join(told)}; {blind:.3f} without looking", flush=True)
            rows.append(beside(f"{n} x {p}", [*mine, (seconds, ours.elbo_)], curve, long, value))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="+", default=["discriminant"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="first seed of mixture and zeros")
    parser.add_argument("--small", action="store_true", help="the first case of each part alone")
    options = parser.parse_args()
    for part in options.part:
        globals()[f"part_{part}"](options)


if __name__ == "__main__":
    main()
