"""Vectors of values and quadratic forms of them, for the matrix of a statistic of pairs."""

import dataclasses

import numpy as np

from ..factorization import Factorization, gamma2, signed
from ..linear._encoded import radius_of

_NULL = 1e-7  # directions of relative size below this are not used
_UNUSED = 1e-10  # of the largest share in an entry of W
_CLOSE = 1e-6  # relative error of factors that pass for exact


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
    def rest(self) -> np.ndarray:
        """W less the constant, float64[k, k]."""
        columns = self.columns.astype(np.float64)
        own = columns @ self.linear
        return (columns * self.scales) @ columns.T + own[:, None] + own

    @property
    def matrix(self) -> np.ndarray:
        """W, float64[k, k]."""
        return self.rest + self.constant

    @property
    def radius(self) -> float:
        """The largest norm of a column, rounded up to float32; 1 if all are 0."""
        return radius_of(self.columns)

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
        used = np.abs(self.scales) * largest**2 + np.abs(self.linear) * largest
        kept = used > _UNUSED * max(used.max(), abs(self.constant), 1e-300)
        if not np.any(kept):
            none = np.zeros((len(self.columns), 1))
            return QuadraticFactor(none, np.zeros(1), np.zeros(1), self.constant)
        return QuadraticFactor(
            self.columns[:, kept], self.scales[kept], self.linear[kept], self.constant
        )

    def normalised(self) -> "QuadraticFactor":
        """The same with vectors of norm at most 1, attained unless all are 0."""
        size = float(np.linalg.norm(self.columns, axis=1).max()) or 1.0
        scales = self.scales * size**2
        return QuadraticFactor(self.columns / size, scales, self.linear * size, self.constant)

    def rounded(self) -> "QuadraticFactor":
        """The same with vectors of float32."""
        return dataclasses.replace(self, columns=self.columns.astype(np.float32))


def fitted(columns: np.ndarray, matrix: np.ndarray) -> QuadraticFactor:
    """The form of these vectors that is nearest to a symmetric matrix in the least squares.

    Exact where rows of the matrix are combinations of the coordinates and of a constant, as those
    of the right factor of W - u 1^T are. The vectors are turned so that the form is diagonal.

    Args:
      columns: float64[k, l].
      matrix: W, symmetric float64[k, k].
    """
    # What all vectors share is left out, so that the vectors and a constant are independent.
    _, sizes, axes = np.linalg.svd(columns - columns.mean(axis=0), full_matrices=False)
    kept = sizes > _NULL * max(sizes[0], float(np.abs(columns).max()), 1e-300)
    columns = columns @ axes[kept].T if np.any(kept) else np.zeros((len(matrix), 1))
    inverse = np.linalg.pinv(np.column_stack([columns, np.ones(len(matrix))]), rcond=_NULL**2)
    form = inverse @ matrix @ inverse.T
    scales, turn = np.linalg.eigh(form[:-1, :-1])
    found = QuadraticFactor(columns @ turn, scales, turn.T @ form[:-1, -1], float(form[-1, -1]))
    return found.used().normalised()


def best_factor(matrix: np.ndarray, shift: bool) -> QuadraticFactor:
    """The factor of least `norm`.

    With `shift` its norm is the least gamma_2(W - u 1^T) over u, without it is gamma_2(W).
    """
    if shift:
        found = fitted(gamma2(matrix, shift=True).right.T, matrix)
        if np.abs(found.matrix - matrix).max() <= _CLOSE * max(np.abs(matrix).max(), 1e-300):
            return found
    return signed_factor(matrix, shift).normalised()


def signed_factor(matrix: np.ndarray, shift: bool) -> QuadraticFactor:
    """That of d = +-1 and g = 0 with the shortest vectors, for W or W less the best constant."""
    found = signed(matrix, shift=shift)
    assert found.signs is not None
    constant = 0.0 if found.shift is None else float(found.shift)
    signs = np.asarray(found.signs, np.float64)
    return QuadraticFactor(np.asarray(found.left).T, signs, np.zeros(found.rank), constant).used()


def candidates(matrix: np.ndarray, shift: bool, rank: int | None, several: bool):
    """Factors to choose from by their predicted errors: the first has the least `norm`.

    Args:
      matrix: symmetric float64[k, k].
      shift: whether constants may be subtracted.
      rank: the number of coordinates; None for any.
      several: whether to offer more than one.

    Returns:
      A list of factors; of those of a lower rank, the leading directions.
    """
    found = [best_factor(matrix, shift)]
    if several and shift:
        found.append(signed_factor(matrix, shift=True).normalised())
    full = max(len(f.scales) for f in found)
    ranks = [rank] if rank is not None else [full]
    while several and rank is None and ranks[-1] > 1:
        ranks.append(ranks[-1] * 3 // 4)
    return [f if r >= len(f.scales) else _leading(f, matrix, r) for r in ranks for f in found]


def _leading(factor: QuadraticFactor, matrix: np.ndarray, rank: int) -> QuadraticFactor:
    """A factor of fewer coordinates: those which matter most, with the form fitted anew."""
    spread = np.var(factor.columns, axis=0)
    slopes = factor.columns * factor.scales + factor.linear
    matters = spread * np.mean(slopes**2, axis=0)
    return fitted(factor.columns[:, np.argsort(-matters, kind="stable")[:rank]], matrix)


def given_factor(given, matrix: np.ndarray) -> QuadraticFactor:
    """The factor that a user gave, or raises unless it is one of the matrix.

    Args:
      given: a `Factorization`, or (left, signs) or (left, signs, shift) with `W = left^T
        diag(signs) left + shift`.
      matrix: symmetric float64[k, k].
    """
    k = len(matrix)
    if isinstance(given, Factorization) and given.signs is None:
        if np.shape(given.right)[-1:] != (k,) or np.ndim(given.right) != 2:
            raise ValueError(
                f"factorization must be one of a matrix [{k}, {k}], got factors of shape "
                f"{np.shape(given.left)} and {np.shape(given.right)}."
            )
        found = fitted(np.asarray(given.right, np.float64).T, matrix)
    else:
        if isinstance(given, Factorization):
            given = (given.left, given.signs, 0.0 if given.shift is None else given.shift)
        if not (isinstance(given, tuple) and len(given) in (2, 3)):
            raise TypeError(
                "factorization must be a Factorization or a tuple (left, signs) or (left, signs, "
                f"shift), got {type(given).__name__}."
            )
        left, signs, shift = (np.asarray(x, np.float64) for x in (*given, 0.0)[:3])
        if left.ndim != 2 or left.shape[1] != k or signs.shape != left.shape[:1] or shift.ndim:
            raise ValueError(
                f"factorization: left must have shape [l, {k}], signs [l] and shift [], got "
                f"{left.shape}, {signs.shape} and {shift.shape}; W is left.T @ diag(signs) @ left "
                "+ shift."
            )
        zero = np.zeros(len(signs))
        found = QuadraticFactor(left.T, signs, zero, float(shift)).used().normalised()
    error = np.abs(found.matrix - matrix).max()
    if not error <= _CLOSE * np.abs(matrix).max():
        raise ValueError(
            f"factorization must be one of the kernel's matrix, but an entry of what it multiplies "
            f"to is off by {error:g}."
        )
    return found
