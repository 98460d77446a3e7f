"""How the hierarchical AUC spends epsilon: on levels, and on a randomized label."""

import functools
import math

from ..accounting import split_epsilon
from ..randomizers import KRR


@functools.lru_cache(maxsize=256)
def level_epsilon(epsilon: float, num_levels: int, delta: float, split: str) -> float:
    """The privacy parameter of a report on one level."""
    return epsilon if split == "users" else split_epsilon(epsilon, num_levels, delta, split)


def square_scale(bit: KRR) -> float:
    """The square of the scale c that decodes a randomized bit."""
    p, q = bit.probabilities()
    return 1 / float(p - q) ** 2


@functools.lru_cache(maxsize=256)
def label_part(epsilon: float, height: int, split: str, delta: float) -> float:
    """The part of epsilon for the label with the least `V (1 + 2 kappa)`, by a golden section.

    That is `c**2 (1 + c'**2) / 2`, with the scales `c = coth(epsilon / 2)` of a bit of the score
    and c' of a label.
    """

    def cost(part: float) -> float:
        score = level_epsilon(epsilon - part, height, delta, split)
        return math.tanh(score / 2) ** -2 * (1 + math.tanh(part / 2) ** -2)

    low, high, ratio = 0.01 * epsilon, 0.99 * epsilon, (math.sqrt(5) - 1) / 2
    for _ in range(40):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, right) if cost(left) < cost(right) else (left, high)
    return (low + high) / 2
