"""Protocols for the area under the ROC curve."""

from jaxdp.pairwise import BilinearAUC, HierarchicalAUC
from tests.contracts.case import Case
from tests.contracts.cases.product_means import FEW

CASES = (
    Case(
        "hierarchical-auc",
        lambda e: HierarchicalAUC(3, e, threshold=0.0),
        counts=(3000, 1000, 2000, 1000, 500, 4000),
        epsilons=(0.5, 1.0, 4.0),
        bad=(
            (lambda: HierarchicalAUC(4, 1.0, split="advanced"), "delta"),
            (lambda: HierarchicalAUC(4, 1.0, delta=0.1), "delta"),
            (lambda: HierarchicalAUC(4, 1.0, label_epsilon=0.5), "label_epsilon"),
            (
                lambda: HierarchicalAUC(4, 1.0, labels="randomized", label_epsilon=1.0),
                "label_epsilon",
            ),
            (lambda: HierarchicalAUC(2**10, 1.0, threshold=0.0, memory=2**16), "memory"),
            (lambda: HierarchicalAUC(4, 1.0, labels="private", split="even"), "labels"),
        ),
    ),
    Case(
        "hierarchical-auc-even",
        lambda e: HierarchicalAUC(3, e, split="even", threshold=0.0),
        counts=(3000, 1000, 2001, 1000, 500, 4000),
        epsilons=(0.5, 1.0, 4.0),
    ),
    Case(
        "hierarchical-auc-budget",
        lambda e: HierarchicalAUC(4, e, split="basic", threshold=0.0, ties="zero"),
        counts=(3000, 1000, 2000, 500, 1000, 500, 4000, 0),
        epsilons=(0.5, 1.0, 4.0),
        variant=True,
    ),
    Case(
        "hierarchical-auc-labels",
        lambda e: HierarchicalAUC(3, e, labels="randomized", threshold=0.0),
        counts=(9000, 3000, 6000, 3000, 1500, 12_000),
        epsilons=(0.5, 1.0, 4.0),
        variant=True,
        unbiased=False,
    ),
    Case(
        "hierarchical-auc-private",
        lambda e: HierarchicalAUC(3, e, labels="private", threshold=0.0),
        counts=(9000, 3000, 6000, 3000, 1500, 12_000),
        epsilons=(0.5, 1.0, 4.0),
        variant=True,
        unbiased=False,
    ),
    Case(
        "hierarchical-auc-pruned",
        lambda e: HierarchicalAUC(3, e),
        counts=(3000, 1000, 2000, 1000, 500, 4000),
        epsilons=(0.5, 1.0, 4.0),
        variant=True,
        unbiased=False,
    ),
    Case(
        "bilinear-auc",
        lambda e: BilinearAUC(3, e),
        counts=(300, 100, 200, 100, 50, 400),
        epsilons=(0.5, 1.0, 4.0),
        floats=True,
    ),
    Case(
        "bilinear-auc-collected",
        lambda e: BilinearAUC(3, e, randomizer=FEW),
        counts=(300, 100, 200, 100, 50, 400),
        epsilons=(0.5, 1.0, 4.0),
        floats=True,
        variant=True,
    ),
    Case(
        "bilinear-auc-private",
        lambda e: BilinearAUC(3, e, labels="private"),
        counts=(900, 300, 600, 300, 150, 1200),
        epsilons=(0.5, 1.0, 4.0),
        floats=True,
        variant=True,
        unbiased=False,
    ),
)
