"""Coefficients of a fitted PLN: errors, factors, and those that have no finite estimate. Functions of the fitted record.

Standard errors are sandwiches: the bound, maximised over the rows' latents, is an M-estimator of B and of the scales t of the
columns, Sigma = T Sigma_hat T, T = diag exp t (a mean that is too low goes with a variance that is too high, so errors that held
Sigma would be too small); correlations are held at their estimate. With a row's rates A, q = Y - A, and its latents eliminated from
minus its Hessian (Schur complement), its curvature in (B, t) has the blocks xx' (x) D, x (x) G and K, its scores are x q' and g:

    rank=None   u = S2^2/(1 + S2^2 A/2),  a = A (1 - u A/2),  r = M - B'x,  o = diag Sigma^-1,  e = q - u A o
                D = (Sigma + diag 1/a)^-1,   E = (Sigma^-1 + diag a)^-1 = Sigma - Sigma D Sigma
                G = u A o + a E e + D r,     K = r q + 2 o S2 - 2 u o^2 + r D r - e E e - e (1 - E a) r - its transpose
                g = r q + o S2 - 1                                                                                        (eq. 1)
    rank=q      Q = [C, (C*C)/2],  N = Q'A Q + diag(1, ..., 1, 1/(2 S2^2)),  c = C M,  k = (C*C) S2,  h = c + k
                V = [A (1 + h) - Y, A (2 + h)], the first for C, the second for (C*C)/2
                D = A - A Q N^-1 Q'A,  G = A h - A Q N^-1 (V Q)',  K = A h^2 + A (c + 2 k) - Y c - V Q N^-1 (V Q)'
                g = c q - A k                                                                                             (eq. 2)

(vectors between matrices stand for diagonal ones). The variance of vec B is its block of H^-1 J H^-1, H the sum of the curvatures,
J that of the outer products of the scores; intervals are of Student's t with n - d degrees of freedom.

A species that is never seen in a group has its highest likelihood where the effect of that group is minus infinity: the fit stops
somewhere on the way there. In general the effects of column j are separated where some direction t has x_i't = 0 for all rows with
Y_ij > 0, and x_i't <= 0 for all others, and not 0 for some: along t the likelihood rises for ever. With as many such rows as can be
put below 0 left out, those coefficients are identified that the rows which are left determine (Clarkson and Jennrich 1991).
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import linalg, stats

from tallies.backends import one_blas_thread
from tallies.counts import separation
from tallies.counts.answers import FLAT, correlation, rates
from tallies.counts.fitted import Fitted, Learned
from tallies.counts.records import blocks
from tallies.counts.tables import HIDDEN
from tallies.errors import DataError
from tallies.phases import phase


def coefficient_table(fitted: Fitted, confidence: float) -> pd.DataFrame:
    """Coefficients with sandwich standard errors, intervals and p-values, and as factors; of separated ones no more is known."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence!r}")
    estimate, apart = fitted.model.B, separated(fitted)
    error = np.sqrt(np.diagonal(coefficient_covariance(fitted, apart))).reshape(estimate.shape)
    t = stats.t(max(int((fitted.data.v > 0).sum()) - len(estimate), 1))  # of few samples a sandwich is itself uncertain
    reach, z = t.ppf(0.5 + confidence / 2), estimate / error
    lower, upper = estimate - reach * error, estimate + reach * error
    names = pd.MultiIndex.from_product([fitted.design.names, fitted.columns], names=["covariate", "column"])
    found = {"estimate": estimate, "std_error": error, "lower": lower, "upper": upper, "z": z}
    found["p_value"] = 2 * t.sf(np.abs(z))
    with np.errstate(over="ignore"):
        found |= {"factor": np.exp(np.where(apart, np.nan, estimate)), "factor_lower": np.exp(lower), "factor_upper": np.exp(upper)}
    return pd.DataFrame({k: a.ravel() for k, a in (found | {"separated": apart}).items()}, index=names)


@phase("standard errors of coefficients")
def coefficient_covariance(fitted: Fitted, apart: np.ndarray | None = None) -> np.ndarray:
    """Sandwich covariance of vec B; NaN for those that are separated."""
    if fitted.zeros is not None:
        raise DataError("coefficients of a zero-inflated PLN have no standard errors here; refit to bootstrap samples of the rows")
    live = fitted.data.v > 0
    X, v, Y, A = fitted.design.X[live], fitted.data.v[live], fitted.data.counts[live].astype(np.float64), rates(fitted)[live]
    (n, d), p = X.shape, Y.shape[1]
    M, S2, C = *(part[live] for part in fitted.known_latents), fitted.model.C
    off, find = (M - X @ fitted.model.B, _full) if C is None else (M @ C.T, _of_rank)
    vX, g = v[:, None] * X, np.empty((n, p))
    XX = (vX[:, :, None] * X[:, None, :]).reshape(n, -1)
    BB, Bt, tt = np.zeros((d * d, p * p)), np.zeros((d, p * p)), np.zeros(p * p)
    known = np.flatnonzero(~(separated(fitted) if apart is None else apart).ravel())
    some, out = np.ix_(known, known), np.full((d * p, d * p), np.nan)
    with one_blas_thread():  # matrices too small to be worth threads that wait for each other
        for b in blocks(n, 4 * p * p, 1 << 21):
            *curvature, g[b] = find(fitted.model, Y[b], A[b], off[b], S2[b])
            D, G, K = (part.reshape(-1, p * p) for part in curvature)
            BB, Bt, tt = BB + XX[b].T @ D, Bt + vX[b].T @ G, tt + v[b] @ K
        H = BB.reshape(d, d, p, p).transpose(0, 2, 1, 3).reshape(d * p, d * p)[some]
        scores = (vX[:, :, None] * (Y - A)[:, None, :]).reshape(n, -1)[:, known]
        T = _scales(fitted.model)
        cross, g = Bt.reshape(d * p, p)[known] @ T, v[:, None] * (g - v @ g / v.sum()) @ T
        follow = linalg.pinvh(T.T @ tt.reshape(p, p) @ T, rtol=1e-9) @ cross.T if T.size else np.zeros((0, len(known)))
        H, scores = H - cross @ follow, scores - g @ follow
        # n - d in place of n, as for a regression with d coefficients a column
        J = scores.T @ scores * (n / max(n - d, 1))
        try:
            out[some] = linalg.solve(H, linalg.solve(H, J, assume_a="pos").T, assume_a="pos")
        except linalg.LinAlgError as error:
            told = "the bound is flat in some direction of the coefficients, so that they have no standard errors"
            raise DataError(f"{told}; fit on (raise max_iter), or give more samples or fewer covariates") from error
    return out


def _scales(model: Learned) -> np.ndarray:
    """(p, m) the scales that the fit had to find: of every column, one for all, or none; that of a column without variance is 0."""
    p = len(model.covariance)
    if model.kind == "given":
        return np.empty((p, 0))
    each = np.eye(p)[:, model.covariance.diagonal() > FLAT]
    return each.sum(axis=1, keepdims=True) if model.kind == "spherical" and model.C is None else each


def _diagonal(rows: np.ndarray) -> np.ndarray:
    """(n, p, p) rows on diagonals."""
    return rows[:, :, None] * np.eye(rows.shape[1])


def _full(model: Learned, Y: np.ndarray, A: np.ndarray, r: np.ndarray, S2: np.ndarray) -> tuple[np.ndarray, ...]:
    """D, G, K (n, p, p) and g (n, p) of some rows, eq. 1, in a form that allows a = 0."""
    Sigma, q = model.covariance, Y - A
    u = S2 * S2 / (1 + 0.5 * S2 * S2 * A)
    a, o = A * (1 - 0.5 * u * A), linalg.pinvh(Sigma).diagonal()
    root, e = np.sqrt(a), q - u * A * o
    roots = root[:, :, None] * root[:, None, :]
    D = roots * np.linalg.inv(roots * Sigma + np.eye(len(o)))
    E = Sigma - Sigma @ D @ Sigma
    G = _diagonal(u * A * o) + a[:, :, None] * E * e[:, None, :] + D * r[:, None, :]
    mixed = e[:, :, None] * (np.eye(len(o)) - E * a[:, None, :]) * r[:, None, :]
    K = _diagonal(r * q + 2 * o * S2 - 2 * u * o**2) + r[:, :, None] * D * r[:, None, :] - e[:, :, None] * E * e[:, None, :]
    return D, G, K - mixed - mixed.transpose(0, 2, 1), r * q + o * S2 - 1


def _of_rank(model: Learned, Y: np.ndarray, A: np.ndarray, c: np.ndarray, S2: np.ndarray) -> tuple[np.ndarray, ...]:
    """The same for PLN-PCA, eq. 2."""
    C, squares = model.own, model.own**2
    k = S2 @ squares.T
    h, Q = c + k, np.hstack([C, 0.5 * squares])
    N = Q.T @ (A[:, :, None] * Q) + np.concatenate([np.ones_like(S2), 0.5 / S2**2], axis=1)[:, None, :] * np.eye(Q.shape[1])
    AQ, VQ = A[:, :, None] * Q, np.repeat(np.stack([A * (1 + h) - Y, A * (2 + h)], axis=2), C.shape[1], axis=2) * Q
    solved, other = (np.linalg.solve(N, part.transpose(0, 2, 1)) for part in (AQ, VQ))
    D, G, K = _diagonal(A) - AQ @ solved, _diagonal(A * h) - AQ @ other, A * h**2 + A * (c + 2 * k) - Y * c
    return D, G, _diagonal(K) - VQ @ other, c * (Y - A) - A * k


def separated(fitted: Fitted) -> np.ndarray:
    """Coefficients (d, p) that have no finite estimate, such as that of a group in which a species is never seen."""
    if fitted.data.beyond is not None:
        return fitted.data.beyond.apart
    live, counts = fitted.data.v > 0, fitted.data.counts
    known = np.broadcast_to(fitted.data.O > HIDDEN, counts.shape)[live]
    return separation.separated(fitted.design.X[live], (counts[live] > 0) & known, known)


def explained(fitted: Fitted) -> float:
    """Share of the latent variance that the covariates explain: tr cov(XB) / (tr cov(XB) + tr Sigma), over the columns without
    separated effects, whose variance has no bound."""
    v, clear = fitted.data.v / fitted.data.v.sum(), ~separated(fitted).any(axis=0)
    if not clear.any():
        return np.nan
    mean = fitted.design.X @ fitted.model.B[:, clear]
    variance = float((v @ (mean - v @ mean) ** 2).sum())
    return variance / (variance + float(fitted.model.covariance.diagonal()[clear].sum()))


def factor(value: float) -> str:
    """A factor with two digits.

    >>> factor(2.134), factor(261.3), factor(0.00561)
    ('2.1', '260', '0.0056')
    """
    return np.format_float_positional(value, 2, fractional=False, trim="-")


def times(effect: float) -> str:
    """An effect on logarithms as a factor.

    >>> times(0.7419), times(-0.734)
    ('x2.1', 'x0.48')
    """
    return f"x{factor(np.exp(effect))}"


def strongest(fitted: Fitted) -> list[tuple[str, str]]:
    """The strongest correlations and effects, in words."""
    names, R = [str(c) for c in fitted.columns], np.nan_to_num(correlation(fitted.model.covariance))
    B = np.where(separated(fitted), 0.0, fitted.model.B)
    a, b = np.triu_indices(len(names), 1)
    size = np.abs(R[a, b])
    some = np.flatnonzero(size >= np.partition(size, -3)[-3]) if len(size) > 3 else np.arange(len(size))  # of millions of pairs
    pairs = some[np.argsort(-size[some], kind="stable")][:3]
    found = [(f"{names[a[i]]} & {names[b[i]]}", f"latent correlation {R[a[i], b[i]]:+.2f}") for i in pairs if R[a[i], b[i]]]
    for d in [d for d in range(len(B)) if np.ptp(fitted.design.X[:, d]) > 0 and B[d].any()][:3]:
        j = int(np.argmax(np.abs(B[d])))
        found.append((f"largest effect of {fitted.design.names[d]}", f"{B[d, j]:+.2f} on {names[j]} ({times(B[d, j])})"))
    return found
