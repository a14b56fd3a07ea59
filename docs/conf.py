"""Sphinx settings. `make docs` builds with -W: a warning is an error."""

import dataclasses
import inspect
import re

from tallies import __version__

project = "Tallies"
author = "The Tallies developers"
copyright = "The Tallies developers"
release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.doctest", "numpydoc"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
default_role = "code"  # docstrings quote names in single backticks

myst_enable_extensions = ["colon_fence", "deflist", "smartquotes"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
numpydoc_show_class_members = False  # members are listed by hand in api.md
autosummary_generate = False
numpydoc_validation_checks: set[str] = set()

html_theme = "alabaster"
html_theme_options = {
    "description": "Generative models for words, counts and categories",
    "fixed_sidebar": True,
    "font_family": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif",
    "head_font_family": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif",
    "code_font_size": "0.8em",
    "font_size": "16px",
    "page_width": "1060px",
    "sidebar_width": "220px",
}
html_sidebars = {"**": ["about.html", "navigation.html", "searchbox.html"]}
html_title = "Tallies"
html_show_sourcelink = False


def quote_attributes(app, what, name, obj, options, lines):
    """Fitted attributes end in an underscore, which reStructuredText would take for a link: quote them."""
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[i] = re.sub(r"(?<![`\w.])([a-z]\w*_)(?=[\s.,;:)]|$)", r"``\1``", line)


def add_fields(app, what, name, obj, options, lines):
    """The hyperparameters of a model stand with a comment beside each in its source: the reference shows them."""
    if what == "class" and dataclasses.is_dataclass(obj):
        source = inspect.getsource(obj)
        for field in dataclasses.fields(obj):
            found = re.search(rf"^    {field.name}: .*?  # (.+)$", source, re.M)
            if found:
                plain = re.sub(r"([*|])", r"\\\1", found[1])  # marks that reStructuredText would take for its own
                lines += ["", f":param {field.name}: {plain}"]


def setup(app):
    app.connect("autodoc-process-docstring", add_fields)
    app.connect("autodoc-process-docstring", quote_attributes)
