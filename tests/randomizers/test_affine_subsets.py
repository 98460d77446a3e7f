"""Affine subsets: the designs, the channel, variances near the least, and many values."""

import functools
import itertools
import pathlib
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp.random import Count
from jaxdp.randomizers import AffineSubsets, LocalHashing, SubsetSelection
from jaxdp.randomizers import _affine_designs as designs
from tests import stats
from tests.marks import slow

SMALL = [
    (5, 1.0, 5, 2),
    (4, 0.5, 4, 2),
    (6, 0.7, 7, 2),
    (6, 0.3, 6, 2),
    (9, 0.5, 9, 4),
    (3, 5, 3, 1),
]
EPSILONS = (0.1, 0.3, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.5, 8.0)


def sets_of(spec: AffineSubsets) -> np.ndarray:
    """Which values the set of each report holds, bool[reports, k]; but for the blank."""
    number = jnp.arange(spec.num_reports - 1, dtype=jnp.uint32)
    function, shift = jnp.divmod(number, np.uint32(spec.modulus))
    values = jnp.arange(spec.num_values, dtype=jnp.uint32)
    return np.asarray(spec.build().maps.holds(function[:, None], shift[:, None], values[None]))


def check_pairs(sets: np.ndarray, modulus: int, size: int) -> None:
    """Asserts that each value is in `size / modulus` of the sets, and each pair in as many."""
    both = sets.T.astype(int) @ sets.astype(int)
    ones = Fraction(len(sets) * size, modulus)
    expected = np.full_like(both, ones * (size - 1) / (modulus - 1))
    np.fill_diagonal(expected, ones)
    np.testing.assert_array_equal(both, expected)


def test_primes():
    sieve = designs.next_prime(1), designs.next_prime(90), designs.next_prime(2**31)
    assert sieve == (2, 97, 2147483659)
    few = [n for n in range(3000) if designs.is_prime(n)]
    assert few == [n for n in range(2, 3000) if all(n % i for i in range(2, int(n**0.5) + 1))]
    composite = 25_326_001, 65537 * 32771, 2**31 + 1  # the first is a pseudoprime to 2, 3 and 5
    assert not any(map(designs.is_prime, composite))


@pytest.mark.parametrize(
    ("modulus", "size"), [(4, 2), (6, 2), (6, 3), (8, 3), (9, 4), (12, 5), (16, 7), (30, 9)]
)
def test_base_blocks_hold_each_pair_equally_often(modulus, size):
    """Enumerated over all units and shifts. Control: one base block fewer."""
    spec = AffineSubsets(modulus, 1.0, modulus, size)
    sets = sets_of(spec)
    assert set(sets.sum(axis=1)) == {size}
    check_pairs(sets, modulus, size)
    each = spec.num_reports // len(designs.base_blocks(spec.design))
    with pytest.raises((AssertionError, TypeError)):
        check_pairs(sets[each:], modulus, size)


def test_residues_of_a_prime_hold_each_pair_equally_often():
    for values, modulus, size in ((11, 11, 4), (8, 11, 3), (7, 7, 6), (6, 9, 1)):
        check_pairs(sets_of(AffineSubsets(values, 1.0, modulus, size)), modulus, size)


@pytest.mark.parametrize(
    ("modulus", "size", "values"),
    [(7, 3, 7), (11, 4, 11), (13, 8, 13), (13, 5, 6), (12, 5, 12), (16, 7, 16), (9, 4, 7)],
)
def test_triples_that_share_the_most_sets(modulus, size, values):
    """Enumerated. Control: in designs of pairs, triples are not held equally often."""
    sets = sets_of(AffineSubsets(values, 1.0, modulus, size)).astype(int)
    held = np.einsum("sx,sy,sz->xyz", sets, sets, sets, optimize=True)
    counts = [held[triple] for triple in itertools.combinations(range(values), 3)]
    assert designs.most_triples(designs.Design(modulus, size), values) == max(counts)
    assert min(counts) < max(counts)


def test_too_many_sets_to_look_for_a_third_value():
    assert designs.most_triples(designs.Design(10_007, 6000), 5) is None
    spec = AffineSubsets(5, 0.1, 10_007, 6000)
    (law,) = spec.pair_laws()
    np.testing.assert_array_equal(law.others, [law.first, law.second])
    found = spec.shuffle_bracket(1000, 1e-6)
    assert 0 < found.lower < found.upper


@pytest.mark.parametrize("case", SMALL)
def test_words_make_the_channel(case):
    """Of four bits each, all of them. Controls: another value's row, a larger epsilon."""
    spec = AffineSubsets(*case)
    if max(spec.num_reports // spec.modulus, spec.modulus) > 256:
        pytest.skip("more functions than pairs of words of four bits")
    rows, params = spec.channel(4), spec.build(4)
    words = np.indices((16,) * 5).reshape(5, -1).T.astype(np.uint32)
    send = jax.jit(jax.vmap(params.from_bits, (0, None)))
    counts = [
        np.bincount(np.asarray(send(words, jnp.int32(v))), minlength=spec.num_reports)
        for v in range(spec.num_values)
    ]
    found = [[Fraction(int(count), 16**5) for count in row] for row in counts]
    assert found == rows
    assert found[0] != rows[1]
    ratio = max(max(column) / min(column) for column in zip(*rows, strict=True) if max(column))
    assert jaxdp.randomizers.log_upper(ratio) == spec.exact_epsilon(4) <= spec.epsilon
    assert {row[-1] for row in rows} == {rows[0][-1]}  # a blank says nothing


@pytest.mark.parametrize("case", SMALL)
def test_probabilities_are_those_of_the_channel(case):
    spec = AffineSubsets(*case)
    p, q = spec.probabilities()
    sets = sets_of(spec)
    for value, row in enumerate(spec.channel()):
        assert sum(row) == 1
        for other in range(spec.num_values):
            held = sum(y for y, holds in zip(row, sets[:, other], strict=False) if holds)
            assert held == (p if value == other else q)


@pytest.mark.parametrize("case", [SMALL[0], *map(slow, SMALL[1:4]), *SMALL[4:]])
def test_moments_are_those_of_the_channel(case, rng):
    """Compares decoded reports; control: the covariance for another value."""
    spec = AffineSubsets(*case)
    params, k = spec.build(), spec.num_values
    law = np.array([[float(y) for y in row] for row in spec.channel()])
    with jax.enable_x64(True):
        each = Count.of(np.eye(spec.num_reports, dtype=np.int64))
        decoder = np.asarray(params.estimate(each))
        numbers = rng.normal(size=spec.num_reports)
        over = np.asarray(params.over_reports(jnp.asarray(numbers)))
        reports = np.asarray(params.report_law(jnp.asarray(law[:, 0])))
    np.testing.assert_allclose(over, law @ numbers, atol=1e-12)
    np.testing.assert_allclose(reports, law[:, 0] @ law, atol=1e-12)
    np.testing.assert_allclose(law @ decoder, np.eye(k), atol=1e-9)
    queries = rng.normal(size=(3, k))
    for value in (0, k - 1):
        mean = np.eye(k)[value]
        covariance = np.einsum("r,ru,rw->uw", law[value], decoder, decoder) - np.outer(mean, mean)
        np.testing.assert_allclose(spec.covariance(value), covariance, atol=1e-8)
        np.testing.assert_allclose(spec.variance(mean.astype(int)), covariance.diagonal())
        forms = np.einsum("mi,ij,mj->m", queries, covariance, queries)
        np.testing.assert_allclose(spec.query_variances(queries)[:, value], forms, rtol=1e-8)
        assert k <= 3 or np.abs(spec.covariance(1) - covariance).max() > 1e-3
    np.testing.assert_allclose(spec.noise().decoder, decoder.T, atol=1e-12)


def excess(values: int, epsilon: float) -> float:
    """The sum of variances over that of sets of k values, of the best size."""
    likelihood = np.exp(epsilon)
    least = designs.total_variance(
        values, values, designs.best_size(values, values, epsilon), likelihood
    )
    made = designs.best_design(values, epsilon)
    return designs.total_variance(values, *made, likelihood) / least - 1


def test_variance_is_within_a_thousandth_of_the_least(rng):
    """At every k to 300, and some to 2**31. Control: the next prime is 1 % off for k = 200."""
    some = np.exp(rng.uniform(np.log(300), np.log(2**31), size=300)).astype(int)
    gaps = [1327, 9552, 15684, 19610, 31398, 155922, 360654, 370262, 492114]  # after a prime
    for values in [*range(2, 301), *gaps, *some.tolist(), 2**31]:
        for epsilon in (*EPSILONS, np.log(values), np.log(values / 2)):
            if epsilon > 0.05:
                assert -1e-12 < excess(values, epsilon) <= 1e-3, (values, epsilon)
    assert designs.total_variance(200, 211, 1, 500.0) > 1.01 * designs.total_variance(
        200, 200, 1, 500.0
    )


def test_the_page_has_the_numbers():
    """The table of excesses in percent and of bits, computed anew."""
    page = pathlib.Path(__file__).parents[2] / "docs" / "randomizers" / "affine_subsets.md"
    lines = page.read_text().splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("| k |"))
    epsilons = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
    rows = list(itertools.takewhile(bool, lines[head + 2 :]))
    assert len(rows) == 11
    for line in rows:
        first, *cells = line.strip("| ").split(" | ")
        values = int(first.replace(",", ""))
        made = [AffineSubsets(values, e) for e in epsilons]
        bits = [(spec.num_reports - 1).bit_length() for spec in made]
        above = [100 * abs(excess(values, e)) for e in epsilons]
        assert cells == [f"{x:.3f} ({b})" for x, b in zip(above, bits, strict=True)]


@pytest.mark.parametrize(("values", "epsilon"), [(6, 0.5), (20, 1.0), (60, 2.0), (1000, 1.0)])
def test_variances_are_those_of_subset_selection(values, epsilon):
    """The realised ones, of both. Control: local hashing is 1 % off for few values."""
    counts = np.eye(values, dtype=int)[0]
    few, all_sets = AffineSubsets(values, epsilon), SubsetSelection(values, epsilon)
    total = all_sets.variance(counts).sum()
    assert abs(few.variance(counts).sum() / total - 1) < 1e-3
    assert few.num_reports < 4 * few.modulus**3
    if values <= 60:
        assert LocalHashing(values, epsilon).variance(counts).sum() > 1.01 * total


def test_products_of_large_numbers(rng):
    """Montgomery's, against integers. Control: the factor 2**32 left out."""
    spec = AffineSubsets(2**31, 1.0)
    maps, modulus = spec.at([0]).maps, spec.modulus
    function = rng.integers(0, modulus - 1, size=500, dtype=np.uint32)
    value = rng.integers(0, 2**31, size=500, dtype=np.uint32)
    found = np.asarray(maps.products(jnp.asarray(function), jnp.asarray(value)))
    inverse = pow(2**32, -1, modulus)
    plain = [(int(f) + 1) * int(v) % modulus for f, v in zip(function, value, strict=True)]
    assert found.tolist() == [x * inverse % modulus for x in plain]
    assert found.tolist() != plain


def test_reports_of_few_values_and_of_pairs_are_the_same(key):
    """A report is function and shift, as one number or as two; counted or looked at."""
    spec = AffineSubsets(30, 1.0, 30, 8)
    single, pair = spec.build(), spec.at(range(30))
    keys, values = jax.random.split(key, 400), jnp.arange(400) % 30
    one = jax.vmap(single.privatize)(keys, values)
    two = np.asarray(jax.vmap(pair.privatize)(keys, values))
    np.testing.assert_array_equal(one, two[:, 0] * np.uint32(30) + two[:, 1])
    first, second = (
        np.asarray(p.estimate(p.tally(reports))) for p, reports in ((single, one), (pair, two))
    )
    np.testing.assert_allclose(first, second, rtol=1e-6, atol=1e-3)


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_a_billion_values(epsilon, key):
    """The mean and spread of counts that are asked for; controls: an offset, wider errors."""
    spec = AffineSubsets(2**30, epsilon)
    asked, counts = [5, 2**30 - 1, 77], np.array([300, 100, 0])
    params = spec.at(asked)
    users = jaxdp.Population.from_values(np.repeat(asked, counts), num_values=2**30)
    keys = jax.random.split(key, 3000)
    estimates = np.array([jaxdp.run(params, users, one) for one in keys[:2]])
    words = functools.partial(jax.random.bits, shape=(400, 5), dtype=jnp.uint32)
    values = jnp.asarray(np.repeat(asked, counts), jnp.int32)

    @jax.jit
    def trial(one):
        return params.tally(jax.vmap(params.from_bits)(words(one), values))["support"].f64()

    with jax.enable_x64(True):
        support = np.asarray(jax.lax.map(trial, keys))
    p, q = map(float, spec.probabilities())
    estimates = np.concatenate([estimates, (support - 400 * q) / (p - q)])
    variance = spec.variance(counts, asked)
    check = functools.partial(
        stats.check_variance, variance=variance, mean=counts, kurtosis=4.0 + 40 / (400 * q)
    )
    stats.check_mean(estimates, counts, variance=variance)
    check(estimates)
    stats.must_fail(
        stats.check_mean, estimates + 0.3 * np.sqrt(variance), counts, variance=variance
    )
    stats.must_fail(check, counts + 1.5 * (estimates - counts))


def test_extreme_reports_are_the_extremes(rng):
    params = AffineSubsets(50, 1.0).at([3, 9, 20])
    reports = rng.integers(0, params.report_limits[1] + 1, size=(500, 2)).astype(np.uint32)

    def support(rows):
        tally = jax.vmap(lambda row: params.tally(row[None])["support"].lo)
        return np.asarray(tally(jnp.asarray(rows)))

    extreme, some = support(params.extreme_reports()), support(reports)
    np.testing.assert_array_equal(extreme.max(axis=0), 1)
    np.testing.assert_array_equal(extreme.min(axis=0), 0)
    assert some.max() <= 1


def test_what_is_refused():
    for make, message in (
        (lambda: AffineSubsets(6, 25.0), "epsilon"),
        (lambda: AffineSubsets(6, 1e-11), "epsilon"),
        (lambda: AffineSubsets(6, 1.0, 5), "modulus must be at least"),
        (lambda: AffineSubsets(6, 1.0, 7, 7), "set_size must be below"),
        (lambda: AffineSubsets(6, 1.0, set_size=2), "set_size must be given with"),
        (lambda: AffineSubsets(2**16, 1.0, 2**16 + 2), "modulus must be a prime"),
        (lambda: AffineSubsets(6, 1.0).build(16), "word_bits"),
        (lambda: AffineSubsets(1000, 1.0).build(4), "word_bits"),
        (lambda: AffineSubsets(6, 1.0).at([6]), "values must be integers in"),
        (lambda: AffineSubsets(6, 1.0).at([1, 1]), "distinct"),
        (lambda: AffineSubsets(10**4, 1.0).covariance(0), "too many numbers"),
        (lambda: AffineSubsets(10**4, 1.0).query_variances(np.ones((1, 10**4))), "too many"),
    ):
        with pytest.raises(ValueError, match=message):
            make()
    many = AffineSubsets(2**21, 1.0).build()
    with pytest.raises(ValueError, match="ask for some"):
        many.tally(jnp.zeros((3, 2), jnp.uint32))


@pytest.mark.parametrize(
    ("values", "epsilon"), [(24, 1.0), (36, 0.5), (60, 1.5), (120, 2.5), (180, 3.3), (420, 4.8)]
)
def test_base_blocks_are_found_for_numbers_of_many_divisors(values, epsilon):
    """The pairs of each gcd are as many as they should be, counted anew. Control: one is moved."""
    design = designs.best_design(values, epsilon)
    assert not designs.needs_one_block(design)
    blocks, (modulus, size) = designs.base_blocks(design), design

    def shares(blocks):
        differences = (blocks[:, :, None] - blocks[:, None]) % modulus
        found = np.bincount(np.gcd(differences, modulus).ravel(), minlength=modulus + 1)[:modulus]
        every = np.bincount(np.gcd(np.arange(1, modulus), modulus), minlength=modulus)
        return found * (modulus - 1), every * len(blocks) * size * (size - 1)

    found, wanted = shares(blocks)
    np.testing.assert_array_equal(found, wanted)
    changed = blocks.copy()
    changed[0, 0] = next(x for x in range(modulus) if x not in blocks[0])
    assert np.any(shares(changed)[0] != wanted) or modulus < 30
