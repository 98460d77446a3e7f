"""Privacy and predicted errors of `Marginals`."""

from typing import Literal

import numpy as np

from .._spec import check_counts, check_int
from .._subsets import joined, num_subsets, sizes
from ..accounting import gaussian_sigma
from ._gaussian_privacy import GaussianPrivacy
from ._moment_set import MomentSet
from ._parities import marginals_sensitivity, parities_sensitivity

Basis = Literal["marginals", "parities"]
Method = Literal["moments", "flattened", "clip", "largest", "none"]


class MarginalsErrors(GaussianPrivacy):
    """What follows from the fields of `Marginals` without any user."""

    __slots__ = ()

    num_features: int
    order: int
    sparsity: int | None
    queries: Basis
    noise: Basis | None
    method: Method
    level: int | None

    @property
    def moment_set(self) -> MomentSet:
        """The set of method "moments": what is noised, projected on it."""
        basis = "marginals" if self.noise == "marginals" else "parities"
        return MomentSet(self.num_features, self.order, basis, self.level, self.sparsity)

    @property
    def num_queries(self) -> int:
        """N, the number of sets of at most k features, the empty one included."""
        return num_subsets(self.num_features, self.order)

    @property
    def sensitivity(self) -> float:
        """How far one user moves m times what is noised, in Euclidean norm; exact.

        For marginals the root of `2 f(t)` if two users can have t features each and none in common,
        f(a) the number of nonempty sets of at most k out of a; of `f(n)` without a sparsity. For
        parities twice the root of the largest number of sets, of at most k features, with an odd
        number out of those in which two users differ.
        """
        return self._sensitivity(str(self.noise))

    def _sensitivity(self, noise: str) -> float:
        find = marginals_sensitivity if noise == "marginals" else parities_sensitivity
        return find(self.num_features, self.order, self.sparsity) * (1 + 1e-15)

    def _row_norms(self, noise: str) -> np.ndarray:
        """The squared norms of the rows of the map from what is noised to the answers."""
        size = sizes(self.num_features, self.order).astype(np.float64)
        if noise == self.queries:
            return (size > 0).astype(np.float64)
        return (2**size - 1) / 4**size if self.queries == "marginals" else 5**size - 1

    def _plain_variance(self, noise: str) -> np.ndarray:
        sigma = gaussian_sigma(self.epsilon, self.delta, self._sensitivity(noise))
        return sigma**2 * self._row_norms(noise)

    def noise_variance(self, num_users: int) -> np.ndarray:
        """The exact variance of each noisy answer, before any projection, float64[N]."""
        m = check_int("num_users", num_users, low=1)
        return self._plain_variance(str(self.noise)) / m**2

    def total_variance(self, num_users: int) -> float:
        """A bound on the summed mean squared error, on any data set.

        "none", "clip" and "largest" act on the answers, and it is the sum over these: that of the
        noise, exact for "none" and a bound for "clip"; 4 times that for "largest", since the
        nearest vector with as few entries is at most as far from the noisy one as the truth, which
        is such a vector too. The others act on what is noised, and it is the sum over that, before
        a change of basis. "moments": the least of `(sigma / m) G`, with the proven
        `MomentSet.complexity_bound` for G, and of the noise's own `(sigma / m)**2 N`; it is that of
        the projection itself, without `tol`. "flattened": the projection does not expand the norm
        that counts an answer once for each entry of the matrix.
        """
        m = check_int("num_users", num_users, low=1)
        scale, number = self.sigma / m, self.num_queries - 1
        plain = scale**2 * number
        if self.method == "moments":
            return min(plain, scale * self.moment_set.complexity_bound())
        if self.method == "flattened":
            places = joined(self.num_features, self.order // 2, str(self.noise))
            times = np.bincount(places.ravel())[1:]
            return scale**2 * float(times.sum() / times.min())
        noise = float(self.noise_variance(m).sum())
        return 4 * noise if self.method == "largest" else noise

    def variance(self, counts, inputs=None) -> np.ndarray:
        """A proven bound on the mean squared error of each answer for given users, float64[N].

        Exact for "none"; at most that of the noise for "clip"; else `total_variance` through the
        change of basis, and the square of the answer's range.

        Args:
          counts: int[rows], the number of users with each row of features.
          inputs: unused.
        """
        del inputs
        return self._bounds(int(check_counts(counts).sum()))

    def worst_case_variance(self, num_users: int) -> float:
        """The largest bound of `variance` over the answers; it holds for every data set."""
        return float(self._bounds(num_users).max())

    def _bounds(self, num_users: int) -> np.ndarray:
        noise = self.noise_variance(num_users)
        if self.method in ("none", "clip"):
            return noise
        norms = self._row_norms(str(self.noise))
        total = self.total_variance(num_users)
        if self.method == "largest":
            return total * (norms > 0)
        span = 1.0 if self.queries == "marginals" else 2.0
        return np.minimum(total * norms, span**2)
