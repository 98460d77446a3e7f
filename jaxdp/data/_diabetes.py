"""Risk scores of hospital patients, which do not ship with the package."""

import hashlib
import io
import pathlib
from typing import Any

import numpy as np

SHA256 = "0cc5cf963188755c892f686cd36e3b914b2e3b36956b9a36f79cdf85fdaea794"


def load_diabetes_scores(path: Any) -> dict[str, np.ndarray]:
    """Scores and labels of 34,987 patients: who is readmitted within 30 days.

    Licence of the records: CC BY 4.0. To cite: J. Clore, K. Cios, J. DeShazo, B. Strack (2014),
    Diabetes 130-US hospitals for years 1999-2008, UCI Machine Learning Repository,
    doi:10.24432/C5230J. The file holds the scores of a logistic regression on them, and is not to
    be had there; this function checks that it is that file.

    Args:
      path: the file `diabetes_scores.npz`.

    Returns:
      Read-only arrays by name.

      * score: float32[34987], in [0, 1]; label: uint8[34987], 3,139 of them are 1.
      * auc: float64[], the area under the curve, ties counted half; auc_numerator_twice, n_pos,
        n_neg: the integers it is computed from.
      * sub661: int32[7367], indices of a sample with 661 positive and 6,706 negative patients;
        sub661_auc: float64[].

    Raises:
      ValueError: the file is another one.
      OSError: it cannot be read.
    """
    content = pathlib.Path(path).read_bytes()
    if hashlib.sha256(content).hexdigest() != SHA256:
        raise ValueError(f"{path} is not the file of the scores: its sha256 must be {SHA256}.")
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        arrays = {key: stored[key] for key in stored.files}
    for array in arrays.values():
        array.setflags(write=False)
    return arrays
