"""One self-contained HTML page for a fitted model.

The page of a model in `models/<name>.py` is made by `page` in `report/<name>.py`, or by that of the nearest base class that has
one; a model without either gets what can be said of any fit. Adding the page of a family is adding that file:

    def page(model, about, *data, **options) -> Page
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from tallies.report.common import About, plain_page
from tallies.report.page import Page


def build(
    model: Any,
    *data: Any,
    title: str = "",
    data_name: str = "",
    held_out: bool | None = None,
    command: str = "",
    note: str = "",
    **options: Any,
) -> Page:
    """The page of a fitted model. What is not known from the model itself is told by keywords, all optional:

    `title`; `data_name`, the name of the data; `held_out`, whether the rows given here were unseen in the fit;
    `command`, how to repeat the fit; `note`, a sentence under the first one.
    """
    check_is_fitted(model)
    about = About(title, data_name, held_out, command, note)
    for cls in type(model).__mro__:
        home, _, name = cls.__module__.rpartition(".")
        if home == "tallies.models" and find_spec(f"tallies.report.{name}"):
            return import_module(f"tallies.report.{name}").page(model, about, *data, **options)
    return plain_page(model, about)


def write(model: Any, path: str | Path, *data: Any, **options: Any) -> Path:
    """Write the page of a fitted model to one HTML file, and return where it is.

    >>> import tallies, tempfile
    >>> from tallies.report import write
    >>> model = tallies.GDA().fit([[0.0], [1.0], [5.0], [6.0]], ["a", "a", "b", "b"])
    >>> write(model, tempfile.mkdtemp() + "/report.html").name
    'report.html'
    """
    return build(model, *data, **options).write(path)


__all__ = ["About", "Page", "build", "write"]
