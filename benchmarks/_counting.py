"""This package's vectorised clients, whose reports are counted as they are made."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxdp
from jaxdp.audit import AuditReport, estimate_epsilon_from_counts, reports_needed
from jaxdp.engine import Words, outcome, params
from jaxdp.randomizers import (
    KRR,
    AffineHashing,
    CountedRound,
    DiscreteLaplace,
    HadamardBit,
    HadamardResponse,
    ProjectiveGeometryResponse,
    Randomizer,
    SubsetSelection,
    UnaryEncoding,
)

NUM_TESTS = 2  # the two orders of the inputs
MOST = 10**9  # reports of an input


class Client(NamedTuple):
    """A client, of values from 0 on.

    Attributes:
      make: its spec, by epsilon.
      num_values: of its domain.
      inputs: the two that are compared.
    """

    make: Callable[[float], Randomizer[Any]]
    num_values: int
    inputs: tuple[int, int] = (0, 1)


CLIENTS = {
    "KRR": Client(lambda epsilon: KRR(16, epsilon), 16),
    "SubsetSelection": Client(lambda epsilon: SubsetSelection(8, epsilon), 8),
    "UnaryEncoding": Client(lambda epsilon: UnaryEncoding(4, epsilon), 4),
    "HadamardResponse": Client(lambda epsilon: HadamardResponse(16, epsilon), 16),
    "HadamardBit": Client(lambda epsilon: HadamardBit(16, epsilon), 16),
    "AffineHashing": Client(lambda epsilon: AffineHashing(8, epsilon), 8),
    "ProjectiveGeometryResponse": Client(lambda epsilon: ProjectiveGeometryResponse(7, epsilon), 7),
    "DiscreteLaplace": Client(lambda epsilon: DiscreteLaplace(0, 4, epsilon), 5, (0, 4)),
}


@params
class Packed(CountedRound):
    """A randomizer whose reports are sets in one word below 256, with each of them counted."""

    inner: Any

    @property
    def num_words(self) -> int:
        return self.inner.num_words

    @property
    def num_bins(self) -> int | None:
        return self.inner.num_bins

    @property
    def num_reports(self) -> int:
        return 256

    def from_bits(self, words: Words, value: jax.Array, /) -> jax.Array:
        return self.inner.from_bits(words, value)[0].astype(jnp.int32)

    def estimate(self, outcome: Any, /) -> jax.Array:
        return outcome.numpy()


def counted(spec: Any) -> CountedRound:
    """The params of a spec, with a tally that is a histogram of whole reports."""
    built = spec.build()
    return built if isinstance(built, CountedRound) else Packed(built)


def likely(spec: Randomizer[Any], inputs: tuple[int, int]) -> float:
    """The probability of all reports that are `e**epsilon` times as likely under the first input.

    By Neyman and Pearson no event of that ratio is likelier.
    """
    first, second = (np.asarray(spec.channel(inputs=[x]), np.float64)[0] for x in inputs)
    return float(first[first >= second * math.exp(spec.epsilon) * (1 - 1e-6)].sum())


@dataclasses.dataclass(frozen=True)
class Counting:
    """An audit of a vectorised client at one claim.

    Attributes:
      name: a key of `CLIENTS`.
      epsilon: the claim.
      excess: relative to the claim, what is to be shown with a power of 0.99.
    """

    name: str
    epsilon: float
    excess: float = 0.05

    def size(self) -> int:
        """Reports of each input that show the excess."""
        make, _, inputs = CLIENTS[self.name]
        # The client under test has the excess: its likeliest event is that of its own epsilon.
        probability = likely(make(self.epsilon * (1 + self.excess)), inputs)
        return reports_needed(self.epsilon, probability, excess=self.excess, num_tests=NUM_TESTS)

    def audit(self, size: int, planted: bool = False, seed: int = 0) -> AuditReport:
        """The audit of the client, or of one that has the excess."""
        make, num_values, inputs = CLIENTS[self.name]
        spec = make(self.epsilon * (1 + planted * self.excess))
        reports = counted(spec)
        counts, key = {}, jax.random.key(seed)
        for place, value in enumerate(inputs):
            histogram = np.zeros(num_values, np.int64)
            histogram[value] = size // 2
            users = jaxdp.Population.from_histogram(histogram)
            halves = (
                outcome(
                    reports, users, jax.random.fold_in(key, 2 * place + half), method="per_user"
                )
                for half in range(2)
            )
            counts[value] = np.stack([half.numpy() for half in halves])
        return estimate_epsilon_from_counts(counts, self.epsilon)


def finest(name: str, epsilon: float) -> Counting:
    """The audit whose excess takes `MOST` reports of each input, up to a tenth of it."""
    excess = 0.05
    while (size := Counting(name, epsilon, excess).size()) < MOST / 1.1:
        excess *= math.sqrt(max(size, MOST / 100) / MOST)
    return Counting(name, epsilon, excess)


def audits(claims: Sequence[float]) -> list[Counting]:
    """Each client by an excess of 5 %; one of them by the least excess that `MOST` reports show."""
    return [
        *(Counting(name, epsilon) for name in CLIENTS for epsilon in claims),
        finest("KRR", 1.0),
    ]
