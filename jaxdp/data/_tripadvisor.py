"""Tables of hotel ratings, which do not ship with the package."""

import os

import numpy as np

from ._stored import load_file

SHA256 = "d7d006d4429a873f69155092c146e49110c084990c96b2183541c48b27f4e227"


def load_tripadvisor(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Ratings of hotel rooms against ratings of their cleanliness: 243,713 reviews, as counts.

    The reviews were collected by H. Wang, Y. Lu and C. Zhai (2010), Latent aspect rating analysis
    on review text data: a rating regression approach, KDD, and may not be redistributed. The file
    holds contingency tables that were made of them; this function checks that it is that file.

    Args:
      path: the file `tripadvisor_tables.npz`.

    Returns:
      Read-only arrays by name.

      * table_all: int64[6, 6], rooms by cleanliness, with the levels of `levels_all`: -1 for "not
        rated", and 1 to 5 stars. Of all 243,713 reviews.
      * table_rated: int64[5, 5], the 185,573 reviews that rate both, with `levels_rated`.
      * tau_b_all, tau_a_all, tau_b_rated, tau_a_rated: float64[], Kendall's tau of the tables.

    Raises:
      ValueError: the file is another one.
      OSError: it cannot be read.
    """
    return load_file(path, SHA256, "the file of the tables")
