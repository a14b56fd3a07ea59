"""Kill a worker of a Dask cluster at random moments of fits, and see that each ends with the bits of a fit that nobody disturbed:
`python tests/losing.py --kills 20`.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
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


def disturbed(client: Any, case: Case, seed: int) -> tuple[bool, float, float]:
    """Whether a fit, in which a worker dies, has the bits of another without; when it died, and how long the fit took then."""
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
    os.kill(dice.choice(pids), signal.SIGKILL)
    thread.join(HANGS)
    took = time.monotonic() - began - moment
    if thread.is_alive():
        print(client.run_on_scheduler(_states))
        raise TimeoutError(f"{case.name} hangs after a worker was killed at {moment:.2f} s (seed {seed})")
    return found == [here] * 3, moment, took


def _states(dask_scheduler: Any) -> Any:
    tasks = [
        (key, task.state, task.processing_on, task.worker_restrictions, [d.key for d in task.waiting_on], list(task.who_has or ()))
        for key, task in dask_scheduler.tasks.items()
    ]
    return tasks, list(dask_scheduler.workers.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    same = 0
    for kill in range(asked.kills):
        case = CASES[(kill + asked.seed) % len(CASES)]
        with cluster(**QUICK) as client:
            ok, moment, took = disturbed(client, case, asked.seed + kill)
        same += ok
        print(f"{case.name:34} killed at {moment:5.2f} s, ended {took:5.2f} s later: {'same bits' if ok else 'OTHER'}", flush=True)
    print(f"{same} of {asked.kills} with the same bits")
    sys.exit(same != asked.kills)


if __name__ == "__main__":
    main()
