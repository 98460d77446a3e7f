"""The experiments of the papers' figures: their cells, and a small one of each from end to end."""

import dataclasses

import numpy as np
import pytest

from jaxdp_experiments import (
    bell_fig3,
    bell_fig5,
    ghazi_corollary7,
    ghazi_grids,
    ghazi_rank,
    ghazi_separation,
    ghazi_shuffle,
    ghazi_theorem14,
    ghazi_zeta,
    vus_flights,
)

MODULES = (
    bell_fig3,
    bell_fig5,
    ghazi_corollary7,
    ghazi_grids,
    ghazi_rank,
    ghazi_separation,
    ghazi_shuffle,
    ghazi_theorem14,
    ghazi_zeta,
    vus_flights,
)


def name(module):
    return module.EXPERIMENT.name


@pytest.mark.parametrize("module", MODULES, ids=name)
def test_cells_are_unique(module):
    for settings in (module.EXPERIMENT.settings, module.EXPERIMENT.quick):
        cells = module.cells(settings)
        assert len({cell.labels for cell in cells}) == len(set(cells)) == len(cells)


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES, ids=name)
def test_rows_and_figure(module, monkeypatch, rng):
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("matplotlib")
    labels = np.repeat([0, 1], [900, 600])
    patients = rng.random(1500).astype(np.float32) ** (1 + labels), labels, 0.7
    monkeypatch.setattr(bell_fig3, "read_scores", lambda: patients)
    cells = module.cells(module.EXPERIMENT.quick)
    if module is bell_fig3:
        cells = cells[:1]
    if module is bell_fig5:
        cells = [dataclasses.replace(c, per_class=2000) for c in cells if c.log_scores == 4]
    rows = [row for cell in cells for row in cell.rows()]
    for row in rows:
        numbers = [v for v in row.values() if isinstance(v, float)]
        assert numbers
        assert np.all(np.isfinite(numbers))
        # The mean of 50 squares of normal errors is off by 5 less than once in 10**9 times.
        found = row.get("measured", row.get("mse"))
        if "predicted" in row and found is not None:
            assert 0.2 < found / row["predicted"] < 5
    drawn = module.figure(pa.Table.from_pylist(rows))
    assert any(axes.lines for axes in drawn.axes)
