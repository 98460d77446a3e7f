"""Experiments by name, from the packages that register some."""

import dataclasses
import difflib
import importlib
import importlib.metadata
import pkgutil
import types
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from .._checked import Checked
from .._spec import check_epsilon, check_int
from ._cell import Cell

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

GROUP = "jaxdp.experiments"
"""The entry points by which installed packages register their experiments."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings(Checked):
    """What a user may vary of an experiment.

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
    module, or a package of such modules. Then `jaxdp run NAME` runs it.

    Args:
      name: the name on the command line.
      summary: one line for `jaxdp list`.
      cells: the cells for given settings.
      settings: the full experiment.
      quick: the settings of `--quick`.
      figure: draws the results; None if there is nothing to draw.
    """

    name: str
    summary: str
    cells: Callable[[Settings], Sequence[Cell]]
    settings: Settings
    quick: Settings
    figure: Callable[["pa.Table"], "Figure"] | None = None


def experiments() -> dict[str, Experiment]:
    """All experiments by name.

    jaxdp and other installed packages register them by entry points of the group
    `jaxdp.experiments`: each names a module that defines `EXPERIMENT`, or a package of such
    modules.

    Raises:
      ValueError: two experiments have the same name.
    """
    found: dict[str, Experiment] = {}
    for entry in importlib.metadata.entry_points(group=GROUP):
        for module in _modules(entry.load()):
            experiment = module.EXPERIMENT
            # A module may be registered twice, by itself and with its package.
            if found.setdefault(experiment.name, experiment) is not experiment:
                raise ValueError(
                    f"experiments must have different names, but {module.__name__} defines another "
                    f"{experiment.name!r}."
                )
    return found


def find_experiment(name: str) -> Experiment:
    """The experiment of this name.

    Raises:
      ValueError: there is none; the message says which there are.
    """
    known = experiments()
    if name in known:
        return known[name]
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise ValueError(f"NAME must be one of {', '.join(known)}, got {name!r}{hint}")


def _modules(root: types.ModuleType) -> Iterator[types.ModuleType]:
    """The module itself, or the public modules of a package."""
    folders = root.__spec__.submodule_search_locations if root.__spec__ else None
    if folders is None:
        yield root
        return
    for module in pkgutil.iter_modules(folders):
        if not module.name.startswith("_"):
            yield importlib.import_module(f"{root.__name__}.{module.name}")
