"""Projections onto the matrices of cosine similarities: accuracy, gaps and times.

    python -m benchmarks.perturb                # all sections, a few minutes
    python -m benchmarks.perturb --only conic   # one section
    python -m benchmarks.perturb --items 4096   # the section "large" for one size

Prints Markdown tables and writes them, with the machine and the versions, to
benchmarks/results/perturb/. Sections that are not run keep their last results. "conic" needs cvxpy.
"""

import argparse
import time
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdp.central._cosine_set import CosineSet

from ._report import RESULTS, Rows, rows_table, run_sections
from ._timing import timed

FOLDER = RESULTS / "perturb"
DIMENSION = 50  # of the vectors
LARGE = (256, 1024)


def noisy_similarities(n: int, sigma: float) -> np.ndarray:
    """The similarities of random vectors with noise, as a curator would project them."""
    rng = np.random.default_rng(n)
    v = rng.standard_normal((n, DIMENSION))
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    z = rng.standard_normal((n, n))
    return v @ v.T + sigma * (z + z.T) / 2


def conic(sizes: tuple[int, ...] = (16, 64)) -> Rows:
    """The exact projection, float64, against conic solvers of cvxpy on the same matrices."""
    import cvxpy as cp

    solvers = {
        "SCS": {"solver": cp.SCS, "eps": 1e-9, "max_iters": 100_000},
        "Clarabel": {"solver": cp.CLARABEL} | dict.fromkeys(("tol_gap_abs", "tol_gap_rel"), 1e-12),
    }
    rows = []
    for n in sizes:
        for diagonal in ("one", "at_most_one"):
            for sigma in (0.1, 1.0):
                x = noisy_similarities(n, sigma)
                point, row = _ours(x, diagonal, sigma, repeats=5)
                for name, options in solvers.items():
                    variable = cp.Variable((n, n), PSD=True)
                    short = cp.diag(variable) == 1 if diagonal == "one" else cp.diag(variable) <= 1
                    problem = cp.Problem(cp.Minimize(cp.sum_squares(variable - x)), [short])
                    problem.get_problem_data(options["solver"])  # its compilation is not counted
                    start = time.perf_counter()
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")  # that it stopped short of its tolerance
                        problem.solve(**options)
                    seconds = time.perf_counter() - start
                    assert variable.value is not None
                    away = np.linalg.norm(variable.value - point) / np.linalg.norm(point)
                    row[f"distance from {name}"] = f"{away:.1e}"
                    row[f"{name} / ours"] = f"{seconds / float(row['seconds']):.0f}"
                rows.append(row)
    return rows


def large(sizes: tuple[int, ...] = LARGE) -> Rows:
    """The exact projection, float64, of large matrices, to a relative distance of 1e-6."""
    return [
        _ours(noisy_similarities(n, sigma), "one", sigma, repeats=1)[1]
        for n in sizes
        for sigma in (0.1, 1.0)
    ]


SECTIONS = {"conic": conic, "large": large}


def _ours(
    x: np.ndarray, diagonal: Any, sigma: float, repeats: int
) -> tuple[np.ndarray, dict[str, Any]]:
    """The projection, and its row: the least wall time of `repeats` calls after a first one."""
    with jax.enable_x64(True):
        project, matrix = CosineSet(len(x), diagonal).project, jnp.asarray(x)
        found, seconds, busy = timed(
            lambda: project(matrix), repeats, first=lambda: project(matrix, max_steps=1)
        )
    point = np.asarray(found.point)
    return point, {
        "n": len(x),
        "diagonal": diagonal,
        "noise": sigma,
        "gap / |point|²": f"{float(found.gap) / np.sum(point**2):.1e}",
        "steps": int(found.num_steps),
        "seconds": f"{seconds:.3g}",
        "processor seconds": f"{busy:.3g}",
    }


def main() -> None:
    """Runs the chosen sections and keeps earlier results of the others."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=list(SECTIONS), help="one section")
    parser.add_argument("--items", type=int, help="n of the section large, which alone is run")
    options = parser.parse_args()
    if options.items is not None:
        print(rows_table(large((options.items,))), flush=True)
        return
    run_sections(SECTIONS, [options.only] if options.only else SECTIONS, FOLDER)


if __name__ == "__main__":
    main()
