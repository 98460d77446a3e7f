"""The census extract "Adult" of 1994, which does not ship with the package."""

import csv
import hashlib
import os
import pathlib
import urllib.request

import numpy as np

from ._stored import read_only

URL = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult/"

SHA256 = {
    "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
}

COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "native_country",
    "income",
)
NUMBERS = {"age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week"}


def load_adult(folder: str | os.PathLike[str] | None = None) -> dict[str, np.ndarray]:
    """The 48,842 records of the data set "Adult" (Census Income) of the UCI repository.

    Licence: CC BY 4.0. To cite: B. Becker, R. Kohavi (1996), Adult, UCI Machine Learning
    Repository, doi:10.24432/C5XW20. It is downloaded from there, 6 MB, and checked.

    Args:
      folder: where the files `adult.data` and `adult.test` are, or are kept once they have been
        downloaded; None to download them and keep nothing.

    Returns:
      Read-only arrays by name, the training records first, then the test records.

      * age, fnlwgt, education_num, capital_gain, capital_loss, hours_per_week: int32[48842].
      * workclass, education, marital_status, occupation, relationship, race, sex, native_country,
        income: uint8[48842], and levels_workclass, ...: the names of the levels, in alphabetical
        order; '?' where it is not known.
      * is_test: bool[48842].

    Raises:
      ValueError: a file is not the one that UCI publishes.
      OSError: a file cannot be read, written or downloaded.
    """
    rows: list[list[str]] = []
    sizes = []
    for name in SHA256:
        lines = _content(name, folder).decode("ascii").splitlines()
        records = csv.reader(
            # The test file begins with a note, after a bar.
            (line for line in lines if line and line[0] != "|"),
            skipinitialspace=True,
        )
        rows += records
        sizes.append(len(rows))
    arrays: dict[str, np.ndarray] = {}
    for name, column in zip(COLUMNS, zip(*rows, strict=True), strict=True):
        if name in NUMBERS:
            arrays[name] = np.array(column, np.int32)
        else:
            # The test file ends the income with a full stop, the training file does not.
            levels, codes = np.unique([text.rstrip(".") for text in column], return_inverse=True)
            arrays[name], arrays[f"levels_{name}"] = codes.astype(np.uint8), levels
    arrays["is_test"] = np.arange(sizes[1]) >= sizes[0]
    return read_only(arrays)


def _content(name: str, folder: str | os.PathLike[str] | None) -> bytes:
    """A file of the data set, from the folder or from UCI; raises unless its hash is right."""
    path = None if folder is None else pathlib.Path(folder) / name
    if path is not None and path.exists():
        content, origin = path.read_bytes(), str(path)
    else:
        origin = URL + name
        with urllib.request.urlopen(origin) as response:
            content = response.read()
    if hashlib.sha256(content).hexdigest() != SHA256[name]:
        raise ValueError(
            f"{origin} is not the file that UCI published: its sha256 must be {SHA256[name]}; "
            "delete it, to have it downloaded again, or get it from "
            "https://archive.ics.uci.edu/dataset/2/adult."
        )
    if path is not None and not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return content
