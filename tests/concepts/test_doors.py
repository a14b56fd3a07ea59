"""AuthorConcept at its doors: input that is refused, odd input that is not, files and the command line."""

import gzip
import json
import sys
import warnings

import numpy as np
import pandas as pd
import pytest

from tallies.cli.main import main
from tallies.concepts import answers, author_prior
from tallies.concepts import command as concepts_command
from tallies.concepts.estimator import AuthorConcept
from tallies.concepts.settings import Mention, Multinomial
from tallies.data.corpus import Corpus
from tallies.data.ontology import Ontology
from tallies.errors import DataError, DataWarning

GOOD = Ontology(["x"], ["cell death"], ["the end of a cell"])


@pytest.mark.parametrize(
    ("corpus", "concepts", "options", "error", "match"),
    [
        ("one string", GOOD, {}, DataError, "list"),
        ([], GOOD, {}, DataError, "nothing"),
        ([None], GOOD, {}, DataError, "None"),
        (["a"], None, {}, TypeError, "Ontology"),
        (Corpus.from_texts(["cell death"]), GOOD, {}, DataError, "sentences=True"),
        (["zebra crossing"], GOOD, {}, DataError, "share no word"),
        (["zebra crossing"], GOOD, {"words": "multinomial"}, DataError, "share no word"),
        (["cell"], Ontology(["x"], [""]), {}, DataError, "name"),
        (["cell"], GOOD, {"words": "bag"}, ValueError, "words"),
        (["cell"], GOOD, {"preset": "best"}, ValueError, "preset"),
        (["cell"], GOOD, {"temperature": 0.0}, ValueError, "temperature"),
        (["cell"], GOOD, {"words": "mention", "preset": "seed"}, ValueError, "null=True"),
        (["cell"], GOOD, {"words": Multinomial(overlap=1.0)}, ValueError, "anchor"),
        (["cell"], GOOD, {"words": Mention(stem=0.0)}, ValueError, "stem"),
        (["cell"], GOOD, {"words": Mention(context=-1.0)}, ValueError, "context"),
        (["cell"], GOOD, {"words": Multinomial(overlap_kind="far")}, ValueError, "overlap_kind"),
        (["cell"], GOOD, {"strength": [1.0, 2.0]}, DataError, "strength"),
        (["cell"], GOOD, {"keep": 0}, ValueError, "keep"),
    ],
)
def test_bad_input_is_refused_with_a_remedy(corpus, concepts, options, error, match):
    with pytest.raises(error, match=match):
        AuthorConcept(**options).fit(corpus, concepts)


def test_options_belong_to_the_words_that_read_them():
    with pytest.raises(TypeError, match="overlap"):
        Mention(overlap=1.0)  # the words of mentions are not learned
    with pytest.raises(TypeError, match="stems"):
        Mention(stems=1.0)


def test_odd_but_usable_input():
    texts = [("d1", "Cell death was seen."), ("d1", ""), ("d1", "12 %"), ("d2", "cell death"), ("d3", "deaths of cells")]
    corpus = Corpus.from_pairs(texts, [("d1", "Ann "), ("d1", "Ann"), ("d3", "Bob")])
    model = AuthorConcept().fit(corpus, GOOD)
    assert model.authors_.tolist() == ["Ann", "Bob"]
    ids, _ = model.rank(["", "!!", "cell death"], authors=[[], ["", None], ["unknown"]], k=3)
    assert ids[:2].tolist() == [[None] * 3] * 2
    assert ids[2, 0] == "x"
    assert author_prior.rows_of([[]], np.ones(1), np.empty(0), None).share.tolist() == [1.0]


def test_from_files_to_files(tmp_path):
    (tmp_path / "go.obo").write_text(
        '[Term]\nid: T:1\nname: cell death\nsynonym: "apoptosis" EXACT []\n\n[Term]\nid: T:2\nname: growth\n'
    )
    papers = [
        {"id": "p1", "text": "Apoptosis was seen. Cell death is slow.", "authors": ["Ann"]},
        {"id": "p2", "text": "Growth of mice.", "authors": "Bob; Eve"},
    ]
    (tmp_path / "papers.jsonl").write_text("\n".join(map(json.dumps, papers)))
    (tmp_path / "new.jsonl").write_text(
        '{"id": "a", "text": "the death of a cell"}\n{"id": "b", "text": "%%"}\n{"id": "c", "text": "growth"}'
    )
    options = {"data": str(tmp_path / "papers.jsonl"), "ontology": str(tmp_path / "go.obo"), "top": 1}
    options |= {"text": "text", "authors": "authors", "id": "id"}
    model = concepts_command.fit(AuthorConcept(), options)
    assert model.authors_.tolist() == ["Ann", "Bob", "Eve"]
    table = concepts_command.predict(model, options, str(tmp_path / "new.jsonl"))
    assert table[["id", "rank", "concept", "name"]].values.tolist() == [["a", 1, "T:1", "cell death"], ["c", 1, "T:2", "growth"]]
    (tmp_path / "none.jsonl").write_text("")
    with pytest.raises(DataError, match="empty"):
        concepts_command.predict(model, options, str(tmp_path / "none.jsonl"))


def test_authors_without_a_name_are_nobody():
    corpus = Corpus.from_texts(["Cell death was seen.", "Cell death."], authors=[["", " "], ["Ann", ""]], sentences=True)
    assert AuthorConcept().fit(corpus, GOOD).authors_.tolist() == ["Ann"]
    with pytest.raises(DataError, match="without gaps"):
        Corpus.from_pairs([("d", "Cell death.")], [("d", "")])


def test_documents_of_one_id_share_a_profile():
    corpus = Corpus.from_texts(["Cell death was seen.", "Nothing."], ids=["d", "d"], sentences=True)
    model = AuthorConcept().fit(corpus, GOOD)
    mean = np.asarray(model.responsibilities_.mean(axis=0)).ravel()[0]
    assert model.document_profile("d").probability.tolist() == pytest.approx([mean])
    with pytest.raises(DataError, match="more than once"):
        Ontology(["x", "x"], ["a", "b"])


def test_concepts_without_names_are_found_by_nothing_or_by_their_definition():
    concepts = Ontology(["x", "y"], ["cell death", ""], ["", "growth of mice"])
    texts = ["Cell death was seen.", "Growth of mice."]
    assert AuthorConcept().fit(texts, concepts).rank(texts, k=1)[0].tolist() == [["x"], [None]]
    named = AuthorConcept(words="multinomial").fit(Corpus.from_texts(texts, sentences=True), concepts)
    assert named.rank(texts, k=1)[0].tolist() == [["x"], ["y"]]


def test_cyclic_ontologies_can_be_fitted(tmp_path):
    path = tmp_path / "a.obo"
    path.write_text("[Term]\nid: A\nname: cell death\nis_a: B\n[Term]\nid: B\nname: growth\nis_a: A\n")
    with pytest.warns(DataWarning, match="circle"):
        concepts = Ontology.read(path)
    model = AuthorConcept().fit(["Cell death was seen.", "Growth."], concepts)
    assert model.rank(["cell death", "growth"], k=1)[0].tolist() == [["A"], ["B"]]
    assert model.roll_up(np.array([1.0, 2.0])).tolist() == [3.0, 3.0]
    assert answers.ranking_psi(model.fitted_, 0.3).base.sum() == pytest.approx(1.0)


def test_papers_that_are_not_utf8_keep_their_other_words(tmp_path):
    (tmp_path / "p.jsonl").write_bytes(b'{"text": "caf\xe9s and cell death", "authors": ["Andr\xe9"]}\n')
    corpus = Corpus.read(tmp_path / "p.jsonl", sentences=True)
    assert corpus.authors == [("Andr\ufffd",)]
    assert AuthorConcept().fit(corpus, GOOD).assignments_.tolist() == ["x"]
    (tmp_path / "o.csv").write_bytes(b"id,name\nx,caf\xe9\n")
    assert Ontology.read(tmp_path / "o.csv").names == ["café"]  # tables are read in the encoding that they have


def test_the_command_line(tmp_path, capsys, monkeypatch):
    def tallies(*arguments):
        monkeypatch.setattr(sys, "argv", ["tallies", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        assert code == 0
        return capsys.readouterr().out

    with gzip.open(tmp_path / "go.obo.gz", "wt") as stream:
        stream.write("[Term]\nid: T:1\nname: cell death\n\n[Term]\nid: T:2\nname: growth\n")
    lines = ['{"id": "a", "text": "Cell death was seen. Growth too.", "authors": ["Ann"]}', '{"id": "b", "text": "Growth."}']
    papers, run, new = tmp_path / "papers.jsonl", tmp_path / "RUN", tmp_path / "sentences.jsonl"
    papers.write_text("\n".join(lines))
    new.write_text('{"id": "s", "text": "the death of a cell"}')
    tallies("fit", "author-concept", papers, "--ontology", tmp_path / "go.obo.gz", "--out", run, "--quiet")
    for name, read in (("t.csv", pd.read_csv), ("t.parquet", pd.read_parquet), ("t.jsonl", lambda p: pd.read_json(p, lines=True))):
        tallies("predict", run, new, "--top", "1", "--out", tmp_path / name, "--quiet")
        assert read(tmp_path / name)[["id", "concept", "name"]].to_numpy().tolist() == [["s", "T:1", "cell death"]]
    assert json.loads(tallies("predict", run, new, "--top", "1", "--json"))[0]["concept"] == "T:1"
    drawn = json.loads(tallies("sample", run, "-n", "30", "--seed", "1", "--json"))
    assert any("cell death" in row["words"] for row in drawn if row["concept"] == "T:1")  # in the order in which they are said


def test_a_parent_that_is_not_there():
    with pytest.raises(DataError, match=r"parents must be ids of concepts, but \['none'\] are none"):
        Ontology(["x"], ["cell death"], parents=[["none"]])


def test_authors_that_are_no_names():
    model = AuthorConcept().fit(["Cell death was seen."], GOOD)
    for authors in (3, [3]):
        with pytest.raises(DataError, match="authors must be names"):
            model.log_prob(["Cell death was seen."], authors)


@pytest.mark.parametrize(
    "options",
    [
        *({"gamma": "much"}, {"keep": {}}, {"temperature": [1.0]}),
        *({"words": Mention(pair=np.inf)}, {"words": Mention(missing=-1e300)}, {"words": Mention(synonym=np.nan)}),
    ],
)
def test_settings_that_mean_nothing(options):
    with pytest.raises(ValueError, match="must"):
        AuthorConcept(**options).fit(["Cell death was seen."], Ontology(["x"], ["cell death"]))


def test_odd_labels_and_a_prior_without_weight_are_told_in_words():
    concepts = Ontology(["x", "y"], ["cell death", "gene"])
    corpus = Corpus.from_texts(["cell death", "a gene"], sentences=True)
    with pytest.warns(DataWarning, match="2 labels are not in the ontology, such as"):
        AuthorConcept().fit(corpus, concepts, labels=[[None, 3], ["x"]])
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        model = AuthorConcept(gamma=0.0, max_iter=3).fit(corpus, concepts)
        assert not model.explain("cell death", "y")["log_odds"].isna().any()
