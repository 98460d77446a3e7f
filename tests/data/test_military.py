"""The counts of the armed forces that ship with the package."""

import numpy as np
import pytest

from jaxdp.data import _stored, load_military

ATTRIBUTES = ("grade", "branch", "gender", "race", "hisp", "rank")


def test_cells_are_distinct_levels_of_six_attributes():
    military = load_military()
    cells, counts = military["cells"], military["counts"]
    assert cells.shape == (1646, 6)
    assert counts.shape == (1646,)
    assert counts.min() >= 1
    assert counts.sum() == 1_414_593
    assert len(np.unique(cells, axis=0)) == 1646
    sizes = [military[f"levels_{name}"].size for name in ATTRIBUTES]
    assert sizes == [3, 4, 2, 7, 2, 11]
    assert np.all(cells.max(axis=0) == np.array(sizes) - 1)


def test_margins():
    """Numbers of the source: women, and members of each branch."""
    military = load_military()
    counts, cells = military["counts"], military["cells"]
    branch = dict(
        zip(
            military["levels_branch"].tolist(),
            np.bincount(cells[:, 1], weights=counts).astype(int).tolist(),
            strict=True,
        )
    )
    assert branch == {
        "air force": 331_486,
        "army": 555_849,
        "marine corps": 202_966,
        "navy": 324_292,
    }
    assert counts[cells[:, 2] == 0].sum() == 202_718
    assert military["levels_gender"][0] == "female"


def test_arrays_are_read_only():
    with pytest.raises(ValueError, match="read-only"):
        load_military()["counts"][0] = 0


def test_a_changed_file_is_refused():
    with pytest.raises(ValueError, match=r"military\.npz.*changed or damaged.*install"):
        _stored.load_arrays("military.npz", "0" * 64)
