"""The error of the hierarchical AUC that discards nodes, for given users: a plug-in of normal laws.

The estimated counts X of a node, of both labels, are nearly normal about the true ones h; those of
different nodes, and of different levels, are nearly independent. So whether a node p that is looked
at is recursed on, R_p, is an event of its own counts alone, and what it adds to the estimate has by
equation (10) of Bell et al. the law of

    U_p = X+[p1] X-[p0] + U_p0 + U_p1  if R_p,  and  X'+ X'- / 2  otherwise (or 0),

X' being the sums of the children's counts. Its mean and variance given R_p follow from those of the
children, and from their covariances with the children's counts. What the reports of one user on
different levels, or its label, have in common is added to first order, by the mean slopes of the
estimate in the counts.
"""

import dataclasses
import math

import jax
import numpy as np
from jax.scipy.special import ndtr
from jaxtyping import Float

from ._tree_errors import ScoreTree, sampling_variance

_NODES, _REACH = 32, 8.0  # of a piece of the quadrature; standard deviations


@dataclasses.dataclass(frozen=True)
class CountLaw:
    """The law of the estimated counts, and of the classes' sizes.

    Attributes:
      spreads: by level from 1, for either label: what all users add to the variance of a count, of
        which the true count is subtracted. float64[height, 2].
      covariances: by level, of both labels' counts of one node. float64[height].
      threshold: a.
      half: whether a discarded node counts half of its pairs, rather than none.
      exclusive: whether a user is on one level only.
      label_variance: kappa, of a randomized label; 0 of others.
      gap_variance: of the estimated difference of the sizes of the classes, where it is reported
        by private labels, for each user and without the square of its mean; 0 of others.
      dealt: whether users are dealt evenly over the levels.
    """

    spreads: Float[np.ndarray, "height 2"]
    covariances: Float[np.ndarray, " height"]
    threshold: float
    half: bool
    exclusive: bool
    label_variance: float = 0.0
    gap_variance: float = 0.0
    dealt: bool = False

    @property
    def tau(self) -> float:
        """What the product of both counts of a node is compared with."""
        return float(self.threshold * np.sqrt(np.prod(self.spreads[-1])))

    @property
    def least(self) -> Float[np.ndarray, "2"]:
        """The least count that is reckoned with, of each class."""
        return np.sqrt(self.threshold * self.spreads[-1]) / 2


def pruned_error(tree: ScoreTree, law: CountLaw, iid: bool = False) -> float:
    """The mean squared error of the area, by the delta method.

    Args:
      tree: the users; or the expected numbers of independent ones.
      law: of the counts.
      iid: whether users are independent, and the error is that about their law.
    """
    nodes = _upwards(tree, law)
    pairs = float(np.prod(tree.sizes))
    recursed = bool(np.prod(np.maximum(tree.sizes, law.least)) >= law.tau)
    root = nodes[0]
    mean, variance = (root.mean[1], root.spread[1]) if recursed else (root.mean[0], root.spread[0])
    area = float(mean[0]) / pairs
    total = float(variance[0]) + _in_common(tree, law, area, _slopes(tree, nodes, law, recursed))
    bias = area - tree.ordered_pairs / pairs
    return total / pairs**2 + bias**2 + (sampling_variance(tree) if iid else 0.0)


@dataclasses.dataclass(frozen=True)
class _Level:
    """What is known of the nodes of a level.

    Attributes:
      chance: of being recursed on, if looked at.
      linked: covariances of R with the counts of either label.
      mean: of U given that R is false, and true.
      spread: variances of U, the same.
      with_counts: covariances of U with the counts.
    """

    chance: Float[np.ndarray, " nodes"]
    linked: Float[np.ndarray, "2 nodes"]
    mean: Float[np.ndarray, "2 nodes"]
    spread: Float[np.ndarray, "2 nodes"]
    with_counts: Float[np.ndarray, "2 nodes"]


def _upwards(tree: ScoreTree, law: CountLaw) -> list[_Level]:
    """All levels, from the leaves."""
    counts, tie = tree.levels[-1], tree.tie
    noise, both = law.spreads[-1][:, None] - counts, law.covariances[-1]
    # Of leaves ties are counted, if they are looked at.
    mean = tie * counts[0] * counts[1]
    spread = tie**2 * _product_variance(counts, noise, both)
    with_counts = tie * (counts[::-1] * noise + counts * both)
    zero = np.zeros_like(counts)
    levels = [_Level(zero[0], zero, np.stack([mean] * 2), np.stack([spread] * 2), with_counts)]
    for level in range(tree.height - 1, -1, -1):
        below, children = levels[0], tree.levels[level + 1]
        noise, both = law.spreads[level][:, None] - children, law.covariances[level]
        h, d = children.reshape(2, -1, 2), noise.reshape(2, -1, 2)
        mean, spread = _whatever_is_done(below)
        mean, spread = mean.reshape(-1, 2).sum(axis=1), spread.reshape(-1, 2).sum(axis=1)
        links = below.with_counts.reshape(2, -1, 2)
        (left, right), (d_left, d_right) = (h[0, :, 0], h[1, :, 1]), (d[0, :, 0], d[1, :, 1])
        mean = mean + left * right
        spread = spread + d_left * d_right + left**2 * d_right + right**2 * d_left
        spread = spread + 2 * (right * links[0, :, 0] + left * links[1, :, 1])
        whole, counted = tree.levels[level], np.zeros((2, mean.size))
        if law.half:
            counted[0] = whole[0] * whole[1] / 2
            counted[1] = _product_variance(whole, d.sum(axis=2), 2 * both) / 4
        means, spreads = np.stack([counted[0], mean]), np.stack([counted[1], spread])
        chance, linked = np.ones(mean.size), np.zeros_like(whole)
        if level:
            noise = law.spreads[level - 1][:, None] - whole
            chance, linked = _recursed(whole, noise, law.covariances[level - 1], law)
        levels.insert(0, _Level(chance, linked, means, spreads, (means[1] - means[0]) * linked))
    return levels


def _whatever_is_done(level: _Level) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of U, recursed on or not."""
    q, (discarded, recursed) = level.chance, level.mean
    mean = q * recursed + (1 - q) * discarded
    within = q * level.spread[1] + (1 - q) * level.spread[0]
    return mean, within + q * (1 - q) * (recursed - discarded) ** 2


def _product_variance(
    means: Float[np.ndarray, "2 nodes"], noise: Float[np.ndarray, "2 nodes"], both: float
) -> Float[np.ndarray, " nodes"]:
    """The variance of the product of two normal numbers with these moments."""
    x, y = means
    return noise[0] * noise[1] + both**2 + x**2 * noise[1] + y**2 * noise[0] + 2 * x * y * both


def _recursed(
    counts: Float[np.ndarray, "2 nodes"],
    noise: Float[np.ndarray, "2 nodes"],
    both: float,
    law: CountLaw,
) -> tuple[Float[np.ndarray, " nodes"], Float[np.ndarray, "2 nodes"]]:
    """The probability that a node is recursed on, and the covariances of that with its counts.

    It is where `max(X-, b-) max(X+, b+) >= tau`, b the least counts and `tau = 4 b- b+`: for given
    X- where X+ is above `tau / max(X-, b-)`, and for X- above `4 b-` always.
    """
    if law.threshold == 0:
        return np.ones(counts.shape[1]), np.zeros_like(counts)
    # Most nodes of a large tree are alike: users are few.
    kinds, place = np.unique(counts, axis=1, return_inverse=True)
    _, first = np.unique(place, return_index=True)
    noise = noise[:, first]
    chance, linked = np.empty(kinds.shape[1]), np.empty(kinds.shape)
    for start in range(0, kinds.shape[1], 2**14):
        part = slice(start, start + 2**14)
        chance[part], linked[:, part] = _quadrature(kinds[:, part], noise[:, part], both, law)
    return chance[place], linked[:, place]


def _quadrature(
    counts: Float[np.ndarray, "2 m"], noise: Float[np.ndarray, "2 m"], both: float, law: CountLaw
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, "2 m"]]:
    """`_recursed`, of few nodes."""
    (x, y), deviation = counts[..., None], np.sqrt(noise[0])[:, None]
    slope = both / noise[0][:, None]  # of the mean of X+ in X-
    rest = np.sqrt(noise[1] - both**2 / noise[0])[:, None]
    least = law.least[0]
    edges = np.clip((np.array([least, 4 * least]) - x) / deviation, -_REACH, _REACH)
    points, weights = np.polynomial.legendre.leggauss(_NODES)
    starts = np.concatenate([np.full_like(x, -_REACH), edges[:, :1]], axis=1)[..., None]
    widths = edges[..., None] - starts
    z = (starts + widths * (points + 1) / 2).reshape(len(x), -1)
    mass = (widths * weights / 2).reshape(len(x), -1) * _density(z)
    negative = x + deviation * z
    mean = y + slope * deviation * z
    beyond = (law.tau / np.maximum(negative, least) - mean) / rest
    tail = _upper_tail(beyond)
    last = edges[:, 1:]  # above, whatever X+ is
    above, at = _upper_tail(last)[:, 0], deviation[:, 0] * _density(last)[:, 0]
    chance = np.sum(mass * tail, axis=1) + above
    # Cov(X, R) = E (X - E X) R
    first = np.sum(mass * tail * deviation * z, axis=1) + at
    second = np.sum(mass * ((mean - y) * tail + rest * _density(beyond)), axis=1)
    return chance, np.stack([first, second + slope[:, 0] * at])


def _density(z: np.ndarray) -> np.ndarray:
    return np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)


def _upper_tail(z: np.ndarray) -> np.ndarray:
    """The chance that a standard normal number is above z."""
    # Rows are padded to few shapes, for few programs.
    padded = np.zeros((1 << (len(z) - 1).bit_length(), z.shape[1]))
    padded[: len(z)] = z
    with jax.enable_x64(True):
        return np.asarray(ndtr(-padded))[: len(z)]


def _slopes(
    tree: ScoreTree, nodes: list[_Level], law: CountLaw, recursed: bool
) -> list[Float[np.ndarray, "2 _nodes"]]:
    """The mean slopes of the estimate in the counts, of levels from 1."""
    slopes, active = [], np.ones(1)  # the probability that a node is looked at
    for level in range(1, tree.height + 1):
        above = nodes[level - 1]
        chance = above.chance if level > 1 else np.full(1, float(recursed))
        deeper, h = active * chance, tree.levels[level].reshape(2, -1, 2)
        slope = np.zeros_like(h)
        slope[0, :, 0], slope[1, :, 1] = h[1, :, 1], h[0, :, 0]
        # What a count decides, by Stein's identity: the mean gradient is Cov(X, U) over Cov(X, X).
        noise = law.spreads[level - 1][:, None] - tree.levels[level]
        both, links = law.covariances[level - 1], nodes[level].with_counts
        decided = (links * noise[::-1] - both * links[::-1]) / (noise[0] * noise[1] - both**2)
        slope = deeper[:, None] * (slope + decided.reshape(h.shape))
        if law.half:
            slope += (active * (1 - chance))[:, None] * h.sum(axis=2, keepdims=True)[::-1] / 2
        slopes.append(slope.reshape(2, -1))
        active = np.repeat(deeper, 2)
    return slopes


def _in_common(
    tree: ScoreTree, law: CountLaw, area: float, slopes: list[Float[np.ndarray, "2 _nodes"]]
) -> float:
    """What a user's reports have in common, and the sizes of the classes, add to the variance.

    To first order the estimate minus the area times the classes' sizes is a sum over users, whose
    variances are those in `_label_errors`.
    """
    counts, sizes, kappa = tree.levels[-1], tree.sizes, law.label_variance
    n, gap, sign = sizes.sum(), sizes[0] - sizes[1], np.array([[1.0], [-1.0]])
    path, squares = np.zeros_like(counts), np.zeros_like(counts)
    apart, apart_squares = np.zeros(counts.shape[1]), np.zeros(counts.shape[1])
    for slope in slopes:
        at_leaves = tree.at_leaves(slope)
        path, squares = path + at_leaves, squares + at_leaves**2
        between = at_leaves[1] - at_leaves[0]
        apart, apart_squares = apart + between, apart_squares + between**2
    total = 0.0
    if law.gap_variance:  # n+ n- is (n**2 - gap**2) / 4, up to a constant
        label, spread = area * gap / 2, n * (law.gap_variance - 1)
        total += label**2 * spread + area**2 * spread**2 / 8
        path, squares = path + label * sign, squares + label**2
    if law.exclusive:
        total -= float(np.sum(counts * (path**2 - squares)))
    if law.dealt:
        # Nothing comes from how many users are on which level: `n L**2` times the variance over the
        # L levels of the mean slope of the class's users.
        means = np.stack(
            [np.sum(h * s, axis=1) for h, s in zip(tree.levels[1:], slopes, strict=True)]
        )
        total -= len(slopes) ** 2 * float(np.sum((means / sizes).var(axis=0) * sizes))
    if kappa:
        counted = (apart - area * gap) ** 2 - (apart**2 if law.exclusive else apart_squares)
        total += kappa * float(counts.sum(axis=0) @ counted) + 2 * (area * kappa * n) ** 2
    return total
