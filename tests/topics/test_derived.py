"""What is derived from topics: means over sweeps, pooled chains, coherence, neighbours, samples; each against its formula."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import gammaln

from tallies import LDA
from tallies.errors import DataError
from tallies.evaluation import chains as diagnostics
from tallies.topics import answers, sampler, scores
from tallies.topics.model import LEARN_FROM, Gibbs
from tallies.topics.scores import Topics

pytestmark = pytest.mark.filterwarnings("ignore::tallies.errors.ConvergenceWarning")

RNG = np.random.default_rng(0)
X = sp.csr_array(RNG.poisson(RNG.gamma(0.4, 2.0, (12, 9))) + np.eye(12, 9, dtype=int))
TOPICS = Topics(RNG.dirichlet(np.ones(9), 3).T.astype(np.float32), np.array([0.2, 0.5, 1.1]))
OTHER = Topics(RNG.dirichlet(np.ones(9), 3).T.astype(np.float32), np.array([0.9, 0.3, 0.4]))


class Seen:
    """Counts of every sweep, as a callback sees them."""

    def __init__(self):
        self.n_wk, self.n_dk, self.alpha = [], [], []

    def __call__(self, stage, state):
        part = stage.model.rows(stage.sources[0].shard, state.latents[0]._replace(kept=None), state.params)
        back = np.argsort(part.rows)
        self.n_dk.append(part.n_dk.toarray()[back])
        self.n_wk.append(part.n_wk.toarray())
        self.alpha.append(state.params.alpha)


@pytest.fixture(scope="module")
def followed():
    seen = Seen()
    model = LDA(n_topics=3, alpha=[0.2, 0.5, 1.1], beta=0.3, max_iter=16, burn_in=7, thin=2, start="random", random_state=1)
    return model.fit(X, callback=seen), seen


def test_topics_and_mixtures_are_means_over_the_kept_sweeps(followed):
    model, seen = followed
    kept = [8, 10, 12, 14]  # sweeps 9, 11, 13, 15: every second one after the seventh
    n_wk, n_dk = np.array(seen.n_wk)[kept], np.array(seen.n_dk)[kept]
    phi = ((n_wk + 0.3) / (n_wk.sum(axis=1, keepdims=True) + 9 * 0.3)).mean(axis=0)
    np.testing.assert_allclose(model.topics_, phi.T, rtol=1e-6)
    theta = (n_dk + model.alpha_).mean(axis=0)
    np.testing.assert_allclose(model.document_topics_, theta / theta.sum(axis=1, keepdims=True), rtol=1e-12)


def test_the_prior_stays_while_samples_are_kept():
    seen = Seen()
    LDA(n_topics=3, max_iter=LEARN_FROM + 25, burn_in=LEARN_FROM, thin=1, start="random").fit(X, callback=seen)
    moved = [not np.array_equal(a, b) for a, b in zip(seen.alpha, seen.alpha[1:], strict=False)]
    assert moved.index(True) == LEARN_FROM - 2
    assert not any(moved[LEARN_FROM - 1 :])


@pytest.mark.parametrize("score", [scores.left_to_right, scores.completion])
def test_a_chain_and_its_copy_score_as_one(score):
    one, two = (score(X, several, np.random.default_rng(3)) for several in ([TOPICS], [TOPICS, TOPICS]))
    assert one.value == pytest.approx(two.value, rel=1e-12)


def test_chains_are_pooled_on_probabilities():
    a, b, both = (scores._read_on((X, np.arange(12, dtype=np.uint64)), part, 4) for part in ([TOPICS], [OTHER], [TOPICS, OTHER]))
    np.testing.assert_allclose(both, np.log((np.exp(a) + np.exp(b)) / 2), rtol=1e-10)
    a, b, both = (scores.completion(X, part, np.random.default_rng(0)) for part in ([TOPICS], [OTHER], [TOPICS, OTHER]))
    assert both.value > (a.value + b.value) / 2  # the logarithm of a mean is more than the mean of logarithms


def test_mixtures_of_chains_are_averaged_after_matching(followed):
    model, _ = followed
    first, order = model.fitted_.first, [2, 0, 1]
    turned = first._replace(
        alpha=first.alpha[order], smooth=first.smooth[order], phi=first.phi[:, order], n_wk=first.n_wk[:, order]
    )
    two = LDA(n_topics=3)
    two.fitted_ = model.fitted_._replace(chains=(first, turned), histories=(np.zeros(9), np.zeros(9)))
    np.testing.assert_allclose(two.transform(X), model.transform(X), rtol=1e-6)
    assert answers.matches(two.fitted_).tolist() == [[0, 1, 2], [1, 2, 0]]


def test_diagnostics_leave_out_the_burn_in(followed):
    model, _ = followed
    late = np.random.default_rng(2).normal(size=(2, 30))
    early = np.linspace([0.0, 90.0], [50.0, 300.0], 10).T
    histories = tuple(np.concatenate([a, b]) for a, b in zip(early, late, strict=True))
    # the growing start takes sweeps without a value: 45 in all, of which 5 have none
    run = model.fitted_.run._replace(n_iter=45)
    fitted = model.fitted_._replace(run=run, burn_in=15, chains=model.fitted_.chains * 2, histories=histories)
    found = answers.diagnose(fitted)
    assert found == {"r_hat": diagnostics.r_hat(late), "effective_size": diagnostics.effective_size(list(late))}
    assert found["r_hat"] < 1.1


def test_similarity_is_one_less_the_hellinger_distance():
    old, new = np.random.default_rng(4).dirichlet(np.ones(4), (2, 6))
    rows, near = answers.similar(old, new[:2], 6)
    for i in range(2):
        distance = np.sqrt(0.5 * ((np.sqrt(old) - np.sqrt(new[i])) ** 2).sum(axis=1))
        assert rows[i].tolist() == np.argsort(distance).tolist()
        np.testing.assert_allclose(near[i], 1 - np.sort(distance), rtol=1e-9)


OCCURS = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 0, 1], [1, 1, 1, 1], [0, 0, 0, 1], [1, 0, 0, 0]])


def test_coherence_of_words_of_unequal_frequency():
    """By the formulas of Mimno et al. (2011) and Röder et al. (2015), a pair at a time."""
    top, N = [0, 1, 2, 3], len(OCCURS)
    p = {(i, j): (OCCURS[:, i] * OCCURS[:, j]).sum() / N for i in top for j in top}
    umass = [np.log((N * p[i, j] + 1) / (N * p[j, j])) for i in top for j in top if j < i]  # the likelier word, j, is given
    npmi = {(i, j): np.log((p[i, j] + 1e-12) / (p[i, i] * p[j, j])) / -np.log(p[i, j] + 1e-12) for i in top for j in top}
    vectors = np.array([[npmi[i, j] for j in top] for i in top])
    whole = vectors.sum(axis=0)
    cosines = [v @ whole / np.sqrt(v @ v) / np.sqrt(whole @ whole) for v in vectors]
    found = [float(scores.coherence(OCCURS, np.array([top]), measure)[0]) for measure in ("umass", "npmi", "c_v")]
    expected = [np.mean(umass), np.mean([npmi[i, j] for i in top for j in top if j < i]), np.mean(cosines)]
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    np.testing.assert_allclose(found, [-0.414151, 0.002226, 0.495999], atol=1e-6)


def test_windows_are_all_of_a_text():
    found = scores.windows([["a", "b", "c", "d"], ["d"], ["b", "b", "x"]], {"a": 0, "b": 1, "c": 2, "d": 3}, 2).toarray()
    assert found.tolist() == [[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [0, 0, 0, 1], [0, 1, 0, 0], [0, 1, 0, 0]]


def test_error_of_a_score_is_that_of_a_ratio():
    values, n = np.array([-10.0, -35.0, -20.0, -8.0]), np.array([4, 10, 8, 2])
    mean = values.sum() / n.sum()
    # the delta method: residuals of a ratio estimator, over the mean size
    expected = np.std(values - mean * n, ddof=1) / np.sqrt(4) / n.mean()
    found = scores.per_token(values, n)
    assert found.value == pytest.approx(mean)
    assert found.stderr == pytest.approx(expected, rel=1e-12)


def test_the_odd_token_is_asked_for():
    given, asked = scores.halves(X, np.random.default_rng(0))
    lengths = X.sum(axis=1)
    assert given.sum(axis=1).tolist() == (lengths // 2).tolist()
    assert (given + asked - X).nnz == 0


def test_relevance_trades_frequency_for_what_is_special(followed):
    model, _ = followed
    n = X.sum(axis=0)
    for weight in (0.0, 0.3, 1.0):
        score = np.log(model.topics_) - (1 - weight) * np.log(n)
        score[model.topics_ * model.fitted_.first.n_k[:, None] <= 0.5] = -1e3
        found = model.top_words(3, names=None, relevance=weight)
        assert [[int(v) for v in row] for row in found] == np.argsort(-score, axis=1, kind="stable")[:, :3].tolist()


def test_samples_have_the_lengths_and_the_prior_of_the_fit(followed):
    model, _ = followed
    first = model.fitted_.first
    one = first._replace(alpha=np.array([6.0, 1.0, 3.0]), lengths=np.array([0, 0, 30, 0, 10]), smooth=np.full(3, 1e-9))
    only = sp.csr_array(np.eye(9, 3) * one.kept)  # topic k has the word k alone
    found = answers.sample(model.fitted_._replace(chains=(one._replace(phi=only),)), 20_000, None, seed=0)
    lengths = found.sum(axis=1)
    assert set(lengths.tolist()) == {2, 4}
    assert np.mean(lengths == 2) == pytest.approx(0.75, abs=0.02)  # 6 standard errors
    np.testing.assert_allclose(found.sum(axis=0)[:3] / found.sum(), [0.6, 0.1, 0.3], atol=0.02)


def test_priors_are_at_the_maximum_of_their_likelihood():
    """Fixed points against the derivative of the Dirichlet-multinomial likelihood, with lengths that occur several times."""
    n = np.random.default_rng(5).poisson(np.array([0.4, 1.0, 3.0]), (60, 3))
    H = sp.coo_array(np.array([np.bincount(n[:, k], minlength=n.max() + 1) for k in range(3)]))
    H.data[H.col == 0] = 0
    lengths, counts = np.unique(n.sum(axis=1), return_counts=True)
    assert counts.max() > 5
    alpha = sampler.dirichlet_fixed_point(np.ones(3), H, lengths, counts, 5000)

    def likelihood(alpha):
        A, m = alpha.sum(), n.sum(axis=1)
        return np.sum(gammaln(A) - gammaln(A + m)) + np.sum(gammaln(n + alpha) - gammaln(alpha))

    steps = 1e-4 * np.eye(3)
    slope = [(likelihood(alpha + s) - likelihood(alpha - s)) / 2e-4 for s in steps]
    assert np.abs(slope * alpha).max() < 0.05  # it stops at changes of 1e-4; a wrong equation leaves tens

    table = np.random.default_rng(6).poisson(np.random.default_rng(7).gamma(0.5, 2.0, (30, 4)))
    beta = sampler.symmetric_fixed_point(1.0, table[table > 0], table.sum(axis=0), 30)

    def of_words(beta):
        total = table.sum(axis=0)
        return np.sum(gammaln(30 * beta) - gammaln(30 * beta + total)) + np.sum(gammaln(table + beta) - gammaln(beta))

    assert abs(of_words(beta * 1.0001) - of_words(beta * 0.9999)) / 2e-4 < 0.05


def test_the_log_joint_is_at_one_prior():
    """The sweep that changes alpha has its value at the alpha that it began with."""
    seen, model = Seen(), LDA(n_topics=3, max_iter=LEARN_FROM, burn_in=LEARN_FROM, start="random", beta=0.3)
    model.fit(X, callback=seen)
    n_wk, n_dk, alpha = seen.n_wk[-1], seen.n_dk[-1], seen.alpha[-2]
    assert not np.allclose(alpha, seen.alpha[-1])
    words = np.sum(gammaln(9 * 0.3) - gammaln(n_wk.sum(axis=0) + 9 * 0.3)) + np.sum(gammaln(n_wk + 0.3) - gammaln(0.3))
    A = alpha.sum()
    documents = np.sum(gammaln(A) - gammaln(n_dk.sum(axis=1) + A)) + np.sum(gammaln(n_dk + alpha) - gammaln(alpha))
    assert model.history_[-1] == pytest.approx(words + documents, rel=1e-10)


def test_a_sweep_is_kept_from_burn_in_on():
    model = Gibbs(2, 0.1, 0.1, burn_in=3, thin=2, start="random", plateau=False)
    assert [t for t in range(1, 11) if model._keeps(t)] == [5, 7, 9]


def test_a_word_that_never_occurs_goes_with_no_other():
    occurs = np.column_stack([OCCURS, np.zeros((len(OCCURS), 2), dtype=int)])
    for measure in ("umass", "npmi", "c_v"):
        assert scores.coherence(occurs, np.array([[4, 5]]), measure).tolist() == [0.0]
    assert scores.coherence(occurs, np.array([[0, 4]]), "npmi").tolist() == [0.0]
    assert scores.coherence(occurs, np.array([[0, 4]]), "c_v").tolist() == [0.5]  # of the two vectors one has a direction


def test_coherence_in_texts_of_which_the_first_is_empty():
    model = LDA(n_topics=2, max_iter=20, burn_in=10).fit(["apple pear plum", "iron gold tin"] * 5)
    texts = [["apple", "pear", "plum"], ["iron", "gold"], ["tin", "gold"]]
    assert np.isfinite(model.coherence([[], *texts], n=3)).all()
    for window in (0, -1):
        with pytest.raises(ValueError, match="window must be"):
            model.coherence(texts, n=2, window=window)
    with pytest.raises(DataError, match="no word of the texts"):
        model.coherence([["bread", "butter"]], n=2)


@pytest.mark.parametrize("alpha", [1e-16, 1e-18, 1e-30])
def test_a_document_of_one_word_under_a_prior_that_rounding_loses(alpha):
    X = np.array([[3, 2, 4, 0, 0, 0], [0, 0, 0, 4, 2, 3]] * 20)
    theta = LDA(n_topics=2, alpha=alpha, max_iter=60, burn_in=30, random_state=0).fit(X).transform(np.eye(6, dtype=int))
    np.testing.assert_allclose(theta.sum(axis=1), 1.0)
    assert (theta.max(axis=1) > 0.9).all()


def test_a_prior_may_be_a_number_of_numpy():
    X = [[2, 1, 0], [0, 0, 3]]
    one, other = (LDA(n_topics=2, max_iter=20, burn_in=10, beta=beta).fit(X) for beta in (np.float32(0.5), 0.5))
    np.testing.assert_array_equal(one.topics_, other.topics_)


def test_a_summary_counts_the_tokens_of_documents():
    X = np.random.default_rng(0).poisson(1.0, (40, 6))
    model = LDA(n_topics=2, max_iter=20, burn_in=10, word_prior={0: {0: 100}}).fit(X)
    assert f"40 documents, 6 words, {X.sum()} tokens" in model.summary()
    assert f"80 documents, 6 words, {2 * X.sum()} tokens" in model.partial_fit(X).summary()  # of the earlier ones a part is kept
