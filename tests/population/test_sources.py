"""`at`, `block` and `counts` describe the same users."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp import Population
from jaxdp.population import GroupSource, Span
from jaxdp.population._distribution import _integer_weights
from jaxdp.population._source import _running_sum
from jaxdp.random import AliasTable, Count, Stream, stream
from tests import stats
from tests.marks import slow
from tests.tables import drawn_at_thresholds, rebuilt

HISTOGRAMS = [
    [5],
    slow([0, 0, 3]),
    slow([4, 0, 0, 1]),
    slow([1, 2, 3, 4, 0]),
    [0, 40, 0, 2, 7, 1, 0],
]


@pytest.mark.parametrize("counts", HISTOGRAMS, ids=str)
def test_histogram_is_the_repeated_bins(counts):
    population = Population.from_histogram(counts)
    users = np.repeat(np.arange(len(counts)), counts)
    np.testing.assert_array_equal(population.at(np.arange(len(users))), users)
    np.testing.assert_array_equal(population.counts().numpy(), counts)
    for wide in (False, True):
        read = jax.jit(population.source.reader(4, Count.zeros(), tiled=False, wide=wide))
        for start in range(len(users)):
            values, members = read(Count.of(np.int64(start)))  # the end is not masked
            expected = users[start : start + 4]
            np.testing.assert_array_equal(values[: len(expected)], expected)
            assert np.all(members)


def test_histogram_of_a_trillion_users(rng):
    """Random indices, and the first and last user of each bin."""
    counts = rng.integers(0, 2**33, size=300)
    counts[rng.integers(0, 300, size=60)] = 0
    counts[-1] = 10**12
    ends = np.cumsum(counts)
    population = Population.from_histogram(counts)
    assert population.num_users == ends[-1]
    users = np.concatenate(
        [rng.integers(0, ends[-1], size=5000), ends - 1, np.minimum(ends, ends[-1] - 1), [0]]
    )
    users = users[users >= 0]
    expected = np.searchsorted(ends, users, side="right")
    np.testing.assert_array_equal(population.at(users), expected)
    for start in (
        0,
        max(int(ends[0]) - 20, 0),
        2**32 - 30,
        int(ends[150]) - 32,
        int(ends[-1]) - 64,
    ):
        at = Count.of(np.int64(start))
        expected = np.searchsorted(ends, start + np.arange(64), side="right")
        np.testing.assert_array_equal(population.block(at, 64)[0], expected)
        wide = start > 2**32
        read = population.source.reader(64, Count.zeros(), tiled=False, wide=wide)
        np.testing.assert_array_equal(read(at)[0], expected)


def test_histogram_of_many_empty_bins():
    """A whole block of bins ends at one user."""
    counts = np.zeros(5000, int)
    counts[[17, 4000]] = 40
    read = Population.from_histogram(counts).source.reader(64, Count.zeros(), tiled=False)
    np.testing.assert_array_equal(read(Count.of(8))[0], [17] * 32 + [4000] * 32)


@pytest.mark.parametrize("ends", [0, 1, 15, 16, 17, 63])
def test_histogram_by_how_many_bins_end_within_a_block(ends):
    """One by one, or together where there are many; also where both happen, under vmap."""
    counts = np.repeat([100, 1, 100], [3, ends, 3])
    source = Population.from_histogram(counts).source
    users = np.repeat(np.arange(len(counts)), counts)
    starts = np.array([0, 150, 270, 299, 300, 301])

    @jax.jit
    def read(start):
        return source.reader(64, Count.zeros(), tiled=False)(Count.of(start))[0]

    for found in (np.stack([read(start) for start in starts]), jax.vmap(read)(starts)):
        np.testing.assert_array_equal(found, users[starts[:, None] + np.arange(64)])


@pytest.mark.parametrize(("rows", "size"), [(5, 8), (8, 8), (21, 8), (24, 8), (4097, 2048)])
@pytest.mark.parametrize("first", [0, 2**33])
def test_an_array_is_read_block_by_block(rows, size, first):
    """The last block runs over the end; what lies beyond is not of these users."""
    values = np.arange(rows, dtype=np.float32)
    source = Population.from_values(values).source
    read = jax.jit(source.reader(size, Count.of(first), tiled=True))
    for start in range(0, rows, size):
        block, members = read(Count.of(first + start))
        expected = values[start : start + size]
        assert block.shape == members.shape == (size,)
        np.testing.assert_array_equal(block[: len(expected)], expected)


KINDS = {
    "histogram": lambda key: Population.from_histogram([500, 0, 1700, 2300]),
    "distribution": lambda key: Population.from_distribution([0.25, 0.5, 0.25], 4500).bind(key),
    "group": lambda key: Population.from_histogram([500, 4000]).split(key, [0.3, 0.7])[1],
    "shuffled": lambda key: Population.from_histogram([500, 4000]).shuffle(key),
    "pairs": lambda key: Population.from_histogram([5000, 4000]).pairs(key),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("size", "tiled"), [slow(2048, True), (4096, True), (500, False)])
def test_blocks_are_the_users_by_index(kind, size, tiled, key):
    source = KINDS[kind](key).source
    read, number = jax.jit(source.reader(size, Count.zeros(), tiled=tiled)), int(source.size)
    for start in range(0, number, size):
        users = Count.of(np.arange(start, min(start + size, number)))
        values, members = read(Count.of(start))
        kept = len(range(start, min(start + size, number)))
        found = jax.tree.leaves((values, members))
        each = jax.tree.leaves((source.at(users), source.members(users)))
        for read_at_once, alone in zip(found, each, strict=True):
            np.testing.assert_array_equal(read_at_once[:kept], alone)


LONG_BINS = {
    "in order": [70_000, 0, 0, 1, 2047, 60_000, 5, 2048, 90_000, 0],
    "from tiles on": [2048 * 40, 2048 * 30, 0, 2048 * 50],
    "one": [3_000_000],
    "beyond": [2**33, 80_000, 3, 2**34],
}


@pytest.mark.parametrize(
    ("name", "skipped"),
    [*((name, skipped) for name in LONG_BINS for skipped in (0, 1)), ("beyond", 2**18 - 1)],
)
@pytest.mark.parametrize("grouped", [False, True])
def test_tiles_and_the_rest_are_all_users(name, skipped, grouped, key):
    """A span whose first blocks are another's, and which ends within its last block."""
    size, number = 2048 * 16, 20
    source = Population.from_histogram(LONG_BINS[name]).source
    if grouped:
        source = GroupSource(source, key, Count.of([2**30, 2**31, 2**30]), jnp.int32(1))
    begin, last = skipped * size, (skipped + number) * size - 5000
    span = Span(Count.of(begin), Count.of(last), number)
    read = source.reader(size, Count.zeros(), tiled=True, wide=True, span=span)
    assert read.rest is not None
    found = [np.full(number * size, -1)]

    def add(users, values, members):
        at = users.numpy()[np.asarray(members)] - begin
        assert np.all(found[0][at] == -1)  # at most once
        found[0][at] = np.asarray(values)[np.asarray(members)]

    block = jax.jit(read)
    for start in range(begin, begin + number * size, size):
        add(Count.of(np.arange(start, start + size)), *block(Count.of(start)))
    add(read.rest.users, read.rest.values, read.rest.members)
    users = Count.of(np.arange(begin, min(last, int(source.size))))
    expected = np.where(source.members(users), source.at(users), -1)
    np.testing.assert_array_equal(found[0][: len(expected)], expected)
    np.testing.assert_array_equal(found[0][len(expected) :], -1)


def test_short_bins_are_searched():
    source = Population.from_histogram(np.full(20, 2**14)).source
    span = Span(Count.zeros(), source.size, 10)
    assert source.reader(2**15, Count.zeros(), tiled=True, wide=True, span=span).rest is None


@pytest.mark.parametrize("width", [32, 7])
def test_running_sum(width, rng):
    x = rng.integers(0, 9, size=32 * 7).astype(np.int32)
    x[100] = 2**23
    np.testing.assert_array_equal(_running_sum(jnp.asarray(x), width), np.cumsum(x))


def test_histogram_of_two_axes_is_flat_row_by_row():
    table = np.array([[1, 0, 2], [3, 1, 0]])
    population = Population.from_histogram(table)
    assert (population.num_values, population.num_users) == (6, 7)
    np.testing.assert_array_equal(population.counts().numpy(), [1, 0, 2, 3, 1, 0])
    np.testing.assert_array_equal(population.at(np.arange(7)), [0, 2, 2, 3, 3, 3, 4])


@pytest.mark.parametrize("kind", ["histogram", "distribution"])
def test_values_of_bins_are_a_pytree(kind, key):
    values = {"score": np.array([0.5, 1.5, 2.5]), "pair": np.array([[1, 2], [3, 4], [5, 6]])}
    if kind == "histogram":
        population = Population.from_histogram([2, 0, 1], values)
        bins = np.array([0, 0, 2])
    else:
        population = Population.from_distribution([0.5, 0.25, 0.25], 40, values).bind(key)
        bins = np.asarray(
            Population.from_distribution([0.5, 0.25, 0.25], 40).bind(key).at(range(40))
        )
    found = population.at(np.arange(len(bins)))
    assert (found["score"].dtype, found["pair"].dtype) == (jnp.float32, jnp.int32)
    np.testing.assert_array_equal(found["score"], values["score"][bins])
    np.testing.assert_array_equal(found["pair"], values["pair"][bins])
    block, _ = population.block(Count.of(0), len(bins))
    jax.tree.map(np.testing.assert_array_equal, block, found)


@pytest.mark.parametrize("shape", [(20,), (20, 3)])
def test_given_numbers(shape, rng):
    x = rng.normal(size=shape).astype(np.float32)
    population = Population.from_values(x)
    np.testing.assert_array_equal(population.at(range(20)), x)
    values, _ = population.block(Count.of(5), 8)
    np.testing.assert_array_equal(values, x[5:13])
    np.testing.assert_array_equal(population.counts().numpy(), np.ones(20))
    np.testing.assert_array_equal(population.inputs, x)


def test_given_bins(rng):
    x = rng.integers(0, 5, size=50)
    population = Population.from_values(x, num_values=6)
    np.testing.assert_array_equal(population.at(range(50)), x)
    np.testing.assert_array_equal(population.counts().numpy(), np.bincount(x, minlength=6))
    assert population.inputs is None


WEIGHTS = [
    [1.0],
    [0.5, 0.5],
    [1 / 3, 1 / 3, 1 / 3],
    [0.0, 1.0, 0.0],
    [2.0**-32, 1 - 2.0**-32],
    [0.999999] + [1e-6 / 30] * 30,
    list(np.random.default_rng(1).dirichlet(np.full(100, 0.05))),
]


@pytest.mark.parametrize("p", WEIGHTS, ids=lambda p: f"{len(p)}-{p[0]:.3g}")
def test_alias_table_realises_the_weights_exactly(p):
    """Over all 2**32 words each value has exactly its weight, an integer near p 2**32."""
    weights = _integer_weights(np.asarray(p))
    assert weights.sum() == 2**32
    assert np.all(np.abs(weights - np.asarray(p) * 2**32) <= 1)
    assert np.all(weights[np.asarray(p) == 0] == 0)
    words = rebuilt(AliasTable.of(weights, 32), 32)
    assert words[: len(p)] == weights.tolist()
    assert not any(words[len(p) :])
    population = Population.from_distribution(p, 10)
    np.testing.assert_array_equal(population.probabilities() * 2.0**32, weights)


@pytest.mark.parametrize("p", WEIGHTS, ids=lambda p: f"{len(p)}-{p[0]:.3g}")
def test_many_users_are_drawn_by_finer_tables(p):
    """Exactly from the weights that their counts are drawn with, which are nearer to p."""
    source = Population.from_distribution(p, 10**15).source
    weights = source.weights.numpy()
    exact = np.asarray(p) / np.sum(p)
    if source.table.lower is None:  # multiples of 2**-32 are exact already
        np.testing.assert_array_equal(weights * 2.0**-32, exact)
        return
    assert sum(weights.tolist()) == 2**62
    np.testing.assert_allclose(weights * 2.0**-62, exact, rtol=1e-14, atol=2.0**-61)
    masses = rebuilt(source.table, 64)
    assert masses[: len(p)] == [4 * int(w) for w in weights]
    assert not any(masses[len(p) :])


def test_coarse_tables_are_for_users_who_cannot_notice():
    p = WEIGHTS[6]
    coarse = [Population.from_distribution(p, n).source.table.lower is None for n in (10, 10**6)]
    assert coarse == [True, False]
    far = np.abs(Population.from_distribution(p, 10).probabilities() - p).sum() / 2
    assert 10 * far <= 1e-6 < 10**6 * far


def test_rare_values_do_not_vanish(key):
    """As a multiple of 2**-32 the rare value would have none of 100 expected users."""
    p, n = 1e-10, 10**12
    population = Population.from_distribution([1 - p, p], n)
    stats.check_proportion(int(population.counts(key)[1]), n, p)
    stats.must_fail(stats.check_proportion, 0, n, p)
    # One by one too: the lowest pair of words that leads to its column is its own.
    assert population.source.table.draw(jnp.uint32(1), jnp.uint32(0)) == 1


@pytest.mark.parametrize("p", [WEIGHTS[2], WEIGHTS[3], WEIGHTS[6]], ids=["3", "point", "100"])
def test_word_of_a_user_is_looked_up_in_the_table(p):
    """Words on both sides of every threshold of the table, read here with Python's integers."""
    source = Population.from_distribution(p, 10).source
    words, expected = drawn_at_thresholds(source.table, 32)
    np.testing.assert_array_equal(source.maker.make([jnp.asarray(words)]), expected)


def test_drawn_users_are_a_function_of_their_words(key):
    population = Population.from_distribution([0.25, 0.25, 0.5], 1000).bind(key)
    words = np.asarray(jaxdp.random.words(stream(key, Stream.POPULATION), Count.of(0), 1000, 1)[0])
    users = np.asarray(population.at(range(1000)))
    np.testing.assert_array_equal(users, population.source.table.draw(jnp.asarray(words)))
    block, members = population.block(Count.of(100), 50)
    np.testing.assert_array_equal(block, users[100:150])
    assert np.all(members)


@pytest.mark.slow
def test_law_of_drawn_users_and_of_drawn_counts(key):
    """200,000 users one by one, and as many by their counts."""
    p, n = np.array([0.5, 0.125, 0.3, 0.075]), 200_000
    population = Population.from_distribution(p, n)
    users = np.asarray(population.bind(key).at(np.arange(n)))
    drawn = population.counts(key).numpy()
    for counts in (np.bincount(users, minlength=4), drawn):
        assert counts.sum() == n
        stats.check_multinomial(counts, p, cells=2)
        stats.must_fail(stats.check_multinomial, counts, p[[1, 0, 2, 3]], cells=2)


def test_random_population_must_be_bound():
    population = Population.from_distribution([0.5, 0.5], 4)
    for ask in (population.counts, lambda: population.at([0]), lambda: population.block(0, 2)):
        with pytest.raises(ValueError, match="bind"):
            ask()


def test_traced_size_and_use_inside_jit(key):
    @jax.jit
    def last_value(population):
        with pytest.raises(TypeError, match="size"):
            _ = population.num_users
        return population.at(population.size - Count.of(1))

    assert int(last_value(Population.from_histogram([10**11, 3, 0]))) == 1
    assert int(last_value(Population.from_values([4, 2], num_values=5))) == 2
    drawn = Population.from_distribution([0.0, 1.0], 2**40).bind(key)
    assert int(last_value(drawn)) == 1


def test_vectors_must_lie_in_the_ball():
    rows = np.array([[0.6, 0.8], [0.0, 0.5], [3.0, 4.0]], np.float32)
    Population.from_values(rows).require_ball(2, 5.0)
    with pytest.raises(ValueError, match=r"row 2 has 5.*radius"):
        Population.from_values(rows).require_ball(2, 4.99)
    Population.from_values(rows).require_ball(2, 7.0, order=1, name="bound")
    with pytest.raises(ValueError, match=r"L1 norm.*bound = 6.99, but row 2 has 7;.*raise bound"):
        Population.from_values(rows).require_ball(2, 6.99, order=1, name="bound")
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        Population.from_values(rows).require_ball(3, 5.0)
    with pytest.raises(ValueError, match="real numbers"):
        Population.from_histogram([1, 2]).require_ball(2, 1.0)
