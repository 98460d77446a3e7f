"""Vectors of values and quadratic forms of them, for the matrix of a statistic of pairs."""

import dataclasses
import functools
import math
from typing import Literal

import numpy as np
from jaxtyping import Float

from ..._given_factors import as_factorization, check_product, given_factors
from ..._spec import FrozenArray
from ...factorization import Factorization, explicit, gamma2, kendall, signed
from ...linear import EmbeddedRound
from ...workloads import kendall as kendall_matrix

_NULL = 1e-7  # directions of relative size below this are not used
_UNUSED = 1e-10  # of the largest share in an entry of W
_CLOSE = 1e-6  # relative error of factors that pass for exact
_EQUAL = 1e-9  # relative difference of numbers that differ by rounding alone


@dataclasses.dataclass(frozen=True)
class QuadraticFactor:
    """`W[v, w] = L_v^T diag(d) L_w + g^T L_v + g^T L_w + c`, or nearly.

    Attributes:
      columns: float64[k, l], the `L_v`; or float32, as users hold them.
      scales: d, float64[l].
      linear: g, float64[l].
      constant: c.
    """

    columns: np.ndarray
    scales: np.ndarray
    linear: np.ndarray
    constant: float

    @property
    def centred(self) -> Float[np.ndarray, "k k"]:
        """W minus the constant."""
        columns = self.columns.astype(np.float64)
        rows = columns @ self.linear
        return (columns * self.scales) @ columns.T + rows[:, None] + rows

    @property
    def matrix(self) -> Float[np.ndarray, "k k"]:
        """The matrix W that the factor is of."""
        return self.centred + self.constant

    @property
    def radius(self) -> float:
        """The largest norm of a column, rounded up to float32; 1 if all are 0."""
        return EmbeddedRound.radius_of(self.columns)

    @property
    def norm(self) -> float:
        """The largest norm of `d L_v + g`, half of the gradient of the statistic.

        Reports with noise of variance `sigma**2` in every direction lead to a variance of at most
        `4 norm**2 sigma**2 / n`, but for what is quadratic in the noise.
        """
        return float(np.linalg.norm(self.columns * self.scales + self.linear, axis=1).max())

    def used(self) -> "QuadraticFactor":
        """The same without the coordinates that are not used; one of zeros if none is."""
        largest = np.abs(self.columns).max(axis=0)
        # About the most that a coordinate adds to an entry of W
        share = np.abs(self.scales) * largest**2 + np.abs(self.linear) * largest
        used = share > _UNUSED * max(share.max(), abs(self.constant), 1e-300)
        if not np.any(used):
            none = np.zeros((len(self.columns), 1))
            return QuadraticFactor(none, np.zeros(1), np.zeros(1), self.constant)
        return QuadraticFactor(
            self.columns[:, used], self.scales[used], self.linear[used], self.constant
        )

    def turned(self) -> "QuadraticFactor":
        """The same in coordinates that no rounding decides, so that all machines use the same.

        Coordinates of equal scales may be turned into one another, and each may change its sign:
        which of these bases LAPACK returns differs from one kind of CPU to the next. Here the
        scales ascend, and in the coordinates of one scale the longest vector lies along the first,
        the one that is farthest from it in the plane of the first two, and so on.
        """
        order = np.argsort(self.scales, kind="stable")
        apart = np.diff(self.scales[order]) > _EQUAL * np.abs(self.scales).max()
        columns, scales, linear = [], [], []
        for group in np.split(order, np.flatnonzero(apart) + 1):
            axes = axes_of(self.columns[:, group])
            columns.append(self.columns[:, group] @ axes)
            linear.append(self.linear[group] @ axes)
            scales.append(np.full(axes.shape[1], self.scales[group].mean()))
        return QuadraticFactor(
            np.concatenate(columns, axis=1),
            np.concatenate(scales),
            np.concatenate(linear),
            self.constant,
        )

    def normalised(self) -> "QuadraticFactor":
        """The same with vectors of norm at most 1, attained unless all are 0."""
        size = float(np.linalg.norm(self.columns, axis=1).max()) or 1.0  # L / s, D s**2, g s
        scales = self.scales * size**2
        return QuadraticFactor(self.columns / size, scales, self.linear * size, self.constant)

    def rounded(self) -> "QuadraticFactor":
        """The same with vectors of float32."""
        return dataclasses.replace(self, columns=self.columns.astype(np.float32))


def axes_of(vectors: Float[np.ndarray, "k l"]) -> Float[np.ndarray, "l r"]:
    """An orthonormal basis of the span of some vectors that follows from their products alone.

    Each of its axes is where the vector that is farthest from all axes before it leaves their span;
    of vectors that are equally far, the first.
    """
    if vectors.shape[1] == 1:  # as most scales are of one coordinate
        sizes = np.abs(vectors[:, 0])
        first = np.argmax(sizes >= (1 - _EQUAL) * sizes.max())
        return np.where(vectors[first] < 0, -1.0, 1.0)[:, None]
    chosen: list[int] = []
    left = vectors.copy()
    longest = np.linalg.norm(vectors, axis=1).max()
    while len(chosen) < vectors.shape[1]:
        far = np.linalg.norm(left, axis=1)
        if far.max() <= _EQUAL * longest:
            break
        chosen.append(int(np.argmax(far >= (1 - _EQUAL) * far.max())))
        axis = left[chosen[-1]] / far[chosen[-1]]
        left -= np.outer(left @ axis, axis)
    if not chosen:
        return np.eye(vectors.shape[1])[:, :1]
    axes, triangle = np.linalg.qr(vectors[chosen].T)
    return axes * np.sign(np.diagonal(triangle))


def independent(columns: Float[np.ndarray, "k l"]) -> Float[np.ndarray, "k r"]:
    """The vectors without what all of them share: coordinates independent of a constant."""
    _, sizes, axes = np.linalg.svd(columns - columns.mean(axis=0), full_matrices=False)
    used = sizes > _NULL * max(sizes[0], float(np.abs(columns).max()), 1e-300)
    return columns @ axes[used].T if np.any(used) else np.zeros((len(columns), 1))


def fitted(columns: Float[np.ndarray, "k l"], matrix: Float[np.ndarray, "k k"]) -> QuadraticFactor:
    """The form of these vectors that is nearest to a symmetric matrix W in the least squares.

    Exact where rows of the matrix are combinations of the coordinates and of a constant, as those
    of the right factor of W - u 1^T are. The vectors are turned so that the form is diagonal.
    """
    columns = independent(columns)
    # W = [L 1] F [L 1]^T in the least squares; its blocks are D, g and c.
    inverse = np.linalg.pinv(np.column_stack([columns, np.ones(len(matrix))]), rcond=_NULL**2)
    form = inverse @ matrix @ inverse.T
    scales, turn = np.linalg.eigh(form[:-1, :-1])
    factor = QuadraticFactor(columns @ turn, scales, turn.T @ form[:-1, -1], float(form[-1, -1]))
    return factor.used().turned().normalised()


def best_factor(matrix: Float[np.ndarray, "k k"], shift: bool) -> QuadraticFactor:
    """The factor of the smallest `norm`.

    With `shift` its norm is the least gamma_2(W - u 1^T) over u, without it is gamma_2(W).
    """
    if shift and (table := _kendall_table(matrix)) is not None:
        found = kendall(*table).settled("the kernel")
        return _of_slopes(found, matrix[0, table[1] + 1]).used().turned().normalised()
    known = semidefinite(matrix, shift)
    if known is not None:
        return _of_signs(known).normalised()
    if shift:
        factor = fitted(_found(FrozenArray(matrix), "gamma2", True).right.T, matrix)
        if np.abs(factor.matrix - matrix).max() <= _CLOSE * max(np.abs(matrix).max(), 1e-300):
            return factor
    # A rough solution leaves a rough fit; the signed factor needs none.
    return signed_factor(matrix, shift).normalised()


def signed_factor(matrix: Float[np.ndarray, "k k"], shift: bool) -> QuadraticFactor:
    """The factor with d = +-1, g = 0 and the smallest column norm, of W or W minus a constant."""
    return _of_signs(solved(matrix, "signed", shift)).turned()


def solved(
    matrix: Float[np.ndarray, "k k"], kind: Literal["signed", "gamma2"], shift: bool = False
) -> Factorization:
    """The factors that `factorization.signed` or `gamma2` finds for a kernel's matrix, kept.

    Warns where a solver did not converge.
    """
    return _found(FrozenArray(matrix), kind, shift).settled("the kernel")


# Protocols of one statistic, as in a ranking, have the same factors; large matrices are few.
@functools.lru_cache(maxsize=8)
def _found(matrix: FrozenArray, kind: Literal["signed", "gamma2"], shift: bool) -> Factorization:
    return (signed if kind == "signed" else gamma2)(matrix.values, shift=shift)


def semidefinite(matrix: Float[np.ndarray, "k k"], shift: bool) -> Factorization | None:
    """The factors of W, or of W minus the middle of its range, if no solver could find better ones.

    For any u, gamma_2(W - u 1^T) is at least half of the range of each row.
    """
    middle = (matrix.max() + matrix.min()) / 2 if shift else 0.0
    centred = matrix - middle
    least = np.ptp(matrix, axis=1).max() / 2 if shift else np.abs(matrix).max()
    if np.abs(np.diagonal(centred)).max() > least * (1 + 1e-12):
        return None
    try:
        found = explicit.semidefinite(centred)
    except ValueError:
        return None
    return dataclasses.replace(found, shift=np.asarray(middle)) if shift else found


def _kendall_table(matrix: Float[np.ndarray, "k k"]) -> tuple[int, int] | None:
    """The numbers of rows and columns of the table if this is Kendall's kernel on one, or null."""
    first = int(np.argmax(matrix[0] != 0))
    shape = (len(matrix) // max(first - 1, 1), first - 1)  # the cell (1, 1) is not tied with (0, 0)
    if min(shape) < 2 or math.prod(shape) != len(matrix):
        return None
    same = np.array_equal(matrix, matrix[0, first] * kendall_matrix(*shape))
    return shape if same else None


def _of_slopes(result: Factorization, factor: float) -> QuadraticFactor:
    """The quadratic form of a factorization with `left = diag(d) right + g`, times a number."""
    slopes, columns = np.asarray(result.left).T, np.asarray(result.right).T
    mean, off = columns.mean(axis=0), columns - columns.mean(axis=0)
    scales = np.sum(slopes * off, axis=0) / np.sum(off**2, axis=0)
    linear = slopes.mean(axis=0) - scales * mean
    return QuadraticFactor(columns, factor * scales, factor * linear, 0.0)


def _of_signs(result: Factorization) -> QuadraticFactor:
    """The quadratic form of a factorization with signs."""
    assert result.signs is not None
    constant = 0.0 if result.shift is None else float(result.shift)
    signs, columns = np.asarray(result.signs, np.float64), np.asarray(result.left).T
    return QuadraticFactor(columns, signs, np.zeros(result.rank), constant).used()


def candidates(
    matrix: Float[np.ndarray, "k k"], shift: bool, rank: int | None, several: bool
) -> list[QuadraticFactor]:
    """Factors to choose from by their predicted errors: the first has the smallest `norm`.

    Args:
      matrix: symmetric.
      shift: whether constants may be subtracted.
      rank: the number of coordinates; None for any.
      several: whether to offer more than one: lower ranks, of the leading directions.
    """
    full = [best_factor(matrix, shift)]
    if several and shift and np.any(full[0].linear):
        full.append(signed_factor(matrix, shift=True).normalised())
    ranks = [max(len(f.scales) for f in full) if rank is None else rank]
    while several and rank is None and ranks[-1] > 1:  # three quarters each time
        ranks.append(ranks[-1] * 3 // 4)
    return [f if r >= len(f.scales) else _leading(f, matrix, r) for r in ranks for f in full]


def _leading(
    factor: QuadraticFactor, matrix: Float[np.ndarray, "k k"], rank: int
) -> QuadraticFactor:
    """A factor of fewer coordinates: those which matter most, with the form fitted anew."""
    spread = np.var(factor.columns, axis=0)
    slopes = factor.columns * factor.scales + factor.linear
    # What a coordinate adds to the statistic varies by its deviation times its slope.
    matters = spread * np.mean(slopes**2, axis=0)
    return fitted(factor.columns[:, np.argsort(-matters, kind="stable")[:rank]], matrix)


def given_factor(given: object, matrix: Float[np.ndarray, "k k"]) -> QuadraticFactor:
    """The factor that a user gave, or raises unless it is one of the matrix.

    Args:
      given: a `Factorization`, or (left, signs) or (left, signs, shift) with `W = left^T
        diag(signs) left + shift`.
      matrix: symmetric.
    """
    k, result = len(matrix), as_factorization(given)
    if result is not None and result.signs is None:
        if np.shape(result.right)[-1:] != (k,) or np.ndim(result.right) != 2:
            raise ValueError(
                f"factorization must be one of a matrix [{k}, {k}], got factors of shape "
                f"{np.shape(result.left)} and {np.shape(result.right)}."
            )
        # Rows of W - u 1^T are combinations of those of `right`, so this loses nothing of W.
        factor = fitted(np.asarray(result.right, np.float64).T, matrix)
    else:
        left, signs, shift, _ = given_factors(given, "signs")
        if left.ndim != 2 or left.shape[1] != k or signs.shape != left.shape[:1] or shift.ndim:
            raise ValueError(
                f"factorization: left must have shape [l, {k}], signs [l] and shift [], got "
                f"{left.shape}, {signs.shape} and {shift.shape}; W is left.T @ diag(signs) @ left "
                "+ shift."
            )
        zero = np.zeros(len(signs))
        factor = QuadraticFactor(left.T, signs, zero, float(shift)).used().normalised()
    check_product(factor.matrix, matrix, None, "the kernel's matrix")
    return factor
