"""The vectors that users of `TwoReport` send: factors chosen by their predicted errors."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..factorization import (
    Factorization,
    gamma2,
    gamma2_approx,
    gamma2_rank,
    johnson_lindenstrauss,
    signed,
    zeta,
)
from ..linear._encoded import covariance_form, radius_of
from ._bilinear import Form, OwnMoments, Reports
from ._exact import Form as Kind
from ._vector_reports import Statistic, worst_error

if TYPE_CHECKING:
    from ._two_report import TwoReport

_TOL = 1e-3  # of approximate factorizations: errors are of second order in it
_WORTH = 0.01  # least share of the error that a lower rank must be able to save


@dataclasses.dataclass(frozen=True)
class PairCode:
    """How values become two vectors, and the inner product of their means a statistic.

    Attributes:
      left: float32[k, l], the first vector of each value, of norm at most about 1.
      right: float32[k, l], the second.
      scale: of the inner product.
      constant: what is added to it.
      randomizer: of the vectors, with half of the budget.
    """

    left: np.ndarray
    right: np.ndarray
    scale: float
    constant: float
    randomizer: Any


@functools.lru_cache(maxsize=64)
def code_of(protocol: "TwoReport") -> PairCode:
    """How the protocol's values become two vectors: the factors of least predicted error."""
    if protocol.factorization is not None:
        left, right, constant = (x.values for x in protocol.factorization)
        return _coded(protocol, left, right, float(constant))
    matrix = protocol.matrices()[0]
    constant = 0.0
    if protocol.shift:
        constant = float(np.asarray(signed(matrix, shift=True).shift))
    offered = [
        _coded(protocol, found.left, found.right, constant)
        for found in _offered(protocol, matrix - constant)
    ]
    n = protocol.num_users or 2**40
    return min(offered, key=lambda code: worst_of(protocol, code, n, "u"))


def _coded(protocol: "TwoReport", left, right, constant: float) -> PairCode:
    """Factors float64[l, k] as two vectors of norm at most 1 for each value."""
    used = (np.abs(left).max(axis=1) > 0) & (np.abs(right).max(axis=1) > 0)
    if not np.any(used):
        used = np.arange(len(left)) == 0
    left, right = left[used], right[used]
    sizes = [float(np.linalg.norm(side, axis=0).max()) or 1.0 for side in (left, right)]
    scale = sizes[0] * sizes[1] if np.any(left) and np.any(right) else 0.0
    left, right = ((left / sizes[0]).T, (right / sizes[1]).T)
    left, right = left.astype(np.float32), right.astype(np.float32)
    randomizer = protocol.randomizer(
        dim=left.shape[1],
        epsilon=protocol.epsilon / 2,
        radius=max(radius_of(left), radius_of(right)),
    )
    return PairCode(left, right, scale, constant, randomizer)


def _offered(protocol: "TwoReport", rest: np.ndarray) -> list[Factorization]:
    """The factorizations to choose from.

    Args:
      protocol: the protocol.
      rest: W - c.
    """
    alpha, rank, n = protocol.alpha, protocol.rank, protocol.num_users
    if n is None:
        base = gamma2_approx(rest, alpha or 0.0, tol=_TOL if alpha else 1e-6)
        return [base if rank is None else _reduced(protocol, rest, base, rank, alpha or 0.0)]
    exact = gamma2(rest)
    unit = protocol.randomizer(dim=len(rest), epsilon=protocol.epsilon / 2, radius=1.0)
    noise = unit.worst_case_variance(n)
    bases = [exact, zeta(rest, weight=1 / math.sqrt(2 * noise), tol=_TOL)]
    if rank is not None:
        ranks = [rank]
    elif exact.rank * noise / 2 < _WORTH:
        ranks = []
    else:
        ranks = [exact.rank >> j for j in range(1, exact.rank.bit_length())]
    level = math.sqrt(noise / 2) * float(exact.upper)  # a bias of half of the noise
    found = [] if rank is not None else list(bases)
    for base in bases[-1:] if protocol.reduction == "spectral" else bases:
        allowed = max(float(base.alpha), min(level, float(np.abs(rest).max()) / 2))
        found += [_reduced(protocol, rest, base, r, allowed) for r in ranks]
    return found


def _reduced(protocol: "TwoReport", rest, base: Factorization, rank: int, alpha: float):
    """A factorization of a lower rank."""
    if rank >= base.rank:
        return base
    if protocol.reduction == "spectral":
        return gamma2_rank(rest, rank, alpha, tol=_TOL)
    return johnson_lindenstrauss(rest, dataclasses.replace(base, norm="gamma2"), rank)


def _form(code: PairCode) -> Form:
    """The statistic as a quadratic form of the two vectors, one below the other."""
    dim = code.left.shape[1]
    swap = np.kron(np.array([[0.0, 1.0], [1.0, 0.0]]), np.eye(dim))
    return Form(code.scale / 2 * swap, np.zeros(2 * dim), code.constant)


def _reports(code: PairCode) -> tuple[Reports, Callable[[Form], OwnMoments]]:
    """What users report, and the moments of the inner product of the noises of one user's two.

    These are independent: the product with either of them has mean zero.
    """
    sides = [side.astype(np.float64) for side in (code.left, code.right)]
    means = np.concatenate(sides, axis=1)
    dim, symmetric = code.left.shape[1], covariance_form(code.randomizer)
    if symmetric is not None and symmetric[1] == 0:
        reports = Reports(means, symmetric[0])
        products = np.full(len(means), symmetric[0] ** 2 * dim)
    else:
        covariances = np.zeros((len(means), 2 * dim, 2 * dim))
        for start, side in zip((0, dim), sides, strict=True):
            part = slice(start, start + dim)
            covariances[:, part, part] = [code.randomizer.moments(x)[1] for x in side]
        products = np.sum(covariances[:, :dim, :dim] * covariances[:, dim:, dim:], axis=(1, 2))
        reports = Reports(means, covariances=covariances)
    own = OwnMoments(np.zeros(means.shape), code.scale**2 * products)
    return reports, lambda form: own


def worst_of(protocol: "TwoReport", code: PairCode, num_users: int, kind: Kind) -> float:
    """The largest mean squared error with a code, or a bound on it."""
    form = _form(code)
    reports, own = _reports(code)
    moments = own(form) if kind == "v" else None
    return worst_error(form, reports, protocol.matrices()[0], num_users, moments)


@functools.lru_cache(maxsize=64)
def statistic_of(protocol: "TwoReport") -> Statistic:
    """What predicts the errors."""
    code = protocol.code()
    return Statistic(protocol.kernel, (_form(code),), *_reports(code))
