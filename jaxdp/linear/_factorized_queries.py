"""Linear queries by the approximate factorization mechanism."""

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from .._checks import Boolean, Choice, Epsilon, Integer, Optional, Real
from .._contract import field, spec
from .._given_factors import check_product, given_factors
from .._queries import WORKLOAD
from .._spec import FrozenArray
from ..factorization import Factorization, gamma2, gamma2_approx, gamma_f, gamma_f_approx
from ..randomizers import MeanRandomizer, PrivUnitG
from ._encoded import (
    RANDOMIZER,
    EmbeddedRound,
    EncodedProtocol,
    Encoding,
    VectorMaker,
    make_randomizer,
)

_SOLVERS = {"max": (gamma2, gamma2_approx), "mean": (gamma_f, gamma_f_approx)}
_TOL = 1e-3  # of approximate factorizations: their errors are of second order in it
_ROUNDS = 8
_FULL = 1e-6  # of squared singular values: a factor without null directions
_ENOUGH = 1.01  # times the least error there can be


class Factors(NamedTuple):
    """`left^T right + shift 1^T`, the workload that is answered.

    Attributes:
      left: float64[l, m].
      right: float64[l, k].
      shift: float64[m].
    """

    left: Float[np.ndarray, "l m"]
    right: Float[np.ndarray, "l k"]
    shift: Float[np.ndarray, " m"]

    @property
    def matrix(self) -> Float[np.ndarray, "m k"]:
        """The product of the factors, shifted."""
        return self.left.T @ self.right + self.shift[:, None]

    @property
    def norm(self) -> float:
        """The largest column norm of left times that of right."""
        return float(np.prod([np.linalg.norm(side, axis=0).max() for side in self[:2]]))


@spec
class FactorizedQueries(EncodedProtocol[MeanRandomizer]):
    """The approximate factorization mechanism: `W ~ L^T R + u 1^T`, users report columns of R.

    A user with value v sends a randomized `R_v`, and the answers are `L^T (mean of reports) + u`.
    With an isotropic randomizer of variance `sigma**2 |R|**2` in every direction, `|R|` the largest
    column norm, answer j has the variance `|L_j|**2 |R|**2 sigma**2 / n`. So the best factors for
    the worst answer are those of the norm gamma_2, and for the mean over the answers those of
    gamma_F. A constant u_j for each query is free: histograms sum to 1.

    For few users a biased workload may be better. With `num_users` the alpha of least
    `gamma_2(W - u 1^T; alpha)**2 sigma**2 / n + alpha**2`, or of gamma_F with `norm="mean"`, is
    used where it promises at least 1 % less than alpha = 0; with `alpha`, that one. Then u is that
    of alpha = 0, or the middle of the range of each query, whichever is better.

    Formal guarantees:
      * Privacy: the randomizer's, pure epsilon-LDP for `PrivUnitG`.
      * Bias of an answer: at most `bias` on every data set; 0, up to rounding, unless `num_users`
        or `alpha` is given.
      * Mean squared errors: exact in `variance` and the other predictions, for the factors as
        built, their columns rounded to float32. With an isotropic randomizer `worst_case_variance`
        is at most `gamma_2**2 sigma**2 / n + alpha**2`, with equality for alpha = 0.

    Edge cases:
      ==================================  ====================================================
      W is constant in every row          answers u, whatever the reports
      num_users is small                  warns with the number from which reports improve on
                                          answering u by 1 %
      population of another domain size   ValueError: both sizes are named
      more than 2**42 users               ValueError: sums are kept in 63 bits
      ==================================  ====================================================

    The factorization is computed when it is first needed, in some minutes for 1,000 values, and
    kept for equal specs. For larger workloads pass an explicit one.

    Args:
      workload: float[m, k], a query a row; or an `Operator`.
      epsilon: privacy parameter.
      num_users: n that alpha is chosen for; the population may have another size.
      alpha: the largest error of an entry of W to allow, >= 0, instead of num_users; None for 0.
      factorization: a `Factorization` of `workload`, or (left, right) or (left, right, shift) with
        `left` [l, m] and `right` [l, k], instead of computing one. A `Factorization` brings its
        alpha and shift.
      randomizer: makes the spec of a randomizer of vectors in a ball from the keywords dim, epsilon
        and radius, such as `PrivUnitG`, `PrivUnit`, `L2Ball`, `functools.partial(Gaussian,
        delta=1e-6)`.
      shift: whether to use the constants u.
      norm: "max" for the worst answer; or "mean" for the mean over the answers.

    Raises:
      ValueError: an argument is out of range, the workload is empty or not finite, or a given
        factorization is not one of the workload.
      TypeError: an argument is of the wrong kind, or is traced, or `randomizer` needs more.

    Example:
      >>> import jaxdp
      >>> from jaxdp.linear import FactorizedQueries
      >>> protocol = FactorizedQueries(jaxdp.workloads.prefix(16), epsilon=1.0)
      >>> round(protocol.worst_case_variance(num_users=1), 2)  # 1.18666**2 * 6.33004
      8.91
      >>> plain = FactorizedQueries(jaxdp.workloads.prefix(16), epsilon=1.0, shift=False)
      >>> round(plain.worst_case_variance(num_users=1), 2)
      18.39

    References:
      Edmonds, Nikolov, Ullman (2020), The power of factorization mechanisms in local and central
      differential privacy, Theorem 10; Ghazi et al. (2023), Theorem 4. The shift is derived here.
    """

    workload: Any = field(WORKLOAD)  # stored as a FrozenArray
    epsilon: float = field(Epsilon())
    num_users: int | None = field(Optional(Integer(1)), default=None)
    alpha: float | None = field(Optional(Real(0.0, closed=True)), default=None)
    factorization: Any = None  # stored as a tuple of three FrozenArrays
    randomizer: VectorMaker = field(RANDOMIZER, default=PrivUnitG)
    shift: bool = field(Boolean(), default=True)
    norm: str = field(Choice("max", "mean"), default="max")

    def validate(self) -> None:
        """Raises unless the arguments fit together; stores a given factorization."""
        if self.num_users is not None and (self.alpha is not None or self.factorization):
            raise ValueError(
                f"num_users must be None where alpha or factorization is given, got "
                f"{self.num_users!r}: it is what alpha is chosen for."
            )
        if self.factorization is not None:
            self._accept(self.factorization)
        dim = min(self.num_queries, self.num_values)
        make_randomizer(self.randomizer, dim, self.epsilon, 1.0)

    def _accept(self, given: object) -> None:
        """Stores a given factorization as (left, right, shift), or raises unless it fits."""
        left, right, shift, alpha = given_factors(given)
        alpha = alpha if self.alpha is None else self.alpha
        sizes = (("left", left, self.num_queries, "m"), ("right", right, self.num_values, "k"))
        for name, side, size, letter in sizes:
            if side.ndim != 2 or side.shape[1] != size:
                raise ValueError(
                    f"factorization: {name} must have shape [l, {letter}] with {letter} = {size}, "
                    f"got {side.shape}; W is left.T @ right."
                )
        if left.shape[0] != right.shape[0] or shift.shape not in ((), left.shape[1:]):
            raise ValueError(
                "factorization: left and right must have as many rows, and shift one entry for "
                f"each query, got shapes {left.shape}, {right.shape} and {shift.shape}."
            )
        factors = Factors(left, right, np.broadcast_to(shift, left.shape[1:]))
        check_product(factors.matrix, self.workload.values, alpha, "the workload")
        self.settle(alpha=alpha, factorization=tuple(FrozenArray(x) for x in factors))

    def factors(self) -> Factors:
        """The factors in use; the largest column norm of `right` is 1."""
        return _factors(self)

    @property
    def bias(self) -> float:
        """The largest bias of an answer over all data sets."""
        return float(np.abs(self.contributions()[0] - self.workload.values).max())

    def _encode(self) -> Encoding[MeanRandomizer]:
        """A value's vector is its column of `right`."""
        left, right, shift = self.factors()
        vectors = right.T.astype(np.float32)
        size, radius = right.shape[0], EmbeddedRound.radius_of(vectors)
        randomizer = make_randomizer(self.randomizer, size, self.epsilon, radius)
        return Encoding(vectors, left.T, shift, randomizer)


@functools.lru_cache(maxsize=64)
def _factors(protocol: FactorizedQueries) -> Factors:
    if _asks_for_the_histogram(protocol):
        return _of_the_identity(protocol.num_values)
    if protocol.factorization is not None:
        left, right, shift = (x.values for x in protocol.factorization)
    else:
        solution, shift = _solve(protocol)
        left, right = solution.left, solution.right
    left, right = _without_null_directions(left, right)
    size = float(np.linalg.norm(right, axis=0).max())
    return Factors(left * size, right / (size or 1.0), shift)


def _solve(protocol: FactorizedQueries) -> tuple[Factorization, np.ndarray]:
    """The factorization of the workload minus a shift, and the shift."""
    workload = protocol.workload.values
    nearly = _SOLVERS[protocol.norm][1]
    exact = _exact(protocol.workload, protocol.norm, protocol.shift)
    shifts = [np.zeros(len(workload)) if exact.shift is None else exact.shift]
    if protocol.shift:  # for large alpha the middle of the range is the better constant
        shifts.append((workload.min(axis=1) + workload.max(axis=1)) / 2)
    if protocol.alpha:
        shifted = [workload - shift[:, None] for shift in shifts]
        solutions = [nearly(matrix, protocol.alpha, tol=_TOL) for matrix in shifted]
        pairs = zip(solutions, shifts, strict=True)
        solution, shift = min(pairs, key=lambda pair: float(pair[0].upper))
        return solution.settled("the workload"), shift
    if protocol.num_users is None:
        return exact, shifts[0]
    unit = make_randomizer(protocol.randomizer, exact.rank, protocol.epsilon, 1.0)
    noise = unit.worst_case_variance(protocol.num_users)  # sigma**2 / n
    solution, shift, error = _trade(workload, exact, shifts, noise, nearly)
    # What answering the shift alone costs: half of the largest range, squared
    blind = min(np.abs(workload - shift[:, None]).max() for shift in shifts) ** 2
    if error * _ENOUGH > blind > 0:
        warnings.warn(
            f"num_users = {protocol.num_users} is so small that the worst root mean squared error, "
            f"{math.sqrt(error):.3g}, is hardly less than without any reports, "
            f"{math.sqrt(blind):.3g}.",
            stacklevel=2,
        )
    return solution, shift


def _asks_for_the_histogram(protocol: FactorizedQueries) -> bool:
    """Whether the exact factorization of the identity minus its best shift is asked for."""
    if protocol.factorization is not None or protocol.num_users is not None or protocol.alpha:
        return False
    values = protocol.workload.values
    square = len(values) == values.shape[1] > 1
    return protocol.shift and square and np.array_equal(values, np.eye(len(values)))


def _of_the_identity(size: int) -> Factors:
    """The factors of the identity minus its best shift, by both norms.

    By symmetry the shift is 1 / k, which leaves the projection across the constant vector. The norm
    of a semidefinite matrix with a constant diagonal is that entry, since the trace norm over k
    bounds both from below.
    """
    # The reflection that takes the first axis to the constant vector has rows across it but one.
    normal = -np.full(size, size**-0.5)
    normal[0] += 1.0
    rows = np.eye(size)[1:] - np.outer(normal[1:], 2 * normal / (normal @ normal))
    length = float(np.linalg.norm(rows, axis=0).max())
    return Factors(rows * length, rows / length, np.full(size, 1 / size))


@functools.lru_cache(maxsize=16)
def _exact(workload: FrozenArray, norm: str, shift: bool) -> Factorization:
    """The exact factorization, which no epsilon and no randomizer changes."""
    return _SOLVERS[norm][0](workload.values, shift=shift).settled("the workload")


def _trade(
    workload: Float[np.ndarray, "m k"],
    exact: Factorization,
    shifts: list[Float[np.ndarray, " m"]],
    noise: float,
    nearly: Callable[..., Factorization],
) -> tuple[Factorization, Float[np.ndarray, " m"], float]:
    """The factorization with the least `gamma(W; alpha)**2 noise + alpha**2` over alpha.

    gamma(W; alpha), gamma_2 or gamma_F, is convex in alpha. The witness U of a solution at one
    alpha proves a lower bound at all others, a line of slope -sum |U|; the next alpha is the best
    for the largest of the lines, until that proves that no other is better by a percent. The
    witness of `exact` does not see shifts, so that its line holds for all of them.

    Args:
      workload: W.
      exact: its factorization for alpha = 0, with the first shift.
      shifts: of which the best is taken.
      noise: the variance of the mean of reports in one direction.
      nearly: the solver for alpha > 0.

    Returns:
      The factorization, its shift, and the worst mean squared error.
    """
    best, error = (exact, shifts[0]), float(exact.upper) ** 2 * noise
    for shift in shifts:
        lines = [_line(exact)]
        for _ in range(_ROUNDS):
            alpha, bound = _lowest(lines, noise)
            if error <= _ENOUGH * bound:
                break
            solution = nearly(workload - shift[:, None], alpha, tol=_TOL)
            value = float(solution.upper) ** 2 * noise + alpha**2
            if value < error:
                best, error = (solution, shift), value
            lines.append(_line(solution))
    return *best, error


def _line(solution: Factorization) -> tuple[float, float]:
    """(value at alpha = 0, -slope) of the lower bound on gamma(W; .) that a solution proves."""
    # gamma(W; alpha) >= <U, W> - alpha |U|_1 for a dual witness U of dual norm at most 1
    slope = float(np.abs(solution.dual).sum())
    return float(solution.lower) + slope * float(solution.alpha), slope


def _lowest(lines: list[tuple[float, float]], noise: float) -> tuple[float, float]:
    """The alpha with the least `max(lines, 0)**2 noise + alpha**2`, and that."""

    def value(alpha: float) -> float:
        height = max(0.0, *(start - slope * alpha for start, slope in lines))
        return height**2 * noise + alpha**2

    # The minimum is at 0, at that of one line, or where two lines cross.
    alphas = [0.0]
    for i, (start, slope) in enumerate(lines):
        # (start - slope alpha)**2 noise + alpha**2 is least at
        alphas.append(start * slope * noise / (1 + slope**2 * noise))
        alphas += [
            (start - other) / (slope - fall)
            for other, fall in lines[:i]
            if (start - other) * (slope - fall) > 0
        ]
    alpha = min(alphas, key=value)
    return alpha, value(alpha)


def _without_null_directions(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same product with fewer rows, where a factor does not have full rank."""
    for _ in range(2):  # the null directions of right, then those of left
        squares = np.linalg.eigvalsh(right @ right.T)
        if squares[0] > _FULL * squares[-1]:  # far from it, and a tenth of the work to see
            left, right = right, left
            continue
        rotation, values, _ = np.linalg.svd(right, full_matrices=False)
        # No more than rounding: a small query may have a direction of its own.
        span = rotation[:, values > 64 * len(right) * np.finfo(np.float64).eps * values[0]]
        if 0 < span.shape[1] < len(right):
            left, right = span.T @ left, span.T @ right
        left, right = right, left
    return left, right
