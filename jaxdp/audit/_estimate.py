"""A statistical lower bound on epsilon."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from .._contract import Round, spec_of
from .._spec import check_epsilon, check_int, check_key, check_real
from ..randomizers import Randomizer
from ._events import Event, Statistic, candidates, learn
from ._inputs import check_inputs
from ._intervals import lower_limit, mean_is_off, upper_limit
from ._report import AuditReport, DecodingFinding, PairFinding, short
from ._samples import Reporter, Sampler, Samples, input_directions


def estimate_epsilon(
    randomizer: Randomizer[Any] | Round[Any] | Reporter,
    key: jax.Array,
    num_samples: int = 100_000,
    *,
    inputs: ArrayLike | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    confidence: float = 0.999999,
    statistics: Sequence[Callable] = (),
    batch_size: int = 2**16,
) -> AuditReport:
    """A lower bound on the epsilon of a randomizer, from its reports alone.

    For inputs x, x' and any event S, `ln((Pr_x[S] - delta) / Pr_x'[S])` is at most epsilon. One
    half of the samples is searched for events that make it large; on the other half, independent of
    the search, the two probabilities are bounded, for the best event of each statistic.

    An event is a set of values of a statistic of the report: its symbols, its coordinates, its
    norm, whether it is zero; the log-density ratio of x and x' (`log_density` of the spec); and how
    much better x than x' fits what the randomizer's own decoder makes of the single report, which
    is the likelihood ratio of most frequency oracles and the projection on x - x' of vectors. A set
    is half a line, or the union of the intervals or symbols of the largest frequency ratios. Norms
    are compared to 16 bits: samplers of floats are private in real arithmetic, and the last bits of
    a norm that should be constant depend on the vector.

    Formal guarantees:
      * With probability `confidence` every bound of the report is valid at once, whatever the
        randomizer: Chernoff's bound `n KL(k/n || p) <= ln(1/level)` for each limit, Bonferroni over
        all pairs, statistics and limits, sample splitting for the search. So a randomizer that is
        as private as claimed is said to violate its claim with a chance of at most
        `1 - confidence`.
      * Nothing is said from above: a small bound may mean that samples, inputs or statistics do
        not suffice. `exact_epsilon` proves privacy, this function disproves it.
      * A mean of decoded reports is reported as wrong only if the stated variance rules it out
        (Catoni's bound, within the same `confidence`).

    Edge cases:
      ===================================  =====================================================
      no event tells any two inputs apart  bound 0.0; see `AuditReport.spends_nothing`
      event unseen under x'                a finite bound: the upper limit is about ln(1/level) / n
      (epsilon, delta)-claims              delta is subtracted from the lower limit
      estimates of more than 4096 entries  single reports are not decoded
      a function                           called with a key of its own for each report
      ===================================  =====================================================

    Args:
      randomizer: a spec, the params of a round, or a function from (key, value) to a report.
      key: a key; it is folded.
      num_samples: reports of each input, 1000 to 2**31; about a hundred bytes are kept of each.
      inputs: the inputs to compare, int32[m], float32[m] or float32[m, d] with 2 <= m <= 16; when
        None, the ends of the spec's domain.
      epsilon: the claim; the spec's `epsilon` when None.
      delta: the claimed delta in [0, 1); the spec's `delta`, or 0, when None.
      confidence: in (0, 1).
      statistics: further functions of a batch of reports to float[n].
      batch_size: reports drawn at once.

    Returns:
      An `AuditReport`.

    Raises:
      ValueError: an argument is out of range, or the inputs or the claim must be given.

    Example:
      >>> import jax
      >>> from jaxdp.audit import estimate_epsilon
      >>> from jaxdp.randomizers import KRR
      >>> report = estimate_epsilon(KRR(num_values=2, epsilon=1.0), jax.random.key(0))
      >>> 0.9 < report.epsilon_lower <= 1.0, report.violates
      (True, False)

    References:
      Ding, Wang, Wang, Zhang, Kifer (2018), Detecting violations of differential privacy; Chernoff
      (1952); Catoni (2012), Challenging the empirical mean and empirical variance.
    """
    check_key(key)
    num_samples = check_int("num_samples", num_samples, low=1000, high=2**31)
    batch = min(check_int("batch_size", batch_size, low=1), num_samples)
    confidence = check_real("confidence", confidence, low=0.0, high=1.0)
    spec: Randomizer[Any] | None = None
    if isinstance(randomizer, Randomizer):
        spec, params = randomizer, randomizer.build()
        epsilon = spec.epsilon if epsilon is None else epsilon
        delta = spec.delta if delta is None else delta
    elif spec_of(randomizer) is not None:
        raise TypeError(
            f"randomizer must be a randomizer's spec, params, or a function, got the spec "
            f"{type(randomizer).__name__} of a protocol; pass its build(), inputs and epsilon."
        )
    else:
        params = randomizer
    if epsilon is None:
        raise ValueError("epsilon must be given: the randomizer does not state its claim.")
    epsilon = check_epsilon(epsilon)
    delta = check_real("delta", delta or 0.0, low=0.0, high=1 - 2.0**-53, open_ends=False)
    values = check_inputs(inputs, spec)
    sampler = Sampler(spec, params, values, statistics, batch)
    samples = [sampler.draw(key, i, num_samples) for i in range(len(values))]

    pairs = [
        (i, j, list(candidates(samples[i], samples[j], i, j, _minus(values[i], values[j]))))
        for i, j in itertools.combinations(range(len(values)), 2)
    ]
    # One half of the chance of error is for two limits of each event, the other for the means.
    error = (1 - confidence) / 2
    # Bonferroni: two limits for each statistic and each order of a pair.
    log_level = math.log(2 * sum(2 * len(tried) for _, _, tried in pairs) / error)
    findings = [
        found
        for i, j, tried in pairs
        for found in _compare(tried, values[i], values[j], delta, log_level)
    ]
    findings.sort(key=lambda pair: -pair.epsilon_lower)
    return AuditReport(
        randomizer=randomizer,
        epsilon=epsilon,
        delta=delta,
        epsilon_lower=findings[0].epsilon_lower,
        confidence=confidence,
        num_samples=num_samples,
        pairs=tuple(findings),
        decoding=None if spec is None else _check_means(spec, samples, values, error),
    )


def _minus(value: np.ndarray, other: np.ndarray) -> str:
    return f"{short(value)} minus {short(other)}"


def _compare(
    tried: list[Statistic], value: np.ndarray, other: np.ndarray, delta: float, log_level: float
) -> tuple[PairFinding, PairFinding]:
    """The findings for (value, other) and (other, value)."""
    half = len(tried[0].values[0]) // 2
    learnt = [learn(statistic, half, delta, log_level) for statistic in tried]
    return (
        _best(tried, [events[0] for events in learnt], 0, half, (value, other), delta, log_level),
        _best(tried, [events[1] for events in learnt], 1, half, (other, value), delta, log_level),
    )


def _best(
    tried: list[Statistic],
    events: list[Event],
    side: int,
    half: int,
    inputs: tuple[np.ndarray, np.ndarray],
    delta: float,
    log_level: float,
) -> PairFinding:
    """The event with the largest bound, from the samples that were not searched."""
    fresh = [[statistic.values[s][half:] for s in (side, 1 - side)] for statistic in tried]
    sizes = np.array([len(fresh[0][0]), len(fresh[0][1])])
    counts = np.array([[e.count(v) for v in pair] for e, pair in zip(events, fresh, strict=True)])
    lower = lower_limit(counts[:, 0], sizes[0], log_level)
    upper = upper_limit(counts[:, 1], sizes[1], log_level)
    # Where delta leaves nothing the logarithm is about −690, and the bound 0 below.
    bounds = np.log(np.maximum(lower - delta, 1e-300) / upper)
    best = int(bounds.argmax())
    bound = max(float(bounds[best]), 0.0)
    return PairFinding(
        value=_plain(inputs[0]),
        other=_plain(inputs[1]),
        epsilon_lower=bound,
        event=str(events[best]) if bound else "none found",
        probability=float(counts[best, 0] / sizes[0]),
        other_probability=float(counts[best, 1] / sizes[1]),
        lower=float(lower[best]),
        upper=float(upper[best]),
    )


def _check_means(
    spec: Randomizer[Any], samples: list[Samples], values: np.ndarray, error: float
) -> tuple[DecodingFinding, ...] | None:
    """Decoded reports whose mean is ruled out by the stated truth and variance."""
    if samples[0].fits is None:
        return None
    findings = []
    # Two sides of each input along each input.
    log_level = math.log(2 * len(values) ** 2 / error)
    for sample, value in zip(samples, values, strict=True):
        alone = spec.one_user(value)
        truth = np.ravel(spec.truth(*alone))
        deviation = np.sqrt(np.broadcast_to(np.ravel(spec.variance(*alone)), truth.shape))
        directions = np.asarray(input_directions(values, truth.size), np.float64)
        # the deviation of a sum of entries is at most the sum of theirs, whatever their correlation
        expected, spread = truth @ directions, (deviation @ np.abs(directions)) ** 2
        fits = np.asarray(sample.fits)
        off = mean_is_off(fits, expected, np.maximum(spread, 1e-300), log_level)
        errors = np.abs(fits.mean(0) - expected) / np.sqrt(np.maximum(spread, 1e-300) / len(fits))
        if off.any():
            j = int(np.where(off, errors, -1.0).argmax())
            found = (float(fits[:, j].mean()), float(expected[j]), float(errors[j]))
            findings.append(DecodingFinding(_plain(value), _plain(values[j]), *found))
    return tuple(findings)


def _plain(value: np.ndarray) -> Any:
    return value.item() if value.ndim == 0 else tuple(value.tolist())
