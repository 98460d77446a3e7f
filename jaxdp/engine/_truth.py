"""What errors are measured against."""

import jax
import numpy as np

from .._contract import Described
from .._spec import as_float64, check_choice
from ..population import DistributionSource, Population
from ..random import Count


def truth_kind(protocol: Described, population: Population, truth: object, targeted: bool) -> str:
    """Where the truth comes from: "given", "none", "population", "once" or "each" trial.

    Args:
      protocol: the spec or the params.
      population: the users.
      truth: as given to `simulate`.
      targeted: whether what an estimate aims at depends on the outcome, and the params tell it.
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
        known = targeted or find_truth(protocol, population, None, "population", None) is not None
        return "population" if known else "none"
    if source.given:
        known = targeted or find_truth(protocol, population, None, "once", None) is not None
        return "once" if known else "none"
    if source.num_values is None or not isinstance(source, DistributionSource):
        raise ValueError(
            "truth='sample' is known for populations made by from_values, from_histogram and "
            "from_distribution; for groups and pairs give the truth as an array."
        )
    # A typical sample, to ask whether the truth of a sample is known at all.
    likely = np.rint(population.probabilities() * population.num_users)
    inputs = jax.tree.map(np.asarray, population.inputs)
    return "each" if targeted or protocol.truth(likely, inputs) is not None else "none"


def check_given(truth: object, shape: tuple[int, ...], num_trials: int) -> np.ndarray:
    """A truth given as finite numbers, in the shape of an estimate or of all; raises otherwise."""
    array = as_float64("truth", truth)  # pyright: ignore[reportArgumentType]
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


def find_truth(
    protocol: Described,
    population: Population,
    given: np.ndarray | str | None,
    kind: str,
    counts: Count | None,
) -> np.ndarray | None:
    """The truth of a kind, from the one given or the counts of each trial where it needs them."""
    if kind == "none":
        return None
    if kind == "given":
        return np.asarray(given)
    inputs = jax.tree.map(np.asarray, population.inputs)
    if kind == "population":
        p = population.probabilities()
        return _array(protocol.population_truth(p, population.num_users, inputs))
    if kind == "once":
        return _array(protocol.truth(population.counts().numpy(), inputs))
    assert counts is not None
    return np.stack([np.asarray(protocol.truth(row, inputs)) for row in counts.numpy()])


def _array(truth: np.ndarray | None) -> np.ndarray | None:
    return None if truth is None else np.asarray(truth)
