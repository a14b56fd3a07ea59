"""A cluster that loses workers, or its client, or cannot be used: the same bits, or a sentence; never a wait without end."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time

import numpy as np
import pytest

import losing
import tallies
from contract import CASES, abundances, gaps
from running import begin, left_in
from tallies import backends, engine, watch, workers
from tallies import cluster as clusters
from tallies.counts import lazily
from tallies.errors import ClusterError
from tallies.sources import Held

pytest.importorskip("distributed", reason="needs tallies[dask]")
# a sample of `make lose`: rows that keep nothing, rows that keep what was drawn, and a constant that all workers load
KILLED = ["fem", "lda", "author-concept mentions"]


@pytest.mark.parametrize("name", KILLED)
def test_a_killed_worker_changes_no_bit(name):
    case = next(case for case in CASES if case.name == name)
    with losing.cluster(**losing.QUICK) as client:
        same, _, took = losing.disturbed(client, case, seed=KILLED.index(name))
    assert same
    assert took < losing.HANGS


def test_all_workers_killed_at_once_change_no_bit():
    """Dask would wait for those that are gone, for ever, though others come."""
    case = next(case for case in CASES if case.name == "lda")
    with losing.cluster(**losing.QUICK) as client:
        same, _, took = losing.disturbed(client, case, seed=1, victims=2)
    assert same
    assert took < losing.HANGS


def test_all_workers_killed_while_a_result_comes_home_change_no_bit():
    """Nothing looked for tasks that wait for those that are gone, once a result was said to be there."""
    case, found = next(case for case in CASES if case.name == "lda"), []
    data = case.data(np.random.default_rng(1), losing.ROWS)
    with losing.cluster(**losing.QUICK) as client:
        gather, pids = client.gather, list(client.run(os.getpid).values())

        def killing(*parts, **more):
            while pids:
                os.kill(pids.pop(), signal.SIGKILL)
            return gather(*parts, **more)

        def work():
            with tallies.backend(client):
                found.append(losing.bits(losing.fit(case, data)))

        client.gather = killing
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(losing.HANGS)
    assert not pids
    assert found == [losing.bits(losing.fit(case, data))]


def test_workers_that_all_wait_for_memory_are_told_of(monkeypatch):
    """Dask pauses one at four fifths of its memory; where libraries and a piece take that, it would never wake."""

    def fill(dask_worker):
        dask_worker.memory_manager.memory_pause_fraction = 1e-6

    monkeypatch.setattr(clusters, "STUCK", 0.5)
    monkeypatch.setattr(clusters, "PAUSED", 1.0)
    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
    with losing.cluster() as client:
        clusters.check(client)
        client.run(fill)
        with tallies.backend(client), pytest.raises(ClusterError, match="all Dask workers have paused, and nothing is in work"):
            tallies.GDA().fit(X, y)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=[] if case.name.startswith("pln") else [pytest.mark.long])
        for case in losing.FROM_FILES[:2]
    ],
)
def test_a_worker_killed_while_data_come_from_files_changes_no_bit(case, monkeypatch):
    """Also one that dies while it looks sentences up, or counts: others write the files anew."""
    monkeypatch.setattr(lazily, "HELD", lazily.HELD)  # which the data of counts change
    with losing.cluster(**losing.QUICK) as client:
        same, _, took = losing.disturbed(client, case, seed=losing.FROM_FILES.index(case))
    assert same
    assert took < losing.HANGS


@pytest.mark.parametrize("common", [True, False])  # whether workers see a folder of this process
def test_what_is_large_goes_by_files_or_through_the_scheduler(cluster, monkeypatch, common):
    data = abundances(np.random.default_rng(0), 300)

    def fitted():
        model = tallies.PLN(max_iter=12)  # what rows keep is written after ten
        model.shard_rows = 75
        return model.fit(**data).covariance_.tobytes()

    here = fitted()
    monkeypatch.setattr(clusters, "TRAVELS", 1000)
    if not common:
        monkeypatch.setattr(clusters, "_common_scratch", lambda client, parent: None)
    with pytest.warns(tallies.errors.ConvergenceWarning), tallies.backend(cluster):
        assert fitted() == here


def test_large_results_come_home_by_files_that_go_at_once(tmp_path):
    given = [((np.arange(600.0), "word", np.ones(2)), 0)]  # an array of more than a page, and what is small
    there = workers.results_of((given, None), str(tmp_path), 4000)
    assert len(list(tmp_path.iterdir())) == 1
    (((first, word, small), size),) = workers.fetched(there)
    assert (first.tolist(), word, small.tolist(), size) == (list(range(600)), "word", [1.0, 1.0], 0)
    assert not list(tmp_path.iterdir())
    for folder, most in ((None, 4000), (str(tmp_path), 5000)):  # nobody shares a folder; they are not large
        assert workers.fetched(workers.results_of((given, None), folder, most)) is given


def rows_of(i, shard, latents):
    return (np.full(1 << 18, float(shard)),), None


def test_large_results_do_not_go_through_the_scheduler(cluster):
    with tallies.backend(cluster):
        place = backends.place([Held(i) for i in range(4)])
    home = []
    place.client = Watched(cluster, home)
    found, _ = place.run(rows_of, [None] * 4)
    assert [its[0][0] for its in found] == [0.0, 1.0, 2.0, 3.0]
    assert len(home) == 4
    assert all(isinstance(its, workers.InFolder) for its in home)


class Watched:
    """A client whose gathered values are noted, and how many messages its tasks took."""

    def __init__(self, client, home):
        self.client, self.home, self.messages = client, home, 0

    def __getattr__(self, name):
        return getattr(self.client, name)

    async def gather(self, parts, asynchronous):
        self.home += (found := await self.client.gather(parts, asynchronous=True))
        return found

    def map(self, *given, **options):
        self.messages += 1
        return self.client.map(*given, **options)


def none(i, shard, latents):
    return (shard,), None


def test_tasks_of_a_worker_go_out_by_one_message_and_few_shards_are_one_where_nothing_is_known(cluster, monkeypatch):
    with tallies.backend(cluster):
        place = backends.place([Held(i) for i in range(33)])
    place.client, tasks = Watched(cluster, []), []
    monkeypatch.setattr(place, "_key", lambda what, key=place._key: tasks.append(what) or key(what))
    assert place.total(none, [None] * 33)[0] == (sum(range(33)),)
    assert tasks.count("none") == 9
    assert place.client.messages == 4  # two workers, what they do and its results
    place.run(none, [None] * 33)  # whose results are not added, and may be large
    assert tasks.count("none") == 9 + 33


def test_sources_that_are_not_small_do_not_go_out_with_every_sweep(cluster):
    with tallies.backend(cluster):
        place = backends.place([Held(np.arange(k)) for k in (1000, 10_000)])
    assert [isinstance(source.value, workers.InFile) for source in place.sources] == [False, True]


def slowly(i, shard, latents):
    time.sleep(0.5)
    return (float(shard),), latents + 1


def test_a_sweep_on_a_cluster_is_dropped_and_the_latents_before_it_stay(cluster):
    with tallies.backend(cluster):
        place = backends.place([Held(i) for i in range(40)])
    before = [np.arange(i) for i in range(40)]
    place.stop = lambda: True
    begun = time.monotonic()
    with pytest.raises(engine.Dropped) as left:
        place.total(slowly, before)
    assert time.monotonic() - begun < 8  # all of it takes ten on two workers; seconds that a busy machine adds
    assert left.value.half is None


def test_half_of_a_sweep_goes_on_upon_a_cluster_with_the_same_bits(cluster):
    def task(i, shard, latents):
        return (shard,), latents + 1

    sources, latents = [Held(x) for x in np.random.default_rng(0).normal(size=(20, 3))], [np.zeros(2)] * 20
    here = backends.Threads(sources)
    whole, _ = here.total(task, latents)
    calls = iter(range(100))
    here.stop = lambda: next(calls) == 11
    with pytest.raises(engine.Dropped) as left:
        here.total(task, latents)
    assert left.value.half.done == 11
    with tallies.backend(cluster):
        there = backends.place(sources)
        total, after = there.total(task, left.value.latents, half=left.value.half)
        assert [its[0] for its in there.collect(after)] == [1.0] * 20
    assert total[0].tobytes() == whole[0].tobytes()


def counted(i, shard, latents):
    return (shard,), latents + 1


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_neighbouring_shards_are_one_task_of_a_cluster_with_the_same_bits(cluster, monkeypatch, size):
    """As many as leave less than a part of a worker's memory; sums of any number are those of one shard a task."""
    sources = [Held(x) for x in np.random.default_rng(0).normal(size=(70, 3)) ** 9]  # whose sums depend on their order
    whole, _ = backends.Threads(sources).total(counted, [np.zeros(2)] * 70)
    with tallies.backend(cluster):
        place = backends.place(sources)
    place.piece, latents, tasks = 16 * size, [np.zeros(2)] * 70, []
    monkeypatch.setattr(place, "_key", lambda what, key=place._key: tasks.append(what) or key(what))
    for sweep in range(3):  # before the first what rows keep is packed, and takes more
        tasks.clear()
        monkeypatch.setattr(clusters, "EVERY", 1 if sweep == 1 else 10)  # written by the second, and read by the third
        total, latents = place.total(counted, latents)
        assert total[0].tobytes() == whole[0].tobytes()
        assert tasks.count("counted") == (-(-70 // size) if sweep else 70)
        assert [its[0] for its in place.collect(latents)] == [sweep + 1.0] * 70
    results, _ = place.run(counted, latents)
    assert np.array(results).tobytes() == np.array([(source.shard,) for source in sources]).tobytes()


@pytest.mark.parametrize("width", [2, 2000])
def test_latents_are_taken_out_of_a_task_where_its_results_are_more_than_little_beside_them(cluster, monkeypatch, width):
    sources = [Held(np.full(3, float(i))) for i in range(5)]
    with tallies.backend(cluster):
        place = backends.place(sources)
    latents, tasks = [np.zeros(width)] * 5, []
    monkeypatch.setattr(place, "_key", lambda what, key=place._key: tasks.append(what) or key(what))
    for sweep in range(3):
        monkeypatch.setattr(clusters, "EVERY", 1 if sweep == 1 else 10)
        monkeypatch.setattr(place, "written", -1e9)
        total, latents = place.total(counted, latents)
        assert total[0].tolist() == [10.0] * 3
        assert [its.tolist() for its in place.collect(latents)] == [[sweep + 1.0] * width] * 5
    assert tasks.count("latents") == (15 if width == 2 else 0)
    assert tasks.count("store") == 5


def test_latents_are_written_where_that_takes_little_beside_the_sweeps_since(monkeypatch):
    place = object.__new__(clusters.Dask)
    place.client, place.written, place.writes = type("Client", (), {"nthreads": lambda self: {"a": 1, "b": 1}})(), 100.0, 0.0
    monkeypatch.setattr(clusters.time, "monotonic", lambda: 121.0)  # 21 seconds later
    assert [place._due(*given) for given in ((10, 4e8, 0), (9, 4e8, 0), (10, 5e8, 0))] == [True, False, False]
    assert [place._due(30, 5e8, sent) for sent in (8 << 20, 9 << 20)] == [False, True]  # 240 MB of params are held, and 270
    place.writes = 6e8  # bytes a second, now that it has been seen
    assert place._due(10, 5e8, 0)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="options of one C library")
def test_a_worker_keeps_pages_that_arrays_leave_behind():
    code = """
import resource
import numpy as np
from tallies import workers

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        np.ones(1 << 17)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

before = faults()
workers._keep_pages()
faults()
print(before, faults())
"""
    child = begin("-c", code, env={**os.environ, "MALLOC_TRIM_THRESHOLD_": "65536"})  # as Dask's nannies have it
    assert child.stdout is not None
    before, after = map(int, child.stdout.read().split())
    child.wait(60)
    if before < 50 * 256:
        pytest.skip("another C library")
    assert after < 1000


def test_a_killed_client_is_resumed_with_the_same_bits(cluster, tmp_path, monkeypatch):
    code = f"""
import sys
import threading
sys.path.insert(0, {os.path.dirname(__file__)!r})
import numpy as np, tallies
from contract import gaps
from tallies import watch
watch.EVERY, watch.PAUSE = 1, 0.0
with tallies.backend({cluster.scheduler.address!r}):
    print("ready", flush=True)
    tallies.GDA(semi_supervised=True, tol=1e-15).fit(
        **gaps(np.random.default_rng(3), 400), checkpoint={str(tmp_path / "c")!r}, callback=lambda *_: print("sweep", flush=True)
    )
"""
    child = begin("-c", code)
    assert child.stdout is not None
    for line in child.stdout:
        if line == "sweep\n" and (tmp_path / "c").exists():
            break
    child.send_signal(signal.SIGKILL)
    child.communicate(timeout=60)
    monkeypatch.setattr(watch, "EVERY", 25)
    data = gaps(np.random.default_rng(3), 400)
    rest = tallies.GDA(semi_supervised=True, tol=1e-15).fit(**data, resume=tmp_path / "c")
    whole = tallies.GDA(semi_supervised=True, tol=1e-15).fit(**data)
    assert rest.n_iter_ == whole.n_iter_ > 3
    assert rest.means_.tobytes() == whole.means_.tobytes()


def test_no_scheduler_is_told_in_seconds(monkeypatch):
    monkeypatch.setattr(clusters, "ANSWERS", 1)
    began = time.monotonic()
    with (
        pytest.raises(ClusterError, match="no Dask scheduler answers at 'tcp"),
        tallies.backend("tcp://127.0.0.1:9"),
    ):
        pass
    assert time.monotonic() - began < 10


def test_what_is_no_scheduler_is_told_in_seconds(monkeypatch):
    """Dask waits for ever for its first words."""
    monkeypatch.setattr(clusters, "ANSWERS", 1)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(ClusterError, match="something is there that is no scheduler"),
        tallies.backend(f"tcp://127.0.0.1:{silent.getsockname()[1]}"),
    ):
        pass


def test_workers_that_cannot_work_are_told(cluster, monkeypatch, tmp_path):
    X, y = [[0.0], [1.0], [5.0], [6.0]], [0, 0, 1, 1]

    def ask(told, **options):
        clusters._checked.discard(cluster)
        with pytest.raises(ClusterError, match=told), tallies.backend(cluster, **options):
            tallies.GDA().fit(X, y)

    with monkeypatch.context() as patch:
        patch.setattr(clusters, "__version__", "0.0.1")
        ask("but here is 0.0.1; install the same version")
    with monkeypatch.context() as patch:
        patch.setattr(clusters, "ABOUT", "__import__('no_such_package')")
        ask("cannot use Tallies .*no_such_package.*; install tallies")
    with monkeypatch.context() as patch:
        patch.setattr(clusters.os.path, "abspath", lambda path: path)
        patch.setattr(clusters, "Scratch", lambda parent: type("S", (), {"folder": type("F", (), {"name": "/no/such/folder"})})())
        ask("does not see the folder scratch=", scratch=str(tmp_path))


def test_a_cluster_without_workers_is_told(monkeypatch):
    import distributed

    monkeypatch.setattr(clusters, "WAIT", 0.5)
    with distributed.LocalCluster(n_workers=0, dashboard_address=":0") as local, distributed.Client(local) as client:
        told = pytest.raises(ClusterError, match="has no worker")
        with told, tallies.backend(client):
            tallies.GDA().fit([[0.0], [1.0]], [0, 1])


def test_tasks_have_names_and_nothing_is_left_behind(cluster, tmp_path):
    def tasks():
        return set(cluster.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks)))

    others, seen = tasks(), set()  # of other tests, whose errors may be held

    def look(stage, state):
        seen.update(key.rsplit("-", 2)[0] for key in tasks() - others)

    model = tallies.PLN(max_iter=12)
    model.shard_rows = 100
    with pytest.warns(tallies.errors.ConvergenceWarning), tallies.backend(cluster, scratch=tmp_path / "scratch"):
        model.fit(**abundances(np.random.default_rng(0), 300), callback=look)
    assert {name for name in seen if name.startswith("tallies")} >= {"tallies-sweep"}
    assert not left_in(tmp_path / "scratch")
    time.sleep(0.5)
    assert not [key for key in tasks() - others if "tallies" in key]


def test_a_worker_keeps_shards_while_there_is_room_and_lets_the_oldest_go(monkeypatch):
    monkeypatch.setattr(workers, "_room", lambda held: 3000)
    loaded, made = workers.Loaded(), []

    def get(i):
        return loaded.get(("fit", i), lambda: made.append(i) or np.zeros(125))  # 1,000 bytes

    for i in (0, 1, 2, 0, 3, 0, 1):  # at 3 there is no room for 1, which was used longest ago
        get(i)
    assert made == [0, 1, 2, 3, 1]
    monkeypatch.setattr(workers, "_room", lambda held: 0)
    assert get(7) is get(7)  # one stays, however large
    assert [key[1] for key in loaded.shards] == [7]
    loaded.get(("another fit", 0), lambda: np.zeros(1))
    assert list(loaded.shards) == [("another fit", 0)]
