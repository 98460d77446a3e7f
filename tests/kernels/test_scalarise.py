"""One user's report, computed on lanes: every counted member, and every operation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxdp._contract import work_of
from jaxdp_kernels.randomize_and_tally import scalarise
from jaxdp_kernels.randomize_and_tally.mosaic_gpu import unserved
from jaxdp_kernels.randomize_and_tally.scalarise import Table, Unsupported, cell, cells, on_lanes
from tests.contracts.registry import PROTOCOLS

LANES = 256
NOT_SERVED = {"RandomConceptParams": "numbers that are not of 32 bits"}
"""Counted members that the kernel does not serve, and why."""


COUNTED = frozenset(
    "krr-2 krr-5 krr-16 hadamard-bit-5 hadamard-response-7 hadamard-blocks-7 projective-geometry-6 "
    "affine-hashing-6 affine-hashing-prime-6 affine-subsets-6 affine-subsets-composite-6 "
    "discrete-laplace finite-channel memoised-krr-4 maximum-likelihood "
    "quantized-gini-diversity quantized-kendall quantized-gini "
    "oracle-statistic-hadamard queries-from-pairs queries-from-pairs-once pairs-krr all-pairs "
    "shuffled-reports histogram-hadamard-bit hierarchical-prefix hierarchical-intervals "
    "optimized-strategy projected-hadamard projected-hadamard-raw random-concept "
    "triple-statistic triple-ratio".split()
)
"""The members that have such rounds: to build all others would take longer than the tests."""


def counted_rounds(cases):
    """The rounds of some members whose reports are counted, by name; one of each kind."""
    found, kinds = {}, set()
    for case in cases:
        subject = case.subject()
        for step in subject.params.rounds(work_of(subject.population)):
            leaves, structure = jax.tree.flatten(step.round)
            kind = structure, tuple(map(np.shape, leaves))
            if step.round.counted is not None and kind not in kinds:
                kinds.add(kind)
                found[f"{case.name} {type(step.round).__name__}"] = step.round
    return found


def on_cells(function, *arguments, tables=True):
    """A function of one user for many: of vectors of lanes, and of what all users share."""

    def held(x):
        if isinstance(x, jax.Array) and x.ndim and x.shape[-1] == LANES:
            rows = x.reshape(-1, LANES)
            found = np.empty(len(rows), object)
            for number, row in enumerate(rows):
                found[number] = row
            return found.reshape(x.shape[:-1])
        x = jnp.asarray(x)
        if tables and (x.size > scalarise.FEW_ENTRIES or not x.size):
            return Table(x.shape, x.dtype, lambda at: x.ravel()[at])
        return cells(x)

    return on_lanes(function, *jax.tree.map(held, arguments))


def random_numbers(number, *shape, dtype=np.int32):
    """Lanes of numbers of all magnitudes, the extreme ones among them."""
    rng = np.random.default_rng(number)
    words = rng.integers(0, 2**32, (*shape, LANES), np.uint32)
    words >>= rng.integers(0, 32, words.shape, np.uint32)
    words[..., :4] = [0, 1, 2**31, 2**32 - 1]
    return jnp.asarray(words.view(dtype))


@pytest.fixture(scope="module")
def rounds():
    return counted_rounds(case for case in PROTOCOLS if case.name in COUNTED)


@pytest.mark.slow
def test_every_counted_member_is_listed():
    names = {name.partition(" ")[0] for case in PROTOCOLS for name in counted_rounds([case])}
    assert names == COUNTED


def test_reports_of_every_counted_member_are_the_same(rounds):
    differ = []
    for number, (name, round) in enumerate(rounds.items()):
        words = random_numbers(number, round.num_words, dtype=np.uint32)
        inside = np.arange(LANES, dtype=np.int32) % max(round.num_bins or 7, 1)
        values = jax.tree.map(
            lambda x, inside=inside: (
                jnp.where(np.arange(LANES) % 3 == 0, random_numbers(5), inside)
                if x.dtype == jnp.int32
                else jnp.asarray(np.linspace(-2, 2, LANES, dtype=np.float32))
            ),
            round.value,
        )

        @jax.jit
        def both(round, words, values):
            leaves, structure = jax.tree.flatten(round)

            def report(leaves, words, value):
                return jax.tree.unflatten(structure, leaves).from_bits(words, value)

            (found,) = on_cells(report, leaves, words, values)
            return found[()], jax.vmap(round.from_bits, in_axes=(1, 0))(words, values)

        if not round.num_words or unserved(round, None, values):
            continue
        found, expected = both(round, words, values)
        if found.dtype != expected.dtype or not np.array_equal(found, expected):
            differ.append(name)
    assert differ == []


def test_every_counted_member_is_served(rounds):
    reasons = {}
    for round in rounds.values():
        users = jax.tree.map(lambda x: jax.ShapeDtypeStruct((4096, *x.shape), x.dtype), round.value)
        if round.num_words and (reason := unserved(round, None, users)):
            reasons[type(round).__name__] = reason
    assert reasons.keys() == NOT_SERVED.keys()
    assert all(part in reasons[name] for name, part in NOT_SERVED.items())
    assert len(rounds) >= 20


def test_counts_of_reports_are_the_tally(rounds):
    """`counted` says what `tally` does."""
    for name, round in rounds.items():
        reports = np.random.default_rng(0).integers(0, round.counted.num_reports, 300)
        reports = jnp.asarray(reports, jnp.int32)
        counts = jnp.bincount(reports, length=round.counted.num_reports).astype(jnp.int32)
        found, expected = round.counted.tally(counts), round.tally(reports, jnp.ones(300, bool))
        assert jax.tree.structure(found) == jax.tree.structure(expected), name
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            np.testing.assert_array_equal(a, b, err_msg=name)


UINT, INT = jnp.uint32, jnp.int32
OPERATIONS = {
    "shift": (lambda x, y: (x << y) + (x >> y), UINT, UINT),
    "shift-signed": (lambda x, y: (x << y) + (x >> y), INT, INT),
    "shift-known": (lambda x, y: (x << y.dtype.type(3)) ^ (y >> y.dtype.type(31)), INT, INT),
    "population-count": (lambda x, y: lax.population_count(x) + y, UINT, UINT),
    "population-count-signed": (lambda x, y: lax.population_count(x) + y, INT, INT),
    "sign": (lambda x, y: lax.sign(x) * y, INT, INT),
    "divide": (lambda x, y: jnp.where(y > 0, x // jnp.maximum(y, 1), x % 7), INT, INT),
    "not": (lambda x, y: jnp.where(~((x < y) | (y == 0)), x, y), INT, INT),
    "clip": (lambda x, y: jnp.clip(x, -5, 5) + lax.clamp(np.int32(0), y, np.int32(9)), INT, INT),
    "convert": (lambda x, y: x.astype(jnp.int32) + (y > 7).astype(jnp.int32), UINT, INT),
    "total-order": (
        lambda x, y: lax.lt_to_p.bind(x, y) ^ lax.le_to_p.bind(y, x),
        *[jnp.float32] * 2,
    ),
    "float-order": (lambda x, y: jnp.where(x < -y, abs(x), y), jnp.float32, jnp.float32),
    "reduce": (lambda x, y: jnp.stack([x, y, x ^ y]).sum() + jnp.stack([x, y]).max(), INT, INT),
    "shapes": (lambda x, y: jnp.flip(jnp.stack([x, y]).reshape(2, 1), 0).T[0, 1:][0], INT, INT),
    "select-one": (lambda x, y: lax.select_n(jnp.clip(x, 0, 2), x, y, x + y), INT, INT),
    "look-up-few": (lambda x, y: jnp.arange(5, dtype=INT)[x] + y, INT, INT),
    "look-up-rows": (lambda x, y: jnp.arange(6, dtype=INT).reshape(2, 3)[x, y], INT, INT),
    "look-up-slice": (
        lambda x, y: jnp.sum(lax.dynamic_slice(jnp.arange(8, dtype=INT) * 3, (x,), (3,))) ^ y,
        INT,
        INT,
    ),
    "reduce rows": (
        lambda x, y: jnp.stack([jnp.stack([x, y]), jnp.stack([y, x ^ y])]).sum(0)[1],
        INT,
        INT,
    ),
    "iota": (lambda x, y: jnp.sum(jnp.where(jnp.arange(4, dtype=INT) == x, y, 1)), INT, INT),
}


@pytest.mark.parametrize(("function", "first", "second"), OPERATIONS.values(), ids=OPERATIONS)
def test_operation(function, first, second):
    x, y = random_numbers(1, dtype=first), random_numbers(2, dtype=second)
    found = jax.jit(lambda x, y: on_cells(function, x, y)[0][()])(x, y)
    np.testing.assert_array_equal(found, jax.vmap(function)(x, y))


@pytest.mark.parametrize("sizes", [(1, 1), (3, 2), (4, 1)])
def test_tables_are_looked_up_in_range(sizes):
    table = jnp.arange(100, dtype=jnp.int32).reshape(4, 25) ** 2
    x, y = random_numbers(1), random_numbers(2)

    def entries(table, x, y):
        return lax.dynamic_slice(table, (x, y), sizes)

    (found,) = on_cells(entries, table, x, y)
    expected = jax.vmap(entries, in_axes=(None, 0, 0), out_axes=-1)(table, x, y)
    np.testing.assert_array_equal(jnp.stack(list(found.ravel())), expected.reshape(-1, LANES))


def test_what_is_known_is_computed_while_tracing():
    jaxpr = jax.make_jaxpr(
        lambda x: on_lanes(
            lambda x: x + lax.population_count(jnp.sum(jnp.arange(5, dtype=INT) << 2)), cell(x)
        )[0][()]
    )(jnp.zeros(LANES, INT))
    assert [e.primitive.name for e in jaxpr.eqns] == ["broadcast_in_dim", "add"]


REFUSED = {
    "floats that round": lambda x: x.astype(jnp.float32) * jnp.float32(0.1),
    "a float as an integer": lambda x: lax.bitcast_convert_type(x, jnp.float32).astype(INT),
    "a loop": lambda x: lax.while_loop(lambda y: y > 0, lambda y: y >> 1, x),
    "a sort": lambda x: jnp.sort(jnp.stack([x, x + 1]))[0],
    "many entries": lambda x: jnp.arange(99, dtype=INT)[x],
    "bits of a byte": lambda x: lax.population_count(x.astype(jnp.int8)),
}


@pytest.mark.parametrize("function", REFUSED.values(), ids=REFUSED)
def test_what_lanes_lack_is_refused(function):
    with pytest.raises(Unsupported, match="lanes"):
        on_cells(function, random_numbers(0), tables=False)
