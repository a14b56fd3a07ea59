"""What is told of the package beside pyproject.toml agrees with it."""

import json
import re
import tomllib
from pathlib import Path

import tallies

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CORE = dict(re.match(r"([\w-]+)(.*)", need).groups() for need in PROJECT["dependencies"])
EXTRAS = ("dask", "remote", "feather", "anndata", "biom", "plots", "graphs", "arviz")


def test_every_dependency_has_its_licence_told():
    told = set(re.findall(r"^\| ([\w-]+)(?: \(extra `\w+`\))? \|", (ROOT / "docs/licences.md").read_text(), re.M)) - {"package"}
    needed = [need for name in EXTRAS for need in PROJECT["optional-dependencies"][name]]
    assert told == set(CORE) | {re.match(r"[\w-]+", need)[0] for need in needed}


def test_the_recipe_needs_what_the_package_needs():
    text = (ROOT / "packaging/recipe.yaml").read_text()
    found = dict(line.strip("- ").split() for line in text.split("  run:\n")[1].split("\n\n")[0].splitlines())
    assert found.pop("python") == PROJECT["requires-python"]
    found["duckdb"] = found.pop("python-duckdb")  # its name there
    assert found == CORE


def test_the_citation_is_of_this_version():
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.M)[1]
    assert tallies.__version__.split(".dev")[0] == cited
    assert re.search(r'version: "(\S+)"', (ROOT / "packaging/recipe.yaml").read_text())[1] == cited


def test_the_source_archive_has_what_the_tests_read():
    kept = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert {
        "src",
        "tests",
        "docs",
        "benchmarks",
        "packaging",
        "conftest.py",
        "CITATION.cff",
        "README.md",
        "CONTRIBUTING.md",
    } <= set(kept)


def test_the_paper_cites_what_its_list_has():
    text, known = (ROOT / "packaging/paper.md").read_text(), (ROOT / "packaging/paper.bib").read_text()
    cited = {name for group in re.findall(r"\[(@[^\]]+)\]", text) for name in re.findall(r"@(\w+)", group)}
    assert cited == set(re.findall(r"^@\w+\{(\w+),", known, re.M))


def test_the_paper_has_the_length_that_the_journal_asks_for():
    body = (ROOT / "packaging/paper.md").read_text().split("---", 2)[2]
    assert 750 <= len(body.split()) <= 1750


def test_the_figures_of_the_paper_are_those_that_were_measured():
    text = " ".join((ROOT / "packaging/paper.md").read_text().split())

    def span(names, cases="", slower=False):
        """The least and the largest ratio of these measurements, of cases that the pattern finds; `slower`: their inverses."""
        stored = [json.loads((ROOT / f"benchmarks/results/{name}.json").read_text()) for name in names.split()]
        ratios = [
            row["ratio"] ** (-1 if slower else 1) for result in stored for row in result["rows"] if re.search(cases, row["case"])
        ]
        return " to ".join(dict.fromkeys(f"{ratio:.2g}" for ratio in (min(ratios), max(ratios))))

    texts = "lda-made lda-abstracts lda-peps lda-grown"
    for told in (
        f"near the bound of pyPLNmodels {span('pln pln-oaks')} times sooner",
        f"that of its principal components {span('pln-rank', '^(?!.*whole fits)')} times",
        f"tomotopy {span(texts, '^100 topics')} times sooner at 100 topics and {span(texts, '^500 topics')} times at 500",
        f"naive Bayes of numbers {span('classifiers', '(GDA|GaussianNB).*fit')} times as fast as scikit-learn",
        f"of categories {span('classifiers', 'CategoricalNB: fit')} times",
        f"naive Bayes of words is fitted {span('classifiers', 'MultinomialNB: fit')} times as fast",
        f"predicts only {span('classifiers', 'MultinomialNB: predict')} times as fast",
        f"take {span('network-oaks', 'whole fits', slower=True)} times as long as in pyPLNmodels",
        f"last bound they pass {span('network-oaks', 'past its last')} times sooner",
    ):
        assert told in text, told
