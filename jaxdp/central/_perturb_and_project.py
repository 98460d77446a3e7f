"""Perturb and project: Gaussian noise on a target, then the nearest point of a convex set."""

import math
from collections.abc import Sequence
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int32

from .._checks import Boolean, Choice, Epsilon, Instance, Integer, Real
from .._contract import Spec, field, params, spec, static
from .._spec import check_int, check_key, check_real
from .._x64 import as_float64, compiled_in_float64, in_float64
from ..projections import IntersectionProjection
from ..random import Count
from ._convex_set import ConvexSet, check_memory, real_array
from ._grid_noise import GaussianPrivacy, GridNoise, in_range, to_steps

_LARGE = 2**14  # products of batches of larger matrices are slower on a CPU than one by one


@params
class Release:
    """Everything that a curator publishes; all of it is private.

    Attributes:
      estimate: the point of the set.
      noisy: the target with noise; symmetric if the set is.
      gap: `‖estimate − projection of noisy‖**2 <= gap`; inf for averages, and as a rule for an
        `Intersection` without a center.
      residual: at least the largest distance of `estimate` from one of the parts.
      converged: whether the tolerance was reached.
      num_steps: of the projection.
    """

    estimate: Float[Array, "*s"]
    noisy: Float[Array, "*s"]
    gap: Float[Array, ""]
    residual: Float[Array, ""]
    converged: Bool[Array, ""]
    num_steps: Int32[Array, ""]


@spec
class PerturbAndProject(GaussianPrivacy, Spec["PerturbAndProjectParams"]):
    """Adds Gaussian noise to a target and returns a point of a convex set near the sum.

    For a target A, an array computed from the data of all users, and a compact convex set S,

        `noisy = A + sigma W`, W of independent N(0, 1), then `estimate = projection of noisy on S`

    (Algorithm 1 of the paper, method "exact"), or for S = intersection of S_1 ... S_q the limit of
    `p <- mean of the projections of p on S_i` from p = noisy (Algorithm 2, method "average"), which
    is a point of S but *not* the projection, though Theorem 5.4 of the paper says so. If S consists
    of symmetric matrices, W is symmetric with a variance of 1/2 off the diagonal: the symmetric
    part of independent noise. A and the noise are in whole steps of a grid, of 2**-19 sigma, so
    that the last bits of the sum tell nothing.

    Formal guarantees:
      * Privacy: (epsilon, exact_delta())-differentially private, by `GaussianPrivacy`, for data
        whose targets differ by at most `sensitivity` in Euclidean (Frobenius) norm, and are
        computed to within `step / 8` an entry. `exact_delta() <= delta`. Everything after the
        noise is post-processing, whatever the method.
      * Error of "exact": `E |estimate - projection of A|**2 <= error_bound()`, which is at most
        `sigma G(S)` with the Gaussian complexity G(S) = E max_{X in S} <X, W>. A projection P is
        firmly non-expansive, `|P(A + sigma W) - P(A)|**2 <= sigma <W, P(A + sigma W) - P(A)>`, and
        `E <W, P(A)> = 0`. The paper has a larger constant than 1. A is the rounded target here, at
        most 1e-6 sqrt(d) sigma from the target.
      * Error of "average": steps never move away from a point of S, so for A in S the error is at
        most `sigma**2 dimension` on average; there is no bound by G(S).
      * `gap` of a release certifies how far it is from the exact projection, where it is not inf.

    Edge cases:
      ============================  ==============================================================
      A outside of S                private; the error bound is about the projection of A. Entries
                                    beyond 2**49 steps are cut
      target not symmetric          ValueError if the set is symmetric; inside jit its symmetric
                                    part is taken, which is closer than A to every point of S
      not converged                 private; `gap` says what is lost
      delta below 5e-15 d e**eps    ValueError: the tables of the noise are not fine enough
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

    set: ConvexSet = field(Instance(ConvexSet, "a ConvexSet such as Intersection"))
    sensitivity: float = field(Real(0.0))  # pyright: ignore[reportIncompatibleMethodOverride]
    epsilon: float = field(Epsilon())
    delta: float = field(Real(0.0, 1.0))
    method: Literal["exact", "average"] = field(Choice("exact", "average"), default="exact")
    tol: float = field(Real(0.0, closed=True), default=1e-6)
    max_steps: int = field(Integer(1), default=1000)
    float64: bool = field(Boolean(), default=True)

    def validate(self) -> None:
        """Raises ValueError where the noise has no grid that holds the set."""
        # Entries off the diagonal of symmetric matrices have their noise on sqrt(2) times them.
        if not in_range(math.sqrt(2) * self.set.radius, self.step):
            raise ValueError(
                f"sensitivity must be larger for a set of radius {self.set.radius:g}, got "
                f"{self.sensitivity!r}: the set has more than 2**49 steps of the noise."
            )

    @property
    def num_entries(self) -> int:
        """The dimension of the set."""
        return self.set.dimension

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
        # Theorem 5.1: E |P(A + Z) - P(A)|**2 <= sigma G; P is non-expansive; two points of S
        sigma = self.sigma
        bounds = [sigma**2 * self.set.dimension, 4 * self.set.radius**2]
        return min([*bounds, sigma * complexity] if self.method == "exact" else bounds)

    def build(self, word_bits: int = 32) -> "PerturbAndProjectParams":
        """The params; the noise needs words of 32 bits.

        Raises:
          ValueError: a projection does not fit into this machine's memory.
        """
        check_int("word_bits", word_bits, low=32, high=32)
        check_memory(
            self.set.num_bytes if self.float64 else self.set.num_bytes // 2,
            f"set must be such that a projection fits, got one of points of shape {self.set.shape}",
        )
        options = (self.method, self.tol, self.max_steps, self.float64)
        return PerturbAndProjectParams(self.noise_params(), self.set, *options)

    def release(self, key: jax.Array, target: ArrayLike) -> Release:
        """Makes one private release; use `jax.vmap` over keys for many.

        Args:
          key: a key.
          target: of the shape of a point, finite, and symmetric if the set is (to a relative 1e-5).

        Raises:
          ValueError: the target has another shape, is not finite or not symmetric, or a projection
            does not fit into this machine's memory.
        """
        check_key(key)
        array = real_array("target", target)
        if array.shape != self.set.shape:
            raise ValueError(f"target must have shape {self.set.shape}, got {array.shape}.")
        if self.set.symmetric and isinstance(array, np.ndarray):
            off = np.abs(array - array.T)
            if np.max(off) > 1e-5 * np.max(np.abs(array)):
                i, j = (int(index) for index in np.unravel_index(np.argmax(off), off.shape))
                raise ValueError(
                    f"target must be symmetric, got {array[i, j]:.6g} at {(i, j)} and "
                    f"{array[j, i]:.6g} at {(j, i)}."
                )
        return self.build().release(key, array)


@params
class PerturbAndProjectParams:
    """The params of `PerturbAndProject`: a pytree.

    Attributes:
      noise: of the entries of the target.
      set, method, tol, max_steps, float64: as in the spec.
    """

    noise: GridNoise
    set: ConvexSet = static()
    method: str = static()
    tol: float = static()
    max_steps: int = static()
    float64: bool = static()

    @compiled_in_float64
    def perturb(
        self, key: jax.Array, target: Float[Array | np.ndarray, "*s"]
    ) -> Float[Array, "*s"]:
        """The target with noise; entries that are not finite count as 0."""
        target = jnp.asarray(target).astype(jnp.float64)
        target = jnp.where(jnp.isfinite(target), target, 0.0)
        noise, scale = self.noise.draw(key, self.set.shape), jnp.ones((), jnp.float64)
        if self.set.symmetric:
            # (X_ii, sqrt(2) X_ij) with i < j are coordinates of symmetric matrices in which the
            # norm is Euclidean: each has noise of the same variance.
            target = 0.5 * target + 0.5 * target.T
            row, column = (jnp.arange(len(target))[:, None], jnp.arange(len(target))[None])
            scale = jnp.where(row == column, 1.0, math.sqrt(2))
            # One number for both mirrored entries
            noise = jax.tree.map(lambda limb: jnp.where(row <= column, limb, limb.T), noise)
        (step,) = as_float64(self.noise.step)
        steps: Count = to_steps(target, scale / step) + noise
        return self.noise.values(steps) / scale

    def project(self, noisy: Float[Array, "*s"]) -> IntersectionProjection:
        """The point of the set for what `perturb` returns."""
        return jax.tree.map(lambda leaf: leaf[0], _project(self, noisy[None]))

    def released(self, noisy: Float[Array, "*s"]) -> Release:
        """A release of what `perturb` returns."""
        projection = self.project(noisy)
        return Release(
            projection.point,
            noisy,
            projection.gap,
            projection.residual,
            projection.converged,
            projection.num_steps,
        )

    def release(self, key: jax.Array, target: Float[Array | np.ndarray, "*s"]) -> Release:
        """Noise, then the projection."""
        return self.released(self.perturb(key, target))


def _project(
    params: PerturbAndProjectParams, noisy: Float[Array, "b *s"]
) -> IntersectionProjection:
    """Projects a batch, small points at once and large ones in turn.

    Under `jax.vmap` the batches are joined before the float64 block, which a batch of what is in
    the block would end.
    """
    solve = params.set.project if params.method == "exact" else params.set.average

    def one(x: Array) -> IntersectionProjection:
        return solve(x, tol=params.tol, max_steps=params.max_steps)

    def every(x: Array) -> IntersectionProjection:
        return jax.vmap(one)(x) if x[0].size < _LARGE else jax.lax.map(one, x)

    @jax.custom_batching.custom_vmap
    def batched(x: Array) -> IntersectionProjection:
        if not params.float64:
            return every(x)
        return in_float64(lambda narrow: every(narrow.astype(jnp.float64)))(x)

    @batched.def_vmap
    def _(
        axis_size: int, in_batched: Sequence[bool], x: Array
    ) -> tuple[IntersectionProjection, IntersectionProjection]:
        del in_batched
        projected = batched(x.reshape(-1, *x.shape[2:]))
        projected = jax.tree.map(
            lambda leaf: leaf.reshape(axis_size, -1, *leaf.shape[1:]), projected
        )
        return projected, jax.tree.map(lambda leaf: True, projected)

    return batched(noisy)
