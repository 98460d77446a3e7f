"""Certificates re-checked in float64 NumPy, without any code of the solvers."""

import dataclasses

import numpy as np
from jax.typing import ArrayLike

from ._dual import DualNorm
from ._inputs import check_matrix, is_traced
from ._result import Factorization


class CertificateError(ValueError):
    """A claim of a factorization does not hold."""


@dataclasses.dataclass(frozen=True)
class Certificate:
    """Bounds found by `certify`, which hold whatever the result claimed.

    Attributes:
      upper: float64[...]: attained by the factors.
      lower: float64[...]: proven by the dual witness, rescaled if it was infeasible by rounding.
      gap: float64[...]: upper / lower − 1.
      residual: float64[...]: how far an entry of leftᵀ·right − W exceeds `alpha`; rounding only.
    """

    upper: np.ndarray
    lower: np.ndarray
    gap: np.ndarray
    residual: np.ndarray


def certify(
    matrix: ArrayLike, result: Factorization | DualNorm, *, rtol: float = 1e-7
) -> Certificate:
    """Recomputes both bounds of `result` in float64 and raises if it claims more than holds.

    Nothing but the arrays is trusted. For a `Factorization` of W: the entrywise error of
    leftᵀ·right, relative to the largest entry of its row, so that no small query is answered by 0
    beside a large one; the column norms, the spectral norm of the rescaled dual witness, its value,
    the signs, and whether the claimed gap follows. For a `DualNorm` of U: the identity U =
    diag(√p)·Ũ·diag(√q), the spectral norm of Ũ and the value of the unit vectors.

    Args:
      matrix: float[..., m, k], the matrix that was factorized.
      result: a `Factorization`, or the `DualNorm` of `gamma2_dual`.
      rtol: relative tolerance for rounding. Results computed under a 32-bit `jit` need about 1e-4.

    Returns:
      Certificate.

    Raises:
      CertificateError: a claim fails; the message names it with both numbers.
      ValueError: shapes of `matrix` and `result` differ, or `matrix` is invalid.
      TypeError: called under jit.

    Example:
      >>> import dataclasses, numpy as np
      >>> from jaxdp import factorization
      >>> W = np.tril(np.ones((8, 8)))
      >>> f = factorization.gamma2(W)
      >>> bool(factorization.certify(W, f).gap < 1e-6)
      True
      >>> factorization.certify(W, dataclasses.replace(f, upper=0.99 * f.upper))
      Traceback (most recent call last):
        ...
      jaxdp.factorization._certify.CertificateError: upper is claimed to be 1.4953..., ...

    References:
      Edmonds, Nikolov, Ullman (2020), Lemmas 12 and 13.
    """
    if is_traced(matrix, result.upper):
        raise TypeError("certify runs on the host: call it outside jit.")
    checked_matrix = check_matrix(matrix)
    check = _certify_dual if isinstance(result, DualNorm) else _certify_factors
    fields = {
        f.name: np.asarray(v, np.float64)
        for f in dataclasses.fields(result)
        if f.name != "norm" and (v := getattr(result, f.name)) is not None
    }
    norm = getattr(result, "norm", "gamma2_dual")
    lead = checked_matrix.shape[:-2]
    if fields["upper"].shape != lead:
        raise ValueError(
            f"result must hold one factorization for each of {lead or 'one'} matrices, got upper "
            f"of shape {fields['upper'].shape}."
        )
    eps = float(np.finfo(np.asarray(result.left).dtype).eps)
    checked = np.empty((3, *lead))
    for index in np.ndindex(lead):
        one = {name: value[index] for name, value in fields.items()}
        for name, value in one.items():
            _require(not np.any(np.isnan(value)), f"{name} must not be NaN")
        checked[(slice(None), *index)] = check(checked_matrix[index], one, norm, rtol, eps)
    upper, lower, residual = checked
    gap = np.array([_gap(u, v) for u, v in zip(upper.flat, lower.flat, strict=True)])
    return Certificate(*map(np.asarray, (upper, lower, gap.reshape(lead), residual)))


def _require(holds, message: str) -> None:
    if not holds:
        raise CertificateError(f"{message}.")


def _gap(upper: float, lower: float) -> float:
    return upper / lower - 1.0 if lower > 0 else (np.inf if upper > 0 else 0.0)


def _check_shapes(matrix, one, shapes) -> None:
    for name, shape in shapes.items():
        if one[name].shape != shape:
            raise ValueError(
                f"{name} must have shape {shape} for a matrix of shape {matrix.shape}, got "
                f"{one[name].shape}."
            )


def _check_weights(one, rtol: float) -> None:
    for name in ("row_weights", "col_weights"):
        weights = one[name]
        _require(
            np.all(weights >= 0) and weights.sum() <= 1 + rtol,
            f"{name} must be a probability vector, got a least entry of {weights.min():.6g} and a "
            f"sum of {weights.sum():.9g}",
        )


def _spectral_norm(dual, one) -> float:
    """‖diag(p)^(-1/2)·dual·diag(q)^(-1/2)‖; infinite where `dual` is not 0 but a weight is."""
    # The metric of the weights, in which γ2* is at most a spectral norm.
    scale = np.sqrt(np.outer(one["row_weights"], one["col_weights"]))
    if np.any((scale == 0) & (dual != 0)):
        return np.inf
    core = np.divide(dual, scale, out=np.zeros_like(dual), where=scale > 0)
    return _largest_singular_value(core)


def _largest_singular_value(matrix) -> float:
    # The largest eigenvalue of the smaller Gram matrix is accurate, and cheaper than an SVD.
    gram = matrix @ matrix.T if matrix.shape[0] < matrix.shape[1] else matrix.T @ matrix
    return float(np.sqrt(max(np.linalg.eigvalsh(gram)[-1], 0.0)))


def _check_bounds(one, upper: float, lower: float, rtol: float) -> None:
    claim = float(one["upper"])
    _require(
        upper <= claim * (1 + rtol),
        f"upper is claimed to be {claim:.9g}, but the factors attain {upper:.9g}",
    )
    claim = float(one["lower"])
    _require(
        claim <= max(lower, 0.0) * (1 + rtol) + rtol * upper,
        f"lower is claimed to be {claim:.9g}, but the dual witness proves {lower:.9g}",
    )
    claim = float(one["gap"])
    # The claimed gap has to follow from the claimed bounds, which were checked above.
    actual = _gap(float(one["upper"]), float(one["lower"]))
    _require(
        actual <= claim + 4 * rtol * (1 + claim),
        f"gap is claimed to be {claim:.3g}, but the two bounds leave {actual:.3g}",
    )


def _certify_factors(matrix, one, norm, rtol, eps):
    m, k = matrix.shape
    left, right = one["left"], one["right"]
    rank = left.shape[0]
    _check_shapes(
        matrix,
        one,
        {
            "left": (rank, m),
            "right": (rank, k),
            "dual": (m, k),
            "row_weights": (m,),
            "col_weights": (k,),
        },
    )
    rounding = 4 * eps * np.abs(matrix).max(axis=1)  # of a shift
    centred = matrix
    if "shift" in one:  # one number for each row, or one for all entries
        axis = 1 if one["shift"].ndim == 1 else None
        ends = (find(matrix, axis=axis, keepdims=True) / 2 for find in (np.min, np.max))
        centred, matrix = matrix - sum(ends), matrix - one["shift"][..., None]
    scale = np.abs(centred).max()
    scale = scale if scale > 0 else 1.0
    matrix, left, right = matrix / scale, left / np.sqrt(scale), right / np.sqrt(scale)
    centred, rounding = centred / scale, rounding / scale
    alpha, weight = one["alpha"] / scale, one["weight"]
    _require(alpha >= 0 and weight >= 0, "alpha and weight must be >= 0")

    errors = np.abs(left.T @ right - matrix)
    left_norms, right_norms = np.sum(left**2, axis=0), np.sum(right**2, axis=0)
    allowed = alpha + rtol * np.abs(matrix).max(axis=1) + rounding
    # What rounding of the product may add.
    product = 4 * rank * eps * np.sqrt(np.outer(left_norms, right_norms))
    excess = errors - product - allowed[:, None]
    row, column = np.unravel_index(np.argmax(excess), excess.shape)
    _require(
        excess[row, column] <= 0,
        f"leftᵀ·right is claimed to be within {alpha * scale:.9g} of the matrix, but the entry at "
        f"({row}, {column}), {matrix[row, column] * scale:.9g}, differs by "
        f"{errors[row, column] * scale:.9g}",
    )
    error = errors.max()
    left_norm = left_norms.mean() if norm == "gamma_f" else left_norms.max()
    upper = np.sqrt(left_norm * right_norms.max())
    if norm == "zeta":
        upper += weight * error
    if "signs" in one:
        signs = one["signs"]
        _require(
            signs.shape == (rank,)
            and np.all(np.abs(signs) == 1)
            and np.abs(signs[:, None] * left - right).max() <= rtol * np.sqrt(upper),
            "right must equal signs[:, None]·left with signs ±1",
        )

    _check_weights(one, rtol)
    if norm == "gamma_f":
        _require(
            np.abs(m * one["row_weights"] - 1).max() <= rtol,
            "row_weights of gamma_f must be uniform",
        )
    dual = one["dual"]
    if "shift" in one:  # a witness for every shift must not see constants
        rows, cols = one["row_weights"][:, None], one["col_weights"][None, :]
        by_row = one["shift"].ndim == 1
        dual = dual - (
            dual.sum(axis=1, keepdims=True) * cols if by_row else dual.sum() * rows * cols
        )
    size = _spectral_norm(dual, one)
    mass = np.abs(dual).sum()
    if norm == "zeta":
        # The dual of ζ has a second constraint, Σ abs(U) ≤ weight.
        size = max(size, mass / weight)
    # A witness that does not see constants proves the same of W without what rounds most.
    lower = np.sum(centred * dual) - (0.0 if norm == "zeta" else alpha * mass)
    # A witness that rounding made too long proves less: scaled down to γ2* ≤ 1, but never up.
    lower /= max(size, 1.0)
    _check_bounds(one, scale * upper, scale * lower, rtol)
    return scale * upper, scale * max(lower, 0.0), scale * max(error - alpha, 0.0)


def _certify_dual(matrix, one, norm, rtol, eps):
    del norm, eps
    m, k = matrix.shape
    left, right = one["left"], one["right"]
    shapes = {"core": (m, k), "row_weights": (m,), "col_weights": (k,)}
    shapes |= {"left": (left.shape[0], m), "right": (left.shape[0], k)}
    _check_shapes(matrix, one, shapes)
    scale = np.abs(matrix).max()
    scale = scale if scale > 0 else 1.0
    _check_weights(one, rtol)
    rows, cols = np.sqrt(one["row_weights"]), np.sqrt(one["col_weights"])
    error = np.abs(rows[:, None] * one["core"] * cols - matrix).max()
    _require(
        error <= rtol * scale,
        f"diag(√row_weights)·core·diag(√col_weights) differs from the matrix by {error:.9g}",
    )
    upper = _largest_singular_value(one["core"])
    longest = np.sqrt(max(np.sum(left**2, axis=0).max(), np.sum(right**2, axis=0).max()))
    lower = np.sum(matrix * (left.T @ right)) / max(longest, 1.0) ** 2
    _check_bounds(one, upper, lower, rtol)
    return upper, max(lower, 0.0), error
