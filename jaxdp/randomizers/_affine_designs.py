"""Families of sets that hold every pair of values equally often, numbered by affine maps.

A base block is a set T of t residues modulo M. With a multiplier a and a shift b it stands for the
set `{v : a v + b in T}`, all numbers modulo M. Let a run over the units modulo M, and b over all
residues. Two values u and v with `gcd(u - v, M) = g` are in one set as often as a pair of T has
differences of the same gcd: `a (u - v)` is each of them equally often. So all pairs are held
equally often, a 2-design, where the pairs of T are spread over the divisors g as all pairs are: by
`phi(M / g)`. For a prime M there is one divisor, and any T will do; otherwise several base blocks
meet this together (a difference family, up to units).
"""

import functools
import math
import random
from typing import NamedTuple

import numpy as np

_EXCESS = 5e-4  # of the sum of variances over that of sets of the best size, at most
_MOST_COMPOSITE = 2**14
_FEWEST_BLOCKS = 8
_STEPS = 100_000  # of one search
_MOST_COUNTED = 2**24  # sets that are looked into for a third value
_MOST_LOOKED_AT = 2**24  # sets of two values in which a third one is looked for
_WITNESSES = (2, 3, 5, 7)  # they decide up to 3,215,031,751 (Jaeschke 1993)


class Design(NamedTuple):
    """The modulus M, the size t of a set, and so whether several base blocks are needed."""

    modulus: int
    size: int


def is_prime(number: int) -> bool:
    """Whether a number below 3,215,031,751 is a prime, by Miller and Rabin's test."""
    if number < 2 or any(number % p == 0 for p in _WITNESSES):
        return number in _WITNESSES
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    powers = [pow(a, odd, number) for a in _WITNESSES]
    return all(
        x == 1 or any(pow(x, 2**i, number) == number - 1 for i in range(twos)) for x in powers
    )


def next_prime(number: int) -> int:
    """The least prime that is at least a number."""
    while not is_prime(number):
        number += 1
    return number


def divisors(modulus: int) -> list[int]:
    """The divisors of a modulus below itself."""
    return [g for g in range(1, modulus // 2 + 1) if modulus % g == 0]


def total_variance(values: int, modulus: int, size: float, likelihood: float) -> float:
    """The sum of the variances of all counts of one user, of a 2-design with sets of one size.

    Args:
      values: k, of the M points.
      modulus: M.
      size: t, of a set.
      likelihood: `e**epsilon`, of a set that holds the user's value against one that does not.

    Returns:
      inf where p and q are the same float.
    """
    inside = size * likelihood
    p = inside / (inside + modulus - size)
    # The size - 1 others of a set that holds the value, or the size others of one that does not,
    # are each of the M - 1 other points equally often.
    q = (size - p) / (modulus - 1)
    square = (p - q) ** 2
    # An epsilon that makes no difference in floats is refused, once the design is known.
    return (p * (1 - p) + (values - 1) * q * (1 - q)) / square if square else math.inf


def best_size(values: int, modulus: int, epsilon: float) -> int:
    """The size of sets with the least sum of variances, near `M / (e**epsilon + 1)`."""
    likelihood = math.exp(min(epsilon, 100.0))
    near = math.floor(modulus / (likelihood + 1))
    sizes = range(max(near - 2, 1), max(min(near + 4, modulus), 2))
    return min(sizes, key=lambda size: total_variance(values, modulus, size, likelihood))


@functools.lru_cache(maxsize=1024)
def best_design(values: int, epsilon: float) -> Design:
    """The design for k values: as precise as sets of k values, or up to 0.05 % less so.

    A prime is simplest. Where the least one from k on is too far away for that, as for few values
    and at the border of randomized response, the modulus is the one from k to there, within the
    0.05 %, that has the fewest divisors.
    """
    likelihood = math.exp(min(epsilon, 100.0))
    exact = Design(values, best_size(values, values, epsilon))
    if exact.size == 1 or is_prime(values):
        return exact
    least = total_variance(*exact[:1], *exact, likelihood)

    def design(modulus: int) -> Design:
        return Design(modulus, best_size(values, modulus, epsilon))

    def near(made: Design) -> bool:
        return total_variance(values, *made, likelihood) <= (1 + _EXCESS) * least

    prime = design(next_prime(values))
    if near(prime) or values > _MOST_COMPOSITE:
        return prime
    others = [made for m in range(values, prime.modulus) if near(made := design(m))]
    return min(others, key=lambda made: len(divisors(made.modulus)))


def needs_one_block(design: Design) -> bool:
    """Whether any base block makes a design: M is a prime, or a set has one member or lacks one."""
    return design.size in (1, design.modulus - 1) or is_prime(design.modulus)


def multipliers(design: Design) -> np.ndarray | None:
    """The units modulo M, uint32; None for all of 1, .., M - 1. For sets of one value 1 is enough.

    So it is for sets that lack one value.
    """
    modulus, size = design
    if size in (1, modulus - 1):
        return np.ones(1, np.uint32)
    if is_prime(modulus):
        return None
    numbers = np.arange(1, modulus, dtype=np.uint32)
    return numbers[np.gcd(numbers, modulus) == 1]


@functools.lru_cache(maxsize=64)
def base_blocks(design: Design) -> np.ndarray:
    """Base blocks of a composite modulus that make a 2-design, int32[L, t], each sorted.

    L is a number for which each divisor can have its share of pairs.
    Random blocks are changed, one member at a time, until each divisor has it: a walk that takes
    every step that brings the counts nearer, and a few others. It is the same everywhere: it asks
    Python's generator for `random()` alone, whose sequence is guaranteed, and computes in integers.

    Raises:
      ValueError: the walk does not end; a modulus with fewer divisors has one that does.
    """
    modulus, size = design
    shares = {g: _units(modulus // g) for g in divisors(modulus)}
    pairs = size * (size - 1) // 2
    least = math.lcm(
        *((modulus - 1) // math.gcd(modulus - 1, pairs * share) for share in shares.values())
    )
    few = -(-_FEWEST_BLOCKS // least) * least  # of fewer, many cannot meet their shares
    for number in (few, 2 * few, 3 * few, 4 * few):
        wanted = {g: number * pairs * share // (modulus - 1) for g, share in shares.items()}
        found = _search(modulus, size, number, wanted)
        if found is not None:
            blocks = np.array([sorted(block) for block in found], np.int32)
            blocks.setflags(write=False)
            return blocks
    raise ValueError(
        f"no family of sets of {size} residues modulo {modulus} was found; give another modulus, "
        f"such as {next_prime(modulus)}."
    )


@functools.lru_cache(maxsize=64)
def most_triples(design: Design, values: int) -> int | None:
    """The number of sets that hold three values, for those of 0, .., k - 1 that share the most.

    For one block of at most half of the residues 0, 1 and 2 are taken: their images are two
    residues and the middle of both, which the block holds if their sum is even, and otherwise not,
    since it is half a turn away. No triple shares more where all were counted, for primes to 53.
    For other designs triples are counted. One of the values may be 0, since all shifts are taken.
    So are all units, so another one may be a divisor where k is M.

    Args:
      design: the modulus M and the size t of a set.
      values: k, 3 to M.

    Returns:
      The largest number of the triples that are tried, so one that is reached; None where even two
      values are in too many sets to try.
    """
    modulus, size = design
    one_block = needs_one_block(design)
    if size in (1, modulus - 1):
        return max(size - 2, 0)  # all M sets of that size
    if one_block and 2 * size < modulus:
        # Pairs of different residues whose sum is even, in both orders.
        return (size // 2) ** 2 + (size - size // 2) ** 2 - size
    units = multipliers(design)
    units = np.arange(1, modulus) if units is None else units.astype(np.int64)
    blocks = np.arange(size)[None] if one_block else base_blocks(design)
    shared = len(blocks) * len(units) * size * (size - 1) // (modulus - 1)
    tried = min(values, _MOST_COUNTED // shared)
    if tried < 3:
        return None
    held = np.zeros((len(blocks), modulus), bool)
    np.put_along_axis(held, blocks.astype(np.int64), True, axis=1)
    thirds = np.arange(tried)
    seconds = range(1, values)
    if one_block or values == modulus:
        seconds = [g for g in divisors(modulus) if g < values]
    most = 0
    for second in seconds[: max(_MOST_COUNTED // (shared * tried + 2**10 * len(units)), 1)]:
        counts = np.zeros(tried, np.int64)
        for unit in units.tolist():
            block, place = np.nonzero(held & np.roll(held, -unit * second % modulus, axis=1))
            counts += held[block[:, None], (place[:, None] + unit * thirds) % modulus].sum(axis=0)
        most = max(most, *counts[(thirds > 0) & (thirds != second)].tolist())
    return most


def _units(modulus: int) -> int:
    """Euler's phi."""
    return sum(math.gcd(x, modulus) == 1 for x in range(modulus)) if modulus > 1 else 1


def _search(modulus: int, size: int, number: int, wanted: dict[int, int]) -> list[list[int]] | None:
    """Blocks whose pairs have differences of each gcd as often as wanted; None if not found."""
    draw = random.Random(modulus).random

    def below(limit: int) -> int:
        return int(draw() * limit)

    blocks = []
    for _ in range(number):
        block: list[int] = []
        while len(block) < size:
            member = below(modulus)
            if member not in block:
                block.append(member)
        blocks.append(block)
    gcd = [math.gcd(x, modulus) for x in range(modulus)]
    excess = {g: -count for g, count in wanted.items()}
    for block in blocks:
        for i, x in enumerate(block):
            for y in block[:i]:
                excess[gcd[abs(x - y)]] += 1
    for _ in range(_STEPS):
        short = [g for g, count in excess.items() if count < 0]
        if not short:
            return blocks
        block, g = blocks[below(number)], short[below(len(short))]
        # A member takes the place of another one's neighbour at a difference that is wanted.
        i, j = below(size), below(size)
        new = (block[i] + g * (1 + below(modulus // g - 1))) % modulus
        if i == j or new in block:
            continue
        change: dict[int, int] = {}
        for x in block[:j] + block[j + 1 :]:
            before, after = gcd[abs(block[j] - x)], gcd[abs(new - x)]
            change[before] = change.get(before, 0) - 1
            change[after] = change.get(after, 0) + 1
        farther = sum(abs(excess[h] + c) - abs(excess[h]) for h, c in change.items())
        if farther <= 0 or below(4**farther) == 0:
            block[j] = new
            for h, c in change.items():
                excess[h] += c
    return None
