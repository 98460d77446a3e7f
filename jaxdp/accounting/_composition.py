"""What several reports of one user cost together."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._spec import (
    BELOW_ONE,
    as_array,
    check_choice,
    check_epsilon,
    check_int,
    check_real,
    within_float64,
)

_ULP = 2.0**-52


class Guarantee(NamedTuple):
    """An (epsilon, delta)-guarantee: a tuple of epsilon >= 0 and delta in [0, 1], 0 if pure."""

    epsilon: float
    delta: float = 0.0


@within_float64
def basic_composition(epsilons: ArrayLike, deltas: ArrayLike = 0.0) -> Guarantee:
    """The guarantee of reports that are computed from one value, one after the other: the sums.

    Formal guarantees:
      Exact for pure guarantees: without knowledge of the randomizers no smaller epsilon holds with
      delta = 0. Valid for adaptive choices, where a report may depend on the earlier ones. Sums are
      rounded up.

    Edge cases:
      ================  =================================================
      one number        a single report; one delta is used for all
      sum of deltas     1.0 if larger
      ================  =================================================

    Args:
      epsilons: float or float[k], each >= 0.
      deltas: float or float[k], each in [0, 1].

    Returns:
      The sums, as a `Guarantee`.

    Raises:
      ValueError: an argument is out of range, or the lengths differ.

    Example:
      >>> from jaxdp.accounting import basic_composition
      >>> basic_composition([0.5, 0.25, 0.25])
      Guarantee(epsilon=1.0, delta=0.0)

    References:
      Dwork, Kenthapadi, McSherry, Mironov, Naor (2006), Our data, ourselves, Theorem 1.
    """
    epsilons, deltas = _guarantees(epsilons, deltas)
    return Guarantee(_sum_upper(epsilons), min(_sum_upper(deltas), 1.0))


@within_float64
def parallel_composition(epsilons: ArrayLike, deltas: ArrayLike = 0.0) -> Guarantee:
    """The guarantee when every user takes part in one of several protocols: the worst of them.

    Formal guarantees:
      Exact. It holds if the users are assigned to the protocols without regard to their values; a
      user's report depends on that user's value alone, and so does its guarantee.

    Args:
      epsilons: float or float[k], each >= 0.
      deltas: float or float[k], each in [0, 1].

    Returns:
      The largest epsilon and the largest delta, as a `Guarantee`.

    Raises:
      ValueError: an argument is out of range, or the lengths differ.

    Example:
      >>> from jaxdp.accounting import parallel_composition
      >>> parallel_composition([0.5, 1.0], deltas=[1e-6, 0.0])
      Guarantee(epsilon=1.0, delta=1e-06)

    References:
      McSherry (2009), Privacy integrated queries, Theorem 4.
    """
    epsilons, deltas = _guarantees(epsilons, deltas)
    return Guarantee(max(epsilons), max(deltas))


@within_float64
def advanced_composition(
    epsilon: float, num_rounds: int, delta_slack: float, delta: float = 0.0
) -> Guarantee:
    """The guarantee of k reports with the same (epsilon, delta), by Dwork, Rothblum and Vadhan.

    `(eps sqrt(2 k ln(1/s)) + k eps (e**eps - 1), k delta + s)` with s = `delta_slack`.

    Formal guarantees:
      A proven bound, for adaptive choices too, rounded up. `optimal_composition` is never worse for
      pure reports, and for few rounds or a large epsilon even `basic_composition` is better. Bell
      et al. simplify the bound to `eps sqrt(k) (1 + sqrt(2 ln(1/s)))`, under the condition that
      this total is at most `sqrt(k) ln 2`. The condition should be `ln 2 (1 + sqrt(2 ln(1/s)))`,
      that is `eps <= ln(2) / sqrt(k)`: for k = 40, s = 0.1 and a total of `sqrt(k) ln 2` = 4.38 the
      reports have epsilon = 0.220, and the bound is 5.16.

    Args:
      epsilon: of each report, > 0.
      num_rounds: k, >= 1.
      delta_slack: s, in (0, 1).
      delta: of each report, in [0, 1).

    Returns:
      The total, as a `Guarantee`.

    Raises:
      ValueError: an argument is out of range.

    Example:
      >>> from jaxdp.accounting import advanced_composition
      >>> total = advanced_composition(epsilon=0.1, num_rounds=100, delta_slack=1e-6)
      >>> round(total.epsilon, 4), total.delta
      (6.3082, 1e-06)

    References:
      Dwork, Rothblum, Vadhan (2010), Boosting and differential privacy, Theorem III.3; Bell,
      Bellet, Gascón, Kulkarni (2020), appendix B.2.2.
    """
    epsilon = check_epsilon(epsilon)
    rounds = check_int("num_rounds", num_rounds, low=1)
    slack = check_real("delta_slack", delta_slack, low=0.0, high=1.0)
    delta = check_real("delta", delta, low=0.0, high=1.0, open_ends=False)
    total = slack if delta == 0 else _up(rounds * delta + slack)
    return Guarantee(_advanced(epsilon, rounds, slack), min(total, 1.0))


@within_float64
def optimal_composition(epsilon: float, num_rounds: int, delta_slack: float) -> Guarantee:
    """The best guarantee of k reports that are epsilon-private each, at a given delta.

    The smallest `e'` with `optimal_delta(epsilon, num_rounds, e') <= delta_slack`.

    Formal guarantees:
      Optimal: reports by binary randomized response attain it, all others are at least as private,
      also when chosen adaptively. The result is rounded up, by about `k eps 2e-16` and by what
      moves delta by a relative `k 1e-15`.

    Edge cases:
      ===================  ====================================================================
      delta_slack = 0      basic composition, k epsilon
      large delta_slack    0.0, when the k reports are (0, delta_slack)-private
      ===================  ====================================================================

    Args:
      epsilon: of each report, > 0.
      num_rounds: k, 1 to 10**7; time and memory grow in proportion.
      delta_slack: the total delta, in [0, 1).

    Returns:
      The total, as a `Guarantee`.

    Raises:
      ValueError: an argument is out of range.

    Example:
      >>> from jaxdp.accounting import optimal_composition
      >>> total = optimal_composition(epsilon=0.1, num_rounds=100, delta_slack=1e-6)
      >>> round(total.epsilon, 4), total.delta
      (4.7746, 1e-06)

    References:
      Kairouz, Oh, Viswanath (2015), The composition theorem for differential privacy, Theorem 3.3.
    """
    epsilon, rounds = _check_rounds(epsilon, num_rounds)
    slack = check_real("delta_slack", delta_slack, low=0.0, high=BELOW_ONE, open_ends=False)
    return Guarantee(_optimal(epsilon, rounds, slack), slack)


@within_float64
def optimal_delta(epsilon: float, num_rounds: int, total_epsilon: float) -> float:
    """The smallest delta at which k epsilon-private reports are (total_epsilon, delta)-private.

    `sum_j C(k, j) max(0, e**((k-j) eps) - e**(e' + j eps)) / (1 + e**eps)**k`, with e' =
    `total_epsilon`: the j-th term is the case that j of k binary randomized responses lie.

    Formal guarantees:
      Optimal, see `optimal_composition`; rounded up by a relative `k 1e-15` or so.

    Edge cases:
      ============================  ===========================================================
      total_epsilon >= k epsilon    0.0
      total_epsilon = 0             the total variation distance of the reports of two values
      ============================  ===========================================================

    Args:
      epsilon: of each report, > 0.
      num_rounds: k, 1 to 10**7; time and memory grow in proportion.
      total_epsilon: e', >= 0.

    Returns:
      delta, in [0, 1].

    Raises:
      ValueError: an argument is out of range.

    Example:
      >>> from jaxdp.accounting import optimal_delta
      >>> round(optimal_delta(epsilon=1.0, num_rounds=2, total_epsilon=1.0), 6)
      0.337835

    References:
      Kairouz, Oh, Viswanath (2015), The composition theorem for differential privacy, Theorem 3.3.
    """
    epsilon, rounds = _check_rounds(epsilon, num_rounds)
    total = check_real("total_epsilon", total_epsilon, low=0.0, open_ends=False)
    truth, lie, error = _response_tails(epsilon, rounds)
    # lies j with (k - 2 j) epsilon > e'
    count = math.ceil((rounds - total / epsilon) / 2)
    if count <= 0:
        return 0.0
    count = min(count, len(truth))
    kept = math.exp(truth[count - 1])
    difference = kept - math.exp(total + lie[count - 1])
    return min(max(difference, 0.0) + error * kept, 1.0)


@within_float64
def split_epsilon(
    epsilon: float, num_rounds: int, delta_slack: float = 0.0, method: str = "optimal"
) -> float:
    """The privacy parameter of each of k reports whose total is (epsilon, delta_slack).

    Formal guarantees:
      The largest one by the chosen theorem, rounded down, so that its total is at most `epsilon`.

    Edge cases:
      ================  =======================================================================
      delta_slack = 0   epsilon / k; "advanced" raises ValueError
      ================  =======================================================================

    Args:
      epsilon: of all reports together, > 0.
      num_rounds: k, >= 1; at most 10**7 for "optimal".
      delta_slack: in [0, 1).
      method: "optimal", "advanced" or "basic"; the last one does not use `delta_slack`.

    Returns:
      The privacy parameter of one report.

    Raises:
      ValueError: an argument is out of range.

    Example:
      >>> from jaxdp.accounting import split_epsilon
      >>> for method in ("basic", "advanced", "optimal"):
      ...     print(method, round(split_epsilon(1.0, 100, 1e-6, method), 4))
      basic 0.01
      advanced 0.0184
      optimal 0.024

    References:
      See `basic_composition`, `advanced_composition`, `optimal_composition`.
    """
    epsilon = check_epsilon(epsilon)
    rounds = check_int("num_rounds", num_rounds, low=1)
    slack = check_real("delta_slack", delta_slack, low=0.0, high=BELOW_ONE, open_ends=False)
    check_choice("method", method, ("optimal", "advanced", "basic"))
    if method == "basic":
        return math.nextafter(epsilon / rounds, 0.0) if rounds > 1 else epsilon
    if method == "optimal":
        _check_rounds(epsilon, rounds)
    elif slack == 0:
        raise ValueError("delta_slack must be > 0 for method = 'advanced', got 0.")
    total = _optimal if method == "optimal" else _advanced
    low, high = 0.0, 1.0
    while total(high, rounds, slack) <= epsilon:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if not low < middle < high:  # neighbouring floats, where these are denormal
            break
        # `low` is always private enough, so the result is rounded down.
        low, high = (middle, high) if total(middle, rounds, slack) <= epsilon else (low, middle)
    return low


def _advanced(epsilon: float, rounds: int, slack: float) -> float:
    spread = epsilon * math.sqrt(-2 * rounds * math.log(slack))
    return _up(spread + rounds * epsilon * math.expm1(epsilon))


def _optimal(epsilon: float, rounds: int, slack: float) -> float:
    """The smallest total epsilon; between two multiples of epsilon delta is linear in e**e'."""
    most = _up(rounds * epsilon) if rounds > 1 else epsilon
    if slack == 0:
        return most
    truth, lie, error = _response_tails(epsilon, rounds)
    # delta(e') is the largest truth_j − e**e'·lie_j over all cutoffs j. Here each of them alone is
    # set to the slack, and the largest e' is enough for all.
    spent = np.exp(truth) * (1 + error) - slack
    totals = np.log(np.where(spent > 0, spent, 1.0)) - lie + error
    return min(max(_up(float(np.max(np.where(spent > 0, totals, 0.0)))), 0.0), most)


def _response_tails(epsilon: float, rounds: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Logarithms of Pr[at most j lies], j < k/2, under both values, and their largest error.

    Under the first value a response lies with probability 1 / (1 + e**eps), under the second value
    the same outcome has the weight of k - j lies.
    """
    j = np.arange((rounds + 1) // 2, dtype=np.float64)
    # ln C(k, j) from its ratios: no large factorials cancel.
    steps = np.log((rounds - j[1:] + 1) / j[1:])
    log_choose = np.concatenate([[0.0], np.cumsum(steps)])
    log_base = -rounds * math.log1p(math.exp(-epsilon))
    truth = np.logaddexp.accumulate(log_choose - j * epsilon + log_base)
    lie = np.logaddexp.accumulate(log_choose - (rounds - j) * epsilon + log_base)
    return truth, lie, 4 * _ULP * (rounds * (math.log(2) + epsilon) + 10)


def _check_rounds(epsilon: float, num_rounds: int) -> tuple[float, int]:
    return check_epsilon(epsilon), check_int("num_rounds", num_rounds, low=1, high=10**7)


def _guarantees(epsilons: ArrayLike, deltas: ArrayLike) -> tuple[list[float], list[float]]:
    spent = _listed("epsilons", epsilons, math.inf)
    failed = _listed("deltas", deltas, 1.0)
    if len(failed) == 1:
        failed *= len(spent)
    if len(failed) != len(spent):
        raise ValueError(
            f"deltas must be one number or one for each of the {len(spent)} epsilons, got "
            f"{len(failed)}."
        )
    return spent, failed


def _listed(name: str, values: ArrayLike, high: float) -> list[float]:
    as_array(name, values)
    flat = np.ravel(np.asarray(values, dtype=object))
    if not len(flat):
        raise ValueError(f"{name} must hold at least one number.")
    return [check_real(name, v, low=0.0, high=high, open_ends=False) for v in flat]


def _sum_upper(values: list[float]) -> float:
    total = math.fsum(values)  # correctly rounded: exact, or off by less than one step
    return total if math.fsum([*values, -total]) <= 0 else math.nextafter(total, math.inf)


def _up(value: float) -> float:
    """Above a result of a few correctly rounded operations."""
    return value * (1 + 8 * _ULP)
