"""Optimal row and column weights of a matrix by a primal-dual interior-point method.

γ2(W) is the maximum over probability vectors p, q of F(p, q) = ‖M‖_tr, M = diag(√p)·W·diag(√q),
which is jointly concave, and F is homogeneous of degree 1/2 in p and in q. Its maximisers are those
of Φ(p, q) = 2·log F(p, q) − Σp − Σq over p, q ≥ 0, up to scale. With M = U·diag(s)·Vᵀ,

    ∂F/∂p_i = Y_i/2,    Y_i = (U·diag(s)·Uᵀ)_ii / p_i,
    ∂F/∂q_j = Z_j/2,    Z_j = (V·diag(s)·Vᵀ)_jj / q_j,

and in relative coordinates u = dp/p, v = dq/q the second derivative is

    −d²F = ½·Σ_ij h_ij·(Uᵀdiag(u)U − Vᵀdiag(v)V)_ij²,      h_ij = s_i·s_j / (s_i + s_j).

A sum of R = 6 exponentials for 1/x turns h into a sum of R products f_r(s_i)·f_r(s_j), so the whole
Hessian costs R matrix products: its blocks are ½·Σ_r (U·diag(f_r)·Uᵀ)∘², and so on.
Newton's method on the barrier problem then needs one SVD, R products and one Cholesky factorization
a step, and takes 5 to 20 steps whether or not weights have to vanish.

Where W keeps its entries, or negates them, when all rows and columns are read backwards, some best
weights are the same forwards and backwards. Then W falls into two blocks, one of vectors that are
even and one of odd ones, a quarter of its entries each. They share the weights, so that F, Y, Z and
the Hessian are sums over the blocks.

Where each row has a constant for free, F(p, q) = min_u ‖diag(√p)·(W − u·1ᵀ)·diag(√q)‖_tr. The
minimiser is u = Wq/Σq, where M√q = 0, so the first derivatives are those above; that u follows q
adds Σ_jj' √q_j·v_j·(V·diag(s)·Vᵀ)_jj'·√q_j'·v_j' to −d²F, and F stays concave and homogeneous.
"""

import functools
import operator
from typing import NamedTuple

import jax
import numpy as np

from ._arrays import accumulate, choose, eigh, namespace, on_host, solve_definite, while_loop
from ._factors import decompose, kept
from ._result import relative_gap

# 1/x on [1e-5, 1] as Σ_r mass·exp(−rate·x), to 8 %: the least largest relative error of six terms.
# Pairs of singular values below that range get a smaller curvature.
RATES = np.array([1.6685272, 17.177261, 138.25083, 1104.2607, 8818.659, 70451.426])
MASSES = np.array([4.8760837, 36.222321, 287.52253, 2295.8075, 18334.396, 146607.75])
CENTERING = 0.1  # the barrier parameter aimed at, as a fraction of the present complementarity
OVERSHOOT = 0.9  # a step is halved while the slope at its end is below minus this times the first
_GRAM_SIZE = 512  # least size that is worth a second program, with a faster decomposition
TO_BOUNDARY = 0.95  # fraction of the largest step that keeps weights and slacks positive


class Block(NamedTuple):
    """diag(√p)·W·diag(√q) = left·diag(values)·rightᵀ of one block of W."""

    left: jax.Array
    values: jax.Array
    right: jax.Array


class Spectrum(NamedTuple):
    """The blocks of M = diag(√p)·W·diag(√q), with the ratios Y/F and Z/F."""

    blocks: tuple[Block, ...]
    row_ratio: jax.Array
    col_ratio: jax.Array

    @property
    def total(self) -> jax.Array | np.floating:
        """F, the sum of the singular values."""
        return functools.reduce(operator.add, (block.values.sum() for block in self.blocks))


class Weights(NamedTuple):
    """The best weights found, normalised, and the decomposition of M, with Y/F."""

    rows: jax.Array
    cols: jax.Array
    block: Block
    row_ratio: jax.Array
    num_steps: jax.Array


class _State(NamedTuple):
    weights: jax.Array
    slacks: jax.Array
    spectrum: Spectrum
    step: jax.Array
    sound: jax.Array
    best: jax.Array
    best_gap: jax.Array


def row_shift(matrix, cols):
    """The constants u = W·q/Σq that lower the trace norm most."""
    return matrix @ cols / cols.sum()


def _decompose_by_gram(matrix, rows, cols):
    """The SVD from the eigenvectors of the smaller Gram matrix, some three times faster.

    Singular values below 1e-8 of the largest, and their vectors, are only right in order.
    """
    xp = namespace(matrix)
    scaled = xp.sqrt(rows)[:, None] * matrix * xp.sqrt(cols)[None, :]
    wide = scaled.shape[0] < scaled.shape[1]
    scaled = scaled.T if wide else scaled
    right = eigh(scaled.T @ scaled)[1]
    left = scaled @ right
    values = xp.linalg.norm(left, axis=0)
    left = left / xp.maximum(values, xp.finfo(matrix.dtype).tiny)[None, :]
    return (right, values, left) if wide else (left, values, right)


def _spectrum(blocks, rows, cols, symmetric: bool, shift: bool, gram: bool) -> Spectrum:
    """The spectrum of blocks, all of which have the first of the rows and of the columns.

    Where there is a shift, ones are a combination of the columns of the first block alone.
    """
    xp, found = namespace(rows), []
    for matrix in blocks:
        p, q = rows[: matrix.shape[0]], cols[: matrix.shape[1]]
        if shift and not found:
            matrix = matrix - row_shift(matrix, q)[:, None]
        if symmetric:
            scaled = xp.sqrt(p)[:, None] * matrix * xp.sqrt(q)[None, :]
            eigenvalues, left = eigh(scaled)
            signs = xp.where(eigenvalues < 0, -1.0, 1.0)
            found.append(Block(left, xp.abs(eigenvalues), left * signs[None, :]))
        elif gram:
            found.append(Block(*_decompose_by_gram(matrix, p, q)))
        else:
            found.append(Block(*decompose(matrix, p, q)))
    total = functools.reduce(operator.add, (block.values.sum() for block in found))
    total = xp.maximum(total, xp.finfo(rows.dtype).tiny)
    # The ratios are those of the factors as they are read, rounding of small weights included.
    sizes = [kept(block.values) for block in found]
    lefts = [block.left**2 @ size for block, size in zip(found, sizes, strict=True)]
    rights = [block.right**2 @ size for block, size in zip(found, sizes, strict=True)]
    row_ratio = _summed(lefts, rows.shape) / (rows * total)
    col_ratio = _summed(rights, cols.shape) / (cols * total)
    return Spectrum(tuple(found), row_ratio, col_ratio)


def _summed(parts, shape):
    """The sum of arrays that lack some of the last entries along each axis."""
    xp = namespace(parts[0])
    padded = [
        # To pad by nothing is not free in NumPy.
        x
        if x.shape == tuple(shape)
        else xp.pad(x, [(0, full - size) for full, size in zip(shape, x.shape, strict=True)])
        for x in parts
    ]
    return functools.reduce(operator.add, padded)


def _curvature(spectrum: Spectrum, mode: str, shifted_cols=None):
    """The matrix of −d²F in relative coordinates, and its weight in −d²Φ.

    In `"symmetric"` mode rows and columns share their weights; in `"cols"` mode the rows' are
    fixed. `shifted_cols` are the weights q if the constants of rows follow them.
    """
    xp = namespace(spectrum.row_ratio)
    sizes = [block.values for block in spectrum.blocks]
    largest = 2 * functools.reduce(xp.maximum, map(xp.max, sizes))
    largest = xp.maximum(largest, xp.finfo(largest.dtype).tiny)
    m, k = len(spectrum.row_ratio), len(spectrum.col_ratio)
    found = [_block_curvature(block, largest, mode) for block in spectrum.blocks]
    if shifted_cols is not None:
        _, values, right = spectrum.blocks[0]
        scaled = xp.sqrt(shifted_cols[: len(right)])[:, None] * right
        follow = (scaled * values[None, :]) @ scaled.T
        found[0] = (*found[0][:-1], found[0][-1] + follow)
    if mode != "both":
        curvature = _summed([parts[0] for parts in found], (k, k))
        return curvature, 1.0 if mode == "symmetric" else 2.0
    rows, cross, cols = (
        _summed(parts, shape)
        for parts, shape in zip(zip(*found, strict=True), ((m, m), (m, k), (k, k)), strict=True)
    )
    return xp.block([[rows, -cross], [-cross.T, cols]]), 2.0


def _block_curvature(block: Block, largest, mode: str):
    """What a block adds to −d²F: for the rows, the columns and both; or what there is of these."""
    left, values, right = block
    xp = namespace(values)
    relative = values / largest
    rates, masses = xp.asarray(RATES), largest * xp.asarray(MASSES)

    def quadrature(products):
        """The sum over the terms of the quadrature of `products` of f_r(s)."""

        def term(i):
            terms = products(relative * xp.exp(-rates[i] * relative))
            return jax.tree.map(lambda x: masses[i] * x, terms)

        return accumulate(term, len(RATES), on_host(values))

    if mode == "symmetric":
        same = xp.sum(left * right, axis=0) > 0

        def opposite_signs(f):
            positive, negative = xp.where(same, f, 0.0), xp.where(same, 0.0, f)
            return ((left * positive[None, :]) @ left.T) * ((left * negative[None, :]) @ left.T)

        return (4.0 * quadrature(opposite_signs),)
    if mode == "cols":
        return (0.5 * quadrature(lambda f: ((right * f[None, :]) @ right.T) ** 2),)

    def pairs(f):
        scaled = left * f[None, :]
        return (
            (scaled @ left.T) ** 2,
            (scaled @ right.T) ** 2,
            ((right * f[None, :]) @ right.T) ** 2,
        )

    return tuple(0.5 * part for part in quadrature(pairs))


def _halves(matrix, parity: int):
    """The blocks of a matrix that is `parity` times itself backwards.

    Entries of a block are sums over the entries of W that two orbits share, over what is left of
    the norms of their vectors: with these, weights of orbits take the place of those of rows.
    """
    m, k = matrix.shape
    high, wide = (m + 1) // 2, (k + 1) // 2
    part = matrix[:high]
    mirrored = part[:, ::-1]
    even, odd = ((part + sign * mirrored) / 2 for sign in (1, -1))
    # The middle row or column is even; it meets odd vectors only where W changes its sign.
    tall, short = (high, m // 2) if parity > 0 else (m // 2, high)
    return even[:tall, :wide], odd[:short, : k // 2]


def _orbits(shape):
    """How many rows, and columns, the orbits have: a first and a last one, or the middle one."""
    return tuple(np.minimum(2.0, n - 2 * np.arange((n + 1) // 2)) for n in shape)


def _unfolded(rows, cols, spectrum: Spectrum, shape, parity: int):
    """The weights and the spectrum of a matrix from those of its two halves."""
    xp, (m, k) = namespace(rows), shape

    def each(numbers, length, sign=1):
        """What rows have of their orbits': `sign` times it for those in the second half."""
        half, middle = numbers[: length // 2], numbers[length // 2 :]
        missing = xp.zeros((length % 2 - len(middle), *numbers.shape[1:]))
        return xp.concatenate([half, middle, missing, sign * half[::-1]])

    row_sizes, col_sizes = (each(sizes, n) for sizes, n in zip(_orbits(shape), shape, strict=True))
    lefts, values, rights = zip(*spectrum.blocks, strict=True)
    left = [each(x, m, parity * sign) for x, sign in zip(lefts, (1, -1), strict=True)]
    right = [each(x, k, sign) for x, sign in zip(rights, (1, -1), strict=True)]
    block = Block(
        xp.concatenate(left, axis=1) / xp.sqrt(row_sizes)[:, None],
        xp.concatenate(values),
        xp.concatenate(right, axis=1) / xp.sqrt(col_sizes)[:, None],
    )
    ratios = each(spectrum.row_ratio, m), each(spectrum.col_ratio, k)
    return each(rows, m) / row_sizes, each(cols, k) / col_sizes, Spectrum((block,), *ratios)


def optimal_weights(
    matrix, tol, max_steps, mode: str, shift: bool = False, parity: int = 0
) -> Weights:
    """Maximises ‖diag(√p)·matrix·diag(√q)‖_tr over probability vectors p, q.

    Args:
      matrix: float64[m, k] with entries of order 1, or all zero.
      tol: stop once upper / lower − 1 <= tol.
      max_steps: stop after so many Newton steps.
      mode: `"both"`; `"cols"`, where p stays uniform; `"symmetric"`, where p = q and the matrix
        equals its transpose.
      shift: whether the matrix is W − u·1ᵀ with the best u; not in `"symmetric"` mode.
      parity: ±1 if the matrix, read backwards, is this times itself; then it is solved in two
        halves, each with rows and columns. Not −1 in `"symmetric"` mode.

    Returns:
      The weights with the smallest gap between ‖M‖_tr and √(max Y · max Z), the value of the
      factorization they define (for `"cols"` with the mean of Y instead of its maximum).
    """
    xp = namespace(matrix)
    blocks, num_rows, num_cols = (matrix,), *matrix.shape
    row_sizes, col_sizes = np.ones(num_rows), np.ones(num_cols)
    if parity:
        blocks, (row_sizes, col_sizes) = _halves(matrix, parity), _orbits(matrix.shape)
        num_rows, num_cols = len(row_sizes), len(col_sizes)
    rows, cols = (xp.asarray(sizes / sizes.sum()) for sizes in (row_sizes, col_sizes))
    size = {"both": num_rows + num_cols, "cols": num_cols, "symmetric": num_rows}[mode]

    def split(weights):
        if mode == "symmetric":
            return weights, weights
        if mode == "cols":
            return rows, weights
        return weights[:num_rows], weights[num_rows:]

    def decomposed(weights, gram):
        return _spectrum(blocks, *split(weights), mode == "symmetric", shift, gram)

    def bounds(weights, spectrum):
        rows, cols = split(weights)
        total = spectrum.total
        worst_row = xp.max(spectrum.row_ratio) if mode != "cols" else 1.0
        lower = total / xp.sqrt(xp.sum(rows) * xp.sum(cols))
        return lower, total * xp.sqrt(worst_row * xp.max(spectrum.col_ratio))

    def ratio(spectrum):
        parts = {"cols": [spectrum.col_ratio], "symmetric": [spectrum.row_ratio]}
        return xp.concatenate(parts.get(mode, [spectrum.row_ratio, spectrum.col_ratio]))

    def unfinished(state, limit):
        return (state.best_gap > tol) & (state.step < limit) & state.sound

    def ascend(weights, relative, slope, barrier, longest, gram):
        """The first of longest, longest/2, ... that does not overshoot the barrier function."""

        def attempt(length):
            moved = weights * (1.0 + length * relative)
            spectrum = decomposed(moved, gram)
            rise = relative @ (weights * (ratio(spectrum) - 1.0))
            rise += barrier * xp.sum(relative / (1.0 + length * relative))
            return length, moved, spectrum, rise < -OVERSHOOT * slope

        return while_loop(
            lambda trial: trial[-1] & (trial[0] > 1e-3 * longest),
            lambda trial: attempt(trial[0] / 2.0),
            attempt(longest),
        )

    def newton(state, gram):
        weights, slacks, spectrum = state.weights, state.slacks, state.spectrum
        complementarity = weights * slacks
        barrier = xp.maximum(CENTERING * xp.mean(complementarity), 0.3 * tol / size)
        curvature, factor = _curvature(spectrum, mode, split(weights)[1] if shift else None)
        slope = weights * ratio(spectrum)
        hessian = (factor / spectrum.total) * curvature
        hessian += xp.outer(slope, slope) / factor + xp.diag(complementarity + 1e-14)
        gradient = slope - weights + barrier
        relative = solve_definite(hessian, gradient)
        sound = xp.all(xp.isfinite(relative))  # else Cholesky failed: rounding ends the progress
        relative = xp.where(sound, relative, 0.0)

        change = (barrier - complementarity * (1.0 + relative)) / weights
        primal = xp.minimum(1.0, TO_BOUNDARY / xp.maximum(xp.max(-relative), 1e-30))
        dual = xp.minimum(1.0, TO_BOUNDARY / xp.maximum(xp.max(-change / slacks), 1e-30))
        rise = relative @ gradient
        _, weights, spectrum, _ = ascend(weights, relative, rise, barrier, primal, gram)
        slacks = slacks + dual * change
        gap = relative_gap(*bounds(weights, spectrum))
        better = gap < state.best_gap
        best = xp.where(better, weights, state.best)
        best_gap = xp.where(better, gap, state.best_gap)
        return _State(weights, slacks, spectrum, state.step + 1, sound, best, best_gap)

    def search(weights, slacks, num_steps, limit, gram):
        """Newton steps from there on; at least the decomposition of those weights."""
        spectrum = decomposed(weights, gram)
        if slacks is None:
            slacks = xp.maximum(1.0 - ratio(spectrum), 0.1 / (size * weights))
        gap = relative_gap(*bounds(weights, spectrum))
        start = _State(weights, slacks, spectrum, num_steps, xp.bool_(True), weights, gap)
        return while_loop(
            functools.partial(unfinished, limit=limit), functools.partial(newton, gram=gram), start
        )

    weights = {"both": xp.concatenate([rows, cols]), "cols": cols, "symmetric": rows}[mode]
    slacks, num_steps = None, xp.int32(0)
    if mode != "symmetric" and min(num_rows, num_cols) >= _GRAM_SIZE:
        state = search(weights, slacks, num_steps, max_steps // 2, gram=True)
        weights, slacks, num_steps = state.weights, state.slacks, state.step
    state = search(weights, slacks, num_steps, max_steps, gram=False)

    rows, cols = split(state.best)
    # The last weights are the best ones unless rounding or the limit of steps ended the search.
    spectrum = choose(
        xp.all(state.best == state.weights),
        lambda: state.spectrum,
        lambda: decomposed(state.best, gram=False),
    )
    if parity:
        rows, cols, spectrum = _unfolded(rows, cols, spectrum, matrix.shape, parity)
        if len(spectrum.blocks[0].values) < min(matrix.shape):
            # A square block of odd size that changes its sign has a null vector in neither half.
            spectrum = _spectrum((matrix,), rows, cols, mode == "symmetric", shift, gram=False)
    row_sum, col_sum = xp.sum(rows), xp.sum(cols)
    (block,) = spectrum.blocks
    block = block._replace(values=block.values / xp.sqrt(row_sum * col_sum))
    row_ratio = spectrum.row_ratio * row_sum
    return Weights(rows / row_sum, cols / col_sum, block, row_ratio, state.step)
