"""Protocols for the area under the ROC curve."""

from jaxdp.pairwise._bilinear_auc import BilinearAUC
from jaxdp.pairwise._hierarchical_auc import HierarchicalAUC
from tests.contracts.case import Case, bad_epsilons

# `density` says that reports are floats; these are no randomizers, so no density is asked for.
CASES = (
    Case(
        "hierarchical-auc",
        lambda e: HierarchicalAUC(3, e, threshold=0.0),
        counts=(3000, 1000, 2000, 1000, 500, 4000),
        epsilons=(0.5, 1.0, 4.0),
        bad=(
            *bad_epsilons(lambda e: HierarchicalAUC(4, e)),
            (lambda: HierarchicalAUC(1, 1.0), "num_scores"),
            (lambda: HierarchicalAUC(2**24 + 1, 1.0), "num_scores"),
            (lambda: HierarchicalAUC(4, 1.0, labels="hidden"), "labels"),
            (lambda: HierarchicalAUC(4, 1.0, split="levels"), "split"),
            (lambda: HierarchicalAUC(4, 1.0, split="advanced"), "delta"),
            (lambda: HierarchicalAUC(4, 1.0, delta=0.1), "delta"),
            (lambda: HierarchicalAUC(4, 1.0, threshold=-1.0), "threshold"),
            (lambda: HierarchicalAUC(4, 1.0, threshold="best"), "threshold"),
            (lambda: HierarchicalAUC(4, 1.0, discarded="none"), "discarded"),
            (lambda: HierarchicalAUC(4, 1.0, ties="one"), "ties"),
        ),
        finite=False,
    ),
    Case(
        "hierarchical-auc-budget",
        lambda e: HierarchicalAUC(4, e, split="basic", threshold=0.0, ties="zero"),
        counts=(3000, 1000, 2000, 500, 1000, 500, 4000, 0),
        epsilons=(0.5, 1.0, 4.0),
        finite=False,
        variant=True,
    ),
    Case(
        "bilinear-auc",
        lambda e: BilinearAUC(3, e),
        counts=(300, 100, 200, 100, 50, 400),
        epsilons=(0.5, 1.0, 4.0),
        bad=(
            *bad_epsilons(lambda e: BilinearAUC(4, e)),
            (lambda: BilinearAUC(1, 1.0), "num_scores"),
            (lambda: BilinearAUC(2**12 + 1, 1.0), "num_scores"),
        ),
        finite=False,
        density=True,
    ),
)
