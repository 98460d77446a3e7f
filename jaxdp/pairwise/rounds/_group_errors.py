"""Errors of protocols with disjoint random groups: sizes, exact moments, and bounds on ranges.

Which users join which group is random, but averages of products of W over tuples of different users
are the same for every split; predictions rest on them, see `Averages`.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from ...randomizers import MeanRandomizer, Tail
from ..kernels._exact import Form

_NODES = 16
_EMPTY = 1e-9  # the largest accepted probability of a group with fewer than two users


class Groups(NamedTuple):
    """A quadrature rule for the sizes of random groups: expectations are `weights @ f(*sizes)`.

    Attributes:
      sizes: float64[g, m].
      weights: float64[m], of sum 1.
    """

    sizes: np.ndarray
    weights: np.ndarray


def group_sizes(num_users: int, shares: tuple[float, ...]) -> Groups:
    """The Gauss rule of the multinomial sizes of groups, which have at least two users each.

    For a binomial it is the rule of the Krawtchouk polynomials, with 16 nodes: the expectations of
    the predictions, which are rational in the sizes, come out to about nine digits.
    """
    n = float(num_users)
    sizes, weights = np.zeros((0, 1)), np.ones(1)
    left, mass = np.full(1, n), 1.0
    for share in shares[:-1]:
        p = share / mass  # the group is binomial among the users who are left
        index = np.arange(_NODES)[:, None]
        # The Jacobi matrix of the recurrence (Golub and Welsch 1969), one for each column of left.
        diagonal = left * p + index * (1 - 2 * p)
        off = np.sqrt(np.maximum((index + 1) * (left - index), 0.0) * p * (1 - p))[:-1]
        nodes, parts = [], []
        for column in range(left.size):
            jacobi = np.diag(diagonal[:, column])
            jacobi += np.diag(off[:, column], 1) + np.diag(off[:, column], -1)
            values, vectors = np.linalg.eigh(jacobi)
            # The predictions divide by m (m - 1): `check_groups` makes smaller groups unlikely.
            nodes.append(values.clip(2.0, left[column] - 2.0))
            # Golub and Welsch: a node's weight is the squared first entry of its eigenvector.
            parts.append(weights[column] * vectors[0] ** 2)
        drawn, weights = np.concatenate(nodes), np.concatenate(parts)
        sizes = np.concatenate([np.repeat(sizes, _NODES, axis=1), drawn[None]])
        left, mass = np.repeat(left, _NODES) - drawn, mass - share
    return Groups(np.concatenate([sizes, left.clip(2.0)[None]]), weights)


def check_groups(num_users: int, shares: tuple[float, ...]) -> None:
    """Raises unless every random group has two users, but for a probability of 1e-9."""
    p = min(shares)
    # Pr[M <= 1] = (1 - p)**(n - 1) (1 + (n - 1) p) for the size M ~ Binomial(n, p) of a group
    few = (num_users - 1) * math.log1p(-p) + math.log1p((num_users - 1) * p)
    if few > math.log(_EMPTY):
        raise ValueError(
            f"num_users = {num_users} users are too few for random groups with the shares "
            f"{shares}: one may have fewer than two; use more users, or a protocol of one round."
        )


class Averages(NamedTuple):
    """Averages over tuples of different users, for a symmetric W and numbers d of the users.

    Attributes:
      apart: of `W_ij W_kl`.
      shared: of `W_ij W_il`.
      same: of `W_ij**2`.
      mixed_in: of `W_ij d_i`.
      mixed_out: of `W_ij d_k`.
      square: of `d_i**2`.
      product: of `d_i d_j`.
      pair: of `W_ij`.
      single: of `d_i`.
    """

    apart: float
    shared: float
    same: float
    mixed_in: float
    mixed_out: float
    square: float
    product: float
    pair: float
    single: float

    def of(self, products: Float[np.ndarray, "7 *m"]) -> Float[np.ndarray, "*m"]:
        """The expectations that `product` gave the coefficients of."""
        return np.tensordot(np.array(self[:7]), products, axes=1)


def averages(
    matrix: Float[np.ndarray, "k k"],
    numbers: Float[np.ndarray, " k"],
    users: Float[np.ndarray, " k"],
    drawn: bool,
) -> Averages:
    """The averages over tuples of users.

    Args:
      matrix: W.
      numbers: d.
      users: how many given users hold each value (at least 4 users), or, if `drawn`, the
        probabilities of independent users.
      drawn: see `users`.
    """
    if drawn:  # different users are independent: averages are products of means
        rows, mean = matrix @ users, users @ numbers
        pair = users @ rows
        first = (pair**2, users @ rows**2, users @ matrix**2 @ users)
        others = (users @ (numbers * rows), pair * mean, users @ numbers**2, mean**2)
        return Averages(*map(float, (*first, *others, pair, mean)))
    n = users.sum()
    diagonal = np.diagonal(matrix)
    rows = matrix @ users - diagonal  # of a user's W over all others
    total, squares = users @ rows, users @ rows**2
    same = users @ matrix**2 @ users - users @ diagonal**2
    # Sums over pairs of pairs, minus those in which users coincide.
    shared = squares - same
    apart = total**2 - 4 * squares + 2 * same
    mean, inner = users @ numbers, users @ (numbers * rows)
    square = users @ numbers**2
    two, three = n * (n - 1), n * (n - 1) * (n - 2)
    first = (apart / (three * (n - 3)), shared / three, same / two)
    others = (inner / two, (total * mean - 2 * inner) / three, square / n, (mean**2 - square) / two)
    return Averages(*map(float, (*first, *others, total / two, mean / n)))


Term = tuple[str, int] | tuple[str, int, int]
"""A statistic of groups: see `product`."""


def product(one: Term, other: Term, sizes: Float[np.ndarray, "g *m"]) -> Float[np.ndarray, "7 *m"]:
    """The coefficients, on the first seven averages, of the mean product of two statistics.

    Args:
      one: ("T", g, h), the mean of W_ij over i in group g and j in another group h; ("U", g), that
        over pairs of different users of g; or ("d", g), the mean of d over g.
      other: the same; "U" only if both are of at most one group in common.
      sizes: of the groups.
    """
    if one[0] > other[0]:
        one, other = other, one
    kinds, n = one[0] + other[0], sizes
    zero, unit = np.zeros(sizes.shape[1:]), np.ones(sizes.shape[1:])
    if kinds == "TT":
        joint = set(one[1:]) & set(other[1:])
        apart, shared, same = unit, zero, zero
        for group in joint:  # the users of a group coincide with probability 1 / size
            once = 1 / n[group]
            same, shared = shared * once, shared * (1 - once) + apart * once
            apart = apart * (1 - once)
        parts = (apart, shared, same, zero, zero, zero, zero)
    elif kinds == "TU":
        # A random pair of a group holds a given user of it with probability 2 / size.
        once = (2 / n[other[1]]) if other[1] in one[1:] else zero
        parts = (1 - once, once, zero, zero, zero, zero, zero)
    elif kinds == "UU" and one == other:
        a = n[one[1]]
        pairs = a * (a - 1)
        # Two random pairs of one group: without a common user, with one, with both
        parts = ((a - 2) * (a - 3) / pairs, 4 * (a - 2) / pairs, 2 / pairs, zero, zero, zero, zero)
    elif kinds == "UU":
        parts = (unit, zero, zero, zero, zero, zero, zero)
    elif kinds in ("Td", "Ud"):
        group = other[1]
        times = 2 if kinds == "Ud" else 1
        once = times / n[group] if group in one[1:] else zero
        parts = (zero, zero, zero, once, 1 - once, zero, zero)
    else:
        once = 1 / n[one[1]] if one == other else zero
        parts = (zero, zero, zero, zero, zero, once, 1 - once)
    return np.stack(np.broadcast_arrays(*parts))


def mean_square(
    terms: Sequence[tuple[Any, Term]], sizes: Float[np.ndarray, "g *m"]
) -> Float[np.ndarray, "7 *m"]:
    """The coefficients of the mean square of a combination of statistics.

    Args:
      terms: (factor, statistic), as in `product`; factors float64[*m].
      sizes: of the groups.
    """
    total = np.zeros((7, *sizes.shape[1:]))
    for (x, one), (y, other) in itertools.product(terms, repeat=2):
        total += x * y * product(one, other, sizes)
    return total


def square_of_target(form: Form, num_users: float) -> Float[np.ndarray, "7 1"]:
    """The coefficients of the square of the statistic of all users."""
    n = num_users
    terms: list[tuple[float, Term]] = [(1.0, ("U", 0))]
    if form == "v":
        # h^T W h averages over n**2 pairs, of which n are of a user with itself.
        terms = [(1 - 1 / n, ("U", 0)), (1 / n, ("d", 0))]
    return mean_square(terms, np.full((1, 1), n))


def tail_of(randomizer: MeanRandomizer) -> Tail:
    """The tail of a report's noise; of scale inf, with the variance alone, where none is known."""
    covariance = randomizer.covariance_form()
    assert covariance is not None, "checked by `check_randomizer`"
    isotropic, along = covariance
    # The largest eigenvalue of `a I + b x x^T`, or a bound on it
    variance = isotropic + max(along, 0.0) * randomizer.largest_value**2
    return randomizer.tail() or Tail(variance, math.inf)


def answer_tails(
    tail: Tail,
    factor: float,
    norms: Float[np.ndarray, " k"],
    num_users: float,
    sampling: Float[np.ndarray, " k"],
) -> list[Tail]:
    """The tails of `factor <y, w_v>`, y the mean of the reports of a random group, for each v.

    Args:
      tail: of a report.
      factor: what the product is multiplied by.
      norms: of the w.
      num_users: in the group.
      sampling: sub-Gaussian variances of what the choice of the group adds.
    """
    scales = [tail.scale if norm > 0 else 0.0 for norm in norms]
    return [
        Tail(factor**2 * (r**2 * tail.variance / num_users + s), abs(factor) * r * c / num_users)
        for r, c, s in zip(norms, scales, sampling, strict=True)
    ]


def over_users(users: Float[np.ndarray, " k"] | None, values: Float[np.ndarray, " k"]) -> float:
    """The mean of a number of each value over the users, or the largest for any users."""
    if users is None:
        return float(values.max())
    held = users > 0  # numbers of other values may be infinite
    return float(users[held] @ values[held] / users.sum())


def squared_range(
    high: Float[np.ndarray, " k"], low: Float[np.ndarray, " k"], tails: list[Tail]
) -> float:
    """A bound on E tau**2, tau half of the range of random numbers f_v.

    By `tau <= (A + B) / 2` with A the largest f_v above a center and B the largest below, and a
    union bound over v for the probability that either exceeds t, summed over a grid. Where only
    variances are known, by `E max z_v**2 <= sum_v E z_v**2`.

    Args:
      high: of which and
      low: the part of f_v without noise is between.
      tails: of the noise of each f_v.
    """
    center = (high.max() + low.min()) / 2
    variance, scale = np.array(tails).T
    if np.any(np.isinf(scale)):  # no tail is known
        return float((high.max() - low.min()) / 2 + math.sqrt(variance.sum())) ** 2
    above, below = (_second_moment(part, variance, scale) for part in (high - center, center - low))
    # Minkowski: the root of E (A + B)**2 is at most the sum of the roots.
    return ((math.sqrt(above) + math.sqrt(below)) / 2) ** 2


def _second_moment(means: np.ndarray, variance: np.ndarray, scale: np.ndarray) -> float:
    """A bound on the second moment of the positive part of the largest `means + noise`."""
    # From here on every tail's exponent is at least 40: next to nothing is beyond.
    reach = np.max(means + np.sqrt(2 * variance * 80) + 80 * scale)
    start = max(float(means.max()), 0.0)
    if reach <= start:
        return start**2
    grid = start + (reach - start) * np.linspace(0, 1, 513) ** 2
    beyond = sum(
        np.exp(-_exponent(grid - m, v, s)) for m, v, s in zip(means, variance, scale, strict=True)
    )
    beyond = np.minimum(beyond, 1.0)  # E max(M, 0)**2 <= start**2 + int Pr[M > t] d(t**2)
    # Tails fall, so the left ends of the steps bound the integral from above.
    return float(start**2 + np.sum(beyond[:-1] * np.diff(grid**2))) * (1 + 1e-12)


def _exponent(distance: np.ndarray, variance: float, scale: float) -> np.ndarray:
    """`d**2 / (2 (v + s d))`, Bernstein's exponent; infinite for noise that is zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        exponent = distance**2 / (2 * (variance + scale * distance))
    return np.where(distance > 0, exponent, 0.0)


def clipped(
    size: Float[np.ndarray, " k"], tau: float, tails: list[Tail]
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """Bounds on what clipping takes from numbers f_v: on `E excess**2` and on `E (f**2 - clip**2)`.

    With a = tau - size > 0 and Bernstein's exponent q, convex and increasing, the tail beyond a + u
    is at most `2 exp(-q(a) - q'(a) u)`, whose moments are elementary. Where only the variance v is
    known, the moments of the excess are at most v and sqrt(v).

    Args:
      size: bounds on |E f_v|.
      tau: the clipping bound.
      tails: of the noise of each f_v.

    Returns:
      Two bounds; infinite where tau is not above size.
    """
    variance, scale = np.array(tails).T
    gap = tau - size
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        root = variance + scale * gap
        # q'(a), for q(a) = a**2 / (2 (v + s a))
        slope = gap * (2 * variance + scale * gap) / (2 * root**2)
        chance = np.exp(-(gap**2) / (2 * root))
        # int 2 u Pr[excess > u] du and int Pr[excess > u] du, with 2 exp(-q(a) - q'(a) u)
        second, first = 4 * chance / slope**2, 2 * chance / slope
    unknown, still = np.isinf(scale), root == 0  # no tail; no noise
    second = np.where(still, 0.0, np.where(unknown, variance, second))
    first = np.where(still, 0.0, np.where(unknown, np.sqrt(variance), first))
    outside = (gap < 0) | ((gap == 0) & ~unknown)
    second, first = (np.where(outside, np.inf, x) for x in (second, first))
    return second, second + 2 * tau * first  # f**2 - tau**2 = e**2 + 2 tau e for the excess e
