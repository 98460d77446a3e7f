"""The distribution that makes the reports most likely, over any finite channel."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int32
from numpy.typing import ArrayLike

from jaxdp_kernels import register_dataclass

from .._contract import Params, Spec, params_of
from .._spec import as_float64, check_bool, check_int, check_real, is_traced
from .._x64 import compiled_in_float64
from ..random import Count
from ..randomizers._params import DrawnCountsRound
from ._channel_products import Products, products

Channel = Spec[Any] | Params[Any] | ArrayLike
"""A randomizer whose reports are counted, its params, or a table of probabilities [k, r]."""

_SLACK = 1e-6  # of the sums of a table's rows
_MOST_ENTRIES = 2**26  # of a table, and of its Newton matrix
_MOST_USERS = 2.0**63  # of a report
_NUMBERS = 2**24  # of the Newton matrices that are held at a time
_TO_THE_BOUNDARY = 0.995  # the part of the way that a step goes at most


@register_dataclass
@dataclasses.dataclass(frozen=True)
class DistributionFit:
    """A distribution that is fitted to reports; a pytree.

    Attributes:
      probabilities: of the k values, non-negative and of sum 1.
      log_likelihood: of the reports, `sum_y N_y ln Pr[y]`.
      gap: how much larger the log-likelihood of any other distribution can be, at most; proven.
      iterations: how many were made.
      converged: whether they ended because the tolerance was met.
    """

    probabilities: Float[Array, "*batch k"]
    log_likelihood: Float[Array, "*batch"]
    gap: Float[Array, "*batch"]
    iterations: Int32[Array, "*batch"]
    converged: Bool[Array, "*batch"]


def maximum_likelihood(
    channel: Channel,
    tally: Count | ArrayLike,
    *,
    tolerance: float = 1e-2,
    max_iterations: int = 100,
) -> DistributionFit:
    """The distribution of the users' values under which the reports are most likely.

    It maximises the concave `L(p) = sum_y N_y ln (sum_v p_v Pr[y | v])` over distributions p, N_y
    being the number of reports y: what `expectation_maximization` tends to, and where it arrives
    after thousands of steps. Here a primal-dual interior point method takes 5 to 20 steps. Each is
    of O(k**2 (k + r)) operations (60 ms on a core for k = r = 1,000); or, for more than 128 values
    of `KRR`, `HadamardResponse`, `HadamardBit`, `ProjectiveGeometryResponse` or `AffineHashing`, of
    some 60 transforms. A fit of 1,000 values to their reports takes 1, 4, 5, 15 and 80 ms. It stops
    at a proven distance: with `g_v = sum_y N_y Pr[y | v] / Pr[y] / n` no distribution has a
    log-likelihood above `L(p) + n ln max_v g_v`.

    Formal guarantees:
      * Privacy: post-processing; epsilon stays what it was.
      * Optimality: `gap` is an upper bound on `max L - L(p)`, in nats, up to rounding, which is
        about 1e-15 of n; `converged` says that it is at most the tolerance.
      * Bias: as for every estimate that is never negative, rare values come out too large. Where
        there is one report for each value, as for `KRR`, it is close to `norm_sub`; it is far
        better where the estimate without bias does not use all that reports tell.
      * Values in an order: where neighbours' reports look alike, as for `DiscreteLaplace`, the
        most likely distribution has few, high spikes, and a large error. There, take
        `expectation_maximization`.

    Works under jit and vmap; the derivative is not defined (the result is at a boundary).

    Edge cases:
      ===============================  ======================================================
      no reports                       the uniform distribution
      several most likely ones         one of them, near the analytic centre of all
      values of probability 0          small positive numbers, whose sum the tolerance limits
      a NaN in the tally, inside jit   `gap` is NaN, `converged` False
      more users than about 1e12       rounding may be above the tolerance: `converged` is False
      ===============================  ======================================================

    Args:
      channel: a randomizer whose reports are counted, such as `KRR`, `HadamardResponse`,
        `DiscreteLaplace` or `FiniteChannel`, or its params; or the probabilities themselves,
        float[k, r], row v those of the reports of value v.
      tally: N, what `params.tally` and `jaxdp.merge` return; or numbers >= 0, [..., r].
      tolerance: of the gap, in nats, >= 0. Distributions that differ by so little in
        log-likelihood fit the reports alike.
      max_iterations: Newton steps, at least 1.

    Returns:
      The fit; arrays have the leading axes of the tally.

    Raises:
      ValueError: the reports are not counted, a shape does not fit, or a number is out of range
        (entries of arrays outside of jit only).
      TypeError: an argument is of the wrong kind.

    Example:
      >>> from jaxdp.randomizers import KRR
      >>> from jaxdp.reports import maximum_likelihood
      >>> fit = maximum_likelihood(KRR(3, 1.0), [60, 25, 15])
      >>> [f"{p:.2f}" for p in fit.probabilities], bool(fit.converged)
      (['0.95', '0.05', '0.00'], True)

    References:
      Kairouz, Bonawitz, Ramage (2016), Discrete distribution estimation under local privacy;
      Koenker, Mizera (2014), Convex optimization, shape constraints, compound decisions, and
      empirical Bayes rules, for the interior point method; Lindsay (1983), The geometry of mixture
      likelihoods, for the bound.
    """
    limits = _limits(tolerance, max_iterations)
    return _newton(*_checked(channel, tally), *limits)


def expectation_maximization(
    channel: Channel,
    tally: Count | ArrayLike,
    *,
    smooth: bool = False,
    tolerance: float = 1e-3,
    max_iterations: int = 10_000,
) -> DistributionFit:
    """The iterative Bayesian update, from the uniform distribution on; smoothed for ordered values.

    `p_v <- p_v sum_y (N_y / n) Pr[y | v] / (sum_u p_u Pr[y | u])`: each report is shared out among
    the values by Bayes' rule, with the last distribution as the prior. It ends where a step
    changes the log-likelihood by at most the tolerance. With `smooth`, EMS, each step is followed
    by `p_v <- (p_{v-1} + 2 p_v + p_{v+1}) / 4`, where the values beyond both ends are the end
    values themselves, so that sums and the uniform distribution stay as they are.

    Formal guarantees:
      * Privacy: post-processing; epsilon stays what it was.
      * Without smoothing the log-likelihood never falls, and tends to its maximum. An early end
        leaves the distribution smoother, and where neighbours' reports look alike it is by far the
        better estimate for it. `gap` is an upper bound on `max L - L(p)`, as for
        `maximum_likelihood`; the tolerance does not limit it.
      * With smoothing, the distribution is smooth at any tolerance. It flattens the more, the less
        a step learns from the reports: at a small epsilon, on many values, the early end of the
        plain steps has the smaller error. A single frequent value is spread over its neighbours.

    A step takes two products with the table of the channel, O(k r) operations, or two transforms
    for the randomizers that `maximum_likelihood` names.

    Edge cases:
      ===============================  ======================================================
      no reports                       the uniform distribution
      a NaN in the tally, inside jit   NaN, `converged` False
      ===============================  ======================================================

    Args:
      channel: a randomizer whose reports are counted, its params, or float[k, r], as for
        `maximum_likelihood`.
      tally: N, what `params.tally` and `jaxdp.merge` return; or numbers >= 0, [..., r].
      smooth: whether values are in an order, and their distribution is smooth.
      tolerance: of a step's change of the log-likelihood, in nats, >= 0.
      max_iterations: steps, at least 1.

    Returns:
      The fit; arrays have the leading axes of the tally.

    Raises:
      ValueError: the reports are not counted, a shape does not fit, or a number is out of range
        (entries of arrays outside of jit only).
      TypeError: an argument is of the wrong kind.

    Example:
      >>> from jaxdp.randomizers import DiscreteLaplace
      >>> from jaxdp.reports import expectation_maximization
      >>> fit = expectation_maximization(DiscreteLaplace(0, 3, 2.0), [40, 30, 20, 10], smooth=True)
      >>> [f"{p:.2f}" for p in fit.probabilities], bool(fit.converged)
      (['0.38', '0.32', '0.20', '0.10'], True)

    References:
      Agrawal, Aggarwal (2001), On the design and quantification of privacy preserving data mining
      algorithms; Li, Wang, Lopuhaä-Zwakenberg, Li, Skoric (2020), Estimating numerical
      distributions under local differential privacy, for EMS and its stopping rule.
    """
    program = _smoothed_em if check_bool("smooth", smooth) else _em
    limits = _limits(tolerance, max_iterations)
    return program(*_checked(channel, tally), *limits)


def _limits(tolerance: float, max_iterations: int) -> tuple[Any, Any]:
    return (
        np.asarray(check_real("tolerance", tolerance, low=0.0, open_ends=False), np.float64),
        np.asarray(check_int("max_iterations", max_iterations, low=1, high=2**31 - 1), np.int32),
    )


def _checked(channel: Channel, tally: Count | ArrayLike) -> tuple[Any, Any]:
    """Params or a table, and counts of its reports, or raises."""
    given = params_of(channel)
    if given is None:
        held = _checked_table(channel)  # pyright: ignore[reportArgumentType]
        num_values, num_reports = held.shape
    elif isinstance(given, DrawnCountsRound) and given.num_bins is not None:
        held, num_values, num_reports = given, given.num_bins, given.num_reports
    else:
        raise ValueError(
            f"channel must have reports that are counted, got {type(given).__name__}, whose tally "
            "holds only their sums, which do not determine the likelihood of the reports. Take "
            "norm_sub(params.estimate(tally), num_users); or count the distinct reports, and pass "
            "the table of their probabilities."
        )
    has_table = given is None or not given.needs_no_table
    if has_table and num_values * max(num_values, num_reports) > _MOST_ENTRIES:
        raise ValueError(
            f"channel must have at most 2**26 entries, got {num_values} values and {num_reports} "
            "reports; take norm_sub(params.estimate(tally), num_users), or merge values."
        )
    counts = tally if isinstance(tally, (Count, Tracer)) else as_float64("tally", tally)
    if not counts.ndim or counts.shape[-1] != num_reports:
        raise ValueError(
            f"tally must have shape [..., {num_reports}], a number for each report of the channel, "
            f"got {counts.shape}."
        )
    if not is_traced(counts):
        numbers = counts.numpy() if isinstance(counts, Count) else np.asarray(counts)
        if not np.all((numbers >= 0) & (numbers < _MOST_USERS)):
            worst = numbers.max() if np.all(numbers >= 0) else "a negative number, or NaN"
            raise ValueError(f"tally must be of numbers from 0 to 2**63, got {worst}.")
        if given is None and not is_traced(held):
            impossible = ~np.any(np.asarray(held) > 0, axis=0) & np.any(
                numbers.reshape(-1, num_reports) > 0, axis=0
            )
            if impossible.any():
                raise ValueError(
                    f"tally counts report {int(np.argmax(impossible))}, which no value of the "
                    "channel makes; is the channel the transpose of what it should be?"
                )
    return held, counts


def _checked_table(channel: ArrayLike) -> Any:
    table = channel if isinstance(channel, Tracer) else as_float64("channel", channel)
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(
            "channel must be a randomizer, its params, or probabilities [k, r], a row for each "
            f"value, got shape {table.shape}."
        )
    if isinstance(table, np.ndarray) and not (
        np.all(table >= 0) and np.all(np.abs(table.sum(axis=1) - 1) <= _SLACK)
    ):
        raise ValueError(
            "channel must have rows of probabilities, >= 0 and of sum 1; if its columns are, pass "
            "the transpose."
        )
    return table


def _each(fit: Callable[[jax.Array], DistributionFit], tally: Any, num_numbers: int) -> Any:
    """Fits to each of a batch of counts, as many at a time as memory allows."""
    counts = tally.f64() if isinstance(tally, Count) else jnp.asarray(tally).astype(jnp.float64)
    if counts.ndim == 1:
        return fit(counts)
    lead, rows = counts.shape[:-1], counts.reshape(-1, counts.shape[-1])
    at_once = max(_NUMBERS // num_numbers, 1)
    if len(rows) <= at_once:
        fits = jax.vmap(fit)(rows)
    else:
        fits = lax.map(fit, rows, batch_size=at_once)
    return jax.tree.map(lambda x: x.reshape(lead + x.shape[1:]), fits)


def _shares(counts: jax.Array) -> tuple[jax.Array, jax.Array]:
    """N_y / n, and n."""
    total = jnp.sum(counts)
    return counts / jnp.where(total == 0, 1.0, total), total


def _ratios(shares: jax.Array, law: jax.Array) -> jax.Array:
    """N_y / n / Pr[y], and 0 where no report is."""
    return jnp.where(shares == 0, 0.0, shares / jnp.where(shares == 0, 1.0, law))


def _log_likelihood(counts: jax.Array, law: jax.Array) -> jax.Array:
    return jnp.sum(jnp.where(counts == 0, 0.0, counts * jnp.log(jnp.where(counts == 0, 1.0, law))))


def _gap(gains: jax.Array, total: jax.Array) -> jax.Array:
    """How far the log-likelihood is from its maximum, at most.

    For any other distribution q, `sum_y N_y ln (Pr_q[y] / Pr[y])` is by Jensen's inequality at most
    `n ln sum_y (N_y / n) Pr_q[y] / Pr[y] = n ln sum_v q_v g_v`.
    """
    return total * jnp.log(jnp.maximum(jnp.max(gains), 1.0))


@compiled_in_float64
def _newton(channel: Any, tally: Any, tolerance: jax.Array, most: jax.Array) -> DistributionFit:
    table = products(channel)
    fit = functools.partial(_newton_fit, table, tolerance=tolerance, most=most)
    return _each(fit, tally, table.numbers)


class _Newton(NamedTuple):
    """Where the interior point method is: p, the slacks s of g <= 1, and the best p so far."""

    point: jax.Array
    slack: jax.Array
    best: jax.Array
    gap: jax.Array
    iterations: jax.Array
    going: jax.Array


def _newton_fit(
    table: Products, counts: jax.Array, *, tolerance: jax.Array, most: jax.Array
) -> DistributionFit:
    """Minimises `-sum_y (N_y / n) ln (p M)_y + sum_v p_v` over p >= 0, whose solution has sum 1.

    The conditions are `1 - g(p) = s`, `p_v s_v = 0`, p and s >= 0; a step of Newton's method on
    them, `p_v s_v` moved towards a fraction of its mean, is a predictor and a corrector (Mehrotra).
    """
    shares, total = _shares(counts)

    def gains(point: jax.Array) -> tuple[jax.Array, jax.Array]:
        ratios = _ratios(shares, table.law(point))
        return ratios, table.over(ratios)

    def gap_of(point: jax.Array) -> jax.Array:
        return _gap(gains(point / jnp.sum(point))[1], total)

    def step(at: _Newton) -> _Newton:
        point, slack = at.point, at.slack
        ratios, gain = gains(point)
        # The Hessian is sum_y (N_y / n) M_vy M_uy / (p M)_y**2. In the variables dp / sqrt(p) the
        # equations are (sqrt(p) H sqrt(p) + diag(s)) of eigenvalues that stay apart from 0.
        root = jnp.sqrt(point)
        # (N / n) / (p M)**2 is ratios**2 / (N / n).
        weights = ratios**2 / jnp.where(shares == 0, 1.0, shares)
        ridge = 1e-15 * (1.0 + jnp.mean(slack))
        solve = table.solver(root, weights, slack + ridge)

        def direction(target: jax.Array) -> tuple[jax.Array, jax.Array]:
            """Towards g = 1 - s and p s = target, to first order."""
            change = root * solve(root * (gain - 1 + target / point))
            return change, (target - point * slack - slack * change) / point

        mean = jnp.mean(point * slack)
        change, change_slack = direction(jnp.zeros_like(point))
        ahead = jnp.mean(
            (point + _longest(point, change) * change)
            * (slack + _longest(slack, change_slack) * change_slack)
        )
        target = (ahead / mean) ** 3 * mean - change * change_slack
        change, change_slack = direction(target)
        length = jnp.minimum(_longest(point, change), _longest(slack, change_slack))
        length = jnp.minimum(1.0, _TO_THE_BOUNDARY * length)
        point, slack = point + length * change, slack + length * change_slack
        gap = gap_of(point)
        better = gap < at.gap
        going = jnp.isfinite(gap) & (gap > tolerance) & (at.iterations + 1 < most)
        best = jnp.where(better, point, at.best)
        gap = jnp.where(better, gap, at.gap)
        return _Newton(point, slack, best, gap, at.iterations + 1, going)

    num_values = table.num_values
    point = jnp.full(num_values, 1 / num_values, jnp.float64)
    _, gain = gains(point)
    gap = gap_of(point)
    slack = 1.0 + jnp.maximum(1.0 - gain, 0.0)
    start = _Newton(point, slack, point, gap, jnp.int32(0), gap > tolerance)
    end = lax.while_loop(lambda at: at.going, step, start)
    best = end.best / jnp.sum(end.best)
    likelihood = _log_likelihood(counts, table.law(best))
    return DistributionFit(best, likelihood, end.gap, end.iterations, end.gap <= tolerance)


def _longest(point: jax.Array, change: jax.Array) -> jax.Array:
    """The longest step up to 1 that leaves all entries non-negative."""
    falls = change < 0
    return jnp.min(jnp.where(falls, -point / jnp.where(falls, change, -1.0), 1.0), initial=1.0)


@compiled_in_float64
def _em(channel: Any, tally: Any, tolerance: jax.Array, most: jax.Array) -> DistributionFit:
    return _em_fits(channel, tally, tolerance, most, smooth=False)


@compiled_in_float64
def _smoothed_em(
    channel: Any, tally: Any, tolerance: jax.Array, most: jax.Array
) -> DistributionFit:
    return _em_fits(channel, tally, tolerance, most, smooth=True)


def _em_fits(
    channel: Any, tally: Any, tolerance: jax.Array, most: jax.Array, *, smooth: bool
) -> DistributionFit:
    table = products(channel)
    fit = functools.partial(_em_fit, table, smooth=smooth, tolerance=tolerance, most=most)
    return _each(fit, tally, table.em_numbers)


def _em_fit(
    table: Products, counts: jax.Array, *, smooth: bool, tolerance: jax.Array, most: jax.Array
) -> DistributionFit:
    shares, total = _shares(counts)

    def unfinished(state: tuple[jax.Array, ...]) -> jax.Array:
        *_, change, iterations = state
        return (jnp.abs(change) > tolerance) & (iterations < most)

    def step(state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        point, law, likelihood, _, iterations = state
        # Without reports all gains are 0, and the distribution stays as it is.
        moved = point * table.over(_ratios(shares, law))
        point = jnp.where(total == 0, point, moved)
        if smooth:
            before = jnp.concatenate([point[:1], point[:-1]])
            after = jnp.concatenate([point[1:], point[-1:]])
            point = (before + 2 * point + after) / 4
        point = point / jnp.sum(point)
        law = table.law(point)
        new = _log_likelihood(counts, law)
        return point, law, new, new - likelihood, iterations + 1

    num_values = table.num_values
    point = jnp.full(num_values, 1 / num_values, jnp.float64)
    law = table.law(point)
    start = point, law, _log_likelihood(counts, law), jnp.full((), jnp.inf, law.dtype), jnp.int32(0)
    point, law, likelihood, change, iterations = lax.while_loop(unfinished, step, start)
    gap = _gap(table.over(_ratios(shares, law)), total)
    return DistributionFit(point, likelihood, gap, iterations, jnp.abs(change) <= tolerance)
