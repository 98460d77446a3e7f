"""Tables of integer masses: rebuilt from their thresholds, drawn at their edges, summed exactly."""

import itertools
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import signal, special

from jaxdp.random import AliasTable, NormalNoise
from jaxdp.random._noise import REACH, discrete_masses, normal_masses
from jaxdp.randomizers._laplace import laplace_masses
from tests import stats


@pytest.mark.parametrize("ratio", [64, 256, 4096])
def test_normal_masses(ratio):
    """Against erfc, each to 1e-12; they add up exactly, and the stated distance holds."""
    masses = normal_masses(ratio)
    assert sum(masses) == 2**63
    edges = (np.arange(len(masses) + 1) - 0.5) / ratio / math.sqrt(2)
    tails = special.erfc(edges) / 2
    cells = (tails[:-1] - tails[1:]) * np.where(np.arange(len(masses)) == 0, 1, 2)
    found = np.array(masses, np.float64) / 2.0**63
    large = cells > 1e-6
    np.testing.assert_allclose(found[large], cells[large], rtol=1e-9)
    np.testing.assert_allclose(found, cells, atol=1e-15)
    assert len(masses) == math.ceil(REACH * ratio) + 1
    assert NormalNoise.of(ratio).distance < 3e-15
    numbers = np.arange(0, 6 * ratio, 7)
    expected = [math.log(masses[k] / (1 if k == 0 else 2) / 2**63) for k in numbers]
    np.testing.assert_allclose(NormalNoise.of(ratio).log_mass(numbers), expected, atol=1e-9)


@pytest.mark.parametrize("steps", [2**13, 2**15])
def test_two_levels_make_a_rounded_normal(steps):
    """The exact law of K a + b, by convolution, against the rounded normal of its variance."""
    noise = NormalNoise.of(steps)
    coarse, fine = (
        np.array([*masses[:0:-1], 2 * masses[0], *masses[1:]], np.float64) / 2.0**64
        for masses in (discrete_masses(2**8), normal_masses(noise.fine_steps))
    )
    spread = np.zeros((coarse.size - 1) * noise.spacing + 1)
    spread[:: noise.spacing] = coarse
    law = signal.fftconvolve(spread, fine)
    numbers = np.arange(law.size) - law.size // 2
    assert law.size // 2 == noise.reach
    expected = np.exp(noise.log_mass(numbers))
    assert np.abs(law - expected).sum() < 1e-11  # of the transform
    near = np.abs(numbers) < 2 * steps
    np.testing.assert_allclose(law[near], expected[near], rtol=1e-9)
    variance = (law * numbers.astype(np.float64) ** 2).sum()
    np.testing.assert_allclose(variance, noise.variance, rtol=1e-9)


def test_words_of_two_levels(rng):
    """The first words move by one, the second ones by K."""
    noise = NormalNoise.of(2**15)
    words = jnp.asarray(rng.integers(2**31, size=(2, 1000), dtype=np.uint32))
    draw = jax.jit(lambda w: noise.draw(w, jnp.zeros_like(w)))
    both, fine = draw(words), draw(words.at[1].set(words[1] | np.uint32(2**31)))
    coarse = (np.asarray(both) - np.asarray(fine)) / (2 * noise.spacing)
    assert np.all(coarse == np.rint(coarse))
    np.testing.assert_allclose(coarse.mean(), 2**8 * math.sqrt(2 / math.pi), rtol=0.2)


@pytest.mark.parametrize("every_step", [False, True], ids=["numbers", "vectors"])
@pytest.mark.parametrize("epsilon", [2e-10, 1e-6, 0.01, 1.0, 4.0, 12.0, 30.0])
@pytest.mark.parametrize("levels", [1, 5, 128])
def test_geometric_masses_are_private(levels, epsilon, every_step):
    """All ratios over all inputs and reports, in rational numbers, found independently."""
    masses = laplace_masses(epsilon, levels, every_step)
    assert sum(masses.whole) == 2**64
    assert min(masses.half) > 0
    inputs = range(-levels, levels + 1) if levels < 10 else (-levels, -1, 0, levels)
    rows = np.array([row(masses.half, j, levels) for j in inputs], dtype=object)
    if every_step:
        steps = [row(masses.half, j, levels) for j in range(-levels, levels + 1)]
        worst = max(
            max(Fraction(x, y), Fraction(y, x))
            for one, two in itertools.pairwise(steps)
            for x, y in zip(one, two, strict=True)
        )
        assert worst == masses.worst_step()
        assert float(worst) <= math.exp(epsilon / (2 * levels)) * (1 + 1e-15)
    worst = max(Fraction(max(column), min(column)) for column in rows.T)
    assert float(worst) <= math.exp(epsilon) * (1 + 1e-15)
    if not every_step:
        assert worst == masses.worst_ratio()
        assert math.log(worst) > 0.999 * epsilon


def row(half: tuple[int, ...], level: int, levels: int) -> list[int]:
    """The masses of the reports -levels, .., levels at a level, by adding up the noise."""
    found = [0] * (2 * levels + 1)
    for noise in range(-2 * levels, 2 * levels + 1):
        report = min(max(level + noise, -levels), levels)
        found[report + levels] += half[abs(noise)]
    return found


def test_a_check_of_masses_that_are_one_too_high():
    """Negative control: one unit more at the peak, and the worst ratio is beyond epsilon."""
    masses = laplace_masses(1.0, 4, False)
    peak = (4 * masses.half[0], *masses.half[1:])
    worst = Fraction(max(peak[:-1]), min(peak[:-1]))
    assert float(worst) > math.exp(1.0) * (1 + 1e-9)


@pytest.mark.slow
def test_normal_table_by_its_draws(rng):
    """10**6 draws against the rounded normal."""
    table = AliasTable.of(normal_masses(64), 63)
    first, second = (jnp.asarray(rng.integers(2**32, size=10**6, dtype=np.uint32)) for _ in "ab")
    size = np.asarray(table.draw(first, second, spare=1))
    counts = np.bincount(np.minimum(size, 200), minlength=201)
    masses = np.array(normal_masses(64), np.float64) / 2.0**63
    expected = np.append(masses[:200], masses[200:].sum())
    stats.check_multinomial(counts, expected)
    stats.must_fail(stats.check_multinomial, np.roll(counts, 1), expected)
