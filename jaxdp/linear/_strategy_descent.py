"""Search for the channel whose reports answer given linear queries with the least variance.

A channel `Q[y, v]`, the probability of report y for value v, has columns of sum 1 and rows within a
factor e**epsilon. Written `Q[y, v] = z_y (1 + (e**epsilon - 1) u_yv)` with u in [0, 1], the factor
holds by itself, and the columns' sums by a shift of each column of u before it is clipped.

For users with law p let `d = Q p`, and D the diagonal matrix of d. Among unbiased linear decoders
`V = W (Q^T D^-1 Q)^-1 Q^T D^-1` has the least variance for these users. It has

    Q^T D^-1 Q = 1 1^T + N,    N = sum_y d_y t_y t_y^T,    t_y = Q_y / d_y - 1,    N p = 0,

and V is `W p + X R t_y` for report y, with `X = W - W p 1^T` and R any inverse of N modulo p. So

    T_v = sum_y Q_yv n_y - |X_v|^2,    n_y = t_y^T P t_y,    P = R X^T X R,

is the total variance for a user with value v, and `-2 P t_y + n_y p` is the gradient of `p . T` in
the row y of Q, up to constants in each column, which the sums of columns absorb. The mean variance
for p is `p . T`. The worst case is its maximum over p, which is concave: exponentiated gradients,
which are T, find p while Adam descends in u and z.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._lapack import inverse

_RIDGE = 1e-7  # of the mean eigenvalue of N: queries may leave some directions of it without use
_RATE = 0.1  # Adam's, at first; a hundredth in the end
_TILT = 0.5  # the rate of the exponentiated gradient
_PRECISION = functools.partial(jnp.matmul, precision="highest")


class _State(NamedTuple):
    free: dict[str, jax.Array]  # {"share": u, "size": logits of z, "total": logit of its sum}
    optimizer: Any  # optax.OptState
    log_prior: Float[Array, " k"]
    inverse: Float[Array, "k k"]  # R of the step before
    best: dict[str, jax.Array]
    least: Float[Array, ""]  # the objective at `best`
    step: Float[Array, ""]


def optimize(
    gram: Float[np.ndarray, "k k"],
    epsilon: float,
    num_outputs: int,
    prior: Float[np.ndarray, " k"] | None,
    num_steps: int,
    seed: int,
    report: Callable[[int], None],
) -> Float[np.ndarray, "k m"]:
    """A channel of low variance for the queries `W`.

    Args:
      gram: `W^T W`.
      epsilon: > 0.
      num_outputs: m.
      prior: the law of the users whose mean variance counts; None for the worst case.
      num_steps: of Adam.
      seed: of the start.
      report: called with numbers of steps that have been made.

    Returns:
      Rows of sum 1, columns within a factor e**epsilon, both up to 1e-15 or so.
    """
    scale = np.float64(math.exp(epsilon))
    with jax.enable_x64(True):
        scaled = gram / (np.trace(gram) or 1.0)
        state = _start(
            _first_guesses(len(gram), float(scale), num_outputs, seed), scaled, scale, prior
        )
        chunk = max(1, num_steps // 50)
        for first in range(0, num_steps, chunk):
            size = min(chunk, num_steps - first)
            counts = np.asarray(size), np.asarray(float(num_steps))
            state = jax.block_until_ready(_descend(state, scaled, scale, prior, *counts))
            report(size)
        return np.asarray(_channel(state.best, scale))


def _first_guesses(
    num_values: int, scale: float, num_outputs: int, seed: int
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Where the descent starts, and randomized response, as far as there are reports for it.

    Random sets of values that are likely to send each report, of the best size for counting. Where
    that is one value, half of the reports start with one.
    """
    # Subset selection is best with sets of about k / (e**epsilon + 1) values.
    likely = max(1 / (scale + 1), 1 / num_values)
    normal = np.random.default_rng(seed).normal(size=(num_outputs, num_values))
    steep = np.clip(3 * (normal - np.quantile(normal, 1 - likely)), -50, 50)
    share = 1 / (1 + np.exp(-steep))
    single = np.eye(num_values)[np.arange(num_outputs) % num_values]
    if likely * num_values == 1:
        share[: num_outputs // 2] = (0.1 * share + 0.8 * single)[: num_outputs // 2]

    def free(share: np.ndarray, size: np.ndarray, total: float) -> dict[str, np.ndarray]:
        logit = math.log((total * scale - 1) / (scale - total * scale))
        return {"share": share, "size": size, "total": np.asarray(logit)}

    total = 1 / (1 + (scale - 1) * likely)  # sum_y z_y, so that the columns of Q sum to 1
    start = free(share, np.zeros(num_outputs), total)
    total = num_values / (scale + num_values - 1)  # of randomized response
    value = single.argmax(1)
    return start, free(single, -np.log(np.bincount(value)[value]), total)


@jax.jit
def _start(
    guesses: tuple[dict[str, jax.Array], dict[str, jax.Array]],
    gram: Float[Array, "k k"],
    scale: Float[Array, ""],
    law: Float[Array, " k"] | None,
) -> _State:
    """The first state. Its `best` is randomized response, if there are reports enough for it.

    For large epsilon little is better.
    """
    import optax  # here: it takes a tenth of the time of `import jaxdp`, and only this needs it

    start, best = guesses
    num_outputs, num_values = start["share"].shape
    share = _project(start["share"], _sizes(start, scale), scale, reach=1.001, rounds=60)
    start = start | {"share": share}
    flat = jnp.full(num_values, 1 / num_values) if law is None else law
    guess = jnp.zeros((num_values, num_values), gram.dtype)
    channel = _sizes(best, scale)[:, None] * (1 + (scale - 1) * best["share"])
    variances = _variances(channel, flat, gram, guess)[0]
    least = jnp.max(variances) if law is None else jnp.dot(variances, law)
    return _State(
        free=start,
        optimizer=optax.scale_by_adam(0.9, 0.99).init(start),
        log_prior=jnp.zeros(num_values, gram.dtype),
        inverse=guess,
        best=best if num_outputs >= num_values else start,
        least=least if num_outputs >= num_values else jnp.full((), jnp.inf, gram.dtype),
        step=jnp.zeros((), gram.dtype),
    )


@jax.jit
def _channel(free: dict[str, jax.Array], scale: Float[Array, ""]) -> Float[Array, "k m"]:
    """The channel of a state, whose columns sum to 1 in all digits."""
    sizes = _sizes(free, scale)
    share = _project(free["share"], sizes, scale, reach=1.001, rounds=60)
    return (sizes[:, None] * (1 + (scale - 1) * share)).T


def _sizes(free: dict[str, jax.Array], scale: Float[Array, ""] | float) -> Float[Array, " m"]:
    """z: positive, of a sum in (1 / e**epsilon, 1)."""
    total = 1 / scale + (1 - 1 / scale) * jax.nn.sigmoid(free["total"])
    return jax.nn.softmax(free["size"]) * total


def _project(
    share: Float[Array | np.ndarray, "m k"],
    sizes: Float[Array | np.ndarray, " m"],
    scale: Float[Array, ""] | float,
    *,
    reach: Float[Array, ""] | float,
    rounds: int = 6,
) -> Float[Array, "m k"]:
    """Shifts each column of u by at most `reach` and clips it, so that the columns of Q sum to 1.

    Newton steps for the shift, or halvings of its bracket where they leave it.
    """
    need = (1 - jnp.sum(sizes)) / (scale - 1)  # sum_y z_y u_yv of a column of Q that sums to 1

    def step(_: jax.Array, bracket: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        shift, low, high = bracket
        moved = share + shift[None, :]
        have = _PRECISION(sizes, jnp.clip(moved, 0, 1))
        inside = ((moved > 0) & (moved < 1)).astype(sizes.dtype)
        low, high = jnp.where(have < need, shift, low), jnp.where(have < need, high, shift)
        newton = shift + (need - have) / jnp.maximum(_PRECISION(sizes, inside), 1e-12)
        middle = (low + high) / 2
        return jnp.where((newton > low) & (newton < high), newton, middle), low, high

    wide = jnp.full(share.shape[1], reach, sizes.dtype)
    shift = jax.lax.fori_loop(0, rounds, step, (0 * wide, -wide, wide))[0]
    return jnp.clip(share + shift[None, :], 0, 1)


def _invert(matrix: Float[Array, "k k"], guess: Float[Array, "k k"]) -> Float[Array, "k k"]:
    """The inverse, by products where a guess is near: triangular solves are slow on small CPUs."""
    eye = jnp.eye(matrix.shape[0], dtype=matrix.dtype)
    error = eye - _PRECISION(matrix, guess)

    def improve() -> jax.Array:
        # Neumann: (I - E)^-1 = (I + E + E**2 + E**3)(I + E**4), up to E**8
        square = _PRECISION(error, error)
        series = eye + error + square + _PRECISION(error, square)
        fourth = _PRECISION(square, square)
        return _PRECISION(_PRECISION(guess, series), eye + fourth)

    near = jnp.sum(error * error) < 0.2  # what is left is at most its fourth power
    return jax.lax.cond(near, improve, lambda: inverse(matrix))


def _variances(
    channel: Float[Array, "m k"],
    prior: Float[Array, " k"],
    gram: Float[Array, "k k"],
    guess: Float[Array, "k k"],
) -> tuple[Float[Array, " k"], Float[Array, "m k"], Float[Array, "k k"]]:
    """T, the gradient of `prior . T` in Q, and the inverse R; see the module."""
    size = gram.shape[0]
    law = _PRECISION(channel, prior)
    tilt = channel / law[:, None] - 1  # t_y
    spread = _PRECISION((tilt * law[:, None]).T, tilt)  # N
    typical = jnp.trace(spread) / size
    ridge = _RIDGE * typical * jnp.eye(size, dtype=gram.dtype)
    # N p = 0: a multiple of 1 1^T makes it invertible and changes R modulo p alone.
    inverse = _invert(spread + typical / size + ridge, guess)
    mean = _PRECISION(gram, prior)  # X^T X from W^T W, X = W - W p 1^T
    centred = gram - mean[:, None] - mean[None, :] + jnp.dot(prior, mean)
    inner = _PRECISION(_PRECISION(inverse, centred), inverse)  # P
    pushed = _PRECISION(tilt, inner)
    squares = jnp.sum(pushed * tilt, axis=1)  # n_y
    variances = _PRECISION(squares, channel) - jnp.diagonal(centred)
    return variances, squares[:, None] * prior[None, :] - 2 * pushed, inverse


@jax.jit
def _descend(
    state: _State,
    gram: Float[Array, "k k"],
    scale: Float[Array, ""],
    fixed: Float[Array, " k"] | None,
    num_steps: Int[Array, ""],
    total: Float[Array, ""],
) -> _State:
    """Takes `num_steps` of `total` steps; `fixed` is the law of the users, None for the worst."""
    import optax

    optimizer = optax.scale_by_adam(0.9, 0.99)

    def step(_: jax.Array, state: _State) -> _State:
        free, share = state.free, state.free["share"]
        prior = jax.nn.softmax(state.log_prior) if fixed is None else fixed
        sizes, pull = jax.vjp(
            lambda logits: _sizes(logits, scale), {n: free[n] for n in ("size", "total")}
        )
        rows = 1 + (scale - 1) * share
        channel = sizes[:, None] * rows
        variances, gradient, inverse = _variances(channel, prior, gram, state.inverse)
        largest = jnp.max(variances)
        objective = largest if fixed is None else jnp.dot(variances, prior)

        # A column's sum stays 1: what moves one entry moves the entries inside (0, 1) against it.
        inside = ((share > 0) & (share < 1)).astype(share.dtype) + 1e-5
        weights = sizes[:, None] * inside
        price = jnp.sum(weights * gradient, axis=0) / jnp.sum(weights, axis=0)
        slope = gradient - price[None, :]
        slopes = {"share": sizes[:, None] * slope} | pull(jnp.sum(slope * rows, axis=1))[0]

        done = state.step / total  # the rate falls along a cosine
        rate = _RATE * (0.01 + 0.99 * (1 + jnp.cos(jnp.pi * done)) / 2)
        with jax.numpy_dtype_promotion("standard"):  # optax raises a float to an integer step
            updates, optimizer_state = optimizer.update(slopes, state.optimizer)
        moved: Any = jax.tree.map(lambda x, step: x - rate * step, free, updates)
        moved["share"] = _project(moved["share"], _sizes(moved, scale), scale, reach=4 * rate)

        # Exponentiated gradient: the derivative of p . T in p is T.
        tilted = state.log_prior + _TILT * (1 - 0.9 * done) * (variances / largest - 1)
        better = objective < state.least
        choose = functools.partial(jnp.where, better)
        return _State(
            moved,
            optimizer_state,
            tilted - jnp.max(tilted),
            inverse,
            jax.tree.map(choose, free, state.best),
            choose(objective, state.least),
            state.step + 1,
        )

    return jax.lax.fori_loop(0, num_steps, step, state)


def worst_prior(
    channel: Float[np.ndarray, "k m"], gram: Float[np.ndarray, "k k"], num_steps: int = 1000
) -> Float[np.ndarray, " k"]:
    """The law of users for which the best decoder has the least worst case.

    Exponentiated gradients until the largest variance is within 1e-5 of the mean one for the law,
    which is a lower bound.

    Args:
      channel: the probabilities of the reports of each value.
      gram: `W^T W`.
      num_steps: at most so many.
    """
    with jax.enable_x64(True):
        prior = _tilt(jnp.asarray(channel.T), jnp.asarray(gram), jnp.asarray(num_steps))
        return np.asarray(prior)


@jax.jit
def _tilt(
    channel: Float[Array, "m k"], gram: Float[Array, "k k"], num_steps: Int[Array, ""]
) -> Float[Array, " k"]:
    size = gram.shape[0]

    def step(state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        log_prior, inverse, best, least, _, count = state
        prior = jax.nn.softmax(log_prior)
        variances, _, inverse = _variances(channel, prior, gram, inverse)
        largest = jnp.max(variances)
        better = largest < least
        # p . T at its own best decoder bounds the worst case of every decoder from below.
        gap = largest / jnp.maximum(jnp.dot(prior, variances), 1e-300) - 1
        best, least = jnp.where(better, prior, best), jnp.minimum(largest, least)
        log_prior = log_prior + (variances / largest - 1)
        return log_prior, inverse, best, least, gap, count + 1

    def unfinished(state: tuple[jax.Array, ...]) -> jax.Array:
        return (state[4] > 1e-5) & (state[5] < num_steps)

    flat = jnp.zeros(size)
    one = jnp.asarray(jnp.inf)
    start = (flat, jnp.zeros((size, size)), jnp.full(size, 1 / size), one, one, 0 * num_steps)
    return jax.lax.while_loop(unfinished, step, start)[2]
