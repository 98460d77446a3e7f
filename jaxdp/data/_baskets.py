"""Users with binary features: web sessions, mushrooms, shopping baskets; none ships with jaxdp."""

import os
import pathlib

import numpy as np

from ._stored import load_file, read_only

SHA256 = {
    "msnbc_page_sets.npz": "658c56b5557cb313fa55b482f0931c41ec54c25c02a310ea5d424df86b7bc01b",
    "mushroom_fimi.npz": "4140094bb3dc45d3abf1df7e3ecb2264a6bdb55c239d947028ce37d5c8e9eccf",
    "retail_baskets.npz": "60df8608da565191073bc86efb8c75f5ade4c27a378b1e05ace4dd5a3a51e0cf",
}


def load_msnbc(folder: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Loads which of 17 page categories 989,818 visitors of msnbc.com saw on one day of 1999.

    Licence: CC BY 4.0. To cite: D. Heckerman (1999), MSNBC.com Anonymous Web Data, UCI Machine
    Learning Repository, doi:10.24432/C5390X.

    Args:
      folder: where `msnbc_page_sets.npz` is: `mask` uint32[10476] (bit j: category j was seen),
        `count` int32[10476] and `categories`, from the sequences that UCI publishes.

    Returns:
      Read-only arrays: rows float32[10476, 17] of 0 and 1, counts int64[10476], and the names of
      the categories, features.

    Raises:
      ValueError: the file is not the one that is expected.
      OSError: it cannot be read.
    """
    stored = _load("msnbc_page_sets.npz", folder)
    names = stored["categories"]
    bits = (stored["mask"][:, None] >> np.arange(names.size, dtype=np.uint32)) & 1
    counts = stored["count"].astype(np.int64)
    rows = bits.astype(np.float32)
    return read_only({"rows": rows, "counts": counts, "features": names})


def load_mushrooms(folder: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The 8,124 mushrooms of the UCI repository, 23 of 119 binary features each (FIMI coding).

    Licence: CC BY 4.0. To cite: Mushroom (1981), UCI Machine Learning Repository,
    doi:10.24432/C5959T.

    Args:
      folder: where `mushroom_fimi.npz` is: `items` uint8[8124, 23], numbers from 1 to 119.

    Returns:
      Read-only arrays: rows float32[8124, 119] of 0 and 1, counts int64[8124] of ones, and the
      items' numbers, features.

    Raises:
      ValueError: the file is not the one that is expected.
      OSError: it cannot be read.
    """
    items = _load("mushroom_fimi.npz", folder)["items"].astype(np.int64)
    rows = np.zeros((len(items), int(items.max())), np.float32)
    rows[np.arange(len(items))[:, None], items - 1] = 1.0
    ones = np.ones(len(items), np.int64)
    features = np.arange(1, rows.shape[1] + 1)
    return read_only({"rows": rows, "counts": ones, "features": features})


def load_retail(folder: str | os.PathLike[str], num_items: int) -> dict[str, np.ndarray]:
    """Loads which of the most frequent items 88,162 customers of a Belgian shop bought.

    For research use. To cite: T. Brijs, G. Swinnen, K. Vanhoof, G. Wets (1999), Using association
    rules for product assortment decisions: a case study, KDD.

    Args:
      folder: where `retail_baskets.npz` is: `indptr` int32[88163] and `indices` uint16[908576].
      num_items: how many of the 16,470 items, the most frequent first, in [1, 16470]. Choosing
        items by the data is not private; treat the list as public.

    Returns:
      Read-only arrays: rows float32[88162, num_items] of 0 and 1, counts int64[88162] of ones, and
      the items' numbers, features.

    Raises:
      ValueError: the file is not the one that is expected, or `num_items` is out of range.
      OSError: it cannot be read.
    """
    stored = _load("retail_baskets.npz", folder)
    starts, items = stored["indptr"].astype(np.int64), stored["indices"].astype(np.int64)
    frequency = np.bincount(items)
    if not 1 <= num_items <= frequency.size:
        raise ValueError(f"num_items must be in [1, {frequency.size}], got {num_items}.")
    # Stable: items that are equally frequent come in the order of their numbers.
    chosen = np.argsort(-frequency, kind="stable")[:num_items]
    place = np.full(frequency.size, -1)
    place[chosen] = np.arange(num_items)
    # Basket i is items[starts[i] : starts[i + 1]], as the rows of a sparse matrix.
    users = np.repeat(np.arange(starts.size - 1), np.diff(starts))
    rows = np.zeros((starts.size - 1, num_items), np.float32)
    kept = place[items] >= 0
    rows[users[kept], place[items[kept]]] = 1.0
    ones = np.ones(len(rows), np.int64)
    return read_only({"rows": rows, "counts": ones, "features": chosen})


def _load(name: str, folder: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    return load_file(pathlib.Path(folder) / name, SHA256[name], "the expected file")
