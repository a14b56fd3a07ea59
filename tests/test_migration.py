"""The tables for those who come from other packages name what there is: every name of ours in them is looked up."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import tallies
from tallies.counts import plots
from tallies.data.corpus import Counting
from tallies.estimator import RunOptions

PAGE = (Path(__file__).parents[1] / "docs" / "migration.md").read_text(encoding="utf-8")
SECTIONS = dict(part.split("\n", 1) for part in PAGE.split("\n## ")[1:])
MODELS = {
    "pyPLNmodels": (tallies.PLN, tallies.PLNNetwork, tallies.PLNMixture, tallies.PLNDiscriminant, tallies.Importance),
    "tomotopy": (tallies.LDA,),
    "gensim": (tallies.LDA,),
    "MALLET": (tallies.LDA,),
    "pyLDAvis": (tallies.LDA,),
    "scikit-learn's LatentDirichletAllocation": (tallies.LDA,),
    "scikit-learn's naive Bayes and discriminant analysis": (tallies.NaiveBayes, tallies.GDA),
}
READERS = {
    *"XYOKasqnkd",
    "cov",
    "counts",
    "corpus",
    "data",
    "mdl",
    "more",
    "other",
    "path",
    "texts",
    "tokens",
    "topic",
    "word",
    "words",
    "unseen",
}
THEIRS = {"OrdinalEncoder", "CountVectorizer", "reg_param", "print"}  # spoken of beside ours


def options(thing):
    """What a class, a function or a method can be called with by name."""
    found = inspect.signature(thing).parameters
    more = {"run": RunOptions, "words": Counting}  # typed dictionaries of further ones
    return {*found, *(key for name in found if name in more for key in more[name].__annotations__), *getattr(thing, "_fields", ())}


def codes(section):
    """What stands in the second column of the tables of a section as code, parsed."""
    for line in section.splitlines():
        cells = line.split("|")
        for code in re.findall(r"`([^`]+)`", cells[2]) if len(cells) > 3 else ():
            yield code, ast.parse(code.removeprefix("with ").rstrip(":").replace("pseudo-count", "1"))


def resolve(node, models):
    """What a name or an attribute stands for; None for options, and for what a reader has in its place."""
    if isinstance(node, ast.Name):
        if node.id in ("tallies", "plots"):
            return {"tallies": tallies, "plots": plots}[node.id]
        if node.id in tallies.__all__:
            return getattr(tallies, node.id)
        owner = next((model for model in models if hasattr(model, node.id)), None)
        known = set().union(
            *(options(call) for model in models for call in (model, getattr(model, "fit", model), tallies.Corpus.from_texts))
        )
        assert owner or node.id in known | READERS | THEIRS | {"model"}, f"{node.id} is none of ours"
        return getattr(owner, node.id, None)
    if isinstance(node, ast.Attribute):
        if isinstance(node.value, ast.Name) and node.value.id == "model":
            return getattr(models[0], node.attr)
        owner = resolve(node.value.func if isinstance(node.value, ast.Call) else node.value, models)
        return getattr(owner, node.attr) if inspect.isclass(owner) or inspect.ismodule(owner) else None
    return None


@pytest.mark.parametrize("package", SECTIONS)
def test_what_the_tables_name_is_there(package):
    found = list(codes(SECTIONS[package]))
    assert found
    for code, tree in found:
        for node in ast.walk(tree):
            resolve(node, MODELS[package])  # fails where there is none
            if isinstance(node, ast.Call) and (called := resolve(node.func, MODELS[package])) is not None:
                assert {word.arg for word in node.keywords} <= options(called), code


def test_no_model_of_ours_is_left_out_of_the_table_of_its_kind():
    named = {name for code, _ in codes(SECTIONS["pyPLNmodels"]) for name in re.findall(r"\bPLN\w*", code)}
    assert named >= {name for name in tallies.__all__ if name.startswith("PLN")}
