"""The first second: imports and the first fit of every model on small data, with a cold compiler cache and with a warm one.

`python benchmarks/cold.py`: each fit runs in a process of its own; "cold" has an empty folder for compiled kernels, "warm" the one that the
cold run filled. Seconds of the processor, best of `--runs`; what is over is compiling. No rival: it is our own wait that is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile

SMALL = {  # model -> code that makes data and fits them
    "GDA": "X = rng.normal(size=(150, 4)); fit = lambda: tallies.GDA().fit(X, np.arange(150) % 3).predict(X)",
    "NaiveBayes": "X = rng.normal(size=(150, 4)); fit = lambda: tallies.NaiveBayes().fit(X, np.arange(150) % 3).predict(X)",
    "NaiveBayes of all kinds": (
        "import pandas as pd; c = np.arange(150) % 3; "
        "X = pd.DataFrame({'x': rng.normal(size=150), 'n': rng.poisson(3, 150), 'k': np.array(list('abc'))[rng.permutation(c)]}); "
        "fit = lambda: tallies.NaiveBayes(families={'n': 'poisson'}).fit(X, c).predict_proba(X)"
    ),
    "LDA": "X = rng.poisson(0.3, (200, 300)); fit = lambda: tallies.LDA(n_topics=10, max_iter=60, burn_in=30).fit(X)",
    "PLN": "Y = rng.poisson(np.exp(rng.normal(1, 1, (100, 20)))); fit = lambda: tallies.PLN().fit(Y)",
    "PLN 1000 x 150": "Y = rng.poisson(np.exp(rng.normal(1, 1, (1000, 150)))); fit = lambda: tallies.PLN(max_iter=200).fit(Y)",
    "PLN rank 3": "Y = rng.poisson(np.exp(rng.normal(1, 1, (100, 20)))); fit = lambda: tallies.PLN(rank=3).fit(Y)",
    "PLNNetwork": "Y = rng.poisson(np.exp(rng.normal(1, 1, (100, 20)))); fit = lambda: tallies.PLNNetwork().fit(Y)",
    "PLNMixture": "Y = rng.poisson(np.exp(rng.normal(1, 1, (100, 20)))); fit = lambda: tallies.PLNMixture(n_components=2).fit(Y)",
    "PLNDiscriminant": (
        "Y = rng.poisson(np.exp(rng.normal(1, 1, (100, 20)))); fit = lambda: tallies.PLNDiscriminant().fit(Y, np.arange(100) % 3)"
    ),
    "PLN zero inflation": (
        "Y = rng.poisson(np.exp(rng.normal(1, 1, (100, 20)))); fit = lambda: tallies.PLN(zero_inflation='column').fit(Y)"
    ),
    "FEM": "X, y = tallies.datasets.tic_tac_toe(); fit = lambda: tallies.FEM(degree=2).fit(X, y)",
    "FEMNetwork": "X = rng.integers(0, 3, (300, 8)); fit = lambda: tallies.FEMNetwork().fit(X)",
    "AuthorConcept": (
        "d = tallies.datasets; texts = d.docstrings(['numpy.linalg']).corpus(sentences=True); o = d.ontology(); "
        "fit = lambda: tallies.AuthorConcept().fit(texts, o)"
    ),
    "AuthorConcept, seed": (
        "d = tallies.datasets; texts = d.docstrings(['numpy.linalg']).corpus(sentences=True); o = d.ontology(); "
        "fit = lambda: tallies.AuthorConcept(preset='seed').fit(texts, o)"
    ),
}
CODE = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
import numpy, scipy, sklearn.base, numba
begun = time.process_time()
import numpy as np, tallies, tallies.datasets
getattr(tallies, {name!r})
imported = time.process_time()
rng = np.random.default_rng(0)
{make}
made = time.process_time()
fit()
print(json.dumps([imported - begun, time.process_time() - made]))
"""


def run(model: str, cache: str) -> list[float]:
    """Seconds of our imports, beside those of numpy, scipy, scikit-learn and numba, and of the first fit."""
    code = CODE.format(name=model.split()[0].strip(","), make=SMALL[model])
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "NUMBA_CACHE_DIR": cache}, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{model}: {done.stderr}")
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--models", nargs="+", choices=list(SMALL), default=list(SMALL))
    given = parser.parse_args()
    print("| model | our imports s | first fit, cold s | warm s | compiling s |\n|---|---|---|---|---|")
    for model in given.models:
        found = []
        for _ in range(given.runs):
            with tempfile.TemporaryDirectory() as cache:
                (imports, cold), (_, warm) = run(model, cache), run(model, cache)
                found.append((imports, cold, warm))
        imports, cold, warm = map(min, zip(*found, strict=True))
        print(f"| {model} | {imports:.2f} | {cold:.2f} | {warm:.2f} | {cold - warm:.2f} |", flush=True)


if __name__ == "__main__":
    main()
