"""Every statistical assertion of the test suite, and the offsets that each one detects.

A check computes a *proven* upper bound on the probability, under the claimed law, of data at least
this far from what was expected, and raises `CheckFailed` when the bound is below the level: `ALPHA`
for an assertion, divided (Bonferroni) over its entries and over the `cells` sibling assertions that
the caller makes. Those that need no scipy are `jaxdp.testing`'s.

| question                              | check                     | bound                        |
|---------------------------------------|---------------------------|------------------------------|
| does an event have probability p?     | `check_proportion`        | exact binomial tails         |
| do counts follow these probabilities? | `check_multinomial`       | Agrawal, and exact cells     |
| do two count vectors share a law?     | `check_same_distribution` | Agrawal, and hypergeometric  |
| do samples follow this CDF?           | `check_cdf`               | Dvoretzky-Kiefer-Wolfowitz   |
| do two sets of samples share a law?   | `check_two_samples`       | reflection principle, or DKW |
| is this the mean?                     | `check_mean`              | Catoni, or Bernstein         |
| is this the variance?                 | `check_variance`          | Catoni on squares            |

Samples have their independent draws on axis 0; the other axes are entries of one assertion. The
offset that `detectable_*` returns is caught with probability at least `POWER`. Beside each check, a
test shows with `must_fail` that it catches a wrong law.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from jaxdp.testing import CheckFailed as CheckFailed
from jaxdp.testing import _statistics as base
from jaxdp.testing import check_mean as check_mean
from jaxdp.testing import check_two_samples as check_two_samples
from jaxdp.testing import check_variance as check_variance
from jaxdp.testing import must_fail as must_fail
from tests import _bounds

POWER = 0.999

CDF = Callable[[NDArray], ArrayLike]


def check_proportion(
    successes: ArrayLike, trials: ArrayLike, p: ArrayLike, *, at_most: bool = False, cells: int = 1
) -> None:
    """Asserts successes ~ Binomial(trials, p) entrywise, or with a probability `at_most` p.

    Exact binomial tails, computed to nine digits up to 10^12 trials. The arguments broadcast.
    """
    successes, trials, p = (
        np.asarray(x, np.float64) for x in np.broadcast_arrays(successes, trials, p)
    )
    tail = binom.sf(successes - 1, trials, p)
    if not at_most:
        tail = 2 * np.minimum(tail, binom.cdf(successes, trials, p))
    base.judge("check_proportion", _bounds.log(tail), cells, observed=successes, trials=trials, p=p)


def check_multinomial(counts: ArrayLike, probabilities: ArrayLike, *, cells: int = 1) -> None:
    """Asserts counts ~ Multinomial(sum of counts, probabilities).

    Half of the level goes to the relative entropy, P(n·KL >= s) <= e^-s (e·s / (k-1))^(k-1) for
    s >= k - 1, and half to the exact tails of the k cells: in any one of them it detects
    `detectable_proportion(n, p, cells=2 * k)`. Cells of probability 0 must be empty.

    References: R. Agrawal, Finite-sample concentration of the multinomial in relative entropy,
    2020, arXiv:1904.02291.
    """
    counts, probabilities = (np.asarray(x, np.float64).ravel() for x in (counts, probabilities))
    if counts.shape != probabilities.shape or abs(probabilities.sum() - 1) > 1e-9:
        raise ValueError(
            f"need {counts.size} probabilities of sum 1, got {probabilities.size} of sum "
            f"{probabilities.sum()!r}"
        )
    check_proportion(counts, counts.sum(), probabilities, cells=2 * cells)
    possible = probabilities > 0
    _check_entropy("check_multinomial", counts[possible], probabilities[possible], 2 * cells)


def check_same_distribution(counts_a: ArrayLike, counts_b: ArrayLike, *, cells: int = 1) -> None:
    """Asserts that two multinomial count vectors have the same, unknown, probabilities.

    Given the pooled counts, a sample is a draw without replacement from the pool. Half of the level
    goes to the hypergeometric tails of the cells, half to the relative entropy of the smaller
    sample to the pool: as draws without replacement are dominated in convex order by draws with
    it, Agrawal's bound on the moment generating function holds here too.

    References: W. Hoeffding, Probability inequalities for sums of bounded random variables, 1963,
    Theorem 4; R. Agrawal, see `check_multinomial`.
    """
    counts = [np.asarray(c, np.float64).ravel() for c in (counts_a, counts_b)]
    pool, smaller = counts[0] + counts[1], min(counts, key=np.sum)
    pool, smaller = pool[pool > 0], smaller[pool > 0]
    total, draws = pool.sum(), smaller.sum()
    log_tail = np.log(2) + np.minimum(
        _bounds.hypergeometric(smaller, total, pool, draws),
        _bounds.hypergeometric(draws - smaller, total, total - pool, draws),
    )
    facts = dict(observed=smaller, of=draws, pooled=pool, pool=total)
    base.judge("check_same_distribution", log_tail, 2 * cells, **facts)
    _check_entropy("check_same_distribution", smaller, pool / total, 2 * cells)


def check_cdf(samples: ArrayLike, cdf: CDF, *, cdf_left: CDF | None = None, cells: int = 1) -> None:
    """Asserts that independent samples have this CDF: P(sup|F_n - F| > t) <= 2 exp(-2·n·t^2).

    `cdf_left(x)`, the probability of values strictly below x, is needed when the law has atoms.

    References: P. Massart, The tight constant in the Dvoretzky-Kiefer-Wolfowitz inequality, 1990.
    """
    samples = base.as_samples("check_cdf", samples)
    n, distances = len(samples), []
    for column in samples.T:
        points, counts = np.unique(column, return_counts=True)
        empirical = np.cumsum(counts) / n
        above = empirical - np.asarray(cdf(points))
        below = np.asarray((cdf_left or cdf)(points)) - (empirical - counts / n)
        distances.append(np.maximum(above, below).max())
    distance = np.array(distances)
    base.judge("check_cdf", np.log(2) - 2 * n * distance**2, cells, distance=distance, n=n)


def detectable_proportion(trials: float, p: float, *, cells: int = 1) -> float:
    """The least d for which Binomial(trials, p + d) fails `check_proportion`.

    About sqrt(84.6·p·(1-p) / trials). Downwards it is `detectable_proportion(trials, 1 - p)`.
    """

    def detected(offset: float) -> bool:
        seen = binom.ppf(1 - POWER, trials, p + offset)
        return 2 * cells * binom.sf(seen - 1, trials, p) < base.ALPHA

    return _bounds.least(detected, 1 - p)


def detectable_difference(trials_a: float, trials_b: float, p: float, *, cells: int = 1) -> float:
    """The least d for which p in sample a and p + d in b fail `check_same_distribution`.

    `cells` is the total number of entries of the vectors (times that of sibling assertions).
    """

    def detected(offset: float) -> bool:
        few = binom.ppf((1 + POWER) / 2, trials_a, p)
        many = binom.ppf((1 - POWER) / 2, trials_b, p + offset)
        tail = _bounds.hypergeometric(many, trials_a + trials_b, few + many, trials_b)
        return bool(tail < np.log(base.ALPHA / (4 * cells)))

    return _bounds.least(detected, 1 - p)


def detectable_cdf(n: int, m: int | None = None, *, cells: int = 1) -> float:
    """The Kolmogorov-Smirnov distance that `check_cdf`, or `check_two_samples` given m, detects."""
    cost = np.log((2 if m in (None, n) else 4) * cells / base.ALPHA)
    if m is None:
        limit, noise = np.sqrt(cost / (2 * n)), 1 / n
    elif n == m:  # C(2n, n+d) / C(2n, n) <= exp(-d^2 / (n + d)), and d is an integer
        limit, noise = ((cost + np.sqrt(cost**2 + 4 * cost * n)) / 2 + 1) / n, 2 / n
    else:
        limit, noise = np.sqrt(cost / 2) * (n**-0.5 + m**-0.5), 1 / n + 1 / m
    return limit + np.sqrt(-np.log1p(-POWER) * noise / 2)


def detectable_mean(
    n: int,
    variance: float,
    *,
    scale: float | None = None,
    bounds: tuple[float, float] | None = None,
    cells: int = 1,
) -> float:
    """The offset that `check_mean` detects: about 11·sqrt(variance/n); inf if n is too small."""
    cost, miss = np.log(2 * cells / base.ALPHA), -np.log1p(-POWER)
    if bounds is not None:  # the deviation of the sample itself: Theorem 10 of Maurer and Pontil
        cost, miss, width = cost + np.log(2), miss + np.log(2), bounds[1] - bounds[0]
        deviation = np.sqrt(variance) + width * np.sqrt(2 * miss / (n - 1))
        limit = np.sqrt(2 * cost / n) * deviation + 7 * width * cost / (3 * (n - 1))
        return limit + np.sqrt(2 * variance * miss / n) + width * miss / (3 * n)
    if scale is not None:
        return sum(np.sqrt(2 * variance * c / n) + scale * c / n for c in (cost, miss))
    return np.sqrt(variance) * _bounds.catoni_offset(n, 0, cost, miss)


def detectable_variance(
    n: int, kurtosis: float, *, known_mean: bool = True, cells: int = 1
) -> float:
    """The relative excess, at the same kurtosis, that `check_variance` detects: about
    11·sqrt((kurtosis - 1)/n), or 11·sqrt((kurtosis + 1)/n) if it is not given the mean."""
    n, spread = (n, kurtosis - 1) if known_mean else (n // 2, (kurtosis + 1) / 2)
    cost, miss = np.log(2 * cells / base.ALPHA), -np.log1p(-POWER)
    return np.sqrt(spread) * _bounds.catoni_offset(n, np.sqrt(spread), cost, miss)


def _check_entropy(name: str, counts: NDArray, probabilities: NDArray, cells: int) -> None:
    entropy, log_tail = base.agrawal(counts, probabilities)
    base.judge(name, log_tail, cells, entropy=entropy, entries=counts.size, n=counts.sum())
