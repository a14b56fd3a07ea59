"""How time and memory grow: every family and the rival that does the same, against rows, columns, topics, degrees and threads.

    python benchmarks/scaling.py measure [--cases NAME ...] [--sides ours rival] [--seconds 60]    writes docs/scaling.json
    python benchmarks/scaling.py measure --together --seconds 4                            a process a curve: quicker, memory is that of later fits
    python benchmarks/scaling.py threads                                                   the same fits on one thread and on two
    python benchmarks/scaling.py draw                                                      docs/images/scaling/*.png from it

`make bench NAMES="scaling threads"` does all of it, and writes slopes and ratios to docs/benchmarks.md.
Data are made here. Each point is a process of its own: first the smallest size (ours: this size, too), to import and compile, then the fit
that counts, in CPU seconds of one thread (wall seconds in the cases of threads); memory is the peak of the process during that fit above what it held before.
A curve ends where a point takes longer than `--seconds`. Rivals that are not installed are left out with a word.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402
import scipy.sparse as sp  # noqa: E402

DOCS = Path(__file__).resolve().parent.parent / "docs"
STORED, PICTURES = DOCS / "scaling.json", DOCS / "images" / "scaling"


class Case(NamedTuple):
    """One curve: data of a size, our fit of them, and the rival's."""

    over: str  # what grows
    sizes: tuple[int, ...]
    make: Callable[[int], Any]
    ours: Callable[[Any], Any]
    rival: Callable[[Any], Any] | None
    rival_name: str
    equal: str  # in what the two are alike


# data


def gaussians(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """n rows of d columns in five classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, n)
    return rng.normal(size=(n, d)) + rng.normal(size=(5, d))[y], y


def texts(D: int, K: int, V: int = 10_000, length: int = 90) -> tuple[sp.csr_array, int]:
    """D documents from 50 topics over Zipfian words, to be fitted with K."""
    rng = np.random.default_rng(0)
    zipf = 1 / (10 + np.arange(V))
    phi = rng.dirichlet(zipf / zipf.sum() * 500, 50)
    theta = rng.dirichlet(np.full(50, 0.1), D)
    z = (theta.cumsum(axis=1)[:, None, :] < rng.random((D, length, 1))).sum(axis=2).clip(max=49)
    words = np.empty((D, length), dtype=np.int64)
    for k in range(50):
        mine = z == k
        words[mine] = rng.choice(V, int(mine.sum()), p=phi[k])
    X = sp.csr_array((np.ones(words.size, np.int64), words.ravel(), np.arange(0, words.size + 1, length)), shape=(D, V))
    X.sum_duplicates()
    return X, K


def abundances(n: int, p: int) -> np.ndarray:
    """n samples of p species with ten latent factors."""
    rng = np.random.default_rng(0)
    Z = rng.normal(0.5, 1, p) + 0.4 * rng.normal(size=(n, 10)) @ rng.normal(size=(10, p)) + 0.5 * rng.normal(size=(n, p))
    Y = rng.poisson(np.exp(np.minimum(Z, 12.0)))
    return Y[:, Y.sum(axis=0) > 0]


def categories(l: int, n: int, degree: int) -> tuple[np.ndarray, np.ndarray, int]:
    """l rows of n variables with three states, a class that depends on single variables and pairs, and the degree to fit."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (l, n))
    h = rng.normal(size=(n, 3))[np.arange(n), X].sum(axis=1) + 2 * (X[:, 0] == X[:, 1]) - 1
    return X, (rng.random(l) < 1 / (1 + np.exp(-h))).astype(int), degree


def mentions(S: int) -> tuple[Any, Any]:
    """S sentences that name concepts of an ontology of 2,000."""
    from tallies import Corpus, Ontology

    rng = np.random.default_rng(0)
    words = np.array(
        ["".join(rng.choice(list("bdfgklmnprstv"), 3)) + str(rng.choice(list("aeiou"))) + f"{v:x}" for v in range(4000)]
    )
    names = [" ".join(rng.choice(words, rng.integers(1, 4))) for _ in range(2000)]
    ontology = Ontology([f"C:{g}" for g in range(2000)], names)
    made = [" ".join([*rng.choice(words, 12), names[g]]) for g in rng.integers(0, 2000, S)]
    return Corpus.from_texts(made, authors=[f"a{i % 50}" for i in range(S)], sentences=True, min_df=1), ontology


# fits


def ours_lda(data: Any) -> None:
    import tallies

    X, K = data
    tallies.LDA(n_topics=K, alpha=0.1, max_iter=20, burn_in=10, start="random").fit(X, progress=False)


def tomotopy_lda(data: Any) -> None:
    import tomotopy

    X, K = data
    model = tomotopy.LDAModel(k=K, alpha=0.1, eta=0.01, seed=1)
    for d in range(X.shape[0]):
        row = slice(X.indptr[d], X.indptr[d + 1])
        model.add_doc(np.repeat(X.indices[row], X.data[row]).astype(str).tolist())
    model.train(20, workers=1)


def ours_pln(Y: Any) -> None:
    import tallies

    tallies.PLN().fit(Y, progress=False)


def pyplnmodels(Y: Any) -> None:
    import contextlib
    import io

    import torch
    from pyPLNmodels import Pln

    torch.set_num_threads(1)
    with contextlib.redirect_stdout(io.StringIO()):
        Pln(Y, exog=np.ones((len(Y), 1)), add_const=False).fit()


def ours_fem(data: Any) -> None:
    import tallies

    X, y, degree = data
    tallies.FEM(degree=degree, ridge=1.0).fit(X, y, progress=False)


def one_hot(X: np.ndarray, degree: int) -> sp.csr_array:
    """Indicators of every combination of up to `degree` variables."""
    from itertools import combinations

    l, n = X.shape
    columns, width = [], 0
    for k in range(1, degree + 1):
        for group in combinations(range(n), k):
            columns.append(width + np.ravel_multi_index(tuple(X[:, g] for g in group), (3,) * k))
            width += 3**k
    at = np.column_stack(columns)
    return sp.csr_array((np.ones(at.size), at.ravel(), np.arange(0, at.size + 1, at.shape[1])), shape=(l, width))


def logistic(data: Any) -> None:
    from sklearn.linear_model import LogisticRegression

    X, y, degree = data
    # FEM has a weight for each of two classes: scikit-learn's one weight is their difference, and its ridge half as strong
    LogisticRegression(C=2.0, tol=1e-6, max_iter=5000).fit(one_hot(X, degree), y)


def ours_network(data: Any) -> None:
    import tallies

    tallies.FEMNetwork(ridge=1.0).fit(data[0], progress=False)


def many_logistics(data: Any) -> None:
    from sklearn.linear_model import LogisticRegression

    X = data[0]
    for j in range(X.shape[1]):
        LogisticRegression(C=1.0, tol=1e-6, max_iter=5000).fit(one_hot(np.delete(X, j, axis=1), 1), X[:, j])


def ours_concepts(data: Any) -> None:
    import tallies

    tallies.AuthorConcept().fit(*data, progress=False)


def of_scikit_learn(module: str, name: str, **options: Any) -> Callable[[Any], Any]:
    """Its fit and predict."""

    def run(data: Any) -> Any:
        from importlib import import_module

        model = getattr(import_module(f"sklearn.{module}"), name)(**options)
        return model.fit(*data).predict(data[0])

    return run


def of_ours(name: str) -> Callable[[Any], Any]:
    """Our fit and predict."""

    def run(data: Any) -> Any:
        import tallies

        return getattr(tallies, name)().fit(*data).predict(data[0])

    return run


LDA_RIVAL = of_scikit_learn("discriminant_analysis", "LinearDiscriminantAnalysis", solver="lsqr")
ROWS, SWEEPS = "same model, same labels", "20 sweeps of each; what a sweep gains differs, see the tables above"
CASES = {
    "GDA, rows": Case(
        "rows of 20 columns", (10_000, 30_000, 100_000, 300_000, 1_000_000), lambda n: gaussians(n, 20), of_ours("GDA"), LDA_RIVAL,
        "scikit-learn", ROWS,
    ),
    "GDA, columns": Case(
        "columns of 5,000 rows", (10, 30, 100, 300, 1000), lambda d: gaussians(5000, d), of_ours("GDA"), LDA_RIVAL, "scikit-learn", ROWS
    ),
    "NaiveBayes, rows": Case(
        "rows of 20 columns", (10_000, 30_000, 100_000, 300_000, 1_000_000), lambda n: gaussians(n, 20), of_ours("NaiveBayes"),
        of_scikit_learn("naive_bayes", "GaussianNB"), "scikit-learn", ROWS,
    ),
    "LDA, documents": Case(
        "documents of 90 words, K=100", (1000, 3000, 10_000, 30_000, 60_000), lambda D: texts(D, 100), ours_lda, tomotopy_lda, "tomotopy", SWEEPS
    ),
    "LDA, topics": Case(
        "topics, 10,000 documents", (10, 30, 100, 300, 1000), lambda K: texts(10_000, K), ours_lda, tomotopy_lda, "tomotopy", SWEEPS
    ),
    "PLN, rows": Case(
        "samples of 50 species", (100, 300, 1000, 3000, 10_000), lambda n: abundances(n, 50), ours_pln, pyplnmodels, "pyPLNmodels",
        "each to its own end",
    ),
    "PLN, columns": Case(
        "species in 500 samples", (10, 30, 100, 300, 1000), lambda p: abundances(500, p), ours_pln, pyplnmodels, "pyPLNmodels",
        "each to its own end",
    ),
    "FEM, rows": Case(
        "rows of 20 variables, degree 1", (1000, 3000, 10_000, 30_000, 100_000), lambda l: categories(l, 20, 1), ours_fem, logistic,
        "scikit-learn", "same penalised objective",
    ),
    "FEM, columns": Case(
        "variables of 5,000 rows, degree 2", (5, 10, 20, 40), lambda n: categories(5000, n, 2), ours_fem, logistic, "scikit-learn",
        "same penalised objective",
    ),
    "FEM, degree": Case(
        "degree, 2,000 rows of 10 variables", (1, 2, 3, 4), lambda k: categories(2000, 10, k), ours_fem, logistic, "scikit-learn",
        "same penalised objective",
    ),
    "FEMNetwork, variables": Case(
        "variables of 3,000 rows", (5, 10, 20, 40, 80), lambda n: categories(3000, n, 1), ours_network, many_logistics, "scikit-learn",
        "same penalised objectives",
    ),
    "AuthorConcept, sentences": Case(
        "sentences, 2,000 concepts", (1000, 3000, 10_000, 30_000), mentions, ours_concepts, None, "", "no other program fits this model"
    ),
}  # fmt: skip
THREADS = {  # the same fit on one thread and on two
    "GDA": ("GDA, rows", 1_000_000),
    "NaiveBayes": ("NaiveBayes, rows", 1_000_000),
    "LDA": ("LDA, documents", 30_000),
    "PLN": ("PLN, rows", 10_000),
    "FEM": ("FEM, rows", 100_000),
    "AuthorConcept": ("AuthorConcept, sentences", 30_000),
}


# measuring


def high_water() -> float:
    """Peak memory of this process since it was last set back, MB."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024


def one(name: str, side: str, size: int, threads: int) -> tuple[float, float]:
    """Seconds and MB of one point, measured in this process."""
    import tallies

    case = CASES[name]
    fit = case.ours if side == "ours" else case.rival
    assert fit is not None
    warnings.simplefilter("ignore")
    with tallies.backend("threads", workers=threads):
        fit(case.make(case.sizes[0]))
        data = case.make(size)
        if side == "ours":  # large data have kernels of their own
            fit(data)
        clock = time.process_time if threads == 1 else time.perf_counter
        Path("/proc/self/clear_refs").write_text("5")
        held, start = high_water(), clock()
        fit(data)
        return clock() - start, high_water() - held


def together(name: str, side: str, seconds: float) -> list[list[float]]:
    """All points of a curve in this process, each twice where it is short; the first fit of a size is to compile."""
    import tallies

    case, found = CASES[name], []
    fit = case.ours if side == "ours" else case.rival
    assert fit is not None
    warnings.simplefilter("ignore")
    with tallies.backend("threads", workers=1):
        for size in case.sizes:
            data, best = case.make(size), np.inf
            if side == "ours" or not found:
                fit(data)
            for _ in range(2):
                Path("/proc/self/clear_refs").write_text("5")
                held, start = high_water(), time.process_time()
                fit(data)
                best, peak = min(best, time.process_time() - start), high_water() - held
                if best > seconds / 4:
                    break
            found.append([size, best, peak])
            if best > seconds:
                break
    return found


def point(name: str, side: str, size: int, threads: int, repeats: int, seconds: float) -> tuple[float, float] | None:
    """The best of several runs, each in a process of its own; None where one fails or takes too long."""
    best: tuple[float, float] | None = None
    for _ in range(repeats):
        call = [sys.executable, __file__, "one", name, side, str(size), str(threads)]
        try:
            done = subprocess.run(call, capture_output=True, text=True, timeout=3 * seconds + 60)
        except subprocess.TimeoutExpired:
            return best
        if done.returncode:
            print(f"{name}, {side}, {size}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
            return best
        found = tuple(json.loads(done.stdout.splitlines()[-1]))
        best = found if best is None else min(best, found)
        if found[0] > seconds / 4:
            break
    return best


def measure(names: list[str], sides: list[str], seconds: float, repeats: int, at_once: bool) -> None:
    stored = json.loads(STORED.read_text()) if STORED.is_file() else {}
    for name in names:
        curves = stored.setdefault(name, {})
        for side in sides if CASES[name].rival is not None else ["ours"]:
            if at_once:
                call = [sys.executable, __file__, "curve", name, side, str(seconds)]
                done = subprocess.run(call, stdout=subprocess.PIPE, text=True)
                if done.returncode == 0:
                    curves[side] = json.loads(done.stdout.splitlines()[-1])
                    print(name, side, curves[side], flush=True)
                continue
            curves[side] = []
            for size in CASES[name].sizes:
                found = point(name, side, size, 1, repeats, seconds)
                if found is None:
                    break
                curves[side].append([size, *found])
                print(f"{name}, {side}, {size:,}: {found[0]:.3f} s, {found[1]:.0f} MB", flush=True)
                if found[0] > seconds:
                    break
        STORED.write_text(json.dumps(stored, indent=1) + "\n")


def measure_threads(seconds: float, repeats: int) -> None:
    stored = json.loads(STORED.read_text())
    stored["threads"] = {}
    for model, (name, size) in THREADS.items():
        walls = [point(name, "ours", size, threads, repeats, seconds) for threads in (1, 2)]
        if all(walls):
            stored["threads"][model] = [size, *(wall[0] for wall in walls if wall)]
            print(model, stored["threads"][model], flush=True)
    STORED.write_text(json.dumps(stored, indent=1) + "\n")


# showing


def draw() -> None:
    """One picture a case: seconds and MB, log-log."""
    from matplotlib import pyplot

    PICTURES.mkdir(parents=True, exist_ok=True)
    stored = json.loads(STORED.read_text())
    for name, case in CASES.items():
        if name not in stored:
            continue
        figure, axes = pyplot.subplots(1, 2, figsize=(7.6, 2.9), layout="constrained")
        for side, curve in stored[name].items():
            size, seconds, memory = np.array(curve).T
            label = "Tallies" if side == "ours" else case.rival_name
            style = {"color": "#0072B2", "marker": "o"} if side == "ours" else {"color": "#D55E00", "marker": "s"}
            for ax, values in zip(axes, (seconds, np.maximum(memory, 1.0)), strict=True):
                ax.loglog(size, values, label=label, **style)
                ax.annotate(
                    label, (size[-1], values[-1]), xytext=(-4, 6), textcoords="offset points", ha="right", color=style["color"]
                )
        for ax, what in zip(axes, ("CPU seconds", "peak memory, MB"), strict=True):
            ax.set(xlabel=case.over, ylabel=what)
            ax.margins(x=0.08, y=0.18)
            ax.spines[["top", "right"]].set_visible(False)
        figure.suptitle(name.split(",")[0], fontsize="medium", x=0.02, ha="left")
        figure.savefig(PICTURES / (name.replace(", ", "-").lower() + ".png"), dpi=80, pil_kwargs={"optimize": True})
        pyplot.close(figure)


def slope(curve: list[Any]) -> float:
    """Of log seconds against log size, over the larger half of the sizes."""
    size, seconds = np.log(np.array(curve)[-3:, :2]).T
    return float(np.polyfit(size, seconds, 1)[0]) if len(size) > 1 else float("nan")


def curves() -> list[dict[str, str]]:
    """How each grows, and the ratio at the largest size that both did."""
    stored, rows = json.loads(STORED.read_text()), []
    for name, case in CASES.items():
        if name in stored:
            ours, rival = (stored[name].get(side, []) for side in ("ours", "rival"))
            told = [f"{c[-1][1]:.2f}, {c[-1][2]:.0f}, {slope(c):.2f} at {c[-1][0]:,}" if c else "" for c in (ours, rival)]
            both = min(len(ours), len(rival))
            ratio = f"{rival[both - 1][1] / ours[both - 1][1]:.1f}" if both else ""
            row = {"case": name, "grows": case.over, "ours: s, MB, power": told[0], "rival: s, MB, power": told[1]}
            rows.append(row | {"ratio at the largest size of both": ratio, "alike in": case.equal})
    return rows


def on_threads() -> list[dict[str, Any]]:
    """Seconds of the same fits on one thread, by the processor, and on two, by the clock."""
    stored = json.loads(STORED.read_text()).get("threads", {})
    return [
        {"model": model, "size": size, "one thread, s": one, "two threads, s": two, "ratio": one / two}
        for model, (size, one, two) in stored.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parts = parser.add_subparsers(dest="part", required=True)
    for part in ("measure", "threads"):
        options = parts.add_parser(part)
        options.add_argument("--seconds", type=float, default=60.0)
        options.add_argument("--repeats", type=int, default=2)
        if part == "measure":
            options.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
            options.add_argument("--sides", nargs="+", choices=["ours", "rival"], default=["ours", "rival"])
            options.add_argument("--together", action="store_true")
    parts.add_parser("draw")
    alone = parts.add_parser("one")
    alone.add_argument("name", choices=list(CASES))
    alone.add_argument("side", choices=["ours", "rival"])
    alone.add_argument("size", type=int)
    alone.add_argument("threads", type=int)
    whole = parts.add_parser("curve")
    whole.add_argument("name", choices=list(CASES))
    whole.add_argument("side", choices=["ours", "rival"])
    whole.add_argument("seconds", type=float)
    given = parser.parse_args()
    if given.part == "measure":
        measure(given.cases, given.sides, given.seconds, given.repeats, given.together)
    elif given.part == "curve":
        print(json.dumps(together(given.name, given.side, given.seconds)))
    elif given.part == "threads":
        measure_threads(given.seconds, given.repeats)
    elif given.part == "one":
        print(json.dumps(one(given.name, given.side, given.size, given.threads)))
    else:
        draw()


if __name__ == "__main__":
    main()
