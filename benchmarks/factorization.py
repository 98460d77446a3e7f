"""Factorization norms: certified gaps and times, side by side with cvxpy and jax-privacy.

    python -m benchmarks.factorization                # all but the largest sizes, some minutes
    python -m benchmarks.factorization --large        # also matrix products of size 4096
    python -m benchmarks.factorization --huge         # also exact norms of size 4096, over an hour
    python -m benchmarks.factorization --only gamma2  # one section

Prints Markdown tables and writes them, with the machine and the versions, to
benchmarks/results/factorization/. Sections that are not run keep their last results. Needs cvxpy
for the first section and jax-privacy for the third; without them our own numbers are still printed.
"first" includes compilation.
"""

import argparse
import importlib.metadata
import json
import math
import os
import pathlib
import platform
import time

import jax
import numpy as np

from jaxdp import factorization, workloads

RESULTS = pathlib.Path(__file__).parent / "results" / "factorization"


def timed(function, *arguments, repeats=1, **options):
    """The last result, the seconds of the first call and the least seconds of `repeats` more."""
    seconds = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        result = function(*arguments, **options)
        seconds.append(time.perf_counter() - start)
    return result, seconds[0], min(seconds[1:], default=math.nan)


def row(problem, matrix, result, first, then, certify=True):
    """One line of a table; the gap is the one `certify` finds."""
    gap = factorization.certify(matrix, result).gap if certify else result.gap
    print(f"{problem}: gap {float(gap):.1e}, {first:.3g} s", flush=True)
    return {
        "problem": problem,
        "shape": "×".join(map(str, matrix.shape)),
        "lower": f"{float(result.lower):.7g}",
        "upper": f"{float(result.upper):.7g}",
        "alpha": f"{float(result.alpha):.3g}",
        "rank": result.rank,
        "certified gap": f"{float(gap):.1e}",
        "steps": int(result.num_steps),
        "first (s)": f"{first:.3g}",
        "then (s)": f"{then:.3g}",
    }


def against_cvxpy():
    """γ2 of prefix sums of size 64, against the semidefinite program in cvxpy."""
    matrix = workloads.prefix(64)
    result, first, then = timed(factorization.gamma2, matrix, repeats=20)
    rows = [row("γ2 prefix 64, jaxdp", matrix, result, first, then)]
    try:
        import cvxpy as cp
    except ImportError:
        return rows
    k = len(matrix)
    block, t = cp.Variable((2 * k, 2 * k), PSD=True), cp.Variable()
    problem = cp.Problem(cp.Minimize(t), [block[:k, k:] == matrix, cp.diag(block) <= t])
    _, seconds, _ = timed(problem.solve, solver=cp.SCS, repeats=0)
    value = float(np.asarray(t.value))
    error = abs(value / float(result.upper) - 1)
    rows.append(
        {
            "problem": "γ2 prefix 64, cvxpy with SCS",
            "shape": "64×64",
            "upper": f"{value:.7g}",
            "certified gap": f"none; {error:.1e} from optimal",
            "first (s)": f"{seconds:.3g}",
            "time / ours": f"{seconds / then:.0f}",
        }
    )
    return rows


def exact():
    """γ2 of size 1024."""
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
        result, first, _ = timed(factorization.gamma2, matrix, repeats=0)
        rows.append(row(f"γ2 {name}", matrix, result, first, math.nan))
    small = workloads.prefix(256)
    jax.clear_caches()
    result, first, then = timed(factorization.gamma2, small)
    return [*rows, row("γ2 prefix, a first call", small, result, first, then)]


def mean_squared():
    """γF of prefix sums of size 1024, against the dense optimizer of jax-privacy."""
    k = 1024
    matrix = workloads.prefix(k)
    result, first, _ = timed(factorization.gamma_f, matrix, repeats=0)
    rows = [row("γF prefix, jaxdp", matrix, result, first, math.nan)]
    rows[0]["objective γF²"] = f"{float(result.upper) ** 2:.7g}"
    try:
        from jax_privacy.matrix_factorization import dense  # pyright: ignore[reportMissingImports]
    except ImportError:
        return rows
    with jax.enable_x64(True):
        strategy, seconds, _ = timed(lambda: np.asarray(dense.optimize(k)), repeats=0)
    decoder = np.linalg.solve(strategy.T, matrix.T).T
    objective = np.mean(np.sum(decoder**2, axis=1)) * np.max(np.sum(strategy**2, axis=0))
    rows.append(
        {
            "problem": "γF prefix, jax-privacy, float64",
            "shape": f"{k}×{k}",
            "upper": f"{math.sqrt(objective):.7g}",
            "certified gap": "none",
            "first (s)": f"{seconds:.3g}",
            "objective γF²": f"{objective:.7g}",
        }
    )
    return rows


def approximate():
    """γ2(W; α) and ζ of size 512."""
    rows = []
    for name, matrix in (
        ("prefix", workloads.prefix(512)),
        ("Rademacher", workloads.rademacher(512, 512, seed=0)),
    ):
        result, first, _ = timed(factorization.gamma2_approx, matrix, 0.1, repeats=0)
        rows.append(row(f"γ2(W; 0.1) {name}", matrix, result, first, math.nan))
        weight = {"prefix": 2.0, "Rademacher": 19.0}[name]
        result, first, _ = timed(factorization.zeta, matrix, weight=weight, repeats=0)
        rows.append(row(f"ζ, weight {weight:g}, {name}", matrix, result, first, math.nan))
    return rows


def low_rank():
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
            result, first, _ = timed(call, repeats=0)
            rows.append(row(f"prefix, {name}", matrix, result, first, math.nan))
    return rows


def _descent(name, matrix):
    alpha = 0.3
    result, first, _ = timed(
        factorization.projected_gradient, matrix, 512, alpha, num_steps=300, repeats=0
    )
    return [row(f"{name}, α = {alpha}", matrix, result, first, math.nan)]


def large_descent():
    """Projected gradient, prefix sums, k = 4096, rank 512."""
    return _descent("prefix", workloads.prefix(4096))


def large_kendall():
    """Projected gradient, Kendall's τ, k = 4096, rank 512."""
    return _descent("Kendall 64 × 64", workloads.kendall(64, 64))


def large_exact():
    """γ2, k = 4096, to a gap of 1e-4."""
    rows = []
    for name, matrix in (
        ("prefix", workloads.prefix(4096)),
        ("Rademacher", workloads.rademacher(4096, 4096, seed=0)),
    ):
        result, first, _ = timed(factorization.gamma2, matrix, tol=1e-4, repeats=0)
        rows.append(row(f"γ2 {name}", matrix, result, first, math.nan))
    return rows


SECTIONS = {
    "cvxpy": against_cvxpy,
    "gamma2": exact,
    "gamma_f": mean_squared,
    "approximate": approximate,
    "low_rank": low_rank,
}
LARGE = {"large_descent": large_descent}
HUGE = {"large_kendall": large_kendall, "large_gamma2": large_exact}
KNOWN = SECTIONS | LARGE | HUGE


def table(rows) -> str:
    """A Markdown table of the columns that any of the rows has."""
    columns = list(dict.fromkeys(name for r in rows for name in r))
    columns = [c for c in columns if any(r.get(c) not in (None, "nan") for r in rows)]
    lines = [columns, ["---"] * len(columns)]
    lines += [[str(r.get(c, "")).replace("nan", "") for c in columns] for r in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def versions() -> dict:
    """Of the packages in the comparison that are installed."""
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
    parser.add_argument("--large", action="store_true", help="also k = 4096, low rank")
    parser.add_argument("--huge", action="store_true", help="also k = 4096, exact")
    parser.add_argument("--only", choices=list(KNOWN), help="one section")
    options = parser.parse_args()
    if options.only:
        chosen = {options.only: KNOWN[options.only]}
    else:
        chosen = SECTIONS | (LARGE if options.large else {}) | (HUGE if options.huge else {})
    data = RESULTS / "results.json"
    report: dict = json.loads(data.read_text()) if data.exists() else {"sections": {}}
    report |= {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {jax.default_backend()}",
        "python": platform.python_version(),
        "versions": versions(),
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    for name, section in chosen.items():
        report["sections"][name] = section()
        print(f"\n{section.__doc__}\n\n{table(report['sections'][name])}", flush=True)
        data.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
        (RESULTS / "tables.md").write_text(tables(report))


def tables(report: dict) -> str:
    """All sections that have results, as Markdown."""
    parts = [f"Measured on {report['machine']}, Python {report['python']}: "]
    parts[0] += ", ".join(f"{name} {version}" for name, version in report["versions"].items()) + "."
    for name in (n for n in KNOWN if n in report["sections"]):
        parts.append(f"{KNOWN[name].__doc__}\n\n{table(report['sections'][name])}")
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    main()
