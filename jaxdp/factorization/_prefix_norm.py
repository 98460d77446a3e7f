"""γ2 and γ_F of prefix sums of millions of values, certified."""

import dataclasses
import math

import numpy as np

from .._spec import check_bool, check_choice, check_int, check_real
from ._resistor_chain import Diagonals, diagonals

_MOST = 2**22
_COARSEST = 64
_COARSENING = 4  # the factor from one level to the next
_CARRIED = 0.8  # of what the last level changed, the next one changes too: measured, 0.7 to 0.85
_RELAXATION = 1.7
_SHARE = 1e-3  # of the last gap, how far off the next diagonals may be
_ROUGHEST = 1e-5
_HISTORY = 10  # steps that Anderson's method remembers


@dataclasses.dataclass(frozen=True)
class PrefixNorm:
    """A factorization norm of the workload `prefix(num_values)` between two proven bounds.

    Both follow from the weights by one evaluation of M = diag(√p)·T·diag(√q), where T sums
    prefixes, minus their means where there is a shift. `lower` is M's trace norm over √(Σp·Σq).
    M's polar decomposition gives a factorization of T whose columns of `left` have the squared
    lengths ((M·Mᵀ)^½)_ii/p_i, and those of `right` ((Mᵀ·M)^½)_jj/q_j: `upper` is what they attain.

    Attributes:
      num_values: k.
      lower: the proven lower bound.
      upper: the value that a factorization attains.
      row_weights: float64[k], p, one weight a query.
      col_weights: float64[k], q, one weight a value.
      num_steps: evaluations of pairs of weights for this k, after those for smaller ones.
      converged: whether `gap` is at most the requested tolerance.
      norm: `"gamma2"` or `"gamma_f"`.
      shift: float64[k], the constants that are subtracted from the queries; None without.
    """

    num_values: int
    lower: float
    upper: float
    row_weights: np.ndarray = dataclasses.field(repr=False)
    col_weights: np.ndarray = dataclasses.field(repr=False)
    num_steps: int
    converged: bool
    norm: str
    shift: np.ndarray | None = dataclasses.field(repr=False)

    @property
    def gap(self) -> float:
        """Upper / lower − 1; 0 where both are 0."""
        return self.upper / self.lower - 1 if self.lower else 0.0


def prefix_norm(
    num_values: int,
    *,
    norm: str = "gamma2",
    shift: bool = False,
    tol: float = 1e-6,
    max_steps: int = 60,
) -> PrefixNorm:
    """A factorization norm of prefix sums, where `prefix(num_values)` is too large for a matrix.

    It is what `gamma2(prefix(k), shift=shift)` or `gamma_f` finds, in O(k·log k) operations: the
    inverse of T·diag(q)·Tᵀ is the Laplacian of a chain of resistors, and square roots are integrals
    over its impedances (see `_resistor_chain`). A million values take two to four minutes on two
    cores, and 1.3 GB.

    Formal guarantees:
      `lower` ≤ γ(T) ≤ `upper` in every case, errors of rounding and of the quadrature included:
      by 16·(k + 256)·2⁻⁵³ for rounding, and min(tol, 0.01)/100 or a thousandth of the gap of the
      last step but one, whichever is more, for the quadrature; of each at most.

    Args:
      num_values: k, 1 <= k <= 2**22.
      norm: `"gamma2"`, for the largest error of a query, or `"gamma_f"`, for the root of the mean
        of their squares.
      shift: whether a constant for each query may be subtracted, which costs no privacy on a
        histogram that sums to 1; the result's `shift` holds them.
      tol: relative gap to reach, >= 1e-10 and, for rounding, >= 1e-14·k.
      max_steps: upper limit on the number of evaluations for each size, >= 1.

    Returns:
      PrefixNorm; `converged` says whether the gap was reached.

    Raises:
      ValueError: an argument is outside of its range.

    Example:
      >>> from jaxdp import factorization
      >>> f = factorization.prefix_norm(4096)
      >>> print(f"{f.lower:.5f} {f.upper:.5f} {f.converged}")
      3.39424 3.39424 True

    References:
      Edmonds, Nikolov, Ullman (2020), Section 2.5, for the norms and their duals; Fichtenberger,
      Henzinger, Upadhyay (2023), for γ2 = ln(k)/π + O(1).
    """
    k = check_int("num_values", num_values, low=1, high=_MOST)
    check_choice("norm", norm, ("gamma2", "gamma_f"))
    shift = check_bool("shift", shift)
    tol = check_real("tol", tol, low=max(1e-10, 1e-14 * k), open_ends=False)
    max_steps = check_int("max_steps", max_steps, low=1)
    if k == 1 and shift:
        return PrefixNorm(1, 0.0, 0.0, np.ones(1), np.ones(1), 0, True, norm, np.ones(1))
    return _solved(k, norm, shift, tol, max_steps)[-1]


def _solved(
    size: int, norm: str, shift: bool, tol: float, max_steps: int
) -> tuple[list[np.ndarray], list[np.ndarray], PrefixNorm]:
    """The logarithms of the weights, what they change on those of a coarser level, and the norm."""
    # The query of all values, which a shift makes 0, has no weight.
    lengths = [size - 1, size] if norm == "gamma2" and shift else [size]
    guess = change = [np.zeros(length) for length in lengths]
    if size > _COARSEST:
        coarser = -(-size // _COARSENING)
        logs, change, _ = _solved(coarser, norm, shift, tol, max_steps)
        guess = [_resampled(x, length) for x, length in zip(logs, lengths, strict=True)]
        change = [_resampled(x, length) for x, length in zip(change, lengths, strict=True)]
    start = [x + _CARRIED * dx for x, dx in zip(guess, change, strict=True)]
    logs, found = _fixed_point(start, norm, shift, tol, max_steps)
    if size > _COARSEST:
        change = [x - before for x, before in zip(logs, guess, strict=True)]
    return logs, change, found


def _resampled(x: np.ndarray, length: int) -> np.ndarray:
    """A function on the entries of one array on those of another, of a similar size.

    Both ends of the weights look alike at every size, on a scale of logarithms of the distance.
    """

    def places(n: int) -> np.ndarray:
        odd = np.arange(1, 2 * n, 2)
        return (np.log(odd) - np.log(odd[::-1])) / math.log(max(2, 2 * n - 1))

    return np.interp(places(length), places(len(x)), x)


def _fixed_point(
    logs: list[np.ndarray], norm: str, shift: bool, tol: float, max_steps: int
) -> tuple[list[np.ndarray], PrefixNorm]:
    """Weights at which y and z are constant, from the logarithms of some.

    The trace norm f is concave in the weights, its slopes are y/2 and z/2, and p → p·y/f raises
    it. Anderson's method takes the steps of that map's logarithm.
    """
    ends = np.cumsum([len(x) for x in logs])[:-1]
    x = np.concatenate(logs)
    best, kept = None, x
    moves, changes = [], []  # of x and of the residual, the last few
    before, gap = None, 1.0
    for step in range(1, max_steps + 1):
        weights = [_softmax(part) for part in np.split(x, ends)]
        p, q = _rows_and_columns(weights, norm, shift)
        # No more digits than the next step can use: each costs nodes of the quadrature.
        finest = min(tol, 0.01) / 100
        accuracy = finest if step == max_steps else min(max(_SHARE * gap, finest), _ROUGHEST)
        found = diagonals(p, q, centred=shift, accuracy=accuracy)
        f = float(p @ found.y)
        lower, upper = _bounds(p, q, f, found, norm)
        gap = upper / lower - 1
        if best is None or upper / lower < best.upper / best.lower:
            sums = np.cumsum(q)
            best = PrefixNorm(
                num_values=len(q),
                lower=lower,
                upper=upper,
                row_weights=p,
                col_weights=q,
                num_steps=step,
                converged=upper <= (1 + tol) * lower,
                norm=norm,
                shift=sums / sums[-1] if shift else None,
            )
            kept = x
        if best.converged:
            break
        slopes = [found.y[: len(weights[0])], found.z][-len(weights) :]
        residual = _RELAXATION * np.log(np.concatenate(slopes) / f)
        if before is not None:
            moves.append(x - before[0])
            changes.append(residual - before[1])
        before = x, residual
        del moves[:-_HISTORY], changes[:-_HISTORY]
        x = x + _anderson(residual, moves, changes, np.sqrt(np.concatenate(weights)))
    assert best is not None
    return np.split(kept, ends), best


def _anderson(
    residual: np.ndarray, moves: list[np.ndarray], changes: list[np.ndarray], scale: np.ndarray
) -> np.ndarray:
    """The step after which the residual would be least, in the given scale, were it linear."""
    if not moves:
        return residual
    # Columns of one length each: the residuals shrink from step to step.
    columns = np.array(changes).T * scale[:, None]
    lengths = np.maximum(np.linalg.norm(columns, axis=0), np.finfo(np.float64).tiny)
    fit, *_ = np.linalg.lstsq(columns / lengths, residual * scale, rcond=1e-10)
    parts = zip(fit / lengths, moves, changes, strict=True)
    return residual - sum(c * (move + change) for c, move, change in parts)


def _softmax(logs: np.ndarray) -> np.ndarray:
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def _rows_and_columns(
    weights: list[np.ndarray], norm: str, shift: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The weights p of the queries and q of the values."""
    q = weights[-1]
    if norm == "gamma_f":
        p = np.full(len(q), 1 / len(q))
        p[-1] *= not shift
        return p, q
    if shift:
        return np.append(weights[0], 0.0), q
    # Read backwards, T is its own transpose: the mean of (p, q) and (q, p) read so is no worse.
    return q[::-1].copy(), q


def _bounds(
    p: np.ndarray, q: np.ndarray, trace: float, found: Diagonals, norm: str
) -> tuple[float, float]:
    """What the trace norm proves, and what the polar decomposition's factors attain."""
    if norm == "gamma_f":
        lower, upper = trace / math.sqrt(q.sum()), math.sqrt(trace * found.z.max())
    else:
        lower = trace / math.sqrt(p.sum() * q.sum())
        upper = math.sqrt(found.y.max() * found.z.max())
    return lower * (1 - found.error), upper * (1 + found.error)
