"""`python -m jaxdp_kernels.standard_normal.bench`: times normals of words against `erf_inv`."""

import math
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from .._bench import Case, report, timed
from .api import standard_normal
from .arg_specs import ARG_SPECS

MIN_NORMALS = 2**16
"""With fewer normals, the call itself would take most of the time."""


def by_erf_inv(words: jax.Array) -> jax.Array:
    """Normals of the words by XLA's inverse error function: 23 bits of a word, no tails."""
    unit = (words >> np.uint32(9)).astype(jnp.float32) * np.float32(2**-22)
    return np.float32(math.sqrt(2)) * jax.lax.erf_inv(unit + np.float32(2**-23 - 1))


def cases() -> Iterator[Case]:
    """The arguments that are timed."""
    for spec in ARG_SPECS:
        (words,) = spec.arguments()
        if words.size < MIN_NORMALS:
            continue
        ours, baseline = timed(standard_normal, words), timed(by_erf_inv, words)
        yield Case(spec.name, words.size, "normal", ours, baseline, "erf_inv of 23 bits")


if __name__ == "__main__":
    report("standard_normal", cases())
