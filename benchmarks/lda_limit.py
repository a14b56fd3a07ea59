"""What holds back a sweep of LDA: tokens a second of one thread, whole and with parts of its work left out, beside tomotopy's.

    python benchmarks/lda_limit.py acl_medium.npz --grow 64000 [--sweeps 100] [--topics 100] [--no-rival]

At the state after so many sweeps, each the median of five, in turns:

whole     the sweep of a fit
draws     every token draws its topic, and none takes it: what a sampler over lists of topics has to do, with all bookkeeping for nothing
reads     the lists of the words and the counts of the documents are read, and nothing is drawn: what memory allows
tomotopy  one sweep of its own after as many sweeps

A sampler that is exact, and draws every token from its list, cannot be faster than `draws`: its ratio to tomotopy is the most that equal
sweeps can give. How many topics change in a sweep, and how long lists are, is printed beside.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from lda import documents, grow, read

import tallies
from tallies.topics import sampler
from tallies.topics.estimator import LDA
from tallies.topics.kernels import sampling

DRAWN = "            if target < sparse:\n                place = min"
LEFT_OUT = {
    "draws": (DRAWN, f"            n_same += place\n            if n_same >= 0:\n                continue\n{DRAWN}"),
    "reads": (
        "            key += GOLDEN\n",
        "            n_same += np.int64(lists[np.uintp(start)]) + length + n_d[own]\n            if n_same >= 0:\n                continue\n"
        "            key += GOLDEN\n",
    ),
}


def without(name: str, folder: Path) -> Any:
    """The kernels, with what comes after a line left out: the compiler cannot know that the sum never is below 0."""
    source, (before, after) = Path(sampling.__file__).read_text(), LEFT_OUT[name]
    assert source.count(before) == 1, f"{name}: the kernel has other lines now"
    source = source.replace(before, after).replace("    ground = 0.0  #", "    n_same = np.int64(0)\n    ground = 0.0  #")
    path = folder / f"sampling_{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(f"sampling_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def state_of(X: Any, K: int, n_sweeps: int) -> tuple[Any, Any]:
    """Shard and counts after so many sweeps of a fit."""
    found: list[Any] = []

    def look(stage: Any, state: Any) -> None:
        if len(state.objective) == n_sweeps:
            found[:] = stage.sources[0].load(), state.latents[0].counts

    with warnings.catch_warnings(), tallies.backend("threads", workers=1):
        warnings.simplefilter("ignore")
        LDA(n_topics=K, alpha=0.1, beta=0.01, max_iter=n_sweeps, burn_in=n_sweeps, random_state=1).fit(X, callback=look)
    return found[0], found[1]


TOLD = {
    "whole": "does all of its work",
    "draws": "draws a topic for every token, and takes none",
    "reads": "reads lists and counts, and draws nothing",
    "tomotopy": "is tomotopy's, after as many of its own",
}


def limit(X: Any, K: int, n_sweeps: int, rival: bool = True) -> list[dict[str, Any]]:
    """Tokens a second of each kind of sweep, and how many times the rival's."""
    N = int(X.sum())
    shard, counts = state_of(X, K, n_sweeps)
    lists = np.bincount(shard.layout.words, minlength=len(counts.size)) @ counts.size / N
    kinds = {"whole": sampling}
    spent: dict[str, list[float]] = {name: [] for name in ("whole", *LEFT_OUT, "tomotopy")}
    with tempfile.TemporaryDirectory() as folder:
        kinds |= {name: without(name, Path(folder)) for name in LEFT_OUT}
        changed = 0.0
        prior = np.full(K, 0.1, dtype=np.float32), 0.01
        for turn in range(6):
            for name, kernels in kinds.items():
                sampler.sampling = kernels
                before, start = counts.z.copy(), time.process_time()
                sampler.sweeps(shard, counts, prior, turn)
                spent[name].append(time.process_time() - start)
                changed = (before != counts.z).mean() if name == "whole" else changed
                assert name == "whole" or (before == counts.z).all()
        sampler.sampling = sampling
    if rival:
        import tomotopy as tp

        model = tp.LDAModel(k=K, alpha=0.1, eta=0.01, seed=1)
        model.optim_interval = 0
        for words in documents(X):
            model.add_doc(words)
        model.train(n_sweeps, workers=1)
        for _ in range(6):
            start = time.process_time()
            model.train(1, workers=1)
            spent["tomotopy"].append(time.process_time() - start)
    print(f"{X.shape[0]} documents, {X.shape[1]} words, {N} tokens, K={K}, after {n_sweeps} sweeps")
    print(f"a token's list has {lists:.1f} topics in the mean; {changed:.0%} of tokens change their topic in a sweep")
    rates = {name: float(N / np.median(times[1:]) / 1e6) for name, times in spent.items() if times}
    rows = [
        {"a sweep that": TOLD[name], "million tokens a second": rate}
        | ({"times tomotopy's": rate / rates["tomotopy"]} if rival else {})
        for name, rate in rates.items()
    ]
    for row in rows:
        print(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--grow", type=int, default=0, metavar="DOCUMENTS")
    parser.add_argument("--sweeps", type=int, default=100)
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--no-rival", action="store_true")
    options = parser.parse_args()
    X, _ = read(options.data)
    if options.grow:
        X, _ = grow(X, options.grow)
    limit(X, options.topics, options.sweeps, not options.no_rival)


if __name__ == "__main__":
    main()
