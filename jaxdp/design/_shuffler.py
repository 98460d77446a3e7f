"""Protocols whose reports pass a shuffler, as plans make them."""

import dataclasses
from typing import Any

from ..trusted import Shuffled
from ._question import Maker


@dataclasses.dataclass(frozen=True)
class BehindShuffler:
    """Makes the protocol whose shuffled reports have a given epsilon.

    Attributes:
      make: makes the protocol from its local epsilon and the number of users.
      delta: of the shuffled reports.
    """

    make: Maker
    delta: float

    def __call__(self, epsilon: float, num_users: int) -> Shuffled:
        """The protocol with the largest local epsilon, about, that is enough."""

        def local(epsilon: float) -> Any:
            return self.make(epsilon, num_users)

        return Shuffled.calibrated(local, epsilon, num_users, self.delta)

    def around(self, epsilon: float, num_users: int) -> Shuffled:
        """The protocol with a local epsilon, whose shuffled reports have what follows from it."""
        return Shuffled(self.make(epsilon, num_users), num_users, self.delta)
