"""The exact privacy parameter of a finite channel."""

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from .._contract import Round, Spec, round_of, spec_of
from .._spec import check_int, check_items, check_real
from ..randomizers import Randomizer, log_upper
from ._inputs import check_inputs

Channel = Sequence[Sequence[Fraction | float]] | np.ndarray

BLOCK = 2**16
TWIN_BITS = 8


class AuditError(ValueError):
    """Raised where a randomizer's params do not follow its stated channel."""


def exact_epsilon(
    randomizer: Spec[Any] | Round[Any] | Channel,
    *,
    inputs: ArrayLike | None = None,
    max_words: int = 2**20,
) -> float:
    """The smallest epsilon for which a randomizer is private: `max ln(Pr[y | x] / Pr[y | x'])`.

    Formal guarantees:
      * Channels are enumerated in rational arithmetic, and the result is rounded up: exact, and
        thresholds that are one step too high are seen.
      * A spec's channel is also compared, entry by entry, with what the params of its 8-bit twin do
        on all words, wherever a user reads at most two. So the channel that is enumerated is the
        one that is played.
      * Where the channel cannot be listed, it is the spec's own `exact_epsilon()`, by its
        closed-form extremes or its proof; `estimate_epsilon` can contradict it.

    Edge cases:
      ====================================  ====================================================
      probability 0 beside a positive one   inf
      all rows equal                        0.0: the reports say nothing
      rows of floats                        taken as the rational numbers that they are
      a spec with a delta                   the epsilon that holds together with that delta
      ====================================  ====================================================

    Args:
      randomizer: a spec; or params with few words, which are enumerated; or a channel, rows of
        probabilities as Fractions or floats, row x, column y.
      inputs: the inputs of the rows, int32[m] or float32[m]; None for the ends of a spec's domain.
        Params need them.
      max_words: the largest number of assignments of a user's words that is enumerated for params.

    Returns:
      epsilon; inf if some report proves its input.

    Raises:
      AuditError: the params of a spec do not follow its channel.
      ValueError: rows do not sum to 1, the params read too many words, or the inputs are not of the
        spec's domain.

    Example:
      >>> from fractions import Fraction
      >>> from jaxdp.audit import exact_epsilon
      >>> from jaxdp.randomizers import KRR
      >>> 0.999999 < exact_epsilon(KRR(num_values=4, epsilon=1.0)) <= 1.0
      True
      >>> round(exact_epsilon([[Fraction(3, 4), Fraction(1, 4)], [0.5, 0.5]]), 6)
      0.693147
    """
    if (params := round_of(randomizer)) is not None:
        return _channel_epsilon(_enumerated(params, inputs, max_words))
    if (spec := spec_of(randomizer)) is None:
        return _channel_epsilon(_check_channel(randomizer))
    if not isinstance(spec, Randomizer):
        return spec.exact_epsilon()
    values = check_inputs(inputs, spec)
    channel = spec.channel(inputs=values)
    if channel is None:
        return spec.exact_epsilon()
    exact = _check_channel(channel)
    check_twin(spec, values)
    return _channel_epsilon(exact)


def _check_channel(rows: object) -> list[list[Fraction]]:
    """Rows as Fractions, or raises unless each sums to 1."""
    wanted = "a spec, the params of a round, or rows of a channel"
    if not isinstance(rows, Sequence | np.ndarray):
        raise TypeError(f"randomizer must be {wanted}, got {rows!r}.")
    rows = check_items("randomizer", rows, wanted)
    listed = [check_items("randomizer", row, wanted) for row in rows]
    exact = [[p if isinstance(p, Fraction) else _exactly(p) for p in row] for row in listed]
    if len(exact) < 2 or len({len(row) for row in exact}) != 1 or not exact[0]:
        raise ValueError("randomizer must have at least two rows, all of the same length.")
    for x, row in enumerate(exact):
        # A row repeats few objects many times: each is added once, times its number.
        distinct, times = {id(p): p for p in row}, Counter(map(id, row))
        total = sum((p * times[name] for name, p in distinct.items()), Fraction(0))
        if min(distinct.values()) < 0 or abs(total - 1) > 1e-9:
            raise ValueError(
                f"randomizer must have rows of probabilities >= 0 of sum 1, got {float(total)!r} "
                f"in row {x}."
            )
    return exact


def _exactly(probability: object) -> Fraction:
    try:
        return Fraction(check_real("randomizer", probability, low=-1e9, high=1e9))
    except ValueError:
        raise ValueError(
            "randomizer must be rows of finite probabilities, got NaN, inf, or beyond 1e9."
        ) from None


def _channel_epsilon(channel: list[list[Fraction]]) -> float:
    worst = Fraction(1)
    for column in zip(*channel, strict=True):
        distinct = {id(p): p for p in column}.values()  # rows share their few numbers
        high, low = max(distinct), min(distinct)
        if high > 0 and low == 0:
            return math.inf
        if high > 0:
            worst = max(worst, high / low)
    return log_upper(worst)


def _enumerated(
    params: Round[Any], inputs: ArrayLike | None, max_words: int
) -> list[list[Fraction]]:
    """The channel of params, by all assignments of a user's words."""
    size = check_int("max_words", max_words, low=1)
    total = 2 ** (params.word_bits * params.num_words)
    if total > size:
        raise ValueError(
            f"max_words must be at least {total} to enumerate {params.num_words} words of "
            f"{params.word_bits} bits, got {size}; build(word_bits=8) makes a smaller twin."
        )
    counts = [_report_counts(params, value) for value in check_inputs(inputs, None)]
    reports = sorted(set().union(*counts))
    return [[Fraction(row[report], total) for report in reports] for row in counts]


def _report_counts(
    params: Round[Any], value: np.ndarray, kind: np.dtype | None = None
) -> Counter[bytes]:
    """How many assignments of words lead to each report, by its bytes, cast to a dtype if given."""
    total, bits = 2 ** (params.word_bits * params.num_words), params.word_bits
    found: Counter[bytes] = Counter()
    for start in range(0, total, BLOCK):
        number = np.arange(start, min(start + BLOCK, total), dtype=np.uint64)
        # A number stands for an assignment: the words are its digits, the highest one first.
        shifts = np.arange(params.num_words, dtype=np.uint64)[::-1] * np.uint64(bits)
        words = (number[:, None] >> shifts) & np.uint64(2**bits - 1)
        reports = _reports(params, words.astype(np.uint32), value)
        leaves = [np.asarray(x, kind) for x in jax.tree.leaves(reports)]
        table = np.concatenate([_bytes(leaf) for leaf in leaves], axis=1)
        rows, counts = np.unique(table, axis=0, return_counts=True)
        for row, count in zip(rows, counts, strict=True):
            found[row.tobytes()] += int(count)
    return found


@jax.jit
def _reports(params, words, value):
    return jax.vmap(params.from_bits, in_axes=(0, None))(words, value)


def _bytes(reports: np.ndarray) -> np.ndarray:
    """The bytes of each report, uint8[n, bytes]."""
    rows = np.ascontiguousarray(reports.reshape(len(reports), -1))
    return rows.view(np.uint8).reshape(len(rows), -1)


def check_twin(spec: Randomizer[Any], values: np.ndarray) -> None:
    """Raises unless the params of the 8-bit twin follow its channel, for some inputs."""
    try:
        params = spec.build(word_bits=TWIN_BITS)
        channel = spec.channel(TWIN_BITS, inputs=values)
    except ValueError:
        return  # words of 8 bits are too short for this epsilon
    if channel is None or params.num_words > 2:
        return
    listed = spec.reports()
    listed = np.arange(len(channel[0])) if listed is None else listed
    order = {row.tobytes(): j for j, row in enumerate(_bytes(listed))}
    total = 2 ** (TWIN_BITS * params.num_words)
    for stated, value in zip(channel, values, strict=True):
        played = [Fraction(0)] * len(stated)
        for report, count in _report_counts(params, value, listed.dtype).items():
            column = order.get(report)
            if column is None:
                raise AuditError(f"{spec} sends a report that its channel does not list.")
            played[column] += Fraction(count, total)
        if played != list(stated):
            off = next(j for j, p in enumerate(played) if p != stated[j])
            raise AuditError(
                f"{spec} does not follow its channel: for input {value}, report {off} has "
                f"probability {played[off]} with words of {TWIN_BITS} bits, stated is "
                f"{stated[off]}."
            )
