"""Whatever is asked of a model in Python may be asked of a file, as a fit may be of one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import tallies
from tallies import FEM, GDA, LDA, PLN, AuthorConcept, NaiveBayes


@pytest.fixture
def table(tmp_path):
    rng, y = np.random.default_rng(0), np.arange(60) % 2
    frame = pd.DataFrame({"id": [f"r{i}" for i in range(60)], "a": rng.normal(size=60) + 2 * y, "b": rng.normal(size=60)})
    frame["wet"], frame["colour"], frame["w"] = rng.random(60) < 0.5, rng.choice(["red", "blue"], 60), rng.random(60)
    frame["y"] = np.array(["p", "q"])[y]
    frame.to_csv(tmp_path / "t.csv", index=False)
    return frame, tmp_path / "t.csv"


def test_a_model_of_numbers_leaves_categories_of_a_file_out_and_says_so(table):
    frame, path = table
    model = GDA().fit(path, "y", sample_weight="w")
    assert model.feature_names_in_.tolist() == ["a", "b", "wet"]
    use = dict(zip(model.columns_["column"], model.columns_["use"], strict=True))
    assert use["colour"] == "left out: GDA takes numbers; NaiveBayes takes categories, too"
    np.testing.assert_array_equal(model.predict(path), model.predict(frame[["a", "b", "wet"]]))
    with pytest.raises(tallies.errors.DataError, match="expects numbers in every column"):
        GDA().fit(frame[["a", "colour"]], frame["y"])  # a table that was chosen column by column is taken at its word


def test_the_command_leaves_them_out_too(table, monkeypatch, run):
    monkeypatch.chdir(table[1].parent)
    code, _, told = run("fit", "gda", "t.csv", "-t", "y", "-o", "RUN")
    assert code == 0
    assert "colour" in told
    assert "GDA takes numbers" in told
    assert run("predict", "RUN", "t.csv")[0] == 0
    assert run("fit", "gda", "t.csv", "-t", "y", "-o", "RUN2", "--keep", "colour")[0] == 2


@pytest.mark.parametrize("model", [GDA(), NaiveBayes(), FEM(ridge=1.0, bins=3)], ids=lambda model: type(model).__name__)
def test_files_are_scored_evaluated_compared_and_reported_like_tables(table, model, tmp_path):
    frame, path = table
    model.fit(str(path), "y")
    X = frame[model.feature_names_in_]
    assert model.score(path, "y") == model.score(X, frame["y"])
    assert model.score(path, "y", sample_weight="w") == pytest.approx(model.score(X, frame["y"], sample_weight=frame["w"]))
    assert tallies.evaluate(model, path, "y") == tallies.evaluate(model, X, frame["y"])
    assert len(tallies.compare({"one": model, "two": model}, path, "y")) == 2
    np.testing.assert_array_equal(model.predict_proba(str(path)), model.predict_proba(X))
    assert "How good is it?" in model.report(tmp_path / "page.html", path, "y").read_text(encoding="utf-8")
    with pytest.raises(tallies.errors.DataError, match="the column 'z', which"):
        model.score(path, "z")


def test_rows_of_files_are_added(table):
    frame, path = table
    added = GDA().partial_fit(path, "y").partial_fit(path, "y")
    used = ["a", "b", "wet", "w"]
    whole = GDA().fit(pd.concat([frame, frame])[used], pd.concat([frame["y"]] * 2))
    np.testing.assert_allclose(added.predict_proba(path), whole.predict_proba(frame[used]))


def test_papers_and_concepts_may_be_files(tmp_path):
    words = "the red fox jumps. a blue whale swims.", "a fox ran. it was red.", "no whale there. blue sea."
    papers = pd.DataFrame({"text": words * 4, "authors": [["Ann"], ["Ann", "Bob"], ["Cid"]] * 4})
    papers.to_json(tmp_path / "papers.jsonl", orient="records", lines=True)
    pd.DataFrame({"id": ["G1", "G2"], "name": ["fox", "whale"]}).to_csv(tmp_path / "concepts.csv", index=False)
    corpus = tallies.Corpus.read(tmp_path / "papers.jsonl", sentences=True)
    theirs = AuthorConcept().fit(corpus, tallies.Ontology.read(tmp_path / "concepts.csv"))
    ours = AuthorConcept().fit(tmp_path / "papers.jsonl", str(tmp_path / "concepts.csv"))
    for path in (tmp_path / "papers.jsonl", str(tmp_path / "papers.jsonl")):
        np.testing.assert_array_equal(ours.rank(path)[0], theirs.rank(corpus)[0])
        assert ours.score(path) == theirs.score(corpus)
    assert ours.report(tmp_path / "page.html", tmp_path / "papers.jsonl").exists()
    with pytest.raises(tallies.errors.DataError, match="one string, which names no file"):
        ours.rank("a red fox " * 500)


def test_texts_of_topics_may_be_a_file_or_a_folder(tmp_path):
    texts = ["oak elm ash oak 421703", "iron zinc tin", "elm ash elm", "zinc tin iron zinc"] * 5
    pd.DataFrame({"text": texts}).to_json(tmp_path / "texts.jsonl", orient="records", lines=True)
    (tmp_path / "folder").mkdir()
    for i, text in enumerate(texts):
        (tmp_path / "folder" / f"{i:02}.txt").write_text(text)
    theirs = LDA(n_topics=2, max_iter=20, burn_in=10).fit(texts)
    for path in (tmp_path / "texts.jsonl", str(tmp_path / "texts.jsonl"), tmp_path / "folder"):
        ours = LDA(n_topics=2, max_iter=20, burn_in=10).fit(path)
        np.testing.assert_array_equal(ours.topics_, theirs.topics_)
        np.testing.assert_array_equal(theirs.transform(path), ours.transform(texts))
        assert (ours.score(path), ours.perplexity(path)) == (theirs.score(texts), theirs.perplexity(texts))
        assert tallies.evaluate(ours, path) == tallies.evaluate(theirs, texts)
    page = ours.report(tmp_path / "page.html", tmp_path / "texts.jsonl").read_text(encoding="utf-8")
    assert "421703" in page  # no word: documents are shown with their texts
    for wrong in ("no_such.jsonl", "oak and elm " * 30, "oak and elm " * 1000):  # a name of a file has 255 letters at most
        for ask in (LDA().fit, theirs.transform, theirs.score, AuthorConcept().fit):
            with pytest.raises(tallies.errors.DataError, match="one string, which names no file"):
                ask(wrong)
    with pytest.raises(tallies.errors.DataError, match=r"text= of Corpus\.read"):
        pd.DataFrame({"body": texts}).to_csv(tmp_path / "t.csv")
        LDA().fit(tmp_path / "t.csv")


def test_counts_of_words_may_be_a_file(tmp_path):
    """One column a word; a column that names the documents is none of them, and one of other words is refused."""
    counts = pd.DataFrame(np.random.default_rng(0).poisson([[5, 4, 0, 0], [0, 0, 5, 4]] * 12), columns=["oak", "elm", "bus", "car"])
    counts.assign(document=[f"d{i}" for i in range(24)]).to_csv(tmp_path / "counts.csv", index=False, sep=";")
    theirs, ours = (LDA(n_topics=2, max_iter=20, burn_in=10).fit(data) for data in (counts, tmp_path / "counts.csv"))
    assert ours.vocabulary_.tolist() == ["oak", "elm", "bus", "car"]
    np.testing.assert_array_equal(ours.topics_, theirs.topics_)
    np.testing.assert_array_equal(ours.transform(str(tmp_path / "counts.csv")), theirs.transform(counts))
    assert ours.score(tmp_path / "counts.csv") == theirs.score(counts)
    counts.assign(season=["dry", "wet"] * 12).to_csv(tmp_path / "other.csv")
    with pytest.raises(tallies.errors.DataError, match=r"text= of Corpus\.read"):
        LDA().fit(tmp_path / "other.csv")


@pytest.fixture
def sites(tmp_path):
    rng, names = np.random.default_rng(0), [f"s{i}" for i in range(40)]
    beside = pd.DataFrame({"depth": rng.normal(size=40), "soil": np.array(["clay", "sand"])[np.arange(40) % 2]}, index=names)
    rate = 2 + 0.5 * beside["depth"].to_numpy()[:, None] + rng.normal(size=(40, 1))
    counts = pd.DataFrame(rng.poisson(np.exp(rate + np.array([0.0, 0.3, 0.6]))), columns=["oak", "elm", "ash"], index=names)
    effort = pd.DataFrame({"effort": rng.normal(size=40)}, index=names)
    for name, part in (("counts", counts), ("sites", beside), ("effort", effort), ("all", counts.join(beside).join(effort**2))):
        part.to_csv(tmp_path / f"{name}.csv", index_label="site")
    return counts, beside, effort, tmp_path


def test_counts_and_what_is_beside_them_may_be_files(sites):
    counts, beside, effort, folder = sites
    theirs = PLN.from_formula("~ 1 + depth + soil", counts, beside, offsets=effort)
    files = {"covariates": folder / "sites.csv", "offsets": str(folder / "effort.csv")}
    ours = PLN().fit(str(folder / "counts.csv"), **files)
    assert ours.covariate_names_.tolist() == theirs.covariate_names_.tolist()
    np.testing.assert_array_equal(ours.coefficients_, theirs.coefficients_)
    counts.iloc[5:20].to_csv(folder / "new.csv", index_label="site")
    new, given = folder / "new.csv", {"covariates": beside.iloc[5:20], "offsets": effort.iloc[5:20]}
    with pytest.warns(tallies.errors.DataWarning, match="25 rows of (covariates|offsets) have no counts"):
        np.testing.assert_array_equal(ours.transform(new, **files), theirs.transform(counts.iloc[5:20], **given))
    for name, part in given.items():
        part.to_csv(folder / f"new {name}.csv", index_label="site")
        files[name] = folder / f"new {name}.csv"
    for ask in ("predict", "score", "log_prob"):
        found = getattr(ours, ask)(new, **files)
        np.testing.assert_array_equal(found, getattr(theirs, ask)(counts.iloc[5:20], **given))
    np.testing.assert_array_equal(ours.predict(**files), theirs.predict(**given))
    np.testing.assert_array_equal(
        ours.predict_conditional(new, ["oak"], **files), theirs.predict_conditional(counts.iloc[5:20], ["oak"], **given)
    )
    np.testing.assert_array_equal(ours.sample(15, random_state=0, **files), theirs.sample(15, random_state=0, **given))
    assert tallies.evaluate(ours, new, *files.values()) == tallies.evaluate(theirs, counts.iloc[5:20], *given.values())
    assert ours.report(folder / "page.html", new, *files.values()).exists()
    formula = PLN.from_formula("~ 1 + soil", folder / "counts.csv", folder / "sites.csv")
    assert formula.covariate_names_.tolist() == ["Intercept", "soil[T.sand]"]


def test_columns_of_the_file_of_counts_may_be_covariates_and_weights(sites):
    counts, beside, effort, folder = sites
    ours = PLN().fit(folder / "all.csv", covariates=["depth", "soil"], sample_weight="effort")
    theirs = PLN.from_formula("~ 1 + depth + soil", counts, beside, sample_weight=effort["effort"] ** 2)
    np.testing.assert_allclose(ours.coefficients_, theirs.coefficients_, rtol=1e-6)
    with pytest.raises(tallies.errors.DataError, match="did you mean 'depth'"):
        PLN().fit(folder / "all.csv", covariates=["depht"])
    with pytest.raises(tallies.errors.DataError, match="must be a rule or a file"):
        PLN().fit(folder / "counts.csv", offsets="logsumm")
    with pytest.raises(FileNotFoundError, match=r"no file 'none\.csv'"):
        PLN().fit("none.csv")
