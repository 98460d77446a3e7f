"""The protocols that compete for a statistic of pairs."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from numpy.typing import ArrayLike

from .._spec import check_choice
from ..randomizers import FREQUENCY_ORACLES, PrivUnit, PrivUnitG
from ._auc_protocol import AUCProtocol
from ._on_grid import OnGrid
from ._protocol import PairwiseProtocol
from .auc._bilinear_auc import BilinearAUC
from .auc._hierarchical_auc import HierarchicalAUC
from .kernels._auc import AUC
from .kernels._exact import FORM, Form
from .kernels._grid import AnyGrid
from .kernels._grid_kernel import on_bins
from .kernels._kernel import Domain, Kernel
from .kernels._pair_kernel import as_kernel
from .oracles._oracle_statistic import OracleStatistic
from .oracles._quantized_rr import QuantizedRR
from .rounds._one_step import OneStep
from .rounds._three_round import ThreeRound
from .rounds._two_round import TwoRound
from .vectors._one_report import OneReport
from .vectors._quadratic_form import VectorMaker
from .vectors._two_report import TwoReport

UNPADDED = functools.partial(PrivUnit, padded=False)

VECTORS: dict[str, VectorMaker] = {
    "PrivUnitG": PrivUnitG,
    "PrivUnit": PrivUnit,
    "PrivUnit unpadded": UNPADDED,
}
"""The randomizers of vectors by name: `PrivUnit` is less noisy, and by more without padding."""

StatisticProtocol = PairwiseProtocol[Any] | QuantizedRR | AUCProtocol[Any] | OnGrid


def candidates(
    kernel: Kernel | ArrayLike,
    num_values: Domain | None = None,
    rounds: int = 1,
    *,
    form: Form = "u",
) -> dict[str, Callable[[float, int], StatisticProtocol]]:
    """The protocols that compete for a statistic, by name: functions of (epsilon, num_users).

    Of one round randomized response and every oracle of `jaxdp.randomizers.FREQUENCY_ORACLES` with
    the plug-in U-statistic, one report of a signed factor, also fitted to the number of users, and
    two reports of a factorization; of two rounds the linear answers first and numbers after, of
    others or of everyone, and the corrected step; of three the centred protocol. For an `AUC`,
    whose labels are private here, also those made for it, discarding nodes or none. Vectors are
    randomized by `PrivUnit`, by `PrivUnitG`, and where all have the same norm by `PrivUnit` without
    padding.

    Args:
      kernel: the statistic: a kernel, or W as float[k, k].
      num_values: how many bins there are, or the shape of the table whose cells they are; a `Grid`
        or `ProductGrid` for real values; None for a matrix.
      rounds: 1, 2 or 3, the most that the users may be asked.
      form: "u" for pairs of different users, "v" to average over all pairs.

    Returns:
      Functions that raise ValueError where their protocol cannot be built.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is of the wrong kind.

    Example:
      >>> from jaxdp.pairwise import GiniDiversity, candidates
      >>> makers = candidates(GiniDiversity(), num_values=4, rounds=2)
      >>> makers["OneStep, PrivUnit"](1.0, 1000).epsilon
      1.0
    """
    kernel = as_kernel(kernel, depth=3)
    check_choice("rounds", rounds, (1, 2, 3))
    FORM("form", form)
    if isinstance(num_values, AnyGrid):
        of_values, grid = kernel, num_values
        bins, shape = on_bins(kernel, grid)
        return {
            name: lambda e, n, make=make: for_values(make(e, n), of_values, grid)
            for name, make in candidates(bins, shape, rounds, form=form).items()
        }
    plain = QuantizedRR(kernel, 1.0, num_values, form=form)  # checks the statistic
    size = plain.randomizer.num_values
    given = functools.partial(dict, num_values=plain.num_values, form=form)
    makers: dict[str, Callable[[float, int], StatisticProtocol]] = {
        "QuantizedRR": lambda e, _: dataclasses.replace(plain, epsilon=e)
    }
    for name, oracle in FREQUENCY_ORACLES.items():
        if name != "KRR":  # which `QuantizedRR` is
            makers[f"OracleStatistic, {name}"] = lambda e, _, oracle=oracle: OracleStatistic(
                kernel, oracle(size, e), **given()
            )
    for label, randomizer in VECTORS.items():
        # Vectors of few coordinates that are fitted to the users have different norms.
        several = ("", ", fitted") if randomizer is not UNPADDED else ("",)
        for fitted in several:
            makers[f"OneReport, {label}{fitted}"] = (
                lambda e, n, randomizer=randomizer, fitted=fitted: OneReport(
                    kernel, e, num_users=n if fitted else None, randomizer=randomizer, **given()
                )
            )
        makers[f"TwoReport, {label}"] = lambda e, n, randomizer=randomizer: TwoReport(
            kernel,
            e,
            num_users=None if randomizer is UNPADDED else n,
            randomizer=randomizer,
            **given(),
        )
    if isinstance(kernel, AUC) and (form == "u" or kernel.class_sizes is None):
        d = size // 2
        for label, randomizer in VECTORS.items() if kernel.ties == "half" else ():
            makers[f"BilinearAUC, private, {label}"] = lambda e, _, randomizer=randomizer: (
                BilinearAUC(d, e, "private", randomizer)
            )
        for labels in ("private", "randomized"):
            for label, threshold in (("", 0.0), (", pruned", "optimal")):
                makers[f"HierarchicalAUC, {labels}{label}"] = (
                    lambda e, _, labels=labels, threshold=threshold: HierarchicalAUC(
                        d, e, labels, threshold=threshold, ties=kernel.ties
                    )
                )
    if rounds >= 2:
        makers["TwoRound"] = lambda e, _: TwoRound(kernel, e, **given())
        makers["TwoRound, budget"] = lambda e, _: TwoRound(kernel, e, sharing="budget", **given())
    several = ((OneStep, 2), (ThreeRound, 3))
    for protocol, number in several if rounds >= 2 else ():
        for label, randomizer in VECTORS.items() if rounds >= number else ():
            makers[f"{protocol.__name__}, {label}"] = (
                lambda e, _, protocol=protocol, randomizer=randomizer: protocol(
                    kernel, e, randomizer=randomizer, **given()
                )
            )
    return makers


def for_values(protocol: StatisticProtocol, kernel: Kernel, grid: AnyGrid) -> StatisticProtocol:
    """The protocol of users who hold real values, from that of the bins of a grid.

    Args:
      protocol: on the bins, for the kernel on them.
      kernel: of the values.
      grid: the bins.
    """
    if isinstance(protocol, QuantizedRR):
        return QuantizedRR(kernel, protocol.epsilon, grid=grid, form=protocol.form)
    return OnGrid(protocol, grid)
