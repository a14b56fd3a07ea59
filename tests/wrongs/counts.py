"""Wrongs in PLN and PLNNetwork; those of mixtures, discriminants and structural zeros are in `grouped`."""

from wrongs import Wrong
from wrongs.grouped import WRONGS as GROUPED

ALIGNMENT, ANSWERS, COEFFICIENTS, EVIDENCE, IMPORTANCE, OFFSETS = (
    f"counts/{name}.py" for name in ("alignment", "answers", "coefficients", "evidence", "importance", "offsets")
)
GRAPH, LASSO, SEARCH, PENALISED = (
    f"counts/{name}.py" for name in ("network/answers", "network/lasso", "network/plan", "network/penalised")
)
INFLATED, DRAWS = "counts/inflated.py", ("evaluation/test_draws.py",)
ESTIMATOR, PLAN, PLAIN = "counts/estimator.py", "counts/plan.py", "counts/kernels/plain.py"

WRONGS = [
    Wrong(
        "counts/full.py",
        "misfit = G.sum() - np.vdot(tally.P @ old.Omega, move)",
        "misfit = G.sum()",
        "the bound under a given covariance about the coefficients before",
        ("counts/test_derived.py::test_under_a_given_covariance_the_bound_is_that_of_its_rows_at_every_step",),
    ),
    Wrong(
        "counts/full.py",
        "self.tol * max(abs(F), ENDLESS if point.rare else 0.0)",
        "self.tol * abs(F)",
        "rare columns followed without end",
        ("counts/test_pln.py::test_a_fit_does_not_follow_rare_columns_for_gains_that_nothing_could_see",),
    ),
    Wrong(
        "counts/door.py",
        "n // min(p, ROWS)",
        "n // p",
        "a table wider than long in one piece",
        ("counts/test_pln.py::test_large_sweeps_are_cut_into_pieces_whatever_the_shape_of_the_table",),
    ),
    Wrong("counts/shards.py", "np.repeat(self.O, Y.shape[1], axis=1)", "np.zeros(Y.shape)", "offsets of sparse counts lost"),
    Wrong(
        "counts/records.py",
        "Sigma += np.tril(Sigma, -1).T",
        "Sigma += np.tril(Sigma).T",
        "variances counted twice",
        ("counts/test_pln.py",),
    ),
    Wrong("counts/filed.py", "else some - a)", "else some - int(ends[first]))", "other rows of a piece", ("counts/test_filed.py",)),
    Wrong("counts/filed.py", "if live.all():", "if live.any():", "columns of rows without weight", ("counts/test_filed.py",)),
    Wrong("counts/separation.py", "if d == 1:", "if d >= 1:", "none separated in files", ("counts/test_filed.py",)),
    Wrong(ANSWERS, "p * model.rank - model.rank * (model.rank - 1) // 2", "p * model.rank", "rotations of C counted as parameters"),
    Wrong(ANSWERS, '"full": p * (p + 1) // 2', '"full": p * p', "a symmetric matrix counted twice"),
    Wrong(
        ANSWERS,
        "(np.log(2 * np.pi * fitted.known_latents[1]) + 1)",
        "(np.log(2 * np.pi * fitted.known_latents[1]))",
        "a half missing in an entropy",
    ),
    Wrong(ANSWERS, "0.5 * fitted.data.v @ (np.log", "0.5 * np.ones_like(fitted.data.v) @ (np.log", "entropy without weights"),
    Wrong(
        ANSWERS,
        "n_parameters(fitted) * np.log(fitted.data.v.sum())",
        "n_parameters(fitted) * np.log(fitted.data.Y.size)",
        "BIC with cells for rows",
    ),
    Wrong(ANSWERS, "return bic(fitted) + 2 * entropy(fitted)", "return bic(fitted) + entropy(fitted)", "ICL with half the entropy"),
    Wrong(
        ANSWERS,
        "size = (fitted.model.components**2).sum(axis=0)",
        "size = np.sqrt((fitted.model.components**2).sum(axis=0))",
        "shares of standard deviations, not of variance",
    ),
    Wrong(
        ANSWERS,
        "np.exp(O + X @ fitted.model.B + 0.5 * fitted.model.covariance.diagonal())",
        "np.exp(O + X @ fitted.model.B)",
        "expected counts without Sigma/2",
    ),
    Wrong(
        ANSWERS,
        "rest.diagonal() + S2[np.ix_(at, ~hidden)] @ (slope**2).T",
        "rest.diagonal()",
        "hidden cells without what is unsure of the others",
    ),
    Wrong(
        ANSWERS,
        "S2 = _hidden_variance(model.covariance, missing, S2)",
        "S2 = S2",
        "hidden cells with the variance of the mean field",
    ),
    Wrong(
        ANSWERS,
        "size = rows.O.max(axis=1, keepdims=True)",
        "size = 0 * rows.O.max(axis=1, keepdims=True)",
        "a missing cell under an offset rule has no offset",
    ),
    Wrong(ANSWERS, "low = np.where(Y == 0, 0.0, low)", "low = low", "residuals of zeros have no lower half"),
    Wrong(ANSWERS, "np.nanmean(seen, axis=0)", "np.nanmax(seen, axis=0)", "samples of hidden cells with the largest offset"),
    Wrong(COEFFICIENTS, "2 * t.sf(np.abs(z))", "t.sf(np.abs(z))", "a one-sided p-value"),
    Wrong(COEFFICIENTS, "t.ppf(0.5 + confidence / 2)", "t.ppf(confidence)", "a one-sided interval"),
    Wrong(
        COEFFICIENTS,
        'linalg.solve(H, linalg.solve(H, J, assume_a="pos").T, assume_a="pos")',
        "linalg.inv(H)",
        "the sandwich without its filling",
    ),
    Wrong(
        COEFFICIENTS,
        "scores = (vX[:, :, None] * (Y - A)",
        "scores = (vX[:, :, None] / np.sqrt(v[:, None, None]) * (Y - A)",
        "scores with the root of their weights",
    ),
    Wrong(
        COEFFICIENTS,
        "J = scores.T @ scores * (n / max(n - d, 1))",
        "J = scores.T @ scores",
        "no correction for the fitted coefficients",
    ),
    Wrong(
        COEFFICIENTS,
        "XX = (vX[:, :, None] * X[:, None, :])",
        "XX = (X[:, :, None] * X[:, None, :])",
        "curvature without weights",
    ),
    Wrong(
        COEFFICIENTS,
        "h, Q = c + k, np.hstack([C, 0.5 * squares])",
        "h, Q = c + k, np.hstack([C, 0.0 * squares])",
        "curvature of a rank with variances held",
    ),
    Wrong(
        COEFFICIENTS, "u = S2 * S2 / (1 + 0.5 * S2 * S2 * A)", "u = 0 * S2", "curvature of a full covariance with variances held"
    ),
    Wrong(COEFFICIENTS, "t = stats.t(max(", "t = stats.t(10**9 + max(", "intervals as if the errors were known"),
    Wrong(COEFFICIENTS, "H, scores = H - cross @ follow, scores - g @ follow", "H, scores = H, scores", "errors that hold Sigma"),
    Wrong(COEFFICIENTS, "return D, G, K - mixed - mixed.transpose(0, 2, 1)", "return D, G, K", "scales: a cross term lost"),
    Wrong(COEFFICIENTS, "A * h**2 + A * (c + 2 * k) - Y * c", "A * h**2", "scales of a rank: half of the second derivative"),
    Wrong(
        COEFFICIENTS,
        "variance = float((v @ (mean - v @ mean) ** 2).sum())",
        "variance = float(((mean - mean.mean(axis=0)) ** 2).mean(axis=0).sum())",
        "R2 without weights",
    ),
    Wrong(EVIDENCE, "- 0.5 * (V * V).sum(axis=2)", "- 0.5 * (V * V).mean(axis=2)", "the prior of the latents is a mean"),
    Wrong(
        EVIDENCE,
        "logsumexp(logs, axis=1) - np.log(n_draws)",
        "logsumexp(logs, axis=1) - np.log(n_draws - 1)",
        "a mean over one draw too few",
    ),
    Wrong(
        EVIDENCE,
        "w.std(axis=1, ddof=1) / np.sqrt(n_draws) / mean",
        "w.std(axis=1, ddof=1) / np.sqrt(n_draws)",
        "error of a weight, not of its logarithm",
    ),
    Wrong(
        EVIDENCE,
        "float(np.sqrt((errors**2).sum()))",
        "float(errors.sum())",
        "errors of independent rows added",
        ("counts/test_derived.py::test_evidence_of_rows_adds_in_squares",),
    ),
    Wrong(
        IMPORTANCE,
        "g = g - tally.old / tally.rows + params.known / rows",
        "g = g - tally.old / tally.rows",
        "SAGA without its mean",
    ),
    Wrong(IMPORTANCE, "np.where(turn < 0, 0.5, 1.2)", "np.where(turn > 0, 0.5, 1.2)", "Rprop grows where the sign turns"),
    Wrong(
        IMPORTANCE, "w *= (v / w.sum(axis=1))[:, None]", "w *= (1 / w.sum(axis=1))[:, None]", "gradients without weights of rows"
    ),
    Wrong(OFFSETS, "np.floor(k * 0.3)", "np.floor(k * 0.05)", "TMM trims ratios too little"),
    Wrong(
        OFFSETS,
        "_inside(level, np.floor(k * 0.05))",
        "_inside(level, 0.0)",
        "TMM does not trim intensities",
        ("counts/test_derived.py::test_offsets_are_those_of_their_papers",),
    ),
    Wrong(
        OFFSETS,
        "spread = 1 / Y[i, both] - 1 / depth[i] + 1 / Y[reference, both] - 1 / depth[reference]",
        "spread = np.ones(both.sum())",
        "TMM without precisions",
    ),
    Wrong(OFFSETS, "return np.log(size / np.median(size))", "return np.log(size / size.mean())", "CSS relative to the mean"),
    Wrong(
        OFFSETS,
        "weight = chance / np.maximum(np.exp(np.minimum(variance, 50.0)) - chance, 1e-6)",
        "weight = np.ones_like(chance)",
        "Wrench without weights",
    ),
    Wrong(
        OFFSETS,
        "np.log(np.nanmedian(np.exp(ratios[some]), axis=1)).mean()",
        "np.nanmedian(ratios[some])",
        "GMPR: one median for all samples",
    ),
    Wrong(
        ESTIMATOR,
        '"estimate", found.stderr / n, "nats/row"',
        '"estimate", found.stderr, "nats/row"',
        "error of a sum",
    ),
    Wrong(
        PLAN,
        "float(np.sqrt(v**2 @ found.rows_stderr**2))",
        "float(np.sqrt(v @ found.rows_stderr**2))",
        "error of a weighted sum with the root of the weights",
    ),
    Wrong(
        "counts/records.py",
        "Sigma[np.diag_indices(len(Sigma))] += self.s2",
        "Sigma[np.diag_indices(len(Sigma))] += 0.5 * self.s2",
        "Sigma with half of the variances",
    ),
    Wrong(PLAIN, "0.5 * np.log(S2) - A + base * Y", "np.log(S2) - A + base * Y", "a half too much in the bound"),
    Wrong(
        "counts/tables.py",
        " and first not in asked",
        "",
        "a target taken for the names of rows",
        ("counts/test_discriminant.py::test_the_first_column_of_the_file_may_be_the_class",),
    ),
    Wrong(
        "counts/command.py",
        "some.reset_index(drop=True) if row_names(table) is None else some",
        "some",
        "rows held out whose numbers are taken for names",
        ("counts/test_command.py::test_rows_are_held_out_whatever_has_names",),
    ),
    Wrong(
        "counts/fitted.py",
        "np.where(self.O > HIDDEN, self.counts, np.nan)",
        "1.0 * self.counts",
        "missing counts among the zeros of a report",
        ("counts/test_page.py::test_a_missing_count_is_no_zero",),
    ),
    Wrong(
        PLAIN,
        "np.maximum(c + np.sqrt(c * c + A + A), LEAST * A)",
        "(c + np.sqrt(c * c + A + A))",
        "a division by what rounding leaves",
        ("counts/test_kernels.py::test_variances_far_too_large_are_no_division_by_zero",),
    ),
]

MATCHED = [  # tables beside the counts, by name
    Wrong(
        ALIGNMENT,
        "np.ascontiguousarray(table.Y[:, at])",
        "np.ascontiguousarray(table.Y)",
        "counts in another order than that of the fit",
    ),
    Wrong(ALIGNMENT, "else table.missing[:, at]", "else table.missing", "gaps in another order than the counts"),
    Wrong(
        ALIGNMENT, "return table.set_axis(again).loc[list(names)]", "return table.iloc[: len(names)]", "covariates of other samples"
    ),
    Wrong(
        ALIGNMENT,
        "frame.select([known[name] for name in names])",
        "frame.select([*known.values()][: len(list(names))])",
        "offsets of other columns",
    ),
]

WRONGS += [
    w._replace(tests=("counts/test_zero_formula.py", "counts/test_zeros.py"))
    for w in (
        Wrong(INFLATED, "(weight * (rho - pi))", "(weight * (rho - 0.5))", "a logistic regression that does not know its odds"),
        Wrong(INFLATED, "np.where(shard.O > HIDDEN, shard.v[:, None], 0.0)", "1.0 * (shard.O > HIDDEN)", "odds without weights"),
        Wrong(INFLATED, "_means(shard, params) + D", "D", "latent means without the covariates"),
        Wrong(ANSWERS, "more = model.G.size if more is None", "more = len(model.G) if more is None", "odds of one column counted"),
        Wrong(ANSWERS, "1 - (fitted.model.pi if T is None else", "1 - (fitted.model.pi if True else", "predictions of mean odds"),
    )
]

INFLATED_RANK = "counts/inflated_rank.py"
WRONGS += [
    w._replace(tests=("counts/test_zero_rank.py",))
    for w in (
        Wrong(INFLATED_RANK, "shard._replace(O=shard.O - more)", "shard", "slopes as if no zero were structural"),
        Wrong(
            INFLATED_RANK,
            "np.where(there, fit + more - np.logaddexp",
            "np.where(there, fit + more + np.logaddexp",
            "shares paid back",
        ),
        Wrong(
            INFLATED_RANK,
            "rho = np.where(zero, expit(self.odds + A), 0.0)",
            "rho = np.where(zero, expit(self.odds), 0.0)",
            "prior shares",
        ),
        Wrong(
            "counts/zeros_plan.py",
            "share = rows.v @ rho, rows.v @ there",
            "share = rho.sum(axis=0), there.sum(axis=0)",
            "no weights",
        ),
    )
]

NETWORK = [
    Wrong(
        GRAPH,
        "out = -Omega / np.outer(size, size) + 0.0",
        "out = Omega / np.outer(size, size) + 0.0",
        "partial correlations with the sign of Omega",
    ),
    Wrong(GRAPH, "size = np.sqrt(Omega.diagonal())", "size = Omega.diagonal()", "partial correlations scaled twice"),
    Wrong(
        GRAPH,
        "return bic(fitted) + 4 * gamma * np.count_nonzero(np.triu(Omega, 1))",
        "return bic(fitted) + 4 * gamma * np.count_nonzero(Omega)",
        "EBIC counts both triangles",
    ),
    Wrong(
        SEARCH, "(d * p + p + path.edges) * np.log(N)", "(d * p + path.edges) * np.log(N)", "BIC of a path without the variances"
    ),
    Wrong(SEARCH, "4 * gamma * path.edges * np.log(p)", "2 * gamma * path.edges * np.log(p)", "half of what EBIC adds"),
    Wrong(
        ANSWERS,
        "np.count_nonzero(np.triu(fitted.graph.Omega, 1))",
        "np.count_nonzero(fitted.graph.Omega)",
        "parameters of a network counted twice",
    ),
    Wrong(
        SEARCH,
        "max(s.tol, LOOSE) if p > n else s.tol",
        "max(s.tol, LOOSE) if p < n else s.tol",
        "correlations of few columns that end too soon, and of many that do not end",
    ),
    Wrong(
        "counts/filed.py",
        "np.searchsorted(places, ends)",
        'np.searchsorted(places, ends, side="right")',
        "rows of a subsample from other places of their shards",
        ("counts/test_filed_networks.py::test_a_network_from_files_has_the_bits_of_one_in_memory",),
    ),
    Wrong(
        "counts/separation.py",
        "Seen((shard.v[:, None] * member).T @ shard.Y)",
        "Seen(member.T @ shard.Y)",
        "sums of counts in files without their weights",
        ("counts/test_filed_networks.py::test_what_is_kept_of_a_network_from_files",),
    ),
    Wrong(
        "counts/separation.py",
        "np.hstack([1 - member.sum",
        "np.hstack([1 + member.sum",
        "counts of the first class, in files, that are those of all",
        ("counts/test_filed_discriminants.py::test_a_discriminant_from_files_has_the_bits_of_one_in_memory",),
    ),
    Wrong(SEARCH, "2 * np.mean(f * (1 - f))", "np.mean(f * (1 - f))", "half of the instability of StARS"),
    Wrong(
        SEARCH,
        "None if times is None else times[at][there] / drawn",
        "None if times is None else times[at][there] / c.subsamples",
        "probabilities of subsamples that were not drawn",
    ),
    Wrong(SEARCH, "np.random.default_rng([seed, k])", "np.random.default_rng([seed, 0])", "one subsample, many times"),
    Wrong(
        SEARCH,
        "(path.instability <= c.limit) & (path.edges <= p * (p - 1) / 4)",
        "(path.instability <= c.limit)",
        "a network of all pairs is stable",
    ),
    Wrong(
        SEARCH,
        "Tried(_spread(bits, seen), -found.F + 0.5 * float(rows.v.sum()) * theta.penalty)",
        "Tried(_spread(bits, seen), -found.F)",
        "the bound of a path with its penalty",
    ),
    Wrong(
        SEARCH,
        "value = -last.value.F + 0.5 * float(rows.v.sum()) * sparse.penalty",
        "value = -last.value.F",
        "the bound of the fit with its penalty",
    ),
    Wrong(
        SEARCH,
        "found._replace(Theta=found.Theta / scale, W=found.W * scale,",
        "found._replace(Theta=found.Theta * scale, W=found.W / scale,",
        "the scale of columns the wrong way round",
    ),
    Wrong(
        SEARCH,
        "top = float((np.abs(S[counts]) / L[counts]).max(initial=0.0))",
        "top = float(np.abs(S[counts]).max(initial=0.0))",
        "a path that does not know the weights",
    ),
    Wrong(
        LASSO,
        "float(sizes[there // len(Theta) != there % len(Theta)].sum())",
        "float(sizes.sum() / 2)",
        "the penalty of one triangle",
    ),
    Wrong(LASSO, "V = S + np.clip(W - S, -L, L)", "V = W", "a gap that certifies nothing"),
    Wrong(LASSO, "csr_array(np.abs(S) > L)", "csr_array(np.abs(S) > 2 * L)", "components cut where columns are joined"),
    Wrong(PENALISED, "value += np.log(variance).sum()", "value += 0.0", "the bound of correlations, not of covariances"),
    Wrong(
        PENALISED,
        'own = 1.0 + Omega.diagonal() - np.einsum("jk,jk->j", Omega, correlation(S))',
        "own = Omega.diagonal().copy()",
        "slopes that reward the scale of a column",
    ),
    Wrong(
        "counts/kernels/lasso.py",
        "curve = W[i, j] * W[i, j] + W[i, i] * W[j, j]",
        "curve = W[i, i] * W[j, j]",
        "curvature of a pair without its own",
    ),
    Wrong(
        "counts/kernels/lasso.py",
        "c[q, i], c[q, j] = U[i, top + q], U[j, top + q]",
        "c[r, i], c[r, j] = U[i, i], U[j, i]",
        "slopes that do not know of moves of other rows of the square",
    ),
    Wrong(
        "counts/kernels/lasso.py",
        "1.0 / own + dot(x, v), own",
        "1.0 / own, own",
        "the diagonal of a row without the row",
    ),
    Wrong(
        "counts/kernels/lasso.py",
        "W[k, l] += b * v[l] - a * u[l]",
        "W[k, l] += b * v[l]",
        "an inverse that keeps the row before",
    ),
    Wrong(
        LASSO,
        "near[at] = near[at[::-1]] = np.where(through, -Theta[at], to)",
        "near[at] = near[at[::-1]] = to",
        "leaps through corners",
    ),
    Wrong(GRAPH, "out[a, b] = out[b, a] = graph.probability", "out[a, b] = graph.probability", "probabilities of one triangle"),
    Wrong(
        GRAPH,
        '~(table["probability"] < probability)',
        '~(table["probability"] <= probability)',
        "edges of just that probability lost",
    ),
    Wrong(
        GRAPH,
        'np.argsort(-np.abs(out["partial_correlation"]',
        'np.argsort(-(out["partial_correlation"]',
        "strong negative neighbours last",
    ),
    Wrong(
        "counts/network/plan.py",
        "np.logical_or.accumulate(joined).mean(axis=0)",
        "joined.mean(axis=0)",
        "support that falls where a pair leaves the path again",
    ),
    Wrong("counts/network/plan.py", "times / drawn, (a, b)", "times / c.subsamples, (a, b)", "support of subsamples never drawn"),
    Wrong(LASSO, "0.5 * np.vdot(U, U.T)", "np.vdot(U, U.T)", "leaps misjudged"),
    Wrong(LASSO, "slope[there] += L[there] * sign[there]", "pass", "leaps that do not know of the penalty"),
    Wrong("maths.py", "weights @ seen[1:] /", "weights @ seen[:-1] /", "leaps to where sweeps were"),
]
WRONGS += [w._replace(tests=("counts/test_network_derived.py", "counts/test_lasso.py", "counts/test_network.py")) for w in NETWORK]

INTERVALS, PAIRS, PAIR_LOOPS = "counts/network/intervals.py", "counts/network/pairs.py", "counts/kernels/pairs.py"
CERTAIN = [
    Wrong(PAIR_LOOPS, "((1.0 + r * r) * both - r * squares)", "((1.0 + r * r) * both - 2 * r * squares)", "another score of r"),
    Wrong(
        PAIR_LOOPS,
        "moved -= mixed[l] * psi[j, i, l] + mixed[d + 1 + l] * psi[k, i, l]",
        "moved -= 0.0",
        "margins as if they were known",
    ),
    Wrong(PAIR_LOOPS, "moved = v[i] * found[i, 0]", "moved = found[i, 0]", "influences without weights"),
    Wrong(PAIRS, "- ((at.f * at.s[:, :, 0] ** 2).sum(axis=2) - mean[:, 0] ** 2)", "", "a Hessian of known latents"),
    Wrong(PAIRS, "left = Y[:, :, None] - np.exp(z)", "left = Y[:, :, None] - np.exp(z) / 2", "scores of half the rate"),
    Wrong(INTERVALS, "rho = -Theta[0, 1] / scale", "rho = Theta[0, 1] / scale", "partial correlations with the sign of Theta"),
    Wrong(
        INTERVALS,
        " + 0.5 * rho * (np.outer(t, t) / own[0] + np.outer(s, s) / own[1])",
        "",
        "errors as if the diagonal were known",
    ),
    Wrong(INTERVALS, "* n / (free - len(A)))", "* 1.0)", "neighbours that cost nothing"),
    Wrong(INTERVALS, "/ (1 - rho * rho)\n", "\n", "errors of rho in place of those of artanh rho"),
    Wrong(INTERVALS, "partial(other, order[a], order[b])", "partial(other, a, b)", "columns of the other network by place"),
    Wrong(INTERVALS, "np.hypot(r - low, most - s)", "np.hypot(r - low, s - least)", "limits of a difference the wrong way round"),
    Wrong(INTERVALS, "/ np.hypot(e, f))", "/ (e + f))", "errors of two networks added up"),
]
WRONGS += [w._replace(tests=("counts/test_intervals.py",)) for w in CERTAIN]
WRONGS += [w._replace(tests=("counts/test_alignment.py",)) for w in MATCHED] + GROUPED
WRONGS += [
    Wrong(
        "counts/evidence.py",
        "edges = w.cumsum(axis=1)",
        "edges = (0 * w + 1).cumsum(axis=1)",
        "draws picked whatever they weigh",
        DRAWS,
    ),
    Wrong("counts/bridges.py", "else model.turned(V)", "else V", "drawn scores on the axes of the solver", DRAWS),
]
