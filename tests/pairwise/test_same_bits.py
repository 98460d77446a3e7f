"""Protocols that are no contract cases give the same bits for any blocks, devices and users given.

No error is predicted for private labels in a tree, of which nodes are discarded here; passes run
on the host.
"""

from typing import Any

import jax
import numpy as np
import pytest

from jaxdp import Population, run
from jaxdp.pairwise import HierarchicalAUC

SCORES = np.array([900, *[0] * 30, 300, *[0] * 10, 600, *[0] * 10, 900, *[0] * 10])
MAKES = {
    "private-labels": (lambda: HierarchicalAUC(32, 4.0, labels="private"), 10 * SCORES),
    "passes": (lambda: HierarchicalAUC(32, 2.0, memory=1024), 10 * SCORES),
}


def mesh_of(devices: int):
    auto = (jax.sharding.AxisType.Auto,)
    return jax.make_mesh((devices,), ("users",), axis_types=auto, devices=jax.devices()[:devices])


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKES)
def test_same_bits(name, key):
    make, counts = MAKES[name]
    spec, users = make(), Population.from_histogram(counts)
    expected = np.asarray(run(spec, users, key, method="per_user"))
    assert np.all(np.isfinite(expected))
    given = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    listed = Population.from_values(given, num_values=len(counts))
    np.testing.assert_array_equal(run(make(), listed, key, method="per_user"), expected)
    blocks: tuple[dict[str, Any], ...] = ({"block_size": 2**15}, {"mesh": mesh_of(2)})
    for options in blocks:
        found = run(spec, users, key, method="per_user", **options)
        np.testing.assert_array_equal(found, expected)
    other = run(spec, users, jax.random.fold_in(key, 1), method="per_user")
    assert not np.array_equal(other, expected)
