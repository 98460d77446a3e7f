"""The loader of the tables of hotel ratings, on a file of the same form."""

import hashlib

import numpy as np
import pytest

from jaxdp.data import _tripadvisor
from jaxdp.data._tripadvisor import load_tripadvisor


def test_reads_the_tables_and_refuses_other_files(tmp_path, monkeypatch):
    path = tmp_path / "tables.npz"
    np.savez(path, table_rated=np.arange(4).reshape(2, 2))
    with pytest.raises(ValueError, match=r"tables\.npz.*sha256"):
        load_tripadvisor(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr(_tripadvisor, "SHA256", digest)
    tables = load_tripadvisor(str(path))
    assert tables["table_rated"].tolist() == [[0, 1], [2, 3]]
    with pytest.raises(ValueError, match="read-only"):
        tables["table_rated"][0, 0] = 1
    with pytest.raises(OSError, match="nowhere"):
        load_tripadvisor(tmp_path / "nowhere.npz")
