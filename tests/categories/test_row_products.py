"""Inner products of rows over products of variables, whole and by a factor, and the kernel form of FEM that rests on them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tallies import FEM
from tallies.categories import row_products
from tallies.categories.choose import cheapest
from tallies.categories.row_products import Factored, Full
from tallies.categories.terms import Layout

SIZES = (2, 3, 4, 2, 5)


def rows_of(l, sizes=SIZES, seed=0):
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(0, m, l) for m in sizes]).astype(np.int32)


def by_definition(codes, degrees):
    agree = (codes[:, None] == codes[None]).sum(axis=2)
    return sum(np.array([math.comb(a, k) for a in range(codes.shape[1] + 1)])[agree] for k in degrees)


@pytest.mark.parametrize("degrees", [(1,), (1, 2), (2,), (1, 3), (1, 2, 3)])
def test_the_factor_times_itself_is_every_product_of_rows(degrees):
    codes, layout = rows_of(700), Layout.of(SIZES, degrees)
    found = row_products.row_products(codes, layout)
    assert isinstance(found, Factored) and found.F.shape == (row_products.rank_of(layout), 700)
    K = by_definition(codes, degrees)
    np.testing.assert_allclose(found.F.T @ found.F, K, atol=1e-11)
    np.testing.assert_allclose(found.diagonal, np.diag(K), rtol=1e-12)
    a = np.random.default_rng(1).normal(size=(700, 2, 3))
    np.testing.assert_allclose(found.times(a), np.einsum("ij,jom->iom", K, a), atol=1e-9)
    assert np.linalg.matrix_rank(found.F) == len(found.F)  # no column too many


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [1, 2, 5, 6])
@pytest.mark.parametrize("rows", [4, 1021, 1022, 1023, 1024])
def test_products_with_few_columns_are_those_of_double_precision(rows, columns, dtype):
    rng = np.random.default_rng(rows)
    A, B = rng.integers(0, 1 << 20, (rows, 1300)).astype(dtype), rng.normal(size=(1300, columns))
    found = row_products._thin(A, B)
    np.testing.assert_allclose(found, A.astype(np.float64) @ B, rtol=1e-11, atol=1e-7)  # of sums of 1,300 terms of 1e6
    B[7] = np.nan
    assert np.isnan(row_products._thin(A, B)).all()


def test_a_variable_of_one_state_adds_no_effect():
    sizes = (2, 1, 3)
    codes, layout = rows_of(100, sizes), Layout.of(sizes, (1, 2))
    F = row_products._factor(codes, layout)
    assert len(F) == row_products.rank_of(layout) == 1 + 1 + 2 + 2
    np.testing.assert_allclose(F.T @ F, by_definition(codes, (1, 2)), atol=1e-12)


def test_few_rows_or_rows_with_gaps_have_no_factor():
    codes, layout = rows_of(150), Layout.of(SIZES, (1, 2))
    few = row_products.row_products(codes, layout)
    assert isinstance(few, Full)
    np.testing.assert_array_equal(few.K, by_definition(codes, (1, 2)))
    codes = rows_of(700)
    codes[3, 2] = codes[5, 2] = -1
    gaps = row_products.row_products(codes, layout)
    assert isinstance(gaps, Full)
    assert gaps.K[3, 5] == sum(math.comb(int((np.delete(codes[3], 2) == np.delete(codes[5], 2)).sum()), k) for k in (1, 2))


@pytest.mark.parametrize("factored", [True, False])
@pytest.mark.parametrize("ridge", [1.0, 0.1, 1e-3, 1e-6])  # none, fewer than columns of F, most, and nearly all rows have curvature
@pytest.mark.parametrize("m", [2, 3])
def test_inverses_are_those_of_the_curvature_of_rows_that_have_any(m, ridge, factored):
    codes, layout, rng = rows_of(300, (2,) * 8), Layout.of((2,) * 8, (1, 2)), np.random.default_rng(m)
    K = by_definition(codes, (1, 2)).astype(float)
    v = rng.uniform(0, 0.25, (300, 2)) ** 4
    form = Factored(row_products._factor(codes, layout)) if factored else Full(K.astype(np.float32))
    g = rng.normal(size=(300, 2, m - 1))
    z = form.inverse(v, ridge)(g, np.ones(2, dtype=bool))
    for o in range(2):
        seen = np.where(v[:, o] * np.diag(K) > ridge, v[:, o], 0.0)
        left = seen[:, None] * (K @ z[:, o]) + ridge * z[:, o] - g[:, o]
        np.testing.assert_allclose(left, 0, atol=1e-5 if ridge == 0.1 else 1e-7)  # the first takes single precision


def coin(l=600, n=16):
    """Labels by a coin whose bias has all pairs."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (l, n))
    S = 2 * X - 1
    return X, (S @ rng.normal(size=n) + (S @ rng.normal(size=(n, n)) * S).sum(axis=1) / 2) / 2 + rng.logistic(size=l) > 0


def ends(ridge, solver):
    X, y = coin()
    return FEM(degree=2, ridge=ridge, tol=1e-9, solver=solver, max_iter=2000).fit(X, y)


@pytest.mark.parametrize("slender", [0, math.inf], ids=["factored", "full"])
def test_a_weak_ridge_ends_at_the_optimum(monkeypatch, slender):
    """Steps in single precision were lost there, and the fit was called settled."""
    monkeypatch.setattr(row_products, "SLENDER", slender)
    for ridge in (0.1, 1e-3, 1e-4, 1e-5):
        kernel, steps = (ends(ridge, solver) for solver in ("kernel", "lbfgs"))
        assert kernel.history_[-1] == pytest.approx(steps.history_[-1], rel=1e-5)
        assert kernel.n_iter_ < 20


def test_a_ridge_that_rounding_hides_is_not_left_to_the_kernel():
    X, y = coin(200, 6)
    assert FEM(degree=2, ridge=1e-9).fit(X, y).solver_ == "lbfgs"
    with pytest.raises(ValueError, match=r'solver="kernel" needs a ridge of at least 1e-05.* got 1e-09; set ridge="auto"'):
        FEM(ridge=1e-9, solver="kernel").fit(X, y)


def test_one_output_of_many_pairs_takes_the_factor():
    """36 binary variables of 3,200 rows: some 650 effects, a fifth of the rows."""
    layout = Layout.of((2,) * 36, (1, 2))
    assert row_products.factors(3200, layout) and cheapest(3200, layout, (2,), "auto") == "kernel"
    assert cheapest(3200, layout, (2,), "auto", whole=False) != "reduced"  # which has no place for gaps
