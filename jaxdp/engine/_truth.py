"""What errors are measured against."""

from typing import Any

import jax
import numpy as np

from .._spec import check_choice
from ..population import ArraySource, DistributionSource, HistogramSource, Population


def truth_kind(protocol: Any, population: Population, truth: Any, targeted: bool) -> str:
    """Where the truth comes from: "given", "none", "population", "once" or "each" trial.

    Args:
      protocol: the spec or the params.
      population: the users.
      truth: as given to `simulate`.
      targeted: whether the params say what an estimate aims at.
    """
    if not isinstance(truth, str):
        return "given"
    check_choice("truth", truth, ("sample", "population"))
    source = population.source
    if truth == "population":
        if not isinstance(source, DistributionSource):
            raise ValueError(
                "truth='population' needs a population made by from_distribution; for given users "
                "use truth='sample'."
            )
        return "population" if targeted or hasattr(protocol, "population_truth") else "none"
    if not (targeted or hasattr(protocol, "truth")):
        return "none"
    if isinstance(source, (ArraySource, HistogramSource)):
        return "once"
    if source.num_values is None or not isinstance(source, DistributionSource):
        raise ValueError(
            "truth='sample' is known for populations made by from_values, from_histogram and "
            "from_distribution; for groups and pairs give the truth as an array."
        )
    return "each"


def check_given(truth: Any, shape: tuple[int, ...], num_trials: int) -> np.ndarray:
    """A truth given as finite numbers, in the shape of an estimate or of all; raises otherwise."""
    array = np.asarray(truth, np.float64)
    if array.shape not in (shape, (num_trials, *shape)):
        raise ValueError(
            f"truth must have the shape {shape} of an estimate, or {(num_trials, *shape)}, one for "
            f"each trial; got {array.shape}."
        )
    if not np.all(np.isfinite(array)):
        raise ValueError("truth must be finite, got NaN or inf.")
    return array


def known_histogram(population: Population, kind: str) -> np.ndarray | None:
    """The normalised histogram that truths of a kind are those of, where it is one for all trials.

    Returns:
      float64[k], or None.
    """
    if kind == "population":
        return population.probabilities()
    if kind == "once":
        counts = population.counts().numpy()
        return counts / counts.sum()
    return None


def find_truth(protocol, population, given, kind, counts) -> np.ndarray | None:
    """The truth of a kind, from the one given or the counts of each trial where it needs them."""
    if kind == "none":
        return None
    if kind == "given":
        return given
    inputs = jax.tree.map(np.asarray, population.inputs)
    if kind == "population":
        p = population.probabilities()
        return np.asarray(protocol.population_truth(p, population.num_users, inputs))
    if kind == "once":
        return np.asarray(protocol.truth(population.counts().numpy(), inputs))
    return np.stack([protocol.truth(row, inputs) for row in counts.numpy()])
