"""Alias tables, read column by column with Python's integers."""

import numpy as np


def rebuilt(table, bits: int) -> list[int]:
    """The mass of each index, from all columns."""
    a = table.column_bits
    capacity, masses = 1 << (bits - a), [0] * 2**a
    for column, packed in enumerate(table.packed):
        threshold = int(packed) >> a
        if table.lower is not None:
            threshold = threshold << 32 | int(table.lower[column])
        assert threshold < capacity
        masses[column] += threshold
        masses[int(packed) & (2**a - 1)] += capacity - threshold
    return masses


def drawn_at_thresholds(table, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Words at both ends of what leads to each column and to its alias, and what they lead to."""
    a, rows = table.column_bits, []
    last = 2 ** (bits - a) - 1
    for column, packed in enumerate(table.packed):
        threshold, alias = int(packed) >> a, int(packed) & (2**a - 1)
        for rest in {0, threshold - 1, threshold, last}:
            if 0 <= rest <= last:
                rows.append((rest << a | column, column if rest < threshold else alias))
    words, drawn = zip(*rows, strict=True)
    return np.array(words, np.uint32), np.array(drawn)
