"""The vectors that users of `OneReport` send: factors chosen by their predicted errors."""

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from ..linear._encoded import covariance_form, radius_of
from ._bilinear import Form, Reports, own_moments
from ._quadratic_factor import QuadraticFactor, candidates
from ._vector_reports import Statistic, worst_error

if TYPE_CHECKING:
    from ._one_report import OneReport


@dataclasses.dataclass(frozen=True)
class Code:
    """How values become vectors, and reports become averages.

    Attributes:
      columns: float32[k, l], the vector of each value.
      forms: one for each average.
      randomizer: of the vectors.
    """

    columns: np.ndarray
    forms: tuple[Form, ...]
    randomizer: Any


@functools.lru_cache(maxsize=64)
def code_of(protocol: "OneReport") -> Code:
    """How the protocol's values become vectors: the factors of its averages, one report."""
    factors = _factors(protocol)
    weights = np.ones(len(factors)) if protocol.weights is None else np.array(protocol.weights)
    norms = np.array([factor.norm for factor in factors])
    sizes = np.sqrt(norms * np.sqrt(weights))  # of the vectors of each average
    sizes = np.where(norms > 0, sizes / (sizes.max() or 1.0), 0.0)
    columns = np.concatenate(
        [size * f.columns for size, f in zip(sizes, factors, strict=True)], axis=1
    )
    columns = columns.astype(np.float32)
    forms, start = [], 0
    for size, factor in zip(sizes, factors, strict=True):
        stop = start + len(factor.scales)
        scales, linear = np.zeros(columns.shape[1]), np.zeros(columns.shape[1])
        if size > 0:
            scales[start:stop], linear[start:stop] = factor.scales / size**2, factor.linear / size
        forms.append(Form(np.diag(scales), linear, factor.constant))
        start = stop
    randomizer = protocol.randomizer(
        dim=columns.shape[1], epsilon=protocol.epsilon, radius=radius_of(columns)
    )
    return Code(columns, tuple(forms), randomizer)


def _factors(protocol: "OneReport") -> list[QuadraticFactor]:
    """The factors of the averages."""
    if protocol.factorization is not None:
        columns, scales, linear, constant = (x.values for x in protocol.factorization)
        return [QuadraticFactor(columns, scales, linear, float(constant))]
    matrices, several = protocol.matrices(), protocol.num_users is not None
    found = []
    for matrix in matrices:
        offered = candidates(matrix, protocol.shift, protocol.rank, several)
        n = protocol.num_users or 2
        found.append(min(offered, key=lambda f: _predicted(protocol, f, matrix, n, len(matrices))))
    return found


def _predicted(protocol: "OneReport", factor: QuadraticFactor, matrix, num_users, share) -> float:
    """The predicted worst case of a factor whose vectors get one of so many shares of a report."""
    dim = len(factor.scales)
    unit = protocol.randomizer(dim=dim, epsilon=protocol.epsilon, radius=1.0)
    noise = share * unit.worst_case_variance(1)
    form = Form(np.diag(factor.scales), factor.linear, factor.constant)
    return worst_error(form, Reports(factor.columns, noise), matrix, num_users)


@functools.lru_cache(maxsize=64)
def statistics_of(protocol: "OneReport") -> tuple[Statistic, ...]:
    """What predicts the errors of each kernel."""
    code = protocol.code()
    means, symmetric = code.columns.astype(np.float64), covariance_form(code.randomizer)
    if symmetric is not None:
        reports = Reports(means, *symmetric)
    else:
        reports = Reports(
            means, covariances=np.stack([code.randomizer.moments(x)[1] for x in means])
        )
    found, start = [], 0
    for kernel in protocol.kernels:
        forms = code.forms[start : start + len(kernel.functions)]
        start += len(forms)
        found.append(
            Statistic(
                kernel,
                forms,
                reports,
                lambda form: own_moments(code.randomizer, means, form.weights),
            )
        )
    return tuple(found)
