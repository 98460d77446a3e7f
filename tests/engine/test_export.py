"""`jax.export`: one artifact of a run for CPU, GPU and TPU, with the bits of the run itself."""

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp.randomizers import KRR, Gaussian

PLATFORMS = ("cpu", "cuda", "tpu")
COUNTS = [700, 200, 100]
VECTORS = np.random.default_rng(0).uniform(-0.4, 0.4, (1000, 4)).astype(np.float32)


def oracle(key):
    users = jaxdp.Population.from_histogram(COUNTS)
    return jaxdp.run(KRR(3, 1.0), users, key, method="per_user", rounds=13)


def tally(key):
    users = jaxdp.Population.from_histogram(COUNTS)
    return jaxdp.run(KRR(3, 1.0), users, key, method="tally")


def vectors(key, values):
    users = jaxdp.Population.from_values(values)
    return jaxdp.run(Gaussian(4, 1.0, 1e-6), users, key, method="per_user")


@pytest.mark.parametrize(("function", "values"), [(oracle, ()), (tally, ()), (vectors, (VECTORS,))])
def test_an_artifact_of_three_platforms_gives_the_bits_of_the_run(function, values, key):
    pytest.importorskip("flatbuffers")
    run = jax.jit(function)
    artifact = jax.export.export(run, platforms=PLATFORMS)(key, *values).serialize()
    again = jax.export.deserialize(artifact)
    assert again.platforms == PLATFORMS
    for other in (key, jax.random.fold_in(key, 1)):
        np.testing.assert_array_equal(again.call(other, *values), run(other, *values))
