"""Norm-Sub and Base-Cut: by their definitions, as projections, and how much they gain."""

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import strategies as st

from jaxdp.randomizers import UnaryEncoding
from jaxdp.reports import base_cut, norm_sub
from tests import stats


def by_definition(counts, num_users):
    """Norm-Sub as the paper words it: negative counts become 0, the others share what is off."""
    counts = np.array(counts, np.longdouble)
    positive = np.ones(counts.size, bool)
    while True:
        shift = (num_users - counts[positive].sum()) / positive.sum()
        moved = np.where(positive, counts + shift, 0)
        if (moved >= 0).all():
            return moved
        positive &= moved > 0


@pytest.mark.parametrize("x64", [False, True])
def test_norm_sub_is_what_the_paper_says_and_the_projection(rng, x64):
    counts = rng.normal(0, 300, (5, 40))
    counts[:, :3] += 2000
    users = np.array([100.0, 4000.0, 6000.0, 6000.0, 1e6])
    with jax.enable_x64(x64):
        got = norm_sub(counts, users)
    assert got.dtype == (np.float64 if x64 else np.float32)
    expected = np.array([by_definition(row, n) for row, n in zip(counts, users, strict=True)])
    np.testing.assert_allclose(got, expected, atol=1e-9 if x64 else 0.1, rtol=1e-6)


@hypothesis.given(
    counts=st.lists(st.floats(-1e4, 1e4, width=32), min_size=7, max_size=7),
    truth=st.lists(st.integers(0, 1000), min_size=7, max_size=7),
    order=st.permutations(range(7)),
)
def test_properties_of_norm_sub(counts, truth, order):
    hypothesis.assume(sum(truth) > 0)
    users, counts = float(sum(truth)), np.array(counts)
    got = np.asarray(norm_sub(counts, users))
    slack = 1e-3 + 1e-5 * np.abs(counts).max()
    assert (got >= 0).all()
    assert abs(got.sum() - users) <= slack
    np.testing.assert_allclose(norm_sub(got, users), got, atol=slack)
    np.testing.assert_allclose(norm_sub(counts[order], users), got[order], atol=slack)
    # No farther from any counts that could be the true ones.
    assert np.linalg.norm(got - truth) <= np.linalg.norm(counts - truth) + slack


def test_base_cut_leaves_what_is_above_the_quantile(rng):
    counts, stderr = rng.normal(0, 100, (3, 200)), np.array([[30.0], [60.0], [90.0]])
    for alpha in (1e-6, 0.05, 2.0, 150.0):
        threshold = scipy.stats.norm.isf(alpha / 200) * stderr
        with jax.enable_x64(True):
            got = base_cut(counts, stderr, alpha=alpha)
        np.testing.assert_array_equal(got, np.where(counts > threshold, counts, 0))
    np.testing.assert_array_equal(base_cut([1, -1, 5], 0.0), [1, 0, 5])


def test_base_cut_lets_few_false_values_pass(rng):
    noise = rng.normal(0, 50, (20_000, 10))
    passed = np.any(np.asarray(base_cut(noise, 50.0, alpha=0.1)) > 0, axis=1)
    stats.check_proportion(passed.sum(), passed.size, 0.1, at_most=True)
    narrow = np.any(np.asarray(base_cut(noise, 40.0, alpha=0.1)) > 0, axis=1)
    stats.must_fail(stats.check_proportion, narrow.sum(), narrow.size, 0.1, at_most=True)


def test_inside_of_jit_and_vmap(rng):
    counts = rng.normal(0, 100, (4, 3, 9)).astype(np.float32)
    users, stderr = np.float32(500), np.full(9, 40, np.float32)
    whole = norm_sub(counts, users), base_cut(counts, stderr)

    @jax.jit
    @jax.vmap
    def both(row):
        return norm_sub(row, users), base_cut(row, stderr)

    for got, expected in zip(both(counts), whole, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-3)
    traced = jax.jit(norm_sub)(counts, users)
    np.testing.assert_allclose(traced, whole[0], rtol=1e-5, atol=1e-3)
    held = jnp.asarray(counts)  # that a trace closes over
    traced = jax.jit(lambda total: norm_sub(held, total))(users)
    np.testing.assert_allclose(traced, whole[0], rtol=1e-5, atol=1e-3)


def test_the_derivative_of_norm_sub():
    counts = jnp.array([70.0, 40.0, -5.0, -25.0])
    jacobian = jax.jacobian(lambda x: norm_sub(x, 80.0))(counts)
    expected = np.zeros((4, 4))
    expected[:2, :2] = [[0.5, -0.5], [-0.5, 0.5]]
    np.testing.assert_allclose(jacobian, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: norm_sub([1.0, np.nan], 3), "counts must be finite"),
        (lambda: norm_sub(1.0, 3), r"counts must have shape \[\.\.\., k\]"),
        (lambda: norm_sub(np.zeros((2, 0)), 3), r"counts must have shape \[\.\.\., k\]"),
        (lambda: norm_sub([1.0, 2.0], 0), "num_users must be > 0 and at most"),
        (lambda: norm_sub([1.0, 2.0], np.inf), "num_users must be > 0 and at most"),
        (
            lambda: norm_sub(np.zeros((2, 3)), [1, 2, 3]),
            r"num_users must be a number, or an array that broadcasts to \(2,\)",
        ),
        (lambda: base_cut([1.0, np.inf], 1.0), "counts must be finite"),
        (lambda: base_cut([1.0, 2.0], -1.0), "stderr must be >= 0 and at most"),
        (lambda: base_cut([1.0, 2.0], 1.0, alpha=0), "alpha must be"),
        (lambda: base_cut([1.0, 2.0], 1.0, alpha=2), "alpha must be"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_arrays_of_no_numbers_are_refused():
    with pytest.raises(TypeError, match="counts must be an array of real numbers"):
        norm_sub(["a", "b"], 3)
    with pytest.raises(TypeError, match="counts must be an array of real numbers"):
        base_cut(np.array([1j, 2]), 3)
    with pytest.raises(TypeError, match="num_users must be real numbers"):
        norm_sub([1.0, 2.0], "many")


def test_norm_sub_has_a_third_of_the_error(rng):
    """On 1,000 values of Zipf's law, 50,000 users, epsilon = 1: measured 3.26 times."""
    trials, users = 40, 50_000
    shares = 1 / np.arange(1, 1001)
    counts = np.floor(users * shares / shares.sum()).astype(np.int64)
    counts[0] += users - counts.sum()
    p, q = (float(x) for x in UnaryEncoding(1000, 1.0).probabilities())
    # The bits of a report are independent.
    size = (trials, 1000)
    support = rng.binomial(counts, p, size) + rng.binomial(users - counts, q, size)
    raw = (support - users * q) / (p - q)
    projected = np.asarray(norm_sub(raw, users), np.float64)
    before, after = (np.square(x - counts).mean(axis=1) for x in (raw, projected))
    # In at least half of all trials; it is nearly all of them, and 4 times in nearly none.
    stats.check_proportion(np.sum(before < 3**2 * after), trials, 0.5, at_most=True)
    few = np.sum(before < 4**2 * after)
    stats.must_fail(stats.check_proportion, few, trials, 0.5, at_most=True)
