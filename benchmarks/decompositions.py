"""What a step of γ2 decomposes: a matrix, its Gram matrix, its polar factor, or its two halves.

    python -m benchmarks.decompositions               # all, a minute
    python -m benchmarks.decompositions --only steps  # one section

Prints Markdown tables and writes them, with the machine and the versions, to
benchmarks/results/decompositions/. Times are those of all cores, the least of some calls that take
turns.
"""

import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from jaxdp import factorization, workloads
from jaxdp.factorization._interior import optimal_weights

from ._report import RESULTS, Rows, choose_sections

FOLDER = RESULTS / "decompositions"
TOL = 1e-6
MOST = 3000
RELAXATION = 1.9


def _least(calls: dict[str, Callable], repeats: int) -> dict[str, float]:
    """Milliseconds of the processors in each call."""
    for call in calls.values():
        call()
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.process_time()
            call()
            spent[name].append(1e3 * (time.process_time() - start))
    return {name: min(times) for name, times in spent.items()}


def decompositions() -> Rows:
    """A matrix of normal numbers, its columns of norms 1 to 1e-8: processor milliseconds."""
    rows = []
    with jax.enable_x64(True):
        svd = jax.jit(lambda x: jnp.linalg.svd(x, full_matrices=False))
        gram = jax.jit(lambda x: jnp.linalg.eigh(x.T @ x))
        polar = jax.jit(lambda x: jax.lax.linalg.qdwh(x, is_hermitian=False)[:3])
        for k in (32, 96, 256, 512):
            matrix = np.random.default_rng(k).normal(size=(k, k)) * np.logspace(0, -8, k)
            calls = {
                "SVD": lambda x=matrix: jax.block_until_ready(svd(x)),
                "eigenvectors of the Gram matrix": lambda x=matrix: jax.block_until_ready(gram(x)),
                "polar factor by QDWH": lambda x=matrix: jax.block_until_ready(polar(x)),
            }
            times = _least(calls, 9)
            found = {name: f"{time:.3g}" for name, time in times.items()}
            rows.append({"k": k, **found, "steps of QDWH": int(polar(matrix)[2])})
    return rows


def _reweighted(matrix) -> str:
    """Steps p ← p·(Y/F)^1.9, q ← q·(Z/F)^1.9, which need the polar factor alone."""
    p, q = (np.full(size, 1 / size) for size in matrix.shape)
    gap = np.inf
    for step in range(MOST):
        u, s, vt = np.linalg.svd(np.sqrt(p)[:, None] * matrix * np.sqrt(q), full_matrices=False)
        rows, cols = (u**2 @ s) / p / s.sum(), (vt.T**2 @ s) / q / s.sum()
        gap = np.sqrt(rows.max() * cols.max()) - 1
        if gap <= TOL:
            return f"{step}"
        p, q = p * rows**RELAXATION, q * cols**RELAXATION
        p, q = (np.maximum(weights / weights.sum(), 1e-30) for weights in (p, q))
    return f"above {MOST}, gap {gap:.1e}"


def steps() -> Rows:
    """Decompositions until the gap is 1e-6: Newton's method, and reweighting."""
    matrices = {
        "prefix sums": workloads.prefix(64),
        "normal numbers": np.random.default_rng(0).normal(size=(64, 64)),
        "distances": workloads.lipschitz(64),
        "all ranges of 24": workloads.all_range(24),
        "marginals of order 2 of 6": workloads.marginal(6, 2),
    }
    rows = []
    for name, matrix in matrices.items():
        newton = int(factorization.gamma2(matrix, tol=TOL).num_steps)
        rows.append({"matrix": name, "Newton": newton, "reweighting": _reweighted(matrix)})
    return rows


def halves() -> Rows:
    """Matrices that are the same backwards: processor milliseconds of the best weights."""
    rows = []
    for k in (32, 64, 96, 128, 192, 256):
        matrix = np.random.default_rng(k).normal(size=(k, k))
        matrix = matrix + matrix[::-1, ::-1]
        matrix /= np.abs(matrix).max()
        calls = {
            name: lambda x=matrix, p=parity: optimal_weights(x, TOL, 100, "both", parity=p)
            for name, parity in (("whole", 0), ("in halves", 1))
        }
        times = _least(calls, 9)
        found = {name: f"{time:.3g}" for name, time in times.items()}
        ratio = times["in halves"] / times["whole"]
        rows.append({"k": k, **found, "halves / whole": f"{ratio:.2f}"})
    return rows


SECTIONS = {"decompositions": decompositions, "steps": steps, "halves": halves}


if __name__ == "__main__":
    choose_sections(__doc__, SECTIONS, FOLDER)
