"""Error bounds of perturb-and-project, and the Gaussian complexity they rest on.

The Gaussian complexity of a compact set S is `G(S) = E max_{X in S} <X, W>` for independent normals
W. Noise of deviation sigma and a projection P on a convex S have

  `E |P(A + sigma W) - P(A)|**2 <= sigma E <W, P(A + sigma W)> <= sigma G(S)`

for every A, since P is firmly non-expansive and `E <W, P(A)> = 0`. The constant 1 replaces that of
Lemma 5.2 of the paper.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._spec import check_int, check_key, check_real, within_float64
from .._x64 import in_float64
from ..central import ConvexSet, CosineSet
from ..random import normal


@dataclasses.dataclass(frozen=True)
class GaussianComplexity:
    """A Monte Carlo estimate of a Gaussian complexity.

    Attributes:
      lower: mean over the samples of a value that a point of the set attains, or less.
      upper: mean over the samples of a proven bound on the maximum.
      deviation: the standard error of `upper`.
      limit: `upper` plus an allowance for the samples; below G(S) with a probability of at most
        `failure`.
      failure: see `limit`.
    """

    lower: float
    upper: float
    deviation: float
    limit: float
    failure: float


@within_float64
def gaussian_complexity(
    convex_set: ConvexSet,
    key: jax.Array,
    *,
    num_samples: int = 16,
    scale: float | None = None,
    failure: float = 1e-6,
    tol: float = 1e-6,
    max_steps: int = 1000,
) -> GaussianComplexity:
    """The Gaussian complexity of a convex set by Monte Carlo, with a certificate for each sample.

    The projection p of t W on S satisfies `<t W - p, X - p> <= 0` for all X in S, so

        `<W, p> <= max_{X in S} <X, W> <= <W, p> + (R |p| - |p|**2) / t`

    with R = `radius`, and a point within d = sqrt(gap) of p widens both by no more than `|W| d` and
    `(R + 2 |p| + d) d / t`. Where there is no certificate (gap = inf, as of an `Intersection`
    without a center) only `-R |W|` and `R |W|` are left.

    Formal guarantees:
      `lower` and `upper` enclose the mean of the maxima of the samples. The maximum is a Lipschitz
      function of W with constant R, so by Gaussian concentration `limit = upper + R sqrt(2
      log(1/failure) / num_samples)` is below G(S) with a probability of at most `failure`.

    Args:
      convex_set: S.
      key: a key.
      num_samples: N, at least 1.
      scale: t > 0; for None one that makes `upper - lower` about 1 % of a sample.
      failure: in (0, 1).
      tol: relative accuracy of the projections.
      max_steps: upper limit on the steps of a projection.

    Returns:
      GaussianComplexity.

    Raises:
      ValueError: an argument is out of range.

    Example:
      >>> import jax
      >>> from jaxdp.bounds import gaussian_complexity
      >>> from jaxdp.central import CosineSet
      >>> complexity = gaussian_complexity(CosineSet(16), jax.random.key(0), num_samples=4)
      >>> complexity.lower <= complexity.upper <= 1.05 * complexity.lower
      True
      >>> complexity.upper < CosineSet(16).complexity_bound()
      True

    References:
      Cohen-Addad et al. (2024), Definition B.1 and Theorem 5.1; Boucheron, Lugosi, Massart (2013),
      Concentration inequalities, Theorem 5.6.
    """
    check_key(key)
    if not isinstance(convex_set, ConvexSet):
        raise TypeError(f"convex_set must be a ConvexSet, got {convex_set!r}.")
    count = check_int("num_samples", num_samples, low=1, high=2**20)
    tol = check_real("tol", tol, low=0.0)
    failure = check_real("failure", failure, low=0.0, high=1.0)
    radius = convex_set.radius
    if scale is None:
        # (R |p| - |p|**2) / t is at most R**2 / (4 t); R is less than G(S) at any rate
        scale = 25 * radius**2 / max(convex_set.complexity_bound(), 1e-300)
    scale = check_real("scale", scale, low=0.0, high=1e150)  # beyond, squares of t W overflow

    @in_float64
    def sample(index: int) -> Float[Array, "2"]:
        """What encloses the maximum for one W."""
        w = normal(jax.random.fold_in(key, index), convex_set.shape)
        w = 0.5 * w + 0.5 * w.T if convex_set.symmetric else w  # the same <X, w>
        nearest = convex_set.project(scale * w, tol=tol, max_steps=max_steps)
        point, away = nearest.point, jnp.sqrt(nearest.gap)  # p up to the distance d
        value, size, noise = jnp.sum(w * point), jnp.linalg.norm(point), jnp.linalg.norm(w)
        spread = jnp.maximum(radius * size - size**2, 0.0) / scale
        wider = noise * away + (radius + 2 * size + away) * away / scale
        # A point near the set need not lie in it: `residual` is how far off it may be.
        attained = jnp.where(jnp.isfinite(away), value - noise * nearest.residual, -jnp.inf)
        proven = jnp.stack([attained, value + spread + wider])
        return jnp.clip(proven, -radius * noise, radius * noise)

    samples = np.array([sample(i) for i in range(count)], np.float64)
    lower, upper = samples.mean(axis=0)
    deviation = samples[:, 1].std(ddof=1) / math.sqrt(count) if count > 1 else math.inf
    # Pr[mean <= E - s] <= exp(-N s**2 / (2 R**2)): Theorem 5.6 of Boucheron et al.
    limit = upper + radius * math.sqrt(2 * math.log(1 / failure) / count)
    return GaussianComplexity(float(lower), float(upper), float(deviation), float(limit), failure)


@within_float64
def perturb_and_project_mse(
    sigma: float, complexity: float, *, dimension: int | None = None, radius: float | None = None
) -> float:
    """The largest `E |P(A + sigma W) - P(A)|**2` of a projection on a compact convex set.

    `min(sigma G(S), sigma**2 dimension, (2 radius)**2)`

    Formal guarantees:
      A proven bound for every A, with the constant 1. Symmetrised noise on symmetric sets has the
      same G(S), and the dimension n (n + 1) / 2.

    Args:
      sigma: deviation of the noise, > 0.
      complexity: G(S), or a bound on it, > 0.
      dimension: of the noise, at least 1; None leaves its term out.
      radius: of a ball that holds S, > 0; None leaves its term out.

    Returns:
      The bound.

    Example:
      >>> from jaxdp.bounds import perturb_and_project_mse
      >>> from jaxdp.central import CosineSet
      >>> print(round(perturb_and_project_mse(1.0, CosineSet(20).complexity_bound()), 1))
      124.9

    References:
      Cohen-Addad et al. (2024), Theorem 5.1 and Lemma 5.2, their constant improved.
    """
    sigma = check_real("sigma", sigma, low=0.0)
    bounds = [sigma * check_real("complexity", complexity, low=0.0)]
    if dimension is not None:
        bounds.append(sigma**2 * check_int("dimension", dimension, low=1))
    if radius is not None:
        bounds.append(4 * check_real("radius", radius, low=0.0) ** 2)
    return min(bounds)


@within_float64
def spectraplex_complexity(size: int, trace: float = 1.0) -> float:
    """A bound on the Gaussian complexity of {X psd, tr X <= t}, N x N.

    `sqrt(2) t E|g|`, g of N normals; for t = N that of `jaxdp.central.CosineSet`. For marginals of
    even order k of n features, flattened, N = n**(k/2): the complexity is of the order n**(k/4).

    Args:
      size: N, at least 1.
      trace: t > 0.

    Returns:
      The bound.

    Example:
      >>> from jaxdp.bounds import spectraplex_complexity
      >>> print(round(spectraplex_complexity(100), 2))
      14.11

    References:
      Cohen-Addad et al. (2024), Theorem A.4, even order; Dwork, Nikolov, Talwar (2015).
    """
    size = check_int("size", size, low=1)
    # {X psd, X_ii = 1} has the trace N, and its bound is that of all matrices with this trace.
    return check_real("trace", trace, low=0.0) * CosineSet(size).complexity_bound() / size


@within_float64
def cosine_similarity_mse(num_items: int, sigma: float) -> float:
    """The largest mean squared Frobenius error of `CosineSimilarity`, method "exact".

    `min(sqrt(2) sigma n E|g|, sigma**2 n (n + 1) / 2, (2 n)**2)`

    Formal guarantees:
      A proven bound for all vectors. The noise alone, as the Gaussian mechanism leaves it, has the
      second term: the projection gains a factor of the order sigma sqrt(n).

    Args:
      num_items: n, 1 to 2**31.
      sigma: deviation of the noise before it is symmetrised, > 0.

    Returns:
      The bound, for the sum over the n**2 entries.

    Example:
      >>> from jaxdp.bounds import cosine_similarity_mse
      >>> print(round(cosine_similarity_mse(20, 1.0), 1), round(cosine_similarity_mse(20, 0.1), 2))
      124.9 2.1

    References:
      Cohen-Addad et al. (2024), Theorem 2.1, with its constant.
    """
    n = check_int("num_items", num_items, low=1, high=2**31)  # of n (n + 1) / 2 entries, int64
    return perturb_and_project_mse(
        sigma, CosineSet(n).complexity_bound(), dimension=n * (n + 1) // 2, radius=float(n)
    )
