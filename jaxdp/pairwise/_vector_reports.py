"""What the protocols whose users report vectors share: checks, and errors from exact moments."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from ..randomizers._gaussian import Gaussian
from ..randomizers._vector import VectorRandomizer
from ._bilinear import (
    Form,
    OwnMoments,
    Reports,
    expectation,
    iid_variance,
    own_moments,
    variance,
    worst_case_variance,
)
from ._exact import Form as Kind
from ._kernel import Kernel, linearised_error


@dataclasses.dataclass(frozen=True)
class Statistic:
    """A statistic, and how it is estimated.

    Attributes:
      kernel: the statistic.
      forms: of each of the averages that it is a function of.
      reports: what users report.
      own: what the V-form of a form needs to know of the noise of one report.
    """

    kernel: Kernel
    forms: tuple[Form, ...]
    reports: Reports
    own: Callable[[Form], OwnMoments | None]

    def matrices(self) -> np.ndarray:
        """The kernels of the averages that are estimated, float64[m, k, k]."""
        return np.stack([form.matrix(self.reports.means) for form in self.forms])


def mean_squared_error(
    statistic: Statistic, counts: np.ndarray, kind: Kind, truth: float
) -> np.ndarray:
    """The mean squared error for given users, float64[]; exact, or by the delta method."""
    reports = statistic.reports
    means = np.array([expectation(form, reports, counts, kind) for form in statistic.forms])

    def noise(slopes) -> float:
        form = Form.combined(statistic.forms, slopes)
        return variance(form, reports, counts, own_of(statistic, form, kind))

    return linearised_error(statistic.kernel, means, int(counts.sum()), truth, noise)


def population_error(
    statistic: Statistic, p: np.ndarray, num_users: int, kind: Kind, truth: float
) -> np.ndarray:
    """The mean squared error for independent users, float64[]; exact, or by the delta method."""
    matrices = statistic.matrices()
    means = matrices @ p @ p
    if kind == "v":
        means = means + (np.diagonal(matrices, axis1=1, axis2=2) @ p - means) / num_users

    def noise(slopes) -> float:
        form = Form.combined(statistic.forms, slopes)
        own = own_of(statistic, form, kind)
        return iid_variance(form, statistic.reports, p, num_users, own)

    return linearised_error(statistic.kernel, means, num_users, truth, noise)


def own_of(statistic: Statistic, form: Form, kind: Kind) -> OwnMoments | None:
    """The moments that the form needs; None for the U-form."""
    return statistic.own(form) if kind == "v" else None


def worst_error(
    form: Form, reports: Reports, matrix: np.ndarray, num_users: int, own: OwnMoments | None = None
) -> float:
    """A bound on the mean squared error over all data sets, in place of the matrix of a kernel."""
    bias = float(np.abs(form.matrix(reports.means) - matrix).max())
    return worst_case_variance(form, reports, num_users, own) + bias**2


def check_randomizer(make: Any, dim: int, epsilon: float, isotropic: bool) -> None:
    """Raises unless `make` makes randomizers of vectors, where needed with the same noise for all.

    Args:
      make: from the keywords dim, epsilon and radius.
      dim: the largest there may be.
      epsilon: the budget of a report.
      isotropic: whether the moments of `z^T D z` must be known and its mean must be constant.
    """
    if not callable(make):
        raise TypeError(f"randomizer must be a callable such as PrivUnitG, got {make!r}.")
    made = make(dim=dim, epsilon=epsilon, radius=1.0)
    if not isinstance(made, VectorRandomizer | Gaussian):
        raise TypeError(
            "randomizer must make randomizers of vectors in an L2 ball, such as PrivUnitG, got "
            f"{type(made).__name__}."
        )
    if isotropic and own_moments(made, np.zeros((1, dim)), np.eye(dim)) is None:
        raise ValueError(
            f"randomizer must have the same noise for every vector with form='v', as PrivUnitG, "
            f"PrivUnit and Gaussian do, got {type(made).__name__}; or use form='u'."
        )
