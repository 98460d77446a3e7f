"""The one list of frequency oracles."""

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType

from ._affine_hashing import AffineHashing
from ._affine_subsets import AffineSubsets
from ._hadamard_bit import HadamardBit
from ._hadamard_response import HadamardResponse
from ._krr import KRR
from ._local_hashing import LocalHashing
from ._projective_geometry import ProjectiveGeometryResponse
from ._subset_selection import SubsetSelection
from ._support import FrequencyOracle
from ._unary_encoding import UnaryEncoding

OracleMaker = Callable[[int, float], FrequencyOracle]
"""A function of (num_values, epsilon)."""

FREQUENCY_ORACLES: Mapping[str, OracleMaker] = MappingProxyType(
    {
        "KRR": KRR,
        "SubsetSelection": SubsetSelection,
        "ProjectiveGeometryResponse": ProjectiveGeometryResponse,
        "HadamardResponse": HadamardResponse,
        "HadamardBit": HadamardBit,
        "LocalHashing": LocalHashing,
        "AffineHashing": AffineHashing,
        "AffineSubsets": AffineSubsets,
        "UnaryEncoding, optimal": UnaryEncoding,
        "UnaryEncoding, symmetric": functools.partial(UnaryEncoding, kind="symmetric"),
    }
)
"""The oracles that take a domain and an epsilon alone, by name: what rankings compare."""


def frequency_oracles(num_values: int, epsilon: float) -> dict[str, FrequencyOracle]:
    """The oracles of `FREQUENCY_ORACLES` that words of 32 bits can realise, by name.

    Args:
      num_values: k, the size of the domain.
      epsilon: privacy parameter, > 0.

    Example:
      >>> from jaxdp.randomizers import frequency_oracles
      >>> oracles = frequency_oracles(num_values=20, epsilon=1.0)
      >>> min(oracles, key=lambda name: oracles[name].worst_case_total_variance(1))
      'AffineSubsets'
    """
    made = {}
    for name, make in FREQUENCY_ORACLES.items():
        try:
            made[name] = make(num_values, epsilon)
        except ValueError:  # epsilon is too large or too small for its words
            continue
    return made
