"""The privacy of the shuffled reports of a given channel, bracketed."""

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from .._spec import as_float64, check_int, check_items, check_real, within_float64
from ._binary_shuffle import attained_binary_delta, proven_binary_delta
from ._hidden_sums import positive_part, tail_bound
from ._response_shuffle import MOST_USERS as _FEW_USERS
from ._response_shuffle import MOST_VALUES as _FEW_VALUES
from ._response_shuffle import response_delta
from ._shuffle import MAX_USERS

Channel = Sequence[Sequence[Fraction | float]] | np.ndarray

_DIGITS = 12  # to which likelihood ratios are told apart
_TOLERANCE = 1e-5  # relative, of epsilon
_SMALLEST, _LARGEST = 1e-12, 100.0  # epsilon
_MOST_NUMBERS = 2**26  # that all pairs of rows of a channel hold
_NEGLIGIBLE = 1e-100  # delta, of which a quick bound is enough
_MOST_TRIED = 8  # data sets that a lower bound tries


@dataclasses.dataclass(frozen=True, slots=True)
class ShuffleBracket:
    """Bounds of the smallest epsilon of shuffled reports at some delta.

    Below `lower` the shuffled reports are not private: two neighbouring data sets show it. They are
    (`upper`, delta)-private: proven. `index_ratio` is about upper / lower for many users and a
    delta far below 1 / sqrt(n): the ratio of the shuffle indices of the data sets that attain
    `lower` and of the blanket that proves `upper`; 1 where they meet.
    """

    lower: float
    upper: float
    index_ratio: float


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class PairLaw:
    """How a report distinguishes two values of a user, and which other reports hide that.

    Reports come in m classes; within a class the probabilities under both values, and the least one
    under any value, are in one proportion.

    Args:
      first: float64[m], the probabilities of the classes under the user's first value.
      second: float64[m], those under the second value.
      least: float64[m], the sums over a class of each report's least probability under any value;
        smaller numbers are as safe.
      others: float64[r, m], those under some values that the other users may have: `lower` is for
        others who all have one of them.
    """

    first: np.ndarray
    second: np.ndarray
    least: np.ndarray
    others: np.ndarray


@within_float64
def shuffle_bracket(channel: Channel, num_users: int, delta: float) -> ShuffleBracket:
    """The epsilon of the shuffled reports of n users of one channel, between proven bounds.

    See `pair_shuffle_bracket` for the bounds, of all pairs of rows. Where reports are of two kinds,
    both bounds are of the exact value, the largest over all that the other users may hold: their
    reports sum independent bits, so the outcomes that favour one value are those above a threshold.

    Formal guarantees:
      * `upper` is proven for every data set of `num_users`, or more, rounded up.
      * `lower` is attained by a data set of exactly `num_users`, rounded down.
      * Where reports are of two kinds, upper / lower is at most 1.001.
      * For k-ary response with k >= 3, n e**-epsilon0 >= 100 and delta >= 1e-15 it is at most 1.01.
        Among up to 500 users with up to 6 values, `upper` is below what the blanket proves.

    Edge cases:
      =====================================  =====================================================
      reports that prove a value             counted in delta; `upper` is inf where they are too
                                             likely
      all rows equal, or a large delta       0.0
      one user                               the epsilon of the channel itself, at delta
      columns in proportion                  one kind of report: they tell the same
      =====================================  =====================================================

    Args:
      channel: rows of probabilities as Fractions or floats, row x for the value x.
      num_users: n, 1 to 10**10.
      delta: in (0, 1).

    Returns:
      The bracket.

    Raises:
      ValueError: an argument is out of range, rows do not sum to 1, or the channel is so large that
        its pairs should be given to `pair_shuffle_bracket`.

    Example:
      >>> from jaxdp.accounting import shuffle_bracket
      >>> krr = [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]]
      >>> found = shuffle_bracket(krr, num_users=10_000, delta=1e-6)
      >>> print(round(found.lower, 3), round(found.upper, 3), found.index_ratio)
      0.023 0.023 1.0

    References:
      Balle, Bell, Gascón, Nissim (2019), The privacy blanket of the shuffle model, Lemma 5.3; Su,
      Cheng, Wang (2025), Decomposition-based optimal bounds for privacy amplification via
      shuffling, who show that no other decomposition improves on the blanket; Takagi, Liew (2026),
      Analysis of shuffling beyond pure local differential privacy, for shuffle indices.
    """
    table = _check_channel(channel)
    kinds = _kinds(table)
    n, delta = _check_users(num_users, delta)
    if isinstance(kinds, _Binary):
        return _binary_bracket(kinds, n, delta)
    found = _bracket(kinds, n, delta)
    if not found.upper or (response := _response_of_few(table, n)) is None:
        return found
    below = crossing(response_delta(*response, n, found.upper), delta, found.upper)[1]
    return dataclasses.replace(found, upper=max(min(found.upper, below), found.lower))


@within_float64
def pair_shuffle_bracket(pairs: Sequence[PairLaw], num_users: int, delta: float) -> ShuffleBracket:
    """The epsilon of shuffled reports whose channel is given by its pairs of values.

    For channels too large to list, whose symmetry leaves few kinds of pairs. With p and q the laws
    of a report of the first and second value, and m any measure, let

        delta_m(eps) = E[(G_1 + .. + G_n)_+] / n,   G_i = (p(y) - e**eps q(y)) / m(y)

    with probability m(y) for each report y, and 0 otherwise. If m is the law of the reports of all
    other users, this is the delta of that data set and its neighbour: given the multiset, the user
    is equally likely to be any of the n reports but for its likelihood. If m is at most every
    value's law, the *blanket*, each user draws from it with the probability of its total, whatever
    the value; who knows all other reports, and not which ones come from the blanket, has delta_m.

    Formal guarantees:
      * `upper` is the largest epsilon of all pairs' blankets: proven if the pairs, each in both
        orders, are all there are up to symmetry.
      * `lower` is the largest one of others with one common law; it is attained.

    Edge cases:
      =========================  =================================================================
      `least` of 0 in a class    its reports count as proofs of the value, in delta
      several thousand pairs     seconds
      =========================  =================================================================

    Args:
      pairs: a `PairLaw` for each kind of ordered pair of values.
      num_users: n, 1 to 10**10.
      delta: in (0, 1).

    Returns:
      The bracket.

    Raises:
      ValueError: an argument is out of range.

    Example:
      >>> from jaxdp.accounting import PairLaw, pair_shuffle_bracket
      >>> p, q = 0.1, 0.01  # 91-ary response, classes x, x', x'' and the 88 others
      >>> pair = PairLaw(
      ...     [p, q, q, 88 * q], [q, p, q, 88 * q], [q, q, q, 88 * q], [[q, q, p, 88 * q]]
      ... )
      >>> found = pair_shuffle_bracket([pair], num_users=10_000, delta=1e-6)
      >>> print(round(found.lower, 3), round(found.upper, 3))
      0.044 0.044

    References:
      See `shuffle_bracket`.
    """
    laws = check_pairs(pairs)
    n, delta = _check_users(num_users, delta)
    return _bracket(laws, n, delta)


@within_float64
def channel_shuffle_delta(channel: Channel, num_users: int, epsilon: float) -> float:
    """The delta at epsilon of the shuffled reports of n users of one channel.

    Formal guarantees:
      Proven for every data set, rounded up: `shuffle_bracket(channel, n, delta).upper` is the
      epsilon at which this is delta.

    Args:
      channel: as of `shuffle_bracket`.
      num_users: n, 1 to 10**10.
      epsilon: in [0, 100].

    Returns:
      delta, in [0, 1].

    Raises:
      ValueError: as `shuffle_bracket`.

    Example:
      >>> from jaxdp.accounting import channel_shuffle_delta
      >>> krr = [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]]
      >>> f"{channel_shuffle_delta(krr, num_users=10_000, epsilon=0.03):.0e}"
      '2e-08'

    References:
      See `shuffle_bracket`.
    """
    table = _check_channel(channel)
    kinds = _kinds(table)
    n, epsilon = _check_epsilon(num_users, epsilon)
    if isinstance(kinds, _Binary):
        if epsilon >= kinds.local_epsilon():
            return 0.0
        return min(proven_binary_delta(epsilon, kinds.low, kinds.high, n), 1.0)
    found = _largest_delta(kinds, n, epsilon)
    if not found or (response := _response_of_few(table, n)) is None:
        return found
    return min(found, response_delta(*response, n, epsilon)(epsilon))


@within_float64
def pair_shuffle_delta(pairs: Sequence[PairLaw], num_users: int, epsilon: float) -> float:
    """The delta at epsilon of shuffled reports whose channel is given by its pairs of values.

    Formal guarantees:
      Proven for every data set, rounded up, if the pairs are all there are up to symmetry.

    Args:
      pairs: as of `pair_shuffle_bracket`.
      num_users: n, 1 to 10**10.
      epsilon: in [0, 100].

    Returns:
      delta, in [0, 1].

    Raises:
      ValueError: an argument is out of range.

    Example:
      >>> from jaxdp.accounting import PairLaw, pair_shuffle_delta
      >>> p, q = 0.1, 0.01
      >>> pair = PairLaw([p, q, 89 * q], [q, p, 89 * q], [q, q, 89 * q], [[q, q, 98 * q]])
      >>> f"{pair_shuffle_delta([pair], num_users=10_000, epsilon=0.05):.0e}"
      '1e-07'

    References:
      See `shuffle_bracket`.
    """
    laws = check_pairs(pairs)
    n, epsilon = _check_epsilon(num_users, epsilon)
    return _largest_delta(laws, n, epsilon)


def _check_epsilon(num_users: int, epsilon: float) -> tuple[int, float]:
    n = check_int("num_users", num_users, low=1, high=MAX_USERS)
    return n, check_real("epsilon", epsilon, low=0.0, high=_LARGEST, open_ends=False)


def _check_users(num_users: int, delta: float) -> tuple[int, float]:
    n = check_int("num_users", num_users, low=1, high=MAX_USERS)
    return n, check_real("delta", delta, low=0.0, high=1.0)


def _check_channel(channel: Channel) -> np.ndarray:
    table = check_rows(channel)
    if len(table) ** 2 * table.size > _MOST_NUMBERS:
        raise ValueError(
            f"channel must have fewer rows and columns than {table.shape}; give the kinds of its "
            "pairs, or what opposite_pairs finds, to pair_shuffle_bracket."
        )
    return table


def check_rows(channel: Channel) -> np.ndarray:
    """Returns float64[k, m], or raises ValueError unless rows are laws."""
    rows = [
        [
            float(p)
            if isinstance(p, Fraction)
            else check_real("channel", p, low=0.0, open_ends=False)
            for p in check_items("channel", row, "rows of probabilities")
        ]
        for row in check_items("channel", channel, "rows of probabilities")
    ]
    if len(rows) < 2 or len({len(row) for row in rows}) != 1 or not rows[0]:
        raise ValueError("channel must have at least two rows, all of the same length.")
    table = np.array(rows)
    sums = table.sum(axis=1, keepdims=True)
    if table.min() < 0 or np.abs(sums - 1).max() > 1e-9:
        raise ValueError("channel must have rows of probabilities >= 0, each of sum 1.")
    return table / sums


def check_pairs(pairs: Sequence[PairLaw]) -> list[PairLaw]:
    """Returns pairs of float64 arrays, or raises ValueError unless they are laws."""
    items = check_items("pairs", pairs, "laws of pairs of values")
    if not items:
        raise ValueError("pairs must hold at least one pair.")
    return [_check_pair(pair) for pair in items]


def _check_pair(pair: PairLaw) -> PairLaw:
    if not isinstance(pair, PairLaw):
        raise TypeError(f"pairs must each be a jaxdp.accounting.PairLaw, got {pair!r}.")
    given = (pair.first, pair.second, pair.least, pair.others)
    first, second, least, others = (as_float64("pairs", part) for part in given)
    laws = np.vstack([np.atleast_2d(law) for law in (first, second, others)])
    if least.ndim != 1 or laws.shape[1] != least.size or not np.all(np.isfinite(laws)):
        raise ValueError("pairs must hold finite laws on the same classes of reports.")
    if laws.min() < 0 or np.abs(laws.sum(axis=1) - 1).max() > 1e-9:
        raise ValueError("pairs must hold laws of numbers >= 0 and of sum 1.")
    if not np.all((least >= 0) & (least <= laws.min(axis=0) * (1 + 1e-9))):
        raise ValueError("pairs must have `least` >= 0 and at most every law.")
    return PairLaw(first, second, least, laws[2:])


class _Binary(NamedTuple):
    """A channel whose reports are of two kinds: the probabilities of the first are in a range."""

    low: float
    high: float

    def local_epsilon(self) -> float:
        """The epsilon of one report, rounded up."""
        laws = np.array([[self.high, 1 - self.high], [self.low, 1 - self.low]])
        orders = (laws, laws[::-1])
        return max(_hidden(one, other, other).local_epsilon() for one, other in orders)


def _kinds(channel: np.ndarray) -> list[PairLaw] | _Binary:
    """All ordered pairs of rows of a channel; those with the same blanket once.

    To those come the pairs that other rows tell apart best, each with that row.
    """
    channel = channel[:, channel.sum(axis=0) > 0]
    # Columns in proportion tell the same.
    profiles = _rounded(channel / channel.sum(axis=0))
    kinds, which = np.unique(profiles, axis=1, return_inverse=True)
    if kinds.shape[1] <= 2:
        ones = channel[:, which.ravel() == 0].sum(axis=1)
        return _Binary(float(ones.min()), float(ones.max()))
    least = channel.min(axis=0)
    found: dict[bytes, PairLaw] = {}
    for x, y in itertools.permutations(range(len(channel)), 2):
        pair = PairLaw(channel[x], channel[y], least, channel)
        found.setdefault(_hidden(pair.first, pair.second, least).key, pair)
    return [*found.values(), *told_apart(channel, least)]


def told_apart(channel: np.ndarray, least: np.ndarray) -> list[PairLaw]:
    """The pairs of rows that other rows tell apart best, each with that row; equal ones once.

    `sum (p - q)**2 / m`, as in `_Hidden.divergence`, of all rows at once.
    """
    divergences = []
    for common in channel:
        hides = common > 0
        rows = channel[:, hides]
        products = (rows / common[hides]) @ rows.T
        squares = np.diag(products)
        divergences.append(squares[:, None] + squares - 2 * products)
    table = np.stack(divergences, axis=-1)
    _, where = np.unique(-np.round(table, 9), return_index=True)
    triples = [np.unravel_index(at, table.shape) for at in where[:_MOST_TRIED].tolist()]
    return [PairLaw(channel[x], channel[y], least, channel[[z]]) for x, y, z in triples if x != y]


def _response_of_few(channel: np.ndarray, n: int) -> tuple[int, float] | None:
    """Values k and truth p of k-ary response that is asked few users with few values; else None."""
    k = len(channel)
    if channel.shape != (k, k) or not 3 <= k <= _FEW_VALUES or not 2 <= n <= _FEW_USERS:
        return None
    ordered = np.sort(channel, axis=1)
    truth, other = float(ordered[:, -1].max()), float(ordered[:, 0].min())
    response = np.where(np.arange(k) == k - 1, truth, other)
    own = np.unique(np.argmax(channel, axis=1))
    known = len(own) == k and np.allclose(ordered, response, rtol=1e-12, atol=0)
    return (k, truth) if known and 0 < other < truth else None


class _Hidden(NamedTuple):
    """Two values of a user among others whose reports have a common part.

    Attributes:
      ratios: float64[2, m], the likelihoods of reports relative to the common part.
      weights: float64[m], the probabilities of these reports in the common part.
      exposed: float64[2, e], the probabilities of reports that the common part never sends.
    """

    ratios: np.ndarray
    weights: np.ndarray
    exposed: np.ndarray

    @property
    def key(self) -> bytes:
        """Equal for equal laws."""
        order = np.lexsort(self.exposed)
        parts = (self.ratios, _rounded(self.weights), _rounded(self.exposed[:, order]))
        return b"".join(part.tobytes() for part in parts)

    @property
    def divergence(self) -> float:
        """The chi-square divergence that 1 / n is multiplied by; its inverse root is the index."""
        return float(self.weights @ (self.ratios[0] - self.ratios[1]) ** 2)

    def local_epsilon(self) -> float:
        """The epsilon of one report, rounded up."""
        laws = np.concatenate([self.ratios * self.weights, self.exposed], axis=1)
        first, second = laws[:, laws[0] > 0]
        if np.any(second == 0):
            return math.inf
        return math.log(float((first / second).max())) * (1 + 1e-12) + 1e-12

    def exposure(self, epsilon: float) -> float:
        """The delta of the reports that prove who sent them."""
        gap = math.exp(epsilon)
        return math.fsum(np.maximum(self.exposed[0] - gap * self.exposed[1], 0.0))

    def gains(self, epsilon: float) -> tuple[np.ndarray, np.ndarray, float]:
        """The atoms of G, their probabilities, and the mean size of what they subtract."""
        gap = math.exp(epsilon)
        return self.ratios[0] - gap * self.ratios[1], self.weights, 1 + gap

    def _tail(self, epsilon: float, n: int) -> float:
        return tail_bound(*self.gains(epsilon), n) / n

    def quick(self, epsilon: float, n: int) -> float:
        """A bound above `upper`, in microseconds."""
        return self.exposure(epsilon) + self._tail(epsilon, n)

    def upper(self, epsilon: float, n: int) -> float:
        """delta_m, rounded up."""
        if self._tail(epsilon, n) < _NEGLIGIBLE:  # so far out that sums on a grid overflow
            return self.quick(epsilon, n)
        return self.exposure(epsilon) + positive_part(*self.gains(epsilon), n).upper / n

    def lower(self, epsilon: float, n: int) -> float:
        """delta_m, rounded down."""
        return self.exposure(epsilon) + positive_part(*self.gains(epsilon), n).lower / n

    def guess(self, n: int, delta: float) -> float:
        """About the epsilon, by the normal approximation of the sum of all G."""
        spread = math.sqrt(self.divergence / n)
        low, high = 0.0, 40.0
        for _ in range(40):
            z = (low + high) / 2
            tail = math.erfc(z / math.sqrt(2)) / 2
            density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
            low, high = (z, high) if spread * (density - z * tail) > delta else (low, z)
        return math.log1p(spread * high)


def _hidden(first: np.ndarray, second: np.ndarray, common: np.ndarray) -> _Hidden:
    hides = common > 0
    laws = np.stack([first, second])
    ratios = laws[:, hides] / common[hides]
    ratios, groups = np.unique(_rounded(ratios), axis=1, return_inverse=True)
    weights = np.bincount(groups.ravel(), common[hides], ratios.shape[1])
    return _Hidden(ratios, weights, laws[:, ~hides])


def _rounded(x: np.ndarray) -> np.ndarray:
    """Numbers rounded to 12 digits, so that those which differ by roundings are equal."""
    mantissa, exponent = np.frexp(x)
    return np.ldexp(np.round(mantissa, _DIGITS), exponent)


def _bracket(pairs: Sequence[PairLaw], n: int, delta: float) -> ShuffleBracket:
    hidden_pairs = [_hidden(pair.first, pair.second, pair.least) for pair in pairs]
    blankets = list({hidden.key: hidden for hidden in hidden_pairs}.values())
    blankets.sort(key=lambda hidden: -hidden.divergence)
    upper = 0.0
    for hidden in blankets:
        if math.isinf(upper):
            break
        if hidden.quick(upper, n) > delta and hidden.upper(upper, n) > delta:
            found = crossing(lambda e, h=hidden: h.upper(e, n), delta, hidden.guess(n, delta))[1]
            upper = max(upper, min(found, hidden.local_epsilon()))
    attained: dict[bytes, _Hidden] = {}
    for pair in pairs:
        for law in pair.others:
            hidden = _hidden(pair.first, pair.second, law)
            attained.setdefault(hidden.key, hidden)
    best = sorted(attained.values(), key=lambda hidden: -hidden.divergence)
    lower = 0.0
    for hidden in best[:_MOST_TRIED]:
        if hidden.lower(lower, n) > delta:
            lower = crossing(lambda e, h=hidden: h.lower(e, n), delta, hidden.guess(n, delta))[0]
    indices = [max((h.divergence for h in group), default=0.0) for group in (blankets, best)]
    nothing = math.inf if indices[0] else 1.0
    ratio = math.sqrt(indices[0] / indices[1]) if indices[1] else nothing
    return ShuffleBracket(min(lower, upper), upper, float(_rounded(np.array(ratio))))


def _largest_delta(pairs: Sequence[PairLaw], n: int, epsilon: float) -> float:
    largest = 0.0
    for pair in pairs:
        hidden = _hidden(pair.first, pair.second, pair.least)
        if epsilon < hidden.local_epsilon() and hidden.quick(epsilon, n) > largest:
            largest = max(largest, hidden.upper(epsilon, n))
    return min(largest, 1.0)


def _binary_bracket(binary: _Binary, n: int, delta: float) -> ShuffleBracket:
    low, high = binary
    first, second = np.array([[high, 1 - high], [low, 1 - low]])
    hidden = _hidden(first, second, second)
    guess = hidden.guess(n, delta)
    lower = crossing(lambda e: attained_binary_delta(e, low, high, n), delta, guess)[0]
    upper = crossing(lambda e: proven_binary_delta(e, low, high, n), delta, lower or guess)[1]
    return ShuffleBracket(lower, min(upper, binary.local_epsilon()), 1.0)


def crossing(delta_of: Callable[[float], float], delta: float, guess: float) -> tuple[float, float]:
    """Where a decreasing function falls to delta: (still above, not above), close to each other.

    (0, 0) if it is never above, inf if it is not known to fall so far.
    """
    if delta_of(0.0) <= delta:
        return 0.0, 0.0
    low, high = 0.0, math.inf
    logs = {}
    x, step = min(max(guess, _SMALLEST), _LARGEST), 1.05
    while math.isinf(high) or high - low > _TOLERANCE * high:
        found = delta_of(x)
        logs[x] = math.log(found / delta) if found > 0 else -math.inf
        low, high = (x, high) if found > delta else (low, x)
        if math.isinf(high) or low == 0.0:
            if x in (_SMALLEST, _LARGEST):
                return low, high
            x = min(x * step, _LARGEST) if math.isinf(high) else max(x / step, _SMALLEST)
            step = min(step**2, 100.0)
            continue
        # ln delta is about linear in epsilon**2; aim past the root, on the side of the further end.
        above, below = logs[low], logs[high]
        share = above / (above - below) if math.isfinite(below) else 0.5
        x = math.sqrt(low**2 + share * (high**2 - low**2))
        nudge = _TOLERANCE / 2 * high
        x += nudge if x - low < high - x else -nudge
        if not low < x < high or len(logs) > 20:
            x = (low + high) / 2
    return low, high
