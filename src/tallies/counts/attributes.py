"""The public attributes of a fitted PLN: views of its record, and what its summary says of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in

from tallies.counts import answers, fitted
from tallies.estimator import Estimator, part


class Attributes(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator):
    """What can be read of a PLN once it is fitted."""

    # what was learned

    coefficients_: np.ndarray = part("model.B", "B (d, p).")
    covariance_: np.ndarray = part("model.covariance", "Sigma (p, p); C C' where there is a rank.")

    @property
    def components_(self) -> np.ndarray:
        """C (p, q): orthogonal columns, longest first; for rank=None the principal axes of Sigma."""
        return self.fitted_.model.components

    @property
    def precision_(self) -> np.ndarray:
        """Inverse of the covariance (p, p); it has none where rank is below p."""
        rank = self.fitted_.model.rank
        if rank is not None and rank < self.n_features_in_:
            raise AttributeError(f"a covariance of rank {rank} has no inverse; use components_, or fit with rank=None")
        return linalg.inv(self.covariance_)

    @property
    def correlation_(self) -> np.ndarray:
        """Latent correlations (p, p)."""
        return answers.correlation(self.covariance_)

    @property
    def explained_variance_ratio_(self) -> np.ndarray:
        """Share of the latent variance of each component."""
        size = (self.components_**2).sum(axis=0)
        return size / size.sum()

    latent_mean_: np.ndarray = part("latent_mean", "Means of the latents given the counts: of Z (n, p), or of the scores (n, q).")
    latent_variance_: np.ndarray = part("latent_variance", "Their variances.")

    @property
    def loglik_(self) -> float:
        """Log likelihood of the fit: the bound, or an estimate with the error `loglik_stderr_`."""
        return self.fitted_.likelihood.value

    loglik_stderr_: float | None = part("likelihood.stderr", "Standard error of the estimate; None for a bound.")
    ess_: np.ndarray | None = part("likelihood.ess", "Effective share of the draws of each row (n,); None for a bound.")

    @property
    def elbo_(self) -> float | None:
        """The bound; None after importance sampling."""
        return self.loglik_ if self.fitted_.likelihood.bound else None

    @property
    def n_parameters_(self) -> int:
        """Free numbers of the model."""
        return answers.n_parameters(self.fitted_.model)

    @property
    def entropy_(self) -> float:
        """Entropy of the variational distribution of all latents."""
        return answers.entropy(self.fitted_)

    @property
    def aic_(self) -> float:
        """-2 loglik + 2 k; smaller is better."""
        return -2 * self.loglik_ + 2 * self.n_parameters_

    @property
    def bic_(self) -> float:
        """-2 loglik + k log n; smaller is better."""
        return -2 * self.loglik_ + self.n_parameters_ * np.log(self.weights_.sum())

    @property
    def icl_(self) -> float:
        """BIC plus twice the entropy of the latents: it prefers models whose latents are well determined."""
        return self.bic_ + 2 * self.entropy_

    @property
    def r2_(self) -> float:
        """Share of the latent variance that the covariates explain."""
        return answers.explained(self.fitted_)

    @property
    def algorithm_(self) -> str:
        """Which of the solvers was used."""
        return answers.algorithm(self.fitted_.model)

    # what it was learned from

    design_: np.ndarray = part("design.X", "Covariates of the fit (n, d).")
    covariate_names_: np.ndarray = part("design.names", "Their names (d,).")

    @property
    def formula_(self) -> str | None:
        """The formula that made them, if one did."""
        read = self.fitted_.design.formula
        return None if read is None else read.text

    @property
    def offsets_(self) -> np.ndarray:
        """Offsets of the fit (n, p), -1e4 where a count is missing; (n, 1) where those of a row are all alike."""
        return self.fitted_.data.O

    offsets_rule_: str | None = part("data.rule", "The rule that made them, if one did.")
    weights_: np.ndarray = part("data.v", "Weights of the rows (n,).")

    def _columns(self) -> np.ndarray:
        return fitted.columns(self.fitted_)

    @property
    def _n_features_out(self) -> int:
        return self.latent_mean_.shape[1]

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of what `transform` gives: the columns of counts, or pln0, pln1, ... where there is a rank."""
        if self.fitted_.model.rank is None:
            return _check_feature_names_in(self, input_features)
        return super().get_feature_names_out(input_features)

    def _caveats(self) -> list[str]:
        flat, ess = answers.flat_columns(self.fitted_.model), self.ess_
        found = [] if ess is None else [answers.poor(ess)]
        if len(flat) and self.fitted_.model.rank is None:  # of a rank it may just be on none of the axes
            found.append(
                f"columns such as {self._columns()[flat[:3]].tolist()} ({len(flat)} of {self.n_features_in_}) vary less than "
                "Poisson counts do: their latent variance is 0 within 1e-4, and their correlations mean nothing"
            )
        return [text for text in found if text]

    def _facts(self) -> list[str]:
        kind = "bound" if self.elbo_ is not None else f"estimate, standard error {self.loglik_stderr_:.2g}"
        names = ", ".join(map(str, self.covariate_names_))
        return [
            f"{self.algorithm_}; {len(self.design_)} samples, {self.n_features_in_} columns, covariates {names}",
            f"log likelihood {self.loglik_:,.2f} ({kind}), {self.n_parameters_} parameters, BIC {self.bic_:,.1f}, ICL "
            f"{self.icl_:,.1f}",
        ]

    def _learned(self) -> list[tuple[str, str]]:
        return answers.strongest(self.fitted_)

    def _measure(self) -> str:
        return "bound on the log likelihood" if self.elbo_ is not None else "log likelihood"
