"""Every user of every population is visited exactly once."""

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st

import jaxdp
from jaxdp.engine import _stream, params, static
from jaxdp.engine._config import Config, bounded, build_params
from jaxdp.engine._plan import make_plan
from jaxdp.engine._simulate import _play_once
from jaxdp.engine._stream import stream_tally
from jaxdp.random import TILE, Count
from jaxdp.randomizers import KRR, AffineSubsets
from jaxdp_kernels.threefry_words import StreamKey
from tests.engine.probes import LazyNoisy, Noisy, Visits, mesh_of
from tests.marks import slow


@params
class Words(Visits):
    """Reads as many words as it says."""

    number: int = static(default=1)

    @property
    def num_words(self) -> int:
        return self.number


@hypothesis.settings(max_examples=60)
@hypothesis.given(
    n=st.sampled_from([1, 7, 200, 2049, 6145, 8192, 20_000]),
    devices=st.integers(1, 8),
    given=st.booleans(),
    num_words=st.sampled_from([1, 2**7, 2**16, 2**20]),
    block_size=st.sampled_from([None, 2**4, 2**6, 2**12, 2**14]),
    platform=st.sampled_from(["cpu", "gpu"]),
)
def test_every_user_once(n, devices, given, num_words, block_size, platform):
    """The rows that a device reads and does not mask, over all blocks and devices."""
    if given:
        population = jaxdp.Population.from_values(np.zeros(n, np.int32), num_values=1)
    else:
        population = jaxdp.Population.from_histogram([n])
        if platform == "gpu":
            population = jaxdp.Population(population.source.bounded())
    plan = make_plan(population, Words(number=num_words), devices, block_size, platform)
    blocks = int(plan.num_blocks(population, devices))
    visited = np.zeros(n, int)
    for device in range(devices):
        first = plan.device_start(jnp.uint32(device), blocks)
        for number in range(blocks):
            start = int(first) + number * plan.block
            assert start % TILE == 0 or not plan.tiled
            left = plan.users_left(Count.of(start), population, first)
            visited[start : start + int(left)] += 1
    np.testing.assert_array_equal(visited, 1)


@pytest.mark.parametrize(
    ("spec", "block"),
    [
        (KRR(2**4, 1.0), 2**14),
        (KRR(2**16, 6.0), 2**17),  # two users for each report
        (KRR(2**20, 6.0), 2**18),  # the most that a block has
        (AffineSubsets(1024, 1.0), 2**17),  # five words a user, and 2**20 a block
    ],
)
def test_many_reports_have_many_users(spec, block):
    """Each block adds a count of every report: a block of few users would do little else."""
    users = jaxdp.Population.from_histogram(np.full(spec.num_values, 1000))
    assert make_plan(users, spec.build(), 1, None, "cpu").block == block


@pytest.mark.parametrize("left", [0, 1, 2**12 - 1, 2**12, 2**32 - 1, 2**32, 2**32 + 5, 2**40 + 1])
def test_users_left_of_many(left):
    """More than 32 bits hold, of which the lower ones are few."""
    population = jaxdp.Population.from_histogram([2**33 + left])
    plan = make_plan(population, Words(number=1), 1, 2**12, "cpu")
    assert int(plan.users_left(Count.of(2**33), population, Count.of(0))) == min(left, 2**12)


@pytest.mark.parametrize("devices", [1, 3])
@pytest.mark.parametrize("kind", ["histogram", "distribution"])
def test_a_program_for_more_users_than_32_bits_hold(kind, devices, key):
    """On an accelerator, where the number of users is part of the program."""
    wide = Config("per_user", None if devices == 1 else mesh_of(devices), None, platform="gpu")
    users = jaxdp.Population.from_histogram([2**40 + 3, 5])
    if kind == "distribution":
        users = jaxdp.Population.from_distribution([0.25, 0.75], num_users=2**40 + 3)
    users = bounded(users.bind(key), wide)
    params = build_params(jaxdp.randomizers.KRR(2, 1.0))
    stream = StreamKey.of(key)
    tally = jax.eval_shape(lambda p, u: stream_tally(p, u, stream, config=wide), params, users)
    assert tally.shape == (2,)


@pytest.mark.parametrize("devices", [1, 3])
@pytest.mark.parametrize("most_users", [2**31 - 1, 3 * 2**14])
@pytest.mark.parametrize("rounds", ["counted", "summed"])
def test_users_of_long_bins_on_an_accelerator(devices, most_users, rounds, monkeypatch, key):
    """Tiles of one value each, and the rest of the users, over several spans of blocks."""
    users = jaxdp.Population.from_histogram([90_000, 1, 0, 60_000, 2048, 50_001])
    check_spans(users, devices, most_users, rounds, monkeypatch, key)


def test_a_last_span_of_fewer_blocks(monkeypatch, key):
    """Five blocks of each device's users, in spans of three: the sixth is another device's."""
    users = jaxdp.Population.from_values(np.arange(15 * 2**14) % 6, num_values=6)
    check_spans(users, 3, 3 * 2**14, "counted", monkeypatch, key)


def check_spans(users, devices, most_users, rounds, monkeypatch, key):
    """An accelerator's tally, over spans of so many users, is that of a CPU."""
    monkeypatch.setattr(_stream, "_MOST_USERS", most_users)
    spec = jaxdp.randomizers.KRR(6, 1.0) if rounds == "counted" else Visits(6)
    here = jaxdp.engine.outcome(spec, users, key, method="per_user")
    mesh = None if devices == 1 else mesh_of(devices)
    wide = Config("per_user", mesh, 2**14, platform="gpu")
    there = _play_once(build_params(spec), bounded(users, wide), key, wide)[0]
    np.testing.assert_array_equal(there.numpy(), here.numpy())


@pytest.mark.parametrize(
    ("n", "devices", "block_size"),
    [
        (1, 1, None),
        (1, 8, None),
        (15, 4, None),
        (33_000, 1, 2**15),
        (95_001, 3, 2**14),
        (18_000, 3, 2**12),
    ],
)
@pytest.mark.parametrize("kind", ["array", "histogram"])
def test_every_user_once_in_the_engine(n, devices, block_size, kind, key):
    """User i holds bin i, so the tally tells how often each index was read."""
    if kind == "array":
        population = jaxdp.Population.from_values(np.arange(n), num_values=n)
    else:
        population = jaxdp.Population.from_histogram(np.ones(n, int))
    mesh = None if devices == 1 else mesh_of(devices)
    found = jaxdp.run(Visits(n), population, key, mesh=mesh, block_size=block_size)
    np.testing.assert_array_equal(found, 1)


def test_number_of_blocks_beyond_32_bits_of_users():
    population = jaxdp.Population.from_histogram([2**40 + 1, 2**41])
    plan = make_plan(population, Words(number=1), 8, None, "cpu")
    assert int(plan.num_blocks(population, 8)) == -(-(2**40 + 2**41 + 1) // plan.block // 8)
    start = plan.device_start(jnp.uint32(7), plan.num_blocks(population, 8))
    assert int(start) == 7 * int(plan.num_blocks(population, 8)) * plan.block


def test_devices_of_more_users_than_32_bits_hold():
    """Users whose number is part of the program, as on an accelerator."""
    users = jaxdp.Population.from_histogram([2**40 + 3])
    plan = make_plan(jaxdp.Population(users.source.bounded()), Words(number=1), 3, None, "gpu")
    assert plan.share is not None
    assert plan.share > 2**32
    first = plan.device_start(jnp.uint32(2), plan.num_blocks(users, 3))
    assert int(first) == 2 * plan.share
    last = int(first) + (2**40 + 2 - int(first)) // plan.block * plan.block
    assert last + int(plan.users_left(Count.of(last), users, first)) == 2**40 + 3


def test_words_of_a_user_do_not_depend_on_who_else_there_is(key):
    """User i has the words of row i of the round's stream: a longer array only adds reports."""
    krr = jaxdp.randomizers.KRR(4, 1.0)
    users = np.arange(3000, dtype=np.int32) % 4
    params = krr.build()
    stream = jaxdp.random.stream(key, jaxdp.random.Stream.ROUND)
    words = jaxdp.random.words(stream, Count.of(0), 3000, 1)
    reports = jax.vmap(params.from_bits, in_axes=(-1, 0))(words, jnp.asarray(users))
    for n in (1, 2999, 3000):
        tally = np.bincount(np.asarray(reports)[:n], minlength=4)
        with jax.enable_x64(True):
            expected = np.asarray(params.estimate(Count.of(tally)))
        population = jaxdp.Population.from_values(users[:n], num_values=4)
        found = jaxdp.run(krr, population, key, method="per_user")
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", [slow("values"), "histogram"])
def test_words_read_one_at_a_time_give_the_same_reports(kind, key):
    eager, lazy = Noisy(), LazyNoisy()
    rows = np.arange(900, dtype=np.float32).reshape(300, 3)
    population = (
        jaxdp.Population.from_values(rows)
        if kind == "values"
        else jaxdp.Population.from_histogram(np.full(300, 2), rows)
    )
    a, b = (jaxdp.run(p, population, key, method="per_user") for p in (eager, lazy))
    np.testing.assert_array_equal(a, b)
    other = jaxdp.run(lazy, population, jax.random.fold_in(key, 1), method="per_user")
    assert np.any(other != b)
