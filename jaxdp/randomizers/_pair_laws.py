"""How reports that hold sets of values tell two values apart."""

import numpy as np

from ..accounting import PairLaw


def set_pair_law(
    patterns: np.ndarray, inside: float, outside: float, constant: float = 0.0
) -> PairLaw:
    """The law of a pair of values, for reports that are as likely as whether they hold the value.

    Args:
      patterns: float64[2, 2, 2], a measure of the reports, by whether they hold the first value,
        the second one and a third one; none of them holds all values.
      inside: likelihood of a report that holds the user's value, relative to the measure.
      outside: of one that does not.
      constant: probability of the reports that are as likely under all values.
    """
    weights = np.ravel(patterns)
    held = np.stack(np.unravel_index(np.arange(8), (2, 2, 2)))
    laws = np.append(weights * np.where(held, inside, outside), np.full((3, 1), constant), axis=1)
    least = np.append(weights * outside, constant)
    return PairLaw(laws[0], laws[1], least, laws[[2, 0, 1]])


def set_patterns(num_values: int, set_size: int) -> np.ndarray:
    """How often a uniform set holds which of three values: `set_pair_law`'s patterns."""
    k, d = num_values, set_size
    held = np.indices((2, 2, 2)).sum(axis=0)
    # falling factorials: d .. (d - j + 1) (k - d) .. (k - d - 2 + j) / (k (k - 1) (k - 2))
    inside = np.array([1, d, d * (d - 1), d * (d - 1) * (d - 2)], float)
    outside = np.array(
        [1, k - d, (k - d) * (k - d - 1), (k - d) * (k - d - 1) * (k - d - 2)], float
    )
    return inside[held] * outside[3 - held] / (float(k) * (k - 1) * (k - 2))
