"""The plan of an accelerator makes the tallies that a CPU's plan makes."""

import dataclasses

import jax
import numpy as np
import pytest

from jaxdp.engine._config import bounded, build_params, configure
from jaxdp.engine._simulate import _play_once
from tests.contracts.case import ids
from tests.contracts.registry import PROTOCOLS
from tests.marks import slow

DEFAULT = {
    "krr-5",
    "oue-2",
    "subset-6",
    "local-hashing-6",
    "gaussian",
    "laplace",
    "priv-unit-g",
    "two-round",
    "hierarchical-auc",
}


@pytest.mark.parametrize(
    "case", [case if case.name in DEFAULT else slow(case) for case in PROTOCOLS], ids=ids
)
def test_an_accelerators_plan_gives_the_same_tally(case, key):
    params, population = build_params(case.make(1.0)), case.population()
    config = configure(params, population, "per_user", None, None)
    wide = dataclasses.replace(config, platform="gpu")
    here = _play_once(params, population, key, config)[0]
    there = _play_once(params, bounded(population, wide), key, wide)[0]
    for a, b in zip(jax.tree.leaves(here), jax.tree.leaves(there), strict=True):
        if case.floats:  # rounded from floats, which another program may round otherwise
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-3 * np.max(np.abs(a), initial=1))
        else:
            np.testing.assert_array_equal(a, b)
