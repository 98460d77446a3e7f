"""Every path of every member is a program; with `-m slow` it also runs."""

import jax
import numpy as np
import pytest

import jaxdp
from tests.contracts.registry import PATHS, PROTOCOLS, ids


@pytest.mark.parametrize("case", PROTOCOLS, ids=ids)
def test_the_law_of_the_tally_is_where_it_is_said(case):
    assert hasattr(case.make(1.0).build(), "sample_tally") == case.has_law


@pytest.mark.parametrize(("case", "method"), PATHS)
def test_every_path_is_traced(case, method, key):
    """The estimate has the shape of the truth; nothing is compiled."""
    spec, population = case.make(1.0), case.population()
    estimate = jax.eval_shape(lambda k: jaxdp.run(spec, population, k, method=method), key)
    truth = spec.truth(population.counts().numpy(), case.inputs)
    assert estimate.shape == np.shape(truth)


@pytest.mark.slow
@pytest.mark.parametrize(("case", "method"), PATHS)
def test_every_path_runs(case, method, key):
    """One run of few users gives a finite estimate."""
    estimate = jaxdp.run(case.make(1.0), case.population(), key, method=method)
    assert np.isfinite(estimate).all()
