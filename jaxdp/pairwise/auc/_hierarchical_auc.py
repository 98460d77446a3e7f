"""The area under the ROC curve from two hierarchical histograms."""

import functools
import math
import warnings
from typing import Literal

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ..._checks import By, Choice, Epsilon, Integer, Optional, Real
from ..._contract import Tree, field, spec
from ..._prediction import Kind, Prediction
from ..._spec import check_choice, check_counts, check_int, check_probabilities, check_real
from ...accounting import PairLaw, basic_composition, optimal_composition, split_epsilon
from ...population import Population
from ...randomizers import KRR
from .._auc_protocol import AUCProtocol, Labels
from .._joint_laws import joint_law
from ..kernels._auc import AUC
from ._hierarchical_auc_even import EvenHierarchicalAUCParams
from ._hierarchical_auc_round import (
    HierarchicalAUCParams,
    group_size,
    level_chances,
    tree_bytes,
)
from ._hierarchical_auc_walk import HierarchicalAUCPassParams, estimate_reports, walk_reports
from ._label_errors import (
    LevelReports,
    private_bound,
    private_variance,
    randomized_bound,
    randomized_variance,
)
from ._pruned_errors import CountLaw, pruned_error
from ._tree_errors import (
    Pruning,
    ScoreTree,
    even_variance,
    sampling_variance,
    threshold_of,
    unpruned_variance,
    worst_pruned_error,
)

AnyParams = HierarchicalAUCParams | HierarchicalAUCPassParams | EvenHierarchicalAUCParams

MAX_SCORES = 2**24
_ONE_LEVEL = ("users", "even")  # the splits in which a user reports on one level


def _threshold(name: str, value: object) -> float | str:
    if isinstance(value, str):
        return check_choice(name, value, ("paper", "optimal"))
    return check_real(name, value, low=0.0, open_ends=False)


@spec
class HierarchicalAUC(AUCProtocol[AnyParams]):
    """The area under the ROC curve of users' scores, from a hierarchical histogram of each class.

    Scores are the leaves of a binary tree, and users report the nodes above their score, each by
    one bit of a random Hadamard coefficient (`HadamardBit`). A positive and a negative user part at
    one node p of the tree; so, with the estimated counts h+ and h- of nodes, the pairs that are in
    the right order are counted by

        `U(p) = h+[p1] h-[p0] + U(p0) + U(p1)`,  and the area is `U(root) / (n+ n-)`.

    Small counts are noise. With `v = V n` a bound on the variance of a count in a class of n users,
    and counts below `sqrt(a v) / 2` raised to that, a node with `h+ h- < a sqrt(v+ v-)` is
    discarded: half of its pairs, by the sums of its children, are taken to be in the right order.

    With public labels there is one tree for each class and each has its own users. With private
    labels a user reports the node and the label together, with the same epsilon, and on one more
    level the label alone. With randomized labels a user spends `label_epsilon` on its label, by
    randomized response, and the rest on the node, in the tree of the label that is reported. The
    counts of both classes follow from those of both trees, and what one user adds to a product of
    them is taken out exactly.

    Formal guarantees:
      * Privacy: pure epsilon-LDP, exactly, of the score, or of score and label. With
        `split="users"` a user's first word draws a level, whatever the value, and all of epsilon
        minus `label_epsilon` is spent there. With `split="even"` the analyst deals out the levels
        without regard to scores, a level is as public as a label, and a user spends all of epsilon
        on its one report. Otherwise all levels are reported on, with `level_epsilon` each. With
        "advanced" and "optimal" the guarantee is (epsilon, delta)-LDP.
      * Bias: none with public labels and `threshold=0`, for every data set. Discarding nodes biases
        the estimate towards one half. Private or randomized labels make it a ratio, consistent,
        with a bias of the order of its variance; of two unbiased estimates where `threshold=0`.
      * `variance(counts)`: the exact mean squared error with public labels and `threshold=0`,
        however users or epsilon are split; with private or randomized labels and `threshold=0` the
        exact one of the linearised ratio (delta method). With another threshold a plug-in of normal
        counts, whose error is of higher order in the noise ("delta"). `worst_case_variance` is a
        proven bound, many times the error where most nodes are discarded; none is known where also
        labels are not public, and it is inf.
      * Splitting users, h has V = c**2 levels: a user counts for as many. Splitting epsilon V is
        c**2 at `level_epsilon`.

    Edge cases:
      =====================================  =====================================================
      d not a power of two                   scores are the first of 2**ceil(log2 d) leaves
      users of one label only                ValueError; inside jit the estimate is 0
      `split="even"`, a class is too small   ValueError if it has fewer users than there are levels;
                                             inside jit a level without users counts nothing
      V above the size of a class            warns with the number: its counts are noise
      value outside the domain               ValueError from a Population; clamped inside jit
      epsilon of a level too large or small  ValueError from `KRR(2, epsilon)`
      =====================================  =====================================================

    Args:
      num_scores: d, 2 to 2**24.
      epsilon: privacy parameter, > 0.
      labels: "public", "private" or "randomized". Of the latter two "private" is better up to an
        epsilon of about 4 and "randomized" above, by a factor of up to 2.
      split: "users", one level a user, which its first word draws; "even", one level a user, and
        as many users of each class on each level, give or take one, at random; "basic", "advanced"
        or "optimal": all levels, with the epsilon that composes to the whole by that theorem
        (`jaxdp.accounting`).
      delta: in (0, 1) for "advanced" and "optimal"; 0 otherwise.
      threshold: a, at least 0; "optimal" for the minimiser of the paper's bound for the classes at
        hand, "paper" for the closed form that approximates it. 0 discards nothing.
      discarded: what a discarded node counts, "half" of its pairs or "zero", the paper's variant.
      ties: what a tied score counts, "half" or "zero", as in the paper.
      label_epsilon: the part of epsilon that is spent on a randomized label, in (0, epsilon); None
        for the one of least `V (1 + 2 kappa)`, kappa being the variance of a label: the error for
        large classes of equal size, far apart, is in proportion to that.
      memory: bytes that the full tree may take, at least 1024; see `tree_bytes`. Where it takes
        more a run visits users in passes, on the host, with the same result: it counts the upper
        levels at once, and on each deeper one only the nodes that are not discarded.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is of the wrong kind, or is traced.

    Example:
      >>> from jaxdp.pairwise import HierarchicalAUC
      >>> protocol = HierarchicalAUC(num_scores=64, epsilon=1.0, threshold=0.0)
      >>> apart = [4000] + [0] * 126 + [6000]  # negative users at 0, positive ones at 63
      >>> round(float(protocol.variance(apart)), 4)
      0.0753

    References:
      Bell, Bellet, Gascón, Kulkarni (2020), Private protocols for U-statistics in the local model
      and beyond, section 4, Algorithms 2 and 3, equation (10), Theorem 3, and the splits of
      Appendix B.2.2: "basic" and "advanced" are its first, "even" its second and "users" its
      third. The factors
      `1 / sqrt(2**l)` of both algorithms are left out, and V is c**2, not c**2 - 1 as in equation
      (23): see `HadamardBit`. After splitting users, counts are multiplied by the number of levels.
    """

    num_scores: int = field(Integer(2, MAX_SCORES))
    epsilon: float = field(Epsilon())
    labels: Labels = field(Choice("public", "private", "randomized"), default="public")
    split: Literal["users", "even", "basic", "advanced", "optimal"] = field(
        Choice("users", "even", "basic", "advanced", "optimal"), default="users"
    )
    delta: float = field(Real(0.0, 1.0, closed=True), default=0.0)
    threshold: float | str = field(
        By(_threshold, (-1.0, "best", float("nan"), None)), default="optimal"
    )
    discarded: Literal["half", "zero"] = field(Choice("half", "zero"), default="half")
    ties: Literal["half", "zero"] = field(Choice("half", "zero"), default="half")
    label_epsilon: float | None = field(Optional(Real(0.0)), default=None)
    memory: int = field(Integer(1024), default=2**30)

    def validate(self) -> None:
        """Raises ValueError unless the options fit; settles the part of epsilon for labels."""
        if self.split in ("advanced", "optimal"):
            check_real("delta", self.delta, low=0.0, high=1.0)
        elif self.delta != 0:
            raise ValueError(
                f"delta must be 0 for split = {self.split!r}, which is pure, got {self.delta!r}."
            )
        if self.labels == "randomized":
            part = self.label_epsilon
            if part is None:
                part = label_part(self.epsilon, self.height, self.split, self.delta)
            check_real("label_epsilon", part, low=0.0, high=self.epsilon)
            self.settle(label_epsilon=part)
        elif self.label_epsilon is not None:
            raise ValueError(
                f"label_epsilon must be None for labels = {self.labels!r}, which spend nothing on "
                f"a label alone, got {self.label_epsilon!r}."
            )
        if self.split == "even" and self.labels != "public":
            raise ValueError(
                f"labels must be public for split = 'even', which deals out the users of each "
                f"class, got {self.labels!r}."
            )
        _ = self._bit, self._label
        if self.threshold == 0 and self.tree_bytes > self.memory:
            raise ValueError(
                f"memory must be at least {self.tree_bytes} bytes for threshold = 0 and num_scores "
                f"= {self.num_scores}, got {self.memory}: no node is discarded, so that all are "
                "held. Use a threshold, or fewer scores."
            )

    @property
    def kernel(self) -> AUC:
        """The area under the curve, with `ties`."""
        return AUC(self.ties)

    @property
    def height(self) -> int:
        """The level of the leaves, ceil(log2 d): alpha in the paper."""
        return (self.num_scores - 1).bit_length()

    @property
    def num_levels(self) -> int:
        """Levels that are reported on: one more where labels are private."""
        return self.height + (self.labels == "private")

    @property
    def level_epsilon(self) -> float:
        """The privacy parameter of a report on one level."""
        epsilon = self.epsilon - (self.label_epsilon or 0.0)
        return level_epsilon(epsilon, self.num_levels, self.delta, self.split)

    @property
    def _on_one_level(self) -> bool:
        """Whether a user reports on one level, with all of the epsilon for scores."""
        return self.split in _ONE_LEVEL

    @property
    def _bit(self) -> KRR:
        """The randomizer of the bit of a report."""
        return KRR(2, self.level_epsilon)

    @property
    def _label(self) -> KRR | None:
        """The randomizer of labels."""
        return None if self.label_epsilon is None else KRR(2, self.label_epsilon)

    @property
    def label_variance(self) -> float:
        """The variance kappa of a randomized label, decoded without bias; 0 of other labels."""
        # (1 + c' s) / 2 estimates the label, with the sign s that is reported: (c'**2 - 1) / 4
        return 0.0 if self._label is None else (square_scale(self._label) - 1) / 4

    @property
    def tree_bytes(self) -> int:
        """Memory for the tally and estimate of the full tree: 40 bytes for each of 4 d slots."""
        return tree_bytes(self.height)

    def build(self, word_bits: int = 32) -> AnyParams:
        """The params; those of passes where the full tree takes too much, see `memory`."""
        tree = self._tree_params(word_bits)
        if self.tree_bytes <= self.memory:
            return EvenHierarchicalAUCParams(tree) if tree.dealt else tree
        fits = [level for level in range(self.height) if tree_bytes(level) <= self.memory]
        return HierarchicalAUCPassParams(tree, fits[-1])

    def _tree_params(self, word_bits: int = 32) -> HierarchicalAUCParams:
        rule, cutoff = "fixed", self.threshold
        if isinstance(cutoff, str):
            rule, cutoff = cutoff, 0.0
        return HierarchicalAUCParams(
            bit_threshold=self._bit.build(word_bits).threshold,
            cutoff=np.asarray(cutoff, np.float64),
            height=self.height,
            num_scores=self.num_scores,
            private=self.labels == "private",
            split_users=self._on_one_level,
            rule=rule,
            half_discarded=self.discarded == "half",
            half_ties=self.ties == "half",
            word_bits=word_bits,
            label_threshold=None if self._label is None else self._label.build(word_bits).threshold,
            dealt=self.split == "even",
        )

    def estimate_reports(self, reports: ArrayLike) -> float:
        """The estimate from the reports themselves; on the host.

        It is that of `build().estimate(tally)`. Where the full tree takes more than `memory` bytes
        the trees are walked depth first, in memory O(log d) besides the reports, as the paper's
        analyst does; every node that is not discarded costs a pass over the reports of its level.

        Args:
          reports: int[n], or int[n, num_levels] where users report on all levels, as
            `build().from_bits` makes them.

        Raises:
          ValueError: the shape or a report does not fit.
        """
        tree, array = self._tree_params(), np.asarray(reports)
        tree.check_reports(array)
        if tree.dealt:
            self._check_dealt(array >> 1)
        full = self.tree_bytes <= self.memory
        return estimate_reports(tree, array) if full else walk_reports(tree, array)

    def _check_dealt(self, slots: np.ndarray) -> None:
        """Raises ValueError unless users who report in these slots are spread evenly."""
        levels = np.frexp(slots)[1] - 2  # level l has the slots 2**(l + 1) .. 2**(l + 2) - 1
        numbers = np.zeros((self.height, 2))
        np.add.at(numbers, (levels - 1, (slots >> levels) & 1), 1)
        if np.any(numbers != self._groups(numbers.sum(axis=0))):
            raise ValueError(
                "reports must be spread evenly over the levels where split = 'even', those of each "
                f"class by themselves, got by level, negative users first: {numbers.tolist()}."
            )

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter, at `delta`; at most `epsilon`."""
        one = self._bit.exact_epsilon(word_bits)
        if self._on_one_level:
            score = one  # a user reports on one level
        elif self.delta == 0:
            score = basic_composition([one] * self.num_levels).epsilon
        else:
            score = optimal_composition(one, self.num_levels, self.delta).epsilon
        if self._label is None:
            return score
        return basic_composition([score, self._label.exact_epsilon(word_bits)]).epsilon

    def exact_delta(self) -> float:
        """The delta at which `exact_epsilon()` holds; 0 of a pure protocol."""
        return self.delta

    def pair_laws(self) -> tuple[PairLaw, ...] | None:
        """Values whose nodes part on every level: no pair hides less.

        None where users report on several levels. Two nodes of a level differ in the sign of half
        of the coefficients, whatever the level, as two values of one `HadamardBit` do; values with
        a common node differ in fewer, and hide more. Where labels are randomized, the pair has
        different ones too.
        """
        if not self._on_one_level:
            return None
        truth, lie = map(float, self._bit.probabilities())
        # Whether the bit is the likelier one under both values, the first, the second, neither.
        rows = np.array([[truth, truth, lie, lie], [truth, lie, truth, lie], [lie] * 4]) / 2
        law = PairLaw(rows[0], rows[1], rows[2], np.zeros((0, 4)))
        if self._label is not None:
            truth, lie = map(float, self._label.probabilities())
            rows = np.array([[truth, lie], [lie, truth], [lie, lie]])
            law = joint_law(law, PairLaw(rows[0], rows[1], rows[2], np.zeros((0, 2))))
        return (law,)

    def _reports(self) -> LevelReports:
        """How users report on levels."""
        split = self._on_one_level
        chances = level_chances(self.num_levels, 32, split)  # about 1 / num_levels, as realised
        return LevelReports(self.height, math.sqrt(square_scale(self._bit)), chances, split)

    @property
    def count_variance(self) -> float:
        """V, the largest variance of an estimated count by the size of the class."""
        return float(self._reports().per_node_user.max())

    def _pruning(self, sizes: Float[np.ndarray, "2"]) -> Pruning:
        a, v = self.threshold_for(int(sizes[0]), int(sizes[1])), self.count_variance
        groups = self.num_levels if self._on_one_level else 1
        if self.split == "even":  # n over the smallest group, at least `num_levels`
            groups = float(np.max(sizes / self._groups(sizes)[-1]))
            larger = groups * square_scale(self._bit)
            a, v = a * v / larger, larger  # the same cutoffs
        return Pruning(v, a, groups, self.discarded == "half")

    def _groups(self, sizes: Float[np.ndarray, "2"]) -> Float[np.ndarray, "height 2"]:
        """How many users of each class report on each level, where they are dealt evenly.

        Raises:
          ValueError: a class has fewer users than there are levels.
        """
        self._check_groups(sizes)
        return np.stack([group_size(sizes, self.height, place) for place in range(self.height)])

    def _check_groups(self, sizes: Float[np.ndarray, "2"]) -> None:
        if self.split == "even" and sizes.min() < self.height:
            raise ValueError(
                f"each class must have a user for each of the {self.height} levels where split = "
                f"'even', got one of {sizes.min():.0f}; use fewer scores, or split = 'users'."
            )

    def threshold_for(self, num_negative: int, num_positive: int) -> float:
        """The threshold parameter a that is used for classes of these sizes."""
        if not isinstance(self.threshold, str):
            return self.threshold
        n, least = num_negative + num_positive, min(num_negative, num_positive)
        per_user = self.count_variance * (1 + 2 * self.label_variance)
        root = math.sqrt(2 * n * per_user)  # sqrt(2 n C alpha) in Corollaries 4 and 5
        return float(threshold_of(self.threshold, self.discarded == "half", root, least))

    def alike(self, population: Population) -> Float[np.ndarray, "2"] | None:
        """The users of each class, or of each class and level, who report alike."""
        sizes = self.class_sizes(population)
        if sizes is None or self.split != "even":
            return sizes
        return group_size(np.floor(sizes), self.height, self.height - 1)

    @property
    def variance_kind(self) -> Kind:
        """Exact with public labels and `threshold=0`, the delta method otherwise."""
        return "exact" if self.labels == "public" and self.threshold == 0 else "delta"

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> Float[np.ndarray, ""]:
        """The mean squared error for given users.

        Exact with public labels and `threshold=0`, by the delta method otherwise; see the class.

        Args:
          counts: int[2 d], the number of users with each value.
          inputs: None; values are cells.
        """
        table = self._table(check_counts(counts), inputs).astype(np.float64)
        return np.asarray(self._error(table, iid=False))

    def reported_variance(self, outcome: Tree, num_users: int) -> Float[np.ndarray, ""] | None:
        """The mean squared error for users whose trees would be about the estimated ones.

        None where the trees are too large to be held, or for users of one label, of whom the area
        is undefined.
        """
        params = self.built
        if isinstance(params, EvenHierarchicalAUCParams):
            params = params.tree
        if not isinstance(params, HierarchicalAUCParams) or num_users < 2:
            return None
        table = np.asarray(params.plausible_users(outcome))
        sizes = table.sum(axis=1)
        if not np.all(sizes > 0) or (self.split == "even" and sizes.min() < self.height):
            return None
        return np.asarray(self._error(table, iid=False))

    def population_variance(
        self, probabilities: ArrayLike, num_users: int, inputs: Tree = None
    ) -> Float[np.ndarray, ""]:
        """The mean squared error about `population_truth` for independent users.

        Sampling is included; the sizes of the classes are taken to be as expected, and are random
        too with labels that are not public and `threshold=0`. Worth as much as `variance`.

        Args:
          probabilities: float[2 d], of each value.
          num_users: n.
          inputs: None; values are cells.
        """
        n = check_int("num_users", num_users, low=2)
        p = self._table(check_probabilities(probabilities), inputs)
        return np.asarray(self._error(n * p, iid=True))

    def _error(self, table: Float[np.ndarray, "2 d"], iid: bool) -> float:
        """The mean squared error for given users.

        Args:
          table: the users; or the expected numbers of independent ones.
          iid: whether users are independent, and the error is the one about their law.
        """
        tree, reports = ScoreTree.of(table, self.height, self.kernel.tie), self._reports()
        if self.split == "even":
            self._check_groups(tree.sizes)
        if self.threshold != 0:
            return pruned_error(tree, self._count_law(tree.sizes, reports), iid)
        if self.labels == "private":
            return private_variance(tree, reports, iid)
        if self.split == "even":
            groups = np.stack([tree.sizes / self.height] * self.height)  # expected
            return even_variance(
                tree, square_scale(self._bit), groups if iid else self._groups(tree.sizes), iid
            )
        per_user, exclusive = reports.per_node_user, reports.exclusive
        if self.labels == "randomized":
            return randomized_variance(tree, per_user, self.label_variance, exclusive, iid)
        sampling, pairs = sampling_variance(tree) if iid else 0.0, float(np.prod(tree.sizes))
        return unpruned_variance(tree, per_user, exclusive, iid) / pairs**2 + sampling

    def _count_law(self, sizes: Float[np.ndarray, "2"], reports: LevelReports) -> CountLaw:
        """The law of the estimated counts, for classes of these sizes."""
        per_user, n, kappa = reports.per_node_user, sizes.sum(), self.label_variance
        private = self.labels == "private"
        # Of users with a randomized label each is in both classes, with weights w+ + w- = 1.
        users = np.full(2, n) if private else sizes + kappa * n
        return CountLaw(
            per_user[:, None] * users,
            -kappa * n * per_user,
            self.threshold_for(*map(int, sizes)),
            self.discarded == "half",
            reports.exclusive,
            kappa,
            float(reports.per_user[0]) if private else 0.0,
            self.split == "even",
        )

    def worst_case_variance(self, num_users: int, num_positive: int | None = None) -> Prediction:
        """A proven bound on the mean squared error over all data sets; inf where none is known.

        Args:
          num_users: n, at least 2.
          num_positive: the positive users among them; None for any number, of which 1 or n - 1 is
            the worst; with `split="even"` inf, for all levels need a user.
        """
        n = check_int("num_users", num_users, low=2)
        # The bounds are largest where one class has a single user.
        if num_positive is None:
            if self.split == "even":
                return Prediction(math.inf, "bound")
            return Prediction(
                max(self.worst_case_variance(n, 1), self.worst_case_variance(n, n - 1)), "bound"
            )
        positive = check_int("num_positive", num_positive, low=1, high=n - 1)
        if self.labels != "public" and self.threshold != 0:
            return Prediction(math.inf, "bound")
        sizes, tie = np.array([n - positive, positive], np.float64), self.kernel.tie
        if self.labels == "private":
            return Prediction(private_bound(sizes, tie, self._reports()), "bound")
        if self.labels == "randomized":
            noise = self.count_variance, self.label_variance
            return Prediction(randomized_bound(sizes, self.height, tie, *noise), "bound")
        return Prediction(
            worst_pruned_error(sizes, self.height, tie, self._pruning(sizes)), "bound"
        )

    def _check_classes(self, masses: Float[np.ndarray, "2"], num_users: int) -> None:
        per_user = self.count_variance
        expected = masses / masses.sum() * num_users
        self._check_groups(expected)
        if self.labels == "private":  # the noise of both classes is that of all users
            per_user *= num_users / expected.min()
        # Randomized labels add to the counts of either class noise of kappa n users.
        per_user *= 1 + self.label_variance * num_users / expected.min()
        if expected.min() < per_user:
            warnings.warn(
                f"the smaller class has {expected.min():.0f} users, fewer than {per_user:.0f}: "
                "the standard error of its counts is larger than itself, and the estimate is "
                "noise. Use fewer scores, or a larger epsilon.",
                stacklevel=6,
            )


@functools.lru_cache(maxsize=256)
def level_epsilon(epsilon: float, num_levels: int, delta: float, split: str) -> float:
    """The privacy parameter of a report on one level."""
    return epsilon if split in _ONE_LEVEL else split_epsilon(epsilon, num_levels, delta, split)


def square_scale(bit: KRR) -> float:
    """The square of the scale c that decodes a randomized bit."""
    p, q = bit.probabilities()
    return 1 / float(p - q) ** 2


@functools.lru_cache(maxsize=256)
def label_part(epsilon: float, height: int, split: str, delta: float) -> float:
    """The part of epsilon for the label with the least `V (1 + 2 kappa)`, by a golden section.

    That is `c**2 (1 + c'**2) / 2`, with the scales `c = coth(epsilon / 2)` of a bit of the score
    and c' of a label.
    """

    def cost(part: float) -> float:
        score = level_epsilon(epsilon - part, height, delta, split)
        return math.tanh(score / 2) ** -2 * (1 + math.tanh(part / 2) ** -2)

    # 40 steps shrink the bracket by 0.618**40 = 4e-9.
    low, high, ratio = 0.01 * epsilon, 0.99 * epsilon, (math.sqrt(5) - 1) / 2
    for _ in range(40):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, right) if cost(left) < cost(right) else (left, high)
    return (low + high) / 2
