"""Maximum likelihood and EM: against closed forms and other solvers, and the bound on the gap."""

import threading

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp.random import Count
from jaxdp.randomizers import (
    KRR,
    AffineHashing,
    AffineSubsets,
    DiscreteLaplace,
    FiniteChannel,
    HadamardBit,
    HadamardResponse,
    ProjectiveGeometryResponse,
    SubsetSelection,
    UnaryEncoding,
)
from jaxdp.reports import _likelihood, expectation_maximization, maximum_likelihood
from jaxdp.reports._channel_products import FastProducts, products
from tests import stats
from tests.marks import slow

VALUES, REPORTS = 6, 9
KEY = jax.random.key(3)


def population(counts):
    return jaxdp.Population.from_histogram(counts)


@pytest.fixture
def table(rng):
    """A channel without structure, float64[VALUES, REPORTS]."""
    return rng.dirichlet(np.full(REPORTS, 2.0), VALUES)


@pytest.fixture
def tallies(rng, table):
    """Tallies of 20, 2,000 and 10^9 users; some values nobody has."""
    law = np.array([0.6, 0.3, 0.1, 0, 0, 0]) @ table
    return np.stack([rng.multinomial(n, law) for n in (20, 2000, 10**9)])


def log_likelihood(table, counts, probabilities):
    law = np.asarray(probabilities, np.float64) @ table
    return np.sum(np.where(counts > 0, counts * np.log(law), 0.0), axis=-1)


def by_another_solver(table, counts):
    """The most likely distribution, by an interior point method for exponential cones."""
    point = cp.Variable(len(table), nonneg=True)
    seen = counts > 0
    terms = cp.multiply(counts[seen] / counts.sum(), cp.log(table.T[seen] @ point))
    problem = cp.Problem(cp.Maximize(cp.sum(terms)), [cp.sum(point) == 1])
    problem.solve(solver="CLARABEL")
    found = np.maximum(point.value, 0)
    return found / found.sum()


def test_no_other_distribution_is_more_likely(table, tallies):
    with jax.enable_x64(True):
        fits = jax.tree.map(np.asarray, maximum_likelihood(table, tallies, tolerance=1e-3))
    assert np.all(fits.converged)
    assert np.all(fits.gap <= 1e-3)
    assert np.all(fits.iterations <= 25)
    np.testing.assert_allclose(fits.probabilities.sum(axis=1), 1, atol=1e-12)
    assert (fits.probabilities >= 0).all()
    ours = log_likelihood(table, tallies, fits.probabilities)
    np.testing.assert_allclose(fits.log_likelihood, ours, rtol=1e-13)
    for counts, reached, gap in zip(tallies, ours, fits.gap, strict=True):
        best = log_likelihood(table, counts, by_another_solver(table, counts))
        # The other one is feasible, so it may not be above the bound; rounding is a share of n.
        assert best - reached <= gap + 1e-14 * counts.sum()


def test_the_most_likely_counts_of_randomized_response(rng):
    """Pr[v] = q + (p - q) p_v: what is above a level, the level such that the sum is 1."""
    spec = KRR(7, 1.0)
    p, q = (float(x) for x in spec.probabilities())
    counts = rng.multinomial(3000, np.array([0.5, 0.3, 0.2, 0, 0, 0, 0]) * (p - q) + q)
    ordered, offset = np.sort(counts)[::-1], q / (p - q)
    for size in range(7, 0, -1):  # n_v / scale - offset for the `size` most frequent reports
        scale = ordered[:size].sum() / (1 + size * offset)
        if ordered[size - 1] / scale > offset:
            break
    with jax.enable_x64(True):
        fit = maximum_likelihood(spec, counts, tolerance=1e-9)
    expected = np.maximum(counts / scale - offset, 0)
    np.testing.assert_allclose(fit.probabilities, expected, atol=1e-7)


def test_expectation_maximization_by_definition(table, tallies):
    """Each step, its likelihood, which never falls, and the bound on what is missing."""
    for smooth in (False, True):
        point, last = np.full(VALUES, 1 / VALUES), -np.inf
        counts = tallies[1]
        best = log_likelihood(table, counts, by_another_solver(table, counts))
        kernel = (2 * np.eye(VALUES) + np.eye(VALUES, k=1) + np.eye(VALUES, k=-1)) / 4
        kernel[[0, -1], [0, -1]] = 3 / 4
        for steps in range(1, 12):
            point = point * (table @ (counts / counts.sum() / (point @ table)))
            point = kernel @ point if smooth else point
            with jax.enable_x64(True):
                fit = expectation_maximization(
                    table, counts, smooth=smooth, tolerance=0, max_iterations=steps
                )
            assert int(fit.iterations) == steps
            assert not fit.converged
            np.testing.assert_allclose(fit.probabilities, point, rtol=1e-12)
            reached = float(fit.log_likelihood)
            np.testing.assert_allclose(reached, log_likelihood(table, counts, point), rtol=1e-14)
            assert best - reached <= float(fit.gap) + 1e-9
            assert smooth or reached >= last
            last = reached


def test_expectation_maximization_tends_to_the_maximum(table, tallies):
    with jax.enable_x64(True):
        fit = maximum_likelihood(table, tallies[1], tolerance=1e-6)
        steps = expectation_maximization(table, tallies[1], tolerance=1e-12, max_iterations=10**6)
    assert steps.converged
    np.testing.assert_allclose(steps.log_likelihood, fit.log_likelihood, atol=1e-3)
    assert float(fit.log_likelihood) <= float(steps.log_likelihood + steps.gap)


COUNTED = [
    KRR(5, 1.0),
    HadamardResponse(5, 3.0),
    HadamardBit(5, 1.0),
    ProjectiveGeometryResponse(5, 1.0),
    AffineHashing(5, 1.0),
    AffineSubsets(5, 0.5),
    DiscreteLaplace(0, 4, 1.0),
    FiniteChannel([[3, 1, 2, 2], [1, 3, 2, 2], [2, 2, 3, 1]]),
]


@pytest.mark.parametrize("spec", COUNTED, ids=lambda spec: type(spec).__name__)
def test_randomizers_have_the_channel_they_say(spec, rng):
    exact = np.array(spec.channel(), np.float64)
    with jax.enable_x64(True):
        table = np.asarray(products(spec.build()).table)
    np.testing.assert_allclose(table, exact, rtol=1e-12, atol=1e-15)


QUICK = [
    KRR(37, 2.0),
    HadamardResponse(37, 0.5),
    HadamardResponse(37, 3.0),
    HadamardBit(37, 1.0),
    ProjectiveGeometryResponse(37, 1.0),
    AffineHashing(37, 1.0),
    AffineSubsets(37, 1.0),
    AffineSubsets(37, 1.0, modulus=39, set_size=9),
]
FITTED = [QUICK[0], QUICK[-2], *map(slow, [*QUICK[1:-2], QUICK[-1]])]


@pytest.mark.parametrize("spec", QUICK, ids=str)
def test_transforms_are_products_with_the_table(spec, rng):
    exact = np.array(spec.channel(), np.float64)
    numbers, reports = rng.normal(size=37), rng.normal(size=exact.shape[1])
    law, weights = rng.dirichlet(np.ones(37)), rng.random(exact.shape[1])
    root, diagonal, right = rng.random((3, 37)) + 0.1
    with jax.enable_x64(True):
        quick = FastProducts(spec.build())
        np.testing.assert_allclose(quick._law(numbers), numbers @ exact, atol=1e-13)
        np.testing.assert_allclose(quick.law(law), law @ exact, rtol=1e-12)
        np.testing.assert_allclose(quick.over(reports), exact @ reports, atol=1e-13)
        solved = np.asarray(quick.solver(*map(jnp.asarray, (root, weights, diagonal)))(right))
    matrix = root[:, None] * (exact * weights @ exact.T) * root + np.diag(diagonal)
    np.testing.assert_allclose(solved, np.linalg.solve(matrix, right), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "spec", [QUICK[0], QUICK[-2], *map(slow, [*QUICK[1:-2], QUICK[-1]])], ids=str
)
def test_fits_with_transforms_are_those_with_the_table(spec, rng, monkeypatch):
    law = 1 / np.arange(1, 38)
    tally = np.stack([rng.multinomial(n, law / law.sum()) for n in (300, 10**9)])
    counts = np.stack([jaxdp.engine.outcome(spec, population(x), KEY).numpy() for x in tally])
    limits = dict(tolerance=1e-3)
    plain = maximum_likelihood(spec, counts, **limits), expectation_maximization(spec, counts)
    assert not spec.build().needs_no_table
    monkeypatch.setattr("jaxdp.randomizers._params._FEW_VALUES", 1)
    monkeypatch.setattr("jaxdp.randomizers._params._NEWTON_TRANSFORMS", 0)
    assert spec.build().needs_no_table
    jax.clear_caches()  # of programs that use the table
    quick = maximum_likelihood(spec, counts, **limits), expectation_maximization(spec, counts)
    for other, fast in zip(plain, quick, strict=True):
        assert np.all(fast.converged)
        np.testing.assert_allclose(fast.log_likelihood, other.log_likelihood, rtol=1e-7)
        np.testing.assert_allclose(fast.probabilities, other.probabilities, atol=2e-3)
    assert np.all(quick[0].gap <= 1e-3)


def test_many_values_need_no_table():
    """2**30 entries, which would be refused."""
    spec = HadamardResponse(2**15, 1.0)
    users = population(np.eye(1, 2**15, 5, dtype=np.int64)[0] * 10**6)
    fit = maximum_likelihood(spec, jaxdp.engine.outcome(spec, users, KEY))
    assert fit.converged
    assert fit.probabilities[5] > 0.98


def test_specs_params_and_tables_are_taken(rng):
    spec = KRR(5, 1.0)
    counts = rng.multinomial(900, [0.3, 0.25, 0.2, 0.15, 0.1])
    fits = [
        expectation_maximization(spec, counts),
        expectation_maximization(spec.build(), Count.of(counts)),
        expectation_maximization(np.array(spec.channel(), np.float64), counts),
    ]
    for fit in fits[1:]:
        np.testing.assert_allclose(fit.probabilities, fits[0].probabilities, atol=1e-6)


@pytest.mark.parametrize("fitted", [maximum_likelihood, expectation_maximization])
def test_batches_loops_and_transformations_agree(fitted, table, tallies, monkeypatch):
    loop = [fitted(table, row) for row in tallies]
    mapped = jax.vmap(lambda row: fitted(table, row))(tallies.astype(np.int32))
    program = jax.jit(lambda rows: fitted(table, rows))(tallies[:, None].astype(np.int32))
    assert program.probabilities.shape == (3, 1, VALUES)
    assert program.gap.shape == program.converged.shape == (3, 1)
    program = jax.tree.map(lambda x: x[:, 0], program)
    for i, alone in enumerate(loop):
        for batched in (mapped, program):
            assert batched.probabilities.dtype == np.float32
            np.testing.assert_allclose(
                batched.probabilities[i], alone.probabilities, rtol=1e-5, atol=1e-7
            )
            np.testing.assert_allclose(batched.log_likelihood[i], alone.log_likelihood, rtol=1e-6)
            assert batched.converged[i] == alone.converged
    # A few at a time, where memory does not hold all.
    monkeypatch.setattr(_likelihood, "_NUMBERS", 2)
    few = fitted(table, np.concatenate([tallies, tallies, tallies[:1]]))
    np.testing.assert_allclose(few.probabilities[3:6], mapped.probabilities, rtol=1e-5, atol=1e-7)


def test_params_and_counts_are_arguments_of_a_program():
    specs = [DiscreteLaplace(0, 4, epsilon) for epsilon in (0.5, 1.0)]
    counts = np.array([60, 25, 15, 10, 3], np.int32)
    grid = jax.jit(jax.vmap(expectation_maximization, in_axes=(0, None)))
    fits = grid(jaxdp.stack(specs), Count.of(counts))
    for i, spec in enumerate(specs):
        alone = expectation_maximization(spec, counts)
        np.testing.assert_allclose(fits.probabilities[i], alone.probabilities, rtol=1e-5)


def test_not_a_number_does_not_converge(table):
    tally = np.full(REPORTS, np.nan)
    for fitted in (maximum_likelihood, expectation_maximization):
        fit = jax.jit(lambda x, fitted=fitted: fitted(table, x))(tally)
        assert np.isnan(fit.gap)
        assert not fit.converged


def test_precision_of_the_caller(table, tallies):
    with jax.enable_x64(True):
        wide = maximum_likelihood(table, tallies)
    narrow = maximum_likelihood(table, tallies)
    assert wide.probabilities.dtype == np.float64
    np.testing.assert_array_equal(narrow.probabilities, wide.probabilities.astype(np.float32))
    np.testing.assert_array_equal(narrow.iterations, wide.iterations)


def test_without_reports_all_values_are_alike(table):
    for fit in (
        maximum_likelihood(table, np.zeros(REPORTS)),
        expectation_maximization(table, np.zeros(REPORTS)),
    ):
        np.testing.assert_allclose(fit.probabilities, 1 / VALUES, rtol=1e-6)
        assert fit.converged
        assert fit.gap == 0


def test_channels_with_zeros_and_of_low_rank():
    """Reports that tell values apart for certain, and values that no report tells apart."""
    certain = np.array([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.5, 0.5, 0.0]])
    with jax.enable_x64(True):
        fit = maximum_likelihood(certain, [40, 30, 10], tolerance=1e-6)
    assert fit.converged
    np.testing.assert_allclose(fit.probabilities[1], 1 / 4, atol=1e-6)


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
@pytest.mark.parametrize("fitted", [maximum_likelihood, expectation_maximization])
def test_lowers_for_accelerators(fitted, platform):
    params = KRR(4, 1.0).build()
    shape = jax.ShapeDtypeStruct((3, 4), np.int32)
    program = jax.jit(jax.vmap(lambda tally: fitted(params, tally)))
    assert jax.export.export(program, platforms=[platform])(shape).mlir_module_serialized


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: maximum_likelihood(UnaryEncoding(4, 1.0), [1, 2]), "norm_sub"),
        (lambda: maximum_likelihood(SubsetSelection(4, 1.0).build(), [1, 2]), "norm_sub"),
        (lambda: maximum_likelihood(KRR(4, 1.0), [1, 2]), r"tally must have shape \[\.\.\., 4\]"),
        (lambda: maximum_likelihood(KRR(4, 1.0), 3), r"tally must have shape \[\.\.\., 4\]"),
        (
            lambda: maximum_likelihood(KRR(2, 1.0), [-1, 2]),
            r"tally must be of numbers from 0 to 2\*\*63",
        ),
        (
            lambda: maximum_likelihood(KRR(2, 1.0), [np.nan, 2]),
            r"tally must be of numbers from 0 to 2\*\*63",
        ),
        (lambda: maximum_likelihood(np.full((2**14, 2), 0.5), [1, 2]), r"at most 2\*\*26"),
        (lambda: maximum_likelihood([[0.5, 0.6], [0.5, 0.4]], [1, 2]), "pass the transpose"),
        (lambda: maximum_likelihood([0.5, 0.5], [1, 2]), r"probabilities \[k, r\]"),
        (lambda: maximum_likelihood([[1.0, 0.0], [1.0, 0.0]], [1, 2]), "counts report 1"),
        (lambda: maximum_likelihood(KRR(2, 1.0), [1, 2], tolerance=-1.0), "tolerance must"),
        (lambda: maximum_likelihood(KRR(2, 1.0), [1, 2], max_iterations=0), "max_iterations"),
        (lambda: expectation_maximization(UnaryEncoding(4, 1.0), [1, 2]), "norm_sub"),
        (lambda: expectation_maximization(KRR(2, 1.0), [1, 2], tolerance=np.nan), "tolerance"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_arguments_of_the_wrong_kind_are_refused():
    with pytest.raises(TypeError, match="smooth"):
        expectation_maximization(KRR(2, 1.0), [1, 2], smooth="yes")  # pyright: ignore
    with pytest.raises(TypeError, match="tally must be an array of real numbers"):
        maximum_likelihood(KRR(2, 1.0), ["a", "b"])


def test_smoothing_pays_where_neighbours_look_alike(rng):
    """The squared error of smoothed EM is the smaller one, in at least half of all trials."""
    spec, trials = DiscreteLaplace(0, 31, 2.0), 40
    law = np.exp(-0.5 * ((np.arange(32) - 12) / 6) ** 2)
    law /= law.sum()
    reports = law @ np.array(spec.channel(), np.float64)
    tallies = rng.multinomial(20_000, reports / reports.sum(), trials)
    likely = maximum_likelihood(spec, tallies)
    smooth = expectation_maximization(spec, tallies, smooth=True)
    assert np.all(likely.converged)
    assert np.all(smooth.converged)
    errors = [
        np.square(np.asarray(fit.probabilities) - law).sum(axis=1) for fit in (likely, smooth)
    ]
    stats.check_proportion(np.sum(errors[1] > errors[0]), trials, 0.5, at_most=True)
    stats.must_fail(
        stats.check_proportion, np.sum(errors[0] > errors[1]), trials, 0.5, at_most=True
    )


def test_two_threads_do_not_wait_for_each_other(rng):
    """Batched LAPACK in two programs at once never returned (jaxlib 0.10.2, two cores)."""
    table = rng.dirichlet(np.full(256, 2.0), 256)
    tallies = rng.multinomial(5000, table.mean(axis=0), 8)

    def work():
        for _ in range(3):
            fit = maximum_likelihood(table, tallies, tolerance=0, max_iterations=2)
            jax.block_until_ready(fit)

    # A failure must not hinder the interpreter from ending.
    threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert not any(thread.is_alive() for thread in threads)
