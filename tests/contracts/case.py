"""What the contract suites need to know of one randomizer or protocol."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jaxdp


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
      bad: invalid constructions and the argument that their message must name.
      finite: whether `channel()` lists the whole law.
      density: whether `log_density` and `moments` give the law.
      variant: whether another case is of the same mechanism; simulations of it are slow tests.
      has_law: whether the tally can be drawn at once, by `sample_tally`.
      unbiased: whether the mean estimate is the truth; `variance` is the mean squared error anyway.
      exact: whether `variance` is that error, rather than a bound on it.
      any_size: whether it takes any number of users, rather than 100 times `counts`.
    """

    name: str
    make: Callable[[float], Any]
    counts: tuple[int, ...]
    values: tuple | None = None
    epsilons: tuple[float, ...] = (0.1, 1.0, 4.0)
    bad: tuple[tuple[Callable[[], Any], str], ...] = ()
    finite: bool = True
    density: bool = False
    variant: bool = False
    has_law: bool = True
    unbiased: bool = True
    exact: bool = True
    any_size: bool = True

    @property
    def inputs(self) -> np.ndarray | None:
        return None if self.values is None else np.asarray(self.values, np.float32)

    def population(self, scale: int = 1) -> jaxdp.Population:
        return jaxdp.Population.from_histogram(np.array(self.counts) * scale, self.inputs)

    def user_values(self) -> np.ndarray:
        """One value for each bin, as a user holds it."""
        bins = np.arange(len(self.counts), dtype=np.int32)
        return bins if self.values is None else np.asarray(self.values, np.float32)


def paths(cases: tuple[Case, ...]) -> list[Any]:
    """Pytest parameters (case, method): every simulation path that each case has."""
    return [
        pytest.param(case, method, id=f"{method}-{case.name}")
        for case in cases
        for method in ("per_user", "tally")
        if method == "per_user" or case.has_law
    ]


def bad_epsilons(make: Callable[[Any], Any]) -> tuple[tuple[Callable[[], Any], str], ...]:
    """What no spec may take for epsilon."""
    wrong = (0, 0.0, -1.0, float("nan"), float("inf"), "1", None, True)
    return tuple((lambda e=e: make(e), "epsilon") for e in wrong)


def ids(case: Case) -> str:
    """The name of a case, for pytest."""
    return case.name
