"""Wrongs in PLNMixture, PLNDiscriminant and PLN with structural zeros: they belong to the room of counts."""

from wrongs import Wrong

MIXED, PLAN, START, ANSWERS = (f"counts/mixture/{name}.py" for name in ("model", "plan", "start", "answers"))
DISCRIMINANT, GROUPS, INFLATED = "counts/discriminant/answers.py", "counts/groups.py", "counts/inflated.py"

WRONGS = [
    Wrong(MIXED, "J[:, k] = np.log(params.share[k]) + row_bounds", "J[:, k] = row_bounds", "assignments without shares"),
    Wrong(MIXED, "share = np.where(alive, tally.N, 0.0)", "share = np.where(alive, 1.0, 0.0)", "shares all alike"),
    Wrong(START, "latents.M_trial if trial else latents.M,", "latents.M,", "groups of the point before the last"),
    Wrong(START, "np.cumsum(params.number)[:-1]", "params.number[:-1]", "groupings cut at other centres than theirs"),
    Wrong(
        PLAN,
        "range(first, first + len(these))",
        "range(len(these))",
        "each number of components begun with the groupings of the first",
    ),
    Wrong(PLAN, "return bic, bic + 2 * self.uncertainty", "return bic, bic + self.uncertainty", "ICL with half the entropy"),
    Wrong(PLAN, "K * (d * p + spread) + K - 1", "K * (d * p + spread) + K", "a share too many"),
    Wrong(ANSWERS, "Told(bounds + np.log(fitted.share)", "Told(bounds", "log p of a sample without shares"),
    Wrong(DISCRIMINANT, "Sigma=wide * (1 + 1 / n_k)", "Sigma=wide", "predictions as narrow as the class"),
    Wrong(DISCRIMINANT, "np.log(UNSEEN) - (np.log(effort)", "np.log(UNSEEN) + (np.log(effort)", "half a count of the wrong effort"),
    Wrong(
        GROUPS,
        "found = groups.means - groups.weight @ groups.means / groups.weight.sum()",
        "found = groups.means",
        "marks beside nothing",
    ),
    Wrong(INFLATED, "expit(odds[j] - J0)", "expit(odds[j] + A[j])", "a structural zero as if Z did not know of it"),
    Wrong(INFLATED, "+ rho * (1 - rho) * (M - C) ** 2", "", "variance of Z without that between its two means"),
    Wrong(INFLATED, "+ np.diag(tally.V)) / params", ") / params", "a covariance of means alone"),
    Wrong(
        INFLATED,
        "there, v = shard.O > HIDDEN, shard.v",
        "there, v = shard.O > HIDDEN, np.ones_like(shard.v)",
        "zeros without weights",
    ),
    # mixtures
    Wrong(MIXED, "- 0.5 * divergence(shard", "- divergence(shard", "bounds of rows with twice the divergence"),
    Wrong(
        MIXED,
        "bound, M, np.maximum(second - M * M, 1e-300))",
        "bound, M, sum(tau[:, [k]] * S2 for k, (m, S2) in enumerate(places)))",
        "variance of Z without that between the components",
    ),
    Wrong(MIXED, "v @ xlogy(tau, tau).sum(axis=1)", "xlogy(tau, tau).sum()", "entropy of assignments without weights"),
    Wrong(MIXED, "weight = shard.v[:, None] * np.maximum(tau, FLOOR)", "weight = np.maximum(tau, FLOOR)", "shares without weights"),
    Wrong(PLAN, "axis=1) + np.log(share)", "axis=1)", "new rows assigned without shares"),
    Wrong(
        PLAN, "place.S2 + place.M**2 for place", "place.S2 + M**2 for place", "rows without weight: no variance between components"
    ),
    Wrong(PLAN, "np.argsort(-params.share, kind", "np.argsort(params.share, kind", "the smallest component first"),
    Wrong(PLAN, "int(np.argmin(criterion))", "int(np.argmax(criterion))", "the worst number of components"),
    Wrong(
        ANSWERS,
        '"d,kdj->kj", v @ fitted.design.X / v.sum()',
        '"d,kdj->kj", fitted.design.X.mean(axis=0)',
        "means at a mean of covariates without weights",
    ),
    Wrong(ANSWERS, "roots[codes], rng", "roots[0 * codes], rng", "samples with the spread of the first component"),
    Wrong(
        ANSWERS,
        "return bic(fitted) + 2 * entropy(fitted)",
        "return bic(fitted) + entropy(fitted)",
        "ICL of a fit with half the entropy",
    ),
    Wrong(
        ANSWERS,
        'np.einsum("k,kij->ij", fitted.share, covariances(fitted))',
        "covariances(fitted).mean(axis=0)",
        "spread within clusters without their shares",
    ),
    Wrong(
        ANSWERS,
        'Z = fitted.latent_mean - np.einsum("nk,knj->nj", fitted.tau, effects)',
        "Z = fitted.latent_mean",
        "positions of samples with what covariates explain",
    ),
    # discriminants
    Wrong(DISCRIMINANT, "np.sum((1 - r * r) ** 2)", "np.sum(1 - r * r)", "errors of correlations, not of their squares"),
    Wrong(DISCRIMINANT, "* n.sum() / (n.sum() - d), fitted", ", fitted", "a covariance as if no mean had been fitted"),
    Wrong(DISCRIMINANT, "return np.log(n / n.sum())", "return np.log(np.ones(len(n)) / len(n))", "classes all alike beforehand"),
    Wrong(DISCRIMINANT, "(np.log(effort) + 0.5 * Sigma.diagonal())", "np.log(effort)", "half a count without Sigma/2"),
    Wrong(
        DISCRIMINANT,
        "np.bincount(known.codes, fitted.data.v,",
        "np.bincount(known.codes, None,",
        "sizes of classes without weights",
    ),
    Wrong(DISCRIMINANT, "place.M - rows.X @ B for place", "place.M for place", "positions with what covariates explain"),
    Wrong(DISCRIMINANT, "+ part * np.diag(Sigma.diagonal())", "+ part * np.eye(len(Sigma))", "shrunk to unit variances"),
    Wrong(
        GROUPS,
        "((weight / weight.sum())[:, None] * (means - centre))",
        "((means - centre) / len(means))",
        "axes of groups that are all of a size",
    ),
    Wrong(GROUPS, "np.sqrt(groups.Sigma.diagonal() + 1e-12)", "(groups.Sigma.diagonal() + 1e-12)", "marks beside a variance"),
    Wrong(
        GROUPS,
        "values / max(float(values.sum())",
        "np.sqrt(values) / max(float(np.sqrt(values).sum())",
        "shares of axes by their roots",
    ),
    # structural zeros
    Wrong(INFLATED, "entr(rho) + entr(1 - rho)", "entr(rho)", "half of the entropy of a zero"),
    Wrong(INFLATED, "rate = (1 - z.rho) * np.exp(", "rate = np.exp(", "expected counts as if no zero were structural"),
    Wrong(INFLATED, "(1 - rho) * S2 + rho / omega", "(1 - rho) * S2", "no variance of Z behind a structural zero"),
    Wrong(INFLATED, "- rho * np.log(omega) + 1)", "+ 1)", "the entropy of Z behind a structural zero lost"),
    Wrong(
        INFLATED,
        "tally.R / np.maximum(tally.N, 1e-300)",
        "tally.R / params.sums.weight",
        "missing cells counted among the zeros that might be",
    ),
    Wrong(INFLATED, "not params.path[-1] <= tally.J", "False", "leaps that lower the bound are kept"),
    Wrong(INFLATED, 'ended(params)._replace(leap="back")', "ended(params)", "rows that stay where a leap led that was taken back"),
    Wrong(INFLATED, "np.maximum((shard.O > HIDDEN).sum(axis=1), 1)", "len(rho.T)", "rows: missing cells counted among the others"),
    Wrong(
        INFLATED,
        "(tally.G - tally.P.T @ move",
        "(tally.G",
        "a covariance about the coefficients before: another way to the same end, where they move no more",
        equivalent=True,
    ),
]

_TESTS = {
    MIXED: "mixture",
    PLAN: "mixture",
    START: "filed_mixtures",
    ANSWERS: "mixture",
    DISCRIMINANT: "discriminant",
    GROUPS: "discriminant",
    INFLATED: "zeros",
}
WRONGS = [w._replace(tests=("counts/test_grouped_derived.py", f"counts/test_{_TESTS[w.file]}.py")) for w in WRONGS]
