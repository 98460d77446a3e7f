"""The experiment `estimates`: its data, its cells, its comparisons, and its rows."""

import numpy as np
import pytest

from jaxdp_experiments.estimates import (
    COUNTED,
    EXPERIMENT,
    ORACLES,
    EstimateCell,
    cells,
    norm_cut,
    norm_mul,
    users,
)


def test_histograms():
    assert users("zipf").sum() == 50_000
    assert users("delays").sum() == 327_346
    assert users("zipf").shape == (1000,)
    assert users("delays").shape == (128,)


def test_a_cell_for_each_data_set_and_oracle():
    names = {(cell.data, cell.oracle) for cell in cells(EXPERIMENT.settings)}
    assert len(names) == len(cells(EXPERIMENT.settings)) == 13
    assert {oracle for data, oracle in names if data == "delays"} == set(ORACLES)


def test_what_is_compared():
    counts = np.array([[50.0, 30.0, 25.0, -20.0], [50.0, 30.0, 5.0, -2.0]])
    np.testing.assert_array_equal(norm_cut(counts, 90), [[50, 30, 0, 0], [50, 30, 5, 0]])
    np.testing.assert_allclose(norm_mul(counts, 85)[1], [50, 30, 5, 0])
    np.testing.assert_allclose(norm_mul(counts, 210)[0], [100, 60, 50, 0])


@pytest.mark.slow
@pytest.mark.parametrize("oracle", COUNTED)
def test_rows(oracle):
    rows = EstimateCell("delays", oracle, 1.0, 20, 0).rows()
    errors = {row["method"]: row["mse"] for row in rows}
    assert all(row["num_trials"] == 20 for row in rows)
    assert {"likelihood", "em", "em smoothed"} <= set(errors)
    assert ("raw" in errors) == (oracle != "DiscreteLaplace")
    if "raw" in errors:
        assert errors["norm-sub"] < errors["raw"]
