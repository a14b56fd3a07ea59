"""The picture of an author that report and plot share."""

from __future__ import annotations

from typing import Any

from tallies.html import charts


def profile(model: Any, author: str, n: int = 15) -> charts.Chart:
    """The n concepts that an author writes most about."""
    table = model.author_profile(author, n)
    return charts.bars(
        f"What {author} writes about",
        charts.axis("probability of the concept"),
        [str(name) for name in table["name"]],
        [{"name": "", "values": table["probability"].to_numpy()}],
        caption="Of a sentence, before it is read; drawn towards all authors where there are few sentences.",
    )
