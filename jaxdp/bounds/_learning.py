"""How many users agnostic learning needs under local privacy, from above and from below."""

import numpy as np
from numpy.typing import ArrayLike

from .._spec import check_epsilon, check_real, within_float64
from ..factorization import hard_lines
from ..learning import AgnosticLearner, Learner
from ..workloads import Operator


@within_float64
def learning_upper_bound(
    concepts: ArrayLike | Operator, epsilon: float, alpha: float, beta: float
) -> int:
    """Users with which a concept class is (alpha, beta)-learned under local privacy.

    The least `AgnosticLearner.min_users` over tolerances 0 and a grid below what the errors allow.

    Formal guarantees:
      Theorem 24 with its constants: for every distribution of labelled examples, with probability
      1 - beta, the selected concept loses at most alpha more than the best one, and its estimated
      loss is within beta of the true one.

    Args:
      concepts: float[m, k] of +1 and -1.
      epsilon: privacy parameter of `PrivUnitG`.
      alpha: in (0, 1).
      beta: in (0, 1).

    Returns:
      The number of users.

    Example:
      >>> from jaxdp import bounds, workloads
      >>> bounds.learning_upper_bound(workloads.thresholds(8), epsilon=1.0, alpha=0.2, beta=0.1)
      10103

    References:
      Edmonds, Nikolov, Ullman (2020), Theorem 24.
    """
    alpha, beta = _check(alpha, beta)
    room = min(alpha, 2 * beta)  # where the bias of the losses, half the tolerance, takes it all
    learners = (
        AgnosticLearner(concepts, epsilon, tolerance=tolerance)
        for tolerance in (0.0, *(room * 2.0 ** -np.arange(1.0, 5.0)).tolist())
    )
    return min(learner.min_users(alpha, beta) for learner in learners)


@within_float64
def learning_lower_bound(
    concepts: ArrayLike | Operator,
    epsilon: float,
    alpha: float,
    beta: float,
    *,
    tol: float = 1e-3,
) -> float:
    """Users below which no private protocol (alpha, beta)-learns a concept class.

    Formal guarantees:
      Theorem 25 with its constant, for every epsilon > 0 and every non-interactive protocol. A dual
      witness of gamma_2(D; .) gives a line of populations for each concept v, from one on which all
      concepts lose 1/2 to where v has a correlation s, see `factorization.HardLines`. A learner's
      estimated loss is at least `1/2 - beta` on the former and at most `1/2 - s/2 + alpha + beta`
      on the latter, each with probability 1 - beta. So for s above `2 alpha + 4 beta` it tells them
      apart, and the affinity of its transcripts is at most `sqrt(1 - (1 - 2 beta)**2)`. The bound
      is the best over the lines of `factorization.hard_lines`.

    Args:
      concepts: float[m, k] of +1 and -1.
      epsilon: privacy parameter, > 0.
      alpha: in (0, 1).
      beta: in (0, 1).
      tol: relative gap of the dual witnesses; a larger one weakens the bound.

    Returns:
      The bound; 0.0 where nothing is proven: for beta >= 1/2, and large alpha and beta.

    Example:
      >>> from jaxdp import bounds, workloads
      >>> print(round(bounds.learning_lower_bound(workloads.parity(4, 4), 1.0, 0.02, 0.01)))
      111110

    References:
      Edmonds, Nikolov, Ullman (2020), Theorem 25.
    """
    alpha, beta = _check(alpha, beta)
    epsilon = check_epsilon(epsilon)
    matrix: np.ndarray = Learner.CONCEPTS("concepts", concepts).values
    needed = 2 * alpha + 4 * beta  # the correlation that a learner tells from none
    if beta >= 0.5 or needed >= 1:
        return 0.0
    lines = hard_lines(matrix, symmetric=True, tol=tol)
    tests = (line.min_users_to_tell(epsilon, needed, 1 - beta) for line in lines)
    return max(tests, default=0.0)


def _check(alpha: float, beta: float) -> tuple[float, float]:
    return (
        check_real("alpha", alpha, low=0.0, high=1.0),
        check_real("beta", beta, low=0.0, high=1.0),
    )
