"""Channels from tables: rounding that keeps the privacy, bisection, decoders."""

from fractions import Fraction

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st

import jaxdp
from jaxdp.random import AliasTable
from jaxdp.randomizers import KRR, SubsetSelection
from jaxdp.randomizers._exact import exp_lower, log_upper
from jaxdp.randomizers._finite_channel import FiniteChannel
from tests.marks import slow
from tests.tables import drawn_at_thresholds, rebuilt


def private_table(rng, k, m, epsilon):
    """Random rows in [z, e**epsilon z] of sum 1: the rows that miss the sum move along a line."""
    least = rng.dirichlet(np.full(m, 0.3)) + 1e-7
    high = np.exp(epsilon)
    least /= least.sum() * rng.uniform(1.2, high / 1.2 if high > 1.44 else 1.2)
    share = rng.integers(0, 2, (k, m)) * rng.uniform(0, 1, (k, m)) ** 0.1
    need = (1 - least.sum()) / (high - 1)
    for row in share:
        have = row @ least
        row[:] = (
            row * need / have
            if have > need
            else 1 - (1 - row) * (least.sum() - need) / (least.sum() - have)
        )
    return least * (1 + (high - 1) * share)


@hypothesis.settings(max_examples=30)
@hypothesis.given(
    k=st.integers(2, 40),
    m=st.integers(2, 200),
    epsilon=st.floats(0.5, 8.0),
    bits=st.sampled_from([16, 32]),
    seed=st.integers(0, 2**32 - 1),
)
def test_rounding_is_private_exact_and_near(k, m, epsilon, bits, seed):
    """Rows add up to all words, ratios are at most e**epsilon, entries move by a few words."""
    table = private_table(np.random.default_rng(seed), k, m, epsilon)
    spec = FiniteChannel(table, epsilon)
    weights = spec.weights(bits)
    assert np.all(weights.sum(axis=1) == 2**bits)
    extremes = zip(weights.max(axis=0).tolist(), weights.min(axis=0).tolist(), strict=True)
    assert all(high <= exp_lower(epsilon) * low for high, low in extremes)
    assert spec.exact_epsilon(bits) <= epsilon
    assert np.abs(weights - table * 2**bits).max() <= 2 * np.exp(epsilon) + 2


def test_plain_rounding_is_not_private():
    """Negative control: entries rounded one by one exceed epsilon for some tables."""

    def ratio(k):
        row = np.rint(np.array([np.e, 1.0]) / (np.e + k - 1) * 2**32).astype(np.int64)
        return Fraction(int(row[0]), int(row[1]))

    assert any(ratio(k) > exp_lower(1.0) for k in range(2, 12))


def test_integer_weights_are_taken_as_they_are():
    weights = np.array([[3, 1, 4], [2, 4, 2]])
    spec = FiniteChannel(weights)
    np.testing.assert_array_equal(spec.weights(32), weights * 2**29)
    np.testing.assert_array_equal(spec.weights(8), weights * 2**5)
    assert spec.exact_epsilon() == log_upper(Fraction(4))
    thirds = FiniteChannel([[2, 1], [1, 2]])
    assert np.abs(thirds.weights(32) - np.array([[2, 1], [1, 2]]) * 2**32 / 3).max() < 1


@pytest.mark.parametrize("oracle", [KRR(6, 1.0), SubsetSelection(6, 1.0)], ids=["krr", "subset"])
def test_the_channel_of_an_oracle_has_its_variance(oracle):
    """Weighted least squares is what these oracles do: they are invariant under permutations."""
    table = np.array(oracle.channel(), np.float64)
    table = table[:, table.min(axis=0) > 1e-8]  # without the report that says nothing
    spec = FiniteChannel(table / table.sum(axis=1, keepdims=True), 1.0 + 1e-6)
    counts = [100, 0, 200, 300, 0, 50]
    np.testing.assert_allclose(spec.variance(counts), oracle.variance(counts), rtol=1e-6)
    np.testing.assert_allclose(spec.covariance(2), oracle.covariance(2), rtol=1e-6, atol=1e-7)


def test_the_decoder_is_optimal(rng):
    """Any other unbiased decoder has a larger sum of variances for users spread evenly."""
    spec = FiniteChannel(private_table(rng, 5, 12, 1.0), 1.0)
    law, decoder = spec.weights() / 2.0**32, spec.decoder()
    assert decoder is not None
    np.testing.assert_allclose(decoder @ law.T, np.eye(5), atol=1e-12)
    null = np.linalg.svd(law)[2][5:]
    best = np.sum(np.square(decoder) @ law.mean(axis=0))
    for _ in range(20):
        other = decoder + 0.1 * rng.normal(size=(5, 7)) @ null
        np.testing.assert_allclose(other @ law.T, np.eye(5), atol=1e-12)
        assert np.sum(np.square(other) @ law.mean(axis=0)) > best


@pytest.mark.parametrize("m", [slow(2), 8, slow(513)])
def test_each_report_has_its_words(m, rng):
    """Each row's table holds the row's weights, and draws at both ends of every column's words."""
    spec = FiniteChannel(private_table(rng, 3, m, 2.0), 2.0)
    params = spec.build()
    for value, weights in enumerate(spec.weights()):
        table = AliasTable(params.alias.packed[value], None)
        assert rebuilt(table, 32)[:m] == weights.tolist()
        words, expected = drawn_at_thresholds(table, 32)
        found = jax.vmap(params.from_bits, (0, None))(words[:, None], jnp.int32(value))
        np.testing.assert_array_equal(found, expected)


def test_a_channel_without_inverse_samples_but_does_not_estimate():
    """Three values, two reports: counts are not determined."""
    spec = FiniteChannel([[3, 1], [1, 3], [2, 2]])
    assert spec.decoder() is None
    users = jaxdp.Population.from_histogram([5, 6, 7])
    for call in (
        lambda: spec.variance([5, 6, 7]),
        lambda: spec.worst_case_variance(10),
        lambda: spec.covariance(0),
        lambda: jaxdp.run(spec, users, jax.random.key(0)),
    ):
        with pytest.raises(ValueError, match="table does not determine"):
            call()
    assert int(spec.build().from_bits(jnp.zeros(1, jnp.uint32), jnp.int32(1))) == 0


def test_the_decoder_keeps_its_precision_inside_jit():
    """Two float32 make 48 bits: float32 alone would be a relative 6e-8 off."""
    spec = FiniteChannel([[5, 3], [3, 5]])
    big = jaxdp.random.Count.of(np.array([5 * 2**49, 3 * 2**49]))
    estimate = jax.jit(lambda p, t: p.estimate(t))
    with jax.enable_x64(True):
        found = np.asarray(estimate(spec.build(), big))
    np.testing.assert_allclose(found, [2**52, 0], rtol=1e-12, atol=2**52 * 1e-12)


def test_values_outside_of_the_domain_are_clamped():
    params = FiniteChannel([[3, 1], [1, 3]]).build()
    words = jnp.arange(0, 2**32, 2**24, dtype=jnp.uint32)[:, None]
    report = jax.vmap(params.from_bits, in_axes=(0, None))
    for outside, edge in ((7, 1), (-5, 0), (2**31 - 1, 1), (-(2**31), 0)):
        np.testing.assert_array_equal(
            report(words, jnp.int32(outside)), report(words, jnp.int32(edge))
        )


def test_words_too_short_for_the_table_are_refused():
    spec = FiniteChannel(np.full((2, 300), 1 / 300), 1.0)
    assert spec.weights(16).sum() == 2**17
    with pytest.raises(ValueError, match=r"300 reports.*words of 8 bits"):
        spec.weights(8)
