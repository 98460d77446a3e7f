"""Protocols for the area under the ROC curve alone."""

from ._bilinear_auc import BilinearAUC as BilinearAUC
from ._hierarchical_auc import HierarchicalAUC as HierarchicalAUC
from ._hierarchical_auc_round import threshold_of as threshold_of
from ._tree_errors import Pruning as Pruning
from ._tree_errors import worst_pruned_error as worst_pruned_error
