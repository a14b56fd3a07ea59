"""Small data sets made in code, for examples and tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

TIC_TAC_TOE_LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))  # the eight lines


def tic_tac_toe() -> tuple[pd.DataFrame, pd.Series]:
    """The 958 boards with which a game of tic-tac-toe can end, x moving first, and whether x has won.

    Cells are named by row (top, middle, bottom) and column (left, centre, right); "b" is a blank.

    >>> boards, won = tic_tac_toe()
    >>> boards.shape, int(won.eq("x wins").sum())
    ((958, 9), 626)
    """
    import pandas as pd

    ends: dict[tuple[str, ...], str] = {}

    def play(board: tuple[str, ...], player: str) -> None:
        winner = next((board[a] for a, b, c in TIC_TAC_TOE_LINES if board[a] == board[b] == board[c] != "b"), None)
        if winner or "b" not in board:
            ends[board] = "x wins" if winner == "x" else "x does not"
            return
        for cell in range(9):
            if board[cell] == "b":
                play((*board[:cell], player, *board[cell + 1 :]), "o" if player == "x" else "x")

    play(("b",) * 9, "x")
    cells = [f"{row}_{column}" for row in ("top", "middle", "bottom") for column in ("left", "centre", "right")]
    return pd.DataFrame(sorted(ends), columns=cells), pd.Series([ends[board] for board in sorted(ends)], name="outcome")
