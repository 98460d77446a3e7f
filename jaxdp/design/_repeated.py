"""Protocols whose users report several times."""

from typing import Any

from ..accounting import split_epsilon
from ._question import Maker

_TOL = 1e-6  # relative, of the epsilon of one of several reports


def repeated(make: Maker, num_reports: int, delta: float | None) -> Maker:
    """The protocol of one of several reports of a user: a function of (epsilon, num_users).

    Args:
      make: of a protocol.
      num_reports: independent ones, each perhaps of another value.
      delta: of all reports together; None for pure privacy.
    """
    if num_reports == 1:
        return make

    def made(epsilon: float, num_users: int) -> Any:
        protocol = make(split_epsilon(epsilon, num_reports, delta or 0.0), num_users)
        if protocol.exact_delta() == 0:
            return protocol
        assert delta is not None, "protocols are pure without a delta"
        if protocol.composed_delta(num_reports, epsilon) is None:
            raise ValueError(
                "is not planned for several reports: what they reveal together is known of pure "
                "and of Gaussian ones."
            )
        # The largest epsilon of one report with which all of them are private.
        low, high = 0.0, epsilon
        while high - low > _TOL * high:
            middle = (low + high) / 2
            if make(middle, num_users).composed_delta(num_reports, epsilon) <= delta:
                low = middle
            else:
                high = middle
        return make(low, num_users)

    return made
