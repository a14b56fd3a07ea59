"""The numbers of every model of the contract, to be compared between machines, versions and settings.

python tests/determinism.py --out here.npz                        # in one place, perhaps with NUMBA_DISABLE_JIT=1 and --rows 30
python tests/determinism.py --out there.npz --threads 4           # in another
python tests/determinism.py --compare here.npz there.npz
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
import tallies
from contract import CASES


def fits(rows: int, threads: int, only: list[str]) -> dict[str, np.ndarray]:
    """What of each fitted model must agree, by the name of its case."""
    found = {}
    for case in CASES:
        if only and case.name not in only:
            continue
        data = case.data(np.random.default_rng(0), rows)
        with warnings.catch_warnings(), tallies.backend("threads", workers=threads):
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)  # NumPy's, of numbers out of range
            model = case.make()
            model.fit(**data)
            found |= {f"{case.name}/{i}": np.asarray(part) for i, part in enumerate(case.view(model, data))}
    return found


def gaps(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> dict[str, float]:
    """The largest difference of each model, relative to the largest number of its array; 0: the same bits, inf: no like array."""
    worst: dict[str, float] = {}
    for key in sorted({*one} | {*other}):
        name = key.rsplit("/", 1)[0]
        x, y = (np.asarray(some.get(key, [None, key])) for some in (one, other))
        if x.shape != y.shape or x.dtype.kind not in "fiub" or y.dtype.kind not in "fiub":
            gap = 0.0 if x.shape == y.shape and (x == y).all() else np.inf
        else:
            x, y = x.astype(float), y.astype(float)
            same = (x == y) | (np.isnan(x) & np.isnan(y))
            gap = 0.0 if same.all() else float(np.abs(x - y)[~same].max() / max(np.abs(x[np.isfinite(x)]).max(initial=0), 1e-300))
        worst[name] = max(worst.get(name, 0.0), gap)
    return worst


def compare(one: str, other: str) -> int:
    """Print the largest difference of each model; how many differ in any bit."""
    worst = gaps(*(dict(np.load(path, allow_pickle=False)) for path in (one, other)))
    for name, gap in worst.items():
        print(f"{name:40} {'same bits' if gap == 0 else f'{gap:.1e}'}")
    return sum(gap > 0 for gap in worst.values())


def main() -> int:
    parser = argparse.ArgumentParser(description="The numbers of every model, to be compared.")
    parser.add_argument("--out")
    parser.add_argument("--compare", nargs=2)
    parser.add_argument("--rows", type=int, default=60)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[])
    words = parser.parse_args()
    if words.compare:
        return compare(*words.compare)
    np.savez(words.out, **fits(words.rows, words.threads, words.only))
    return 0


if __name__ == "__main__":
    sys.exit(main())
