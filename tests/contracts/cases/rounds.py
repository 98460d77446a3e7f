"""Protocols of several rounds for pairwise statistics."""

import numpy as np

from jaxdp.pairwise import GiniDiversity
from jaxdp.pairwise._one_step import OneStep
from jaxdp.pairwise._three_round import ThreeRound
from jaxdp.pairwise._two_round import TwoRound
from tests.contracts.case import Case, bad_epsilons

MATRIX = np.array([[0.3, 1.0, -0.4], [1.0, 0.0, 0.6], [-0.4, 0.6, 0.9]])
COUNTS = (450, 200, 350)

CASES = (
    Case(
        "one-step",
        lambda e: OneStep(MATRIX, e, tau=3.0),
        counts=COUNTS,
        bad=(
            *bad_epsilons(lambda e: OneStep(MATRIX, e)),
            (lambda: OneStep(MATRIX, 1.0, form="w"), "form"),  # pyright: ignore
            (lambda: OneStep(MATRIX, 1.0, share=0.0), "share"),
            (lambda: OneStep(MATRIX, 1.0, scalar="gauss"), "scalar"),
        ),
        finite=False,
        density=True,
    ),
    Case(
        "two-round",
        lambda e: TwoRound(MATRIX, e, tau=2.0),
        counts=COUNTS,
        bad=(
            *bad_epsilons(lambda e: TwoRound(MATRIX, e)),
            (lambda: TwoRound(MATRIX, 1.0, sharing="none"), "sharing"),
            (lambda: TwoRound(MATRIX, 1.0, share=1.0), "share"),
            (lambda: TwoRound(GiniDiversity(), 1.0), "num_values"),
        ),
        finite=False,
        density=True,
    ),
    Case(
        "two-round-budget",
        lambda e: TwoRound(MATRIX, e, tau=4.0, sharing="budget", scalar="laplace", form="v"),
        counts=COUNTS,
        finite=False,
        density=True,
        variant=True,
    ),
    Case(
        "three-round",
        lambda e: ThreeRound(MATRIX, e, form="v", variant="paper"),
        counts=COUNTS,
        bad=(
            *bad_epsilons(lambda e: ThreeRound(MATRIX, e)),
            (lambda: ThreeRound(MATRIX, 1.0, form="u", variant="paper"), "form"),
            (lambda: ThreeRound(MATRIX, 1.0, shares=(0.2, 0.2, 0.2)), "shares"),
        ),
        finite=False,
        density=True,
    ),
    Case(
        "three-round-tuned",
        lambda e: ThreeRound(MATRIX, e, tau=3.0),
        counts=COUNTS,
        finite=False,
        density=True,
        variant=True,
    ),
)
