"""Trials over the axis "trials" of a mesh, users over others: the same bits, and no collectives."""

import collections
import dataclasses
import functools
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp.audit._runs import Exposed
from jaxdp.engine import Round, TallyLaw, _config, _simulate, params, static
from jaxdp.engine._config import Config, configure, for_trials
from jaxdp.engine._programs import OwnProgram
from jaxdp.random import Count, histogram
from tests.engine.probes import TwoRounds

NUM_TRIALS = 11
MESHES = {
    "trials": ((8,), ("trials",)),
    "users": ((8,), ("users",)),
    "both": ((2, 4), ("trials", "users")),
    "swapped": ((2, 4), ("users", "trials")),
}
COLLECTIVE = re.compile(r" (all-\w+|collective-\w+|reduce-scatter|ragged-[\w-]+?)(?:-start)?\(")


@params
class Flips(Round[Count]):
    """Counts bins, of which a coin moves every user to the next; its law is made up.

    The estimate is in floats, whose last digits depend on how a program adds them up.
    """

    size: int = static(default=5)

    @property
    def num_words(self) -> int:
        return 1

    @property
    def law(self) -> TallyLaw[Count]:
        def draw(key, counts, inputs):
            del inputs
            bits = jax.random.bits(key, (self.size,), jnp.uint32) >> np.uint32(22)
            return counts + Count.of(bits)

        return TallyLaw(draw, lambda work: 1.0)

    def from_bits(self, words, value, /):
        return (value + (words[0] & np.uint32(1)).astype(jnp.int32)) % np.int32(self.size)

    def tally(self, reports, mask=None, /) -> Count:
        return histogram(reports, self.size, mask)

    def estimate(self, outcome: Count, /) -> jax.Array:
        decoded = jnp.sin(jnp.arange(1.0, 1 + self.size**2)).reshape(-1, self.size)
        found = decoded.astype(jnp.float64) @ jnp.sqrt(outcome.f64())
        return jnp.outer(found, jnp.exp(-found / 1e3))

    @property
    def has_target(self) -> bool:
        return True

    def target(self, outcome: Count, histogram: jax.Array, inputs: Any, /) -> jax.Array:
        return self.estimate(outcome) * histogram.max()


FLIPS = Flips()
KRR5 = jaxdp.randomizers.KRR(5, 1.0).build()
USERS = jaxdp.Population.from_distribution(np.arange(1, 6) / 15, 3001)


def mesh_of(name: str) -> Any:
    """A mesh over all devices, with Explicit axes, as jax makes them by default; or a name."""
    return jax.make_mesh(*MESHES[name]) if name in MESHES else name


@functools.cache
def alone(method: Any) -> jaxdp.Trials:
    """The trials on one device."""
    key = jax.random.key(17)
    return jaxdp.simulate(
        FLIPS, USERS, key, num_trials=NUM_TRIALS, method=method, truth="sample", trial_batch=4
    )


@pytest.mark.parametrize(
    ("name", "method"),
    [(name, "per_user") for name in (*MESHES, "local")]
    + [(name, "tally") for name in ("trials", "users", "both", "local")],
)
def test_same_bits(name, method, monkeypatch):
    """Compares estimates, targets and counts: 11 trials in chunks of 8 or fewer, and one by one."""
    monkeypatch.setattr(_simulate, "_CHUNK_LIMBS", 1)
    batch = {"both": 1, "swapped": 4}.get(name)
    found = jaxdp.simulate(
        FLIPS,
        USERS,
        jax.random.key(17),
        num_trials=NUM_TRIALS,
        method=method,
        mesh=mesh_of(name),
        truth="sample",
        trial_batch=batch,
    )
    np.testing.assert_array_equal(found.estimates, alone(method).estimates)
    np.testing.assert_array_equal(found.truth, alone(method).truth)
    assert len(np.unique(found.estimates[:, 0, 0])) == NUM_TRIALS


def lowered(name: str, method: Any, number: int) -> tuple[Any, Any]:
    """Both programs of so many trials over a mesh, compiled, and the first one's results."""
    config = configure(FLIPS, USERS, method, mesh_of(name), None)
    config = for_trials(dataclasses.replace(config, want_counts=True), FLIPS, USERS)
    with jax.enable_x64(True):
        trials = np.arange(number, dtype=np.uint32)
        play = OwnProgram(_simulate._play_trials, config)
        play = play.compile(FLIPS, USERS, jax.random.key(17), trials)
        outcomes, counts = play(FLIPS, USERS, jax.random.key(17), trials)
        finish = _simulate._finish_trials.lower(FLIPS, (None, None), outcomes, counts, config)
        return (play, finish.compile()), outcomes


@pytest.mark.parametrize(
    ("name", "method", "rounds", "share"),
    [
        ("trials", "per_user", 0, 2),
        ("trials", "tally", 0, 2),
        ("local", "per_user", 0, 2),
        ("local", "tally", 0, 2),
        ("both", "per_user", 1, 8),
        ("users", "per_user", 1, 16),
    ],
)
def test_collectives_and_shares(name, method, rounds, share):
    """One all-reduce a round of users, none between trials; each device has its share of these."""
    (play, finish), outcomes = lowered(name, method, 16)
    found = collections.Counter(COLLECTIVE.findall(play.as_text()))
    assert found == ({"all-reduce": rounds} if rounds else {})
    assert not COLLECTIVE.search(finish.as_text())
    for leaf in jax.tree.leaves(outcomes):
        assert [shard.data.shape[0] for shard in leaf.addressable_shards] == [share] * 8


@pytest.mark.parametrize(
    "protocol", [TwoRounds(KRR5, KRR5), Exposed(FLIPS)], ids=["interactive", "audited"]
)
def test_other_protocols(protocol, key):
    """Protocols of several rounds, whose users are split at random, and as an audit runs them."""
    users = jaxdp.Population.from_values(np.arange(3001) % 5, num_values=5)
    simulate = functools.partial(
        jaxdp.simulate, protocol, users, key, num_trials=3, method="per_user"
    )
    np.testing.assert_array_equal(simulate(mesh=mesh_of("both")).estimates, simulate().estimates)


@params
class OnHost(Flips):
    """Flips, of which jax is told that it calls Python."""

    @property
    def traceable(self) -> bool:
        return False


def test_protocol_on_the_host(key):
    """It runs a trial at a time, whose users all devices share."""
    simulate = functools.partial(
        jaxdp.simulate, OnHost(), USERS, key, num_trials=2, method="per_user"
    )
    np.testing.assert_array_equal(simulate(mesh=mesh_of("both")).estimates, simulate().estimates)


def test_runs_split_users_over_all_axes(key):
    """A run, and one for each of several params."""
    grid = jaxdp.stack([jaxdp.randomizers.KRR(5, epsilon) for epsilon in (0.5, 1.0, 2.0)])
    users = jaxdp.Population.from_histogram([600, 601, 600, 600, 600])

    def run(params, mesh=None):
        return jaxdp.run(params, users, key, method="per_user", mesh=mesh)

    on_mesh = functools.partial(run, mesh=mesh_of("both"))
    np.testing.assert_array_equal(on_mesh(FLIPS), run(FLIPS))
    np.testing.assert_allclose(jax.vmap(on_mesh)(grid), jax.vmap(run)(grid), rtol=1e-6)


@pytest.mark.parametrize("number", [1, 7])
def test_batches_of_estimates(number, monkeypatch):
    """On accelerators: of a few trials each, and the last one is not full."""
    monkeypatch.setattr(_simulate, "_BATCH_TRIALS", 3)
    cpu = Config("per_user", None, None)
    gpu = dataclasses.replace(cpu, platform="gpu")
    counts = np.random.default_rng(0).integers(1, 10**6, (2, number, 5))
    with jax.enable_x64(True):
        outcome, users = Count.of(counts[0]), Count.of(counts[1])
        finish = functools.partial(_simulate._finish_trials, FLIPS, (None, None), outcome, users)
        for batched, single in zip(finish(gpu), finish(cpu), strict=True):
            np.testing.assert_allclose(batched, single, rtol=1e-12)


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
def test_memory_of_estimates(platform, monkeypatch):
    """Estimates have d x d numbers each: besides the result, memory holds those of a batch."""
    monkeypatch.setattr(_simulate, "_BATCH_NUMBERS", 4 * 64**2)
    config = Config("per_user", None, None, platform=platform)
    flips = Flips(64)
    with jax.enable_x64(True):
        outcomes = jax.eval_shape(lambda: Count.of(jnp.zeros((100, 64), jnp.int32)))
        program = _simulate._finish_trials.lower(flips, (np.ones(64), None), outcomes, None, config)
        memory = program.compile().memory_analysis()
    one = 8 * 64**2
    assert memory is not None
    assert memory.output_size_in_bytes >= 200 * one  # estimates and targets
    assert memory.temp_size_in_bytes < 230 * one


def test_axes_of_trials():
    """Tallies that are drawn take all axes, but those over which the users lie."""
    rows = np.arange(4000, dtype=np.int32) % 5
    given = jaxdp.Population.from_values(rows, num_values=5)
    over_users = jax.NamedSharding(mesh_of("both"), jax.P("users"))
    split = jaxdp.Population.from_values(jax.device_put(rows, over_users), num_values=5)

    def axes(users, method, protocol=FLIPS):
        config = configure(protocol, users, method, mesh_of("both"), None)
        return for_trials(config, protocol, users).trial_axes

    assert axes(given, "per_user") == axes(split, "per_user") == ("trials",)
    assert axes(given, "tally") == ("trials", "users")
    assert axes(split, "tally") == ("trials",)
    assert axes(given, "tally", OnHost()) == ()


class Device:
    """A device of so much memory."""

    def __init__(self, stats: dict[str, int] | None):
        self.stats = stats

    def memory_stats(self) -> dict[str, int] | None:
        return self.stats


def test_default_batch(monkeypatch):
    """As many trials as fit: into a cache, or into a device's memory, which may be unknown."""
    users = jaxdp.Population.from_histogram([2**11] * 5)
    listed = jaxdp.Population.from_values(np.zeros(5 * 2**11, np.int32), num_values=5)

    def batch(platform="gpu", name=None, users=users):
        mesh = mesh_of(name) if name else None
        config = Config("per_user", mesh, None, platform=platform)
        return for_trials(config, FLIPS, users).trial_batch

    assert batch("cpu") == 1  # of a large block, whatever the number of users
    assert batch("cpu", users=listed) == 2**16 // (5 * 2**11)
    assert batch("cpu", "users", listed) == 2**16 // (5 * 2**8)
    assert batch("cpu", "both", listed) == 2**16 // (5 * 2**9)
    assert batch() == batch(name="trials") == 2**22 // (5 * 2**11)
    for stats in (None, {}, {"bytes_limit": 2**36}):
        monkeypatch.setattr(_config.jax, "local_devices", lambda stats=stats: [Device(stats)])
        expected = 2**24 if stats else 2**22
        assert batch() == expected // (5 * 2**11)
