"""Every statistical assertion of the test suite, and the offsets that each one detects.

A check computes a *proven* upper bound on the probability, under the claimed law, of data at least
this far from what was expected, and raises `CheckFailed` when the bound is below the level: `ALPHA`
for an assertion, divided (Bonferroni) over its entries and over the `cells` sibling assertions that
the X

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
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special
from scipy.stats import binom

from tests import _bounds

ALPHA = 1e-9
POWER = 0.999

CDF = Callable[[NDArray], ArrayLike]


class CheckFailed(AssertionError):
    """The data are all but impossible under the law that was claimed."""


def must_fail(check: Callable[..., None], *args: Any, **kwargs: Any) -> None:
    """Negative control: asserts that `check(*args, **kwargs)` rejects its data."""
    try:
        check(*args, **kwargs)
    except CheckFailed:
        return
    raise AssertionError(f"{check.__name__} accepted data that it has to reject")


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
    _judge("check_proportion", _bounds.log(tail), cells, observed=successes, trials=trials, p=p)


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
    _judge("check_same_distribution", log_tail, 2 * cells, **facts)
    _check_entropy("check_same_distribution", smaller, pool / total, 2 * cells)


def check_cdf(samples: ArrayLike, cdf: CDF, *, cdf_left: CDF | None = None, cells: int = 1) -> None:
    """Asserts that independent samples have this CDF: P(sup|F_n - F| > t) <= 2 exp(-2·n·t^2).

    `cdf_left(x)`, the probability of values strictly below x, is needed when the law has atoms.

    References: P. Massart, The tight constant in the Dvoretzky-Kiefer-Wolfowitz inequality, 1990.
    """
    samples = _samples("check_cdf", samples)
    n, distances = len(samples), []
    for column in samples.T:
        points, counts = np.unique(column, return_counts=True)
        empirical = np.cumsum(counts) / n
        above = empirical - np.asarray(cdf(points))
        below = np.asarray((cdf_left or cdf)(points)) - (empirical - counts / n)
        distances.append(np.maximum(above, below).max())
    distance = np.array(distances)
    _judge("check_cdf", np.log(2) - 2 * n * distance**2, cells, distance=distance, n=n)


def check_two_samples(a: ArrayLike, b: ArrayLike, *, cells: int = 1) -> None:
    """Asserts that two sets of independent samples share a law (Kolmogorov-Smirnov distance D).

    For two sets of n, P(n·D >= d) <= 2·C(2n, n+d) / C(2n, n), with equality per side for continuous
    laws (reflection of paths). Otherwise DKW for each, P(D >= t) <= 4 exp(-2·(t / (n^-½ + m^-½))²):
    at equal sizes that would take twice the samples.
    """
    a, b = _samples("check_two_samples", a), _samples("check_two_samples", b)
    n, m = len(a), len(b)
    distances = []
    for pair in zip(a.T, b.T, strict=True):
        points = np.concatenate(pair)
        below = [np.searchsorted(np.sort(x), points, side="right") / x.size for x in pair]
        distances.append(np.abs(below[0] - below[1]).max())
    distance = np.array(distances)
    if n == m:
        d = np.rint(n * distance)
        paths = special.gammaln(n + d + 1) + special.gammaln(n - d + 1)
        log_tail = np.log(2) + 2 * special.gammaln(n + 1) - paths
    else:
        log_tail = np.log(4) - 2 * (distance / (n**-0.5 + m**-0.5)) ** 2
    _judge("check_two_samples", log_tail, cells, distance=distance, n=n, m=m)


def check_mean(
    samples: ArrayLike,
    mean: ArrayLike,
    *,
    variance: ArrayLike | None = None,
    scale: ArrayLike | None = None,
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    cells: int = 1,
) -> None:
    """Asserts the mean of independent samples, under one of three sets of assumptions.

    * `variance`, or an upper bound on it, and nothing else: heavy tails are fine. Catoni's
      influence function behaves like a Gaussian tail, sqrt(2·variance·L/n) at level 2 e^-L. It
      needs a hundred samples or so.
    * `variance` and `scale`: Bernstein, for any number of samples, even one. Each centred sample X
      has log E exp(t·X) <= t²·variance / (2·(1 - scale·|t|)). The scale is 0 for a Gaussian, b for
      Laplace noise of scale b, b/3 if |X| <= b; a mean of n independent terms has 1/n of theirs.
    * `bounds`: i.i.d. samples in [low, high] of unknown variance. Empirical Bernstein.

    References: O. Catoni, Challenging the empirical mean and empirical variance, 2012;
    S. Boucheron, G. Lugosi, P. Massart, Concentration inequalities, 2013, Theorem 2.10;
    A. Maurer, M. Pontil, Empirical Bernstein bounds and sample variance penalization, 2009.
    """
    samples = _samples("check_mean", samples)
    n, width = samples.shape
    observed, mean = samples.mean(0), _per_entry(mean, width)
    if bounds is not None and variance is None and scale is None:
        low, high = (_per_entry(bound, width) for bound in bounds)
        if np.any((samples < low) | (samples > high)):
            raise CheckFailed(f"check_mean: samples outside of [{low}, {high}]")
        sides, variance, scale = 4, samples.var(0, ddof=1), 7 / 3 * (high - low) * n / (n - 1)
    elif bounds is None and variance is not None:
        sides, variance = 2, _per_entry(variance, width)
        if scale is None:
            _check_catoni("check_mean", samples, mean, variance, cells)
            return
    else:
        raise ValueError("give variance, variance and scale, or bounds")
    exponent = _bounds.bernstein(np.abs(observed - mean), 2 * variance / n, scale / n)
    facts = dict(observed=observed, expected=mean, variance=variance, n=n)
    _judge("check_mean", np.log(sides) - exponent, cells, **facts)


def check_variance(
    samples: ArrayLike,
    variance: ArrayLike,
    *,
    kurtosis: ArrayLike,
    mean: ArrayLike | None = None,
    at_most: bool = False,
    cells: int = 1,
) -> None:
    """Asserts the variance of i.i.d. samples, or that it is `at_most` this bound.

    With `mean`, the mean squared error around it; without, half the squared differences of
    neighbouring samples. Catoni's bound (see `check_mean`) then needs only an upper bound on the
    kurtosis E(X - EX)⁴ / variance²: 3 for a Gaussian, 6 for Laplace noise, 15 for a quadratic form
    of Gaussians, 3 + b²/variance for a sum of independent terms that are within b of their means.
    """
    samples = _samples("check_variance", samples)
    width = samples.shape[1]
    variance, kurtosis = _per_entry(variance, width), _per_entry(kurtosis, width)
    if mean is None:
        pairs = samples[: len(samples) // 2 * 2].reshape(-1, 2, width)
        squares, spread = (pairs[:, 0] - pairs[:, 1]) ** 2 / 2, (kurtosis + 1) / 2
    else:
        squares, spread = (samples - _per_entry(mean, width)) ** 2, kurtosis - 1
    if at_most:  # smaller squares may be closer together, but up to `variance` away from the bound
        spread = np.maximum(spread, 1)
    args = squares, variance, spread * variance**2, cells
    _check_catoni("check_variance", *args, sides=1 if at_most else 2)


def detectable_proportion(trials: float, p: float, *, cells: int = 1) -> float:
    """The least d for which Binomial(trials, p + d) fails `check_proportion`.

    About sqrt(84.6·p·(1-p) / trials). Downwards it is `detectable_proportion(trials, 1 - p)`.
    """

    def detected(offset: float) -> bool:
        seen = binom.ppf(1 - POWER, trials, p + offset)
        return 2 * cells * binom.sf(seen - 1, trials, p) < ALPHA

    return _bounds.least(detected, 1 - p)


def detectable_difference(trials_a: float, trials_b: float, p: float, *, cells: int = 1) -> float:
    """The least d for which p in sample a and p + d in b fail `check_same_distribution`.

    `cells` is the total number of entries of the vectors (times that of sibling assertions).
    """

    def detected(offset: float) -> bool:
        few = binom.ppf((1 + POWER) / 2, trials_a, p)
        many = binom.ppf((1 - POWER) / 2, trials_b, p + offset)
        tail = _bounds.hypergeometric(many, trials_a + trials_b, few + many, trials_b)
        return bool(tail < np.log(ALPHA / (4 * cells)))

    return _bounds.least(detected, 1 - p)


def detectable_cdf(n: int, m: int | None = None, *, cells: int = 1) -> float:
    """The Kolmogorov-Smirnov distance that `check_cdf`, or `check_two_samples` given m, detects."""
    cost = np.log((2 if m in (None, n) else 4) * cells / ALPHA)
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
    cost, miss = np.log(2 * cells / ALPHA), -np.log1p(-POWER)
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
    cost, miss = np.log(2 * cells / ALPHA), -np.log1p(-POWER)
    return np.sqrt(spread) * _bounds.catoni_offset(n, np.sqrt(spread), cost, miss)


def _judge(name: str, log_tail: NDArray, cells: int, **facts: ArrayLike) -> None:
    """Raises `CheckFailed` where a bound (a log-probability) is below its share, or is NaN."""
    log_level = np.log(ALPHA / (cells * log_tail.size))
    failed = ~(log_tail >= log_level)
    if not failed.any():
        return
    worst = np.unravel_index(np.argmin(np.where(failed, log_tail, np.inf)), log_tail.shape)
    said = [f"{k} = {np.broadcast_to(v, log_tail.shape)[worst]}" for k, v in facts.items()]
    raise CheckFailed(
        f"{name}: {failed.sum()} of {failed.size} entries fail. The worst, {[*map(int, worst)]}: "
        f"{', '.join(said)}; such data have probability <= 10^{log_tail[worst] / np.log(10):.2f}, "
        f"and the level is 10^{log_level / np.log(10):.2f}"
    )


def _check_entropy(name: str, counts: NDArray, probabilities: NDArray, cells: int) -> None:
    entropy, log_tail = _bounds.agrawal(counts, probabilities)
    _judge(name, log_tail, cells, entropy=entropy, entries=counts.size, n=counts.sum())


def _check_catoni(
    name: str, samples: NDArray, mean: NDArray, variance: NDArray, cells: int, sides: int = 2
) -> None:
    n, width = samples.shape
    cost = np.log(sides * cells * width / ALPHA)
    if n < 4 * cost:
        raise ValueError(f"{name} needs {np.ceil(4 * cost):.0f} samples here, got {n}: draw more")
    if not np.all(variance > 0):
        raise ValueError(f"{name} needs positive variances: compare constants for equality")
    log_tail = _bounds.catoni(samples, mean, variance, cost, sides)
    facts = dict(observed=samples.mean(0), expected=mean, variance=variance, n=n)
    _judge(name, log_tail, cells, **facts)


def _samples(name: str, samples: ArrayLike) -> NDArray:
    """float64[draws, entries]; what is not finite has no law that could be checked."""
    samples = np.atleast_1d(np.asarray(samples, np.float64))
    if not np.all(np.isfinite(samples)):
        raise CheckFailed(f"{name}: {np.sum(~np.isfinite(samples))} samples are not finite")
    return samples.reshape(samples.shape[0], -1)


def _per_entry(value: ArrayLike, width: int) -> NDArray:
    return np.broadcast_to(np.ravel(np.asarray(value, np.float64)), (width,))
