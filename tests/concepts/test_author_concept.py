"""AuthorConcept: the note's formulas transcribed densely, enumeration, monotone EM, recovery, and bad input."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import tallies
from tallies.concepts import answers, penalties, word_counts
from tallies.concepts.estimator import AuthorConcept
from tallies.concepts.mention import learn_words
from tallies.concepts.model import cycle_of, fingerprint_of
from tallies.concepts.settings import Mention, Multinomial
from tallies.data.corpus import Corpus
from tallies.data.ontology import Ontology
from tallies.errors import DataError, DataWarning

TEXT = "cell death gene expression growth apoptosis of mice liver was seen cells genes expressed"
WORDS = np.array(sorted(f"w{chr(97 + i)}{chr(97 + j)}" for i in range(6) for j in range(5)))


def simulated(rng, documents=30, sentences=8, G=5, A=6, length=6, concentration=0.3):
    """A corpus drawn from the model, with its psi, phi, concepts and the concepts' definitions."""
    V = len(WORDS)
    phi = rng.dirichlet(np.full(V, 0.15), G)
    psi = rng.dirichlet(np.full(G, concentration), A)
    pairs, who, truth = [], [], []
    for d in range(documents):
        authors = rng.choice(A, size=rng.integers(1, 4), replace=False)
        who += [(f"d{d}", f"author {a}") for a in authors]
        for _ in range(sentences):
            g = rng.choice(G, p=psi[rng.choice(authors)])
            truth.append(g)
            pairs.append((f"d{d}", " ".join(rng.choice(WORDS, size=length, p=phi[g]))))
    # every word in some sentence, so that the vocabulary is all of WORDS
    pairs.append(("d0", " ".join(WORDS)))
    definitions = [" ".join(rng.choice(WORDS, size=12 + g, p=phi[g])) for g in range(G)]  # of unequal length: no ties
    ontology = Ontology(
        [f"g{g}" for g in range(G)], [""] * G, definitions, parents=[[], *([f"g{(g - 1) // 2}"] for g in range(1, G))]
    )
    corpus = Corpus.from_pairs(pairs, who)
    return corpus, ontology, psi, phi, np.array(truth)


def seed_transcription(corpus, ontology, sweeps):
    """The note's matrices, dense, in its own names; its inconsistencies resolved: one log, one pseudocount, no accumulation."""
    place = {w: i for i, w in enumerate(corpus.vocabulary)}
    V, G, D = len(place), len(ontology), len(corpus.documents)
    names = sorted({a for several in corpus.authors for a in several})
    o_Gw = np.zeros((G, V))
    for g in range(G):
        for word in ontology.definitions[g].split():
            o_Gw[g, place[word]] += 1
    wS = corpus.sentence_counts.toarray().T
    SD = np.eye(D)[corpus.sentence_document]
    AD = np.array([[a in corpus.authors[d] for d in range(D)] for a in names], dtype=float)
    DA = (AD / AD.sum(axis=0)).T
    Gw, AG, out = np.zeros((G, V)), np.ones((len(names), G)), []
    for _ in range(sweeps):
        counts = Gw + o_Gw + 1e-8
        lp_Gw = np.log(counts / counts.sum(axis=1, keepdims=True))
        LPSG = lp_Gw @ wS
        PGD = DA @ (AG / AG.sum(axis=1, keepdims=True))
        LPL = (SD @ np.log(PGD)).T + LPSG
        best = LPL.argmax(axis=0)
        MaxGS = np.eye(G)[best].T
        out.append((best, LPL.max(axis=0), lp_Gw, PGD))
        AG = AD @ (MaxGS @ SD).T + 1e-8
        Gw = MaxGS @ wS.T
    return out


@pytest.mark.parametrize("seed", range(4))
def test_the_seed_preset_is_the_dense_transcription(seed):
    corpus, ontology, *_ = simulated(np.random.default_rng(seed))
    model = AuthorConcept(preset="seed").fit(corpus, ontology)
    dense = seed_transcription(corpus, ontology, model.n_iter_ + 1)
    assert model.converged_
    assert model.n_iter_ > 2
    for t, (best, *_) in enumerate(dense[:-1]):  # a fingerprint for every sweep; the assignments themselves of the last
        assert model.fitted_.assigned.seen[t] == fingerprint_of(0, best)
    assert (model.assignments_ == np.array(ontology.ids)[dense[-2][0]]).all()
    _, _, lp_Gw, PGD = dense[-1]
    np.testing.assert_allclose(np.log(word_counts.phi_of(model.fitted_.words)), lp_Gw, rtol=1e-10)
    np.testing.assert_allclose(model.concept_words_.toarray(), np.exp(lp_Gw), rtol=1e-10)
    np.testing.assert_allclose(model.document_concepts_, PGD, rtol=1e-10)
    LPSG = lp_Gw @ corpus.sentence_counts.toarray().T
    np.testing.assert_allclose(model.log_prob_given(corpus), LPSG.T, rtol=1e-10)
    expected = np.logaddexp.reduce(LPSG.T + np.log(PGD)[corpus.sentence_document], axis=1)
    np.testing.assert_allclose(model.log_prob(corpus), expected, rtol=1e-10)
    total = corpus.counts.toarray() @ lp_Gw.T + np.log(PGD)
    np.testing.assert_allclose(model.document_log_likelihood(corpus), np.logaddexp.reduce(total, axis=1), rtol=1e-10)


BAGS = Multinomial(anchor=1.0, smoothing=0.05, background=False, leave_one_out=False, single=False)
EXACT = {"words": BAGS, "null": False, "ontology_smoothing": 0.0}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"author_backoff": None, "gamma": 0.1},
        {"document_backoff": 4.0},
        {"author_backoff": None, "gamma": 0.1, "author_sparsity": 2.0},
        {"author_backoff": None, "gamma": 0.1, "words": BAGS._replace(word_sparsity=5.0)},
        {"author_backoff": None, "gamma": 0.1, "words": BAGS._replace(overlap=30.0)},
        {"author_backoff": None, "gamma": 0.1, "words": BAGS._replace(overlap=10.0, overlap_kind="distance", word_sparsity=2.0)},
        {"null": True, "words": BAGS._replace(background=True)},
        {"keep": 2},
        {"unseen": True},
        {"unseen": True, "author_backoff": None, "gamma": 0.1, "words": BAGS._replace(overlap=10.0, word_sparsity=2.0)},
    ],
    ids=str,
)
def test_soft_em_with_split_credit_never_lowers_the_penalised_objective(options):
    for seed in range(3):
        corpus, ontology, *_ = simulated(np.random.default_rng(seed))
        if "unseen" in options:  # definitions with words that no sentence has
            longer = [f"{d} strange words {'more ' * g}" for g, d in enumerate(ontology.definitions)]
            ontology = Ontology(ontology.ids, ontology.names, longer)
        given = {k: v for k, v in options.items() if k != "unseen"}
        model = AuthorConcept(**{**EXACT, "tol": 1e-9, "max_iter": 40, **given})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(corpus, ontology)
        steps = np.diff(model.history_)
        assert steps.min() > -1e-9 * abs(model.history_[-1])
        assert model.history_[-1] - model.history_[0] > 1.0


def test_mention_em_never_lowers_its_objective():
    concepts = Ontology(["x", "y", "z"], ["cell death", "gene expression", "growth"], synonyms=[["apoptosis"], ["expression"], []])
    rng = np.random.default_rng(0)
    words = np.array(TEXT.split())
    pairs = [(f"d{i // 6}", " ".join(rng.choice(words, 5))) for i in range(120)]
    corpus = Corpus.from_pairs(pairs, [(f"d{i}", f"a{i % 4}") for i in range(20)])
    model = AuthorConcept(tol=None, max_iter=100, document_backoff=3.0).fit(corpus, concepts)
    assert np.diff(model.history_).min() > -1e-9 * abs(model.history_[-1])


def test_the_posterior_is_that_of_enumeration():
    corpus, ontology, *_ = simulated(np.random.default_rng(1), documents=8)
    model = AuthorConcept(**EXACT).fit(corpus, ontology)
    phi, psi = word_counts.phi_of(model.fitted_.words), model.fitted_.psi
    ids, p = model.rank(
        [f"{WORDS[0]} {WORDS[3]} {WORDS[3]}", "unknown words only"], authors=[["author 1", "author 2"], ["nobody"]], k=5
    )
    place = {a: i for i, a in enumerate(model.authors_)}
    prior = np.zeros(5)
    for a in ("author 1", "author 2"):
        own = psi.constant[place[a]] * psi.base + psi.own[[place[a]]].toarray()[0]
        w = model.fitted_.papers.author_weight[place[a]]
        prior += 0.5 * (w * own + (1 - w) * psi.base)
    joint = prior * phi[:, 0] * phi[:, 3] ** 2
    order = np.argsort(-joint)
    assert ids[0].tolist() == [f"g{g}" for g in order]
    np.testing.assert_allclose(p[0], joint[order] / joint.sum(), rtol=1e-10)
    np.testing.assert_allclose(np.sort(p[1]), np.sort(psi.everybody), rtol=1e-10)  # no word, no author: everybody's prior


def test_mention_log_odds_are_those_of_the_equations():
    concepts = Ontology(["x", "y"], ["programmed cell death", "P-body"], synonyms=[["apoptosis", "cell suicide"], []])
    texts = [
        "Programmed deaths of a cell were seen",
        "apoptotic cells",
        "body weight",
        "cell cycle",
        "P-bodies in cells",
        "nothing at all",
    ]
    model = AuthorConcept(tol=None, max_iter=1, ontology_smoothing=0.0).fit(texts, concepts)
    S, n = len(texts), Mention()

    def b(count):
        return (count + 0.5) / (S + 1)

    def h(surface, stem, prefix):
        return max(-np.log(b(surface)), np.log(n.stem) - np.log(b(stem)), np.log(n.prefix) - np.log(b(prefix)))

    # sentence 0 has all three words, in an order in which none are neighbours as in the string
    found = h(1, 1, 1) + h(4, 4, 4) + h(1, 1, 1) + n.whole
    parts = model.explain(texts[0], "x").set_index("what").log_odds
    assert parts.drop("prior").sum() == pytest.approx(found, rel=1e-6)
    # sentence 1: of "apoptosis" only the first letters agree ("apopto", in one sentence; the word itself is in none), no pair
    loose = n.synonym + np.log(n.prefix) - np.log(b(1)) + n.whole
    strict = n.synonym + h(4, 4, 4) - (n.missing - n.missing_rare * np.log(b(0)))
    parts = model.explain(texts[1], "x").set_index("what").log_odds
    assert parts.drop("prior").sum() == pytest.approx(max(loose, strict, -100), rel=1e-5)
    # the evidence of a sentence: null plus the odds of every concept
    total = []
    for t in texts:
        odds = [model.explain(t, c).log_odds.sum() for c in ("x", "y")]
        total.append(np.log(model.fitted_.psi.everybody[-1]) + np.logaddexp.reduce([0.0, *odds]))
    np.testing.assert_allclose(model.log_prob(texts), total, rtol=1e-5)


def test_authors_and_words_are_recovered_and_split_credit_is_better_than_whole():
    errors = {"split": [], "whole": []}
    for seed in range(3):
        corpus, ontology, psi, phi, _ = simulated(
            np.random.default_rng(seed), documents=250, sentences=12, length=10, concentration=0.2
        )
        for credit in errors:
            model = AuthorConcept(
                **{**EXACT, "author_backoff": None, "gamma": 1e-3, "credit": credit, "tol": 1e-7, "max_iter": 300}
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(corpus, ontology)
            found = (model.fitted_.psi.own + sp.csr_array(model.fitted_.psi.constant[:, None] * model.fitted_.psi.base)).toarray()
            errors[credit].append(np.abs(found - psi).sum(axis=1).mean())
            if credit == "split":
                assert np.abs(word_counts.phi_of(model.fitted_.words) - phi).sum(axis=1).max() < 0.2
    assert np.mean(errors["split"]) < 0.15  # mean L1 error; whole credit smears co-authors into each other
    assert max(errors["split"]) < 0.7 * min(errors["whole"])


def test_shards_and_order_of_documents_do_not_matter(monkeypatch):
    corpus, ontology, *_ = simulated(np.random.default_rng(2))
    for options in (
        {**EXACT, "document_backoff": 3.0},
        {**EXACT, "assign": "hard"},
        {"words": Multinomial(anchor=5.0, held_out=0.2, single=False)},
    ):
        fits = []
        for rows in (10_000, 25):
            monkeypatch.setattr(AuthorConcept, "shard_rows", rows)
            fits.append(AuthorConcept(**options).fit(corpus, ontology))
        a, b = fits
        assert a.n_iter_ == b.n_iter_
        np.testing.assert_allclose(a.history_, b.history_, rtol=1e-10)
        assert (a.assignments_ == b.assignments_).all()
        np.testing.assert_array_equal(a.fitted_.assigned.seen, b.fitted_.assigned.seen)


def test_saved_and_resumed_fits_are_the_same(tmp_path):
    corpus, ontology, *_ = simulated(np.random.default_rng(3))
    for options in (EXACT, {}):
        if not options:
            ontology = Ontology(ontology.ids, [" ".join(d.split()[:2]) for d in ontology.definitions])
        full = AuthorConcept(**options, tol=None, max_iter=6).fit(corpus, ontology)
        AuthorConcept(**options, tol=None, max_iter=3).fit(corpus, ontology, checkpoint=tmp_path / "c")
        resumed = AuthorConcept(**options, tol=None, max_iter=6).fit(corpus, ontology, resume=tmp_path / "c")
        np.testing.assert_array_equal(full.history_, resumed.history_)
        full.save(tmp_path / "m")
        again = tallies.load(tmp_path / "m")
        text = [" ".join(WORDS[:4]), "none"]
        np.testing.assert_array_equal(full.rank(text)[1], again.rank(text)[1])
        assert again.annotate(text, authors=["author 1"]).equals(full.annotate(text, authors=["author 1"]))
        assert "sentences" in again.summary()


def test_hard_assignments_that_come_back_are_a_cycle():
    for last, cycle in ((2, 2), (3, 0), (4, 0)):
        assert cycle_of(np.array([1, 2, 3, last], dtype=np.uint64), [-9.0, -5.0, -5.0, -5.0]) == cycle


def test_labels_fix_the_prior_and_teach_words():
    concepts = Ontology(["x", "y"], ["birth", "annealing"])
    rng = np.random.default_rng(0)
    filler = [f"{a}{b}en" for a in "bcdfgklmn" for b in "aeiou"]
    texts, labels = [], []
    for i in range(200):
        extra = ["hybridized", None, "postnatal"][i % 3]
        texts.append(" ".join([*rng.choice(filler, 6), *([extra] if extra else [])]))
        labels.append({"hybridized": "y", "postnatal": ["x"], None: None}[extra])
    texts[0] += " birth annealing"
    learned = learn_words(texts, [[] if v is None else [0 if "x" in v else 1] for v in labels])
    assert {(g, w) for g, w, _ in learned} >= {(1, "hybridized"), (0, "postnatal")}
    loudest = max(t for _, w, t in learned if w in filler)
    assert min(t for _, w, t in learned if w not in filler) > loudest + 1.0
    model = AuthorConcept().fit(texts, concepts, labels=labels)
    ids, _ = model.rank(["the probe hybridizes", "a postnatal day"], k=1)
    assert ids.ravel().tolist() == ["y", "x"]
    assert AuthorConcept().fit(texts, concepts).rank(["the probe hybridizes"], k=1)[1][0, 0] == 0
    read = AuthorConcept().fit(texts, concepts, labels=[[] if v is None else v for v in labels])
    share = np.array([labels.count("y"), labels.count(["x"]), labels.count(None)])[[1, 0, 2]]
    np.testing.assert_allclose(read.fitted_.psi.everybody, (share + 0.02) / (200 + 0.06), rtol=1e-9)
    with pytest.warns(DataWarning, match="not in the ontology"):
        AuthorConcept().fit(texts, concepts, labels=["z", *labels[1:]])
    with pytest.raises(DataError, match="one entry a sentence"):
        AuthorConcept().fit(texts, concepts, labels=["x"])


def test_what_users_ask():
    corpus, ontology, *_ = simulated(np.random.default_rng(5))
    ontology = Ontology(ontology.ids, ontology.names, ontology.definitions, parents=ontology.parents, alternatives={"old": "g1"})
    model = AuthorConcept(words=Multinomial(anchor=1.0), document_backoff=5.0).fit(corpus, ontology)
    rolled = model.roll_up(np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    assert rolled.tolist() == [15.0, 11.0, 3.0, 4.0, 5.0]  # g3 and g4 are below g1, all are below g0
    profile = model.author_profile("author 1", n=5)
    assert profile.probability.is_monotonic_decreasing
    assert model.document_profile("d3").probability.sum() <= 1 + 1e-6
    assert model.concept_profile("old").equals(model.concept_profile("g1"))
    drawn, ids = model.sample(50, authors=["author 1"], random_state=0)
    assert len(drawn.sentences) == len(ids) == 50
    assert model.responsibilities_.shape == (corpus.sentence_counts.shape[0], 6)
    score = tallies.evaluate(model, corpus)
    assert score.kind == "exact"
    assert np.isfinite(score.value)
    table = model.annotate(corpus.sentences[:3], k=2)
    assert table.columns.tolist() == ["sentence", "rank", "id", "name", "probability", "none"]
    with pytest.raises(KeyError, match="no author"):
        model.author_profile("who")
    with pytest.raises(KeyError, match="no concept"):
        model.concept_profile("g99")
    with pytest.raises(AttributeError, match="AuthorConcept was not fitted on a data frame"):
        _ = model.columns_


def test_samples_refit_to_the_prior_they_came_from():
    corpus, ontology, *_ = simulated(np.random.default_rng(6))
    model = AuthorConcept(**EXACT).fit(corpus, ontology)
    _, ids = model.sample(4000, random_state=1)
    share = np.array([np.mean(ids == c) for c in model.concept_ids_])
    p = model.fitted_.psi.everybody
    assert (np.abs(share - p) < 5 * np.sqrt(p * (1 - p) / 4000) + 1e-12).all()


def test_penalised_m_steps_are_maxima():
    rng = np.random.default_rng(0)
    counts, phi = rng.gamma(1.0, 3.0, (3, 6)), rng.dirichlet(np.ones(6), 3)
    for sparsity, overlap in ((3.0, 0.0), (0.0, 8.0), (2.0, 5.0)):
        value = lambda p, s=sparsity, o=overlap: float(np.sum(counts * np.log(p))) + penalties.log_penalty(p, s, o, None)  # noqa: E731
        for _ in range(500):
            new = penalties.maximise(counts, phi, sparsity, overlap, None)
            assert value(new) >= value(phi) - 1e-10
            phi = new
        for _ in range(200):  # no feasible neighbour is better
            other = phi * np.exp(1e-3 * rng.normal(size=phi.shape))
            assert value(other / other.sum(axis=1, keepdims=True)) <= value(phi) + 1e-9


def test_ranks_lend_the_prior_of_a_concept_to_its_parents():
    concepts = Ontology(["top", "left", "right"], ["cell", "gene", "cell"], parents=[[], ["top"], []])
    texts = ["a gene", "genes", "the gene", "a cell"]
    none, some = (AuthorConcept(ontology_smoothing=t).fit(texts, concepts) for t in (0.0, 0.3))
    np.testing.assert_array_equal(none.fitted_.psi.base, some.fitted_.psi.base)
    base, lent = none.fitted_.psi.base, answers.ranking_psi(some.fitted_, some._ranking().smoothing).base
    np.testing.assert_allclose(base, none.fitted_.psi.everybody, rtol=1e-12)  # no authors at all
    np.testing.assert_allclose(lent, [base[0] + 0.3 * base[1], 0.7 * base[1], base[2], base[3]], rtol=1e-12)
    assert some.rank(["cell"], k=2)[0].tolist() == [["top", "right"]]


def test_strength_favours_concepts():
    concepts = Ontology(["x", "y"], ["cell", "cell"])
    texts = ["a cell", "many cells"] * 5
    first = AuthorConcept(strength=[100.0, 1.0], gamma=1.0).fit(texts, concepts)
    assert first.rank(["cell"], k=2)[0].tolist() == [["x", "y"]]
    second = AuthorConcept(strength=[1.0, 100.0], gamma=1.0).fit(texts, concepts)
    assert second.rank(["cell"], k=2)[0].tolist() == [["y", "x"]]
