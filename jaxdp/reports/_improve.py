"""Better counts from estimated ones: known to be non-negative, and to add up to the users."""

from statistics import NormalDist

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from .._spec import as_array, check_real, is_traced
from .._x64 import all_finite, one_program
from ..projections import simplex


def norm_sub(counts: ArrayLike, num_users: ArrayLike) -> Float[Array, "*batch k"]:
    """Non-negative counts that add up to the number of users: the nearest ones to an estimate.

    `c_v = max(x_v - t, 0)`, with the one t for which the c_v add up to n. This is Norm-Sub of Wang
    et al., which sets negative counts to 0 and subtracts the same number from all others, until the
    sum is right; and it is the Euclidean projection onto the scaled simplex
    (`jaxdp.projections.simplex`), constrained least squares.

    Formal guarantees:
      * Privacy: post-processing; epsilon stays what it was.
      * Error: `|c - h|**2 <= |x - h|**2` for the users' true counts h and every estimate x, as for
        any projection onto a convex set that holds h. For 1,000 values of Zipf's law, 50,000 users
        and epsilon = 1 the root mean squared error is a third of that of x.
      * Bias: rare values come out too large, frequent ones too small by about t, even for an x
        without bias. Sums over many values, such as distribution functions, may be worse than
        those of x, whose errors cancel. Do not average the results of several collections: add up
        their estimates, then project.
      * Ranking: that of x.
      * Differentiable almost everywhere, as `jaxdp.projections.simplex` is.

    Edge cases:
      ===========================  ===========================================================
      estimates far below n        the sum is n all the same; t is negative
      all of a row's counts alike  n / k each
      ===========================  ===========================================================

    Args:
      counts: x, float[..., k], what `params.estimate` returns.
      num_users: n > 0, a number or an array that broadcasts to the leading axes.

    Returns:
      float[..., k].

    Raises:
      ValueError: counts are not finite or have no last axis, or `num_users` is not > 0 (outside of
        jit).
      TypeError: an argument is not of real numbers.

    Example:
      >>> from jaxdp.reports import norm_sub
      >>> print(norm_sub([70.0, 40.0, -5.0, -25.0], num_users=80).round(2))
      [55. 25.  0.  0.]

    References:
      Wang, Lopuhaä-Zwakenberg, Li, Skoric, Li (2020), Locally differentially private frequency
      estimation with consistency, NDSS, section 4: Norm-Sub, and that it solves constrained least
      squares.
    """
    checked = _checked_counts(counts)
    users = _checked_numbers("num_users", num_users, checked, checked.shape[:-1], positive=True)
    return simplex(checked, users)


def base_cut(
    counts: ArrayLike, stderr: ArrayLike, *, alpha: float = 0.05
) -> Float[Array, "*batch k"]:
    """The estimated counts that stand out of the noise; all others are 0.

    A count is left as it is where it is above `T = z(1 - alpha / k) s`, z being the quantile
    function of the standard normal law and s the standard error of the count of a value that nobody
    has. Of the values that nobody has, at most alpha pass in expectation, so the probability that
    any does is at most alpha, as far as the noise is normal.

    Formal guarantees:
      * Privacy: post-processing; epsilon stays what it was.
      * Bias: counts that pass are as they were, but that they passed makes those near T too large;
        true counts below T are mostly lost. The sum is not n: for that, take `norm_sub`.

    It is made to find the few frequent values among very many, without false ones. Where most
    values are rare, even its squared error is small; where many are common, and for sums over sets
    of values, that of `norm_sub` is far smaller.

    Args:
      counts: float[..., k], what `params.estimate` returns.
      stderr: s >= 0, a number or an array that broadcasts to `counts`; of a spec it is
        `numpy.sqrt(spec.variance(c)[v])`, c being a histogram of the n users without value v.
      alpha: how many false values may be expected, in (0, k).

    Returns:
      float[..., k].

    Raises:
      ValueError: counts are not finite or have no last axis, stderr is negative or not finite
        (outside of jit), or alpha is out of range.
      TypeError: an argument is not of real numbers.

    Example:
      >>> from jaxdp.reports import base_cut
      >>> base_cut([70.0, 40.0, 11.0, -25.0], stderr=10.0).tolist()
      [70.0, 40.0, 0.0, 0.0]

    References:
      Wang, Blocki, Li, Jha (2017), Locally differentially private protocols for frequency
      estimation, USENIX Security, section 6: the significance threshold; Wang et al. (2020), as for
      `norm_sub`, section 4: Base-Cut.
    """
    checked = _checked_counts(counts)
    deviation = _checked_numbers("stderr", stderr, checked, checked.shape, positive=False)
    num_values = checked.shape[-1]
    share = check_real("alpha", alpha, low=0.0, high=float(num_values)) / num_values
    # z(1 - x) = -z(x), of which the right side keeps its digits for a small x.
    threshold = -NormalDist().inv_cdf(share) * deviation
    return _above(checked, jnp.broadcast_to(threshold, checked.shape))


@one_program
def _above(counts: jax.Array, threshold: jax.Array) -> jax.Array:
    return jnp.where(counts > threshold, counts, 0.0)


def _checked_counts(counts: ArrayLike) -> Float[Array, "*batch k"]:
    """Estimated counts as a floating array, or raises unless they are finite."""
    given = counts if isinstance(counts, jax.Array) else as_array("counts", counts)
    if not jnp.issubdtype(given.dtype, jnp.number) or jnp.iscomplexobj(given):
        raise TypeError(f"counts must be an array of real numbers, got dtype {given.dtype}.")
    if not given.ndim or not given.shape[-1]:
        raise ValueError(f"counts must have shape [..., k], k at least 1, got {given.shape}.")
    # Half precision becomes float32, integers the caller's default float.
    wide = np.result_type(given.dtype, np.float32)
    array = jnp.asarray(given, jax.dtypes.canonicalize_dtype(wide))
    if not is_traced(array) and not all_finite(array):
        raise ValueError("counts must be finite, got NaN or inf.")
    return array


def _checked_numbers(
    name: str, value: ArrayLike, counts: jax.Array, shape: tuple[int, ...], *, positive: bool
) -> Float[Array, "..."]:
    """Numbers of the dtype of the counts, or raises unless they are finite and > 0, or >= 0.

    And unless they broadcast to a shape.
    """
    given = value if isinstance(value, Tracer) else as_array(name, value)
    if given.ndim > len(shape) or any(
        a not in (1, b) for a, b in zip(given.shape[::-1], shape[::-1], strict=False)
    ):
        raise ValueError(
            f"{name} must be a number, or an array that broadcasts to {shape}, got shape "
            f"{given.shape}."
        )
    if isinstance(given, Tracer):
        return given.astype(counts.dtype)
    if given.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be real numbers, got {value!r}.")
    # As far as the projection adds up such numbers without an overflow, or rounding them to 0.
    limits = jnp.finfo(counts.dtype)
    low, high = (float(limits.tiny) if positive else 0.0), float(limits.max) / 2**20
    if not np.all((given >= low) & (given <= high)):
        raise ValueError(
            f"{name} must be {'> 0' if positive else '>= 0'} and at most {high:.3g} in "
            f"{counts.dtype}, got {value!r}."
        )
    return jnp.asarray(given.astype(counts.dtype))
