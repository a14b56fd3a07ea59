"""Wrongs in the numbers of pages."""

from wrongs import Wrong

JUDGED, COMMON, ORDER, PAGE, CARD = (f"html/{name}.py" for name in ("judged", "common", "order", "page", "card"))

WRONGS = [
    Wrong(
        JUDGED,
        "np.minimum((stated * BINS).astype(int), BINS - 1)",
        "np.minimum((stated * BINS).astype(int) + 1, BINS - 1)",
        "calibration shifted by a bin",
    ),
    Wrong(
        JUDGED,
        "np.eye(len(self.classes))[self.true]).sum(axis=1)",
        "np.eye(len(self.classes))[self.true]).mean(axis=1)",
        "Brier on pages by classes",
    ),
    Wrong(
        JUDGED,
        "float(self.stated.max(axis=1).sum() / max(len(self.known), 1))",
        "float(self.stated.mean(axis=1).sum() / max(len(self.known), 1))",
        "stated confidence of all classes",
    ),
    Wrong(
        JUDGED, "rare = float(np.quantile(own, 0.01))", "rare = float(np.quantile(own, 0.05))", "strange beyond 95, not 99 in 100"
    ),
    Wrong(JUDGED, "float(n @ np.abs(share - x) / n.sum())", "float(np.abs(share - x).mean())", "mean gap of groups, not of rows"),
    Wrong(
        COMMON,
        "half = z * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))",
        "half = z * np.sqrt(p * (1 - p) / n)",
        "Wilson's interval without its last term",
    ),
    Wrong(
        JUDGED, "float(np.mean(self.true == guess))", "float(np.mean(self.called == guess))", "the guess judged by what was called"
    ),
    Wrong(
        JUDGED,
        "percent(counts[a, b] / size[a])",
        "percent(counts[a, b] / counts[a].sum())",
        "mistakes as shares of mistakes",
    ),
    Wrong(
        JUDGED, "rate = counts / np.maximum(total, 1)[:, None]", "rate = counts / np.maximum(total, 1)", "rates of the class called"
    ),
    Wrong(
        JUDGED,
        "wrong = counts.sum(axis=0) + total - 2 * np.diag(counts)",
        "wrong = counts.sum(axis=0) + total - np.diag(counts)",
        "classes with most rows shown, not those with most errors",
    ),
    Wrong(
        JUDGED, "np.histogram(these, edges)[0] / len(these)", "np.histogram(these, edges)[0] / len(values)", "shares of other rows"
    ),
    Wrong(
        JUDGED, 'self.stated.max(axis=1), side="left")', 'self.stated.max(axis=1), side="right")', "99% counts as surer than 99%"
    ),
    Wrong(JUDGED, "-float(entr(shares).sum())", "float(np.log(shares.max()))", "without looking: the log of the largest share"),
    Wrong(
        JUDGED, "values.std(ddof=1) / np.sqrt(len(values)):.3f", "values.std(ddof=1):.3f", "the deviation for the error of a mean"
    ),
    Wrong(
        JUDGED, "gap > 0.03 and self.confidence > high", "gap > 0.03 and self.confidence > low", "called too sure within its error"
    ),
    Wrong(
        JUDGED,
        "float(np.mean(self.true == np.argmax(prior)))",
        "float(np.max(prior))",
        "without looking: what was stated, not what is",
    ),
    Wrong(COMMON, "centre = (p + z**2 / (2 * n)) / (1 + z**2 / n)", "centre = p", "Wilson's interval about the share"),
    Wrong(ORDER, "B = -0.5 * distance**2", "B = -0.5 * distance", "distances for their squares"),
    Wrong(ORDER, "np.sqrt(np.maximum(values[best], 0.0))", "np.maximum(values[best], 0.0)", "axes stretched by their variance"),
    Wrong(ORDER, "D = 1 - np.nan_to_num(R)", "D = 1 - np.abs(np.nan_to_num(R))", "opposites put beside each other"),
]
