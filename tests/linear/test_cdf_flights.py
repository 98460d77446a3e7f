"""The experiment `cdf-flights`: its rows and its figure."""

import numpy as np
import pytest

from jaxdp.data import load_flights
from jaxdp_experiments.cdf_flights import EXPERIMENT, NUM_QUICK, cells, delays, figure, protocols


def test_groups_of_delays_hold_every_flight():
    np.testing.assert_array_equal(delays(1359), load_flights()["arr_delay_hist"])
    assert delays(NUM_QUICK).shape == (NUM_QUICK,)
    assert delays(NUM_QUICK).sum() == 327_346


def test_a_cell_for_each_protocol_and_epsilon():
    names = {cell.protocol for cell in cells(EXPERIMENT.quick)}
    assert names == set(protocols(NUM_QUICK, 1.0))
    assert len(cells(EXPERIMENT.quick)) == len(names) * len(EXPERIMENT.quick.epsilons)


@pytest.mark.slow
def test_quick_results():
    """A row for each cell, and a figure of them; errors themselves are tested by protocol."""
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("matplotlib")
    rows = [row for cell in cells(EXPERIMENT.quick) for row in cell.rows()]
    for row in rows:
        assert row["predicted_worst"] >= row["predicted"] > 0
        assert row["worst"] >= row["rmse_of_all"]
        assert row["supremum"] >= row["rmse_of_all"]
    assert len(figure(pa.Table.from_pylist(rows)).axes) == 2
