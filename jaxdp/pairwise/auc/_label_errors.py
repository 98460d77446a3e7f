"""The error of the unpruned hierarchical AUC where labels are not public.

**Randomized labels.** A user of label y has the weight `w+` in the positive class and `w- = 1 - w+`
in the negative one, with means y and 1 - y, the variance kappa and the covariance -kappa; and the
vector Z of estimates of whether the score is below each node, of mean m and second moments V I on
each level. The tree's numerator and denominator, without what a user makes with itself, are sums
over ordered pairs of users, and so is what the ratio's error is to first order:

    M = sum_{i != j} w+_i w-_j (Z_i^T B Z_j - A),  with A the area and B as in `_tree_errors`.

**Private labels.** On level l >= 1 a user with the bin v, of the `2**(l+1)` of node and label, has
the vector Z of estimates of mean m, the indicator of v, and of second moments V I; on level 0 the
estimate g of the sign t of its label. The numerator minus A times the denominator is

    R = sum_(i < j) (Z_i^T S Z_j + (A / 2) (g_i g_j - 1))
      + sum_i (Z_i^T S Z_i / 2 + (A / 4) (g_i**2 - V_0)),

S picking the bins of one label and of the other whose users are in order: of siblings, on the
leaves also half of equals.

In both the parts that are linear in one user, and those of pairs, are uncorrelated (Hoeffding).
"""

import dataclasses

import numpy as np
from jaxtyping import Float

from ._tree_errors import ScoreTree, form_squares, partners


@dataclasses.dataclass(frozen=True)
class LevelReports:
    """How users report on levels.

    Attributes:
      height: the level of the leaves.
      scale: c, what decodes a sign.
      chances: the probability that a user reports on each level: of levels 1 .. height, or with
        private labels of 0 .. height.
      exclusive: whether a user is on one level only.
    """

    height: int
    scale: float
    chances: Float[np.ndarray, " levels"]
    exclusive: bool

    @property
    def per_user(self) -> Float[np.ndarray, " levels"]:
        """V of all levels, what one user adds to the variance of a count."""
        return self.scale**2 / self.chances

    @property
    def per_node_user(self) -> Float[np.ndarray, " height"]:
        """V of the levels of nodes, 1 .. height."""
        return self.per_user[-self.height :]

    def squares(self, tie: float) -> float:
        """`sum_l V_l**2 |S_l|**2` over the levels of nodes; S is B and its transpose."""
        return 2 * form_squares(self.per_node_user, tie)

    def self_squares(self, tie: float) -> Float[np.ndarray, " height"]:
        """The mean square of one user's pairs with itself, `Z^T S Z / 2`.

        Siblings differ in the same bits in all rows: such a product is a character of the row,
        times its number of pairs, and that of equals is another one.
        """
        pairs = 4.0 ** np.arange(self.height)
        pairs[-1] += (tie * 2.0**self.height) ** 2
        return self.scale**4 / self.chances[1:] ** 3 * pairs


def randomized_variance(
    tree: ScoreTree,
    per_user: Float[np.ndarray, " height"],
    kappa: float,
    exclusive: bool,
    iid: bool = False,
) -> float:
    """The mean squared error of the linearised estimate with randomized labels; exact.

    Args:
      tree: the users; or the expected numbers of independent ones.
      per_user: V of levels 1 .. height: what one user adds to the variance.
      kappa: the variance of a randomized label.
      exclusive: whether a user is on one level only.
      iid: whether users are independent, their labels too, and the error is that about their law.
    """
    n, pairs, counts = tree.sizes.sum(), float(np.prod(tree.sizes)), tree.levels[-1]
    area = tree.ordered_pairs / pairs
    centre, spread = _randomized_part(tree, area, per_user, kappa, exclusive, among=not iid)
    if not iid:
        of_pairs = _randomized_pairs(tree, area, per_user, kappa)
        return float(np.sum(counts * spread) + of_pairs) / pairs**2
    # A U-statistic with the kernel h of a pair: n (n - 1) ((n - 2) E h_1**2 + E h**2 / 2).
    first = np.sum(counts * (spread + centre**2)) / n**3
    second = 2 * _randomized_squares(tree, area, per_user, kappa, all_pairs=True) / n**2
    return float(n * (n - 1) * ((n - 2) * first + second / 2) / (pairs * (n - 1) / n) ** 2)


def randomized_bound(
    sizes: Float[np.ndarray, "2"], height: int, tie: float, per_user: float, kappa: float
) -> float:
    """A proven bound on `randomized_variance` over all users with these sizes of the classes.

    The partners of a user on all levels are disjoint, but for ties; what is subtracted for users
    alone and for the parts of pairs that are linear is left out.

    Args:
      sizes: negative and positive users.
      height: the level of the leaves.
      tie: what a tied score counts.
      per_user: V, the largest over the levels.
      kappa: the variance of a randomized label.
    """
    n, v = sizes.sum(), per_user
    squares = (height + tie**2) * sizes[::-1] ** 2
    both = (height - 1) * np.sum(sizes**2) + np.sum((sizes + tie * sizes[::-1]) ** 2)
    # Var X of each user, and kappa (Var(X - Y) + (E X - E Y)**2), by disjoint partners
    linear = v * (sizes @ squares) + kappa * n * (v * both + n**2)
    nodes, equals = 2.0**height - 1 + tie**2 * 2.0**height, tie**2 * 2.0**height
    ordered = np.prod(sizes + kappa * n) * (v**2 * nodes + 1)
    mixed = (kappa * n) ** 2 * (v**2 * equals + 1)
    return float(linear + ordered + mixed) / float(np.prod(sizes)) ** 2


def _randomized_part(
    tree: ScoreTree,
    area: float,
    per_user: Float[np.ndarray, " height"],
    kappa: float,
    exclusive: bool,
    among: bool,
) -> tuple[Float[np.ndarray, "2 leaves"], Float[np.ndarray, "2 leaves"]]:
    """The mean and the variance of the part of M that is linear in a user, by the user's value.

    For a positive user it is `w+ X + w- Y` with `X = a^T Z - A n-`, `a = B h-`, and `Y = b^T Z - A
    (n+ - 1)`, `b = B^T (h+ - m)`; a negative user is left out of a instead. As `w- = 1 - w+`, its
    variance is `Var X + kappa (Var(X - Y) + (E X - E Y)**2)`; that of `g^T Z` is
    `sum_l V_l |g_l|**2 - (g^T m)**2`, or minus the squares by level where all are reported on.

    Args:
      tree: the users, or others whom a user does not belong to.
      area: A.
      per_user: V by level.
      kappa: the variance of a label.
      exclusive: whether a user is on one level only.
      among: whether the user belongs to them, and is left out.
    """
    shape = tree.levels[-1].shape
    sign = among * np.array([[-1.0], [1.0]])
    # For g = a or b, of the user's class: g^T m, its squares by level, and sum_l V_l |g_l|**2.
    mean, mean_squares, squares = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    # The same for g = a - b.
    gap, gap_squares, gap_norms = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for level in range(1, tree.height + 1):
        v, tie = per_user[level - 1], tree.tie_at(level)
        slopes, _ = tree.slopes(level)
        squares += v * np.sum(slopes**2, axis=1)[:, None]
        mean += tree.at_leaves(slopes)
        mean_squares += tree.at_leaves(slopes**2)
        difference = slopes[1] - slopes[0]  # a - b on the nodes, nobody left out
        nodes = np.broadcast_to(difference, slopes.shape).reshape(2, -1, 2)
        # Leaving out a positive user adds B^T m to a - b: 1 at the left sibling of its node, if
        # that is a right one, and the tie at the node; a negative user subtracts B m.
        sibling, has = np.zeros_like(nodes), np.zeros_like(nodes)
        sibling[1, :, 1], has[1, :, 1] = nodes[1, :, 0], 1.0
        sibling[0, :, 0], has[0, :, 0] = nodes[0, :, 1], 1.0
        inner = (sibling + tie * nodes).reshape(2, -1)  # (a - b)^T B^T m
        norms = difference @ difference + 2 * sign * inner
        norms = norms + among * (has + tie**2).reshape(2, -1)
        gap_norms += v * tree.at_leaves(norms)
        gaps = tree.at_leaves(difference + sign * tie)
        gap += gaps
        gap_squares += gaps**2
    of_class = squares - (mean**2 if exclusive else mean_squares)
    of_gap = gap_norms - (gap**2 if exclusive else gap_squares)
    constant = area * (tree.sizes[0] - tree.sizes[1] + sign)
    variance = of_class + kappa * (of_gap + (gap - constant) ** 2)
    return mean - area * tree.sizes[::-1, None], variance


def _ordered(
    tree: ScoreTree,
    first: Float[np.ndarray, "2 1"],
    second: Float[np.ndarray, "2 1"],
    tie: float,
    all_pairs: bool = False,
) -> float:
    """`sum_{i != j} u_i v_j f(x_i, x_j)` with f = 1 for `x_i > x_j`, or the sum over all pairs.

    Args:
      tree: the users.
      first: u, by label.
      second: v, by label.
      tie: f of equal scores.
      all_pairs: whether pairs of a user with itself count.
    """
    counts = tree.levels[-1]
    above, below = np.sum(first * counts, axis=0), np.sum(second * counts, axis=0)
    total = above @ (np.cumsum(below) - below) + tie * (above @ below)
    same = 0.0 if all_pairs else tie * float(np.sum(first * second * counts))
    return float(total) - same


def _number(
    tree: ScoreTree,
    first: Float[np.ndarray, "2 1"],
    second: Float[np.ndarray, "2 1"],
    all_pairs: bool = False,
) -> float:
    """`sum_{i != j} u_i v_j`, or the sum over all pairs; see `_ordered`."""
    sizes = tree.sizes[:, None]
    same = 0.0 if all_pairs else np.sum(first * second * sizes)
    return float(np.sum(first * sizes) * np.sum(second * sizes) - same)


_LABEL = np.array([[0.0], [1.0]])


def _randomized_squares(
    tree: ScoreTree,
    area: float,
    per_user: Float[np.ndarray, " height"],
    kappa: float,
    all_pairs: bool = False,
) -> float:
    """The sum over unordered pairs of E of the square of both orders' terms.

    With `T_ij = Z_i^T B Z_j - A` the square of `w+_i w-_j T_ij + w+_j w-_i T_ji`:
    `E w+**2 = y + kappa`, `E w+ w- = -kappa`, `E T_ij**2 = sum_l V_l**2 |B_l|**2 - 2 A f + A**2`
    and `E T_ij T_ji = sum_l V_l**2 tr(B_l**2) - A (f_ij + f_ji) + A**2`.
    """
    square = form_squares(per_user, tree.tie)
    mixed = float(per_user[-1] ** 2 * tree.tie**2 * 2.0**tree.height)  # B_l**2 = 0 above leaves
    plus, minus = _LABEL + kappa, 1 - _LABEL + kappa
    every = np.full((2, 1), kappa)
    total = (square + area**2) * _number(tree, plus, minus, all_pairs)
    total -= 2 * area * _ordered(tree, plus, minus, tree.tie, all_pairs)
    total += (mixed + area**2) * _number(tree, every, every, all_pairs)
    return total - 2 * area * _ordered(tree, every, every, tree.tie, all_pairs)


def _randomized_pairs(
    tree: ScoreTree, area: float, per_user: Float[np.ndarray, " height"], kappa: float
) -> float:
    """The variance of the part of M that is linear in no user.

    For each pair `E h**2 - E h_i**2 - E h_j**2 + (E h)**2`, with h its term of M and h_i the mean
    of h given the report of i.
    """
    plus, minus = _LABEL + kappa, 1 - _LABEL + kappa
    counts = tree.levels[-1]
    total = _randomized_squares(tree, area, per_user, kappa)
    norms = tree.row_squares(per_user) + area**2
    # A negative j leaves w+_i (Z_i^T B m_j - A) of i, a positive one w-_i (m_j^T B Z_i - A).
    for label, others in ((1, minus), (0, plus)):
        of_label = np.array([[1.0 - label], [float(label)]])
        weight = np.sum(others * tree.sizes[:, None]) - others[label, 0]
        total -= float(counts[label] @ norms[label]) * weight
        pair = (of_label, others) if label else (others, of_label)
        total += 2 * area * _ordered(tree, *pair, tree.tie)
    negative = 1 - _LABEL
    total += _ordered(tree, _LABEL, negative, tree.tie**2)
    total -= 2 * area * _ordered(tree, _LABEL, negative, tree.tie)
    return total + area**2 * _number(tree, _LABEL, negative)


def private_variance(tree: ScoreTree, reports: LevelReports, iid: bool = False) -> float:
    """The mean squared error of the linearised estimate with private labels; exact.

    Args:
      tree: the users; or the expected numbers of independent ones.
      reports: how they report.
      iid: whether users are independent, their labels too, and the error is that about their law.
    """
    n, pairs, counts = tree.sizes.sum(), float(np.prod(tree.sizes)), tree.levels[-1]
    area = tree.ordered_pairs / pairs
    if iid:
        return _private_samples(tree, area, reports) / (pairs * (n - 1) / n) ** 2
    mean, second = _private_part(tree, area, reports)
    spread = np.sum(counts * (second - mean**2))
    return float(spread + _private_pairs(tree, area, reports)) / pairs**2


def private_bound(sizes: Float[np.ndarray, "2"], tie: float, reports: LevelReports) -> float:
    """A proven bound on `private_variance` over all users with these sizes of the classes.

    What is subtracted for users alone and for the parts of pairs that are linear is left out, and
    the area is at most 1.

    Args:
      sizes: negative and positive users.
      tie: what a tied score counts.
      reports: how users report.
    """
    n, v = sizes.sum(), reports.per_user
    squares = np.full(reports.height, np.sum(sizes**2))
    squares[-1] *= (1 + tie) ** 2
    linear = n * (v[1:] @ squares + v[0] * (abs(sizes[0] - sizes[1]) + 1) ** 2 / 4)
    # A user's pairs with itself: Z^T S Z / 2 and A g**2 / 4, of mean square c**4 / (16 chance**3)
    itself = n * (reports.self_squares(tie).sum() + v[0] ** 2 / reports.chances[0] / 16)
    of_pairs = n * (n - 1) / 2 * (reports.squares(tie) + (v[0] ** 2 + 5) / 4)
    return float((np.sqrt(linear) + np.sqrt(itself)) ** 2 + of_pairs) / float(np.prod(sizes)) ** 2


def _private_samples(tree: ScoreTree, area: float, reports: LevelReports) -> float:
    """The variance of R for independent users, by the parts of a user and of a pair of users."""
    n, v0, counts = tree.sizes.sum(), reports.per_user[0], tree.levels[-1]
    shares, (negative, positive) = counts / n, tree.sizes / n

    def others(number: float) -> ScoreTree:
        return ScoreTree([level * (number / n) for level in tree.levels], tree.tie)

    mean, second = _private_part(others(n - 1), area, reports, among=False)
    constant = -area * ((n - 1) / 2 + v0 / 4)
    single = np.sum(shares * (second + 2 * constant * mean + constant**2))
    # E h_1**2 of a pair's term h, and E h**2.
    mean, second = _private_part(others(1), area, reports, among=False, itself=False)
    linear = np.sum(shares * (second - area * mean + area**2 / 4))
    labels = v0**2 + 1 - 2 * (negative - positive) ** 2  # E (g_i g_j - 1)**2
    pair = reports.squares(tree.tie) + (area / 2) ** 2 * labels
    # A E[Z_i^T S Z_j (g_i g_j - 1)]: the first product is 0 where a user is on one level only.
    pair -= (2 - reports.exclusive) * 2 * area**2 * negative * positive
    return float(n * single + n * (n - 1) / 2 * (pair - 2 * linear))


def _private_part(
    tree: ScoreTree, area: float, reports: LevelReports, among: bool = True, itself: bool = True
) -> tuple[Float[np.ndarray, "2 leaves"], Float[np.ndarray, "2 leaves"]]:
    """Mean and mean square of the part of R that is linear in a user, without its constant.

    `sum_l a_l^T Z_l + (A / 2) T g`, with `a = S (h - m)` and T the sum of the others' signs; and
    the user's pairs with itself. Both are by the user's value; where levels are not exclusive the
    second is the variance and the squared mean.

    Args:
      tree: the users, or others whom a user does not belong to.
      area: A.
      reports: how they report.
      among: whether the user belongs to them, and is left out.
      itself: whether to add the user's pairs with itself.
    """
    v, c, sign = reports.per_user, reports.scale, np.array([[1.0], [-1.0]])
    others = tree.sizes[0] - tree.sizes[1] - among * sign  # T
    label = area / 2 * others * sign
    mean = label + itself * area / 4 * v[0]
    second = v[0] * (area / 2 * others) ** 2
    if itself:  # E g**4 = c**4 / chance**3, and E g**3 = t c**2 / chance**2
        second = second + (area / 4) ** 2 * c**4 / reports.chances[0] ** 3
        second = second + area / 2 * label * v[0] / reports.chances[0]
    mean, second = (np.broadcast_to(x, tree.levels[-1].shape).copy() for x in (mean, second))
    squares, self_squares = mean**2, reports.self_squares(tree.tie)
    for level in range(1, tree.height + 1):
        tie = tree.tie_at(level)
        slopes = partners(tree.levels[level], tie)  # S h
        has = partners(np.ones_like(slopes), 0.0)  # whether there is a sibling in order
        # V |a|**2 with |a|**2 = |S h|**2 - 2 m^T S S h + |S m|**2.
        total = v[level] * np.sum(slopes**2)
        total = total + among * v[level] * (has + tie**2 - 2 * partners(slopes, tie))
        if itself:
            total = total + self_squares[level - 1]
            # Z^T S Z is (c / chance)**2 times a character of the row for each difference of bins,
            # and times a^T Z it has the mean of a at the bin with that difference to the user's.
            sibling = slopes.reshape(2, -1, 2)[::-1, :, ::-1].reshape(2, -1) - among * has
            cubes = 2.0 ** (level - 1) * sibling
            cubes = cubes + tie * 2.0**level * (slopes[::-1] - among * tie)
            total = total + 2 * v[level] / reports.chances[level] * cubes
        at_level = tree.at_leaves(slopes)
        mean += at_level
        squares += at_level**2
        second += tree.at_leaves(total)
    return mean, second if reports.exclusive else second - squares + mean**2


def _private_pairs(tree: ScoreTree, area: float, reports: LevelReports) -> float:
    """The variance of the part of R that is linear in no user; see `_randomized_pairs`."""
    v, counts, n = reports.per_user, tree.levels[-1], tree.sizes.sum()
    number = n * (n - 1) / 2
    total = number * (reports.squares(tree.tie) + (area / 2) ** 2 * v[0] ** 2)
    norms = tree.row_squares(reports.per_node_user) + (area / 2) ** 2 * v[0]
    total -= (n - 1) * float(np.sum(counts * norms))
    ordered, squares = (ScoreTree(tree.levels, t).ordered_pairs for t in (tree.tie, tree.tie**2))
    return total + squares - reports.exclusive * area * ordered + number * (area / 2) ** 2
