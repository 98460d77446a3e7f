"""The privacy of shuffled protocols: of one report a user, of several rounds, of groups."""

import functools
import math
from typing import Any, NamedTuple

from .._contract import Sent, Spec, Work
from ..accounting import PrivacyLoss, ShuffleBracket
from ..pairwise import AUCProtocol, OnGrid

_POINTS = 10  # of a round's loss in a standard deviation: 0.1 % of epsilon


class Messages(NamedTuple):
    """What the users of a protocol send to a shuffler.

    Attributes:
      protocol: the spec.
      sent: by round; empty for one report of each user.
      together: whether each user sends all of them; else one, that of its group.
    """

    protocol: Spec[Any]
    sent: tuple[Sent, ...]
    together: bool

    @property
    def groups(self) -> tuple[float, ...]:
        """The shares of the random groups of users who send something different."""
        if self.together or not self.sent:
            return (1.0,)
        return tuple(part.share for part in self.sent for _ in range(part.times))

    @property
    def _kinds(self) -> list[Spec[Any]]:
        return list(dict.fromkeys(part.reports for part in self.sent))

    def delta(self, num_users: int, epsilon: float) -> float:
        """A proven delta, of `num_users` that hide each other in each round."""
        if not self.sent:
            return self.protocol.shuffle_delta(num_users, epsilon)
        if self.together:
            return _loss(self.sent, num_users).delta(epsilon)
        return max(reports.shuffle_delta(num_users, epsilon) for reports in self._kinds)

    def bracket(self, num_users: int, delta: float) -> ShuffleBracket:
        """The epsilon, between bounds; see `Shuffled`."""
        if not self.sent:
            return self.protocol.shuffle_bracket(num_users, delta)
        if not self.together:
            uppers = [reports.shuffle_bracket(num_users, delta).upper for reports in self._kinds]
            # Groups are larger than `num_users`, so nothing is attained.
            return ShuffleBracket(0.0, max(uppers), math.inf)
        upper = min(_loss(self.sent, num_users).epsilon(delta), self.protocol.exact_epsilon())
        return ShuffleBracket(0.0, upper, math.inf)


def messages(protocol: Spec[Any]) -> Messages:
    """What the users of a protocol send.

    Raises:
      TypeError: it is not known well enough.
    """
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
