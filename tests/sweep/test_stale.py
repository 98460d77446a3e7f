"""Results of other code, and of earlier layouts: seen, kept where accepted, removed where asked."""

import pathlib
import shutil

import pytest

from jaxdp import sweep
from jaxdp.sweep import _fingerprint
from jaxdp.sweep._fingerprint import fingerprint

from .files import contents
from .naps import Nap

NAPS = [Nap(0.0), Nap(1.0), Nap(2.0)]
STORED = pathlib.Path(__file__).parent / "stored"


@pytest.fixture
def edit(monkeypatch):
    """Changes the code that all cells depend on."""
    return lambda **code: monkeypatch.setattr(_fingerprint, "_versions", lambda modules: code)


def test_cells_of_other_code_are_seen_and_computed_anew(tmp_path, edit, capsys):
    edit(jax="0.9", mine="a" * 24)
    sweep.run(NAPS[:2], tmp_path)
    edit(jax="1.0", mine="b" * 24)
    found = sweep.run(NAPS, tmp_path, progress=True)
    (stale,) = found.stale
    assert (found.computed, found.reused, stale.cells) == (3, 0, 2)
    assert stale.differs == "jax 0.9, now 1.0, mine was edited"
    assert str(stale) in capsys.readouterr().err
    assert len(contents(tmp_path / "cells")) == 5
    edit(jax="0.9", mine="a" * 24)
    assert sweep.run(NAPS[:2], tmp_path).reused == 2


def test_accepted_cells_are_kept_by_this_code_and_by_no_later_one(tmp_path, edit):
    edit(mine="a")
    sweep.run(NAPS[:2], tmp_path)
    edit(mine="b")
    code = sweep.run([NAPS[0], Nap(9.0)], tmp_path).stale[0].code
    found = sweep.run(NAPS, tmp_path, accept_code=[code])
    assert (found.computed, found.reused, found.stale) == (1, 2, ())
    assert sweep.collect(tmp_path)["value"].to_pylist() == [0.0, 1.0, 2.0]
    again = sweep.run(NAPS, tmp_path)  # without a word
    assert (again.computed, again.reused, again.stale) == (0, 3, ())
    edit(mine="c")
    last = sweep.run(NAPS, tmp_path)
    assert (last.computed, sorted(stale.cells for stale in last.stale)) == (3, [2, 2])


def test_to_accept_one_code_is_not_to_accept_another(tmp_path, edit):
    codes = []
    for mine in ("a", "b"):
        edit(mine=mine)
        sweep.run(NAPS, tmp_path)
        codes.append(fingerprint(NAPS[0]).partition("-")[2])
    edit(mine="c")
    assert sweep.run(NAPS, tmp_path, accept_code=codes[:1]).reused == 3
    for path in (tmp_path / "cells").glob(f"*-{codes[0]}.parquet"):
        path.unlink()
    found = sweep.run(NAPS, tmp_path)
    assert (found.computed, [stale.code for stale in found.stale]) == (3, codes[1:])


def test_codes_that_are_not_there_are_refused(tmp_path, edit):
    edit(mine="a")
    sweep.run(NAPS, tmp_path)
    with pytest.raises(ValueError, match="accept_code must be left out"):
        sweep.run(NAPS, tmp_path, accept_code=["0" * 12])
    edit(mine="b")
    with pytest.raises(ValueError, match="accept_code must be one of"):
        sweep.run(NAPS, tmp_path, accept_code=["0" * 12])


def test_a_damaged_file_is_not_accepted(tmp_path, edit):
    edit(mine="a")
    sweep.run(NAPS, tmp_path)
    path = tmp_path / "cells" / f"{fingerprint(NAPS[1])}.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    code = fingerprint(NAPS[1]).partition("-")[2]
    edit(mine="b")
    found = sweep.run(NAPS, tmp_path, accept_code=[code])
    assert (found.computed, found.reused) == (1, 2)
    assert sweep.collect(tmp_path).num_rows == 3


@pytest.mark.parametrize("layout", [1, 2])
def test_results_of_each_layout_are_read(layout, tmp_path):
    """Files as each version has written them; a new layout adds its own, and changes none."""
    stored = STORED / f"layout{layout}"
    assert sweep.collect(stored)["root"].to_pylist() == [1.0, 2.0]
    assert sweep.status(stored).done == 2
    shutil.copytree(stored, tmp_path / "copy")
    found = sweep.run([Nap(1.0), Nap(4.0)], tmp_path / "copy", name="naps")
    (stale,) = found.stale
    assert (found.computed, stale.cells) == (2, 2)
    shutil.copytree(stored, tmp_path / "kept")
    found = sweep.run(
        [Nap(1.0), Nap(4.0)], tmp_path / "kept", name="naps", accept_code=[stale.code]
    )
    assert (found.computed, found.reused) == (0, 2)
    assert sweep.collect(tmp_path / "kept").equals(sweep.collect(stored))


def test_a_later_layout_is_not_guessed_at(tmp_path):
    sweep.run(NAPS, tmp_path)
    path = tmp_path / "experiment.json"
    path.write_text(path.read_text().replace('"layout": 2', '"layout": 3'))
    with pytest.raises(ValueError, match="later version"):
        sweep.collect(tmp_path)
