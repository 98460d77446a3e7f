"""The pair of laws that hides less than any two vectors with Gaussian noise."""

import math

import numpy as np

from .._spec import check_int, check_real, within_float64
from ._opposite import facing
from ._shuffle_channel import PairLaw

_STEPS = 2**13  # at which the law of the likelihood ratio is computed
_PROOF = 1e-18  # probability of reports that count as proof of their vector
_POINTS = 1500  # of these, between which its mean excess is interpolated
_NODES = 512  # of the length across
_REACH = 16.0  # standard deviations: more have a probability of 7e-58
_SEEN = 9.0  # standard deviations of the reports along an axis that are told apart
_BEYOND = 1e-55  # probability of what is not within reach, more than that
_CELLS = 800  # of the reports along an axis
_LARGEST = 600.0  # logarithm of a likelihood ratio
_MAX_DIM = 2**20


@within_float64
def gaussian_pairs(
    dim: int, radius: float, sigma: float, step: float | None = None
) -> list[PairLaw]:
    """Pairs that bracket shuffled reports of vectors of L2 norm at most r with Gaussian noise.

    The blanket is the density of the noise at the distance `|y| + r`. With y_1 along a vector of
    norm r the likelihood ratio to it is `exp(r (|y| + y_1) / sigma**2)`, and no vector has a more
    spread one: the reports for which it is small are a convex set, whose probability is a
    log-concave function of the vector, and so the least on the sphere. The first pair has this law
    twice, the largest ratios of one vector beside the smallest ones of the other. The second pair
    has the vectors r e_1 and -r e_1, others with 0 or one of both, and sees y_1 alone: it is there
    for the lower end.

    Formal guarantees:
      * Proven: no two vectors hide less than the first pair.
      * For numbers (`dim` 1) the ends hide as little; for many dimensions the first pair proves up
        to 1.23 times the epsilon of opposite vectors, since lengths of reports count twice.
      * The second pair is attained by reports that are real numbers; with `step` by those that are
        rounded to its multiples, of vectors that are multiples too.

    Edge cases:
      =====================================  =====================================================
      many dimensions                        the total of the blanket is about
                                             `exp(-r sqrt(dim) / sigma)`: little is proven where
                                             that times the users is small
      ratios that are beyond float64         ValueError
      =====================================  =====================================================

    Args:
      dim: d, 1 to 2**20.
      radius: r > 0, the largest norm.
      sigma: standard deviation of the noise in each entry, > 0.
      step: of the grid that reports are rounded to; None for real numbers.

    Returns:
      Two pairs.

    Raises:
      ValueError: an argument is out of range, or sigma is too small beside the radius.

    Example:
      >>> from jaxdp.accounting import gaussian_pairs, gaussian_sigma, pair_shuffle_bracket
      >>> sigma = gaussian_sigma(epsilon=1.0, delta=1e-6, sensitivity=2.0)
      >>> pairs = gaussian_pairs(dim=16, radius=1.0, sigma=sigma)
      >>> found = pair_shuffle_bracket(pairs, num_users=20_000, delta=1e-6)
      >>> print(f"{found.lower:.4f} {found.upper:.4f}")
      0.0049 0.0078

    References:
      Balle, Bell, Gascón, Nissim (2019), The privacy blanket of the shuffle model, for the
      blanket. The pair is proven on the page on shuffling.
    """
    d = check_int("dim", dim, low=1, high=_MAX_DIM)
    r, scale = check_real("radius", radius, low=0.0), check_real("sigma", sigma, low=0.0)
    grid = None if step is None else check_real("step", step, low=0.0) / scale
    apart = r / scale
    if apart * _largest_sum(d, apart) > _LARGEST:
        raise ValueError(
            f"sigma must be larger for dim = {dim} and radius = {radius:g}, got {sigma:g}: the "
            "blanket of all reports is below what a float holds; nothing is proven."
        )
    first, second, least = facing(*_mean_excess(d, apart))
    # The largest ratios, which are next to never seen, count as proof of their vector; those beyond
    # the largest sum speak for no other one either.
    seen = np.cumsum(first) > _PROOF
    shown = np.append(first * seen, first @ ~seen + _BEYOND)
    other = np.append(np.diff(np.maximum(np.cumsum(second) - _BEYOND, 0.0), prepend=0.0), _BEYOND)
    least = np.append(np.minimum(least, other[:-1]) * seen, 0.0)
    opposite = PairLaw(shown, other, least, np.zeros((0, len(least))))
    return [opposite, _along_axis(apart, grid)]


def _largest_sum(dim: int, apart: float) -> float:
    """A number that |y| + y_1 does not exceed, but with a probability below `_BEYOND`."""
    along = apart + _REACH
    return along + math.hypot(along, math.sqrt(dim) + _REACH if dim > 1 else 0.0)


def _mean_excess(dim: int, apart: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Ratios t to the blanket, `E (ratio - t)_+` under it, and its total; in units of sigma.

    With S = |y| + y_1 the ratio is `exp(apart S)`, so for the density f of S under r e_1 the mean
    excess is `int_s (1 - exp(-apart (z - s))) f(z) dz` at `t = exp(apart s)`.
    """
    lengths, weights = _lengths(dim - 1)
    high = _largest_sum(dim, apart)
    low = max(math.sqrt(dim) - 2 * _REACH - 1, high / _STEPS)  # below it is next to nothing
    sums = np.linspace(low, high, _STEPS + 1)
    density = np.zeros(len(sums))
    for length, weight in zip(lengths, weights, strict=True):
        # |y| + y_1 <= s where y_1 <= (s**2 - v**2) / (2 s), v being the length across.
        edge = (sums - length**2 / sums) / 2 - apart
        density += weight * np.exp(-(edge**2) / 2) * (1 + (length / sums) ** 2) / 2
    density /= math.sqrt(2 * math.pi)
    falling = np.exp(-apart * (sums - low))
    means = _from_above(sums, density) - _from_above(sums, density * falling) / falling
    total = _blanket(dim, apart)
    at = np.round(np.linspace(0, _STEPS, _POINTS)).astype(np.int64)
    # Reports with S = 0, or with next to no blanket, have a ratio of 1.
    points = np.append(1.0, np.exp(apart * sums[at]))
    return points, np.append(1 - total, np.maximum(means[at], 0.0)), total


def _from_above(points: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The integrals from each point to the last one, by the corrected trapezoidal rule."""
    step = points[1] - points[0]
    slopes = np.gradient(values, step, edge_order=2)
    parts = step / 2 * (values[1:] + values[:-1]) - step**2 / 12 * np.diff(slopes)
    return np.append(np.cumsum(parts[::-1])[::-1], 0.0)


def _lengths(degrees: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the length of a normal vector: trapezoidal in its logarithm."""
    if degrees == 0:
        return np.zeros(1), np.ones(1)
    middle = math.log(degrees) / 2
    width = _REACH / math.sqrt(2 * degrees)
    low, high = middle - max(40 / degrees, 2 * width), middle + math.log1p(_REACH / degrees**0.5)
    logs = np.linspace(low, high, _NODES)
    weights = np.exp(degrees * (logs - middle) - (np.exp(2 * logs) - degrees) / 2)
    return np.exp(logs), weights / weights.sum()


def _blanket(dim: int, apart: float) -> float:
    """The total of the blanket: the mean of `exp(-apart |y| - apart**2 / 2)` over normal y."""
    if dim == 1:
        return math.erfc(apart / math.sqrt(2))
    lengths, weights = _lengths(dim)
    return float(weights @ np.exp(-apart * lengths - apart**2 / 2))


def _along_axis(apart: float, grid: float | None) -> PairLaw:
    """What y_1 tells of r e_1 and -r e_1 where all others have 0 or one of both."""
    reach = apart + _SEEN
    if grid is None:
        edges = np.linspace(-reach, reach, _CELLS + 1)
    else:
        # Largest multiples of the step; classes of reports end between two multiples.
        apart = grid * math.floor(apart / grid)
        each = max(1, math.ceil(2 * reach / grid / _CELLS))
        count = math.ceil(reach / grid / each)
        edges = grid * (each * np.arange(-count, count + 1) + 0.5)
    first, second, zero = (_masses(edges - at) for at in (apart, -apart, 0.0))
    return PairLaw(first, second, np.minimum(first, second), np.stack([first, second, zero]))


def _masses(edges: np.ndarray) -> np.ndarray:
    """The masses of a standard normal below, between and above edges: none loses its digits."""
    ends = [-math.inf, *edges, math.inf]
    below, above = (
        np.array([math.erfc(sign * x / math.sqrt(2)) / 2 for x in ends]) for sign in (-1, 1)
    )
    return np.where(np.array(ends[1:]) <= 0, np.diff(below), -np.diff(above))
