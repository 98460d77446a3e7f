"""Privacy-loss distributions: several rounds of what is known by its delta at every epsilon."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from .._spec import check_int, check_real, within_float64
from ._hidden_sums import chernoff_window, smooth_size
from ._shuffle_channel import crossing

_ULP = 2.0**-52
_LARGEST = 100.0  # epsilon
_MOST_POINTS = 4000
_GROWTH = 1.05  # of epsilon where delta is negligible
_NEGLIGIBLE = 1e-25  # delta
_INFLATION = 3e-4  # of the variance, by rounding to a grid: half of that is of epsilon
_RARE = 60.0  # windows leave out events of probability e**-60
_FLOOR = 1e-280  # more than what underflows


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Loss:
    """The privacy loss s of one round: of a pair of laws that is the same in both orders.

    Attributes:
      step: most losses are multiples of it.
      places: float64[m], the positive losses.
      masses: float64[m], their probabilities; -s has e**-s times that of s.
      infinite: the probability of an infinite loss.
    """

    step: float
    places: np.ndarray
    masses: np.ndarray
    infinite: float

    @property
    def atoms(self) -> tuple[np.ndarray, np.ndarray]:
        """All finite losses and their probabilities, with 0 that has what is left."""
        against = self.masses * np.exp(-self.places)
        left = max(1 - math.fsum([*self.masses, *against, self.infinite]), 0.0)
        places = np.concatenate([-self.places, [0.0], self.places])
        return places, np.concatenate([against, [left], self.masses])


class PrivacyLoss:
    """The privacy of what users send in several rounds, from the delta of each at every epsilon.

    All that the composition of rounds depends on is each round's delta as a function of epsilon: it
    is that of a pair of laws, whose *privacy loss* `ln p(y) / q(y)` adds up over rounds.
    `loss.compose(n)` is n rounds of a kind, and `loss + other` rounds of different kinds. A round
    is whatever has a proven delta at every epsilon: shuffled reports, single reports, noise.

    Formal guarantees:
      Proven for neighbouring data sets in both orders, rounded up, for rounds that may depend on
      what earlier ones sent, as long as each has the given delta whatever that was:

      * *From delta to losses.* As a function of e**epsilon, delta is convex, and at -epsilon it is
        `1 - e**-epsilon + e**-epsilon delta(epsilon)` for neighbours in both orders. So the lower
        convex hull of points above it is above it, and belongs to losses at these points, whose
        probabilities are its changes of slope. A larger delta at every epsilon remains larger in
        all compositions: the delta of several rounds is a mean of deltas of any one of them.
      * *Sums.* Losses are split between grid points so that both laws keep their totals, which can
        only raise delta (data processing, backwards), by about 3e-4 of the variance in all. Laws on
        the grid are convolved by one FFT, tilted so that tails far below 1e-16 keep their digits;
        bounds of numerical errors and of what wraps around are added.

    Edge cases:
      ==============================  ============================================================
      delta that stays above 0        its least value is the probability of an infinite loss: part
                                      of every delta, and the Rényi divergence is inf
      pure reports in binary          exact: they have two losses
      delta below 1e-25 a round       as good as 0 for `delta` and `epsilon`
      ==============================  ============================================================

    Args:
      delta_of: a delta at every epsilon in [0, 100], that holds for neighbours in both orders.
      points: how many epsilons in one standard deviation of the loss it is asked at. Half as many
        take half the time and add four times as much to the variance, `1 / (6 points**2)` of it.

    Raises:
      ValueError: a delta is not in [0, 1], or `points` out of range.
      TypeError: `delta_of` is no function.

    Example:
      >>> import functools
      >>> from jaxdp.accounting import PrivacyLoss
      >>> from jaxdp.randomizers import KRR
      >>> weekly = PrivacyLoss(functools.partial(KRR(5, 1.0).shuffle_delta, 10_000))
      >>> [round(weekly.compose(weeks).epsilon(delta=1e-6), 3) for weeks in (1, 52)]
      [0.031, 0.261]
      >>> round(weekly.compose(52).renyi(order=4.0), 5)
      0.00915

    References:
      Sommer, Meiser, Mohammadi (2019), Privacy loss classes; Koskela, Jälkö, Honkela (2020),
      Computing tight differential privacy guarantees using FFT; Doroshenko, Ghazi, Kamath, Kumar,
      Manurangsi (2022), Connect the dots; Zhu, Dong, Wang (2022), Optimal accounting of
      differential privacy via characteristic function, Theorem 10.
    """

    __slots__ = ("_rounds",)

    def __init__(self, delta_of: Callable[[float], float], *, points: int = 30) -> None:
        points = check_int("points", points, low=1, high=1000)
        self._rounds: list[tuple[_Loss, int]] = [(_loss(delta_of, points), 1)]

    @classmethod
    def _of(cls, rounds: list[tuple[_Loss, int]]) -> "PrivacyLoss":
        made = cls.__new__(cls)
        made._rounds = rounds
        return made

    def compose(self, num_rounds: int) -> "PrivacyLoss":
        """The loss of all this `num_rounds` times, 1 to 10**6."""
        count = check_int("num_rounds", num_rounds, low=1, high=10**6)
        return self._of([(loss, count * times) for loss, times in self._rounds])

    def __add__(self, other: "PrivacyLoss") -> "PrivacyLoss":
        """The loss of both together."""
        if not isinstance(other, PrivacyLoss):
            return NotImplemented
        return self._of(self._rounds + other._rounds)

    @within_float64
    def delta(self, epsilon: float) -> float:
        """The delta at epsilon, in [0, 100], of all rounds."""
        epsilon = check_real("epsilon", epsilon, low=0.0, high=_LARGEST, open_ends=False)
        return _composed_delta(self._rounds, epsilon)

    @within_float64
    def epsilon(self, delta: float) -> float:
        """The epsilon at delta, in (0, 1), of all rounds; inf if it is above 100."""
        delta = check_real("delta", delta, low=0.0, high=1.0)
        mean, variance = _moments(self._rounds)
        guess = mean + math.sqrt(2 * variance * math.log(1 / delta))
        return crossing(lambda x: _composed_delta(self._rounds, x), delta, guess)[1]

    @within_float64
    def renyi(self, order: float) -> float:
        """A bound of the Rényi divergence of all rounds.

        With q the second law and s the losses, `1 / (a - 1) ln E_p[e**((a - 1) s)]` of each round,
        added up.

        Args:
          order: a > 1.
        """
        order = check_real("order", order, low=1.0, high=1e6)
        return math.fsum(times * _renyi(loss, order) for loss, times in self._rounds)


def _loss(delta_of: Callable[[float], float], points: int) -> _Loss:
    if not callable(delta_of):
        raise TypeError(f"delta_of must be a function of epsilon, got {delta_of!r}.")
    known: dict[float, float] = {}

    def delta(epsilon: float) -> float:
        if epsilon not in known:
            known[epsilon] = check_real(
                "delta_of", delta_of(epsilon), low=0.0, high=1.0, open_ends=False
            )
        return known[epsilon]

    if delta(0.0) == 0:
        return _Loss(1.0, np.zeros(0), np.zeros(0), 0.0)
    spread = _normal_spread(delta(0.0))
    dense = _falls_to(delta, _NEGLIGIBLE, spread, 0.03)
    end = _falls_to(delta, 0.0, dense, 1e-12)
    dense = min(dense, end)
    step = dense / min(math.ceil(points * dense / min(spread, dense)), _MOST_POINTS)
    places = step * np.arange(round(dense / step) + 1)
    places[-1] = dense
    more = math.ceil(math.log(end / dense) / math.log(_GROWTH))
    places = np.append(places, dense * (end / dense) ** (np.arange(1, more + 1) / max(more, 1)))
    places[-1] = end
    return _from_curve(step, places, np.array([delta(float(x)) for x in places]))


def _normal_spread(delta: float) -> float:
    """The standard deviation of a normal loss with this delta at epsilon = 0."""
    low, high = 0.0, 80.0
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if math.erf(middle / 8**0.5) < delta else (low, middle)
    return high


def _falls_to(
    delta_of: Callable[[float], float], level: float, guess: float, tolerance: float
) -> float:
    """The first epsilon, rounded up, at which delta is at most a level; at most 100."""
    low, high = 0.0, min(guess, _LARGEST)
    while delta_of(high) > level:
        if high == _LARGEST:
            return high
        low, high = high, min(2 * high, _LARGEST)
    while high - low > tolerance * high:
        middle = (low + high) / 2
        low, high = (low, middle) if delta_of(middle) <= level else (middle, high)
    return high


def _from_curve(step: float, places: np.ndarray, deltas: np.ndarray) -> _Loss:
    """The losses that belong to the lower convex hull of points (e**epsilon, delta).

    With u(a) the hull, the second law has u's changes of slope at a = e**s. Slopes between 1/a and
    a follow from those between 1 and a by symmetry; the value at 1 is at most that of the chord
    from 1/a to a, `(2 u(a) + a - 1) / (a + 1)`.
    """
    # More than all rounding errors below: sums of numbers >= 0, and differences of given ones.
    deltas = deltas * (1 + 1e-13)
    excess = np.expm1(places)
    deltas[0] = float(((2 * deltas + excess) / (excess + 2)).min())
    kept = _hull(places, deltas)
    s, u = places[kept], deltas[kept]
    # e**s_(j+1) - e**s_j without cancellation
    slopes = -np.diff(u) / (np.exp(s[:-1]) * np.expm1(np.diff(s)))
    masses = np.exp(s[1:]) * -np.diff(np.append(slopes, 0.0))
    return _Loss(step, s[1:], np.maximum(masses, 0.0), float(u[-1]))


def _hull(places: np.ndarray, values: np.ndarray) -> list[int]:
    """The indices of the lower convex hull of (e**places, values)."""
    kept: list[int] = []
    slopes: list[float] = []
    for j in range(len(places)):
        slope = -math.inf
        while kept:
            i = kept[-1]
            width = math.exp(places[i]) * math.expm1(places[j] - places[i])
            slope = (values[j] - values[i]) / width
            if len(kept) == 1 or slope > slopes[-1]:
                break
            kept.pop()
            slopes.pop()
        kept.append(j)
        slopes.append(slope)
    return kept


def _moments(rounds: list[tuple[_Loss, int]]) -> tuple[float, float]:
    """Mean and variance of the sum of all finite losses."""
    mean = variance = 0.0
    for loss, times in rounds:
        places, masses = loss.atoms
        once = float(masses @ places)
        mean += times * once
        variance += times * max(float(masses @ (places - once) ** 2), 0.0)
    return mean, variance


def _grid_step(rounds: list[tuple[_Loss, int]]) -> float:
    """The largest step of any round's losses that is fine enough, or a fraction of the least.

    Splitting adds at most step**2 / 4 to the variance, and on average step**2 / 6.
    """
    total = sum(times for _, times in rounds)
    largest = math.sqrt(6 * _INFLATION * _moments(rounds)[1] / total)
    steps = sorted(loss.step for loss, _ in rounds)
    fine = [step for step in steps if step <= largest]
    return fine[-1] if fine else steps[0] / math.ceil(steps[0] / largest)


def _split(places: np.ndarray, masses: np.ndarray, step: float) -> tuple[np.ndarray, np.ndarray]:
    """Losses split between the grid points below and above so that both laws keep their totals.

    Of the first law, `(1 - e**(a - s)) / (1 - e**(a - b))` goes from s to the upper point b.
    """
    below = np.floor(places / step + 1e-9)
    rest = np.maximum(places - below * step, 0.0)
    share = np.minimum(np.expm1(-rest) / math.expm1(-step), 1.0)
    first = int(below.min())
    index = (below - first).astype(np.int64)
    both = np.concatenate([index, index + 1])
    on_grid = np.bincount(both, np.concatenate([masses * (1 - share), masses * share]))
    return (first + np.arange(len(on_grid))).astype(np.int64), on_grid


def _composed_delta(rounds: list[tuple[_Loss, int]], epsilon: float) -> float:
    infinite = math.fsum(times * loss.infinite for loss, times in rounds)
    # Losses that are not there, or as good as infinite: a law of 0 alone.
    light = [(loss, times) for loss, times in rounds if loss.masses.sum() <= _NEGLIGIBLE]
    infinite += math.fsum(times * float(loss.masses.sum()) for loss, times in light)
    rounds = [(loss, times) for loss, times in rounds if loss.masses.sum() > _NEGLIGIBLE]
    if not rounds or infinite >= 1:
        return min(infinite, 1.0)
    step = _grid_step(rounds)
    laws = []
    for loss, times in rounds:
        places, masses = loss.atoms
        # Losses of a negligible probability may as well be infinite, and those below the opposite
        # of all others be that: both raise delta, and keep the grid short.
        rare = np.cumsum(masses[::-1])[::-1] <= _NEGLIGIBLE
        infinite += times * float(masses[rare].sum())
        places, masses = places[~rare], masses[~rare]
        laws.append((*_split(np.maximum(places, -places[-1]), masses, step), times))
    theta, growth = _saddle(laws, step, epsilon)
    tilted = []
    for index, masses, times in laws:
        log_moment = math.log(math.fsum(masses * np.exp(theta * step * index)))
        tilted.append((index, masses * np.exp(theta * step * index - log_moment), times))
    window = chernoff_window([(index * step, masses, times) for index, masses, times in tilted])
    first, mass, error = _sum(tilted, math.floor(window[0] / step), math.ceil(window[1] / step))
    places = (first + np.arange(len(mass))) * step
    above = places > epsilon
    places, mass = places[above], np.maximum(mass[above], 0.0) + error
    finite = float(mass @ (np.exp(growth - theta * places) * -np.expm1(epsilon - places)))
    wrapped = 2 * math.exp(growth - theta * epsilon - _RARE)
    # Errors of the probabilities and of the logarithm count once for each round.
    rounding = 1e-12 + 4e-15 * sum(times for _, times in rounds)
    return min((finite + wrapped) * math.exp(rounding) + infinite + _FLOOR, 1.0)


def _saddle(
    laws: list[tuple[np.ndarray, np.ndarray, int]], step: float, epsilon: float
) -> tuple[float, float]:
    """The theta >= 0 that about centres the tilted sum at epsilon, and ln E[e**(theta S)]."""

    def moments(theta: float) -> tuple[float, float]:
        mean = growth = 0.0
        for index, masses, times in laws:
            tilted = masses * np.exp(theta * step * index)
            total = math.fsum(tilted)
            mean += times * float(tilted @ (step * index)) / total
            growth += times * math.log(total)
        return mean, growth

    largest = max(float(np.abs(index).max()) for index, _, _ in laws) * step
    low, high = 0.0, 300 / largest
    if moments(0.0)[0] < epsilon:
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if moments(middle)[0] < epsilon else (low, middle)
    return low, moments(low)[1]


def _sum(
    laws: list[tuple[np.ndarray, np.ndarray, int]], first: int, last: int
) -> tuple[int, np.ndarray, float]:
    """The law of the sum of independent indices, modulo the window, and the largest error."""
    size = smooth_size(last - first + 1)
    log_sum: complex | np.ndarray = 0.0
    log_bound, log_kept, turns = (np.zeros(size // 2 + 1) for _ in range(3))
    for index, masses, times in laws:
        transform = np.fft.rfft(np.bincount(index % size, masses, size))
        error = 8 * _ULP * (math.log2(size) + 2) * float(masses.sum())
        modulus = np.abs(transform)
        with np.errstate(divide="ignore"):
            logs = np.log(np.where(transform == 0, 1e-300, transform))
            log_kept += times * np.log1p(-error / (modulus + error))
        log_sum = log_sum + times * logs
        log_bound += times * np.log(modulus + error)
        turns += times * np.abs(logs)
    power = np.exp(log_sum)
    # A product of x_i known to e_i is known to prod (|x_i| + e_i) - prod |x_i|.
    bound = np.exp(log_bound)
    drift = bound * (-np.expm1(log_kept) + 8 * _ULP * (math.log2(size) + 1 + turns))
    mass = np.roll(np.fft.irfft(power, size), -first % size)
    return first, mass, 2 * float(drift.sum()) / size


def _renyi(loss: _Loss, order: float) -> float:
    """`ln(1 + sum_s q(s) (e**(a s) - 1) (1 - e**((1 - a) s))) / (a - 1)` over positive losses.

    A loss s and its opposite contribute `q(s) (e**(a s) + e**((1 - a) s) - e**s - 1)` to
    `E_p[e**((a - 1) s)] - 1`: a convex function of e**s, so a larger delta has a larger mean.
    """
    if loss.infinite > 0:
        return math.inf
    if not len(loss.places):
        return 0.0
    s = loss.places
    # in logarithms, as e**(a s) may overflow
    grown = order * s + np.log(-np.expm1(-order * s)) + np.log(-np.expm1((1 - order) * s))
    with np.errstate(divide="ignore"):
        logs = np.log(loss.masses) - s + grown
    excess = float(np.logaddexp.reduce(logs))
    return float(np.logaddexp(0.0, excess)) / (order - 1) * (1 + 1e-12)
