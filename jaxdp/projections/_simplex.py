"""The probability simplex and the L1 ball."""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from ._inputs import check_array, check_radius

_MAX_STEPS = 64
_BLOCK = 32


def simplex(x: ArrayLike, radius: ArrayLike = 1.0) -> jax.Array:
    """The nearest point with non-negative entries that sum to `radius`.

    argmin of ‖w − x‖² over w ≥ 0, Σw = r; it is w = max(x − τ, 0) with the one τ that gives the sum
    r. Newton's method from τ = max x − r finds it without sorting: f(τ) = Σ max(x − τ, 0) − r is
    convex and decreasing, and every step divides f·#{x > τ} by at least 4, so log2(k/u) steps are
    enough for k entries and a relative accuracy u (64 are allowed; 5 to 10 are usual).

    Formal guarantees:
      * Σw = r and x − w = τ on the support up to a few units of rounding *of r*, whatever the
        offset of x: τ is kept as an unevaluated sum of two floats, so entries near it are compared
        without cancellation.
      * Adding a constant to x changes nothing but the rounding of x itself.
      * Derivative: v ↦ v − mean of v over the support, on the support, and 0 elsewhere: exact
        where the projection is differentiable, one of its one-sided derivatives elsewhere.

    Edge cases:
      =====================  ==============================
      k = 1                  w = r
      ties                   tied entries get equal weights
      large offset of x      exact for x as it is rounded
      NaN inside jit         all of that row is NaN
      =====================  ==============================

    `optax.projections.projection_simplex` treats a whole array as one simplex and sorts. Its
    cumulative sums lose Σw = 1 for large offsets: in float32 the weights of 4,099 entries of 10^6
    and 10^6 + 1/4 miss the sum by more than a percent.

    Args:
      x: float[..., k]; the last axis is projected.
      radius: the sum r > 0, a number or an array that broadcasts to the leading axes.

    Returns:
      float[..., k].

    Raises:
      ValueError: `x` is not finite or has no last axis, or `radius` is not > 0 (outside of jit).

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxdp import projections
      >>> print(projections.simplex(jnp.array([0.75, 0.5, -0.25])))
      [0.625 0.375 0.   ]

    References:
      Michelot (1986), A finite algorithm for finding the projection of a point onto the canonical
      simplex of Rn; Condat (2016), Fast projection onto the simplex and the l1 ball.
    """
    x = check_array("x", x, "k", 1)
    return project_simplex(x, check_radius("radius", radius, x.shape[:-1], x.dtype))


def l1_ball(x: ArrayLike, radius: ArrayLike = 1.0) -> jax.Array:
    """The nearest point with Σ|w| ≤ `radius`.

    w = x inside the ball, else sign(x)·(projection of `|x|` onto the simplex of sum r): soft
    thresholding at the level that gives Σ|w| = r. Guarantees, derivative and edge cases are those
    of `simplex`. A matrix is projected as one vector with `l1_ball(x.reshape(-1))`.

    Args:
      x: float[..., k]; the last axis is projected.
      radius: r > 0, a number or an array that broadcasts to the leading axes.

    Returns:
      float[..., k]; bit for bit `x` where x is in the ball.

    Raises:
      ValueError: `x` is not finite or has no last axis, or `radius` is not > 0 (outside of jit).

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxdp import projections
      >>> print(projections.l1_ball(jnp.array([0.75, -0.75, 0.125])))
      [ 0.5 -0.5  0. ]

    References:
      Duchi, Shalev-Shwartz, Singer, Chandra (2008), Efficient projections onto the l1-ball.
    """
    x = check_array("x", x, "k", 1)
    return project_l1_ball(x, check_radius("radius", radius, x.shape[:-1], x.dtype))


@jax.jit
def project_l1_ball(x: jax.Array, radius: jax.Array) -> jax.Array:
    """`l1_ball` without checks; radius of shape x.shape[:-1]."""
    magnitude = jnp.abs(x)
    inside = jnp.sum(magnitude, axis=-1) <= radius
    # The points inside are not projected: their thresholds would be negative.
    shrunk = jnp.sign(x) * project_simplex(magnitude, radius)
    return jnp.where(inside[..., None], x, shrunk)


@jax.jit
def project_simplex(x: jax.Array, radius: jax.Array) -> jax.Array:
    """`simplex` without checks; radius of shape x.shape[:-1]."""
    return _nearest(x, radius)


@jax.custom_jvp  # inside of jit: called eagerly, its rule is looked up anew in half a millisecond
def _nearest(x: jax.Array, radius: jax.Array) -> jax.Array:
    return soft_threshold(x, *threshold(x, radius))


def soft_threshold(x: jax.Array, high: jax.Array, low: jax.Array) -> jax.Array:
    """max(x − (high + low), 0) on the last axis; exact in x near the threshold."""
    return jnp.maximum((x - high[..., None]) - low[..., None], 0.0)


def threshold(
    x: jax.Array, radius: jax.Array, guess: jax.Array | None = None
) -> tuple[jax.Array, jax.Array]:
    """The τ with Σ max(x − τ, 0) = radius, as an unevaluated sum of two floats.

    Args:
      x: float[..., k].
      radius: float[...].
      guess: float[...], where to start; right of the root, one step leads to its left.
    """
    x = _pad(x)
    enough = 2 * jnp.finfo(x.dtype).eps * radius
    largest = jnp.max(x, axis=-1)
    # There the largest entry alone has weight r, so f >= 0: Newton starts left of the root.
    start = largest - radius
    back = start - largest
    lost = (largest - (start - back)) + (-radius - back)  # start + lost = largest − radius, exactly

    def step(state):
        high, low, going, count = state
        excess, support = _excess(soft_threshold(x, high, low), radius)
        # The slope of f is minus the number of entries above τ.
        move = jnp.where(going, low + excess / jnp.maximum(support, 1.0), low)
        total = high + move
        # What the sum above lost in rounding (fast two-sum).
        low = move - (total - high)
        again = excess > enough  # a step back is rounding, except the first from a guess
        if guess is not None:
            empty = going & (support == 0)
            total, low = jnp.where(empty, start, total), jnp.where(empty, lost, low)
            again = again | ((count == 0) & (excess < -enough))
        return total, low, going & again, count + 1

    def unfinished(state):
        return jnp.any(state[2]) & (state[3] < _MAX_STEPS)

    going = jnp.ones(start.shape, bool)
    first = (start, lost) if guess is None else (guess, jnp.zeros_like(guess))
    high, low, *_ = jax.lax.while_loop(unfinished, step, (*first, going, jnp.int32(0)))
    return high, low


def _excess(weights, radius):
    """Σ weights − radius and the number of positive weights, in one pass over them.

    A plain reduction of two arrays runs 20 times faster than two on CPU, but adds one after the
    other; sums of blocks keep the rounding error of long sums as low as `jnp.sum` does.
    """
    zero = jnp.zeros((), weights.dtype)
    block = _block(weights.shape[-1])
    blocks = weights.reshape(*weights.shape[:-1], weights.shape[-1] // block, block)
    total, support = jax.lax.reduce(
        (blocks, (blocks > 0).astype(weights.dtype)),
        (zero, zero),
        lambda a, b: (a[0] + b[0], a[1] + b[1]),
        (blocks.ndim - 1,),
    )
    return jnp.sum(total, axis=-1) - radius, jnp.sum(support, axis=-1)


def _block(size):
    return min(size, _BLOCK)


def _pad(x):
    """Fills the last axis up to whole blocks with entries that never have weight."""
    fill = -x.shape[-1] % _block(x.shape[-1])
    widths = [(0, 0)] * (x.ndim - 1) + [(0, fill)]
    return jnp.pad(x, widths, constant_values=-jnp.inf) if fill else x


@_nearest.defjvp
def _nearest_jvp(primals, tangents):
    x, radius = primals
    dx, dradius = tangents
    w = _nearest(x, radius)
    support = (w > 0).astype(w.dtype)
    size = jnp.sum(support, axis=-1)
    # On the support w = x − τ and Σw = r, so τ moves by (Σ dx − dr)/size.
    shift = (jnp.sum(support * dx, axis=-1) - dradius) / size
    return w, support * (dx - shift[..., None])
