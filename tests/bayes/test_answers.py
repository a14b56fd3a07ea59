"""P(y), P(x|y) and P(x,y) by hand; answers on a cluster; what a fit that fails, or is resumed on other data, does."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy import stats

import tallies
from tallies import GDA, NaiveBayes, storage
from tallies.bayes import answers
from tallies.engine import State
from tallies.errors import DataError, FileError
from tallies.forms import check

BIRDS = pd.DataFrame(
    {
        "size": [1.0, 3.0, 4.0, 6.0, 5.0],
        "colour": ["red", "blue", "red", "red", None],
        "eggs": [0, 2, 4, 6, 5],
        "wings": [True, False, True, True, False],
    }
)
KINDS = np.array(["finch", "finch", "owl", "owl", "owl"])
ROW = pd.DataFrame({"size": [3.0], "colour": ["red"], "eggs": [3], "wings": [True]})
MEAN, VARIANCE = np.array([2.0, 5.0]), np.array([1.0, 2 / 3])  # of "size"; the floor of 1e-9 apart


def test_the_table_of_priors():
    model = NaiveBayes().fit(BIRDS, KINDS)
    assert isinstance(model.priors_, pd.Series)
    assert model.priors_.to_dict() == {"finch": pytest.approx(0.4), "owl": pytest.approx(0.6)}
    assert (model.priors_.name, model.priors_.index.name) == ("probability", "class")
    assert GDA(priors=[0.9, 0.1]).fit(BIRDS[["size"]], KINDS).priors_.tolist() == [pytest.approx(0.9), pytest.approx(0.1)]


def test_conditional_tables_by_hand():
    model = NaiveBayes(smoothing=1.0).fit(BIRDS, KINDS)
    found = model.tables_
    assert list(found) == list(BIRDS.columns)
    assert all(table.index.tolist() == ["finch", "owl"] for table in found.values())
    assert found["size"].columns.tolist() == ["mean", "variance"]
    np.testing.assert_allclose(found["size"], np.column_stack([MEAN, VARIANCE]), rtol=1e-8)
    assert found["colour"].columns.tolist() == ["blue", "red"]
    np.testing.assert_allclose(found["colour"], [[2 / 4, 2 / 4], [1 / 4, 3 / 4]], rtol=1e-14)  # one owl's colour is missing
    np.testing.assert_allclose(found["eggs"]["rate"], [(2 + 3.4) / 3, (15 + 3.4) / 4], rtol=1e-14)
    assert found["wings"].columns.tolist() == [False, True]
    np.testing.assert_allclose(found["wings"], [[2 / 4, 2 / 4], [2 / 5, 3 / 5]], rtol=1e-14)
    words = NaiveBayes(smoothing=1.0).fit(sp.csr_array([[2, 0], [0, 3], [1, 0]]), [0, 1, 0]).tables_
    np.testing.assert_allclose(words[0]["probability"], [4 / 5, 1 / 5], rtol=1e-14)
    np.testing.assert_allclose(words[1]["probability"], [1 / 5, 4 / 5], rtol=1e-14)


def test_naive_bayes_given_and_joint_by_hand():
    model = NaiveBayes(smoothing=1.0).fit(BIRDS, KINDS)
    given = stats.norm(MEAN, np.sqrt(VARIANCE)).logpdf(3.0) + np.log([2 / 4, 3 / 4])
    given += stats.poisson([5.4 / 3, 18.4 / 4]).logpmf(3) + np.log([2 / 4, 3 / 5])
    np.testing.assert_allclose(model.log_prob_given(ROW), [given], rtol=1e-7)
    np.testing.assert_allclose(model.log_joint(ROW), [given + np.log([0.4, 0.6])], rtol=1e-7)


@pytest.mark.parametrize("covariance", ["shared", "class", "diagonal"])
def test_gda_given_and_joint_by_hand(covariance):
    X = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0], [4.0, 4.0], [8.0, 4.0], [4.0, 8.0], [8.0, 8.0]])
    y = np.repeat(["a", "b"], 4)
    model = GDA(covariance=covariance, priors=[0.25, 0.75]).fit(X, y)
    variance = [2.5, 2.5] if covariance == "shared" else [1.0, 4.0]
    rows = np.array([[1.0, 3.0], [5.0, np.nan]])
    given = np.array(
        [
            [stats.norm(m, np.sqrt(v)).logpdf(row[~np.isnan(row)]).sum() for m, v in zip([1.0, 6.0], variance, strict=True)]
            for row in rows
        ]
    )
    np.testing.assert_allclose(model.log_prob_given(rows), given, rtol=1e-7)
    np.testing.assert_allclose(model.log_joint(rows), given + np.log([0.25, 0.75]), rtol=1e-7)


@pytest.mark.parametrize("model", [GDA(), GDA(covariance="class"), NaiveBayes()], ids=repr)
def test_pieces_fit_together(model):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 3)), np.arange(50) % 3
    X[::7, 1] = np.nan
    model.fit(X, y)
    joint = model.log_joint(X)
    np.testing.assert_allclose(joint, model.log_prob_given(X) + np.log(model.priors_.to_numpy()), rtol=1e-12)
    np.testing.assert_allclose(np.logaddexp.reduce(joint, axis=1), model.log_prob(X), rtol=1e-12)
    np.testing.assert_allclose(joint - model.log_prob(X)[:, None], model.predict_log_proba(X), rtol=1e-9, atol=1e-9)
    assert tallies.evaluate(model, X, y).value == pytest.approx(joint[np.arange(50), y].mean(), rel=1e-14)


def test_a_class_still_to_come_has_no_prior_but_a_law():
    model = GDA(covariance="class").partial_fit([[0.0], [1.0], [5.0], [7.0]], [0, 0, 1, 1], classes=[0, 1, 2])
    assert model.priors_.tolist() == [0.5, 0.5, 0.0]
    assert np.isfinite(model.log_prob_given([[0.5]])).all()
    assert model.log_joint([[0.5]])[0, 2] == -np.inf


@pytest.mark.parametrize("covariance", ["shared", "class", "diagonal"])
@pytest.mark.parametrize("shrinkage", [None, "auto"])
def test_batches_of_one_class_each(covariance, shrinkage):
    """The sums of a fit to one class are not taken for those of all."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 3)) * [1, 2, 3], np.repeat([0, 1], 30)
    X[y == 1] += 1
    kind = {"covariance": covariance, "shrinkage": shrinkage}
    parts = GDA(**kind).partial_fit(X[y == 0], y[y == 0]).partial_fit(X[y == 1], y[y == 1], classes=[0, 1])
    np.testing.assert_allclose(parts.predict_proba(X), GDA(**kind).fit(X, y).predict_proba(X), atol=1e-11)


@pytest.mark.parametrize("model", [GDA(covariance="diagonal"), GDA(), NaiveBayes()], ids=repr)
def test_a_fit_that_fails_leaves_the_earlier_one(model):
    X, y = np.array([[0.0, 1.0], [1.0, 2.0], [5.0, 3.0], [6.0, 1.0]]), [0, 0, 1, 1]
    model.fit(X, y)
    before, told = model.fitted_, model.predict_proba(X)
    X[:, 1] = np.nan
    with pytest.raises(DataError, match=r"columns \[1\] have no observed value"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="2 features as input"):
        model.partial_fit(X[:, :1], y)
    assert model.fitted_ is before
    X[:, 1] = [1.0, 2.0, 3.0, 1.0]
    np.testing.assert_array_equal(model.predict_proba(X), told)
    assert set(vars(model)) == {*model.get_params(), "fitted_"}


def test_a_batch_may_lack_values_that_others_bring():
    X, y = np.array([[0.0, np.nan], [1.0, np.nan], [5.0, 3.0], [6.0, 1.0]]), [0, 1, 0, 1]
    parts = NaiveBayes().partial_fit(X[:2], y[:2]).partial_fit(X[2:], y[2:])
    np.testing.assert_allclose(parts.predict_proba(X), NaiveBayes().fit(X, y).predict_proba(X), atol=1e-12)


def test_answers_come_from_the_cluster(cluster, monkeypatch):
    """Rows of many blocks, cut between them: the same bits as here, and nothing computed in this process."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 3, 50_000)
    X = rng.normal(size=(50_000, 4)) + y[:, None]
    X[::1000, 2] = np.nan
    frame = pd.DataFrame({"n": rng.poisson(1 + y), "c": rng.choice(list("abc"), len(y)), "x": X[:, 0]})
    monkeypatch.setattr("tallies.sources.SHARD_BYTES", 700_000)  # several parts of a few blocks each
    for model, rows in (
        (GDA().fit(X, y), X),
        (GDA(covariance="class").fit(X, y), np.asfortranarray(X)),
        (NaiveBayes().fit(frame, y), frame),
    ):
        asked = (model.predict, model.predict_proba, model.predict_log_proba, model.log_prob, model.log_joint, model.log_prob_given)
        here = [ask(rows) for ask in asked]
        with tallies.backend(cluster), monkeypatch.context() as patch:
            patch.setattr(answers, "over_rows", None)
            for ask, expected in zip(asked, here, strict=True):
                found = ask(rows)
                assert found.dtype == expected.dtype
                assert found.tobytes() == expected.tobytes()
            assert model.score(rows, y) == np.mean(here[0] == y)


def pid(table, out):
    out[:] = os.getpid()


def test_rows_go_to_several_workers_of_a_cluster(cluster, monkeypatch):
    monkeypatch.setattr("tallies.sources.SHARD_BYTES", 200_000)
    table = GDA()._read(np.zeros((70_000, 4)))[0]
    with tallies.backend(cluster):
        found = set(answers.over_table(pid, table, None, np.int64).tolist())
    assert len(found) == 2
    assert os.getpid() not in found


def test_a_resumed_fit_knows_names_states_and_order(tmp_path):
    frame = pd.DataFrame({"colour": ["red", "blue", "red", "blue"] * 5, "eggs": [1, 2, 5, 6] * 5})
    y = np.array(["a", "a", "b", None] * 5, dtype=object)
    NaiveBayes(semi_supervised=True, max_iter=2).fit(frame, y, checkpoint=tmp_path / "c", callback=lambda *_: True)
    other = frame.assign(colour=frame["colour"].map({"red": "green", "blue": "blue"}))
    for changed in (other, frame.rename(columns={"eggs": "feet"}), frame.iloc[::-1]):
        with pytest.raises(FileError, match="other data"):
            NaiveBayes(semi_supervised=True).fit(changed, y, resume=tmp_path / "c")
    with pytest.raises(FileError, match="other data"):
        NaiveBayes(semi_supervised=True).fit(frame, np.where(y == "b", "c", y), resume=tmp_path / "c")
    NaiveBayes(semi_supervised=True).fit(frame, y, resume=tmp_path / "c")


def test_samples_are_tables_like_those_of_the_fit():
    names = list("ab")
    X = pd.DataFrame(np.arange(12.0).reshape(6, 2) % 5, columns=names)
    for model in (GDA(), NaiveBayes()):
        drawn, _ = model.fit(X, [0, 1] * 3).sample(3, random_state=np.random.default_rng(4))
        assert drawn.columns.tolist() == names
        again, _ = model.sample(3, random_state=np.random.default_rng(4))
        pd.testing.assert_frame_equal(drawn, again)
        assert isinstance(model.fit(X.to_numpy(), [0, 1] * 3).sample(2)[0], np.ndarray)
        with pytest.raises(TypeError, match="positional"):
            model.sample(2, 1)


def test_records_that_do_not_belong_together_are_refused():
    model = NaiveBayes().fit(BIRDS, KINDS)
    fitted: answers.Fitted = model.fitted_
    check(fitted, answers.Fitted, {})
    layout, laws = fitted.layout, fitted.params.laws
    fewer = NaiveBayes().fit(BIRDS[["colour", "eggs", "wings"]], KINDS).fitted_
    more = [None, np.array(["blue", "green", "red"], dtype=object), None, layout.states[3]]
    for changed, said in [
        (fitted._replace(classes=np.array(["owl", "owl"])), "class stands twice"),
        (fitted._replace(classes=np.array(["a", "b", "c"])), "K = 3"),
        (fitted._replace(inputs=fitted.inputs._replace(n=5)), "4 names of 5 columns"),
        (fitted._replace(inputs=fewer.inputs), "columns of the laws"),
        (fitted._replace(params=fewer.params), "columns of the laws"),
        (fitted._replace(params=fitted.params._replace(laws=laws._replace(poisson=None))), "columns of the laws"),
        (fitted._replace(layout=layout._replace(states=more)), "states of the laws"),
        (fitted._replace(layout=layout._replace(states=layout.states[::-1])), "are not those that are coded"),
    ]:
        with pytest.raises(ValueError, match=said):
            check(changed, answers.Fitted, {})
    law = GDA(covariance="class").fit(BIRDS[["size", "eggs"]], KINDS).params_.laws.gaussian
    with pytest.raises(ValueError, match="should be 1 covariances, and are 2"):
        check(law._replace(shape=law.shape._replace(each=False)), type(law), {})


def test_a_checkpoint_with_params_of_other_data_is_refused(tmp_path):
    X, y = np.arange(24.0).reshape(12, 2), np.array([0, 1, -1] * 4)
    model = GDA(covariance="diagonal", semi_supervised=True)
    model.fit(X, y, checkpoint=tmp_path / "fit", callback=lambda stage, state: True)
    about = storage.read(tmp_path / "fit", "checkpoint", lambda owner: [*GDA._records(), State])
    for other, codes in ((X[:, :1], y), (X, np.arange(12) % 3)):
        params = GDA(covariance="diagonal").fit(other[codes >= 0], codes[codes >= 0]).params_
        state = about["states"][0]._replace(params=params._replace(complete=False))
        storage.write(tmp_path / "changed", "checkpoint", "GDA", {**about, "states": (state,)})
        with pytest.raises(ValueError, match="other classes or columns than the data"):
            model.fit(X, y, resume=tmp_path / "changed")
    storage.write(tmp_path / "changed", "checkpoint", "GDA", {**about, "states": [1]})
    with pytest.raises(FileError, match="states should be tuple"):
        model.fit(X, y, resume=tmp_path / "changed")


def test_a_class_with_rows_has_a_prior():
    X, y = [[0.0], [1.0], [5.0], [6.0]], [0, 0, 1, 1]
    for model in (GDA(priors=[0.0, 1.0]), NaiveBayes(priors=[0.0, 1.0])):
        with pytest.raises(DataError, match=r"priors are 0 for the classes at the places \[0\]"):
            model.fit(X, y)
        model.fit(X, y, sample_weight=[0, 0, 1, 1])
        np.testing.assert_array_equal(model.predict_proba(X), [[0.0, 1.0]] * 4)


@pytest.mark.parametrize("gap", [-1, None])
def test_a_first_batch_may_name_its_classes_beside_rows_without_any(gap):
    X, y = [[0.0], [1.0], [5.0], [6.0], [5.5]], [0, 0, 1, 1, gap]
    one, other = (GDA(semi_supervised=True).partial_fit(X, y, classes=classes) for classes in (None, [0, 1]))
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
