"""Factorization norms: certified gaps and times, side by side with cvxpy and jax-privacy.

    python -m benchmarks.factorization                # all but the largest sizes, five minutes
    python -m benchmarks.factorization --large        # also size 4096, about an hour
    python -m benchmarks.factorization --only gamma2  # one section
    python -m benchmarks.factorization --jax-privacy-python venv/bin/python

Prints Markdown tables and writes them, with the machine and the versions, to
benchmarks/results/factorization/. Sections that are not run keep their last results. Needs cvxpy
for the first section and jax-privacy for the third, here or in another environment whose Python is
given (the two may need different versions of jax); without them our own numbers are still printed.
"first" includes compilation, where there is any; "processor" is the time of all cores in the first
call, which other programs on the machine disturb less.
"""

import argparse
import functools
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

from jaxdp import factorization, workloads

from ._report import RESULTS, Rows, run_sections

FOLDER = RESULTS / "factorization"
LARGE_STEPS = 300
MANY = (1000, 32, 32)


def timed(function, *arguments, repeats=0, **options):
    """The last result, and the times of the first call and of the fastest of `repeats` more."""

    def call():
        start = time.perf_counter()
        return function(*arguments, **options), time.perf_counter() - start

    processor = time.process_time()
    result, first = call()
    spent = time.process_time() - processor
    seconds = [first]
    for _ in range(repeats):
        result, again = call()
        seconds.append(again)
    times = {"first (s)": f"{seconds[0]:.3g}", "processor (s)": f"{spent:.3g}"}
    return result, times | ({"then (s)": f"{min(seconds[1:]):.3g}"} if repeats else {})


def row(problem, matrix, result, times):
    """One line of a table; the gap is the one `certify` finds, of a stack the largest."""
    gap = float(np.max(factorization.certify(matrix, result).gap))
    print(f"{problem}: gap {gap:.1e}, {times}", flush=True)
    bounds = {}
    if matrix.ndim == 2:
        bounds = {
            "lower": f"{float(result.lower):.7g}",
            "upper": f"{float(result.upper):.7g}",
            "alpha": f"{float(result.alpha):.3g}",
            "rank": result.rank,
        }
    return {
        "problem": problem,
        "shape": "×".join(map(str, matrix.shape)),
        **bounds,
        "certified gap": f"{gap:.1e}",
        "steps": int(np.max(result.num_steps)),
        **times,
    }


def against_cvxpy() -> Rows:
    """γ2 of prefix sums of size 96, against the semidefinite program in cvxpy."""
    matrix = workloads.prefix(96)
    result, times = timed(factorization.gamma2, matrix, repeats=20)
    rows = [row("γ2 prefix 96, jaxdp", matrix, result, times)]
    try:
        import cvxpy as cp
    except ImportError:
        return rows
    k = len(matrix)
    block, t = cp.Variable((2 * k, 2 * k), PSD=True), cp.Variable()
    problem = cp.Problem(cp.Minimize(t), [block[:k, k:] == matrix, cp.diag(block) <= t])
    _, solver = timed(problem.solve, solver=cp.SCS)
    value = float(np.asarray(t.value))
    error = abs(value / float(result.upper) - 1)
    ratio = float(solver["first (s)"]) / float(times["then (s)"])
    rows.append(
        {
            "problem": "γ2 prefix 96, cvxpy with SCS",
            "shape": "×".join(map(str, matrix.shape)),
            "upper": f"{value:.7g}",
            "certified gap": f"none; {error:.1e} from optimal",
            **solver,
            "time / ours": f"{ratio:.0f}",
        }
    )
    return rows


def exact() -> Rows:
    """γ2 of size 1024, to a gap of 1e-6."""
    k = 1024
    matrices = {
        "prefix": workloads.prefix(k),
        "sign, in closed form": workloads.sign(k),
        "Rademacher": workloads.rademacher(k, k, seed=0),
        "Kendall 32 × 32": workloads.kendall(32, 32),
        "distance": workloads.lipschitz(k),
        "parity, order 3 of 10": workloads.parity(10, 3),
        "marginal, order 3 of 10": workloads.marginal(10, 3),
        "all ranges of 63": workloads.all_range(63),
    }
    rows = []
    for name, matrix in matrices.items():
        result, times = timed(factorization.gamma2, matrix)
        rows.append(row(f"γ2 {name}", matrix, result, times))
    return rows


def first_calls() -> Rows:
    """Prefix sums of one size after the other: a single matrix compiles nothing."""
    solvers: dict[str, Callable] = {
        "gamma2": factorization.gamma2,
        "gamma_f": factorization.gamma_f,
        "signed": lambda w: factorization.signed(w + w.T),
        "gamma2_dual": factorization.gamma2_dual,
        "gamma2_approx, α = 0.1": lambda w: factorization.gamma2_approx(w, 0.1),
        "zeta, weight 2": lambda w: factorization.zeta(w, weight=2.0),
    }
    rows = []
    for name, solve in solvers.items():
        cells = {}
        for k in (8, 32, 64):
            _, times = timed(solve, workloads.prefix(k))
            cells[f"k = {k} (processor s)"] = times["processor (s)"]
        _, times = timed(lambda s=solve: [s(workloads.prefix(k)) for k in range(8, 40)])
        cells["k = 8, 9, ..., 39 (processor s)"] = times["processor (s)"]
        print(name, cells, flush=True)
        rows.append({"function": name, **cells})
    return rows


def batched() -> Rows:
    """1,000 normally distributed matrices of 32 × 32 in one call."""
    stack = np.random.default_rng(0).normal(size=MANY)
    symmetric = (stack + stack.swapaxes(1, 2)) / 2
    calls: dict[str, tuple[np.ndarray, Callable]] = {
        "gamma2": (stack, factorization.gamma2),
        "gamma2, shifted": (stack, functools.partial(factorization.gamma2, shift=True)),
        "gamma_f": (stack, factorization.gamma_f),
        "signed": (symmetric, factorization.signed),
        "projected_gradient, rank 12, α = 0.5": (
            stack,
            functools.partial(factorization.projected_gradient, rank=12, alpha=0.5, num_steps=300),
        ),
    }
    rows = []
    for name, (matrices, call) in calls.items():
        result, times = timed(call, matrices, repeats=1)
        rows.append(row(name, matrices, result, times))
    return rows


_JAX_PRIVACY = """
import sys, time
import jax
jax.config.update("jax_enable_x64", True)
import numpy as np
from jax_privacy.matrix_factorization import dense
start, processor = time.perf_counter(), time.process_time()
strategy = np.asarray(dense.optimize(int(sys.argv[1])))
seconds, processor = time.perf_counter() - start, time.process_time() - processor
decoder = np.linalg.solve(strategy.T, np.tril(np.ones(strategy.shape)).T).T
objective = np.mean(np.sum(decoder**2, axis=1)) * np.max(np.sum(strategy**2, axis=0))
print(seconds, processor, objective, jax.__version__)
"""


def mean_squared(python: str) -> Rows:
    """γF of prefix sums, against the dense optimizer of jax-privacy."""
    rows = []
    for k in (128, 256):
        matrix = workloads.prefix(k)
        result, times = timed(factorization.gamma_f, matrix)
        rows.append(row("γF prefix, jaxdp", matrix, result, times))
        rows[-1]["objective γF²"] = f"{float(result.upper) ** 2:.7g}"
        environment = {n: v for n, v in os.environ.items() if n != "PYTHONPATH"}
        command = [python, "-c", _JAX_PRIVACY, str(k)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"jax-privacy did not run: {done.stderr.strip().splitlines()[-1]}")
            continue
        seconds, processor, objective = map(float, done.stdout.split()[:3])
        rows.append(
            {
                "problem": f"γF prefix, jax-privacy, float64, jax {done.stdout.split()[3]}",
                "shape": f"{k}×{k}",
                "upper": f"{math.sqrt(objective):.7g}",
                "certified gap": "none",
                "first (s)": f"{seconds:.3g}",
                "processor (s)": f"{processor:.3g}",
                "objective γF²": f"{objective:.7g}",
            }
        )
    return rows


def approximate() -> Rows:
    """γ2(W; α) and ζ of size 512, to a gap of 1e-4."""
    rows = []
    for name, matrix, weight in (
        ("prefix", workloads.prefix(512), 2.0),
        ("Rademacher", workloads.rademacher(512, 512, seed=0), 19.0),
    ):
        result, times = timed(factorization.gamma2_approx, matrix, 0.1)
        rows.append(row(f"γ2(W; 0.1) {name}", matrix, result, times))
        result, times = timed(factorization.zeta, matrix, weight=weight)
        rows.append(row(f"ζ, weight {weight:g}, {name}", matrix, result, times))
    return rows


def low_rank() -> Rows:
    """Factors of restricted rank: random projection, optimised, matmul-only; k = 256."""
    matrix, alpha, rows = workloads.prefix(256), 0.3, []
    full = factorization.gamma2(matrix)
    for rank in (32, 64):
        found = {
            "Johnson–Lindenstrauss": lambda r=rank: factorization.johnson_lindenstrauss(
                matrix, full, r
            ),
            "gamma2_rank": lambda r=rank: factorization.gamma2_rank(matrix, r, alpha),
            "projected_gradient": lambda r=rank: factorization.projected_gradient(matrix, r, alpha),
        }
        for name, call in found.items():
            result, times = timed(call)
            rows.append(row(f"prefix, {name}", matrix, result, times))
    return rows


def _descent(name, matrix) -> Rows:
    alpha = 0.3
    result, times = timed(
        factorization.projected_gradient, matrix, 512, alpha, num_steps=LARGE_STEPS
    )
    return [row(f"{name}, α = {alpha}", matrix, result, times)]


def large_prefix() -> Rows:
    """Projected gradient, prefix sums, k = 4096, rank 512."""
    return _descent("prefix", workloads.prefix(4096))


def large_kendall() -> Rows:
    """Projected gradient, Kendall's τ, k = 4096, rank 512."""
    return _descent("Kendall 64 × 64", workloads.kendall(64, 64))


def _large_norm(name, matrix) -> Rows:
    result, times = timed(factorization.gamma2, matrix, tol=1e-4)
    return [row(f"γ2 {name}", matrix, result, times)]


def exact_prefix() -> Rows:
    """γ2 of prefix sums, k = 4096, to a gap of 1e-4."""
    return _large_norm("prefix", workloads.prefix(4096))


def exact_rademacher() -> Rows:
    """γ2 of random signs, k = 4096, to a gap of 1e-4."""
    return _large_norm("Rademacher", workloads.rademacher(4096, 4096, seed=0))


SECTIONS = {
    "cvxpy": against_cvxpy,
    "gamma2": exact,
    "gamma_f": mean_squared,
    "first_calls": first_calls,
    "batched": batched,
    "approximate": approximate,
    "low_rank": low_rank,
}
LARGE = {
    "large_prefix": large_prefix,
    "large_kendall": large_kendall,
    "exact_prefix": exact_prefix,
    "exact_rademacher": exact_rademacher,
}


def main() -> None:
    """Runs the chosen sections and keeps earlier results of the others."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    known = SECTIONS | LARGE
    parser.add_argument("--large", action="store_true", help="also k = 4096")
    parser.add_argument("--only", choices=list(known), nargs="+", help="these sections")
    parser.add_argument("--jax-privacy-python", default=sys.executable, metavar="PATH")
    options = parser.parse_args()
    against = functools.partial(mean_squared, options.jax_privacy_python)
    functools.update_wrapper(against, mean_squared)
    chosen = options.only or list(known if options.large else SECTIONS)
    run_sections({**known, "gamma_f": against}, chosen, FOLDER)


if __name__ == "__main__":
    main()
