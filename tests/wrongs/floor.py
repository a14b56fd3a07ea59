"""Wrongs in what all families stand on: engine, mathematics, files."""

from wrongs import Wrong

ENGINE, MATHS, LBFGS, DISK = "engine.py", "maths.py", "lbfgs.py", "disk.py"

WRONGS = [
    Wrong(
        ENGINE,
        "return model.sweep(shard, latents, params, stream(seed, stage, t, i + 1) if",
        "return model.sweep(shard, latents, params, stream(seed, stage, t, 1) if",
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
        "rules.py",
        "abs(new - old) <= tol * max(abs(new), 1e-300)",
        "new - old <= tol * max(abs(new), 1e-300)",
        "settled after a fall",
        ("evaluation/test_derived.py::test_a_fall_is_not_settled",),
    ),
    Wrong(
        "rules.py",
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
    Wrong(LBFGS, "gamma = np.clip(gamma, *bounds)", "gamma = np.ones_like(gamma)", "directions without the scale of the curvature"),
    Wrong(LBFGS, "shift[k] = alpha[k] - beta", "shift[k] = alpha[k]", "half of the two loops"),
    Wrong("sums.py", "add([before, part]) if n else part", "part", "of eight tallies the last alone"),
    Wrong(
        "sums.py",
        "rest = [add([part, *rest]) if rest else part] if n else rest",
        "rest = [part] if n else rest",
        "the largest groups alone",
    ),
    Wrong(
        "backends.py",
        "if i > begun and stop is not None and stop():",
        "if stop is not None and stop():",
        "a shard left out before one that was begun",
        ("test_aside.py::test_no_shard_is_left_out_before_one_that_was_begun",),
    ),
    Wrong(
        "sums.py",
        "self.levels: list[tuple[int, Any]] = [*known]",
        "self.levels: list[tuple[int, Any]] = []",
        "what the first shards gave is lost where a sweep is cut",
        ("test_aside.py::test_half_of_a_sweep_that_is_not_of_these_data_is_refused",),
    ),
    Wrong(
        "counts/full.py",
        "return params._replace(phase=TRIAL) if params.phase == GRADIENT else params",
        "return params",
        "rows of a sweep that was cut are those of a step before",
        ("test_contract.py::test_a_sweep_left_between_two_shards_goes_on_with_the_same_bits",),
    ),
    Wrong(
        "counts/rank.py",
        "return params._replace(accepted=False, starts=params.starts._replace(keep=False))",
        "return params",
        "scores of a sweep that was cut are those of a step before",
        ("test_contract.py::test_a_sweep_left_between_two_shards_goes_on_with_the_same_bits",),
    ),
    Wrong(
        "topics/model.py",
        "return params._replace(kept=params.kept + self._keeps(params.t + 1))",
        "return params",
        "documents with one sample more are shared out by as many as the others",
        ("test_aside.py::test_lda_in_several_shards_is_cut_between_two_of_them",),
    ),
]
