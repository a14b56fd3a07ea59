"""What a file may say of a fit: only what kernels can trust."""

import numpy as np
import pytest

import tallies
from tallies.categories.terms import grow
from tallies.errors import DataWarning
from tallies.forms import check

X = [["a", "x", "u"], ["a", "z", "v"], ["b", "x", "v"], ["b", "z", "u"]] * 10
Y = ["no", "yes", "yes", "no"] * 10
MODELS = {
    "lbfgs": lambda: tallies.FEM(degree=2, ridge=0.1, solver="lbfgs").fit(X, Y),
    "kernel": lambda: tallies.FEM(degree=2, ridge=0.1, solver="kernel").fit(X, Y),
    "screen": lambda: tallies.FEM(degree=2, ridge=0.1, screen=2).fit(X, Y),
    "network": lambda: tallies.FEMNetwork(ridge=1.0).fit(X),
}


@pytest.fixture(scope="module", params=MODELS)
def fitted(request):
    return MODELS[request.param]().fitted_


def refused(record, said):
    with pytest.raises(ValueError, match=said):
        check(record, type(record), {})


def test_a_fit_passes(fitted):
    check(fitted, type(fitted), {})


def test_weights_are_those_of_columns_degrees_and_pairs(fitted):
    refused(fitted._replace(W=fitted.W[:-1]), "W should be of|u = ")
    refused(fitted._replace(W=fitted.W[:, :-1]), "W should be of|M = ")
    refused(fitted._replace(W=np.full_like(fitted.W, np.inf)), "W should be items from")
    for degree in ((), (2, 1), (1, 1), (1, 4)):
        refused(fitted._replace(choice=fitted.choice._replace(degree=degree)), "degrees")
    if fitted.choice.solver != "kernel":  # whose weights are of rows, whatever the degree
        refused(fitted._replace(choice=fitted.choice._replace(degree=(3,))), "W should be of")
        refused(fitted._replace(choice=fitted.choice._replace(pairs=np.array([[0, 1]] * 9), degree=(2,))), "W should be of")
    for pairs, said in (([[0, 3]], "pairs or rows"), ([[1, 1]], "of two variables"), ([[-1, 1]], "choice.pairs should be")):
        refused(fitted._replace(choice=fitted.choice._replace(pairs=np.array(pairs))), said)
    refused(fitted._replace(inputs=fitted.inputs._replace(n=2)), "3 columns have categories|names")


def test_every_code_has_a_label(fitted):
    c = fitted.categories
    for changed in (
        c._replace(labels=[["a"], *c.labels[1:]]),
        c._replace(states=[c.states[0][:0], *c.states[1:]]),
        c._replace(states=[c.states[0][[0, 0]], *c.states[1:]]),
        c._replace(edges=[np.array([0.5, 0.7]), None, None]),
        c._replace(gap=[1, -1, -1]),
    ):
        refused(fitted._replace(categories=changed), "do not belong together")
    refused(fitted._replace(categories=c._replace(gap=[-1])), "zip")


def test_rows_of_the_kernel_hold_states():
    fitted = MODELS["kernel"]().fitted_
    refused(fitted._replace(rows=fitted.rows + 1), "states of the columns")
    refused(fitted._replace(rows=fitted.rows[:, :2]), "3 columns have categories")
    refused(fitted._replace(rows=None), "kernel")


def test_frequencies_are_those_of_the_states():
    fitted = MODELS["network"]().fitted_
    refused(fitted._replace(frequencies=[f[:1] for f in fitted.frequencies]), "a frequency for each state")


def test_no_file_makes_terms_without_end():
    pairs = [(a, b) for a in range(12) for b in range(a)]
    with pytest.raises(ValueError, match="groups of 3 variables"):
        grow(12, pairs, (1, 2, 6), most=100)
    with pytest.warns(DataWarning, match="one state only"):
        constant = tallies.FEM(ridge=1.0).fit([["a"] * 40 + [s] for s in "xz"] * 10, ["no", "yes"] * 10).fitted_
    refused(constant._replace(choice=constant.choice._replace(degree=(41,)), W=constant.W[:2]), "more parts")
