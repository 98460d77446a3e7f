"""The loader of the risk scores, on a file of the same form."""

import hashlib

import numpy as np
import pytest

from jaxdp.data import _diabetes
from jaxdp.data._diabetes import load_diabetes_scores


def test_reads_the_scores_and_refuses_other_files(tmp_path, monkeypatch):
    path = tmp_path / "scores.npz"
    np.savez(path, score=np.array([0.25, 0.75], np.float32), label=np.array([0, 1], np.uint8))
    with pytest.raises(ValueError, match=r"scores\.npz.*sha256"):
        load_diabetes_scores(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr(_diabetes, "SHA256", digest)
    scores = load_diabetes_scores(str(path))
    assert scores["label"].tolist() == [0, 1]
    with pytest.raises(ValueError, match="read-only"):
        scores["score"][0] = 1
    with pytest.raises(OSError, match="nowhere"):
        load_diabetes_scores(tmp_path / "nowhere.npz")
