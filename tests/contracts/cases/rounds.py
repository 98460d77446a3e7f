"""Protocols of several rounds for pairwise statistics."""

import numpy as np

from jaxdp.pairwise import AUC, GiniDiversity, OneStep, ThreeRound, TwoRound
from tests.contracts.case import Case

MATRIX = np.array([[0.3, 1.0, -0.4], [1.0, 0.0, 0.6], [-0.4, 0.6, 0.9]])
COUNTS = (450, 200, 350)

CASES = (
    Case(
        "one-step",
        lambda e: OneStep(MATRIX, e, tau=3.0),
        counts=COUNTS,
        floats=True,
        exact=True,
    ),
    Case(
        "two-round",
        lambda e: TwoRound(MATRIX, e, tau=2.0),
        counts=COUNTS,
        bad=(
            (lambda: TwoRound(GiniDiversity(), 1.0), "num_values"),
            (lambda: TwoRound(AUC(), 1.0, (2, 2), tau=1.0), "tau"),
        ),
        floats=True,
        exact=True,
    ),
    Case(
        "two-round-budget",
        lambda e: TwoRound(MATRIX, e, tau=4.0, sharing="budget", scalar="laplace", form="v"),
        counts=COUNTS,
        floats=True,
        exact=True,
        variant=True,
    ),
    Case(
        "three-round",
        lambda e: ThreeRound(MATRIX, e, form="v", variant="paper"),
        counts=COUNTS,
        bad=(
            (lambda: ThreeRound(MATRIX, 1.0, form="u", variant="paper"), "form"),
            (lambda: ThreeRound(AUC(), 1.0, (2, 2), form="v", variant="paper"), "variant"),
        ),
        floats=True,
        exact=True,
    ),
    Case(
        "three-round-tuned",
        lambda e: ThreeRound(MATRIX, e, tau=3.0),
        counts=COUNTS,
        floats=True,
        exact=True,
        variant=True,
    ),
    *(
        Case(
            f"{name}-plug-in",
            lambda e, protocol=protocol: protocol(AUC(), e, (2, 2)),
            counts=(25_000, 15_000, 20_000, 40_000),
            epsilons=(1.0, 4.0),
            floats=True,
            unbiased=False,
            variant=True,
        )
        for name, protocol in (
            ("one-step", OneStep),
            ("two-round", TwoRound),
            ("three-round", ThreeRound),
        )
    ),
)
