"""Private cosine similarities of all pairs of vectors."""

import dataclasses
import math
import warnings
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from .._spec import check_choice, check_int, check_key, is_traced
from ..projections._inputs import check_array
from ._cosine_set import CosineSet
from ._gaussian_privacy import GaussianPrivacy
from ._perturb_and_project import (
    PerturbAndProject,
    PerturbAndProjectParams,
    Release,
    check_concrete,
)

_UNIT = 1e-4  # by how much a norm may differ from 1


@dataclasses.dataclass(frozen=True, slots=True)
class CosineSimilarity(GaussianPrivacy):
    """The matrix of cosine similarities of n vectors, released by a trusted curator.

    For unit vectors, the rows of V, Gaussian noise is added to V V^T and the sum projected on a
    `CosineSet` that holds all such matrices: Algorithm 3 of the paper (method "exact"), or
    Algorithm 4 (method "average"), whose limit is another point of the set than the projection.

    Formal guarantees:
      * Privacy: (epsilon, exact_delta())-differentially private in real arithmetic for sets of
        vectors V and V' with `|V V^T - V' V'^T|_F <= sensitivity`. Exact: `exact_delta() <= delta`
        is the divergence of two such releases before the projection. The norms of vectors have no
        effect: rows are scaled to length 1 first.
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

    num_items: int
    sensitivity: float
    epsilon: float
    delta: float
    diagonal: Literal["one", "at_most_one"] = "one"
    method: Literal["exact", "average"] = "exact"
    split: Literal["diagonal", "frobenius"] = "diagonal"
    normalize: bool = False
    tol: float = 1e-6
    float64: bool = True

    def __post_init__(self):
        check_int("num_items", self.num_items, low=2)
        check_choice("normalize", self.normalize, (False, True))
        self.mechanism  # noqa: B018  validates the rest

    @property
    def mechanism(self) -> PerturbAndProject:
        """The mechanism for similarity matrices."""
        found = CosineSet(self.num_items, self.diagonal, self.split)
        steps = 50 if self.method == "exact" else 1000
        return PerturbAndProject(
            found,
            self.sensitivity,
            self.epsilon,
            self.delta,
            method=self.method,
            tol=self.tol,
            max_steps=steps,
            float64=self.float64,
        )

    @staticmethod
    def row_sensitivity(num_items: int) -> float:
        """The largest distance of two similarity matrices that differ in one vector, exact.

        Args:
          num_items: n, at least 2.
        """
        return math.sqrt(8.0 * (check_int("num_items", num_items, low=2) - 1))

    def error_bound(self, complexity: float | None = None) -> float:
        """A bound on `E |V V^T - estimate|_F**2` for all V; see `PerturbAndProject`.

        Args:
          complexity: the Gaussian complexity of the set, or a bound on it.
        """
        return self.mechanism.error_bound(complexity)

    def truth(self, vectors: ArrayLike) -> jax.Array:
        """The cosine similarities, float[n, n].

        Args:
          vectors: as in `release`.
        """
        return gram(self._check(vectors))

    def build(self) -> "CosineSimilarityParams":
        """The params, a pytree with pure methods.

        Raises:
          ValueError: the matrices of a projection do not fit into this machine's memory.
        """
        return CosineSimilarityParams(self.mechanism.build())

    def release(self, key: jax.Array, vectors: ArrayLike) -> Release:
        """One private release; `jax.vmap` over keys for many.

        Args:
          key: a key.
          vectors: float[n, d], the vectors as rows.

        Raises:
          ValueError: the shape is wrong, an entry is not finite, a row is 0, or a row is not of
            length 1 and `normalize` is False.
        """
        check_key(key)
        return self.build().release(key, self._check(vectors))

    def _check(self, vectors) -> jax.Array:
        array = check_concrete("vectors", vectors, "num_items, d", 2)
        if array.ndim != 2 or array.shape[0] != self.num_items:
            raise ValueError(f"vectors must have shape ({self.num_items}, d), got {array.shape}.")
        if is_traced(array):
            return array
        norms = np.linalg.norm(np.asarray(array, np.float64), axis=1)
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


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class CosineSimilarityParams:
    """The params of `CosineSimilarity`: a pytree.

    Attributes:
      mechanism: the params for similarity matrices.
    """

    mechanism: PerturbAndProjectParams

    def release(self, key: jax.Array, vectors: jax.Array) -> Release:
        """Noise on the cosine similarities, then the projection.

        Args:
          key: a key.
          vectors: float[n, d]; rows are scaled to length 1, and entries that are not finite are 0.
        """
        return self.mechanism.release(key, gram(vectors))


def gram(vectors: jax.Array) -> jax.Array:
    """The cosine similarities of the rows, 1 on the diagonal; float[n, n].

    Args:
      vectors: float[n, d]; entries that are not finite count as 0. A row of 0 has similarity 0 to
        all, itself included.
    """
    finite = jnp.where(jnp.isfinite(vectors), vectors, 0.0)
    largest = jnp.max(jnp.abs(finite), axis=1, keepdims=True)  # against overflow of squares
    finite = finite / jnp.where(largest > 0, largest, 1.0)
    norms = jnp.linalg.norm(finite, axis=1, keepdims=True)
    unit = finite / jnp.where(norms > 0, norms, 1.0)
    product = jnp.matmul(unit, unit.T, precision="highest")
    here = jnp.where(norms > 0, 1.0, 0.0).astype(product.dtype)
    return jnp.where(jnp.eye(len(product), dtype=bool), here, jnp.clip(product, -1.0, 1.0))


def neighbor_recall(truth: ArrayLike, estimate: ArrayLike, num_neighbors: int = 10) -> jax.Array:
    """How many of each item's nearest neighbours an estimate of the similarities finds.

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
      float[...] in [0, 1].

    Raises:
      ValueError: a shape is wrong, or `num_neighbors` is out of range.

    Example:
      >>> import numpy as np
      >>> from jaxdp.central import neighbor_recall
      >>> close = np.exp(-abs(np.subtract.outer(np.arange(6), np.arange(6))))
      >>> print(neighbor_recall(close, np.stack([close, -close]), 2))
      [1. 0.]
    """
    truth = check_array("truth", truth, "n, n", 2)
    estimate = check_array("estimate", estimate, "n, n", 2)
    n = truth.shape[-1]
    if truth.shape != (n, n) or estimate.shape[-2:] != (n, n):
        raise ValueError(
            f"truth and estimate must be n x n, got shapes {truth.shape} and {estimate.shape}."
        )
    count = check_int("num_neighbors", num_neighbors, low=1, high=n - 1)

    def nearest(x):
        others = jnp.where(jnp.eye(n, dtype=bool), -jnp.inf, x.astype(jnp.float32))
        return jax.lax.top_k(others, count)[1]

    wanted = nearest(truth)

    def recall(x):
        hits = jax.vmap(lambda a, b: jnp.isin(a, b, method="sort"))(nearest(x), wanted)
        return jnp.mean(hits.astype(jnp.float32))

    flat = jax.lax.map(recall, estimate.reshape(-1, n, n))
    return flat.reshape(estimate.shape[:-2])
