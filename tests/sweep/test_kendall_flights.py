"""The main job: its grids, its numbers, its time, and its resistance to being killed."""

import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from jaxdp import sweep
from jaxdp.data import load_flights
from jaxdp.sweep._report import deviation
from jaxdp_experiments.kendall_flights import EXPERIMENT, merged_table
from tests import stats

from .files import contents

ROOT = pathlib.Path(__file__).parents[2]
COMMAND = [
    sys.executable,
    "-c",
    "import sys; from jaxdp.sweep.cli import main; sys.exit(main())",
    "run",
    "kendall-flights",
    "--out",
]
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "kernels")])}


def tau_by_definition(table):
    """The mean of sgn(a - a') sgn(b - b') over ordered pairs of users, term by term."""
    total = 0
    for (a, b), here in np.ndenumerate(table):
        for (c, d), there in np.ndenumerate(table):
            total += int(here) * int(there) * int(np.sign(a - c) * np.sign(b - d))
    n = int(table.sum())
    return total / (n * (n - 1))


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    out = tmp_path_factory.mktemp("quick")
    assert sweep.run(EXPERIMENT.cells(EXPERIMENT.quick), out).failures == ()
    return sweep.collect(out)


def test_flights_are_as_shipped():
    flights = load_flights()
    table, edges = flights["dep_arr_delay_table"], flights["delay_edges"]
    assert table.sum() == 327_346
    minutes = flights["arr_delay_min"] + np.arange(flights["arr_delay_hist"].size)
    classes = np.searchsorted(edges, minutes, side="right")
    arrivals = np.bincount(classes, weights=flights["arr_delay_hist"])
    np.testing.assert_array_equal(arrivals, table.sum(axis=0))
    with pytest.raises(ValueError, match="read-only"):
        table[0, 0] = 1


def test_damaged_data_is_refused(monkeypatch):
    monkeypatch.setattr("jaxdp.data._flights.SHA256", "0" * 64)
    with pytest.raises(ValueError, match="sha256"):
        load_flights()


@pytest.mark.parametrize("grid", range(2, 11))
def test_grids_merge_neighbouring_classes(grid):
    table, merged = load_flights()["dep_arr_delay_table"], merged_table(grid)
    groups = [[c for c in range(10) if c * grid // 10 == g] for g in range(grid)]
    assert all(groups)
    assert merged.shape == (grid, grid)
    for (a, b), count in np.ndenumerate(merged):
        assert count == table[np.ix_(groups[a], groups[b])].sum()


def test_the_whole_grid():
    cells = EXPERIMENT.cells(EXPERIMENT.settings)
    labels = [dict(cell.labels) for cell in cells]
    assert [row["grid"] for row in labels[::6]] == [f"{g}×{g}" for g in range(2, 11)]
    assert [row["epsilon"] for row in labels[:6]] == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0]
    assert len(cells) == 54
    assert {cell.num_trials for cell in cells} == {1000}


def test_truths(quick):
    for row in quick.to_pylist():
        table = merged_table(int(row["grid"].partition("×")[0]))
        assert row["truth"] == pytest.approx(tau_by_definition(table), abs=1e-15)
        assert row["target"] == pytest.approx(0.432628, abs=5e-7)


def test_the_bound_is_that_of_theorem_1(quick):
    for row in quick.to_pylist():
        n, k = 327_346, int(row["grid"].partition("×")[0]) ** 2
        keep = 1 - k / (k + np.exp(row["epsilon"]) - 1)
        variance = 1 / (n * keep**2) + (2 - keep) ** 2 / (2 * n * (n - 1) * keep**4)
        assert row["bound_rmse"] == pytest.approx(2 * np.sqrt(variance), rel=1e-9)
        assert row["predicted_rmse"] < row["bound_rmse"]


def check_row(row, predicted):
    """Nearly a quadratic form of Gaussians, so the kurtosis is at most 15."""
    estimates, truth, cells = row["estimates"], row["truth"], 9
    stats.check_mean(estimates, truth, variance=predicted**2, cells=cells)
    stats.check_variance(estimates, predicted**2, kurtosis=15, mean=truth, cells=cells)


def test_measured_and_predicted_error(quick):
    rows = quick.to_pylist()
    assert len(rows) == 9
    for row in rows:
        check_row(row, row["predicted_rmse"])
        # The seed is fixed, so this is a fact about these numbers and not a chance.
        assert abs(deviation(row)) < 4


def test_a_wrong_prediction_is_seen(quick):
    for row in quick.to_pylist():
        for factor in (0.3, 5.0):
            with pytest.raises(stats.CheckFailed):
                check_row(row, factor * row["predicted_rmse"])


def test_the_figure_shows_every_cell(quick):
    upper, lower = EXPERIMENT.figure(quick).axes
    assert len(upper.containers) == len(lower.containers) == 3
    for container in upper.containers:
        points = container.lines[0].get_xydata()
        rows = [row for row in quick.to_pylist() if row["grid"] == container.get_label()]
        np.testing.assert_array_equal(points, [(row["epsilon"], row["rmse"]) for row in rows])


def test_a_figure_of_one_cell(quick):
    EXPERIMENT.figure(quick.slice(0, 1)).draw_without_rendering()


def test_one_compilation_a_grid(count_compilations):
    """What the first epsilon of a grid of cells compiles serves any other."""

    def run_cells(epsilon):
        settings = dataclasses.replace(EXPERIMENT.quick, epsilons=(epsilon,))
        with count_compilations() as seen:
            EXPERIMENT.cells(settings)[-1].rows()
        return seen.compiled

    run_cells(2.0)
    assert run_cells(3.0) == []


@pytest.mark.slow
def test_the_whole_job_agrees_with_its_prediction(tmp_path):
    assert sweep.run(EXPERIMENT.cells(EXPERIMENT.settings), tmp_path).failures == ()
    rows = sweep.collect(tmp_path).to_pylist()
    assert len(rows) == 54
    assert max(abs(deviation(row)) for row in rows) < 4


@pytest.mark.slow
def test_ten_kills(tmp_path, rng):
    """Killed at ten random moments and resumed, the job leaves the very same files."""
    began = time.monotonic()
    subprocess.run([*COMMAND, str(tmp_path / "whole")], check=True, env=ENVIRONMENT)
    whole = time.monotonic() - began
    out = tmp_path / "killed"
    for _ in range(10):
        process = subprocess.Popen([*COMMAND, str(out)], env=ENVIRONMENT)
        try:
            process.wait(timeout=rng.uniform(0.05, 0.5) * whole)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        assert process.wait(timeout=60) in (0, -signal.SIGKILL)
    subprocess.run([*COMMAND, str(out)], check=True, env=ENVIRONMENT)
    assert contents(out) == contents(tmp_path / "whole")
