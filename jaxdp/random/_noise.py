"""Integer noise from tables of exact masses: rounded normals.

A table holds masses that are integers and add up to a power of two, so that what a user adds has a
law of rational numbers, whatever the processor: there are no last bits of floats that could tell
the value (Mironov 2012).
"""

import dataclasses
import decimal
import functools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt32

from jaxdp_kernels import register_dataclass

from ._alias import AliasTable

REACH = 9.25
"""Standard deviations at which normal noise ends: more have a probability of 2.3e-20."""

_GUARD = 160  # fractional bits of the numbers that masses are computed with
_COARSE = 2**8  # standard deviation of the multiples of two-level noise


@register_dataclass
@dataclasses.dataclass(frozen=True)
class NormalNoise:
    """Rounded normals: `round(steps z)` for a standard normal z, from tables of exact masses.

    Up to 2**12 steps in a standard deviation one table is enough. For more the noise is `K a + b`,
    with a from a discrete Gaussian of standard deviation 2**8 and b a rounded normal of standard
    deviation 2 K: with `t**2 = 4 2**16 / (2**16 + 4)` the sum over all a of the density of b's
    normal is that of a normal of variance `K**2 (2**16 + 4)` times `sum exp(-(a - m)**2 / (2
    t**2))`, which for no m differs from its mean over m by more than a relative 2 q / (1 - q), q =
    `exp(-2 pi**2 t**2)` < 1e-34 (Poisson summation).

    Attributes:
      fine: draws `|b|`.
      coarse: draws `|a|`; None for one level.
      fine_steps: the standard deviation of b; static.
      spacing: K, or 1; static.
    """

    fine: AliasTable
    coarse: AliasTable | None
    fine_steps: int = dataclasses.field(metadata={"static": True})
    spacing: int = dataclasses.field(metadata={"static": True})

    @classmethod
    def of(cls, steps: int) -> "NormalNoise":
        """The noise of a standard deviation of about `steps`, a power of two from 2**6 to 2**19."""
        return _normal_noise(steps)

    @property
    def levels(self) -> int:
        """The number of tables, and of words that a draw takes; as many more where it is a tie."""
        return 1 if self.coarse is None else 2

    @property
    def steps(self) -> float:
        """The standard deviation of the normal that is rounded."""
        if self.coarse is None:
            return self.fine_steps
        return self.spacing * math.sqrt(_COARSE**2 + 4)

    @property
    def variance(self) -> float:
        """The variance of the noise: rounding adds 1/12."""
        return self.steps**2 + 1 / 12

    @property
    def reach(self) -> int:
        """The largest noise."""
        coarse = 0 if self.coarse is None else self.spacing * math.ceil(REACH * _COARSE)
        return math.ceil(REACH * self.fine_steps) + coarse

    @property
    def distance(self) -> float:
        """A bound on the total variation between the noise and the rounded normal.

        Each mass is rounded by half a unit of 2**-63; what lies beyond `REACH` is left out.
        """
        cells = self.reach if self.coarse is None else self.fine_steps * REACH + _COARSE * REACH
        return (cells + 2) * 2.0**-64 + self.levels * math.erfc(REACH / math.sqrt(2)) + 1e-33

    def draw(
        self,
        words: UInt32[Array, "levels *s"] | Sequence[jax.Array],
        seconds: UInt32[Array, "levels *s"] | Sequence[jax.Array],
    ) -> Int32[Array, "*s"]:
        """Noise from words, an array for each level, and from second ones where there is a tie."""
        noise = _signed(self.fine.draw(words[0], seconds[0], spare=1), words[0])
        if self.coarse is None:
            return noise
        coarse = _signed(self.coarse.draw(words[1], seconds[1], spare=1), words[1])
        return noise + np.int32(self.spacing) * coarse

    def draft(
        self, words: UInt32[Array, "levels *s"] | Sequence[jax.Array]
    ) -> tuple[Int32[Array, "*s"], Bool[Array, "*s"]]:
        """Noise from first words alone, and whether there is no tie."""
        size, sure = self.fine.draft(words[0], spare=1)
        noise = _signed(size, words[0])
        if self.coarse is None:
            return noise, sure
        size, also = self.coarse.draft(words[1], spare=1)
        return noise + np.int32(self.spacing) * _signed(size, words[1]), sure & also

    def log_mass(self, noise: np.ndarray) -> np.ndarray:
        """The log-probability of each value of the noise, on the host; to a relative 1e-10."""
        h = 1 / self.steps
        square = (noise * h) ** 2
        # The mean of the density over a cell: a Taylor series about its middle.
        second, fourth = square - 1, square**2 - 6 * square + 3
        cell = np.log1p(second * h**2 / 24 + fourth * h**4 / 1920)
        density = -square / 2 + math.log(h / math.sqrt(2 * math.pi)) + cell
        return np.where(np.abs(noise) <= self.reach, density, -np.inf)


def _signed(size: Int32[Array, "*s"], word: UInt32[Array, "*s"]) -> Int32[Array, "*s"]:
    """A size with the sign of the uppermost bit, which its table does not use."""
    return jnp.where(word >> np.uint32(31) == 0, size, -size)


@functools.lru_cache(maxsize=16)
def _normal_noise(steps: int) -> NormalNoise:
    if steps & (steps - 1) or not 2**6 <= steps <= 2**19:
        raise ValueError(f"steps must be a power of two from 2**6 to 2**19, got {steps!r}.")
    if steps <= 2**12:
        return NormalNoise(AliasTable.of(normal_masses(steps), 63), None, steps, 1)
    spacing = steps // _COARSE
    fine = AliasTable.of(normal_masses(2 * spacing), 63)
    return NormalNoise(fine, AliasTable.of(discrete_masses(_COARSE), 63), 2 * spacing, spacing)


@functools.lru_cache(maxsize=16)
def normal_masses(steps: int) -> tuple[int, ...]:
    """The masses of |round(steps z)| for a standard normal z, in units of 2**-63.

    With h = 1 / steps the cell around x = k h has the probability
    `phi(x) sum_m He_2m(x) h**(2m + 1) / (4**m (2m + 1)!)`, a Taylor series about its middle, whose
    terms fall by 84 h**2 / 4 each.

    Args:
      steps: a power of two, 2**6 at least.
    """
    cells = _bell(steps)
    return _scaled([cell * _cell(k, steps) >> _GUARD for k, cell in enumerate(cells)])


@functools.lru_cache(maxsize=16)
def discrete_masses(steps: int) -> tuple[int, ...]:
    """The masses of |a| for a discrete Gaussian, `Pr[a] ~ exp(-a**2 / (2 steps**2))`, as above."""
    return _scaled(_bell(steps))


def _bell(steps: int) -> list[int]:
    """`exp(-k**2 / (2 steps**2))` for k = 0, 1, .., times 2**160; a recurrence in k."""
    with decimal.localcontext(decimal.Context(prec=60)):
        step = (decimal.Decimal(-1) / (2 * decimal.Decimal(steps) ** 2)).exp()
        factor, growth = (int(x * (1 << _GUARD)) for x in (step, step * step))
    density, cells = 1 << _GUARD, []
    for _ in range(math.ceil(REACH * steps) + 1):
        cells.append(density)
        density, factor = density * factor >> _GUARD, factor * growth >> _GUARD
    return cells


def _cell(k: int, steps: int) -> int:
    """`sum_m He_2m(k / steps) / (steps**2m 4**m (2m + 1)!)`, times 2**160."""
    bits = 2 * (steps.bit_length() - 1)  # steps**2 = 2**bits
    square = k * k << (_GUARD - bits)
    term, before, total, divisor = 1 << _GUARD, 0, 1 << _GUARD, 1
    for m in range(1, 13):
        # He_2m = (x**2 - 4m + 3) He_2m-2 - (2m - 2) (2m - 3) He_2m-4, each over steps**2m
        factor = square - (4 * m - 3 << _GUARD)
        lower = (2 * m - 2) * (2 * m - 3) * before >> 2 * bits
        term, before = (factor * term >> _GUARD + bits) - lower, term
        divisor *= 4 * (2 * m) * (2 * m + 1)
        total += term // divisor
        if abs(term // divisor) < 1 << 40:
            break
    return total


def _scaled(cells: list[int]) -> tuple[int, ...]:
    """Masses of absolute values in units of 2**-63, from those of 0, 1, 2, .. on one side."""
    total = cells[0] + 2 * sum(cells[1:])
    both = [cells[0], *(2 * cell for cell in cells[1:])]
    masses = [((cell << 64) + total) // (2 * total) for cell in both]
    masses[0] += (1 << 63) - sum(masses)
    return tuple(masses)
