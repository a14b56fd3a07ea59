"""The pictures that report and plots share: bars of one column of a table, and of what an author writes about."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tallies.html import charts


def bars(title: str, unit: str, labels: Iterable[Any], values: Any, **more: Any) -> charts.Chart:
    """One bar a label."""
    return charts.bars(title, charts.axis(unit), [str(v) for v in labels], [{"name": "", "values": np.asarray(values)}], **more)


def profile(model: Any, author: str, n: int = 15) -> charts.Chart:
    """The n concepts that an author writes most about."""
    table = model.author_profile(author, n)
    caption = "Of a sentence, before it is read; drawn towards all authors where there are few sentences."
    title, unit = f"What {author} writes about", "probability of the concept"
    return bars(title, unit, table["name"], table["probability"], caption=caption)
