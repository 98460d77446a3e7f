"""The law of a Gaussian vector that is kept with a probability that depends on one coordinate.

A standard normal vector z is kept with probability a(t), t = <z, u> for a unit vector u. All the
functions a of this package are, over pieces of the line, multiples of likelihood ratios of normals,
so that `a(t) phi(t)` is a sum of pieces `weight * phi(t - mean)` on `[low, high]`. Pieces are
arrays with the pieces in the last axis, of NumPy on the host or of jax in a float64 block.
"""

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from ..accounting import PairLaw, opposite_pairs

FAR = 40.0  # where a normal ends: its tails underflow
_CELLS = 256  # of the coordinates between which a pair that is proven tells apart
_SEEN = 9.0  # standard deviations that these cells reach, and one more cell on each side
_CLASSES = 24  # of the coordinates that a pair that is attained tells apart
_WITHIN = 5.0  # standard deviations that these reach
_cdf = np.vectorize(lambda x: math.erfc(-x / math.sqrt(2)) / 2, otypes=[float])


class Pieces(NamedTuple):
    """What is kept: `weight * phi(t - mean)` for t in [low, high], summed over the last axis."""

    weight: Any
    mean: Any
    low: Any
    high: Any

    def masses(self, xp, cdf):
        """The probability of being kept, by piece."""
        return self.weight * interval_mass(xp, cdf, self.low - self.mean, self.high - self.mean)

    def moments(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pr[kept], E[t; kept] and E[t**2; kept] on the host."""
        a, b = self.low - self.mean, self.high - self.mean
        at_a, at_b = (np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi) for x in (a, b))
        mass = interval_mass(np, _cdf, a, b)
        # Moments of a normal on [a, b], by parts: int x phi = phi(a) - phi(b), and so on.
        first = at_a - at_b
        second = mass + a * at_a - b * at_b
        t1 = self.mean * mass + first
        t2 = self.mean**2 * mass + 2 * self.mean * first + second
        p, m, s = (np.sum(self.weight * x, axis=-1) for x in (mass, t1, t2))
        return p, m, s


def interval_mass(xp, cdf, a, b):
    """The standard normal mass of [a, b], by the tail that is nearer, so that none cancels."""
    flip = a + b > 0
    low, high = xp.where(flip, -b, a), xp.where(flip, -a, b)
    return xp.maximum(cdf(high) - cdf(low), 0.0)


def clipped_pieces(xp, level, slope, least, most) -> Pieces:
    """Pieces of `a(t) = clip(exp(level + slope t), least, most)`, slope > 0; last axis of 3."""
    # Where e**(level + slope t) enters and leaves [least, most]. In between a(t) phi(t) is
    # e**(level + slope**2 / 2) phi(t - slope).
    low = xp.clip((xp.log(least) - level) / slope, -FAR, FAR)
    high = xp.clip((xp.log(most) - level) / slope, -FAR, FAR)
    zero = xp.zeros_like(low)
    return Pieces(
        xp.stack([least, xp.exp(level + slope * slope / 2), most]),
        xp.stack([zero, slope, zero]),
        xp.stack([zero - FAR, low, high]),
        xp.stack([low, high, zero + FAR]),
    )


def clipped_pair_laws(
    level: float, slope: float, least: float, most: float, step: float, alone: bool
) -> tuple[PairLaw, PairLaw]:
    """The laws of opposite unit vectors, for normal vectors that `clipped_pieces` keep.

    A report is dropped with one probability for all vectors. A vector z that is kept has the
    likelihood ratio `a(<z, u>) / least` to the blanket, the normal law times `least`, with a
    increasing and <z, u> standard normal for all u. For u convex `E[u(a(s) - e**eps a(t))]` is the
    larger the more s and t oppose each other, so no two unit vectors hide less than u and -u. In
    the first pair the ratios are spread, with their mean, to the ends of cells, which hides less;
    it has no `others`.

    The second pair tells cells of z_1 and z_2 apart, for e_1 and -e_1 among others with e_2, or
    with a vector that is orthogonal to all that is seen. It is attained.

    Args:
      level: as of `clipped_pieces`.
      slope: as of `clipped_pieces`.
      least: as of `clipped_pieces`.
      most: as of `clipped_pieces`.
      step: of the grid that z is rounded to.
      alone: whether z_1 is all that is seen.
    """
    pieces = clipped_pieces(np, *(np.float64(x) for x in (level, slope, least, most)))

    def masses(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The masses of z, and of z that is kept, in each cell."""
        low, high = edges[:-1, None], edges[1:, None]
        start, end = np.maximum(low, pieces.low), np.minimum(high, pieces.high)
        parts = interval_mass(np, _cdf, start - pieces.mean, end - pieces.mean)
        kept = pieces.weight * np.where(start < end, parts, 0.0)
        return interval_mass(np, _cdf, low, high)[:, 0], kept.sum(axis=1)

    def between(reach: float, cells: int) -> np.ndarray:
        """Ends of cells where a is neither least nor most."""
        low, high = np.clip(pieces.low[1], -reach, reach), np.clip(pieces.high[1], -reach, reach)
        return np.linspace(low, high, cells + 1)

    def spread(edges: np.ndarray) -> PairLaw:
        """The pair of the ratios at the edges, for reports that are kept."""
        ratios = np.clip(np.exp(level + slope * edges) / least, 1.0, most / least)
        weights, kept = masses(edges)
        excess, room = kept / least - weights * ratios[:-1], np.diff(ratios)
        upper = np.clip(excess / np.where(room > 0, room, math.inf), 0.0, weights)
        total = np.append(weights - upper, 0.0) + np.append(0.0, upper)
        total[[0, -1]] += _cdf(np.array([edges[0], -edges[-1]]))
        total, ratios = total[total > 0], ratios[total > 0]
        law = least * total * ratios
        return opposite_pairs(np.stack([law, law]) / law.sum(), least * total / law.sum())[0]

    edges = np.unique(np.concatenate([pieces.low[1:2], between(_SEEN, _CELLS), pieces.high[1:2]]))
    kept = float(masses(np.array([-FAR, FAR]))[1][0])
    pair = spread(edges)
    first, second, blanket = (
        np.append(kept * law, 1 - kept) for law in (pair.first, pair.second, pair.least)
    )
    proven = PairLaw(first, second, blanket, np.zeros((0, first.size)))

    # Classes of reports end between two multiples of the step.
    points = between(_WITHIN, _CLASSES)
    ends = (np.unique(np.round(np.abs(points) / step - 0.5)) + 0.5) * step
    across = (np.unique(np.round(points / step - 0.5)) + 0.5) * step
    free, along = masses(np.concatenate([[-FAR], -ends[::-1], ends, [FAR]]))
    other, third = masses(np.array([-FAR, FAR] if alone else [-FAR, *across, FAR]))
    laws = [(along, other), (along[::-1], other), (free, third), (least * free, other)]
    first, second, orthogonal, blanket = (np.append(np.outer(*law), 1 - kept) for law in laws)
    attained = PairLaw(first, second, blanket, np.stack([orthogonal, first, second]))
    return proven, attained


def truncated_pieces(xp, slope, epsilon) -> Pieces:
    """The piece of `a(t) = e**l / 2` where `l = slope t - slope**2 / 2` is within epsilon / 4.

    Args:
      xp: numpy, or jax.numpy in a float64 block.
      slope: float64[...], the norm of the input over sigma, >= 0.
      epsilon: float64[].
    """
    half = epsilon / 4 / xp.maximum(slope, 1e-12)
    low = xp.maximum(slope / 2 - half, -FAR)
    high = xp.minimum(slope / 2 + half, FAR)
    each = (xp.full_like(slope, 0.5), slope, low, high)
    return Pieces(*(x[..., None] for x in each))


def marginal_acceptance(level, slope, least, most, seen, hidden) -> np.ndarray:
    """E[a(seen + hidden g)] for g ~ N(0, 1), with a of `clipped_pieces`; on the host.

    Args:
      level: float.
      slope: float, > 0.
      least: float.
      most: float.
      seen: float64[n].
      hidden: float in [0, 1].
    """
    if hidden < 1e-6:
        return np.clip(np.exp(np.minimum(level + slope * seen, 0.0)), least, most)
    low, high = ((math.log(a) - level) / slope - seen for a in (least, most))
    # Under the factor e**(slope hidden g) the normal g has the mean slope hidden.
    shift = slope * hidden**2
    scale = np.exp(level + slope * seen + slope * shift / 2)
    middle = interval_mass(np, _cdf, (low - shift) / hidden, (high - shift) / hidden)
    return least * _cdf(low / hidden) + scale * middle + most * _cdf(-high / hidden)


@functools.lru_cache(maxsize=1024)
def best_level(slope: float, least: float, most: float) -> float:
    """The level of `clipped_pieces` with the least variance Pr[kept] / E[t; kept]**2."""

    def cost(level):
        kept, mean, _ = clipped_pieces(
            np, *(np.float64(x) for x in (level, slope, least, most))
        ).moments()
        return float(kept / mean**2)

    step = (math.log(most / least) + 12 * slope) / 200
    grid = math.log(least) - 6 * slope + step * np.arange(201)
    costs = [cost(level) for level in grid]
    middle = grid[int(np.argmin(costs))]
    low, high, golden = middle - step, middle + step, (math.sqrt(5) - 1) / 2
    # Golden section between the neighbours of the best point of the grid.
    for _ in range(60):
        left, right = high - golden * (high - low), low + golden * (high - low)
        if cost(left) < cost(right):
            high = right
        else:
            low = left
    return (low + high) / 2


def ratio_error(
    counts: np.ndarray, kept: np.ndarray, gap: np.ndarray, spread: np.ndarray, target: np.ndarray
) -> np.ndarray:
    """The exact mean squared error of the average over the users that are kept.

    With N_v of the c_v users of value v kept and N = sum N_v, all moments are integrals of the
    generating function `G(z) = E z**N`: `E[f(N_1, ..) / N**2; N > 0]` is
    `int_0^inf s E[f e**(-s N); N > 0] ds`, here by the trapezoidal rule in log s, which converges
    geometrically.

    Args:
      counts: float64[k], the users of each value.
      kept: float64[k], the probability that one of them is kept.
      gap: float64[k, d], the mean of a kept report minus the target.
      spread: float64[k, d], the variance of a kept report.
      target: float64[d]; the estimate is 0 where nobody is kept.

    Returns:
      float64[d].
    """
    log_s = np.arange(-math.log(counts.sum()) - 25, 5.0, 1 / 16)
    total = np.zeros_like(target)
    for s in np.exp(log_s):
        # E e**(-s N) is a product over users: each gives 1 - kept + kept e**-s = 1 + lost.
        lost = kept * math.expm1(-s)
        generating = math.exp(float(np.sum(counts * np.log1p(lost))))
        share = (kept + lost) / (1 + lost)  # the probability of being kept, tilted by e**(-s N)
        mean = counts * share
        second = (mean @ gap) ** 2 + (mean * (1 - share)) @ gap**2 + mean @ spread
        # ds = s d(log s), hence s twice.
        total += s * s * generating * second
    nobody = math.exp(float(np.sum(counts * np.log1p(-kept))))
    return total / 16 + nobody * target**2


def absolute_moment(q: int) -> float:
    """E |z|**q of a standard normal z."""
    return math.exp(q / 2 * math.log(2) + math.lgamma((q + 1) / 2)) / math.sqrt(math.pi)
