"""Hierarchical histograms: each user reports the node above its value on one level of a tree."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._queries import AdditiveProtocol, check_workload
from .._spec import check_choice, check_epsilon, check_int, check_real
from ..randomizers import KRR, HadamardResponse, ProjectiveGeometryResponse
from ..randomizers._params import CountedParams
from ..randomizers._support import FrequencyOracle
from ._hierarchical_params import HierarchicalParams
from ._oracle_moments import expected_variances, query_variances
from ._tree import consistent_parts, interval_parts, level_widths, node_shares, num_nodes

_BRANCHINGS = (2, 3, 4, 5, 6, 8, 12, 16)
_ROUNDS = 6  # of a descent that halves its distance each time; its aim is a rule of thumb
_LEAST_CHANCE = 1e-6


@dataclasses.dataclass(frozen=True, slots=True)
class HierarchicalQueries(AdditiveProtocol):
    """Linear queries on intervals: estimated counts of the nodes of a tree, added up.

    The domain is cut into intervals, level by level, each into `branching` smaller ones. A user's
    first word draws a level, whatever the value, and the user reports the interval of that level
    that holds the value through a frequency oracle, with all of epsilon. A range of values is the
    union of few intervals, so that its answer adds up few estimates.

    Each query is written as `w_v = u + sum_l R_l[node of v on level l]`; with pi_l the probability
    of level l and c_l the estimated counts of its users in its nodes, the answers are
    `u + sum_l R_l . c_l / (n pi_l)`. With `consistency` R is that of weighted least squares: the
    answers of the one histogram that fits all estimates best. Weights are the inverse mean squares
    of the nodes' estimates for uniformly distributed users, and estimates are taken about their
    mean for such users, which leaves less to the chance of which users are on a level. Without
    `consistency` R consists of the largest intervals on which a query is constant.

    Formal guarantees:
      * Privacy: pure epsilon-LDP: the level is independent of the value, and given the level the
        report is that of the level's oracle. `exact_epsilon()` is the largest of the levels'.
      * Estimate: without bias, for every data set.
      * Variance, exact for a fixed data set, over levels and oracles: a user of value v contributes
        `sum_l (V_l + r_l**2) / pi_l - (sum_l r_l)**2`, V_l being the variance of `R_l` applied to
        the oracle's estimate of one user on level l and r_l the mean. For the count of one node by
        an oracle of variance `c**2` it is `c**2 / pi_l - 1` on the node and `c**2 / pi_l` off it.
        What is chosen for uniform users affects how small this is, not that it is exact.

    Edge cases:
      ===================================  ======================================================
      branching of k                       one level: the oracle, its shares adding up to 1
      a query that is constant             answered exactly
      level_weights without branching      ValueError: the number of levels is not given
      oracle whose reports are not counts  TypeError
      value outside the domain             ValueError from a Population; clamped inside jit
      ===================================  ======================================================

    Args:
      workload: W, float[m, k], a row for each query, or an `Operator`; k at least 2.
      epsilon: privacy parameter, > 0.
      branching: intervals that an interval is cut into, 2 to k. None for the one out of
        {2, 3, 4, 5, 6, 8, 12, 16, k} with the least predicted error: summed over the queries, for
        uniform users, the covariances of nodes left out.
      oracle: a function of (num_values, epsilon) that makes the oracle of a level, such as `KRR`,
        `HadamardResponse`, `HadamardBit` or `ProjectiveGeometryResponse`. None for the one out of
        the first, second and last with the least variance on that level; on a level of thousands of
        nodes the last takes long to simulate many users with, the second does not.
      consistency: whether to combine all levels by least squares.
      level_weights: proportional to the probabilities of the levels, coarse to fine, H numbers > 0.
        None for those with the least predicted error.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is of the wrong kind, or is traced.

    Example:
      >>> import jaxdp
      >>> from jaxdp.linear import HierarchicalQueries
      >>> cdf = HierarchicalQueries(jaxdp.workloads.prefix(128), epsilon=1.0)
      >>> cdf.branching, len(cdf.oracles)
      (2, 7)
      >>> round(cdf.worst_case_total_variance(num_users=1))
      2265

    References:
      Hay, Rastogi, Miklau, Suciu (2010), Boosting the accuracy of differentially private histograms
      through consistency; Cormode, Kulkarni, Srivastava (2019), Answering range queries under local
      differential privacy; Bell, Bellet, Gascón, Kulkarni (2020), section 5.
    """

    workload: Any  # a FrozenArray, once constructed
    epsilon: float
    branching: int | None = None
    oracle: Callable[[int, float], FrequencyOracle] | None = None
    consistency: bool = True
    level_weights: tuple[float, ...] | None = None

    def __post_init__(self):
        def keep(name, value):
            object.__setattr__(self, name, value)

        keep("workload", check_workload(self.workload))
        keep("epsilon", check_epsilon(self.epsilon))
        check_choice("consistency", self.consistency, (True, False))
        k = self.num_values
        if k < 2:
            raise ValueError("workload must have at least 2 columns: with one value there is none.")
        if self.oracle is not None and not callable(self.oracle):
            raise TypeError(f"oracle must be {_ORACLE}, got {self.oracle!r}.")
        branching, weights = self.branching, self.level_weights
        if branching is not None:
            branchings = (check_int("branching", branching, low=2, high=k),)
        elif weights is not None:
            raise ValueError("level_weights need branching, which sets the number of levels.")
        else:
            branchings = (*(b for b in _BRANCHINGS if b < k), k)
        if branching is None or weights is None:
            fits = {b: _fit(self, b) for b in branchings}
            branching = min(fits, key=lambda b: fits[b][0])
            weights = fits[branching][1]
        keep("branching", branching)
        if np.ndim(weights) != 1 or len(weights) != len(self.widths):
            raise ValueError(
                f"level_weights must be {len(self.widths)} numbers, one for each level of "
                f"branching = {branching} on {k} values, got {weights!r}."
            )
        keep("level_weights", tuple(check_real("level_weights", w, low=0.0) for w in weights))
        _oracles(self.oracle, k, self.widths, self.epsilon)  # raises where a level has none

    @property
    def widths(self) -> tuple[int, ...]:
        """How many values a node of each level holds, coarse to fine."""
        assert self.branching is not None
        return tuple(level_widths(self.num_values, self.branching))

    @property
    def oracles(self) -> tuple[FrequencyOracle, ...]:
        """The frequency oracle of each level, coarse to fine."""
        return _oracles(self.oracle, self.num_values, self.widths, self.epsilon)

    def _words(self, word_bits: int) -> list[int]:
        """Of the 2**word_bits first words, how many lead to each level; at least one."""
        weights = np.array(self.level_weights, np.float64)
        rest = 2**word_bits - weights.size
        words = [1 + int(rest * w) for w in weights / weights.sum()]
        words[int(np.argmax(weights))] += 2**word_bits - sum(words)
        return words

    def level_probabilities(self, word_bits: int = 32) -> np.ndarray:
        """The realised probability of each level, coarse to fine, float64[H]."""
        return np.array(self._words(word_bits)) / 2.0**word_bits

    def build(self, word_bits: int = 32) -> HierarchicalParams:
        """The params; `word_bits=8` makes a twin with words of 8 bits."""
        parts, shifts, offset = _reconstruction(self)
        chances = self.level_probabilities(word_bits)
        columns = [part / chance for part, chance in zip(parts, chances, strict=True)]
        return HierarchicalParams(
            levels=tuple(oracle.build(word_bits) for oracle in self.oracles),
            borders=np.cumsum(self._words(word_bits))[:-1].astype(np.uint32),
            decoder=np.concatenate([*columns, shifts / chances], axis=1),
            offset=offset,
            widths=self.widths,
            num_values=self.num_values,
            word_bits=word_bits,
        )

    def exact_epsilon(self) -> float:
        """The realised privacy parameter: the largest of the levels' oracles."""
        return max(oracle.exact_epsilon() for oracle in self.oracles)

    def contributions(self) -> tuple[np.ndarray, np.ndarray]:
        """The mean and the variance of one user's contribution to each answer; exact.

        Returns:
          float64[m, k], the workload itself, and float64[m, k]: column v for a user who holds v.
        """
        return self.workload.values, _variances(self)


_ORACLE = (
    "a function of (num_values, epsilon) that makes a frequency oracle whose reports are counted, "
    "such as KRR, HadamardResponse, HadamardBit or ProjectiveGeometryResponse"
)


@functools.lru_cache(maxsize=256)
def _oracles(make, num_values: int, widths: tuple[int, ...], epsilon: float):
    oracles = tuple((make or _best)(num_nodes(num_values, width), epsilon) for width in widths)
    for oracle in oracles if make is not None else ():
        params = oracle.build() if isinstance(oracle, FrequencyOracle) else None
        if not (isinstance(params, CountedParams) and hasattr(params, "sample_tally")):
            raise TypeError(f"oracle must be {_ORACLE}; it made {oracle!r}.")
    return oracles


@functools.lru_cache(maxsize=1024)
def _best(num_values: int, epsilon: float) -> FrequencyOracle:
    """The oracle of counted reports with the least sum of variances for uniform users."""
    found, refused = [], None
    for make in (KRR, HadamardResponse, ProjectiveGeometryResponse):
        try:
            found.append(make(num_values, epsilon))
        except ValueError as error:  # epsilon is too large or too small for its words
            refused = error
    if not found:
        assert refused is not None
        raise refused
    return min(found, key=lambda oracle: oracle.variance(np.ones(num_values, np.int64)).sum())


def _mean_squares(protocol: HierarchicalQueries, oracles, widths) -> list[np.ndarray]:
    """The mean square of each node's estimate by one user on its level, for uniform users."""
    shares = [node_shares(protocol.num_values, width) for width in widths]
    about = [share if protocol.consistency else 0.0 for share in shares]
    return [
        expected_variances(oracle, share) + share * (1 - centre)
        for oracle, share, centre in zip(oracles, shares, about, strict=True)
    ]


def _parts(protocol: HierarchicalQueries, queries, branching: int, squares, chances):
    if not protocol.consistency:
        return interval_parts(queries, branching, len(squares))
    costs = [square / chance for square, chance in zip(squares, chances, strict=True)]
    return consistent_parts(queries, branching, costs)


def _fit(protocol: HierarchicalQueries, branching: int) -> tuple[float, tuple[float, ...]]:
    """The predicted error of a branching, and the probabilities of the levels that attain it.

    `sum_l (sum of squares * R_l**2) / pi_l` is convex in (R, pi); it is minimised in turns.
    """
    queries, widths = protocol.workload.values, tuple(level_widths(protocol.num_values, branching))
    oracles = _oracles(protocol.oracle, protocol.num_values, widths, protocol.epsilon)
    if protocol.consistency and len(queries) > protocol.num_values:
        queries = np.linalg.qr(queries, mode="r")  # the same sums over queries, of fewer rows
    squares = _mean_squares(protocol, oracles, widths)
    chances, loads = np.full(len(widths), 1 / len(widths)), np.zeros(len(widths))
    for _ in range(_ROUNDS if protocol.consistency else 1):
        parts, _ = _parts(protocol, queries, branching, squares, chances)
        loads = np.sqrt([np.sum(s * r**2) for s, r in zip(squares, parts, strict=True)])
        if not loads.any():
            break
        chances = np.maximum(loads / loads.sum(), _LEAST_CHANCE)
    return float(loads.sum() ** 2), tuple((chances / chances.sum()).tolist())


class _Reconstruction(NamedTuple):
    """The parts of each level, float64[m, nodes]; what a user of each level adds; a constant."""

    parts: list[np.ndarray]
    shifts: np.ndarray
    offset: np.ndarray


@functools.lru_cache(maxsize=16)
def _reconstruction(protocol: HierarchicalQueries) -> _Reconstruction:
    assert protocol.branching is not None
    squares = _mean_squares(protocol, protocol.oracles, protocol.widths)
    chances = protocol.level_probabilities()
    queries = protocol.workload.values
    parts, constant = _parts(protocol, queries, protocol.branching, squares, chances)
    if not protocol.consistency:
        return _Reconstruction(parts, np.zeros((len(queries), len(parts))), constant)
    shares = [node_shares(protocol.num_values, width) for width in protocol.widths]
    means = [part @ share for part, share in zip(parts, shares, strict=True)]
    shifts = -np.stack(means, axis=1)
    return _Reconstruction(parts, shifts, constant - shifts.sum(axis=1))


@functools.lru_cache(maxsize=16)
def _variances(protocol: HierarchicalQueries) -> np.ndarray:
    parts, shifts, offset = _reconstruction(protocol)
    values = np.arange(protocol.num_values)
    second = np.zeros(protocol.workload.values.shape)
    for oracle, chance, width, part, shift in zip(
        protocol.oracles,
        protocol.level_probabilities(),
        protocol.widths,
        parts,
        shifts.T,
        strict=True,
    ):
        square = query_variances(oracle, part) + (part + shift[:, None]) ** 2
        second += square[:, values // width] / chance
    return np.maximum(second - (protocol.workload.values - offset[:, None]) ** 2, 0.0)
