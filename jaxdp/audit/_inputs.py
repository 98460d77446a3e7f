"""The inputs that an audit compares."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._spec import as_array, as_float32, as_int32
from ..randomizers import Randomizer

MAX_INPUTS = 16


def check_inputs(inputs: ArrayLike | None, randomizer: Randomizer[Any] | None) -> np.ndarray:
    """Inputs as an int32 or float32 array; those at the ends of a spec's domain for None.

    Args:
      inputs: the inputs.
      randomizer: the spec, which must have them in its domain; None for what takes every input.

    Raises:
      ValueError: they are not 2 to 16 inputs of the domain, or are needed.
      TypeError: they are not numbers.
    """
    if inputs is None:
        if randomizer is None:
            raise ValueError("inputs must be given for params or a function: they name no domain.")
        inputs = randomizer.extreme_inputs()
    values = as_array("inputs", inputs)
    if values.ndim == 0 or not 2 <= len(values) <= MAX_INPUTS:
        raise ValueError(
            f"inputs must hold 2 to {MAX_INPUTS} inputs along axis 0, got shape {values.shape}."
        )
    integers = np.issubdtype(values.dtype, np.integer)
    if not (integers or np.issubdtype(values.dtype, np.floating)):
        raise TypeError(f"inputs must be integers or floats, got dtype {values.dtype}.")
    if not np.all(np.isfinite(values)):
        raise ValueError("inputs must be finite, got NaN or inf.")
    if randomizer is not None:
        randomizer.check_values("inputs", values)
    return as_int32("inputs", values) if integers else as_float32("inputs", values)
