"""Sphinx settings. `make docs` builds with -W: a warning is an error."""

import dataclasses
import inspect
import re
import sys
from pathlib import Path

from docutils.nodes import SkipNode
from latex2mathml.converter import convert

from tallies import __version__

sys.path.insert(0, str(Path(__file__).parent))
import notebooks

project = "Tallies"
author = "The Tallies developers"
copyright = "The Tallies developers"
release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.doctest", "numpydoc"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
default_role = "code"  # docstrings quote names in single backticks

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "smartquotes"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
numpydoc_show_class_members = False  # members are listed by hand in api.md
autosummary_generate = False
numpydoc_validation_checks: set[str] = set()

html_theme = "furo"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#00558a", "color-brand-content": "#00558a"},
    "dark_css_variables": {"color-brand-primary": "#7cc4f2", "color-brand-content": "#7cc4f2"},
}
html_math_renderer = "mathml"  # made when the site is built: no script, nothing to fetch
html_title = "Tallies"
html_static_path = ["static"]
html_css_files = ["site.css"]
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


def add_picture(app, what, name, obj, options, lines):
    """A plot function shows what its example draws, see pictures.py."""
    found = re.fullmatch(r"tallies\.(\w+)\.plots\.(plot_\w+)", name)
    if found:
        picture = f".. image:: /images/plots/{found[1]}-{found[2]}.png"
        lines += ["", picture, f"   :alt: What {found[2]} draws", "   :class: plot", ""]


def inline_mathematics(writer, node):
    writer.body.append(convert(node.astext()))
    raise SkipNode


def displayed_mathematics(writer, node):
    writer.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>')
    raise SkipNode


def write_gallery(app):
    """Fit the models of `make demo`, and frame their pages in gallery.md."""
    from tallies.demo import run

    folder = Path(app.outdir) / "demo"
    pages = [page for page in sorted(run(folder, quiet=True).parent.glob("*.html")) if page.name != "index.html"]
    titles = [re.search("<title>(.*?)</title>", page.read_text(encoding="utf-8"))[1] for page in pages]
    framed = [
        f'<h2>{title}</h2><p><a href="demo/{page.name}">Open this page by itself</a></p>'
        f'<iframe class="demo" src="demo/{page.name}" title="{title}" loading="lazy"></iframe>'
        for title, page in zip(titles, pages, strict=True)
    ]
    (Path(app.srcdir) / "gallery.html").write_text("\n".join(framed), encoding="utf-8")


def write_notebooks(app):
    """The tutorials, to be downloaded and run."""
    notebooks.write(Path(app.outdir) / "notebooks")


def link_notebook(app, page, source):
    """Below a tutorial its notebook."""
    if page.startswith("tutorials/"):
        name = f"{page.removeprefix('tutorials/')}.ipynb"
        source[0] += f'\n```{{raw}} html\n<p><a href="../notebooks/{name}" download>This page as a notebook</a></p>\n```\n'


def setup(app):
    app.connect("builder-inited", write_gallery)
    app.connect("builder-inited", write_notebooks)
    app.connect("source-read", link_notebook)
    app.add_html_math_renderer("mathml", (inline_mathematics, None), (displayed_mathematics, None))
    app.connect("autodoc-process-docstring", add_picture)
    app.connect("autodoc-process-docstring", add_fields)
    app.connect("autodoc-process-docstring", quote_attributes)
