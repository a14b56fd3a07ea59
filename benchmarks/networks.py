"""Networks of counts: graphical lassos, paths, stability, recovery of simulated graphs, and pyPLNmodels.

    python benchmarks/networks.py [--part lasso path wide stability recovery intervals rival] [--data FOLDER] [--draws 10] [--means 1 3] [--json FILE]

FOLDER holds oaks_Abundance.csv and oaks_Offset.csv as shipped with the R package PLNmodels. One thread.

lasso      seconds and gaps of our graphical lasso and of scikit-learn's, at the same penalties, cold: its own 100 sweeps, and the fewest
           after which it is within 1e-6 of our objective ("near")
path       20 penalties on oaks, and on 500 x 1,000 with a covariate: CPU seconds, most edges, peak memory
wide       a path of 20 penalties on 1,313 x 3,772, or another size (--wide ROWS COLUMNS), each stage as it begins; one penalty: --penalty; --joint
stability  50 subsamples on 300 x 100
recovery   area under precision-recall of five kinds of graphs (300 x 100, depth varies, a covariate): the order in which edges enter
           the path of (a) two steps, (j) the joint fit, (c) the lasso on centred log ratios; support_, which has the shares of
           subsamples in it, and these at the chosen penalty;
           and how many edges with a selection probability of 0.9 are right; with --theirs the best that pyPLNmodels' path has, too
intervals  how many 95% intervals of edges, and of other pairs, have the truth in them; how often two networks that are the same differ
rival      the bound of pyPLNmodels' PlnNetwork, evaluated exactly at the same penalty, beside ours: 500 x 300, or with
           --data the oaks, where its start is lent
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
import warnings
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from plnmodels import near, watched  # noqa: E402
from scipy.special import gammaln  # noqa: E402

import tallies  # noqa: E402
from tallies.counts.answers import correlation  # noqa: E402
from tallies.counts.network import lasso  # noqa: E402

GAP = 1e-6  # objectives of a graphical lasso within this share of another count as equal
SWEEPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 100)
KINDS = ("band", "cluster", "scale-free", "random", "hub")


def graph(kind: str, p: int, rng: np.random.Generator) -> np.ndarray:
    """Who is joined to whom (p, p)."""
    A = np.zeros((p, p))
    if kind == "band":
        A = np.eye(p, k=1) + np.eye(p, k=2)
    elif kind == "cluster":
        part = np.arange(p) // 20
        A = np.triu((part[:, None] == part) & (rng.random((p, p)) < 0.2), 1).astype(float)
    elif kind == "scale-free":
        degree = np.zeros(p)
        A[0, 1], degree[:2] = 1, 1
        for i in range(2, p):
            j = rng.choice(i, p=degree[:i] / degree[:i].sum())
            A[j, i] = 1
            degree[[i, j]] += 1
    elif kind == "random":
        A = np.triu(rng.random((p, p)) < 4 / (p - 1), 1).astype(float)
    else:
        for h in range(0, p, 20):
            A[h, h + 1 : h + 20] = 1
    return A + A.T


def precision(kind: str, p: int, rng: np.random.Generator) -> np.ndarray:
    """That of a graph, with signs at random."""
    A = graph(kind, p, rng)
    sign = np.triu(rng.choice([-1, 1], (p, p)), 1)
    Omega = 0.3 * A * (sign + sign.T)
    return Omega + np.eye(p) * (0.2 - np.linalg.eigvalsh(Omega)[0])


def draw(
    kind: str, n: int, p: int, mean: float, seed: int, method: Any = "svd"
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A graph, and counts from it: latent variances of 1, depth and a covariate."""
    rng = np.random.default_rng(seed)
    Omega = precision(kind, p, rng)
    A = (Omega != 0) - np.eye(p)
    X, O = np.column_stack([np.ones(n), rng.normal(size=n)]), rng.normal(0, 0.5, n)
    B = np.vstack([rng.normal(np.log(mean) - 0.5, 0.5, p), rng.normal(0, 0.3, p)])
    Z = O[:, None] + X @ B + rng.multivariate_normal(np.zeros(p), correlation(np.linalg.inv(Omega)), n, method=method)
    Y = rng.poisson(np.exp(np.minimum(Z, 12.0)))
    seen = Y.sum(axis=0) > 0
    return A[np.ix_(seen, seen)], Y[:, seen], X, O


def oaks(folder: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts, a column of ones, and offsets."""
    Y, depth = (pd.read_csv(Path(folder) / f"oaks_{name}.csv").to_numpy(float) for name in ("Abundance", "Offset"))
    return Y, np.ones((len(Y), 1)), np.log(depth)


def area(A: np.ndarray, score: np.ndarray) -> float:
    """Average precision of the pairs by falling score."""
    from sklearn.metrics import average_precision_score

    upper = np.triu_indices(len(A), 1)
    return float(average_precision_score(A[upper] > 0, score[upper]))


def entries(R: np.ndarray, penalties: Any = None) -> np.ndarray:
    """A score of each pair: how early it enters the path, and ties by its size at the end."""
    top = np.abs(R - np.diag(R.diagonal())).max()
    penalties = np.geomspace(top, 0.1 * top, 20) if penalties is None else penalties
    found = np.array([step.Theta for step in lasso.path(R, np.ones_like(R), penalties, 1e-7)])
    return order(found)


def order(found: np.ndarray) -> np.ndarray:
    there = found != 0
    return np.where(there.any(axis=0), len(found) - there.argmax(axis=0), 0) + 1e-3 * np.abs(found[-1]) / np.abs(found[-1]).max()


def cpu(run: Any) -> tuple[Any, float]:
    start = time.process_time()
    return run(), time.process_time() - start


def part_lasso(options: Any) -> list[dict[str, Any]]:
    from sklearn.covariance import graphical_lasso

    rows = []
    lasso.solve(np.eye(3) + 0.5, np.full((3, 3), 0.1))  # compiled
    graphical_lasso(np.eye(3) + 0.5, 0.1)
    for p in options.sizes:
        _, Y, *_ = draw("random", 500, p, 3.0, 0)
        R = np.corrcoef(np.log(Y + 1).T)
        for share in (0.02, 0.1):
            rho = float(np.quantile(np.abs(R[np.triu_indices(p, 1)]), 1 - share))
            found, seconds = cpu(lambda: lasso.solve(R, np.full(R.shape, rho), tol=1e-7))
            _, warm = cpu(lambda: lasso.solve(R, np.full(R.shape, 0.9 * rho), found.Theta, tol=1e-7))
            row = {
                "p": p,
                "edges": (np.count_nonzero(found.Theta) - p) / p / (p - 1),
                "seconds": seconds,
                "warm": warm,
                "gap/p": found.gap / p,
            }
            if p <= 300:
                for sweeps in SWEEPS:  # its own rule asks for a gap that it does not reach: 100 sweeps, of which few were needed
                    with warnings.catch_warnings(record=True) as told:
                        warnings.simplefilter("always")
                        (_, theirs), row["sklearn"] = cpu(lambda: graphical_lasso(R, rho, tol=1e-4, max_iter=sweeps))
                    off = rho * (np.abs(theirs).sum() - np.abs(theirs.diagonal()).sum())
                    above = -np.linalg.slogdet(theirs)[1] + np.vdot(R, theirs) + off - found.value
                    if "near" not in row and above <= GAP * abs(found.value):
                        row |= {"sweeps": sweeps, "near": row["sklearn"]}
                row |= {"sklearn above ours": above, "sklearn warns": bool(told)}
            rows.append(row)
            print(row, flush=True)
    return rows


def part_path(options: Any) -> list[dict[str, Any]]:
    """The time of a path is that of a fit by BIC, which needs all of it, less nothing."""
    rows, data = [], {}
    if options.data:
        data["oaks"] = oaks(options.data)
    if not options.small:
        _, Y, X, O = draw("random", 500, 1000, 3.0, 0)
        data["500 x 1,000"] = Y, X, O
    for name, (Y, X, O) in data.items():
        for joint in (True, False):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model, seconds = cpu(
                    lambda: tallies.PLNNetwork(joint=joint, select="bic", tol=options.tol).fit(Y, covariates=X, offsets=O)
                )
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            most = int(model.path_["edges"].max())
            rows.append(
                {
                    "data": name,
                    "joint": joint,
                    "seconds": seconds,
                    "most edges": most,
                    "share": most / (Y.shape[1] * (Y.shape[1] - 1) / 2),
                    "GB": peak,
                }
            )
            print(rows[-1], flush=True)
    return rows


def part_wide(options: Any) -> list[dict[str, Any]]:
    """What holds a wide path back: CPU seconds, minutes of the clock and memory when each stage begins."""
    n, p = options.wide
    _, Y, X, O = draw("random", n, p, 3.0, 0, "cholesky")
    rows: list[dict[str, Any]] = []
    start, clock = time.process_time(), time.monotonic()

    def told(name: str) -> None:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        rows.append({"at": name, "seconds": time.process_time() - start, "minutes": (time.monotonic() - clock) / 60, "GB": peak})
        print(rows[-1], flush=True)

    def look(stage: Any, state: Any) -> None:
        if not rows or rows[-1]["at"] != stage.name:
            told(stage.name)

    choice: dict[str, Any] = {"select": "bic"} if options.penalty is None else {"select": None, "penalty": options.penalty}
    warnings.simplefilter("ignore")
    model = tallies.PLNNetwork(**choice, joint=options.joint, tol=options.tol).fit(Y, covariates=X, offsets=O, callback=look)
    told("the end")
    print(model.path_.to_string(), flush=True)
    return rows


def part_stability(options: Any) -> list[dict[str, Any]]:
    _, Y, X, O = draw("random", 300, 100, 3.0, 0)
    tallies.PLNNetwork(n_subsamples=2, n_penalties=2).fit(Y, covariates=X, offsets=O)  # compiled
    model, seconds = cpu(lambda: tallies.PLNNetwork().fit(Y, covariates=X, offsets=O))
    row = {"seconds": seconds, "edges": len(model.edges_), "subsamples": model.fitted_.graph.subsamples}
    print(row, flush=True)
    return [row]


def part_recovery(options: Any) -> list[dict[str, Any]]:
    rows = []
    for mean in options.means:
        for kind in options.kinds:
            for seed in range(options.first, options.first + options.draws):
                A, Y, X, O = draw(kind, 300, 100, mean, seed)
                warnings.simplefilter("ignore")
                plain = tallies.PLN(tol=1e-9).fit(Y, covariates=X, offsets=O)
                model = tallies.PLNNetwork(n_subsamples=options.subsamples).fit(Y, covariates=X, offsets=O)
                logs = np.log(Y + 1.0)
                logs -= logs.mean(axis=1, keepdims=True)
                logs -= X @ np.linalg.lstsq(X, logs, rcond=None)[0]
                row = {"mean": mean, "graph": kind, "seed": seed, "two steps": area(A, entries(correlation(plain.covariance_)))}
                row["clr"] = area(A, entries(correlation(logs.T @ logs)))
                row["probability"] = area(A, model.selection_probability_ + 1e-3 * np.abs(model.partial_correlation_))
                row["support"] = area(A, model.support_)
                if options.joint:
                    row["joint"] = area(A, joint_entries(Y, X, O))
                if options.theirs:
                    row["theirs"], row["their seconds"] = cpu(lambda: max(area(A, score) for score in their_scores(Y, X, O)))
                names = {str(c): j for j, c in enumerate(model._columns())}
                sure = model.edges_[model.edges_["probability"] >= 0.9]
                row |= {
                    "sure": len(sure),
                    "right": sum(A[names[a], names[b]] > 0 for a, b in zip(sure["a"], sure["b"], strict=True)),
                }
                row |= {"edges": len(model.edges_), "true": int(A.sum() / 2)}
                rows.append(row)
                print(row, flush=True)
    table = pd.DataFrame(rows)
    means = table.groupby(["mean", "graph"]).mean(numeric_only=True).round(3)
    print(
        means.assign(
            precision=table.groupby(["mean", "graph"])["right"].sum() / table.groupby(["mean", "graph"])["sure"].sum()
        ).to_string()
    )
    return rows


def part_intervals(options: Any) -> list[dict[str, Any]]:
    rows, cases = (
        [],
        [(300, 10, 3.0, "band"), (300, 10, 1.0, "band"), (100, 10, 3.0, "band"), (300, 50, 3.0, "random"), (300, 50, 3.0, "hub")],
    )
    warnings.simplefilter("ignore")
    for n, p, mean, kind in cases:
        inside: dict[bool, list[bool]] = {True: [], False: []}
        length = []
        for seed in range(options.first, options.first + options.draws * (6 if p < 50 else 1)):
            _, Y, X, O = draw(kind, n, p, mean, seed)
            if Y.shape[1] < p:  # a column was never seen
                continue
            truth = -correlation(precision(kind, p, np.random.default_rng(seed)))[np.triu_indices(p, 1)]
            table = tallies.PLNNetwork(penalty=0.3, select=None).fit(Y, covariates=X, offsets=O).edge_table(every=True)
            known = table["lower"].notna().to_numpy()
            hit = ((table["lower"] <= truth) & (truth <= table["upper"])).to_numpy()
            for edge in (True, False):
                inside[edge] += hit[known & ((truth != 0) == edge)].tolist()
            length.append(float((table["upper"] - table["lower"]).mean()))
        row = {"n": n, "p": p, "mean": mean, "graph": kind, "edges": np.mean(inside[True]), "others": np.mean(inside[False])}
        rows.append(row | {"of": [len(part) for part in inside.values()], "length": float(np.mean(length))})
        print(rows[-1], flush=True)
    return rows


def joint_entries(Y: Any, X: Any, O: Any) -> np.ndarray:
    """The order in which pairs enter the path of the joint fit."""
    top = tallies.PLNNetwork(joint=True, select="bic", n_penalties=2).fit(Y, covariates=X, offsets=O).path_["penalty"][0]
    found = [
        tallies.PLNNetwork(joint=True, select=None, penalty=float(rho), tol=1e-8).fit(Y, covariates=X, offsets=O).precision_
        for rho in np.geomspace(top, 0.1 * top, 20)
    ]
    return order(np.array([correlation(Omega) for Omega in found]))


def their_scores(Y: Any, X: Any, O: Any) -> list[np.ndarray]:
    """Of pyPLNmodels' collection of networks, of ten penalties, 400 iterations each, from where the one before ended: the order in
    which pairs enter, and since rounding has them enter early the partial correlations at each penalty, of which the best may count."""
    import contextlib
    import io

    import torch
    from pyPLNmodels import PlnNetworkCollection

    torch.set_num_threads(1)
    penalties = [float(rho * len(Y) / 2) for rho in np.geomspace(1.0, 0.05, 10)]  # n/2 times those of the lasso inside
    offsets = np.array(np.broadcast_to(O[:, None], Y.shape))
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        found = PlnNetworkCollection(Y, exog=X[:, 1:], offsets=offsets, penalties=penalties)
        found.fit()
    Omegas = [np.asarray(found[penalty].precision, float) for penalty in penalties]
    partial = [np.where(np.abs(Omega) > 1e-5, correlation(Omega), 0.0) for Omega in Omegas]  # below it they say 0
    return [order(np.array(partial)), *np.abs(partial)]


def part_rival(options: Any) -> list[dict[str, Any]]:
    import torch
    from pyPLNmodels import PlnNetwork

    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    if options.data:
        name, Y, X, O = "oaks", *oaks(options.data)
    else:
        _, Y, X, O = draw("random", *((100, 60) if options.small else (500, 300)), 3.0, 0)
        name, O = " x ".join(map(str, Y.shape)), np.array(np.broadcast_to(O[:, None], Y.shape))
    n = len(Y)
    tallies.PLNNetwork(joint=True, scale="raw", select=None, penalty=0.1).fit(Y[:, :50])  # compiled
    PlnNetwork(Y[:, :20], penalty=4.0).fit(maxiter=5)
    for penalty in (12.0, 4.0):
        curve: list[tuple[float, float]] = []
        start = time.process_time()
        model = tallies.PLNNetwork(joint=True, scale="raw", select=None, penalty=2 * penalty / n)
        ours, seconds = cpu(
            lambda: model.fit(
                Y,
                covariates=X,
                offsets=O,
                callback=lambda stage, state: curve.append((time.process_time() - start, state.objective[-1])),
            )
        )
        value = ours.elbo_ - penalty * (np.abs(ours.precision_).sum() - ours.precision_.diagonal().sum())
        theirs = PlnNetwork(Y, exog=X[:, 1:] if X.shape[1] > 1 else None, offsets=O, penalty=penalty)
        if options.data:
            lend_start(theirs, Y, O)
        with watched() as path:
            _, long = cpu(lambda: theirs.fit(verbose=False) if "verbose" in PlnNetwork.fit.__code__.co_varnames else theirs.fit())
        M, S = (np.asarray(getattr(theirs, name), float) for name in ("latent_mean", "latent_sqrt_variance"))
        Omega, S2 = np.asarray(theirs.precision, float), S**2
        R = M - X @ np.linalg.lstsq(X, M, rcond=None)[0]
        Shat = (R.T @ R + np.diag(S2.sum(axis=0))) / n
        bound = float((Y * (O + M) - np.exp(O + M + S2 / 2) - gammaln(Y + 1) + (np.log(S2) + 1) / 2).sum())
        bound += 0.5 * n * (np.linalg.slogdet(Omega)[1] - np.vdot(Shat, Omega)) - penalty * (
            np.abs(Omega).sum() - np.abs(Omega.diagonal()).sum()
        )
        past = next((at for at, reached in curve if reached >= bound), None)
        rows.append({"data": name, "penalty": penalty, "ours": value, "seconds": seconds, "past theirs": past})
        rows[-1] |= {
            "theirs": bound,
            "their seconds": long,
            "near": near([*curve, (seconds, value)], bound),
            "their near": near(path),
        }
        print(rows[-1], flush=True)
    return rows


def lend_start(network: Any, Y: np.ndarray, O: np.ndarray) -> None:
    """From its own start pyPLNmodels' network ends in a bound that is not finite on the oaks: have it begin where 60 iterations of its
    plain PLN end, whose time is not counted."""
    import torch
    from pyPLNmodels import Pln

    first = Pln(Y, offsets=O)
    first.fit(maxiter=60, verbose=False)
    network._latent_mean, network._latent_sqrt_variance = first.latent_mean.clone(), first.latent_sqrt_variance.clone()
    values, axes = torch.linalg.eigh(torch.as_tensor(np.asarray(first.precision)))
    network._components_prec = axes @ torch.diag(values.sqrt()) @ axes.T  # of the roots tried the one from which it ends highest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="+", default=["lasso", "path", "stability", "recovery"])
    parser.add_argument("--data")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--means", type=float, nargs="+", default=[1.0, 3.0])
    parser.add_argument("--kinds", nargs="+", default=list(KINDS))
    parser.add_argument("--subsamples", type=int, default=50)
    parser.add_argument("--tol", type=float, default=1e-9)
    parser.add_argument(
        "--joint", action="store_true", help="of the part wide: jointly; of recovery: the joint path as well, which takes 20 fits"
    )
    parser.add_argument("--theirs", action="store_true", help="the path of pyPLNmodels as well")
    parser.add_argument("--wide", type=int, nargs=2, default=[1313, 3772], metavar=("ROWS", "COLUMNS"))
    parser.add_argument("--penalty", type=float, help="of the part wide: one alone")
    parser.add_argument("--small", action="store_true", help="leave out 500 x 1,000; the rival on 100 x 60")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 300, 1000], help="columns of the graphical lasso")
    parser.add_argument("--json")
    options = parser.parse_args()
    with tallies.backend("threads", workers=1):
        found = {part: getattr(sys.modules[__name__], f"part_{part}")(options) for part in options.part}
    if options.json:
        Path(options.json).write_text(json.dumps(found, default=float))


if __name__ == "__main__":
    main()
