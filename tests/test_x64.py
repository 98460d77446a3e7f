"""What programs compute in float64 blocks share."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp._x64 import places_of


@pytest.mark.parametrize("most", [1, 4, 12])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_places_are_those_that_are_true(share, most):
    masks = np.random.default_rng(3).random((5, 8)) < share
    found = jax.jit(jax.vmap(lambda mask: places_of(mask, most)))(jnp.asarray(masks))
    assert found.dtype == jnp.int32
    for mask, places in zip(masks, np.asarray(found), strict=True):
        first = np.flatnonzero(mask)[:most]
        np.testing.assert_array_equal(
            places, np.pad(first, (0, most - len(first)), "constant", constant_values=8)
        )
