"""Break files of every format that is read, and read them: `python tests/broken_files.py --files 4000`.

A small whole file of each format is changed in one to three places: bytes, lines, numbers, encoding, length or suffix. Reading it
must give a table, or an error of ours that names the file; no other exception, no death, no hang. Forks do the work, so that a
crash is seen and counted.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import os
import resource
import signal
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.io
import scipy.sparse as sp

import tallies
from tallies.data.corpus import Corpus
from tallies.data.fasta import read_fasta
from tallies.data.files import read_table
from tallies.data.ontology import Ontology
from tallies.errors import DataError, FileError

BATCH, SECONDS, MEMORY = 50, 20, 4 << 30  # files a fork, seconds of the processor for one file, bytes that a fork may ask for
NUMBERS = [
    b"1e400",
    b"-1",
    b"1e308",
    b"9" * 30,
    b"9" * 5000,
    b"1000000000000",
    b"nan",
    b"-inf",
    b"0x10",
    b"2147483648",
    b"\xc2\xb2",
]
WORDS = [
    b"",
    b"\0",
    b'"',
    b"'",
    b",",
    b"\t",
    b"\r",
    b"\n\n",
    b"{",
    b"[" * 3000,
    b"null",
    b"\\ud800",
    b"\xff\xfe",
    b">",
    b"=1+1",
    b"%",
]
TABLE = "name,size,colour,count\n" + "".join(f"s{i},{i / 7:.3f},{'red' if i % 3 else 'blué'},{i * i % 11}\n" for i in range(12))
COUNTS = "sample,oak,elm,ash\n" + "".join(f"s{i},{i % 5},{i * 3 % 7},{i % 2}\n" for i in range(9))
TEXTS = [{"id": f"d{i}", "text": "Cells die. Genes act, and naïve cats sat.", "authors": ["Ann", "Bob"]} for i in range(6)]
OBO = """format-version: 1.2

[Term]
id: GO:1
name: cell death
def: "The end of a cell." [x:1]
synonym: "apoptosis" EXACT []

[Term]
id: GO:2
name: naïve gene
is_a: GO:1 ! cell death
alt_id: GO:7

[Term]
id: GO:3
name: old
is_obsolete: true
replaced_by: GO:2
"""
CONCEPTS = "id,name,definition,synonyms,parents\na,animal,A living thing.,beast|creature,\nb,bird,It flies.,fowl,a\nc,cat,,,a;b\n"
FASTA = "".join(f">seq{i} first\nACGT-ACG\nTTGA{'ACGT'[i % 4]}\n" for i in range(5))
LIBRARIES = {"parquet": "pyarrow", "h5ad": "anndata", "biom": "biom"}
Reader = Callable[[str], Any]


def sentences(path: str) -> Corpus:
    return Corpus.read(path, sentences=True)


def whole_files(folder: Path) -> tuple[dict[str, tuple[bytes, Reader]], list[str]]:
    """Whole files by their names, each with its reader, and the suffixes left out since their libraries are absent."""
    lines = "".join(json.dumps(text) + "\n" for text in TEXTS)
    rows = "".join(f'{{"a": {i}, "b": "x{i % 2}", "when": "2020-01-0{i + 1}"}}\n' for i in range(8))
    flat = "id,text,authors\n" + "".join(f'd{i},"Cells die, genes act.",Ann; Bob\n' for i in range(6))
    texts: list[tuple[str, str, Reader]] = [
        ("table.csv", TABLE, read_table),
        ("table.tsv", TABLE.replace(",", "\t"), read_table),
        ("rows.jsonl", rows, read_table),
        ("counts.csv", COUNTS, tallies.read_counts),
        ("texts.jsonl", lines, sentences),
        ("texts.csv", flat, sentences),
        ("go.obo", OBO, Ontology.read),
        ("concepts.csv", CONCEPTS, Ontology.read),
        ("small.fasta", FASTA, read_fasta),
    ]
    matrix = sp.coo_array(np.arange(12).reshape(4, 3) % 5)
    scipy.io.mmwrite(folder / "m.mtx", matrix)
    scipy.io.mmwrite(folder / "full.mtx", matrix.toarray())
    texts += [(name, (folder / name).read_text(), tallies.read_counts) for name in ("m.mtx", "full.mtx")]
    found: dict[str, tuple[bytes, Reader]] = {name: (text.encode(), reader) for name, text, reader in texts}
    found |= {f"{name}.gz": (gzip.compress(body), reader) for name, (body, reader) in found.items()}
    absent = [
        f".{kind} ({module})"
        for kind, module in (("parquet", "pyarrow"), ("h5ad", "anndata"), ("biom", "biom"))
        if not _has(module)
    ]
    frames = {"p.parquet": (pd.DataFrame({"a": [1, 2, 3], "b": ["x", "é", None]}), read_table)}
    frames |= {"papers.parquet": (pd.DataFrame(TEXTS), sentences)}
    frames |= {"terms.parquet": (pd.DataFrame({"id": ["a", "b"], "name": ["cat", "tabby"], "parents": ["", "a"]}), Ontology.read)}
    for name, (frame, reader) in frames.items() if _has("pyarrow") else ():
        frame.to_parquet(folder / name)
        found[name] = (folder / name).read_bytes(), reader
    if _has("anndata"):
        import anndata

        for name, X in (("c.h5ad", np.arange(6.0).reshape(3, 2)), ("s.h5ad", sp.csr_matrix(np.eye(3)))):
            anndata.AnnData(X).write_h5ad(folder / name)
            found[name] = (folder / name).read_bytes(), tallies.read_counts
    if _has("biom"):
        from biom import Table

        (folder / "t.biom").write_text(Table(np.arange(6.0).reshape(3, 2), list("abc"), list("xy")).to_json("test"))
        found["t.biom"] = (folder / "t.biom").read_bytes(), tallies.read_counts
    return found, absent


def _has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def change_bytes(body: bytes, rng: np.random.Generator) -> bytes:
    """Bytes that are not quite what they were."""
    at, way = int(rng.integers(len(body) + 1)), rng.integers(6)
    if way == 0:
        some = bytearray(body)
        for i in rng.integers(max(len(some), 1), size=rng.integers(1, 9)) if some else ():
            some[i] ^= 1 << rng.integers(8)
        return bytes(some)
    if way == 1:
        return body[:at]
    if way == 2:
        return body[:at] + b"\0" * int(rng.integers(1, 5)) + body[at + 1 :]
    if way == 3:
        return body[:at] + body[at + int(rng.integers(1, 60)) :]
    if way == 4:
        return body[:at] + rng.bytes(int(rng.integers(1, 9))) + body[at:]
    end = min(len(body), at + int(rng.integers(1, 200)))
    return body[:end] + body[at:end] + body[end:]


def change_lines(body: bytes, rng: np.random.Generator) -> bytes:
    """A text with lines doubled, cut, moved or left out, with huge numbers and strange words, or in another encoding."""
    lines = body.split(b"\n")
    i, j, way = int(rng.integers(len(lines))), int(rng.integers(len(lines))), rng.integers(8)
    if way == 0:
        lines.insert(i, lines[j])
    elif way == 1:
        lines[i] = lines[i][: rng.integers(len(lines[i]) + 1)]
    elif way == 2:
        del lines[i]
    elif way == 3:
        lines[i], lines[j] = lines[j], lines[i]
    elif way == 4:
        whole = body.decode(errors="replace")
        return whole.encode(["utf-16", "latin-1", "utf-16-le", "utf-32", "utf-8-sig", "cp500"][rng.integers(6)], "replace")
    elif way == 5:
        digits = [k for k in range(len(body)) if body[k : k + 1].isdigit()]
        at = digits[rng.integers(len(digits))] if digits else 0
        return body[:at] + NUMBERS[rng.integers(len(NUMBERS))] + body[at + 1 :]
    else:
        at = int(rng.integers(len(body) + 1))
        return body[:at] + WORDS[rng.integers(len(WORDS))] + body[at:]
    return b"\n".join(lines)


def broken(files: dict[str, tuple[bytes, Reader]], seed: int) -> tuple[str, bytes, Reader]:
    """Name, body and reader of a broken file."""
    rng = np.random.default_rng(seed)
    names = list(files)
    name = names[rng.integers(len(names))]
    body, reader = files[name]
    if rng.random() < 0.04:
        return name, b"", reader
    if rng.random() < 0.08:  # what another suffix promises
        other = names[rng.integers(len(names))]
        return other, body, files[other][1]
    squeezed = name.endswith(".gz") and rng.random() < 0.7
    body = gzip.decompress(body) if squeezed else body
    text = squeezed or not name.endswith((".gz", ".parquet", ".h5ad"))
    for _ in range(rng.integers(1, 4)):
        body = (change_lines if text and rng.random() < 0.6 else change_bytes)(body, rng)
    return name, gzip.compress(body) if squeezed else body, reader


def use(path: str, reader: Reader) -> str:
    """Read a file; what came of it."""
    try:
        reader(path)
    except (DataError, FileError) as error:
        return "refused" if path in str(error) else f"an error without the name of the file: {error}"
    return "read"


def batch(files: dict[str, tuple[bytes, Reader]], seeds: list[int]) -> tuple[Counter[str], list[tuple[int, str, str]]]:
    """Some files in a fork; where it dies, the rest in another."""
    counts: Counter[str] = Counter()
    failures = []
    while seeds:
        log = Path("log")
        log.write_text("")
        pid = os.fork()
        if pid == 0:
            _child(files, seeds, log)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        lines = log.read_text().splitlines()
        good = [line for line in lines if line in ("read", "refused")]
        counts.update(good)
        if code != 0:
            told = next((line for line in lines if line not in ("read", "refused")), f"died of signal {-code}")
            failures.append((seeds[len(good)], broken(files, seeds[len(good)])[0], told))
        seeds = seeds[len(good) + (code != 0) :]
    return counts, failures


def _child(files: dict[str, tuple[bytes, Reader]], seeds: list[int], log: Path) -> None:
    """Read the files of these seeds, note what came of each, and end."""
    told = "read"
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        warnings.simplefilter("ignore")
        size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY + size, MEMORY + size))
        for seed in seeds:
            signal.setitimer(signal.ITIMER_PROF, SECONDS)  # its signal ends the fork
            name, body, reader = broken(files, seed)
            Path(name).write_bytes(body)
            told = use(name, reader)
            if told not in ("read", "refused"):
                break
            with log.open("a") as file:
                file.write(f"{told}\n")
    except BaseException as error:
        told = f"{type(error).__name__}: {str(error)[:200]!r}"
    if told in ("read", "refused"):
        os._exit(0)
    log.write_text(log.read_text() + " ".join(told.split()) + "\n")
    os._exit(1)


def campaign(files: int, seed: int) -> dict[str, Any]:
    home = os.getcwd()
    counts: Counter[str] = Counter()
    failures = []
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        try:
            whole, absent = whole_files(Path(name))
            for path, (body, reader) in whole.items():  # and every library is loaded before the forks
                Path(path).write_bytes(body)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    assert use(path, reader) == "read", path
            for first in range(seed, seed + files, BATCH):
                some, bad = batch(whole, list(range(first, min(first + BATCH, seed + files))))
                counts += some
                failures += bad
        finally:
            os.chdir(home)
    return {"files": files, **counts, "left_out": absent, "failures": failures}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--files", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    result = campaign(**vars(parser.parse_args()))
    print(json.dumps(result))
    sys.exit(bool(result["failures"]))
