"""Experiments by name: those of the package, and those of a checkout's `experiments` folder."""

import dataclasses
import difflib
import importlib
import pathlib
import pkgutil
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .._spec import check_epsilon, check_int
from ._cell import Cell

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

CHECKOUT = pathlib.Path(__file__).parents[2]
"""The root of the repository, if the package lies in one."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
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

    def __post_init__(self):
        epsilons = tuple(check_epsilon(e, "epsilons") for e in self.epsilons)
        if not epsilons or len(set(epsilons)) < len(epsilons):
            raise ValueError(
                f"epsilons must be one or more different numbers > 0, got {self.epsilons!r}."
            )
        object.__setattr__(self, "epsilons", epsilons)
        check_int("num_trials", self.num_trials, low=1)
        check_int("seed", self.seed, low=0, high=2**32 - 1)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A named sweep, with what to print and to draw of its results.

    A module of the folder `experiments` defines one as `EXPERIMENT`; `jaxdp run NAME` runs it.

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

    Those of the package, and in a checkout (an editable installation) also every module of the
    folder `experiments` that defines `EXPERIMENT`.
    """
    modules = ["jaxdp.sweep._kendall_flights", *_checkout_modules()]
    found = [importlib.import_module(module).EXPERIMENT for module in modules]
    return {experiment.name: experiment for experiment in found}


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


def _checkout_modules() -> list[str]:
    folder = CHECKOUT / "experiments"
    # Beside an installed package, a folder of this name would be somebody else's.
    if not (CHECKOUT / "pyproject.toml").exists() or not folder.is_dir():
        return []
    names = (module.name for module in pkgutil.iter_modules([str(folder)]))
    return [f"experiments.{name}" for name in names if not name.startswith("_")]
