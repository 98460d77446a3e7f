"""Shuffled reports of two kinds: the exact privacy, over all that the other users may hold."""

import math

import numpy as np

_ULP = 2.0**-52
_RARE = 60.0  # what is left out has weight e**-60
_INTERVALS = 2000  # of compositions, at the finest
_COARSE = 56  # of them at first
_SPLIT = 6  # twice, to 2,016
_TRIED = 32
_THRESHOLDS = np.arange(-1, 4)  # relative to the rounded mean
_ROWS = 64  # compositions at a time
_FLOOR = 1e-290  # more than what underflows


def proven_binary_delta(epsilon: float, low: float, high: float, n: int) -> float:
    """An upper bound of the delta of n shuffled reports that are 0 or 1.

    A value's report is 1 with a probability in [low, high], and some values attain the ends. With
    N the number of ones of the others, a user whose probability changes from high to low has

        delta = max_t  a Pr[N >= t - 1] - b Pr[N >= t],   a = high - e**eps low,
                                                          b = e**eps (1 - low) - (1 - high):

    N is a sum of independent bits, so `Pr[N = t - 1] / Pr[N = t]` increases, and the outcomes that
    favour the one value are those above a threshold. All other changes, and all other values of the
    others, are mixtures of these, and delta is convex. So the others are c users at `high` and
    n - 1 - c at `low`, and delta is the largest over c, and over both directions of the change.

    c is taken in intervals. Of c in [c1, c2] at least c1 users are at `high` and n - 1 - c2 at
    `low`; that the rest report too can only lower delta. An interval whose bound is above what is
    attained is split, until it has one c, or n / 2000.
    """
    attained = _attained(epsilon, low, high, n, min(n, _TRIED))
    edges = np.linspace(0, n, min(n, _COARSE) + 1).astype(np.int64)
    first, last = edges[:-1], edges[1:]
    while True:
        found = _each(epsilon, low, high, first, n - last, 1)
        kept = found > attained
        first, last, found = first[kept], last[kept], found[kept]
        width = int((last - first).max(initial=0))
        if width <= max(n / _INTERVALS, 1):
            return max(float(found.max(initial=0.0)), attained) + _FLOOR
        parts = min(width, _SPLIT)
        edges = first[:, None] + (last - first)[:, None] * np.arange(parts + 1) // parts
        first, last = edges[:, :-1].ravel(), edges[:, 1:].ravel()
        first, last = first[last > first], last[last > first]


def attained_binary_delta(epsilon: float, low: float, high: float, n: int) -> float:
    """A lower bound: the delta, rounded down, of some of the data sets of `proven_binary_delta`."""
    return _attained(epsilon, low, high, n, min(n, _INTERVALS if n <= _INTERVALS else _TRIED))


def _attained(epsilon: float, low: float, high: float, n: int, tried: int) -> float:
    at_high = np.rint(np.linspace(0, n - 1, tried)).astype(np.int64)
    found = _each(epsilon, low, high, at_high, n - 1 - at_high, -1)
    return max(float(found.max()), 0.0)


def _each(
    epsilon: float, low: float, high: float, at_high: np.ndarray, at_low: np.ndarray, sign: int
) -> np.ndarray:
    """The larger delta of a change from high to low and back, for each composition."""
    one = _deltas(epsilon, low, high, at_high, at_low, sign)
    # The change from low to high: that of swapped reports.
    other = _deltas(epsilon, 1 - high, 1 - low, at_low, at_high, sign)
    return np.maximum(one, other)


def _deltas(
    epsilon: float, low: float, high: float, at_high: np.ndarray, at_low: np.ndarray, sign: int
) -> np.ndarray:
    """The delta of a change from high to low for each composition, rounded up or down."""
    gap = math.exp(epsilon)
    a, b = high - gap * low, gap * (1 - low) - (1 - high)
    if a <= 0:
        return np.zeros(len(at_high))  # at most the epsilon of one report
    parts = range(0, len(at_high), _ROWS)
    rows = [(at_high[start : start + _ROWS], at_low[start : start + _ROWS]) for start in parts]
    return np.concatenate([_threshold_deltas(a, b, low, high, *part, sign) for part in rows])


def _threshold_deltas(
    a: float,
    b: float,
    low: float,
    high: float,
    at_high: np.ndarray,
    at_low: np.ndarray,
    sign: int,
) -> np.ndarray:
    """`max_t a Pr[N >= t - 1] - b Pr[N >= t]`.

    Both probabilities are Fourier integrals of the generating function of N on the circle
    |z| = e**theta, by the trapezoidal rule, which is exact but for N outside of a window.
    """
    # Where Pr[N = t - 1] / Pr[N = t] passes b / a, the law of N tilted by b / a has its mode, and
    # a mode of independent bits is less than 1 away from the mean (Darroch 1964).
    tilted = [p * b / (a * (1 - p) + p * b) for p in (high, low)]
    place = np.floor(at_high * tilted[0] + at_low * tilted[1])
    variance = at_high * tilted[0] * (1 - tilted[0]) + at_low * tilted[1] * (1 - tilted[1])
    # Far enough from the pole of the tail's generating function at z = 1.
    theta = max(math.log(b / a), 1 / math.sqrt(1 + float(variance.max())))
    shares = [p / (p + (1 - p) * math.exp(-theta)) if p else 0.0 for p in (high, low)]
    variance = at_high * shares[0] * (1 - shares[0]) + at_low * shares[1] * (1 - shares[1])
    # By Bernstein's inequality a tilted N is within 40 + 11 sd of its mean but for e**-60.
    size = math.ceil(80 + 28 * math.sqrt(float(variance.max())) + _RARE / theta)
    # |E[e**(i w N)]| <= e**(-variance (1 - cos w)) for independent bits
    cosine = max(1 - _RARE / max(float(variance.min()), 1.0), -1.0)
    count = min(math.ceil(size * math.acos(cosine) / (2 * math.pi)), size // 2)
    angle = 2 * math.pi / size * np.arange(count + 1)
    alone = (angle == 0) | (2 * np.arange(count + 1) == size)
    s = theta + 1j * angle
    logs = [np.log1p(p * np.expm1(s)) for p in (high, low)]
    kernel = np.where(alone, 1.0, 2.0) / size * (a * np.exp(s) + (b - a) / np.expm1(-s))
    shifts = np.exp(-np.multiply.outer(s, _THRESHOLDS))
    exponent = at_high[:, None] * logs[0] + at_low[:, None] * logs[1] - place[:, None] * s
    transform = np.exp(exponent) * kernel
    users = float((at_high + at_low).max())
    largest = users * max(float(np.abs(x).max()) for x in (*logs, s))
    error = (64 * _ULP * (1 + largest) + 1e-20) * (np.abs(transform) @ np.abs(shifts))
    return ((transform @ shifts).real + sign * error).max(axis=1)
