"""Word vectors, which do not ship with the package."""

import os

import numpy as np

from ._stored import load_file

SHA256 = "4f1c7979714d00b663c40b384ae060bdca86425a830156ea03f8d55c08a189c0"


def load_glove(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The GloVe vectors of the 10,000 most frequent words of "6B 100d".

    Licence: PDDL. To cite: J. Pennington, R. Socher, C. Manning (2014), GloVe: global vectors for
    word representation, EMNLP. The file holds the first rows of `glove.6B.100d.txt`, in half
    precision; this function checks that it is that file.

    Args:
      path: the file `glove6b100d_top10k_f16.npz`.

    Returns:
      Read-only arrays by name.

      * words: str[10000], the most frequent first.
      * vectors: float16[10000, 100], not of length 1.

    Raises:
      ValueError: the file is another one.
      OSError: it cannot be read.
    """
    return load_file(path, SHA256, "the file of the vectors")
