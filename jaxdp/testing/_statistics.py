"""Statistical assertions with proven false-alarm rates.

A check computes an upper bound on the probability, under the claimed law, of data at least this far
from what was expected, and raises `CheckFailed` where the bound is below `ALPHA`, divided
(Bonferroni) over its entries and over the `cells` sibling assertions that the caller makes. Samples
have their independent draws on axis 0; the other axes are entries of one assertion.
"""

import math
from collections.abc import Callable
from typing import ParamSpec

import numpy as np
from numpy.typing import ArrayLike, NDArray

P = ParamSpec("P")

ALPHA = 1e-9
"""The false-alarm rate of an assertion."""


class CheckFailed(AssertionError):
    """The data are all but impossible under the law that was claimed."""


def must_fail(check: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
    """Negative control: asserts that `check(*args, **kwargs)` rejects its data.

    Raises:
      AssertionError: the check accepts them, so it has too little power here.
    """
    try:
        check(*args, **kwargs)
    except CheckFailed:
        return
    raise AssertionError(f"{check.__name__} accepted data that it has to reject.")


def check_frequencies(counts: ArrayLike, probabilities: ArrayLike, *, cells: int = 1) -> None:
    """Asserts counts ~ Multinomial(sum of counts, probabilities), by their relative entropy.

    `P(n KL >= s) <= e**-s (e s / (k - 1))**(k - 1)` for s >= k - 1. Cells of probability 0 must be
    empty.

    Args:
      counts: int[k].
      probabilities: float[k], of sum 1.
      cells: how many sibling assertions share the level.

    Raises:
      CheckFailed: such counts are all but impossible.

    References:
      R. Agrawal, Finite-sample concentration of the multinomial in relative entropy, 2020,
      arXiv:1904.02291.
    """
    counts, probabilities = (np.asarray(x, np.float64).ravel() for x in (counts, probabilities))
    possible = probabilities > 0
    if counts[~possible].any():
        raise CheckFailed("check_frequencies: a cell of probability 0 is not empty")
    entropy, log_tail = agrawal(counts[possible], probabilities[possible])
    facts = dict(entropy=entropy, entries=counts.size, n=counts.sum())
    judge("check_frequencies", log_tail, cells, **facts)


def check_two_samples(a: ArrayLike, b: ArrayLike, *, cells: int = 1) -> None:
    """Asserts that two sets of independent samples share a law (Kolmogorov-Smirnov distance D).

    For two sets of n, `P(n D >= d) <= 2 C(2n, n+d) / C(2n, n)`, with equality per side for
    continuous laws (reflection of paths). Otherwise DKW for each, `P(D >= t) <= 4 exp(-2 (t /
    (n**-0.5 + m**-0.5))**2)`: at equal sizes that would take twice the samples.

    Args:
      a: float[n, ...].
      b: float[m, ...].
      cells: how many sibling assertions share the level.

    Raises:
      CheckFailed: such samples are all but impossible.
    """
    a, b = as_samples("check_two_samples", a), as_samples("check_two_samples", b)
    n, m = len(a), len(b)
    distances = []
    for pair in zip(a.T, b.T, strict=True):
        points = np.concatenate(pair)
        below = [np.searchsorted(np.sort(x), points, side="right") / x.size for x in pair]
        distances.append(np.abs(below[0] - below[1]).max())
    distance = np.array(distances)
    # Along the merged samples n (F - G) is a walk of n steps up and n down, and n D its extreme: by
    # reflection C(2n, n+d) of the C(2n, n) walks reach d.
    if n == m:
        log_tail = np.array([_log_reflection(n, round(n * each)) for each in distances])
    else:
        log_tail = np.log(4) - 2 * (distance / (n**-0.5 + m**-0.5)) ** 2
    judge("check_two_samples", log_tail, cells, distance=distance, n=n, m=m)


def _log_reflection(n: int, d: int) -> float:
    """`log(2 C(2n, n+d) / C(2n, n))`."""
    paths = math.lgamma(n + d + 1) + math.lgamma(n - d + 1)
    return math.log(2) + 2 * math.lgamma(n + 1) - paths


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
      influence function behaves like a Gaussian tail, `sqrt(2 variance L / n)` at level 2 e**-L. It
      needs a hundred samples or so.
    * `variance` and `scale`: Bernstein, for any number of samples, even one. Each centred sample X
      has `log E exp(t X) <= t**2 variance / (2 (1 - scale |t|))`. The scale is 0 for a Gaussian, b
      for Laplace noise of scale b, b/3 if `|X| <= b`; a mean of n independent terms has 1/n of
      theirs.
    * `bounds`: i.i.d. samples in [low, high] of unknown variance. Empirical Bernstein.

    Args:
      samples: float[n, ...].
      mean: what is claimed, for each entry.
      variance: of one sample, for each entry.
      scale: see above.
      bounds: (low, high).
      cells: how many sibling assertions share the level.

    Raises:
      CheckFailed: such samples are all but impossible.
      ValueError: there are too few samples, or none of the three sets is given.

    References:
      O. Catoni, Challenging the empirical mean and empirical variance, 2012; S. Boucheron, G.
      Lugosi, P. Massart, Concentration inequalities, 2013, Theorem 2.10; A. Maurer, M. Pontil,
      Empirical Bernstein bounds and sample variance penalization, 2009.
    """
    samples = as_samples("check_mean", samples)
    n, width = samples.shape
    observed, mean = samples.mean(0), per_entry(mean, width)
    if bounds is not None and variance is None and scale is None:
        low, high = (per_entry(bound, width) for bound in bounds)
        if np.any((samples < low) | (samples > high)):
            raise CheckFailed(f"check_mean: samples outside of [{low}, {high}]")
        # Maurer and Pontil, Theorem 4: a tail of level 2 e**-L on either side.
        sides, spread, scale = 4, samples.var(0, ddof=1), 7 / 3 * (high - low) * n / (n - 1)
    elif bounds is None and variance is not None:
        sides, spread = 2, per_entry(variance, width)
        if scale is None:
            _check_catoni("check_mean", samples, mean, spread, cells)
            return
    else:
        raise ValueError("give variance, variance and scale, or bounds")
    exponent = bernstein(np.abs(observed - mean), 2 * spread / n, np.asarray(scale) / n)
    facts = dict(observed=observed, expected=mean, variance=spread, n=n)
    judge("check_mean", np.log(sides) - exponent, cells, **facts)


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
    kurtosis `E (X - E X)**4 / variance**2`: 3 for a Gaussian, 6 for Laplace noise, 15 for a
    quadratic form of Gaussians, 3 + b**2 / variance for a sum of independent terms that are within
    b of their means.

    Args:
      samples: float[n, ...].
      variance: what is claimed, for each entry.
      kurtosis: a bound.
      mean: of the samples, or what errors are measured about; None where it is not known.
      at_most: whether `variance` is a bound.
      cells: how many sibling assertions share the level.

    Raises:
      CheckFailed: such samples are all but impossible.
      ValueError: there are too few samples.
    """
    samples = as_samples("check_variance", samples)
    width = samples.shape[1]
    variance, kurtosis = per_entry(variance, width), per_entry(kurtosis, width)
    if mean is None:
        pairs = samples[: len(samples) // 2 * 2].reshape(-1, 2, width)
        # E (x - y)**4 = (2 kurtosis + 6) variance**2, a quarter of it minus the squared mean.
        squares, spread = (pairs[:, 0] - pairs[:, 1]) ** 2 / 2, (kurtosis + 1) / 2
    else:
        squares, spread = (samples - per_entry(mean, width)) ** 2, kurtosis - 1
    if at_most:  # smaller squares may be closer together, but up to `variance` away from the bound
        spread = np.maximum(spread, 1)
    args = squares, variance, spread * variance**2, cells
    _check_catoni("check_variance", *args, sides=1 if at_most else 2)


def judge(name: str, log_tail: ArrayLike, cells: int, **facts: ArrayLike) -> None:
    """Raises `CheckFailed` where a bound, a log-probability, is below its share, or is NaN."""
    log_tail = np.asarray(log_tail)
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


def as_samples(name: str, samples: ArrayLike) -> NDArray:
    """float64[draws, entries]; what is not finite has no law that could be checked."""
    samples = np.atleast_1d(np.asarray(samples, np.float64))
    if not np.all(np.isfinite(samples)):
        raise CheckFailed(f"{name}: {np.sum(~np.isfinite(samples))} samples are not finite")
    return samples.reshape(samples.shape[0], -1)


def per_entry(value: ArrayLike, width: int) -> NDArray:
    """A number for each entry."""
    return np.broadcast_to(np.ravel(np.asarray(value, np.float64)), (width,))


def agrawal(counts: NDArray, probabilities: NDArray) -> tuple[NDArray, NDArray]:
    """`n KL(counts / n, probabilities)`, and Agrawal's bound on log P(at least that)."""
    expected = counts.sum() * probabilities
    excess = (counts - expected) / expected
    # n KL is also the sum of e ((1 + x) log(1 + x) - x), which does not cancel at large counts.
    with np.errstate(divide="ignore", invalid="ignore"):
        grown = np.where(excess > -1, (1 + excess) * np.log1p(excess), 0.0)
    entropy = np.sum(expected * (grown - excess))
    freedom = max(counts.size - 1, 1)
    surplus = np.maximum(entropy / freedom, 1)  # below 1 the bound says nothing: its log is 0
    return entropy, freedom * (1 + np.log(surplus) - surplus)


def bernstein(deviation: NDArray, variance: NDArray, scale: ArrayLike) -> NDArray:
    """The exponent L at which `deviation = sqrt(variance L) + scale L`."""
    # The root of `scale y**2 + sqrt(variance) y = deviation`, y = sqrt(L), in the form that does
    # not divide by a scale of 0.
    roots = np.sqrt(variance) + np.sqrt(variance + 4 * np.ravel(scale) * deviation)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(deviation == 0, 0, 2 * deviation / roots) ** 2


def catoni(samples: NDArray, mean: NDArray, variance: NDArray, cost: float, sides: int) -> NDArray:
    """A bound on log P(an influence at least that of the samples), tightest where it is -cost.

    `psi(y) <= log(1 + y + y**2 / 2)`, so `E exp(sum psi(s (x - mean))) <= (1 + s**2 variance /
    2)**n`.
    """
    n = len(samples)
    # At this scale s, `s**2 variance / 2 = cost / n`.
    y = np.sqrt(2 * cost / (n * variance)) * (samples - mean)
    influence = np.copysign(np.log1p(np.abs(y) + y**2 / 2), y).sum(0)
    if sides == 2:
        influence = np.abs(influence)
    return np.log(sides) - influence + n * np.log1p(cost / n)


def _check_catoni(
    name: str, samples: NDArray, mean: NDArray, variance: NDArray, cells: int, sides: int = 2
) -> None:
    n, width = samples.shape
    cost = np.log(sides * cells * width / ALPHA)
    if n < 4 * cost:
        raise ValueError(f"{name} needs {np.ceil(4 * cost):.0f} samples here, got {n}: draw more")
    if not np.all(variance > 0):
        raise ValueError(f"{name} needs positive variances: compare constants for equality")
    log_tail = catoni(samples, mean, variance, cost, sides)
    facts = dict(observed=samples.mean(0), expected=mean, variance=variance, n=n)
    judge(name, log_tail, cells, **facts)
