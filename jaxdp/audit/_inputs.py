"""The inputs that an audit compares."""

import math
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from .._spec import BELOW_ONE, as_array, as_float32, as_int32, check_epsilon, check_real
from ..population import Population
from ..random import Count
from ..randomizers import Randomizer

MAX_INPUTS = 16
MAX_AUDITED = 2**16


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


def check_claim(
    name: str, given: Mapping[Any, Any], epsilon: float, delta: float, confidence: float
) -> tuple[float, float, float]:
    """Returns the last three as floats, or raises unless they and what is given by input are valid.

    Args:
      name: of what is given: "reports", or "counts".
      given: by input, of 2 to 16 inputs.
      epsilon: the claim.
      delta: the claimed delta in [0, 1).
      confidence: in (0, 1).
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"{name} must be a dict of inputs to {name}, got {type(given)}.")
    if not 2 <= len(given) <= MAX_INPUTS:
        raise ValueError(f"{name} must be of 2 to {MAX_INPUTS} inputs, got {len(given)}.")
    return (
        check_epsilon(epsilon),
        check_real("delta", delta, low=0.0, high=BELOW_ONE, open_ends=False),
        check_real("confidence", confidence, low=0.0, high=1.0),
    )


def extreme_bins(num_values: int) -> np.ndarray:
    """The first two bins, the middle one and the last; int32[m]."""
    return np.unique(np.array([0, 1, num_values // 2, num_values - 1], np.int32))


def outside_inputs(inputs: np.ndarray, num_bins: int | None) -> np.ndarray:
    """Inputs that no user should have, but which a randomizer must keep as private as any other.

    Args:
      inputs: inputs of the domain, int32[m], float32[m] or float32[m, d].
      num_bins: the number of bins where they are bins; else None.

    Returns:
      The integers before and after the domain, or far from the inputs; or 100 times the largest
      input, the same with NaN in its first coordinate, and with infinity there.
    """
    if np.issubdtype(inputs.dtype, np.integer):
        ends = (-1, num_bins) if num_bins is not None else (-(2**30), 2**30)
        return np.array(ends, np.int32)
    sizes = np.linalg.norm(inputs.reshape(len(inputs), -1), axis=1)
    far = 100 * inputs[sizes.argmax()] if sizes.any() else np.ones_like(inputs[0])
    rows = np.stack([far] * 3).astype(np.float32)
    rows.reshape(3, -1)[1:, 0] = math.nan, math.inf
    return rows


def users_of(population: Population) -> np.ndarray:
    """The values of all users, a row each: int32[n], float32[n] or float32[n, d].

    Raises:
      TypeError: it is no population.
      ValueError: its users are drawn anew in every trial, are too many, or have several values.
    """
    if not isinstance(population, Population):
        raise TypeError(
            f"population must be a jaxdp.Population, got {type(population).__name__}; make one "
            "with Population.from_values."
        )
    if population.is_random or population.num_users > MAX_AUDITED:
        raise ValueError(
            f"population must have at most {MAX_AUDITED} users, whose values are given, so that "
            "one of them can be changed; make it with Population.from_values."
        )
    values = population.source.at(Count.of(np.arange(population.num_users, dtype=np.uint32)))
    leaves = jax.tree.leaves(values)
    if len(leaves) != 1:
        raise ValueError("population must have one array of values, got a tree of several.")
    return np.asarray(leaves[0])


def neighbour(population: Population, users: np.ndarray, value: np.ndarray) -> Population:
    """The population of these users, the first of whom has another value.

    Raises:
      ValueError: the value is none of a user of the population.
    """
    if value.shape != users.shape[1:] or value.dtype != users.dtype:
        raise ValueError(
            f"inputs must be values of users, {users.dtype}{list(users.shape[1:])}, got "
            f"{value.dtype}{list(value.shape)}."
        )
    changed = np.concatenate([value[None], users[1:]])
    return Population.from_values(changed, population.num_values)


def plain(value: np.ndarray) -> Any:
    """An input as a number or a tuple of numbers."""
    # One NaN for all: reports with equal numbers are then equal.
    flat = [math.nan if x != x else x for x in np.ravel(value).tolist()]
    return flat[0] if value.ndim == 0 else tuple(flat)
