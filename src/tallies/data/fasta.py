"""Alignments from FASTA files (also A2M, A3M and .gz): one row a sequence, one column a site."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd

from tallies.data.files import open_bytes, reading
from tallies.errors import DataError, need_file

SUFFIXES = (".fasta", ".fa", ".a2m", ".a3m", ".aln")


def is_alignment(path: str | Path) -> bool:
    """Whether the name of a file says that it is one.

    >>> is_alignment("genes.fasta.gz"), is_alignment("genes.csv")
    (True, False)
    """
    return str(path).lower().removesuffix(".gz").endswith(SUFFIXES)


def read_fasta(path: str | Path) -> pd.DataFrame:
    """Read an alignment; rows are named by the first word of each header, columns by their place from 1 on.

    Lower-case letters and dots mark insertions (A2M, A3M) and are left out, unless the whole file is lower case.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "small.fasta")
    >>> _ = open(path, "w").write(">one first\\nAC\\n-T\\n>two\\nACaGT\\n")
    >>> read_fasta(path).loc["two"].tolist()
    ['A', 'C', 'G', 'T']
    """
    path = need_file(path, "an alignment")
    names: list[str] = []
    parts: list[list[str]] = []
    with reading(path, "FASTA"), io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig") as file:
        for number, raw in enumerate(file, 1):
            line = raw.strip()
            if line.startswith(">"):
                names.append(line[1:].split()[0] if line[1:].split() else str(len(names) + 1))
                parts.append([])
            elif line and not line.startswith(";"):
                if not parts:
                    raise DataError(f"{str(path)!r} is no FASTA file: line {number} comes before any header, which begins with '>'")
                if not line.replace("\t", " ").isprintable():
                    raise DataError(f"line {number} of {str(path)!r} is no sequence: {line[:40]!r}; expected letters and '-'")
                parts[-1].append(line)
    if not names:
        raise DataError(f"{str(path)!r} holds no sequence; expected lines that begin with '>', each followed by letters")
    texts = ["".join("".join(lines).split()) for lines in parts]
    if any(letter.isupper() for text in texts for letter in text):
        texts = ["".join(letter for letter in text if not letter.islower() and letter != ".") for text in texts]
    lengths = [len(text) for text in texts]
    if min(lengths) != max(lengths) or not lengths[0]:
        i = next((k for k, length in enumerate(lengths) if length != lengths[0]), 0)
        raise DataError(
            f"an alignment has sequences of one length, but in {str(path)!r} {names[0]!r} has {lengths[0]} sites "
            f"and {names[i]!r} has {lengths[i]}; align them first"
        )
    table = np.array([list(text) for text in texts], dtype=object)
    return pd.DataFrame(table, index=names, columns=[str(j + 1) for j in range(lengths[0])])
