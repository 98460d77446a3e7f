"""A lower bound on epsilon from how often a client sent each report."""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._spec import as_array
from ._events import Event, likeliest
from ._from_reports import MIN_REPORTS
from ._inputs import check_claim
from ._report import AuditReport
from ._search import finding, log_level


def estimate_epsilon_from_counts(
    counts: Mapping[Any, ArrayLike],
    epsilon: float,
    *,
    delta: float = 0.0,
    confidence: float = 0.999999,
) -> AuditReport:
    """A lower bound on the epsilon of any client, from how often it sent each report.

    As `estimate_epsilon_from_reports`, for reports that are one of m symbols and too many to keep:
    count them as they come, the first half apart from the second. Time and memory do not depend on
    the number of reports.

    Formal guarantees:
      * If the reports of each input are independent draws of its law, every bound of the result is
        valid at once with probability `confidence`, whatever the client: events are sets of symbols
        chosen by the first half, whose probabilities the second half bounds.
      * Nothing is said from above. `reports_needed`, with `num_tests` the number of ordered pairs
        of inputs, says how many reports show an excess.

    Args:
      counts: of each of 2 to 16 inputs, by input, int[2, m]: how many reports of the first half
        were each of the m symbols, and how many of the second; 500 reports in each half at least.
      epsilon: the claim.
      delta: the claimed delta in [0, 1).
      confidence: in (0, 1).

    Returns:
      An `AuditReport`; its `num_samples` is the number of reports of the input with the fewest.

    Raises:
      ValueError: an argument is out of range, or the counts of two inputs differ in shape.
      TypeError: an argument is of the wrong kind.

    Example:
      >>> from jaxdp.audit import estimate_epsilon_from_counts
      >>> counts = {"yes": [[9_000, 1_000]] * 2, "no": [[1_000, 9_000]] * 2}
      >>> audit = estimate_epsilon_from_counts(counts, epsilon=1.0)  # ln 9 = 2.2 is spent
      >>> audit.violates, 1.7 < audit.epsilon_lower < 2.2, audit.worst.event
      (True, True, 'report in {0}')

    References:
      As `estimate_epsilon`.
    """
    epsilon, delta, confidence = check_claim("counts", counts, epsilon, delta, confidence)
    tables = {x: _table(f"counts[{x!r}]", given) for x, given in counts.items()}
    shapes = {table.shape for table in tables.values()}
    if len(shapes) != 1:
        raise ValueError(f"counts must have one shape for all inputs, got {sorted(shapes)}.")
    pairs = list(itertools.permutations(tables, 2))
    level = log_level(len(pairs), 1 - confidence)
    symbols = np.arange(shapes.pop()[1])
    findings = []
    for x, y in pairs:
        (searched, fresh), (searched_other, fresh_other) = tables[x], tables[y]
        sizes = (int(searched.sum()), int(searched_other.sum()))
        chosen = likeliest(searched, searched_other, sizes, (), delta, level)
        events = [Event("report", symbols, np.append(chosen, False))]
        hits = np.array([[fresh[chosen].sum(), fresh_other[chosen].sum()]])
        found = finding(events, hits, (fresh.sum(), fresh_other.sum()), (x, y), delta, level)
        findings.append(found)
    findings.sort(key=lambda pair: -pair.epsilon_lower)
    return AuditReport(
        randomizer=f"counted reports of {len(tables)} inputs",
        epsilon=epsilon,
        delta=delta,
        epsilon_lower=findings[0].epsilon_lower,
        confidence=confidence,
        num_samples=min(int(table.sum()) for table in tables.values()),
        pairs=tuple(findings),
        decoding=None,
    )


def _table(name: str, given: ArrayLike) -> np.ndarray:
    """Counts of both halves as int64[2, m]."""
    array = as_array(name, given)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be whole numbers, got dtype {array.dtype}.")
    if array.ndim != 2 or array.shape[0] != 2:
        raise ValueError(
            f"{name} must be of shape (2, m), a row for each half of the reports, got "
            f"{array.shape}."
        )
    if array.min(initial=0) < 0 or array.sum(dtype=np.float64) >= 2.0**53:
        raise ValueError(f"{name} must be 0 or more, and fewer than 2**53 together.")
    if array.sum(axis=1).min() < MIN_REPORTS // 2:
        raise ValueError(
            f"{name} must count {MIN_REPORTS // 2} reports in each half at least, got "
            f"{array.sum(axis=1).tolist()}; count more reports."
        )
    return array.astype(np.int64)
