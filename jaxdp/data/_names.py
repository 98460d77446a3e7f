"""First names in the United States, which do not ship with the package."""

import csv
import gzip
import io
import os

import numpy as np

from ._stored import read_known, read_only

SHA256 = "385db8ea20ea6ec3af4084327a90fb094bee14d6b7b74c52ab90603edf6c8254"


def load_names(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The first names of 322,402,727 people born in the United States from 1880 to 2010.

    Public domain, a work of the US government: the national data on the relative frequency of given
    names in the population of U.S. births, of the Social Security Administration (names of fewer
    than five births in a year are left out), summed over years and sexes.

    Args:
      path: the file `ssa_babynames_1880_2010_counts.csv.gz`.

    Returns:
      Read-only arrays by name.

      * names: str[88496], the most frequent first.
      * counts: int64[88496], how many people have each.

    Raises:
      ValueError: the file is another one.
      OSError: it cannot be read.
    """
    content = read_known(path, SHA256, "the file of the names")
    _, *rows = csv.reader(io.StringIO(gzip.decompress(content).decode("ascii")))
    names, counts = zip(*rows, strict=True)
    return read_only({"names": np.array(names), "counts": np.array(counts, np.int64)})
