"""The tables for those who come from other packages name what there is."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

import tallies

PAGE = (Path(__file__).parents[2] / "docs" / "migration.md").read_text(encoding="utf-8")
SECTIONS = dict(part.split("\n", 1) for part in PAGE.split("\n## ")[1:])


@pytest.mark.parametrize("package", ["tomotopy", "gensim", "pyLDAvis", "scikit-learn's LatentDirichletAllocation"])
def test_what_the_tables_name_is_there(package):
    ours = " ".join(line.split("|")[2] for line in SECTIONS[package].splitlines() if line.count("|") == 3)
    asked = set(re.findall(r"\bmodel\.(\w+)", ours))
    assert asked
    assert {name for name in asked if not hasattr(tallies.LDA, name)} == set()
    settings = {name for call in re.findall(r"\bLDA\(([^)]*)\)", ours) for name in re.findall(r"(\w+)=", call)}
    assert settings <= {field.name for field in fields(tallies.LDA)}
