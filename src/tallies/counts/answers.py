"""What users ask of a fitted PLN: criteria, coefficients with their errors, predictions, scores.

Standard errors are sandwiches: the bound, maximised over the rows' latents, is an M-estimator of B. With a row's rates A, Q =
[C, (C*C)/2]
and K = diag(1, ..., 1, 1/(2 S2^2)) (for rank=None C = Sigma^(1/2) is not needed, see below), its score in B is x (Y - A)' and
minus its Hessian is
xx' (x) D with

    D = A - A Q (Q'A Q + K)^-1 Q'A            rank=q                                                                     (eq. 1)
    D = (Sigma + diag 1/a)^-1,  a = A (1 - u A/2),  u = S2^2/(1 + S2^2 A/2)          rank=None                            (eq. 2)

(both the Schur complement of the latents in the row's Hessian); the variance of vec B is H^-1 J H^-1, H = sum xx' (x) D, J = sum
of outer
products of the scores. Sigma is held at its estimate.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from scipy import linalg, stats
from scipy.special import gammaln
from sklearn.utils.validation import check_is_fitted

from tallies.counts.door import PLACING, POOR, Rows, current, poor, solve
from tallies.counts.formula import Formulas
from tallies.counts.rank import Rank
from tallies.counts.tables import HIDDEN, as_counts, as_offsets
from tallies.errors import DataError, DataWarning
from tallies.evaluation.score import Score, mean_score


class Answers(Formulas):
    """Criteria, tables and predictions of `PLN`."""

    # what was learned, in other forms

    def __getattr__(self: Any, name: str) -> Any:
        # covariance_ and components_ are two forms of one thing: the solver gives one, the other is made when asked for
        if name == "covariance_" and "components_" in self.__dict__:
            return self.components_ @ self.components_.T
        if name == "components_" and "covariance_" in self.__dict__:
            values, vectors = np.linalg.eigh(self.covariance_)
            vectors = vectors[:, ::-1] * np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(len(values))])[::-1]
            return vectors * np.sqrt(np.maximum(values[::-1], 0.0))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def precision_(self: Any) -> np.ndarray:
        """Inverse of the covariance (p, p); it has none where rank is below p."""
        if self.rank is not None and self.rank < self.n_features_in_:
            raise AttributeError(f"a covariance of rank {self.rank} has no inverse; use components_, or fit with rank=None")
        return linalg.inv(self.covariance_)

    @property
    def correlation_(self: Any) -> np.ndarray:
        """Latent correlations (p, p)."""
        Sigma = self.covariance_
        size = np.sqrt(Sigma.diagonal())
        return Sigma / np.outer(size, size)

    @property
    def explained_variance_ratio_(self: Any) -> np.ndarray:
        """Share of the latent variance of each component."""
        size = (self.components_**2).sum(axis=0)
        return size / size.sum()

    @property
    def n_parameters_(self: Any) -> int:
        d, p = self.coefficients_.shape
        if self.rank is not None:
            return d * p + p * self.rank - self.rank * (self.rank - 1) // 2  # C up to a rotation
        if not isinstance(self.covariance, str):
            return d * p
        return d * p + {"full": p * (p + 1) // 2, "diagonal": p, "spherical": 1}[self.covariance]

    @property
    def entropy_(self: Any) -> float:
        """Entropy of the variational distribution of all latents."""
        S2 = self.latent_variance_
        return float(0.5 * self.weights_ @ (np.log(2 * np.pi * S2) + 1).sum(axis=1))

    @property
    def aic_(self: Any) -> float:
        """-2 loglik + 2 k; smaller is better."""
        return -2 * self.loglik_ + 2 * self.n_parameters_

    @property
    def bic_(self: Any) -> float:
        """-2 loglik + k log n; smaller is better."""
        return -2 * self.loglik_ + self.n_parameters_ * np.log(self.weights_.sum())

    @property
    def icl_(self: Any) -> float:
        """BIC plus twice the entropy of the latents: it prefers models whose latents are well determined."""
        return self.bic_ + 2 * self.entropy_

    @property
    def r2_(self: Any) -> float:
        """Share of the latent variance that the covariates explain: tr cov(XB) / (tr cov(XB) + tr Sigma)."""
        v = self.weights_ / self.weights_.sum()
        mean = self.design_ @ self.coefficients_
        explained = float((v @ (mean - v @ mean) ** 2).sum())
        return explained / (explained + float(np.trace(self.covariance_)))

    def _facts(self: Any) -> list[str]:
        n, p = len(self.design_), self.n_features_in_
        kind = "bound" if self.elbo_ is not None else f"estimate, standard error {self.loglik_stderr_:.2g}"
        return [
            f"{self.algorithm_}; {n} samples, {p} columns, covariates {', '.join(map(str, self.covariate_names_))}",
            f"log likelihood {self.loglik_:,.2f} ({kind}), {self.n_parameters_} parameters, BIC {self.bic_:,.1f}, ICL "
            f"{self.icl_:,.1f}",
        ]

    def _learned(self: Any) -> list[tuple[str, str]]:
        names, R = [str(c) for c in self._columns()], np.nan_to_num(self.correlation_)
        a, b = np.triu_indices(len(names), 1)
        pairs = np.argsort(-np.abs(R[a, b]), kind="stable")[:3]
        found = [(f"{names[a[i]]} & {names[b[i]]}", f"latent correlation {R[a[i], b[i]]:+.2f}") for i in pairs if R[a[i], b[i]]]
        for d in [d for d in range(len(self.coefficients_)) if np.ptp(self.design_[:, d]) > 0][:3]:
            j = int(np.argmax(np.abs(self.coefficients_[d])))
            found.append((f"largest effect of {self.covariate_names_[d]}", f"{self.coefficients_[d, j]:+.2f} on {names[j]}"))
        return found

    def _measure(self: Any) -> str:
        return "bound on the log likelihood" if self.elbo_ is not None else "log likelihood"

    # coefficients

    def coefficient_table(self: Any, counts: Any = None, confidence: float = 0.95) -> pd.DataFrame:
        """Coefficients with sandwich standard errors, confidence intervals and p-values of Wald's test.

        The counts of the fit are needed; a model read from a file no longer has them, so pass them again.

        >>> import numpy as np
        >>> from tallies.counts.estimator import PLN
        >>> Y = np.random.default_rng(0).poisson(5.0, size=(60, 2))
        >>> PLN(covariance="diagonal").fit(Y).coefficient_table().columns.tolist()
        ['estimate', 'std_error', 'lower', 'upper', 'z', 'p_value']
        """
        check_is_fitted(self)
        estimate, error = (
            self.coefficients_,
            np.sqrt(np.diagonal(self.coefficient_covariance(counts))).reshape(self.coefficients_.shape),
        )
        reach = stats.norm.ppf(0.5 + confidence / 2)
        z = estimate / error
        names = pd.MultiIndex.from_product([self.covariate_names_, self._columns()], names=["covariate", "column"])
        columns = {
            "estimate": estimate,
            "std_error": error,
            "lower": estimate - reach * error,
            "upper": estimate + reach * error,
            "z": z,
            "p_value": 2 * stats.norm.sf(np.abs(z)),
        }
        return pd.DataFrame({k: a.ravel() for k, a in columns.items()}, index=names)

    def coefficient_covariance(self: Any, counts: Any = None) -> np.ndarray:
        """Sandwich covariance of the coefficients, in the order of `coefficients_.ravel()`: (d p, d p)."""
        if counts is None and not hasattr(self, "_data"):
            raise DataError("standard errors need the counts of the fit, which a saved model does not hold; pass counts=")
        Y = self._data[0].Y if counts is None else as_counts(counts).Y
        X, v = self.design_, self.weights_
        (n, d), p = X.shape, self.n_features_in_
        A = self._rates()
        H, J = np.zeros((d, p, d, p)), np.zeros((d * p, d * p))
        for i in np.flatnonzero(v):
            D = self._curvature(i, A[i])
            score = np.outer(X[i], Y[i] - A[i]).ravel()
            J += v[i] ** 2 * np.outer(score, score)
            H += v[i] * np.multiply.outer(np.outer(X[i], X[i]), D).transpose(0, 2, 1, 3)
        # n - d in place of n, as for a regression with d coefficients a column
        J *= n / max(n - d, 1)
        half = linalg.solve(H.reshape(d * p, -1), J, assume_a="pos")
        return linalg.solve(H.reshape(d * p, -1), half.T, assume_a="pos")

    def _rates(self: Any) -> np.ndarray:
        """A of the rows of the fit; 0 where missing."""
        M, S2 = self.latent_mean_, self.latent_variance_
        if self.rank is not None:
            C = self.components_
            M, S2 = self.design_ @ self.coefficients_ + M @ C.T, S2 @ (C * C).T
        return np.exp(np.clip(self.offsets_ + M + 0.5 * S2, HIDDEN, 60.0))

    def _curvature(self: Any, i: int, A: np.ndarray) -> np.ndarray:
        if self.rank is None:  # eq. 2, in a form that allows a = 0
            S2 = self.latent_variance_[i]
            u = S2 * S2 / (1 + 0.5 * S2 * S2 * A)
            root = np.sqrt(A * (1 - 0.5 * u * A))
            inner = root[:, None] * self.covariance_ * root
            inner[np.diag_indices(len(inner))] += 1.0
            return root[:, None] * linalg.inv(inner) * root
        C, S2 = self.components_, self.latent_variance_[i]
        Q = np.hstack([C, 0.5 * C * C])
        AQ = A[:, None] * Q
        inner = Q.T @ AQ + np.diag(np.concatenate([np.ones(self.rank), 0.5 / S2**2]))
        return np.diag(A) - AQ @ linalg.solve(inner, AQ.T, assume_a="pos")  # eq. 1

    # predictions

    def predict(self: Any, counts: Any = None, covariates: Any = None, offsets: Any = None) -> np.ndarray:
        """Expected counts (n, p).

        Without counts: of new samples with these covariates and offsets, exp(o + B'x + Sigma_jj/2). With counts: of the same
        samples, given
        their counts; where a count is NaN, given the others of its row, so this is also the conditional prediction of some
        species from the rest
        (`offsets` must then be given for all cells, as an array, if the fit used any).
        """
        check_is_fitted(self)
        if counts is None:
            if covariates is None and offsets is None:
                raise DataError("predict needs counts, covariates or offsets to know for how many samples; pass one of them")
            n = len(offsets) if covariates is None else len(covariates)
            O = 0.0 if offsets is None else np.asarray(offsets, dtype=np.float64).reshape(n, -1)
            return np.exp(O + self._design(covariates, n, None) @ self.coefficients_ + 0.5 * self.covariance_.diagonal())
        rows = self._rows(counts, covariates, offsets)
        M, S2 = self._project(rows)
        O = rows.O
        if rows.missing is not None:
            whole = as_counts(counts)._replace(missing=None)
            rule = self.offsets_rule_ if offsets is None else offsets
            O = (
                as_offsets(rule, whole)
                if not isinstance(rule, str)
                else np.where(rows.missing, rows.O.max(axis=1, keepdims=True), rows.O)
            )
        if self.rank is not None:
            C = self.components_
            return np.exp(O + rows.X @ self.coefficients_ + M @ C.T + 0.5 * S2 @ (C * C).T)
        if rows.missing is not None:
            S2 = self._hidden_variance(rows, S2)
        return np.exp(O + M + 0.5 * S2)

    def predict_conditional(
        self: Any, counts: Any, given: Iterable[Any], covariates: Any = None, offsets: Any = None
    ) -> pd.DataFrame:
        """Expected counts of all columns but those `given` (names or places), from the counts of those.

        >>> import numpy as np
        >>> from tallies.counts.estimator import PLN
        >>> Y = np.random.default_rng(0).poisson(np.exp(np.random.default_rng(1).normal(2, 1, size=(80, 1)) + [0.0, 0.5]))
        >>> PLN().fit(Y).predict_conditional(Y[:3], given=[0]).shape
        (3, 1)
        """
        table = as_counts(counts)
        names = list(self._columns())
        given = list(given)
        known = [names.index(g) if g in names else g for g in given]
        wrong = [g for g in known if not isinstance(g, int | np.integer) or not 0 <= g < len(names)]
        if wrong or not known:
            raise DataError(f"given must name columns of the fit or their places, got {wrong or known}; columns: {names[:5]} ...")
        hidden = np.setdiff1d(np.arange(len(names)), known)
        Y = np.where(table.missing, np.nan, table.Y) if table.missing is not None else table.Y.copy()
        Y[:, hidden] = np.nan
        out = self.predict(Y, covariates, offsets)[:, hidden]
        return pd.DataFrame(out, columns=[names[j] for j in hidden], index=table.rows)

    def _hidden_variance(self: Any, rows: Rows, S2: np.ndarray) -> np.ndarray:
        """Variances where hidden cells have that of Z given the others, not the mean field's, which takes these as known."""
        S2 = S2.copy()
        assert rows.missing is not None
        patterns, place = np.unique(rows.missing, axis=0, return_inverse=True)
        Sigma = self.covariance_
        for k, hidden in enumerate(patterns):
            if not hidden.any():
                continue
            at = np.flatnonzero(place.ravel() == k)
            if hidden.all():
                S2[at] = Sigma.diagonal()
                continue
            gain = linalg.solve(Sigma[np.ix_(~hidden, ~hidden)], Sigma[np.ix_(~hidden, hidden)], assume_a="pos")
            rest = Sigma.diagonal()[hidden] - np.einsum("oh,oh->h", gain, Sigma[np.ix_(~hidden, hidden)])
            S2[np.ix_(at, hidden)] = rest + S2[np.ix_(at, ~hidden)] @ gain**2
        return S2

    # scores

    def score(self: Any, counts: Any, covariates: Any = None, offsets: Any = None) -> float:
        """Mean bound on the log likelihood of a row."""
        return float(self._bounds(self._rows(counts, covariates, offsets)).mean())

    def _bounds(self: Any, rows: Rows) -> np.ndarray:
        """The bound of every row, at its best variational distribution under the fitted model."""
        if self.method == "importance":
            raise DataError(
                'a model fitted by importance sampling has no bound; use tallies.evaluate(model, Y, method="importance")'
            )
        if self.rank is not None:
            plan = Rank(self.rank, W=self._own(), tol=self.tol)  # closer than a projection needs
            M, S2 = current(solve(plan, self._cut(rows, np.ones(len(rows.X))), PLACING, 0))
            C = self._own()[:, len(self.coefficients_) :]
            L = rows.O + rows.X @ self.coefficients_ + M @ C.T
            prior = 0.5 * (M * M + S2 - np.log(S2) - 1).sum(axis=1)
            return (rows.Y * L - np.exp(L + 0.5 * S2 @ (C * C).T) - gammaln(rows.Y + 1)).sum(axis=1) - prior
        M, S2 = self._project(rows)
        L = rows.O + M
        R = M - rows.X @ self.coefficients_
        factor = linalg.cho_factor(self.covariance_, lower=True)
        Omega = linalg.cho_solve(factor, np.eye(len(self.covariance_)))
        logdet = 2 * np.log(factor[0].diagonal()).sum()
        prior = 0.5 * (logdet + ((R @ Omega) * R).sum(axis=1) + S2 @ Omega.diagonal() - (np.log(S2) + 1).sum(axis=1))
        return (rows.Y * L - np.exp(L + 0.5 * S2) - gammaln(rows.Y + 1)).sum(axis=1) - prior

    def _evaluate(
        self: Any,
        counts: Any,
        covariates: Any = None,
        offsets: Any = None,
        *,
        method: str | None = None,
        n_draws: int = 1000,
        proposal: str = "auto",
        random_state: int = 0,
    ) -> Score:
        """The bound, or an importance sampling estimate of the log likelihood with the standard error of the estimate, per row."""
        rows = self._rows(counts, covariates, offsets)
        method = method or self.method
        if method == "variational":
            return mean_score(self._bounds(rows), "bound", "nats/row")
        if method != "importance":
            raise ValueError(f'method must be "variational" or "importance", got {method!r}')
        found = self._evidence(rows, n_draws, random_state, proposal)
        if found.ess.min() < POOR:
            warnings.warn(poor(found.ess), DataWarning, stacklevel=3)
        return Score(found.value / len(found.rows), "estimate", found.stderr / len(found.rows), "nats/row")

    def evidence(
        self: Any,
        counts: Any,
        covariates: Any = None,
        offsets: Any = None,
        n_draws: int = 1000,
        proposal: str = "auto",
        random_state: int = 0,
    ) -> Any:
        """log p(Y_i) of every row by importance sampling, with standard errors and effective shares of the draws."""
        return self._evidence(self._rows(counts, covariates, offsets), n_draws, random_state, proposal)

    @classmethod
    def over_ranks(
        cls, ranks: Iterable[int], counts: Any, covariates: Any = None, offsets: Any = None, **options: Any
    ) -> pd.DataFrame:
        """Fit PLN-PCA for several ranks; one row each with the model and its criteria, best BIC first.

        >>> import numpy as np
        >>> from tallies.counts.estimator import PLN
        >>> rng = np.random.default_rng(0)
        >>> Y = rng.poisson(np.exp(rng.normal(1, 1, size=(60, 1)) * [1.0, -1.0, 0.5, 1.0] + 1))
        >>> PLN.over_ranks([1, 2], Y, random_state=0).index.tolist()
        [1, 2]
        """
        fits = {q: cls(rank=int(q), **options).fit(counts, covariates, offsets) for q in ranks}  # type: ignore[call-arg]
        return criteria(fits)

    # other doors

    def to_anndata(self: Any, data: Any, key: str = "pln") -> Any:
        """Write the fit into an AnnData: obsm["X_<key>"], varm["<key>_components"], varm["<key>_coefficients"], uns["<key>"]."""
        check_is_fitted(self)
        if data.shape != (len(self.latent_mean_), self.n_features_in_):
            raise DataError(
                f"the AnnData has shape {data.shape}, the fit {len(self.latent_mean_), self.n_features_in_}; pass the "
                f"one that was fitted"
            )
        data.obsm[f"X_{key}"] = self.latent_mean_
        data.obsm[f"{key}_variance"] = self.latent_variance_
        data.varm[f"{key}_components"] = self.components_
        data.varm[f"{key}_coefficients"] = self.coefficients_.T
        data.uns[key] = {
            "algorithm": self.algorithm_,
            "loglik": self.loglik_,
            "bic": self.bic_,
            "icl": self.icl_,
            "converged": bool(self.converged_),
            "covariates": [str(c) for c in self.covariate_names_],
        }
        return data


def criteria(models: dict[Any, Any]) -> pd.DataFrame:
    """Criteria of fitted models side by side, smallest BIC first; the models themselves are in the last column."""
    table = pd.DataFrame(
        {name: [m.loglik_, m.n_parameters_, m.aic_, m.bic_, m.icl_, m.converged_, m] for name, m in models.items()},
        index=["loglik", "parameters", "aic", "bic", "icl", "converged", "model"],
    ).T
    return table.sort_values("bic")
