"""Laws that need more than one spec or population: random users, and a user drawn at random."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp.randomizers._params import DrawnCountsRound
from tests import stats
from tests.contracts.registry import APPLICABLE, EXEMPLARS, RANDOMIZERS, ids

LISTED = [case for case in RANDOMIZERS if "channel_is_private" in APPLICABLE[case.name]]
DRAWN = [case for case in LISTED if isinstance(case.make(1.0).build(), DrawnCountsRound)]


@pytest.mark.parametrize("case", DRAWN, ids=ids)
def test_law_of_a_drawn_users_report_is_the_channels(case):
    spec, prior = case.make(1.0), np.asarray(case.counts) / sum(case.counts)
    channel = np.array(spec.channel(), np.float64)
    with jax.enable_x64(True):
        law = np.asarray(spec.build().report_law(jnp.asarray(prior)))
    np.testing.assert_allclose(law / law.sum(), prior @ channel, rtol=1e-12)
    assert np.abs(law / law.sum() - channel[0]).max() > 1e-3  # not that of any users


@pytest.mark.slow
@pytest.mark.parametrize("method", ["tally", "per_user"])
@pytest.mark.parametrize("case", [c for c in EXEMPLARS if c.name == "binary"], ids=ids)
def test_sample_truth_follows_the_users_at_hand(case, method, key):
    """Errors about the drawn users have mean zero and leave the sampling error out."""
    p = np.asarray(case.counts) / sum(case.counts)
    population = jaxdp.Population.from_distribution(p, 1000, case.inputs)
    spec = case.make(4.0)
    trials = jaxdp.simulate(spec, population, key, num_trials=300, method=method, truth="sample")
    truth = np.asarray(trials.truth)
    assert truth.shape == trials.estimates.shape
    assert truth.std(axis=0).max() > 0
    spread = trials.errors.var(axis=0).reshape(-1)
    assert spread.sum() < trials.estimates.var(axis=0).sum()
    zero = np.zeros(spread.size)
    stats.check_mean(trials.errors.reshape(300, -1), zero, variance=1.5 * spread)
