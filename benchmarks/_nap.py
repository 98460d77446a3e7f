"""Cells that sleep, which need nothing to be imported."""

import dataclasses
import time
from typing import Any

BEGINS: list[float] = []
"""When each cell of this process began."""


@dataclasses.dataclass(frozen=True)
class Nap:
    """A cell that sleeps."""

    number: int
    seconds: float

    @property
    def labels(self) -> dict[str, int]:
        """Its number."""
        return {"number": self.number}

    def rows(self) -> list[dict[str, Any]]:
        """Sleeps."""
        BEGINS.append(time.time())
        time.sleep(self.seconds)
        return [{"number": self.number}]
