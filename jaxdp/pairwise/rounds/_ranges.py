"""The noise of numbers within a random range: a quadrature by fixed normal draws.

A user sends a bit for its number f(v) between the largest and the least f, which depend on earlier
reports: the mean square of the range has no closed form. The means of many reports are nearly
normal, so it is averaged over fixed draws of normal vectors with the covariance that they have.
"""

import numpy as np
from jaxtyping import Float

_MOST_DRAWS, _FEWEST_DRAWS = 2**14, 2**6


def num_draws(num_values: int, dim: int, work: int = 2**31) -> int:
    """How many draws: many where the range varies much and draws are cheap, for few values.

    Args:
      num_values: k.
      dim: of the vectors.
      work: products of a number of a vector with one of a column, at most.
    """
    return int(np.clip(work // (num_values * dim) // 2 * 2, _FEWEST_DRAWS, _MOST_DRAWS))


def normal_draws(number: int, dim: int, seed: int) -> Float[np.ndarray, "number dim"]:
    """Fixed standard normal vectors, in pairs of opposites, of variance 1 in each coordinate."""
    half = np.random.default_rng(seed).standard_normal((number // 2, dim))
    draws = np.concatenate([half, -half])
    return draws / np.sqrt(np.mean(draws**2, axis=0))


def column_covariance(
    columns: Float[np.ndarray, "k l"], share: Float[np.ndarray, " k"]
) -> Float[np.ndarray, "l l"]:
    """The covariance of the column of one user."""
    centred = columns - share @ columns
    return (centred.T * share) @ centred


def group_variance(size: float, num_users: float, drawn: bool) -> float:
    """The variance of the mean over a random group, by that of one of all users.

    Users of a group are drawn without replacement; independent users are as if with it.
    """
    return 1 / size if drawn else (num_users / size - 1) / (num_users - 1)


def normals(
    draws: Float[np.ndarray, "number l"], covariance: Float[np.ndarray, "l l"]
) -> Float[np.ndarray, "number l"]:
    """Normal vectors of a covariance from standard ones."""
    values, vectors = np.linalg.eigh(covariance)
    return draws @ (vectors * np.sqrt(np.maximum(values, 0.0))).T


def number_noise(
    numbers: Float[np.ndarray, "number k"], share: Float[np.ndarray, " k"], unit: float, bit: bool
) -> float:
    """The mean variance of a user's number, where numbers are sent within half of their range.

    Args:
      numbers: f in each draw.
      share: of the users with each value.
      unit: the worst variance of a number in [-1, 1].
      bit: whether a number x in [-1, 1] has the variance `unit - x**2`, rather than `unit`.
    """
    high, low = numbers.max(axis=1), numbers.min(axis=1)
    noise = unit * ((high - low) / 2) ** 2
    if bit:
        noise = noise - (numbers - ((high + low) / 2)[:, None]) ** 2 @ share
    return float(np.mean(noise))
