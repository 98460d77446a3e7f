"""Reports that a shuffler mixes: more privacy for the same reports."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._checks import By, Instance, Integer, Optional, Real
from .._chernoff import relative_entropy
from .._contract import Params, Spec, Tree, field, spec
from .._prediction import Kind, Prediction
from .._spec import check_epsilon, check_int, check_real, within_float64
from ..accounting import ShuffleBracket, shuffle_delta
from ..accounting._sampled import check_rate
from ..population import Population
from ._pairs import PairsProtocol
from ._shuffled_rounds import auc_protocol, messages

_ROUNDED = 4e-9  # relative, more than `shuffle_epsilon` rounds up by
_BRACKETED = 2e-5  # relative, more than the upper end of a bracket rounds up by
_CLOSE = 4e-6  # relative, of a report's epsilon
_CLOSE_TOGETHER = 1e-3  # of all reports of a user's, where each takes seconds
_PARTICIPATION = By(check_rate, (0.0, 1.5, -1.0, "half", None))
_LARGEST = 30.0  # epsilon of a report
_LOCAL = "the spec of a protocol with pure local privacy"


@within_float64
def local_epsilon(epsilon: float, num_users: int, delta: float) -> float:
    """The largest privacy parameter of reports that shuffling amplifies to (epsilon, delta).

    The inverse of `jaxdp.accounting.shuffle_epsilon`: enough whatever the reports are.
    `Shuffled.calibrated` finds what is enough for a protocol's own.

    Args:
      epsilon: of the shuffled reports, > 0.
      num_users: n, how many reports are shuffled together.
      delta: in (0, 1).

    Returns:
      epsilon0, at least `epsilon`; at most 30.

    Example:
      >>> from jaxdp.trusted import local_epsilon
      >>> round(local_epsilon(epsilon=0.1, num_users=10**6, delta=1e-8), 2)
      4.81
    """
    low = check_epsilon(epsilon)
    n, delta = check_int("num_users", num_users, low=1), check_real("delta", delta, low=0, high=1)
    return _local_epsilon(low, n, delta)


@functools.lru_cache(maxsize=64)
def _local_epsilon(epsilon: float, n: int, delta: float) -> float:
    low, high = epsilon, max(30.0, epsilon)
    # One delta is compared, not the epsilon that is searched for in many; what that search rounds
    # up by is left.
    target = epsilon * (1 - _ROUNDED)
    if low >= 30 or shuffle_delta(target, high, n) <= delta:
        return high
    # Amplification grows with epsilon0, so bisection finds the largest one that is enough.
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        private = shuffle_delta(target, middle, n) <= delta
        low, high = (middle, high) if private else (low, middle)
    return low


@spec
class Shuffled(Spec[Params[Any]]):
    """A protocol whose users' reports pass a shuffler: the same estimates, more privacy.

    A shuffler forgets who sent what. Tallies do not depend on that, so estimates and their errors
    are those of the protocol, and all that changes is the guarantee: that of the multiset of the
    reports. `Shuffled.calibrated` goes the other way, from a central guarantee to the
    protocol with the reports that yield it.

    Formal guarantees:
      * Privacy: (`exact_epsilon()`, `delta`)-DP in the value of one user for whoever sees the
        shuffled reports, and epsilon-LDP as before towards the shuffler. Proven, for the reports'
        own channel where it is known (`bracket`), and else for every randomizer, and for sequences
        of groups whose randomizers depend on earlier groups' reports.
        A report hides among `group_size` reports that answer the same question. What a user sends
        in one round is one report: the two vectors of `TwoReport`, say, travel together.
      * Several rounds, each shuffled by itself, whose questions may depend on what earlier ones
        showed. Where each user answers in one, of a random group, the epsilon is that of the worst
        group: other groups' reports do not depend on the user's value. Where all users answer in
        all, it is that of the sum of the rounds' privacy losses (`accounting.PrivacyLoss`): each
        round has its delta at every epsilon, whatever was broadcast.
      * Estimate and errors: those of the protocol.

    Edge cases:
      =====================================  =====================================================
      public labels                          as in `BilinearAUC` and `HierarchicalAUC`: reports hide
                                             among those of the same label, so `group_size` must be
                                             given; ValueError from a Population with a class, or an
                                             expected one, of fewer
      random groups                          as in `OneStep`, `TwoRound` and `ThreeRound` by groups:
                                             `group_size` must be given, and the probability that a
                                             group is smaller, which is taken from delta, must be
                                             below half of it; ValueError with a size that will do
      users who collude with the adversary   they reveal their reports, or send what they like;
                                             `colluding` is their share, and the others hide at
                                             least among themselves
      users who answer in several rounds     as with `sharing="budget"`: composed where the protocol
                                             says what is `sent` in each; TypeError where it does
                                             not, and where only some users answer several times;
                                             `bracket().lower` is 0, since no attack is computed
      users who report in pairs              TypeError: those are not local reports
      Gaussian noise                         accounted for by itself, in one report of each user;
                                             other approximate privacy is refused: TypeError
      =====================================  =====================================================

    Args:
      protocol: the spec of a protocol with pure local privacy.
      num_users: how many users there are at least.
      delta: in (0, 1).
      group_size: how many reports are shuffled together, at least; None for `num_users`.
      colluding: the largest share of the `num_users` who may work with the adversary, in [0, 1).
      participation: in (0, 1], the probability that a user takes part; 1 but for protocols of one
        report a user without public labels.

    Raises:
      ValueError: an argument is out of range, or `group_size` is needed.
      TypeError: `protocol` is of no kind that hides local reports; see the table.

    Example:
      >>> import functools
      >>> from jaxdp.pairwise import GiniDiversity, QuantizedRR
      >>> from jaxdp.trusted import Shuffled
      >>> make = functools.partial(QuantizedRR, GiniDiversity(), num_values=5)
      >>> shuffled = Shuffled.calibrated(make, 0.25, num_users=10**5, delta=1e-6)
      >>> shuffled.protocol.epsilon > 5.2, shuffled.exact_epsilon() <= 0.25
      (True, True)

    References:
      Balle, Bell, Gascón, Nissim (2019), The privacy blanket of the shuffle model; Feldman,
      McMillan, Talwar (2021), Hiding among the clones.
    """

    protocol: Any = field(Instance(Spec, _LOCAL))
    num_users: int = field(Integer(1))
    delta: float = field(Real(0.0, 1.0))
    group_size: int | None = field(Optional(Integer(1)), default=None)
    colluding: float = field(Real(0.0, 1.0, closed=True), default=0.0)
    participation: float = field(_PARTICIPATION, default=1.0)

    def validate(self) -> None:
        """Raises unless users send pure local reports, and groups can be as promised."""
        if self.group_size is not None:
            check_int("group_size", self.group_size, low=1, high=self.num_users)
        if isinstance(self.protocol, PairsProtocol):
            raise TypeError(
                f"protocol must have local reports to shuffle, but the users of {self.protocol!r} "
                "report in pairs; use one of single users, such as OneReport."
            )
        _ = self._spent  # which checks the groups
        _check_hidden(self.protocol)
        if self.participation < 1:
            messages(self.protocol, self.participation)  # which refuses what is not proven
        _honest(self.num_users, self.group_size, self.colluding)

    @property
    def _together(self) -> int:
        return self.group_size or self.num_users

    @property
    def _spent(self) -> float:
        """The part of delta that goes to groups of fewer than `group_size` users."""
        return _spent(self.protocol, self.num_users, self.delta, self.group_size)

    @classmethod
    def calibrated(
        cls,
        make: Callable[..., Any],
        epsilon: float,
        num_users: int,
        delta: float,
        group_size: int | None = None,
        colluding: float = 0.0,
        participation: float = 1.0,
    ) -> "Shuffled":
        """The protocol whose shuffled reports are (epsilon, delta)-private.

        Args:
          make: makes the protocol's spec from the keyword epsilon.
          epsilon: of the shuffled reports.
          num_users: as in the class.
          delta: as in the class.
          group_size: as in the class.
          colluding: as in the class.
          participation: as in the class.
        """
        left = delta - _spent(make(epsilon=epsilon), num_users, delta, group_size)
        hiding = _honest(num_users, group_size, colluding)
        rate = check_rate("participation", participation)
        protocol = _calibrated(make, check_epsilon(epsilon), hiding, left, rate)
        return cls(protocol, num_users, delta, group_size, colluding, rate)

    def build(self, word_bits: int = 32) -> Params[Any]:
        """The params of the protocol."""
        return self.protocol.build(word_bits)

    def local_epsilon(self) -> float:
        """The realised local privacy parameter of a report."""
        return self.protocol.exact_epsilon()

    def exact_epsilon(self) -> float:
        """The privacy parameter of the shuffled reports, at `delta`: `bracket().upper`."""
        return self.bracket().upper

    def bracket(self) -> ShuffleBracket:
        """The proven privacy parameter of the shuffled reports, and an attained one."""
        hiding = _honest(self.num_users, self.group_size, self.colluding)
        return _bracket(self.protocol, hiding, self.delta - self._spent, self.participation)

    def exact_delta(self) -> float:
        """The delta of the shuffled reports, at `exact_epsilon()`; at most `delta`."""
        return self.delta

    def reported_variance(self, outcome: Tree, num_users: int) -> np.ndarray | None:
        """The protocol's error as estimated from its reports."""
        return self.protocol.reported_variance(outcome, num_users)

    @property
    def variance_kind(self) -> Kind:
        """The protocol's `variance_kind`."""
        return self.protocol.variance_kind

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> np.ndarray:
        """The mean squared error of the protocol."""
        return self.protocol.variance(counts, inputs)

    def worst_case_variance(self, num_users: int) -> Prediction:
        """The largest mean squared error of the protocol over all data sets of a size."""
        return self.protocol.worst_case_variance(num_users)

    @property
    def answers_bins(self) -> bool:
        """Whether the protocol's estimate is of the users in each bin."""
        return self.protocol.answers_bins

    def truth(self, counts: ArrayLike, inputs: Tree = None) -> np.ndarray | None:
        """The target of the protocol."""
        return self.protocol.truth(counts, inputs)

    def population_truth(
        self, probabilities: ArrayLike, num_users: int, inputs: Tree = None
    ) -> np.ndarray | None:
        """The target of the protocol for users drawn from a distribution."""
        return self.protocol.population_truth(probabilities, num_users, inputs)

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless it fits the protocol and has `num_users` users.

        With public labels each class must have `group_size` of them, in expectation where users
        are drawn.
        """
        self.protocol.check_population(population)
        if self.participation == 1:
            check_enough(population, self.num_users)
        area = auc_protocol(self.protocol)
        if area is not None and area.labels == "public":
            sizes = area.alike(population)
            least = math.inf if sizes is None else sizes.min()
            if least < self._together:
                raise ValueError(
                    f"the smaller class has {least:.0f} users who report alike, fewer than "
                    f"group_size = {self._together}, for which the privacy was computed; lower "
                    "group_size."
                )


def _check_hidden(protocol: Spec[Any]) -> None:
    """Raises TypeError where privacy is not pure, and what hides the reports is not known."""
    if protocol.exact_delta() > 0:
        sent = messages(protocol)
        if sent.together:
            raise TypeError(
                f"protocol must be {_LOCAL} where users answer in several rounds, got {protocol!r}."
            )
        sent.delta(1, 1.0)


def _honest(num_users: int, group_size: int | None, colluding: float) -> int:
    """How many reports hide each other: an adversary subtracts those of the users who collude.

    Raises:
      ValueError: all of a group may collude.
    """
    honest = (group_size or num_users) - math.ceil(colluding * num_users)
    if honest < 1:
        raise ValueError(
            f"colluding must leave a user in each group, got {colluding} of {num_users} users and "
            f"group_size = {group_size}."
        )
    return honest


@functools.lru_cache(maxsize=64)
def _bracket(
    protocol: Spec[Any], num_users: int, delta: float, participation: float
) -> ShuffleBracket:
    return messages(protocol, participation).bracket(num_users, delta)


def _calibrated(
    make: Callable[..., Any], epsilon: float, n: int, delta: float, participation: float
) -> Any:
    """The protocol with the largest privacy parameter, about, whose shuffled reports are private.

    It starts from what is enough for all reports, or for several rounds from what is without a
    shuffler, and goes on while a delta proves it.
    """
    target = epsilon * (1 - _BRACKETED)

    def attempt(local: float) -> tuple[Any, float]:
        """The protocol, and by how much the logarithm of its delta is too large."""
        try:
            protocol = make(epsilon=local)
            found = messages(protocol, participation).delta(n, target)
        except ValueError:
            return None, math.inf  # words of 32 bits do not realise it
        return protocol, math.log(found / delta) if found else -math.inf

    low = enough = local_epsilon(epsilon, n, delta)
    first, close = make(epsilon=epsilon), _CLOSE
    pure = first.exact_delta() == 0
    if messages(first).together or not pure:
        low, close = epsilon, _CLOSE_TOGETHER
    if not pure:
        enough = epsilon  # what is enough for pure reports says nothing of these
    best, below = make(epsilon=low), -math.inf
    if not pure and attempt(low)[1] > 0:
        raise ValueError(
            f"delta must be larger, or num_users, for epsilon = {epsilon:g}, got {delta:g} and "
            f"{n}: nothing is proven of the shuffled reports of {best!r}."
        )
    high, above, step = math.inf, math.inf, 1 + 2 * close
    while high - low > close * low and low < _LARGEST:
        if math.isinf(high):
            tried = min(max(low * step, enough), _LARGEST)
            # Far beyond what is private, nothing quick is known of noise.
            step = step**4 if pure else min(step**4, 1.5)
        elif math.isfinite(above - below):
            # ln delta is about linear in epsilon here; aim past the root at the further end.
            tried = low + (high - low) * below / (below - above)
            tried += close / 2 * low * (1 if tried - low < high - tried else -1)
        else:
            tried = (low + high) / 2
        if not low < tried < high:
            tried = (low + high) / 2
        protocol, excess = attempt(tried)
        if excess <= 0:
            best, low, below = protocol, tried, excess
        else:
            high, above = tried, excess
    return best


def _spent(protocol: Spec[Any], num_users: int, delta: float, group_size: int | None) -> float:
    """The probability, bounded, of a random group of fewer than `group_size` users.

    Raises:
      TypeError, ValueError: groups of the size cannot be promised.
    """
    area = auc_protocol(protocol)
    if area is not None and area.labels == "public" and group_size is None:
        raise ValueError(
            f"group_size must be given for public labels, got None: reports of {protocol!r} hide "
            "among those of the same label; give the size of the smaller class."
        )
    groups = messages(protocol).groups
    if len(groups) == 1:
        return 0.0
    spent = 1.0 if group_size is None else _small_group(num_users, groups, group_size)
    if spent > delta / 2:
        slack = math.sqrt(num_users * math.log(2 * len(groups) / delta) / 2)
        size = math.floor(min(groups) * num_users - slack)  # by Hoeffding's bound
        raise ValueError(
            f"group_size must be given as what random groups with shares {groups} of {num_users} "
            f"users attain, got {group_size}; "
            + (f"{size} will do." if size > 0 else "there are too few users.")
        )
    return spent


def _small_group(num_users: int, shares: tuple[float, ...], size: int) -> float:
    """A bound on the probability that a random group has fewer than `size` users: Chernoff's."""
    total, x = 0.0, size / num_users
    for p in shares:
        if x >= p:
            return 1.0
        # Chernoff: Pr[Binomial(n, p) <= n x] <= exp(-n KL(x || p)) for x < p
        total += math.exp(-num_users * float(relative_entropy(x, p)))
    return total


def check_enough(population: Population, num_users: int) -> None:
    """Raises ValueError where there are fewer users than the guarantee is for."""
    if population.num_users < num_users:
        raise ValueError(
            f"the population has {population.num_users} users, fewer than num_users = {num_users}, "
            "for which the privacy was computed; lower num_users."
        )
