"""Exact contracts of finite channels: no randomness, no tolerance on probabilities."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp.random import Count
from jaxdp.randomizers._exact import exp_lower
from tests.contracts.registry import RANDOMIZERS, Case, ids

FINITE = [
    pytest.param(case, epsilon, id=f"{case.name}-{epsilon:g}")
    for case in RANDOMIZERS
    if case.finite
    for epsilon in case.epsilons
]


def channel_of(spec, case: Case, word_bits: int) -> list[list[Fraction]]:
    if case.values is None:
        return spec.channel(word_bits)
    return spec.channel(word_bits, inputs=case.inputs)


@pytest.mark.parametrize(("case", "epsilon"), FINITE)
@pytest.mark.parametrize("word_bits", [8, 32])
def test_channel_is_stochastic_and_private(case, epsilon, word_bits):
    spec = case.make(epsilon)
    channel = channel_of(spec, case, word_bits)
    assert all(sum(row) == 1 for row in channel)
    assert worst_ratio(channel) <= exp_lower(epsilon)
    assert spec.exact_epsilon(word_bits) <= epsilon
    assert float(worst_ratio(channel)) <= np.exp(spec.exact_epsilon(word_bits)) * (1 + 1e-12)


def worst_ratio(channel: list[list[Fraction]]) -> Fraction:
    return max(max(column) / min(column) for column in zip(*channel, strict=True))


@pytest.mark.parametrize(("case", "epsilon"), FINITE)
def test_budget_is_spent(case, epsilon):
    """With words of 32 bits little of epsilon is lost to rounding."""
    assert case.make(epsilon).exact_epsilon() > 0.999 * epsilon


def reports_of(spec, num_reports: int) -> np.ndarray:
    """The report of each column of the channel."""
    return np.asarray(spec.reports()) if hasattr(spec, "reports") else np.arange(num_reports)


def decoded_reports(spec, num_reports: int) -> np.ndarray:
    """The estimate from each report of a single user."""
    params = spec.build()
    reports = jnp.asarray(reports_of(spec, num_reports))
    mask = jnp.ones(1, bool)
    tallies = jax.jit(jax.vmap(lambda report: params.tally(report[None], mask)))(reports)
    with jax.enable_x64(True):
        return np.asarray(jax.jit(jax.vmap(params.estimate))(jax.tree.map(Count.of, tallies)))


ENUMERABLE = [c for c in RANDOMIZERS if c.finite and c.make(1.0).build().num_words <= 2]


@pytest.mark.parametrize("case", ENUMERABLE, ids=ids)
def test_from_bits_enumerated_is_the_channel(case):
    """All words of an 8-bit twin, for every input: the channel exactly."""
    spec = case.make(1.0)
    params = spec.build(word_bits=8)
    channel = channel_of(spec, case, 8)
    order = {report.tobytes(): j for j, report in enumerate(reports_of(spec, len(channel[0])))}
    axes = [np.arange(256, dtype=np.uint32)] * params.num_words
    every_word = jnp.asarray(np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, params.num_words))
    kind = next(iter(reports_of(spec, len(channel[0])))).dtype
    enumerate_words = jax.jit(jax.vmap(params.from_bits, in_axes=(0, None)))
    for value, row in zip(case.user_values(), channel, strict=True):
        reports = enumerate_words(every_word, value)
        rows = np.asarray(reports).astype(kind)
        seen = np.bincount([order[report.tobytes()] for report in rows], minlength=len(row))
        assert [Fraction(int(count), len(every_word)) for count in seen] == row


LAWS = [c for c in RANDOMIZERS if c.finite and hasattr(c.make(1.0).build(), "report_law")]


@pytest.mark.parametrize("case", LAWS, ids=ids)
def test_law_of_a_drawn_users_report_is_the_channels(case):
    spec, prior = case.make(1.0), np.asarray(case.counts) / sum(case.counts)
    channel = np.array(channel_of(spec, case, 32), np.float64)
    with jax.enable_x64(True):
        law = np.asarray(spec.build().report_law(jnp.asarray(prior)))
    np.testing.assert_allclose(law / law.sum(), prior @ channel, rtol=1e-12)
    assert np.abs(law / law.sum() - channel[0]).max() > 1e-3  # not that of any users


def test_enumeration_catches_a_biased_choice():
    """Negative control: `word % k` on 256 words is not uniform on 3 values."""
    seen = np.bincount(np.arange(256) % 3)
    assert [Fraction(int(c), 256) for c in seen] != [Fraction(1, 3)] * 3


def test_privacy_check_catches_thresholds_one_too_high():
    """Negative control: k-RR with one more word for the truth and one less for a lie."""
    space, lie = 2**32, case_lie(3, 1.0) - 1
    keep = space - 2 * lie
    assert Fraction(keep, lie) > exp_lower(1.0)


def case_lie(num_values: int, epsilon: float) -> int:
    """The smallest number of words of each lie that epsilon allows, found independently."""
    lie = 1
    while 2**32 - (num_values - 1) * lie > exp_lower(epsilon) * lie:
        lie *= 2
    low = lie // 2
    while lie - low > 1:
        middle = (low + lie) // 2
        if 2**32 - (num_values - 1) * middle > exp_lower(epsilon) * middle:
            low = middle
        else:
            lie = middle
    return lie


@pytest.mark.parametrize(("case", "epsilon"), FINITE)
def test_estimator_inverts_the_channel(case, epsilon):
    """The mean of one user's estimate over its reports is the user's own target."""
    spec = case.make(epsilon)
    channel = channel_of(spec, case, 32)
    decoded = decoded_reports(spec, len(channel[0]))
    for index, row in enumerate(channel):
        mean = np.tensordot(np.array([float(p) for p in row]), decoded, axes=1)
        alone = np.zeros(len(channel), np.int64)
        alone[index] = 1
        target = spec.truth(alone, case.inputs)
        np.testing.assert_allclose(mean, target, rtol=2**-24, atol=1e-9)


@pytest.mark.parametrize(("case", "epsilon"), FINITE)
def test_variance_is_that_of_the_channel(case, epsilon):
    """For a single user, `variance` is the second moment of the enumerated estimate."""
    spec = case.make(epsilon)
    channel = channel_of(spec, case, 32)
    decoded = decoded_reports(spec, len(channel[0]))
    for index, row in enumerate(channel):
        alone = np.zeros(len(channel), np.int64)
        alone[index] = 1
        target = spec.truth(alone, case.inputs)
        second = np.tensordot(np.array([float(p) for p in row]), (decoded - target) ** 2, axes=1)
        np.testing.assert_allclose(spec.variance(alone, case.inputs), second, rtol=1e-6, atol=1e-9)
        assert np.all(second <= spec.worst_case_variance(1) * (1 + 1e-12) + 1e-12)


@pytest.mark.parametrize(("case", "epsilon"), FINITE)
def test_covariance_is_that_of_the_channel(case, epsilon):
    spec = case.make(epsilon)
    if not hasattr(spec, "covariance"):
        assert np.ndim(spec.truth(case.counts, case.inputs)) == 0, "an oracle owes a covariance"
        return
    channel = channel_of(spec, case, 32)
    decoded = decoded_reports(spec, len(channel[0]))
    for value, row in zip(case.user_values(), channel, strict=True):
        p = np.array([float(x) for x in row])
        centred = decoded - p @ decoded
        expected = np.einsum("r,ri,rj->ij", p, centred, centred)
        found = spec.covariance(value)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7 * np.abs(expected).max())
