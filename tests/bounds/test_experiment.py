"""The experiment on sample complexities from both sides: its cells, rows, and figure."""

import math

import pytest

from jaxdp_experiments import edmonds_bounds

EXPERIMENT = edmonds_bounds.EXPERIMENT


@pytest.mark.parametrize("settings", [EXPERIMENT.settings, EXPERIMENT.quick])
def test_cells_are_unique(settings):
    cells = edmonds_bounds.cells(settings)
    assert len({cell.labels for cell in cells}) == len(cells)
    assert {cell.epsilon for cell in cells} == {*settings.epsilons, None}


@pytest.mark.slow
def test_rows_and_figure():
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("matplotlib")
    cells = [cell for cell in edmonds_bounds.cells(EXPERIMENT.quick) if cell.num_bits == 3]
    rows = [row for cell in cells for row in cell.rows()]
    assert {row["workload"] for row in rows} == set(edmonds_bounds.WORKLOADS)
    for row in rows:
        assert 0 <= row["lower"] <= row["upper"] < math.inf
        assert row["lower"] > 0 or row["error"] > 0.01
    at = {(row["workload"], row["loss"], row["error"], row["part"]): row for row in rows}
    for workload in edmonds_bounds.WORKLOADS:
        mean, worst, maximum = (
            at[workload, loss, 0.01, "local"] for loss in ("mean", "worst", "maximum")
        )
        # The losses ascend, so what is enough for one is enough for those before it.
        assert mean["upper"] <= worst["upper"] * 1.01
        assert worst["upper"] < maximum["upper"]
    drawn = edmonds_bounds.figure(pa.Table.from_pylist(rows))
    assert all(len(axes.lines) == 8 for axes in drawn.axes)
