"""What shuffled reports with Gaussian noise on a grid reveal."""

import dataclasses
import functools
import math

from ..accounting import (
    PairLaw,
    ShuffleBracket,
    gaussian_pairs,
    pair_shuffle_bracket,
    pair_shuffle_delta,
)
from ..random import NormalNoise

_FAR = 2.0**-56  # probability of a rounded vector that is longer than is accounted for
_MOST = (0.25, 1.0, 4.0)  # epsilons, up to which the distance from normal noise is weighed


@dataclasses.dataclass(frozen=True, eq=False)
class HiddenNoise:
    """Shuffled reports whose noise is nearly a rounded normal.

    Attributes:
      proven: hides less than all pairs of vectors, with normal noise; None where little hides it.
      attained: a pair of vectors with normal noise.
      distance: the total variation between a user's report and what `proven` holds for.
    """

    proven: PairLaw | None
    attained: PairLaw
    distance: float

    def _off(self, num_users: int, epsilon: float) -> float:
        """What the distances of all users add to delta."""
        return (1 + math.exp(epsilon)) * num_users * self.distance

    def delta(self, num_users: int, epsilon: float) -> float:
        """A proven delta at epsilon; 1 where none is."""
        if self.proven is None:
            return 1.0
        at = min(epsilon, _MOST[-1])
        return min(pair_shuffle_delta([self.proven], num_users, at) + self._off(num_users, at), 1.0)

    def bracket(self, num_users: int, delta: float) -> ShuffleBracket:
        """Bounds of the epsilon at delta; `upper` is inf where none is proven."""
        if self.proven is None:
            return ShuffleBracket(0.0, math.inf, math.inf)
        for most in _MOST:
            off = self._off(num_users, most)
            if off < delta and self.delta(num_users, most) <= delta:
                pairs = [self.proven, self.attained]
                found = pair_shuffle_bracket(pairs, num_users, delta - off)
                attained = pair_shuffle_bracket([self.attained], num_users, delta + off)
                return dataclasses.replace(found, lower=attained.lower)
        return ShuffleBracket(0.0, math.inf, math.inf)


@functools.lru_cache(maxsize=64)
def hidden_noise(
    dim: int, radius: float, longest: float, sigma: float, num_steps: int
) -> HiddenNoise:
    """The noise that hides vectors in a ball.

    Args:
      dim: d.
      radius: of a ball that holds two opposite vectors.
      longest: the largest norm of a vector in parts of a grid step.
      sigma: of the noise.
      num_steps: grid steps in sigma, nominal.
    """
    noise = NormalNoise.of(num_steps)
    step = sigma / noise.steps
    # An entry x_i is rounded to x_i + e_i with E e_i = 0 and E e_i**2 <= s**2 / 4. The squared norm
    # gains 2 x_i e_i + e_i**2, in a range of s (2 |x_i| + s): Hoeffding's inequality.
    spread = step * (2 * longest + step * math.sqrt(dim)) * math.sqrt(-math.log(_FAR) / 2)
    rounded = math.sqrt(longest**2 + dim * step**2 / 4 + spread)
    try:
        proven = gaussian_pairs(dim, rounded, sigma)[0]
    except ValueError:  # the blanket is below all floats
        proven = None
    attained = gaussian_pairs(1, radius, sigma, step)[1]
    return HiddenNoise(proven, attained, dim * noise.distance + _FAR)
