"""Real values in protocols for pairs of bins: the same reports as of the bins, and their errors."""

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp.pairwise import (
    AUC,
    BilinearAUC,
    GiniCoefficient,
    GiniDiversity,
    GiniMeanDifference,
    Grid,
    GridKernel,
    KendallTau,
    MatrixKernel,
    OneReport,
    OneStep,
    OnGrid,
    OracleStatistic,
    ProductGrid,
    QuantizedRR,
    TwoReport,
    best,
    candidates,
)
from jaxdp.pairwise.kernels._grid_kernel import on_bins
from jaxdp.randomizers import KRR
from tests import stats
from tests.marks import slow

GRID = Grid.uniform(5, low=0.0, high=10.0)
KERNEL = GridKernel(GiniMeanDifference(), GRID)
LABELLED = ProductGrid((Grid(edges=(0.5,)), Grid.uniform(3)))
VALUES = np.array([0.0, 1.9, 2.0, 5.5, 10.0, 3.3, 3.3], np.float32)
BINS = np.array([0, 0, 1, 2, 4, 1, 1])


@pytest.mark.parametrize("method", ["per_user", slow("tally")])
@pytest.mark.parametrize("make", [OneReport, slow(TwoReport), OneStep])
def test_users_report_their_bins(make, method, key):
    """The same words, and so the same estimate as of users who hold the bins."""
    values, bins = np.tile(VALUES, 20), np.tile(BINS, 20)
    protocol = make(KERNEL, 3.0)
    given = jaxdp.Population.from_histogram(np.full(5, 28), np.arange(1.0, 10.0, 2.0, np.float32))
    plain = jaxdp.Population.from_histogram(np.full(5, 28))
    if method == "per_user":
        given = jaxdp.Population.from_values(values)
        plain = jaxdp.Population.from_values(bins, num_values=5)
    found = jaxdp.run(OnGrid(protocol, GRID), given, key, method=method)
    assert float(found) == float(jaxdp.run(protocol, plain, key, method=method))


@pytest.mark.parametrize("form", ["u", "v"])
def test_errors_have_the_quantisation_error(form):
    """With the kernel of randomized response they are those of `QuantizedRR` on the grid."""
    plain = QuantizedRR(GiniMeanDifference(), 2.0, grid=GRID, form=form)
    protocol = OnGrid(OracleStatistic(KERNEL, KRR(5, 2.0), form=form), GRID)
    counts, p = np.arange(1, 8), np.arange(1, 8) / 28
    assert protocol.truth(counts, VALUES) == plain.truth(counts, VALUES)
    np.testing.assert_allclose(
        protocol.variance(counts, VALUES), plain.variance(counts, VALUES), rtol=1e-9
    )
    assert protocol.population_truth(p, 50, VALUES) == plain.population_truth(p, 50, VALUES)
    np.testing.assert_allclose(
        protocol.population_variance(p, 50, VALUES), plain.population_variance(p, 50, VALUES)
    )
    assert protocol.variance_kind == "exact"
    assert protocol.exact_epsilon() == plain.exact_epsilon()
    assert protocol.variance(counts, VALUES) <= protocol.worst_case_variance(28)
    biased = OnGrid(OneReport(KERNEL, 0.5, form=form, rank=1), GRID)
    assert biased.variance_kind == "bound"
    lost = float(biased.protocol.truth(np.bincount(BINS))) - float(
        biased.truth(np.ones(7, int), VALUES)
    )
    least = float(biased.protocol.variance(np.bincount(BINS))) + lost**2
    assert biased.variance(np.ones(7, int), VALUES) > least


@pytest.mark.parametrize(
    "protocol",
    [
        OneReport(KERNEL, 2.0),
        slow(OneReport(KERNEL, 2.0, form="v")),
        slow(TwoReport(KERNEL, 4.0)),
        slow(OracleStatistic(KERNEL, KRR(5, 2.0))),
    ],
    ids=lambda protocol: f"{type(protocol).__name__}, {protocol.form}",
)
def test_intervals_hold_the_statistic_of_the_values(protocol, key):
    """At either end of their bins; and not without the quantisation error."""
    given, draws, confidence = OnGrid(protocol, GRID), 60, 0.95
    low = np.array([0.0, 2.0, 4.0, 6.0, 8.0], np.float32)
    values = np.concatenate([low, low + np.float32(1.99)])
    # The values of bins below the middle at their lower ends, of others at their upper ends
    counts = np.array([40, 20, 0, 0, 0, 0, 0, 0, 20, 40]) * 10_000
    users = jaxdp.Population.from_histogram(counts, values)
    truth, missed, missed_bins = float(given.truth(counts, values)), 0, 0
    n = int(counts.sum())
    for t in range(draws):
        outcome = jaxdp.engine.outcome(given, users, jax.random.fold_in(key, t), method="tally")
        estimate = float(given.built.estimate(outcome))
        error = float(given.reported_variance(outcome, n))
        of_bins = float(protocol.reported_variance(outcome, n))
        assert error == pytest.approx(of_bins + given.largest_quantization_error**2, rel=1e-6)
        missed += abs(estimate - truth) > 1.96 * error**0.5
        missed_bins += abs(estimate - truth) > 1.96 * of_bins**0.5
    stats.check_proportion(missed, draws, 1 - confidence, at_most=True)
    stats.must_fail(stats.check_proportion, missed_bins, draws, 1 - confidence, at_most=True)


def test_where_there_are_no_intervals(key):
    """In several rounds, and of functions of several averages; matrices have no quantisation."""
    users = jaxdp.Population.from_histogram(np.full(5, 400), np.arange(1.0, 10.0, 2, np.float32))
    several = OnGrid(OneStep(KERNEL, 3.0), GRID)
    assert several.reported_variance(jaxdp.engine.outcome(several, users, key), 2000) is None
    ratio = OnGrid(OracleStatistic(GridKernel(GiniCoefficient(), GRID), KRR(5, 3.0)), GRID)
    assert np.isinf(ratio.largest_quantization_error)
    assert ratio.reported_variance(jaxdp.engine.outcome(ratio, users, key), 2000) is None
    plain = OracleStatistic(MatrixKernel(np.eye(5)), KRR(5, 3.0))
    given = OnGrid(plain, GRID)
    assert given.largest_quantization_error == 0
    outcome = jaxdp.engine.outcome(given, users, key)
    assert given.reported_variance(outcome, 2000) == plain.reported_variance(outcome, 2000)
    average = GridKernel(GiniMeanDifference(), GRID, "average")
    wide, narrow = OnGrid(OneReport(average, 1.0), GRID), OnGrid(OneReport(KERNEL, 1.0), GRID)
    assert wide.largest_quantization_error == 2 * narrow.largest_quantization_error == 4.0


@pytest.mark.parametrize("kernel", [GiniMeanDifference(), GiniCoefficient()])
@pytest.mark.parametrize("form", ["u", "v"])
def test_a_kernel_on_a_grid_is_that_of_its_matrices(kernel, form):
    counts = np.array([3, 1, 0, 4, 2])
    found, matrices = GridKernel(kernel, GRID), kernel.matrices(GRID)
    np.testing.assert_array_equal(found.matrices(5), matrices)
    np.testing.assert_array_equal([f(0, 3) for f in found.functions], matrices[:, 0, 3])
    totals = matrices @ counts @ counts
    if form == "u":
        totals = totals - np.diagonal(matrices, axis1=1, axis2=2) @ counts
    expected = kernel.linked(totals / (90 if form == "u" else 100), 10.0)
    assert found.of_counts(counts, form=form) == pytest.approx(expected, rel=1e-12)
    p = counts / 10
    assert found.of_distribution(p) == pytest.approx(kernel.linked(matrices @ p @ p, np.inf))
    with pytest.raises(ValueError, match="values must be None"):
        found.of_counts(counts, values=VALUES[:5])


def test_kernels_that_bins_by_index_have():
    assert on_bins(AUC(), LABELLED) == (AUC(), (2, 3))
    assert on_bins(GiniMeanDifference(), GRID) == (KERNEL, None)
    product = ProductGrid((GRID, GRID))
    assert on_bins(KendallTau(), product) == (KendallTau(), (5, 5))


def test_areas_of_real_scores(key):
    """A protocol for the AUC takes the bins of labels and scores too."""
    protocol = OnGrid(BilinearAUC(3, 4.0, "private"), LABELLED)
    rng = np.random.default_rng(0)
    values = np.stack([rng.integers(0, 2, 400), rng.random(400)], axis=1).astype(np.float32)
    users = jaxdp.Population.from_values(values)
    counts = np.ones(400, int)
    error = float(protocol.variance(counts, values))
    assert abs(float(jaxdp.run(protocol, users, key)) - protocol.truth(counts, values)) < (
        8 * error**0.5
    )
    alike = jaxdp.Population.from_values(values * np.float32([0, 1]))
    with pytest.raises(ValueError, match="both labels"):
        jaxdp.run(protocol, alike, key)
    with pytest.raises(ValueError, match="coordinate 1"):
        jaxdp.run(protocol, jaxdp.Population.from_values(values + np.float32([0, 1])), key)


def test_the_ranking_of_a_grid():
    """Errors are those of the bins, and the protocols are for the values."""
    ranking = best(GiniMeanDifference(), 1000, 2.0, GRID, 1, "uniform")
    bins = best(KERNEL, 1000, 2.0, None, 1, "uniform")
    assert [entry.error for entry in ranking.entries] == [entry.error for entry in bins.entries]
    for entry, plain in zip(ranking.entries, bins.entries, strict=True):
        expected = QuantizedRR(GiniMeanDifference(), 2.0, grid=GRID)
        if entry.name != "QuantizedRR":
            expected = OnGrid(plain.protocol, GRID)  # pyright: ignore[reportArgumentType]
        assert entry.protocol == expected
        assert entry.report_bytes == plain.report_bytes
    makers = candidates(GiniMeanDifference(), GRID)
    assert makers.keys() == candidates(KERNEL).keys()
    assert makers["OneReport, PrivUnit"](1.0, 100).exact_epsilon() <= 1.0


def test_a_matrix_on_a_grid():
    """Its statistic of values is that of their bins."""
    protocol = OnGrid(OneReport(1 - np.eye(5), 1.0), GRID)
    assert isinstance(protocol.kernel, MatrixKernel)
    counts = np.arange(1, 8)
    bins = np.bincount(BINS, counts, 5).astype(int)
    assert protocol.truth(counts, VALUES) == protocol.protocol.truth(bins)
    assert protocol.variance(counts, VALUES) == protocol.protocol.variance(bins)
    p = counts / 28
    assert protocol.population_truth(p, 9, VALUES) == pytest.approx(
        float(protocol.protocol.population_truth(bins / 28, 9))
    )
    assert protocol.worst_case_variance(9) == protocol.protocol.worst_case_variance(9)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: OnGrid(KRR(5, 1.0), GRID), "protocol"),
        (lambda: OnGrid(OneReport(KERNEL, 1.0), 5), "grid"),
        (lambda: OnGrid(OneReport(KERNEL, 1.0), Grid.uniform(5)), "grid"),
        (lambda: GridKernel(np.eye(5), GRID), "kernel"),
        (lambda: GridKernel(GiniDiversity(), GRID), "grid"),
        (lambda: GridKernel(GiniMeanDifference(), Grid((0.5,))), "grid"),
        (lambda: GridKernel(GiniMeanDifference(), GRID, "points"), "rule"),
    ],
)
def test_bad_input(make, name):
    with pytest.raises((ValueError, TypeError), match=name):
        make()
