"""Subsets of features as indices: ordered by size, then lexicographically; the empty one first."""

import functools
import itertools
import math

import numpy as np

# More subsets than any memory holds.
_MOST = 2**63


def num_subsets(num_features: int, order: int) -> int:
    """How many subsets have at most `order` elements; of 2**63 and more, some number that large."""
    total = 0
    for size in range(min(order, num_features) + 1):
        total += math.comb(num_features, size)
        if total >= _MOST:
            break
    return total


def are_num_subsets(count: int, num_features: int, order: int) -> bool:
    """Whether `count` is `num_subsets`, of which no more is added up than that."""
    for size in range(order + 1):
        count -= math.comb(num_features, size)
        if count < 0:
            return False
    return count == 0


def subsets(num_features: int, order: int) -> np.ndarray:
    """All subsets of at most `order` elements, int32[N, order].

    A row holds the elements in ascending order, then `num_features` for each one that is missing.
    """
    rows = np.full((num_subsets(num_features, order), order), num_features, np.int32)
    first = 1
    for size in range(1, order + 1):
        last = first + math.comb(num_features, size)
        flat = itertools.chain.from_iterable(itertools.combinations(range(num_features), size))
        rows[first:last, :size] = np.fromiter(flat, np.int32).reshape(-1, size)
        first = last
    return rows


def sizes(num_features: int, order: int) -> np.ndarray:
    """The sizes of the subsets, int64[N]."""
    each = [math.comb(num_features, size) for size in range(order + 1)]
    return np.repeat(np.arange(order + 1), each)


def rank(rows: np.ndarray, num_features: int) -> np.ndarray:
    """The index of each subset among all, int64[...].

    Args:
      rows: int[..., w], as `subsets` has them.
      num_features: n.
    """
    width = rows.shape[-1]
    table = _binomials(num_features, width)
    size = np.sum(rows < num_features, axis=-1)
    offset = np.concatenate([[0], np.cumsum(table[num_features])])
    found = offset[size + 1] - 1
    for place in range(width):
        element = rows[..., place]
        left = np.where(element < num_features, num_features - 1 - element, 0)
        # The combinatorial number system, from the end: C(n − 1 − e, s − place) subsets of this
        # size agree up to here, and go on with elements above e.
        later = table[left, np.maximum(size - place, 0)]
        found = found - np.where(element < num_features, later, 0)
    return found


def union(first: np.ndarray, second: np.ndarray, num_features: int) -> np.ndarray:
    """The unions of subsets, int[..., w1 + w2] in the form of `subsets`."""
    both = _sorted(first, second)
    # An element of both stands twice in a row; one of the two is enough.
    again = both[..., 1:] == both[..., :-1]
    both[..., 1:][again] = num_features
    return np.sort(both, axis=-1)


def difference(first: np.ndarray, second: np.ndarray, num_features: int) -> np.ndarray:
    """The symmetric differences of subsets, in the form of `subsets`."""
    both = _sorted(first, second)
    # An element of both stands twice in a row, and both of them go.
    twice = both[..., 1:] == both[..., :-1]
    both[..., 1:][twice] = num_features
    both[..., :-1][twice] = num_features
    return np.sort(both, axis=-1)


def joined(num_features: int, order: int, basis: str) -> np.ndarray:
    """Where a moment matrix has which moment: the indices of the subsets joined in pairs.

    Args:
      num_features: n.
      order: of the subsets that are rows and columns.
      basis: "marginals" for unions, "parities" for symmetric differences.

    Returns:
      int64[N, N], N the number of subsets of at most `order` elements.
    """
    rows = subsets(num_features, order)
    join = union if basis == "marginals" else difference
    return rank(join(rows[:, None], rows[None], num_features), num_features)


def _sorted(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    lead = np.broadcast_shapes(first.shape[:-1], second.shape[:-1])
    parts = [np.broadcast_to(rows, (*lead, rows.shape[-1])) for rows in (first, second)]
    return np.sort(np.concatenate(parts, axis=-1), axis=-1)


def with_each(num_features: int, order: int) -> np.ndarray:
    """Every set U of at most `order` elements, and its unions with each element, as indices.

    Returns:
      int32[N, 1 + n]: U itself, then U with 0, ..., U with n - 1.
    """
    rows = subsets(num_features, order)
    single = np.arange(num_features, dtype=np.int32)[None, :, None]
    joined = rank(union(rows[:, None], single, num_features), num_features)
    return np.concatenate([np.arange(len(rows))[:, None], joined], axis=1).astype(np.int32)


@functools.lru_cache(maxsize=16)
def children(num_features: int, order: int) -> tuple[np.ndarray, ...]:
    """The subsets of every subset, by the size s of the latter: int32[C(n, s), 2**s] each.

    Column b is the subset of the elements whose places are the ones of b.
    """
    rows = subsets(num_features, order)
    size = sizes(num_features, order)
    found = []
    for s in range(order + 1):
        members = rows[size == s][:, None, :s]
        kept = ((np.arange(2**s)[:, None] >> np.arange(s)) & 1).astype(bool)
        chosen = np.sort(np.where(kept[None], members, num_features), axis=-1)
        found.append(rank(chosen, num_features).astype(np.int32))
    return tuple(found)


@functools.lru_cache(maxsize=64)
def _binomials(num_features: int, width: int) -> np.ndarray:
    """C(a, b) for a <= n and b <= width, int64[n + 1, width + 1]."""
    rows = [[math.comb(a, b) for b in range(width + 1)] for a in range(num_features + 1)]
    return np.array(rows, np.int64)
