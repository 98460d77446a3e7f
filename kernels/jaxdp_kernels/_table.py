"""Arrays that kernels leave in memory."""

import dataclasses
from collections.abc import Callable

import jax
import numpy as np


@dataclasses.dataclass(frozen=True)
class Table:
    """An array in memory, of which a kernel reads entries: it stands for one of a randomizer's.

    Attributes:
      shape: of the array.
      dtype: of its entries.
      read: from int32 places in the flattened array, in range, to the entries there.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    read: Callable[[jax.Array], jax.Array]
