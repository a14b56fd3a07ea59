"""Wrongs in AuthorConcept."""

from wrongs import Wrong

ANSWERS, PRIOR, CONTEXT, MENTION, MODEL, PENALTIES, SCORES, WORDS = (
    f"concepts/{name}.py"
    for name in ("answers", "author_prior", "context", "mention", "model", "penalties", "scores", "word_counts")
)
LOOPS = "concepts/kernels/mentions.py"

WRONGS = [
    Wrong(
        LOOPS,
        "less = max(less, value[s, c] - HIGHEST)",
        "less = 0.0",
        "log odds beyond all numbers",
        ("concepts/test_derived.py",),
    ),
    Wrong(
        PRIOR,
        "everybody = n_base + np.asarray(n_rows.sum(axis=0)).ravel() + prior",
        "everybody = n_base + prior",
        "everybody without what authors wrote",
        ("concepts/test_derived.py::test_everybody_is_all_that_was_written",),
    ),
    Wrong(
        PRIOR,
        "np.repeat((1.0 - mine) / np.maximum(n, 1), n)",
        "np.repeat((1.0 - mine), n)",
        "each of several authors has the whole document",
    ),
    Wrong(PRIOR, "part * (1.0 - own)", "part * own", "the back-off of authors the wrong way round"),
    Wrong(PRIOR, "moved = np.where(n > 0, share * p[:G], 0.0)", "moved = share * p[:G]", "roots lend to nobody"),
    Wrong(PRIOR, "up.T @ (moved / np.maximum(n, 1)) - moved", "up.T @ moved - moved", "each parent is lent the whole share"),
    Wrong(
        PRIOR,
        "n_rows.toarray() + sparsity_counts(laid_out(psi), sparsity)",
        "n_rows.toarray() + sparsity_counts(psi.own.toarray() + 1e-300, sparsity)",
        "sparsity of what is an author's own alone",
    ),
    Wrong(
        PRIOR,
        "level * np.linalg.norm(psi.base))",
        "0 * np.linalg.norm(psi.base))",
        "sparsity with back-off: the common level has no term",
    ),
    Wrong(
        PRIOR,
        "base = n_base + prior + sparsity_counts(psi.base, sparsity)",
        "base = n_base + prior",
        "sparsity with back-off: the common level is not made sparse",
    ),
    Wrong(PRIOR, "np.where(empty, 1.0, constant * scale)", "constant * scale", "an author without a sentence writes about nothing"),
    Wrong(
        PRIOR,
        "share = np.where(unknown, 1.0, rows.share + W @ psi.constant)",
        "share = np.where(unknown, 1.0, rows.share)",
        "the constant parts of rows lost",
    ),
    Wrong(
        SCORES,
        "part = np.repeat(1.0 / np.maximum(n, 1), n)",
        "part = np.repeat(np.ones(len(n)), n)",
        "several labels counted whole",
    ),
    Wrong(
        SCORES,
        "r = np.exp((found.value - top) / settings.temperature)",
        "r = np.exp(found.value - top)",
        "temperature without effect",
        ("concepts/test_derived.py::test_temperature_flattens_responsibilities_and_leaves_the_likelihood",),
    ),
    Wrong(
        SCORES,
        "float(value[n == 0].sum() + np.sum(part * np.log(p)))",
        "float(value[n == 0].sum())",
        "labels left out of the objective",
    ),
    Wrong(
        SCORES,
        "np.maximum(1.0 - np.exp(value - found.evidence[:, None]).sum(axis=1), 0.0)",
        "np.zeros(len(value))",
        "concepts that are no candidates left out of the evidence",
    ),
    Wrong(
        SCORES,
        "sure = (strength > SURE) & (n == 0)[:, None]",
        "sure = strength > SURE",
        "labelled sentences counted twice around mentions",
    ),
    Wrong(
        WORDS,
        "share = (counts + 0.5) / (counts + 0.5).sum() if options.background else",
        "share = np.full(len(counts), 1 / len(counts)) if options.background else",
        "the background is flat",
    ),
    Wrong(
        WORDS,
        "np.asarray(counts.sum(axis=1)).ravel() + smooth.sum() + unseen",
        "np.asarray(counts.sum(axis=1)).ravel() + smooth.sum()",
        "words of a definition that no sentence has are not counted",
    ),
    Wrong(WORDS, "np.outer(X.sum(axis=1), words.slope)", "np.outer(np.diff(X.indptr), words.slope)", "distinct words for words"),
    Wrong(WORDS, "(definition, weight if name else 1.0)", "(definition, 1.0)", "definitions at full weight"),
    Wrong(WORDS, "np.maximum(1.0 - phi.sum(axis=1), 0.0)", "np.zeros(len(phi))", "no room for words that no sentence has"),
    Wrong(
        PENALTIES,
        "return strength * q**2 / np.linalg.norm(q, axis=-1, keepdims=True)",
        "return strength * q / np.linalg.norm(q, axis=-1, keepdims=True)",
        "sparsity pulls all words alike",
    ),
    Wrong(PENALTIES, "burden[-1] = 0.0", "burden[-1] = 1.0", "words of one definition alone overlap with others"),
    Wrong(PENALTIES, "value -= 0.5 * overlap", "value -= overlap", "every pair of concepts counted twice"),
    Wrong(CONTEXT, "np.maximum(n.data - 1.0, 0.0)", "n.data", "a sentence confirms itself"),
    Wrong(CONTEXT, "((total + BACKGROUND) * rate)", "(BACKGROUND * rate)", "the sentences of a concept left out below"),
    Wrong(
        CONTEXT,
        "(used + count * weight / whole) / (times + count) * whole",
        "(used + count) / (times + count) * whole",
        "usage without the given odds",
    ),
    Wrong(
        MENTION,
        "noise.missing - noise.missing_rare * log_b[s]",
        "noise.missing + noise.missing_rare * log_b[s]",
        "rare words cost less when missing",
    ),
    Wrong(
        MENTION,
        "h1 = np.maximum(h0, np.log(noise.stem) - log_b[s])",
        "h1 = np.maximum(h0, -log_b[s])",
        "a stem is as good as the word",
    ),
    Wrong(MENTION, "(n >= 1.5) & (t >= 0.02)", "(n >= 0.5) & (t >= 0.02)", "words met once are learned"),
    Wrong(MODEL, "period > 1 and np.isclose", "period >= 1 and np.isclose", "assignments that stay are called a cycle"),
    Wrong(
        MODEL,
        "m[-1] = m[:-1].sum() * NULL_START / (1.0 - NULL_START)",
        "m[-1] = m[:-1].sum() * NULL_START",
        "the null begins with another share",
    ),
    Wrong(
        "concepts/author_prior.py",
        "who.data /= np.repeat(np.diff(who.indptr), np.diff(who.indptr))",
        "who.data /= 1.0",
        "sentences of several authors counted for each",
    ),
    Wrong(
        ANSWERS,
        "w * author_prior.laid_out(fitted.psi, a) + (1.0 - w) * fitted.psi.base",
        "author_prior.laid_out(fitted.psi, a)",
        "authors without back-off",
    ),
    Wrong(
        ANSWERS,
        "_table(fitted.concepts, expected(fitted, mine) / len(mine), n)",
        "_table(fitted.concepts, expected(fitted, mine), n)",
        "profiles of documents do not add to one",
    ),
    Wrong(LOOPS, "law.counts[a] - r * n, 0.0", "law.counts[a] - 0.0 * r * n, 0.0", "own words not left out"),
    Wrong(LOOPS, "strength[s, c] = weight / most", "strength[s, c] = weight / (weight + most)", "a candidate competes with itself"),
]
