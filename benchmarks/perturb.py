"""Projections of the central model: accuracy, gaps and times, and what they gain.

    python -m benchmarks.perturb                  # all sections but "largest", a few minutes
    python -m benchmarks.perturb --only conic     # one section
    python -m benchmarks.perturb --only largest   # n = 4,096: some minutes, and 2 GB

Prints Markdown tables and writes them, with the machine and the versions, to
benchmarks/results/perturb/. Sections that are not run keep their last results. "conic" needs cvxpy.
"""

import time
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxdp
from jaxdp import workloads
from jaxdp._subsets import subsets
from jaxdp.central import CosineSet, MomentSet
from jaxdp.central._parities import marginals_sensitivity, parities_sensitivity
from jaxdp.linear import FactorizedQueries, GramQueries, MarginalQueries

from ._report import RESULTS, Rows, choose_sections
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
                point, row = _ours(x, diagonal, sigma, repeats=50)
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


def large(sizes: tuple[int, ...] = LARGE, noises: tuple[float, ...] = (0.1, 1.0)) -> Rows:
    """The exact projection, float64, of large matrices, to a relative distance of 1e-6."""
    return [
        _ours(noisy_similarities(n, sigma), "one", sigma, repeats=1)[1]
        for n in sizes
        for sigma in noises
    ]


def largest() -> Rows:
    """The same for 4,096 vectors."""
    return large((4096,), (1.0,))


def odd(sizes: tuple[tuple[int, int], ...] = ((8, 20), (12, 3), (16, 3))) -> Rows:
    """Squared error, noisy over projected, of 3-way answers: two releases of each data set."""
    # 500 users have every feature with the probability "density"; at 0.5 parities are noised
    rows = []
    cases = [(*size, 0.2) for size in sizes] + [(*size, 0.5) for size in sizes[:2]]
    for n, num_sets, density in cases:
        basis = "marginals" if density < 0.5 else "parities"
        spec = MomentSet(n, 3, basis)
        for sigma in (0.1, 0.3) if density < 0.5 else (0.1,):
            errors = []
            for seed in range(num_sets):
                rng = np.random.default_rng(seed)
                truth = _truth(spec, rng.random((500, n)) < density)
                errors.append(_errors(spec, truth, sigma, rng, 2))
            before, after, gap = np.transpose(errors)
            ratios = before / after
            rows.append(
                {
                    "n": n,
                    "density": density,
                    "noise": sigma,
                    "data sets": num_sets,
                    "noisy / projected": f"{before.sum() / after.sum():.1f}",
                    "least": f"{ratios.min():.1f}",
                    "largest": f"{ratios.max():.1f}",
                    "gap / error": f"{gap.sum() / after.sum():.2f}",
                }
            )
    return rows


def growth(num_trials: int = 4) -> Rows:
    """Squared errors of all answers against the number of features, at a noise of 0.02 a user."""
    # an answer has 0.02 times the distance by which a user moves them all; dense users are uniform
    families = (
        ("k = 2", 2, None, (8, 12, 16, 24, 32)),
        ("k = 3", 3, None, (6, 8, 10, 12)),
        ("k = 2, 3 features each", 2, 3, (8, 12, 16, 24, 32)),
    )
    rows = []
    for name, k, t, sizes in families:
        for n in sizes:
            rng = np.random.default_rng(n)
            if t is None:
                users, spec = rng.random((1000, n)) < 0.5, MomentSet(n, k, "parities")
                sigma = 0.02 * parities_sensitivity(n, k)
            else:
                users = np.argsort(np.argsort(rng.random((1000, n)), axis=1), axis=1) < t
                spec = MomentSet(n, k, sparsity=t)
                sigma = 0.02 * marginals_sensitivity(n, k, t)
            before, after, gap = _errors(spec, _truth(spec, users), sigma, rng, num_trials)
            rows.append(
                {
                    "users": name,
                    "n": n,
                    "noise": f"{sigma:.3f}",
                    "noisy": f"{before:.3g}",
                    "projected": f"{after:.3g}",
                    "noisy / projected": f"{before / after:.1f}",
                    "gap / error": f"{gap / after:.2f}",
                }
            )
    return rows


def local(sizes: tuple[int, ...] = (1_000, 10_000, 100_000), num_trials: int = 50) -> Rows:
    """Summed squared errors of local reports, epsilon = 1: raw, factorized and projected means."""
    n, rng, rows = 8, np.random.default_rng(0), []
    pairs = workloads.parity(n, 2)[n + 1 :]
    for m in sizes:
        axis, noise = rng.standard_normal((m, 1)), rng.standard_normal((m, n))
        two = MarginalQueries(n, 2, 1.0, onto=MomentSet(n, 2)), workloads.marginal(n, 2)[1:]
        signs = GramQueries(n, 1.0, onto=CosineSet(n)), pairs
        for name, (spec, matrix), users in (
            ("marginals, density 0.1", two, rng.random((m, n)) < 0.1),
            ("marginals, density 0.5", two, rng.random((m, n)) < 0.5),
            ("similarities, dependent signs", signs, np.sign(axis + 0.7 * noise)),
            ("similarities, independent signs", signs, np.sign(noise)),
        ):
            population = jaxdp.Population.from_values(users.astype(np.float32))
            errors = jaxdp.simulate(spec, population, jax.random.key(0), num_trials=num_trials)
            flat = np.reshape(errors.errors, (num_trials, *spec.shape))
            raw = np.asarray(spec.raw_variance(m))
            if len(spec.shape) == 2:  # the pairs above the diagonal
                flat, raw = flat[:, *np.triu_indices(n, 1)], raw[np.triu_indices(n, 1)]
            sums = np.sum(flat**2, axis=1)
            factorized = FactorizedQueries(matrix, epsilon=1.0, norm="mean")
            everyone = np.bincount(np.arange(m) % 2**n, minlength=2**n)
            rows.append(
                {
                    "answers": name,
                    "users": m,
                    "raw": f"{raw.sum():.3g}",
                    "factorized": f"{factorized.total_variance(everyone):.3g}",
                    "projected": f"{sums.mean():.3g}",
                    "standard error": f"{sums.std(ddof=1) / np.sqrt(num_trials):.1g}",
                }
            )
    return rows


SECTIONS = {
    "conic": conic,
    "large": large,
    "largest": largest,
    "odd": odd,
    "growth": growth,
    "local": local,
}


def _truth(spec: MomentSet, users: np.ndarray) -> np.ndarray:
    """The answers of all users, float64[N]."""
    signs = users if spec.basis == "marginals" else 1.0 - 2.0 * users
    members = subsets(spec.num_features, spec.order)[1:]
    padded = np.concatenate([signs, np.ones((len(users), 1))], axis=1)
    return np.prod(padded[:, members], axis=2).mean(axis=0)


def _errors(
    spec: MomentSet, truth: np.ndarray, sigma: float, rng: np.random.Generator, number: int
) -> np.ndarray:
    """Mean squared errors of the noisy and of the projected answers, and the mean gap."""
    found = []
    with jax.enable_x64(True):
        for _ in range(number):
            noisy = truth + sigma * rng.standard_normal(truth.shape)
            projection = spec.project(noisy, tol=0.02, max_steps=1000)
            errors = [np.sum((x - truth) ** 2) for x in (noisy, np.asarray(projection.point))]
            found.append([*errors, float(projection.gap)])
    return np.mean(found, axis=0)


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
        "gap / ‖point‖²": f"{float(found.gap) / np.sum(point**2):.1e}",
        "steps": int(found.num_steps),
        "seconds": f"{seconds:.3g}",
        "processor seconds": f"{busy:.3g}",
    }


def main() -> None:
    """Runs the chosen sections and keeps earlier results of the others."""
    usual = [name for name in SECTIONS if name != "largest"]
    choose_sections(__doc__, SECTIONS, FOLDER, usual)


if __name__ == "__main__":
    main()
