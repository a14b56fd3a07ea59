"""Texts in files as bags of words: cut into words and counted once, then written as shards of shuffled documents.

No more than a piece of the texts, the words of one piece, or a shard is ever in memory; besides those, the vocabulary that is
chosen, and a number for each document. Words are first counted piece by piece, each with a vocabulary of its own; DuckDB adds these
up, and may go to disk; then the counts of each piece are dealt out to the shards.

A folder of such shards has `words.utf8` (the vocabulary, a word a line), `sums.npz` (how often each occurs, and how many documents
have each length), a file for each shard, and `manifest.json`, which is written last.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import numpy as np
import scipy.sparse as sp

from tallies.data import prepared
from tallies.data.corpus import LOOKED_AT, Counting, Cutting, bounds, cutting, no_word
from tallies.data.files import KINDS, reading
from tallies.data.lazy import Piece, cut_rows, files_in, is_lazy
from tallies.data.output import write_frame
from tallies.data.parquet import column, database, is_nested, listed, rows_of, types_of
from tallies.data.text import NoTexts, read_documents
from tallies.disk import atomic
from tallies.errors import DataError, nearest
from tallies.mapped import HEADERS, SCRATCH, Home, Scratch
from tallies.maths import pointer
from tallies.phases import phase

TEXTS = 8 << 20  # bytes of text of a piece: cut into words it takes ten times as much
TOKENS = 8 << 20  # tokens of a shard: what all shards cost beside their tokens is then a small part
STORIES = 1_000  # .txt files that are held at once
HALF = ".counting"  # folder of what is made on the way


class Bag(NamedTuple):
    """A source: the counts of some documents."""

    home: Home
    file: str
    first: int  # documents in the shards before this one
    documents: int
    sha256: str

    def load(self) -> tuple[np.ndarray, sp.csr_array]:
        """The rows of the documents in the data, and their counts (documents x words)."""
        with HEADERS, np.load(os.path.join(self.home.path, self.file)) as parts:
            counts = (parts["data"].astype(np.int64), parts["indices"], parts["indptr"])
            return parts["rows"], sp.csr_array(counts, shape=(self.documents, int(parts["words"])))


class Bags(NamedTuple):
    """A corpus in files."""

    vocabulary: np.ndarray  # (V,)  the words, sorted
    frequency: np.ndarray  # (V,)  tokens of each
    lengths: np.ndarray  # (L+1,)  documents of each length
    bags: list[Bag]
    language: str | None


class Texts(NamedTuple):
    """A column of texts in Parquet files."""

    name: str
    pieces: list[Piece]
    cell: str  # the column in SQL
    others: list[str]  # columns of the table besides
    home: Any  # folder of files that were made of others

    def read(self) -> Iterator[list[str]]:
        """The texts of each piece; "" where there is none."""
        for piece in self.pieces:
            yield texts_in(piece, self.cell)


def texts_in(piece: Piece, cell: str) -> list[str]:
    """The texts of a piece."""
    return [text or "" for text in piece.columns(cell)["text"]]


def in_files(X: Any) -> bool:
    """Whether X are texts that are not to be read whole: a folder of tables, or of shards, a large file, a lazy frame, a dataset.

    >>> in_files(["a text"]), in_files("texts.jsonl")
    (False, False)
    """
    if isinstance(X, Bags):
        return True
    return is_lazy(X) and not _are_stories(X)


def _are_stories(X: Any) -> bool:
    """Whether X is a folder of .txt files, which are texts themselves, and no tables."""
    if not isinstance(X, str | os.PathLike) or not os.path.isdir(X):
        return False
    return {Path(file.name.lower().removesuffix(".gz")).suffix for file in Path(X).rglob("*")} & KINDS.keys() == {".txt"}


def is_prepared(X: Any) -> bool:
    """Whether X is a folder of shards."""
    return isinstance(X, str | os.PathLike) and prepared.kind_of(Path(X)) == "texts"


def open_bags(X: Any, text: str = "text", shards: int | None = None, **words: Unpack[Counting]) -> Bags:
    """The corpus: shards as they are, or texts, which are counted into a folder that does not last; see `in_files`."""
    if isinstance(X, Bags):
        return X
    if is_prepared(X):
        prepared.check(Path(X))
        return open_shards(Home(os.path.abspath(X)))
    home = Scratch(SCRATCH.get())
    folder = count(X, os.path.join(home.folder.name, "bags"), text, shards, **words)
    return open_shards(Home(str(folder), home))


def open_shards(home: Home) -> Bags:
    """The corpus of a folder of shards."""
    folder, about = Path(home.path), prepared.manifest(Path(home.path))
    vocabulary = np.array((folder / "words.utf8").read_text(encoding="utf-8").split("\n"), dtype=object)
    entries = [entry for entry in about["files"] if "documents" in entry]
    first = pointer([entry["documents"] for entry in entries])
    bags = [Bag(home, e["file"], int(a), e["documents"], e["sha256"]) for e, a in zip(entries, first, strict=False)]
    with np.load(folder / "sums.npz") as sums:
        return Bags(vocabulary, sums["frequency"], sums["lengths"], bags, about["language"])


@phase("counting words, choosing the vocabulary")
def count(
    X: Any,
    out: str | os.PathLike,
    text: str = "text",
    shards: int | None = None,
    *,
    min_df: int | float = 1,
    max_df: int | float = 1.0,
    **words: Any,
) -> Path:
    """Count the words of a column of texts into a folder of shards, as `Corpus.read` counts them. What a run that was stopped has
    counted is not counted again.

    >>> import tempfile
    >>> home = Path(tempfile.mkdtemp())
    >>> _ = (home / "fruit.csv").write_text("text\\nApples and pears\\nPears and plums\\n")
    >>> sorted(path.name for path in count(home, home / "counted").iterdir())
    ['000000.npz', 'manifest.json', 'sums.npz', 'words.utf8']
    """
    if words.pop("vocabulary", None) is not None:
        raise DataError("the words of texts in files are those that occur; choose them with min_df and max_df, not vocabulary")
    out = Path(out)
    prepared.check_free(out, "texts")
    texts = open_texts(X, text)
    cut = cutting(list(islice((text for part in texts.read() for text in part), LOOKED_AT)), **words)
    # where files were made of others, that their sizes are the same must do
    stamps = [[piece.first, piece.stop, piece.stamp[0], texts.home is None and piece.stamp[1]] for piece in texts.pieces]
    of: dict[str, Any] = {"column": text, "pieces": stamps, "cut": [sorted(cut.skip), cut.language, *cut[2:]]}
    of |= {"min_df": min_df, "max_df": max_df, "shards": shards}
    if prepared.manifest(out).get("of") == of:
        prepared.check(out)
        return out
    half = out / HALF
    if not (half / "of.json").is_file() or (half / "of.json").read_text() != json.dumps(of):
        shutil.rmtree(half, ignore_errors=True)
        half.mkdir(parents=True)
        (half / "of.json").write_text(json.dumps(of))
    D = _count_pieces(texts, cut, half)
    vocabulary, frequency, maps = _choose(half, len(texts.pieces), D, min_df, max_df)
    return write_shards(out, maps, D, shards, Chosen(vocabulary, frequency, cut.language), of)


class Chosen(NamedTuple):
    """The words of a corpus."""

    vocabulary: np.ndarray  # (V,)
    frequency: np.ndarray  # (V,)  tokens of each
    language: str | None


def write_shards(out: Path, maps: list[Path], D: int, shards: int | None, words: Chosen, of: dict[str, Any]) -> Path:
    """Write the shards of D documents, of which pieces were counted into a folder below `out`; `of`: what they were made of."""
    half, tokens, V = out / HALF, int(words.frequency.sum()), len(words.vocabulary)
    size = -(-D // min(shards or max(1, round(tokens / TOKENS)), D))
    lengths = _deal(half, maps, D, size, V)
    entries = _finish(half, out, D, size, V)
    with atomic(out / "words.utf8") as part:
        part.write_text("\n".join(words.vocabulary), encoding="utf-8", newline="\n")
    with atomic(out / "sums.npz") as part, open(part, "wb") as file:
        np.savez(file, frequency=words.frequency, lengths=lengths)
    entries += [prepared.entry(out, name) for name in ("words.utf8", "sums.npz")]
    prepared.write(out, entries, kind="texts", of=of, language=words.language, documents=D, tokens=tokens)
    shutil.rmtree(half)
    return out


def _stories(folder: str | os.PathLike) -> tuple[str, list[str], Any]:
    """A folder of .txt files as tables of `id` and `text`, as `lazy.files_in` gives those of tables."""
    import pandas as pd

    home, paths, documents = Scratch(SCRATCH.get()), list[str](), read_documents(Path(folder))
    while some := list(islice(documents, STORIES)):
        paths.append(os.path.join(home.folder.name, f"{len(paths):06d}.parquet"))
        write_frame(pd.DataFrame({"id": [one.id for one in some], "text": [one.text for one in some]}), paths[-1])
    return str(folder), paths, home


def open_texts(X: Any, text: str) -> Texts:
    """A column of texts, and where to cut it."""
    name, paths, home = _stories(X) if _are_stories(X) else files_in(X)
    with reading(name, "texts"), database() as base:
        types = types_of(base, f"read_parquet({listed(paths)}, union_by_name = true)")
        if text not in types:
            raise NoTexts(f"{name!r} has no column {text!r}; name that of the texts with text= (--text): {nearest(text, types)}")
        if is_nested(types[text]):
            raise DataError(f"the column {text!r} of {name!r} holds {types[text]}; expected texts")
        sizes = "SELECT file_name, row_group_id, min(row_group_num_rows), sum(total_uncompressed_size) FILTER (path_in_schema = ?)"
        groups = f"{sizes} FROM parquet_metadata({listed(paths)}) GROUP BY ALL ORDER BY file_name, row_group_id"
        about = base.execute(groups, [text]).fetchall()
        alike = rows_of(base, paths, types)
    rows, size = sum(row[2] for row in about), sum(row[3] or 0 for row in about)
    if not rows:
        raise DataError(f"{name!r} has columns but no rows; there is nothing to work on")
    pieces = cut_rows([row[:3] for row in about], max(1, TEXTS * rows // max(size, 1)), home, alike)
    return Texts(name, pieces, f"CAST({column(text)} AS VARCHAR) AS text", [other for other in types if other != text], home)


def _count_pieces(texts: Texts, cut: Cutting, half: Path) -> int:
    """Write the counts of each piece, with a vocabulary of its own; the number of documents."""
    D = 0
    for k, piece in enumerate(texts.pieces):
        file = half / f"{k:06d}.npz"
        if not file.is_file():
            place: dict[str, int] = {}
            ends, codes = [0], np.empty(0, dtype=np.int32)
            parts = []
            for text in texts_in(piece, texts.cell):
                found = [place.setdefault(word, len(place)) for word in cut.words(text)]
                parts.append(np.array(found, dtype=np.int32))
                ends.append(ends[-1] + len(found))
            codes = np.concatenate([codes, *parts])
            counts = sp.csr_array((np.ones(len(codes), dtype=np.int32), codes, np.array(ends)), shape=(len(parts), len(place)))
            counts.sum_duplicates()
            names = np.frombuffer("\n".join(place).encode(), dtype=np.uint8)
            with atomic(file) as part, open(part, "wb") as stream:
                np.savez(stream, indptr=counts.indptr, indices=counts.indices, data=counts.data, names=names)
        D += piece.stop - piece.first
    return D


def _piece(half: Path, k: int) -> tuple[sp.csr_array, list[str]]:
    with np.load(half / f"{k:06d}.npz") as parts:
        text = parts["names"].tobytes().decode()
        names = text.split("\n") if text else []
        counts = (parts["data"], parts["indices"], parts["indptr"])
        width = len(names) or int(parts["indices"].max(initial=-1)) + 1  # rows of cells have the columns of all, and no names here
        return sp.csr_array(counts, shape=(len(parts["indptr"]) - 1, width)), names


def _choose(half: Path, n: int, D: int, min_df: int | float, max_df: int | float) -> tuple[np.ndarray, np.ndarray, list[Path]]:
    """The words that stay, sorted, how often each occurs, and for every piece a file with the places of its words among them."""
    import pandas as pd

    least, most = bounds(D, min_df, max_df)
    with database() as base:
        base.execute("CREATE TABLE seen (piece INTEGER, code INTEGER, word VARCHAR, documents BIGINT, tokens BIGINT)")
        for k in range(n):
            counts, names = _piece(half, k)
            size = {"minlength": len(names)}
            sums = {"documents": np.bincount(counts.indices, **size), "tokens": np.bincount(counts.indices, counts.data, **size)}
            base.register("found", pd.DataFrame({"piece": k, "code": np.arange(len(names)), "word": names, **sums}))
            base.execute("INSERT INTO seen SELECT piece, code, word, documents, tokens FROM found")
        totals = "SELECT word, sum(documents) AS documents, sum(tokens)::BIGINT AS tokens FROM seen GROUP BY word"
        some = f"SELECT word, tokens FROM ({totals}) WHERE documents BETWEEN {least!r} AND {most!r}"
        base.execute(f"CREATE TABLE words AS SELECT row_number() OVER (ORDER BY word) - 1 AS place, word, tokens FROM ({some})")
        found = base.execute("SELECT word, tokens FROM words ORDER BY place").fetchnumpy()
        if not len(found["word"]):
            raise no_word(base.execute("SELECT count(DISTINCT word) FROM seen").fetchone()[0], D, min_df, max_df)
        maps = []
        for k in range(n):
            of_piece = f"(SELECT code, word FROM seen WHERE piece = {k})"
            places = base.execute(
                f"SELECT coalesce(place, -1)::INTEGER AS place FROM {of_piece} LEFT JOIN words USING (word) ORDER BY code"
            ).fetchnumpy()["place"]
            maps.append(half / f"{k:06d}.npy")
            np.save(maps[-1], places)
    return np.array(found["word"], dtype=object), np.asarray(found["tokens"], dtype=np.int64), maps


def shuffler() -> np.random.Generator:
    """What shuffles documents, in memory and in files: one shuffle for all seeds, for a resumed fit must find its tokens again."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([0, 0, 0, 0])))


PARTS = {"place": np.int64, "row": np.int64, "n": np.int64, "indices": np.int32, "data": np.int32}


def _deal(half: Path, maps: list[Path], D: int, size: int, V: int) -> np.ndarray:
    """Deal the documents of every piece out to shards of `size` documents; how many documents have each length."""
    for left in half.glob("shard-*"):
        left.unlink()
    places, first, lengths = np.argsort(shuffler().permutation(D)), 0, np.zeros(1, dtype=np.int64)
    for k, path in enumerate(maps):
        counts, _ = _piece(half, k)
        new = np.load(path)[counts.indices]
        stays = new >= 0
        ends = np.concatenate([[0], np.cumsum(stays)])[counts.indptr]
        Y = sp.csr_array((counts.data[stays], new[stays], ends), shape=(counts.shape[0], V))
        of_piece = np.bincount(Y.sum(axis=1))
        lengths = np.bincount(np.arange(len(of_piece)), of_piece, len(lengths)) + np.pad(
            lengths, (0, max(0, len(of_piece) - len(lengths)))
        )
        mine = places[first : first + counts.shape[0]]
        order = np.argsort(mine)
        Y, mine, rows = Y[order], mine[order], first + order
        first += counts.shape[0]
        starts = np.searchsorted(mine, np.arange(0, D + size, size))
        for s in np.flatnonzero(np.diff(starts)):
            a, b = starts[s], starts[s + 1]
            inner = slice(Y.indptr[a], Y.indptr[b])
            found = (mine[a:b], rows[a:b], np.diff(Y.indptr[a : b + 1]), Y.indices[inner], Y.data[inner])
            for name, values in zip(PARTS, found, strict=True):
                with open(half / f"shard-{s}-{name}", "ab") as file:
                    file.write(np.ascontiguousarray(values, dtype=PARTS[name]).tobytes())
    return lengths.astype(np.int64)


def _finish(half: Path, out: Path, D: int, size: int, V: int) -> list[dict[str, Any]]:
    """Write the shards, their documents in order; what the manifest says of each."""
    entries = []
    for s in range(-(-D // size)):
        place, row, n, indices, data = (np.fromfile(half / f"shard-{s}-{name}", dtype=kind) for name, kind in PARTS.items())
        order = np.argsort(place)
        counts = sp.csr_array((data, indices, pointer(n)), shape=(len(n), V))[order]
        name = f"{s:06d}.npz"
        with atomic(out / name) as part, open(part, "wb") as file:
            np.savez(file, rows=row[order], indptr=counts.indptr, indices=counts.indices, data=counts.data, words=V)
        entries.append({**prepared.entry(out, name), "documents": len(n)})
    for left in out.glob("*.npz"):  # of another run
        if left.name not in {entry["file"] for entry in entries}:
            left.unlink()
    return entries
