"""PLN against pyPLNmodels: same data, one thread, one exact ELBO for both.

    python benchmarks/pln.py [--data FOLDER] [--repeats 3] [--only NAME ...] [--part full rank memory importance tail rival] [--json FILE]

FOLDER holds oaks_Abundance.csv, oaks_Offset.csv and oaks_covariates.csv as shipped with the R package PLNmodels; without it the synthetic
tables alone are run. pyPLNmodels 1.0 imports only with setuptools < 81 (it needs pkg_resources): pip install pyPLNmodels torch "setuptools<81".

full   CPU seconds until the exact ELBO is within 1e-4 (relative) of pyPLNmodels' final one, theirs over ours. Their curve is their own
       ELBO, shifted by a constant so that its last value is the exact one (theirs replaces log y! by an approximation, such a constant).
rank   PLN-PCA: our final ELBO and CPU seconds, theirs at 400 (default) and 3,000 iterations.
tail   tables of rare species (880 by 259, 90% zeros, four covariates of which one has five groups, so that effects are separated)
       and of cells (1000 by 500), and the real ones: steps and CPU seconds to the end of a fit, and how far the bound, Sigma and
       the effects that are not separated (over their standard deviation) are from those of a fit with tol=1e-13.
rival  those of rare species and of cells with pyPLNmodels: whole fits of both, when ours is past its final bound, and within 1e-4.
memory peak memory of two large fits, each in a process of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from plnmodels import near, reach, watched  # noqa: E402
from scipy.optimize import brentq  # noqa: E402
from scipy.special import gammaln  # noqa: E402

import tallies  # noqa: E402
from tallies.counts.coefficients import separated  # noqa: E402
from tallies.counts.estimator import PLN  # noqa: E402


def synthetic(n: int, p: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts with 20 latent factors and noise: mean log rate about 1, a tenth to a third of zeros."""
    rng = np.random.default_rng(0)
    B, L = rng.normal(1, 1, (1, p)), rng.normal(size=(p, min(p, 20))) * 0.4
    Z = B + rng.normal(size=(n, L.shape[1])) @ L.T + 0.5 * rng.normal(size=(n, p))
    Y = rng.poisson(np.exp(np.minimum(Z, 15.0))).astype(float)
    Y = Y[:, Y.sum(axis=0) > 0]
    return Y, np.zeros_like(Y), np.ones((n, 1))


def rare(seed: int, n: int = 880, p: int = 259) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts of rare species, 90% of them zero: three numbers and a group of five, one of 5% of the rows, as covariates."""
    rng = np.random.default_rng(seed)
    group = rng.choice(5, n, p=[0.4, 0.3, 0.15, 0.1, 0.05])
    X = np.hstack([np.ones((n, 1)), rng.normal(size=(n, 3)), (group[:, None] == np.arange(1, 5)).astype(float)])
    B = np.vstack([rng.normal(0, 2, (1, p)), rng.normal(0, 0.5, (3, p)), rng.normal(0, 1, (4, p))])
    Z = X @ B + rng.normal(size=(n, 8)) @ rng.normal(0, 0.4, (8, p)) + 0.7 * rng.normal(size=(n, p)) + 0.5 * rng.normal(size=(n, 1))
    shift = brentq(lambda c: np.exp(-np.exp(Z + c)).mean() - 0.9, -20, 10)
    Y = rng.poisson(np.exp(np.minimum(Z + shift, 12))).astype(float)
    Y = Y[:, Y.sum(axis=0) > 0]
    return Y, np.zeros_like(Y), X


def cells(seed: int, n: int = 1000, p: int = 500) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts of genes in cells of six types, 65% of them zero, with the logarithms of their sums as offsets."""
    rng = np.random.default_rng(seed)
    mean = rng.normal(-1.2, 1.3, p) + rng.normal(0, 0.7, (6, p))[rng.integers(0, 6, n)] + rng.normal(0, 0.5, (n, 1))
    Z = mean + rng.normal(size=(n, 10)) @ rng.normal(0, 0.25, (10, p)) + 0.3 * rng.normal(size=(n, p))
    Y = rng.poisson(np.exp(Z)).astype(float)
    Y = Y[:, Y.sum(axis=0) > 0]
    return Y, np.log(Y.sum(axis=1, keepdims=True)) + np.zeros_like(Y), np.ones((n, 1))


def tail(found: dict[str, Any], rounds: int) -> list[dict[str, Any]]:
    out, made = [], {k: v for k, v in found.items() if "synthetic" not in k}
    for seed in range(rounds):
        made |= {f"rare species {seed}": lambda seed=seed: rare(seed), f"cells {seed}": lambda seed=seed: cells(seed)}
    ours(synthetic(200, 60), max_iter=30)  # the compiler's wait
    for name, make in made.items():
        data = make()
        model, mine = ours(data)
        long, _ = ours(data, tol=1e-13, max_iter=10_000)
        known = ~separated(long.fitted_)
        apart = np.abs(model.coefficients_ - long.coefficients_)[known] / np.sqrt(
            long.covariance_.diagonal()[known.nonzero()[1]] + 0.01
        )
        row = {
            "data": name,
            "steps": len(model.history_),
            "seconds": mine[-1][0],
            "below": long.elbo_ - model.elbo_,
            "effects": float(apart.max()),
            "Sigma": float(np.abs(model.covariance_ - long.covariance_).max()),
            "converged": bool(model.converged_),
        }
        print(", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()), flush=True)
        out.append(row)
    return out


def rival(found: dict[str, Any], rounds: int, size: tuple[int, ...] = ()) -> list[dict[str, Any]]:
    """The tables of `tail`, or others of this size, and pyPLNmodels: whole fits of both, and when ours is past its final bound."""
    made: dict[str, Any] = {}
    for seed in range(rounds):
        made |= {f"rare species {seed}": rare(seed, *size), f"cells {seed}": cells(seed, *size)}
    ours(synthetic(200, 60), max_iter=30)  # the compiler's wait
    theirs(synthetic(200, 60), iterations=30)
    out = []
    for name, data in made.items():
        final, theirs_curve = theirs(data)
        model, mine = ours(data)
        row = {
            "data": f"{name} {data[0].shape[0]}x{data[0].shape[1]}",
            "steps": len(model.history_),
            "seconds": mine[-1][0],
            "past": reach(mine, final),
            "within": near(mine, final),
            "theirs": theirs_curve[-1][0],
            "theirs_iterations": len(theirs_curve),
            "theirs_within": near(theirs_curve),
            "bound": round(model.elbo_, 2),
            "theirs_bound": round(final, 2),
        }
        row |= {"ratio": row["theirs"] / row["seconds"], "converged": bool(model.converged_)}
        print(
            ", ".join(f"{k} {v:.4g}" if isinstance(v, float) and "bound" not in k else f"{k} {v}" for k, v in row.items()),
            flush=True,
        )
        out.append(row)
    return out


def tables(folder: str | None, sizes: Any = ((1000, 200), (5000, 100), (500, 1000))) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if folder is None:
        print("no --data: oaks is left out")
    else:
        root = Path(folder)
        missing = [f for f in ("oaks_Abundance.csv", "oaks_Offset.csv", "oaks_covariates.csv") if not (root / f).is_file()]
        if missing:
            sys.exit(f"--data {folder}: expected {', '.join(missing)} there")
        Y = pd.read_csv(root / "oaks_Abundance.csv").to_numpy(float)
        O = np.log(pd.read_csv(root / "oaks_Offset.csv").to_numpy(float))
        tree = pd.get_dummies(pd.read_csv(root / "oaks_covariates.csv")["tree"], drop_first=True).to_numpy(float)
        one = np.ones((len(Y), 1))
        found |= {"oaks": lambda: (Y, O, one), "oaks + tree": lambda: (Y, O, np.hstack([one, tree]))}
    return found | {f"synthetic {n}x{p}": (lambda n=n, p=p: synthetic(n, p)) for n, p in sizes}


def exact_elbo(Y: Any, O: Any, X: Any, M: Any, S2: Any) -> float:
    """The bound of a full PLN at its best B and Sigma given the rows, with exact log factorials."""
    R = M - X @ np.linalg.lstsq(X, M, rcond=None)[0]
    Sigma = (R.T @ R + np.diag(S2.sum(axis=0))) / len(Y)
    cells = Y * (O + M) - np.exp(O + M + S2 / 2) + 0.5 * np.log(S2) - gammaln(Y + 1)
    return float(cells.sum() - len(Y) / 2 * np.linalg.slogdet(Sigma)[1])


def exact_elbo_rank(Y: Any, O: Any, X: Any, B: Any, C: Any, M: Any, S2: Any) -> float:
    L = O + X @ B + M @ C.T
    cells = Y * L - np.exp(L + 0.5 * S2 @ (C * C).T) - gammaln(Y + 1)
    return float(cells.sum() - 0.5 * (M**2 + S2 - np.log(S2) - 1).sum())


def ours(data: Any, **options: Any) -> tuple[Any, list[tuple[float, float]]]:
    """A fit and its curve: (CPU seconds since the call, ELBO)."""
    Y, O, X = data
    curve: list[tuple[float, float]] = []
    start = time.process_time()
    with tallies.backend("threads", workers=1):
        model = PLN(random_state=0, **options).fit(
            Y,
            covariates=X,
            offsets=O,
            progress=False,
            callback=lambda stage, state: curve.append((time.process_time() - start, state.objective[-1])),
        )
    curve.append((time.process_time() - start, model.elbo_))
    return model, curve


def theirs(data: Any, rank: int | None = None, iterations: int = 400) -> tuple[float, list[tuple[float, float]]]:
    """The exact final ELBO of pyPLNmodels and its curve."""
    import torch
    from pyPLNmodels import Pln, PlnPCA

    torch.set_num_threads(1)
    Y, O, X = data
    with watched() as curve, contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        extra = {} if rank is None else {"rank": rank}
        rival = (Pln if rank is None else PlnPCA)(Y, exog=X, offsets=O, add_const=False, **extra)
        # its tolerance would stop a long run after 457 iterations: more than the default means all of them
        model = rival.fit(maxiter=iterations, **({} if iterations == 400 else {"tol": 0.0}))
    M, S2 = (np.asarray(a.detach(), dtype=float) for a in (model.latent_mean, model.latent_variance))
    if rank is None:
        final = exact_elbo(Y, O, X, M, S2)
    else:
        B, C = (np.asarray(a.detach(), dtype=float) for a in (model.coef, model.components))
        final = exact_elbo_rank(Y, O, X, B, C, M, S2)
    shift = final - curve[-1][1]
    return final, [(t, e + shift) for t, e in curve]


def full(found: dict[str, Any], repeats: int) -> list[dict[str, Any]]:
    out = []
    for name, make in found.items():
        data = make()
        runs = []
        for k in range(repeats + 1):  # the first run of each is cold: compilers, caches
            final, rival = theirs(data)
            model, mine = ours(data)
            check = exact_elbo(data[0], data[1], data[2], model.latent_mean_, model.latent_variance_)
            assert abs(check - model.elbo_) < 1e-8 * abs(check), (check, model.elbo_)
            runs.append((near(rival), near(mine, final), rival[-1][0], mine[-1][0]))
            if k == 0:
                print(f"{name:20s} cold: theirs {runs[0][0]:.3f} s, ours {runs[0][1]:.3f} s to the target")
        t, o, t_all, o_all = np.median(runs[1:], axis=0)
        row = {
            "data": name,
            "theirs": t,
            "ours": o,
            "ratio": t / o,
            "runs": runs,
            "theirs_total": t_all,
            "ours_total": o_all,
            "elbo_theirs": final,
            "elbo_ours": model.elbo_,
            "converged": bool(model.converged_),
        }
        print(
            f"{name:20s} {t:8.3f} s / {o:7.3f} s = {t / o:5.1f}   ELBO {final:.2f} | {model.elbo_:.2f}   converged "
            f"{model.converged_}"
        )
        out.append(row)
    print(f"geometric mean of the ratios: {np.exp(np.mean([np.log(r['ratio']) for r in out])):.1f}")
    return out


def rank(found: dict[str, Any], repeats: int) -> list[dict[str, Any]]:
    out = []
    for name, make in found.items():
        if "tree" in name:
            continue
        data = make()
        for q in (5, 10):
            pairs = [(theirs(data, q), ours(data, rank=q)) for _ in range(repeats + 1)][1:]  # the first are cold
            long = theirs(data, q, 3000)[0]
            (short, _), (model, mine) = pairs[-1]
            theirs_seconds, seconds = (float(np.median([runs[k][1][-1][0] for runs in pairs])) for k in (0, 1))
            print(
                f"{name:20s} q={q:2d} theirs 400 it. {short:.1f} in {theirs_seconds:.2f} s, 3000 it. {long:.1f}; ours "
                f"{model.elbo_:.1f} in {seconds:.2f} s (ratio {theirs_seconds / seconds:.2f}, past their 3000 it. after "
                f"{reach(mine, long):.2f} s), converged {model.converged_}",
                flush=True,
            )
            row = {"data": name, "q": q, "theirs_400": short, "theirs_3000": long, "theirs_seconds": theirs_seconds}
            row |= {"ours": model.elbo_, "ours_seconds": seconds, "converged": bool(model.converged_)}
            row["pairs"] = [(mine[-1][0], curve[-1][0]) for (_, curve), (_, mine) in pairs]
            row["near"] = [(near(mine, end), near(curve)) for (end, curve), (_, mine) in pairs]
            out.append(row)
    return out


def bounds(folder: Path) -> list[dict[str, str]]:
    """Exact bounds of whole fits. Those of PLNmodels, the package in R, were told by its authors' fits: it is not run here."""
    in_r = {"trichoptera": -1051.75, "barents": -4614.25, "oaks": -32028.47, "oaks, rank 10": -53931}
    rows = []
    for name, q in (("trichoptera", None), ("barents", None), ("oaks", None), ("oaks", 5), ("oaks", 10)):
        Y = pd.read_csv(folder / f"{name}_Abundance.csv").to_numpy(float)
        if name == "trichoptera":
            O = np.tile(np.log(Y.sum(axis=1, keepdims=True)), Y.shape[1])
        else:
            O = np.log(pd.read_csv(folder / f"{name}_Offset.csv").to_numpy(float))
        data, case = (Y, O, np.ones((len(Y), 1))), name if q is None else f"{name}, rank {q}"
        row = {"counts": f"{case}, {len(Y)} x {Y.shape[1]}", "ours": f"{ours(data, rank=q)[0].elbo_:.2f}"}
        rows.append(
            row | {"pyPLNmodels, default": f"{theirs(data, q)[0]:.2f}", "R PLNmodels": f"{in_r[case]:.2f}" if case in in_r else ""}
        )
        print(rows[-1], flush=True)
    return rows


def memory() -> list[dict[str, Any]]:
    out = []
    for n, p in ((1000, 2000), (100_000, 200)):
        # a process of its own, so that its peak is that of this fit
        done = subprocess.run([sys.executable, __file__, "--one", str(n), str(p)], capture_output=True, text=True, check=True)
        print(done.stdout.strip(), flush=True)
        out.append(json.loads(done.stdout))
    return out


def one_large(n: int, p: int) -> None:
    data = synthetic(n, p)
    start = time.perf_counter()
    model = PLN().fit(data[0], covariates=data[2], offsets=data[1])
    status = Path("/proc/self/status")  # getrusage would count the process that started this one
    peaks = [line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM")] if status.exists() else []
    peak = float(peaks[0] if peaks else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / 2**20
    row = {"counts": f"{n:,} x {p:,}", "wall s": time.perf_counter() - start, "peak, GB": peak, "bound": f"{model.elbo_:.1f}"}
    print(json.dumps(row | {"settled": model.converged_}))


def importance() -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    small = rng.poisson(np.exp(rng.normal(size=(150, 3)) @ rng.normal(0, 0.6, (3, 20)) - 0.5)).astype(float)
    return [one_importance(*synthetic(200, 50), 5), one_importance(small, np.zeros_like(small), np.ones((150, 1)), 3)]


def one_importance(Y: Any, O: Any, X: Any, rank: int) -> dict[str, Any]:
    start, curve = time.process_time(), []
    variational = PLN(rank=rank, random_state=0).fit(Y, covariates=X, offsets=O)
    begun, n = time.process_time() - start, len(Y)
    base = tallies.evaluate(variational, Y, X, O, method="importance", n_draws=2000)
    start = time.process_time()
    model = PLN(rank=rank, method="importance", random_state=0).fit(
        Y,
        covariates=X,
        offsets=O,
        callback=lambda stage, s: (
            stage.name == "importance sampling" and curve.append((time.process_time() - start, s.objective[-1]))
        ),
    )
    taken = time.process_time() - start
    values = [(t, e) for t, e in curve if np.isfinite(e)]
    near = reach(values, max(e for _, e in values) - 2 * model.loglik_stderr_)
    row = {
        "counts": f"{n} x {Y.shape[1]} of mean {Y.mean():.1f}, rank {rank}",
        "variational, s": begun,
        "importance sampling, s": taken,
    }
    row["an epoch within 2 standard errors of the best after, s"] = near
    row["log likelihood of the variational fit"] = f"{base.value * n:.2f} +- {base.stderr * n:.2f}"
    row |= {
        "by importance sampling": f"{model.loglik_:.2f} +- {model.loglik_stderr_:.2f}",
        "least effective share": float(model.ess_.min()),
    }
    print(row, flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--part", nargs="*", default=["full", "rank", "memory", "importance"])
    parser.add_argument("--json")
    parser.add_argument("--one", nargs=2, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.one:
        one_large(*options.one)
        return
    found = {k: v for k, v in tables(options.data).items() if options.only is None or any(o in k for o in options.only)}
    results: dict[str, Any] = {}
    for part in options.part:
        print(f"-- {part}")
        results[part] = (
            {"full": full, "rank": rank, "tail": tail, "rival": rival}[part](found, options.repeats)
            if part in ("full", "rank", "tail", "rival")
            else globals()[part]()
        )
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
