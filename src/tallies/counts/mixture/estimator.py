"""Mixtures of Poisson log-normal models: clusters of samples by their counts.

    c_i ~ pi,   Z_i | c_i = k ~ N(B_k'x_i, Sigma_k),   Y_ij | Z_ij ~ Poisson(exp(o_ij + Z_ij))

`model` has the variational fit, `plan` the stages and how the number of components is chosen.
References: Chiquet, Mariadassou and Robin 2021 (PLNmixture); Biernacki, Celeux and Govaert 2000 (ICL).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import _check_feature_names_in

from tallies.counts import answers, fitted, plan
from tallies.counts.door import Prepared, from_files, new_design
from tallies.counts.estimator import FromCounts
from tallies.counts.mixture import answers as asked
from tallies.counts.mixture import bridges
from tallies.counts.mixture import plan as mixture_plan
from tallies.counts.mixture.plan import Choice
from tallies.counts.tables import row_names
from tallies.counts.written import write_answers
from tallies.engine import Plan
from tallies.errors import DataError, at_least, one_of
from tallies.estimator import option, part, seed_of
from tallies.evaluation.score import Scored, mean_score

AUTO = 6  # most components that "auto" tries


@dataclass(eq=False, repr=False, kw_only=True)
class PLNMixture(TransformerMixin, FromCounts):
    """Clusters of samples by their counts: a mixture of Poisson log-normal models.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> true = rng.integers(0, 2, 200)
    >>> Y = rng.poisson(np.exp(rng.normal(1.0 + 2.0 * true[:, None] * [1.0, -1.0, 1.0, 0.0], 0.5)))
    >>> model = PLNMixture(n_components=[1, 2, 3]).fit(Y)
    >>> model.n_components_, bool(abs(np.corrcoef(model.labels_, true)[0, 1]) > 0.95)
    (2, True)
    >>> model.predict_proba(Y[:5]).shape
    (5, 2)
    """

    n_components: int | Sequence[int] | Literal["auto"] = option(
        "auto", "Clusters: a number, several to choose from, or auto (1 to 6).", flag="components,k"
    )
    covariance: Literal["full", "diagonal", "spherical"] = option(
        "diagonal", "Covariance of each component: full, diagonal or spherical."
    )
    select: Literal["icl", "bic"] = option("icl", "How to choose the number: icl or bic.")
    n_starts: int = option(4, "Groupings from which each number is tried.", flag="starts")
    random_state: Any = 0  # of the groupings
    intercept: bool = False  # add a column of ones to the covariates; without covariates there always is one
    max_iter: int = 20_000  # most sweeps of each stage
    tol: float = 1e-7  # stop when an assignment, and the steps before it, gain less than this part of the bound

    records: ClassVar[tuple[type, ...]] = (*fitted.RECORDS, *plan.RECORDS, *mixture_plan.RECORDS)
    next_steps: ClassVar[tuple[str, ...]] = ("model.labels_", "model.marks_", 'model.report("page.html", counts)')
    guesses: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("n_clusters", "n_cluster", "clusters"), "n_components"),
        "covariance_type": "covariance",
        "n_init": "n_starts",
        "weights_": "shares_",
        "resp_": "probabilities_",
    }

    def _settings(self) -> plan.Settings:
        one_of("covariance", self.covariance, "full", "diagonal", "spherical")
        at_least(1, max_iter=self.max_iter)
        return plan.Settings(None, self.covariance, None, None, 1, self.max_iter, self.tol)

    def _choice(self, rows: int, d: int) -> Choice:
        """The hyperparameters of the search, or a sentence about those that make no sense for so many rows."""
        one_of("select", self.select, "icl", "bic")
        at_least(1, n_starts=self.n_starts)
        most = rows // (d + 1)  # each needs a mean
        if isinstance(self.n_components, str):
            one_of("n_components", self.n_components, "auto", more="a number, several numbers")
            numbers = tuple(range(1, max(1, min(AUTO, most)) + 1))
        else:
            given = np.atleast_1d(np.asarray(self.n_components, dtype=object))
            numbers = tuple(
                sorted({int(k) if isinstance(k, int | float | np.integer) and float(k).is_integer() else 0 for k in given})
            )
        if not numbers or numbers[0] < 1:
            raise ValueError(f'n_components must be "auto", a whole number from 1 on, or several, got {self.n_components!r}')
        if numbers[-1] > most:
            raise DataError(
                f"{numbers[-1]} components need at least {d + 1} samples each, but there are {rows} in all; fit fewer components"
            )
        return Choice(numbers, self.covariance, self.select, self.n_starts, self.max_iter, self.tol)

    def _prepare(self, *data: Any, **more: Any) -> Prepared:
        prepared = super()._prepare(*data, **more)
        self._choice(int((prepared.rows.v > 0).sum()), prepared.rows.X.shape[1])
        return prepared

    def _plan(self, data: Prepared, seed: int) -> Plan:
        choice = self._choice(int((data.rows.v > 0).sum()), data.rows.X.shape[1])
        return mixture_plan.fit(choice, data, seed, self.shard_rows)

    def fit_predict(self, counts: Any, y: Any = None, **options: Any) -> np.ndarray:
        """Fit, and give the cluster of each sample; options as in `fit`."""
        return self.fit(counts, y, **options).labels_

    def fit_transform(self, counts: Any, y: Any = None, **options: Any) -> np.ndarray:
        """Fit, and give the latent positions of the samples; options as in `fit`."""
        return self.fit(counts, y, **options).latent_mean_

    # what was learned

    labels_ = part(asked.labels)
    probabilities_ = part("tau", "Probabilities of the clusters for each sample of the fit (n, K).")
    shares_ = part("share", "pi (K,): shares of the clusters, the largest first.")
    means_ = part(asked.means)
    coefficients_ = part(asked.coefficients)
    covariances_ = part(asked.covariances)
    marks_ = part(asked.marked)
    tried_ = part(asked.tried)
    n_components_ = part(lambda fitted: len(fitted.share), "Components of the fit.")
    latent_mean_ = part(lambda fitted: fitted.known_latents[0], "Means of Z given the counts, over the components (n, p).")
    latent_variance_ = part(lambda fitted: fitted.known_latents[1], "Their variances.")
    loglik_ = part("likelihood.value", "Log likelihood of the fit: the bound.")
    elbo_ = part("likelihood.elbo", "The bound.")
    n_parameters_ = part(asked.n_parameters)
    entropy_ = part(asked.entropy)
    aic_ = part(asked.aic)
    bic_ = part(asked.bic)
    icl_ = part(asked.icl)
    design_ = part("design.X", "Covariates of the fit (n, d).")
    covariate_names_ = part("design.names", "Their names (d,).")
    formula_ = part("design.text", "The formula that made them, if one did.")
    offsets_rule_ = part("data.rule", "The rule that made the offsets, if one did.")

    def _columns(self) -> np.ndarray:
        return self.fitted_.columns

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of what `transform` gives: the columns of counts."""
        return _check_feature_names_in(self, input_features)

    # new samples

    def _told(self, counts: Any, covariates: Any, offsets: Any) -> asked.Told:
        return asked.told(self.fitted_, self._rows(counts, covariates, offsets), self.shard_rows)

    def predict_proba(self, counts: Any, *, covariates: Any = None, offsets: Any = None) -> np.ndarray:
        """Probabilities of the clusters (n, K) of new samples; covariates and offsets are needed where the fit had any."""
        return self._told(counts, covariates, offsets).tau

    def predict(self, counts: Any, *, covariates: Any = None, offsets: Any = None, out: Any = None) -> Any:
        """The likeliest cluster of new samples, from 0 on, the largest of the fit first. With `out`, counts in files are read in
        pieces, and clusters, there from 1 on, with their probabilities written to that folder as Parquet, as by `PLN.transform`."""
        if out is not None:
            return write_answers(self, counts, covariates, offsets, out, asked.clusters)
        return self._told(counts, covariates, offsets).joint.argmax(axis=1)

    def transform(self, counts: Any, *, covariates: Any = None, offsets: Any = None) -> np.ndarray:
        """Latent positions of new samples: means of Z over the clusters (n, p)."""
        return self._told(counts, covariates, offsets).M

    def log_prob(self, counts: Any, *, covariates: Any = None, offsets: Any = None) -> np.ndarray:
        """A bound on the log likelihood of every row (n,): low values mark samples unlike all clusters."""
        return self._told(counts, covariates, offsets).log_prob

    def score(self, counts: Any, y: Any = None, *, covariates: Any = None, offsets: Any = None) -> float:
        """Mean of `log_prob` over the rows."""
        return float(self.log_prob(counts, covariates=covariates, offsets=offsets).mean())

    def _evaluate(self, counts: Any, covariates: Any = None, offsets: Any = None) -> Scored:
        """The bound on the log likelihood of a row."""
        return mean_score(self.log_prob(counts, covariates=covariates, offsets=offsets), "bound", "nats/row")

    def sample(
        self, n: int, *, covariates: Any = None, offsets: Any = None, random_state: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw counts (n, p) and the clusters they are from; without covariates and offsets, those of rows of the fit at random.

        >>> model = PLNMixture(n_components=1).fit([[1, 20], [2, 30], [0, 5], [9, 90], [4, 44], [8, 2]])
        >>> counts, labels = model.sample(3, random_state=0)
        >>> counts.shape, labels.tolist()
        ((3, 2), [0, 0, 0])
        """
        at_least(1, n=n)
        found, rng = self.fitted_, np.random.default_rng(seed_of(random_state))
        codes = rng.choice(len(found.share), size=n, p=found.share / found.share.sum())
        _, covariates, offsets, _ = from_files(None, covariates, offsets)
        chosen = rng.integers(len(found.design.X), size=n)
        X = found.design.X[chosen] if covariates is None else new_design(found.design, covariates, n)
        O = answers.offsets_of(found, chosen, n, offsets, row_names(covariates))
        return asked.draw(found, codes, X, O, rng), codes

    def to_anndata(self, data: Any, key: str = "clusters") -> Any:
        """Write the fit into an AnnData of its rows and columns (by name, where it had names): obs["<key>"],
        obsm["<key>_probabilities"], obsm["X_<key>"] (means of Z), varm["<key>_means"] and uns["<key>"]. X stays as it is.

        >>> from anndata import AnnData
        >>> data = AnnData(np.array([[1, 20], [2, 30], [0, 5], [9, 90], [4, 44], [8, 2]], dtype=np.float32))
        >>> PLNMixture(n_components=1).fit(data).to_anndata(data).obs["clusters"].tolist()[:2]
        ['cluster 1', 'cluster 1']
        """
        return bridges.into_anndata(self.fitted_, data, key, repr(self))

    # in words

    def _facts(self) -> list[str]:
        return asked.facts(self.fitted_, self.covariance)

    def _learned(self) -> list[tuple[str, str]]:
        table = self.marks_.groupby("cluster", sort=False).head(3).groupby("cluster", sort=False)
        told = [(str(name), g) for name, g in table] if len(self.shares_) > 1 else []
        return [(name, ", ".join(f"{s} x{f:.3g}" for s, f in zip(g["species"], g["factor"], strict=True))) for name, g in told]

    def _caveats(self) -> list[str]:
        return asked.caveats(self.fitted_, self.select)

    def _measure(self) -> str:
        return "bound on the log likelihood"
