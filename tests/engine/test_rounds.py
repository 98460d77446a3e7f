"""`rounds`: of the cipher behind the users' words, and behind nothing else."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp.engine import outcome
from jaxdp.random import Count, Stream
from jaxdp.randomizers import KRR, Laplace, Rappor
from jaxdp_kernels.threefry_words import StreamKey
from jaxdp_kernels.threefry_words.ref import user_axes, users_words
from tests import stats
from tests.engine.probes import Visits, mesh_of

NUM_USERS = 3000
NUMBERS = np.linspace(-1, 1, NUM_USERS, dtype=np.float32)
BINS = np.arange(NUM_USERS, dtype=np.int32) % 5
CASES = {
    "columns": (KRR(5, 1.0), jaxdp.Population.from_values(BINS, num_values=5), BINS),
    "drafts": (Laplace(1.0), jaxdp.Population.from_values(NUMBERS), NUMBERS),
    "one at a time": (Rappor(5, 1.0), jaxdp.Population.from_histogram(np.bincount(BINS)), None),
}


def numbers(tally) -> np.ndarray:
    leaves = jax.tree.leaves(tally, is_leaf=lambda x: isinstance(x, Count))
    return np.concatenate([np.ravel(leaf.numpy()) for leaf in leaves])


@pytest.mark.parametrize("kind", CASES)
def test_reports_are_made_of_words_of_so_many_rounds(kind, key):
    """User by user, and whatever the blocks and the devices."""
    spec, population, values = CASES[kind]
    values = np.sort(BINS) if values is None else values
    params = spec.build()
    stream = StreamKey.of(jax.random.fold_in(key, Stream.ROUND), rounds=13)

    @jax.jit
    def by_hand(stream):
        users = jnp.arange(NUM_USERS, dtype=jnp.uint32)
        words = users_words(stream, jnp.zeros(2, jnp.uint32), users, params.num_words)
        axes = user_axes(params.num_words), 0
        return params.tally(jax.vmap(params.from_bits, axes)(words, jnp.asarray(values)))

    expected = numbers(by_hand(stream))
    options = {"block_size": 2**10, "mesh": mesh_of(2)} if kind == "columns" else {}
    found = outcome(spec, population, key, method="per_user", rounds=13, **options)
    np.testing.assert_array_equal(numbers(found), expected)
    assert (numbers(by_hand(StreamKey(stream.data, rounds=20))) != expected).any()


def test_users_are_the_same_for_any_number(key):
    visits = Visits(num_labels=5)  # reports the values
    drawn = jaxdp.Population.from_distribution([0.1, 0.2, 0.3, 0.2, 0.2], num_users=NUM_USERS)
    half, _ = drawn.split(key, [0.5, 0.5])
    np.testing.assert_array_equal(
        *(jaxdp.run(visits, half, key, method="per_user", rounds=r) for r in (13, 20))
    )


def test_trials_are_runs(key):
    spec, population, _ = CASES["columns"]
    options = {"method": "per_user", "rounds": 13}
    trials = jaxdp.simulate(spec, population, key, num_trials=2, **options)
    again = jaxdp.run(spec, population, jax.random.fold_in(key, 1), **options)
    np.testing.assert_array_equal(trials.estimates[1], again)
    inside = jax.jit(lambda key: jaxdp.run(spec, population, key, **options))
    np.testing.assert_allclose(inside(jax.random.fold_in(key, 1)), again, rtol=1e-6)


def test_reports_have_the_law_of_their_randomizer(key):
    """A million of one value, which tell epsilon = 1 from 1.02."""
    right, wrong = (np.array(KRR(5, epsilon).channel()[0], np.float64) for epsilon in (1.0, 1.02))
    assert stats.detectable_proportion(2**20, right[0], cells=10) < wrong[0] - right[0]
    users = jaxdp.Population.from_histogram([2**20, 0, 0, 0, 0])
    counts = outcome(KRR(5, 1.0), users, key, method="per_user", rounds=13).numpy()
    stats.check_multinomial(counts, right)
    stats.must_fail(stats.check_multinomial, counts, wrong)


@pytest.mark.parametrize("rounds", [0, 12, 14, True, None, "13", 13.5])
def test_other_numbers_are_refused(rounds, key):
    spec, population, _ = CASES["columns"]
    for run in (jaxdp.run, outcome):
        with pytest.raises(ValueError, match="rounds must be one of 13, 20, got"):
            run(spec, population, key, rounds=rounds)
    with pytest.raises(ValueError, match="rounds must be one of 13, 20, got"):
        jaxdp.simulate(spec, population, key, num_trials=2, rounds=rounds)
