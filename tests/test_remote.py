"""Scratch files of a cluster at a URL: the same bits, nothing left behind, and a sentence where it cannot be used."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

import tallies
from contract import abundances
from tallies import cluster as clusters
from tallies import remote
from tallies.errors import ClusterError, ConvergenceWarning, MissingExtra

pytest.importorskip("distributed", reason="needs tallies[dask]")
pytest.importorskip("fsspec", reason="needs tallies[remote]")
shelves = pytest.importorskip("shelves")


@pytest.fixture
def shelf(cluster, tmp_path):
    """The URL of a new folder, which this process and the workers open by fsspec."""
    shelves.put_up()
    cluster.run(shelves.put_up)
    return f"shelf://{tmp_path / 'shelf'}"


def fitted(**run):
    model = tallies.PLN(max_iter=13)  # what rows keep is written after ten
    model.shard_rows = 75
    with pytest.warns(ConvergenceWarning):
        return model.fit(**abundances(np.random.default_rng(0), 300), **run).covariance_.tobytes()


def test_latents_and_what_is_large_go_to_a_url(cluster, shelf, monkeypatch):
    here, there, seen = fitted(), Path(shelf.removeprefix("shelf://")), []
    monkeypatch.setattr(clusters, "TRAVELS", 1000)

    def look(stage, state):
        seen.append(sum(path.suffix == ".pickle" for path in there.rglob("*")))

    with tallies.backend(cluster, scratch=shelf):
        assert fitted(callback=look) == here
    assert seen[0] > 4  # sources and params
    assert max(seen) > seen[0] + 3  # and latents, one file a shard
    assert not os.listdir(there)


def test_a_url_of_a_folder_is_the_folder(cluster, tmp_path):
    here = fitted()
    for where in (cluster, "threads"):
        with tallies.backend(where, memory=1 if where == "threads" else None, scratch=(tmp_path / "a folder").as_uri()):
            assert fitted() == here
    assert [path.name for path in tmp_path.iterdir()] == ["a folder"]


def test_a_file_is_whole_and_written_once(shelf):
    home = remote.Remote(shelf)
    leaf = home.leaf(".pickle")
    remote.write(b"some", leaf.path)
    remote.write(b"some", leaf.path)  # a task may run twice
    assert remote.read(leaf.path) == b"some"
    folder = Path(home.url.removeprefix("shelf://"))
    assert sorted(os.listdir(folder)) == ["0.pickle", "seen"]
    del leaf
    assert os.listdir(folder) == ["seen"]
    del home
    assert not folder.exists()


def test_what_cannot_be_used_is_told(cluster, tmp_path, monkeypatch):
    X, y = [[0.0], [1.0], [5.0], [6.0]], [0, 0, 1, 1]
    with pytest.raises(ValueError, match="threads map their files, so scratch must be a folder, got 's3://bucket/x'"):
        tallies.backend(scratch="s3://bucket/x").__enter__()
    with pytest.raises(ClusterError, match=r"scratch='nowhere://x' cannot be opened: Protocol not known.*; install what fsspec"):
        tallies.backend(cluster, scratch="nowhere://x").__enter__()
    told = pytest.raises(ClusterError, match=r"worker tcp.* cannot use scratch='memory://x': it does not see the files")
    with told, tallies.backend(cluster, scratch="memory://x"):  # of which every process has its own
        tallies.GDA().fit(X, y)
    shelves.put_up()
    (tmp_path / "file").write_text("")
    told = pytest.raises(ClusterError, match=r"cannot be written to \((NotADirectory|FileExists)Error.*check its name and your")
    with told, tallies.backend(cluster, scratch=f"shelf://{tmp_path}/file"):
        tallies.GDA().fit(X, y)
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingExtra, match=r"s3://bucket/x. needs the package .fsspec., .*\[remote\]"):
        tallies.backend(cluster, scratch="s3://bucket/x").__enter__()
