"""The error of the hierarchical estimate of the area under the ROC curve, with public labels.

Notation: level l has the true counts `h_l` of its nodes, for each label; the tree's error on a
level has variance at most `V n` in each node, n being the size of the class, and is uncorrelated
between the nodes of a level. A pair (positive, negative) is counted on the level where the two
part; so the unpruned estimate, times `n+ n-`, is the bilinear form `sum_l h+_l^T B_l h-_l`, where
`B_l` picks the pairs (right child, left child), and on the leaves half of the pairs of equals.
"""

import dataclasses
import math

import numpy as np
from jaxtyping import Array, Float


@dataclasses.dataclass(frozen=True)
class ScoreTree:
    """The true counts of all nodes, for both labels.

    Attributes:
      levels: float64[2, 2**l] for l = 0 .. height.
      tie: what a tied score counts, 1/2 or 0.
    """

    levels: list[Float[np.ndarray, "2 _nodes"]]
    tie: float

    @classmethod
    def of(cls, table: Float[np.ndarray, "2 d"], height: int, tie: float) -> "ScoreTree":
        """The tree of a histogram."""
        leaves = np.zeros((2, 2**height))
        leaves[:, : table.shape[1]] = table
        levels = [leaves]
        for _ in range(height):
            levels.insert(0, levels[0].reshape(2, -1, 2).sum(axis=2))
        return cls(levels, tie)

    @property
    def height(self) -> int:
        """The level of the leaves."""
        return len(self.levels) - 1

    @property
    def sizes(self) -> Float[np.ndarray, "2"]:
        """Negative and positive users."""
        return self.levels[0][:, 0]

    def tie_at(self, level: int) -> float:
        """What a pair in one node of the level counts: nothing above the leaves."""
        return self.tie if level == self.height else 0.0

    def slopes(
        self, level: int
    ) -> tuple[Float[np.ndarray, "2 nodes"], Float[np.ndarray, "2 nodes"]]:
        """The sum of the weights of each node's partners, and the sum of the squares of these.

        The estimate of a node is multiplied by the count of its partners: for a negative node, on
        the left, that of the positive node on the right of it, and half the equals on the leaves.
        """
        counts, tie = self.levels[level], self.tie_at(level)
        return partners(counts, tie), partners(counts, tie**2)

    def row_squares(self, per_user: Float[np.ndarray, " height"]) -> Float[np.ndarray, "2 leaves"]:
        """`sum_l V_l |row of B_l or B_l^T|**2` of each value."""
        total = np.zeros_like(self.levels[-1])
        for level in range(1, self.height + 1):
            squares = partners(np.ones_like(self.levels[level]), self.tie_at(level) ** 2)
            total += per_user[level - 1] * self.at_leaves(squares)
        return total

    def at_leaves(self, nodes: Float[np.ndarray, "2 nodes"]) -> Float[np.ndarray, "2 leaves"]:
        """What the nodes of a level have, at each leaf below them."""
        return np.repeat(nodes, self.levels[-1].shape[1] // nodes.shape[1], axis=1)

    def pairs(self, numbers: list[Float[np.ndarray, "2 _nodes"]]) -> Float[np.ndarray, " height"]:
        """The sum over the entries of B_l**2 of products of nodes' numbers, by level from 1."""
        sums = []
        for level in range(1, self.height + 1):
            split = numbers[level].reshape(2, -1, 2)
            negative, positive = numbers[level]
            tied = self.tie_at(level) ** 2 * (negative @ positive)
            sums.append(float(split[1, :, 1] @ split[0, :, 0] + tied))
        return np.array(sums)

    def below(self) -> list[Float[np.ndarray, " _nodes"]]:
        """The pairs in order within each node, for levels 0 .. height."""
        leaves = self.levels[-1]
        inside = [self.tie * leaves[0] * leaves[1]]
        for level in range(self.height, 0, -1):
            split = self.levels[level].reshape(2, -1, 2)
            deeper = inside[0].reshape(-1, 2).sum(axis=1)
            inside.insert(0, deeper + split[1, :, 1] * split[0, :, 0])
        return inside

    @property
    def ordered_pairs(self) -> float:
        """The pairs in order: the area times `n+ n-`."""
        return float(self.below()[0][0])


def partners(numbers: Float[np.ndarray, "2 nodes"], tie: float) -> Float[np.ndarray, "2 nodes"]:
    """For each node of a level the number of the other class's that it is in order with.

    A negative node on the left has the number of its sibling, and so has a positive one on the
    right.

    Args:
      numbers: by label and node.
      tie: what the number of the same node counts.
    """
    split = numbers.reshape(2, -1, 2)
    total = tie * split[::-1]
    total[0, :, 0] += split[1, :, 1]
    total[1, :, 1] += split[0, :, 0]
    return total.reshape(2, -1)


def form_squares(per_user: Float[np.ndarray, " height"], tie: float) -> float:
    """`sum_l V_l**2 |B_l|**2`, of V of levels 1 .. height."""
    # Level l has 2**(l - 1) pairs of siblings, and the leaves 2**alpha equals of weight `tie`.
    numbers = 2.0 ** np.arange(len(per_user))
    numbers[-1] += tie**2 * 2.0 ** len(per_user)
    return float(per_user**2 @ numbers)


def unpruned_variance(
    tree: ScoreTree, per_user: Float[np.ndarray, " height"], exclusive: bool, iid: bool = False
) -> float:
    """The variance of the unpruned estimate of the ordered pairs; exact.

    With `g_l = B_l h_l` of the other class and G the sum over a value's nodes, it is
    `sum_l V_l n |g_l|**2 - sum_x h(x) G(x)**2` for either class (without exclusion the sum of the
    squares, not the square of the sum, is subtracted), plus `sum_l B_l**2 . D+ D-` with the
    variances `D = V_l n - h_l` of the nodes. The levels' quadratic parts are uncorrelated, for a
    pair of users has a part on one level only.

    Args:
      tree: the users; or the expected numbers of independent ones.
      per_user: V of levels 1 .. height: what one user adds to the variance.
      exclusive: whether a user is on one level only.
      iid: whether to take the mean over independent users of either class.
    """
    sizes, total = tree.sizes, 0.0
    path = np.zeros_like(tree.levels[-1])  # G at each leaf
    path_squares, subtracted = np.zeros_like(path), 0.0
    for level in range(1, tree.height + 1):
        mean, square = tree.slopes(level)
        # E g**2 of a multinomial other class: its mean squared plus n times the variance of a user.
        spread = square - mean**2 / sizes[::-1, None] if iid else 0.0
        second = mean**2 + spread
        total += per_user[level - 1] * float(sizes @ second.sum(axis=1))
        subtracted += float(np.sum(tree.levels[level] * second))
        path += tree.at_leaves(mean)
        path_squares += tree.at_leaves(square)
    if exclusive:
        spread = path_squares - path**2 / sizes[::-1, None] if iid else 0.0
        subtracted = float(np.sum(tree.levels[-1] * (path**2 + spread)))
    variances = [tree.levels[0] * 0.0]
    for level in range(1, tree.height + 1):
        variances.append(per_user[level - 1] * sizes[:, None] - tree.levels[level])
    return total - subtracted + float(tree.pairs(variances).sum())


def even_variance(
    tree: ScoreTree, square: float, groups: Float[np.ndarray, "height 2"], iid: bool = False
) -> float:
    """The variance of the unpruned area where users of each class are dealt over the levels; exact.

    Of a class of n users m are on a level, n / m times which are its estimate, and groups are drawn
    without replacement. With the shares p of the nodes, the estimated shares of one level have the
    covariance `alpha I + beta diag(p) + gamma p p^T`, where

        `alpha = c**2 / m,  beta = (n / m - 1) kappa - 1 / m,  gamma = -(n / m - 1) kappa`,

    and those of two levels `-kappa (J - p p'^T)`, J having the shares of the users in both of two
    nodes, and `kappa = 1 / (n - 1)`. Independent users on different levels have nothing in common:
    about their distribution `beta = 0`, `gamma = -1 / m` and `kappa = 0`. Both classes are
    independent, so that the variance is that of either linear part, and of the bilinear one.

    Args:
      tree: the users; or the expected numbers of independent ones.
      square: c**2.
      groups: m, by level from 1 and class.
      iid: whether users of either class are independent, and the error is that about their law.
    """
    sizes, total, area, squares = tree.sizes, 0.0, 0.0, 0.0
    kappa = np.zeros(2) if iid else 1 / np.maximum(sizes - 1, 1.0)
    path, path_squares = np.zeros_like(tree.levels[-1]), np.zeros_like(tree.levels[-1])
    for level in range(1, tree.height + 1):
        p, m, tie = tree.levels[level] / sizes[:, None], groups[level - 1], tree.tie_at(level)
        spare = (sizes / m - 1) * kappa
        alpha, beta = square / m, np.zeros(2) if iid else spare - 1 / m
        gamma = -1 / m if iid else -spare
        slopes = partners(p, tie)
        part = float(p[0] @ slopes[0])  # of the area
        diagonal = alpha[:, None] + beta[:, None] * p
        linear = np.sum(diagonal * slopes**2, axis=1) + gamma * part**2
        total += float(linear.sum())
        # tr(C+^T B C- B^T) of the covariances of both classes
        total += float(diagonal[0] @ partners(diagonal, tie**2)[0])
        total += float(gamma[::-1] @ np.sum(diagonal * slopes**2, axis=1)) + gamma.prod() * part**2
        area, squares = area + part, squares + part**2
        path += tree.at_leaves(slopes)
        path_squares += tree.at_leaves(slopes**2)
    # Of two different levels: a pair of users is in order on one level only.
    both = np.sum(tree.levels[-1] / sizes[:, None] * (path**2 - path_squares), axis=1)
    rest = area**2 - squares
    return total - float(kappa @ (both - rest)) - float(kappa.prod() * (both.sum() - rest))


def sampling_variance(tree: ScoreTree) -> float:
    """The variance of the area under the curve of independent users, given the class sizes."""
    leaves, sizes, tie = tree.levels[-1], tree.sizes, tree.tie
    negative, positive = leaves / sizes[:, None]
    of_positive = np.cumsum(negative) - negative * (1 - tie)
    of_negative = 1 - np.cumsum(positive) + positive * tie
    mean = positive @ of_positive
    second = positive @ (np.cumsum(negative) - negative * (1 - tie**2))
    # The two-sample U-statistic: (Var f + (n- - 1) Var f_1 + (n+ - 1) Var f_0) / (n+ n-).
    ahead = positive @ of_positive**2 - mean**2
    behind = negative @ of_negative**2 - mean**2
    pairs = sizes[0] * sizes[1]
    return float(((second - mean**2) + (sizes[0] - 1) * ahead + (sizes[1] - 1) * behind) / pairs)


@dataclasses.dataclass(frozen=True)
class Pruning:
    """The parameters of the bound on the error of the pruned estimate.

    Attributes:
      per_user: V, the largest over the levels.
      threshold: a.
      num_groups: of the users, of which each reports on one level; 1 if all report on all. Where
        groups are of different sizes, the class over the smallest one.
      half: whether a discarded node counts half of its pairs, rather than none.
    """

    per_user: float
    threshold: float
    num_groups: float
    half: bool


def threshold_of(
    rule: str, half: bool, root: Float[Array, ""] | float, smaller: Float[Array, ""] | float
) -> Float[Array, ""] | float:
    """The parameter a that minimises the paper's bound, Theorem 3: Corollaries 4 and 5.

    With `r = kappa sqrt(2 n V) / n_min` it is the square of `x = 1 + y > 1` with
    `x (x - 1)**2 = r`, or `y**3 + y**2 = r`: rule "optimal" solves it by Newton's method, rule
    "paper" takes y for small r, `sqrt(r)`.

    Args:
      rule: "optimal" or "paper".
      half: whether a discarded node counts half of its pairs, rather than none.
      root: sqrt(2 n V).
      smaller: n_min, users of the smaller class.
    """
    # The derivative of Theorem 3 in x = sqrt(a) is 0 where 8 x n_min = 21 root / (x - 1)**2, that
    # of its variant where 16 x n_min = root / (x - 1)**2.
    ratio = (21 / 8 if half else 1 / 16) * root / smaller
    y = ratio**0.5  # at least the root, since y**2 <= r
    if rule == "optimal":
        for _ in range(20):  # from above: the cubic is convex
            y = y - (y**3 + y**2 - ratio) / (3 * y**2 + 2 * y)
    return (1 + y) ** 2


def expected_recursions(
    sizes: Float[np.ndarray, "2"], height: int, pruning: Pruning
) -> Float[np.ndarray, " height"]:
    """A bound on the expected number of nodes that are recursed on, by level.

    `R_m <= min(2**m, (sqrt(n+) + sqrt(n-)) / (2 sqrt(a V)) + R_(m-1) / sqrt(a))`.

    References:
      Bell, Bellet, Gascón, Kulkarni (2020), Lemma 4, whose fixed point is R.
    """
    root = math.sqrt(pruning.threshold)
    if root == 0:
        return 2.0 ** np.arange(height)
    large = np.sqrt(sizes).sum() / (2 * root * math.sqrt(pruning.per_user))
    numbers = [1.0]
    for level in range(1, height):
        numbers.append(min(2.0**level, large + numbers[-1] / root))
    return np.array(numbers)


@dataclasses.dataclass(frozen=True)
class Data:
    """What the bound needs to know of the users; sums over nodes of true counts.

    Attributes:
      sizes: negative and positive users.
      height: the level of the leaves.
      slopes: the sums of `g_l**2` over levels and nodes, in L2, for either class.
      loss: the largest error of what discarded nodes count.
      drift: the norm of the error that comes from who reports on which level.
    """

    sizes: Float[np.ndarray, "2"]
    height: int
    slopes: Float[np.ndarray, "2"]
    loss: float
    drift: float


def worst_data(sizes: Float[np.ndarray, "2"], height: int, tie: float, pruning: Pruning) -> Data:
    """Bounds on the numbers of all users with these sizes of the classes."""
    others = pruning.num_groups - 1
    opposite = sizes[::-1]
    slopes = (height + tie**2) * (opposite**2 + others * opposite)
    # The partners of a user on all levels are disjoint.
    path = np.sqrt(height * opposite * others)
    drift = (1 + tie) * float(sizes @ path + height * others * math.sqrt(sizes[0] * sizes[1]))
    share = 0.5 if pruning.half else 1.0
    # Of the pairs of a discarded node between none and all are in order: half of them is off by
    # half of them at most.
    return Data(sizes, height, slopes, share * float(sizes[0] * sizes[1]), drift)


def pruned_bound(data: Data, tie: float, pruning: Pruning) -> float:
    """A proven bound on the mean squared error of the pruned estimate of the ordered pairs.

    Given who reports on which level, levels are independent. The errors of the recursed nodes and
    those of the sums over discarded nodes are then martingale differences over the levels, and
    uncorrelated between the nodes of one: their second moments add up to `noise`. The norm of what
    discarded nodes are mistaken by, `loss`, and that of the difference between the users of a
    level and all users, `drift`, are added to its root. Where users are split, the sizes of the
    groups are negatively associated, so that bounds that increase in them multiply.

    References:
      Bell, Bellet, Gascón, Kulkarni (2020), Theorem 3, with other constants: its proof bounds
      `E 1[p is discarded] h_p**2` by `4 v`, but a node is discarded below `2 sqrt(a v)`, not below
      `sqrt(v)`. Here `sum_p 1[p is discarded] h_p**2 <= n max h_p` is used instead. A user has one
      discarded node above it, so that `a` is not multiplied by the height.
    """
    sizes, height, v = data.sizes, data.height, pruning.per_user * data.sizes
    recursions = expected_recursions(sizes, height, pruning)
    noise = float(v @ data.slopes)  # V n sum_l |g_l|**2 of either class
    noise += float(v[0] * v[1]) * (recursions.sum() + 2 * tie**2 * recursions[-1])
    root = math.sqrt(pruning.threshold)
    if root == 0:
        return (math.sqrt(noise) + data.drift) ** 2
    # Of a discarded count, in units of sqrt(v), by the triangle inequality or level by level.
    reach = min(2 * root + math.sqrt(height), math.sqrt(height * (4 * root**2 + 1)))
    share = 0.5 if pruning.half else 1.0
    loss = min(data.loss, share * float(np.min(sizes[::-1] * np.sqrt(v))) * reach)
    if pruning.half:
        # Nodes that are looked at: the children of those that are recursed on
        active = np.minimum(2.0 ** np.arange(height), 2 * np.roll(recursions, 1))
        active[0] = 1.0
        # Of `sum h_p**2` over discarded nodes, and twice it with the drift of the group.
        others = pruning.num_groups - 1
        squares = sizes * np.minimum(np.sqrt(v) * reach, sizes)
        if others:
            squares = 2 * squares + 2 * others * height * sizes
        noise += float(v[::-1] @ squares) / 2 + float(v[0] * v[1]) * active.sum()
    return (math.sqrt(noise) + loss + data.drift) ** 2


def worst_pruned_error(
    sizes: Float[np.ndarray, "2"], height: int, tie: float, pruning: Pruning
) -> float:
    """A proven bound on the error of the pruned area, over all users with these class sizes."""
    data = worst_data(sizes, height, tie, pruning)
    return pruned_bound(data, tie, pruning) / float(np.prod(sizes)) ** 2
