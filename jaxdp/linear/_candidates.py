"""The protocols that compete for linear queries."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._contract import Params
from .._queries import LinearProtocol, check_workload
from .._spec import FrozenArray, check_choice, check_real
from ..randomizers import FREQUENCY_ORACLES, FrequencyOracle, Gaussian, PrivUnit, PrivUnitG
from ..workloads import Operator
from ._factorized_queries import FactorizedQueries
from ._gaussian_queries import GaussianQueries
from ._hierarchical import HierarchicalQueries
from ._histogram_query import HistogramQuery
from ._laplace_queries import LaplaceQueries
from ._oracle_queries import OracleQueries
from ._rejection_queries import RejectionQueries

Linear = LinearProtocol[Params[Any]]

_PADDING_MATTERS = 32  # values: of more, a coordinate less is worth less than 0.2 % of the variance


def candidates(
    workload: ArrayLike | Operator | FrozenArray, delta: float | None = None, *, norm: str = "max"
) -> dict[str, Callable[[float, int], Linear]]:
    """The protocols that compete for linear queries, by name: functions of (epsilon, num_users).

    Every oracle of `jaxdp.randomizers.FREQUENCY_ORACLES` followed by the queries; a hierarchy of
    intervals, unless single values are asked for; Laplace noise; rejection sampling; factorizations
    with two randomizers of vectors, one of them with and without a coordinate that pads the
    vectors, and an approximate one; with `delta` Gaussian noise and a factorization with it.

    Args:
      workload: W, float[q, k], a row for each query; or an `Operator`.
      delta: in (0, 1), to add protocols that are private but for this; None for pure ones.
      norm: "max" for factorizations that serve the worst answer, "mean" for all answers.

    Returns:
      Functions that raise ValueError where their protocol cannot be built, or is not worth it.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is of the wrong kind.

    Example:
      >>> import jaxdp
      >>> makers = jaxdp.linear.candidates(jaxdp.workloads.prefix(8))
      >>> makers["LaplaceQueries"](1.0, 1000).epsilon
      1.0
    """
    workload = check_workload(workload)
    check_choice("norm", norm, ("max", "mean"))
    if delta is not None:
        delta = check_real("delta", delta, low=0.0, high=1.0)
    size = workload.values.shape[1]
    makers: dict[str, Callable[[float, int], Linear]] = {}
    for name, oracle in FREQUENCY_ORACLES.items() if size > 1 else ():
        makers[name] = lambda e, _, oracle=oracle: answered(workload, oracle(size, e))
    if not _is_identity(workload):  # of whose answers no interval adds up any
        makers["HierarchicalQueries"] = lambda e, _: HierarchicalQueries(workload, e)
    makers["LaplaceQueries"] = lambda e, _: LaplaceQueries(workload, e)
    makers["RejectionQueries"] = lambda e, _: RejectionQueries(workload, e)
    for randomizer in (PrivUnit, PrivUnitG):
        makers[f"FactorizedQueries, {randomizer.__name__}"] = lambda e, _, randomizer=randomizer: (
            FactorizedQueries(workload, e, randomizer=randomizer, norm=norm)
        )
    makers["FactorizedQueries, PrivUnit unpadded"] = lambda e, _: _unpadded(workload, e, norm)
    makers["FactorizedQueries, approximate"] = lambda e, n: _approximate(workload, n, e)
    if delta is not None:
        gaussian = functools.partial(Gaussian, delta=delta)
        makers["FactorizedQueries, Gaussian"] = lambda e, _: FactorizedQueries(
            workload, e, randomizer=gaussian, norm=norm
        )
        makers["GaussianQueries"] = lambda e, _: GaussianQueries(workload, e, delta)
    return makers


def answered(workload: FrozenArray, oracle: FrequencyOracle) -> Linear:
    """The queries answered through an oracle; the identity is not stored."""
    return HistogramQuery(oracle) if _is_identity(workload) else OracleQueries(workload, oracle)


def _is_identity(workload: FrozenArray) -> bool:
    return np.array_equal(workload.values, np.eye(workload.values.shape[1]))


def _unpadded(workload: FrozenArray, epsilon: float, norm: str) -> FactorizedQueries:
    """A factorization whose columns all have one norm, and need no coordinate to fill them up."""
    if workload.values.shape[1] > _PADDING_MATTERS:
        raise ValueError("there are so many values that one more coordinate makes no difference.")
    unpadded = functools.partial(PrivUnit, padded=False)
    return FactorizedQueries(workload, epsilon, randomizer=unpadded, norm=norm)


def _approximate(workload: FrozenArray, num_users: int, epsilon: float) -> FactorizedQueries:
    """A biased factorization, unless the noise of the exact one is too small for it to help."""
    values = workload.values
    exact = FactorizedQueries(workload, epsilon)
    # Answering the middle of each range has a mean squared error of at most half**2.
    half = (values.max(axis=1) - values.min(axis=1)).max() / 2
    if exact.worst_case_variance(num_users) < half**2 / 10:
        raise ValueError("there are so many users that the exact factorization is as good.")
    return FactorizedQueries(workload, epsilon, num_users=num_users)
