"""Protocols whose users report several times."""

import dataclasses
from typing import Any

from ..accounting import split_epsilon
from ..randomizers import Gaussian
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
        noise = protocol.encoding().randomizer if hasattr(protocol, "encoding") else protocol
        if not isinstance(noise, Gaussian):
            raise ValueError(
                "is not planned for several reports: what they reveal together is known of pure "
                "and of Gaussian ones."
            )
        return make(_share(noise, num_reports, epsilon, delta), num_users)

    return made


def _share(noise: Gaussian, num_reports: int, epsilon: float, delta: float) -> float:
    """The largest epsilon of a Gaussian report, several of which are (epsilon, delta)-private."""
    low, high = 0.0, epsilon
    while high - low > _TOL * high:
        middle = (low + high) / 2
        one = dataclasses.replace(noise, epsilon=middle)
        if one.composed_delta(num_reports, epsilon) <= delta:
            low = middle
        else:
            high = middle
    return low
