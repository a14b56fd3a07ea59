"""Probabilities from a file that `model.export(path)` wrote, in Python alone: as scoring.js, for machines without node."""

import json
import math
from pathlib import Path

NEVER = -math.inf


def is_gap(value):
    return value is None or value != value


def log(value):
    return NEVER if value is None else value


def number(value):
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"expected a finite number, got {value!r}")
    return float(value)


def dot(a, b):
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def eigen(S):
    """Eigenvalues and vectors of a symmetric matrix, by Jacobi's rotations."""
    n, A = len(S), [list(row) for row in S]
    V = [[float(i == j) for j in range(n)] for i in range(n)]
    for _ in range(60):
        if max((abs(A[p][q]) for p in range(n) for q in range(p)), default=0.0) < 1e-18:
            break
        for p in range(n):
            for q in range(p + 1, n):
                if A[p][q] == 0:
                    continue
                theta = (A[q][q] - A[p][p]) / (2 * A[p][q])
                t = math.copysign(1.0, theta) / (abs(theta) + math.hypot(theta, 1.0))
                c, s = 1 / math.hypot(t, 1.0), t / math.hypot(t, 1.0)
                for row in A:
                    row[p], row[q] = c * row[p] - s * row[q], s * row[p] + c * row[q]
                for M in (A, V):
                    pair = list(zip(M[p], M[q], strict=True))
                    M[p], M[q] = [c * a - s * b for a, b in pair], [s * a + c * b for a, b in pair]
    return [(A[i][i], V[i]) for i in range(n)]


def whiten(gaussian, o):
    """The whitening and the log determinant of each covariance, on the columns o."""
    parts = [[[C[i][j] for j in o] for i in o] for C in gaussian["covariance"]]
    pooled = [[dot(gaussian["share"], [C[i][j] for C in parts]) for j in range(len(o))] for i in range(len(o))]
    inverse = []
    for i, j in enumerate(o):
        scale, size = math.sqrt(max(pooled[i][i], 0.0)), max(abs(mean[j]) for mean in gaussian["mean"])
        inverse.append(1 / scale if scale > max(1e-13 * size, 1e-100) else 0.0)

    def scaled(C):
        return [[c * a * b for c, b in zip(row, inverse, strict=True)] for row, a in zip(C, inverse, strict=True)]

    V = [vector for value, vector in eigen(scaled(pooled)) if value > 1e-10]
    found = []
    for S in map(scaled, parts):
        inside = [[dot(v, [dot(row, w) for row in S]) for w in V] for v in V]
        spread = [(max(value, 1e-9), turn) for value, turn in eigen(inside)]
        W = [[f * dot(turn, [v[i] for v in V]) / math.sqrt(value) for i, f in enumerate(inverse)] for value, turn in spread]
        found.append((W, math.fsum(math.log(value) for value, _ in spread)))
    return found


def of_gaussians(gaussian, row):
    """What correlated columns add to the score of each class."""
    o = [j for j, value in enumerate(row) if not is_gap(value)]
    if not o:
        return [0.0] * len(gaussian["mean"])
    whole = len(o) == len(row)
    roots = list(zip(gaussian["whitening"], gaussian["log_det"], strict=True)) if whole else whiten(gaussian, o)
    out = []
    for k, mean in enumerate(gaussian["mean"]):
        W, log_det = roots[k if len(roots) > 1 else 0]
        x = [number(row[j]) - mean[j] for j in o]
        out.append(-0.5 * (log_det + math.fsum(dot(w, x) ** 2 for w in W)))
    return out


def of_column(column, value, K):
    """What one column adds to the score of each class."""
    kind = column["kind"]
    if is_gap(value):
        return [0.0] * K
    if kind in ("categorical", "bernoulli"):
        if value not in column["states"]:
            return [log(v) for v in column["log_unseen"]]
        return [log(v) for v in column["log_p"][column["states"].index(value)]]
    x = number(value)
    if kind == "gaussian":
        return [-0.5 * (math.log(v) + (x - m) ** 2 / v) for m, v in zip(column["mean"], column["variance"], strict=True)]
    if kind == "poisson":
        return [(0.0 if x == 0 else NEVER if r == 0 else x * math.log(r)) - r for r in column["rate"]]
    return [x * log(v) if x > 0 else 0.0 for v in column["log_p"]]


def code(column, value):
    """The state of a cell; None for none that is known."""
    if is_gap(value):
        return column["gap"]
    if column["kind"] == "binned":
        return sum(edge < number(value) for edge in column["edges"])
    return column["states"].index(value) if value in column["states"] else None


def of_terms(model, row):
    """What the terms add to the score of each class."""
    out, codes, sizes = [0.0] * len(model["classes"]), [], []
    for column, value in zip(model["columns"], row, strict=True):
        codes.append(code(column, value))
        states = len(column["edges"]) + 1 if column["kind"] == "binned" else len(column["states"])
        sizes.append(states + (column["gap"] is not None))
    for term in model["terms"]:
        if all(codes[j] is not None for j in term["columns"]):
            at = 0
            for j in term["columns"]:
                at = at * sizes[j] + codes[j]
            out = [a + b for a, b in zip(out, term["weights"][at], strict=True)]
    return out


def probabilities(model, row):
    cells = row if isinstance(row, list) else [row.get(column["name"]) for column in model["columns"]]
    if "terms" in model:
        parts = [model["bias"], of_terms(model, cells)]
    elif "gaussian" in model:
        parts = [model["log_prior"], of_gaussians(model["gaussian"], cells)]
    else:
        K = len(model["classes"])
        parts = [model["log_prior"], *(of_column(c, v, K) for c, v in zip(model["columns"], cells, strict=True))]
    scores = [math.fsum(map(log, part)) if None not in part and NEVER not in part else NEVER for part in zip(*parts, strict=True)]
    top = max(scores)
    if top == NEVER:
        return [1 / len(scores)] * len(scores)
    shares = [math.exp(score - top) for score in scores]
    return [share / math.fsum(shares) for share in shares]


def read(path):
    model = json.loads(Path(path).read_text(encoding="utf-8"))
    assert (model["format"], model["version"]) == ("tallies scoring", 1)
    return model
