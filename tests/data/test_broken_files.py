"""Broken files are refused in words that name the file and the place; whatever comes, a reader never dies."""

from __future__ import annotations

import gzip
import json
import sys
import types
from functools import partial

import duckdb
import numpy as np
import pandas as pd
import pytest

from broken_files import campaign
from tallies import read_counts
from tallies.counts.door import read_offsets
from tallies.data.corpus import Corpus
from tallies.data.fasta import read_fasta
from tallies.data.files import read_table, reading
from tallies.data.ontology import Ontology
from tallies.data.output import write_frame
from tallies.errors import DataError, FileError

squeeze = partial(gzip.compress, mtime=0)
MTX = "%%MatrixMarket matrix coordinate integer general\n"


def test_broken_files_of_every_format():
    found = campaign(150, 0)
    assert found["failures"] == []
    assert found["read"] + found["refused"] == 150
    assert found["refused"] > 50


@pytest.mark.parametrize(
    ("reader", "name", "body", "message"),
    [
        (read_table, "t.csv", b"a,b\n1,2\n3\0,4\n", "line 3 of .* NUL byte"),
        (read_table, "t.csv", b"a,b\n1,2\n1,2,3\n", "line 3"),
        (read_table, "t.csv", b"a,b,a\n1,2,3\n", "'a'.* more than once"),
        (read_table, "t.csv.gz", squeeze(b"a,b\n1,2\n" * 999)[:-20], "cannot be read"),
        (read_table, "t.jsonl", b'{"a": 1}\n{"a": 2\n', "line 2 of .* not JSON"),
        (read_table, "t.jsonl", b'{"a": 1}\n[1]\n', "line 2 of .* a list"),
        (read_table, "t.jsonl", b'{"a": 1}\n{"a": [2]}\n', "line 2 of .* 'a'"),
        (read_table, "t.jsonl", b'{"a": 1, "a": 2}\n', "line 1 of .* one name"),
        (read_table, "t.jsonl", b"", "is empty"),
        (read_table, "t.jsonl", b'{"a": ' + b"[" * 99999, "line 1 of .* not JSON"),
        (read_table, "t.parquet", b"PAR1 not really PAR1", "cannot be read"),
        (Corpus.read, "t.jsonl", b'{"text": "one"}\n{"text": "x", "n": ' + b"9" * 5000 + b"}\n", "line 2 of .* not JSON"),
        (Corpus.read, "t.jsonl", b'{"text": "one"}\n{"text": "x", "authors": 3}\n', "record 2 of .* 3 as 'authors'"),
        (Corpus.read, "t.jsonl", b'{"text": ["one"]}\n', "record 1 of .* a list as 'text'"),
        (Corpus.read, "t.csv", b"text,text\na,b\n", "more than once"),
        (Corpus.read, "t.csv", b"id,text\n1,Cells, and genes\n", "line 2 of .* more cells"),
        (Corpus.read, "t.csv", b"id,text\n1,the\n", "no word is left"),
        (Corpus.read, "t.parquet", b"PAR1 not really PAR1", "cannot be read"),
        (Ontology.read, "t.parquet", b"PAR1 not really PAR1", "cannot be read"),
        (Ontology.read, "t.csv", b"id,name,name\na,b,c\n", "more than once"),
        (Ontology.read, "t.csv", b'id,name\na,"b\n', "cannot be read"),
        (Ontology.read, "t.csv", b"word,name\na,b\n", "needs a column 'id'"),
        (Ontology.read, "t.obo", b"[Typedef]\nid: x\n", "no usable term"),
        (Ontology.read, "t.obo.gz", squeeze(b"[Term]\nid: a\nname: b\n" * 9)[:14] + b"\xff" * 40, "damaged gzip"),
        (read_fasta, "t.fasta", b">a\nAC\n>b\nA\0\n", "line 4 of .* no sequence"),
        (read_fasta, "t.fasta", b">a\nAC\n>b\nA\xff\n", "UTF-8, but line 4"),
        (read_fasta, "t.fasta.gz", squeeze(b">a\nAC\n" * 99)[:-12], "cannot be read"),
        (read_counts, "t.mtx", MTX.encode() + b"2 2 1\n1 1 \x003\n", "line 3 of .* NUL byte"),
        (read_counts, "t.mtx", b"%%MatrixMarket matrix array integer general\n1 2\n3\n1\x0b", "line 4 of .* control byte"),
        (read_counts, "t.mtx", MTX.encode() + b"2 2 1\n5 1 3\n", "cannot be read"),
        (read_counts, "t.mtx", MTX.encode() + b"1000000 1000000 1\n1 1 3\n", "too large"),
        (read_counts, "t.mtx.gz", squeeze(MTX.encode() + b"2 2 1\n1 1 3\n")[:-15], "cannot be read"),
        (read_counts, "t.h5ad", b"\x89HDF\r\n\x1a\n and no more", "cannot be read"),
        (read_offsets, "t.csv", b"sample,a,b\ns,1,x\nt,1,2\n", "table of logarithms"),
    ],
)
def test_our_error_with_file_and_place(tmp_path, reader, name, body, message):
    if name.endswith("h5ad"):
        pytest.importorskip("anndata")
    (tmp_path / name).write_bytes(body)
    with pytest.raises((DataError, FileError), match=message) as told:
        reader(str(tmp_path / name))
    assert name in str(told.value)
    assert isinstance(told.value, ValueError)


def test_names_beside_a_matrix_are_text(tmp_path):
    (tmp_path / "t.mtx").write_text(MTX + "1 1 1\n1 1 3\n")
    (tmp_path / "t.rows.txt").write_bytes(b"\xff\n")
    with pytest.raises(DataError, match=r"line 1 of .*t.rows.txt"):
        read_counts(tmp_path / "t.mtx")


def test_a_broken_biom(tmp_path, monkeypatch):
    def load_table(path):
        raise TypeError("no such format")

    monkeypatch.setitem(sys.modules, "biom", types.SimpleNamespace(load_table=load_table))
    (tmp_path / "t.biom").write_text("{")
    with pytest.raises(DataError, match=r"t.biom.* no such format"):
        read_counts(tmp_path / "t.biom")


def test_a_broken_text_in_a_folder(tmp_path):
    (tmp_path / "a.txt.gz").write_bytes(squeeze(b"Cells die." * 99)[:20])
    with pytest.raises(DataError, match=r"a.txt.gz.* cannot be read"):
        Corpus.read(tmp_path)


@pytest.mark.filterwarnings("ignore:.*unique")
def test_two_columns_of_one_name_in_h5ad(tmp_path):
    anndata = pytest.importorskip("anndata")
    data = anndata.AnnData(np.eye(2))
    data.var_names = ["a", "a"]
    data.write_h5ad(tmp_path / "t.h5ad")
    with pytest.raises(DataError, match=r"t.h5ad.* more than once"):
        read_counts(tmp_path / "t.h5ad")


def test_lists_in_the_cells_of_a_table(tmp_path):
    pytest.importorskip("pyarrow")
    pd.DataFrame({"a": [1, 2], "b": [["x"], ["y"]]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"t.parquet.* column 'b' .* row 1"):
        read_table(tmp_path / "t.parquet")


def test_odd_cells_of_texts(tmp_path):
    """Missing texts and names are empty; halves of characters are U+FFFD, as broken bytes are."""
    rows = [{"id": "\ud800", "text": "Cells \ud83d die."}, {"text": float("nan"), "authors": ["Ann", None, float("nan")]}]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    corpus = Corpus.read(tmp_path / "t.jsonl", sentences=True)
    assert corpus.documents.tolist() == ["\ufffd" * 3, "1"]
    assert corpus.authors == [(), ("Ann",)]
    assert "nan" not in corpus.vocabulary
    "".join(corpus.sentences).encode()


def test_dates_in_json_lines_stay_texts(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"date": "2020-01-01", "seen_at": 5}\n')
    assert read_table(tmp_path / "t.jsonl").to_dict("records") == [{"date": "2020-01-01", "seen_at": 5}]


LABELS = ["=1+1", "+x", "-x", "@x", "\tx", "\rx", "'=x", "''-x", "'tis", "x", "-3", "+2.5e-3", "-", "é=", np.nan]


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz"])
def test_labels_are_no_formulas_in_a_spreadsheet(tmp_path, name):
    frame = pd.DataFrame({"=label": LABELS, "kind": pd.Categorical(["=a", "b", "c"] * 5), "value": -np.arange(15.0)})
    write_frame(frame, tmp_path / name)
    body = (tmp_path / name).read_bytes()
    text = (gzip.decompress(body) if name.endswith("gz") else body).decode()
    assert text.lstrip('"').startswith("'=label")
    assert "'=1+1" in text
    assert "'-3" not in text
    assert "''=x" in text
    back = read_table(tmp_path / name)
    pd.testing.assert_frame_equal(back.astype({"kind": "category"}), frame)
    write_frame(frame, tmp_path / name, escape=False)
    body = (tmp_path / name).read_bytes()
    assert b"'=1+1" not in (gzip.decompress(body) if name.endswith("gz") else body)


@pytest.mark.parametrize("error", [duckdb.InterruptException("Interrupted!"), RuntimeError("Query interrupted")])
def test_ctrl_c_in_a_reader_is_no_fault_of_the_file(tmp_path, error):
    with pytest.raises(KeyboardInterrupt), reading(tmp_path / "t.csv", "a table"):
        raise error
