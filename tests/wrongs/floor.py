"""Wrongs in what all families stand on: engine, mathematics, evaluation, files, pages."""

from wrongs import Wrong

CHAINS, CLASSIFICATION, SCORE = (f"evaluation/{name}.py" for name in ("chains", "classification", "score"))
ENGINE, MATHS, LBFGS, DISK, JUDGED, HOLDOUT, COMMON = (
    "engine.py",
    "maths.py",
    "lbfgs.py",
    "disk.py",
    "html/judged.py",
    "cli/holdout.py",
    "html/common.py",
)

WRONGS = [
    Wrong(
        ENGINE,
        "return model.sweep(shard, latents, params, stream(seed, stage, t, i + 1))",
        "return model.sweep(shard, latents, params, stream(seed, stage, t, 1))",
        "all shards on one random stream",
    ),
    Wrong(
        ENGINE,
        "return None, model.settle(shard, params, stream(seed, stage, 0, i + 1))",
        "return None, model.settle(shard, params, stream(seed, stage, 0, 1))",
        "latents of all shards begin on one stream",
    ),
    Wrong(
        ENGINE,
        "np.random.SeedSequence([seed, stage, iteration, place])",
        "np.random.SeedSequence([seed, stage, 0, place])",
        "every sweep has the same random numbers",
    ),
    Wrong(
        ENGINE,
        "np.random.SeedSequence([seed, stage, iteration, place])",
        "np.random.SeedSequence([seed, 0, iteration, place])",
        "chains with the same random numbers",
    ),
    Wrong(ENGINE, "t = len(state.objective) + 1", "t = len(state.objective)", "the first sweep on the stream of the start"),
    Wrong(
        ENGINE,
        "abs(new - old) <= tol * max(abs(new), 1e-300)",
        "new - old <= tol * max(abs(new), 1e-300)",
        "settled after a fall",
        ("evaluation/test_derived.py::test_a_fall_is_not_settled",),
    ),
    Wrong(
        ENGINE,
        "return bool(late.mean() - early.mean() <= z * math.sqrt(spread / n))",
        "return bool(late.mean() - early.mean() <= z * math.sqrt(spread))",
        "plateau by the error of a batch",
    ),
    Wrong(
        ENGINE,
        "objective = float(model.objective(total, state.params, params))",
        "objective = float(model.objective(total, params, params))",
        "the objective of other params than those of the sweep",
    ),
    Wrong(ENGINE, "len(state.objective) >= stage.most else", "len(state.objective) > stage.most else", "one sweep too many"),
    Wrong(
        DISK,
        "part.replace(path)",
        "shutil.copyfile(part, path)",
        "atomic by copy",
        ("evaluation/test_derived.py::test_a_file_is_moved_to_its_place",),
    ),
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
    Wrong(MATHS, "stretch = 2 * np.log(scale[used]).sum()", "stretch = np.log(scale[used]).sum()", "determinants in wrong units"),
    Wrong(
        MATHS,
        "covariance[m[:, None], m] - slope @ covariance[o[:, None], m]",
        "covariance[m[:, None], m]",
        "conditional variance without what is known",
    ),
    Wrong(
        MATHS,
        "(np.sum(quartic / both**2) / n - np.sum(R**2)) / (d * n)",
        "(np.sum(quartic / both**2) / n - np.sum(R**2)) / d",
        "Ledoit-Wolf shrinks n times too much",
    ),
    Wrong(
        MATHS,
        "delta = (np.sum(R**2) - d * mu**2) / d",
        "delta = np.sum(R**2) / d",
        "Ledoit-Wolf: distance from zero, not from the target",
    ),
    Wrong(
        MATHS,
        "constant = -0.5 * (rank * LOG_2PI + log_det)",
        "constant = -0.5 * (len(W[0]) * LOG_2PI + log_det)",
        "density of directions without variance",
    ),
    Wrong(
        COMMON,
        "half = z * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))",
        "half = z * np.sqrt(p * (1 - p) / n)",
        "Wilson's interval without its last term",
    ),
    Wrong(LBFGS, "gamma = np.clip(gamma, *bounds)", "gamma = np.ones_like(gamma)", "directions without the scale of the curvature"),
    Wrong(LBFGS, "shift[k] = alpha[k] - beta", "shift[k] = alpha[k]", "half of the two loops"),
]
