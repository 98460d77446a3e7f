"""RAPPOR: filters, both randomizations, rounds, and the least-squares decoder."""

import functools
import itertools
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp.random import Count
from jaxdp.randomizers._rappor import BloomDesign, Rappor, bloom_filters, bloom_positions
from tests import stats
from tests.marks import slow


def test_hash_functions_are_fixed_distinct_and_uniform():
    """The public functions never change; 4,000 filters of 3 bits hit 16 bits evenly."""
    design = BloomDesign(1000, 4, 16, 3, seed=5)
    positions = bloom_positions(design)
    assert positions.shape == (4, 1000, 3)
    assert np.all(np.diff(positions, axis=-1) > 0)
    assert positions[:2, :3].tolist() == GOLDEN
    assert np.mean(bloom_positions(design._replace(seed=6)) == positions) < 0.5
    np.testing.assert_array_equal(bloom_filters(design).sum(axis=-1), 3)
    for slot in (positions.min(axis=-1), positions.max(axis=-1)):  # order statistics of 3 of 16
        chances = np.array([math.comb(15 - j, 2) for j in range(16)]) / math.comb(16, 3)
        seen = np.bincount(slot.ravel(), minlength=16)
        seen = seen if slot.min() == 0 else seen[::-1]
        stats.check_multinomial(seen, chances)
        stats.must_fail(stats.check_multinomial, seen, np.ones(16) / 16)


GOLDEN = [[[1, 7, 13], [5, 9, 13], [3, 4, 10]], [[0, 9, 12], [0, 9, 13], [3, 7, 10]]]


@pytest.mark.parametrize("rounds", [1, 2])
def test_every_word_of_a_small_twin(rounds):
    """Words of 3 bits, two bits and two cohorts: the joint law of all rounds, as Fractions."""
    spec = Rappor(2, 2.0, num_bits=2, num_hashes=1, num_cohorts=2, num_rounds=rounds, seed=1)
    params = spec.build(3)
    number = np.arange(8**params.num_words, dtype=np.uint32)[:, None]
    words = number >> 3 * np.arange(params.num_words, dtype=np.uint32) & 7
    send = jax.jit(jax.vmap(params.from_bits, in_axes=(0, None)))
    place = 4 ** np.arange(rounds, -1, -1)  # distinct numbers of reports: 2 bits an entry
    listed = spec.reports() @ place
    assert len(set(listed.tolist())) == len(listed) == 2 * 4**rounds
    for value, row in enumerate(spec.channel(3)):
        sent = np.asarray(send(jnp.asarray(words), jnp.int32(value))) @ place
        seen = np.bincount(sent, minlength=2 * 4**rounds)[listed].tolist()
        assert [Fraction(n, len(words)) for n in seen] == row


@pytest.mark.parametrize(("hashes", "rounds"), [(1, 1), (1, 3), (2, 1), (2, 2)])
def test_epsilon_of_reports_is_the_worst_ratio(hashes, rounds):
    """Two values without a common bit, in the one cohort: every report listed."""
    bits = 2 * hashes
    spec = disjoint(hashes, rounds)
    assert 2**bits <= len(spec.reports())
    worst = max(
        a / b for column in zip(*spec.channel(), strict=True) for a in column for b in column
    )
    exact = spec.report_epsilon(rounds)
    assert exact == pytest.approx(math.log(worst), rel=1e-12)
    assert math.log(worst) <= exact < spec.exact_epsilon() <= spec.epsilon


def disjoint(hashes: int, rounds: int) -> Rappor:
    """The first seed whose two filters, in one cohort of 2 h bits, have no common bit."""
    for seed in range(100):
        design = BloomDesign(2, 1, 2 * hashes, hashes, seed)
        if np.all(bloom_filters(design).sum(axis=1) == 1):
            return Rappor(
                2,
                2.0,
                num_bits=2 * hashes,
                num_hashes=hashes,
                num_cohorts=1,
                num_rounds=rounds,
                seed=seed,
            )
    raise AssertionError("no two disjoint filters")


def test_epsilon_formulas_of_the_paper():
    """f = 1/2, p = 1/2, q = 3/4, h = 2: the longitudinal limit, and one report below it."""
    epsilon = 2 * 2 * math.log((2 - 0.5) / 0.5)
    spec = Rappor(10, epsilon, num_bits=16)
    assert spec.f == pytest.approx(0.5, abs=1e-8)
    assert spec.exact_epsilon() == pytest.approx(epsilon, abs=1e-8)
    q, p = 0.25 * (0.5 + 0.75) + 0.5 * 0.75, 0.25 * (0.5 + 0.75) + 0.5 * 0.5
    assert [float(x) for x in spec.probabilities()] == pytest.approx([q, p])
    single = 2 * math.log(q * (1 - p) / (p * (1 - q)))
    assert spec.report_epsilon() == pytest.approx(single, abs=1e-8)
    rounds = [spec.report_epsilon(r) for r in (1, 2, 5, 20, 50)]
    assert all(a < b for a, b in itertools.pairwise([*rounds, spec.exact_epsilon()]))
    assert spec.exact_epsilon() - spec.report_epsilon(400) < 1e-9


@pytest.mark.parametrize("rounds", [1, slow(2)])
def test_decoder_is_unbiased_of_the_predicted_covariance(rounds):
    """All reports of one user, two hashes: mean, variance and covariance of the estimate."""
    spec = Rappor(3, 2.0, num_bits=4, num_cohorts=4, num_rounds=rounds, p=0.1, q=0.8)
    params = spec.build()
    mask = jnp.ones(1, bool)
    tallies = jax.vmap(lambda r: params.tally(r[None], mask))(jnp.asarray(spec.reports()))
    with jax.enable_x64(True):
        decoded = np.asarray(jax.vmap(params.estimate)(tallies))
    for value, row in enumerate(spec.channel()):
        chances = np.array([float(p) for p in row])
        mean = chances @ decoded
        np.testing.assert_allclose(mean, np.eye(3)[value], atol=1e-9)
        second = np.einsum("r,ri,rj->ij", chances, decoded - mean, decoded - mean)
        np.testing.assert_allclose(spec.covariance(value), second, rtol=1e-9)
        one = np.eye(3, dtype=int)[value]
        np.testing.assert_allclose(spec.variance(one), np.diag(second), rtol=1e-9)
        assert np.all(spec.variance(one) <= spec.worst_case_variance(1))


@pytest.mark.parametrize("cohorts", [2, 32])
def test_rounds_are_sums_and_masked_users_do_not_count(cohorts, rng):
    spec = Rappor(3, 2.0, num_bits=36, num_hashes=1, num_cohorts=cohorts, num_rounds=3)
    bits = rng.integers(0, 2, size=(200, 3, 36)).astype(np.uint8)
    packed = np.packbits(np.pad(bits, ((0, 0), (0, 0), (0, 28))), axis=-1, bitorder="little")
    cohort = rng.integers(0, cohorts, size=(200, 1)).astype(np.uint32)
    reports = np.concatenate([cohort, packed.view(np.uint32).reshape(200, 6)], axis=1)
    mask = rng.random(200) < 0.5
    tally = spec.build().tally(jnp.asarray(reports), jnp.asarray(mask))
    for c in range(cohorts):
        mine = mask & (cohort[:, 0] == c)
        np.testing.assert_array_equal(tally["ones"].numpy()[c], bits[mine].sum((0, 1)))
        assert int(tally["users"][c]) == mine.sum()


@pytest.mark.slow
def test_sampled_tally_at_a_billion_users_and_three_rounds(key, rng):
    """Twelve values in four cohorts; power 0.999 for an offset of 0.25 deviations, or 30 %."""
    spec = Rappor(12, 4.0, num_bits=16, num_cohorts=4, num_rounds=3)
    counts = rng.multinomial(10**9, rng.dirichlet(np.ones(12)))
    params = spec.build()
    draw = jax.jit(jax.vmap(lambda k: params.estimate(params.sample_tally(k, Count.of(counts)))))
    errors = np.asarray(draw(jax.random.split(key, 2000)), np.float64) - counts
    centred = errors / np.sqrt(spec.variance(counts))
    stats.check_mean(centred, 0.0, variance=1.0)
    stats.check_variance(centred, 1.0, mean=0.0, kurtosis=3.1)
    stats.must_fail(stats.check_mean, centred + 0.3, 0.0, variance=1.0)
    stats.must_fail(stats.check_variance, 1.3 * centred, 1.0, mean=0.0, kurtosis=3.1)


@pytest.mark.slow
def test_a_million_users_and_a_thousand_values(key, rng):
    """Each of 1024 counts; power 0.999 for an offset of 0.23 deviations, a variance off by 0.44."""
    spec = Rappor(1024, 4.0, num_bits=128, num_cohorts=16)
    counts = rng.multinomial(10**6, rng.dirichlet(np.ones(1024)))
    population = jaxdp.Population.from_histogram(counts)
    estimates = jaxdp.simulate(spec, population, key, num_trials=3000, method="tally").estimates
    errors = (estimates - counts) / np.sqrt(spec.variance(counts))
    check = functools.partial(stats.check_variance, variance=1.0, mean=0.0, kurtosis=3.1)
    stats.check_mean(errors, 0.0, variance=1.0)
    check(errors)
    stats.must_fail(stats.check_mean, errors + 0.25, 0.0, variance=1.0)
    stats.must_fail(check, 1.25 * errors)


def test_values_that_filters_do_not_tell_apart():
    with pytest.raises(ValueError, match=r"num_bits = 4 in 1 cohorts do not tell 5 values apart"):
        Rappor(5, 2.0, num_bits=4, num_hashes=1, num_cohorts=1)
