"""Mean positive parts of sums of many independent numbers, bracketed.

What a shuffler hides a report behind is such a sum: see `jaxdp.accounting.shuffle_bracket`.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_ULP = 2.0**-52
_INPUT = 4e-12  # relative error of the atoms
_INFLATION = 3e-4  # of the variance, by rounding to a grid: half of that is of epsilon
_FINEST = 2**13  # grid points of one term, at most
_RARE = 60.0  # windows leave out events of probability e**-60
_FLOOR = 1e-280  # more than what underflows
_ONE_STAGE = 1024  # numbers whose sum is formed in one step


class Part(NamedTuple):
    """Proven bounds of a mean positive part."""

    lower: float
    upper: float


class _Law(NamedTuple):
    """A tilted law on a grid, for a random number G and its rounding G' on the grid.

    Entry j of `mass` is `E[e**(theta G'); G' = s_j]`, of `moment` `E[G e**(theta G'); G' = s_j]`,
    with `s_j = (first + j) step`; each entry is off by at most `mass_error`, `moment_error`.
    """

    first: int
    step: float
    mass: np.ndarray
    moment: np.ndarray
    mass_error: float
    moment_error: float

    @property
    def places(self) -> np.ndarray:
        return (self.first + np.arange(len(self.mass))) * self.step


def positive_part(values: np.ndarray, weights: np.ndarray, scale: float, num_terms: int) -> Part:
    """`E[(G_1 + .. + G_n)_+]` of independent G_i with given atoms, and 0 with what is left of 1.

    Each atom is split between the two nearest points of a grid so that the mean is kept: G becomes
    a G' with `E[G' | G] = G`. For large n, sums of about sqrt(n) of them are split once more, on a
    coarser grid. Laws on grids are convolved by FFT, tilted by e**(theta s) with the theta that
    centres the sum, so that tails far below 1e-16 keep their digits. With S the sum of the G, and
    S' that of the G':

    * `E[S_+] <= E[S'_+]`, by Jensen's inequality, since `E[S' | S] = S`.
    * `E[S_+] >= E[S; S' >= t]` for every t. The measure `E[S; S' = s]` of a sum of independent
      parts follows from the parts' as the derivative of a product does.

    Both sides are off by what splitting adds to the variance, a part of about 3e-4, and include
    bounds of the numerical errors and of what wraps around the FFTs' windows.

    Args:
      values: float64[m], the atoms.
      weights: float64[m], their probabilities, of sum at most 1.
      scale: the mean absolute size of what the atoms are differences of, known to 1e-12 of it.
      num_terms: n.
    """
    n = num_terms
    if not np.any((values > 0) & (weights > 0)):
        return Part(0.0, 0.0)
    values = np.append(values, 0.0)
    weights = np.append(weights, max(1 - math.fsum(weights), 0.0))
    # One term below what all others can add up to makes the sum negative, whatever it is. A G' > G
    # is as good there, and keeps the grid short; both bounds allow it.
    most = chernoff_window([(np.maximum(values, 0.0), weights, n)])[1]
    rounded = np.maximum(values, -most)
    theta, log_moment = _saddle(rounded, weights, n)
    tilted = weights * np.exp(theta * rounded - log_moment)
    # The likeliest atom is on the grid, wherever it is: n of them add no error.
    origin = float(rounded[np.argmax(tilted)])
    law = _on_grid(values, rounded - origin, tilted, theta)
    block = n if n <= _ONE_STAGE else math.isqrt(n)
    blocks, rest = divmod(n, block)
    total = _sum(law, block, None, _window(law, block))
    if n > block:
        spread = math.sqrt(float(law.mass @ (law.places + origin) ** 2))
        ratio = max(int(2 * math.sqrt(_INFLATION * block) * spread / law.step), 1)
        left = _sum(law, rest, None, _window(law, rest)) if rest else None
        # Splitting D multiplies E[e**((theta + t) G)] by at most e**((theta + t)**2 step**2 / 8).
        window = _window(law, n, theta, (blocks + 1) * (ratio * law.step) ** 2 / 8)
        coarse_left = None if left is None else _coarser(left, ratio, theta)
        total = _sum(_coarser(total, ratio, theta), blocks, coarse_left, window)
    place = total.places + n * origin
    positive = place > 0
    place, mass, moment = place[positive], total.mass[positive], total.moment[positive]
    growth = n * log_moment
    untilt = np.exp(growth - theta * place)
    # A sum that leaves a window is counted somewhere else: s e**(-theta s) is at most 1/(e theta).
    wrapped = (blocks + 2) * math.exp(growth - _RARE) / theta
    upper = float((np.maximum(mass, 0.0) + total.mass_error) @ (untilt * place)) + wrapped
    lower = float(np.cumsum((moment * untilt)[::-1]).max(initial=0.0))
    lower -= total.moment_error * float(untilt.sum())
    lower -= (1 + n * theta * float(tilted @ np.abs(values))) * wrapped
    # Errors of the atoms and of the logarithm count n times.
    rounding = 1e-12 + _INPUT * n * theta * scale
    if rounding > 1:
        return Part(0.0, _sum_of_parts(values, weights, n))
    return Part(max(lower, 0.0) * math.exp(-rounding), upper * math.exp(rounding) + _FLOOR)


def tail_bound(values: np.ndarray, weights: np.ndarray, scale: float, num_terms: int) -> float:
    """An upper bound of `positive_part` by `s_+ <= e**(theta s - 1) / theta`: quick."""
    if not np.any((values > 0) & (weights > 0)):
        return 0.0
    theta, log_moment = _saddle(values, weights, num_terms)
    rounding = 1e-12 + _INPUT * num_terms * theta * scale
    if rounding > 1:
        return _sum_of_parts(values, weights, num_terms)
    return math.exp(min(num_terms * log_moment - 1 + rounding, 700.0)) / theta + _FLOOR


def _sum_of_parts(values: np.ndarray, weights: np.ndarray, n: int) -> float:
    """An upper bound: the mean positive part of each term, added."""
    return n * math.fsum(weights * np.maximum(values, 0.0)) * (1 + 4 * _INPUT) + _FLOOR


def _saddle(values: np.ndarray, weights: np.ndarray, n: int) -> tuple[float, float]:
    """The theta > 0 that about centres the tilted law, and ln E[e**(theta G)]."""
    spread = math.sqrt(float(weights @ values**2))
    low = 0.5 / max(spread * math.sqrt(n), float(values.max()))
    high = 600 / float(np.abs(values).max())
    if low < high and weights @ (values * np.exp(low * values)) < 0:
        for _ in range(50):
            middle = math.sqrt(low * high)
            if weights @ (values * np.exp(middle * values)) < 0:
                low = middle
            else:
                high = middle
    theta = min(low, high)
    # The weights and that of 0 sum to 1: ln E[e**(theta G)] without cancellation.
    return theta, math.log1p(math.fsum(weights * np.expm1(theta * values)))


def _on_grid(values: np.ndarray, places: np.ndarray, tilted: np.ndarray, theta: float) -> _Law:
    """The atoms at their places, on the coarsest grid through 0 that is fine enough.

    The atom that contributes most to the variance is on the grid.
    """
    mean = float(tilted @ places)
    most = _INFLATION * float(tilted @ (places - mean) ** 2)
    important = abs(float(places[np.argmax(tilted * places**2)]))
    step = finest = float(np.ptp(places)) / _FINEST
    for parts in range(1, _FINEST + 1):
        tried = important / parts
        if tried <= finest:
            break
        share = places / tried - np.floor(places / tried + 1e-9)
        if float(tilted @ np.maximum(share * (1 - share), 0.0)) * tried**2 <= most:
            step = tried
            break
    floor = np.floor(places / step + 1e-9)
    share = np.clip(places / step - floor, 0.0, 1.0)
    first = int(floor.min())
    size = int(floor.max()) - first + 2
    index = (floor - first).astype(np.int64)
    low = tilted * (1 - share) * np.exp(theta * (floor * step - places))
    high = tilted * share * np.exp(theta * ((floor + 1) * step - places))
    both = np.concatenate([index, index + 1])
    mass = np.bincount(both, np.concatenate([low, high]), size)
    moment = np.bincount(both, np.concatenate([low * values, high * values]), size)
    return _Law(first, step, mass, moment, 8 * _ULP * mass.max(), 8 * _ULP * np.abs(moment).max())


def _coarser(law: _Law, ratio: int, theta: float) -> _Law:
    """A law on the grid of every `ratio`-th point, each mass split so that its mean is kept."""
    place = law.first + np.arange(len(law.mass))
    floor = place // ratio
    share = (place - floor * ratio) / ratio
    first, index = int(floor[0]), floor - floor[0]
    size = int(index[-1]) + 2
    low = (1 - share) * np.exp(theta * law.step * (floor * ratio - place))
    high = share * np.exp(theta * law.step * ((floor + 1) * ratio - place))
    both = np.concatenate([index, index + 1])

    def split(entries: np.ndarray) -> np.ndarray:
        return np.bincount(both, np.concatenate([entries * low, entries * high]), size)

    grown = 2 * ratio * math.exp(theta * law.step * ratio)
    return _Law(
        first,
        law.step * ratio,
        split(law.mass),
        split(law.moment),
        law.mass_error * grown,
        law.moment_error * grown,
    )


def _window(law: _Law, count: int, theta: float = 0.0, added: float = 0.0) -> tuple[float, float]:
    """Where the sum of `count` draws of a tilted law is, but for e**-60 on each side.

    Args:
      law: of one draw.
      count: number of draws.
      theta: with `added`, what splitting once more adds to the logarithm of E[e**((theta + t) S)],
        which is at most added (theta + t)**2.
      added: see `theta`.
    """
    used = law.mass > 0
    return chernoff_window([(law.places[used], law.mass[used], count)], theta, added)


def chernoff_window(
    parts: Sequence[tuple[np.ndarray, np.ndarray, int]], theta: float = 0.0, added: float = 0.0
) -> tuple[float, float]:
    """Where a sum of independent draws is, but for e**-60 on each side: Chernoff's bound.

    Args:
      parts: places, their probabilities and the number of draws, of each law.
      theta: see `_window`.
      added: see `_window`.
    """
    centred, mean, variance = [], 0.0, 0.0
    for places, masses, count in parts:
        once = float(masses @ places) / float(masses.sum())
        centred.append((places - once, masses, count))
        mean += count * once
        variance += count * float(masses @ (places - once) ** 2)
    if variance == 0:
        return mean, mean
    largest = max(float(np.abs(places).max()) for places, _, _ in centred)
    rates = 2.0 ** np.arange(-3, 12, 0.5) / math.sqrt(variance)
    rates = np.minimum(rates, 600 / largest)
    ends = []
    for sign in (-1, 1):
        excess = added * (theta + rates) ** 2 + _RARE
        for places, masses, count in centred:
            excess += count * np.log(np.exp(np.multiply.outer(sign * rates, places)) @ masses)
        ends.append(mean + sign * float((excess / rates).min()))
    return ends[0], ends[1]


def _sum(law: _Law, count: int, other: _Law | None, window: tuple[float, float]) -> _Law:
    """The law of the sum of `count` draws, and of one of `other`, within a window."""
    first = math.floor(window[0] / law.step)
    size = smooth_size(math.ceil(window[1] / law.step) - first + 1)
    mass, moment, mass_error, moment_error = _transform(law, size)
    power = mass**count
    before = mass ** (count - 1)
    size_of = np.abs(mass) + mass_error
    bound, bound_before = size_of**count, size_of ** (count - 1)
    drift = count * mass_error * bound_before  # bounds errors of the power
    moment_bound = np.abs(moment) + moment_error
    moments = count * moment * before
    drifts = count * (
        moment_error * bound_before
        + moment_bound * (count - 1) * mass_error * size_of ** max(count - 2, 0)
    )
    moments_bound = count * moment_bound * bound_before
    if other is not None:
        mass_2, moment_2, mass_error_2, moment_error_2 = _transform(other, size)
        bound_2, moment_bound_2 = np.abs(mass_2) + mass_error_2, np.abs(moment_2) + moment_error_2
        moments = moments * mass_2 + power * moment_2
        drifts = (
            drifts * bound_2
            + moments_bound * mass_error_2
            + drift * moment_bound_2
            + bound * moment_error_2
        )
        moments_bound = moments_bound * bound_2 + bound * moment_bound_2
        power = power * mass_2
        drift = drift * bound_2 + bound * mass_error_2
        bound = bound * bound_2
    rounding = 8 * _ULP * math.log2(size)
    shift = -first % size
    return _Law(
        first,
        law.step,
        np.roll(np.fft.irfft(power, size), shift),
        np.roll(np.fft.irfft(moments, size), shift),
        2 * float((drift + rounding * bound).sum()) / size,
        2 * float((drifts + rounding * moments_bound).sum()) / size,
    )


def _transform(law: _Law, size: int) -> tuple[np.ndarray, np.ndarray, float, float]:
    """The Fourier transforms of both measures, and bounds of the errors of each entry."""
    place = (law.first + np.arange(len(law.mass))) % size
    rounding = 8 * _ULP * (math.log2(size) + 2)
    transforms, errors = [], []
    for entries, error in ((law.mass, law.mass_error), (law.moment, law.moment_error)):
        transforms.append(np.fft.rfft(np.bincount(place, entries, size)))
        errors.append(len(entries) * error + rounding * float(np.abs(entries).sum()))
    return transforms[0], transforms[1], errors[0], errors[1]


def smooth_size(size: int) -> int:
    """The least even number with no prime factor above 5 that is at least `size`."""
    best = 2 ** max((size - 1).bit_length(), 1)
    for five in range(1 + int(math.log(size + 1, 5))):
        for three in range(1 + int(math.log(size + 1, 3))):
            odd = 5**five * 3**three
            best = min(best, odd * 2 ** max((-(-size // odd) - 1).bit_length(), 1))
    return best
