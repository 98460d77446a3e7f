"""The loaders of data with binary features, on files of the same form."""

import hashlib

import numpy as np
import pytest

from jaxdp.data import _baskets

FILES = {
    "msnbc_page_sets.npz": {
        "mask": np.array([1, 6], np.uint32),
        "count": np.array([5, 2], np.int32),
        "categories": np.array(["a", "b", "c"]),
    },
    "mushroom_fimi.npz": {"items": np.array([[1, 3], [2, 4]], np.uint8)},
    "retail_baskets.npz": {
        "indptr": np.array([0, 2, 3, 5], np.int32),
        "indices": np.array([0, 2, 2, 1, 2], np.uint16),
    },
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, arrays in FILES.items():
        np.savez(tmp_path / name, **arrays)
    hashes = {n: hashlib.sha256((tmp_path / n).read_bytes()).hexdigest() for n in FILES}
    monkeypatch.setattr(_baskets, "SHA256", hashes)
    return tmp_path


def test_rows_are_those_of_the_files(folder):
    found = _baskets.load_msnbc(folder)
    assert found["rows"].tolist() == [[1, 0, 0], [0, 1, 1]]
    assert found["counts"].tolist() == [5, 2]
    assert found["features"].tolist() == ["a", "b", "c"]
    found = _baskets.load_mushrooms(folder)
    assert found["rows"].tolist() == [[1, 0, 1, 0], [0, 1, 0, 1]]
    assert found["counts"].tolist() == [1, 1]
    found = _baskets.load_retail(folder, num_items=2)
    assert found["features"].tolist() == [2, 0]
    assert found["rows"].tolist() == [[1, 1], [1, 0], [1, 0]]
    assert found["rows"].dtype == np.float32
    assert not found["rows"].flags.writeable


def test_another_file_is_refused(folder):
    (folder / "mushroom_fimi.npz").write_bytes(b"something else")
    with pytest.raises(ValueError, match="sha256"):
        _baskets.load_mushrooms(folder)
    with pytest.raises(FileNotFoundError):
        _baskets.load_msnbc(folder / "elsewhere")
    with pytest.raises(ValueError, match="num_items"):
        _baskets.load_retail(folder, 5)
