"""First names: only the file that is known is read."""

import gzip
import hashlib
import os
import pathlib

import numpy as np
import pytest

from jaxdp.data import _names, load_names


def test_names_and_counts(tmp_path, monkeypatch):
    path = tmp_path / "names.csv.gz"
    path.write_bytes(gzip.compress(b"name,n\nJames,30\nMary,20\n"))
    with pytest.raises(ValueError, match="is not the file of the names"):
        load_names(path)
    monkeypatch.setattr(_names, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    found = load_names(path)
    assert found["names"].tolist() == ["James", "Mary"]
    np.testing.assert_array_equal(found["counts"], np.array([30, 20]))
    with pytest.raises(ValueError, match="read-only"):
        found["counts"][0] = 1


def test_all_names():
    folder = os.environ.get("JAXDP_DATA")
    if not folder:
        pytest.skip("needs JAXDP_DATA")
    found = load_names(pathlib.Path(folder) / "ssa_babynames_1880_2010_counts.csv.gz")
    assert len(found["names"]) == 88_496
    assert found["counts"].sum() == 322_402_727
