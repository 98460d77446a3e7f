"""The error of the unpruned hierarchical AUC where users randomize their labels.

A user of label y has the weight `w+` in the positive class and `w- = 1 - w+` in the negative one,
with means y and 1 - y, the variance kappa and the covariance -kappa; and the vector Z of estimates
of whether the score is below each node, of mean m. The tree's numerator and denominator, without
what a user makes with itself, are sums over ordered pairs of users, and so is what the ratio's
error is to first order:

    `M = sum_{i != j} w+_i w-_j (Z_i^T B Z_j - A)`,  with A the area and B as in
    `_hierarchical_auc_moments`.

The parts of M that are linear in one user, and those of pairs, are uncorrelated (Hoeffding).
"""

import numpy as np

from ._hierarchical_auc_moments import Tree, form_squares


def randomized_variance(
    tree: Tree, per_user: np.ndarray, kappa: float, exclusive: bool, iid: bool = False
) -> float:
    """The mean squared error of the linearised estimate of the area; exact.

    Args:
      tree: the users; or the expected numbers of independent ones.
      per_user: V of levels 1 .. height, float64[height]: what one user adds to the variance.
      kappa: the variance of a randomized label.
      exclusive: whether a user is on one level only.
      iid: whether users are independent, their labels too, and the error is that about their law.
    """
    n, pairs = tree.sizes.sum(), float(np.prod(tree.sizes))
    area = float(tree.below()[0][0]) / pairs
    centre, spread = _linear(tree, area, per_user, kappa, exclusive, alone=iid)
    counts = tree.levels[-1]
    if not iid:
        return float(np.sum(counts * spread) + _pairs(tree, area, per_user, kappa)) / pairs**2
    first = np.sum(counts * (spread + centre**2)) / n**3
    second = 2 * _squares(tree, area, per_user, kappa, alone=True) / n**2
    return float(n * (n - 1) * ((n - 2) * first + second / 2) / (pairs * (n - 1) / n) ** 2)


def randomized_bound(
    sizes: np.ndarray, height: int, tie: float, per_user: float, kappa: float
) -> float:
    """A proven bound on it over all users with these sizes of the classes.

    The partners of a user on all levels are disjoint, but for ties; what is subtracted for users
    alone and for the parts of pairs that are linear is left out.

    Args:
      sizes: float64[2].
      height: the level of the leaves.
      tie: what a tied score counts.
      per_user: V, the largest over the levels.
      kappa: the variance of a randomized label.
    """
    n, v = sizes.sum(), per_user
    partners = (height + tie**2) * sizes[::-1] ** 2
    both = (height - 1) * np.sum(sizes**2) + np.sum((sizes + tie * sizes[::-1]) ** 2)
    linear = v * (sizes @ partners) + kappa * n * (v * both + n**2)
    nodes, equals = (2.0**height - 1 + tie**2 * 2.0**height, tie**2 * 2.0**height)
    held = np.prod(sizes + kappa * n) * (v**2 * nodes + 1)
    mixed = (kappa * n) ** 2 * (v**2 * equals + 1)
    return float(linear + held + mixed) / float(np.prod(sizes)) ** 2


def _linear(tree: Tree, area: float, per_user, kappa: float, exclusive: bool, alone: bool):
    """The mean and the variance of the part of M that is linear in a user, by the user's value.

    Of a positive user it is `w+ a^T Z + w- b^T Z` with `a = B h-` and `b = B^T (h+ - m)`, and the
    constants; the variance of `g^T Z` is `sum_l V_l |g_l|**2 - (g^T m)**2`. Both are float64[2,
    leaves]. With `alone` the user itself is left in the sums over others, as for a new user.
    """
    shape = tree.levels[-1].shape
    kept, sign = 0.0 if alone else 1.0, np.array([[-1.0], [1.0]])
    # Of the class's own a or b: the sum over levels of g^T m, its squares, and V |g|**2.
    mean, mean_squares, spread = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    # The same of a - b.
    gap, gap_squares, gap_spread = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for level in range(1, tree.height + 1):
        v = per_user[level - 1]
        width = 2 ** (tree.height - level)
        slopes, _ = tree.slopes(level)
        apart = slopes[1] - slopes[0]  # a - b on the level's nodes
        nodes = np.broadcast_to(apart, slopes.shape).reshape(2, -1, 2)
        # A user's own part of b, its left sibling, or of a, the right one.
        sibling, has = np.zeros_like(nodes), np.zeros_like(nodes)
        sibling[1, :, 1], has[1, :, 1] = nodes[1, :, 0], 1.0
        sibling[0, :, 0], has[0, :, 0] = nodes[0, :, 1], 1.0
        tie = tree.tie if level == tree.height else 0.0
        turned, size = ((x + tie * y).reshape(2, -1) for x, y in ((sibling, nodes), (has, tie)))
        spread += v * np.sum(slopes**2, axis=1)[:, None]
        mean += np.repeat(slopes, width, axis=1)
        mean_squares += np.repeat(slopes**2, width, axis=1)
        squares = apart @ apart + kept * (2 * sign * turned + size)
        gap_spread += v * np.repeat(squares, width, axis=1)
        gaps = np.repeat(apart + kept * sign * tie, width, axis=1)
        gap += gaps
        gap_squares += gaps**2
    own = spread - (mean**2 if exclusive else mean_squares)
    both = gap_spread - (gap**2 if exclusive else gap_squares)
    others = tree.sizes[0] - tree.sizes[1] + kept * sign
    return mean - area * tree.sizes[::-1, None], own + kappa * (both + (gap - area * others) ** 2)


def _levels(tree: Tree, per_user) -> tuple[float, float]:
    """`sum_l V_l**2 |B_l|**2` and `sum_l V_l**2 tr(B_l**2)`."""
    equals = per_user[-1] ** 2 * tree.tie**2 * 2.0**tree.height
    return form_squares(per_user, tree.tie), float(equals)


def _ordered(tree: Tree, first: np.ndarray, second: np.ndarray, tie: float, alone: bool) -> float:
    """`sum_{i != j} u_i v_j f(x_i, x_j)` with f = 1 for `x_i > x_j`; `alone`: over all pairs.

    u and v, `first` and `second`, are float64[2, 1], by label; `tie` is f of equal scores.
    """
    counts = tree.levels[-1]
    above, below = np.sum(first * counts, axis=0), np.sum(second * counts, axis=0)
    total = above @ (np.cumsum(below) - below) + tie * (above @ below)
    same = 0.0 if alone else tie * float(np.sum(first * second * counts))
    return float(total) - same


def _number(tree: Tree, first: np.ndarray, second: np.ndarray, alone: bool) -> float:
    """`sum_{i != j} u_i v_j`; `alone`: over all pairs."""
    sizes = tree.sizes[:, None]
    same = 0.0 if alone else np.sum(first * second * sizes)
    return float(np.sum(first * sizes) * np.sum(second * sizes) - same)


_LABEL = np.array([[0.0], [1.0]])


def _squares(tree: Tree, area: float, per_user, kappa: float, alone: bool = False) -> float:
    """The sum over unordered pairs of E of the square of both orders' terms."""
    square, mixed = _levels(tree, per_user)
    plus, minus = _LABEL + kappa, 1 - _LABEL + kappa
    every = np.full((2, 1), kappa)
    total = (square + area**2) * _number(tree, plus, minus, alone)
    total -= 2 * area * _ordered(tree, plus, minus, tree.tie, alone)
    total += (mixed + area**2) * _number(tree, every, every, alone)
    return total - 2 * area * _ordered(tree, every, every, tree.tie, alone)


def _pairs(tree: Tree, area: float, per_user, kappa: float) -> float:
    """The variance of the part of M that is linear in no user."""
    plus, minus = _LABEL + kappa, 1 - _LABEL + kappa
    counts = tree.levels[-1]
    total = _squares(tree, area, per_user, kappa)
    norms = tree.row_squares(per_user) + area**2
    for label, others in ((1, minus), (0, plus)):
        own = np.array([[1.0 - label], [float(label)]])
        weight = np.sum(others * tree.sizes[:, None]) - others[label, 0]
        total -= float(counts[label] @ norms[label]) * weight
        pair = (own, others) if label else (others, own)
        total += 2 * area * _ordered(tree, *pair, tree.tie, False)
    own = 1 - _LABEL
    total += _ordered(tree, _LABEL, own, tree.tie**2, False)
    total -= 2 * area * _ordered(tree, _LABEL, own, tree.tie, False)
    return total + area**2 * _number(tree, _LABEL, own, False)
