"""Mechanisms of the central model: what they share with local protocols."""

import numpy as np

from jaxdp import workloads
from jaxdp.central import FactorizationMechanism, Marginals
from tests.contracts.case import Case, bad_epsilons

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
            *bad_epsilons(lambda e: FactorizationMechanism(W, e, 1e-6)),
            (lambda: _with(delta=0.0), "delta"),
            (lambda: _with(delta=1.0), "delta"),
            (lambda: _with(delta=None), "delta"),
            (lambda: _with(workload=[[1.0, np.nan]]), "workload"),
            (lambda: _with(workload=[1.0, 0.0]), "workload"),
            (lambda: _with(norm="max"), "norm"),
            (lambda: _with(adjacency="swap"), "adjacency"),
            (lambda: _with(alpha=-0.1), "alpha"),
            (lambda: _with(factorization=np.eye(2)), "factorization"),
            (lambda: _with(factorization=np.ones((1, 4))), "factorization"),
            (lambda: _with(factorization=(W.T, W, W)), "factorization"),
            (lambda: _with(factorization=(W, np.eye(4))), "factorization"),
            (lambda: _with(factorization=np.full((4, 4), np.inf)), "factorization"),
        ),
        finite=False,
    ),
    Case(
        "central-marginals",
        lambda e: Marginals(3, 2, e, 1e-6, method="none"),
        counts=(200, 100, 400, 50),
        values=FEATURES,
        bad=(
            *bad_epsilons(lambda e: _marginals(epsilon=e)),
            (lambda: _marginals(num_features=0), "num_features"),
            (lambda: _marginals(order=4), "order"),
            (lambda: _marginals(delta=0.0), "delta"),
            (lambda: _marginals(sparsity=4), "sparsity"),
            (lambda: _marginals(queries="both"), "queries"),
            (lambda: _marginals(noise="both"), "noise"),
            (lambda: _marginals(method="exact"), "method"),
            (lambda: _marginals(method="none", level=2), "level"),
            (lambda: _marginals(tol=0.0), "tol"),
            (lambda: _marginals(max_steps=0), "max_steps"),
        ),
        finite=False,
        variant=True,  # its own tests have the law of the noise
    ),
)
