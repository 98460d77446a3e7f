"""What every page of a randomizer shows: its error against ε, and against the others'.

The directives `error-of` and `others-of`, whose argument is the name of a randomizer, draw the two
figures with their captions. All errors are those that the specs compute, for one user.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from docutils import nodes
from docutils.statemachine import StringList
from randomizer_plots import log_axes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from jaxdp import figures
from jaxdp import randomizers as rz

Error = Callable[[float], float]
EPSILONS = tuple(0.25 * 2 ** (i / 2) for i in range(11))
LEAST_TOP, MOST = 6.0, 100.0
"""Between which the axis of ratios ends."""


def count_error(make: Callable[[int, float], Any], size: int) -> Error:
    """The variance of the count of a value that nobody has."""
    counts = [1] + (size - 1) * [0]
    return lambda epsilon: float(make(size, epsilon).variance(counts)[1])


def number_error(make: Callable[[float], Any], value: float | None = None) -> Error:
    """The variance of one report of a number, or of the worst one."""
    if value is None:
        return lambda epsilon: float(make(epsilon).worst_case_variance(num_users=1))
    return lambda epsilon: float(np.ravel(make(epsilon).variance([1], [value]))[0])


def vector_error(make: Callable[[int, float], Any], dim: int) -> Error:
    """The largest variance of an entry of one report."""
    return lambda epsilon: float(make(dim, epsilon).worst_case_variance(num_users=1))


def ring(size: int, epsilon: float) -> rz.FiniteChannel:
    """Reports within a distance of the value on a circle are likely."""
    near = (np.arange(size)[:, None] - np.arange(size)) % size < 3
    table = np.where(near, np.exp(epsilon), 1.0)
    return rz.FiniteChannel(table / table[0].sum(), epsilon)


ORACLES: dict[str, Callable[[int, float], Any]] = {
    "KRR": rz.KRR,
    "HadamardResponse": rz.HadamardResponse,
    "HadamardBit": rz.HadamardBit,
    "ProjectiveGeometryResponse": rz.ProjectiveGeometryResponse,
    "SubsetSelection": rz.SubsetSelection,
    "UnaryEncoding": rz.UnaryEncoding,
    "LocalHashing": rz.LocalHashing,
    "AffineHashing": rz.AffineHashing,
    "AffineSubsets": rz.AffineSubsets,
}
OTHER_ORACLES: dict[str, Callable[[int, float], Any]] = {
    "Rappor": lambda k, e: rz.Rappor(k, e, num_bits=64),
    "Memoised": lambda k, e: rz.Memoised(rz.KRR(k, e), rz.KRR(k, e)),
    "FiniteChannel": ring,
}
SIZES: dict[str, tuple[int, tuple[int, ...]]] = {
    "FiniteChannel": (8, (8,)),
    "Rappor": (32, (8, 32)),
    "Memoised": (16, (4, 16, 64)),
}
"""Of the oracles that stand apart: the values of the comparison, and those of their errors."""

NUMBERS: dict[str, Callable[[float], Any]] = {
    "BinaryResponse": rz.BinaryResponse,
    "Laplace": rz.Laplace,
    "Piecewise": rz.Piecewise,
}
VECTORS: dict[str, Callable[[int, float], Any]] = {
    "CandidateResponse": rz.CandidateResponse,
    "PrivUnit": rz.PrivUnit,
    "PrivUnitG": rz.PrivUnitG,
    "ProjUnit": lambda d, e: rz.ProjUnit(d, e, min(d, 32)),
    "L2Ball": rz.L2Ball,
    "Gaussian": lambda d, e: rz.Gaussian(d, e, 1e-6),
    "GaussianRejection": rz.GaussianRejection,
}
INTEGERS = 10
"""The end of the range of the integers that stand for numbers of [-1, 1]."""


def _integers(value: int | None = None) -> Error:
    """The variance of one report, or of the worst one, of integers in place of numbers."""

    def error(epsilon: float) -> float:
        spec = rz.DiscreteLaplace(-INTEGERS, INTEGERS, epsilon)
        if value is None:
            return float(spec.worst_case_variance(num_users=1)) / INTEGERS**2
        counts = np.arange(-INTEGERS, INTEGERS + 1) == value
        return float(spec.variance(counts.astype(int))) / INTEGERS**2

    return error


class Shown(NamedTuple):
    """What the page of a randomizer shows.

    Attributes:
      errors: its errors, by label.
      what: what they are, as the caption says it.
      others: the errors of the others and its own at all ε, under one setting, by name.
      setting: which one.
    """

    errors: dict[str, Error]
    what: str
    others: dict[str, np.ndarray]
    setting: str


def _values(error: Error) -> np.ndarray:
    """The errors at all ε; not a number where a randomizer is refused there."""
    found = []
    for epsilon in EPSILONS:
        try:
            found.append(error(epsilon))
        except ValueError:
            found.append(np.nan)
    return np.array(found)


@functools.cache
def _of_oracles(size: int) -> dict[str, np.ndarray]:
    return {name: _values(count_error(make, size)) for name, make in ORACLES.items()}


@functools.cache
def _of_numbers() -> dict[str, np.ndarray]:
    errors = {name: number_error(make) for name, make in NUMBERS.items()}
    errors |= {"DiscreteLaplace": _integers(), "PrivUnit, d = 1": vector_error(rz.PrivUnit, 1)}
    return {name: _values(error) for name, error in errors.items()}


@functools.cache
def _of_vectors() -> dict[str, np.ndarray]:
    return {name: _values(vector_error(make, 64)) for name, make in VECTORS.items()}


def shown(name: str) -> Shown:
    """What the page of a randomizer shows.

    Raises:
      KeyError: it is in none of the lists.
    """
    if name in ORACLES or name in OTHER_ORACLES:
        make = (ORACLES | OTHER_ORACLES)[name]
        size, sizes = SIZES.get(name, (64, (8, 64, 1024)))
        others = _of_oracles(size)
        return Shown(
            {f"{k:,} values": count_error(make, k) for k in sizes},
            "Variance of the count of a value that nobody has, for each user",
            others if name in others else others | {name: _values(count_error(make, size))},
            f"{size} values",
        )
    if name in NUMBERS or name == "DiscreteLaplace":
        places = {f"value {x:g}": x for x in (0.0, 0.5, 1.0)}
        what = "Variance of one report of a number of [−1, 1]"
        if name == "DiscreteLaplace":
            errors = {label: _integers(round(x * INTEGERS)) for label, x in places.items()}
            what += ", which is one of 21 in equal steps"
        else:
            errors = {label: number_error(NUMBERS[name], x) for label, x in places.items()}
        return Shown(errors, what, _of_numbers(), "the worst value")
    make = VECTORS[name]
    return Shown(
        {f"d = {d}": vector_error(make, d) for d in (2, 16, 128)},
        "Largest variance of an entry of one report of a vector of the unit ball"
        + (", δ = 10⁻⁶" if name == "Gaussian" else ""),
        _of_vectors(),
        "d = 64",
    )


def error_figure(name: str) -> None:
    """The errors of one randomizer against ε."""
    _, axis = plt.subplots(figsize=(6.4, 2.8), layout="constrained")
    for label, error in shown(name).errors.items():
        axis.plot(EPSILONS, _values(error), label=label)
    axis.set(xlabel="ε", ylabel="variance")
    log_axes(axis)
    axis.legend(frameon=False)


def others_figure(name: str) -> None:
    """The errors of a randomizer and its peers, over the least of all at each ε."""
    page = shown(name)
    least = np.nanmin(list(page.others.values()), axis=0)
    figure, axis = plt.subplots(figsize=(6.4, 3.0), layout="constrained")
    for place, (label, values) in enumerate(page.others.items()):
        mark, own = figures.mark(place), label == name
        axis.plot(
            EPSILONS,
            values / least,
            label=label,
            color=mark.color,
            linestyle=mark.linestyle,
            linewidth=2.6 if own else 0.9,
            zorder=3 if own else 2,
        )
    top = max(LEAST_TOP, 1.2 * np.nanmax(page.others[name] / least))
    axis.set(xlabel="ε", ylabel="variance / least")
    log_axes(axis)
    axis.set_ylim(0.9, min(top, MOST))
    figure.legend(frameon=False, loc="outside right center", fontsize="small")


class _Figure(SphinxDirective):
    """A figure of a randomizer and its caption."""

    required_arguments = 1
    function = ""

    def caption(self, name: str, page: Shown) -> str:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        (name,) = self.arguments
        caption = self.caption(name, shown(name))
        lines = [
            ".. plot::",
            f"   :alt: {name}: {caption}",
            "",
            "   import mechanisms",
            "",
            f'   mechanisms.{self.function}("{name}")',
            "",
            f"*{caption}*",
        ]
        found = nodes.container()
        self.state.nested_parse(StringList(lines, source=""), self.content_offset, found)
        return found.children


class ErrorOf(_Figure):
    """`error-of`: the errors of a randomizer against ε."""

    function = "error_figure"

    def caption(self, name: str, page: Shown) -> str:
        """What is drawn."""
        return f"{page.what}, computed by the spec."


class OthersOf(_Figure):
    """`others-of`: a randomizer among its peers."""

    function = "others_figure"

    def caption(self, name: str, page: Shown) -> str:
        """What is drawn."""
        return f"The same, {page.setting}, over the least of all at each ε."


def setup(app: Sphinx) -> dict[str, bool]:
    """Adds the directives."""
    app.add_directive("error-of", ErrorOf)
    app.add_directive("others-of", OthersOf)
    return {"parallel_read_safe": True}
