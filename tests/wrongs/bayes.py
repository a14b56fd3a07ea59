"""Wrongs in GDA and NaiveBayes."""

from wrongs import Wrong

ANSWERS, CORRELATED, FAMILIES, MARGINALS, MODEL, REASONS, SCATTER, CLASSIFIER = (
    f"bayes/{name}.py" for name in ("answers", "correlated", "families", "marginals", "model", "reasons", "scatter", "classifier")
)
COLUMNS = "bayes/kernels/columns.py"
EXPORTED = ("test_export.py",)
CELLS, OF_CELLS = "bayes/cells.py", ("bayes/test_cells.py",)

WRONGS = [
    Wrong(
        "bayes/door.py",
        "np.array(np.inf, values.dtype).view(bits):",
        "np.array(np.nan, values.dtype).view(bits):",
        "infinite counts of words let in",
    ),
    Wrong(CELLS, "part, first, first + b - a, y[cut]", "part, first, first + b - a, y[: b - a]", "labels of other cells", OF_CELLS),
    Wrong(
        CELLS,
        "order = Index(names).get_indexer(Index(known.names))",
        "order = np.arange(known.n)",
        "columns of new cells in their own order",
        OF_CELLS,
    ),
    Wrong(
        CELLS,
        "laid_out(X).min(axis=0, keepdims=True) for X in pieces(rows, n, d)]",
        "laid_out(X).min(axis=0, keepdims=True) for X in [first]]",
        "families of whole numbers by the first cell",
        OF_CELLS,
    ),
    Wrong(
        FAMILIES,
        "return smoothing * float(np.sum(xlogy(mean, self.rate) - self.rate))",
        "return 0.0",
        "Poisson: no log prior in what EM climbs",
    ),
    Wrong(
        FAMILIES,
        "return place.put(self.counts), self.base",
        "return place.put(self.counts), 0.0",
        "multinomial: base lost in a merge",
    ),
    Wrong(
        FAMILIES,
        "return place.put(self.n), place.put(self.s), self.base",
        "return place.put(self.n), place.put(self.s), 0.0",
        "Poisson: base lost in a merge",
    ),
    Wrong(FAMILIES, "np.divide(s + smoothing * mean, total,", "np.divide(s + smoothing, total,", "Poisson smoothed towards one"),
    Wrong(
        FAMILIES,
        "total = np.where(states[:, None] > 0, sums, 0.0) + smoothing * states[:, None]",
        "total = np.where(states[:, None] > 0, sums, 0.0) + smoothing",
        "smoothing of one state in the total",
    ),
    Wrong(
        FAMILIES,
        "np.log(smoothing) - np.log(total) if smoothing > 0",
        "np.zeros_like(total) if smoothing > 0",
        "an unseen state says nothing",
    ),
    Wrong(FAMILIES, "place.put(self.ss) + n * gap**2", "place.put(self.ss)", "centre dropped in a merge"),
    Wrong(
        FAMILIES,
        "ss = centre + shift, np.maximum(squares - n * shift**2, 0.0)",
        "ss = centre + shift, np.maximum(squares, 0.0)",
        "squares about the survey's mean",
    ),
    Wrong(
        FAMILIES,
        "overall = (ss + n * (mean - middle) ** 2).sum(axis=0) / total",
        "overall = ss.sum(axis=0) / total",
        "variance over all classes without that between them",
    ),
    Wrong(
        FAMILIES,
        "self.n * np.log(2 * np.pi * self.variance) + self.ss / self.variance",
        "self.n * np.log(2 * np.pi * self.variance) + self.n",
        "log likelihood as if the variance were not raised",
    ),
    Wrong(
        FAMILIES,
        "float(np.sum(xlogy(self.s, self.rate) - self.n * self.rate) - self.base)",
        "float(np.sum(xlogy(self.s, self.rate) - self.n * self.rate))",
        "Poisson: no factorials in the log likelihood",
    ),
    Wrong(
        FAMILIES,
        "(np.log(self.variance[k]) + (X - self.mean[k]) ** 2 / self.variance[k])",
        "((X - self.mean[k]) ** 2 / self.variance[k])",
        "reasons without the width of a class",
    ),
    Wrong(
        FAMILIES,
        "rng.normal(self.mean[codes], np.sqrt(self.variance[codes]))",
        "rng.normal(self.mean[codes], self.variance[codes])",
        "samples with variance for deviation",
    ),
    Wrong(
        MODEL,
        "log_prior = log0(n / n.sum() if self.priors is None",
        "log_prior = log0((n + 1) / (n + 1).sum() if self.priors is None",
        "smoothed priors",
    ),
    Wrong(
        MODEL,
        "r *= (shard.weight * hidden)[:, None]",
        "r *= (1.0 * hidden)[:, None]",
        "rows without a label count without their weight",
    ),
    Wrong(
        MODEL,
        "np.where(shard.y < 0, total, J[np.arange(len(J)), shard.y])",
        "np.where(shard.y < 0, J.max(axis=1), J[np.arange(len(J)), shard.y])",
        "evidence of the best class alone",
    ),
    Wrong(
        CORRELATED,
        "ridge = FLOOR * np.diag(np.diag(pooled) + between)",
        "ridge = 0.1 * np.diag(np.diag(pooled) + between)",
        "a ridge that shows",
    ),
    Wrong(
        CORRELATED,
        "np.tensordot(n / n.sum(), np.array(own), axes=1)[None]",
        "np.array(own).mean(axis=0)[None]",
        "pooled without the weights of classes",
    ),
    Wrong(
        CORRELATED,
        "trace = np.trace(covariance, axis1=1, axis2=2)[:, None, None] / d",
        "trace = np.trace(covariance, axis1=1, axis2=2)[:, None, None]",
        "shrinkage towards d times the mean variance",
    ),
    Wrong(
        CORRELATED,
        "t * (P_e + Q_e - (t @ V @ V.T - t @ W @ W.T) / 2)",
        "t * (P_e + Q_e - (t @ V @ V.T - t @ W @ W.T))",
        "reasons: a half too much",
    ),
    Wrong(
        SCATTER,
        "left[g][np.ix_(gaps, gaps)] += weight[i].sum() * spread",
        "left[g][np.ix_(gaps, gaps)] += len(i) * spread",
        "gaps: what is left open without weights",
    ),
    Wrong(SCATTER, "return found._replace(S=found.S + left)", "return found", "gaps: variances too small"),
    Wrong(SCATTER, "4 * both * S", "2 * both * S", "fourth moments moved wrongly"),
    Wrong(
        SCATTER,
        "cross = s.T @ delta\n        return Scatter(moved, S + cross + cross.T + (delta * n[:, None]).T @ delta, None, None)",
        "cross = s.T @ delta\n        return Scatter(moved, S + cross + cross.T, None, None)",
        "squares of the shift lost",
    ),
    Wrong(
        MARGINALS,
        "return np.maximum(told, 0.0) / LOG_2",
        "return np.maximum(told, 0.0)",
        "nats told as bits",
        ("bayes/test_derived.py::test_bits_are_of_unequal_classes",),
    ),
    Wrong(
        MARGINALS,
        "return float(entr(prior).sum()) / LOG_2",
        "return float(np.log(np.sum(prior > 0))) / LOG_2",
        "bits of equal classes",
    ),
    Wrong(
        MARGINALS,
        "rel_entr(p, np.tensordot(p, prior, axes=(1, 0))[:, None])",
        "rel_entr(p, p.mean(axis=1)[:, None])",
        "information against the mean of classes without their priors",
    ),
    Wrong(
        MARGINALS,
        "top = column.centre.max() + 10 * np.sqrt(column.centre.max()) + 10",
        "top = column.centre.max() + 1",
        "Poisson columns cut at their mean",
    ),
    Wrong(REASONS, "params.log_prior[a] - params.log_prior[b])]", "params.log_prior[a])]", "the prior of the runner-up left out"),
    Wrong(
        REASONS,
        "rest = np.where(np.arange(J.shape[1]) == called[:, None], -np.inf, J)",
        "rest = np.where(np.arange(J.shape[1]) == called[:, None], 0.0, J)",
        "the class called is its own runner-up",
    ),
    Wrong(
        COLUMNS,
        "counts[k, np.uint64(indices[p])] += w * x",
        "counts[k, np.uint64(indices[p])] += x",
        "weights left out of the words",
    ),
    Wrong(COLUMNS, "base += w * (math", "base += (math", "weights left out of the coefficients"),
    Wrong(COLUMNS, "total += weight[i] * (table[int(x)]", "total += (table[int(x)]", "weights left out of the factorials"),
    Wrong(
        COLUMNS, "out[i, k] += log_unseen[j, k]", "out[i, k] += 0.0 * log_unseen[j, k]", "an unseen state taken for a missing one"
    ),
    Wrong(
        "bayes/export.py",
        "numbers(law.log_unseen[at])",
        "numbers(0 * law.log_unseen[at])",
        "exported: an unseen state says nothing",
        EXPORTED,
    ),
    Wrong("bayes/export.py", "W[:, :, :rank].transpose(0, 2, 1)", "W[:, :rank]", "exported: roots of covariances turned", EXPORTED),
    Wrong(
        "bayes/export.py",
        "weights / weights.sum()",
        "weights * 0 + 1 / len(weights)",
        "exported: classes alike in the pooled covariance",
        EXPORTED,
    ),
]
