"""What the protocols of several rounds share: broadcasts, random groups and their exact moments.

A round tells every user a number f(v) for each value v, and a user answers with the own one,
randomized. As f is public, so are its largest and least values: users send `(f(v) - middle) / tau`,
which is in [-1, 1] when `tau` is half of the range of f, and nothing is clipped.

Predictions for disjoint random groups rest on the averages of products of W over tuples of
different users, which are the same whichever users join which group; see `Averages`.
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._spec import check_choice, check_real
from .._x64 import compiled_in_float64
from ..linear._encoded import EncodedLawParams
from ..linear._tails import Tail
from ..randomizers._binary import BinaryResponse
from ..randomizers._laplace import Laplace
from ._exact import Form

SCALARS = ("bit", "laplace")

_NODES = 16
_EMPTY = 1e-9  # the largest accepted probability of a group with fewer than two users


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class RoundsOutcome:
    """What was told to the users, and what they answered, in one run; a pytree.

    Attributes:
      broadcasts: what the users of later rounds were told, by name.
      tallies: what each round's users answered together, by name.
    """

    broadcasts: dict[str, Any]
    tallies: dict[str, Any]


def scalar_randomizer(kind: str, epsilon: float) -> BinaryResponse | Laplace:
    """The randomizer of a number in [-1, 1]."""
    return BinaryResponse(epsilon) if kind == "bit" else Laplace(epsilon)


def check_scalar(kind: Any, tau: Any) -> float | None:
    """Returns the clipping bound as a float or None, or raises unless both are valid."""
    check_choice("scalar", kind, SCALARS)
    return None if tau is None else check_real("tau", tau, low=0.0)


def broadcast(values, tau):
    """What users of a scalar round are told; inside an x64 block.

    Rounded to float32 at last, so that the last bits of float64 sums, which differ between
    programs, do not show.

    Args:
      values: float64[k], f.
      tau: the clipping bound, or None for half of the range.

    Returns:
      {"values": float32[k] in [-1, 1], "middle": float32[], "tau": float32[]}, such that f is
      `middle + tau * values` up to clipping.
    """
    if tau is None:
        high, low = jnp.max(values), jnp.min(values)
        middle = ((high + low) / 2).astype(jnp.float32)
        tau = jnp.maximum((high - low) / 2, 1e-20).astype(jnp.float32)
    else:
        middle, tau = jnp.float32(0), jnp.asarray(tau).astype(jnp.float32)
    inside = (values - middle.astype(jnp.float64)) / tau.astype(jnp.float64)
    told = jnp.clip(inside, -1.0, 1.0).astype(jnp.float32)
    return {"values": told, "middle": middle, "tau": tau}


def scalar_round(scalar, told) -> EncodedLawParams:
    """The params of a round in which users answer with their number of a `broadcast`."""
    return EncodedLawParams(scalar, told["values"], None, np.zeros((), np.float64))


@compiled_in_float64
def scalar_mean(scalar, told, tally):
    """The estimated mean of f over the users who answered, float[]."""
    middle, tau = (told[name].astype(jnp.float64) for name in ("middle", "tau"))
    return middle + tau * scalar.estimate(tally)


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

    Of a binomial it is that of the Krawtchouk polynomials, with 16 nodes: the expectations of the
    predictions, which are rational in the sizes, come out to about nine digits.
    """
    n = float(num_users)
    sizes, weights = np.zeros((0, 1)), np.ones(1)
    left, mass = np.full(1, n), 1.0
    for share in shares[:-1]:
        p = share / mass
        index = np.arange(_NODES)[:, None]
        diagonal = left * p + index * (1 - 2 * p)
        off = np.sqrt(np.maximum((index + 1) * (left - index), 0.0) * p * (1 - p))[:-1]
        values, found = [], []
        for column in range(left.size):
            jacobi = np.diag(diagonal[:, column])
            jacobi += np.diag(off[:, column], 1) + np.diag(off[:, column], -1)
            nodes, vectors = np.linalg.eigh(jacobi)
            values.append(nodes.clip(2.0, left[column] - 2.0))
            found.append(vectors[0] ** 2)
        drawn = np.concatenate(values)
        weights = np.concatenate([w * f for w, f in zip(weights, found, strict=True)])
        sizes = np.concatenate([np.repeat(sizes, _NODES, axis=1), drawn[None]])
        left, mass = np.repeat(left, _NODES) - drawn, mass - share
    return Groups(np.concatenate([sizes, left.clip(2.0)[None]]), weights)


def check_groups(num_users: int, shares: tuple[float, ...]) -> None:
    """Raises unless every random group has two users, but for a probability of 1e-9."""
    p = min(shares)
    few = (num_users - 1) * math.log1p(-p) + math.log1p((num_users - 1) * p)
    if few > math.log(_EMPTY):
        raise ValueError(
            f"num_users = {num_users} users are too few for random groups with the shares "
            f"{shares}: one may have fewer than two; use more users, or a protocol of one round."
        )


def check_shares(name: str, shares: Any, count: int) -> tuple[float, ...]:
    """Returns the shares of the groups, or raises unless they are positive and of sum 1."""
    if not isinstance(shares, (tuple, list)) or len(shares) != count:
        raise TypeError(f"{name} must be a tuple of {count} numbers, got {shares!r}.")
    found = tuple(check_real(name, share, low=0.0, high=1.0) for share in shares)
    if not math.isclose(sum(found), 1.0, abs_tol=1e-9):
        raise ValueError(f"{name} must have the sum 1, got {shares!r}; divide by the sum.")
    return found


class Averages(NamedTuple):
    """Averages over tuples of different users, for a symmetric W and numbers d of the users.

    Attributes:
      apart: of `W_ij W_kl`.
      shared: of `W_ij W_il`.
      same: of `W_ij**2`.
      own_in: of `W_ij d_i`.
      own_out: of `W_ij d_k`.
      own_same: of `d_i**2`.
      own_apart: of `d_i d_j`.
      pair: of `W_ij`.
      own: of `d_i`.
    """

    apart: float
    shared: float
    same: float
    own_in: float
    own_out: float
    own_same: float
    own_apart: float
    pair: float
    own: float

    def of(self, products: np.ndarray) -> np.ndarray:
        """The expectations that `product` gave the coefficients of."""
        return np.tensordot(np.array(self[:7]), products, axes=1)


def averages(matrix: np.ndarray, own: np.ndarray, users: np.ndarray, drawn: bool) -> Averages:
    """The averages over tuples of users.

    Args:
      matrix: W, symmetric float64[k, k].
      own: d, float64[k].
      users: float64[k], how many given users hold each value (at least 4 users), or, if `drawn`,
        the probabilities of independent users.
      drawn: see `users`.
    """
    if drawn:
        rows, mean = matrix @ users, users @ own
        pair = users @ rows
        first = (pair**2, users @ rows**2, users @ matrix**2 @ users)
        others = (users @ (own * rows), pair * mean, users @ own**2, mean**2)
        return Averages(*map(float, (*first, *others, pair, mean)))
    n = users.sum()
    diagonal = np.diagonal(matrix)
    rows = matrix @ users - diagonal  # of a user's W over all others
    total, squares = users @ rows, users @ rows**2
    same = users @ matrix**2 @ users - users @ diagonal**2
    shared = squares - same
    apart = total**2 - 4 * squares + 2 * same
    mean, inner = users @ own, users @ (own * rows)
    square = users @ own**2
    two, three = n * (n - 1), n * (n - 1) * (n - 2)
    first = (apart / (three * (n - 3)), shared / three, same / two)
    others = (inner / two, (total * mean - 2 * inner) / three, square / n, (mean**2 - square) / two)
    return Averages(*map(float, (*first, *others, total / two, mean / n)))


def product(one: tuple, other: tuple, sizes: np.ndarray) -> np.ndarray:
    """The coefficients, on the first seven averages, of the mean product of two statistics.

    Args:
      one: ("T", g, h), the mean of W_ij over i in group g and j in another group h; ("U", g), that
        over pairs of different users of g; or ("d", g), the mean of d over g.
      other: the same; "U" only if both are of at most one group in common.
      sizes: float64[groups, ...], of the groups.

    Returns:
      float64[7, ...].
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
        found = (apart, shared, same, zero, zero, zero, zero)
    elif kinds == "TU":
        once = (2 / n[other[1]]) if other[1] in one[1:] else zero
        found = (1 - once, once, zero, zero, zero, zero, zero)
    elif kinds == "UU" and one == other:
        a = n[one[1]]
        pairs = a * (a - 1)
        found = ((a - 2) * (a - 3) / pairs, 4 * (a - 2) / pairs, 2 / pairs, zero, zero, zero, zero)
    elif kinds == "UU":
        found = (unit, zero, zero, zero, zero, zero, zero)
    elif kinds in ("Td", "Ud"):
        group = other[1]
        times = 2 if kinds == "Ud" else 1
        once = times / n[group] if group in one[1:] else zero
        found = (zero, zero, zero, once, 1 - once, zero, zero)
    else:
        once = 1 / n[one[1]] if one == other else zero
        found = (zero, zero, zero, zero, zero, once, 1 - once)
    return np.stack(np.broadcast_arrays(*found))


def mean_square(terms: Sequence[tuple[Any, tuple]], sizes: np.ndarray) -> np.ndarray:
    """The coefficients of the mean square of a combination of statistics, float64[7, ...].

    Args:
      terms: (factor, statistic), as of `product`; factors float64[...].
      sizes: float64[groups, ...].
    """
    total = np.zeros((7, *sizes.shape[1:]))
    for (x, one), (y, other) in itertools.product(terms, repeat=2):
        total += x * y * product(one, other, sizes)
    return total


def square_of_target(form: Form, num_users: float) -> np.ndarray:
    """The coefficients of the square of the statistic of all users, float64[7, 1]."""
    n = num_users
    terms = [(1.0, ("U", 0))]
    if form == "v":
        terms = [(1 - 1 / n, ("U", 0)), (1 / n, ("d", 0))]
    return mean_square(terms, np.full((1, 1), n))


def squared_range(high: np.ndarray, low: np.ndarray, tails: list[Tail]) -> float:
    """A bound on E tau**2, tau half of the range of random numbers f_v.

    By `tau <= (A + B) / 2` with A the largest f_v above a center and B the largest below, and a
    union bound over v for the probability that either exceeds t, summed over a grid.

    Args:
      high: float64[k], of which and
      low: float64[k] the part of f_v without noise is between.
      tails: of the noise of each f_v.
    """
    center = (high.max() + low.min()) / 2
    variance, scale = np.array(tails).T
    above, below = (_second_moment(part, variance, scale) for part in (high - center, center - low))
    return ((math.sqrt(above) + math.sqrt(below)) / 2) ** 2


def _second_moment(means: np.ndarray, variance: np.ndarray, scale: np.ndarray) -> float:
    """A bound on the second moment of the positive part of the largest `means + noise`."""
    reach = np.max(means + np.sqrt(2 * variance * 80) + 80 * scale)
    start = max(float(means.max()), 0.0)
    if reach <= start:
        return start**2
    grid = start + (reach - start) * np.linspace(0, 1, 513) ** 2
    beyond = sum(
        np.exp(-_exponent(grid - m, v, s)) for m, v, s in zip(means, variance, scale, strict=True)
    )
    beyond = np.minimum(beyond, 1.0)
    return float(start**2 + np.sum(beyond[:-1] * np.diff(grid**2))) * (1 + 1e-12)


def _exponent(distance, variance, scale):
    """`d**2 / (2 (v + s d))`, Bernstein's exponent; infinite for noise that is zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = distance**2 / (2 * (variance + scale * distance))
    return np.where(distance > 0, found, 0.0)


def clipped(size: np.ndarray, tau: float, tails: list[Tail]) -> tuple[np.ndarray, np.ndarray]:
    """Bounds on what clipping takes from numbers f_v: on `E excess**2` and on `E (f**2 - clip**2)`.

    With a = tau - size > 0 and Bernstein's exponent q, convex and increasing, the tail beyond a + u
    is at most `2 exp(-q(a) - q'(a) u)`, whose moments are elementary.

    Args:
      size: float64[k], bounds on |E f_v|.
      tau: the clipping bound.
      tails: of the noise of each f_v.

    Returns:
      float64[k] twice; infinite where tau is not above size.
    """
    variance, scale = np.array(tails).T
    gap = tau - size
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        root = variance + scale * gap
        slope = gap * (2 * variance + scale * gap) / (2 * root**2)
        chance = np.exp(-(gap**2) / (2 * root))
        second, first = 4 * chance / slope**2, 2 * chance / slope
    still = root == 0  # no noise
    second, first = (np.where(still, 0.0, x) for x in (second, first))
    outside = gap <= 0
    second, first = (np.where(outside, np.inf, x) for x in (second, first))
    return second, second + 2 * tau * first
