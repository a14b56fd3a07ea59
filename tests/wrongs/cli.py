"""Wrongs in what the command line makes of rows: held out, in folds, compared."""

from wrongs import Wrong

HOLDOUT, TABLES, MAIN = (f"cli/{name}.py" for name in ("holdout", "tables", "main"))

WRONGS = [
    Wrong(
        HOLDOUT,
        "np.std(values, ddof=1) / np.sqrt(len(values))",
        "np.std(values, ddof=1)",
        "spread of folds for the error of their mean",
    ),
    Wrong(
        HOLDOUT,
        "rows = splitter(options, family, model)(1, False)",
        "rows = splitter(options, family, model)(1, True)",
        "fitted to the rows that should judge",
    ),
    Wrong(HOLDOUT, "max(1, round(share * n))", "round(share * n) + 1", "one row of a series too many held out"),
    Wrong(HOLDOUT, ">= n - max(1", "< max(1", "the first rows of a series held out, not the last"),
    Wrong(HOLDOUT, "np.floor(np.arange(n + 1) * share + 0.5)", "np.floor(np.arange(n + 1) * share)", "a share rounded down"),
    Wrong(HOLDOUT, 'np.arange(n) % options["folds"]', 'np.arange(n) * options["folds"] // n', "classes not spread over folds"),
    Wrong(HOLDOUT, 'default_rng([options["seed"], n])', "default_rng([0, n])", "the same rows held out by every seed"),
    Wrong(
        HOLDOUT,
        'scores, _ = family.score(model, {**options, "rows": split(1, True)}, path, seed)',
        'scores, _ = family.score(model, {**options, "rows": split(1, False)}, path, seed)',
        "judged by the rows of the fit",
    ),
    Wrong(
        HOLDOUT,
        'family.fit(again(), {**options, "rows": split(k, False)}, progress=False, callback=',
        'family.fit(again(), {**options, "rows": None}, progress=False, callback=',
        "folds fitted to all rows",
    ),
    Wrong(
        HOLDOUT,
        'family.score(fold, {**options, "rows": split(k, True)}, path, seed)',
        'family.score(fold, {**options, "rows": None}, path, seed)',
        "folds judged by all rows",
    ),
    Wrong(HOLDOUT, '"mean": float(np.mean(values))', '"mean": float(np.median(values))', "the median of folds for their mean"),
    Wrong(
        HOLDOUT,
        'isinstance(value, float | int) and not isinstance(value, bool) and "stderr" not in name',
        "isinstance(value, float | int) and not isinstance(value, bool)",
        "errors averaged over folds as if they were scores",
    ),
    Wrong(
        TABLES,
        "X, y, weight = (rows_of(part, options) for part in (X, y, weight))",
        "X, y, weight = (rows_of(X, options), y := rows_of(y, options), weight if weight is None else weight[: len(y)])",
        "weights of other rows than those that are fitted",
    ),
    Wrong(
        TABLES, "found = model._evaluate(X, y)\n", "found = model._evaluate(X)\n", "the likelihood of rows without their classes"
    ),
    Wrong(
        MAIN, "difference(made[name], made[order[0]])", "difference(made[order[0]], made[name])", "differences with the wrong sign"
    ),
    Wrong(MAIN, "order = ranked(made)", "order = list(made)", "runs in the order given"),
    Wrong(
        MAIN,
        "found = list(found.values())[-1]",
        "found = list(found.values())[0]",
        "the first of several kinds of scores",
    ),
    Wrong(
        MAIN,
        "holdout.splitter(options, family, model)(1, True)",
        "holdout.splitter(options, family, model)(1, False)",
        "a page about rows held out shows those of the fit",
    ),
]
