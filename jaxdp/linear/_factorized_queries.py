"""Linear queries by the approximate factorization mechanism."""

import dataclasses
import functools
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._queries import check_workload
from .._spec import FrozenArray, check_choice, check_epsilon, check_int, check_real
from ..factorization import Factorization, gamma2, gamma2_approx, gamma_f
from ..randomizers._mean import MeanRandomizer
from ..randomizers._priv_unit_g import PrivUnitG
from ._encoded import Code, EncodedProtocol, make_randomizer, radius_of

_TOL = 1e-3  # of approximate factorizations: their errors are of second order in it
_ROUNDS = 8
_ENOUGH = 1.01  # times the least error there can be


class Factors(NamedTuple):
    """`left^T right + shift 1^T`, the workload that is answered.

    Attributes:
      left: float64[l, m].
      right: float64[l, k].
      shift: float64[m].
    """

    left: np.ndarray
    right: np.ndarray
    shift: np.ndarray

    @property
    def matrix(self) -> np.ndarray:
        """float64[m, k]."""
        return self.left.T @ self.right + self.shift[:, None]

    @property
    def norm(self) -> float:
        """The largest column norm of left times that of right."""
        return float(np.prod([np.linalg.norm(side, axis=0).max() for side in self[:2]]))


@dataclasses.dataclass(frozen=True, slots=True)
class FactorizedQueries(EncodedProtocol):
    """The approximate factorization mechanism: `W ~ L^T R + u 1^T`, users report columns of R.

    A user with value v sends a randomized `R_v`, and the answers are `L^T (mean of reports) + u`.
    With an isotropic randomizer of variance `sigma**2 |R|**2` in every direction, `|R|` the largest
    column norm, answer j has the variance `|L_j|**2 |R|**2 sigma**2 / n`. So the best factors for
    the worst answer are those of the norm gamma_2, and for the mean over the answers those of
    gamma_F. A constant u_j for each query is free: histograms sum to 1.

    For few users a biased workload may be better. With `num_users` the alpha of least
    `gamma_2(W - u 1^T; alpha)**2 sigma**2 / n + alpha**2` is used where it promises at least 1 %
    less than alpha = 0; with `alpha`, that one. Then u is that of alpha = 0, or the middle of the
    range of each query, whichever is better.

    Formal guarantees:
      * Privacy: that of the randomizer, pure epsilon-LDP for `PrivUnitG`.
      * Bias of an answer: at most `bias` on every data set; 0, up to rounding, unless `num_users`
        or `alpha` is given.
      * Mean squared errors: exact in `variance` and the other predictions, for the factors as
        built, their columns rounded to float32. With an isotropic randomizer `worst_case_variance`
        is at most `gamma_2**2 sigma**2 / n + alpha**2`, with equality for alpha = 0.

    Edge cases:
      ==================================  ====================================================
      W is constant in every row          answers u, whatever the reports
      num_users so small that reports     warns with the number
      improve on answering u by < 1 %
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
      norm: "max" for the worst answer; or "mean" for the mean over the answers, then alpha is 0.

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

    workload: Any  # a FrozenArray, once constructed
    epsilon: float
    num_users: int | None = None
    alpha: float | None = None
    factorization: Any = None  # None or a tuple of three FrozenArrays, once constructed
    randomizer: Callable[..., MeanRandomizer] = PrivUnitG
    shift: bool = True
    norm: str = "max"

    def __post_init__(self):
        object.__setattr__(self, "workload", check_workload(self.workload))
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        check_choice("norm", self.norm, ("max", "mean"))
        if not callable(self.randomizer):
            raise TypeError(
                f"randomizer must be a callable such as PrivUnitG, got {self.randomizer!r}."
            )
        if self.num_users is not None:
            object.__setattr__(self, "num_users", check_int("num_users", self.num_users, low=1))
        if self.alpha is not None:
            alpha = check_real("alpha", self.alpha, low=0.0, open_ends=False)
            object.__setattr__(self, "alpha", alpha)
        if self.num_users is not None and (self.alpha is not None or self.factorization):
            raise ValueError(
                f"num_users must be None where alpha or factorization is given, got "
                f"{self.num_users!r}: it is what alpha is chosen for."
            )
        if self.norm == "mean" and (self.num_users is not None or self.alpha):
            raise ValueError(
                "norm must be 'max' where num_users or alpha is given: there is no approximate "
                "gamma_F; got 'mean'."
            )
        if self.factorization is not None:
            self._accept(self.factorization)
        dim = min(self.num_queries, self.num_values)
        make_randomizer(self.randomizer, dim, self.epsilon, 1.0)

    def _accept(self, given) -> None:
        """Stores a given factorization as (left, right, shift), or raises unless it fits."""
        alpha = self.alpha
        if isinstance(given, Factorization):
            shift = 0.0 if given.shift is None else given.shift
            alpha = float(given.alpha) if alpha is None else alpha
            given = (given.left, given.right, shift)
        if not (isinstance(given, tuple) and len(given) in (2, 3)):
            raise TypeError(
                "factorization must be a Factorization or a tuple (left, right) or "
                f"(left, right, shift), got {type(given).__name__}."
            )
        left, right, shift = (np.asarray(x, np.float64) for x in (*given, 0.0)[:3])
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
        error = np.abs(factors.matrix - self.workload.values).max()
        allowed = (alpha or 0.0) + 1e-6 * np.abs(self.workload.values).max()
        if not error <= allowed:
            raise ValueError(
                f"factorization must be within alpha = {alpha or 0.0:g} of the workload, but an "
                f"entry of left.T @ right + shift is off by {error:g}; allow it by "
                "alpha (the tolerance of a learner), or give closer factors."
            )
        object.__setattr__(self, "alpha", alpha)
        object.__setattr__(self, "factorization", tuple(FrozenArray(x) for x in factors))

    def factors(self) -> Factors:
        """The factors in use; the largest column norm of `right` is 1."""
        return _factors(self)

    @property
    def bias(self) -> float:
        """The largest bias of an answer over all data sets."""
        return float(np.abs(self.contributions()[0] - self.workload.values).max())

    def code(self) -> Code:
        """A value's vector is its column of `right`."""
        return _code(self)


@functools.lru_cache(maxsize=64)
def _code(protocol: FactorizedQueries) -> Code:
    left, right, shift = protocol.factors()
    columns = right.T.astype(np.float32)
    randomizer = make_randomizer(
        protocol.randomizer, right.shape[0], protocol.epsilon, radius_of(columns)
    )
    return Code(columns, left.T, shift, randomizer)


@functools.lru_cache(maxsize=64)
def _factors(protocol: FactorizedQueries) -> Factors:
    if protocol.factorization is not None:
        left, right, shift = (x.values for x in protocol.factorization)
    else:
        found, shift = _solve(protocol)
        left, right = found.left, found.right
    left, right = _without_null_directions(left, right)
    size = float(np.linalg.norm(right, axis=0).max())
    return Factors(left * size, right / (size or 1.0), shift)


def _solve(protocol: FactorizedQueries) -> tuple[Factorization, np.ndarray]:
    """The factorization of the workload less a shift, and the shift."""
    workload = protocol.workload.values
    solver = gamma2 if protocol.norm == "max" else gamma_f
    exact = solver(workload, shift=protocol.shift)
    shifts = [np.zeros(len(workload)) if exact.shift is None else exact.shift]
    if protocol.shift:
        shifts.append((workload.min(axis=1) + workload.max(axis=1)) / 2)
    if protocol.alpha:
        rests = [workload - shift[:, None] for shift in shifts]
        found = [gamma2_approx(rest, protocol.alpha, tol=_TOL) for rest in rests]
        return min(zip(found, shifts, strict=True), key=lambda pair: float(pair[0].upper))
    if protocol.num_users is None:
        return exact, shifts[0]
    unit = make_randomizer(protocol.randomizer, exact.rank, protocol.epsilon, 1.0)
    noise = unit.worst_case_variance(protocol.num_users)
    found, shift, error = _trade(workload, exact, shifts, noise)
    blind = min(np.abs(workload - shift[:, None]).max() for shift in shifts) ** 2
    if error * _ENOUGH > blind > 0:
        warnings.warn(
            f"num_users = {protocol.num_users} is so small that the worst root mean squared error, "
            f"{math.sqrt(error):.3g}, is hardly less than without any reports, "
            f"{math.sqrt(blind):.3g}.",
            stacklevel=2,
        )
    return found, shift


def _trade(workload: np.ndarray, exact: Factorization, shifts: list[np.ndarray], noise: float):
    """The factorization with the least `gamma_2(W; alpha)**2 noise + alpha**2` over alpha.

    gamma_2(W; alpha) is convex in alpha. The witness U of a solution at one alpha proves a lower
    bound at all others, a line of slope -sum |U|; the next alpha is the best for the largest of the
    lines, until that proves that no other is better by a percent. The witness of `exact` does not
    see shifts, so that its line holds for all of them.

    Args:
      workload: float64[m, k].
      exact: its factorization for alpha = 0, with the first shift.
      shifts: of which the best is taken.
      noise: the variance of the mean of reports in one direction.

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
            found = gamma2_approx(workload - shift[:, None], alpha, tol=_TOL)
            value = float(found.upper) ** 2 * noise + alpha**2
            if value < error:
                best, error = (found, shift), value
            lines.append(_line(found))
    return *best, error


def _line(found: Factorization) -> tuple[float, float]:
    """(value at alpha = 0, -slope) of the lower bound on gamma_2(W; .) that a solution proves."""
    slope = float(np.abs(found.dual).sum())
    return float(found.lower) + slope * float(found.alpha), slope


def _lowest(lines: list[tuple[float, float]], noise: float) -> tuple[float, float]:
    """The alpha with the least `max(lines, 0)**2 noise + alpha**2`, and that."""

    def value(alpha):
        height = max(0.0, *(start - slope * alpha for start, slope in lines))
        return height**2 * noise + alpha**2

    alphas = [0.0]
    for i, (start, slope) in enumerate(lines):
        alphas.append(start * slope * noise / (1 + slope**2 * noise))
        alphas += [
            (start - other) / (slope - fall)
            for other, fall in lines[:i]
            if (start - other) * (slope - fall) > 0
        ]
    alpha = min(alphas, key=value)
    return alpha, value(alpha)


def _without_null_directions(left: np.ndarray, right: np.ndarray):
    """The same product with fewer rows, where a factor does not have full rank."""
    for _ in range(2):
        rotation, values, _ = np.linalg.svd(right, full_matrices=False)
        kept = rotation[:, values > 1e-9 * values[0]]
        if 0 < kept.shape[1] < len(right):
            left, right = kept.T @ left, kept.T @ right
        left, right = right, left
    return left, right
