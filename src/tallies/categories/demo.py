"""FEM in the gallery of `tallies demo`."""

from __future__ import annotations

from typing import Any

from tallies.categories.fem import FEM
from tallies.datasets import TIC_TAC_TOE_LINES, halves, tic_tac_toe
from tallies.demo import Exhibit


def _tic_tac_toe() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    boards, won = tic_tac_toe()
    fit, judge = halves(won.to_numpy())
    model = FEM(degree=3, ridge=0.01).fit(boards.iloc[fit], won.iloc[fit])
    top = model.interactions(8, degree=3)["term"].tolist()
    lines = {" & ".join(boards.columns[c] for c in line) for line in TIC_TAC_TOE_LINES}
    found = sum(term in lines for term in top)
    which = "the eight lines that win" if found == len(lines) else f"{found} of the eight lines that win, and others"
    note = f"Nobody told the model the rules. Of 84 ways to take three cells, its eight strongest are {which}."
    told = {"held_out": True, "note": note, "data_name": "the 958 boards with which a game can end"}
    return model, (boards.iloc[judge], won.iloc[judge]), told


EXHIBITS = (Exhibit("tic-tac-toe.html", "Tic-tac-toe: eight lines found", _tic_tac_toe),)
