"""What an experiment is, and what of it a user may vary."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .._checked import Checked
from .._spec import check_epsilon, check_int
from ._fingerprint import Cell

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings(Checked):
    """Settings of an experiment that a user may change.

    Args:
      epsilons: the privacy parameters of the grid, > 0 and different.
      num_trials: trials a cell, at least 1.
      seed: an integer in [0, 2**32).
      quick: whether to take a small part of the grid only.

    Raises:
      ValueError, TypeError: an argument is out of range.
    """

    epsilons: tuple[float, ...]
    num_trials: int
    seed: int = 0
    quick: bool = False

    def validate(self) -> None:
        epsilons = tuple(check_epsilon(e, "epsilons") for e in self.epsilons)
        if not epsilons or len(set(epsilons)) < len(epsilons):
            raise ValueError(
                f"epsilons must be one or more different numbers > 0, got {self.epsilons!r}."
            )
        self.settle(epsilons=epsilons)
        check_int("num_trials", self.num_trials, low=1)
        check_int("seed", self.seed, low=0, high=2**32 - 1)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A named sweep, with what to print and to draw of its results.

    A module defines one as `EXPERIMENT`; an entry point of the group `jaxdp.experiments` names the
    module, or a package of such modules. Then `jaxdp run NAME` runs it. A `name` and a `summary`
    written as plain strings are read from the module's source, so that `jaxdp list` imports no
    experiment, and `jaxdp run` only its own.

    Args:
      name: the name on the command line.
      summary: one line for `jaxdp list`.
      cells: the cells for given settings.
      settings: the full experiment.
      quick: the settings of `--quick`.
      figure: draws the results; None if there is nothing to draw.

    Example:
      >>> import jaxdp
      >>> from jaxdp import sweep
      >>> def cells(settings):
      ...     return [
      ...         sweep.Simulation(
      ...             protocol=jaxdp.randomizers.KRR(3, point.epsilon),
      ...             data=sweep.HistogramData([60, 30, 10]),
      ...             num_trials=settings.num_trials,
      ...             seed=settings.seed,
      ...             labels=point.labels,
      ...         )
      ...         for point in sweep.grid(epsilon=settings.epsilons)
      ...     ]
      >>> EXPERIMENT = sweep.Experiment(
      ...     name="krr",
      ...     summary="Errors of k-ary randomized response",
      ...     cells=cells,
      ...     settings=sweep.Settings(epsilons=(0.5, 1.0, 2.0), num_trials=1000),
      ...     quick=sweep.Settings(epsilons=(1.0,), num_trials=50, quick=True),
      ... )
      >>> len(EXPERIMENT.cells(EXPERIMENT.settings))
      3

    `jaxdp new NAME` writes a file with such an experiment, to begin with.
    """

    name: str
    summary: str
    cells: Callable[[Settings], Sequence[Cell]]
    settings: Settings
    quick: Settings
    figure: Callable[["pa.Table"], "Figure"] | None = None
