"""Tallies of several randomizers that share their programs."""

import jax
import numpy as np
import pytest

from jaxdp.random import Count
from jaxdp.randomizers import KRR, ProjectiveGeometryResponse
from tests.marks import slow

FEW = {5: ProjectiveGeometryResponse(16, 1.0), 1: KRR(5000, 3.0)}
MORE = {85: ProjectiveGeometryResponse(256, 1.0), 1: ProjectiveGeometryResponse(9, 8.0)}


@pytest.mark.parametrize("oracles", [FEW, slow(MORE)], ids=["few", "more"])
def test_tallies_drawn_together_are_those_drawn_alone(oracles, key):
    """Sets of one report and of many, of which a table of values is drawn in one step or in two."""
    rounds = [oracle.build() for oracle in (KRR(2, 1.0), *oracles.values())]
    assert [round.set_size for round in rounds] == [1, *oracles]
    keys = list(jax.random.split(key, len(rounds)))
    counts = [Count.of(np.arange(r.num_values) * 10**7) for r in rounds]
    assert len({round.law.together for round in rounds}) == 1
    together = rounds[0].law.together
    assert together is not None
    drawn = jax.jit(together)(rounds, keys, counts)
    for tally, one, stream, users in zip(drawn, rounds, keys, counts, strict=True):
        assert np.array_equal(tally.numpy(), one.sample_tally(stream, users).numpy())
        assert int(tally.sum()) == int(users.sum())
