"""The prior side of the author-concept model: which concepts a sentence may speak of, given who wrote its document.

    1.  P(g | d) = share_d base_g + sum_r W_dr psi_rg        rows r: the authors of d, and d itself where documents have a level
    2.  n_rg = sum_s r_sg W_dr psi_rg / P(g | d)             split credit: the E-step of (1), which row the concept came from
    3.  n_rg = sum_s r_sg [W_dr > 0]                         whole credit: every co-author is given the whole sentence

A chain of back-off is fixed weights W: of a document with S_d sentences, S_d / (S_d + strength) is its own, the rest goes to its
authors in equal parts; of an author's part, S_a / (S_a + strength) is the author's own, the rest goes to `base`, all authors'
prior. So (1) is one mixture whatever the chain, and EM over it never loses. A document of unknown authors has P(g | d) = everybody.
psi is kept as sparse + constant: psi_rg = constant_r base_g + own_rg.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from tallies.concepts.kernels.mentions import Prior
from tallies.concepts.penalties import sparsity_counts
from tallies.forms import Form
from tallies.maths import Array, dot0, log0, pointer, ragged


class Rows(NamedTuple):
    """Who stands behind each document (eq. 1), as CSR (D, R) parts."""

    share: Annotated[Array, Form("D", "f", 0)]  # weight of `base`
    ptr: Annotated[np.ndarray, Form("D+1", "i", ends="n")]
    row: Annotated[np.ndarray, Form("n", "i", 0)]  # int64
    weight: Annotated[Array, Form("n", "f", 0, 1)]

    def cut(self, a: int, b: int) -> Rows:
        """Of the documents from a up to b."""
        mine = slice(self.ptr[a], self.ptr[b])
        return Rows(self.share[a:b], self.ptr[a : b + 1] - self.ptr[a], self.row[mine], self.weight[mine])


class Psi(NamedTuple):
    base: Annotated[Array, Form("H", "f", 0, 1)]  # all authors' prior, of H concepts, the null included
    constant: Annotated[Array, Form("R", "f", 0, 1)]  # part of each row that is `base`
    own: Annotated[sp.csr_array, Form("R H", "f", 0, 1)]  # the rest of each row
    # share of all sentences: what an unknown author writes about (base is only what rows leave over)
    everybody: Annotated[Array, Form("H", "f", 0, 1)]


def rows_of(authors: Sequence[Sequence[int]], sizes: np.ndarray, weight_author: Array, strength: float | None) -> Rows:
    """Weights of documents with the given author numbers (-1: unknown) and numbers of sentences.

    `weight_author` (A,) is the part of an author that is the author's own; with `strength` documents have rows of their own after
    those of the authors.
    """
    ptr, author = ragged(authors, np.int64)
    n, every, first = np.diff(ptr), np.arange(len(authors)), len(weight_author)
    mine = np.zeros(len(n)) if strength is None else sizes / np.maximum(sizes + strength, 1e-300)  # a document may have no sentence
    own = np.append(weight_author, 0.0)[author]  # -1 is the last: nothing
    d, part = np.repeat(every, n), np.repeat((1.0 - mine) / np.maximum(n, 1), n)
    share = np.where(n > 0, np.bincount(d, weights=part * (1.0 - own), minlength=len(n)), 1.0 - mine)
    # the document itself first, then its authors
    used = np.concatenate([np.full(len(n), strength is not None), own > 0])
    home, row, weight = (np.concatenate(both)[used] for both in ((every, d), (first + every, author), (mine, part * own)))
    order = np.argsort(home, kind="stable")
    return Rows(share, pointer(np.bincount(home, minlength=len(n))), row[order], weight[order])


def matrix(rows: Rows, psi: Psi) -> sp.csr_array:
    """(D, R) W of eq. 1."""
    return sp.csr_array((rows.weight, rows.row, rows.ptr), shape=(len(rows.share), len(psi.constant)))


def mixture(rows: Rows, psi: Psi, guess: bool = False) -> Prior:
    """P(g | d) of eq. 1, the constant parts of the rows joined to the share of `base`; with `guess` (outside of EM, which learns
    from them) documents of unknown authors alone have everybody's prior."""
    W, base = matrix(rows, psi), np.stack([psi.base, psi.everybody])
    own, unknown = sp.csr_array(W @ psi.own), (np.diff(rows.ptr) == 0) & guess
    share = np.where(unknown, 1.0, rows.share + W @ psi.constant)
    sparse = own.indptr.astype(np.int64), own.indices.astype(np.int64), own.data
    return Prior(share, unknown.astype(np.int64), base, log0(base), *sparse)


def cells(prior: Prior, d: Any, g: Any) -> Array:
    """P(g | d) of some documents and concepts, given as an index of NumPy."""
    own = sp.csr_array((prior.value, prior.concept, prior.ptr), shape=(len(prior.share), prior.base.shape[1]))[d, g]
    return prior.share[d] * prior.base[prior.level[d], g] + (own.toarray() if sp.issparse(own) else own)


def credit(
    rows: Rows, psi: Psi, document: np.ndarray, r: sp.csr_array, ratio: sp.csr_array, whole: bool
) -> tuple[Array, sp.csr_array]:
    """Expected sentences of `base` and of every row (eq. 2 or 3), from r (S, G) and `ratio`, r_sg / P(g | d)."""
    S, D = r.shape[0], len(rows.share)
    gather = sp.csr_array((np.ones(S), (document, np.arange(S))), shape=(D, S))
    W = matrix(rows, psi)
    if whole:
        by_document = gather @ r
        used = rows.share > 0
        return np.asarray(by_document[used].sum(axis=0)).ravel(), sp.csr_array((W > 0).astype(float).T @ by_document)
    scaled = gather @ ratio
    base = psi.base * (rows.share @ scaled)
    M = sp.csr_array(W.T @ scaled)
    flat = M.multiply(psi.constant[:, None]).multiply(psi.base)
    return base, sp.csr_array(M.multiply(psi.own)) + sp.csr_array(flat)


def by_author(rows: Rows, A: int, document: np.ndarray, r: sp.csr_array) -> sp.csr_array:
    """(A, G) expected sentences of each author on each concept, from r (S, G); those of several authors in equal parts."""
    D, S = len(rows.share), len(document)
    who = sp.csr_array((np.ones(len(rows.row)), rows.row, rows.ptr), shape=(D, max(A, rows.row.max(initial=-1) + 1)))[:, :A]
    who.data /= np.repeat(np.diff(who.indptr), np.diff(who.indptr))
    return sp.csr_array(who.T @ (sp.csr_array((np.ones(S), (document, np.arange(S))), shape=(D, S)) @ r))


def lend(psi: Psi, up: sp.csr_array, share: float) -> Psi:
    """psi with a share of each concept's common prior lent to its parents, for a text that often speaks of the parts of a thing
    will also speak of the thing. `up` (G, G) has the parents of each concept."""
    n, G = np.diff(up.indptr), up.shape[0]

    def lent(p: Array) -> Array:
        moved = np.where(n > 0, share * p[:G], 0.0)
        return p + np.append(up.T @ (moved / np.maximum(n, 1)) - moved, np.zeros(len(p) - G))  # the null has no parents

    return psi._replace(base=lent(psi.base), everybody=lent(psi.everybody))


def maximise(n_base: Array, n_rows: sp.csr_array, psi: Psi, prior: Array, gamma: float, sparsity: float, level: bool) -> Psi:
    """The M-step of psi: counts plus pseudocounts, plus what the sparsity term F1 is worth as counts
    (`sparsity_counts`, which needs the whole table of psi).

    With a common `level`, `prior` (G,) are the pseudocounts of `base`, and rows have none, for base stands behind them. Without,
    base stays as it is, and every row has `gamma` pseudocounts in all, spread like base.
    """
    base = psi.base
    if level:
        base = n_base + prior + sparsity_counts(psi.base, sparsity)
        base, gamma = base / base.sum(), 0.0
    n = sp.csr_array(n_rows.toarray() + sparsity_counts(laid_out(psi), sparsity)) if sparsity else sp.csr_array(n_rows)
    n.eliminate_zeros()
    constant = np.full(n.shape[0], gamma)
    total = np.asarray(n.sum(axis=1)).ravel() + constant
    empty = total <= 0  # an author without a sentence is like all authors
    scale = 1.0 / np.where(empty, 1.0, total)
    own = sp.csr_array((n.data * np.repeat(scale, np.diff(n.indptr)), n.indices, n.indptr), shape=n.shape)
    everybody = n_base + np.asarray(n_rows.sum(axis=0)).ravel() + prior
    return Psi(base, np.where(empty, 1.0, constant * scale), own, everybody / everybody.sum())


def log_penalty(psi: Psi, prior: Array, gamma: float, sparsity: float, level: bool) -> float:
    """What `maximise` adds to the log likelihood: log Dirichlet priors and sparsity * sum of the norms of the rows."""
    value = dot0(prior, log0(psi.base)) if level else 0.0
    if gamma and not level:
        # sum_rg base_g log psi_rg: base alone, which most cells are, and what their own parts add to it
        at, flat = psi.own.indices, np.repeat(psi.constant, np.diff(psi.own.indptr)) * psi.base[psi.own.indices]
        value += gamma * float(len(psi.constant) * dot0(psi.base, log0(psi.base)) + psi.base.sum() * np.log(psi.constant).sum())
        value += gamma * float(np.sum(psi.base[at] * np.log1p(psi.own.data / flat)))
    if sparsity:
        value += sparsity * float(np.linalg.norm(laid_out(psi), axis=1).sum() + level * np.linalg.norm(psi.base))
    return value


def laid_out(psi: Psi, rows: Any = slice(None)) -> Array:
    """psi of some rows as a table (., G)."""
    return psi.constant[rows][:, None] * psi.base + psi.own[rows].toarray()
