"""Shuffled k-ary response of few users: what the others hold, by how many hold one value."""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ._hidden_sums import chernoff_window
from ._shuffle import log_binomial

MOST_VALUES, MOST_USERS = 6, 500
"""Beyond, the blanket is within 1 % where n e**-epsilon0 >= 100 and delta >= 1e-15."""

_RARE = math.exp(-60.0)  # what each end of a window leaves out
_ROUNDING = 1e-8  # relative, of delta: n times that of the channel, and of the sums
_FLOAT = 1e-11  # relative, of what positive parts are taken of
_TINY = 1e-34  # weights that are counted at their largest
_GRID = 32  # points that conditional means are split between
_TRIED = (8, 32, 2)  # parts of the users that are tried first, for the values of `_Others`
_ROUNDS = 2  # of fitting the numbers of users
_NEAR = 0.1  # apart are logarithms of epsilons for which they are fitted
_LEAST = 1e-6  # of these epsilons, and of what users who hold one value are taken to change


class _Others(NamedTuple):
    """Other users who all hold one value, among all that the rest may hold: a bound of delta.

    The user holds value 0 or 1, and `held` of the others hold v: 0, 1, or 2 for any third value.
    With B binomial of `trials` and `share`, delta is the sum, over entries, of

        weights E[(slope B + offset)_+],
        slope = slopes[0] - e**eps slopes[1],   offset = offsets[0] - e**eps offsets[1].
    """

    weights: np.ndarray
    trials: np.ndarray
    slopes: tuple[float, float]
    offsets: np.ndarray
    excess: np.ndarray
    first: int
    dropped: float

    def delta(self, epsilon: float) -> float:
        """The bound, rounded up."""
        gap = math.exp(epsilon)
        slope = self.slopes[0] - gap * self.slopes[1]
        sizes = self.offsets[0] + gap * np.abs(self.offsets[1])
        start = -(self.offsets[0] - gap * self.offsets[1] + _FLOAT * sizes) / slope
        # E[(B - c)_+] is linear in c between integers.
        whole = np.clip(np.floor(start), -1, self.trials).astype(np.int64)
        rows = self.trials - self.first
        above, below = self.excess[rows, whole + 1], self.excess[rows, whole + 2]
        means = above + (whole - start) * (above - below)
        return slope * float(self.weights @ np.maximum(means, 0.0)) + self.dropped


class ResponseShuffle:
    """A proven delta of few users' shuffled k-ary response, below that of the blanket.

    Let numbers h_v >= 1 be such that the sum of h_v - 1 over the k values is below n - 1, the
    number of other users: some value v is held by h_v of them or more. Let the observer be told of
    all others but h_v of these which reports are not from the blanket. Uniform reports remain: M ~
    Bin(n - 1 - h_v, k q) of the users who are told of, J ~ Bin(h_v, k q) of the h_v, and the user's
    own. Of these T = M + J + 1 let S not be v. How many are v nobody sees: h_v - J more are v too.
    So delta_v is that of the blanket with what is not seen replaced by its mean,

        delta_v = E[(k / T) (sum of g over the S reports + g_v E'[T - S | M, S])_+],

    g = p - e**eps q for the user's value, q - e**eps p for the other one, and q - e**eps q for the
    rest; E' weighs by 1 / T. The largest delta_v bounds delta. Each falls as h_v grows; the h_v are
    chosen so that all are about the same.
    """

    def __init__(self, num_values: int, truth: float, num_users: int, near: float):
        """Initializes the bound.

        Args:
          num_values: k, at least 3.
          truth: p, the probability of the user's own value.
          num_users: n, at least 2.
          near: the epsilon for which the h_v are chosen.
        """
        self.num_values, self.num_users = num_values, num_users
        self.truth, self.other = truth, (1 - truth) / (num_values - 1)
        self._parts = [self._others(v, held) for v, held in enumerate(self._numbers(near))]

    def delta(self, epsilon: float) -> float:
        """The bound, rounded up."""
        if math.exp(epsilon) * self.other >= self.truth:
            return 0.0
        left_out = 4 * (1 + self.num_values) * _RARE  # the user's report is at most k as likely
        largest = max(part.delta(epsilon) for part in self._parts)
        return min(largest * (1 + _ROUNDING) + left_out, 1.0)

    def _numbers(self, epsilon: float) -> list[int]:
        """h_v: about those of equal bounds, where logarithms of bounds are linear in h_v."""
        n, k = self.num_users, self.num_values
        none = self._others(0, 0).delta(epsilon)
        held = [max(n // parts, 1) for parts in _TRIED]
        for _ in range(_ROUNDS):
            slopes = []
            for value, number in enumerate(held):
                found = self._others(value, number).delta(epsilon)
                drop = math.log(none / found) if 0 < found < none else 0.0
                slopes.append(max(drop, _LEAST) / number)
            # One more than numbers of sum n - 2: not all can be missed by n - 1 users.
            drop = (n - 2) / (1 / slopes[0] + 1 / slopes[1] + (k - 2) / slopes[2])
            held = [1 + int(drop / slope) for slope in slopes]
        return held

    def _others(self, value: int, held: int) -> _Others:
        k, p, q = self.num_values, self.truth, self.other
        seen, weights, unseen = self._seen(held)
        # Gains p - e**eps q, as (p, q): of the user's value, the other one, and a third.
        gains = np.array([[p, q], [q, p], [q, q]])
        if value == 2:  # S reports are of three kinds: those of the other value first
            weights, unseen = (x[..., None] for x in _split(weights, unseen))
            ones = np.arange(_ends(seen[0], 1 / (k - 1))[0], _ends(seen[-1], 1 / (k - 1))[1] + 1)
            weights = weights * _binomial_laws(seen, ones, 1 / (k - 1))
            trials, rest = np.maximum(seen[:, None] - ones, 0), gains[1][:, None, None] * ones
            many, few, share = gains[0], gains[2], 1 / (k - 2)
        else:
            trials, rest = seen, np.zeros((2, 1))
            many, few, share = (
                (gains[2], gains[1], (k - 2) / (k - 1))
                if value == 0
                else (gains[0], gains[2], 1 / (k - 1))
            )
        kept = weights > _TINY
        dropped = self.num_users * float(weights[~kept].sum())  # slope B + offset is below n
        offsets = [
            np.broadcast_to(more + each * trials + own * unseen, weights.shape)[kept]
            for more, each, own in zip(rest, few, gains[value], strict=True)
        ]
        trials = np.broadcast_to(trials, weights.shape)[kept]
        first, last = int(trials.min()), int(trials.max())
        slopes = (float(many[0] - few[0]), float(many[1] - few[1]))
        table = _excess(first, last, share)
        return _Others(weights[kept], trials, slopes, np.stack(offsets), table, first, dropped)

    def _seen(self, held: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The numbers S; `E[k / T; M, S]` and `E'[T - S | M, S]`, a row for each M."""
        k = self.num_values
        told, told_law = _binomial(self.num_users - 1 - held, k * self.other)
        hidden, hidden_law = _binomial(held, k * self.other)
        draws = np.arange(told[0] + hidden[0] + 1, told[-1] + hidden[-1] + 2)  # T
        seen = np.arange(_ends(draws[0], (k - 1) / k)[0], _ends(draws[-1], (k - 1) / k)[1] + 1)
        laws = _binomial_laws(draws, seen, (k - 1) / k) * (k / draws)[:, None]
        unseen = np.maximum(draws[:, None] - seen, 0)
        parts = [slice(m, m + len(hidden)) for m in told - told[0]]
        weights = np.stack([hidden_law @ laws[part] for part in parts])
        means = np.stack([hidden_law @ (laws[part] * unseen[part]) for part in parts])
        means = np.divide(means, weights, out=np.zeros_like(means), where=weights > 0)
        return seen, weights * told_law[:, None], means


def response_delta(
    num_values: int, truth: float, num_users: int, near: float
) -> Callable[[float], float]:
    """The `delta` of a `ResponseShuffle`, kept for epsilons that are close to `near`."""
    place = round(math.log(max(near, _LEAST)) / _NEAR)
    return _kept(num_values, truth, num_users, place).delta


@functools.lru_cache(maxsize=16)
def _kept(num_values: int, truth: float, num_users: int, place: int) -> ResponseShuffle:
    return ResponseShuffle(num_values, truth, num_users, math.exp(place * _NEAR))


def _split(weights: np.ndarray, means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers, by columns, split between points of a grid so that means are kept.

    By Jensen's inequality no mean of a convex function falls.
    """
    low = np.where(weights > 0, means, np.inf).min(axis=0)
    high = np.where(weights > 0, means, -np.inf).max(axis=0)
    low, high = (np.where(np.isfinite(end), end, 0.0) for end in (low, high))
    step = np.maximum((high - low) / (_GRID - 1), 1e-9)
    place = np.clip((means - low) / step, 0, _GRID - 1)
    floor = np.minimum(place.astype(np.int64), _GRID - 2)
    split = np.zeros((_GRID, weights.shape[1]))
    columns = np.broadcast_to(np.arange(weights.shape[1]), weights.shape)
    np.add.at(split, (floor, columns), weights * (floor + 1 - place))
    np.add.at(split, (floor + 1, columns), weights * (place - floor))
    return split, low + step * np.arange(_GRID)[:, None]


def _ends(trials: int, chance: float) -> tuple[int, int]:
    """Where a binomial number is, but for e**-60 on each side."""
    if trials == 0:
        return 0, 0
    law = np.array([0.0, 1.0]), np.array([1 - chance, chance]), int(trials)
    low, high = chernoff_window([law])
    return max(math.floor(low), 0), min(math.ceil(high), int(trials))


def _binomial(trials: int, chance: float) -> tuple[np.ndarray, np.ndarray]:
    """Numbers within `_ends`, and their probabilities."""
    low, high = _ends(trials, chance)
    numbers = np.arange(low, high + 1)
    return numbers, _binomial_laws(np.array([trials]), numbers, chance)[0]


def _binomial_laws(trials: np.ndarray, numbers: np.ndarray, chance: float) -> np.ndarray:
    """float64[trials, numbers], the probabilities of binomial numbers."""
    if chance == 1:  # of one value no trial is left over
        return np.equal(trials[:, None], numbers).astype(np.float64)
    most = trials[:, None]
    logs = log_binomial(np.minimum(numbers, most), most, chance)
    return np.where(numbers <= most, np.exp(logs), 0.0)


def _excess(least: int, most: int, chance: float) -> np.ndarray:
    """`E[(B - j)_+]` for j = -1, .., most + 1, a row for each number of trials from `least` on."""
    numbers = np.arange(-1, most + 2)
    laws = _binomial_laws(np.arange(least, most + 1), np.maximum(numbers, 0), chance)
    laws[:, 0] = 0.0
    # Tails beyond j, then their sums.
    tails = np.cumsum(laws[:, ::-1], axis=1)[:, ::-1]
    beyond = np.append(tails[:, 1:], np.zeros((len(laws), 1)), axis=1)
    return np.append(np.cumsum(beyond[:, ::-1], axis=1)[:, ::-1], np.zeros((len(laws), 1)), axis=1)
