"""Files: round trips, and what damaged, foreign or hostile ones do (nothing but a clear error)."""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tallies
from tallies import storage
from tallies.errors import FileError


class Record(NamedTuple):
    a: Any
    b: Any = None


def types(owner: str) -> list[type]:
    return [Record]


def round_trip(path: Any, value: Any) -> Any:
    storage.write(path, "model", "Test", {"value": value})
    return storage.read(path, "model", types)["value"]


def same(a: Any, b: Any) -> bool:
    if sp.issparse(a):
        return same(a.toarray(), b.toarray())
    if isinstance(a, np.ndarray):
        return (
            isinstance(b, np.ndarray)
            and a.dtype == b.dtype
            and a.shape == b.shape
            and (a.tolist() == b.tolist() or a.tobytes() == b.tobytes())
        )
    if isinstance(a, tuple | list):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    return type(a) is type(b) and (a == b or (a != a and b != b))


leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    hnp.arrays(
        st.sampled_from([np.float64, np.int32, np.bool_, "U3"]), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
    ),
    st.builds(np.float64, st.floats()),
    st.builds(lambda x: np.array([x, "text", None, 1.5], dtype=object), st.text()),
)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.one_of(st.text(max_size=3), st.integers()), inner, max_size=3),
        st.builds(Record, inner, inner),
    ),
    max_leaves=8,
)


@given(trees)
@settings(max_examples=150, deadline=None)
def test_whatever_goes_in_comes_out(tmp_path_factory, tree):
    assert same(round_trip(tmp_path_factory.getbasetemp() / "x", tree), tree)


def test_sparse_round_trip(tmp_path):
    m = sp.random_array((5, 7), density=0.3, rng=np.random.default_rng(0), format="csr")
    assert same(round_trip(tmp_path / "x", Record(m)), Record(m))


def test_rows_of_a_sparse_matrix_never_overlap(tmp_path):
    for pointer in ([0, 2, 0], [0, 2, 1], [0, -1, 2]):
        m = sp.csr_array((2, 3))
        m.data, m.indices, m.indptr = np.ones(2), np.array([0, 1], dtype=np.int32), np.array(pointer, dtype=np.int32)
        with pytest.raises(FileError, match=r"overlap|non-decreasing"):
            round_trip(tmp_path / "file", m)


def test_what_cannot_be_saved_is_refused_and_leaves_the_old_file(tmp_path):
    path = tmp_path / "x"
    storage.write(path, "model", "Test", {"value": 1})
    with pytest.raises(TypeError, match="cannot save a function without pickle"):
        storage.write(path, "model", "Test", {"value": lambda: 0})
    assert storage.read(path, "model", types) == {"value": 1}
    assert os.listdir(tmp_path) == ["x"]


@pytest.fixture
def saved(tmp_path) -> Any:
    path = tmp_path / "model.tallies"
    X = np.random.default_rng(0).normal(size=(30, 3))
    tallies.GDA(covariance="class").fit(X, np.arange(30) % 3).save(path)
    return path


def test_truncated_at_every_length(saved):
    whole = saved.read_bytes()
    for size in [0, 1, 10, *range(50, len(whole), 97), len(whole) - 1]:
        saved.write_bytes(whole[:size])
        with pytest.raises(FileError, match="truncated or damaged"):
            tallies.load(saved)


def test_flipped_bytes_never_pass_silently(saved):
    whole, model = saved.read_bytes(), tallies.load(saved)
    expected = model.predict_proba(np.eye(3))
    for at in range(0, len(whole), 37):
        saved.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            again = tallies.load(saved)
        except FileError:
            continue
        np.testing.assert_array_equal(again.predict_proba(np.eye(3)), expected)  # a byte that nobody reads, such as a time stamp


class Bomb:
    def __reduce__(self) -> Any:
        return (os.mkdir, ("exploded",))


def repack(path: Any, change: Any, compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    tree = json.loads(entries["tree.json"])
    change(tree, entries)
    entries["tree.json"] = json.dumps(tree).encode()
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, body in entries.items():
            archive.writestr(name, body)


def test_no_code_is_run(saved, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def pickled(tree: Any, entries: Any) -> None:
        np.save(tmp_path / "a.npy", np.array([Bomb()], dtype=object), allow_pickle=True)
        entries["0.npy"] = (tmp_path / "a.npy").read_bytes()

    repack(saved, pickled)
    with pytest.raises(FileError):
        tallies.load(saved)
    saved.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(FileError):
        tallies.load(saved)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tree, entries: tree.update(owner="os.system"), "does not have"),
        (lambda tree, entries: tree.update(format=99), "newer format"),
        (lambda tree, entries: tree.update(kind="checkpoint"), "expected a model file"),
        (
            lambda tree, entries: tree["tree"]["$dict"].append(["fitted", {"$dict": [["fit", 1]]}]),
            "is not what a GDA of this version",
        ),
        (
            lambda tree, entries: tree["tree"]["$dict"].append(["fitted", {"$dict": [["__class__", 1]]}]),
            "is not what a GDA of this version",
        ),
        (lambda tree, entries: tree["tree"]["$dict"].append(["fitted", {"$named": ["Popen", {"args": "x"}]}]), "unknown record"),
        (lambda tree, entries: tree["tree"]["$dict"].append(["fitted", {"$eval": "1"}]), "unknown tag"),
        (lambda tree, entries: tree["tree"]["$dict"].append(["fitted", {"$array": "../../etc/passwd"}]), "damaged"),
    ],
)
def test_tampered_files_are_refused(saved, change, message):
    repack(saved, change)
    with pytest.raises(FileError, match=message):
        tallies.load(saved)


def test_compressed_entries_are_refused(saved):
    repack(saved, lambda tree, entries: None, zipfile.ZIP_DEFLATED)
    with pytest.raises(FileError, match="compressed"):
        tallies.load(saved)


def test_foreign_files(tmp_path):
    for name, body in (("a.csv", b"x,y\n1,2\n"), ("b.npz", b""), ("c", os.urandom(300))):
        (tmp_path / name).write_bytes(body)
        with pytest.raises(FileError, match="foreign"):
            tallies.load(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="nothing"):
        tallies.load(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="a folder"):
        tallies.load(tmp_path)


def test_atomic_leaves_nothing_behind(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(RuntimeError), storage.atomic(path) as part:
        part.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0).reshape(3, 4),
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.arange(24.0).reshape(4, 6)[:, ::2],
        np.arange(24.0).reshape(6, 4)[::2],
        np.arange(24).reshape(2, 3, 4).transpose(2, 0, 1),
        np.array(3.0),
        np.zeros((0, 4)),
        np.array(["ab", "c"]),
        np.array([True, False]),
        np.arange(300_000.0),  # in several pieces
        np.asfortranarray(np.arange(300_000.0).reshape(600, 500)),
    ],
    ids=lambda array: f"{array.dtype}-{array.shape}",
)
def test_arrays_are_written_as_numpy_writes_them(array):
    ours, theirs = io.BytesIO(), io.BytesIO()
    storage._write_array(ours, array)
    np.lib.format.write_array(theirs, array, allow_pickle=False)
    assert ours.getvalue() == theirs.getvalue()
