"""Private cosine similarities of all pairs of vectors, and the set of such matrices."""

import functools
import math
import warnings
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from .._checks import Boolean, Choice, Epsilon, Integer, Real
from .._contract import Spec, field, params, spec
from .._spec import check_int, check_key, is_traced
from .._x64 import compiled_in_float64, dot
from ..projections import (
    IntersectionProjection,
    bounded_diagonal,
    correlation,
    frobenius_ball,
    psd,
)
from ._convex_set import ConvexSet, Projection, real_array
from ._grid_noise import GaussianPrivacy
from ._perturb_and_project import PerturbAndProject, PerturbAndProjectParams, Release

_UNIT = 1e-4  # by how much a norm may differ from 1

DIAGONAL = Choice("one", "at_most_one")
SPLIT = Choice("diagonal", "frobenius")


@spec
class CosineSet(ConvexSet):
    """Positive semidefinite matrices with X_ii = 1, the elliptope, or with X_ii <= 1.

    Formal guarantees:
      * `project` is exact: Newton's method on the dual problem, `jaxdp.projections.correlation` or
        `bounded_diagonal`. Its point always lies in the set, and `gap` is a duality gap.
      * Complexity: `G(S) <= n E max(l, 0) <= sqrt(2) n E|g|`, l the largest eigenvalue of
        (W + W^T)/2 and g of n normals: Sudakov and Fernique's comparison with `sqrt(2) <g, u>`,
        since `|u u^T - v v^T|**2 <= 2 |u - v|**2` for unit vectors. At most `sqrt(2) n**1.5`.
      * The two splits describe one set: a positive semidefinite matrix with `|X_ij| <= 1` has
        X_ii <= 1 and a Frobenius norm of at most n. Without semidefiniteness, as Remark 6.1 of the
        paper prints it, "frobenius" would be the cube `|X_ij| <= 1`. Only `average` depends on
        them.

    Args:
      num_items: n, at least 1.
      diagonal: "one" for X_ii = 1, "at_most_one" as in Algorithm 3 of the paper.
      split: the parts that are averaged. "diagonal": semidefinite matrices, and matrices with such
        a diagonal. "frobenius", Remark 6.1: semidefinite matrices with a Frobenius norm of at most
        n, and matrices with `|X_ij| <= 1` (and X_ii = 1 for "one").

    Raises:
      ValueError: an argument is out of range.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxdp.central import CosineSet
      >>> nearest = CosineSet(2).project(jnp.array([[0.0, 2.0], [2.0, 0.0]]))
      >>> print(nearest.point.round(3))
      [[1. 1.]
       [1. 1.]]

    References:
      Cohen-Addad et al. (2024), Algorithms 3 and 4, Remark 6.1, Theorem 2.1.
    """

    num_items: int = field(Integer(1))
    diagonal: Literal["one", "at_most_one"] = field(DIAGONAL, default="one")
    split: Literal["diagonal", "frobenius"] = field(SPLIT, default="diagonal")

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of a point, (n, n)."""
        return (self.num_items, self.num_items)

    @property
    def symmetric(self) -> bool:
        """True."""
        return True

    @property
    def radius(self) -> float:
        """The trace bounds the norm: n."""
        return float(self.num_items)

    @property
    def parts(self) -> tuple[Projection, ...]:
        """The two projections of `split`."""
        one = self.diagonal == "one"
        if self.split == "diagonal":
            return psd, unit_diagonal if one else short_diagonal
        return _psd_ball(self.num_items), unit_entries if one else short_entries

    def project(
        self, x: Float[Array, "n n"], *, tol: float = 1e-6, max_steps: int = 50
    ) -> IntersectionProjection:
        """The nearest point, by Newton's method on the dual."""
        # A duality gap g of |p - x|**2 / 2 bounds the squared distance by 2 g.
        enough = max(0.5 * tol**2, 8.0 * float(jnp.finfo(x.dtype).eps))
        solve = correlation if self.diagonal == "one" else bounded_diagonal
        solution = solve(x, tol=enough, max_steps=max_steps)
        return IntersectionProjection(
            solution.point,
            jnp.zeros_like(solution.gap),
            2 * solution.gap,
            solution.converged,
            solution.num_steps,
        )

    def complexity_bound(self) -> float:
        """`sqrt(2) n E|g|`, g of n normals; at most `sqrt(2) n**1.5`, and asymptotically tight.

        Proven for {X psd, X_ii <= 1} and its subset {X psd, X_ii = 1}.

        Example:
          >>> from jaxdp.central import CosineSet
          >>> print(round(CosineSet(100).complexity_bound(), 1))
          1410.7

        References:
          Cohen-Addad et al. (2024), Theorem 2.1: 2 n `|W|` with the spectral norm of the noise.
        """
        n = self.num_items
        # E|g| of n normals is sqrt(2) Gamma((n + 1) / 2) / Gamma(n / 2).
        length = math.exp(math.lgamma((n + 1) / 2) - math.lgamma(n / 2)) * math.sqrt(2)
        return math.sqrt(2) * n * length


def unit_diagonal(x: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The nearest matrix with X_ii = 1."""
    return jnp.where(jnp.eye(x.shape[-1], dtype=bool), 1.0, x)


def short_diagonal(x: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The nearest matrix with X_ii <= 1."""
    return jnp.where(jnp.eye(x.shape[-1], dtype=bool), jnp.minimum(x, 1.0), x)


def short_entries(x: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The nearest matrix with |X_ij| <= 1."""
    return jnp.clip(x, -1.0, 1.0)


def unit_entries(x: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The nearest matrix with |X_ij| <= 1 and X_ii = 1."""
    return unit_diagonal(short_entries(x))


@functools.lru_cache(maxsize=64)
def _psd_ball(num_items: int) -> Projection:
    """One function object for each size, since a new one is compiled anew."""

    def psd_ball(x: Array) -> Array:
        return frobenius_ball(psd(x), float(num_items))

    return psd_ball


@spec
class CosineSimilarity(GaussianPrivacy, Spec["CosineSimilarityParams"]):
    """The matrix of cosine similarities of n vectors, released by a trusted curator.

    For unit vectors, the rows of V, Gaussian noise is added to V V^T and the sum projected on a
    `CosineSet` that holds all such matrices: Algorithm 3 of the paper (method "exact"), or
    Algorithm 4 (method "average"), whose limit is another point of the set than the projection.

    Formal guarantees:
      * Privacy: (epsilon, exact_delta())-differentially private, by `GaussianPrivacy`, for sets of
        vectors V and V' with `|V V^T - V' V'^T|_F <= sensitivity`; `exact_delta() <= delta`. The
        norms of vectors have no effect: rows are scaled to length 1 first. Similarities are
        computed in float64.
      * Neighbours that differ in one vector, whatever it is, have a distance of at most
        `row_sensitivity(n)` = sqrt(8 (n - 1)), which is attained: -u for u among n vectors u.
      * Error of "exact": `E |V V^T - estimate|_F**2 <= error_bound() <= sqrt(2) sigma n**1.5`, all
        n**2 entries together, against `sigma**2 n (n + 1) / 2` of the noise alone.

    Edge cases:
      ===============================  ===========================================================
      a vector is 0                    ValueError naming the row: it has no cosine
      vectors not of length 1          ValueError naming the first one, or scaled with a warning if
                                       `normalize`
      `release` of the params          vectors are scaled without a word, and 0 stays 0, whose row
                                       of the target is 0
      a projection beyond the memory   ValueError with the bytes, of `build` and `release`
      sensitivity below about 1e-10    ValueError of `release`: float64 is not fine enough
      ===============================  ===========================================================

    Args:
      num_items: n, at least 2.
      sensitivity: the largest distance of the similarity matrices of neighbours, > 0.
      epsilon: privacy parameter, > 0.
      delta: in (0, 1).
      diagonal: "one" for the set with X_ii = 1; "at_most_one" for that of the paper, X_ii <= 1,
        which is larger.
      method: "exact" or "average".
      split: what "average" takes the average of; "frobenius" is Remark 6.1, see `CosineSet`.
      normalize: whether vectors of other lengths are scaled.
      tol: relative accuracy of the projection.
      float64: whether to project in float64. In float32 a tol below 1e-3 is not reached.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is of the wrong kind, or is traced.

    Example:
      >>> import jax, numpy as np
      >>> from jaxdp.central import CosineSimilarity
      >>> v = np.random.default_rng(0).standard_normal((20, 3))
      >>> v /= np.linalg.norm(v, axis=1, keepdims=True)
      >>> cosine = CosineSimilarity(20, sensitivity=0.1, epsilon=1.0, delta=1e-6)
      >>> release = cosine.release(jax.random.key(0), v)
      >>> error = [((x - v @ v.T) ** 2).sum() for x in (release.estimate, release.noisy)]
      >>> bool(error[0] < 0.5 * error[1]), bool(error[0] < cosine.error_bound())
      (True, True)

    References:
      Cohen-Addad, d'Orsi, Epasto, Mirrokni, Zhong (2024), Perturb-and-project: differentially
      private similarities and marginals, Algorithms 3 and 4, Theorem 2.1, Remark 6.1. Algorithm 4
      as printed adds noise of variance delta**2, where Delta**2 2 log(2/delta) / epsilon**2 is
      meant, Delta the sensitivity. Here sigma is the least that is private.
    """

    num_items: int = field(Integer(2))
    sensitivity: float = field(Real(0.0))  # pyright: ignore[reportIncompatibleMethodOverride]
    epsilon: float = field(Epsilon())
    delta: float = field(Real(0.0, 1.0))
    diagonal: Literal["one", "at_most_one"] = field(DIAGONAL, default="one")
    method: Literal["exact", "average"] = field(Choice("exact", "average"), default="exact")
    split: Literal["diagonal", "frobenius"] = field(SPLIT, default="diagonal")
    normalize: bool = field(Boolean(), default=False)
    tol: float = field(Real(0.0, closed=True), default=1e-6)
    float64: bool = field(Boolean(), default=True)

    def validate(self) -> None:
        """Raises ValueError where the noise has no grid."""
        self.mechanism  # noqa: B018

    @property
    def mechanism(self) -> PerturbAndProject:
        """The mechanism for similarity matrices."""
        return PerturbAndProject(
            CosineSet(self.num_items, self.diagonal, self.split),
            self.sensitivity,
            self.epsilon,
            self.delta,
            method=self.method,
            tol=self.tol,
            max_steps=50 if self.method == "exact" else 1000,
            float64=self.float64,
        )

    @property
    def num_entries(self) -> int:
        """The entries on and above the diagonal, n (n + 1) / 2."""
        return self.mechanism.num_entries

    @staticmethod
    def row_sensitivity(num_items: int) -> float:
        """The largest distance of two similarity matrices that differ in one vector, exact.

        Args:
          num_items: n, at least 2.
        """
        # Row i moves by v' - v, of length 2 at most: 2 sum_{j != i} <v' - v, v_j>**2 <= 8 (n - 1)
        return math.sqrt(8.0 * (check_int("num_items", num_items, low=2) - 1))

    def error_bound(self, complexity: float | None = None) -> float:
        """A bound on `E |V V^T - estimate|_F**2` for all V; see `PerturbAndProject`.

        Args:
          complexity: the Gaussian complexity of the set, or a bound on it.
        """
        return self.mechanism.error_bound(complexity)

    def similarities(self, vectors: ArrayLike) -> Float[Array, "n n"]:
        """The target: the cosine similarities of vectors, as `release` takes them."""
        return gram(self._check(vectors))

    def build(self, word_bits: int = 32) -> "CosineSimilarityParams":
        """The params; the noise needs words of 32 bits.

        Raises:
          ValueError: the matrices of a projection do not fit into this machine's memory.
        """
        return CosineSimilarityParams(self.mechanism.build(word_bits))

    def release(self, key: jax.Array, vectors: ArrayLike) -> Release:
        """Makes one private release; use `jax.vmap` over keys for many.

        Args:
          key: a key.
          vectors: float[n, d], the vectors as rows.

        Raises:
          ValueError: the shape is wrong, an entry is not finite, a row is 0, or a row is not of
            length 1 and `normalize` is False.
        """
        check_key(key)
        return self.build().release(key, self._check(vectors))

    def _check(self, vectors: ArrayLike) -> jax.Array | np.ndarray:
        array = real_array("vectors", vectors)
        if array.ndim != 2 or array.shape[0] != self.num_items:
            raise ValueError(f"vectors must have shape ({self.num_items}, d), got {array.shape}.")
        # Of sums of d products in float64, an eighth of a step is the error that is accounted for.
        if (array.shape[1] + 16) * 2.0**-48 > self.step:
            raise ValueError(
                f"sensitivity must be larger for vectors of {array.shape[1]} entries, got "
                f"{self.sensitivity!r}: similarities are computed in float64."
            )
        if not isinstance(array, np.ndarray):
            return array
        norms = np.linalg.norm(array, axis=1)
        if np.any(norms == 0):
            raise ValueError(
                f"vectors must not be 0, got 0 in row {int(np.argmax(norms == 0))}: it has no "
                "cosine with others; leave it out."
            )
        off = np.abs(norms - 1) > _UNIT
        if np.any(off) and not self.normalize:
            row = int(np.argmax(off))
            raise ValueError(
                f"vectors must have norm 1, got {norms[row]:.6g} in row {row}; divide rows by "
                "their norms, or pass normalize=True."
            )
        if np.any(off):
            warnings.warn(f"{int(np.sum(off))} vectors were scaled to norm 1.", stacklevel=3)
        return array


@params
class CosineSimilarityParams:
    """The params of `CosineSimilarity`: a pytree.

    Attributes:
      mechanism: the params for similarity matrices.
    """

    mechanism: PerturbAndProjectParams

    @compiled_in_float64
    def perturb(
        self, key: jax.Array, vectors: Float[Array | np.ndarray, "n d"]
    ) -> Float[Array, "n n"]:
        """The cosine similarities with noise."""
        return self.mechanism.perturb(key, gram(vectors))

    def release(self, key: jax.Array, vectors: Float[Array | np.ndarray, "n d"]) -> Release:
        """Noise on the cosine similarities, then the projection.

        Args:
          key: a key.
          vectors: rows are scaled to length 1, and entries that are not finite are 0.
        """
        return self.mechanism.released(self.perturb(key, vectors))


@compiled_in_float64
def gram(vectors: Float[Array | np.ndarray, "n d"]) -> Float[Array, "n n"]:
    """The cosine similarities of the rows, 1 on the diagonal.

    Args:
      vectors: entries that are not finite count as 0. A row of 0 has similarity 0 to all, itself
        included.
    """
    finite = jnp.where(jnp.isfinite(vectors), vectors, 0.0).astype(jnp.float64)
    largest = jnp.max(jnp.abs(finite), axis=1, keepdims=True)  # against overflow of squares
    finite = finite / jnp.where(largest > 0, largest, 1.0)
    norms = jnp.linalg.norm(finite, axis=1, keepdims=True)
    unit = finite / jnp.where(norms > 0, norms, 1.0)
    product = dot(unit, unit.T)
    diagonal = jnp.where(norms > 0, 1.0, 0.0)
    # Rounding may leave a cosine a little beyond 1.
    return jnp.where(jnp.eye(len(product), dtype=bool), diagonal, jnp.clip(product, -1.0, 1.0))


def neighbor_recall(
    truth: ArrayLike, estimate: ArrayLike, num_neighbors: int = 10
) -> Float[Array, "..."]:
    """Share of each item's nearest neighbours that an estimate of the similarities finds.

    The mean over the items of the share of the `num_neighbors` items most similar by `truth` that
    are also among those by `estimate`. An item is no neighbour of its own. Guessing finds
    `num_neighbors / (n - 1)`.

    Edge cases:
      Ties are broken by index in both, so equal similarities can agree by chance.

    Args:
      truth: float[n, n], similarities.
      estimate: float[..., n, n].
      num_neighbors: between 1 and n - 1.

    Returns:
      Shares in [0, 1].

    Raises:
      ValueError: a shape is wrong, or `num_neighbors` is out of range.

    Example:
      >>> import numpy as np
      >>> from jaxdp.central import neighbor_recall
      >>> close = np.exp(-abs(np.subtract.outer(np.arange(6), np.arange(6))))
      >>> print(neighbor_recall(close, np.stack([close, -close]), 2))
      [1. 0.]
    """
    exact = _single("truth", truth)
    estimated = _single("estimate", estimate)
    n = exact.shape[-1] if exact.ndim else 0
    if exact.shape != (n, n) or estimated.shape[-2:] != (n, n):
        raise ValueError(
            f"truth and estimate must be n x n, got shapes {exact.shape} and {estimated.shape}."
        )
    count = check_int("num_neighbors", num_neighbors, low=1, high=n - 1)

    def nearest(x: Array) -> Array:
        return jax.lax.top_k(jnp.where(jnp.eye(n, dtype=bool), -jnp.inf, x), count)[1]

    wanted = nearest(exact)

    def recall(x: Array) -> Array:
        hits = jax.vmap(lambda a, b: jnp.isin(a, b, method="sort"))(nearest(x), wanted)
        return jnp.mean(hits.astype(jnp.float32))

    return jax.lax.map(recall, estimated.reshape(-1, n, n)).reshape(estimated.shape[:-2])


def _single(name: str, value: ArrayLike) -> Float[Array, "..."]:
    array = real_array(name, value)
    if not is_traced(array) and np.abs(array).max(initial=0.0) > np.finfo(np.float32).max:
        raise ValueError(f"{name} must be within the range of float32; divide it by a constant.")
    return jnp.asarray(array, jnp.float32)
