"""The preset of the original note: what is given beside it wins, soft EM and penalties work inside it, cycles are told."""

import warnings

import numpy as np
import pytest

import tallies
from tallies import AuthorConcept, Corpus, Multinomial, Ontology
from tallies.concepts.model import cycle_of
from tallies.concepts.settings import SEED, SEED_BAGS, settings_of
from tallies.errors import ConvergenceWarning

WORDS = [f"w{a}{b}" for a in "abcd" for b in "efgh"]


def small(seed, documents=5, sentences=6, G=4, A=3, length=4):
    """Random words, authors and definitions: nothing to find, so that assignments are fragile."""
    rng = np.random.default_rng(seed)
    said = [(f"d{d}", " ".join(rng.choice(WORDS, length))) for d in range(documents) for _ in range(sentences)]
    wrote = [(f"d{d}", f"a{a}") for d in range(documents) for a in rng.choice(A, rng.integers(1, 4), replace=False)]
    defined = [(f"g{g}", word) for g in range(G) for word in rng.choice(WORDS, 3 + g)]
    return Corpus.from_pairs(said, wrote, stop_words=None), Ontology.from_pairs(defined, [(f"g{g}", "g0") for g in range(1, G)])


def fit(data, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return AuthorConcept(preset="seed", **options).fit(*data)


@pytest.mark.parametrize(
    "given",
    [
        {"assign": "soft"},
        {"author_sparsity": 2.0},
        {"words": Multinomial(smoothing=0.5)},
        {"words": Multinomial(smoothing=1.0)},  # which is the usual value, outside of the preset
        {"words": Multinomial(word_sparsity=5.0)},
        {"words": Multinomial(overlap=20.0)},
        {"words": Multinomial(anchor=None)},
        {"words": Multinomial(leave_one_out=True)},
    ],
    ids=str,
)
def test_what_is_given_beside_the_preset_wins(given):
    data = small(0)
    usual, other = fit(data), fit(data, **given)
    assert not np.array_equal(usual.history_, other.history_)
    now = settings_of(AuthorConcept(preset="seed", **given))
    asked = given.get("words", Multinomial())
    for name in Multinomial._fields:  # and nothing else has changed
        left = "auto" if name == "anchor" else None
        want = getattr(asked, name) if getattr(asked, name) != left else getattr(SEED_BAGS, name)
        assert getattr(now.words, name) == want
    soft = {"keep": 30, "stop": "likelihood"} if "assign" in given else {}  # one responsibility would be a hard one
    assert now == SEED._replace(**{**soft, **given, "words": now.words})


def test_options_of_the_words_are_named_where_they_belong():
    for name in ("smoothing", "word_sparsity", "overlap"):
        with pytest.raises(TypeError, match=rf"words=tallies.Multinomial\({name}="):
            AuthorConcept(preset="seed", **{name: 1.0})


def test_soft_em_inside_the_preset_keeps_all_responsibilities_and_never_falls():
    for seed in range(3):
        data = small(seed)
        model = fit(data, assign="soft", credit="split", tol=1e-9, max_iter=60)
        assert np.diff(model.history_).min() > -1e-9 * abs(model.history_[-1])
        r = model.responsibilities_.toarray()
        np.testing.assert_allclose(r.sum(axis=1), 1.0, rtol=1e-5)
        assert (r > 1e-3).sum(axis=1).max() > 1  # a hard assignment has one
        assert model.history_[-1] > fit(data, credit="split").history_[-1]  # the sum over concepts, and not the best alone


def test_penalties_inside_the_preset_do_what_they_say():
    def norms(table):
        return float(np.linalg.norm(table, axis=1).sum())

    def shared(phi):
        gram = phi @ phi.T
        return float(gram.sum() - np.trace(gram))

    for seed in range(3):
        data, soft = small(seed), {"assign": "soft", "credit": "split", "tol": 1e-9, "max_iter": 100}
        plain = fit(data, **soft)
        assert norms(fit(data, **soft, author_sparsity=20.0).author_concepts_) > norms(plain.author_concepts_) + 1e-3
        phi = plain.concept_words_.toarray()
        sparse = fit(data, **soft, words=Multinomial(word_sparsity=50.0)).concept_words_.toarray()
        apart = fit(data, **soft, words=Multinomial(overlap=500.0)).concept_words_.toarray()
        assert norms(sparse) > norms(phi) + 1e-3
        assert shared(apart) < 0.9 * shared(phi)


def test_sparsity_of_authors_without_any_is_told():
    corpus = Corpus.from_pairs([(f"d{d}", " ".join(WORDS[d : d + 4])) for d in range(6)], stop_words=None)
    concepts = small(0)[1]
    with pytest.warns(UserWarning, match="author_sparsity changes nothing here: no text has an author"):
        told = AuthorConcept(preset="seed", author_sparsity=2.0).fit(corpus, concepts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert told.history_.tolist() == AuthorConcept(preset="seed").fit(corpus, concepts).history_.tolist()
        # what all texts have in common is learned, and may be sparse
        assert AuthorConcept(preset="seed", author_backoff=10.0, author_sparsity=2.0).fit(corpus, concepts).n_iter_ > 0


def test_a_concept_does_not_win_by_words_that_no_sentence_has():
    """Without them its law would be flat, and flat beats a law that has never seen some of a sentence's words."""
    corpus, concepts = small(0)
    strange = Ontology([*concepts.ids, "far"], [""] * 5, [*concepts.definitions, "quite other things"])
    for words in (Multinomial(), Multinomial(word_sparsity=0.1), Multinomial(overlap=0.1)):
        for assign in ("hard", "soft"):
            assert "far" not in fit((corpus, strange), words=words, assign=assign).assignments_


def test_a_cycle_of_hard_assignments_is_found_and_has_not_settled(tmp_path):
    found = []
    for seed in range(12):
        data = small(seed)
        model = AuthorConcept(preset="seed", words=Multinomial(leave_one_out=True))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            model.fit(*data)
        told = [w for w in told if issubclass(w.category, ConvergenceWarning)]
        assert bool(model.cycle_) == (not model.converged_) == bool(told)
        if model.cycle_:
            found.append((data, model, str(told[0].message)))
    assert 3 <= len(found) <= 9  # leaving a sentence out makes about half of such fits go round
    data, model, message = found[0]
    assert model.stopped_ == "cycle"
    assert model.cycle_ == 2
    assert f"{len(model.cycling_)} of 30 sentences" in message
    assert "cycle of 2 sweeps" in message
    assert 'assign="soft"' in message
    assert "go round in a cycle" in model.summary()
    # it does go round: two sweeps earlier it stood in the same place, one sweep earlier just these sentences elsewhere
    last, before, same = (fit(data, words=Multinomial(leave_one_out=True), max_iter=model.n_iter_ - n) for n in (0, 1, 2))
    assert (last.assignments_ == same.assignments_).all()
    assert np.flatnonzero(last.assignments_ != before.assignments_).tolist() == model.cycling_.tolist()
    model.save(tmp_path / "m")
    again = tallies.load(tmp_path / "m")
    assert (again.cycle_, again.converged_, again.cycling_.tolist()) == (2, False, model.cycling_.tolist())
    assert "goes round in a circle" in model.report(tmp_path / "page.html").read_text()


def test_assignments_that_come_back_while_the_prior_moves_are_no_cycle():
    seen = np.array([1, 2, 3, 2], dtype=np.uint64)
    assert cycle_of(seen, [-9.0, -5.0, -4.0, -5.0]) == 2
    assert cycle_of(seen, [-9.0, -5.0, -4.0, -3.0]) == 0


def test_the_pairs_of_the_note_are_all_it_takes():
    definitions = [("G1", "cell"), ("G1", "death"), ("G2", "gene"), ("G2", "expression"), ("G2", "gene")]
    authors = [("D1", "Ann"), ("D2", "Ann"), ("D2", "Bob")]
    sentences = [("D1", "Cell death was seen."), ("D2", "The gene has high expression."), ("D2", "Gene expression again.")]
    concepts = Ontology.from_pairs(definitions, [("G2", "G1")])
    model = AuthorConcept(preset="seed").fit(Corpus.from_pairs(sentences, authors), concepts)
    assert model.assignments_.tolist() == ["G1", "G2", "G2"]
    np.testing.assert_allclose(model.author_concepts_, [[1 / 3, 2 / 3], [0, 1]], atol=1e-7)  # of sentences: Ann 1 and 2, Bob 2
