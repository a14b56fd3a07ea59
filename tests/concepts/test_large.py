"""An ontology of the shape of the Gene Ontology: Ctrl-C acts in every phase, and tables that fit in no memory are refused first."""

import os
import pickle
import signal
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from running import begin
from tallies import AuthorConcept, Corpus, Multinomial, Ontology
from tallies.concepts import author_prior, door
from tallies.concepts.settings import settings_of
from tallies.errors import DataError

TERMS, WORDS = 20_000, 6_000
ENOUGH = 3.0  # seconds of the processor between Ctrl-C and the end; all of the fit takes more than ten times that

CHILD = """
import pickle, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
from test_large import sentences
from tallies import AuthorConcept, Ontology, engine
said = set()
def say(what):
    if what not in said:
        said.add(what)
        print(what, flush=True)
path, size, phase, usable = sys.argv[1:]
if usable == "True":  # by the clock, of which a busy machine gives a process little: the processor's time is what counts here
    engine.PATIENCE = engine.WRAP_UP = 120.0
corpus = sentences(int(size))
say("reading")
concepts = Ontology.read(path) if phase == "reading" else pickle.load(open(path + ".pickle", "rb"))
say("indexing")
model = AuthorConcept(tol=None, max_iter=60).fit(corpus, concepts, callback=lambda stage, state: say(stage.name))
assert len(model.annotate(["one more sentence"])) >= 0
print("usable", model.stopped_, model.n_iter_ < 20, flush=True)
"""


def words_of(rng, n):
    return [" ".join(f"w{v}x" for v in row) for row in rng.zipf(1.3, (n, 4)) % WORDS]


def write_obo(path):
    rng = np.random.default_rng(0)
    names, synonyms, definitions = words_of(rng, TERMS), words_of(rng, 2 * TERMS), words_of(rng, 4 * TERMS)
    with path.open("w") as file:
        for g in range(TERMS):
            file.write(f'[Term]\nid: T:{g}\nname: {names[g]}\ndef: "{" ".join(definitions[4 * g : 4 * g + 4])}" []\n')
            file.writelines(f'synonym: "{s}" EXACT []\n' for s in synonyms[2 * g : 2 * g + 2])
            file.writelines(f"is_a: T:{p}\n" for p in {g // 3, g // 2} if p < g)
            file.write("\n")


def sentences(n):
    rng = np.random.default_rng(1)
    texts = [" ".join(pair) for pair in zip(words_of(rng, n), words_of(rng, n), words_of(rng, n), strict=False)]
    return Corpus.from_pairs([(f"d{i // 20}", t) for i, t in enumerate(texts)], [(f"d{i}", f"a{i % 50}") for i in range(n // 20)])


@pytest.fixture(scope="module")
def obo(tmp_path_factory):
    path = tmp_path_factory.mktemp("large") / "large.obo"
    write_obo(path)
    concepts = Ontology.read(path)
    path.with_name("large.obo.pickle").write_bytes(pickle.dumps(concepts))  # read once for all phases but reading
    # all kernels are compiled before anything is measured, also those of large ontologies
    AuthorConcept(tol=None, max_iter=2).fit(sentences(100), concepts).annotate(["one more sentence"])
    return path


def cpu(child):
    """Seconds of the processor that a process has used, whatever else the machine does."""
    return sum(psutil.Process(child.pid).cpu_times()[:2])


@pytest.mark.parametrize(
    ("phase", "after", "usable", "size"),
    [
        pytest.param("reading", 0.5, False, 1_000, marks=pytest.mark.long),
        pytest.param("indexing", 0.5, False, 1_000, marks=pytest.mark.long),
        pytest.param("words of the corpus", 0.1, True, 600, marks=pytest.mark.long),  # a first sweep is carried to its end
        ("concepts of sentences", 0.3, True, 5_000),  # a later one, of more than ENOUGH, is dropped
    ],
)
def test_ctrl_c_acts_within_seconds_in_every_phase(obo, phase, after, usable, size):
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    child = begin("-c", CHILD, str(obo), str(size), phase, str(usable), env=env)
    try:
        while (line := child.stdout.readline().strip()) != phase:
            assert line, child.stderr.read()
        begun = cpu(child)
        while cpu(child) < begun + after:
            time.sleep(0.01)
        begun = cpu(child)
        child.send_signal(signal.SIGINT)
        while child.poll() is None:
            assert cpu(child) - begun < ENOUGH, f"{cpu(child) - begun:.1f} s after Ctrl-C it still runs"
            time.sleep(0.01)
        out, err = child.communicate()
    finally:
        child.kill()
        child.wait()
    assert ("usable interrupted True" if usable else "KeyboardInterrupt") in (out if usable else err), err


def shards(n, document=lambda i: i):
    papers = Corpus.from_pairs([(f"d{document(i)}", "cell death") for i in range(n)], stop_words=None)
    return [len(s.load().sentences.document) for s in AuthorConcept()._prepare(papers, Ontology(["x"], ["cell death"])).sources]


def test_shards_are_small_enough_to_stop_between_them_also_within_one_document():
    assert shards(300) == [256, 44]
    assert set(shards(40_000)) == {1250}
    assert max(shards(70_000)) == 2048
    assert max(shards(70_000, lambda i: 0)) == 2048


def test_a_document_may_be_cut(monkeypatch):
    papers = Corpus.from_pairs(
        [(f"d{i % 3 // 2}", f"cell death {'gene' * (i % 2)}") for i in range(30)], [("d0", "Ann"), ("d1", "Ann"), ("d1", "Bob")]
    )
    concepts = Ontology(["x", "y"], ["cell death", "gene"])
    for options in ({}, {"document_backoff": 2.0}, {"preset": "seed"}, {"words": Multinomial(anchor=2.0), "document_backoff": 2.0}):
        fits = []
        for rows in (1_000, 4):
            monkeypatch.setattr(AuthorConcept, "shard_rows", rows)
            fits.append(AuthorConcept(**options).fit(papers, concepts))
        np.testing.assert_allclose(fits[0].history_, fits[1].history_, rtol=1e-12)
        np.testing.assert_allclose(fits[0].author_concepts_, fits[1].author_concepts_, rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"words": Multinomial(overlap=1.0, overlap_kind="distance")}, "30 x 30 concepts"),
        ({"words": Multinomial(word_sparsity=1.0)}, "30 concepts x 10 words"),
        ({"author_sparsity": 1.0}, "5 authors and documents x 30 concepts"),
    ],
)
def test_tables_that_fit_in_no_memory_are_refused_before_they_are_made(monkeypatch, options, told):
    monkeypatch.setattr(door, "TABLE", 100)
    monkeypatch.setattr(Ontology, "distances", lambda self: pytest.fail("made"))
    papers = Corpus.from_pairs([(f"d{i}", f"w{chr(97 + i)}z") for i in range(10)], [(f"d{i}", f"a{i % 5}") for i in range(10)])
    concepts = Ontology([f"g{g}" for g in range(30)], [f"w{chr(97 + g % 10)}z" for g in range(30)])
    if told.startswith("30 x"):
        monkeypatch.setattr(door, "TABLE", 500)  # of words, which is made first
    with pytest.raises(DataError, match=told):
        AuthorConcept(preset="seed", **options).fit(papers, concepts)


def test_the_prior_of_many_authors_is_never_laid_out(monkeypatch):
    """16,000 authors x 43,000 concepts would be 5 GB a sweep."""
    rng = np.random.default_rng(0)
    A, G = 40, 30
    dense = np.where(rng.random((A, G)) < 0.2, rng.random((A, G)), 0.0)
    base, constant = rng.dirichlet(np.ones(G)), rng.random(A)
    psi = author_prior.Psi(base, constant, author_prior.sp.csr_array(dense), base)
    expected = 0.3 * float(np.sum(base * np.log(constant[:, None] * base + dense)))
    monkeypatch.setattr(author_prior, "laid_out", lambda *_: pytest.fail("laid out"))
    assert author_prior.log_penalty(psi, np.ones(G), 0.3, 0.0, False) == pytest.approx(expected, rel=1e-12)
    assert settings_of(AuthorConcept(preset="seed")).gamma > 0  # where that is used
