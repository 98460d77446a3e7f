"""What every factorization of the package returns."""

import dataclasses
import warnings
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxdp_kernels import register_dataclass

from ._arrays import namespace
from ._inputs import times_power

MISFIT = 1e-7
"""How far a row of a factorization may be off, relative to its largest entry."""

Array = Any  # numpy.ndarray from eager calls, jax.Array under a transformation


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Factorization:
    """A factorization `leftᵀ·right` of a matrix W together with the evidence of its quality.

    Write W̃ = leftᵀ·right. Every entry of W̃ − W is at most `alpha` in absolute value. With
    r = `row_weights` and c = `col_weights` (probability vectors) the witness U = `dual` satisfies
    ‖diag(r)^(-1/2)·U·diag(c)^(-1/2)‖ ≤ 1 in spectral norm, hence γ2*(U) ≤ 1, and that proves
    `lower`. The field `norm` says which pair of bounds is claimed:

    ===========  =============================================  =============================
    `norm`       `upper`                                        `lower`
    ===========  =============================================  =============================
    `"gamma2"`   largest column norm of left · that of right    ⟨W, U⟩ − alpha·Σ abs(U)
    `"gamma_f"`  root mean square of left's · largest of right  ⟨W, U⟩, where r is uniform
    `"zeta"`     as for `"gamma2"`, plus `weight`·alpha         ⟨W, U⟩ if Σ abs(U) ≤ `weight`
    ===========  =============================================  =============================

    Results of eager calls hold float64 NumPy arrays. Under `jit` or `vmap` the arithmetic is
    float64 too, and the leaves are cast to the caller's default float at the end. Solvers batch
    over leading axes of W; every field then has those axes in front.

    Attributes:
      left: float[..., l, m].
      right: float[..., l, k].
      upper: float[...]: the value attained by `left` and `right`.
      lower: float[...]: the proven lower bound.
      gap: float[...]: upper / lower − 1; 0 where both are 0.
      converged: bool[...]: whether `gap` is at most the requested tolerance, and no row of W̃ − W
        exceeds `alpha` by more than 1e-7 of it and the largest entry of W there.
      num_steps: int32[...]: steps of the solver; 0 for explicit constructions.
      dual: float[..., m, k]: the witness U.
      row_weights: float[..., m]: r.
      col_weights: float[..., k]: c.
      alpha: float[...]: bound on the entries of W̃ − W.
      weight: float[...]: price of one unit of entrywise error in ζ; 0 for the other norms.
      signs: float[..., l] of ±1 with `right` = signs[:, None]·`left` for `signed`, else None.
      norm: which value is bounded, see the table.
      shift: constants c that were subtracted: W stands for W − c in all of the above, c float[...,
        m] one for each row, or float[...] one for all entries. None where nothing was shifted.
        The witness U then sums to 0 over each row, or over all entries.
    """

    left: Array
    right: Array
    upper: Array
    lower: Array
    gap: Array
    converged: Array
    num_steps: Array
    dual: Array
    row_weights: Array
    col_weights: Array
    alpha: Array
    weight: Array
    signs: Array | None = None
    norm: str = dataclasses.field(default="gamma2", metadata=dict(static=True))
    shift: Array | None = None

    @property
    def matrix(self) -> Array:
        """W̃ = leftᵀ·right, float[..., m, k]."""
        xp = namespace(self.left)
        return xp.matmul(xp.swapaxes(self.left, -1, -2), self.right)

    @property
    def slopes(self) -> tuple[Array, ...]:
        """The gradients of the norm by the matrix, and by `weight` or `alpha` where it has one."""
        if self.norm == "zeta":
            return self.dual, self.alpha
        return self.dual, -jnp.sum(jnp.abs(self.dual), axis=(-1, -2))

    def settled(self, what: str) -> "Factorization":
        """Itself, of one matrix, with a warning unless it converged.

        Args:
          what: the warning's name of the matrix.
        """
        if not self.converged:
            warnings.warn(
                f"the factorization of {what} did not converge: its norm is within a factor of "
                f"{1 + float(self.gap):.3g} of the best. The protocol is right as it is; its "
                "errors are those of these factors.",
                stacklevel=3,
            )
        return self

    @property
    def rank(self) -> int:
        """The number l of rows of `left` and `right`."""
        return np.shape(self.left)[-2]


def scaled(result: Factorization, exponents: np.ndarray) -> Factorization:
    """The factorization of the matrices times powers of two, whose exponents are even."""
    powers: dict[str, np.ndarray] = dict.fromkeys(("left", "right"), exponents // 2)
    powers |= dict.fromkeys(("upper", "lower", "alpha", "shift"), exponents)
    held = {name: getattr(result, name) for name in powers}
    found = {name: times_power(x, powers[name]) for name, x in held.items() if x is not None}
    return dataclasses.replace(result, **found)


def relative_gap(lower, upper):
    """Upper / lower − 1, 0 where both vanish, infinite where only `lower` does; never NaN."""
    xp = namespace(upper)
    positive = lower > 0
    ratio = upper / xp.where(positive, lower, 1.0) - 1.0
    return xp.where(positive, ratio, xp.where(upper > 0, xp.inf, 0.0))
