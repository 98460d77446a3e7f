"""The predicted errors of the hierarchical AUC, whichever way users tell their labels."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from ._hierarchical_auc_labels import randomized_bound, randomized_variance
from ._hierarchical_auc_moments import (
    Pruning,
    Tree,
    data_of,
    pruned_bound,
    sampling_variance,
    unpruned_variance,
    worst_data,
)
from ._hierarchical_auc_private import LevelReports, private_bound, private_variance


@dataclasses.dataclass(frozen=True)
class TreeErrors:
    """What the error depends on besides the users.

    Attributes:
      labels: "public", "private" or "randomized".
      tie: what a tied score counts.
      reports: how users report on levels.
      label_variance: of a randomized label.
      discards: whether nodes are discarded.
      pruning: from the sizes of the classes.
    """

    labels: str
    tie: float
    reports: LevelReports
    label_variance: float
    discards: bool
    pruning: Callable[[np.ndarray], Pruning]

    @property
    def is_predicted(self) -> bool:
        """Whether anything is known of the error."""
        return self.labels == "public" or not self.discards

    def of(self, table: np.ndarray, iid: bool) -> float:
        """The mean squared error for given users, or a bound on it; inf where none is known.

        Args:
          table: float64[2, d], the users; or the expected numbers of independent ones.
          iid: whether users are independent, and the error is that about their law.
        """
        if not self.is_predicted:
            return math.inf
        tree, exclusive = Tree.of(table, self.reports.height, self.tie), self.reports.exclusive
        if self.labels == "private":
            return private_variance(tree, self.reports, iid)
        if self.labels == "randomized":
            noise = self.reports.per_node_user, self.label_variance
            return randomized_variance(tree, *noise, exclusive, iid)
        sampling = sampling_variance(tree) if iid else 0.0
        pairs = float(np.prod(tree.sizes))
        if not self.discards:
            return (
                unpruned_variance(tree, self.reports.per_node_user, exclusive, iid) / pairs**2
                + sampling
            )
        pruning = self.pruning(tree.sizes)
        bound = pruned_bound(data_of(tree, pruning), self.tie, pruning)
        return (math.sqrt(bound) / pairs + math.sqrt(sampling)) ** 2

    def bound(self, sizes: np.ndarray) -> float:
        """A proven bound on it over all users with these sizes of the classes, float64[2]."""
        if not self.is_predicted:
            return math.inf
        if self.labels == "private":
            return private_bound(sizes, self.tie, self.reports)
        if self.labels == "randomized":
            v = float(self.reports.per_node_user.max())
            return randomized_bound(sizes, self.reports.height, self.tie, v, self.label_variance)
        pruning = self.pruning(sizes)
        data = worst_data(sizes, self.reports.height, self.tie, pruning)
        return pruned_bound(data, self.tie, pruning) / float(np.prod(sizes)) ** 2
