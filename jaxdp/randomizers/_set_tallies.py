"""Tallies of sets of one size, drawn at once: see `draw_sets`."""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int32

from ..random import Count, binomial, multinomial, multivariate_hypergeometric


def draw_sets(
    key: jax.Array,
    counts: Count,
    size: Float[Array, ""],
    members: Float[Array, ""],
    inclusion: Float[Array, ""],
    nonempty: Float[Array, ""],
    *,
    most: int,
    window: int,
) -> Count:
    """How many sets of given users hold each value, exact in law, in k sequential steps.

    A set is either uniform over all sets of d, or it holds the user's value *for certain*. The
    values are visited in order, and all that matters of a user is how many values its set still
    has to take: `free[r]` users take r of the values left; `bound[r]` users hold their value
    for certain, have not met it, and take r others besides. At each value its certain users are
    drawn from `bound` without replacement, for what a user has taken does not depend on where
    its value lies ahead; then the others take the value, each by chance.

    Most users have about the same r at any step. So rows are drawn in windows, from the first
    one that holds users to the last one, with 3 draws a row. Counts of independent users would be
    one multinomial, but with a cell for each of the (k choose d) sets.

    Args:
      key: a key; it is folded.
      counts: Count[m], the users of each value; no user has one from k on.
      size: k, at most m.
      members: d, at most `most`.
      inclusion: p*, the probability that a set that is not empty holds the user's value.
      nonempty: the probability that a set is not empty.
      most: static.
      window: rows that are drawn at once, on which depends what is drawn; static.

    Returns:
      Count[m]; only inside an x64 block.
    """
    k, d = size, members
    # p* = certain + (1 - certain) d / k.
    certain = (inclusion * k - d) / (k - d)
    shares = jnp.stack([certain, 1 - certain, 1 / nonempty - jnp.ones_like(certain)])
    kinds_key, stream = jax.random.split(key)
    kinds = multinomial(kinds_key, counts, shares)
    owners, others = kinds[:, 0], kinds[:, 1]

    def visit(users: jax.Array, xs: tuple[jax.Array, jax.Array]):
        number, owner = xs
        value = number.astype(jnp.float64)
        ahead = k - value - jnp.arange(2, dtype=jnp.float64)  # but for the user's value
        place = jnp.arange(users.shape[1], dtype=jnp.int32)
        held = jnp.any(users > 0, axis=0) & (value < k)
        first = jnp.min(place, initial=users.shape[1], where=held)
        last = jnp.max(place, initial=0, where=held)

        def draw(state):
            start, users, owner, support = state
            step = jax.random.fold_in(jax.random.fold_in(stream, number), start)
            users, owner, taken = _take(step, users, start, window, owner, ahead)
            return start + window, users, owner, support + taken

        state = first, users, owner, owner
        _, users, _, support = lax.while_loop(lambda x: x[0] <= last, draw, state)
        return users, Count.from_float(support)

    # Row r is at 1 + r, and a window may end beyond the last row.
    start = jnp.zeros((2, 2 + most + window))
    row = members.astype(jnp.int32)
    start = start.at[0, 1 + row].set(others.sum().f64()).at[1, row].set(owners.sum().f64())
    values = jnp.arange(counts.shape[0], dtype=jnp.int32)
    _, support = lax.scan(visit, start, (values, owners.f64()))
    return support


def _take(
    key: jax.Array,
    users: Float[Array, "2 m"],
    start: Int32[Array, ""],
    width: int,
    owner: Float[Array, ""],
    ahead: Float[Array, "2"],
) -> tuple[Float[Array, "2 m"], Float[Array, ""], Float[Array, ""]]:
    """Draws who takes a value, of the users in a window of rows.

    Args:
      key: of the value and the window.
      users: free and bound ones, of r others to take at 1 + r; the rows below are drawn already.
      start: of the window.
      width: its rows.
      owner: how many of the bound users from here on have the value themselves.
      ahead: for free and for bound users, how many values are left to choose from.

    Returns:
      The users after it, the owners in later rows, and how many others have taken the value.
    """
    rows = lax.dynamic_slice_in_dim(users, start, width, axis=1)
    place = jnp.arange(users.shape[1], dtype=jnp.int32)
    later = jnp.sum(jnp.where(place >= start + width, users[1], 0.0))
    bound, keys = Count.from_float(jnp.append(rows[1], later)), jax.random.split(key)
    met = multivariate_hypergeometric(keys[0], bound, Count.from_float(owner)).f64()
    met, owner = met[:-1], met[-1]
    rows = rows - jnp.stack([jnp.zeros(width), met])
    # Of `ahead` values r are still taken, so the next one with probability r / ahead.
    left = (start + jnp.arange(-1, width - 1, dtype=jnp.int32)).astype(jnp.float64)
    chance = jnp.clip(left[None] / jnp.maximum(ahead, 1.0)[:, None], 0.0, 1.0)
    takes = binomial(keys[1], Count.from_float(rows), chance).f64()
    stay = rows - takes + jnp.stack([met, jnp.zeros(width)])
    users = lax.dynamic_update_slice_in_dim(users, stay, start, axis=1)
    # Whoever takes the value is a row lower, where nobody is drawn any more.
    lower = lax.dynamic_slice_in_dim(users, start - 1, width, axis=1) + takes
    users = lax.dynamic_update_slice_in_dim(users, lower, start - 1, axis=1)
    return users, owner, jnp.sum(takes)
