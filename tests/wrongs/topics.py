"""Wrongs in LDA."""

from wrongs import Wrong

ANSWERS, SCORES, MODEL, SAMPLER = (f"topics/{name}.py" for name in ("answers", "scores", "model", "sampler"))
LISTS, SWEEP = "topics/kernels/lists.py", "topics/kernels/sampling.py"

WRONGS = [
    Wrong(
        "topics/bridges.py",
        "return float(words + mixed + np.sum(gammaln(A) - gammaln(n_dk.sum(axis=1) + A)))",
        "return float(words + mixed)",
        "log p(w, z) of a state without the lengths of documents",
        ("topics/test_bridges.py",),
    ),
    Wrong(
        "topics/bridges.py",
        "order = np.lexsort((word, document))",
        "order = np.lexsort((topic, document))",
        "tokens of a state sorted by topic",
        ("topics/test_bridges.py",),
    ),
    Wrong(SAMPLER, "n_wk.sum(axis=0) if fits else n_k", "n_wk.sum(axis=0)", "a damaged list is summed, beyond the end of the sums"),
    Wrong(
        SCORES,
        "return logsumexp(values, axis=0) - np.log(len(chains))",
        "return logsumexp(values, axis=0)",
        "left to right: chains added, not averaged",
    ),
    Wrong(SCORES, "np.diag(joint)[below[1]], 1.0", "np.diag(joint)[below[0]], 1.0", "UMass divides by the rarer word of a pair"),
    Wrong(SCORES, "(joint[below] + 1.0)", "(joint[below] + 0.5)", "UMass adds one, not a half"),
    Wrong(
        SCORES,
        "np.linalg.norm(table, axis=1) * np.linalg.norm(whole)",
        "np.linalg.norm(table) * np.linalg.norm(whole)",
        "C_v: the norm of the whole table for that of each row",
    ),
    Wrong(
        SCORES,
        "np.divide(table @ whole, size",
        "np.divide(table @ whole.mean(), size",
        "C_v: words against their mean, not against the set",
    ),
    Wrong(SCORES, "np.where(np.outer(met, met), np.where(", "np.where(True, np.where(", "words that never occur are coherent"),
    Wrong(SCORES, "/ -np.log(p)", "/ -np.log(np.outer(single, single))", "NPMI has the joint probability below"),
    Wrong(SCORES, ".sum(axis=1) / len(chains)", ".sum(axis=1)", "completion: chains added, not averaged"),
    Wrong(SCORES, "< lengths[documents] // 2", "< (lengths[documents] + 1) // 2", "the odd token goes to the wrong half"),
    Wrong(
        SCORES,
        "D / (D - 1)) / n.sum()) if D > 1",
        "D / (D - 1)) / D) if D > 1",
        "error of a mean over documents, not over tokens",
        ("topics/test_derived.py::test_error_of_a_score_is_that_of_a_ratio",),
    ),
    Wrong(SCORES, "(values - mean * n) ** 2", "(values - values.mean()) ** 2", "error of a sum, not of a ratio"),
    Wrong(SCORES, "range(max(len(text) - size + 1, 1))", "range(max(len(text) - size, 1))", "the last window is lost"),
    Wrong(ANSWERS, "total += theta[:, orders[c]]", "total += theta", "chains averaged without matching their topics"),
    Wrong(
        ANSWERS,
        "fitted.known.n_dk.toarray() + fitted.first.alpha",
        "fitted.known.n_dk.toarray() + 2 * fitted.first.alpha",
        "theta with twice the prior",
    ),
    Wrong(
        ANSWERS,
        "begun = fitted.burn_in - (fitted.run.n_iter - len(fitted.histories[0]))",
        "begun = 0",
        "diagnostics of the burn-in",
    ),
    Wrong(
        ANSWERS,
        "1 - np.sqrt(np.maximum(1 - np.sqrt(new) @ np.sqrt(old).T, 0.0))",
        "1 - np.maximum(1 - np.sqrt(new) @ np.sqrt(old).T, 0.0)",
        "Hellinger distance without its root",
        ("topics/test_derived.py::test_similarity_is_one_less_the_hellinger_distance",),
    ),
    Wrong(ANSWERS, "phi += chain.smooth.astype(np.float32)", "phi += 0 * chain.smooth.astype(np.float32)", "phi without its prior"),
    Wrong(ANSWERS, "- (1 - weight) * log_n", "- weight * log_n", "relevance the other way round"),
    Wrong(
        ANSWERS,
        "rng.choice(len(lengths), n, p=lengths / lengths.sum())",
        "rng.choice(len(lengths), n)",
        "lengths of samples drawn flat",
    ),
    Wrong(
        ANSWERS, "rng.dirichlet(alpha, n)", "rng.dirichlet(np.full_like(alpha, alpha.mean()), n)", "samples with a symmetric prior"
    ),
    Wrong(
        MODEL,
        "latents.kept / params.kept",
        "sampler.document_counts(shard, counts).astype(float)",
        "document topics of the last sweep alone",
    ),
    Wrong(MODEL, "smooth=self.smooth + self.beta * inverse", "smooth=self.smooth + inverse", "phi smoothed by one, not by beta"),
    Wrong(
        MODEL,
        "gammaln(after.n_k + V * beta) - gammaln(V * beta)",
        "gammaln(after.n_k + beta) - gammaln(beta)",
        "log joint: total of the prior without V",
    ),
    Wrong(
        MODEL,
        "n, A = np.flatnonzero(before.lengths), before.alpha.sum()",
        "n, A = np.flatnonzero(before.lengths), after.alpha.sum()",
        "log joint at two different priors",
    ),
    Wrong(MODEL, "return t > self.burn_in and", "return t >= self.burn_in and", "a sample of the burn-in is kept"),
    Wrong(MODEL, "LEARN_FROM <= t <= self.burn_in and", "LEARN_FROM <= t and", "the prior changes while samples are kept"),
    Wrong(
        SAMPLER,
        "np.sum(counts * (digamma(lengths + total) - digamma(total)))",
        "np.sum(digamma(lengths + total) - digamma(total))",
        "alpha: each length counted once",
    ),
    Wrong(SAMPLER, "below = n_words * np.sum(", "below = np.sum(", "beta: its update lacks the number of words"),
    Wrong(LISTS, "rest = theta[d, k] - q[j - first, k]", "rest = theta[d, k]", "CVB0 with the own token left in"),
    Wrong(LISTS, "rest if rest > 0.0 else alpha[k]", "rest", "CVB0 with a prior lost in rounding"),
    Wrong(
        ANSWERS, "return int(lengths @ np.arange(len(lengths))) or int(n_k.sum())", "return int(n_k.sum())", "seed words are tokens"
    ),
    Wrong(LISTS, "n_k[z[i]] -= 1.0", "n_k[z[i]] -= 0.0", "new documents: own token not taken out"),
    Wrong(
        LISTS, "/ n_k.sum() / passes", "/ (n_k.sum() + 1.0) / passes", "left to right: the word itself counted among those before"
    ),
    Wrong(LISTS, "if t > burn_in:", "if t == burn_in + n_samples:", "theta of the last sample alone, scaled"),
    Wrong(
        SWEEP,
        "f_own = (real(n_d[own] - 1) + alpha[own]) * without[own]",
        "f_own = (real(n_d[own]) + alpha[own]) * without[own]",
        "own token not taken out of its document",
    ),
    Wrong(
        SWEEP,
        "f_own = (real(n_d[own] - 1) + alpha[own]) * without[own]",
        "f_own = (real(n_d[own] - 1) + alpha[own]) * inverse[own]",
        "own token not taken out of its topic",
    ),
    Wrong(LISTS, "change[indices[j]] = -data[j]", "change[indices[j]] = 0", "changes of a shard: counts that were there, too"),
    Wrong(
        MODEL,
        "latents.counts.n_k[:] += n_k",
        "latents.counts.n_k[:] = n_k",
        "tokens of a shard: those of the last sweep alone",
        ("topics/test_lda.py::test_each_shard_knows_its_tokens_of_each_topic",),
    ),
    Wrong(SWEEP, "u_rest = u * real(beta * s)", "u_rest = u * real(2.0 * beta * s)", "beta doubled"),
    Wrong(
        "topics/bridges.py",
        "history[-n:] for",
        "history[:n] for",
        "the first sweeps of a chain, not the last",
        ("evaluation/test_draws.py",),
    ),
]
