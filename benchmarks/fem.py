"""FEM beside scikit-learn, XGBoost and the seed's own iteration: same data, same run.

    python benchmarks/fem.py speed                            made data: CPU seconds on one thread, wall seconds on two
    python benchmarks/fem.py single                           one output, 36 binary variables, degree 2
    python benchmarks/fem.py screen                           1,000 variables x 5,000 rows
    python benchmarks/fem.py recover                          couplings of simulated Potts models against the inferred ones
    python benchmarks/fem.py search [names] [--seeds 3]       degree and ridge by cross-validation on nearly certain tables, held-out loss
    python benchmarks/fem.py splice FOLDER                    splice.dat, degrees 2 and 3
    python benchmarks/fem.py nested FOLDER [names]            nested cross-validation, nothing chosen by hand

FOLDER holds the UCI tables car.tab, monks-1.tab, monks-2.tab, nursery.data, splice.dat, house-votes-84.data.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse as sp
from fem_tables import binary, categories, wide
from threadpoolctl import threadpool_limits

import tallies
from tallies import FEM, FEMNetwork
from tallies.categories.kernels import fem as kernels
from tallies.categories.terms import features, groups_of, make_terms, zero_sum

GAP = 1e-6  # penalised objectives within this share of the best count as equal
TABS = {"car": "car.tab", "monks-1": "monks-1.tab", "monks-2": "monks-2.tab"}


def cpu(task):
    """Result and CPU seconds, on one thread."""
    with threadpool_limits(1), tallies.backend("threads", workers=1):
        start = time.process_time()
        result = task()
        return result, time.process_time() - start


def wall(task):
    with tallies.backend("threads", workers=2):
        start = time.perf_counter()
        task()
        return time.perf_counter() - start


def simulated(W, n, m, l, rng, synchronous, even=False):
    """l + 1 states of n variables of m states under couplings W, and W in zero-sum gauge; `even`: under the latter, without fields."""
    terms, starts = make_terms(np.full(n, m), groups_of(n, [1])), np.arange(0, n * m + 1, m)
    X, truth = np.empty((l + 1, n), dtype=np.int32), zero_sum(terms, W, starts)[2]
    kernels.advance(
        np.zeros(n, np.int32),
        truth if even else W,
        terms.variables,
        terms.strides,
        terms.offset,
        starts,
        rng.random((l + 1, n)),
        synchronous,
        X,
    )
    return X, truth


def kinetic(n, m, l, sd=None, seed=0, even=False, density=1.0):
    """A series from random couplings of size 1/sqrt(n), or `sd`, of a share `density` of the pairs, and the couplings."""
    rng = np.random.default_rng(seed)
    W = rng.normal(0, sd or 1 / np.sqrt(n), (n * m, n * m))
    if density < 1:
        W *= np.kron(rng.random((n, n)) < density, np.ones((m, m)))
    return simulated(W, n, m, l, rng, True, even)


def potts(n, m, l, sd, seed=0, even=False, density=1.0, apart=20):
    """States in equilibrium, `apart` Gibbs sweeps between them, of symmetric random couplings, and the couplings."""
    rng = np.random.default_rng(seed)
    W = np.triu(rng.normal(0, sd, (n * m, n * m)))
    W = (W + W.T) * others(n, m)
    if density < 1:
        coupled = np.triu(rng.random((n, n)) < density, 1)
        W *= np.kron(coupled | coupled.T, np.ones((m, m)))
    X, truth = simulated(W, n, m, l * apart, rng, False, even)
    return X[apart::apart], truth


def others(n, m):
    """(n m, n m)  where the couplings of different variables stand."""
    return ~np.kron(np.eye(n, dtype=bool), np.ones((m, m), dtype=bool))


def one_hot(ids, p):
    l, C = ids.shape
    return sp.csr_matrix((np.ones(l * C), ids.ravel(), np.arange(0, l * C + 1, C)), shape=(l, p))


def objective(A, W, Y, m, ridge):
    """Penalised log likelihood of all outputs; A sparse features, W (p, n m), Y (l, n) states."""
    H = (A @ W).reshape(len(Y), -1, m)
    chosen = np.take_along_axis(H, Y[:, :, None], axis=2)[:, :, 0]
    return float((chosen - np.logaddexp.reduce(H, axis=2)).sum() - 0.5 * ridge * (W**2).sum())


def scikit_learn(A, Y, m, ridge, tol):
    """One LogisticRegression an output; two classes: scikit-learn penalises the difference of our two columns."""
    from sklearn.linear_model import LogisticRegression

    W = []
    for y in Y.T:
        fitted = LogisticRegression(C=(2 if m == 2 else 1) / ridge, fit_intercept=False, tol=tol, max_iter=5000).fit(A, y)
        W.append(np.vstack([-fitted.coef_ / 2, fitted.coef_ / 2]) if m == 2 else fitted.coef_)
    return np.vstack(W).T


def seeds_iteration(A, Y, m, best, limit=2000):
    """The seed's iteration as its text has it, dense: W <- W + (Sigma_y - P) Sigma_x^+, until within GAP of the maximum."""
    X = A.toarray().T
    inverse = np.linalg.pinv(X, rcond=1e-8)
    S = np.vstack([(Y[:, j] == s) for j in range(Y.shape[1]) for s in range(m)]).astype(float)
    W = np.zeros((len(S), len(X)))
    for t in range(limit):  # noqa: B007
        H = (W @ X).reshape(Y.shape[1], m, -1)
        total = np.logaddexp.reduce(H, axis=1, keepdims=True)
        value = float((S * (H - total).reshape(len(S), -1)).sum())
        if value >= best - GAP * abs(best):
            break
        W = W + (S - np.exp(H - total).reshape(len(S), -1)) @ inverse
    return W.T, t


def loosest(fit, value, best, tolerances):
    """The fastest setting of a rival whose objective is equal to the best within GAP."""
    for tol in tolerances:
        W, seconds = cpu(lambda tol=tol: fit(tol))
        gap = (best - value(W)) / abs(best)
        if gap <= GAP:
            break
    return tol, seconds, gap


def speed(args):
    """Rows of n, m, and CPU seconds of ours, of scikit-learn and of the seed's iteration."""
    rows = []
    print(
        f"{'case':22}{'ours cpu':>10}{'seed':>9}{'ratio':>7}{'sklearn':>9}{'ratio':>7}{'ours wall':>11}{'sklearn wall':>13}   rmse, corr with truth"
    )
    for n, m in [case for case in ((50, 2), (20, 5), (30, 10)) if case[0] in (args.variables or (50, 20, 30))]:
        X, truth = kinetic(n, m, args.rows)
        ridge = 1.0
        terms = make_terms(np.full(n, m), groups_of(n, [1]))
        A, Y = one_hot(features(terms, X[:-1]), terms.p), X[1:].astype(np.int64)

        def value(W, A=A, Y=Y, m=m, ridge=ridge):
            return objective(A, W, Y, m, ridge)

        FEMNetwork(ridge=ridge, lag=1).fit(X[:100])  # compile
        best = value(FEMNetwork(ridge=ridge, lag=1, tol=1e-13).fit(X).fitted_.W)
        bare = value(FEMNetwork(ridge=0.0, lag=1, tol=1e-13).fit(X).fitted_.W, ridge=0.0)
        model, ours = cpu(lambda X=X: FEMNetwork(ridge=ridge, lag=1, tol=1e-6).fit(X))
        assert best - value(model.fitted_.W) <= GAP * abs(best)
        tol, theirs, gap = loosest(
            lambda tol, A=A, Y=Y, m=m: scikit_learn(A, Y, m, ridge, tol), value, best, (1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 1e-6)
        )
        (_, t), seed = cpu(lambda A=A, Y=Y, m=m, bare=bare: seeds_iteration(A, Y, m, bare))
        two = wall(lambda X=X: FEMNetwork(ridge=ridge, lag=1, tol=1e-6).fit(X))
        start = time.perf_counter()
        scikit_learn(A, Y, m, ridge, tol)
        other = time.perf_counter() - start
        J = model.couplings_
        print(
            f"n={n} m={m} l={args.rows:<8}{ours:10.3f}{seed:9.2f}{seed / ours:7.1f}{theirs:9.2f}{theirs / ours:7.1f}{two:11.3f}{other:13.2f}   "
            f"{np.sqrt(np.mean((J - truth) ** 2)):.4f}, {np.corrcoef(J.ravel(), truth.ravel())[0, 1]:.4f}   (sklearn tol {tol:g}, gap {gap:.1e}; seed {t} steps)"
        )
        rows.append({"case": f"{n} variables of {m} states, {args.rows:,} steps", "ours": ours, "theirs": theirs, "seed": seed})
    return rows


def single(args):
    """36 binary variables, degree 2, one output of two classes."""
    from sklearn.linear_model import LogisticRegression

    rng, rows = np.random.default_rng(0), []
    X = rng.integers(0, 2, (args.rows, 36))
    terms = make_terms(np.full(36, 2), groups_of(36, [1, 2]))
    A = one_hot(features(terms, X.astype(np.int32)), terms.p)
    y = (rng.normal(0, 1, terms.p)[features(terms, X.astype(np.int32))].sum(axis=1) / 6 + rng.logistic(size=args.rows) > 0).astype(
        int
    )
    for ridge in (10.0, 1.0, 0.1):
        FEM(degree=2, ridge=ridge).fit(X[:200], y[:200])
        best = FEM(degree=2, ridge=ridge, tol=1e-12).fit(X, y).history_[-1]
        models = {}

        def mine(tol, ridge=ridge, models=models):
            models[tol] = FEM(degree=2, ridge=ridge, tol=tol).fit(X, y)
            return models[tol]

        our_tol, ours, our_gap = loosest(mine, lambda model: model.history_[-1], best, (1e-6, 1e-7, 1e-8))
        assert our_gap <= GAP
        model = models[our_tol]

        def fit(tol, ridge=ridge):
            return LogisticRegression(C=2 / ridge, fit_intercept=False, tol=tol, max_iter=5000).fit(A, y).coef_

        def value(w, ridge=ridge):
            return objective(A, np.vstack([-w / 2, w / 2]).T, y[:, None], 2, ridge)

        tol, theirs, gap = loosest(fit, value, best, (1e-2, 1e-3, 1e-4, 1e-5, 1e-6))
        print(
            f"ridge {ridge:5g}: ours {ours:.3f} s ({model.solver_}, {model.n_iter_} sweeps, gap {our_gap:.0e}), scikit-learn {theirs:.3f} s (tol {tol:g}, gap {gap:.0e}): {theirs / ours:.2f}x"
        )
        rows.append({"case": f"ridge {ridge:g}", "ours": ours, "theirs": theirs})
    return rows


def screen(args):
    from tallies.backends import place
    from tallies.categories.model import Rows
    from tallies.categories.scores import strongest_pairs
    from tallies.categories.screen import pair_scores
    from tallies.engine import Runner

    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (5000, 1000)).astype(np.int32)
    y = (X[:, 100] == 0) ^ (X[:, 700] == 0) ^ (rng.random(5000) < 0.2)
    Y = np.eye(2)[y.astype(int)]

    def search(n, columns):
        def plan():
            return (yield from pair_scores(Rows(X[:n, :columns], Y[:n], np.ones((n, 1))), (3,) * columns, 1.0, None))

        return strongest_pairs(Runner(place).run(plan()).value.scores, 10).tolist()

    search(100, 10)
    pairs, seconds = cpu(lambda: search(5000, 1000))
    rank = pairs.index([100, 700]) + 1 if [100, 700] in pairs else ">10"
    print(
        f"499,500 pairs: {seconds:.2f} CPU s, {wall(lambda: search(5000, 1000)):.2f} wall s; planted pair (100, 700) ranked {rank}"
    )


def recover(args):
    """Couplings in zero-sum gauge against those that made the data: the seed's solution and ours on the same draws."""
    rows = []
    for lag, n, m, l in ((0, 20, 4, args.rows // 2), (1, 30, 10, args.rows)):
        make, where = (kinetic, np.ones((n * m, n * m), dtype=bool)) if lag else (potts, others(n, m))
        usual = 2 / np.sqrt(n * m)
        cases = [(usual, True, 1.0), (0.1 if lag else 0.28, False, 1.0), (1 / np.sqrt(n), False, 1.0), (0.5, True, 0.1)]
        for sd, even, density in cases:
            found = []
            for seed in range(args.draws):
                X, truth = make(n, m, l, sd, seed=seed, even=even, density=density)
                truth = truth[where]
                for model in (FEMNetwork(ridge=0.0, solver="fem", lag=lag), FEMNetwork(lag=lag)):
                    J = model.fit(X).couplings_[where]
                    found.append((np.sqrt(np.mean((J - truth) ** 2)), np.corrcoef(J, truth)[0, 1]))
            text = f"{'kinetic' if lag else 'equilibrium'} n={n} m={m} l={l}, sd {sd:.3f}{', zero-sum' * even}{', one pair in ten' * (density < 1)}"
            row = {f"couplings; means of {args.draws} draws": text}
            for k, who in enumerate(("the seed, unpenalised", "ours, ridge auto")):
                error, r = np.array(found[k::2]).T
                row |= {
                    f"{who}: RMSE": f"{error.mean():.4f}",
                    f"{who}: correlation": f"{r.mean():.4f} ({r.min():.3f} to {r.max():.3f})",
                }
            rows.append(row)
            print(row, flush=True)
    return rows


def search(args):
    """degree="auto" and XGBoost with its defaults on the same rows; loss on 2,000 others."""
    from sklearn.preprocessing import OneHotEncoder
    from xgboost import XGBClassifier

    rows, cases = (
        [],
        {"binary": (binary, 2130), "binary-3196": (binary, 3196), "categories": (categories, 3000), "wide": (wide, 1270)},
    )
    cases |= {f"{name}, rules": (partial(cases[name][0], rules=True), cases[name][1]) for name in list(cases)[:3]}
    print(f"{'table':20}{'seed':>5}{'cpu s':>8}{'loss':>9}{'XGBoost s':>11}{'loss':>9}   chosen: degree, ridge, solver")
    for name in args.names or list(cases):
        make, l = cases[name]
        for seed in range(args.seeds):
            X, y = make(l + 2000, np.random.default_rng(seed))
            FEM(degree=2, ridge=10.0).fit(X[:l], y[:l])  # compile
            model, ours = cpu(lambda X=X, y=y, l=l: FEM(degree="auto").fit(X[:l], y[:l]))
            encoder = OneHotEncoder(handle_unknown="ignore").fit(X[:l])
            trees, theirs = cpu(lambda X=X, y=y, l=l, e=encoder: XGBClassifier(n_jobs=1).fit(e.transform(X[:l]), y[:l]))
            P, Q = model.predict_proba(X[l:]), trees.predict_proba(encoder.transform(X[l:]))
            loss, other = (-np.log(p[np.arange(2000), y[l:]]).mean() for p in (P, Q))
            chosen = f"{max(model.degree_)}, {model.ridge_:.2g}, {model.solver_}"
            print(f"{name:20}{seed:5}{ours:8.2f}{loss:9.4f}{theirs:11.2f}{other:9.4f}   {chosen}", flush=True)
            rows.append({"case": name, "ours": loss, "theirs": other, "seconds": ours, "their seconds": theirs})
    return rows


def load(folder, name):
    """Inputs and target of one of the tables."""
    path = Path(folder)
    file = path / {**TABS, "nursery": "nursery.data", "splice": "splice.dat", "votes": "house-votes-84.data"}[name]
    if not file.is_file():
        sys.exit(f"{file} is missing: give the folder with the UCI tables (see the head of this file)")
    if name in TABS:
        table = pd.read_csv(file, sep="\t", dtype=str, skiprows=[1, 2])
        return table.drop(columns=["y", "instance"], errors="ignore"), table["y"].to_numpy()
    if name == "splice":
        table = pd.read_csv(file, header=None, dtype=str, skipinitialspace=True)
        table.columns = [f"site{c}" for c in table.columns]
        return table.iloc[:, :-1], table.iloc[:, -1].str.strip().to_numpy()
    table = pd.read_csv(file, dtype=str)
    return (
        (table.iloc[:, 1:], table.iloc[:, 0].to_numpy()) if name == "votes" else (table.iloc[:, :-1], table.iloc[:, -1].to_numpy())
    )


def splice(args):
    X, y = load(args.folder, "splice")
    FEM(degree=2, ridge=10.0).fit(X[::32], y[::32])
    FEM(degree=3, ridge=10.0, solver="kernel").fit(X[::32], y[::32])
    rows = []
    for degree, ridge in ((2, 10.0), (2, 1.0), (3, 100.0), (3, 10.0)):
        model, seconds = cpu(lambda degree=degree, ridge=ridge: FEM(degree=degree, ridge=ridge).fit(X, y))
        rows.append({"degree": degree, "ridge": ridge, "CPU s": seconds, "solver": model.solver_, "sweeps": model.n_iter_})
        print(rows[-1] | {"settled": model.converged_}, flush=True)
    return rows


def nested(args):
    """Five outer folds; inside, FEM chooses ridge and degree by five folds of its own. XGBoost with its defaults on one-hot columns."""
    from sklearn.model_selection import StratifiedKFold
    from sklearn.preprocessing import LabelEncoder, OneHotEncoder
    from xgboost import XGBClassifier

    print(
        f"{'table':10}{'log loss':>10}{'accuracy':>10}{'XGBoost':>10}{'accuracy':>10}{'cpu s':>8}   chosen: degree, ridge, solver"
    )
    found = []
    for name in args.names or ["car", "nursery", "splice", "votes", "monks-1", "monks-2"]:
        X, y = load(args.folder, name)
        code = LabelEncoder().fit_transform(y)
        rows, chosen, seconds = [], [], 0.0
        for train, test in StratifiedKFold(5, shuffle=True, random_state=args.split).split(X, code):
            model, spent = cpu(lambda X=X, code=code, train=train: FEM(degree="auto", ridge="auto").fit(X.iloc[train], code[train]))
            seconds += spent
            encoder = OneHotEncoder(handle_unknown="ignore").fit(X.iloc[train])
            trees = XGBClassifier(n_jobs=1).fit(encoder.transform(X.iloc[train]), code[train])
            for P in (model.predict_proba(X.iloc[test]), trees.predict_proba(encoder.transform(X.iloc[test]))):
                rows.append((-np.log(P[np.arange(len(test)), code[test]]).mean(), (P.argmax(axis=1) == code[test]).mean()))
            chosen.append(f"{max(model.degree_)}, {model.ridge_:.2g}, {model.solver_}")
        ours, theirs = np.mean(rows[0::2], axis=0), np.mean(rows[1::2], axis=0)
        print(
            f"{name:10}{ours[0]:10.4f}{ours[1]:10.4f}{theirs[0]:10.4f}{theirs[1]:10.4f}{seconds:8.1f}   {' | '.join(chosen)}",
            flush=True,
        )
        found.append({"case": name, "ours": ours[0], "theirs": theirs[0]})
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(required=True)
    for task in (speed, single, screen, recover):
        part = parts.add_parser(task.__name__)
        part.set_defaults(task=task)
        part.add_argument("--rows", type=int, default=3200 if task is single else 10_000)
        part.add_argument("--draws", type=int, default=6, help="of `recover`")
        part.add_argument("--variables", type=int, nargs="*", help="which of the cases of `speed`")
    part = parts.add_parser("search")
    part.set_defaults(task=search)
    part.add_argument("names", nargs="*")
    part.add_argument("--seeds", type=int, default=3)
    for task in (splice, nested):
        part = parts.add_parser(task.__name__)
        part.set_defaults(task=task)
        part.add_argument("folder", help="folder with the tables")
        if task is nested:
            part.add_argument("names", nargs="*")
            part.add_argument("--split", type=int, default=0, help="seed of the outer folds")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    args.task(args)


if __name__ == "__main__":
    main()
