"""Subsampling before shuffling."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from .._chernoff import frequency_range
from .._spec import check_int, check_real, within_float64
from ._shuffle import MAX_USERS
from ._shuffle_channel import PairLaw, check_pairs

_MARGIN = 1 + 1e-12


def sampled_pairs(pairs: Sequence[PairLaw], rate: float) -> list[PairLaw]:
    """The pairs of reports that each user sends with a probability alone, and else a blank.

    Blanks are reports that are as likely under all values. So users who toss a coin, each in
    secret, before they report are users of another channel, which `pair_shuffle_bracket` and
    `pair_shuffle_delta` take: `num_users` is then all users, blanks included. Nothing is lost but
    that who sees the reports may count the blanks, which tells nothing of values.

    Formal guarantees:
      Exact: a bracket of these pairs is one of the sampled reports.

    Edge cases:
      =====================================  =====================================================
      users chosen by somebody who is known  no guarantee where the choice is known: whoever knows
                                             it sees the reports of fewer users, of the plain pairs
      =====================================  =====================================================

    Args:
      pairs: of the reports, as of `pair_shuffle_bracket`.
      rate: the probability of a report, in (0, 1].

    Returns:
      As many pairs, with a class more: that of blanks.

    Raises:
      ValueError: the rate is out of range.

    Example:
      >>> from jaxdp.accounting import pair_shuffle_bracket, sampled_pairs
      >>> from jaxdp.randomizers import KRR
      >>> pairs = KRR(5, 1.0).pair_laws()
      >>> for rate in (1.0, 0.1):
      ...     found = pair_shuffle_bracket(sampled_pairs(pairs, rate), 10_000, delta=1e-6)
      ...     print(f"{found.upper:.4f}")
      0.0314
      0.0090

    References:
      Balle, Bell, Gascón, Nissim (2019), The privacy blanket of the shuffle model.
    """
    rate = check_rate("rate", rate)

    def with_blank(law: np.ndarray) -> np.ndarray:
        law = np.asarray(law, np.float64)
        blank = np.full((*law.shape[:-1], 1), 1 - rate)
        return np.concatenate([rate * law, blank], axis=-1)

    return [
        PairLaw(*(with_blank(law) for law in (pair.first, pair.second, pair.least, pair.others)))
        for pair in check_pairs(pairs)
    ]


@within_float64
def sampled_shuffle_delta(
    delta_of: Callable[[int, float], float], num_users: int, rate: float, epsilon: float
) -> float:
    """The delta of the shuffled reports of users who each take part with a probability, in secret.

    For reports of which only the delta is known that shuffling leaves. Given how many take part,
    which tells nothing of values, they are a uniform set of m of n users. A user whose value
    changes is one of them with probability m / n; if not, the reports are those of m others, as if
    another user had replaced it. So by the joint convexity of divergences

        delta(ln(1 + m / n (e**eps - 1))) = m / n delta_m(eps).

    Formal guarantees:
      Proven, rounded up: numbers of users below m1 and above m2 count as delta = 1 with Chernoff's
      bound of their probability, all others as m1 with the share m2 / n, since more users are more
      private, and so are fewer users for the share.

    Edge cases:
      =====================================  =====================================================
      users chosen by somebody who is known  no guarantee where the choice is known
      `sampled_pairs` can be taken           take that: it is exact
      =====================================  =====================================================

    Args:
      delta_of: a proven delta of m shuffled reports at epsilon, such as
        `KRR(5, 1.0).shuffle_delta`; it must not increase with m.
      num_users: n, who may take part; 1 to 10**10.
      rate: the probability, in (0, 1].
      epsilon: of the sampled and shuffled reports, in [0, 100].

    Returns:
      delta, in [0, 1].

    Raises:
      ValueError: an argument, or a delta, is out of range.
      TypeError: `delta_of` is no function.

    Example:
      >>> from jaxdp.accounting import sampled_shuffle_delta
      >>> from jaxdp.randomizers import KRR
      >>> plain = KRR(5, 1.0).shuffle_delta
      >>> found = sampled_shuffle_delta(plain, num_users=10_000, rate=0.1, epsilon=0.02)
      >>> found < plain(1000, 0.02) / 1000
      True

    References:
      Balle, Barthe, Gaboardi (2018), Privacy amplification by subsampling: tight analyses via
      couplings and divergences, Theorems 2 and 9.
    """
    n = check_int("num_users", num_users, low=1, high=MAX_USERS)
    rate = check_rate("rate", rate)
    epsilon = check_real("epsilon", epsilon, low=0.0, high=100.0, open_ends=False)
    if not callable(delta_of):
        raise TypeError(f"delta_of must be a function of m and epsilon, got {delta_of!r}.")

    def known(users: int, epsilon: float) -> float:
        try:
            found = delta_of(users, epsilon)
        except TypeError as error:
            raise TypeError(f"delta_of must be a function of m and epsilon: {error}") from error
        return check_real("delta_of", found, low=0.0, high=1.0, open_ends=False)

    if rate == 1:
        return known(n, epsilon)
    best = 1.0
    # Any window is a proof; wider ones have less outside, and fewer users.
    for log_tail in (10.0, 20.0, 30.0, 40.0, 60.0, 90.0):
        low, high = _window(n, rate, log_tail)
        if low < 1:
            continue
        share = high / n
        larger = math.log1p(math.expm1(epsilon) / share) * (1 - 1e-15)
        inside = share * known(low, min(larger, 100.0))
        best = min(best, (inside + 2 * math.exp(-log_tail)) * _MARGIN)
    return best


def _window(n: int, rate: float, log_tail: float) -> tuple[int, int]:
    """Numbers that Bin(n, rate) is below or above with probability e**-log_tail each, at most."""
    least, most = frequency_range(rate, n, log_tail * _MARGIN)
    return math.floor(n * least), math.ceil(n * most)


def check_rate(name: str, rate: object) -> float:
    """Returns a probability as a float, or raises unless it is one above 0."""
    probability = check_real(name, rate, low=0.0, high=1.0, open_ends=False)
    if probability == 0:
        raise ValueError(f"{name} must be above 0, got 0: nobody would report.")
    return probability
