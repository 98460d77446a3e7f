"""The least committed distribution of the users' values that agrees with what is known."""

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from .._spec import as_float64, check_probabilities

_STEPS = 200  # of Newton's method, which takes about ten, and 30 to the boundary
_TOL = 1e-9  # of the answers, relative to the ranges of the queries
_SMALLEST = 1e-12  # relative, of a direction in which the answers are known twice


def maximum_entropy(
    queries: ArrayLike, answers: ArrayLike, *, base: ArrayLike | None = None
) -> Float[np.ndarray, " k"]:
    """The distribution of largest entropy among those with given answers to linear queries.

    A prior for plans and rankings where a few things are known of the users, and nothing else may
    be assumed: `p_v` in proportion to `b_v exp(sum_j l_j q_jv)`, the log-linear model, with the one
    l for which `sum_v q_jv p_v = a_j`. With nothing but the total known it is uniform; with a mean
    it falls or rises geometrically; with the marginals of a table its cells are independent, and
    with some of the higher ones it is what iterative proportional fitting tends to.

    Edge cases:
      ===============================  ========================================================
      queries that say the same twice  fine, if the answers agree
      answers at the end of a range    values that would be against them have about 0
      answers that nobody can have     ValueError
      ===============================  ========================================================

    Args:
      queries: q, float[m, k], a row for each; or float[k] for one, such as `range(k)` for the mean.
      answers: a, float[m]; or a number for one query.
      base: b, float[k] >= 0, in any proportion: the entropy is relative to this distribution, which
        is the result where the answers are its own. None for the uniform one.

    Returns:
      float64[k], of sum 1.

    Raises:
      ValueError: shapes do not fit, numbers are not finite, or no distribution has these answers.
      TypeError: an argument is not of real numbers.

    Example:
      >>> import numpy as np
      >>> from jaxdp.population import maximum_entropy
      >>> print(maximum_entropy([0, 1, 2, 3], 0.9).round(3))  # the mean is 0.9
      [0.461 0.276 0.165 0.098]

    References:
      Jaynes (1957), Information theory and statistical mechanics; Csiszar (1975), I-divergence
      geometry of probability distributions and minimization problems.
    """
    wanted = np.atleast_1d(as_float64("answers", answers))
    rows = np.atleast_2d(as_float64("queries", queries))
    if rows.ndim != 2 or not rows.shape[1] or wanted.shape != rows.shape[:1]:
        raise ValueError(
            "queries must have shape [m, k] and answers one number for each of the m queries, got "
            f"shapes {rows.shape} and {wanted.shape}."
        )
    if not np.all(np.isfinite(rows)) or not np.all(np.isfinite(wanted)):
        raise ValueError("queries and answers must be finite.")
    size = rows.shape[1]
    start = np.full(size, 1 / size)
    if base is not None:
        start = check_probabilities(as_float64("base", base), "base")
        if start.shape != (size,):
            raise ValueError(
                f"base must have {size} entries, one for each value, got {start.shape}."
            )
    held = start > 0
    found = np.zeros(size)
    found[held] = _tilted(rows[:, held], wanted, start[held])
    return found


def _tilted(rows: np.ndarray, wanted: np.ndarray, base: np.ndarray) -> np.ndarray:
    """Minimises `F(l) = ln sum_v b_v exp(l (q_v - a))`, whose gradient is the error of the answers.

    For every distribution p with the answers F is at least minus its divergence from b, and so at
    least `min ln b`: below, F proves that there is no such p.
    """
    low, high = rows.min(axis=1), rows.max(axis=1)
    with np.errstate(over="ignore"):
        scale = np.where(high > low, high - low, np.maximum(np.abs(high), 1e-300))
        centred = (rows - wanted[:, None]) / scale[:, None]
    outside = ~np.isfinite(centred).all(axis=1)  # or so far out that they are no numbers
    outside |= (centred.min(axis=1) > _TOL) | (centred.max(axis=1) < -_TOL)
    if outside.any():
        i = int(np.argmax(outside))
        raise ValueError(
            "answers must be those of some distribution over the values: answer "
            f"{i} must be in [{low[i]:.6g}, {high[i]:.6g}], got {wanted[i]:.6g}."
        )
    least = float(np.log(base).min())

    def at(point: np.ndarray) -> tuple[float, np.ndarray]:
        exponents = np.log(base) + point @ centred
        top = exponents.max()
        weights = np.exp(exponents - top)
        total = weights.sum()
        return float(top + np.log(total)), weights / total

    point = np.zeros(len(wanted))
    value, shares = at(point)
    for _ in range(_STEPS):
        gradient = centred @ shares
        if np.abs(gradient).max() <= _TOL:
            return shares
        if value < least - 1e-6:
            break
        deviations = centred - gradient[:, None]
        hessian = (deviations * shares) @ deviations.T
        # The least step where queries depend on each other; their answers move as one.
        step = -np.linalg.lstsq(hessian, gradient, rcond=_SMALLEST)[0]
        slope, length = float(gradient @ step), 1.0
        if not slope < 0:  # nothing left to move: the answers contradict each other
            break
        while True:
            moved, law = at(point + length * step)
            if moved <= value + 1e-4 * length * slope or length < 1e-12:
                break
            length /= 2
        point, value, shares = point + length * step, moved, law
    raise ValueError(
        "answers must be those of some distribution over the values, got "
        f"{np.array2string(wanted, threshold=8, precision=6)}; the least error found is "
        f"{float(np.abs(centred @ shares).max()):.2g} of a query's range."
    )
