"""Mechanisms of the central model: what they share with local protocols."""

import numpy as np

from jaxdp import workloads
from jaxdp.central import FactorizationMechanism, Marginals
from tests.contracts.case import Case

W = workloads.prefix(4)[:3]


def _with(**arguments):
    return FactorizationMechanism(**{"workload": W, "epsilon": 1.0, "delta": 1e-6} | arguments)


def _marginals(**arguments):
    return Marginals(**{"num_features": 3, "order": 2, "epsilon": 1.0, "delta": 1e-6} | arguments)


FEATURES = ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (1.0, 1.0, 0.0), (1.0, 1.0, 1.0))

CASES = (
    Case(
        "central-prefix",
        lambda e: FactorizationMechanism(W, e, 1e-6, factorization=(np.eye(3), W)),
        counts=(200, 100, 400, 50),
        bad=(
            (lambda: _with(factorization=np.eye(2)), "factorization"),
            (lambda: _with(factorization=np.ones((1, 4))), "factorization"),
            (lambda: _with(factorization=(W, np.eye(4))), "factorization"),
        ),
    ),
    Case(
        "central-marginals",
        lambda e: Marginals(3, 2, e, 1e-6, method="none"),
        counts=(200, 100, 400, 50),
        values=FEATURES,
        bad=(
            (lambda: _marginals(order=4), "order"),
            (lambda: _marginals(sparsity=4), "sparsity"),
            (lambda: _marginals(method="none", level=2), "level"),
        ),
        variant=True,  # its own tests have the law of the noise
    ),
)
