"""Factorization norms: certified gaps and times, side by side with cvxpy and jax-privacy.

    python -m benchmarks.factorization                # all but the largest sizes, some minutes
    python -m benchmarks.factorization --large        # also size 4096, about an hour
    python -m benchmarks.factorization --only gamma2  # one section
    python -m benchmarks.factorization --jax-privacy-python venv/bin/python

Prints Markdown tables and writes them, with the machine and the versions, to
benchmarks/results/factorization/. Sections that are not run keep their last results. Needs cvxpy
for the first section and jax-privacy for the third, here or in another environment whose Python is
given (the two may need different versions of jax); without them our own numbers are still printed.
"first" includes compilation; "processor" is the time of all cores in the first call, which other
programs on the machine disturb less.
"""

import argparse
import importlib.metadata
import json
import math
import os
import pathlib
import platform
import subprocess
import sys
import time

import jax
import numpy as np

from jaxdp import factorization, workloads

RESULTS = pathlib.Path(__file__).parent / "results" / "factorization"


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
    """One line of a table; the gap is the one `certify` finds."""
    gap = factorization.certify(matrix, result).gap
    print(f"{problem}: gap {float(gap):.1e}, {times}", flush=True)
    return {
        "problem": problem,
        "shape": "×".join(map(str, matrix.shape)),
        "lower": f"{float(result.lower):.7g}",
        "upper": f"{float(result.upper):.7g}",
        "alpha": f"{float(result.alpha):.3g}",
        "rank": result.rank,
        "certified gap": f"{float(gap):.1e}",
        "steps": int(result.num_steps),
        **times,
    }


def against_cvxpy(_):
    """γ2 of prefix sums of size 64, against the semidefinite program in cvxpy."""
    matrix = workloads.prefix(64)
    result, times = timed(factorization.gamma2, matrix, repeats=20)
    rows = [row("γ2 prefix 64, jaxdp", matrix, result, times)]
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
            "problem": "γ2 prefix 64, cvxpy with SCS",
            "shape": "64×64",
            "upper": f"{value:.7g}",
            "certified gap": f"none; {error:.1e} from optimal",
            **solver,
            "time / ours": f"{ratio:.0f}",
        }
    )
    return rows


def exact(_):
    """γ2 of size 1024, to a gap of 1e-6, and a first call on 256×256."""
    k = 1024
    matrices = {
        "prefix": workloads.prefix(k),
        "sign": workloads.sign(k),
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
    small = workloads.prefix(256)
    jax.clear_caches()
    result, times = timed(factorization.gamma2, small, repeats=1)
    return [*rows, row("γ2 prefix, a first call", small, result, times)]


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


def mean_squared(options):
    """γF of prefix sums of size 1024, against the dense optimizer of jax-privacy."""
    k = 1024
    matrix = workloads.prefix(k)
    result, times = timed(factorization.gamma_f, matrix)
    rows = [row("γF prefix, jaxdp", matrix, result, times)]
    rows[0]["objective γF²"] = f"{float(result.upper) ** 2:.7g}"
    command = [options.jax_privacy_python, "-c", _JAX_PRIVACY, str(k)]
    environment = {n: v for n, v in os.environ.items() if n != "PYTHONPATH"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"jax-privacy did not run: {done.stderr.strip().splitlines()[-1]}")
        return rows
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


def approximate(_):
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


def low_rank(_):
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


def _descent(name, matrix):
    alpha = 0.3
    result, times = timed(
        factorization.projected_gradient, matrix, 512, alpha, num_steps=LARGE_STEPS
    )
    return [row(f"{name}, α = {alpha}", matrix, result, times)]


def large_prefix(_):
    """Projected gradient, prefix sums, k = 4096, rank 512."""
    return _descent("prefix", workloads.prefix(4096))


def large_kendall(_):
    """Projected gradient, Kendall's τ, k = 4096, rank 512."""
    return _descent("Kendall 64 × 64", workloads.kendall(64, 64))


def _large_norm(name, matrix):
    result, times = timed(factorization.gamma2, matrix, tol=1e-4)
    return [row(f"γ2 {name}", matrix, result, times)]


def exact_prefix(_):
    """γ2 of prefix sums, k = 4096, to a gap of 1e-4."""
    return _large_norm("prefix", workloads.prefix(4096))


def exact_rademacher(_):
    """γ2 of random signs, k = 4096, to a gap of 1e-4."""
    return _large_norm("Rademacher", workloads.rademacher(4096, 4096, seed=0))


LARGE_STEPS = 300
SECTIONS = {
    "cvxpy": against_cvxpy,
    "gamma2": exact,
    "gamma_f": mean_squared,
    "approximate": approximate,
    "low_rank": low_rank,
}
LARGE = {
    "large_prefix": large_prefix,
    "large_kendall": large_kendall,
    "exact_prefix": exact_prefix,
    "exact_rademacher": exact_rademacher,
}
KNOWN = SECTIONS | LARGE


def table(rows) -> str:
    """A Markdown table of the columns that any of the rows has."""
    columns = list(dict.fromkeys(name for r in rows for name in r))
    columns = [c for c in columns if any(r.get(c) not in (None, "nan") for r in rows)]
    lines = [columns, ["---"] * len(columns)]
    lines += [[str(r.get(c, "")).replace("nan", "") for c in columns] for r in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def versions() -> dict:
    """Versions of the compared packages that are installed."""
    found = {}
    for name in ("jax", "numpy", "cvxpy", "scs", "jax-privacy"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def main() -> None:
    """Runs the chosen sections and keeps earlier results of the others."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--large", action="store_true", help="also k = 4096")
    parser.add_argument("--only", choices=list(KNOWN), nargs="+", help="these sections")
    parser.add_argument("--jax-privacy-python", default=sys.executable, metavar="PATH")
    parser.add_argument("--output", default=RESULTS, type=pathlib.Path, help="folder of results")
    options = parser.parse_args()
    chosen = KNOWN if options.large else SECTIONS
    if options.only:
        chosen = {name: KNOWN[name] for name in options.only}
    for name in chosen:
        rows = KNOWN[name](options)
        print(f"\n{KNOWN[name].__doc__}\n\n{table(rows)}", flush=True)
        record(options.output, name, rows)


def record(folder: pathlib.Path, name: str, rows: list) -> None:
    """Puts one section into the files of results; read anew, as several runs may share them."""
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "results.json"
    report: dict = json.loads(data.read_text()) if data.exists() else {"sections": {}}
    report |= {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {jax.default_backend()}",
        "python": platform.python_version(),
        "versions": versions(),
    }
    report["sections"][name] = rows
    data.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    (folder / "tables.md").write_text(tables(report))


def tables(report: dict) -> str:
    """All sections that have results, as Markdown."""
    parts = [f"Measured on {report['machine']}, Python {report['python']}: "]
    parts[0] += ", ".join(f"{name} {version}" for name, version in report["versions"].items()) + "."
    for name in (n for n in KNOWN if n in report["sections"]):
        parts.append(f"{KNOWN[name].__doc__}\n\n{table(report['sections'][name])}")
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    main()
