"""Tables of hotel ratings, which do not ship with the package."""

import hashlib
import io
import pathlib
from typing import Any

import numpy as np

SHA256 = "d7d006d4429a873f69155092c146e49110c084990c96b2183541c48b27f4e227"


def load_tripadvisor(path: Any) -> dict[str, np.ndarray]:
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
    content = pathlib.Path(path).read_bytes()
    if hashlib.sha256(content).hexdigest() != SHA256:
        raise ValueError(f"{path} is not the file of the tables: its sha256 must be {SHA256}.")
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        arrays = {key: stored[key] for key in stored.files}
    for array in arrays.values():
        array.setflags(write=False)
    return arrays
