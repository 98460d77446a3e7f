"""The norm of Kendall's kernel, solved in the sectors of its symmetries.

W = S ⊗ S', S_ii' = sgn(i − i') on each axis of a table. To reverse an axis turns W into −W, which
changes neither γ2 nor what constants can do, and so does nothing to exchange the axes of a square
table. The trace norm is concave in the weights, so that some optimal weights are the same on each
orbit of cells; and W, between vectors that are even or odd along each axis, falls into blocks

    even ⊗ even ↔ odd ⊗ odd,    even ⊗ odd ↔ odd ⊗ even,

a quarter of W's size each, which share these weights. The vector of ones is even, so the constants
of rows only enter the block that maps even ⊗ even to odd ⊗ odd. On a square table that pair splits
once more, by the sign of an exchange, and the two blocks of the other pair are one.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from .._spec import check_int, check_real
from ._inputs import check_memory
from ._interior import CENTERING, MASSES, OVERSHOOT, RATES, TO_BOUNDARY
from ._result import Factorization

_LEAST = 1e-5  # of the largest root of a term; smaller ones would make denormal numbers, slow ones


class _Basis(NamedTuple):
    """Orthonormal vectors over the cells, each of them on one orbit; no two share a cell."""

    places: Int[np.ndarray, " k"]  # the vector of each cell
    entries: Float[np.ndarray, " k"]  # its entry there; 0 where there is none
    orbits: Int[np.ndarray, " c"]
    sums: Float[np.ndarray, "n c"]  # from vectors to orbits

    def expand(self, parts: Float[np.ndarray, "c s"]) -> Float[np.ndarray, "k s"]:
        """Combinations of the vectors, over the cells."""
        return parts[self.places] * self.entries[:, None]


class _Block(NamedTuple):
    """What W maps one set of vectors to, over the roots of the sizes of their orbits."""

    matrix: Float[np.ndarray, "r c"]
    rows: _Basis
    cols: _Basis
    rank: int
    shifted: bool
    copies: int


class _Spectrum(NamedTuple):
    """diag(√p)·(W − u·1ᵀ)·diag(√q) = left·diag(values)·rightᵀ in one block."""

    left: Float[np.ndarray, "r s"]
    values: Float[np.ndarray, " s"]
    right: Float[np.ndarray, "c s"]
    shift: Float[np.ndarray, " r"]


class _Point(NamedTuple):
    """Weights of the orbits, of rows above those of columns, and what they are worth."""

    weights: Float[np.ndarray, "2 n"]
    spectra: list[_Spectrum]
    trace: float
    ratios: Float[np.ndarray, "2 n"]  # Y/F and Z/F

    @property
    def lower(self) -> float:
        return self.trace / math.sqrt(np.prod(self.weights.sum(axis=1)))

    @property
    def upper(self) -> float:
        return self.trace * math.sqrt(np.prod(self.ratios.max(axis=1)))


def kendall(
    num_rows: int, num_cols: int, *, tol: float = 1e-6, max_steps: int = 100
) -> Factorization:
    """Min over u of γ2(W − u·1ᵀ) for Kendall's kernel on a table, without W.

    `gamma2(workloads.kendall(a, b), shift=True)` finds the same norm. Here the symmetries of W are
    used, and nothing is compiled: 32 × 32 cells take a third of a second, not 14.

    Formal guarantees:
      `lower` ≤ min over u of γ2(W − u·1ᵀ) ≤ `upper`, as in `gamma2`; `certify` re-checks both. The
      coordinates are such that `left` is diag(d)·`right` + g·1ᵀ: with d and g, one vector a user
      serves the quadratic form, W_vw = r_vᵀ·diag(d)·r_w + gᵀr_v + gᵀr_w for the columns r of
      `right`.

    Args:
      num_rows: a >= 2, the number of values of the first coordinate.
      num_cols: b >= 2, that of the second one.
      tol: relative gap to reach, >= 0.
      max_steps: upper limit on the number of Newton steps.

    Returns:
      Factorization for W of a·b rows and columns, the cells row by row, with `shift`.

    Raises:
      ValueError: an argument is out of range, or the table too large for memory.

    Example:
      >>> from jaxdp import factorization
      >>> f = factorization.kendall(8, 8)
      >>> print(f"{f.lower:.4f} {f.upper:.4f} {f.converged}")
      3.2451 3.2451 True

    References:
      Linial, Shraibman (2009), for the norm and its dual.
    """
    a = check_int("num_rows", num_rows, low=2)
    b = check_int("num_cols", num_cols, low=2)
    check_real("tol", tol, low=0.0, open_ends=False)
    check_int("max_steps", max_steps, low=1)
    check_memory(8.0 * 12 * (a * b) ** 2, f"Kendall's kernel for num_rows = {a}, num_cols = {b}")
    blocks, sizes, pairs = _blocks(a, b)
    point, num_steps = _solve(blocks, len(sizes), tol, max_steps)
    point = _point(blocks, point.weights / point.weights.sum(axis=1, keepdims=True), exact=True)
    parts = _read(blocks, sizes, pairs, point, (a, b))
    longest = [float(np.sum(parts[name] ** 2, axis=0).max()) for name in ("left", "right")]
    ratio = (longest[0] / longest[1]) ** 0.25
    parts["left"] /= ratio
    parts["right"] *= ratio
    upper = math.sqrt(longest[0] * longest[1])
    lower = min(point.lower, upper)
    gap = upper / lower - 1
    return Factorization(
        left=parts["left"],
        right=parts["right"],
        upper=np.asarray(upper),
        lower=np.asarray(lower),
        gap=np.asarray(gap),
        converged=np.asarray(gap <= tol),
        num_steps=np.asarray(num_steps, np.int32),
        dual=parts["dual"],
        row_weights=parts["row_weights"],
        col_weights=parts["col_weights"],
        alpha=np.zeros(()),
        weight=np.zeros(()),
        shift=parts["shift"],
    )


def _blocks(a: int, b: int) -> tuple[list[_Block], Int[np.ndarray, " n"], list[tuple[int, int]]]:
    """The blocks of W, the sizes of the orbits, and which block is which one's transpose.

    Of two such blocks the first is the wide one. A block of two copies is its own transpose, with
    exchanged axes.
    """
    orbits, sizes = _orbits(a, b)
    (even_a, odd_a), (even_b, odd_b) = _parities(a), _parities(b)
    half_a, half_b = (
        odd.T @ np.sign(np.subtract.outer(np.arange(n), np.arange(n))) @ even
        for n, even, odd in ((a, even_a, odd_a), (b, even_b, odd_b))
    )
    blocks, pairs = [], []

    def basis(vectors: np.ndarray) -> _Basis:
        places, names = np.argmax(vectors != 0, axis=1), orbits[np.argmax(vectors != 0, axis=0)]
        entries = vectors[np.arange(len(vectors)), places]
        return _Basis(places, entries, names, np.eye(len(sizes), dtype=np.float32)[:, names])

    def add(matrix, rows, cols, rank: int, *, ones: bool = False, copies: int = 1) -> None:
        heads, tails = basis(rows), basis(cols)
        scaled = matrix / np.sqrt(np.outer(sizes[heads.orbits], sizes[tails.orbits]))
        # Where ones are a combination of the rows, to subtract them costs a dimension.
        first = rank - int(ones and matrix.shape[0] == matrix.shape[1] == rank)
        blocks.append(_Block(scaled, heads, tails, first, ones, copies))
        if copies == 1:
            blocks.append(_Block(scaled.T, tails, heads, rank, False, 1))
        pairs.append((len(blocks) - 3 + copies, len(blocks) - 1))

    m, n = odd_a.shape[1], odd_b.shape[1]
    matrix, rows, cols = np.kron(half_a, half_b), np.kron(odd_a, odd_b), np.kron(even_a, even_b)
    if a == b:
        for sign in (1, -1):
            head, tail = (_exchanged(x.shape[1], sign) for x in (odd_a, even_a))
            if tail.size and head.size:
                part = head.T @ matrix @ tail
                add(part, rows @ head, cols @ tail, head.shape[1], ones=sign == 1)
    else:
        add(matrix, rows, cols, m * n, ones=True)
    matrix, rows, cols = np.kron(half_a, -half_b.T), np.kron(odd_a, even_b), np.kron(even_a, odd_b)
    if a == b:  # the vectors in the order in which an exchange makes columns of rows
        order = np.arange(cols.shape[1]).reshape(-1, m).T.ravel()
        add(matrix[:, order], rows, cols[:, order], m * n, copies=2)
    elif matrix.shape[0] > matrix.shape[1]:
        add(matrix.T, cols, rows, m * n)
    else:
        add(matrix, rows, cols, m * n)
    return blocks, sizes, pairs


def _orbits(a: int, b: int) -> tuple[Int[np.ndarray, " k"], Int[np.ndarray, " n"]]:
    """The orbit of each cell, and how many cells each has."""
    i, j = (np.minimum(np.arange(n), np.arange(n)[::-1]) for n in (a, b))
    i, j = np.meshgrid(i, j, indexing="ij")
    if a == b:
        i, j = np.minimum(i, j), np.maximum(i, j)
    _, orbits, sizes = np.unique(i * b + j, return_inverse=True, return_counts=True)
    return orbits.ravel(), sizes


def _parities(n: int) -> tuple[Float[np.ndarray, "n e"], Float[np.ndarray, "n o"]]:
    """Orthonormal even and odd vectors of n numbers."""
    half = np.eye(n)[:, : n // 2]
    even, odd = ((half + sign * half[::-1]) / math.sqrt(2) for sign in (1, -1))
    return np.hstack([even, np.eye(n)[:, n // 2 : n // 2 + n % 2]]), odd


def _exchanged(n: int, sign: int) -> Float[np.ndarray, "n2 c"]:
    """Orthonormal vectors over n × n cells that an exchange of the axes leaves, or negates."""
    i, j = np.triu_indices(n, k=0 if sign > 0 else 1)
    vectors = np.zeros((n * n, len(i)))
    at = np.arange(len(i))
    vectors[i * n + j, at] = 1.0
    vectors[j * n + i, at] += sign
    return vectors / np.linalg.norm(vectors, axis=0)


def _point(
    blocks: list[_Block], weights: Float[np.ndarray, "2 n"], *, exact: bool = False
) -> _Point:
    """The trace norm and its slopes, from the eigenvectors of each block's Gram matrix.

    Args:
      blocks: of W.
      weights: of the orbits.
      exact: whether the span of the singular vectors must be right to rounding: where they do not
        span all of a block's columns, it takes a singular value decomposition.
    """
    trace, sums, spectra = 0.0, np.zeros(weights.shape), []
    for block in blocks:
        p, q = weights[0][block.rows.orbits], weights[1][block.cols.orbits]
        matrix, shift = block.matrix, np.zeros(len(p))
        if block.shifted:
            shift = matrix @ q / q.sum()
            matrix = matrix - shift[:, None]
        scaled = np.sqrt(p)[:, None] * matrix * np.sqrt(q)
        if exact and block.rank + block.shifted < len(q):
            left, values, right = np.linalg.svd(scaled, full_matrices=False)
            left, values, right = left[:, : block.rank], values[: block.rank], right[: block.rank].T
        else:
            squares, right = np.linalg.eigh(scaled.T @ scaled)
            unused = len(q) - block.rank
            values, right = np.sqrt(np.maximum(squares[unused:], 0.0)), right[:, unused:]
            left = scaled @ right / np.maximum(values, np.finfo(np.float64).tiny)
        spectra.append(_Spectrum(left, values, right, shift))
        trace += block.copies * values.sum()
        sums[0] += block.copies * block.rows.sums @ (left**2 @ values)
        sums[1] += block.copies * block.cols.sums @ (right**2 @ values)
    return _Point(weights, spectra, trace, sums / (weights * trace))


def _curvature(blocks: list[_Block], point: _Point) -> Float[np.ndarray, "2n 2n"]:
    """The matrix of −d²F in relative coordinates, as in `_interior`; of all blocks."""
    rows, cross, cols = (np.zeros((point.weights.shape[1],) * 2) for _ in range(3))
    largest = 2 * max(s.values.max(initial=0.0) for s in point.spectra)
    for block, spectrum in zip(blocks, point.spectra, strict=True):
        left, values, right, _ = spectrum
        head, tail = block.rows.sums, block.cols.sums
        # A direction needs no more digits; what is proven is computed in float64.
        heads, tails = left.astype(np.float32), right.astype(np.float32)
        parts = [np.zeros((len(x), len(y)), np.float32) for x, y in _sides(heads, tails)]
        for rate, mass in zip(RATES, MASSES, strict=True):
            share = values / largest
            root = np.sqrt(share * np.exp(-rate * share) * math.sqrt(mass * largest))
            root = np.where(root > _LEAST * root.max(), root, 0.0).astype(np.float32)
            for part, (x, y) in zip(parts, _sides(heads * root, tails * root), strict=True):
                product = x @ y.T
                part += np.square(product, out=product)
        if block.shifted:  # the constants follow the weights
            moved = np.sqrt(point.weights[1][block.cols.orbits])[:, None] * right
            parts[2] += 2 * (moved * values) @ moved.T
        rows += block.copies * head @ parts[0] @ head.T
        cross -= block.copies * head @ parts[1] @ tail.T
        cols += block.copies * tail @ parts[2] @ tail.T
    return np.block([[rows, cross], [cross.T, cols]]) / 2


def _sides(left: np.ndarray, right: np.ndarray) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    return (left, left), (left, right), (right, right)


def _solve(blocks: list[_Block], num_orbits: int, tol: float, max_steps: int) -> tuple[_Point, int]:
    """Optimal weights by the method of `_interior`, on the host; nothing has to be compiled."""
    size = 2 * num_orbits
    point = _point(blocks, np.full((2, num_orbits), 1 / num_orbits))
    slacks = np.maximum(1 - point.ratios, 0.1 / (size * point.weights))
    best = point
    for step in range(max_steps):
        if best.upper <= (1 + tol) * best.lower:
            return best, step
        weights, products = point.weights, point.weights * slacks
        barrier = max(CENTERING * products.mean(), 0.3 * tol / size)
        slope = (weights * point.ratios).ravel()
        hessian = _curvature(blocks, point) * (2 / point.trace)
        hessian += np.outer(slope, slope) / 2 + np.diag(products.ravel() + 1e-14)
        gradient = slope - weights.ravel() + barrier
        try:
            relative = np.linalg.solve(hessian, gradient).reshape(weights.shape)
        except np.linalg.LinAlgError:
            return best, step
        change = (barrier - products * (1 + relative)) / weights
        steepest = (float(x.max()) for x in (-relative, -change / slacks))
        length, dual = (min(1.0, TO_BOUNDARY / max(x, 1e-30)) for x in steepest)
        rise, least = gradient @ relative.ravel(), 1e-3 * length
        while True:
            point = _point(blocks, weights * (1 + length * relative))
            further = np.sum(relative * (point.weights * (point.ratios - 1)))
            further += barrier * np.sum(relative / (1 + length * relative))
            if further >= -OVERSHOOT * rise or length <= least:
                break
            length /= 2
        slacks = slacks + dual * change
        if point.upper / point.lower < best.upper / best.lower:
            best = point
    return best, max_steps


def _read(
    blocks: list[_Block],
    sizes: Int[np.ndarray, " n"],
    pairs: list[tuple[int, int]],
    point: _Point,
    shape: tuple[int, int],
) -> dict[str, np.ndarray]:
    """The factors, in coordinates in which W is a diagonal form, and the witness."""
    p, q = point.weights
    columns, scales, linear = [], [], []
    for number, transposed in pairs:
        block, (left, values, right, shift) = blocks[number], point.spectra[number]
        _, others, other, _ = point.spectra[transposed]
        heads, tails = block.rows.orbits, block.cols.orbits
        # With R and R' the right factors of the two blocks, the block is R'ᵀ·form·R + (R'ᵀ·g)·1ᵀ.
        form = other.T @ (np.sqrt(q[heads] / p[heads])[:, None] * left)
        form = form * np.sqrt(values) / np.sqrt(others)[:, None]
        constant = other.T @ (np.sqrt(q[heads]) * shift) / np.sqrt(others)
        turn, size, turn_right = np.linalg.svd(form)
        rows = np.sqrt(sizes[heads] / q[heads])[:, None] * other * np.sqrt(others) @ turn
        cols = np.sqrt(sizes[tails] / q[tails])[:, None] * right * np.sqrt(values) @ turn_right.T
        rows, cols = block.rows.expand(rows), block.cols.expand(cols)
        first, constant = cols.shape[1], turn.T @ constant
        # [[0, t], [t, 0]] has the eigenvalues ±t.
        for sign in (1, -1):
            columns.append((cols + sign * rows[:, :first]) / math.sqrt(2))
            scales.append(sign * size)
            linear.append(sign * constant[:first] / math.sqrt(2))
        columns.append(rows[:, first:])
        scales.append(np.zeros(len(turn) - first))
        linear.append(constant[first:])
    columns, scales, linear = (np.concatenate(x, axis=-1) for x in (columns, scales, linear))
    dual = np.zeros((math.prod(shape),) * 2)
    for block, spectrum in zip(blocks, point.spectra, strict=True):
        head = np.sqrt(p / sizes)[block.rows.orbits][:, None] * spectrum.left
        tail = np.sqrt(q / sizes)[block.cols.orbits][:, None] * spectrum.right
        part = np.take(block.rows.expand(head @ tail.T), block.cols.places, axis=1)
        part *= block.cols.entries
        dual += part
        if block.copies == 2:  # the other one is this one with its axes exchanged
            dual.reshape(2 * shape)[...] += part.reshape(2 * shape).transpose(1, 0, 3, 2)
    orbits = _orbits(*shape)[0]
    return {
        "left": (columns * scales + linear).T,
        "right": columns.T,
        "dual": dual,
        "row_weights": (p / sizes)[orbits],
        "col_weights": (q / sizes)[orbits],
        "shift": columns @ linear,
    }
