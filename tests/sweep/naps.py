"""Cells that cost next to nothing, importable by the processes that tests start."""

import dataclasses
import sys
import time

from jaxdp import sweep


@dataclasses.dataclass(frozen=True)
class Nap:
    """A cell that sleeps; a negative value is an error."""

    value: float
    seconds: float = 0.0

    @property
    def labels(self):
        return (("value", self.value),)

    def rows(self):
        time.sleep(self.seconds)
        if self.value < 0:
            raise ArithmeticError(f"no root of {self.value}")
        return [{"value": self.value, "root": self.value**0.5, "none": None, "powers": [1.0, 2.0]}]


def many_naps():
    return [Nap(float(value), seconds=0.01) for value in range(80)]


def main():
    """Runs them into the folder that is named first, as the shard that is named next."""
    shard = int(sys.argv[2]), int(sys.argv[3])
    print(sweep.run(many_naps(), sys.argv[1], name="naps", shard=shard).computed)
