"""Random groups, orders and pairs of users: exact bookkeeping, and the law of the counts."""

import itertools

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp import Population
from jaxdp.random import Count
from tests import stats
from tests.engine.probes import Visits, mesh_of
from tests.marks import slow

COUNTS = np.array([7, 0, 12, 6])
KINDS = ["array", "histogram", "distribution"]


def population_of(kind, key) -> Population:
    n = int(COUNTS.sum())
    if kind == "array":
        return Population.from_values(np.repeat(np.arange(4), COUNTS), num_values=4)
    if kind == "histogram":
        return Population.from_histogram(COUNTS)
    return Population.from_distribution(COUNTS / n, n).bind(key)


@pytest.mark.parametrize("kind", KINDS)
def test_groups_are_disjoint_and_exhaustive(kind, key):
    population = population_of(kind, key)
    groups = population.split(key, [0.2, 0.5, 0.3])
    members = []
    for group in groups:
        values, mask = group.block(Count.of(0), 25)
        np.testing.assert_array_equal(values, population.at(range(25)))
        members.append(np.asarray(mask))
    np.testing.assert_array_equal(np.sum(members, axis=0), 1)


@pytest.mark.parametrize("kind", ["histogram", slow("distribution")])
def test_counts_of_groups_add_up(kind, key):
    population = population_of(kind, key)
    groups = population.split(key, [0.2, 0.5, 0.3])
    total = sum(group.counts().numpy() for group in groups)
    np.testing.assert_array_equal(total, population.counts().numpy())
    assert all(np.all(group.counts().numpy() >= 0) for group in groups)


@pytest.mark.slow
def test_groups_of_numbers_count_their_own_rows(key):
    x = np.arange(30, dtype=np.float32)
    groups = Population.from_values(x).split(key, [0.5, 0.5])
    for group in groups:
        _, mask = group.block(Count.of(0), 30)
        np.testing.assert_array_equal(group.counts().numpy(), mask)


@pytest.mark.parametrize("devices", [None, 4])
def test_engine_visits_the_members_of_a_group(devices, key):
    n = 300
    groups = Population.from_values(np.arange(n), num_values=n).split(key, [0.25, 0.75])
    mesh = None if devices is None else mesh_of(devices)
    first, second = (jaxdp.run(Visits(n), group, key, mesh=mesh) for group in groups)
    np.testing.assert_array_equal(first + second, 1)
    _, mask = groups[0].block(Count.of(0), n)
    np.testing.assert_array_equal(first, mask)


@pytest.mark.slow
def test_law_of_a_split_on_both_paths(key):
    """Members among 700 users of a bin: Binomial(700, 0.25), one by one and by counts."""
    population = Population.from_histogram([300, 700])
    keys = jax.random.split(key, 1500)

    def one_by_one(k):
        group = population.split(k, [0.25, 0.75])[0]
        return jaxdp.run(Visits(2), group, k, method="per_user")

    def at_once(k):
        return population.split(k, [0.25, 0.75])[0].counts().lo

    sampled = [np.asarray(jax.jit(jax.vmap(f))(keys)) for f in (one_by_one, at_once)]
    for members in sampled:
        total = members.sum(axis=0)
        stats.check_proportion(total, 1500 * np.array([300, 700]), 0.25, cells=2)
        stats.must_fail(stats.check_proportion, total, 1500 * np.array([300, 700]), 0.26, cells=2)
    stats.check_two_samples(sampled[0], sampled[1])
    stats.must_fail(stats.check_two_samples, sampled[0], sampled[1] + 15)


@pytest.mark.parametrize("kind", KINDS)
def test_shuffle_is_the_same_users_in_another_order(kind, key):
    population = population_of(kind, key)
    shuffled = population.shuffle(key)
    before, after = np.asarray(population.at(range(25))), np.asarray(shuffled.at(range(25)))
    assert np.any(before != after)
    np.testing.assert_array_equal(np.sort(after), np.sort(before))
    np.testing.assert_array_equal(shuffled.counts().numpy(), population.counts().numpy())
    block, mask = shuffled.block(Count.of(3), 10)
    np.testing.assert_array_equal(block, after[3:13])
    assert np.all(mask)


@pytest.mark.parametrize("n", [slow(2), 25, slow(26), slow(1001)])
def test_every_user_is_in_one_pair_at_most(n, key):
    pairs = Population.from_values(np.arange(n), num_values=n).pairs(key)
    assert pairs.num_users == n // 2
    left, right = map(np.asarray, pairs.at(range(n // 2)))
    met = np.concatenate([left, right])
    assert len(np.unique(met)) == len(met) == n // 2 * 2


def test_number_of_pairs_beyond_32_bits(key):
    assert Population.from_histogram([2**33 + 1, 2**40]).pairs(key).num_users == 2**32 + 2**39


@pytest.mark.parametrize("kind", ["histogram", slow("distribution")])
def test_margins_of_the_table_of_pairs(kind, key):
    population = population_of(kind, key)
    table = population.pairs(key).counts().numpy().reshape(4, 4)
    assert table.sum() == 12
    assert np.all(table >= 0)
    if kind != "distribution":
        used = table.sum(axis=0) + table.sum(axis=1)
        left_out = COUNTS - used
        assert np.all(left_out >= 0)
        assert left_out.sum() == 1


def matchings(users: list[int]) -> dict[bytes, float]:
    """The law of the table of ordered pairs (0,1), (2,3).. of a uniform order, by enumeration."""
    law: dict[bytes, float] = {}
    orders = list(itertools.permutations(users))
    for order in orders:
        table = np.zeros((2, 2), np.int64)
        for i in range(len(users) // 2):
            table[order[2 * i], order[2 * i + 1]] += 1
        law[table.tobytes()] = law.get(table.tobytes(), 0.0) + 1 / len(orders)
    return law


@pytest.mark.slow
@pytest.mark.parametrize("counts", [(3, 2), (2, 4)], ids=str)
def test_law_of_the_table_of_pairs(counts, key):
    """Both paths against all orders of five or six users; 20,000 tables each."""
    law = matchings([0] * counts[0] + [1] * counts[1])
    population = Population.from_histogram(counts)
    keys = jax.random.split(key, 20_000)
    half = sum(counts) // 2

    def one_by_one(k):
        left, right = population.pairs(k).at(np.arange(half))
        return jax.nn.one_hot(2 * left + right, 4, dtype=np.int32).sum(axis=0)

    def at_once(k):
        return population.pairs(k).counts().lo.astype(np.int32)

    for draw in (one_by_one, at_once):
        tables = np.asarray(jax.jit(jax.vmap(draw))(keys)).astype(np.int64)
        seen = dict.fromkeys(law, 0)
        for table, times in zip(*np.unique(tables, axis=0, return_counts=True), strict=True):
            assert table.tobytes() in seen, "an impossible table"
            seen[table.tobytes()] += times
        observed, expected = np.array(list(seen.values())), np.array(list(law.values()))
        stats.check_multinomial(observed, expected, cells=2)
        moved = np.roll(expected, 1)
        stats.must_fail(stats.check_multinomial, observed, moved, cells=2)


@pytest.mark.slow
def test_pairs_of_drawn_users_are_independent(key):
    """The table of pairs of two million users from a distribution is multinomial."""
    p = np.array([0.2, 0.3, 0.5])
    table = Population.from_distribution(p, 2_000_000).bind(key).pairs(key).counts().numpy()
    stats.check_multinomial(table, np.outer(p, p).ravel())
    stats.must_fail(stats.check_multinomial, table, np.outer(p[::-1], p).ravel())


def test_inputs_of_pairs_are_what_the_table_counts(key):
    x = np.array([0.5, 1.5, 2.5], np.float32)
    pairs = Population.from_histogram([3, 2, 5], x).pairs(key)
    left, right = pairs.inputs
    np.testing.assert_array_equal(left, np.repeat(x, 3))
    np.testing.assert_array_equal(right, np.tile(x, 3))
    bins = Population.from_histogram([3, 2, 5]).pairs(key).inputs
    np.testing.assert_array_equal(np.stack(bins), np.indices((3, 3)).reshape(2, -1))


def test_pairs_of_numbers_count_once_each(key):
    x = np.arange(9, dtype=np.float32)
    pairs = Population.from_values(x).pairs(key)
    np.testing.assert_array_equal(pairs.counts().numpy(), np.ones(4))
    for side, seen in zip(pairs.inputs, pairs.at(range(4)), strict=True):
        np.testing.assert_array_equal(side, seen)


@pytest.mark.parametrize("derive", ["shuffle", "pairs"])
def test_groups_are_not_reordered(derive, key):
    """Indices of a group are those of everyone: an order of them would mix in other groups."""
    group = Population.from_histogram([5, 5]).split(key, [0.5, 0.5])[0]
    with pytest.raises(ValueError, match=f"call {derive} first, then split"):
        getattr(group, derive)(key)


@pytest.mark.slow
def test_groups_of_a_shuffled_population_and_of_pairs(key):
    users = Population.from_values(np.arange(20), num_values=20)
    blocks = [group.block(Count.of(0), 20) for group in users.shuffle(key).split(key, [0.5, 0.5])]
    both = np.concatenate([np.asarray(values)[np.asarray(mask)] for values, mask in blocks])
    np.testing.assert_array_equal(np.sort(both), np.arange(20))
    matched = users.pairs(key).split(key, [0.5, 0.5])
    masks = [np.asarray(group.block(Count.of(0), 10)[1]) for group in matched]
    np.testing.assert_array_equal(np.sum(masks, axis=0), 1)
