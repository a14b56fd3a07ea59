"""What a fit of the author-concept model gives."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
import scipy.sparse as sp

from tallies.concepts.author_prior import Psi
from tallies.concepts.context import Context
from tallies.concepts.door import Concepts, Papers
from tallies.concepts.mention import Lexicon
from tallies.concepts.settings import Mention, Settings
from tallies.concepts.word_counts import Words
from tallies.estimator import Run
from tallies.forms import Form
from tallies.maths import Array


class Assigned(NamedTuple):
    """The best concept of each sentence of the fit, and whether these go round."""

    best: Annotated[np.ndarray, Form("S", "i", -1, below="H")]  # int32  concept of each sentence
    seen: Annotated[np.ndarray, Form("t", "i", 0)]  # uint64  fingerprints of the assignments of all sweeps
    cycle: Annotated[int, Form(kind="i", low=0)]  # sweeps after which hard assignments came back; 0: they did not
    moved: Annotated[np.ndarray, Form("moved", "i", 0, below="S")]  # sentences that go round in such a cycle


class Totals(NamedTuple):
    """Of a fit whose sentences are in files."""

    sentences: Annotated[int, Form(kind="i", low=0)]
    documents: Annotated[int, Form(kind="i", low=0)]
    named: Annotated[int, Form(kind="i", low=0)]  # sentences whose best concept is one
    expected: Annotated[Array, Form("H", "f", 0)]  # sentences of each concept
    written: Annotated[sp.csr_array, Form("A H", "f", 0)]  # and of each author


class Fitted(NamedTuple):
    """All that a fit gives."""

    run: Run
    settings: Settings
    concepts: Concepts
    papers: Papers
    psi: Psi
    words: Lexicon | Words
    vocabulary: Annotated[np.ndarray, Form("V", "O")] | None  # multinomial
    context: Context | None  # mention
    responsibilities: Annotated[sp.csr_array, Form("S H", "f", 0, 1)]  # eq. 1, of the kept concepts
    assigned: Assigned
    labelled: bool
    totals: Totals | None = None  # where the sentences are in files: what is known of each is then not here

    def check(self) -> None:
        """Concepts with the null where there is one, rows of authors and documents, and the word side are those of the settings."""
        s, papers, G = self.settings, self.papers, self.n_concepts
        R = len(papers.authors) + (0 if s.document_backoff is None else len(papers.documents))
        if len(self.psi.base) != G + s.null or len(self.psi.constant) != R or not (papers.rows.row < R).all():
            raise ValueError(f"psi should have {R} rows of {G + s.null} concepts")
        spoken = isinstance(s.words, Mention)
        if isinstance(self.words, Lexicon) != spoken or (self.vocabulary is None) != spoken:
            raise ValueError(f"the word side should be that of {type(s.words).__name__}")
        if isinstance(self.words, Lexicon) and not (self.words.strings.owner < G).all():
            raise ValueError(f"strings should be of concepts below {G}")
        if self.totals is not None and self.totals.written.shape != (R, G + s.null):
            raise ValueError(f"there should be sums of {R} authors and {G + s.null} concepts")

    @property
    def here(self) -> Fitted:
        """This fit, where its sentences were in memory."""
        if self.totals is not None:
            raise AttributeError("the sentences of this fit are in files; annotate(FOLDER, out=FOLDER) writes the concepts of each")
        return self

    @property
    def n_concepts(self) -> int:
        """Without the null."""
        return len(self.concepts.ids)
