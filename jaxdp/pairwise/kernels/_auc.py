"""The area under the ROC curve."""

from typing import Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..._checks import By, Choice, Optional
from ..._contract import field, spec
from ..._spec import check_int
from ._exact import Form, exact_dot, group_counts
from ._grid import AnyGrid, bin_indices
from ._kernel import Function, Kernel, Link, identity


def _sizes(name: str, value: object) -> tuple[int, ...]:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise TypeError(f"{name} must be a pair (negatives, positives), got {value!r}.")
    return tuple(check_int(name, size, low=1) for size in value)


@spec
class AUC(Kernel):
    """The area under the ROC curve: how often a positive user's score is above a negative one's.

    A user's value is (label, score), both private: the first coordinate is 0 or 1, so a table has
    the negative users in row 0 and the positive ones in row 1. The kernel f is 1 for a pair of
    users of different labels whose scores are in the order of their labels, and 0 for other pairs;
    a tied score counts 1/2, or 0.

    * By plug-in (default): the mean of f over pairs divided by the share of pairs whose labels
      differ, both estimated. It is consistent, not unbiased, and its predicted variance is that of
      its linearisation (delta method). An estimated share below 2/n, the least of n users that do
      not all agree, is raised to it.
    * With public `class_sizes` the divisor is known, `n+ n-` pairs: the statistic is the
      U-statistic of f times `n (n - 1) / (2 n+ n-)`, and its estimate is unbiased. (With
      `form="v"` it is that of the V-statistic, `(n - 1) / n` times the area.)

    Protocols raise ValueError for a Population of one class, and warn, with the number, where the
    error that they predict for the classes at hand is above that of answering 1/2.

    On a grid, the labels' axis is `Grid(edges=(0.5,))`, and scores in one bin count 1/2.

    Reference values are exact: integers throughout, one division at the end; O(n log n).

    Args:
      ties: "half" or "zero", what a tied score counts.
      class_sizes: public (number of negatives, number of positives), or None.

    Raises:
      ValueError: an option is unknown, or a class is empty.
      TypeError: a class size is not an integer.

    Example:
      >>> from jaxdp.pairwise import AUC
      >>> AUC().of_counts([[3, 1], [1, 2]])  # labels x scores
      0.7083333333333334

    References:
      Bell, Bellet, Gascón, Kulkarni (2020), equation (7).
    """

    ties: Literal["half", "zero"] = field(Choice("half", "zero"), default="half")
    class_sizes: tuple[int, int] | None = field(
        Optional(By(_sizes, ((0, 3), 3, (1.5, 3)))), default=None
    )

    dim = 2
    has_labels = True

    @property
    def tie(self) -> float:
        """Weight of a tie, 1/2 or 0."""
        return 0.5 if self.ties == "half" else 0.0

    @property
    def _scale(self) -> float:
        if self.class_sizes is None:
            return 1.0
        negatives, positives = self.class_sizes
        n = negatives + positives
        return n * (n - 1) / (2 * negatives * positives)  # ordered pairs, by those that count

    def __call__(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The kernel of (label, score) on the last axis, scaled where `class_sizes` are public."""
        return self._ordered(x[..., 0] - y[..., 0], x[..., 1] - y[..., 1], self.tie)

    def _ordered(self, label: np.ndarray, score: np.ndarray, tie: float) -> np.ndarray:
        agree = np.where(score == 0, tie, (np.sign(score) == np.sign(label)).astype(np.float64))
        return self._scale * np.where(label == 0, 0.0, agree)

    @property
    def functions(self) -> tuple[Function, ...]:
        """The kernel; by plug-in also that of different labels."""
        return (self,) if self.class_sizes else (self, _labels_differ)

    @property
    def link(self) -> Link:
        """The mean itself, or by plug-in its ratio to the share of pairs with different labels."""
        return identity if self.class_sizes else auc_ratio

    def _of_table(self, counts: Int[np.ndarray, "2 d"], form: Form) -> float:
        negatives, positives = counts
        sizes = int(negatives.sum()), int(positives.sum())
        if 0 in sizes:
            raise ValueError("counts must hold users of both labels: the area is undefined.")
        if self.class_sizes not in (None, sizes):
            raise ValueError(
                f"class_sizes is {self.class_sizes}, but the users at hand are {sizes}; correct "
                "it, or leave it out."
            )
        below = np.cumsum(negatives) - negatives
        doubled = 2 * exact_dot(positives, below)  # twice equation (7), an integer
        if self.ties == "half":
            doubled += exact_dot(positives, negatives)
        pairs = 2 * sizes[0] * sizes[1]
        if self.class_sizes and form == "v":
            # A user with itself counts 0, so that the V-form is (n - 1) / n of the U-form.
            return doubled * (sum(sizes) - 1) / (pairs * sum(sizes))
        return doubled / pairs

    def _of_points(
        self, points: Float[np.ndarray, "m 2"], counts: Int[np.ndarray, " m"], form: Form
    ) -> float:
        labels = points[:, 0]
        if not np.all((labels == 0) | (labels == 1)):
            raise ValueError(
                "values must hold labels 0 or 1 in their first coordinate, got "
                f"{labels[(labels != 0) & (labels != 1)][0]:g}."
            )
        # Ranks instead of scores: a table with a column for each score that occurs
        _, rank = np.unique(points[:, 1], return_inverse=True)
        width = int(rank.max()) + 1
        cells = labels.astype(np.int64) * width + rank.ravel()
        return self._of_table(group_counts(cells, counts, 2 * width).reshape(2, width), form)

    def extremes(self, grid: AnyGrid) -> tuple[Float[np.ndarray, "k k"], Float[np.ndarray, "k k"]]:
        """The least and the largest f on each pair of bins: scores in one bin may be in any order.

        Exact.
        """
        label, score = (index[:, None] - index for index in bin_indices(grid.shape).T)
        return self._ordered(label, score, 0.0), self._ordered(label, score, 1.0)

    def average(self, grid: AnyGrid) -> Float[np.ndarray, "k k"]:
        """The midpoint: scores in one bin count 1/2."""
        return self._midpoint(grid)

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        Kernel._check_shape(self, shape)
        if shape[0] != 2:
            raise ValueError(
                f"the domain of an AUC must have shape (2, scores), labels first, got {shape}; on "
                "a grid the first axis is Grid(edges=(0.5,))."
            )


def auc_ratio(u: Float[Array, "*batch 2"], num_users: Float[Array, ""]) -> Float[Array, "*batch"]:
    """u_0 / u_1, with the share u_1 of pairs with different labels at least 2 / n."""
    return u[..., 0] / jnp.maximum(u[..., 1], 2 / num_users)


def _labels_differ(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x[..., 0] != y[..., 0]
