"""The extreme rays of local privacy, and which of them breaks a bound most: exactly, over all.

A ray is a vector u of ones and `e**epsilon`. A `Witness` claims `|D u|**2 <= (q . u)(nu . u)` for
all `2**k` of them. For `u = 1 + (e**epsilon - 1) x`, with x of zeros and ones,

    |D u|**2 - t (q . u)(nu . u) = c + l . x + sum_{i<j} Q_ij x_i x_j

is a quadratic form. Its coefficients are computed in fractions and rounded up to multiples of one
unit; as x is not negative the form does not fall by that. In units the coefficients are integers
whose magnitudes sum to less than `2**53`, so float64 evaluates the form without any rounding, in
any order of summation. Halves of x are enumerated, and one matrix product joins them.
"""

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

_HEADS = 256  # first halves of x in a block: a block of 8 MiB stays in a CPU's cache
_TAILS = 4096  # second halves of x in a block
_UNITS = 2**52  # that the coefficients' magnitudes add up to
_SLACK = 1e-9  # of the largest ratio found, the first that is added before all are looked at
_STARTS = 64  # of the local search, times k


class Witness(NamedTuple):
    """What a lower bound rests on, and `e**epsilon`."""

    tests: Float[np.ndarray, "q k"]  # D
    prior: Float[np.ndarray, " k"]  # q
    prices: Float[np.ndarray, " k"]  # nu
    scale: float

    def ratios(self, rays: Float[np.ndarray, "r k"]) -> Float[np.ndarray, " r"]:
        """`|D u|**2 / ((q . u)(nu . u))` of each ray: at most 1 for all where the bound holds."""
        squares = np.sum((rays @ self.tests.T) ** 2, axis=1)
        return squares / ((rays @ self.prior) * (rays @ self.prices))

    def unpaid(self) -> Float[np.ndarray, "1 k"] | None:
        """The ray of the least `nu . u` where that is not positive: its ratio has no bound."""
        ray = np.where(self.prices < 0, self.scale, 1.0)
        return ray[None, :] if ray @ self.prices <= 0 else None


def local_search(
    witness: Witness, start: Float[np.ndarray, "r k"], rng: np.random.Generator
) -> Float[np.ndarray, "s k"]:
    """Rays whose ratio no change of one entry raises, from some and random ones; largest first."""
    curve, k, scale = witness.tests.T @ witness.tests, len(witness.prior), witness.scale
    size = rng.integers(1, k, size=_STARTS * k)
    chosen = rng.permuted(np.arange(k) < size[:, None], axis=1)
    moving = np.concatenate([1 + (scale - 1) * chosen, start])
    still = []
    for _ in range(4 * k):
        change = np.where(moving > 1, 1 - scale, scale - 1)
        half = moving @ curve
        squares = np.sum(half * moving, axis=1)[:, None]
        sums, paid = (moving @ witness.prior)[:, None], (moving @ witness.prices)[:, None]
        ratios = (squares + change * (2 * half + change * np.diagonal(curve))) / (
            (sums + change * witness.prior) * (paid + change * witness.prices)
        )
        index, place = np.arange(len(moving)), np.argmax(ratios, axis=1)
        better = ratios[index, place] > (squares / (sums * paid))[:, 0] * (1 + 1e-12)
        still.append(moving[~better])
        moving, index, place = moving[better], index[better], place[better]
        if not len(moving):
            break
        moving[np.arange(len(moving)), place] += change[index, place]
    rays = np.unique(np.round(np.concatenate([*still, moving]), 12) > 1, axis=0)
    rays = 1 + (scale - 1) * rays
    return rays[np.argsort(-witness.ratios(rays))]


def largest_ratio(witness: Witness, least: float = 1.0) -> tuple[float, Float[np.ndarray, "r k"]]:
    """What no ratio of any ray is above, and rays above `least`.

    Args:
      witness: D, q >= 0, and nu.
      least: where to start, > 0. The closer it is to the largest ratio, the fewer looks at all
        rays there are.

    Returns:
      (most, rays): most >= least, within 1e-6 of the larger of the largest ratio and `least`, and
      proven without rounding for rays of a number slightly above `scale`; inf where a ray has no
      price. Of the rays found on the way, those of the largest ratios come first.
    """
    free = witness.unpaid()
    if free is not None:
        return math.inf, free
    most, slack, found = least, _SLACK, [np.empty((0, len(witness.prior)))]
    while True:
        claimed = most * (1 + slack)
        above, chosen = _positive(*_integer_form(witness, Fraction(claimed)))
        rays = 1 + (witness.scale - 1) * chosen
        found.append(rays)
        if not above:
            rays = np.unique(np.concatenate(found), axis=0)
            return claimed, rays[np.argsort(-witness.ratios(rays))]
        # Dinkelbach's step; the slack grows in case that rounding of the ratio is above it.
        most, slack = max(most, float(witness.ratios(rays).max())), 2 * slack


def exact(values: Float[np.ndarray, "..."]) -> np.ndarray:
    """Floats as an array of fractions."""
    return np.vectorize(Fraction, otypes=[object])(values)


def _scaled(values: Float[np.ndarray, "..."]) -> tuple[np.ndarray, Fraction]:
    """Floats as integers of any length times one power of two, exactly."""
    mantissas, exponents = np.frexp(values)
    least = int(exponents[mantissas != 0].min(initial=0))
    shifts = np.maximum(exponents - least, 0).astype(object)
    return (mantissas * 2.0**53).astype(np.int64).astype(object) * 2**shifts, Fraction(2) ** (
        least - 53
    )


def _integer_form(
    witness: Witness, most: Fraction
) -> tuple[float, Float[np.ndarray, " k"], Float[np.ndarray, "k k"]]:
    """c, l and Q, the latter above its diagonal, of `|D u|**2 - t (q . u)(nu . u)`, in units."""
    tests, unit = _scaled(witness.tests)
    prior, prices = exact(witness.prior), exact(witness.prices)
    mixed = np.outer(prior, prices) * most
    curve = tests.T.dot(tests) * unit**2 - (mixed + mixed.T) / 2
    # Not below e**epsilon: a wider cone. `math.exp` is within a unit in the last place.
    rise = Fraction(math.nextafter(math.nextafter(witness.scale, math.inf), math.inf)) - 1
    diagonal = np.diagonal(curve)
    linear = 2 * rise * curve.sum(axis=1) + rise**2 * diagonal
    pairs = np.triu(2 * rise**2 * curve, 1)
    constant = curve.sum()
    total = abs(constant) + sum(abs(linear)) + abs(pairs).sum()
    count = Fraction(_UNITS) / total if total else Fraction(1)
    up = np.vectorize(lambda number: float(math.ceil(number * count)), otypes=[np.float64])
    return float(up(constant)), up(linear), up(pairs)


def bits(numbers: Int[np.ndarray, " n"], length: int) -> Float[np.ndarray, "n length"]:
    """The last bits of numbers, the lowest first."""
    return ((numbers[:, None] >> np.arange(length)[None, :]) & 1).astype(np.float64)


def _positive(
    constant: float, linear: Float[np.ndarray, " k"], pairs: Float[np.ndarray, "k k"]
) -> tuple[bool, Bool[np.ndarray, "r k"]]:
    """Whether the form of integers is above 0 for any x, and for each first half its largest x."""
    k = len(linear)
    high = k - k // 2
    heads, tails = bits(np.arange(2**high), high), bits(np.arange(2 ** (k - high)), k - high)

    def values(x: np.ndarray, part: slice) -> np.ndarray:
        return x @ linear[part] + np.sum((x @ pairs[part, part]) * x, axis=1)

    first, last = slice(high), slice(high, None)
    ones = np.ones
    left = np.stack([values(heads, first) + constant, ones(len(heads))], axis=1)
    left = np.concatenate([heads @ pairs[first, last], left], axis=1)
    right = np.stack([ones(len(tails)), values(tails, last)], axis=1)
    right = np.ascontiguousarray(np.concatenate([tails, right], axis=1).T)
    largest = np.zeros(len(heads))
    places = np.zeros(len(heads), np.int64)
    block = np.empty((min(_HEADS, len(heads)), min(_TAILS, len(tails))))
    for head in range(0, len(heads), len(block)):
        here = slice(head, head + len(block))
        for tail in range(0, len(tails), block.shape[1]):
            np.matmul(left[here], right[:, tail : tail + block.shape[1]], out=block)
            most = block.max(axis=1)
            better = np.flatnonzero(most > largest[here])
            largest[head + better] = most[better]
            places[head + better] = tail + block[better].argmax(axis=1)
    above = np.flatnonzero(largest > 0)
    chosen = np.concatenate([heads[above], tails[places[above]]], axis=1)
    return bool(len(above)), chosen > 0
