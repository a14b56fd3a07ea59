"""LDA against tomotopy, lda, gensim and scikit-learn: seconds to a held-out perplexity, on the same corpus, with one scorer.

    python benchmarks/lda.py DATA --topics 100 500 --rivals tomotopy lda --seeds 3 --threads 1

DATA is an .npz file with token lists `w`, `ptr` (document d is w[ptr[d]:ptr[d+1]]) and held-out `tw`, `tptr`, or anything that
`Corpus.read` takes (a tenth of the documents is then held out). Every program gets the same tokens, alpha and beta; phi of its
current state is scored by document completion. Times are CPU seconds (wall with --threads > 1) of sampling alone: building the
rival's own corpus, and scoring, are outside the clock; for Tallies laying out the data is inside.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import tallies
from tallies.data.corpus import Corpus
from tallies.topics import sampler
from tallies.topics.estimator import LDA
from tallies.topics.scores import Topics, completion

Curve = list[tuple[float, float, int]]  # seconds, perplexity, sweeps


def to_counts(w: np.ndarray, ptr: np.ndarray, V: int) -> sp.csr_array:
    """CSR counts of token lists."""
    X = sp.csr_array((np.ones(len(w), np.int64), w.astype(np.int64), ptr.astype(np.int64)), shape=(len(ptr) - 1, V))
    X.sum_duplicates()
    return X


def read(path: str) -> tuple[sp.csr_array, sp.csr_array]:
    """Counts to fit and counts to score."""
    if not Path(path).exists():
        sys.exit(f"benchmarks/lda.py: no data at {path}; give an .npz with w, ptr, tw, tptr or a file that Corpus.read takes")
    if path.endswith(".npz"):
        data = np.load(path)
        V = int(max(data["w"].max(), data["tw"].max())) + 1
        return to_counts(data["w"], data["ptr"], V), to_counts(data["tw"], data["tptr"], V)
    X = Corpus.read(path, min_df=3, max_df=0.5).counts
    held = np.arange(X.shape[0]) % 10 == 9
    return X[~held], X[held]


def grow(X: sp.csr_array, n_documents: int, held: int = 1000) -> tuple[sp.csr_array, sp.csr_array]:
    """Counts to fit and to score of the shape that X would have with `n_documents`, where no such corpus is at hand.

    Documents are drawn from an LDA fitted to X, with the lengths of X. A token repeats an earlier one of its document with a
    probability that leaves as many repeated words as X has (burstiness), and a word of fewer than 20 tokens is split into as many
    as X is repeated: a larger corpus has more rare words, not the same ones more often.
    """
    rng, V, times = np.random.default_rng(0), X.shape[1], n_documents / X.shape[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LDA(n_topics=200, max_iter=100, burn_in=90, random_state=0).fit(X)
    mixtures, sums = model.document_topics_, np.cumsum(model.topics_, axis=1)
    rare, parts = X.sum(axis=0) < 20, max(round(times), 1)
    given = rng.integers(X.shape[0], size=n_documents + held)
    lengths = X.sum(axis=1)[given]
    document = np.repeat(np.arange(len(given)), lengths)
    first = np.repeat(np.cumsum(lengths) - lengths, lengths)
    place = np.arange(len(document)) - first
    topic = np.empty(len(document), dtype=np.int64)
    for d, (row, end) in enumerate(zip(given, np.cumsum(lengths), strict=True)):
        topic[end - lengths[d] : end] = np.searchsorted(np.cumsum(mixtures[row]), rng.random(lengths[d]), side="right")
    topic = np.minimum(topic, model.n_topics - 1)
    words = np.empty(len(document), dtype=np.int64)
    for k in range(model.n_topics):
        mine = np.flatnonzero(topic == k)
        words[mine] = np.minimum(np.searchsorted(sums[k], rng.random(len(mine)), side="right"), V - 1)
    words = np.where(rare[words], words + V * rng.integers(parts, size=len(words)), words)
    chance, earlier = rng.random(len(words)), first + (rng.random(len(words)) * place).astype(np.int64)

    def counts(share: float) -> sp.csr_array:
        source = np.where((chance < share) & (place > 0), earlier, np.arange(len(words)))
        while not np.array_equal(source, source[source]):  # a repeated token may itself repeat another
            source = source[source]
        Y = sp.csr_array((np.ones(len(words), np.int64), (document, words[source])), shape=(len(given), V * parts))
        Y.sum_duplicates()
        return Y

    share = 0.0
    for _ in range(4):  # enough: words that occur once become fewer nearly in proportion to what is not repeated
        Y = counts(share)
        share = min(max(1 - (1 - share) * (X.nnz / X.data.sum()) / (Y.nnz / len(words)), 0.0), 0.9)
    Y = Y[:, np.flatnonzero(Y[:n_documents].sum(axis=0))]
    return Y[:n_documents], Y[n_documents:]


class Clock:
    """Seconds of work: CPU of this process, or wall time when several threads work."""

    def __init__(self, threads: int):
        self.now: Callable[[], float] = time.process_time if threads == 1 else time.perf_counter
        self.spent, self.since = 0.0, 0.0

    def __enter__(self) -> Clock:
        self.since = self.now()
        return self

    def __exit__(self, *error: Any) -> None:
        self.spent += self.now() - self.since


def ours(X: Any, score: Callable, K: int, seed: int, marks: list[int], threads: int, alpha: Any, beta: float) -> Curve:
    """Tallies through its public `fit`; at every mark the clock stands still while phi is scored."""
    clock, curve = Clock(threads), []

    def look(stage: Any, state: Any) -> None:
        t = len(state.objective)
        if t in marks:
            clock.__exit__()
            n_wk = sampler.word_counts(stage.sources[0].load(), state.latents[0].counts).toarray() + state.params.beta
            curve.append((clock.spent, score(n_wk / n_wk.sum(axis=0), state.params.alpha), t))
            clock.__enter__()

    with warnings.catch_warnings(), tallies.backend("threads", workers=threads):
        warnings.simplefilter("ignore")
        LDA(n_topics=K, max_iter=2, random_state=0).fit(X[:50])  # compiled before the clock starts
        model = LDA(n_topics=K, alpha=alpha, beta=beta, max_iter=max(marks), burn_in=max(marks), random_state=seed)
        with clock:
            model.fit(X, callback=look)
    return curve


def documents(X: sp.csr_array) -> Iterator[list[str]]:
    """Token lists of counts, one at a time."""
    for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        yield [str(v) for v in np.repeat(X.indices[a:b], X.data[a:b])]


def run_tomotopy(X: Any, score: Callable, K: int, seed: int, marks: list[int], threads: int, alpha: Any, beta: float) -> Curve:
    """tomotopy, with its optimisation of alpha where ours is on; two threads use its best scheme here, PARTITION."""
    import tomotopy as tp

    learn = isinstance(alpha, str)
    model = tp.LDAModel(k=K, alpha=0.1 if learn else alpha, eta=beta, seed=seed)
    model.optim_interval = 10 if learn else 0
    for words in documents(X):
        model.add_doc(words)
    model.train(0)
    columns = np.array([int(v) for v in model.used_vocabs])
    clock, curve, done = Clock(threads), [], 0
    for mark in marks:
        with clock:
            model.train(
                mark - done, workers=threads, parallel=tp.ParallelScheme.PARTITION if threads > 1 else tp.ParallelScheme.DEFAULT
            )
        done = mark
        phi = np.full((X.shape[1], K), 1e-12)
        phi[columns] = np.array([model.get_topic_word_dist(k) for k in range(K)]).T
        curve.append((clock.spent, score(phi, np.asarray(model.alpha, dtype=float)), mark))
    return curve


def run_lda(X: Any, score: Callable, K: int, seed: int, marks: list[int], threads: int, alpha: Any, beta: float) -> Curve:
    """PyPI `lda`: collapsed Gibbs in Cython, one thread; cannot go on from where it stopped, so every mark is a fit."""
    import logging

    sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() != Path(__file__).resolve().parent]  # this file has its name
    sys.modules.pop("lda", None)
    import lda

    logging.getLogger("lda").setLevel(logging.ERROR)
    curve = []
    for mark in marks:
        clock = Clock(1)
        with clock:
            model = lda.LDA(n_topics=K, n_iter=mark, alpha=alpha, eta=beta, random_state=seed, refresh=10**9).fit(sp.csr_matrix(X))
        curve.append((clock.spent, score(model.topic_word_.T, np.full(K, alpha)), mark))
    return curve


def run_sklearn(X: Any, score: Callable, K: int, seed: int, marks: list[int], threads: int, alpha: Any, beta: float) -> Curve:
    """scikit-learn, online variational Bayes; a mark is a tenth as many passes."""
    from sklearn.decomposition import LatentDirichletAllocation

    model = LatentDirichletAllocation(
        K, doc_topic_prior=alpha, topic_word_prior=beta, learning_method="online", total_samples=X.shape[0], random_state=seed
    )
    clock, curve, done = Clock(1), [], 0
    for mark in marks:
        with clock:
            for _ in range(max(mark // 10, 1) - done):
                for a in range(0, X.shape[0], 512):
                    model.partial_fit(X[a : a + 512])
        done = max(mark // 10, 1)
        phi = (model.components_ / model.components_.sum(axis=1, keepdims=True)).T
        curve.append((clock.spent, score(np.ascontiguousarray(phi), np.full(K, alpha)), done))
    return curve


def run_gensim(X: Any, score: Callable, K: int, seed: int, marks: list[int], threads: int, alpha: Any, beta: float) -> Curve:
    """gensim, online variational Bayes; a mark is a tenth as many passes."""
    from gensim.models import LdaModel

    corpus = [
        list(zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True))
        for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)
    ]
    names = {v: str(v) for v in range(X.shape[1])}
    curve = []
    for mark in marks:
        clock = Clock(1)
        with clock:
            model = LdaModel(
                corpus, K, names, chunksize=2000, passes=max(mark // 10, 1), alpha=[alpha] * K, eta=beta, random_state=seed
            )
        curve.append((clock.spent, score(np.ascontiguousarray(model.get_topics().T), np.full(K, alpha)), max(mark // 10, 1)))
    return curve


RIVALS = {"tomotopy": run_tomotopy, "lda": run_lda, "sklearn": run_sklearn, "gensim": run_gensim}


def transform_rates(X: sp.csr_array, T: sp.csr_array, K: int, rivals: list[str]) -> dict[str, float]:
    """Documents per CPU second whose topics are found, by programs fitted to the same documents (20 sweeps, or one pass)."""
    with warnings.catch_warnings(), tallies.backend("threads", workers=1):
        warnings.simplefilter("ignore")
        model = LDA(n_topics=K, alpha=0.1, max_iter=20, burn_in=15, random_state=1).fit(X)
        model.transform(T[:10])  # compiled before the clock starts
        with (clock := Clock(1)):
            model.transform(T)
    rates = {"tallies": T.shape[0] / clock.spent}
    if "tomotopy" in rivals:
        import tomotopy as tp

        other = tp.LDAModel(k=K, alpha=0.1, eta=0.01, seed=1)
        for words in documents(X):
            other.add_doc(words)
        other.train(20, workers=1)
        new = [other.make_doc(words) for words in documents(T)]
        with (clock := Clock(1)):
            other.infer(new, workers=1)
        rates["tomotopy"] = T.shape[0] / clock.spent
    if "gensim" in rivals:
        from gensim.matutils import Sparse2Corpus
        from gensim.models import LdaModel

        bags, names = (Sparse2Corpus(Y, documents_columns=False) for Y in (X, T)), {v: str(v) for v in range(X.shape[1])}
        online = LdaModel(next(bags), K, names, chunksize=2000, alpha=[0.1] * K, eta=0.01, random_state=1)
        new = list(next(bags))
        with (clock := Clock(1)):
            online.inference(new)
        rates["gensim"] = T.shape[0] / clock.spent
    for name, rate in rates.items():
        print(f"K={K} {name:9} {rate:.0f} documents a second", flush=True)
    return rates


def peak_memory(name: str, path: str, K: int, copies: int) -> float:
    """Peak memory of this process in MB for three sweeps over `copies` copies of the corpus; call in a fresh process."""
    import resource

    X = read(path)[0]
    X = sp.csr_array(sp.vstack([X] * copies, format="csr"))
    run = {"tallies": ours, **RIVALS}[name]
    run(X, lambda phi, alpha: 0.0, K, 1, [3], 1, 0.1, 0.01)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def speed_up(X: Any, K: int, threads: int, alpha: Any, beta: float, repeats: int = 5) -> dict[int, float]:
    """Wall seconds of an iteration through the public `fit`, likelihood included, by number of threads: best of several fits.

    The fits take turns, so that a machine that grows slower meanwhile does so for both.
    """
    best = {1: np.inf, threads: np.inf}
    for _ in range(repeats):
        for workers in best:
            times: list[float] = []
            with warnings.catch_warnings(), tallies.backend("threads", workers=workers):
                warnings.simplefilter("ignore")
                model = LDA(n_topics=K, alpha=alpha, beta=beta, max_iter=41, burn_in=41, start="random", random_state=1)
                model.fit(X, callback=lambda stage, state, times=times: times.append(time.perf_counter()))
            best[workers] = min(best[workers], (times[-1] - times[15]) / (len(times) - 16))
    return best


def seconds_to(curve: Curve, perplexity: float) -> float:
    """Seconds until the curve first reaches a perplexity, by linear interpolation; inf if it never does."""
    for (s0, p0, _), (s1, p1, _) in zip([(0.0, np.inf, 0), *curve[:-1]], curve, strict=True):
        if p1 <= perplexity:
            return s1 if not np.isfinite(p0) or p0 <= p1 else s0 + (s1 - s0) * (p0 - perplexity) / (p0 - p1)
    return np.inf


def compare(
    X: Any, T: Any, K: int, rivals: list[str], marks: list[int], seeds: int, threads: int = 1, alpha: Any = 0.1, beta: float = 0.01
) -> list[dict[str, Any]]:
    """Seconds to the perplexity that each rival has at each mark, ours and its own: a pair a seed."""
    seen = np.flatnonzero(X.sum(axis=0))  # of other words a rival says nothing, and is not judged by them
    X, T = X[:, seen], T[:, seen]

    def score(phi: np.ndarray, alpha: np.ndarray) -> float:
        phi = np.ascontiguousarray(phi, dtype=np.float32)
        return float(np.exp(-completion(T, [Topics(phi, np.asarray(alpha, dtype=float))], np.random.default_rng(0)).value))

    last = marks[-1]
    fine = sorted({*range(10, last, max(last // 20, 1)), *marks, 4 * last // 3, 2 * last})  # to find the crossing
    ours(X, lambda phi, alpha: 0.0, K, 0, [10], threads, alpha, beta)  # loops that only many documents ask for are compiled, too
    curves: dict[str, list[Curve]] = {}
    for seed in range(seeds):
        for name, run in {"tallies": ours, **{r: RIVALS[r] for r in rivals}}.items():
            curve = run(X, score, K, seed + 1, fine if name == "tallies" else marks, threads, alpha, beta)
            curves.setdefault(name, []).append(curve)
            speed = int(X.data.sum()) * (curve[-1][2] - curve[0][2]) / max(curve[-1][0] - curve[0][0], 1e-9) / 1e6
            points = ", ".join(f"{s:.1f}s {p:.0f}" for s, p, _ in curve)
            print(f"K={K} seed={seed + 1} {name:9s} {speed:6.1f} Mtoken/s  {points}", flush=True)
    rows = []
    for name in rivals:
        for i, mark in enumerate(marks):
            pairs = [
                (seconds_to(mine, other[i][1]), other[i][0]) for mine, other in zip(curves["tallies"], curves[name], strict=True)
            ]
            ratios = [theirs / mine for mine, theirs in pairs]
            spread = f"{np.median(ratios):.2f} times faster ({min(ratios):.2f}-{max(ratios):.2f})"
            print(f"K={K} time to the perplexity of {name} after {mark}: {spread}")
            rows.append({"K": K, "rival": name, "mark": mark, "pairs": pairs})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--topics", type=int, nargs="+", default=[100])
    parser.add_argument("--rivals", nargs="*", default=["tomotopy"], choices=sorted(RIVALS))
    parser.add_argument("--marks", type=int, nargs="+", default=[20, 30, 50, 75, 100, 150])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--alpha", default="0.1", help='a number, or "auto": estimated by ours and by tomotopy')
    parser.add_argument("--beta", type=float, default=0.01)
    parser.add_argument(
        "--memory", type=int, default=0, metavar="COPIES", help="peak memory with so many copies of the corpus instead"
    )
    parser.add_argument("--grow", type=int, default=0, metavar="DOCUMENTS", help="as many documents of the same shape, see `grow`")
    parser.add_argument("--transform", action="store_true", help="documents a second whose topics are found, one thread")
    parser.add_argument("--speedup", action="store_true", help="wall seconds of an iteration with one and with --threads threads")
    options = parser.parse_args()
    if options.memory:
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        for K in options.topics:
            for name in ["tallies", *options.rivals]:
                with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                    peak = pool.submit(peak_memory, name, options.data, K, options.memory).result()
                print(f"K={K} {name:9s} peak {peak:.0f} MB with {options.memory} copies of the corpus", flush=True)
        return
    X, T = read(options.data)
    if options.grow:
        X, T = grow(X, options.grow)
    n_tokens = int(X.data.sum())
    alpha = options.alpha if options.alpha == "auto" else float(options.alpha)
    print(
        f"{X.shape[0]} documents, {X.shape[1]} words, {n_tokens} tokens; held out {T.shape[0]} documents; threads {options.threads}"
    )

    if options.transform:
        for K in options.topics:
            transform_rates(X, T, K, options.rivals)
        return

    if options.speedup:
        for K in options.topics:
            one, several = speed_up(X, K, max(options.threads, 2), alpha, options.beta).values()
            print(
                f"K={K} one thread {one:.4f} s, {max(options.threads, 2)} threads {several:.4f} s an iteration: {one / several:.2f}"
            )
        return

    for K in options.topics:
        compare(X, T, K, options.rivals, options.marks, options.seeds, options.threads, alpha, options.beta)


if __name__ == "__main__":
    main()
