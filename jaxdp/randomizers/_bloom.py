"""Public hash functions of Bloom filters."""

import functools
import hashlib
import struct
from typing import NamedTuple

import numpy as np

MAX_HASHES = 8


class BloomDesign(NamedTuple):
    """A family of Bloom filters: one for each value in each cohort.

    Attributes:
      num_values: k, the values are 0 .. k-1.
      num_cohorts: C.
      num_bits: B, at least `num_hashes`.
      num_hashes: h, at most `MAX_HASHES`.
      seed: picks the hash functions, in [0, 2**63).
    """

    num_values: int
    num_cohorts: int
    num_bits: int
    num_hashes: int
    seed: int


@functools.lru_cache(maxsize=16)
def bloom_positions(design: BloomDesign) -> np.ndarray:
    """The bits that each value sets in the filter of each cohort.

    The digest of (seed, cohort, value) under BLAKE2b, a hash function that is the same on every
    machine, picks h distinct bits by Floyd's algorithm from words of 64 bits, uniformly up to
    `B / 2**64`.

    Args:
      design: the family.

    Returns:
      int32[C, k, h], read-only; each row sorted and without repeats.

    References:
      Bloom (1970), Space/time trade-offs in hash coding with allowable errors; RFC 7693 (2015), The
      BLAKE2 cryptographic hash.
    """
    k, cohorts, b, h, seed = design
    table = np.empty((cohorts, k, h), np.int32)
    for cohort in range(cohorts):
        for value in range(k):
            message = struct.pack("<3q", seed, cohort, value)
            digest = hashlib.blake2b(message, person=b"jaxdp bloom").digest()
            bits: set[int] = set()
            for word, last in zip(struct.unpack("<8Q", digest), range(b - h, b), strict=False):
                bit = word % (last + 1)
                bits.add(last if bit in bits else bit)
            table[cohort, value] = sorted(bits)
    table.setflags(write=False)
    return table


def bloom_filters(design: BloomDesign) -> np.ndarray:
    """The filters themselves, bool[C, k, B]."""
    return np.any(bloom_positions(design)[..., None] == np.arange(design.num_bits), axis=-2)
