"""Which protocol answers given linear queries with the least error."""

import dataclasses
import functools
from collections.abc import Callable

import numpy as np

from .._queries import LinearProtocol, check_workload
from .._ranking import build_all, table, whole_users
from .._spec import check_choice, check_epsilon, check_int, check_real
from ..randomizers import (
    KRR,
    HadamardBit,
    HadamardResponse,
    LocalHashing,
    PrivUnit,
    PrivUnitG,
    ProjectiveGeometryResponse,
    SubsetSelection,
    UnaryEncoding,
)
from ._factorized_queries import FactorizedQueries
from ._gaussian_queries import GaussianQueries
from ._hierarchical import HierarchicalQueries
from ._histogram_query import HistogramQuery
from ._laplace_queries import LaplaceQueries
from ._optimized_strategy import OptimizedStrategy
from ._oracle_queries import OracleQueries
from ._rejection_queries import RejectionQueries

ORACLES: dict[str, Callable] = {
    "KRR": KRR,
    "SubsetSelection": SubsetSelection,
    "ProjectiveGeometryResponse": ProjectiveGeometryResponse,
    "HadamardResponse": HadamardResponse,
    "HadamardBit": HadamardBit,
    "LocalHashing": LocalHashing,
    "UnaryEncoding, optimal": UnaryEncoding,
    "UnaryEncoding, symmetric": functools.partial(UnaryEncoding, kind="symmetric"),
}


@dataclasses.dataclass(frozen=True)
class RankedProtocol:
    """A protocol and its predicted errors.

    Attributes:
      name: of the protocol, and of what it is made with.
      protocol: the spec.
      max_error: the largest mean squared error of an answer.
      mean_error: the mean over the answers of the mean squared errors.
    """

    name: str
    protocol: LinearProtocol
    max_error: float
    mean_error: float


@dataclasses.dataclass(frozen=True)
class Ranking:
    """Protocols for a workload, the best one first; `print` shows a table.

    Attributes:
      entries: the protocols with their predicted errors.
      refused: names of the protocols that cannot be built here or were not tried, and why.
      objective: "max" or "mean", the error they are ordered by.
      num_users: n.
    """

    entries: tuple[RankedProtocol, ...]
    refused: tuple[tuple[str, str], ...]
    objective: str
    num_users: int

    @property
    def protocol(self) -> LinearProtocol:
        """The best one."""
        return self.entries[0].protocol

    def __str__(self) -> str:
        """A Markdown table: roots of the errors, and the factor between an error and the least."""
        least = _error(self.entries[0], self.objective)
        rows = [
            (
                entry.name,
                f"{entry.max_error**0.5:.4g}",
                f"{entry.mean_error**0.5:.4g}",
                f"{_error(entry, self.objective) / least if least else 1.0:.3f}",
            )
            for entry in self.entries
        ]
        header = ("protocol", "RMSE, max", "RMSE, mean", f"{self.objective} error / least")
        return table(header, rows, self.refused)


def _error(entry: RankedProtocol, objective: str) -> float:
    return entry.max_error if objective == "max" else entry.mean_error


def best(
    workload,
    num_users: int,
    epsilon: float,
    histogram=None,
    delta: float | None = None,
    *,
    objective: str = "max",
    optimize: bool = False,
) -> Ranking:
    """Ranks the protocols for linear queries by their predicted errors, without any simulation.

    Candidates are every frequency oracle followed by the queries, a hierarchy of intervals,
    Laplace noise, rejection sampling and factorizations with two randomizers of vectors; with
    `delta` also Gaussian noise, with `optimize` also a channel optimized for the queries. For as
    few users that noise is as large as the answers, the approximate factorization competes as well.

    All errors are exact: that of the worst data set of this size, or, with `histogram`, that for
    these users. Estimates are compared as they are: `Projected` around the winner never makes the
    sum of the squared errors larger, but may that of one answer, and its errors have no closed
    form. So it, `ProjectionMechanism` and `ProjectedHadamard` are not ranked. Candidates that were
    not tried, or cannot be built, are in `refused` with the reason.

    Args:
      workload: W, float[q, k], a row for each query; or an `Operator`.
      num_users: n.
      epsilon: privacy parameter, > 0.
      histogram: float[k] >= 0, how many users have each value, times any constant: rounded to n
        users. None for the worst case.
      delta: in (0, 1), to let mechanisms compete that are private but for this; None for pure ones.
      objective: "max", the error of the worst answer, or "mean", the mean error of the answers.
      optimize: whether to search for a channel, which takes from seconds to minutes.

    Returns:
      A `Ranking`, whose `protocol` is the best one.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is of the wrong kind, or is traced.

    Example:
      >>> import jaxdp
      >>> ranking = jaxdp.linear.best(jaxdp.workloads.prefix(16), num_users=10_000, epsilon=1.0)
      >>> ranking.entries[0].name
      'FactorizedQueries, PrivUnit'
      >>> ranking.protocol.worst_case_variance(10_000) == ranking.entries[0].max_error
      True
    """
    workload = check_workload(workload)
    num_users = check_int("num_users", num_users, low=1)
    epsilon = check_epsilon(epsilon)
    check_choice("objective", objective, ("max", "mean"))
    if delta is not None:
        delta = check_real("delta", delta, low=0.0, high=1.0)
    counts = None
    if histogram is not None:
        counts = whole_users(histogram, num_users, workload.values.shape[1])
    makers = _candidates(workload, num_users, epsilon, delta, objective)
    if optimize:
        aim = "worst" if counts is None else counts
        makers["OptimizedStrategy"] = lambda: OptimizedStrategy(workload, epsilon, objective=aim)

    def measure(name, protocol):
        return RankedProtocol(name, protocol, *_errors(protocol, num_users, counts))

    entries, refused = build_all(makers, measure)
    if delta is None:
        refused.append(("GaussianQueries", "needs a delta in (0, 1)."))
    if not optimize:
        refused.append(("OptimizedStrategy", "takes from seconds to minutes; pass optimize=True."))
    entries.sort(key=lambda entry: _error(entry, objective))
    return Ranking(tuple(entries), tuple(refused), objective, num_users)


def _errors(protocol: LinearProtocol, num_users: int, counts) -> tuple[float, float]:
    """The largest and the mean error over the answers."""
    if counts is not None:
        errors = protocol.variance(counts)
        return float(errors.max()), float(errors.mean())
    total = protocol.worst_case_total_variance(num_users)
    return protocol.worst_case_variance(num_users), total / protocol.num_queries


def _candidates(workload, num_users, epsilon, delta, objective) -> dict[str, Callable]:
    """How to make each protocol, by name."""
    size = workload.values.shape[1]
    identity = np.array_equal(workload.values, np.eye(size))

    def answered(oracle):
        made = oracle(size, epsilon)
        return HistogramQuery(made) if identity else OracleQueries(workload, made)

    makers: dict[str, Callable] = {
        name: functools.partial(answered, oracle) for name, oracle in ORACLES.items() if size > 1
    }
    makers["HierarchicalQueries"] = lambda: HierarchicalQueries(workload, epsilon)
    makers["LaplaceQueries"] = lambda: LaplaceQueries(workload, epsilon)
    makers["RejectionQueries"] = lambda: RejectionQueries(workload, epsilon)
    for randomizer in (PrivUnit, PrivUnitG):
        makers[f"FactorizedQueries, {randomizer.__name__}"] = functools.partial(
            FactorizedQueries, workload, epsilon, randomizer=randomizer, norm=objective
        )
    makers["FactorizedQueries, approximate"] = lambda: _approximate(workload, num_users, epsilon)
    if delta is not None:
        makers["GaussianQueries"] = lambda: GaussianQueries(workload, epsilon, delta)
    return makers


def _approximate(workload, num_users: int, epsilon: float) -> FactorizedQueries:
    """A biased factorization, unless the noise of the exact one is too small for it to help."""
    values = workload.values
    exact = FactorizedQueries(workload, epsilon)
    half = (values.max(axis=1) - values.min(axis=1)).max() / 2
    if exact.worst_case_variance(num_users) < half**2 / 10:
        raise ValueError("so many users that the exact factorization is as good.")
    return FactorizedQueries(workload, epsilon, num_users=num_users)
