"""Projections: times and certified gaps, side by side with optax and cvxpy.

    python -m benchmarks.projections                   # all sections, five minutes
    python -m benchmarks.projections --only polytope   # one section

Prints Markdown tables and writes them, with the machine and the versions, to
benchmarks/results/projections/. Sections that are not run keep their last results. Needs cvxpy for
its rows; without it our own numbers are still printed.
"""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdp import projections

from ._report import RESULTS, Rows, choose_sections
from ._timing import interleave, timed

FOLDER = RESULTS / "projections"
ROWS, COLUMNS, POINTS = 256, 4096, 1000  # of the polytope's matrix, and how many are projected
TOL = 1e-6
MANY = (1000, 32, 32)


def polytope() -> Rows:
    """A batch of points onto A·B₁ and A·Simplex, A of 256 × 4096, to gap ≤ 1e-6·‖y‖²."""
    rows = []
    for matrix, scale in (("normal", 1.0), ("normal", 0.1), ("prefix sums", 1.0)):
        name = f"{matrix}, noise {scale:g}"
        y, a = polytope_problem(matrix, scale, POINTS, ROWS, COLUMNS)
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


def polytope_problem(
    matrix: str, noise: float, points: int, rows: int, columns: int
) -> tuple[jax.Array, jax.Array]:
    """Noisy answers of random histograms, and the queries.

    Args:
      matrix: of the queries, "normal" or "prefix sums".
      noise: standard deviation of the noise.
      points: how many answers.
      rows: queries of each.
      columns: bins of a histogram, a multiple of `rows`.

    Returns:
      float32[points, rows], the answers, and float32[rows, columns].
    """
    rng = np.random.default_rng(0)
    a = rng.standard_normal((rows, columns)).astype(np.float32)
    if matrix == "prefix sums":
        a = np.tril(np.ones((rows, rows), np.float32)).repeat(columns // rows, axis=1)
    histograms = rng.dirichlet(np.full(columns, 0.01), points).astype(np.float32)
    y = histograms @ a.T + np.float32(noise) * rng.standard_normal((points, rows), np.float32)
    return jnp.asarray(y), jnp.asarray(a)


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
    rows = []
    with jax.enable_x64(True):
        for n, noise in ((64, 1.0), (256, 1.0), (1024, 0.1), (1024, 1.0)):
            x = noisy_similarities(n, noise)
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


def batched() -> Rows:
    """1,000 matrices of 32 × 32, normally distributed, in one call; float32."""
    x = np.random.default_rng(0).standard_normal(MANY).astype(np.float32)
    both = (projections.psd, lambda x: projections.box(x, -1.0, 1.0))
    sets: dict[str, Callable[..., Any]] = {
        "psd": projections.psd,
        "spectraplex": projections.spectraplex,
        "nuclear_ball": projections.nuclear_ball,
        "column_norm_ball": projections.column_norm_ball,
        "simplex": projections.simplex,
        "l1_ball": projections.l1_ball,
        "bounded_diagonal": projections.bounded_diagonal,
        "correlation": projections.correlation,
        "dykstra, of psd and box": jax.vmap(lambda x: projections.dykstra(x, both, tol=1e-4)),
    }
    rows = []
    for name, project in sets.items():
        call = jax.jit(project)
        start = time.perf_counter()
        jax.block_until_ready(call(x))
        first = time.perf_counter() - start
        found, seconds, _ = timed(lambda call=call: call(x), repeats=3, first=lambda: None)
        row = {"set": name, "first (s)": f"{first:.3g}", "then (ms)": f"{1e3 * seconds:.3g}"}
        if not isinstance(found, jax.Array):
            row |= {"converged": int(jnp.sum(found.converged)), "steps": int(found.num_steps.max())}
        rows.append(row)
    return rows


def noisy_similarities(n: int, noise: float) -> np.ndarray:
    """Products of n random unit vectors, and normal noise; float64[n, n]."""
    rng = np.random.default_rng(0)
    unit = rng.standard_normal((n, n))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    return unit @ unit.T + noise * rng.standard_normal((n, n))


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


SECTIONS = {
    "polytope": polytope,
    "correlation": correlation,
    "batched": batched,
    "simplex": simplex,
}


def main() -> None:
    """Runs the chosen sections and keeps earlier results of the others."""
    choose_sections(__doc__, SECTIONS, FOLDER)


if __name__ == "__main__":
    main()
