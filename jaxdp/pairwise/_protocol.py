"""What the protocols for statistics of pairs of bins share: kernels, targets, populations."""

import abc
import math
from typing import Any, ClassVar, TypeVar

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from .._checks import Check
from .._contract import Params, Spec, Tree, Work
from .._prediction import Kind, Prediction
from .._spec import check_counts, check_probabilities
from ..population import Population
from ._auc_protocol import check_labels, expected_users
from .kernels._exact import FORM, Form, num_pairs
from .kernels._kernel import Kernel, domain_shape
from .kernels._pair_kernel import KERNEL, NUM_VALUES

P_co = TypeVar("P_co", bound=Params[Any], covariant=True)


def is_one_round(params: Params[Any]) -> bool:
    """Whether these are the params of a round, rather than of an interactive protocol."""
    return params.rounds(Work(1.0, 1))[0].round is params


class PairwiseProtocol(Spec[P_co]):
    """Base of the specs that estimate a statistic of pairs of users who hold bins.

    A user holds one of k values, the bins; f on them is the symmetric matrix W. The statistic is
    the U-statistic `sum_{i != j} W[x_i, x_j] / (n (n - 1))` with `form="u"`, and the V-statistic
    `sum_{i, j} W[x_i, x_j] / n**2`, a quadratic form `h^T W h` of the normalised histogram, with
    `form="v"`; for kernels that are not linear it is `kernel.link` of several such averages.

    A subclass has these fields, made by `field(PairwiseProtocol.KERNEL)`, `field(Epsilon())`,
    `field(PairwiseProtocol.NUM_VALUES, default=None)` and `field(PairwiseProtocol.FORM, ...)`.

    Attributes:
      KERNEL: the check of the field `kernel`; matrices become kernels.
      NUM_VALUES: the check of the field `num_values`; `validate` checks the rest of it.
      FORM: the check of the field `form`.
      kernel: the statistic; a matrix that was given becomes `PairKernel.from_matrix(matrix)`. One
        that is not symmetric is averaged with its transpose, with a warning: the statistic stays.
      epsilon: privacy parameter.
      num_values: how many bins there are, or the shape of the table whose cells they are (row by
        row); None for a kernel given by a matrix.
      form: "u" or "v".
    """

    __slots__ = ()

    KERNEL: ClassVar[Check] = KERNEL
    NUM_VALUES: ClassVar[Check] = NUM_VALUES
    FORM: ClassVar[Check] = FORM

    kernel: Kernel
    epsilon: float
    num_values: int | tuple[int, ...] | None
    form: Form

    def validate(self) -> None:
        """Raises ValueError unless the kernel has a domain, and values on it."""
        if self.num_values is None and self.kernels[0].num_bins is None:
            raise ValueError("num_values must be given, unless the kernel is given by a matrix.")
        self.matrices()

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The statistics: one."""
        return (self.kernel,)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the table whose cells are the bins."""
        domain = self.kernels[0].num_bins if self.num_values is None else self.num_values
        return domain_shape(domain)

    @property
    def num_bins(self) -> int:
        """k, the number of bins."""
        return math.prod(self.shape)

    def matrices(self) -> Float[np.ndarray, "m k k"]:
        """The kernels of the averages on the bins; one if it is linear."""
        return self.kernel.matrices(self.shape)

    @property
    def variance_kind(self) -> Kind:
        """Exact for averages over pairs, the delta method for functions of them."""
        return "exact" if all(kernel.is_linear for kernel in self.kernels) else "delta"

    @property
    def bias(self) -> float:
        """The largest bias of an average over all data sets; 0 unless the class says otherwise."""
        return 0.0

    @abc.abstractmethod
    def variance(self, counts: ArrayLike, inputs: Tree = None) -> Float[np.ndarray, "*statistics"]:
        """The mean squared error for given users.

        Args:
          counts: int[k], the number of users with each value.
          inputs: None; values are bins.
        """

    @abc.abstractmethod
    def population_variance(
        self, probabilities: ArrayLike, num_users: int, inputs: Tree = None
    ) -> Float[np.ndarray, "*statistics"]:
        """The mean squared error about `population_truth` for independent users.

        Args:
          probabilities: float[k], of each value.
          num_users: n.
          inputs: None; values are bins.
        """

    @abc.abstractmethod
    def worst_case_variance(self, num_users: int) -> Prediction:
        """The largest mean squared error over all data sets of a size, or a bound on it."""

    def truth(self, counts: ArrayLike, inputs: Tree = None) -> Float[np.ndarray, "*statistics"]:
        """The target: the statistic of the users.

        Args:
          counts: int[k], the number of users with each value.
          inputs: None; values are bins.
        """
        table = self._check_bins(check_counts(counts), inputs).reshape(self.shape)
        return np.asarray(self.kernel.of_counts(table, form=self.form))

    def population_truth(
        self, probabilities: ArrayLike, num_users: int, inputs: Tree = None
    ) -> Float[np.ndarray, "*statistics"]:
        """The target for users drawn from a distribution: the statistic of two new users.

        Args:
          probabilities: float[k], of each value.
          num_users: unused; the target does not depend on it.
          inputs: None; values are bins.
        """
        del num_users
        table = self._check_bins(check_probabilities(probabilities), inputs).reshape(self.shape)
        return np.asarray(self.kernel.of_distribution(table))

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless the users' values are bins, and enough for a pair.

        For an AUC both labels must occur; warns where the predicted error is that of noise.
        """
        num_pairs(population.num_users, self.form)
        population.require_bins(self.num_bins, "num_values")
        # For an area under the curve both labels must occur; users of a plan are not known yet.
        areas = [kernel.has_labels for kernel in self.kernels]
        users = expected_users(population) if any(areas) else None
        if users is not None:
            check_labels(self, areas, population, users.reshape(self.shape))

    def _check_bins(self, masses: np.ndarray, inputs: Tree) -> np.ndarray:
        """Flat counts or probabilities, or raises unless they fit the domain."""
        if inputs is not None:
            raise ValueError("inputs must be None: values are bins.")
        if masses.size != self.num_bins:
            raise ValueError(
                f"counts must have {self.num_bins} entries, one for each value, got {masses.size}."
            )
        return masses.ravel()
