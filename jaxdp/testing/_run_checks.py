"""Running all checks that apply to a spec."""

from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from .._contract import Spec, Tree
from ..population import Population
from ..randomizers import MeanRandomizer, Randomizer
from ._subject import CHECKS, Subject, of_kind

USERS = 600  # of each extreme input, where no population is given


def check_randomizer(
    spec: Randomizer[Any],
    population: Population | None = None,
    *,
    checks: Iterable[str] | None = None,
    key: jax.Array | None = None,
    unbiased: bool = True,
    exact: bool | None = None,
    private: bool = True,
    floats: bool = False,
    num_trials: int = 4000,
) -> None:
    """Runs all checks of `CHECKS` that apply to a randomizer, or those named.

    Args:
      spec: the randomizer.
      population: users to check it with, a few distinct values; None for users of all bins, or of
        `extreme_inputs`.
      checks: names of checks; None for all that apply.
      key: for all that is random; None for a fixed one.
      unbiased: whether it claims that the mean estimate is the target.
      exact: whether `variance` is to be the mean squared error, rather than a bound; None for what
        `variance_kind` claims. True for a bound that is tight for these users.
      private: whether it claims the privacy that its epsilon and delta say.
      floats: whether reports are rounded from floats, and may differ between programs by one.
      num_trials: runs of a simulation; a tenth as many see offsets three times as large.

    Raises:
      AssertionError: a check fails; the message begins with its name.
      ValueError: a name is unknown, or its check does not apply to this randomizer.

    Example:
      >>> from jaxdp.randomizers import KRR
      >>> from jaxdp.testing import check_randomizer
      >>> check_randomizer(KRR(num_values=3, epsilon=1.0), checks=["channel_is_private"])
    """
    if population is None:
        population = _extreme_population(spec)
    users = _users(population, key)
    subject = Subject(spec, *users, unbiased, exact, private, floats, num_trials)
    _run(subject, checks, ("randomizer", "protocol"))


def check_protocol(
    spec: Spec[Any],
    population: Population,
    *,
    checks: Iterable[str] | None = None,
    key: jax.Array | None = None,
    unbiased: bool = True,
    exact: bool | None = None,
    private: bool = True,
    floats: bool = False,
    num_trials: int = 4000,
) -> None:
    """Runs all checks of `CHECKS` that apply to a protocol, or those named.

    Args:
      spec: the protocol.
      population: users to check it with, up to a few thousand of a few distinct values.
      checks: see `check_randomizer`, as all others.
      key: a key.
      unbiased: a claim.
      exact: a claim.
      private: a claim.
      floats: a claim.
      num_trials: runs of a simulation.

    Raises:
      AssertionError: a check fails; the message begins with its name.
      ValueError: a name is unknown, or its check does not apply to this protocol.

    Example:
      >>> import jaxdp
      >>> from jaxdp.linear import HistogramQuery
      >>> from jaxdp.testing import check_protocol
      >>> spec = HistogramQuery(jaxdp.randomizers.KRR(num_values=3, epsilon=1.0))
      >>> population = jaxdp.Population.from_histogram([30, 50, 20])
      >>> check_protocol(spec, population, checks=["bad_fields_are_refused", "tallies_merge"])
    """
    users = _users(population, key)
    subject = Subject(spec, *users, unbiased, exact, private, floats, num_trials)
    _run(subject, checks, ("protocol",))


def applicable(subject: Subject) -> tuple[str, ...]:
    """The names of the checks that apply to a subject."""
    kinds = ("randomizer", "protocol") if subject.randomizer is not None else ("protocol",)
    return tuple(
        name for name, each in CHECKS.items() if each.of in kinds and each.applies(subject)
    )


def _users(population: Population, key: jax.Array | None) -> tuple[np.ndarray, Tree, jax.Array]:
    """The counts and inputs of a population, and a key."""
    inputs = jax.tree.map(np.asarray, population.inputs)
    return population.counts().numpy(), inputs, jax.random.key(0) if key is None else key


def _run(subject: Subject, checks: Iterable[str] | None, kinds: tuple[str, ...]) -> None:
    names = applicable(subject)
    asked = [name for name in names if CHECKS[name].of in kinds] if checks is None else list(checks)
    unknown = [name for name in asked if name not in names]
    if unknown:
        name = type(subject.spec).__name__
        raise ValueError(
            f"checks must be among those that apply to {name}, got {unknown[0]!r}; these are "
            f"{', '.join(names)}."
        )
    for name in asked:
        CHECKS[name](subject)


def _extreme_population(spec: Randomizer[Any]) -> Population:
    """Users of all bins, in different numbers, or of the extreme inputs."""
    inputs = spec.extreme_inputs()
    if of_kind(MeanRandomizer, spec) is not None:
        return Population.from_histogram(USERS // 6 * np.arange(1, len(inputs) + 1), inputs)
    number = int(np.max(inputs)) + 1
    # Different numbers, so that an estimate of the wrong bin is seen.
    return Population.from_histogram(50 + 50 * (np.arange(number) % 7))
