"""A statistical lower bound on epsilon."""

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import jax
import numpy as np
from numpy.typing import ArrayLike

from .._contract import Round, Runnable, params_of, round_of, spec_of
from .._spec import (
    BELOW_ONE,
    check_bool,
    check_epsilon,
    check_int,
    check_key,
    check_real,
    physical_memory,
)
from ..population import Population
from ..randomizers import Randomizer
from ._inputs import check_inputs, extreme_bins, neighbour, outside_inputs, plain, users_of
from ._intervals import mean_is_off
from ._report import AuditReport, DecodingFinding
from ._runs import run_samples
from ._samples import Reporter, Sampler, Samples, check_statistics, input_directions
from ._search import find_events


def estimate_epsilon(
    randomizer: Runnable | Reporter,
    key: jax.Array,
    num_samples: int = 100_000,
    *,
    inputs: ArrayLike | None = None,
    outside: bool | None = None,
    population: Population | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    confidence: float = 0.999999,
    statistics: Sequence[Callable] = (),
    batch_size: int = 2**16,
) -> AuditReport:
    """A lower bound on the epsilon of a randomizer, or of whole runs of a protocol, from samples.

    For inputs x, x' and any event S, `ln((Pr_x[S] - delta) / Pr_x'[S])` is at most epsilon. One
    half of the samples is searched for events that make it large; on the other half, independent of
    the search, the two probabilities are bounded, for the best event of each statistic.

    A sample is a report of x. Or, with a `population`, what the analyst learns in one trial of
    `simulate` in which the first user holds x: outcome and estimate, on both paths where the
    protocol has both, with blocks of 16 users. That is the engine too: its words, blocks, rounds,
    masks, and laws of tallies.

    An event is a set of values of a statistic of the sample: its symbols, its coordinates, their
    last bits and parities, its norm, whether it is zero; the log-density ratio of x and x'
    (`log_density` of the spec); how much better x than x' fits what the randomizer's own decoder
    makes of it, which is the likelihood ratio of most frequency oracles and the projection on
    x - x' of vectors; and the sign of that together with each word of the report, as a hash is sent
    along with what it hides. A set is half a line, or the union of the intervals or symbols of the
    largest frequency ratios. Norms are compared to 16 bits: the last bits of a norm that should be
    constant depend on the vector.

    Formal guarantees:
      * With probability `confidence` every bound of the report is valid at once, whatever the
        randomizer: Chernoff's bound `n KL(k/n || p) <= ln(1/level)` for each limit, Bonferroni over
        all pairs, statistics and limits, sample splitting for the search. So a randomizer that is
        as private as claimed is said to violate its claim with a chance of at most
        `1 - confidence`.
      * Nothing is said from above: a small bound may mean that samples, inputs or statistics do
        not suffice. `exact_epsilon` proves privacy, this function disproves it.
      * A mean of decoded samples is reported as wrong only if the stated variance rules it out
        (Catoni's bound, within the same `confidence`).

    Edge cases:
      ===================================  =====================================================
      no event tells any two inputs apart  bound 0.0; see `AuditReport.spends_nothing`
      event unseen under x'                a finite bound: the upper limit is about ln(1/level) / n
      (epsilon, delta)-claims              delta is subtracted from the lower limit
      float arithmetic                     audited as it is: `x + noise` betrays x by its last bits
      estimates of more than 4096 entries  single reports are not decoded
      a function                           called with a key of its own for each report
      ===================================  =====================================================

    Args:
      randomizer: a spec, the params of a round, or a function from (key, value) to a report; with a
        population, the spec or params of any protocol.
      key: a key; it is folded.
      num_samples: samples of each input, 1000 to 2**31; about a hundred bytes are kept of each.
      inputs: the inputs to compare, int32[m], float32[m] or float32[m, d] with 2 <= m <= 16; when
        None, the ends of the domain. Any two are neighbours: of users with a public label, give
        those with one label.
      outside: whether inputs outside of the domain are compared too, which a randomizer has to move
        into it: the integers before and after it; or 100 times the largest input, NaN, and
        infinity. None for all but functions, and but for runs, which refuse such users.
      population: users of whom the first holds each of the inputs in turn, 2**16 at most; None to
        audit single reports. A few users are best, for the noise of each hides the others; two
        blocks of 16 show whether blocks share their words.
      epsilon: the claim; when None the spec's `epsilon`, or a protocol's `exact_epsilon()`.
      delta: the claimed delta in [0, 1); the spec's `delta`, a protocol's `exact_delta()`, or 0,
        when None.
      confidence: in (0, 1).
      statistics: further functions of a batch of reports, or of outcomes as rows, to float[n].
      batch_size: reports drawn at once.

    Returns:
      An `AuditReport`.

    Raises:
      ValueError: an argument is out of range, or the inputs or the claim must be given.
      TypeError: an argument is of the wrong kind, or a protocol is given without a population.

    Example:
      >>> import jax
      >>> from jaxdp.audit import estimate_epsilon
      >>> from jaxdp.randomizers import KRR
      >>> report = estimate_epsilon(KRR(num_values=2, epsilon=1.0), jax.random.key(0))
      >>> 0.9 < report.epsilon_lower <= 1.0, report.violates
      (True, False)

    References:
      Ding, Wang, Wang, Zhang, Kifer (2018), Detecting violations of differential privacy; Mironov
      (2012), On significance of the least significant bits for differential privacy; Chernoff
      (1952); Catoni (2012), Challenging the empirical mean and empirical variance.
    """
    check_key(key)
    num_samples = check_int("num_samples", num_samples, low=1000, high=2**31)
    available = physical_memory()
    if 200.0 * num_samples > available:
        raise ValueError(
            f"num_samples must be fewer than {num_samples}: a hundred bytes are kept of each "
            f"sample of two inputs or more, and there are {available:.3g}."
        )
    batch = min(check_int("batch_size", batch_size, low=1), num_samples)
    confidence = check_real("confidence", confidence, low=0.0, high=1.0)
    statistics = check_statistics(statistics)
    spec = randomizer if isinstance(randomizer, Randomizer) else None
    epsilon, delta = _claim(randomizer, spec, epsilon, delta)
    if population is None:
        sampler = _sampler(randomizer, spec, inputs, outside, statistics, batch)
        values, known = sampler.inputs, sampler.inputs[: sampler.inside]
        data = [] if spec is None else [spec.one_user(value) for value in known]
        groups = {"": [sampler.draw(key, i, num_samples) for i in range(len(values))]}
    else:
        if outside is not None and check_bool("outside", outside):
            raise ValueError("outside must be left out with a population, which refuses such.")
        users = users_of(population)
        if inputs is None and spec is None and population.num_values is not None:
            inputs = extreme_bins(population.num_values)
        values = known = check_inputs(inputs, spec)
        neighbours = [neighbour(population, users, value) for value in values]
        data = [(pop.counts().numpy(), pop.inputs) for pop in neighbours]
        groups = run_samples(randomizer, neighbours, values, statistics, key, num_samples)

    # One half of the chance of error is for two limits of each event, the other for the means.
    error = (1 - confidence) / 2
    shown = [plain(value) for value in values]
    findings = find_events(groups, shown, delta, error)
    return AuditReport(
        randomizer=randomizer,
        epsilon=epsilon,
        delta=delta,
        epsilon_lower=findings[0].epsilon_lower,
        confidence=confidence,
        num_samples=num_samples,
        pairs=findings,
        decoding=None if spec is None else _check_means(spec, groups, known, data, error),
    )


def _claim(
    given: object, spec: Randomizer[Any] | None, epsilon: float | None, delta: float | None
) -> tuple[float, float]:
    """The claim: as given, or as the spec states it."""
    if spec is not None:
        epsilon = spec.epsilon if epsilon is None else epsilon
        delta = spec.delta if delta is None else delta
    elif (protocol := spec_of(given)) is not None:
        epsilon = protocol.exact_epsilon() if epsilon is None else epsilon
        delta = protocol.exact_delta() if delta is None else delta
    if epsilon is None:
        raise ValueError("epsilon must be given: the randomizer does not state its claim.")
    epsilon = check_epsilon(epsilon)
    delta = 0.0 if delta is None else delta
    return epsilon, check_real("delta", delta, low=0.0, high=BELOW_ONE, open_ends=False)


def _sampler(
    given: Runnable | Reporter,
    spec: Randomizer[Any] | None,
    inputs: ArrayLike | None,
    outside: bool | None,
    statistics: Sequence[Callable],
    batch: int,
) -> Sampler:
    """What draws reports of single users."""
    params = given if spec is None else spec.build()
    single = round_of(params)
    if spec is None and ((single is None and params_of(given) is not None) or spec_of(given)):
        raise TypeError(
            f"randomizer must be a randomizer's spec, params, or a function, got the "
            f"{type(given).__name__} of a protocol; audit its runs with population=, or pass the "
            "params of one of its rounds, inputs and epsilon."
        )
    values = check_inputs(inputs, spec)
    inside = len(values)
    wanted = single is not None if outside is None else check_bool("outside", outside)
    if wanted:
        bins = None if single is None else single.num_bins
        values = np.concatenate([values, outside_inputs(values, bins)])
    return Sampler(spec, cast(Round[Any] | Reporter, params), values, inside, statistics, batch)


def _check_means(
    spec: Randomizer[Any],
    groups: dict[str, list[Samples]],
    values: np.ndarray,
    data: list[tuple[np.ndarray, np.ndarray | None]],
    error: float,
) -> tuple[DecodingFinding, ...] | None:
    """Decoded samples whose mean is ruled out by the truth and variance of their data sets."""
    known = [samples for samples in groups.values() if samples[0].fits is not None]
    if not known:
        return None
    findings = []
    # Two sides of each input along each input.
    log_level = math.log(2 * len(known) * len(values) ** 2 / error)
    for number, (value, users) in enumerate(zip(values, data, strict=True)):
        truth = np.ravel(spec.truth(*users))
        deviation = np.sqrt(np.broadcast_to(np.ravel(spec.variance(*users)), truth.shape))
        directions = np.asarray(input_directions(values, truth.size), np.float64)
        # the deviation of a sum of entries is at most the sum of theirs, whatever their correlation
        expected, spread = truth @ directions, (deviation @ np.abs(directions)) ** 2
        spread = np.maximum(spread, 1e-300)
        for samples in known:
            fits = np.asarray(samples[number].fits)[:, : len(values)]
            off = mean_is_off(fits, expected, spread, log_level)
            errors = np.abs(fits.mean(0) - expected) / np.sqrt(spread / len(fits))
            if off.any():
                j = int(np.where(off, errors, -1.0).argmax())
                found = (float(fits[:, j].mean()), float(expected[j]), float(errors[j]))
                findings.append(DecodingFinding(plain(value), plain(values[j]), *found))
    return tuple(findings)
