"""The experiment `gini-scaling`: slopes in the number of users, and what is measured."""

import math

import pytest

from jaxdp_experiments import gini_scaling
from jaxdp_experiments.gini_scaling import EXPERIMENT, PROTOCOLS, ScalingCell, cells, figure
from tests.marks import slow


def test_cells():
    """Other settings are other cells."""
    quick, full = cells(EXPERIMENT.quick), cells(EXPERIMENT.settings)
    assert len(full) == 6 * len(PROTOCOLS)
    assert not set(quick) & set(full)


@pytest.mark.parametrize(
    ("protocol", "least", "most"),
    [
        ("corollary 1", -0.55, -0.45),
        slow("best bins", -0.75, -0.6),
        slow("one report", -1.01, -0.99),
    ],
)
def test_slope(protocol, least, most):
    """The exact errors of many users, of which none is simulated."""
    low, high = (ScalingCell(protocol, n, 1.0, 1, 0).rows()[0] for n in (10**7, 10**9))
    assert low["mse"] is None
    assert least < math.log10(high["predicted"] / low["predicted"]) / 2 < most


@pytest.mark.slow
def test_rows_and_figure(monkeypatch):
    """Measured errors are within a factor 2 of the predicted ones, 50 trials each."""
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(gini_scaling, "NUM_VALUES", 32)
    rows = [
        ScalingCell(name, n, 1.0, 50, 0).rows()[0] for name in PROTOCOLS for n in (10**3, 10**4)
    ]
    assert all(0.5 < row["mse"] / row["predicted"] < 2 for row in rows)
    assert len(figure(pa.Table.from_pylist(rows)).axes) == 1
