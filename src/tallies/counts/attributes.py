"""The public attributes of a fitted PLN: views of its record, and what its summary says of it."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from scipy import linalg
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in

from tallies.counts import answers, coefficients
from tallies.errors import one_of
from tallies.estimator import Estimator, part

NAMED = {  # what names the rows and the columns of a fitted table
    "coefficients": ("covariates", "species"),
    **dict.fromkeys(("covariance", "correlation", "precision"), ("species", "species")),
    "components": ("species", "axes"),
    **dict.fromkeys(("latent_mean", "latent_variance"), ("samples", "latent")),
}


class Attributes(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator):
    """What can be read of a PLN once it is fitted."""

    guesses: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("n_components", "n_factors", "ranks"), "rank"),
        "exog": "`fit(counts, covariates=...)` takes them",
        "add_const": "intercept",
        **dict.fromkeys(("coef_", "beta_"), "coefficients_"),
        **dict.fromkeys(("latent_variables_", "latent_positions_"), "latent_mean_"),
        "loadings_": "components_",
        **dict.fromkeys(("sigma_", "Sigma_"), "covariance_"),
        **dict.fromkeys(("omega_", "Omega_"), "precision_"),
        "loglike_": "loglik_",
    }

    def set_output(self, transform: str | None = None) -> Self:
        """What `transform` gives: "pandas" and "polars" are data frames, "default" is an array."""
        return super().set_output(transform=transform)

    # what was learned

    coefficients_: np.ndarray = part("model.B", "B (d, p).")
    covariance_: np.ndarray = part("model.covariance", "Sigma (p, p); C C' where there is a rank.")
    components_: np.ndarray = part(
        "model.components", "C (p, q): orthogonal columns, longest first; for rank=None the principal axes of Sigma."
    )
    correlation_: np.ndarray = part(lambda fitted: answers.correlation(fitted.model.covariance), "Latent correlations (p, p).")
    explained_variance_ratio_: np.ndarray = part(answers.shares, "Share of the latent variance of each component.")
    latent_mean_: np.ndarray = part(
        lambda fitted: fitted.known_latents[0], "Means of the latents given the counts: of Z (n, p), or of the scores (n, q)."
    )
    latent_variance_: np.ndarray = part("latent_variance", "Their variances.")
    algorithm_: str = part(answers.algorithm, "Which of the solvers was used.")

    @property
    def precision_(self) -> np.ndarray:
        """Inverse of the covariance (p, p); it has none where rank is below p."""
        rank = self.fitted_.model.rank
        if rank is not None and rank < self.n_features_in_:
            raise AttributeError(f"a covariance of rank {rank} has no inverse; use components_, or fit with rank=None")
        return linalg.inv(self.covariance_)

    zero_probability_: np.ndarray | None = part(
        lambda fitted: None if fitted.zeros is None else fitted.zeros.rho,
        "Probabilities (n, p) that zeros are structural: there whatever the latent abundance is; 0 where a count is not 0. None "
        "without zero inflation.",
    )
    inflation_: np.ndarray | None = part(answers.inflation)
    inflation_coefficients_: pd.DataFrame | None = part(answers.inflation_coefficients)

    # how good it is

    loglik_: float = part(
        "likelihood.value", "Log likelihood of the fit: the bound, or an estimate with the error `loglik_stderr_`."
    )
    loglik_stderr_: float | None = part("likelihood.stderr", "Standard error of the estimate; None for a bound.")
    ess_: np.ndarray | None = part("likelihood.ess", "Effective share of the draws of each row (n,); None for a bound.")
    elbo_: float | None = part("likelihood.elbo", "The bound; None after importance sampling.")
    n_parameters_: int = part(answers.n_parameters, "Free numbers of the model.")
    entropy_: float = part(answers.entropy, "Entropy of the variational distribution of all latents.")
    aic_: float = part(answers.aic, "-2 loglik + 2 k; smaller is better.")
    bic_: float = part(answers.bic, "-2 loglik + k log n; smaller is better.")
    icl_: float = part(
        answers.icl, "BIC plus twice the entropy of the latents: it prefers models whose latents are well determined."
    )
    r2_: float = part(
        coefficients.explained,
        "Share of the latent variance that the covariates explain, over columns without separated effects.",
    )

    def coefficient_table(self, *, confidence: float = 0.95) -> pd.DataFrame:
        """Coefficients with sandwich standard errors, confidence intervals and p-values (Student's t), and as factors.

        `factor` = exp(estimate) is by how much a unit of the covariate multiplies the counts. `separated` marks coefficients
        without a finite estimate, such as that of a group in which the species is never seen; they have no errors.

        >>> import numpy as np
        >>> from tallies import PLN
        >>> Y = np.random.default_rng(0).poisson(5.0, size=(60, 2))
        >>> table = PLN(covariance="spherical").fit(Y).coefficient_table()
        >>> table.columns.tolist()[:6]
        ['estimate', 'std_error', 'lower', 'upper', 'z', 'p_value']
        >>> table.columns.tolist()[6:]
        ['factor', 'factor_lower', 'factor_upper', 'separated']
        """
        return coefficients.coefficient_table(self.fitted_, confidence)

    def coefficient_covariance(self) -> np.ndarray:
        """Sandwich covariance of the coefficients, in the order of `coefficients_.ravel()`: (d p, d p)."""
        return coefficients.coefficient_covariance(self.fitted_)

    # what it was learned from

    design_: np.ndarray = part("design.X", "Covariates of the fit (n, d).")
    covariate_names_: np.ndarray = part("design.names", "Their names (d,).")
    formula_: str | None = part("design.text", "The formula that made them, if one did.")
    offsets_: np.ndarray = part(
        "data.O", "Offsets of the fit (n, p), -1e4 where a count is missing; (n, 1) where those of a row are all alike."
    )
    offsets_rule_: str | None = part("data.rule", "The rule that made them, if one did.")
    weights_: np.ndarray = part("data.v", "Weights of the rows (n,).")
    _n_features_out: int = part(lambda fitted: fitted.model.rank or fitted.inputs.n, "Columns of what `transform` gives.")

    def _columns(self) -> np.ndarray:
        return self.fitted_.columns

    def named(self, what: str) -> pd.DataFrame:
        """A fitted table with its names: "coefficients", "covariance", "correlation", "precision", "components", "latent_mean" or
        "latent_variance". The attributes of these names, such as `correlation_`, are the arrays alone.

        >>> from tallies import PLN
        >>> counts = pd.DataFrame({"oak": [1, 2, 0, 9, 4], "elm": [20, 30, 5, 90, 44]}, index=list("abcde"))
        >>> model = PLN().fit(counts)
        >>> bool(model.named("correlation").loc["oak", "elm"] == model.correlation_[0, 1])
        True
        >>> model.named("latent_mean").index.tolist()
        ['a', 'b', 'c', 'd', 'e']
        """
        one_of("what", what, *NAMED)
        values: np.ndarray = getattr(self, f"{what}_")
        names: dict[str, Any] = {"species": self._columns(), "covariates": self.covariate_names_}
        names |= {"samples": self.fitted_.data.samples, "axes": [f"pln{k}" for k in range(values.shape[1])]}
        names["latent"] = self._columns() if self.fitted_.model.rank is None else names["axes"]
        down, across = NAMED[what]
        return pd.DataFrame(values, index=names[down], columns=names[across])

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of what `transform` gives: the columns of counts, or pln0, pln1, ... where there is a rank."""
        if self.fitted_.model.rank is None:
            return _check_feature_names_in(self, input_features)
        return super().get_feature_names_out(input_features)

    def _caveats(self) -> list[str]:
        flat, ess = answers.flat_columns(self.fitted_.model), self.ess_
        found = [] if ess is None else [answers.poor(ess)]
        if self.fitted_.likelihood.fell:
            found.append(
                f"importance sampling ended {self.fitted_.likelihood.lost:,.3g} nats below the log likelihood of its start, so the "
                "start was kept and the fit has not converged; lower learning_rate or accuracy of Importance(...)"
            )
        if len(flat) and self.fitted_.model.rank is None:  # of a rank it may just be on none of the axes
            found.append(
                f"columns such as {self._columns()[flat[:3]].tolist()} ({len(flat)} of {self.n_features_in_}) vary less than "
                "Poisson counts do: their latent variance is 0 within 1e-4, and their correlations mean nothing"
            )
        return [text for text in (*found, answers.needless(self.fitted_)) if text]

    def _facts(self) -> list[str]:
        kind = "bound" if self.elbo_ is not None else f"estimate, standard error {self.loglik_stderr_:.2g}"
        kind += ", that of the start: sampling gained nothing" if self.fitted_.likelihood.lost is not None else ""
        names = ", ".join(map(str, self.covariate_names_))
        return [
            f"{self.algorithm_}; {len(self.design_)} samples, {self.n_features_in_} columns, covariates {names}",
            f"log likelihood {self.loglik_:,.2f} ({kind}), {self.n_parameters_} parameters, BIC {self.bic_:,.1f}, ICL "
            f"{self.icl_:,.1f}",
            *self._apart(),
        ]

    def _apart(self) -> list[str]:
        """A line on columns that have effects without a finite estimate."""
        names = self._columns()[coefficients.separated(self.fitted_).any(axis=0)]
        few = ", ".join(map(str, names[:3])) + " ..." * (len(names) > 3)
        text = f"{len(names)} of {self.n_features_in_} columns ({few}) are never seen in a group"
        return [f"{text}: those effects have no finite estimate"] * bool(len(names))

    def _learned(self) -> list[tuple[str, str]]:
        return coefficients.strongest(self.fitted_)

    def _measure(self) -> str:
        return "bound on the log likelihood" if self.elbo_ is not None else "log likelihood"
