"""Projections: times and certified gaps, side by side with optax and cvxpy.

    python -m benchmarks.projections                   # all sections, a few minutes
    python -m benchmarks.projections --only polytope   # one section

Prints Markdown tables and writes them, with the machine and the versions, to
benchmarks/results/projections/. Sections that are not run keep their last results. Needs cvxpy for
its rows; without it our own numbers are still printed.
"""

import argparse
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdp import projections

from ._report import RESULTS, Rows, run_sections
from ._timing import interleave, timed

FOLDER = RESULTS / "projections"
ROWS, COLUMNS, POINTS = 256, 4096, 1000  # of the polytope's matrix, and how many are projected
TOL = 1e-6


def polytope() -> Rows:
    """A batch of points onto A·B₁ and A·Simplex, A of 256 × 4096, to gap ≤ 1e-6·‖y‖²."""
    rng = np.random.default_rng(0)
    normal = rng.standard_normal((ROWS, COLUMNS)).astype(np.float32)
    prefix = np.tril(np.ones((ROWS, ROWS), np.float32)).repeat(COLUMNS // ROWS, axis=1)
    histograms = rng.dirichlet(np.full(COLUMNS, 0.01), POINTS).astype(np.float32)
    rows = []
    for name, a, scale in (
        ("normal, noise 1", normal, 1.0),
        ("normal, noise 0.1", normal, 0.1),
        ("prefix sums, noise 1", prefix, 1.0),
    ):
        noise = scale * rng.standard_normal((POINTS, ROWS)).astype(np.float32)
        y, a = jnp.asarray(histograms @ a.T + noise), jnp.asarray(a)
        for project in (projections.symmetric_polytope, projections.hull):
            found, seconds, _ = timed(lambda p=project, y=y, a=a: p(y, a, tol=TOL))
            rows.append(
                {
                    "set": f"{project.__name__}, {name}",
                    "points": POINTS,
                    "largest gap / ‖y‖²": _worst(found.gap, y),
                    "steps, mean": f"{float(jnp.mean(found.num_steps)):.0f}",
                    "steps, most": int(jnp.max(found.num_steps)),
                    "seconds": f"{seconds:.3g}",
                    "seconds a point": f"{seconds / POINTS:.2g}",
                    "cvxpy / ours, a point": _against_cvxpy(project, y, a, seconds / POINTS),
                }
            )
    return rows


def _worst(gap, y) -> str:
    return f"{float(jnp.max(gap / jnp.sum(y**2, axis=1))):.1e}"


def _against_cvxpy(project, y, a, ours: float) -> str:
    """How many times longer cvxpy takes for one point, its problem compiled beforehand."""
    try:
        import cvxpy as cp
    except ImportError:
        return ""
    weights, target = cp.Variable(a.shape[1]), cp.Parameter(a.shape[0])
    hull = [weights >= 0, cp.sum(weights) == 1]
    constraints: list[Any] = hull if project is projections.hull else [cp.norm1(weights) <= 1]
    residual = cp.Variable(a.shape[0])
    constraints.append(residual == np.asarray(a, np.float64) @ weights - target)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(residual)), constraints)
    seconds = []
    for row in np.asarray(y[:2], np.float64):
        target.value = row
        start = time.perf_counter()
        problem.solve(solver=cp.CLARABEL)
        seconds.append(time.perf_counter() - start)
    return f"{seconds[-1] / ours:.0f}"  # the first one holds the compilation of the problem


def correlation() -> Rows:
    """The nearest correlation matrix, float64."""
    rng = np.random.default_rng(0)
    rows = []
    with jax.enable_x64(True):
        for n, noise in ((64, 1.0), (256, 1.0), (1024, 0.1), (1024, 1.0)):
            unit = rng.standard_normal((n, n))
            unit /= np.linalg.norm(unit, axis=1, keepdims=True)
            x = unit @ unit.T + noise * rng.standard_normal((n, n))
            found, seconds, _ = timed(lambda x=x: projections.correlation(x))
            rows.append(
                {
                    "n": n,
                    "noise": noise,
                    "gap / ‖point‖²": f"{float(found.gap / jnp.sum(found.point**2)):.1e}",
                    "steps": int(found.num_steps),
                    "seconds": f"{seconds:.3g}",
                    **(_conic_correlation(x, found.point, seconds) if n <= 64 else {}),
                }
            )
    return rows


def _conic_correlation(x, point, ours: float) -> dict[str, str]:
    try:
        import cvxpy as cp
    except ImportError:
        return {}
    variable = cp.Variable(x.shape, PSD=True)
    objective = cp.Minimize(cp.sum_squares(variable - (x + x.T) / 2))
    problem = cp.Problem(objective, [cp.diag(variable) == 1])
    start = time.perf_counter()
    problem.solve(solver=cp.SCS, eps=1e-9, max_iters=100_000)
    seconds = time.perf_counter() - start
    distance = np.linalg.norm(variable.value - point) / np.linalg.norm(point)
    return {"relative distance from SCS": f"{distance:.1e}", "SCS / ours": f"{seconds / ours:.0f}"}


def simplex() -> Rows:
    """The simplex, float32, interleaved with optax (one call a row, by vmap)."""
    import optax

    rng = np.random.default_rng(0)
    theirs = jax.jit(jax.vmap(optax.projections.projection_simplex))
    rows = []
    for shape in ((1, 2**20), (1000, 4096), (2**16, 16)):
        x = jnp.asarray(rng.standard_normal(shape), jnp.float32)
        calls = {
            "jaxdp": lambda x=x: projections.simplex(x).block_until_ready(),
            "optax": lambda x=x: theirs(x).block_until_ready(),
        }
        times = {name: found["median"] for name, found in interleave(calls, 5).items()}
        rows.append(
            {
                "shape": "×".join(map(str, shape)),
                "ours (ms)": f"{1e3 * times['jaxdp']:.3g}",
                "optax (ms)": f"{1e3 * times['optax']:.3g}",
                "optax / ours": f"{times['optax'] / times['jaxdp']:.1f}",
            }
        )
    return rows


SECTIONS = {"polytope": polytope, "correlation": correlation, "simplex": simplex}


def main() -> None:
    """Runs the chosen sections and keeps earlier results of the others."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=list(SECTIONS), help="one section")
    options = parser.parse_args()
    run_sections(SECTIONS, [options.only] if options.only else SECTIONS, FOLDER)


if __name__ == "__main__":
    main()
