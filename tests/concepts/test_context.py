"""What mentions teach AuthorConcept: words around them, and from labels the strings that are used."""

import numpy as np
import pytest
import scipy.sparse as sp

import tallies
from tallies.concepts import answers, context, door, mention, scores
from tallies.concepts.estimator import AuthorConcept
from tallies.concepts.settings import Mention
from tallies.data.ontology import Ontology

CONCEPTS = Ontology(["x", "y"], ["cell death", "death rate"], synonyms=[["apoptosis"], ["liver"]])


def test_counts_are_of_stems_outside_the_string():
    strings = mention.strings_of(CONCEPTS)
    place = strings.keys
    texts = ["cell death rate", "apoptosis liver liver", "rate"]
    ptr, keys = mention.encode(texts, place)
    matrix = sp.csr_array((np.ones(len(keys)), keys, ptr), shape=(3, len(place)))
    name, synonym = 0, 2  # strings of x: names come first
    found = context.Mentions(np.array([0, 1, 2]), np.array([0, 0, 1]), np.array([name, synonym, -1]), np.array([1.0, 0.5, 1.0]))
    around = context.count(strings, matrix, found, 2)
    a, _ = strings.span(1)
    table = around.n_gw.toarray()
    expected = np.zeros_like(table)
    expected[0, place["srate"] - a], expected[0, place["sliver"] - a], expected[1, place["srate"] - a] = 1.0, 0.5, 1.0
    np.testing.assert_array_equal(table, expected)
    np.testing.assert_array_equal(around.n_g, [1.5, 1.0])


def test_the_string_of_a_label_is_the_loudest_one_of_its_concept():
    index, string = np.array([[0, 1], [1, 0], [1, -1]]), np.array([[0, 3], [1, 2], [3, -1]])
    found = scores.Scores(index, np.zeros((3, 2)), np.zeros((3, 2)), string, np.zeros(3))
    shard = door.Shard(None, None, np.array([0, 1, 1, 3]), np.array([0, 0, 1]), 0)
    assert scores.told_by(shard, found).tolist() == [0, -1, 3]


def test_gains_are_those_of_the_equation():
    strings = mention.strings_of(CONCEPTS)
    a, b = strings.span(1)
    n = np.zeros((2, b - a))
    n[0, 0], n[0, 1], n[1, 2] = 9.0, 1.0, 3.0
    words = mention.lexicon(strings, np.full(len(strings.keys), 0.02), Mention())
    table = context.learn(words, context.Around(sp.csr_array(n), np.array([10.0, 400.0])))
    assert table.ptr.tolist() == [0, 1, 1]  # met once says nothing; rare around a common concept does not speak against it
    assert table.key.tolist() == [a]
    assert table.gain[0] == pytest.approx(np.log((8 + 100 * 0.02) / (110 * 0.02)), rel=1e-6)


def test_labels_replace_the_odds_of_strings():
    strings, noise = mention.strings_of(CONCEPTS), Mention()
    words = mention.lexicon(strings, np.full(len(strings.keys), 0.1), noise)
    given = np.exp(words.odds())
    used = np.array([1.0, 0.0, 6.0, 0.0])
    new = np.exp(context.usage(context.Said.of(words), used, noise.usage).put(words).odds())
    np.testing.assert_allclose(given, np.exp([0.0, 0.0, noise.synonym, noise.synonym]), rtol=1e-6)
    whole = given[[0, 2]].sum()  # of x
    np.testing.assert_allclose(new[[0, 2]], (used[[0, 2]] + given[[0, 2]] / whole) / 8.0 * whole, rtol=1e-5)
    np.testing.assert_allclose(new[[1, 3]], given[[1, 3]], rtol=1e-5)  # no label, no change


def toy(n=40):
    """A bare word "death" that only its neighbours tell apart."""
    rng = np.random.default_rng(0)
    filler = np.array(["slow", "seen", "large", "often", "again", "early"])
    made = [
        " ".join([*rng.choice(filler, 3), *words])
        for i in range(n)
        for words in (("cell", "death", "neuron"), ("death", "rate", "census"))
    ]
    return made, Ontology(["x", "y", "z"], ["cell death", "death rate", "neuron census"])


def test_words_around_mentions_decide_where_strings_do_not():
    texts, concepts = toy()
    model = AuthorConcept(ontology_smoothing=0.0).fit(texts, concepts)
    asked = ["death of a neuron", "death by census"]
    ids, p = model.rank(asked, k=3)
    assert [row[0] for row in ids.tolist()] == ["x", "y"]
    assert (p.sum(axis=1) <= 1 + 1e-9).all()
    model.set_params(words=Mention(context=0.0))
    plain = model.rank(asked, k=3)
    at = [np.flatnonzero(i == c)[0] for i, c in zip(ids, ("x", "y"), strict=True)]
    before = [q[np.flatnonzero(i == c)[0]] for i, q, c in zip(*plain, ("x", "y"), strict=True)]
    assert all(p[s, at[s]] > before[s] for s in range(2))


def test_the_evidence_adds_up_to_the_odds_of_the_ranks(tmp_path):
    texts, concepts = toy()
    model = AuthorConcept(ontology_smoothing=0.0).fit(texts, concepts)
    model.save(tmp_path / "m")
    text = "death of a neuron"
    again = tallies.load(tmp_path / "m")
    index, p, _, none = answers.posterior(again.fitted_, again._ranking(), [text], None, 3)
    for g, q in zip(index[0], p[0], strict=True):
        if g >= 0:
            parts = model.explain(text, concepts.ids[g])
            assert parts.log_odds.sum() == pytest.approx(np.log(q / none[0]), rel=1e-4)
    assert "context: neuron" in model.explain(text, "x").what.tolist()


def test_labels_teach_which_strings_are_used():
    concepts = Ontology(["x", "y"], ["cell death", "growth"], synonyms=[["demise"], ["demise"]])
    texts = ["demise here", "growth there", "the demise", "growth", "nothing said"] * 4
    labels = ["x", "y", "x", "y", []] * 4
    model = AuthorConcept(words=Mention(context=0.0)).fit(texts, concepts, labels=labels)
    ids, p = model.rank(["a demise"], k=2)
    assert ids[0].tolist() == ["x", "y"]
    untaught = AuthorConcept(words=Mention(context=0.0, usage=1e9)).fit(texts, concepts, labels=labels)
    _, q = untaught.rank(["a demise"], k=2)
    assert p[0, 0] / p[0, 1] > 5 * q[0, 0] / q[0, 1]
