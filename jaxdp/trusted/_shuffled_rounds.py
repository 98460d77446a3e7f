"""The privacy of shuffled protocols: of one report a user, of several rounds, of groups."""

import functools
import math
from typing import Any, NamedTuple

from .._contract import Sent, Spec, Work
from ..accounting import (
    PairLaw,
    PrivacyLoss,
    ShuffleBracket,
    pair_shuffle_bracket,
    pair_shuffle_delta,
    sampled_pairs,
    sampled_shuffle_delta,
)
from ..accounting._shuffle_channel import crossing
from ..pairwise import AUCProtocol, OnGrid

_POINTS = 10  # of a round's loss in a standard deviation: 0.1 % of epsilon


class Messages(NamedTuple):
    """What the users of a protocol send to a shuffler.

    Attributes:
      protocol: the spec.
      sent: by round; empty for one report of each user.
      together: whether each user sends all of them; else one, that of its group.
      participation: the probability that a user sends them, by a coin that nobody sees.
    """

    protocol: Spec[Any]
    sent: tuple[Sent, ...]
    together: bool
    participation: float = 1.0

    @property
    def groups(self) -> tuple[float, ...]:
        """The shares of the random groups of users who send something different."""
        if self.together or not self.sent:
            return (1.0,)
        return tuple(part.share for part in self.sent for _ in range(part.times))

    @property
    def _kinds(self) -> list[Spec[Any]]:
        return list(dict.fromkeys(part.reports for part in self.sent))

    @property
    def _sampled(self) -> list[PairLaw] | None:
        """The pairs of reports and blanks, where pairs of reports are known."""
        reports = self.protocol
        while reports.reporter is not None:
            reports = reports.reporter
        pairs = reports.pair_laws()
        return None if pairs is None else sampled_pairs(pairs, self.participation)

    def _sampled_delta(self, num_users: int, epsilon: float) -> float:
        """At most that of users who all take part: to drop some of their reports tells less."""
        whole, rate = self.protocol.shuffle_delta, self.participation
        if (pairs := self._sampled) is not None:
            found = pair_shuffle_delta(pairs, num_users, epsilon)
        else:
            found = sampled_shuffle_delta(whole, num_users, rate, epsilon)
        return min(found, whole(num_users, epsilon))

    def _sampled_bracket(self, num_users: int, delta: float) -> ShuffleBracket:
        """The upper end; the lower end is not asked for."""
        whole = self.protocol.shuffle_bracket(num_users, delta).upper
        if (pairs := self._sampled) is not None:
            found = pair_shuffle_bracket(pairs, num_users, delta).upper
        else:
            guess = self.participation * whole
            found = crossing(lambda e: self._sampled_delta(num_users, e), delta, guess)[1]
        return ShuffleBracket(0.0, min(found, whole), math.inf)

    def delta(self, num_users: int, epsilon: float) -> float:
        """A proven delta, of `num_users` that hide each other in each round."""
        if self.participation < 1:
            return self._sampled_delta(num_users, epsilon)
        if not self.sent:
            return self.protocol.shuffle_delta(num_users, epsilon)
        if self.together:
            return _loss(self.sent, num_users).delta(epsilon)
        return max(reports.shuffle_delta(num_users, epsilon) for reports in self._kinds)

    def bracket(self, num_users: int, delta: float) -> ShuffleBracket:
        """The epsilon, between bounds; see `Shuffled`."""
        if self.participation < 1:
            return self._sampled_bracket(num_users, delta)
        if not self.sent:
            return self.protocol.shuffle_bracket(num_users, delta)
        if not self.together:
            uppers = [reports.shuffle_bracket(num_users, delta).upper for reports in self._kinds]
            # Groups are larger than `num_users`, so nothing is attained.
            return ShuffleBracket(0.0, max(uppers), math.inf)
        upper = min(_loss(self.sent, num_users).epsilon(delta), self.protocol.exact_epsilon())
        return ShuffleBracket(0.0, upper, math.inf)


def messages(protocol: Spec[Any], participation: float = 1.0) -> Messages:
    """What the users of a protocol send, with some probability each.

    Raises:
      TypeError: it is not known well enough.
    """
    if participation < 1:
        if messages(protocol).sent or auc_protocol(protocol) is not None:
            raise TypeError(
                f"participation must be 1 for protocols of several rounds or groups, and for areas "
                f"under curves, of which nothing is proven for users who may stay away; got "
                f"{participation} for {protocol!r}."
            )
        return Messages(protocol, (), False, participation)
    if auc_protocol(protocol) is not None:
        return Messages(protocol, (), False)  # the passes of a tree read the same reports again
    sent = protocol.sent
    if not sent:
        steps = protocol.build().rounds(Work(1.0, 1))
        if sum(step.times * step.work.num_users for step in steps) > 1 + 1e-9:
            raise TypeError(
                f"protocol must say by `sent` what its users send, since those of {protocol!r} "
                "answer in several rounds; define that property, or split users into groups."
            )
        shares = tuple(step.work.num_users for step in steps)
        sent = tuple(Sent(protocol, share) for share in shares) if len(shares) > 1 else ()
    together = bool(sent) and all(part.share == 1 for part in sent)
    if not together and sum(part.share * part.times for part in sent) > 1 + 1e-9:
        raise TypeError(
            f"protocol must ask all users in each round, or each user once, but some users of "
            f"{protocol!r} answer in several rounds and others do not."
        )
    return Messages(protocol, sent, together)


def auc_protocol(protocol: Spec[Any]) -> AUCProtocol[Any] | None:
    """The protocol if it is one for the AUC, whose users may hide among those of their label."""
    inner = protocol.protocol if isinstance(protocol, OnGrid) else protocol
    return inner if isinstance(inner, AUCProtocol) else None


@functools.lru_cache(maxsize=32)
def _loss(sent: tuple[Sent, ...], num_users: int) -> PrivacyLoss:
    total = None
    for part in sent:
        loss = _loss_of_round(part.reports, num_users).compose(part.times)
        total = loss if total is None else total + loss
    assert total is not None, "an empty tuple is of one report"
    return total


@functools.lru_cache(maxsize=32)
def _loss_of_round(reports: Spec[Any], num_users: int) -> PrivacyLoss:
    return PrivacyLoss(functools.partial(reports.shuffle_delta, num_users), points=_POINTS)
