"""The experiment on GloVe vectors, on vectors of its own."""

import numpy as np
import pytest

from jaxdp_experiments import cosine_glove


def test_cells_differ_and_methods_see_the_same_noise():
    cells = cosine_glove.cells(cosine_glove.EXPERIMENT.settings)
    assert len({cell.labels for cell in cells}) == len(cells)
    assert len({cell.labels[1:] for cell in cells}) == len(cells) / len(cosine_glove.METHODS)
    assert [cell.spec().num_items for cell in cells] == [1000] * len(cells)


def test_data_is_asked_for(monkeypatch):
    monkeypatch.delenv("JAXDP_DATA", raising=False)
    with pytest.raises(ValueError, match="JAXDP_DATA"):
        cosine_glove.vectors(7)


@pytest.mark.slow
def test_a_row_holds_errors_and_neighbours(monkeypatch, rng):
    rows = rng.standard_normal((60, 5))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    monkeypatch.setattr(cosine_glove, "vectors", lambda count: rows[:count])
    exact, _, average = (
        cell
        for cell in cosine_glove.cells(cosine_glove.EXPERIMENT.quick)
        if cell.sensitivity == 0.3
    )
    (found,), (other,) = exact.rows(), average.rows()
    assert (exact.method, average.method) == ("X_ii = 1", "average")
    assert found["noise_error"] == pytest.approx(other["noise_error"])
    assert found["error"] < 0.5 * found["noise_error"]
    assert found["error"] < found["bound"]
    assert 10 / 59 < found["noise_recall"] < found["recall"] <= 1
