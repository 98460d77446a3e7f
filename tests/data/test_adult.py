"""The loader of the census extract, on files of the same form."""

import hashlib

import numpy as np
import pytest

from jaxdp.data import _adult
from jaxdp.data._adult import load_adult

ROWS = {
    "adult.data": (
        "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, "
        "Male, 2174, 0, 40, United-States, <=50K\n"
        "52, ?, 209642, HS-grad, 9, Married-civ-spouse, ?, Husband, Black, Male, 0, 0, 45, Cuba, "
        ">50K\n\n"
    ),
    "adult.test": (
        "|1x3 Cross validator\n"
        "25, Private, 226802, 11th, 7, Never-married, Machine-op-inspct, Own-child, Black, Female, "
        "0, 0, 40, United-States, <=50K.\n\n"
    ),
}


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A folder that stands for the repository of the data set."""
    folder = tmp_path / "source"
    folder.mkdir()
    for name, text in ROWS.items():
        (folder / name).write_text(text)
    hashes = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in ROWS.items()}
    monkeypatch.setattr(_adult, "SHA256", hashes)
    monkeypatch.setattr(_adult, "URL", folder.as_uri() + "/")
    return folder


def check(adult):
    assert adult["age"].tolist() == [39, 52, 25]
    assert adult["capital_gain"].tolist() == [2174, 0, 0]
    assert adult["is_test"].tolist() == [False, False, True]
    assert adult["levels_income"].tolist() == ["<=50K", ">50K"]
    assert adult["income"].tolist() == [0, 1, 0]
    assert adult["levels_workclass"][adult["workclass"]].tolist() == ["State-gov", "?", "Private"]
    assert adult["sex"].dtype == np.uint8
    with pytest.raises(ValueError, match="read-only"):
        adult["age"][0] = 1


def test_downloads_keeps_and_reads_the_files(source, tmp_path, monkeypatch):
    check(load_adult())
    kept = tmp_path / "kept"
    check(load_adult(kept))
    assert {path.name: path.read_text() for path in kept.iterdir()} == ROWS
    monkeypatch.setattr(_adult, "URL", (tmp_path / "nowhere").as_uri() + "/")
    check(load_adult(kept))
    check(load_adult(str(source)))
    with pytest.raises(OSError, match="nowhere"):
        load_adult()


def test_other_files_are_refused_and_not_kept(source, tmp_path):
    (source / "adult.data").write_text(ROWS["adult.data"].replace("39", "40"))
    for folder in (source, tmp_path / "kept", None):
        with pytest.raises(ValueError, match=r"adult\.data.*sha256"):
            load_adult(folder)
    assert not (tmp_path / "kept" / "adult.data").exists()
