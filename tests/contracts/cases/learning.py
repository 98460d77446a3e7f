"""Learners: protocols whose estimate is the losses of all concepts."""

import numpy as np

from jaxdp import workloads
from jaxdp.learning import AgnosticLearner, RandomConcept
from jaxdp.randomizers import Gaussian
from tests.contracts.case import Case

CONCEPTS = workloads.thresholds(3)
SIGNS = np.array([[1.0, 1.0], [1.0, -1.0]])
COUNTS = (300, 20, 90, 10, 250, 150)

CASES = (
    Case(
        "random-concept",
        lambda e: RandomConcept(CONCEPTS, e),
        counts=COUNTS,
        bad=((lambda: RandomConcept(CONCEPTS, 30.0), "epsilon"),),
        variant=True,
    ),
    Case(
        "agnostic-learner",
        lambda e: AgnosticLearner(CONCEPTS, e, factorization=(np.eye(len(CONCEPTS)), CONCEPTS)),
        counts=COUNTS,
        bad=(
            (lambda: AgnosticLearner(CONCEPTS, 1.0, num_users=0), "num_users"),
            (lambda: AgnosticLearner(CONCEPTS, 1.0, num_users=9, tolerance=0.1), "tolerance"),
            (lambda: AgnosticLearner(CONCEPTS, 1.0, factorization=(np.eye(3),) * 2), "factoriz"),
            (lambda: AgnosticLearner(SIGNS, 1.0, factorization=(np.eye(2),) * 2), "tolerance"),
            (lambda: AgnosticLearner(CONCEPTS, 1.0, randomizer=Gaussian), "delta.*partial"),
        ),
        floats=True,  # reports are floats
        variant=True,
    ),
)
