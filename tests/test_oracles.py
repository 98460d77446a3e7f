"""The published variances of the frequency oracles are those of the code, and of the literature."""

import pathlib

import numpy as np
import pytest

from benchmarks import oracles
from jaxdp.randomizers import (
    BinaryResponse,
    DiscreteLaplace,
    Gaussian,
    HadamardResponse,
    L2Ball,
    Laplace,
    Piecewise,
    PrivUnit,
    PrivUnitG,
    ProjectiveGeometryResponse,
)

PAGE = pathlib.Path(__file__).parents[1] / "docs" / "randomizers" / "choosing.md"
GOLDEN = {  # at 128 values, for ε = 0.5, 1, 2, 4, as far as digits are known
    "k-RR": ("303", "43.6", "3.27", "0.063"),
    "SUE": ("15.9", "3.92", "0.921", "0.181"),
    "OUE": ("15.67", "3.683", "0.7241", "0.0760"),
    "bit": ("16.67", "4.683", "1.724", "1.076"),
    "SS": ("15.41", "3.610", "0.6971", "0.0584"),
    "PGR": ("15.73", "3.664", "0.7121"),
}


def published():
    """The rows of the committed table by (k, ε)."""
    rows, k = {}, 0
    for line in oracles.TABLE.read_text().splitlines()[2:]:
        size, epsilon, *cells = (text.strip() for text in line.strip("|").split("|"))
        k = int(size) if size else k
        rows[k, float(epsilon)] = cells
    return rows


def test_the_table_is_complete():
    assert list(published()) == [(k, e) for k in oracles.NUM_VALUES for e in oracles.EPSILONS]
    head = oracles.TABLE.read_text().splitlines()[0]
    assert [name.strip() for name in head.strip("|").split("|")][2:] == list(oracles.ORACLES)
    page = PAGE.read_text()
    assert oracles.TABLE.name in page
    assert oracles.REGIONS.name in page
    assert oracles.REGIONS.exists()


@pytest.mark.parametrize("cell", [(2, 8.0), (8, 1.0), (128, 2.0), (1024, 0.25), (1024, 4.0)])
def test_the_table_is_what_the_code_says(cell):
    assert published()[cell] == oracles.row(*cell)
    assert published()[cell] != oracles.row(cell[0], 1.001 * cell[1])


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_values(name):
    for epsilon, text in zip((0.5, 1.0, 2.0, 4.0), GOLDEN[name], strict=name != "PGR"):
        value = oracles.noise(name, 128, epsilon)
        decimals = len(text.partition(".")[2])
        assert f"{value:.{decimals}f}" == text


def test_a_large_order_is_better_than_the_golden_one():
    """At ε = 4 one value in a hyperplane, as in k-RR, beats the usual order near e**ε."""
    usual = ProjectiveGeometryResponse(128, 4.0, order=53).variance([1] + 127 * [0])[1]
    assert f"{usual:.3f}" == "0.075"
    assert oracles.noise("PGR", 128, 4.0) < 0.063


def test_what_the_page_says_of_the_regions():
    names = tuple(oracles.ORACLES)
    for k in (3, 5, 8, 16, 33, 128):
        assert oracles.best(names, k, np.log(k / 1.4))[0] == "k-RR"
    assert oracles.best(names, 128, np.log(128 / 1.7))[0] != "k-RR"
    for k in (64, 128, 1024):
        for epsilon in (0.25, 0.5, 1.0, 2.0):
            least = oracles.best(names, k, epsilon)[1]
            assert oracles.total("PGR", k, epsilon) <= 1.035 * least
            assert oracles.total("OUE", k, epsilon) <= (1.045 if epsilon <= 1 else 1.1) * least
            assert oracles.total("HR", k, epsilon) <= (1.1 if epsilon <= 0.5 else 2.0) * least


def test_one_block_is_the_one_bit():
    one_block = HadamardResponse(128, 2.0, num_blocks=1).variance([1] + 127 * [0])[1:]
    np.testing.assert_allclose(one_block, oracles.noise("bit", 128, 2.0), rtol=1e-6)


def test_what_is_refused_is_a_dash():
    assert np.isnan(oracles.noise("k-RR", 8, 40.0))
    assert oracles.total("k-RR", 8, 40.0) == float("inf")
    assert oracles.row(8, 25.0)[0] == "—"


def worst(spec):
    return spec.worst_case_variance(num_users=1)


def test_what_the_page_says_of_means():
    for epsilon in (0.25, 0.5, 1.0, 2.0, 4.0, 8.0):
        numbers = {worst(spec(epsilon)): spec for spec in (BinaryResponse, Piecewise, Laplace)}
        numbers[worst(PrivUnit(1, epsilon))] = PrivUnit
        assert numbers[min(numbers)] is (BinaryResponse if epsilon <= 1 else PrivUnit)
        unit = worst(PrivUnit(64, epsilon))
        assert unit < worst(PrivUnitG(64, epsilon)) < 1.07 * unit
        assert 9 * unit < worst(Gaussian(64, epsilon, 1e-6)) < 14 * unit
        assert (worst(L2Ball(64, epsilon)) < 1.0405 * unit) == (epsilon <= 0.5)
    assert worst(PrivUnit(1, 4.0)) / worst(Piecewise(4.0)) == pytest.approx(0.74, abs=0.005)
    grid = [worst(DiscreteLaplace(-10, 10, epsilon)) / 100 for epsilon in (2.0, 4.0)]
    assert grid == pytest.approx([1.61, 0.461], rel=0.002)
