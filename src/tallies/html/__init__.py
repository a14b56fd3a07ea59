"""One self-contained HTML page for a fitted model.

The page of a model is made by the module of its room that the registry names; a model of no family gets what can be said of any
fit. Such a module has a function

    def page(model, about, *data, **options) -> Page
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from tallies.errors import refuse_folder
from tallies.html.common import About, plain_page
from tallies.html.page import Page
from tallies.phases import phase
from tallies.registry import furniture


def build(model: Any, *data: Any, **options: Any) -> Page:
    """The page of a fitted model. What is not known from the model itself is told by keywords, all optional:

    `title`; `data_name`, the name of the data; `held_out`, whether the rows given here were unseen in the fit;
    `command`, how to repeat the fit; `note`, a sentence under the first one. Others are those of its room's page.
    """
    check_is_fitted(model)
    about = About(**{name: options.pop(name) for name in About._fields if name in options})
    room = furniture(model, "page")
    page = plain_page(model, about) if room is None else room.page(model, about, *data, **options)
    page.made_of = ["data"] * bool(data) + sorted(name for name, value in options.items() if value is not None)
    return page


def write(model: Any, path: str | Path, *data: Any, force: bool = False, **options: Any) -> Path:
    """Write the page of a fitted model to one HTML file, and return where it is.

    A page that was made with more (data, groups) is not replaced by one with less, unless by `force`.

    >>> import tallies, tempfile
    >>> from tallies.html import write
    >>> model = tallies.GDA().fit([[0.0], [1.0], [5.0], [6.0]], ["a", "a", "b", "b"])
    >>> write(model, tempfile.mkdtemp() + "/report.html").name
    'report.html'
    """
    refuse_folder(path, "a report")  # before it is made, which may take long
    with phase(f"writing {Path(path).name}"):
        return build(model, *data, **options).write(path, force)


__all__ = ["About", "Page", "build", "write"]
