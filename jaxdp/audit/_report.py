"""What an audit found."""

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import figures
from .._install import install

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclasses.dataclass(frozen=True)
class PairFinding:
    """The best event that was found for an ordered pair of inputs.

    Attributes:
      value: the input under which the event is likely.
      other: the input under which it is unlikely.
      epsilon_lower: lower bound on epsilon from this event; 0.0 if it says nothing.
      event: its description.
      probability: its frequency under `value`, in the half of the samples that was not searched.
      other_probability: its frequency under `other`.
      lower: lower confidence limit of its probability under `value`.
      upper: upper confidence limit of its probability under `other`.
    """

    value: Any
    other: Any
    epsilon_lower: float
    event: str
    probability: float
    other_probability: float
    lower: float
    upper: float


@dataclasses.dataclass(frozen=True)
class DecodingFinding:
    """An input whose decoded reports have another mean than the randomizer states.

    Attributes:
      value: the input.
      along: the input at which they are off: that entry of the estimate where inputs are bins, the
        inner product with it where they are numbers or vectors.
      mean: the mean of the decoded reports there.
      truth: what it should be.
      standard_errors: their distance, in standard errors by the stated variance.
    """

    value: Any
    along: Any
    mean: float
    truth: float
    standard_errors: float


@dataclasses.dataclass(frozen=True)
class AuditReport:
    """The result of `estimate_epsilon` and of its kin for reports and counts of them.

    Attributes:
      randomizer: what was audited; of given reports or counts, that they are.
      epsilon: the claimed privacy parameter.
      delta: the claimed delta; 0.0 for a pure claim.
      epsilon_lower: a lower bound on the true epsilon at this delta, over all pairs.
      confidence: the probability that every number below is a valid bound.
      num_samples: reports of each input; of the one with the fewest.
      pairs: the best event of each ordered pair, the largest bound first.
      decoding: inputs whose decoded reports provably have another mean; None if not checked.
    """

    randomizer: Any
    epsilon: float
    delta: float
    epsilon_lower: float
    confidence: float
    num_samples: int
    pairs: tuple[PairFinding, ...]
    decoding: tuple[DecodingFinding, ...] | None

    @property
    def worst(self) -> PairFinding:
        """The pair and event with the largest bound."""
        return self.pairs[0]

    @property
    def violates(self) -> bool:
        """Whether the true epsilon is larger than the claimed one, at the stated confidence."""
        return self.epsilon_lower > self.epsilon

    @property
    def biased(self) -> bool:
        """Whether decoded reports have a wrong mean, at the stated confidence."""
        return bool(self.decoding)

    @property
    def spends_nothing(self) -> bool:
        """Whether reports look independent of the input: none of its uses was found.

        No event told any two inputs apart, and the decoder does not find the input in the reports,
        or there is none. Without a decoder that may also mean that there are too few samples.
        """
        return self.epsilon_lower <= 0 and (self.decoding is None or self.biased)

    @property
    def verdict(self) -> str:
        """The findings in a few words."""
        if self.violates:
            return "VIOLATES the claim" + (", and is biased" if self.biased else "")
        if self.spends_nothing:
            return "SPENDS NOTHING: the reports of all inputs look alike"
        return "consistent with the claim" + (", but BIASED" if self.biased else "")

    def __str__(self) -> str:
        claim = f"epsilon = {self.epsilon:g}" + (f", delta = {self.delta:g}" if self.delta else "")
        lines = [
            f"{self.randomizer}",
            f"claimed {claim}; found epsilon >= {self.epsilon_lower:.4f} at confidence "
            f"1 - {1 - self.confidence:.0e}: {self.verdict}",
            f"{'input | other':<24}{'epsilon >=':>11}{'estimate':>10}  event",
        ]
        for pair in self.pairs:
            names = f"{short(pair.value)} | {short(pair.other)}"
            point = _log_ratio(pair.probability - self.delta, pair.other_probability)
            bound = f"{pair.epsilon_lower:.4f}"
            lines.append(f"{names:<24}{bound:>11}{point:>10.4f}  {pair.event}")
        for off in self.decoding or ():
            lines.append(
                f"decoded reports of {short(off.value)} have mean {off.mean:.4g} along "
                f"{short(off.along)}, not {off.truth:.4g} ({off.standard_errors:.1f} standard "
                "errors)"
            )
        return "\n".join(lines)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draws the bound and the estimate of each pair, and the claim.

        Args:
          ax: matplotlib axes; new ones when None.

        Returns:
          The axes.

        Raises:
          ImportError: matplotlib is not installed; it is part of the extra `sweep`.
        """
        if ax is None:
            try:
                import matplotlib.pyplot as plt
            except ImportError as error:
                raise ImportError(
                    f"plot draws with matplotlib: {install('sweep')}, or pass axes."
                ) from error
            with figures.style():
                size = 0.75 * figures.PAGE, 0.9 + 0.3 * len(self.pairs)
                return self.plot(plt.subplots(figsize=size)[1])
        rows = np.arange(len(self.pairs))
        bounds = [pair.epsilon_lower for pair in self.pairs]
        points = [_log_ratio(p.probability - self.delta, p.other_probability) for p in self.pairs]
        names = [f"{short(pair.value)} | {short(pair.other)}" for pair in self.pairs]
        ax.barh(rows, bounds, color=figures.LIGHT.shade, label="lower bound")
        shown = np.where(np.isfinite(points), points, np.nan)
        ax.plot(shown, rows, "o", color=figures.LIGHT.ink, label="estimate", linestyle="none")
        ax.axvline(self.epsilon, color=figures.LIGHT.mark, linewidth=1.2, label="claim")
        ax.set_yticks(rows, names)
        ax.invert_yaxis()
        ax.set_xlabel("ε")
        ax.grid(visible=False, axis="y")
        ax.legend(loc="lower right")
        return ax


def _log_ratio(p: float, q: float) -> float:
    if p <= 0:
        return -np.inf
    return float(np.log(p / q)) if q > 0 else np.inf


def short(value: Any) -> str:
    """An input in a few characters."""
    if np.asarray(value).dtype.kind not in "biuf":
        return str(value)
    flat = np.ravel(value)
    text = ", ".join(f"{x:.3g}" for x in flat[:3])
    return text if flat.size == 1 else f"({text}{', ..' if flat.size > 3 else ''})"
