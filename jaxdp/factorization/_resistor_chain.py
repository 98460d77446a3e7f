"""The diagonals of (M·Mᵀ)^½ and (Mᵀ·M)^½ for weighted prefix sums, in linear time.

Write M = D_p^½·T·D_q^½, where T sums prefixes, and let λ > 0. The inverse of T·D_q·Tᵀ is the
Laplacian K of a chain of resistors: node i is joined to node i − 1 by the resistance q_i, and node
0 is the ground. Hence

  √X = 2/π ∫ X·(X + t²)⁻¹ dt,  t = e^(−s),  λ = e^(2s),

turns into impedances: with u_i the resistance from node i to the ground through its left, r_i the
resistance through its right and the conductance λ·p_i that grounds node i itself,

  y_i = ((M·Mᵀ)^½)_ii/p_i = 2/π ∫ e^s·((K + λ·D_p)⁻¹)_ii ds = 2/π ∫ e^s·u_i·r_i/(u_i + r_i) ds,
  z_i = ((Mᵀ·M)^½)_ii/q_i = 2/π ∫ e^(−s)/(u_i + r_i) ds.

Subtracting the mean, T − (T·q)·1ᵀ/Σq, grounds the chain at its right end too, with node n the
ground: u_n + r_n at λ = 0 is then Σq, and z_i = 2/π ∫ e^(−s)·(1/(u_i + r_i) − 1/Σq) ds.

Every recurrence adds, multiplies and divides positive numbers, none subtracts, and an output's
relative error is at most the sum of those of the inputs: n steps lose no more than a multiple of
n·2⁻⁵³. Each integrand is a mixture of functions 1/cosh(s − s_k), s_k = −ln of a singular value; the
trapezoidal rule of step h is off by at most 2·Σ_m 1/cosh(π²·m/h) of it, by Poisson's formula.
The steps are whole multiples of ln(2)/32, so that the exponents of the rates λ are exact.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

_STEPS = 32  # of equal ratio between a rate and its fourfold
_ROUNDINGS = 16.0  # at most, of each step along the chain
_OPEN = 2.0**900  # a resistance that leads nowhere
_GROUP = 8  # rates side by side: more need more memory
_GROUPS = 24  # at most; what there are fewer costs no time, and no other program


class Diagonals(NamedTuple):
    """The two diagonals, and how far they may be off.

    Attributes:
      y: float64[n]: those of (M·Mᵀ)^½, over p; 0 where p is.
      z: float64[n]: those of (Mᵀ·M)^½, over q.
      error: bound on the relative error of each.
    """

    y: np.ndarray
    z: np.ndarray
    error: float


def diagonals(
    p: np.ndarray, q: np.ndarray, *, centred: bool = False, accuracy: float = 1e-10
) -> Diagonals:
    """The diagonals y and z for the weights p of the rows and q of the columns.

    Args:
      p: float64[n], > 0; where `centred`, the last is 0.
      q: float64[n], > 0.
      centred: whether the mean by q is subtracted from each row.
      accuracy: relative error that the quadrature may cause, 1e-12 at least.
    """
    length, total = len(p), float(q.sum())
    # 2·Σ_m 1/cosh(π²·m/h) <= 4/(e^(π²/h) − 1), a quarter of the accuracy at most
    step = math.floor(_STEPS * math.pi**2 / math.log1p(16 / accuracy) / math.log(2)) / _STEPS
    quadrature = 4 / math.expm1(math.pi**2 / (step * math.log(2)))
    margin = math.ceil(math.log2(4 / accuracy) / 1.5)  # see `_tails`
    # The singular values of M are at most √(Σp·Σq), and at least √(min p·min q)/2.
    largest = math.log2(p.sum() * total)
    smallest = math.log2(p[p > 0].min() * q.min() / 4)
    low = math.floor((-largest - margin) / (2 * step))
    high = math.ceil((-smallest + margin) / (2 * step))
    high += -(high - low + 1) % _GROUP
    rates = 2.0 ** (2 * step * np.arange(low, high + 1))
    groups = np.resize(rates, (max(_GROUPS, len(rates) // _GROUP), _GROUP))
    steps = 2 ** max(4, min(11, math.ceil(math.log2(length) / 2) + 1))
    padding = np.zeros(-length % steps)  # edges and shunts of 0 change no resistance
    chain = (np.append(x, padding).reshape(-1, steps).T for x in (p, q))
    # The float64 of a TPU is a pair of float32, which rounds otherwise.
    tpu = jax.default_backend() == "tpu"
    device = jax.local_devices(backend="cpu")[0] if tpu else None
    with jax.enable_x64(True), jax.default_device(device):
        sums = _sums(*chain, groups, np.int32(len(rates) // _GROUP), centred)
    y, z = (np.asarray(x)[:length] for x in sums)
    height = step * math.log(2)
    tails = _tails(p, q, (rates[0], rates[-1]), height, centred)
    y, z = (2 / math.pi * height * (x + tail) for x, tail in zip((y, z), tails, strict=True))
    rounding = _ROUNDINGS * 2.0**-53 * (length + 256)
    return Diagonals(y, z, quadrature + rounding + 3 / 4 * accuracy)


def _tails(
    p: np.ndarray, q: np.ndarray, ends: tuple[float, float], step: float, centred: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The sums over all rates below and above the ends.

    There 1/(2·cosh(x)) is e^(−|x|) but for a share of at most e^(−2|x|), which is 2^−margin. The
    sums themselves are at most 3·2^(−margin/2) of the largest integrand, as the step is over 0.29.
    """
    # The diagonals of M·Mᵀ over p and of Mᵀ·M over q.
    rows, columns, above = np.cumsum(q), _backward(p), 1 / q
    if centred:
        total, after = rows[-1], np.append(_backward(q)[1:], 0.0)
        squares = np.append(0.0, np.cumsum((p * rows**2)[:-1]))
        columns = (_backward(p * after**2) + squares) / total**2
        rows, above = rows * after / total, above - 1 / total
    beyond = 1 / math.expm1(step)  # Σ_j≥1 e^(−h·j)
    below, rest = math.sqrt(ends[0]) * beyond, beyond / math.sqrt(ends[1])
    inverse = np.divide(1.0, p, out=np.zeros_like(p), where=p > 0)
    return below * rows + rest * inverse, below * columns + rest * above


def _backward(x: np.ndarray) -> np.ndarray:
    """The sums of each entry and all that follow."""
    return np.cumsum(x[::-1])[::-1]


@functools.partial(jax.jit, static_argnames="centred")
def _sums(
    p: Float[Array, "L B"],
    q: Float[Array, "L B"],
    rates: Float[Array, "G J"],
    num_groups: Int[Array, ""],
    centred: bool,
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """The sums of e^s·u·r/(u + r) and of e^(−s)/(u + r), or what takes its place.

    They are over the rates of the first groups.
    """
    total = jnp.sum(q)
    # Seen from the right end, the edge of each node is that of its neighbour.
    p_back = _mirrored(p)
    q_back = _blocks(jnp.append(0.0, jnp.flip(_flat(q)[1:])), p.shape)

    def of_group(group: Float[Array, " J"]) -> tuple[Float[Array, "L B"], Float[Array, "L B"]]:
        left = _resistances(p, q, group, 0.0, centred)
        right = _resistances(p_back, q_back, group, 0.0 if centred else _OPEN, centred)
        u, v = left.through, _mirrored(right.through)
        shunt = group[None, None, :] * p[:, :, None]
        kept = 1 / (1 + shunt * v)
        r, roots = v * kept, jnp.sqrt(group)[None, None, :]
        both = 1 / (u + r)
        across = both
        if left.deficit is not None and right.deficit is not None:
            behind = _mirrored(right.total)[:, :, None]
            deficit = left.deficit + (_mirrored(right.deficit) + shunt * v * behind) * kept
            across = both * deficit / total
        return jnp.sum(roots * u * r * both, -1), jnp.sum(across / roots, -1)

    def add(i: Int[Array, ""], sums: tuple[Array, Array]) -> tuple[Array, Array]:
        y, z = of_group(rates[i])
        return sums[0] + y, sums[1] + z

    y, z = lax.fori_loop(0, num_groups, add, (jnp.zeros_like(p), jnp.zeros_like(p)))
    return _flat(y), _flat(z)


def _flat(x: Float[Array, "L B"]) -> Float[Array, " n"]:
    return x.T.reshape(-1)


def _blocks(x: Float[Array, " n"], shape: tuple[int, ...]) -> Float[Array, "L B"]:
    return x.reshape(shape[::-1]).T


def _mirrored(x: Float[Array, "L B ..."]) -> Float[Array, "L B ..."]:
    """A chain in blocks, from its other end."""
    return jnp.flip(x, (0, 1))


class _Resistances(NamedTuple):
    through: Float[Array, "L B J"]  # from each node to the ground, through the edges before it
    deficit: Float[Array, "L B J"] | None  # by how much less than without shunts
    total: Float[Array, "L B"]  # without shunts


def _resistances(
    p: Float[Array, "L B"],
    q: Float[Array, "L B"],
    rates: Float[Array, " J"],
    start: float,
    deficits: bool,
) -> _Resistances:
    """The resistances x → q + x/(1 + λ·p·x), in B blocks of L nodes side by side.

    With x = N/D a node is N → N + q·D, D → D + λ·p·N. Without shunts x would be the sum Q of the
    edges, and what it lacks is E/D, E = Q·D − N → E + Q·λ·p·N. First each block's linear map is
    made, in all blocks at a time, then these are applied to one another, and last each block starts
    with what the ones before it leave.
    """
    shape = (2, p.shape[1], len(rates))
    totals = _blocks(jnp.cumsum(_flat(q)), p.shape)

    def grow(maps, node):
        (n, d, e, k), (p, q, total) = maps, node
        n = n + q[None, :, None] * d
        flow = rates[None, None, :] * p[None, :, None] * n
        d = d + flow
        e = e + total[None, :, None] * flow if deficits else e
        scale = 1 / jnp.max(jnp.maximum(n, d), axis=0, keepdims=True)
        return (n * scale, d * scale, e * scale, k * scale[0]), None

    unit = jnp.zeros(shape)
    maps = (unit.at[0].set(1.0), unit.at[1].set(1.0), unit, unit[0] + 1.0)
    maps, _ = lax.scan(grow, maps, (p, q, totals), unroll=4)

    def enter(state, block):
        (top, bottom, lack), (n, d, e, k) = state, block
        top, bottom, lack = (
            n[0] * top + n[1] * bottom,
            d[0] * top + d[1] * bottom,
            k * lack + e[0] * top + e[1] * bottom,
        )
        scale = 1 / jnp.maximum(top, bottom)
        return (top * scale, bottom * scale, lack * scale), state

    first = (jnp.full(shape[2:], start), jnp.ones(shape[2:]), jnp.zeros(shape[2:]))
    by_block = tuple(jnp.moveaxis(x, -2, 0) for x in maps)
    _, (top, bottom, lack) = lax.scan(enter, first, by_block)

    def follow(state, node):
        (x, lack), (p, q, total) = state, node
        u, shunt = q[:, None] + x, rates[None, :] * p[:, None]
        kept = 1 / (1 + shunt * u)
        less = (lack + shunt * u * total[:, None]) * kept if deficits else lack
        return (u * kept, less), (u, lack) if deficits else (u, None)

    _, (through, deficit) = lax.scan(
        follow, (top / bottom, lack / bottom), (p, q, totals), unroll=4
    )
    return _Resistances(through, deficit, totals)
