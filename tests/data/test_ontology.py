"""Ontology: OBO with everything that goes wrong in it, tables, pairs, and walks along parents."""

import gzip
import time

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tallies.data.corpus import Corpus
from tallies.data.ontology import Ontology
from tallies.errors import DataError, DataWarning, FileError

OBO = """format-version: 1.2
ontology: toy

[Term]
id: T:1
name: process
def: "Anything that \\"happens\\"." [ref:1]

[Term]
id: T:2
name: cell death
alt_id: T:20
def: "The end of a cell." []
synonym: "cell suicide" NARROW []
synonym: "necrosis" EXACT [x:y]
is_a: T:1 ! process

[Term]
id: T:3
name: old thing
is_obsolete: true
replaced_by: T:4

[Term]
id: T:4
name: obsolete too
is_obsolete: true
replaced_by: T:20

[Term]
id: T:5
name: gone
is_obsolete: true

[Typedef]
id: part_of
name: part of

[Term]
id: T:6
name: fragment ! comment-like
relationship: part_of T:2 ! cell death
relationship: regulates T:1 ! process
"""


def test_obo(tmp_path):
    for path, data in (
        (tmp_path / "a.obo", OBO.encode()),
        (tmp_path / "a.obo.gz", gzip.compress(OBO.replace("\n", "\r\n").encode())),
    ):
        path.write_bytes(data)
        o = Ontology.read(path)
        assert o.ids == ["T:1", "T:2", "T:6"]
        assert o.names[1] == "cell death"
        assert o.definitions[0] == 'Anything that "happens".'
        assert o.synonyms[1] == ["cell suicide", "necrosis"]
        assert o.scopes[1] == ["NARROW", "EXACT"]
        assert o.parents == [[], ["T:1"], ["T:2"]]
        assert o.obsolete == ["T:3", "T:4", "T:5"]
        assert [o.resolve(c) for c in ("T:20", "T:3", "T:4", "T:5", "T:6")] == ["T:2", "T:2", "T:2", None, "T:6"]
        assert o.index("T:3") == 1
        with pytest.raises(KeyError, match="obsolete"):
            o.index("T:5")
        assert o.problems == []


@pytest.mark.parametrize(
    ("bad", "line", "what"),
    [
        ("[Term]\nid: B:1\nname: x\ndef: no quotes\n", 5, "double quotes"),
        ("[Term]\nname: nothing\n", 2, "without an id"),
        ("[Term]\nid: B:1\njust words\n", 4, "tag: value"),
    ],
)
def test_one_malformed_stanza_is_reported_and_skipped(tmp_path, bad, line, what):
    path = tmp_path / "a.obo"
    path.write_text("format-version: 1.2\n" + bad + "\n[Term]\nid: G:1\nname: good\n")
    with pytest.warns(DataWarning, match=f"line {line}: .*{what}"):
        o = Ontology.read(path)
    assert o.ids == ["G:1"]
    assert len(o.problems) == 1


def test_what_is_mended_is_told(tmp_path):
    path = tmp_path / "a.obo"
    path.write_text(
        "[Term]\nid: A\nname: a\nis_a: B\n[Term]\nid: B\nname: b\nis_a: C\n[Term]\nid: C\nname: c\nis_a: A\nis_a: Z\n"
        '[Term]\nid: D\nsynonym: "dee" EXACT []\nis_a: A\n[Term]\nid: A\nname: again\n[Term]\nid: E\n'
    )
    with pytest.warns(DataWarning):
        o = Ontology.read(path)
    told = "\n".join(o.problems)
    for part in ("run in a circle", "not here: Z", "D has no name; its first synonym", "E has no name", "id A was defined"):
        assert part in told
    assert o.ids == ["A", "B", "C", "D", "E"]
    assert o.names[3] == "dee"
    assert o.synonyms[0] == ["again"]
    assert o.ancestors("D") == ["A", "B", "C"]  # the circle is walked once
    assert "D" not in "".join(p for p in o.problems if "circle" in p)


def test_files_that_are_no_ontology(tmp_path):
    with pytest.raises(FileNotFoundError):
        Ontology.read(tmp_path / "none.obo")
    path = tmp_path / "a.obo"
    path.write_text("hello\nworld\n")
    with pytest.raises(FileError, match=r"\[Term\]"):
        Ontology.read(path)
    path.write_bytes(b"[Term]\nid: A\nname: caf\xe9\n")
    with pytest.raises(FileError, match="line 3"):
        Ontology.read(path)
    path.write_bytes(gzip.compress(OBO.encode())[:60])
    with pytest.raises(FileError, match="gzip"):
        Ontology.read(path)


def test_tables(tmp_path):
    rows = {
        "ID": ["a", "b", "", "c"],
        "Name": ["top", "left", "x", "right"],
        "synonyms": ["", "port|larboard", "", "starboard"],
        "parents": ["", "a", "", "a; b"],
    }
    frame = pd.DataFrame(rows)
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_csv(tmp_path / "t.tsv", index=False, sep="\t")
    frame.to_parquet(tmp_path / "t.parquet")
    for source in (tmp_path / "t.csv", tmp_path / "t.tsv", tmp_path / "t.parquet", frame, pl.DataFrame(rows)):
        with pytest.warns(DataWarning, match="no id"):
            o = Ontology.read(source) if hasattr(source, "suffix") else Ontology.from_table(source)
        assert o.ids == ["a", "b", "c"]
        assert o.synonyms == [[], ["port", "larboard"], ["starboard"]]
        assert o.parents == [[], ["a"], ["a", "b"]]
    lists = Ontology.from_table(pl.DataFrame({"id": ["a", "b"], "parents": [[], ["a"]], "name": ["x", "y"]}))
    assert lists.parents == [[], ["a"]]
    with pytest.raises(DataError, match="column 'id'"):
        Ontology.from_table(pd.DataFrame({"name": ["x"]}))


def test_pairs():
    o = Ontology.from_pairs(pd.DataFrame({"g": ["a", "a", "b"], "w": ["cell", "death", "gene"]}), [("b", "a")])
    assert (o.ids, o.definitions, o.parents) == (["a", "b"], ["cell death", "gene"], [[], ["a"]])
    with pytest.raises(DataError, match="item 1"):
        Ontology.from_pairs([("a", "x"), ("b",)])
    with pytest.raises(DataError, match="gaps"):
        Ontology.from_pairs([("a", None)])
    corpus = Corpus.from_pairs([("d", "Apples, pears."), ("e", ""), ("d", "Plums.")], pl.DataFrame({"d": ["e"], "a": ["Eve"]}))
    assert corpus.sentences == ["Apples, pears.", "Plums.", ""]
    assert corpus.sentence_document.tolist() == [0, 0, 1]
    assert corpus.authors == [(), ("Eve",)]
    with pytest.raises(DataError, match="no sentence"):
        Corpus.from_pairs([("d", "Plums.")], [("x", "Eve")])


def test_constructor_checks():
    with pytest.raises(DataError, match="one entry per id"):
        Ontology(["a"], ["x", "y"])
    with pytest.raises(DataError, match="more than once"):
        Ontology(["a", "a"], ["x", "y"])
    with pytest.raises(DataError, match="at least one"):
        Ontology([], [])


def test_walks():
    o = Ontology(list("abcde"), list("abcde"), parents=[[], ["a"], ["a"], ["b", "c"], []])
    assert o.lineage.toarray()[3].tolist() == [1, 1, 1, 1, 0]
    assert (np.array([1.0, 1, 1, 1, 1]) @ o.lineage).tolist() == [4, 2, 2, 1, 1]
    d = o.distances()
    assert d[0].tolist() == [0, 1, 1, 2, 3]  # e is not joined: one beyond the farthest
    assert (d == d.T).all()


def test_a_large_file_loads_in_seconds(tmp_path):
    term = '[Term]\nid: T:{0}\nname: number {0}\ndef: "What {0} is about." []\nsynonym: "no {0}" EXACT []\nis_a: T:{1}\n\n'
    path = tmp_path / "big.obo.gz"
    path.write_bytes(
        gzip.compress(("[Term]\nid: T:0\nname: root\n\n" + "".join(term.format(i, i // 2) for i in range(1, 40_000))).encode(), 1)
    )
    start = time.process_time()
    assert len(Ontology.read(path)) == 40_000
    assert time.process_time() - start < 5.0  # about 1 s; a quadratic step would take minutes
