"""Which protocol estimates a given statistic of pairs with the least error."""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from .._contract import Work
from .._prediction import Prediction
from .._progress import telling
from .._ranking import (
    NEARLY_LINEAR,
    best_first,
    build_all,
    is_noisy,
    kind_cell,
    named,
    ratio,
    table,
    whole_users,
    with_times,
)
from .._spec import check_bool, check_choice, check_epsilon, check_int
from ..engine import simulate
from ..population import Population
from ..randomizers import FrequencyOracle
from ..reports import ReportCost, report_bytes, report_cost
from ._auc_protocol import AUCProtocol
from ._candidates import StatisticProtocol, for_values
from ._candidates import candidates as candidates_for
from ._protocol import PairwiseProtocol
from .auc._bilinear_auc import BilinearAUC
from .kernels._auc import AUC
from .kernels._exact import FORM, Form
from .kernels._grid import AnyGrid
from .kernels._grid_kernel import on_bins
from .kernels._kernel import Domain, Kernel
from .kernels._pair_kernel import as_kernel
from .oracles._oracle_statistic import OracleStatistic
from .oracles._quantized_rr import QuantizedRR

Candidate = (
    StatisticProtocol
    | FrequencyOracle
    | Callable[[Kernel, float], StatisticProtocol | FrequencyOracle]
)
"""What may compete: a protocol, an oracle, or a function of (kernel, epsilon) that makes one."""


@dataclasses.dataclass(frozen=True)
class RankedStatistic:
    """A protocol and its predicted error.

    Attributes:
      name: of the protocol, and of what it is made with.
      protocol: the spec.
      error: its mean squared error, or a bound on it, as it says.
      rounds: how many rounds it takes.
      timed: whether the cost of a report is measured on this machine, too.
      noisy: whether the error is by the delta method, and above 0.1 in root mean square, where it
        may be off by more than a tenth: a function of such averages is not nearly linear.
    """

    name: str
    protocol: StatisticProtocol
    error: Prediction
    rounds: int
    timed: bool = False
    noisy: bool = False

    @functools.cached_property
    def cost(self) -> ReportCost | None:
        """What a report costs a client and a server, also in seconds if `timed`; per round."""
        return report_cost(self.protocol, timed=self.timed)

    @property
    def report_bytes(self) -> int | None:
        """The length of a user's report; None where no wire format is known, or of many rounds."""
        return report_bytes(self.protocol) if self.rounds == 1 else None


@dataclasses.dataclass(frozen=True)
class StatisticRanking:
    """Protocols for a statistic, the best one of known error first; `print` shows a table.

    Attributes:
      entries: the protocols with their predicted errors.
      refused: names of the protocols that cannot be built or predicted here, and why.
      num_users: n.
    """

    entries: tuple[RankedStatistic, ...]
    refused: tuple[tuple[str, str], ...]
    num_users: int

    @property
    def protocol(self) -> StatisticProtocol:
        """The one of the least known error; of the least bound if none is known."""
        return self.entries[0].protocol

    def __str__(self) -> str:
        """A Markdown table: roots of the errors, and the factor between an error and the least.

        Bounds are marked and come last: they may be far above the error, and are "<=" a multiple
        of the least known one. Reports without a wire format serve
        simulation only, and have no length.
        """
        least = self.entries[0].error
        rows = [
            (
                entry.name,
                str(entry.rounds),
                f"{entry.error**0.5:.4g}",
                kind_cell(entry.error, noisy=entry.noisy),
                "-" if entry.report_bytes is None else str(entry.report_bytes),
                *(entry.cost.cells if entry.cost else ("-", "-")),
                ratio(entry.error, least),
            )
            for entry in self.entries
        ]
        header = (
            *("protocol", "rounds", "RMSE", "kind", "bytes"),
            *("client", "server", "error / least"),
        )
        note = (
            "Users trust nobody. Client and server: what a report costs them (reports.report_cost)."
        )
        if any(entry.noisy for entry in self.entries):
            note += (
                f" Noisy: above {NEARLY_LINEAR:g} an error by the delta method may be off by more "
                "than a tenth; simulate it (num_trials)."
            )
        return table(header, rows, self.refused, note)


def best(
    kernel: Kernel | ArrayLike,
    num_users: int,
    epsilon: float,
    num_values: Domain | None = None,
    rounds: int = 1,
    histogram: ArrayLike | str | None = None,
    *,
    form: Form = "u",
    candidates: Mapping[str, Candidate]
    | Sequence[StatisticProtocol | FrequencyOracle]
    | None = None,
    defaults: bool = True,
    num_trials: int | None = None,
    timed: bool = False,
    progress: bool | None = None,
) -> StatisticRanking:
    """Ranks the protocols for a statistic of pairs by their predicted errors.

    By default those of `candidates` compete. `candidates=` join them, and replace those of the same
    name; with `defaults=False` they compete alone.

    Not ranked:
      * What `jaxdp.trusted` has, in which users trust a shuffler or each other.
      * AUC with public labels, which does not protect labels. With `ties="zero"`, and with the
        V-form for given `class_sizes`, `BilinearAUC` estimates something else.
      * Rounding at random to the points of a grid, which `QuantizedRR` has: with a grid values are
        rounded to their bins, and errors are about the statistic of the bins. The squared
        quantisation error, the same for all, comes on top: `QuantizedRR.quantization_error`.
      * Options: `TwoRound`, `OneStep` and `ThreeRound` have their default shares, scalars and tau,
        so not `ThreeRound(variant="paper")`; vectors are those of `PrivUnit` and `PrivUnitG`.
      * Whatever is in `refused`, with the reason: `PrivUnit` without padding for vectors of
        different norms, or a randomizer that has no such epsilon.

    Without a histogram the error is `worst_case_variance`, for some protocols a bound on it; with
    one, which may be guessed from earlier data, it is `variance` for these users, of which nearly
    all are exact or by the delta method. Bounds are marked and come after all errors that are
    known; with `num_trials` errors for a histogram are simulated where only a bound is known, and
    where the delta method is `noisy`.

    Args:
      kernel: the statistic: a kernel, or W as float[k, k]; averaged with its transpose, with a
        warning, if it is not symmetric.
      num_users: n.
      epsilon: privacy parameter, > 0.
      num_values: how many bins there are, or the shape of the table whose cells they are; a `Grid`
        or `ProductGrid` for real values; None for a matrix.
      rounds: 1, 2 or 3, the most that the users may be asked.
      histogram: float[k] >= 0, how many users have each value, or are in each bin of a grid, times
        any constant: rounded to n users. "uniform", or "zipf" for shares in proportion to one over
        the number of the value, where it is not known. None for the worst case; needed for kernels
        that are not linear.
      form: "u" for pairs of different users, "v" to average over all pairs.
      candidates: protocols for this statistic, and frequency oracles, whose counts are then plugged
        in: the specs of this package or of another one, in a sequence or by name. By name also
        functions of (kernel, epsilon) that make one. A candidate is refused where it estimates
        another statistic, is less private than asked for, takes more rounds, or raises ValueError.
      defaults: whether the protocols of this package compete.
      num_trials: simulated runs from which the error of a protocol that knows no more than a bound
        is taken, or one that is noisy, with a histogram; the standard error is about
        `sqrt(2 / num_trials)` of it. None for no simulation.
      timed: whether to measure what a report costs in time on this machine, which compiles the
        programs of all; see `jaxdp.reports.report_cost`.
      progress: whether to show on stderr which protocol is made or simulated, which needs
        the extra `sweep`; None for a terminal that has waited for a second.

    Returns:
      A `StatisticRanking`, whose `protocol` is the best one.

    Raises:
      ValueError: an argument is out of range, or no protocol's error can be predicted.
      TypeError: an argument is of the wrong kind, or is traced.

    Example:
      >>> from jaxdp.pairwise import GiniDiversity, best
      >>> from jaxdp.randomizers import SubsetSelection
      >>> mine = SubsetSelection(3, 1.0, subset_size=2)
      >>> ranking = best(GiniDiversity(), 10_000, 1.0, num_values=3, candidates=[mine])
      >>> ranking.entries[0].error == ranking.protocol.worst_case_variance(10_000)
      True
      >>> "SubsetSelection, candidate 1" in [entry.name for entry in ranking.entries]
      True
    """
    kernel = as_kernel(kernel, depth=3)
    num_users = check_int("num_users", num_users, low=2)
    epsilon = check_epsilon(epsilon)
    check_choice("rounds", rounds, (1, 2, 3))
    FORM("form", form)
    timed = check_bool("timed", timed)
    if isinstance(num_values, AnyGrid):
        bins, shape = on_bins(kernel, num_values)
        options: dict[str, Any] = {"form": form, "candidates": candidates, "defaults": defaults}
        options |= {"histogram": histogram, "num_trials": num_trials}
        options |= {"progress": progress}
        ranking = best(bins, num_users, epsilon, shape, rounds, **options)
        entries = tuple(
            dataclasses.replace(
                entry, protocol=for_values(entry.protocol, kernel, num_values), timed=timed
            )
            for entry in ranking.entries
        )
        return dataclasses.replace(ranking, entries=entries)
    defaults = check_bool("defaults", defaults)
    if num_trials is not None:
        num_trials = check_int("num_trials", num_trials, low=2)
        if histogram is None:
            raise ValueError("histogram must be given with num_trials, to simulate its users.")
    plain = QuantizedRR(kernel, 1.0, num_values, form=form)  # checks the statistic
    if histogram is None and not kernel.is_linear:
        raise ValueError(
            "histogram must be given for a kernel that is not linear: the errors of plug-in "
            "estimates have no bound over all data sets."
        )
    counts = None  # any users
    if histogram is not None:
        counts = whole_users(histogram, num_users, plain.randomizer.num_values)
    known = candidates_for(kernel, num_values, rounds, form=form) if defaults else {}
    # The fewest rounds at which each competes
    needed = {
        name: most
        for most in range(rounds, 0, -1)
        for name in candidates_for(kernel, num_values, most, form=form)
    }
    makers: dict[str, Callable[[], StatisticProtocol]] = {
        name: functools.partial(make, epsilon, num_users) for name, make in known.items()
    }
    for name, candidate in named(candidates).items():
        makers[name] = functools.partial(_made, candidate, plain, epsilon, counts)
        needed.pop(name, None)

    def measure(name: str, protocol: StatisticProtocol) -> RankedStatistic:
        number = needed.get(name) or len(protocol.build().rounds(Work(num_users, 1)))
        if number > rounds:
            raise ValueError(f"it takes {number} rounds, more than rounds = {rounds}.")
        error = _error(protocol, kernel, num_users, counts)
        noisy = not kernel.is_linear and is_noisy(error)
        if (noisy or error.kind == "bound") and counts is not None and num_trials is not None:
            users = Population.from_histogram(counts)
            error = simulate(protocol, users, jax.random.key(0), num_trials=num_trials).error()
            noisy = False
        if not math.isfinite(error):
            raise ValueError("it predicts no finite error.")
        return RankedStatistic(name, protocol, error, number, noisy=noisy)

    with telling(progress, "ranking") as tell:
        entries, refused = build_all(makers, measure, tell)
        if timed:
            entries = with_times(entries, tell)
    if not entries:
        reasons = " ".join(f"{name}: {reason}" for name, reason in refused)
        raise ValueError(f"candidates must hold a protocol that can be ranked. {reasons}")
    ordered = best_first(entries, lambda entry: entry.error)
    return StatisticRanking(ordered, tuple(refused), num_users)


def _error(
    protocol: StatisticProtocol, kernel: Kernel, num_users: int, counts: np.ndarray | None
) -> Prediction:
    """The predicted error, for given users or in the worst case; inf where none is known."""
    if counts is not None:
        error = Prediction(float(protocol.variance(counts)), protocol.variance_kind)
    elif isinstance(protocol, BilinearAUC) and isinstance(kernel, AUC) and kernel.class_sizes:
        error = protocol.worst_case_variance(num_users, kernel.class_sizes[1])
    else:
        error = Prediction.of(protocol.worst_case_variance(num_users))
    return error


def _made(
    candidate: Candidate, plain: QuantizedRR, epsilon: float, counts: np.ndarray | None
) -> StatisticProtocol:
    """The protocol of a candidate, or raises ValueError unless it may be compared.

    Args:
      candidate: what may compete.
      plain: a protocol for the statistic.
      epsilon: the privacy parameter asked for.
      counts: users that the statistic is compared on; None for any.
    """
    spec: Any = candidate(plain.kernel, epsilon) if callable(candidate) else candidate
    if not isinstance(spec, (PairwiseProtocol, QuantizedRR, AUCProtocol)):
        size = plain.num_values
        spec = OracleStatistic(plain.kernel, spec, num_values=size, form=plain.form)
    if counts is None:
        counts = _some_users(plain.kernel, plain.randomizer.num_values)
    # Two statistics that agree on users of no special form are taken to be the same.
    if not np.allclose(spec.truth(counts), plain.truth(counts)):
        raise ValueError("it estimates another statistic.")
    if spec.exact_epsilon() > epsilon or spec.exact_delta() > 0:
        raise ValueError(
            f"it is private for epsilon = {spec.exact_epsilon():.6g} and delta = "
            f"{spec.exact_delta():.3g}, not for {epsilon:g} and 0."
        )
    return spec


def _some_users(kernel: Kernel, num_values: int) -> np.ndarray:
    """Numbers of users with each value that the statistic is defined for."""
    if isinstance(kernel, AUC) and kernel.class_sizes is not None:
        scores = np.arange(1, num_values // 2 + 1)
        return np.concatenate([whole_users(scores, n, len(scores)) for n in kernel.class_sizes])
    return np.arange(1, num_values + 1)
