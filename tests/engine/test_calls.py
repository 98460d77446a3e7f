"""Progress, chunks of trials, and use inside the caller's own transformations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp._contract import Cost
from jaxdp.engine import _simulate
from jaxdp.engine._config import configure
from jaxdp.randomizers import KRR
from tests.marks import slow

KRR3 = KRR(3, 1.0)
POPULATION = jaxdp.Population.from_histogram([500, 300, 200])


@pytest.mark.slow
def test_progress_changes_nothing_but_the_screen(key, capsys):
    pytest.importorskip("rich")
    method = "per_user"
    quiet = jaxdp.simulate(KRR3, POPULATION, key, num_trials=230, method=method)
    assert capsys.readouterr().out == ""
    shown = jaxdp.simulate(KRR3, POPULATION, key, num_trials=230, method=method, progress=True)
    np.testing.assert_array_equal(shown.estimates, quiet.estimates)
    assert "230/230" in capsys.readouterr().out


def test_progress_without_rich_names_the_remedy(key, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "rich.progress", None)
    with pytest.raises(ImportError, match=r"jaxdp-local\[sweep\]"):
        jaxdp.simulate(KRR3, POPULATION, key, num_trials=2, progress=True)


@pytest.mark.parametrize("limbs", [slow(1), 100])
def test_chunks_of_trials_change_nothing(limbs, key, monkeypatch):
    """Memory for one trial, and for some of 23 at a time: the last chunk is not full."""
    population = jaxdp.Population.from_distribution([0.5, 0.25, 0.25], 1000)
    whole = jaxdp.simulate(KRR3, population, key, num_trials=23, truth="sample")
    monkeypatch.setattr(_simulate, "_CHUNK_LIMBS", limbs)
    pieces = jaxdp.simulate(KRR3, population, key, num_trials=23, truth="sample")
    np.testing.assert_array_equal(pieces.estimates, whole.estimates)
    np.testing.assert_array_equal(pieces.truth, whole.truth)


def test_more_trials_extend_fewer(key):
    few = jaxdp.simulate(KRR3, POPULATION, key, num_trials=5)
    many = jaxdp.simulate(KRR3, POPULATION, key, num_trials=9)
    np.testing.assert_array_equal(many.estimates[:5], few.estimates)


@pytest.mark.slow
def test_inside_scan(key):
    """A loop over trials that keeps a running sum, as in a user's own training step."""
    method = "per_user"

    def step(total, k):
        estimate = jaxdp.run(KRR3, POPULATION, k, method=method)
        return total + estimate, estimate[0]

    keys = jax.random.split(key, 4)
    total, first = jax.jit(lambda ks: jax.lax.scan(step, jnp.zeros(3), ks))(keys)
    alone = np.stack([jaxdp.run(KRR3, POPULATION, k, method=method) for k in keys])
    np.testing.assert_allclose(first, alone[:, 0], rtol=1e-5)
    np.testing.assert_allclose(total, alone.sum(axis=0), rtol=1e-5)


def test_population_made_inside_jit(key):
    """Arrays that the caller computes: not checked, but used."""

    @jax.jit
    def quantise_and_count(x, k):
        bins = jnp.clip((x * 3).astype(jnp.int32), 0, 2)
        population = jaxdp.Population.from_values(bins, num_values=3)
        return jaxdp.run(KRR3, population, k, method="per_user")

    x = jnp.linspace(0, 1, 1000)
    bins = np.clip((np.asarray(x) * 3).astype(int), 0, 2)
    population = jaxdp.Population.from_values(bins, num_values=3)
    expected = jaxdp.run(KRR3, population, key, method="per_user")
    np.testing.assert_allclose(quantise_and_count(x, key), expected, rtol=1e-6)


def test_vmap_over_populations(key):
    counts = np.array([[500, 300, 200], [10, 20, 970]])
    stacked = jax.tree.map(
        lambda *leaves: jnp.stack(leaves), *map(jaxdp.Population.from_histogram, counts)
    )
    together = jax.vmap(lambda pop: jaxdp.run(KRR3, pop, key, method="per_user"))(stacked)
    for row, histogram in zip(together, counts, strict=True):
        population = jaxdp.Population.from_histogram(histogram)
        alone = jaxdp.run(KRR3, population, key, method="per_user")
        np.testing.assert_allclose(row, alone, rtol=1e-6)


def test_auto_takes_the_tally_where_users_are_many():
    def method(users):
        population = jaxdp.Population.from_histogram([users, 1, 1])
        return configure(KRR3.build(), population, "auto", None, None).method

    assert method(10) == "per_user"
    assert method(10**9) == "tally"


@pytest.mark.parametrize(("ratio", "method"), [(1.9, "per_user"), (2.1, "tally")])
def test_auto_takes_the_tally_where_it_is_clearly_cheaper(ratio, method, monkeypatch):
    params = KRR3.build()
    monkeypatch.setattr(type(params), "cost", lambda self, work: Cost(ratio, 1.0))
    assert configure(params, POPULATION, "auto", None, None).method == method


def test_key_of_a_trial_is_not_the_key_of_a_run(key):
    trials = jaxdp.simulate(KRR3, POPULATION, key, num_trials=1, method="per_user")
    assert np.any(trials.estimates[0] != jaxdp.run(KRR3, POPULATION, key, method="per_user"))


def test_one_function_inside_jit_and_outside(key):
    """Params hold float64, of which jax keeps the float32 constant of a 32-bit program."""
    params = jaxdp.randomizers.Laplace(1.0).build()

    def mean(x):
        population = jaxdp.Population.from_values(x)
        return jaxdp.run(params, population, key, method="per_user")

    x = jnp.array([0.1, 0.2, 0.3])
    np.testing.assert_allclose(jax.jit(mean)(x), mean(x), rtol=1e-6)
