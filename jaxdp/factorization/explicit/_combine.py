"""Factorizations of Kronecker products."""

import numpy as np

from .._result import Factorization, relative_gap


def kronecker(outer: Factorization, inner: Factorization) -> Factorization:
    """The Kronecker product of two exact factorizations, optimal where both are.

    γ2(A ⊗ B) = γ2(A)·γ2(B): factors, dual witnesses, weights and bounds all multiply.

    Args:
      outer: factorization of A with `norm` `"gamma2"` and `alpha` 0.
      inner: factorization of B, likewise.

    Returns:
      Factorization of A ⊗ B; it has `signs` if both have.

    Raises:
      ValueError: one of the two is approximate, shifted, batched or of another norm.

    Example:
      >>> from jaxdp import factorization, workloads
      >>> sign = factorization.signed(workloads.sign(4))
      Traceback (most recent call last):
        ...
      ValueError: matrix must equal its transpose, ...
      >>> sign = factorization.gamma2(workloads.sign(4))
      >>> kendall = factorization.explicit.kronecker(sign, sign)
      >>> print(round(float(kendall.upper), 6))  # √2·√2
      2.0

    References:
      Ghazi et al. (2023), Fact 15; Lee, Shraibman, Špalek (2008).
    """
    for name, part in (("outer", outer), ("inner", inner)):
        exact = part.norm == "gamma2" and part.shift is None and not np.any(part.alpha)
        if not exact or np.ndim(part.upper) != 0:
            raise ValueError(
                f"{name} must be one exact factorization for gamma2 without shift, got norm "
                f"{part.norm!r}, alpha {part.alpha}, shift {part.shift} and bounds of shape "
                f"{np.shape(part.upper)}."
            )
    signs = None
    if outer.signs is not None and inner.signs is not None:
        signs = np.kron(outer.signs, inner.signs)
    upper = np.asarray(outer.upper) * np.asarray(inner.upper)
    lower = np.asarray(outer.lower) * np.asarray(inner.lower)
    gap = np.asarray(relative_gap(lower, upper))
    return Factorization(
        left=np.kron(outer.left, inner.left),
        right=np.kron(outer.right, inner.right),
        upper=upper,
        lower=lower,
        gap=gap,
        converged=np.asarray(outer.converged) & np.asarray(inner.converged),
        num_steps=np.asarray(0, np.int32),
        dual=np.kron(outer.dual, inner.dual),
        row_weights=np.kron(outer.row_weights, inner.row_weights),
        col_weights=np.kron(outer.col_weights, inner.col_weights),
        alpha=np.zeros(()),
        weight=np.zeros(()),
        signs=signs,
    )
