"""Errors of `ThreeRound`: of its centre, of the split of the users, and a bound for all kernels."""

import math
from typing import Any

import numpy as np
from jaxtyping import Float

from ...randomizers import BinaryResponse, Laplace, MeanRandomizer, PrivUnitG
from ..kernels._exact import Form
from . import _group_errors as errors


def error_bound(
    norm: float,
    radius: float,
    num_values: int,
    num_users: int,
    epsilon: float,
    dim: int,
    shares: tuple[float, float, float] | None,
) -> float:
    """A proven bound for all kernels with given norms; see `ThreeRound.error_bound`."""
    if shares is None:
        n, vectors = float(num_users), PrivUnitG(dim, epsilon / 4, radius)
        off = off_mean(vectors, radius, np.array([n]), dim, 2 * num_values)
        # Theorem 24: Laplace noise of numbers within |W|, and within tau = 4 |W|: 1 + 16
        total = 17 * norm**2 * Laplace(epsilon / 4).worst_case_variance(num_users)
        total += vectors.worst_case_variance(1) / n * float(off[0])
        # Answers without noise are within 2 |W|, and |R_v - mu| <= 2 C, as in `ThreeRound`.
        tails = errors.answer_tails(
            errors.tail_of(vectors), 1.0, np.array([2 * radius]), n, np.zeros(1)
        )
        lost = float(errors.clipped(np.array([2 * norm]), 4 * norm, tails)[0][0])
        return (math.sqrt(total) + math.sqrt(lost)) ** 2
    errors.check_groups(num_users, shares)
    sizes, weights = errors.group_sizes(num_users, shares)
    first, second, third = sizes
    # h_S W h_A + h_B W h_S - h_B W h_A over the groups A, B and S, minus the target; averages
    # of products of two entries of W are at most |W|**2.
    terms: list[tuple[Any, errors.Term]] = [
        (1.0, ("T", 0, 2)),
        (1.0, ("T", 1, 2)),
        (-1.0, ("T", 0, 1)),
    ]
    products = errors.mean_square(terms, sizes) - errors.square_of_target("u", float(num_users))
    split = np.abs(products).sum(axis=0) * norm**2
    vectors = PrivUnitG(dim, epsilon, radius)
    off = off_mean(vectors, radius, first, dim, num_values)
    later = second + third
    across = off * radius**2 * (1 / second + 1 / third) * later / (later - 1)
    # The noise of y times R (h_S - h_A) - o; `spread` bounds the square of the first part.
    spread = radius**2 * num_users / (num_users - 1) * (1 / first + 1 / third)
    vector = vectors.worst_case_variance(1) * (np.sqrt(spread) + np.sqrt(off)) ** 2 / second
    # E max z**2 <= 2 v (1 + log(2 k)) over k normal-like numbers and their negatives
    tail = errors.tail_of(vectors)
    noise = np.sqrt(2 * tail.variance * radius**2 / second * (1 + math.log(2 * num_values)))
    scalar = BinaryResponse(epsilon).worst_case_variance(1) * (2 * norm + noise) ** 2 / third
    return float(weights @ ((np.sqrt(split) + np.sqrt(across)) ** 2 + vector + scalar))


def off_mean(
    randomizer: MeanRandomizer,
    radius: float,
    num_users: Float[np.ndarray, " m"],
    dim: int,
    num_vertices: int,
) -> Float[np.ndarray, " m"]:
    """A bound on `E |mu - R h|**2`, h of the users of the first round.

    The error of the raw mean, or `E max <z, w>` over the vertices w, whichever is smaller; see
    `Projected`.
    """
    tail = errors.tail_of(randomizer)
    raw = dim * randomizer.worst_case_variance(1) / num_users
    width = np.array([tail.of_mean(n).largest(num_vertices, radius) for n in num_users])
    return np.minimum(raw, width)


def sampled(
    matrix: Float[np.ndarray, "k k"],
    users: Float[np.ndarray, " k"] | None,
    products: Float[np.ndarray, "7 m"],
    drawn: bool,
) -> Float[np.ndarray, " m"]:
    """The mean square with given coefficients on the averages of W minus a constant."""
    if users is None:
        # A constant in W moves estimate and target alike: W minus the middle of its range.
        return np.abs(products).sum(axis=0) * (float(np.ptp(matrix)) / 2) ** 2
    diagonal = np.diagonal(matrix)
    middle = errors.averages(matrix, diagonal, users, drawn).pair
    centred = errors.averages(matrix - middle, diagonal - middle, users, drawn)
    return np.maximum(centred.of(products), 0.0)


def split_products(
    form: Form, n: float, sizes: Float[np.ndarray, "3 m"], drawn: bool
) -> Float[np.ndarray, "7 m"]:
    """The coefficients of the mean square of what the split of the users errs by."""
    step, extra = (1.0, 0.0) if form == "u" else (1 - 1 / n, 1 / n)
    terms: list[tuple[Any, errors.Term]] = [
        (step, ("T", 0, 2)),
        (step, ("T", 1, 2)),
        (-step, ("T", 0, 1)),
        (extra, ("d", 2)),
    ]
    products = errors.mean_square(terms, sizes)
    return products - (0.0 if drawn else errors.square_of_target(form, n))
