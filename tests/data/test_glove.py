"""The loader of the word vectors, on a file of the same form."""

import hashlib

import numpy as np
import pytest

from jaxdp.data import _glove
from jaxdp.data._glove import load_glove


def test_reads_the_vectors_and_refuses_other_files(tmp_path, monkeypatch):
    path = tmp_path / "glove.npz"
    np.savez(path, words=np.array(["the", "of"]), vectors=np.ones((2, 3), np.float16))
    with pytest.raises(ValueError, match=r"glove\.npz.*sha256"):
        load_glove(path)
    monkeypatch.setattr(_glove, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    found = load_glove(str(path))
    assert found["words"].tolist() == ["the", "of"]
    assert found["vectors"].shape == (2, 3)
    with pytest.raises(ValueError, match="read-only"):
        found["vectors"][0, 0] = 1
    with pytest.raises(OSError, match="nowhere"):
        load_glove(tmp_path / "nowhere.npz")
