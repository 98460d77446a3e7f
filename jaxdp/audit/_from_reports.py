"""A lower bound on epsilon from reports that some other client made."""

import dataclasses
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from .._chernoff import frequency_range
from .._spec import as_array, check_epsilon, check_int, check_real
from ._inputs import check_claim
from ._intervals import lower_limit, upper_limit
from ._report import AuditReport
from ._samples import Samples, apply, check_statistics, columns, hashed
from ._search import find_events, log_level

MIN_REPORTS = 1000
MAX_REPORTS = 2**62

Batch = ArrayLike | Sequence[Hashable] | tuple[ArrayLike, ...] | Mapping[str, ArrayLike]
"""Reports of one input: an array, a list of hashable objects, or a tuple or dict of parts."""


def estimate_epsilon_from_reports(
    reports: Mapping[Any, Batch],
    epsilon: float,
    *,
    delta: float = 0.0,
    confidence: float = 0.999999,
    statistics: Sequence[Callable] = (),
) -> AuditReport:
    """A lower bound on the epsilon of any client, from reports that it made of known inputs.

    As `estimate_epsilon`, for clients that are not written in JAX, or that run elsewhere: one half
    of the reports of each input is searched for events that tell two inputs apart, and the
    probabilities of the best ones are bounded on the other half.

    An event is a set of values of a statistic of a report: its symbols, its entries (first ones
    singly, and all together), their last bits and parities, its norm, whether it is zero; and of
    the caller's `statistics`. A report with a seed needs one: whether it agrees with what the seed
    makes of each input, which is the likelihood ratio of local hashing.

    Formal guarantees:
      * If the reports of each input are independent draws of its law, every bound of the result is
        valid at once with probability `confidence`, whatever the client. So a client that is as
        private as claimed is said to violate its claim with a chance of at most `1 - confidence`.
      * Nothing is said from above. `reports_needed` says how many reports show an excess.

    Edge cases:
      ====================================  ====================================================
      more reports of one input             as many are searched as half of the fewer ones
      objects that are no numbers           equal or different, and no more
      objects seen fewer than 16 times      taken together as one symbol
      the order of a report's entries       counts: sort them if it is not sent
      ====================================  ====================================================

    Args:
      reports: the reports of each of 2 to 16 inputs, by input, 1000 of each at least, with
        independent reports along axis 0: bool, integer or float[n, ...]; a list of n hashable
        objects, such as texts, bytes or tuples; or a tuple or dict of such parts of reports.
      epsilon: the claim.
      delta: the claimed delta in [0, 1).
      confidence: in (0, 1).
      statistics: further functions of the reports of an input, to float[n]; each entry must be a
        function of that report alone.

    Returns:
      An `AuditReport`; its `num_samples` is the number of reports of the input with the fewest.

    Raises:
      ValueError: an argument is out of range, or the reports of two inputs differ in shape or kind.
      TypeError: an argument is of the wrong kind.

    Example:
      >>> import random
      >>> from jaxdp.audit import estimate_epsilon_from_reports
      >>> def client(value):  # ln 9 = 2.2 is spent, 1 is claimed
      ...     return value if random.random() < 0.9 else "no" if value == "yes" else "yes"
      >>> reports = {value: [client(value) for _ in range(10_000)] for value in ("yes", "no")}
      >>> audit = estimate_epsilon_from_reports(reports, epsilon=1.0)
      >>> audit.violates, 1.7 < audit.epsilon_lower < 2.2, audit.worst.event
      (True, True, 'report in {...}')

    References:
      As `estimate_epsilon`.
    """
    epsilon, delta, confidence = check_claim("reports", reports, epsilon, delta, confidence)
    statistics = check_statistics(statistics)
    given = [_parts(f"reports[{x!r}]", batch) for x, batch in reports.items()]
    size = _check_alike(given)
    samples = [
        dataclasses.replace(found, reals=found.reals | _applied(statistics, batch, parts))
        for found, batch, parts in zip(
            _samples(given, size // 2), reports.values(), given, strict=True
        )
    ]
    findings = find_events({"": samples}, list(reports), delta, 1 - confidence)
    return AuditReport(
        randomizer=f"reports of {len(reports)} inputs",
        epsilon=epsilon,
        delta=delta,
        epsilon_lower=findings[0].epsilon_lower,
        confidence=confidence,
        num_samples=size,
        pairs=findings,
        decoding=None,
    )


def reports_needed(
    epsilon: float,
    probability: float,
    *,
    excess: float = 0.05,
    power: float = 0.99,
    confidence: float = 0.999999,
    num_tests: int = 64,
) -> int:
    """Reports of each input that show a given excess of epsilon over its claim.

    Formal guarantees: if an event has this probability under one input, and `e**-((1 + excess)
    epsilon)` of it under another, and it is the one that the search chooses,
    `estimate_epsilon_from_reports` with as many reports of each proves a bound above `epsilon` with
    probability `power` at least, by Chernoff's bound on both frequencies; somewhat fewer may do.

    Args:
      epsilon: the claim.
      probability: of the event, under the input that makes it likely; in (0, 1).
      excess: by how much of the claim the true epsilon is larger, in (0, 1000).
      power: in (0, 1).
      confidence: of the audit, in (0, 1).
      num_tests: ordered pairs of inputs times statistics that are tried, which share the chance of
        error: of two inputs, six for reports of one integer, 70 for vectors of many.

    Returns:
      The number of reports of each input, both halves together.

    Raises:
      ValueError: an argument is out of range, or more than 2**62 reports are needed.
      TypeError: an argument is of the wrong kind.

    Example:
      >>> from jaxdp.audit import reports_needed
      >>> reports_needed(1.0, 0.5) < 10**6 < reports_needed(1.0, 0.05) < 10**7
      True
    """
    epsilon = check_epsilon(epsilon)
    probability = check_real("probability", probability, low=0.0, high=1.0)
    excess = check_real("excess", excess, low=0.0, high=1000.0)
    power = check_real("power", power, low=0.0, high=1.0)
    confidence = check_real("confidence", confidence, low=0.0, high=1.0)
    num_tests = check_int("num_tests", num_tests, low=1, high=2**31)
    level = log_level(num_tests, 1 - confidence)
    miss = math.log(2 / (1 - power))  # one half of the misses for each of the two frequencies
    other = probability * math.exp(-(1 + excess) * epsilon)

    def shown(half: int) -> bool:
        least = half * frequency_range(probability, half, miss)[0]
        most = half * frequency_range(other, half, miss)[1]
        lower, upper = lower_limit(least, half, level), upper_limit(most, half, level)
        return bool(lower > math.exp(epsilon) * upper)

    high = MIN_REPORTS // 2
    while not shown(high):
        high *= 2
        if high >= MAX_REPORTS:
            raise ValueError(
                "excess, epsilon and probability must be large enough to be seen in 2**62 reports, "
                f"got {excess}, {epsilon} and {probability}."
            )
    low = high // 2
    while high - low > max(high // 1000, 1):
        middle = (low + high) // 2
        low, high = (low, middle) if shown(middle) else (middle, high)
    return 2 * high


Part = np.ndarray | list[Any]
Parts = dict[str, Part]


def _parts(name: str, given: Any) -> Parts:
    """The parts of reports, by what follows their names."""
    if isinstance(given, tuple):
        return {f"[{i}]": _part(f"{name}[{i}]", part) for i, part in enumerate(given)}
    if isinstance(given, Mapping):
        return {f"[{key!r}]": _part(f"{name}[{key!r}]", part) for key, part in given.items()}
    return {"": _part(name, given)}


def _part(name: str, given: Any) -> Part:
    """Numbers as an array, and anything else as a list of objects."""
    if isinstance(given, list):
        try:
            array = np.asarray(given)
        except (ValueError, OverflowError):  # of several lengths, or beyond all integer types
            array = np.empty(0, object)
    else:
        array = as_array(name, given)
    if jax.dtypes.issubdtype(array.dtype, np.floating):  # bfloat16 too, and long doubles
        kept = array.dtype.kind == "f" and array.dtype.itemsize <= 8
        array = array if kept else array.astype(np.float64)
    if array.dtype.kind in "biuf":
        if array.ndim == 0 or array[:1].size == 0:
            raise ValueError(
                f"{name} must have reports along axis 0, of one number at least, got shape "
                f"{array.shape}."
            )
        return array
    objects = given if isinstance(given, list) else array.tolist()
    if array.dtype.kind == "c" or not isinstance(objects, list):
        raise TypeError(
            f"{name} must be an array of real numbers, or a list of hashable reports, got "
            f"{type(given).__name__} of dtype {array.dtype}."
        )
    return objects


def _check_alike(given: Sequence[Parts]) -> int:
    """The least number of reports of an input, or raises where inputs differ in their reports."""
    sizes = [{len(part) for part in parts.values()} for parts in given]
    if any(len(each) != 1 for each in sizes) or len({tuple(parts) for parts in given}) != 1:
        raise ValueError(
            "reports must have the same parts for every input, each with an entry for each report."
        )
    if (size := min(min(each) for each in sizes)) < MIN_REPORTS:
        raise ValueError(f"reports must hold {MIN_REPORTS} of each input at least, got {size}.")
    for name in given[0]:
        forms = {
            "objects" if isinstance(x := parts[name], list) else x.shape[1:] for parts in given
        }
        if len(forms) != 1:
            raise ValueError(
                f"reports must be of one kind and shape for all inputs, got {forms} of "
                f"report{name}."
            )
    return size


def _samples(given: Sequence[Parts], searched: int) -> list[Samples]:
    """What events are made of, for each input; `searched` reports of each choose them."""
    numbers: list[dict[str, np.ndarray]] = [{} for _ in given]
    objects: list[dict[str, np.ndarray]] = [{} for _ in given]
    for name in given[0]:
        batches = [parts[name] for parts in given]
        if isinstance(batches[0], list):
            batches, kept = _codes(name, batches, searched), objects
        else:
            kept = numbers
        dtype = np.result_type(*batches)
        for columns_of, batch in zip(kept, batches, strict=True):
            columns_of[f"report{name}"] = np.asarray(batch, dtype)
    samples = []
    for arrays, codes in zip(numbers, objects, strict=True):
        reals, symbols, _ = columns(arrays, numbers=True)
        symbols |= codes
        names = [x if x in symbols else f"{x} as a whole" for x in arrays | codes]
        if len(names) > 1 and all(name in symbols for name in names):  # no part is of floats
            symbols["report as a whole"] = hashed(np.stack([symbols[x] for x in names], axis=1))
        samples.append(Samples(reals, symbols, {}, None, None, None))
    return samples


def _applied(statistics: Sequence[Callable], batch: Batch, parts: Parts) -> dict[str, np.ndarray]:
    """The caller's statistics of reports, which are whole or a tuple or dict of parts, as given."""
    shown: Any = parts[""] if "" in parts else tuple(parts.values())
    if isinstance(batch, Mapping):
        shown = dict(zip(batch, parts.values(), strict=True))
    found, size = apply(statistics, shown), len(next(iter(parts.values())))
    for name, values in found.items():
        if len(values) != size:
            raise ValueError(
                f"statistics must return a number for each report, and {name} returned "
                f"{len(values)} for {size} reports."
            )
    return found


def _codes(name: str, batches: Sequence[Any], searched: int) -> list[np.ndarray]:
    """A number for each object, int64; -1 for those that are not among the reports searched.

    The numbers must not depend on the reports that prove: their order decides ties.
    """
    codes: dict[Hashable, int] = {}
    try:
        for batch in batches:
            for report in batch[:searched]:
                codes.setdefault(report, len(codes))
        return [np.array([codes.get(x, -1) for x in batch], np.int64) for batch in batches]
    except TypeError:
        raise TypeError(
            f"reports that are not numbers must be hashable: report{name} is not."
        ) from None
