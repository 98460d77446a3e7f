"""The error of the unpruned hierarchical AUC where users report node and label together.

On level l >= 1 a user with the bin v, of the `2**(l+1)` of node and label, has the vector Z of
estimates of mean m, the indicator of v, and of second moments V I; on level 0 the estimate g of the
sign t of its label. With the area A, the numerator less A times the denominator is

    `R = sum_(i < j) (Z_i^T S Z_j + (A / 2) (g_i g_j - 1))
       + sum_i (Z_i^T S Z_i / 2 + (A / 4) (g_i**2 - V_0))`,

S picking the bins of one label and of the other whose users are in order: of siblings, on the
leaves also half of equals. The parts of R that are linear in one user, and those of pairs, are
uncorrelated (Hoeffding).
"""

import dataclasses

import numpy as np

from ._hierarchical_auc_moments import Tree, form_squares, partners


@dataclasses.dataclass(frozen=True)
class LevelReports:
    """How users report on levels.

    Attributes:
      height: the level of the leaves.
      scale: c, what decodes a sign.
      chances: float64[height] or, with level 0 for private labels, float64[height + 1], the
        probability that a user reports on each level.
      exclusive: whether a user is on one level only.
    """

    height: int
    scale: float
    chances: np.ndarray
    exclusive: bool

    @property
    def per_user(self) -> np.ndarray:
        """V of all levels, what one user adds to the variance of a count."""
        return self.scale**2 / self.chances

    @property
    def per_node_user(self) -> np.ndarray:
        """That of the levels of nodes, 1 .. height."""
        return self.per_user[-self.height :]

    def squares(self, tie: float) -> float:
        """`sum_l V_l**2 |S_l|**2` over the levels of nodes; S is B and its transpose."""
        return 2 * form_squares(self.per_node_user, tie)

    def own_squares(self, tie: float) -> np.ndarray:
        """What one user's own pairs, `Z^T S Z / 2`, have for a mean square, float64[height].

        Siblings differ in the same bits in all rows: such a product is a character of the row,
        times its number of pairs, and that of equals is another one.
        """
        pairs = 4.0 ** np.arange(self.height)
        pairs[-1] += (tie * 2.0**self.height) ** 2
        return self.scale**4 / self.chances[1:] ** 3 * pairs


def private_variance(tree: Tree, reports: LevelReports, iid: bool = False) -> float:
    """The mean squared error of the linearised estimate of the area; exact.

    Args:
      tree: the users; or the expected numbers of independent ones.
      reports: how they report.
      iid: whether users are independent, their labels too, and the error is that about their law.
    """
    n, pairs, counts = tree.sizes.sum(), float(np.prod(tree.sizes)), tree.levels[-1]
    area = float(tree.below()[0][0]) / pairs
    if iid:
        return _of_samples(tree, area, reports) / (pairs * (n - 1) / n) ** 2
    mean, second = _own(tree, area, reports)
    return float(np.sum(counts * (second - mean**2)) + _pairs(tree, area, reports)) / pairs**2


def _of_samples(tree: Tree, area: float, reports: LevelReports) -> float:
    """The variance of R for independent users, by the parts of a user and of a pair of users."""
    n, v0, counts = tree.sizes.sum(), reports.per_user[0], tree.levels[-1]
    shares, (negative, positive) = counts / n, tree.sizes / n

    def others(number: float) -> Tree:
        return Tree([level * (number / n) for level in tree.levels], tree.tie)

    mean, second = _own(others(n - 1), area, reports, alone=True)
    constant = -area * ((n - 1) / 2 + v0 / 4)
    single = np.sum(shares * (second + 2 * constant * mean + constant**2))
    mean, second = _own(others(1), area, reports, alone=True, itself=False)
    linear = np.sum(shares * (second - area * mean + area**2 / 4))  # of a pair's part, in one user
    pair = reports.squares(tree.tie) + (area / 2) ** 2 * (
        v0**2 + 1 - 2 * (negative - positive) ** 2
    )
    pair -= (2 - reports.exclusive) * 2 * area**2 * negative * positive
    return float(n * single + n * (n - 1) / 2 * (pair - 2 * linear))


def private_bound(sizes: np.ndarray, tie: float, reports: LevelReports) -> float:
    """A proven bound on it over all users with these sizes of the classes.

    What is subtracted for users alone and for the parts of pairs that are linear is left out, and
    the area is at most 1.

    Args:
      sizes: float64[2].
      tie: what a tied score counts.
      reports: how users report.
    """
    n, v = sizes.sum(), reports.per_user
    squares = np.full(reports.height, np.sum(sizes**2))
    squares[-1] *= (1 + tie) ** 2
    linear = n * (v[1:] @ squares + v[0] * (abs(sizes[0] - sizes[1]) + 1) ** 2 / 4)
    itself = n * (reports.own_squares(tie).sum() + v[0] ** 2 / reports.chances[0] / 16)
    held = n * (n - 1) / 2 * (reports.squares(tie) + (v[0] ** 2 + 5) / 4)
    return float((np.sqrt(linear) + np.sqrt(itself)) ** 2 + held) / float(np.prod(sizes)) ** 2


def _own(tree: Tree, area: float, reports: LevelReports, alone: bool = False, itself: bool = True):
    """Mean and mean square of the part of R that is linear in a user, without its constant.

    `sum_l a_l^T Z_l + (A / 2) T g`, with `a = S (h - m)` and T the sum of the others' signs; and
    the user's own pairs.

    Args:
      tree: the users, or others whom a user does not belong to.
      area: A.
      reports: how they report.
      alone: whether the user does not belong to them.
      itself: whether to add the user's own pairs.

    Returns:
      float64[2, leaves] and float64[2, leaves], by the user's value; where levels are not
      exclusive the second is the variance and the squared mean.
    """
    kept, v, c = 0.0 if alone else 1.0, reports.per_user, reports.scale
    sign = np.array([[1.0], [-1.0]])
    others = tree.sizes[0] - tree.sizes[1] - kept * sign
    label = area / 2 * others * sign
    mean = label + itself * area / 4 * v[0]
    second = v[0] * (area / 2 * others) ** 2
    if itself:
        second = second + (area / 4) ** 2 * c**4 / reports.chances[0] ** 3
        second = second + area / 2 * label * v[0] / reports.chances[0]
    mean, second = (np.broadcast_to(x, tree.levels[-1].shape).copy() for x in (mean, second))
    squares, own_squares = mean**2, reports.own_squares(tree.tie)
    for level in range(1, tree.height + 1):
        tie = tree.tie if level == tree.height else 0.0
        slopes = partners(tree.levels[level], tie)
        held = partners(np.ones_like(slopes), 0.0)  # whether there is a sibling in order
        found = v[level] * np.sum(slopes**2)
        found = found + kept * v[level] * (held + tie**2 - 2 * partners(slopes, tie))
        if itself:
            found = found + own_squares[level - 1]
            sibling = slopes.reshape(2, -1, 2)[::-1, :, ::-1].reshape(2, -1) - kept * held
            cubes = 2.0 ** (level - 1) * sibling
            cubes = cubes + tie * 2.0**level * (slopes[::-1] - kept * tie)
            found = found + 2 * v[level] / reports.chances[level] * cubes
        own, found = (np.repeat(x, 2 ** (tree.height - level), axis=1) for x in (slopes, found))
        mean += own
        squares += own**2
        second += found
    return mean, second if reports.exclusive else second - squares + mean**2


def _pairs(tree: Tree, area: float, reports: LevelReports) -> float:
    """The variance of the part of R that is linear in no user."""
    v, counts, n = reports.per_user, tree.levels[-1], tree.sizes.sum()
    number = n * (n - 1) / 2
    total = number * (reports.squares(tree.tie) + (area / 2) ** 2 * v[0] ** 2)
    norms = tree.row_squares(reports.per_node_user) + (area / 2) ** 2 * v[0]
    total -= (n - 1) * float(np.sum(counts * norms))
    ordered, squares = (float(Tree(tree.levels, t).below()[0][0]) for t in (tree.tie, tree.tie**2))
    return total + squares - reports.exclusive * area * ordered + number * (area / 2) ** 2
