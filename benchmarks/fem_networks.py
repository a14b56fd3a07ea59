"""Large networks of categories: made alignments with planted contacts, seconds, peak memory, precision of the top contacts.

    python benchmarks/fem_networks.py networks 132 13 6500                       sites, states, rows; ridge 30
    python benchmarks/fem_networks.py networks 132 13 6500 --ridge auto
    python benchmarks/fem_networks.py networks 1000 21 10000 --sweeps 2          some sweeps of many, and seconds of each
    python benchmarks/fem_networks.py reference 132 13 6500 --outputs 4          scipy's L-BFGS on the same objective, some outputs

An alignment is drawn from a sparse Potts model, two contacts a site, by Gibbs sweeps of every row from a start of its own; with
--ancestors A from so many common ones, one sweep apart, so that rows resemble each other as those of a family of proteins do.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
import scipy.sparse as sp
from numba import njit
from scipy.optimize import minimize

import tallies


@njit(nogil=True, cache=True)
def gibbs(x, fields, near, pointer, couplings, rng, sweeps):
    """Sweep the rows of x (l, n) under fields (n, m) and couplings (pairs, m, m): site j has those from pointer[j] on."""
    m, p = fields.shape[1], np.empty(fields.shape[1])
    for i in range(len(x)):
        for _ in range(sweeps):
            for j in range(x.shape[1]):
                p[:] = fields[j]
                for q in range(pointer[j], pointer[j + 1]):
                    for s in range(m):
                        p[s] += couplings[q, x[i, near[q]], s]
                total, top = 0.0, p.max()
                for s in range(m):
                    p[s] = np.exp(p[s] - top)
                    total += p[s]
                left, s = rng.random() * total, 0
                while s < m - 1 and left >= p[s]:
                    left -= p[s]
                    s += 1
                x[i, j] = s


def alignment(n, m, l, ancestors=0, seed=0, sweeps=15):
    """(l, n) states, and the pairs that are coupled."""
    rng = np.random.default_rng(seed)
    pairs = set()
    while len(pairs) < 2 * n:
        a, b = sorted(rng.choice(n, 2, replace=False).tolist())
        pairs.add((a, b))
    found = [[] for _ in range(n)]
    for a, b in sorted(pairs):
        J = rng.normal(0, 0.7, (m, m))
        J -= J.mean(axis=0) + J.mean(axis=1, keepdims=True) - J.mean()
        found[a].append((b, J.T))
        found[b].append((a, J))
    near = np.array([k for of_site in found for k, _ in of_site])
    couplings = np.array([J for of_site in found for _, J in of_site])
    pointer = np.concatenate([[0], np.cumsum([len(of_site) for of_site in found])])
    fields = rng.normal(0, 1, (n, m))
    x = rng.integers(0, m, (ancestors or l, n)).astype(np.int32)
    gibbs(x, fields, near, pointer, couplings, rng, sweeps)
    if ancestors:
        x = x[rng.integers(0, ancestors, l)].copy()
        gibbs(x, fields, near, pointer, couplings, rng, 1)
    return x, pairs


def precision(S, pairs, top):
    a, b = np.triu_indices(len(S), 1)
    first = np.argsort(-S[a, b], kind="stable")[:top]
    return np.mean([(a[k], b[k]) in pairs for k in first])


def networks(options):
    x, pairs = alignment(options.sites, options.states, options.rows, options.ancestors, options.seed)
    print(f"{options.rows} rows x {options.sites} sites x {options.states} states, {len(pairs)} contacts", flush=True)
    start, cpu = time.perf_counter(), time.process_time()

    def told(stage, state):
        if stage.name:  # of the search, and of the weights of rows
            return
        at = f"{time.perf_counter() - start:.0f} s, CPU {time.process_time() - cpu:.0f} s, peak {peak():.2f} GB"
        print(f"  sweep {len(state.objective)}: {at}, objective {state.objective[-1]:.2f}", flush=True)

    ridge = options.ridge if options.ridge == "auto" else float(options.ridge)
    model = tallies.FEMNetwork(ridge=ridge, reweight=options.reweight, max_iter=options.sweeps)
    with tallies.backend("threads", workers=options.threads):
        model.fit(x, callback=told)
    spent = time.process_time() - cpu
    print(f"fit: {time.perf_counter() - start:.1f} s, CPU {spent:.1f} s, peak {peak():.2f} GB, ridge {model.ridge_:.3g}")
    print(f"sweeps {model.n_iter_}, converged {model.converged_}, objective {model.history_[-1]:.2f}")
    start = time.perf_counter()
    S = model.scores()
    n = options.sites
    shares = ", ".join(f"top {k}: {precision(S, pairs, k):.3f}" for k in (n // 2, n, 2 * n))
    print(f"precision of contacts {shares}; scores took {time.perf_counter() - start:.1f} s, peak {peak():.2f} GB")
    row = {
        "sites": n,
        "states": options.states,
        "rows": options.rows,
        "ridge": f"{options.ridge} ({model.ridge_:.3g})",
        "sweeps": model.n_iter_,
    }
    row |= {"CPU s": spent, "peak, GB": peak(), "contacts among the first 2 n pairs": precision(S, pairs, 2 * n)}
    if options.save:
        model.save(options.save)
        model.report(options.save + ".html")
        print(f"saved and reported, peak {peak():.2f} GB")
    return row


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def reference(options):
    """CPU seconds of all outputs, by some of them: sparse one-hot rows and scipy's L-BFGS, output by output, to the same objective as FEMNetwork."""
    n, m, ridge = options.sites, options.states, float(options.ridge)
    x, _ = alignment(n, m, options.rows, options.ancestors, options.seed)
    l, ones = len(x), np.ones(x.size)
    X = sp.csr_matrix((ones, (np.repeat(np.arange(l), n), (x + np.arange(n) * m).ravel())), (l, n * m))
    start, total = time.process_time(), 0.0
    for o in range(options.outputs):
        keep = np.delete(np.arange(n * m), np.arange(o * m, o * m + m))
        A, Y = X[:, keep], np.eye(m)[x[:, o]]

        def lost(w, A=A, Y=Y):
            W = w.reshape(-1, m)
            H = A @ W
            H -= H.max(axis=1, keepdims=True)
            P = np.exp(H)
            P /= P.sum(axis=1, keepdims=True)
            G = A.T @ (P - Y) + ridge * W
            return -np.log(P[Y > 0]).sum() + 0.5 * ridge * (w @ w), G.ravel()

        found = minimize(lost, np.zeros(len(keep) * m), jac=True, method="L-BFGS-B", options={"maxiter": 2000, "ftol": 1e-9})
        total -= found.fun
    spent = time.process_time() - start
    whole = spent * n / options.outputs
    print(f"{options.outputs} outputs: CPU {spent:.1f} s, objective {total:.3f}; all {n} would take {whole:.0f} s")
    return whole


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("networks", "reference"))
    for name in ("sites", "states", "rows"):
        parser.add_argument(name, type=int)
    parser.add_argument("--ridge", default="30")
    parser.add_argument("--reweight", type=float)
    parser.add_argument("--sweeps", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--ancestors", type=int, default=0)
    parser.add_argument("--outputs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save")
    options = parser.parse_args()
    {"networks": networks, "reference": reference}[options.what](options)


if __name__ == "__main__":
    main()
