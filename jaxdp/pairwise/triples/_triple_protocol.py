"""What all protocols for statistics of triples share: targets and exact variances."""

import abc
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ..._contract import P_co, Spec, Tree
from ..._spec import check_counts, check_int, check_probabilities
from ...population import Population


class TripleProtocol(Spec[P_co]):
    """Base of the specs for U-statistics of triples from one report of each user.

    A report stands for a vector y in k dimensions whose mean is the indicator `e_x` of the user's
    value, as far as T tells. T is linear in each argument, so the mean of `T(y_i, y_j, y_l)` over
    all triples of users is unbiased, and a subclass only says what the covariance of y is.
    """

    __slots__ = ()

    kernel: Any

    @abc.abstractmethod
    def _spreads(self) -> Float[np.ndarray, "k k k"]:
        """The covariance of the vector of a report, by value."""

    @property
    def num_values(self) -> int:
        """k, the number of values."""
        return len(self.kernel.values)

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless the users' values are bins, and enough for a triple."""
        num_triples(population.num_users)
        population.require_bins(self.num_values, "num_values")

    def truth(self, counts: ArrayLike, inputs: Tree = None) -> Float[np.ndarray, ""]:
        """The target: the mean over triples of the users.

        Args:
          counts: int[k], the number of users with each value.
          inputs: None; values are bins.
        """
        c, tensor = self._masses(check_counts(counts), inputs), self.kernel.values
        pairs = np.einsum("aab->ab", tensor)
        total = _cubic(tensor, c) - 3 * c @ pairs @ c + 2 * np.einsum("aaa->a", tensor) @ c
        return np.asarray(total / num_triples(int(c.sum())))

    def population_truth(
        self, probabilities: ArrayLike, num_users: int, inputs: Tree = None
    ) -> Float[np.ndarray, ""]:
        """The target for users drawn from a distribution: the mean of three new users."""
        del num_users
        p = self._masses(check_probabilities(probabilities), inputs)
        return np.asarray(_cubic(self.kernel.values, p))

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> Float[np.ndarray, ""]:
        """The exact variance for given users, in O(k**5) steps.

        Args:
          counts: int[k], the number of users with each value.
          inputs: None; values are bins.
        """
        users = self._masses(check_counts(counts), inputs)
        return np.asarray(
            total_variance(
                int(users.sum()), *mean_parts(self.kernel.values, self._spreads(), users)
            )
        )

    def population_variance(
        self, probabilities: ArrayLike, num_users: int, inputs: Tree = None
    ) -> Float[np.ndarray, ""]:
        """The exact variance about `population_truth` for independent users.

        Args:
          probabilities: float[k], of each value.
          num_users: n.
          inputs: None; values are bins.
        """
        p = self._masses(check_probabilities(probabilities), inputs)
        n = check_int("num_users", num_users, low=3)
        # Reports are independent of one law, whose vectors have mean p and this covariance.
        spread = np.tensordot(p, self._spreads(), axes=1) + np.diag(p) - np.outer(p, p)
        tensor = self.kernel.values
        matrix, w = tensor @ p, tensor @ p @ p
        single = w @ spread @ w
        pair = np.sum((matrix @ spread) * (matrix @ spread).T)
        return np.asarray(total_variance(n, single, pair, _cube(tensor, spread)))

    def _masses(self, masses: np.ndarray, inputs: Tree) -> Float[np.ndarray, " k"]:
        """Flat counts or probabilities, or raises unless they fit the domain."""
        if inputs is not None:
            raise ValueError("inputs must be None: values are bins.")
        if masses.size != self.num_values:
            raise ValueError(
                f"counts must have {self.num_values} entries, one for each value, got "
                f"{masses.size}."
            )
        return masses.ravel().astype(np.float64)


def num_triples(num_users: int) -> int:
    """The number of ordered triples of different users, or raises where there is none."""
    if num_users < 3:
        raise ValueError(f"a statistic of triples needs at least 3 users, got {num_users}.")
    return num_users * (num_users - 1) * (num_users - 2)


def total_variance(num_users: int, single: float, pair: float, triple: float) -> float:
    """The variance from the mean ones of what users, pairs and triples add.

    A sum over ordered triples has each user in 3 places, each pair in 6 and each triple in 6; the
    square of their number is taken out.
    """
    n, triples = num_users, num_triples(num_users)
    return float(9 * single / n + 18 * pair / (n * (n - 1)) + 6 * triple / triples)


def _cubic(tensor: Float[np.ndarray, "k k k"], vector: Float[np.ndarray, " k"]) -> float:
    return float(tensor @ vector @ vector @ vector)


def _cube(tensor: Float[np.ndarray, "k k k"], spread: Float[np.ndarray, "k k"]) -> float:
    """`E T(x, y, z)**2` for independent x, y, z with this covariance."""
    moved = tensor
    for _ in range(3):  # each contracts the first index, and puts it last
        moved = np.tensordot(moved, spread, axes=(0, 0))
    return float(np.sum(tensor * moved))


def mean_parts(
    tensor: Float[np.ndarray, "k k k"],
    spreads: Float[np.ndarray, "k k k"],
    counts: Float[np.ndarray, " k"],
) -> tuple[float, float, float]:
    """The mean variances of what the users with these counts, their pairs and triples add."""
    n, triples = counts.sum(), num_triples(int(counts.sum()))
    held = np.flatnonzero(counts)
    matrix = tensor @ counts
    doubled = np.einsum("iaa->ia", tensor)
    # T(., c', c') without pairs of a user with itself, for the others c' = c - e_a of each user
    slopes = (matrix @ counts - doubled @ counts)[:, None] - 2 * matrix + 2 * doubled
    singles = np.einsum("ia,aij,ja->a", slopes, spreads, slopes, optimize=True)
    single = counts @ singles / (n * ((n - 1) * (n - 2)) ** 2)
    pair = triple = 0.0
    mean = np.tensordot(counts, spreads, axes=1)
    moved = tensor @ mean
    for a in held:
        spread = spreads[a]
        # T(., ., c'') for the others c'' = c - e_a - e_b of each pair
        others = matrix - tensor[a] - tensor[held]
        traces = np.sum((others @ spreads[held]) * (spread @ others), axis=(1, 2))
        pair += counts[a] * (counts[held] @ traces - traces[held == a][0])
        # Triples with one user twice, and three times, which are not triples
        twice = np.tensordot(spread, np.tensordot(spread, moved, axes=1), axes=(1, 1))
        thrice = _cube(tensor, spread)
        twice = float(np.sum(tensor * twice.transpose(1, 0, 2)))
        triple += counts[a] * (2 * thrice - 3 * twice)
    triple += _cube(tensor, mean)
    return single, pair / (n * (n - 1) * (n - 2) ** 2), max(triple, 0.0) / triples
