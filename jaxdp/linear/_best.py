"""Which protocol answers given linear queries with the least error."""

import collections
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

import jax
import numpy as np
from numpy.typing import ArrayLike

from .._contract import Work
from .._prediction import Prediction
from .._progress import telling
from .._queries import LinearProtocol, check_workload
from .._ranking import (
    best_first,
    build_all,
    kind_cell,
    named,
    ratio,
    table,
    whole_users,
    with_times,
)
from .._spec import FrozenArray, check_bool, check_choice, check_epsilon, check_int, check_real
from ..engine import simulate
from ..population import Population
from ..randomizers import FrequencyOracle
from ..reports import ReportCost, report_bytes, report_cost
from ..workloads import Operator
from ._candidates import Linear, answered
from ._candidates import candidates as candidates_for
from ._maximum_likelihood import post_processed
from ._optimized_strategy import OptimizedStrategy

_SEVERAL = 3  # protocols whose estimates are improved in a way
_TRIALS = 8, 200  # the fewest and the most, where their number is not given
_PATIENCE = 0.2e9  # nanoseconds that the simulation of one should take, roughly
_TOO_LONG = 1e9  # and that it may not

Candidate = Linear | FrequencyOracle | Callable[[FrozenArray, float], Linear | FrequencyOracle]
"""What may compete: a protocol, an oracle, or a function of (workload, epsilon) that makes one."""


@dataclasses.dataclass(frozen=True)
class RankedProtocol:
    """A protocol and its predicted errors.

    Attributes:
      name: of the protocol, and of what it is made with.
      protocol: the spec.
      max_error: the largest mean squared error of an answer.
      mean_error: the mean over the answers of the mean squared errors. Both say what they are.
      timed: whether the cost of a report is measured on this machine, too.
    """

    name: str
    protocol: Linear
    max_error: Prediction
    mean_error: Prediction
    timed: bool = False

    @property
    def rounds(self) -> int:
        """1: no protocol of a ranking is interactive."""
        return 1

    @functools.cached_property
    def cost(self) -> ReportCost | None:
        """What a report costs a client and a server, also in seconds if `timed`."""
        return report_cost(self.protocol, timed=self.timed)

    @property
    def report_bytes(self) -> int | None:
        """The length of a user's report; None where no wire format is known."""
        return report_bytes(self.protocol)


@dataclasses.dataclass(frozen=True)
class Ranking:
    """Protocols for a workload, the best one first; `print` shows a table.

    Attributes:
      entries: the protocols with their predicted errors.
      refused: names of the protocols that cannot be built here or were not tried, and why.
      objective: "max" or "mean", the error they are ordered by.
      num_users: n.
    """

    entries: tuple[RankedProtocol, ...]
    refused: tuple[tuple[str, str], ...]
    objective: str
    num_users: int

    @property
    def protocol(self) -> Linear:
        """The one of the least known error; of the least bound if none is known."""
        return self.entries[0].protocol

    def __str__(self) -> str:
        """A Markdown table: roots of the errors, and the factor between an error and the least.

        Bounds are marked and come last: they may be far above the error, and are "<=" a multiple
        of the least known one; simulated errors have their standard error. Reports without a wire
        format serve simulation only, and have no length.
        """
        least = _error(self.entries[0], self.objective)
        rows = [
            (
                entry.name,
                f"{entry.max_error**0.5:.4g}",
                f"{entry.mean_error**0.5:.4g}",
                kind_cell(_error(entry, self.objective)),
                "-" if entry.report_bytes is None else str(entry.report_bytes),
                *(entry.cost.cells if entry.cost else ("-", "-")),
                ratio(_error(entry, self.objective), least),
            )
            for entry in self.entries
        ]
        header = (
            "protocol",
            "RMSE, max",
            "RMSE, mean",
            "kind",
            "bytes",
            "client",
            "server",
            f"{self.objective} error / least",
        )
        note = (
            "One round, and users trust nobody. Client and server: what a report costs them "
            "(reports.report_cost)."
        )
        return table(header, rows, self.refused, note)


def _error(entry: RankedProtocol, objective: str) -> Prediction:
    return entry.max_error if objective == "max" else entry.mean_error


def best(
    workload: ArrayLike | Operator,
    num_users: int,
    epsilon: float,
    histogram: ArrayLike | str | None = None,
    delta: float | None = None,
    *,
    objective: str = "max",
    optimize: bool = False,
    num_trials: int | None = None,
    candidates: Mapping[str, Candidate] | Sequence[Linear | FrequencyOracle] | None = None,
    defaults: bool = True,
    timed: bool = False,
    progress: bool | None = None,
) -> Ranking:
    """Ranks the protocols for linear queries by their predicted errors.

    By default those of `candidates` compete, with `optimize` also a channel optimized for the
    queries. `candidates=` join them, and replace those of the same name; with `defaults=False` they
    compete alone.

    Errors of estimates as they are have formulas, exact ones for the protocols of this package: for
    the worst data set of this size, or, with `histogram`, for these users. Those of a candidate are
    what it predicts itself, and its bounds are marked.

    With a histogram, which may be a prior, estimates compete too as people use them: moved to the
    nearest answers that some histogram has ("projected"), or those of the distribution that makes
    the reports most likely ("likelihood"), see `post_processed`. Their errors have no formula and
    are often many times smaller. Each is simulated for the three protocols with the least mean
    errors that allow it quickly, and marked, with its standard error: a ranking for 1,000 values
    takes about 2 s, once its programs are compiled.

    Protocols that were not tried, or cannot be built, are in `refused` with the reason.

    Args:
      workload: W, float[q, k], a row for each query; or an `Operator`.
      num_users: n.
      epsilon: privacy parameter, > 0.
      histogram: float[k] >= 0, how many users have each value, times any constant: rounded to n
        users. Where it is not known "uniform", or "zipf" for shares in proportion to one over the
        number of the value; or, with a few things known, `jaxdp.population.maximum_entropy`. None
        for the worst case.
      delta: in (0, 1), to let mechanisms compete that are private but for this; None for pure ones.
      objective: "max", the error of the worst answer, or "mean", the mean error of the answers.
      optimize: whether to search for a channel, which takes from seconds to minutes.
      num_trials: simulated runs of an improved estimate, with a histogram; None for 200, or as many
        as take a fifth of a second, but 8 at least, which may take a second. By so few, the mean
        error of many answers is well known, and that of the worst one to a quarter of its root; as
        the largest of many numbers it is rather too large. 0 for no simulation.
      candidates: protocols for these queries, and frequency oracles, whose counts are then queried:
        the specs of this package or of another one, in a sequence or by name. By name also
        functions of (workload, epsilon) that make one. A candidate is refused where it answers
        other queries, is less private than asked for, or raises ValueError.
      defaults: whether the protocols of this package compete.
      timed: whether to measure what a report costs in time on this machine, which compiles the
        programs of all; see `jaxdp.reports.report_cost`.
      progress: whether to show on stderr which protocol is made or simulated, which needs
        the extra `sweep`; None for a terminal that has waited for a second.

    Returns:
      A `Ranking`, whose `protocol` is the best one.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is of the wrong kind, or is traced.

    Example:
      >>> import jaxdp
      >>> ranking = jaxdp.linear.best(jaxdp.workloads.prefix(16), num_users=10_000, epsilon=1.0)
      >>> ranking.entries[0].name
      'FactorizedQueries, PrivUnit unpadded'
      >>> ranking.protocol.worst_case_variance(10_000) == ranking.entries[0].max_error
      True

      An oracle of your making, here with a subset size that is not the default one, alone:

      >>> mine = jaxdp.randomizers.SubsetSelection(16, 1.0, subset_size=2)
      >>> ranking = jaxdp.linear.best(
      ...     jaxdp.workloads.identity(16), 10_000, 1.0, candidates=[mine], defaults=False
      ... )
      >>> [entry.name for entry in ranking.entries]
      ['SubsetSelection, candidate 1']
    """
    workload = check_workload(workload)
    num_users = check_int("num_users", num_users, low=1)
    epsilon = check_epsilon(epsilon)
    check_choice("objective", objective, ("max", "mean"))
    optimize, defaults = check_bool("optimize", optimize), check_bool("defaults", defaults)
    timed = check_bool("timed", timed)
    if delta is not None:
        delta = check_real("delta", delta, low=0.0, high=1.0)
    if num_trials is not None:
        num_trials = check_int("num_trials", num_trials, low=0)
        if num_trials == 1:
            raise ValueError("num_trials must be 0 or at least 2, for a standard error, got 1.")
    counts = None
    if histogram is not None:
        counts = whole_users(histogram, num_users, workload.values.shape[1])
    known = candidates_for(workload, delta, norm=objective) if defaults else {}
    makers: dict[str, Callable[[], Linear]] = {
        name: functools.partial(make, epsilon, num_users) for name, make in known.items()
    }
    skipped: dict[str, str] = {}
    if defaults and delta is None:
        skipped["GaussianQueries"] = "needs a delta in (0, 1)."
    if defaults and not optimize:
        skipped["OptimizedStrategy"] = "takes from seconds to minutes; pass optimize=True."
    elif defaults:
        aim = "worst" if counts is None else counts
        makers["OptimizedStrategy"] = lambda: OptimizedStrategy(workload, epsilon, objective=aim)
    for name, candidate in named(candidates).items():
        makers[name] = functools.partial(_made, candidate, workload, epsilon, delta or 0.0)
        skipped.pop(name, None)

    def measure(name: str, protocol: Linear) -> RankedProtocol:
        return RankedProtocol(name, protocol, *_errors(protocol, num_users, counts))

    with telling(progress, "ranking") as tell:
        entries, refused = build_all(makers, measure, tell)
        if not entries:
            reasons = " ".join(f"{name}: {reason}" for name, reason in refused)
            raise ValueError(f"candidates must hold a protocol that can be ranked. {reasons}")
        if num_trials != 0 and counts is not None:
            improved, slow = _improved(entries, counts, num_trials, tell)
            entries, refused = [*entries, *improved], [*refused, *slow]
        if timed:
            entries = with_times(entries, tell)
    ordered = best_first(entries, lambda entry: _error(entry, objective))
    return Ranking(ordered, (*refused, *skipped.items()), objective, num_users)


def _improved(
    entries: list[RankedProtocol],
    counts: np.ndarray,
    num_trials: int | None,
    tell: Callable[[str], None],
) -> tuple[list[RankedProtocol], list[tuple[str, str]]]:
    """The best protocols with better estimates, by simulation; and what would take too long."""
    users, work = Population.from_histogram(counts), Work(float(counts.sum()), len(counts))
    done: collections.Counter[str] = collections.Counter()
    makers: dict[str, Callable[[], Linear]] = {}
    trials: dict[str, int] = {}
    for entry in sorted(entries, key=lambda entry: entry.mean_error):
        for way, protocol in post_processed(entry.protocol).items():
            if done[way] == _SEVERAL:
                continue
            name = f"{entry.name}, {way}"
            trials[name] = num_trials or _quick_trials(protocol, work)
            done[way] += trials[name] > 0  # what is too slow takes nobody's place
            makers[name] = lambda protocol=protocol: protocol

    def measure(name: str, protocol: Linear) -> RankedProtocol:
        if not trials[name]:
            raise ValueError(
                f"{_TRIALS[0]} simulated runs would take more than {_TOO_LONG / 1e9:.2g} s; for "
                "them give num_trials."
            )
        tell(f"{name}, simulated")
        found = simulate(protocol, users, jax.random.key(0), num_trials=trials[name])
        return RankedProtocol(name, protocol, found.error("max"), found.error("mean"))

    return build_all(makers, measure)


def _quick_trials(protocol: Linear, work: Work) -> int:
    """How many simulated runs of a protocol are quick enough; 0 if too few are."""
    cost = protocol.built.cost(work)
    each = min(cost.per_user, cost.tally)
    if each * _TRIALS[0] > _TOO_LONG:
        return 0
    return int(np.clip(_PATIENCE / each, *_TRIALS))


def _errors(
    protocol: Linear, num_users: int, counts: np.ndarray | None
) -> tuple[Prediction, Prediction]:
    """The largest and the mean error over the answers."""
    if counts is not None:
        errors, kind = protocol.variance(counts), protocol.variance_kind
        return Prediction(errors.max(), kind), Prediction(errors.mean(), kind)
    total = Prediction.of(protocol.worst_case_total_variance(num_users))
    largest = Prediction.of(protocol.worst_case_variance(num_users))
    return largest, total.scaled(1 / protocol.num_queries)


def _made(candidate: Candidate, workload: FrozenArray, epsilon: float, delta: float) -> Linear:
    """The protocol of a candidate, or raises ValueError unless it may be compared."""
    spec = candidate(workload, epsilon) if callable(candidate) else candidate
    protocol = spec if isinstance(spec, LinearProtocol) else answered(workload, spec)
    values = workload.values
    if protocol.num_values != values.shape[1]:
        raise ValueError(f"it is for {protocol.num_values} values, not {values.shape[1]}.")
    # A protocol answers these queries if it does for some histogram of no special form.
    probe = np.random.default_rng(0).dirichlet(np.ones(values.shape[1]))
    answers, expected = protocol.answers(probe), values @ probe
    if answers.shape != expected.shape or not np.allclose(answers, expected):
        raise ValueError("it answers other queries.")
    if protocol.exact_epsilon() > epsilon or protocol.exact_delta() > delta:
        raise ValueError(
            f"it is private for epsilon = {protocol.exact_epsilon():.6g} and delta = "
            f"{protocol.exact_delta():.3g}, not for {epsilon:g} and {delta:g}."
        )
    return protocol
