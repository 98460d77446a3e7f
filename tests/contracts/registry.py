"""Every randomizer and protocol that the contract suites run over.

A new member joins by one entry in `RANDOMIZERS` or `PROTOCOLS`.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

import jaxdp
from jaxdp.pairwise import GiniDiversity, GiniMeanDifference, Grid, KendallTau, QuantizedRR
from jaxdp.randomizers import KRR, BinaryResponse


@dataclasses.dataclass(frozen=True)
class Case:
    """One member of a family.

    Attributes:
      name: shown in test ids.
      make: epsilon to spec.
      values: what the bins of `counts` stand for, None where a value is its bin.
      counts: a histogram of users for statistical tests.
      epsilons: privacy parameters to test.
      bad: invalid constructions and the argument that their message must name.
      finite: whether `channel(word_bits=8)` enumerates the whole law.
      unbiased: whether the mean estimate is the truth; `variance` is the mean squared error anyway.
    """

    name: str
    make: Callable[[float], Any]
    counts: tuple[int, ...]
    values: tuple[float, ...] | None = None
    epsilons: tuple[float, ...] = (0.1, 1.0, 4.0)
    bad: tuple[tuple[Callable[[], Any], str], ...] = ()
    finite: bool = True
    unbiased: bool = True

    @property
    def inputs(self) -> np.ndarray | None:
        return None if self.values is None else np.asarray(self.values, np.float32)

    def population(self, scale: int = 1) -> jaxdp.Population:
        return jaxdp.Population.from_histogram(np.array(self.counts) * scale, self.inputs)

    def user_values(self) -> np.ndarray:
        """One value for each bin, as a user holds it."""
        bins = np.arange(len(self.counts), dtype=np.int32)
        return bins if self.values is None else np.asarray(self.values, np.float32)


def _bad_epsilons(make):
    wrong = (0, 0.0, -1.0, float("nan"), float("inf"), "1", None, True)
    return tuple((lambda e=e: make(e), "epsilon") for e in wrong)


RANDOMIZERS = (
    Case(
        "krr-2",
        lambda e: KRR(2, e),
        counts=(700, 300),
        bad=(
            *_bad_epsilons(lambda e: KRR(2, e)),
            (lambda: KRR(1, 1.0), "num_values"),
            (lambda: KRR(2.5, 1.0), "num_values"),  # pyright: ignore[reportArgumentType]
            (lambda: KRR(2**31, 1.0), "num_values"),
            (lambda: KRR(4, 25.0), "epsilon"),
            (lambda: KRR(2**20, 0.01), "epsilon"),
        ),
    ),
    Case("krr-5", lambda e: KRR(5, e), counts=(400, 0, 100, 300, 200)),
    Case("krr-16", lambda e: KRR(16, e), counts=(7,) * 15 + (900,), epsilons=(0.8, 1.0, 4.0)),
    Case(
        "binary",
        BinaryResponse,
        counts=(300, 200, 400, 100),
        values=(-1.0, -0.25, 0.5, 1.0),
        epsilons=(0.1, 1.0, 3.0),
        bad=(
            *_bad_epsilons(BinaryResponse),
            (lambda: BinaryResponse(1.0, 0.0), "bound"),
            (lambda: BinaryResponse(1.0, -2.0), "bound"),
            (lambda: BinaryResponse(1.0, float("nan")), "bound"),
            (lambda: BinaryResponse(1.0, 1e38), "bound"),
            (lambda: BinaryResponse(20.0), "epsilon"),
            (lambda: BinaryResponse(1e-9), "epsilon"),
        ),
    ),
    Case(
        "binary-wide",
        lambda e: BinaryResponse(e, bound=100.0),
        counts=(300, 200, 400),
        values=(-100.0, 12.5, 50.0),
        epsilons=(1.0,),
    ),
)

PROTOCOLS = (
    *RANDOMIZERS,
    Case(
        "quantized-gini-diversity",
        lambda e: QuantizedRR(GiniDiversity(), e, num_values=5),
        counts=(400, 0, 100, 300, 200),
        finite=False,
    ),
    Case(
        "quantized-kendall",
        lambda e: QuantizedRR(KendallTau(), e, num_values=(2, 3)),
        counts=(300, 100, 50, 20, 180, 350),
        finite=False,
    ),
    Case(
        "quantized-gini",
        lambda e: QuantizedRR(GiniMeanDifference(), e, grid=Grid.uniform(8)),
        counts=(300, 200, 400, 100),
        values=(0.0, 0.26, 0.6, 1.0),
        finite=False,
        unbiased=False,
    ),
)


def ids(case: Case) -> str:
    return case.name
