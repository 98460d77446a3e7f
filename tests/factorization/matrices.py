"""Small matrices on which the solvers are compared with references."""

import numpy as np

from jaxdp import workloads


def _random(shape, seed):
    rng = np.random.default_rng(seed)
    m, k = shape
    spread = np.exp(rng.normal(size=m)[:, None] + rng.normal(size=k))
    repeated = rng.normal(size=shape)[rng.integers(0, max(m // 2, 1), m)]
    sparse = rng.normal(size=shape) * (rng.random(shape) < 0.4)
    sparse[0] = 0.0
    return [
        rng.normal(size=shape),
        rng.random(shape),
        2.0 * rng.integers(0, 2, shape) - 1,
        1.0 * rng.integers(0, 2, shape),
        np.outer(rng.normal(size=m), rng.normal(size=k)),
        rng.normal(size=(m, 2)) @ rng.normal(size=(2, k)),
        rng.normal(size=shape) * spread,
        repeated,
        sparse,
        np.round(2 * rng.standard_t(3, shape)),
    ]


SQUARE = [
    workloads.prefix(6),
    workloads.identity(6),
    workloads.sign(6),
    workloads.sign(6, ties="plus"),
    workloads.lipschitz(6),
    workloads.lipschitz(6, np.sqrt),
    workloads.kendall(2, 3),
    workloads.auc(3),
    workloads.gini_diversity(6),
    workloads.thresholds(6),
    workloads.width_range(11, 6)[:, :6],
    np.ones((6, 6)),
    *_random((6, 6), 1),
]
TALL = [workloads.all_range(4), *_random((10, 4), 2)]
WIDE = [workloads.parity(3, 1), workloads.marginal(3, 3)[:4], *_random((4, 8), 3)]

STACKS = {name: np.stack(s) for name, s in dict(square=SQUARE, tall=TALL, wide=WIDE).items()}
