"""What the contract suites need to know of one randomizer or protocol."""

import dataclasses
import functools
import os
import zlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import jaxdp
from jaxdp.testing import Subject

FEW, MANY = 500, 4000
"""The trials of a simulation: by default, which see a doubled variance, and with `-m slow`."""


@dataclasses.dataclass(frozen=True)
class Case:
    """One member of a family.

    Attributes:
      name: shown in test ids.
      make: epsilon to spec.
      counts: a histogram of users for statistical tests.
      values: what the bins of `counts` stand for (numbers or vectors), None where a value is its
        bin.
      epsilons: privacy parameters to test.
      bad: constructions that `validate` refuses, and the argument that their message must name;
        what the checks of fields refuse is tried on every field.
      floats: whether reports are rounded from floats, whose last bits depend on the processor.
      variant: whether another case is of the same mechanism; simulations of it are slow tests.
      private: whether it has the privacy that it claims; mechanisms as printed may not.
      unbiased: whether the mean estimate is the truth; `variance` is the mean squared error anyway.
      exact: whether `variance` is that error, rather than a bound on it; None for what its
        `variance_kind` says, True where a bound is tight.
      any_size: whether it takes any number of users, rather than 100 times `counts`.
    """

    name: str
    make: Callable[[float], Any]
    counts: tuple[int, ...]
    values: tuple | None = None
    epsilons: tuple[float, ...] = (0.1, 1.0, 4.0)
    bad: tuple[tuple[Callable[[], Any], str], ...] = ()
    floats: bool = False
    variant: bool = False
    private: bool = True
    unbiased: bool = True
    exact: bool | None = None
    any_size: bool = True

    @property
    def inputs(self) -> np.ndarray | None:
        return None if self.values is None else np.asarray(self.values, np.float32)

    def population(self, scale: int = 1) -> jaxdp.Population:
        return jaxdp.Population.from_histogram(np.array(self.counts) * scale, self.inputs)

    def subject(self, epsilon: float = 1.0, num_trials: int = MANY) -> Subject:
        """What the checks of `jaxdp.testing` look at; where floats, in 2,000 trials at most."""
        return _subject(self, epsilon, num_trials)


@functools.lru_cache(maxsize=8)  # the tests of a case follow one another and share simulations
def _subject(case: Case, epsilon: float, num_trials: int) -> Subject:
    name = f"{case.name} {epsilon} {os.environ.get('JAXDP_TEST_SEED', '')}"
    return Subject(
        case.make(epsilon),
        np.array(case.counts),
        case.inputs,
        jax.random.key(zlib.crc32(name.encode())),
        unbiased=case.unbiased,
        exact=case.exact,
        private=case.private,
        floats=case.floats,
        num_trials=min(num_trials, 2000) if case.floats else num_trials,  # floats take longer
    )


def ids(case: Case) -> str:
    """The name of a case, for pytest."""
    return case.name
