"""How reports that hold sets of values tell two values apart."""

import math

import numpy as np

from ..accounting import PairLaw

MOST_SHUFFLED_EPSILON = 12.0
"""Of a report, up to which a bracket of shuffled reports takes seconds."""

_MOST_COHORTS = 64  # of all pairs of filters that a lower end tries
_FLOATS = 1e-14  # relative: more than what floats are off in an exponential of at most 30


def set_pair_law(
    patterns: np.ndarray,
    inside: float,
    outside: float,
    constant: float = 0.0,
    third: bool = True,
) -> PairLaw:
    """The law of a pair of values, for reports that are as likely as whether they hold the value.

    Args:
      patterns: float64[2, 2, 2], a measure of the reports, by whether they hold the first value,
        the second one and a third one. Where a report may hold all values, the blanket is taken
        as if it did not: a smaller one is as safe.
      inside: likelihood of a report that holds the user's value, relative to the measure.
      outside: of one that does not.
      constant: probability of the reports that are as likely under all values.
      third: whether there is a third value, which the other users may have.
    """
    weights = np.ravel(patterns)
    held = np.stack(np.unravel_index(np.arange(8), (2, 2, 2)))
    laws = np.append(weights * np.where(held, inside, outside), np.full((3, 1), constant), axis=1)
    least = np.append(weights * outside, constant)
    return PairLaw(laws[0], laws[1], least, laws[[2, 0, 1] if third else [0, 1]])


def set_patterns(num_values: int, set_size: int) -> np.ndarray:
    """How often a uniform set holds which of three values: `set_pair_law`'s patterns."""
    k, d = num_values, set_size
    held = np.indices((2, 2, 2)).sum(axis=0)
    # falling factorials: d .. (d - j + 1) (k - d) .. (k - d - 2 + j) / (k (k - 1) (k - 2))
    inside = np.array([1, d, d * (d - 1), d * (d - 1) * (d - 2)], float)
    outside = np.array(
        [1, k - d, (k - d) * (k - d - 1), (k - d) * (k - d - 1) * (k - d - 2)], float
    )
    return inside[held] * outside[3 - held] / (float(k) * (k - 1) * (k - 2))


def symmetric_pair_law(
    held: tuple[float, float, float | None],
    total: float,
    inside: float,
    outside: float,
    constant: float = 0.0,
) -> PairLaw:
    """`set_pair_law` where one value, any two of three, and all three are held as often.

    Args:
      held: the measure of the reports that hold one given value, two, and three; None for three
        where there is no third value.
      total: the measure of all reports but the constant ones.
      inside: as of `set_pair_law`.
      outside: as of `set_pair_law`.
      constant: as of `set_pair_law`.
    """
    one, two, three = held
    patterns = np.zeros((2, 2, 2))
    if three is None:
        patterns[:, :, 0] = [[total - 2 * one + two, one - two], [one - two, two]]
    else:
        none = total - 3 * one + 3 * two - three
        exactly = np.array([none, one - 2 * two + three, two - three, three])
        patterns = exactly[np.indices((2, 2, 2)).sum(axis=0)]
    # Differences of numbers that are equal may come out below 0.
    return set_pair_law(np.maximum(patterns, 0.0), inside, outside, constant, three is not None)


def parity_patterns(rows: list[int]) -> np.ndarray:
    """The parities of `row & y` that some y has, each as often as any other one.

    Args:
      rows: m numbers below a power of two, the number of the y.

    Returns:
      bool[2**r, m], the image of a linear map of rank r; the first is that of y = 0.
    """
    image = {0}
    for bit in range(max(rows).bit_length()):
        changed = sum((row >> bit & 1) << j for j, row in enumerate(rows))
        image |= {pattern ^ changed for pattern in image}
    return np.array(sorted(image))[:, None] >> np.arange(len(rows)) & 1 == 1


def cap_pair_law(inside: float, outside: float, mass: float, third: bool = False) -> PairLaw:
    """The law of two vectors, for reports that are as likely as whether they are in a vector's cap.

    Let o be the mass of both vectors' caps together. In units of the blanket, which is `outside`
    everywhere, a report in both caps tells `B = -(e**eps - 1) R`, in none `N = -(e**eps - 1)`, in
    the first one alone `X = R - e**eps`, in the second one `Y = 1 - e**eps R`, with R the ratio of
    the likelihoods. With `X + Y = B + N` and `Y <= B <= N <= X` a smaller o spreads the law and
    keeps its mean: the mean positive part of the sum of n reports is the largest at o = 0, for caps
    that are disjoint.

    Args:
      inside: likelihood of a report in the cap of the user's vector, relative to the law without
        caps.
      outside: of one that is not.
      mass: of a cap in that law, at most 1/2.
      third: whether there is a vector whose cap is independent of those of two opposite ones.
    """
    hit = np.array([1 - mass, mass]) if third else np.array([1.0, 0.0])
    apart = np.array([[1 - 2 * mass, mass], [mass, 0.0]])
    return set_pair_law(np.multiply.outer(apart, hit), inside, outside, third=third)


def laplace_pair_laws(
    rate: float, inside: np.ndarray, beyond: np.ndarray, dim: int
) -> tuple[PairLaw, PairLaw]:
    """The laws of J e_1 and -J e_1, for vectors of L1 norm <= J whose entries get noise and a cut.

    With ideal noise, `Pr[m] ~ f**|m|` and `f = e**-rate`, no other pair hides less: the page on
    shuffling has the proof. The blanket is f**J times the law of the reports of 0.

    The given masses are those of the ideal noise but for a part of each report that is taken to
    prove the vector: that is the first pair, which has no `others`. The second pair is attained.

    Args:
      rate: of the ideal noise, for a step.
      inside: float64[2 J], the masses of 0, .., 2 J - 1.
      beyond: float64[2 J + 1], those of the numbers from 0, .., 2 J on: what a cut report has.
      dim: entries of a vector; 1 for numbers.

    Returns:
      Two pairs, whose classes are the reports of the first entry.
    """
    size, fall = len(inside) // 2, math.exp(-rate)
    steps = np.arange(2 * size + 1)
    ideal = math.tanh(rate / 2) * np.exp(-rate * steps[:-1]), np.exp(-rate * steps) / (1 + fall)

    def row(level: int, masses: np.ndarray, tails: np.ndarray) -> np.ndarray:
        between = masses[np.abs(np.arange(1 - size, size) - level)]
        return np.concatenate([tails[[size + level]], between, tails[[size - level]]])

    kept = min(float((inside / ideal[0]).min()), float((beyond / ideal[1]).min())) - _FLOATS
    kept = min(kept, 1.0) ** dim * (1 - _FLOATS)  # every report has so much of its ideal law
    top, zero = row(size, *ideal), row(0, *ideal)
    first, second, least = (
        np.append(kept * law, ends)
        for law, ends in (
            (top, [1 - kept, 0]),
            (top[::-1], [0, 1 - kept]),
            (math.exp(-rate * size) * zero, [0, 0]),
        )
    )
    proven = PairLaw(first, second, least, np.zeros((0, len(least))))
    made = row(size, inside, beyond)
    others = np.stack([made, made[::-1], row(0, inside, beyond)])
    return proven, PairLaw(made, made[::-1], least[:-2], others)


def filter_pair_laws(positions: np.ndarray, flip: float) -> tuple[PairLaw, PairLaw]:
    """The laws of two values without a common bit, and of two that are there, in noisy filters.

    A report shows the cohort, and each bit of the value's filter there, flipped with probability
    phi. Let `s = (1 - phi) / phi`. Relative to the law P_0 of the reports of a filter of zeros, a
    report with Y ones among the h bits of a value has the likelihood `s**(2 Y - h)`. So
    `P_0 / s**h` is a blanket, to which it has the ratio `s**(2 Y)`: a product over the bits. For
    two values `E[u(first - e**eps second)]`, u convex, falls where a factor of the one rises with a
    factor of the other: it is larger for two bits, which are independent, than for one that they
    share. So the first pair, which shares none in any cohort, is the worst; it has no `others`.

    Args:
      positions: int[C, k, h], the bits of some values in the cohorts.
      flip: phi, at most 1/2.

    Returns:
      Two pairs; the second one is attained.
    """
    num_cohorts, num_values, h = positions.shape
    odds = (1 - flip) / flip
    ones = np.arange(h + 1)
    chosen = np.array([math.comb(h, y) for y in range(h + 1)])
    own = chosen * (1 - flip) ** ones * flip ** (h - ones)
    other = chosen * flip**ones * (1 - flip) ** (h - ones)
    first, least = np.outer(own, other), odds**-h * np.outer(other, other)
    apart = PairLaw(first.ravel(), first.T.ravel(), least.ravel(), np.zeros((0, first.size)))

    def attained(values: list[int]) -> PairLaw:
        weights = _ones_of_three(positions[:, values], flip).ravel()
        counts = np.stack(np.unravel_index(np.arange(weights.size), (h + 1,) * 3))
        laws = weights * odds ** (2.0 * counts - h)
        return PairLaw(laws[0], laws[1], weights * odds**-h, laws[[2, 0, 1]])

    # The pairs that share the fewest bits, with any third value; of two values, with one of them.
    x, y = np.triu_indices(num_values, 1)
    common = (positions[:, x, :, None] == positions[:, y, None]).sum(axis=(0, 2, 3))
    few = np.argsort(common, kind="stable")[: max(_MOST_COHORTS // num_cohorts, 1)]
    pairs = np.stack([x, y], axis=1)[few].tolist()
    thirds = [[z for z in range(num_values) if z not in pair] or pair[:1] for pair in pairs]
    tried = [[*pair, z] for pair, others in zip(pairs, thirds, strict=True) for z in others]
    return apart, max(map(attained, tried), key=_divergence)


def _divergence(pair: PairLaw) -> float:
    """`sum (p - q)**2 / m` for the first law of others: what many users' reports tell."""
    seen = pair.others[0] > 0
    return float(np.sum((pair.first - pair.second)[seen] ** 2 / pair.others[0][seen]))


def _ones_of_three(positions: np.ndarray, flip: float) -> np.ndarray:
    """The law of the numbers of ones at the bits of three values, in the reports of zeros.

    Args:
      positions: int[C, 3, h].
      flip: the probability of a one.

    Returns:
      float64[h + 1, h + 1, h + 1], of a random cohort.
    """
    size = positions.shape[-1] + 1
    total = np.zeros((size,) * 3)
    for cohort in positions:
        law = np.zeros_like(total)
        law[0, 0, 0] = 1.0
        for bit in np.unique(cohort):
            counted = np.any(cohort == bit, axis=-1)
            # No number exceeds h: what comes around is 0.
            law = (1 - flip) * law + flip * np.roll(law, counted, axis=(0, 1, 2))
        total += law / len(positions)
    return total
