"""Tables of results, of simulations and of other cells."""

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("rich")

from jaxdp.sweep._report import print_results  # noqa: E402


def test_rows_with_columns_of_their_own(capsys):
    """Only rows of a `Simulation` have all of its columns, whatever else others are called."""
    rows = [{"method": "a", "epsilon": e, "rmse": e / 3, "points": [1.0]} for e in (1.0, 2.0)]
    print_results(pa.Table.from_pylist(rows), ["method", "epsilon"])
    text = capsys.readouterr().out
    assert "0.333333" in text
    assert "rmse" in text
    assert "points" not in text  # lists are stored, not printed
