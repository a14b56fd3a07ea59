"""What is counted of tables and texts before any model sees them, each against its definition."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from tallies import Corpus, Ontology
from tallies.data import dialect
from tallies.data.columns import states_of
from tallies.data.edges import without_totals
from tallies.data.files import read_table
from tallies.data.kinds import columns_of, kind_of_column
from tallies.data.labels import encode_labels
from tallies.data.lazy import cut_rows, open_table
from tallies.data.table import sparse
from tallies.data.text import language_of

TEXTS = ["pears pears plums", "plums figs", "pears plums", "kiwi kiwi kiwi"]


def words(**options):
    return Corpus.from_texts(TEXTS, stop_words=None, **options).vocabulary.tolist()


def test_words_are_counted_as_often_as_they_occur():
    corpus = Corpus.from_texts(TEXTS, stop_words=None)
    assert corpus.vocabulary.tolist() == ["figs", "kiwi", "pears", "plums"]
    assert corpus.counts.toarray().tolist() == [[0, 0, 2, 1], [1, 0, 0, 1], [0, 0, 1, 1], [0, 3, 0, 0]]


def test_bounds_of_a_vocabulary_are_of_documents_and_included():
    assert words(min_df=2) == ["pears", "plums"]  # kiwi is three times in one document
    assert words(min_df=2, max_df=2) == ["pears"]
    assert words(max_df=0.5) == ["figs", "kiwi", "pears"]
    assert words(min_df=0.75) == ["plums"]


def test_neighbours_are_all_pairs_in_their_order():
    corpus = Corpus.from_texts(["new york city"], stop_words=None, bigrams=True)
    assert corpus.vocabulary.tolist() == ["city", "new", "new_york", "york", "york_city"]


def test_sentences_stay_with_their_documents():
    corpus = Corpus.from_texts(["One cat. Two cats.", "A dog.", "Three birds. Four."], sentences=True, stop_words=None)
    assert corpus.sentence_document.tolist() == [0, 0, 1, 2, 2]
    part = corpus[[2, 0]]
    assert part.sentence_document.tolist() == [0, 0, 1, 1]
    for d in range(2):
        inside = part.sentence_counts[part.sentence_document == d].sum(axis=0)
        np.testing.assert_array_equal(inside, part.counts[[d]].toarray()[0])


def test_gaps_and_levels():
    assert kind_of_column("x", pd.Series([1.5, None, 2.5, 1.5])) == ("number", 1, 2)
    codes = [f"t{i}" for i in range(9)]
    assert kind_of_column("tag", pd.Series([*codes, None])) == ("id", 1, 9)
    found = columns_of(pd.DataFrame({"x": [1.0, np.nan, 2.0], "k": ["a", None, "a"]}))
    assert (found.gaps, found.levels) == ([1, 1], [2, 1])


def test_codes_of_labels_have_no_holes():
    classes, codes = encode_labels([7, 3, 3, 900, -1], 5, missing=True)
    assert (classes.tolist(), codes.tolist()) == ([3, 7, 900], [1, 0, 0, 2, -1])


def test_gaps_of_a_table_in_files(tmp_path):
    pd.DataFrame({"x": [1.0, None, 2.0, 4.0], "k": ["a", "b", "a", None]}).to_parquet(tmp_path / "t.parquet")
    table = open_table(tmp_path)
    assert {name: (fact.gaps, fact.known) for name, fact in table.facts.items()} == {"x": (1, 3), "k": (1, 3)}


def test_pieces_hold_every_row_once_and_are_as_large_as_asked(tmp_path):
    path = tmp_path / "a"
    path.touch()
    pieces = cut_rows([(str(path), i, 10) for i in range(9)], 30)
    assert [(piece.first, piece.stop) for piece in pieces] == [(0, 30), (30, 60), (60, 90)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a;b\n1,5;x\n2,25;y\n", [1.5, 2.25]),
        ('a,b\n"1,234.5",x\n"12,000.25",y\n', [1234.5, 12000.25]),
        ("a;b\n1.234,5;x\n12.000,25;y\n", [1234.5, 12000.25]),
        ('a,b\n"1,234",x\n"2,500",y\n', [1234, 2500]),
        ("a,b\n007,x\n012,y\n", ["007", "012"]),
    ],
)
def test_numbers_as_people_write_them(tmp_path, text, wanted):
    (tmp_path / "t.csv").write_text(text)
    assert read_table(tmp_path / "t.csv")["a"].tolist() == wanted


def test_distances_and_lineage_of_concepts():
    chain = Ontology(["a", "b", "c", "z"], list("abcz"), parents=[[], ["a"], ["b"], []])
    np.testing.assert_array_equal(chain.lineage.toarray(), [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 0, 1]])
    assert chain.distances()[0].tolist() == [0, 1, 2, 3]  # nothing joins z: one more than the farthest


def test_a_language_is_seen_by_its_share_of_all_words():
    """Three German stop words among four different words, one of which fills the text."""
    assert language_of(["der die und " + "zinc " * 60]) is None


# tables as people write them


def test_titles_are_at_most_half_as_wide_as_the_table():
    assert dialect.are_titles([1, 1], 3)
    assert not dialect.are_titles([2], 3)
    assert not dialect.are_titles([2, 2], 4)  # one of several cells may be a title, two are rows


def load(path, text, **told):
    path.write_text(text)
    with dialect.connect() as base:
        raw = dialect.load(base, path, dialect.Told(**told))
        return raw, base.execute("SELECT * FROM raw").fetchall()


def test_a_first_row_with_a_negative_number_is_data(tmp_path):
    raw, rows = load(tmp_path / "t.csv", "x,-3,5\ny,-1,7\nz,-2,4\n")
    assert not raw.header
    assert rows == [("x", "-3", "5"), ("y", "-1", "7"), ("z", "-2", "4")]


def test_no_line_below_a_title_is_lost_where_there_is_no_header(tmp_path):
    raw, rows = load(tmp_path / "t.csv", "measured in May,,\n1,2,3\n4,5,6\n7,8,9\n", header=False)
    assert rows == [("1", "2", "3"), ("4", "5", "6"), ("7", "8", "9")]
    assert raw.notes[0] == "1 line above the table left out"


def test_a_last_row_is_a_total_only_where_it_is_one():
    plots = pd.DataFrame({"site": [*"ababab", "all"], "n": [1, 2, 3, 4, 5, 6, 21]})
    assert len(without_totals(plots)[0]) == 6
    assert len(without_totals(plots.assign(n=[1, 2, 3, 4, 5, 6, 19]))[0]) == 7  # near a sum is none
    assert len(without_totals(plots.assign(site=[*"ababab", "a"]))[0]) == 7  # a sum by accident: its site is one of the others


def test_states_are_in_order():
    assert states_of(np.array(["oak", "elm", "ash", "elm"], dtype=object), "categorical").tolist() == ["ash", "elm", "oak"]


def test_rows_of_a_sparse_table_are_those_of_the_matrix():
    matrix = sp.csr_array(np.array([[0, 2, 0], [1, 0, 3], [0, 0, 4], [5, 0, 0]]))
    some = sparse(matrix).rows(slice(1, 3))
    assert some.indptr.tolist() == [0, 2, 3]
    assert sp.csr_array(some[:3], shape=some.shape).toarray().tolist() == [[1, 0, 3], [0, 0, 4]]
