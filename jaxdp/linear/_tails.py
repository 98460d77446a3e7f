"""Exponential tails of randomizers: how large the largest noise of many answers is."""

import functools
import math
from typing import NamedTuple

import numpy as np

from ..randomizers._gaussian import Gaussian
from ..randomizers._gaussian_rejection import GaussianRejection
from ..randomizers._l2_ball import L2Ball
from ..randomizers._laplace import Laplace
from ..randomizers._mean import MeanRandomizer
from ..randomizers._priv_unit import PrivUnit
from ..randomizers._priv_unit_g import PrivUnitG


class Tail(NamedTuple):
    """A noise z with `log E exp(t <z, u>) <= t**2 variance / (2 (1 - scale t))` for unit vectors u.

    For every input, every u and 0 <= t < 1 / scale; z is a report minus its mean.

    Attributes:
      variance: at least that of `<z, u>`.
      scale: 0 for sub-Gaussian noise.
    """

    variance: float
    scale: float

    def of_mean(self, num_users: float) -> "Tail":
        """That of the mean of independent noises."""
        return Tail(self.variance / num_users, self.scale / num_users)

    def largest(self, count: int, norm: float = 1.0) -> float:
        """A bound on `E max <z, w>` over `count` vectors w of at most this norm.

        `norm (sqrt(2 variance log(count)) + scale log(count))`: Boucheron, Lugosi, Massart (2013),
        Corollary 2.6.
        """
        log = math.log(count)
        return norm * (math.sqrt(2 * self.variance * log) + self.scale * log)


def tail_of(randomizer: MeanRandomizer) -> Tail | None:
    """A proven tail of one report's noise; None where none is known.

    * `Gaussian`: itself. `Laplace`: `-log(1 - t**2 b**2) <= t**2 b**2 / (1 - t b)`.
    * `PrivUnitG`: across the input a normal, along it `_tilted`.
    * `PrivUnit`, `L2Ball`: reports have a fixed length, Bernstein's inequality.
    * `GaussianRejection`, repaired: a report's coordinate is `g B z`, z normal and B in {0, 1}; so
      `E |B z|**q <= E |z|**q`, which is at most `q! / 2 E[B z**2] c**(q - 2)` for the c below, the
      condition of Bernstein's inequality.
    """
    if isinstance(randomizer, Gaussian):
        return Tail(randomizer.sigma**2, 0.0)
    if isinstance(randomizer, Laplace):
        return Tail(2 * randomizer.scale**2, randomizer.scale)
    if isinstance(randomizer, PrivUnitG):
        p, q = randomizer.probabilities()
        square = (randomizer.radius / randomizer.threshold) ** 2
        return Tail(square * _tilted(randomizer.threshold, p, q), 0.0)
    if isinstance(randomizer, PrivUnit | L2Ball):
        length = (
            1 / randomizer.threshold if isinstance(randomizer, PrivUnit) else randomizer.magnitude
        )
        largest = randomizer.radius * (length + 1)
        return Tail(randomizer.worst_case_variance(1), largest / 3)
    if isinstance(randomizer, GaussianRejection) and randomizer.variant == "repaired":
        law = randomizer.kept_law(randomizer.radius)
        along = law.probability * (law.variance + law.mean**2) / randomizer.sigma**2
        square = max(along, law.probability)  # at least E[B z**2] in every direction
        powers = range(3, 64)
        logs = [math.log(2 * _absolute_moment(q) / square) - math.lgamma(q + 1) for q in powers]
        scale = max(math.exp(log / (q - 2)) for log, q in zip(logs, powers, strict=True))
        gain = randomizer.gain * randomizer.sigma
        return Tail(gain**2 * square, gain * scale)
    return None


@functools.lru_cache(maxsize=256)
def _tilted(gamma: float, p: float, q: float) -> float:
    """The least s with `log E exp(t (a - E a)) <= s t**2 / 2` for the coordinate of `PrivUnitG`.

    a is standard normal given a >= gamma with probability p, and given the opposite otherwise:
    `E exp(t a) = exp(t**2 / 2) G(t)`, `G(t) = (p / q) Q(gamma - t) + (1-p) / (1-q) Q(t - gamma)`
    with Q the normal tail. As `E a = gamma`, `log G(t) - gamma t` is concave and at most 0 for
    t > 0, and convex and at most `gamma |t|` for t < 0: s is a little more than 1, attained for
    some t in (-40, 0).
    """
    t = -np.geomspace(1e-2, 40.0, 4000)
    tails = np.array([math.erfc((gamma - x) / math.sqrt(2)) / 2 for x in t])
    grown = np.log((p / q) * tails + (1 - p) / (1 - q) * (1 - tails)) - gamma * t
    return 1 + 1e-4 + max(0.0, float(np.max(2 * grown / t**2)))


def _absolute_moment(q: int) -> float:
    """E |z|**q of a standard normal z."""
    return math.exp(q / 2 * math.log(2) + math.lgamma((q + 1) / 2)) / math.sqrt(math.pi)
