"""The experiments on marginals, on a small data set of their own."""

import pytest

from jaxdp_experiments import _marginals, marginals_msnbc, marginals_sparse


def test_data_is_asked_for(monkeypatch):
    monkeypatch.delenv("JAXDP_DATA", raising=False)
    with pytest.raises(ValueError, match="JAXDP_DATA"):
        _marginals.users("msnbc", 17, None, 0, 0)


def test_users_have_at_most_their_features():
    rows, counts = _marginals.users("synthetic", 6, 2, 0, 0)
    assert rows.sum(axis=1).max() == 2
    assert counts.sum() == 500
    rows, counts = _marginals.users("synthetic", 6, None, 70, 0)
    assert counts.sum() == 70


@pytest.mark.parametrize("module", [marginals_msnbc, marginals_sparse])
def test_full_grids_are_valid(module):
    """Every method of every data set fits its spec, and cells differ."""
    cells = module.cells(module.EXPERIMENT.settings)
    assert len({cell.labels for cell in cells}) == len(cells)


@pytest.mark.slow
def test_a_row_holds_the_gain():
    plain, moments = marginals_sparse.cells(marginals_sparse.EXPERIMENT.quick)[::4]
    (plain_row,), (row,) = plain.rows(), moments.rows()
    assert (plain.method, moments.method) == ("none", "moments")
    assert plain_row["gain"] == 1
    assert row["gain"] > 1
    assert 0 <= row["gap"] < row["predicted"] ** 2


@pytest.mark.slow
@pytest.mark.parametrize("module", [marginals_msnbc, marginals_sparse])
def test_quick_versions_run(module):
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("matplotlib")
    experiment = module.EXPERIMENT
    rows = [row for cell in module.cells(experiment.quick) for row in cell.rows()]
    assert len(experiment.figure(pa.Table.from_pylist(rows)).axes) == 1
