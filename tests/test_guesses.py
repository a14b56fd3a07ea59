"""Names guessed from other libraries: errors that name ours."""

import inspect
import pickle
from dataclasses import dataclass

import pytest
from sklearn.base import clone

import tallies
from tallies import guesses
from tallies.estimator import Estimator, option
from tallies.registry import ENTRIES, estimator

CLASSES = [estimator(name) for name in ENTRIES]
EVERY = [(cls, name, ours) for cls in CLASSES for name, ours in guesses.known(cls).items()]


@pytest.mark.parametrize(
    ("ask", "error", "told"),
    [
        (lambda: tallies.LDA(n_components=5), TypeError, r"LDA\(\) got an .* argument 'n_components'; here that is `n_topics`"),
        (lambda: tallies.LDA(n_topic=5), TypeError, "'n_topic'; did you mean 'n_topics'"),
        (lambda: tallies.GDA(n_jobs=2), TypeError, "'n_jobs'; threads are set .*tallies.backend"),
        (lambda: tallies.FEM(alpha=1.0), TypeError, "'alpha'; here that is `ridge`"),
        (lambda: tallies.PLN(n_components=2), TypeError, "'n_components'; here that is `rank`"),
        (lambda: tallies.PLN(whatever=2), TypeError, "'whatever'; there are .*rank"),
        (lambda: tallies.LDA().components_, AttributeError, "LDA has no attribute 'components_'; here that is `topics_`"),
        (lambda: tallies.PLN().coef_, AttributeError, "PLN has no attribute 'coef_'; here that is `coefficients_`"),
        (lambda: tallies.NaiveBayes().feature_log_prob_, AttributeError, "here that is `tables_`"),
        (lambda: tallies.GDA().theta_, AttributeError, "here that is `means_`"),
    ],
)
def test_a_guess_is_told_our_name(ask, error, told):
    with pytest.raises(error, match=told):
        ask()


@pytest.mark.parametrize(("cls", "name", "ours"), EVERY, ids=lambda value: getattr(value, "__name__", None) or str(value)[:20])
def test_every_guess_is_absent_and_leads_to_something_that_is_there(cls, name, ours):
    options = cls._get_param_names()
    if not name.endswith("_"):
        if name not in options:
            with pytest.raises(TypeError, match=name):
                cls(**{name: 1})
    elif isinstance(inspect.getattr_static(cls, name), guesses.Guess):  # and not an attribute of its own
        assert not hasattr(cls(), name)
        assert not ours.isidentifier() or hasattr(cls, ours)


def test_models_are_still_cloned_pickled_and_made_by_subclasses_of_users():
    @dataclass(eq=False, repr=False, kw_only=True)
    class Mine(Estimator):
        n_parts: int = option(2)
        guesses = {"n_components": "n_parts"}

    class Other(tallies.LDA):
        def __init__(self, *, num_topics=3):
            super().__init__(n_topics=num_topics)

    assert clone(tallies.LDA(n_topics=7)).n_topics == 7
    assert pickle.loads(pickle.dumps(tallies.LDA(n_topics=7))).n_topics == 7
    assert Other(num_topics=4).n_topics == 4  # their own name, though it is one of those guessed
    with pytest.raises(TypeError, match="'n_components'; here that is `n_parts`"):
        Mine(n_components=1)
