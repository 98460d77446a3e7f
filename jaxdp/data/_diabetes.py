"""Risk scores of hospital patients, which do not ship with the package."""

import os

import numpy as np

from ._stored import load_file

SHA256 = "0cc5cf963188755c892f686cd36e3b914b2e3b36956b9a36f79cdf85fdaea794"


def load_diabetes_scores(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
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
    return load_file(path, SHA256, "the file of the scores")
