"""Clamped geometric noise: the channel exactly, the decoder, and the tallies."""

import math
from fractions import Fraction

import jax
import numpy as np
import pytest

from jaxdp._contract import Independent
from jaxdp.random import Count
from jaxdp.randomizers._discrete_laplace import DiscreteLaplace, _scores, _worst_ratio
from jaxdp.randomizers._exact import exp_lower, log_upper
from jaxdp.testing import CHECKS, Subject
from tests import stats

SPECS = [
    DiscreteLaplace(0, 1, 1.0),
    DiscreteLaplace(-3, 1, 0.5),
    DiscreteLaplace(0, 5, 8.0),
    DiscreteLaplace(0, 3, 20.0),
    DiscreteLaplace(10**15, 10**15 + 40, 2.0),
]
each_spec = pytest.mark.parametrize("spec", SPECS, ids=lambda s: f"{s.num_values}-{s.epsilon:g}")


@each_spec
def test_privacy_over_all_pairs_of_inputs(spec):
    channel = spec.channel()
    worst = max(max(column) / min(column) for column in zip(*channel, strict=True))
    assert all(min(row) > 0 and sum(row) == 1 for row in channel)
    assert worst <= exp_lower(spec.epsilon)
    assert spec.exact_epsilon() == log_upper(worst)
    assert spec.exact_epsilon() > 0.999 * spec.epsilon


def test_budget_of_long_ranges():
    for spec in (DiscreteLaplace(0, 1000, 1.0), DiscreteLaplace(0, 2047, 6.0)):
        assert (1 - 1e-6) * spec.epsilon < spec.exact_epsilon() <= spec.epsilon


def test_thresholds_that_are_not_private_are_caught():
    """Negative control: a little less noise, and noise whose tail ends within the range."""
    tails = SPECS[1]._tails(32)
    assert _worst_ratio(tails, 32) <= exp_lower(0.5)
    assert _worst_ratio((tails * 0.9999).astype(np.int64), 32) > exp_lower(0.5)
    assert _worst_ratio(np.append(tails[:-1], 0), 32) == 0


@each_spec
def test_decoder_has_no_bias(spec):
    """E[f(y) | x] = x in rational arithmetic, up to the float64 of f."""
    scores = [Fraction(s) for s in _scores(spec.num_values - 1, spec.epsilon, 32).tolist()]
    for x, row in enumerate(spec.channel()):
        mean = sum(p * s for p, s in zip(row, scores, strict=True))
        assert abs(float(mean - x)) < 1e-12 * float(max(scores))
    built = spec.build().scores.astype(np.float64).sum(axis=0)
    np.testing.assert_allclose(built, [float(s) for s in scores], rtol=1e-13, atol=1e-13)


def test_decoder_of_ideal_noise():
    """y inside of the range, and at the ends what clamping cut off on average."""
    spec = DiscreteLaplace(0, 40, 2.0)
    ideal = np.arange(41.0)
    ideal[[0, -1]] += np.array([-1, 1]) / math.expm1(2.0 / 40)
    np.testing.assert_allclose(_scores(40, 2.0, 32), ideal, atol=1e-4)
    decay = math.exp(-2.0 / 40)
    assert spec.worst_case_variance(1) < 0.85 * 2 * decay / (1 - decay) ** 2


def test_variance_by_enumeration():
    spec = DiscreteLaplace(-3, 1, 0.5)
    scores = _scores(4, 0.5, 32)
    for x, row in enumerate(spec.channel()):
        p = np.array([float(q) for q in row])
        np.testing.assert_allclose(spec.variance(np.eye(5, dtype=int)[x]), p @ (scores - x) ** 2)
    counts = np.array([3, 0, 1, 2, 4])
    each = np.array([float(spec.variance(row)) for row in np.eye(5, dtype=int)])
    np.testing.assert_allclose(spec.variance(counts), counts @ each / 100)
    np.testing.assert_allclose(spec.worst_case_variance(7), each.max() / 7)


@pytest.mark.slow
@pytest.mark.parametrize("iid", [False, True])
def test_tallies_of_a_trillion_users(iid, key):
    """Every report's count, from a range long enough for several chunks of multinomials."""
    spec, n = DiscreteLaplace(0, 299, 3.0), 10**12
    channel = np.array([[float(p) for p in row] for row in spec.channel()])
    values = np.zeros(300, np.int64)
    values[[0, 7, 150, 299]] = [n // 2, n // 4, n // 8, n // 8]
    params = spec.build()
    users = Independent(Count.of(np.int64(n)), Count.of(values // 2**12))

    @jax.jit
    @jax.vmap
    def draw(key):
        if iid:
            return params.law.independent(key, users)
        return params.sample_tally(key, Count.of(values))

    tally = draw(key[None])[0].numpy()
    assert tally.sum() == n
    expected = values @ channel
    spread = expected - (values @ channel**2 if not iid else expected**2 / n)
    z = (tally - expected) / np.sqrt(spread)
    assert np.all(np.abs(z) < 9)  # a normal is beyond with probability 2e-19
    assert 0.5 < np.mean(z**2) < 1.7  # 300 terms: beyond with probability 1e-9
    wrong = np.roll(tally, 1) - expected
    assert np.any(np.abs(wrong / np.sqrt(spread)) > 9)


def test_law_of_a_report(key):
    spec, draws = DiscreteLaplace(0, 100, 2.0), 100_000
    privatize = jax.jit(jax.vmap(spec.build().privatize, in_axes=(0, None)))
    report = np.asarray(privatize(jax.random.split(key, draws), np.int32(30)))
    counts = np.bincount(report, minlength=101)
    stats.check_multinomial(counts, [float(p) for p in spec.channel()[30]])
    stats.must_fail(stats.check_multinomial, counts, [float(p) for p in spec.channel()[33]])


def test_values_outside_are_clamped():
    params = DiscreteLaplace(5, 9, 1.0).build()
    words = np.arange(0, 2**32, 2**24, dtype=np.uint32)[:, None]
    report = jax.jit(jax.vmap(params.from_bits, in_axes=(0, None)))
    for outside, edge in ((7, 4), (-5, 0), (2**31 - 1, 4), (-(2**31), 0)):
        np.testing.assert_array_equal(
            report(words, np.int32(outside)), report(words, np.int32(edge))
        )


@pytest.mark.parametrize(("high", "epsilon"), [(3, 1e-5), (3, 1e-4), (4, 25.0), (2000, 30.0)])
def test_what_32_bits_cannot_tell_apart(high, epsilon):
    with pytest.raises(ValueError, match=r"words of 32 bits.* about [\d.e-]+ to [\d.]+, got"):
        DiscreteLaplace(0, high, epsilon)


def test_chunks_of_inputs_are_drawn_independently(monkeypatch):
    """Long ranges are drawn some inputs at a time; here one at a time."""
    monkeypatch.setattr("jaxdp.randomizers._discrete_laplace._CHUNK", 1)
    spec = DiscreteLaplace(0, 5, 1.0)
    subject = Subject(spec, np.full(6, 200), None, jax.random.key(12), num_trials=1000)
    CHECKS["variance_is_as_predicted"](subject, methods=("tally",))
