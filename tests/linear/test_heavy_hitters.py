"""Frequent items of a large domain: who reports which prefix, what is found, with what error."""

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st

import jaxdp
from jaxdp.linear import HeavyHitters
from jaxdp.linear._items import integers_of, upper_bits
from jaxdp.randomizers import KRR, HadamardResponse, SubsetSelection
from tests import stats

SMALL = HeavyHitters(
    num_bits=12, epsilon=3.0, num_items=2, num_kept=2, num_candidates=8, oracle=KRR
)
"""Six rounds of eight candidates."""

HELD = {0xABC: 340, 0xAB0: 310, 0x001: 200, 0xFFF: 150}


def test_example_of_texts():
    protocol = HeavyHitters(num_bits=80, epsilon=4.0, num_items=3, num_candidates=64)
    users = protocol.population(["naïve"] * 5000 + [b"a"] * 100, None)
    users = protocol.population({"naïve": 60_000, "a": 30_000, "abcdefghij": 10_000})
    found = protocol.found(users, jax.random.key(3))
    assert protocol.texts(found) == ["naïve", "a", "abcdefghij"]


@hypothesis.given(st.integers(1, 1024), st.data())
def test_items_are_words_that_sort_alike(num_bits, data):
    items = data.draw(st.lists(st.integers(0, 2**num_bits - 1), min_size=1, max_size=5))
    protocol = HeavyHitters(num_bits, 1.0, num_items=1)
    words = protocol.encode(items)
    assert words.dtype == np.int32
    assert integers_of(words) == items
    order = sorted(map(tuple, words.view(np.uint32).tolist()))
    assert integers_of(np.array(order, np.uint32).view(np.int32)) == sorted(items)
    if num_bits <= 64:
        dtype = np.uint64 if num_bits == 64 else np.int64
        np.testing.assert_array_equal(protocol.encode(np.array(items, dtype)), words)


@hypothesis.given(st.integers(1, 200), st.integers(1, 100), st.integers(1, 7), st.integers(0, 3))
def test_prefixes_grow_to_whole_items(num_bits, num_items, times, more):
    kept = num_items + more
    if 2.0**num_bits < kept:
        return
    protocol = HeavyHitters(num_bits, 1.0, num_items, kept, kept * 2**times + more)
    depths = protocol.depths
    assert depths[-1] == num_bits
    assert len(set(np.diff(depths))) <= 1  # in equal steps
    assert kept <= 2 ** depths[0] <= protocol.num_candidates
    assert len(protocol.built.masks) == len(depths)


@pytest.mark.parametrize("depth", [0, 1, 5, 32, 33, 40])
def test_places_of_prefixes(depth):
    """Against a dict of prefixes; candidates behind their number are not there."""
    bits = 40
    rng = np.random.default_rng(depth)
    prefixes = np.unique(rng.integers(0, 2**depth, 20, dtype=np.uint64)) << np.uint64(bits - depth)
    protocol = HeavyHitters(bits, 1.0, num_items=4, num_candidates=32)
    listed = protocol.encode(prefixes).view(np.uint32)
    candidates = np.concatenate([listed, np.full((12, 2), 0xFFFFFFFF, np.uint32)])
    round = protocol.built.user
    round = type(round)(
        round.inner, candidates, upper_bits(bits, depth), np.asarray(len(listed), np.int32)
    )
    items = np.concatenate(
        [prefixes, rng.integers(0, 2**bits, 200, dtype=np.uint64), [2**bits - 1]]
    )
    where = {int(prefix): place for place, prefix in enumerate(prefixes)}
    shift = bits - depth
    expected = [where.get(int(x) >> shift << shift, len(candidates)) for x in items]
    found = round.encode(jnp.asarray(protocol.encode(items.astype(np.uint64))))
    np.testing.assert_array_equal(found, expected)


def test_a_domain_of_few_items_is_an_oracle(key):
    """One round, of all items: the frequencies are the oracle's."""
    protocol = HeavyHitters(3, 1.0, num_items=8, oracle=KRR)
    assert protocol.depths == (3,)
    held = {v: 100 * (v + 1) for v in range(8)}
    found = protocol.found(protocol.population(held), key, method="per_user")
    bins = jaxdp.Population.from_histogram([*held.values(), 0])
    counts = jaxdp.run(KRR(9, 1.0), bins, key, method="per_user")[:8]
    order = np.argsort(-counts)
    assert protocol.integers(found) == list(order)
    np.testing.assert_allclose(found.frequencies, counts[order] / sum(held.values()), rtol=1e-6)


@pytest.mark.parametrize("method", ["per_user", "tally"])
def test_frequencies_have_the_noise_that_is_said(method, key):
    """All items are returned: the sum of their estimates has no selection in it."""
    protocol = HeavyHitters(4, 1.0, num_items=16, oracle=HadamardResponse)
    users = protocol.population({5: 200})
    trials = jaxdp.simulate(protocol, users, key, num_trials=4000, method=method, block_size=2**11)
    assert np.all(np.diff(trials.estimates, axis=1) <= 0)
    query = np.r_[np.ones(16), 0.0][None]
    variance = HadamardResponse(17, 1.0).query_variances(query)[0, 5] / 200
    totals = (trials.estimates.sum(axis=1) - 1) / np.sqrt(variance)
    stats.check_mean(totals, 0.0, variance=1.0)
    stats.must_fail(stats.check_mean, totals, 0.5, variance=1.0)
    stats.check_variance(totals, 1.0, kurtosis=3.2)
    stats.must_fail(stats.check_variance, totals, 2.0, kurtosis=3.2)


def test_both_paths_find_the_same_in_law(key):
    """How often each item is found first, over all six rounds; a control has fewer of one."""

    def found(held, method, fold):
        users, draw = SMALL.population(held), jax.random.fold_in(key, fold)
        trials = jaxdp.simulate(
            SMALL, users, draw, num_trials=2000, method=method, block_size=2**11
        )
        assert trials.truth is not None
        # No two items have the same number of users, so their frequencies tell which they are.
        counts = np.rint(trials.truth[:, 0] * users.num_users)
        return [np.sum(counts == number) for number in (0, *held.values())]

    one, two = found(HELD, "per_user", 0), found(HELD, "tally", 1)
    stats.check_same_distribution(one, two)
    other = found({**HELD, 0xABC: 250}, "tally", 2)
    stats.must_fail(stats.check_same_distribution, one, other)
    assert np.sum(np.array(one) > 50) > 1  # of several items


def test_frequent_items_are_found_and_rare_ones_are_not(key):
    """10**9 users, a million of them with each of 64 items; noise hides what 100 users hold."""
    protocol = HeavyHitters(64, 2.0, num_items=64, num_candidates=2048, oracle=HadamardResponse)
    rng = np.random.default_rng(0)
    items = rng.integers(0, 2**64 - 1, 80, dtype=np.uint64)
    counts = np.r_[np.full(64, 10**7), np.full(16, 100)]
    users = protocol.population(items, counts)
    found = protocol.found(users, key, method="tally")
    assert set(protocol.integers(found)) == {int(x) for x in items[:64]}
    truth = 10**7 / counts.sum()
    assert truth > 10 * protocol.noise(users.num_users)
    assert np.abs(found.frequencies - truth).max() < 8 * protocol.noise(users.num_users)


def test_simulated_errors_are_about_the_items_found(key):
    users = jaxdp.Population.from_distribution(
        [0.4, 0.3, 0.2, 0.1], 10**7, values=SMALL.encode(list(HELD))
    )
    trials = jaxdp.simulate(SMALL, users, key, num_trials=20)
    assert trials.truth is not None
    np.testing.assert_allclose(trials.truth, np.tile([0.4, 0.3], (20, 1)), rtol=1e-6)
    assert np.abs(trials.errors).max() < 0.02
    sampled = jaxdp.simulate(SMALL, users, key, num_trials=20, truth="sample")
    assert sampled.truth is not None
    assert np.ptp(sampled.truth[:, 0]) > 0  # of each sample
    np.testing.assert_allclose(sampled.truth, trials.truth, atol=0.002)


def test_privacy_is_that_of_one_report():
    for make in (None, KRR, SubsetSelection):
        protocol = HeavyHitters(64, 1.5, oracle=make)
        assert protocol.exact_epsilon() == protocol.reporter.exact_epsilon() <= 1.5
        assert protocol.exact_delta() == 0
        assert protocol.reporter.num_values == protocol._size + 1


def test_one_program_serves_other_items(key, count_compilations):
    """Items and numbers of users are data: a second population of as many compiles nothing."""
    protocol = HeavyHitters(32, 2.0, num_items=2, num_candidates=16, oracle=KRR)
    protocol.found(protocol.population({1: 10, 2: 20}), key, method="tally")
    with count_compilations() as seen:
        protocol.found(protocol.population({3: 1000, 2**31: 5}), key, method="tally")
    assert seen.compiled == []


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"num_bits": 0}, "num_bits"),
        ({"num_bits": 1025}, "num_bits"),
        ({"num_bits": 2, "num_items": 5}, "num_items must be at most the 2"),
        ({"num_kept": 3}, "num_kept must be at least num_items = 4"),
        ({"num_candidates": 15}, "num_candidates must be at least 16"),
        ({"oracle": jaxdp.randomizers.Laplace}, "oracle"),
        ({"epsilon": 0.0}, "epsilon"),
    ],
)
def test_bad_fields(changed, message):
    with pytest.raises((TypeError, ValueError), match=message):
        HeavyHitters(**{"num_bits": 16, "epsilon": 1.0, "num_items": 4, **changed})


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([], "at least one item"),
        ([-1], r"in \[0, 2\*\*16\), got -1"),
        ([2**16], r"in \[0, 2\*\*16\), got 65536"),
        (np.array([1, 2**16]), r"in \[0, 2\*\*16\), got 65536"),
        ([1.5], "must be integers, or texts"),
        ([True], "must be integers, or texts"),
        ([1, "a"], "all of one kind"),
        (["abc"], "at most 2 bytes"),
        (["a\0"], "without zero bytes"),
        (np.zeros((2, 2), int), "must be a list"),
    ],
)
def test_bad_items(items, message):
    with pytest.raises((TypeError, ValueError), match=message):
        HeavyHitters(16, 1.0, num_items=4).encode(items)


def test_texts_take_whole_bytes():
    with pytest.raises(ValueError, match="multiple of 8"):
        HeavyHitters(17, 1.0, num_items=4).encode(["a"])


def test_bad_populations(key):
    protocol = HeavyHitters(40, 1.0, num_items=4)
    with pytest.raises(ValueError, match=r"population\(\.\.\.\)"):
        jaxdp.run(protocol, jaxdp.Population.from_histogram([3, 4]), key)
    with pytest.raises(ValueError, match=r"int32\[n, 2\]"):
        jaxdp.run(protocol, HeavyHitters(20, 1.0).population([3, 4]), key)
    with pytest.raises(ValueError, match=r"in \[0, 2\*\*40\)"):
        jaxdp.run(protocol, HeavyHitters(64, 1.0).population([2**50]), key)
    with pytest.raises(ValueError, match="number for each of the 2 items"):
        protocol.population([1, 2], [3])
    with pytest.raises(ValueError, match="counts must be None"):
        protocol.population({1: 2}, [3])
