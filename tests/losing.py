"""Kill a worker of a Dask cluster at random moments of fits, and see that each ends with the bits of a fit that nobody disturbed:
`python tests/losing.py --kills 20`.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import tallies
from contract import CASES, Case

HANGS = 60.0  # seconds after which a fit is said to hang
QUICK = {"distributed.comm.timeouts.connect": "3s"}  # to see that a worker is gone; by default 30 s, which a fit then waits
PARTS, ROWS, MOST = 3, 150, 30  # shards, rows, sweeps of a stage: enough for a death in the middle


def texts(rng: Any, rows: int) -> dict[str, Any]:
    """Texts of some sentences and their authors, in files; workers look them up."""
    import pandas as pd

    concepts = tallies.Ontology(
        ["x", "y", "z"], ["cell death", "gene expression", "heart muscle"], synonyms=[["apoptosis"], [], []]
    )
    words = ["cell", "death", "gene", "expression", "heart", "muscle", "apoptosis", "was", "seen", "in", "mice", "under", "light"]
    folder = Path(tempfile.mkdtemp())
    for part in range(PARTS):
        said = [". ".join(" ".join(rng.choice(words, 8)).capitalize() for _ in range(3)) for _ in range(rows // PARTS)]
        who = [f"Author {a}" for a in rng.integers(9, size=len(said))]
        pd.DataFrame({"text": said, "authors": who}).to_parquet(folder / f"{part}.parquet", index=False, row_group_size=10)
    return {"corpus": str(folder), "concepts": concepts}


def counts(rng: Any, rows: int) -> dict[str, Any]:
    """Counts in files, none of which are held."""
    import pandas as pd

    from tallies.counts import lazily

    lazily.HELD, folder = 0, Path(tempfile.mkdtemp())
    for part in range(PARTS):
        Y = rng.poisson(rng.gamma(2.0, size=(rows // PARTS, 1)) * [1.0, 2.0, 3.0, 2.0]) + 1
        pd.DataFrame(Y, columns=list("abcd")).to_parquet(folder / f"{part}.parquet", index=False, row_group_size=20)
    return {"counts": str(folder)}


FROM_FILES = [
    Case("author-concept from files", lambda: tallies.AuthorConcept(tol=1e-12), texts, lambda model, data: [], {}),
    Case("pln from files", lambda: tallies.PLN(tol=1e-14), counts, lambda model, data: [], {}),
    Case("pln of a rank from files", lambda: tallies.PLN(rank=2, tol=1e-14), counts, lambda model, data: [], {}),
]

# what workers need: they are forks of one process that has it, so that each begins at once
NEED = ("distributed", "numba", "pandas", "scipy.optimize", "scipy.stats", "sklearn.base", "tallies.estimator")


@contextmanager
def cluster(workers: int = 2, **settings: Any) -> Iterator[Any]:
    """A client of some workers. A nanny may fail to bring one back that was killed: for every kill there are new ones."""
    import dask
    import distributed

    usual = {"distributed.worker.multiprocessing-method": "forkserver", "distributed.worker.profile.enabled": False}
    with dask.config.set({**usual, **settings}):
        distributed.utils.get_mp_context().set_forkserver_preload(list(NEED))
        local = distributed.LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0")
        with local, distributed.Client(local) as client:
            client.run(lambda here: __import__("sys").path.insert(0, here), str(Path(__file__).parent))
            yield client


def fit(case: Case, data: dict[str, Any]) -> Any:
    model = case.make()
    model.shard_rows = ROWS // PARTS
    if model.get_params().get("max_iter"):
        model.set_params(max_iter=min(model.max_iter, MOST))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # these fits are short
        return model.fit(**data)


def bits(model: Any) -> list[bytes]:
    from contract import arrays

    return [repr(array.tolist()).encode() if array.dtype == object else array.tobytes() for array in arrays(model.fitted_)]


def disturbed(client: Any, case: Case, seed: int, victims: int = 1) -> tuple[bool, float, float]:
    """Whether a fit, in which some workers die, has the bits of another without; when they died, and how long the fit took then."""
    import numpy as np

    dice, data = random.Random(seed), case.data(np.random.default_rng(seed), ROWS)
    here = bits(fit(case, data))
    found: list[Any] = []

    def work() -> None:
        with tallies.backend(client):
            found.append(bits(fit(case, data)))

    work()  # imports, and compiles
    began = time.monotonic()
    work()
    usual = time.monotonic() - began
    pids = sorted(client.run(os.getpid).values())
    moment = dice.uniform(0, usual)
    thread, began = threading.Thread(target=work, daemon=True), time.monotonic()
    thread.start()
    time.sleep(moment)
    for pid in dice.sample(pids, victims):
        os.kill(pid, signal.SIGKILL)
    thread.join(HANGS)
    took = time.monotonic() - began - moment
    if thread.is_alive():
        print(client.run_on_scheduler(_states))
        raise TimeoutError(f"{case.name} hangs after a worker was killed at {moment:.2f} s (seed {seed})")
    return found == [here] * 3, moment, took


def _states(dask_scheduler: Any) -> Any:
    tasks = [
        (
            key,
            task.state,
            task.processing_on,
            task.worker_restrictions,
            [d.key for d in task.waiting_on or ()],
            list(task.who_has or ()),
        )
        for key, task in dask_scheduler.tasks.items()
    ]
    return tasks, list(dask_scheduler.workers.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    same = 0
    every = [*CASES, *FROM_FILES]
    for kill in range(asked.kills):  # fewer than there are cases: spread over all
        case = every[(int(kill * max(len(every) / asked.kills, 1.0)) + asked.seed) % len(every)]
        with cluster(**QUICK) as client:
            ok, moment, took = disturbed(client, case, asked.seed + kill)
        same += ok
        print(f"{case.name:34} killed at {moment:5.2f} s, ended {took:5.2f} s later: {'same bits' if ok else 'OTHER'}", flush=True)
    print(f"{same} of {asked.kills} with the same bits")
    sys.exit(same != asked.kills)


if __name__ == "__main__":
    main()
