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


def extreme(m: int, k: int) -> np.ndarray:
    """112 matrices of 16 families, each with what makes solvers lose digits."""
    found = []
    for seed in range(7):
        rng = np.random.default_rng(seed)
        normal, side = rng.normal(size=(m, k)), max(m, k)
        sizes = 10.0 ** rng.uniform(-9, 9, side)
        powers = np.linspace(0.1, 1, m) * rng.uniform(0.5, 2, m)
        split = rng.integers(1, side) if side > 1 else 0
        blocks = normal * 1e-4
        blocks[:split, split:] = blocks[split:, :split] = 0.0
        blocks[:split, :split] *= 1e4
        found += [
            normal * 10.0 ** rng.uniform(-9, 9),  # scaled
            normal * 1e-310,  # denormal
            rng.normal(size=(m, 2)) @ rng.normal(size=(2, k)),  # rank deficient
            normal[rng.integers(0, max(m // 2, 1), m)],  # duplicate rows
            normal * (np.arange(m) != seed % m)[:, None],  # a zero row
            2.0 * rng.integers(0, 2, (m, k)) - 1,  # signs
            np.linalg.qr(normal)[0] if m >= k else np.linalg.qr(normal.T)[0].T,  # orthogonal
            np.vander(powers, k),  # Vandermonde
            blocks,  # scaled blocks
            normal + 10.0 ** rng.uniform(3, 10),  # a common offset
            np.eye(m, k)
            * 10.0 ** -np.linspace(0, 9, k)
            * rng.permutation([-1.0, 1] * k)[:k],  # graded
            normal * 10.0 ** rng.uniform(-6, 0, (m, k)),  # entries of all sizes
            sizes[:m, None] * normal,  # rows of all sizes
            normal * sizes[None, :k],  # columns of all sizes
            np.round(3 * rng.standard_t(2, (m, k))),  # integers
            np.outer(np.arange(m) == m // 6, np.arange(k) == k // 4) * rng.normal(),  # one entry
        ]
    return np.stack(found)


EXTREME = extreme(8, 8)
SHAPES = (8, 8), (1, 1), (1, 7), (7, 1), (4, 9), (9, 4)


def _moderate(n: int) -> dict[str, np.ndarray]:
    """Matrices that look easy, and took a splitting method thousands of steps."""
    rng = np.random.default_rng(0)
    places = np.arange(n)
    return {
        "entries of all sizes": rng.normal(size=(n, n)) * 10.0 ** -rng.uniform(0, 6, (n, n)),
        "vandermonde": np.vander(np.linspace(0.1, 1, n), n),
        "roots of distances": np.sqrt(np.abs(np.subtract.outer(places, places))),
    }


MODERATE = _moderate(32)
