"""What is derived from authors and concepts: priors, labels, temperature, backgrounds, penalties; each against its definition."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tallies import AuthorConcept, Corpus, Mention, Multinomial, Ontology
from tallies.concepts import author_prior, context, mention, penalties, word_counts
from tallies.concepts.author_prior import Psi
from tallies.concepts.door import Sentences
from tallies.concepts.mention import learn_words
from tallies.concepts.model import EM, NULL_START, cycle_of
from tallies.concepts.scores import Scores, add_context, responsibilities
from tallies.concepts.settings import BAGS, Settings

RNG = np.random.default_rng(0)
CONCEPTS = Ontology(["x", "y"], ["cell death", "gene"], synonyms=[["apoptosis"], []])
TEXT = [("d1", "Cell death."), ("d1", "Cell death again."), ("d1", "A gene."), ("d2", "The gene."), ("d3", "Gene death.")]
PAPERS = Corpus.from_pairs(TEXT, [("d1", "Ann"), ("d2", "Bob"), ("d3", "Ann"), ("d3", "Bob")], stop_words="function")


def psi_of(rows=3, G=4):
    own = sp.csr_array(RNG.random((rows, G)) * (RNG.random((rows, G)) < 0.6))
    constant = RNG.random(rows) * 0.5
    own = sp.csr_array(own.toarray() / np.maximum(own.sum(axis=1), 1e-9)[:, None] * (1 - constant)[:, None])
    return Psi(RNG.dirichlet(np.ones(G)), constant, own, RNG.dirichlet(np.ones(G)))


# the prior of authors


def test_everybody_is_all_that_was_written():
    n_base, n_rows, prior = (
        np.array([1.0, 0.0, 2.0, 0.0]),
        np.array([[3.0, 1.0, 0, 0], [0, 0, 0, 0], [0, 5.0, 0, 1.0]]),
        np.full(4, 0.1),
    )
    new = author_prior.maximise(n_base, sp.csr_array(n_rows), psi_of(), prior, 0.4, 0.0, True)
    total = n_base + n_rows.sum(axis=0) + prior
    np.testing.assert_allclose(new.everybody, total / total.sum(), rtol=1e-14)
    np.testing.assert_allclose(new.base, (n_base + prior) / (n_base + prior).sum(), rtol=1e-14)
    rows = author_prior.laid_out(new)
    np.testing.assert_allclose(rows[0], [0.75, 0.25, 0, 0], rtol=1e-14)
    np.testing.assert_allclose(rows[1], new.base, rtol=1e-14)  # an author without a sentence is like all authors


@pytest.mark.parametrize("level", [True, False])
def test_the_m_step_never_lowers_what_sparsity_adds(level):
    """Expected log likelihood with priors and sparsity, before and after; the common level has a term of its own."""
    n_base, n_rows, prior = RNG.random(4) * 3, RNG.random((3, 4)) * 4, np.full(4, 0.3)
    psi, gamma, strength = psi_of(), 0.3 * 4, 2.5

    def value(psi):
        rows = author_prior.laid_out(psi)
        told = np.sum(n_rows * np.log(rows)) + (np.sum(n_base * np.log(psi.base)) if level else 0.0)
        return told + author_prior.log_penalty(psi, prior, gamma, strength, level)

    psi = psi._replace(own=sp.csr_array(np.maximum(psi.own.toarray(), 1e-3)))
    values = [value(psi)]
    for _ in range(60):
        psi = author_prior.maximise(n_base, sp.csr_array(n_rows), psi, prior, gamma, strength, level)
        values.append(value(psi))
    assert np.diff(values[1:]).min() > -1e-9
    # at its end it is a maximum: no small move of a row, or of the common level, that keeps its sum gains anything
    rest, rows = (n_rows, n_base, prior, gamma, strength, level), author_prior.laid_out(psi)
    best = value_of(rows, psi.base, *rest)
    for _ in range(20):
        move = 1 + 1e-3 * RNG.normal(size=4)
        for r in range(3):
            new = rows.copy()
            new[r] = rows[r] * move / (rows[r] @ move)
            assert value_of(new, psi.base, *rest) <= best + 1e-6
        if level:
            assert value_of(rows, psi.base * move / (psi.base @ move), *rest) <= best + 1e-6


def value_of(rows, base, n_rows, n_base, prior, gamma, strength, level):
    """Eq. 4 of the prior side, densely."""
    told = np.sum(n_rows * np.log(rows)) + strength * np.linalg.norm(rows, axis=1).sum()
    if level:
        return told + np.sum((n_base + prior) * np.log(base)) + strength * np.linalg.norm(base)
    return told + gamma * np.sum(base * np.log(rows))


@pytest.mark.parametrize("level", [True, False])
def test_penalties_of_the_prior_by_hand(level):
    psi = psi_of()
    psi = psi._replace(own=sp.csr_array(psi.own.toarray() + 0.01))
    rows, prior = author_prior.laid_out(psi), np.full(4, 0.3)
    expected = 1.5 * np.linalg.norm(rows, axis=1).sum()
    if level:
        expected += np.sum(prior * np.log(psi.base)) + 1.5 * np.linalg.norm(psi.base)
    else:
        expected += 1.2 * np.sum(psi.base * np.log(rows))
    assert author_prior.log_penalty(psi, prior, 1.2, 1.5, level) == pytest.approx(expected, rel=1e-12)


def test_documents_of_several_authors_are_theirs_in_equal_parts():
    rows = author_prior.rows_of([[0, 1], [1], [], [-1]], np.array([4, 1, 2, 3]), np.array([0.8, 0.5]), None)
    W = sp.csr_array((rows.weight, rows.row, rows.ptr), shape=(4, 2)).toarray()
    np.testing.assert_allclose(W, [[0.4, 0.25], [0, 0.5], [0, 0], [0, 0]])
    np.testing.assert_allclose(rows.share, [0.35, 0.5, 1.0, 1.0])
    psi = psi_of(2)
    side = author_prior.mixture(rows, psi)
    dense = rows.share[:, None] * psi.base + W @ author_prior.laid_out(psi)
    np.testing.assert_allclose(author_prior.cells(side, *np.ix_(range(4), range(4))), dense, rtol=1e-12)


def test_a_share_is_lent_to_parents_in_equal_parts():
    up = sp.csr_array(np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0]]))  # 1 below 0; 2 below both
    psi = Psi(np.array([0.2, 0.3, 0.4, 0.1]), np.zeros(0), sp.csr_array((0, 4)), np.array([0.1, 0.1, 0.7, 0.1]))
    lent = author_prior.lend(psi, up, 0.5)
    np.testing.assert_allclose(lent.base, [0.2 + 0.15 + 0.1, 0.15 + 0.1, 0.2, 0.1])
    assert lent.everybody.sum() == pytest.approx(1.0)


# labels, temperature, evidence


def test_several_labels_share_a_sentence():
    labels = [["x", "y"], ["x"], ["y"], ["y"], ["x"]]
    model = AuthorConcept(gamma=1e-9, author_backoff=None).fit(PAPERS, CONCEPTS, labels=labels)
    written = model.fitted_.psi.everybody[:2]
    np.testing.assert_allclose(written, [2.5 / 5, 2.5 / 5], atol=1e-6)
    # and the objective is the log prior of what was given: of a sentence with two labels half of each
    seen = []
    options = {"gamma": 0.5, "author_backoff": None, "max_iter": 3, "tol": 1e-12}
    keep = lambda stage, state: seen.append(state.params)  # noqa: E731
    other = AuthorConcept(**options).fit(PAPERS, CONCEPTS, labels=labels, callback=keep)
    psi = next(p for p in reversed(seen[:-1]) if hasattr(p, "psi")).psi
    P = author_prior.laid_out(psi)
    ann, bob = P[0], P[1]
    both = (ann + bob) / 2
    told = 0.5 * np.log(ann[0] * ann[1]) + np.log(ann[0]) + np.log(ann[1]) + np.log(bob[1]) + np.log(both[0])
    prior = author_prior.log_penalty(psi, np.empty(0), 0.5 * 3, 0.0, False)
    assert other.history_[-1] == pytest.approx(told + prior, rel=1e-9)


def test_temperature_flattens_responsibilities_and_leaves_the_likelihood():
    value = np.log(np.array([[0.6, 0.3, 0.1]]))
    found = Scores(np.array([[2, 0, 1]], dtype=np.int32), value, value, np.full((1, 3), -1, dtype=np.int32), np.empty(0))
    r, told = responsibilities(found, Settings(temperature=2.0))
    p = np.sqrt([0.6, 0.3, 0.1])
    np.testing.assert_allclose(r[0], p / p.sum(), rtol=1e-12)
    assert told[0] == pytest.approx(0.0, abs=1e-12)
    hard, told = responsibilities(found, Settings(assign="hard"))
    assert hard.tolist() == [[1.0, 0.0, 0.0]]
    assert told[0] == pytest.approx(np.log(0.6))


def test_the_null_begins_with_its_share():
    psi = EM(Settings(), 4).begin(np.array([1.0, 2.0, 3.0, 9.0]), 2, None).psi
    assert psi.base[-1] == pytest.approx(NULL_START)
    np.testing.assert_allclose(psi.base[:3], (1 - NULL_START) * np.array([1, 2, 3]) / 6)


def test_assignments_that_stay_are_no_cycle():
    assert cycle_of(np.array([1, 2, 2], dtype=np.uint64), [-3.0, -2.0, -2.0]) == 0
    assert cycle_of(np.array([1, 2, 1], dtype=np.uint64), [-3.0, -2.0, -3.0]) == 2


# words


def test_pseudocounts_follow_the_words_of_the_corpus():
    counts = np.array([9.0, 0.0, 3.0])
    given = word_counts.Definitions(sp.csr_array(np.array([[1.0, 0, 0], [0, 2.0, 0]])), np.array([0.0, 1.0]), None)
    options = BAGS._replace(smoothing=2.0, anchor=3.0, single=False)
    found = word_counts.begin(given, counts, options)
    np.testing.assert_allclose(found.smooth, 2.0 * 3.0 * (counts + 0.5) / 13.5, rtol=1e-12)
    phi = np.array([[3.0, 0, 0], [0, 6.0, 0]]) + found.smooth
    total = phi.sum(axis=1) + np.array([0.0, 3.0])  # words that no sentence has count below
    np.testing.assert_allclose(word_counts.phi_of(found.words), phi / total[:, None], rtol=1e-12)
    np.testing.assert_allclose(word_counts.with_rest(found.words)[:, -1], [0.0, 3.0 / total[1]], atol=1e-12)
    X = sp.csr_array(np.array([[2.0, 1.0, 0.0]]))
    expected = [[np.log(p[0] ** 2 * p[1]) for p in phi / total[:, None]]]
    np.testing.assert_allclose(word_counts.log_likelihoods(found.words, X), expected, rtol=1e-10)
    flat = word_counts.begin(given, counts, options._replace(background=False))
    np.testing.assert_allclose(flat.smooth, 6.0)


def test_words_of_names_and_definitions():
    concepts = Ontology(["a", "b"], ["gene", ""], ["gene of cells and cells", "death"])
    found = word_counts.definitions_of(concepts, ["cells", "death", "gene"], BAGS._replace(definition_weight=0.5), True)
    assert found.counts.toarray().tolist() == [[1.0, 0.0, 1.5], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]


def test_penalties_of_words_by_hand():
    phi = RNG.dirichlet(np.ones(5), 3)
    distance = np.array([[0, 1.0, 2.0], [1.0, 0, 3.0], [2.0, 3.0, 0]])
    for d in (None, distance):
        pairs = sum((1.0 if d is None else d[g, h]) * (phi[g, :-1] @ phi[h, :-1]) for g in range(3) for h in range(g))
        expected = 0.7 * np.linalg.norm(phi, axis=1).sum() - 1.3 * pairs
        assert penalties.log_penalty(phi, 0.7, 1.3, d) == pytest.approx(expected, rel=1e-12)
    counts = RNG.random((3, 5)) * 4

    def value(phi):
        return np.sum(counts * np.log(phi)) + penalties.log_penalty(phi, 0.7, 1.3, distance)

    values = [value(phi)]
    for _ in range(200):
        phi = penalties.maximise(counts, phi, 0.7, 1.3, distance)
        values.append(value(phi))
    assert np.diff(values).min() > -1e-10
    for g in range(3):  # at the end it is a maximum
        for _ in range(10):
            new = phi.copy()
            new[g] *= 1 + 1e-3 * RNG.normal(size=5)
            new[g] /= new[g].sum()
            assert value(new) <= values[-1] + 1e-8
    np.testing.assert_allclose(penalties.sparsity_counts(phi, 2.0), 2.0 * phi**2 / np.linalg.norm(phi, axis=1)[:, None])


# context, usage, profiles


def test_context_and_usage_by_hand():
    model = AuthorConcept().fit(PAPERS, CONCEPTS)
    words = model.fitted_.words
    a, b = words.strings.span(1)
    n = sp.csr_array((np.array([4.0, 1.0, 0.5]), np.array([0, 1, 2]), np.array([0, 2, 3])), shape=(2, b - a))
    around = context.Around(n, np.array([6.0, 2.0]))
    found = context.learn(words, around)
    rate = np.exp(words.postings.log_rate[a:b])
    M = context.BACKGROUND
    gain = [np.log((3.0 + M * rate[0]) / ((6.0 + M) * rate[0])), np.log((0.0 + M * rate[1]) / ((6.0 + M) * rate[1]))]
    kept = [max(g, 0.0) for g in gain if g > 0]
    np.testing.assert_allclose(found.gain[: len(kept)], kept, rtol=1e-5)
    said = context.Said(
        np.array([0.5, 0.2, 0.1], dtype=np.float32), np.array([0, 0, 1], dtype=np.int32), np.array([0.3, -1.0, 0.0])
    )
    used, U = np.array([3.0, 0.0, 2.0]), 1.5
    weight = np.exp(said.odds)
    whole = np.array([weight[:2].sum(), weight[:2].sum(), weight[2]])
    times = np.array([3.0, 3.0, 2.0])
    expected = np.log((used + U * weight / whole) / (times + U) * whole)
    np.testing.assert_allclose(context.usage(said, used, U).odds, expected, rtol=1e-12)


def test_what_a_word_costs_when_missing_or_misspelt():
    """Eq. 2 of `mention`: a rare word that is missing costs more; a stem is worth less than the word."""
    model = AuthorConcept(words=Mention(context=0.0), ontology_smoothing=0.0).fit(PAPERS, CONCEPTS)
    words = model.fitted_.words
    k, log_b = words.strings, words.postings.log_rate
    noise = words.noise
    for m in range(len(k.owner)):
        table = k.words_of(m)
        missing = sum(noise.missing - noise.missing_rare * log_b[s] for _, s, _ in table)
        bonus = noise.synonym if np.isnan(k.bonus[m]) else k.bonus[m]
        assert words.postings.start[m] == pytest.approx(bonus - missing, rel=1e-5)
        for c, s, w in table.tolist():
            h0 = np.log(noise.prefix) - log_b[c]
            h1 = max(h0, np.log(noise.stem) - log_b[s])
            h2 = max(h1, -log_b[w])
            cost = noise.missing - noise.missing_rare * log_b[s]
            assert words.gain(c, m) == pytest.approx(h0 + cost, rel=1e-5)
            assert words.gain(s, m) == pytest.approx(h1 - h0, rel=1e-5, abs=1e-6)
            assert words.gain(w, m) == pytest.approx(h2 - h1, rel=1e-5, abs=1e-6)


@pytest.mark.filterwarnings("error")
def test_sentences_without_words_teach_none():
    assert learn_words(["", "."], [[0], [1]]) == []


def test_words_are_learned_from_two_sentences_on():
    texts = ["zebra"] * 6 + ["lion"] + ["common words that stand everywhere"] * 60
    labels = [[0]] * 6 + [[1]] + [[]] * 60
    found = {(g, word) for g, word, _ in learn_words(texts, labels)}
    assert (0, "zebra") in found
    assert not any(g == 1 for g, _ in found)  # its words were met once


def test_sentences_of_several_authors_are_written_by_each_in_part():
    from tallies.concepts.answers import written

    model = AuthorConcept().fit(PAPERS, CONCEPTS)
    r = model.responsibilities_.toarray()[:, :2]
    expected = np.array([r[:3].sum(axis=0) + r[4] / 2, r[3] + r[4] / 2])
    np.testing.assert_allclose(written(model.fitted_).toarray(), expected, rtol=1e-6)
    profile = model.document_profile("d1").set_index("id")["probability"]
    np.testing.assert_allclose([profile["x"], profile["y"]], r[:3].mean(axis=0), rtol=1e-6)


def test_labelled_sentences_are_counted_once_around_mentions():
    from tallies.concepts.estimator import AuthorConcept as Estimator

    seen = []
    original = context.learn

    def spy(words, around):
        seen.append(around.n_g)
        return original(words, around)

    context.learn = spy
    try:
        Estimator().fit(PAPERS, CONCEPTS, labels=[["x"], ["x"], ["y"], ["y"], ["x", "y"]])
    finally:
        context.learn = original
    np.testing.assert_allclose(seen[0], [3.0, 3.0])


def test_concepts_that_are_no_candidates_stay_in_the_evidence(monkeypatch):
    """Fewer candidates of a sentence change no probability of those that are ranked."""
    names = [f"gene {w}" for w in ("alpha", "beta", "gamma", "delta", "omega")]
    concepts = Ontology([f"c{i}" for i in range(5)], names)
    model = AuthorConcept().fit(["gene alpha", "gene beta seen", "a gene", "gene gamma", "delta gene"] * 3, concepts)
    whole = model.rank(["the gene alpha"], k=2)
    monkeypatch.setattr("tallies.concepts.answers.CANDIDATES", 2)
    few = model.rank(["the gene alpha"], k=2)
    assert few[0].tolist() == whole[0].tolist()
    np.testing.assert_allclose(few[1], whole[1], rtol=1e-3)


def test_words_around_a_candidate_leave_the_others_their_part_of_the_evidence():
    """A candidate with .6 of the evidence, beside which a word stands that doubles it: 1.2, and .4 of those that are none."""
    strings = mention.strings_of(CONCEPTS)
    key = strings.keys["sgene"]
    x = Sentences(sp.csr_array((np.ones(1), [key], [0, 1]), shape=(1, len(strings.keys))), np.zeros(1, dtype=np.int64))
    table = context.Context(np.array([0, 1, 1]), np.array([key], dtype=np.int32), np.log(np.array([4.0], dtype=np.float32)))
    found = Scores(np.zeros((1, 1), np.int32), np.log([[0.6]]), np.zeros((1, 1)), np.zeros((1, 1), np.int32), np.zeros(1))
    words = mention.lexicon(strings, np.full(len(strings.keys), 0.1), Mention())
    after = add_context(x, words, table, 0.5, found)
    np.testing.assert_allclose(np.exp(after.value), [[1.2]], rtol=1e-6)
    np.testing.assert_allclose(np.exp(after.evidence), [1.6], rtol=1e-6)


def test_own_words_are_left_out_where_they_are_learned():
    """Leave-one-out: the score of a sentence is that of counts without its own words, by its responsibilities."""
    from tallies.concepts.door import Sentences
    from tallies.concepts.kernels.mentions import Prior
    from tallies.concepts.scores import Latents, scores

    counts, smooth = np.array([[4.0, 1.0, 2.0], [0.0, 3.0, 1.0]]), np.array([0.2, 0.1, 0.3])
    words = word_counts.lay_out(sp.csr_array(counts), smooth, np.float64)
    base = np.array([[0.6, 0.4]])
    side = Prior(np.ones(1), np.zeros(1, np.int64), base, np.log(base), np.zeros(2, np.int64), np.empty(0, np.int64), np.empty(0))
    X = sp.csr_array(np.array([[2.0, 1.0, 0.0]]))
    old = Latents(np.array([[0, 1]], dtype=np.int32), np.array([[0.75, 0.25]], dtype=np.float32), np.zeros(1, bool), None)
    found = scores(Sentences(X, np.zeros(1, np.int64)), side, words, 2, old)
    for c in range(2):
        g = found.concept[0, c]
        r = [0.75, 0.25][g]
        left = np.maximum(counts[g] - r * X.toarray()[0], 0.0) + smooth
        total = counts[g].sum() + smooth.sum() - r * 3.0
        expected = np.log(base[0, g]) + 2 * np.log(left[0]) + np.log(left[1]) - 3 * np.log(total)
        assert found.value[0, c] == pytest.approx(expected, rel=1e-6)


def test_multinomial_fit_with_sparsity_and_back_off_climbs():
    rng = np.random.default_rng(3)
    texts = [(f"d{i % 6}", " ".join(rng.choice(["cell", "death", "gene", "mouse"], 3))) for i in range(40)]
    who = [(f"d{i}", f"author {i % 3}") for i in range(6)]
    corpus = Corpus.from_pairs(sorted(texts), who, stop_words=None)
    for backoff in (None, 5.0):
        model = AuthorConcept(
            words=Multinomial(smoothing=0.5), author_sparsity=1.5, author_backoff=backoff, tol=1e-12, max_iter=60
        ).fit(corpus, CONCEPTS)
        assert np.diff(model.history_).min() > -1e-7 * abs(model.history_[-1])


@pytest.mark.parametrize("n", [60, 120])
def test_a_long_name_that_a_sentence_repeats_comes_first(n):
    """The odds of a hundred rare words are beyond what a number of double precision holds."""
    words = [f"{a}{b}{c}ax" for a in "bcdfg" for b in "aeiou" for c in "klmnp"][:n]
    concepts = Ontology(["other", "long"], [words[3], " ".join(words)])
    corpus = Corpus.from_pairs([(f"d{i}", text) for i, text in enumerate(["Nothing was seen", f"A {words[3]} was seen"] * 40)], [])
    model = AuthorConcept().fit(corpus, concepts)
    ids, p = model.rank([f"We saw {' '.join(words)} there"], k=2)
    assert ids.tolist() == [["long", "other"]]
    np.testing.assert_allclose(p[0], [1.0, 0.0], atol=1e-12)


@pytest.mark.parametrize("words", ["mention", "multinomial"])
@pytest.mark.parametrize("length", [0, -1, 2.5])
def test_a_sample_of_sentences_without_words_is_refused(words, length):
    model = AuthorConcept(words=words).fit(Corpus.from_pairs([("d", "Cell death was seen")], []), Ontology(["x"], ["cell death"]))
    with pytest.raises(ValueError, match="length must be"):
        model.sample(2, length=length)
