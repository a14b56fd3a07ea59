"""Wrongs in FEM and FEMNetwork."""

from wrongs import Wrong

ANSWERS, CHOOSE, DOOR, DUAL, FEM, MODEL, SCORES, SCREEN, TERMS = (
    f"categories/{name}.py" for name in ("answers", "choose", "door", "dual", "fem", "model", "scores", "screen", "terms")
)
ROWS = "categories/row_products.py"
BY_PAIR, CLIMB, NETWORK, PANELS = (f"categories/network/{name}.py" for name in ("by_pair", "climb", "estimator", "panels"))

WRONGS = [
    Wrong(
        "categories/kernels/fem.py",
        "i = min(first, A.shape[0] - 4)",
        "i = max(0, min(first, A.shape[0] - 5))",
        "the last row left out of a product",
        ("categories/test_row_products.py",),
    ),
    Wrong(
        ROWS,
        "for k in layout.degrees if k >= len(group)])",
        "for k in layout.degrees if k == len(group) or not group])",
        "lower effects without their share of higher products",
        ("categories/test_row_products.py",),
    ),
    Wrong(
        ROWS,
        "np.float32 if least <= ridge else np.float64",
        "np.float32",
        "weak ridges in single precision",
        ("categories/test_row_products.py",),
    ),
    Wrong(
        ROWS,
        "codes.min(initial=0) >= 0 and factors(len(codes), layout)",
        "factors(len(codes), layout)",
        "a gap taken for the last state",
        ("categories/test_row_products.py",),
    ),
    Wrong(
        CHOOSE,
        "np.pad(pulls / ridge, ",
        "np.pad(pulls, ",
        "a degree starts at pulls in the place of weights",
        ("categories/test_derived.py::test_a_degree_starts_where_the_one_below_pulls_its_rows",),
    ),
    Wrong(
        "categories/kernels/fem.py",
        "or product[o] < 1e-150:",
        "or False:",
        "sums of low scores multiplied until nothing is left",
        ("categories/test_kernels.py",),
    ),
    Wrong(
        NETWORK,
        "seen, unseen = rows.part(~out), rows.part(out)",
        "seen, unseen = rows.part(out), rows.part(~out)",
        "the ridge is judged by what it was fitted to hold out",
    ),
    Wrong(NETWORK, "out = block % 5 == 4", "out = block % 5 != 4", "four fifths held out"),
    Wrong(
        NETWORK,
        "rows = _steps(codes, weight * times, self.lag)",
        "rows = _steps(codes, times.astype(float), self.lag)",
        "errors of a network without weights",
    ),
    Wrong(NETWORK, "weight[1:]) if lag else", "weight[:-1]) if lag else", "weights of the rows before"),
    Wrong(
        NETWORK,
        "return pairs.copy() if lag else (pairs + pairs.T) / 2",
        "return pairs.copy() if lag else pairs",
        "couplings of one direction",
    ),
    Wrong(
        NETWORK,
        "V = V / (np.repeat(terms.degree(), np.diff(terms.offset)) + 1)[:, None]",
        "V = V / np.repeat(terms.degree(), np.diff(terms.offset))[:, None]",
        "energy: a pair counted twice",
    ),
    Wrong(
        NETWORK,
        "frequencies=[n / (n.sum() or np.nan) for n in count]",
        "frequencies=[np.full(len(n), 1 / len(n)) for n in count]",
        "flat frequencies",
    ),
    Wrong(
        "categories/network/page.py",
        "return np.where(model._read(X)[:, -log_p.shape[1] :] >= 0, log_p, np.nan)",
        "return log_p",
        "a cell without a state is told for certain",
        ("categories/test_page.py",),
    ),
    Wrong(
        "categories/words.py",
        "if (type(state), state) in same and categories.edges[j] is None:",
        "if False:",
        "an effect of 1 for that of its text",
        ("categories/test_door.py",),
    ),
    Wrong(
        NETWORK,
        "weight = weight * (yield from sequence_weights(codes, self.reweight))",
        "weight = yield from sequence_weights(codes, self.reweight)",
        "weights dropped where rows are reweighted",
    ),
    Wrong(FEM, "[weight * times for times in redrawn(", "[times.astype(float) for times in redrawn(", "errors without weights"),
    Wrong(
        FEM,
        "np.std(V, axis=0, ddof=1)",
        "np.std(V, axis=0, ddof=1) / np.sqrt(n_boot)",
        "error of the bootstrap's mean",
    ),
    Wrong(FEM, "(u >= P).sum(axis=1)", "(u > 1 - P).sum(axis=1)", "classes drawn the wrong way round"),
    Wrong(FEM, "H[:, 1] - H[:, 0] if H.shape[1] == 2", "H[:, 0] - H[:, 1] if H.shape[1] == 2", "log odds of the first class"),
    Wrong(
        FEM,
        "seen = rows_of(rows.codes, np.tile(rows.Y, len(model.outputs)) - held, M)",
        "seen = rows_of(rows.codes, np.tile(rows.Y, len(model.outputs)), M)",
        "folds are fitted to the rows they are judged by",
    ),
    Wrong(
        FEM,
        "share = 1.0 / fitted.categories.sizes if state else",
        "share = 0.0 / fitted.categories.sizes if state else",
        "kernel: an unknown state agrees with nobody",
    ),
    Wrong(CHOOSE, "if K >= 3 and best < K:", "if K >= 2 and best < K:", "three-way parity is given up at degree 2"),
    Wrong(
        CHOOSE,
        "(found[best].loss - found[K].losses[found[K].strongest]) * tried.unseen > EVIDENCE",
        "(found[best].loss - found[K].losses[found[K].strongest]) > EVIDENCE",
        "evidence of one row for that of all",
    ),
    Wrong(
        CHOOSE,
        "return max(ridge for ridge, loss in losses.items() if loss <= min(losses.values()) + least)",
        "return min(ridge for ridge, loss in losses.items() if loss <= min(losses.values()) + least)",
        "the weakest of equal ridges",
        ("categories/test_derived.py::test_of_equal_losses_the_strongest_ridge_is_best",),
    ),
    Wrong(
        CHOOSE,
        "path.losses[ridge] = -float(kept.value.told.sum()) / ground.unseen",
        "path.losses[ridge] = -float(kept.value.told.mean())",
        "a loss of distinct rows, not of their weight",
    ),
    Wrong(
        CHOOSE,
        "folds[order] = np.arange(len(y)) % k",
        "folds[order] = np.arange(len(y)) * k // len(y)",
        "classes are not spread over the folds",
    ),
    Wrong(
        BY_PAIR,
        "return (1 + free) / (1 / (STRICTER * ridge) + sizes)",
        "return free / (1 / (STRICTER * ridge) + sizes)",
        "a degree of freedom lost in the ridge by pair",
    ),
    Wrong(CHOOSE, "return (size + size.T) / 2 if mutual else size", "return size", "sizes of one direction"),
    Wrong(
        "categories/network/alike.py",
        "int(np.ceil(identity * n - 1e-9))",
        "int(np.floor(identity * n - 1e-9))",
        "rows that agree in fewer variables count as alike",
    ),
    Wrong(
        SCORES,
        "parts = n if directed else n - 1",
        "parts = n",
        "the diagonal counted among the pairs",
        ("categories/test_derived.py::test_background_of_pairs_by_hand",),
    ),
    Wrong(SCORES, "mean = S.sum() / (n * parts)", "mean = S.sum() / (n * n)", "background of all cells"),
    Wrong(SCORES, "int(np.argmax(np.abs(block)))", "int(np.argmax(block))", "negative couplings overlooked"),
    Wrong(SCREEN, "chi *= (M - 1) / M if M > 2 else 1.0", "chi *= 1.0", "residuals of all classes taken for free"),
    Wrong(
        SCREEN,
        "scores[a:b, c:d] = (table - free) / np.sqrt(2.0 * free)",
        "scores[a:b, c:d] = (table - free) / np.sqrt(free)",
        "scores without the two of a chi-square",
    ),
    Wrong(
        SCREEN, "np.outer(m[a:b] - 1, m[c:d] - 1) * (M - 1)", "np.outer(m[a:b] - 1, m[c:d] - 1)", "degrees of freedom of one class"
    ),
    Wrong(
        ANSWERS,
        "-np.where(now >= 0, chosen, 0.0).sum(axis=1, keepdims=True)",
        "-chosen.sum(axis=1, keepdims=True)",
        "missing cells have the energy of the first state",
    ),
    Wrong(
        ANSWERS,
        "((rows[:, group] == states) - 1.0 / sizes[list(group)])",
        "((rows[:, group] == states) - 0.0 / sizes[list(group)])",
        "effects of the kernel in no gauge",
    ),
    Wrong(
        ANSWERS,
        "scale = sum((e[K - k] for K in degrees if k <= K)",
        "scale = sum((e[K - k] for K in degrees if k < K)",
        "effects of the kernel without the highest degree",
    ),
    Wrong(
        TERMS,
        "W = W - np.repeat(np.add.reduceat(W, starts[:-1], axis=1) / widths, widths, axis=1)",
        "W = W - 0 * np.repeat(np.add.reduceat(W, starts[:-1], axis=1) / widths, widths, axis=1)",
        "states of an output do not sum to zero",
    ),
    Wrong(TERMS, ">= k * (k - 1) // 2 - 1", ">= k * (k - 1) // 2", "triples of two kept pairs are not grown"),
    Wrong(
        MODEL,
        "value = solvers.dots(params.counted - 0.5 * pull, x, self.starts) - lse",
        "value = solvers.dots(params.counted - pull, x, self.starts) - lse",
        "twice the penalty in the objective",
    ),
    Wrong(MODEL, "pull = self.ridge * x  # gradient", "pull = 0.5 * self.ridge * x  # gradient", "half of the ridge"),
]

SOLVERS = [  # the kernel form, large networks, the search for ridge and degree
    Wrong(DUAL, "((Y - 0.5 * self.ridge * a) * H)", "((Y - self.ridge * a) * H)", "kernel: twice the penalty in the objective"),
    Wrong(
        ROWS,
        "sum(math.comb(agree, k) for k in layout.degrees)",
        "sum(agree**k for k in layout.degrees)",
        "products of a variable with itself",
    ),
    Wrong(
        DUAL,
        "g = Y - self.ridge * a - weight",
        "g = Y - 0.5 * self.ridge * a - weight",
        "kernel: half of the ridge in the gradient",
    ),
    Wrong(
        DUAL,
        "self._blocks(params.W) * (shard.weight > 0)[:, :, None]",
        "self._blocks(params.W)",
        "held-out rows tell of themselves",
    ),
    Wrong(DUAL, "(top + np.log(total)).squeeze(axis)", "np.log(total).squeeze(axis)", "kernel: log sums without their top"),
    Wrong(
        DUAL,
        "last = good & ~done & (0.5 * slope <= self.tol",
        "last = good & ~done & (0.5 * slope <= 1e6 * self.tol",
        "kernel: ends far from the optimum",
    ),
    Wrong(
        CLIMB,
        "return value - np.add.reduceat(penalty",
        "return value - 0.5 * np.add.reduceat(penalty",
        "panels: half of the penalty",
    ),
    Wrong(
        CLIMB,
        "self.mean_ridge = model.ridge if pair_ridges is None else FREE * model.ridge",
        "self.mean_ridge = model.ridge",
        "panels: biases held by the common ridge",
    ),
    Wrong(
        "categories/network/climb.py",
        "return latest * share / (1 - share)",
        "return latest * share",
        "panels: one more sweep for all that are left",
    ),
    Wrong(
        PANELS,
        "Judged(table.weight * log_p.sum(axis=1), sizes)",
        "Judged(log_p.sum(axis=1), sizes)",
        "panels: judged without weights",
    ),
    Wrong(
        BY_PAIR, "gain.sum() <= SURE * gain.std() * len(gain) ** 0.5", "gain.sum() <= 0", "ridges by pair that gain nothing sure"
    ),
    Wrong(
        CHOOSE,
        "[:, : ground.folds].mean(axis=1)",
        "[:, : ground.folds].sum(axis=1)",
        "weights of a search that was cut: a sum over folds",
    ),
    Wrong(CHOOSE, "min(found) - goal > FAR", "min(found) - goal > 0 * FAR", "a walk that is given up while it comes down"),
    Wrong(
        CHOOSE, "np.clip(-slope / (2 * bend), x[0], x[2])", "np.clip(-slope / bend, x[0], x[2])", "the vertex of a parabola too far"
    ),
    Wrong(
        CHOOSE,
        "found[K].losses[found[K].strongest]",
        "found[K].loss",
        "evidence for a degree that rests on the choice of its ridge",
        ("categories/test_fem.py::test_evidence_for_a_degree_does_not_rest_on_the_choice_of_its_ridge",),
    ),
    Wrong(CHOOSE, "if K > 1 and given != 0 else None", "if K > 1 else None", "no degree is searched without a ridge"),
    Wrong(MODEL, "v[at] - least[at]", "v[at]", "the least curvature twice"),
    Wrong(
        MODEL,
        "P = np.concatenate([P, weight[:, :, None] - P.sum(axis=2, keepdims=True)], axis=2)",
        "pass",
        "no curvature of last states",
    ),
    Wrong("categories/solvers.py", "z = zero_mean(z, m)", "z = z", "steps along the mean over states"),
    Wrong(
        DOOR,
        'np.searchsorted(edges, values, side="left")',
        'np.searchsorted(edges, values, side="right")',
        "edges of intervals in the upper one",
    ),
]

_TESTS = {CLIMB: ("panels",), PANELS: ("panels",), DOOR: ("door",)}
WRONGS += [
    w._replace(tests=tuple(f"categories/test_{name}.py" for name in ("solvers_derived", *_TESTS.get(w.file, ("derived", "fem")))))
    for w in SOLVERS
]

STREAM = "categories/stream.py"
WRONGS += [
    Wrong(STREAM, "b=own.b + own.H @ w)", "b=own.b)", "a parabola about no weights", ("categories/test_stream.py",)),
    Wrong(STREAM, "((m == k) - P[:, k])", "((m == k) - (m == k) * P[:, k])", "classes apart", ("categories/test_stream.py",)),
    Wrong(STREAM, "left.b - pull - self.ridge * w", "left.b - pull", "a slope without the ridge", ("categories/test_stream.py",)),
    Wrong("categories/export.py", "if gauge else", "if not gauge else", "exported: gaps of the other kind", ("test_export.py",)),
    Wrong("categories/export.py", "None if gap < 0 else gap", "None", "exported: gaps have no state", ("test_export.py",)),
]
