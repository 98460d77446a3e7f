"""The signed factor of a statistic, for protocols of several rounds."""

import functools
from typing import NamedTuple

import numpy as np

from ..factorization import signed
from ..linear._encoded import radius_of
from ._protocol import PairwiseProtocol


class SignedFactor(NamedTuple):
    """`W = columns^T diag(signs) columns + shift`, a column for each value.

    Attributes:
      columns: float32[k, l], the column of each value.
      signs: float64[l] of +-1.
      shift: the constant.
      radius: the largest norm of a column.
    """

    columns: np.ndarray
    signs: np.ndarray
    shift: float
    radius: float

    @property
    def matrix(self) -> np.ndarray:
        """W less the shift, as built; float64[k, k]."""
        columns = self.columns.astype(np.float64)
        return (columns * self.signs) @ columns.T


@functools.lru_cache(maxsize=32)
def signed_factor(protocol: PairwiseProtocol, shift: bool = True) -> SignedFactor:
    """The signed factorization of least norm of the protocol's matrix, or of it less a constant."""
    found = signed(protocol.matrices()[0], shift=shift)
    left, signs = np.asarray(found.left), np.asarray(found.signs)
    kept = np.linalg.norm(left, axis=1) > 1e-6 * np.linalg.norm(left)
    kept[0] |= not kept.any()
    columns = left[kept].T.astype(np.float32)
    constant = 0.0 if found.shift is None else float(found.shift)
    return SignedFactor(columns, signs[kept].astype(np.float64), constant, radius_of(columns))


def require_linear(protocol: PairwiseProtocol) -> None:
    """Raises unless the statistic is itself an average over pairs."""
    if not protocol.kernel.is_linear:
        raise ValueError(
            f"kernel must be linear for {type(protocol).__name__}, but {protocol.kernel!r} is a "
            "function of several averages; estimate each of them, or use QuantizedRR."
        )
