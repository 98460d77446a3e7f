"""Rounds whose integers a loop adds, on the plan of a GPU."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp._contract import Summed
from jaxdp.engine import Work, _stream
from jaxdp.engine._config import bounded, build_params, configure
from jaxdp.engine._plan import Plan
from jaxdp.engine._simulate import _play_once
from jaxdp.population import Population
from jaxdp.random import TILE, Count, FlatWords
from jaxdp.randomizers import PrivUnitG
from jaxdp_kernels.randomize_and_tally import users_reports
from jaxdp_kernels.threefry_words import StreamKey
from tests.contracts.case import ids
from tests.contracts.registry import PROTOCOLS

VECTORS = np.array([[0.6, 0.8, 0.0], [0.0, 0.0, 0.0], [-0.3, 0.2, 0.5], [0.0, 1.0, 0.0]])
GIVEN = np.resize(VECTORS, (20_000, 3)).astype(np.float32)

POPULATIONS = {
    "an array, whose last block is not full": lambda: Population.from_values(GIVEN),
    "one block": lambda: Population.from_values(GIVEN[:4096]),
    "tiles of one value": lambda: Population.from_histogram([50_000, 3, 0, 40_000], VECTORS),
    "drawn": lambda: Population.from_distribution([0.5, 0.25, 0.125, 0.125], 20_000, VECTORS),
}


def _played(population, key, platform, block_size=2**12):
    """The sum of the reports and the number of the users, of the plan of a platform."""
    spec = PrivUnitG(3, 4.0)
    params = build_params(spec)
    config = configure(params, population, "per_user", None, None)
    config = dataclasses.replace(config, platform=platform, block_size=block_size)
    tally = _play_once(params, bounded(population, config), key, config)[0]
    return tally["sum"].numpy(), int(tally["users"]), params


@pytest.mark.parametrize("name", POPULATIONS)
def test_sums_are_those_of_a_cpu(name, key, monkeypatch):
    """To a report in a thousand, which another program may round otherwise; all users once."""
    used = []
    adder = _stream._adder

    def seen(round, plan):
        made = adder(round, plan)
        used.append(type(made).__name__)
        return made

    monkeypatch.setattr(_stream, "_adder", seen)
    population = POPULATIONS[name]()
    jax.clear_caches()  # a program that was traced before would not be traced again
    sums, users, params = _played(population, key, "gpu")
    assert used == ["_Summing"]
    expected, everyone, _ = _played(population, key, "cpu")
    assert users == everyone == int(population.size)
    np.testing.assert_allclose(sums, expected, rtol=0, atol=users / 1000)
    # A user left out, or one too many, moves a sum by so much.
    assert params.grid > 2 * users / 1000


SUMMED = (
    "gaussian priv-unit-g two-round factorized-queries projection-mechanism marginal-queries"
).split()


@pytest.mark.parametrize("case", [case for case in PROTOCOLS if case.name in SUMMED], ids=ids)
def test_what_rounds_say_they_add_is_what_they_tally(case, key):
    """Compares the numbers of many users with the tally of their reports."""
    users, population = 2**10, case.population()
    places = np.arange(users, dtype=np.uint32)
    start, stream = jnp.zeros(2, jnp.uint32), StreamKey.of(key)
    values = population.source.at(Count.of(places % population.num_users))
    found = 0
    for step in build_params(case.make(1.0)).rounds(Work(float(users), population.num_values or 1)):
        if (summed := step.round.summed) is None:
            continue
        found += 1
        words = FlatWords(stream, start, users, step.round.num_words)
        numbers = np.asarray(summed.numbers(words, values, summed.alone(words)))
        assert numbers.shape == (users, summed.size)
        assert np.abs(numbers).max() <= summed.bound
        tally = summed.tally(Count.of(numbers.astype(np.int64).sum(axis=0)), Count.of(users))
        reports = users_reports(step.round, stream, start, jnp.asarray(places), values)
        expected = step.round.tally(reports, jnp.ones(users, bool))
        assert tally["users"].numpy() == expected["users"].numpy() == users
        np.testing.assert_allclose(
            tally["sum"].numpy(), expected["sum"].numpy(), rtol=0, atol=users / 100
        )
    assert found


@pytest.mark.parametrize(("dim", "block"), [(64, 2**20), (4096, 2**15), (2**18, TILE)])
def test_blocks_of_long_vectors_are_smaller(dim, block):
    """A GPU stores the normals of a block: 2**27 of them at most, or those of one tile."""
    shape = jax.ShapeDtypeStruct((2**22, dim), np.float32)
    population = jax.eval_shape(Population.from_values, shape)
    params = build_params(PrivUnitG(dim, 1.0))
    plan = _stream.make_plan(population, params, 1, None, "gpu")
    assert plan.block == block


def test_sums_beyond_32_bits():
    """Rows are as large as they may be, in up to the most blocks of a span."""
    plan = _stream.Plan(2**13, 2**13, True, wide=True, adds=True)
    summing = _stream._Summing.of(build_params(PrivUnitG(1, 1.0)), plan)
    assert summing is not None
    low = summing.zero[0]
    for extreme in (summing.row * summing.summed.bound, -summing.row * summing.summed.bound):
        once = np.full(low.shape, extreme, np.int64)
        blocks = _stream._MOST_PLACES
        limbs = ((once & 0xFFFF) * blocks, (once >> 16) * blocks)
        assert all(np.abs(limb).max() < 2**31 for limb in limbs)
        low, high = (jnp.asarray(limb, jnp.int32) for limb in limbs)
        tally = summing.finished((low, high, jnp.int32(7)))
        assert int(tally["users"]) == 7
        assert tally["sum"].numpy().tolist() == [extreme * blocks * summing.rows]


@pytest.mark.parametrize("bound", [1, 2**18, 2**20, 2**22, 2**23])
def test_rows_do_not_wrap(bound):
    """A row of the largest integers adds up below 2**31; rows that would be short are not made."""

    class Round:
        num_words = 1
        summed = Summed(lambda words, values, alone: values, 1, bound, lambda sums, users: sums)

    made = _stream._Summing.of(Round(), Plan(2**14, None, True, True, adds=True))  # pyright: ignore[reportArgumentType]
    if bound == 2**23:
        assert made is None
        return
    assert made is not None
    assert made.row * bound < 2**31
    assert made.row == 2**12 or 2 * made.row * (bound + 1) > 2**31
