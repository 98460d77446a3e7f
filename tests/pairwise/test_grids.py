"""Grids, rounding, and kernels on bins."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp.pairwise import (
    AUC,
    GiniMeanDifference,
    Grid,
    KendallTau,
    PairKernel,
    ProductGrid,
    QuantizedRR,
    balanced_num_bins,
)
from jaxdp.pairwise.oracles._symbols import Symbols

UNEVEN = Grid(edges=(0.1, 0.25, 0.9), low=-0.5, high=1.0)
OPEN = Grid(edges=(-1.0, 0.0, 2.5))
BOXES = ProductGrid((Grid.uniform(3), UNEVEN))
SCORES = ProductGrid((Grid(edges=(0.5,), low=0.0, high=1.0), Grid.uniform(4)))


def bin_of(axis, x):
    """The number of edges at or below x; subnormal numbers count as zero."""
    x = float(x) if abs(x) >= np.finfo(np.float32).tiny else 0.0
    return sum(e <= x for e in axis.edges)


def awkward_values(axis, rng):
    """Numbers on, just below and just above every edge, beyond the ends, and between."""
    edges = np.array(axis.edges, np.float32)
    near = [np.nextafter(edges, np.float32(s * np.inf)) for s in (-1, 1)]
    return np.concatenate([edges, *near, np.float32([-7, 7]), rng.uniform(-1, 3, 50)]).astype(
        np.float32
    )


def test_uniform_bins_are_those_of_the_paper():
    grid = Grid.uniform(5)
    assert grid.num_bins == 5
    assert np.allclose(grid.points, np.arange(6) / 5)
    assert Grid.uniform(4, -2.0, 2.0).edges == (-1.0, 0.0, 1.0)
    assert BOXES.shape == (3, 4)
    assert BOXES.num_bins == 12


@pytest.mark.parametrize("grid", [Grid.uniform(5), UNEVEN, OPEN, Grid.uniform(100)])
def test_a_value_belongs_to_the_bin_that_holds_it(grid, rng):
    values = awkward_values(grid, rng)
    params = QuantizedRR(PairKernel.from_matrix(np.eye(grid.num_bins)), 1.0, grid=grid).build()
    traced = jax.vmap(lambda x: params.quantize(None, x))(jnp.asarray(values))
    expected = [bin_of(grid, x) for x in values]
    assert np.array_equal(traced, expected)
    users = Symbols(grid, False).users(np.ones(len(values)), values[:, None])
    assert np.array_equal(users.symbols[:, 0], expected)


def test_boxes_are_numbered_row_by_row(rng):
    values = np.stack([awkward_values(axis, rng)[:40] for axis in BOXES.axes], axis=1)
    params = QuantizedRR(PairKernel.from_matrix(np.eye(12)), 1.0, grid=BOXES).build()
    traced = np.asarray(jax.vmap(lambda x: params.quantize(None, x))(jnp.asarray(values)))
    rows, columns = (
        np.array([bin_of(axis, x) for x in column])
        for axis, column in zip(BOXES.axes, values.T, strict=True)
    )
    assert np.array_equal(traced, rows * 4 + columns)


@pytest.mark.parametrize("grid", [Grid.uniform(5), UNEVEN, Grid.uniform(100)])
def test_randomized_rounding_keeps_the_mean(grid, rng):
    values = np.clip(awkward_values(grid, rng), grid.low, grid.high)
    users = Symbols(grid, True).users(np.ones(len(values)), values[:, None])
    points = grid.points.astype(np.float64)
    assert users.symbols.min() >= 0
    assert users.symbols.max() == grid.num_bins
    means = np.sum(users.weights * points[users.symbols], axis=1)
    width = np.diff(points).max()
    assert np.abs(means - values).max() <= 2**-22 * width + 2**-24 * np.abs(points).max()


@pytest.mark.parametrize("grid", [UNEVEN, BOXES])
def test_one_user_rounds_as_the_host_says(grid, rng):
    """Every user goes up for the words below its threshold and for no other."""
    axes = grid.axes
    columns = [[*axis.points, *rng.uniform(axis.low, axis.high, 60)][:60] for axis in axes]
    values = np.array(columns, np.float32).T
    kernel = PairKernel(lambda x, y: np.sum(x * y, -1) if len(axes) > 1 else x * y, dim=len(axes))
    params = QuantizedRR(kernel, 1.0, grid=grid, rounding="randomized").build()
    assert params.num_words == 1 + len(axes)
    quantize = jax.jit(jax.vmap(params.quantize))
    shaped = jnp.asarray(values if len(axes) > 1 else values[:, 0])
    shape = [len(axis.points) for axis in axes]
    found = []
    for number, axis in enumerate(axes):
        alone = Symbols(axis, True).users(np.ones(len(values)), values[:, number : number + 1])
        threshold = np.rint(alone.weights[:, 1] * 2**24).astype(np.int64)
        assert np.array_equal(threshold / 2**24, alone.weights[:, 1])
        found.append((alone.symbols[:, 0], threshold))
    for ups in np.ndindex(*[2] * len(axes)):
        words, expected = [], np.zeros(len(values), int)
        for up, size, (below, threshold) in zip(ups, shape, found, strict=True):
            words.append(np.where(up, (threshold << 8) - 1, threshold << 8))
            expected = expected * size + below + up
        words = np.stack(words, axis=1)
        possible = np.all((words >= 0) & (words < 2**32), axis=1)
        assert possible.sum() > 10
        first = np.zeros((len(words), 1), words.dtype)  # the randomized response's
        all_words = np.concatenate([first, words % 2**32], axis=1)
        symbols = quantize(jnp.asarray(all_words, jnp.uint32), shaped)
        assert np.array_equal(np.asarray(symbols)[possible], expected[possible])


def inside(axis, size):
    """Numbers strictly inside of every bin of a bounded axis, float64[k, size]."""
    ends = axis.points.astype(np.float64)
    return ends[:-1, None] + (np.arange(size) + 0.5) / size * np.diff(ends)[:, None]


def on_mesh(kernel, grid, size):
    """The kernel on a mesh of every pair of bins: float64[k, k, mesh, mesh]."""
    if kernel.dim == 1:
        points = inside(grid, size)
    else:
        first, second = (inside(axis, size) for axis in grid.axes)
        if isinstance(kernel, AUC):
            first = np.array([[0.0] * size, [1.0] * size])
        pairs = np.broadcast_arrays(first[:, None, :, None], second[None, :, None, :])
        points = np.stack(pairs, axis=-1).reshape(grid.num_bins, -1, 2)
    return kernel(points[:, None, :, None], points[None, :, None, :])


@pytest.mark.parametrize(
    ("kernel", "grid", "size", "slack"),
    [
        (GiniMeanDifference(), Grid.uniform(4), 64, 1 / 64),
        (GiniMeanDifference(), UNEVEN, 64, 1 / 64),
        (KendallTau(), ProductGrid((Grid.uniform(2), UNEVEN)), 6, 0.0),
        (AUC(), SCORES, 6, 0.0),
        (AUC(ties="zero"), SCORES, 6, 1 / 12),  # of the pairs of the mesh 1/6 are tied
    ],
    ids=["gini", "gini-uneven", "kendall", "auc", "auc-zero"],
)
def test_rules_are_the_extremes_and_the_mean_over_bins(kernel, grid, size, slack):
    values = on_mesh(kernel, grid, size)
    low, high = values.min((2, 3)), values.max((2, 3))
    assert np.abs(kernel.matrix(grid) - (low + high) / 2).max() <= slack
    assert np.abs(kernel.spread(grid) - (high - low) ** 2 / 4).max() <= slack
    average = kernel.matrix(grid, "average")
    assert np.abs(average - values.mean((2, 3))).max() <= slack + 1e-12


def test_the_mean_difference_within_a_bin_is_a_third_of_its_width():
    average = GiniMeanDifference().matrix(Grid.uniform(4), "average")
    assert np.allclose(np.diag(average), 1 / 12)
    midpoint = GiniMeanDifference().matrix(Grid.uniform(4))
    assert np.allclose(np.diag(midpoint), 1 / 8)


def test_kendall_needs_no_bounds():
    open_boxes = ProductGrid((OPEN, OPEN))
    for rule in ("midpoint", "average"):
        assert np.array_equal(KendallTau().matrix(open_boxes, rule), KendallTau().matrix((4, 4)))


def test_any_function_agrees_with_the_closed_forms():
    def distance(x, y):
        return abs(x - y)

    plain = PairKernel(distance, lipschitz=1.0)
    for grid in (Grid.uniform(4), UNEVEN):
        width = np.diff(grid.points.astype(np.float64))
        exact = GiniMeanDifference()
        assert np.allclose(plain.matrix(grid), exact.matrix(grid), atol=1e-12)
        error = np.abs(plain.matrix(grid, "average") - exact.matrix(grid, "average"))
        assert np.all(error <= math.pi * np.maximum.outer(width, width) / 32)
        assert np.all(plain.spread(grid) >= exact.spread(grid) - 1e-12)
        widest = np.add.outer(width, width) / 2 * (1 + 1 / 16)
        assert np.all(plain.spread(grid) <= widest**2 + 1e-12)
        assert np.allclose(plain.matrix(grid, "points"), exact.matrix(grid, "points"))


def test_averages_of_polynomials_are_exact():
    def cubic(x, y):
        return x**3 * y**3

    ends = UNEVEN.points.astype(np.float64)
    mean = np.diff(ends**4) / (4 * np.diff(ends))
    assert np.allclose(PairKernel(cubic).matrix(UNEVEN, "average"), np.outer(mean, mean))

    def plane(x, y):
        return np.prod(x**3 * y**3, axis=-1)

    ends = np.arange(4) / 3
    other = np.diff(ends**4) / (4 * np.diff(ends))
    both = np.outer(other, mean).ravel()
    assert np.allclose(
        PairKernel(plane, dim=2).matrix(BOXES, "average"), np.outer(both, both), atol=1e-7
    )


def test_randomized_rounding_takes_the_kernel_at_the_points():
    points = UNEVEN.points.astype(np.float64)
    found = GiniMeanDifference().matrix(UNEVEN, "points")
    assert np.array_equal(found, np.abs(points[:, None] - points))


def test_balanced_num_bins_makes_both_errors_equal():
    n, epsilon, lipschitz = 10**8, 0.5, 2.0
    k = balanced_num_bins(n, epsilon, lipschitz)
    assert k == 100
    assert k**2 / (n * epsilon**2) == pytest.approx(lipschitz**2 / k**2)
    assert balanced_num_bins(2, 0.01, 0.01) == 2
