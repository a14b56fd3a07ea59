"""Wrongs in scores and their errors."""

from wrongs import Wrong

CHAINS, CLASSIFICATION, SCORE, RANKING = (f"evaluation/{name}.py" for name in ("chains", "classification", "score", "ranking"))

WRONGS = [
    Wrong(
        SCORE,
        "values.std(ddof=1) / np.sqrt(len(values))",
        "values.std(ddof=1)",
        "the deviation of rows for the error of their mean",
        ("evaluation/test_derived.py::test_error_of_a_mean",),
    ),
    Wrong(
        SCORE,
        "np.sum((apart - mean * sizes) ** 2) * n / (n - 1)) / total",
        "np.sum((apart - mean * sizes) ** 2) * n / (n - 1)) / n",
        "paired error of rows where units are tokens",
    ),
    Wrong(SCORE, "np.sum((apart - mean * sizes) ** 2)", "np.sum(apart**2)", "paired error about zero"),
    Wrong(
        SCORE,
        "key=lambda name: -np.nan_to_num(found[name].value, nan=-np.inf)",
        "key=lambda name: np.nan_to_num(found[name].value, nan=-np.inf)",
        "the worst model first",
    ),
    Wrong(
        SCORE, "difference(found[name], found[order[0]])", "difference(found[name], found[order[-1]])", "differences to the worst"
    ),
    Wrong(
        CHAINS,
        "np.sqrt((n - 1) / n + between / within)",
        "np.sqrt((n - 1) / n + between / within / n)",
        "R-hat with the variance of means divided once more",
    ),
    Wrong(
        CHAINS,
        "halves = np.array([part for c in chains for part in (c[-2 * n : -n], c[-n:])], dtype=float)",
        "halves = np.array([c[-n:] for c in chains for _ in range(2)], dtype=float)",
        "R-hat that cannot see a drift",
    ),
    Wrong(
        CHAINS,
        "rho = 1 - (within - covariance) / total",
        "rho = covariance / covariance[0]",
        "effective size blind to chains that are apart",
    ),
    Wrong(CHAINS, "max(2 * pairs.sum() - 1,", "max(pairs.sum(),", "effective size doubled"),
    Wrong(CHAINS, "linear_sum_assignment(-likeness)", "linear_sum_assignment(likeness)", "topics matched to those least alike"),
    Wrong(
        CHAINS,
        "a, b = (p / np.linalg.norm(p, axis=1, keepdims=True) for p in (reference, other))",
        "a, b = reference, other",
        "likeness that is no cosine",
    ),
    Wrong(CLASSIFICATION, ".sum(axis=1).mean()),  # of many", ".mean()),  # of many", "Brier divided by the number of classes"),
    Wrong(CLASSIFICATION, "-log_p[np.arange(n), codes].mean()", "-log_p.max(axis=1).mean()", "log loss of the class called"),
    Wrong(
        CLASSIFICATION,
        "confusion_matrix(codes, found, labels=np.arange(K))",
        "confusion_matrix(found, codes, labels=np.arange(K))",
        "confusion the wrong way round",
    ),
    Wrong(SCORE, "np.array_equal(sizes, best.sizes)", "True", "rows of unlike sizes taken for pairs"),
    Wrong(
        SCORE,
        "apart = np.where(rows == best.rows, 0.0, rows - best.rows)",
        "apart = np.where(rows == best.rows, 0.0, best.rows - rows)",
        "differences with the wrong sign",
    ),
    Wrong(SCORE, "** 2) * n / (n - 1)) / total", "** 2)) / total", "paired error as if the mean were known"),
    Wrong(CHAINS, "within = covariance[0] * n / (n - 1)", "within = covariance[0]", "variance within chains biased"),
    Wrong(
        CHAINS, "between = halves.mean(axis=1).var(ddof=1)", "between = halves.mean(axis=1).var()", "variance between halves biased"
    ),
    Wrong(
        RANKING,
        "any(g in right for g in row[:k])",
        "any(g in right for g in row[: k - 1])",
        "hit@10 off by one",
        ("evaluation/test_derived.py::test_hits_are_among_the_first_ten",),
    ),
    Wrong(RANKING, "enumerate(row, 1)", "enumerate(row, 2)", "places counted from 2 on"),
    Wrong(
        RANKING,
        "np.mean([np.mean(found) for found in hits.values()])",
        "np.mean(sum(hits.values(), []))",
        "recall of questions, not of answers",
    ),
]
