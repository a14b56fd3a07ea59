"""The picture that report and plots share: what an author writes about."""

from __future__ import annotations

from typing import Any

from tallies.html import charts


def profile(model: Any, author: str, n: int = 15) -> charts.Chart:
    """The n concepts that an author writes most about."""
    table = model.author_profile(author, n)
    caption = "Of a sentence, before it is read; drawn towards all authors where there are few sentences."
    title, unit = f"What {author} writes about", "probability of the concept"
    return charts.bar(title, unit, table["name"], table["probability"], caption=caption)
