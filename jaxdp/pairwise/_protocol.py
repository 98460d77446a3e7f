"""What the protocols for statistics of pairs of bins share: kernels, targets, populations."""

import abc
import math
from typing import Any

import numpy as np

from .._spec import check_counts, check_epsilon, check_probabilities
from ._auc import AUC
from ._auc_protocol import check_labels, expected_users
from ._exact import Form, check_form, num_pairs
from ._kernel import Kernel, domain_shape
from ._pair_kernel import MatrixKernel, PairKernel, symmetric_kernel


class PairwiseProtocol(abc.ABC):
    """Base class of the specs that estimate a statistic of pairs of users who hold bins.

    A user holds one of k values, the bins; f on them is the symmetric matrix W. The statistic is
    the U-statistic `sum_{i != j} W[x_i, x_j] / (n (n - 1))` with `form="u"`, and the V-statistic
    `sum_{i, j} W[x_i, x_j] / n**2`, a quadratic form `h^T W h` of the normalised histogram, with
    `form="v"`; for kernels that are not linear it is `kernel.link` of several such averages.

    A subclass is a frozen, slotted dataclass with these fields, whose `__post_init__` calls
    `_check_statistic`.

    Attributes:
      kernel: the statistic; a matrix that was given becomes `PairKernel.from_matrix(matrix)`. One
        that is not symmetric is averaged with its transpose, with a warning: the statistic stays.
      epsilon: privacy parameter.
      num_values: how many bins there are, or the shape of the table whose cells they are (row by
        row); None for a kernel given by a matrix.
      form: "u" or "v".
    """

    __slots__ = ()

    kernel: Kernel
    epsilon: float
    num_values: int | tuple[int, ...] | None
    form: Form

    def _check_statistic(self, depth: int = 5) -> None:
        """Checks and completes the fields kernel, epsilon, num_values and form.

        Args:
          depth: how many calls up a warning points to; 5 if `__post_init__` calls this.
        """
        if not isinstance(self.kernel, Kernel):
            matrix = symmetric_kernel(self.kernel, depth=depth)
            object.__setattr__(self, "kernel", PairKernel.from_matrix(matrix))
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        check_form(self.form)
        if isinstance(self.num_values, list):
            object.__setattr__(self, "num_values", tuple(self.num_values))
        if self.num_values is None and not isinstance(self.kernel, MatrixKernel):
            raise ValueError("num_values must be given, unless the kernel is given by a matrix.")
        self.matrices()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the table whose cells are the bins."""
        if self.num_values is None:
            assert isinstance(self.kernel, MatrixKernel)
            return (len(self.kernel.weights.values),)
        return domain_shape(self.num_values)

    @property
    def num_bins(self) -> int:
        """k, the number of bins."""
        return math.prod(self.shape)

    def matrices(self) -> np.ndarray:
        """The kernels of the averages on the bins, float64[m, k, k]; one if it is linear."""
        return self.kernel.matrices(self.shape)

    @abc.abstractmethod
    def build(self, word_bits: int = 32):
        """The params: a pytree with the functions that run inside jit."""

    @abc.abstractmethod
    def exact_epsilon(self) -> float:
        """The realised privacy parameter, at most `epsilon`."""

    @abc.abstractmethod
    def variance(self, counts, inputs=None) -> np.ndarray:
        """The mean squared error for given users, float64[].

        Args:
          counts: int[k], the number of users with each value.
          inputs: None; values are bins.
        """

    @abc.abstractmethod
    def worst_case_variance(self, num_users: int) -> float:
        """The largest mean squared error over all data sets of a size, or a bound on it."""

    def truth(self, counts, inputs=None) -> np.ndarray:
        """The target: the statistic of the users, float64[].

        Args:
          counts: int[k], the number of users with each value.
          inputs: None; values are bins.
        """
        counts = self._check_bins(check_counts(counts), inputs)
        return np.asarray(self.kernel.of_counts(counts.reshape(self.shape), form=self.form))

    def population_truth(self, probabilities, num_users: int, inputs=None) -> np.ndarray:
        """The target for users drawn from a distribution, float64[]: that of two new users.

        Args:
          probabilities: float[k], of each value.
          num_users: unused; the target does not depend on it.
          inputs: None; values are bins.
        """
        del num_users
        p = self._check_bins(check_probabilities(probabilities), inputs)
        return np.asarray(self.kernel.of_distribution(p.reshape(self.shape)))

    def check_population(self, population) -> None:
        """Raises ValueError unless the users' values are bins, and enough for a pair.

        For an AUC both labels must occur; warns where the predicted error is that of noise.
        """
        num_pairs(population.num_users, self.form)
        population.require_bins(self.num_bins, "num_values")
        kernels = self.kernel if isinstance(self.kernel, tuple) else (self.kernel,)
        if any(isinstance(kernel, AUC) for kernel in kernels):
            users = expected_users(population)
            if users is not None:
                check_labels(self, population, users.reshape(self.shape))

    def _check_bins(self, masses: np.ndarray, inputs: Any) -> np.ndarray:
        """Flat counts or probabilities, or raises unless they fit the domain."""
        if inputs is not None:
            raise ValueError("inputs must be None: values are bins.")
        if masses.size != self.num_bins:
            raise ValueError(
                f"counts must have {self.num_bins} entries, one for each value, got {masses.size}."
            )
        return masses.ravel()
