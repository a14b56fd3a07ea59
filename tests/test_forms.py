"""The checker of stored records: what it lets in, and what not."""

from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

import numpy as np
import pytest
import scipy.sparse as sp

import tallies
from tallies import forms, registry
from tallies.forms import Form, check, hints_of


class Inner(NamedTuple):
    topic: Annotated[np.ndarray, Form("n", "i", 0, below="K")]
    ptr: Annotated[np.ndarray, Form("D+1", "i", ends="n")]

    def check(self) -> None:
        if len(self.topic) == 1:
            raise ValueError("one topic alone")


class Outer(NamedTuple):
    phi: Annotated[np.ndarray, Form("K V", "f", 0, 1)]
    n_dk: Annotated[sp.csr_array, Form("D K", "i", 0)]
    parts: list[Inner]
    words: tuple[str, ...]
    rate: Annotated[float, Form(low=0)]
    way: Literal["a", "b"]
    gap: Annotated[np.ndarray, Form("V", "f", nan=True)] | None = None
    notes: dict[str, list[float]] | None = None


def good(**changes: Any) -> Outer:
    whole = Outer(
        phi=np.full((2, 3), 0.5),
        n_dk=sp.csr_array(np.array([[1, 0], [0, 2]])),
        parts=[Inner(np.array([0, 1, 1]), np.array([0, 1, 3])), Inner(np.array([], dtype=np.int8), np.array([0, 0, 0]))],
        words=("x", "y"),
        rate=0.5,
        way="a",
    )
    return whole._replace(**changes)


def test_what_is_right_passes():
    check(good(), Outer, {})
    check({"any": [good(gap=np.array([1.0, np.nan, 2.0]), notes={"a": [1, 2.5]})]}, Any, {})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"phi": np.full((2, 3), 1.5)}, "phi should be items from 0 to 1"),
        ({"phi": np.full((2, 3), np.nan)}, "phi should be no NaN"),
        ({"phi": np.ones((2, 3), dtype=int)}, "items of kind f"),
        ({"phi": np.full(6, 0.5)}, r"shape \(K V\)"),
        ({"phi": np.full((3, 3), 0.5)}, "K = 3"),
        ({"phi": [[0.5]]}, "an array"),
        ({"phi": sp.csr_array(np.full((2, 3), 0.5))}, "an array"),
        ({"n_dk": np.array([[1, 0], [0, 2]])}, "a sparse matrix"),
        ({"n_dk": sp.csr_array(np.array([[-1, 0], [0, 2]]))}, "from 0"),
        ({"parts": [Inner(np.array([0, 2, 1]), np.array([0, 1, 3]))]}, "topic should be items from 0 to 1"),
        ({"parts": [Inner(np.array([0, -1, 1]), np.array([0, 1, 3]))]}, "topic should be items from 0"),
        ({"parts": [Inner(np.array([0, 1, 1]), np.array([0, 1, 9]))]}, "pointer that ends at n"),
        ({"parts": [Inner(np.array([0, 1, 1]), np.array([0, 4, 3]))]}, "pointer"),
        ({"parts": [Inner(np.array([0, 1, 1]), np.array([0, 4, 3], dtype=np.uint8))]}, "pointer"),
        ({"parts": [Inner(np.array([1]), np.array([0, 1, 1]))]}, "one topic alone"),
        ({"parts": [Inner(np.array([0, 1, 1]), np.array([0, 1, 2, 3]))]}, r"shape \(D\+1\)"),
        ({"parts": [None]}, "Inner"),
        ({"parts": ()}, "list"),
        ({"words": ("x", 1)}, "str"),
        ({"rate": -1.0}, "from 0"),
        ({"rate": np.ones(3)}, "a number"),
        ({"way": "c"}, "one of"),
        ({"gap": np.ones(2)}, "V = 3"),
        ({"gap": "none"}, "None"),
        ({"notes": {"a": ["b"]}}, "None"),
    ],
)
def test_what_is_wrong_is_named(changes, said):
    with pytest.raises(ValueError, match=said):
        check(good(**changes), Outer, {})


class Either(NamedTuple):
    O: Annotated[np.ndarray, Form("n p")] | Annotated[np.ndarray, Form("n 1")]  # binds nothing: which of the two is not known yet
    Y: Annotated[np.ndarray, Form("n p")]
    total: float

    def check(self) -> None:
        if self.total != self.Y.sum():
            raise ValueError("total should be the sum of Y")


def test_a_field_may_have_one_of_two_forms_and_a_record_a_check_of_its_own():
    whole = Either(np.zeros((2, 1)), np.ones((2, 3)), 6.0)
    check(whole, Either, {})
    check(whole._replace(O=np.zeros((2, 3))), Either, {})
    with pytest.raises(ValueError, match="shape"):
        check(whole._replace(O=np.zeros((2, 2))), Either, {})
    with pytest.raises(ValueError, match="sum of Y"):
        check(whole._replace(total=5.0), Either, {})


class Halves(NamedTuple):
    sizes: list[int]
    total: int

    def check(self) -> None:
        if sum(self.sizes) != self.total:
            raise ValueError("sizes should add up to the total")


def test_a_record_may_check_itself():
    check(Halves([1, 2], 3), Any, {})
    with pytest.raises(ValueError, match="add up"):
        check([Halves([1, 2], 4)], Any, {})
    with pytest.raises(ValueError, match="int"):  # first what its types say
        check(Halves([1, "2"], 3), Any, {})


def declared(hint: Any) -> bool:
    """Whether all arrays in a type have forms, and nothing in it may be anything."""
    if get_origin(hint) is Annotated:
        return any(isinstance(form, Form) for form in hint.__metadata__)
    bare = hint in (Any, np.ndarray, sp.csr_array) or get_origin(hint) is np.ndarray
    return not bare and all(declared(part) for part in get_args(hint))


@pytest.mark.parametrize("name", list(registry.ENTRIES))
def test_every_stored_array_is_declared(name):
    for record in registry.estimator(name)._records():
        for field, hint in hints_of(record).items():
            assert declared(hint), f"{record.__name__}.{field}: {hint}"


def test_looking_for_undefined_numbers_does_not_walk_through_names(monkeypatch):
    """What 50,000 columns are called, and that they have no states, is no number: walking through it took as long as their fit."""
    fitted = tallies.NaiveBayes().fit(sp.csr_array(np.ones((4, 500))), [0, 0, 1, 1]).fitted_
    steps, look = [], forms.undefined
    monkeypatch.setattr(forms, "undefined", lambda *given: (steps.append(given[-1]), look(*given))[1])
    assert not list(forms.undefined(fitted)) and len(steps) < 100
