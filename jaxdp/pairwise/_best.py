"""Which protocol estimates a given statistic of pairs with the least error."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

from .._ranking import build_all, table, whole_users
from .._spec import check_choice, check_epsilon, check_int
from ..linear._best import ORACLES
from ..randomizers import PrivUnit, PrivUnitG
from ._auc import AUC
from ._bilinear_auc import BilinearAUC
from ._exact import Form, check_form
from ._hierarchical_auc import HierarchicalAUC
from ._kernel import Kernel
from ._one_report import OneReport
from ._one_step import OneStep
from ._oracle_statistic import OracleStatistic
from ._pair_kernel import PairKernel, symmetric_kernel
from ._quantized_rr import QuantizedRR
from ._three_round import ThreeRound
from ._two_report import TwoReport
from ._two_round import TwoRound


@dataclasses.dataclass(frozen=True)
class RankedStatistic:
    """A protocol and its predicted error.

    Attributes:
      name: of the protocol, and of what it is made with.
      protocol: the spec.
      error: its mean squared error.
      rounds: how many rounds it takes.
    """

    name: str
    protocol: Any
    error: float
    rounds: int


@dataclasses.dataclass(frozen=True)
class StatisticRanking:
    """Protocols for a statistic, the best one first; `print` shows a table.

    Attributes:
      entries: the protocols with their predicted errors.
      refused: names of the protocols that cannot be built or predicted here, and why.
      num_users: n.
    """

    entries: tuple[RankedStatistic, ...]
    refused: tuple[tuple[str, str], ...]
    num_users: int

    @property
    def protocol(self) -> Any:
        """The best one."""
        return self.entries[0].protocol

    def __str__(self) -> str:
        """A Markdown table: roots of the errors, and the factor between an error and the least."""
        least = self.entries[0].error
        rows = [
            (
                entry.name,
                str(entry.rounds),
                f"{entry.error**0.5:.4g}",
                f"{entry.error / least if least else 1.0:.3f}",
            )
            for entry in self.entries
        ]
        return table(("protocol", "rounds", "RMSE", "error / least"), rows, self.refused)


def best(
    kernel: Any,
    num_users: int,
    epsilon: float,
    num_values: int | tuple[int, ...] | None = None,
    rounds: int = 1,
    histogram: Any = None,
    *,
    form: Form = "u",
) -> StatisticRanking:
    """Ranks the protocols for a statistic of pairs by their predicted errors, without simulation.

    Candidates of one round are randomized response and every frequency oracle with the plug-in
    U-statistic, one report of a signed factor and two reports of a factorization; of two rounds
    the linear answers first and everyone's own number after, and the corrected step; of three the
    centred protocol. For an `AUC`, whose labels are private here, also those made for it:
    `BilinearAUC(labels="private")`, and given a histogram `HierarchicalAUC` with private and with
    randomized labels, discarding no node.

    Not ranked:
      * `PairSampling` and `AllPairs`, in which users compute with each other, and `ShuffledReports`
        and `ShuffledSum`: they trust others than these do.
      * AUC with public labels, which does not protect labels, and `HierarchicalAUC` that discards
        nodes, without a prediction. With `ties="zero"`, and with the V-form for given
        `class_sizes`, `BilinearAUC` estimates something else.
      * Grids: values are bins, so `QuantizedRR` has nothing to round.
      * Options: `TwoRound`, `OneStep` and `ThreeRound` have their default shares, scalars and tau,
        so not `TwoRound(sharing="budget")` or `ThreeRound(variant="paper")`; vectors are those of
        `PrivUnit` and `PrivUnitG`, in `TwoReport` of `PrivUnit`.
      * Whatever is in `refused`, with the reason: `TwoReport` and the protocols of several rounds
        for kernels that are not linear, or a randomizer that has no such epsilon.

    Without a histogram the error is `worst_case_variance`, for some protocols a bound on it; with
    one it is `variance` for these users. A protocol whose bound is loose ranks lower in the worst
    case than it deserves; a histogram that is guessed from earlier data ranks it fairly.

    Args:
      kernel: the statistic: a kernel, or W as float[k, k]; averaged with its transpose, with a
        warning, if it is not symmetric.
      num_users: n.
      epsilon: privacy parameter, > 0.
      num_values: how many bins there are, or the shape of the table whose cells they are; None for
        a matrix.
      rounds: 1, 2 or 3, the most that the users may be asked.
      histogram: float[k] >= 0, how many users have each value, times any constant: rounded to n
        users. None for the worst case; needed for kernels that are not linear.
      form: "u" for pairs of different users, "v" to average over all pairs.

    Returns:
      A `StatisticRanking`, whose `protocol` is the best one.

    Raises:
      ValueError: an argument is out of range, or no protocol's error can be predicted.
      TypeError: an argument is of the wrong kind, or is traced.

    Example:
      >>> from jaxdp.pairwise import GiniDiversity, best
      >>> ranking = best(GiniDiversity(), num_users=10_000, epsilon=1.0, num_values=3)
      >>> ranking.entries[0].error == ranking.protocol.worst_case_variance(10_000)
      True
    """
    if not isinstance(kernel, Kernel):
        kernel = PairKernel.from_matrix(symmetric_kernel(kernel, depth=3))
    num_users = check_int("num_users", num_users, low=2)
    epsilon = check_epsilon(epsilon)
    check_choice("rounds", rounds, (1, 2, 3))
    check_form(form)
    plain = QuantizedRR(kernel, 1.0, num_values, form=form)  # checks the statistic
    if histogram is None and not kernel.is_linear:
        raise ValueError(
            "histogram must be given for a kernel that is not linear: the errors of plug-in "
            "estimates have no bound over all data sets."
        )
    counts = None
    if histogram is not None:
        counts = whole_users(histogram, num_users, plain.randomizer.num_values)
    makers = _candidates(plain, num_users, epsilon)

    def measure(name, protocol):
        if counts is not None:
            error = float(protocol.variance(counts))
        elif isinstance(protocol, BilinearAUC):
            assert isinstance(kernel, AUC)
            assert kernel.class_sizes is not None  # the kernel is linear
            error = protocol.worst_case_variance(num_users, kernel.class_sizes[1])
        else:
            error = protocol.worst_case_variance(num_users)
        if not math.isfinite(error):
            raise ValueError("it predicts no finite error.")
        return RankedStatistic(name, protocol, error, makers[name][0])

    chosen = {name: make for name, (needed, make) in makers.items() if needed <= rounds}
    entries, refused = build_all(chosen, measure)
    if not entries:
        raise ValueError(
            "no protocol's error can be predicted: "
            + " ".join(f"{name}: {reason}" for name, reason in refused)
        )
    entries.sort(key=lambda entry: entry.error)
    return StatisticRanking(tuple(entries), tuple(refused), num_users)


def _candidates(
    plain: QuantizedRR, num_users: int, epsilon: float
) -> dict[str, tuple[int, Callable[[], Any]]]:
    """The number of rounds of each protocol for a statistic and how to make it, by name."""
    kernel, size = plain.kernel, plain.randomizer.num_values
    given = functools.partial(dict, num_values=plain.num_values, form=plain.form)
    makers: dict[str, tuple[int, Callable[[], Any]]] = {
        "QuantizedRR": (1, lambda: dataclasses.replace(plain, epsilon=epsilon))
    }
    for name, oracle in ORACLES.items():
        if name != "KRR":
            makers[f"OracleStatistic, {name}"] = (
                1,
                lambda oracle=oracle: OracleStatistic(kernel, oracle(size, epsilon), **given()),
            )
    for randomizer in (PrivUnit, PrivUnitG):
        for label, users in (("", None), (", fitted", num_users)):
            makers[f"OneReport, {randomizer.__name__}{label}"] = (
                1,
                functools.partial(
                    OneReport, kernel, epsilon, num_users=users, randomizer=randomizer, **given()
                ),
            )
    makers["TwoReport"] = (
        1,
        lambda: TwoReport(kernel, epsilon, num_users=num_users, randomizer=PrivUnit, **given()),
    )
    if isinstance(kernel, AUC) and (plain.form == "u" or kernel.class_sizes is None):
        d = size // 2
        if kernel.ties == "half":
            makers["BilinearAUC, private"] = (
                1,
                lambda: BilinearAUC(d, epsilon, labels="private"),
            )
        for labels in ("private", "randomized"):
            makers[f"HierarchicalAUC, {labels}"] = (
                1,
                functools.partial(
                    HierarchicalAUC, d, epsilon, labels, threshold=0.0, ties=kernel.ties
                ),
            )
    makers["TwoRound"] = (2, lambda: TwoRound(kernel, epsilon, **given()))
    makers["OneStep"] = (2, lambda: OneStep(kernel, epsilon, **given()))
    makers["ThreeRound"] = (3, lambda: ThreeRound(kernel, epsilon, **given()))
    return makers
