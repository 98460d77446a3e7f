"""The experiment `bell-table1`: its lines, and slopes that are the proven ones."""

import dataclasses
import math

import pytest

from jaxdp_experiments.bell_table1 import EXPERIMENT, ROWS, cells, figure


def test_cells():
    """A line for each row of the table, axis and epsilon; other settings are other cells."""
    quick, full = cells(EXPERIMENT.quick), cells(EXPERIMENT.settings)
    for lines, epsilons in ((quick, 1), (full, len(EXPERIMENT.settings.epsilons))):
        assert len({cell.labels for cell in lines}) == 2 * len(ROWS) * epsilons == len(lines)
    assert not set(quick) & set(full)


@pytest.mark.slow
def test_a_line():
    """Measured errors are within a factor 3 of the predicted ones: 100 trials tell these apart."""
    quick = cells(EXPERIMENT.quick)
    line = next(cell for cell in quick if cell.labels[:2] == LINE)
    rows = dataclasses.replace(line, points=(3000, 30_000), num_trials=100).rows()
    for row in rows:
        assert 1 / 3 < row["mse"] / row["predicted"] < 3
    (low, high), slope = rows, rows[0]["slope"]
    assert slope == pytest.approx(math.log10(high["mse"] / low["mse"]))
    assert rows[0]["slope_stderr"] < 0.15


LINE = (("row", "users, sample"), ("axis", "num_users"))


@pytest.mark.slow
def test_slopes_and_figure():
    """By prediction basic composition grows as alpha**3, all others as alpha**2."""
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("matplotlib")
    rows = [row for cell in cells(EXPERIMENT.quick) for row in cell.rows()]
    assert all(0.5 < row["mse"] / row["predicted"] < 2 for row in rows)
    for name in ROWS:
        two, four = (
            row["predicted"] for row in rows if (row["row"], row["axis"]) == (name, "alpha")
        )
        assert abs(math.log2(four / two) - (3 if name == "budget, basic" else 2)) < 0.2
    assert len(figure(pa.Table.from_pylist(rows)).axes) == 2
