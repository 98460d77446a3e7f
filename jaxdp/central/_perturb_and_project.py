"""Perturb and project: Gaussian noise on a target, then the nearest point of a convex set."""

import dataclasses
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from .._spec import check_choice, check_epsilon, check_int, check_key, check_real, is_traced
from .._x64 import compiled_in_float64
from ..projections import IntersectionProjection
from ..projections._inputs import check_array, check_tolerance, in_precision, symmetrize
from ..random._gamma import normal
from ._convex_set import ConvexSet
from ._gaussian_privacy import GaussianPrivacy
from ._memory import check_memory

_LARGE = 2**14  # products of batches of larger matrices are slower on a CPU than one by one


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Release:
    """What a curator publishes, all of it private.

    Attributes:
      estimate: float[...], the point of the set.
      noisy: float[...], the target with noise; symmetric if the set is.
      gap: float[], `‖estimate − projection of noisy‖**2 <= gap`; inf for averages, and as a rule
        for an `Intersection` without a center.
      residual: float[], at least the largest distance of `estimate` from one of the parts.
      converged: bool[], whether the tolerance was reached.
      num_steps: int32[].
    """

    estimate: Any
    noisy: Any
    gap: Any
    residual: Any
    converged: Any
    num_steps: Any


@dataclasses.dataclass(frozen=True, slots=True)
class PerturbAndProject(GaussianPrivacy):
    """Adds Gaussian noise to a target and returns a point of a convex set near the sum.

    For a target A, an array computed from the data of all users, and a compact convex set S,

        `noisy = A + sigma W`, W of independent N(0, 1), then `estimate = projection of noisy on S`

    (Algorithm 1 of the paper, method "exact"), or for S = intersection of S_1 ... S_q the limit of
    `p <- mean of the projections of p on S_i` from p = noisy (Algorithm 2, method "average"), which
    is a point of S but *not* the projection, though Theorem 5.4 of the paper says so. If S consists
    of symmetric matrices, W is symmetrised, (W + W^T)/2: off the diagonal its variance is 1/2.

    Formal guarantees:
      * Privacy: (epsilon, exact_delta())-differentially private in real arithmetic, exact, for data
        whose targets differ by at most `sensitivity` in Euclidean (Frobenius) norm. `exact_delta()
        <= delta`. Everything after the noise is post-processing, whatever the method.
      * Error of "exact": `E |estimate - projection of A|**2 <= error_bound()`, which is at most
        `sigma G(S)` with the Gaussian complexity G(S) = E max_{X in S} <X, W>. A projection P is
        firmly non-expansive, `|P(A + sigma W) - P(A)|**2 <= sigma <W, P(A + sigma W) - P(A)>`, and
        `E <W, P(A)> = 0`. The paper has a larger constant than 1.
      * Error of "average": steps never move away from a point of S, so for A in S the error is at
        most `sigma**2 dimension` on average; there is no bound by G(S).
      * `gap` of a release certifies how far it is from the exact projection, where it is not inf.

    Edge cases:
      ============================  ==============================================================
      A outside of S                private; the error bound is about the projection of A
      target not symmetric          ValueError if the set is symmetric; inside jit its symmetric
                                    part is taken, which is closer than A to every point of S
      not converged                 private; `gap` says what is lost
      ============================  ==============================================================

    Args:
      set: a `ConvexSet`: an `Intersection` of sets with known projections, or another.
      sensitivity: the largest distance of the targets of neighbouring data sets, > 0.
      epsilon: privacy parameter, > 0.
      delta: in (0, 1).
      method: "exact" or "average".
      tol: relative accuracy of the projection.
      max_steps: upper limit on the steps of the projection.
      float64: whether to project in float64; the release is cast to the default float.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is of the wrong kind, or is traced.

    Example:
      >>> import jax, numpy as np
      >>> from jaxdp.central import CosineSet, PerturbAndProject
      >>> mechanism = PerturbAndProject(CosineSet(3), sensitivity=0.1, epsilon=1.0, delta=1e-6)
      >>> release = mechanism.release(jax.random.key(0), np.eye(3))
      >>> bool(release.gap < 1e-9), bool(abs(release.estimate).max() <= 1 + 1e-6)
      (True, True)

    References:
      Cohen-Addad, d'Orsi, Epasto, Mirrokni, Zhong (2024), Perturb-and-project: differentially
      private similarities and marginals, Algorithms 1 and 2, Theorem 5.1; Balle, Wang (2018).
    """

    set: ConvexSet
    sensitivity: float
    epsilon: float
    delta: float
    method: Literal["exact", "average"] = "exact"
    tol: float = 1e-6
    max_steps: int = 1000
    float64: bool = True

    def __post_init__(self):
        if not isinstance(self.set, ConvexSet):
            raise TypeError(f"set must be a ConvexSet such as Intersection, got {self.set!r}.")
        sensitivity = check_real("sensitivity", self.sensitivity, low=0.0)
        object.__setattr__(self, "sensitivity", sensitivity)
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "delta", check_real("delta", self.delta, low=0.0, high=1.0))
        check_choice("method", self.method, ("exact", "average"))
        object.__setattr__(self, "tol", check_tolerance("tol", self.tol))
        check_int("max_steps", self.max_steps, low=1)

    def error_bound(self, complexity: float | None = None) -> float:
        """A bound on `E |estimate - projection of A|**2`, summed over the entries, for every A.

        The least of `sigma G(S)` (only "exact"), `sigma**2 dimension` and `(2 radius)**2`; for
        "average" it holds for A in S.

        Args:
          complexity: G(S) or a bound on it, > 0, such as of `jaxdp.bounds.gaussian_complexity`;
            the set's own bound for None.
        """
        if complexity is None:
            complexity = self.set.complexity_bound()
        complexity = check_real("complexity", complexity, low=0.0)
        sigma = self.sigma
        bounds = [sigma**2 * self.set.dimension, 4 * self.set.radius**2]
        return min([*bounds, sigma * complexity] if self.method == "exact" else bounds)

    def build(self) -> "PerturbAndProjectParams":
        """The params, a pytree with pure methods.

        Raises:
          ValueError: a projection does not fit into this machine's memory.
        """
        check_memory(
            self.set.num_bytes if self.float64 else self.set.num_bytes // 2,
            f"set must be such that a projection fits, got one of points of shape {self.set.shape}",
        )
        return PerturbAndProjectParams(
            np.asarray(self.sigma), self.set, self.method, self.tol, self.max_steps, self.float64
        )

    def release(self, key: jax.Array, target: ArrayLike) -> Release:
        """One private release; `jax.vmap` over keys for many.

        Args:
          key: a key.
          target: float[shape], finite, and symmetric if the set is (to a relative 1e-5).

        Raises:
          ValueError: the target has another shape, is not finite or not symmetric, or a projection
            does not fit into this machine's memory.
        """
        check_key(key)
        array = check_concrete("target", target, "", 0)
        if array.shape != self.set.shape:
            raise ValueError(f"target must have shape {self.set.shape}, got {array.shape}.")
        if self.set.symmetric and not is_traced(array):
            check_symmetric("target", array)
        return self.build().release(key, array)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PerturbAndProjectParams:
    """The params of `PerturbAndProject`: a pytree.

    Attributes:
      sigma: float64[], the standard deviation of the noise.
      set, method, tol, max_steps, float64: as in the spec.
    """

    sigma: jax.Array | np.ndarray
    set: ConvexSet = dataclasses.field(metadata={"static": True})
    method: str = dataclasses.field(metadata={"static": True})
    tol: float = dataclasses.field(metadata={"static": True})
    max_steps: int = dataclasses.field(metadata={"static": True})
    float64: bool = dataclasses.field(metadata={"static": True})

    @compiled_in_float64
    def perturb(self, key: jax.Array, target: jax.Array) -> jax.Array:
        """The target with noise, float[shape]; entries that are not finite count as 0."""
        target = jnp.asarray(target).astype(jnp.float64)
        target = jnp.where(jnp.isfinite(target), target, 0.0)
        noise = normal(key, self.set.shape)
        noisy = target + jnp.asarray(self.sigma).astype(jnp.float64) * noise
        return symmetrize(noisy) if self.set.symmetric else noisy

    def project(self, noisy: jax.Array) -> IntersectionProjection:
        """The point of the set for what `perturb` returns."""
        batch = _project(self, noisy[None])
        return jax.tree.map(lambda leaf: leaf[0], batch)

    def release(self, key: jax.Array, target: jax.Array) -> Release:
        """Noise, then the projection."""
        noisy = self.perturb(key, target)
        found = self.project(noisy)
        return Release(
            found.point, noisy, found.gap, found.residual, found.converged, found.num_steps
        )


def _project(params: PerturbAndProjectParams, noisy: jax.Array) -> IntersectionProjection:
    """Projects a batch, float[b, shape], small points at once and large ones in turn.

    Under `jax.vmap` the batches are joined before the float64 block, which a batch of what is in
    the block would end.
    """
    solve = params.set.project if params.method == "exact" else params.set.average

    def one(x):
        return solve(x, tol=params.tol, max_steps=params.max_steps)

    def every(x):
        return jax.vmap(one)(x) if x[0].size < _LARGE else jax.lax.map(one, x)

    @jax.custom_batching.custom_vmap
    def batched(x):
        return in_precision(every, params.float64, x)

    @batched.def_vmap
    def _(axis_size, in_batched, x):
        del in_batched
        found = batched(x.reshape(-1, *x.shape[2:]))
        found = jax.tree.map(lambda leaf: leaf.reshape(axis_size, -1, *leaf.shape[1:]), found)
        return found, jax.tree.map(lambda leaf: True, found)

    return batched(noisy)


def check_concrete(name: str, value: ArrayLike, axes: str, ndim: int) -> jax.Array:
    """`check_array`, which looks at the entries of a constant inside of jit as well."""
    if is_traced(value):
        return check_array(name, value, axes, ndim)
    with jax.ensure_compile_time_eval():
        return check_array(name, value, axes, ndim)


def check_symmetric(name: str, value: jax.Array) -> None:
    """Raises unless a matrix is symmetric up to a relative 1e-5."""
    matrix = np.asarray(value, np.float64)
    off = np.abs(matrix - matrix.T)
    if np.max(off) > 1e-5 * np.max(np.abs(matrix)):
        i, j = (int(index) for index in np.unravel_index(np.argmax(off), off.shape))
        raise ValueError(
            f"{name} must be symmetric, got {matrix[i, j]:.6g} at {(i, j)} and {matrix[j, i]:.6g} "
            f"at {(j, i)}."
        )
