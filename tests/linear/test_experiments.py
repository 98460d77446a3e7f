"""The experiments on linear queries and on learning: their grids, a row, and their figures."""

import math

import pytest

from jaxdp_experiments import (
    bassily_table1,
    best_channel,
    heavy_hitters,
    learning_military,
    learning_synthetic,
    mckenna_comparison,
)

EXPERIMENTS = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (
        bassily_table1,
        best_channel,
        heavy_hitters,
        learning_military,
        learning_synthetic,
        mckenna_comparison,
    )
}
experiments = pytest.mark.parametrize("name", EXPERIMENTS)


@experiments
@pytest.mark.parametrize("quick", [True, False])
def test_cells_differ_and_name_their_place(name, quick):
    experiment = EXPERIMENTS[name]
    settings = experiment.quick if quick else experiment.settings
    cells = experiment.cells(settings)
    assert len({cell.labels for cell in cells}) == len(cells) >= 2
    assert {dict(cell.labels)["epsilon"] for cell in cells} == set(settings.epsilons)
    assert len({tuple(dict(cell.labels)) for cell in cells}) == 1


@pytest.mark.slow
@experiments
def test_rows_and_figure(name):
    """The first cells of the quick grid."""
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("matplotlib")
    experiment = EXPERIMENTS[name]
    cells = experiment.cells(experiment.quick)[:2]
    found = [cell.rows() for cell in cells]
    assert len({len(rows) for rows in found}) == 1
    for cell, rows in zip(cells, found, strict=True):
        for row in rows:
            assert dict(cell.labels).items() <= row.items()
            numbers = [value for value in row.values() if isinstance(value, float)]
            assert all(math.isfinite(number) and number >= 0 for number in numbers)
    figure = experiment.figure(pa.Table.from_pylist([row for rows in found for row in rows]))
    assert any(axes.lines for axes in figure.axes)


@pytest.mark.slow
def test_prefix_sums_at_their_best():
    """The totals that the page on optimized channels names, for the cheap protocols."""
    cell = mckenna_comparison.VarianceCell
    for protocol, expected in (("HierarchicalQueries", 304.1), ("FactorizedQueries", 377.8)):
        found = cell(protocol, 32, 1.0).rows()[0]["total_variance"]
        assert found == pytest.approx(expected, rel=1e-3)
