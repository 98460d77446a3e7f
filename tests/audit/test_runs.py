"""Audits of whole runs: what is run, and that sound protocols pass."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp.audit import estimate_epsilon
from jaxdp.audit._inputs import neighbour, users_of
from jaxdp.audit._runs import Exposed, run_samples
from jaxdp.linear import AdaptiveQueries
from jaxdp.pairwise import GiniDiversity, ThreeRound
from jaxdp.randomizers import KRR, BinaryResponse, Gaussian

CONFIDENCE = 1 - 1e-9


def test_neighbours_differ_in_one_user():
    pop = jaxdp.Population.from_histogram([1, 2, 1])
    users = users_of(pop)
    assert users.tolist() == [0, 1, 1, 2]
    changed = neighbour(pop, users, np.asarray(2, np.int32))
    assert users_of(changed).tolist() == [2, 1, 1, 2]
    assert changed.num_values == 3
    rows = jaxdp.Population.from_values(np.eye(2, dtype=np.float32))
    other = neighbour(rows, users_of(rows), np.array([0.5, 0.5], np.float32))
    assert users_of(other).tolist() == [[0.5, 0.5], [0.0, 1.0]]


def test_the_runs_are_those_of_run(key):
    """The estimates that are audited are those of `run`, and the outcome is that of `outcome`."""
    pop = jaxdp.Population.from_values([0, 1, 2, 2] * 8, 3)
    krr = KRR(3, 1.0)
    options: dict[str, Any] = dict(method="per_user", block_size=16)
    row = jaxdp.run(Exposed(krr.build()), pop, key, **options)
    np.testing.assert_allclose(row[1:4], jaxdp.run(krr, pop, key, **options))
    counts = jaxdp.engine.outcome(krr, pop, key, **options)
    np.testing.assert_array_equal(row[4:7], counts.numpy())
    assert row[0] == 3


@pytest.mark.slow
def test_both_paths_of_what_has_both(key):
    pops = [jaxdp.Population.from_values([v, 0], 3) for v in (0, 2)]
    groups = run_samples(KRR(3, 1.0), pops, np.array([0, 2], np.int32), (), key, 1000)
    assert list(groups) == ["per_user ", "tally "]
    assert [len(samples) for samples in groups.values()] == [2, 2]
    assert "tally outcome[1]" in groups["tally "][0].reals


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "users"),
    [
        (BinaryResponse(1.0), jaxdp.Population.from_values([0.5, -0.25])),
        (Gaussian(2, 1.0, 1e-2), jaxdp.Population.from_values(np.zeros((20, 2), np.float32))),
    ],
)
def test_randomizers_pass(spec, users, key):
    report = estimate_epsilon(spec, key, 10_000, population=users, confidence=CONFIDENCE)
    assert report.epsilon_lower < spec.epsilon
    assert not report.biased


def total(outcomes):
    """A statistic of outcomes, which are rows."""
    return outcomes.sum(axis=1)


def above(number, answers):
    """A score, then which values are above the average that was answered."""
    score = jnp.linspace(0.0, 1.0, 4)
    later = (score > answers[0]).astype(score.dtype)
    return jnp.where(number == 0, score, later)


@pytest.mark.slow
def test_three_rounds_over_random_groups_pass(key):
    users = jaxdp.Population.from_values(np.arange(300) % 3, 3)
    report = estimate_epsilon(
        ThreeRound(GiniDiversity(), 1.0, num_values=3),
        key,
        2000,
        population=users,
        confidence=CONFIDENCE,
        statistics=(total,),
    )
    assert not report.violates


@pytest.mark.slow
@pytest.mark.parametrize("num_users", [2, 40])
def test_queries_chosen_on_the_way_pass(num_users, key):
    """One of two users is seen; among 39 others it is not."""
    users = jaxdp.Population.from_values([0] * num_users, 4)
    queries = AdaptiveQueries(4, 1.0, 2, above, traceable=True)
    report = estimate_epsilon(queries, key, 10_000, population=users, confidence=CONFIDENCE)
    assert not report.violates
    assert (num_users == 2) == (report.epsilon_lower > 0)
