"""Invalid arguments of kernels, grids and protocols: each is named before any work is done."""

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp.pairwise import (
    AUC,
    CollisionEntropy,
    GiniDiversity,
    GiniMeanDifference,
    Grid,
    KendallTau,
    MatrixKernel,
    OneReport,
    PairKernel,
    ProductGrid,
    QuantizedRR,
    ThreeRound,
    TwoRound,
    balanced_num_bins,
    best,
)

NAN, INF = float("nan"), float("inf")
UNIT = Grid.uniform(3)
W = np.eye(3)
GINI = GiniMeanDifference()


def product(x, y):
    return x * y


def lopsided(x, y):
    return x - y


def rr(kernel=GINI, epsilon=1.0, **options):
    return QuantizedRR(kernel, epsilon, **options)


BAD = [
    # Matrices.
    (lambda: PairKernel.from_matrix([[0, 1, 2], [1, 0, 1]]), ValueError, "square"),
    (lambda: PairKernel.from_matrix([0, 1]), ValueError, "square"),
    (lambda: PairKernel.from_matrix([[1.0]]), ValueError, "k >= 2"),
    (lambda: PairKernel.from_matrix([[0, 1], [2, 0]]), ValueError, "symmetric"),
    (lambda: PairKernel.from_matrix([[0, NAN], [NAN, 0]]), ValueError, "finite"),
    (lambda: PairKernel.from_matrix([[0, INF], [INF, 0]]), ValueError, "finite"),
    (lambda: PairKernel.from_matrix([["a", "b"], ["b", "a"]]), TypeError, "matrix"),
    (lambda: MatrixKernel([[0, 1j], [1j, 0]]), TypeError, "weights must be an array of real"),
    (lambda: MatrixKernel(np.full((2, 2), 1e200)), ValueError, "weights must have entries"),
    (lambda: OneReport(np.full((2, 2), 1e308), 1.0), ValueError, "kernel must have entries"),
    (lambda: OneReport([[1], [1, 2]], 1.0), TypeError, "kernel must be"),
    (lambda: OneReport(jax.random.key(0), 1.0), TypeError, "kernel must be"),
    # Callables.
    (lambda: OneReport(W, 1.0, randomizer=len), TypeError, "randomizer must be"),
    (lambda: ThreeRound(W, 1.0, randomizer=int), TypeError, "randomizer must be"),
    (lambda: ThreeRound(W, 1.0, tau=np.ones(3)), TypeError, "tau must be"),
    (lambda: TwoRound(W, 1.0, queries=len), TypeError, "queries must be"),
    (lambda: best(W, 100, 1.0, candidates=3), TypeError, "candidates must be"),
    (lambda: best(W, 100, 1.0, candidates=3, defaults=np.ones(2)), TypeError, "defaults must be"),
    (lambda: best(W, 100, 1.0, defaults=False), ValueError, "candidates must hold"),
    (lambda: best(W, 100, 1.0, histogram=jax.random.key(0)), TypeError, "histogram must be"),
    # Functions.
    (lambda: PairKernel(np.eye(2)), TypeError, "from_matrix"),
    (lambda: PairKernel(product, lipschitz=-1.0), ValueError, "lipschitz"),
    (lambda: PairKernel(product, lipschitz=NAN), ValueError, "lipschitz"),
    (lambda: PairKernel(product, value_range=(1, 0)), ValueError, "value_range"),
    (lambda: PairKernel(product, value_range=3), TypeError, "value_range"),
    (lambda: PairKernel(product, dim=3), ValueError, "dim"),
    (lambda: PairKernel(lopsided).matrix(3), ValueError, "symmetric"),
    (lambda: PairKernel(lambda x, y: 1.0).matrix(3), ValueError, "vectorised"),
    (lambda: PairKernel(lambda x, y: 1.0).matrix(UNIT), ValueError, "vectorised"),
    (lambda: PairKernel(lambda x, y: x * y * NAN).matrix(3), ValueError, "finite"),
    (lambda: PairKernel(product, value_range=(0, 1)).matrix(3), ValueError, "value_range"),
    (lambda: PairKernel(product, value_range=(0, 0.1)).matrix(UNIT), ValueError, "value_range"),
    # Options.
    (lambda: KendallTau("c"), ValueError, "variant"),
    (lambda: AUC(ties="yes"), ValueError, "ties"),
    (lambda: AUC(class_sizes=(0, 3)), ValueError, "class_sizes"),
    (lambda: AUC(class_sizes=3), TypeError, "class_sizes"),
    (lambda: AUC(class_sizes=(1.5, 3)), TypeError, "class_sizes"),
    (lambda: GINI.matrix(UNIT, rule="median"), ValueError, "rule"),
    (lambda: GINI.of_counts([1, 2], form="w"), ValueError, "form"),
    # Domains.
    (lambda: GINI.matrix(1), ValueError, "num_values"),
    (lambda: GINI.matrix(2.5), TypeError, "num_values"),
    (lambda: GINI.matrix((2, 2)), ValueError, "1 axes"),
    (lambda: KendallTau().matrix(4), ValueError, "2 axes"),
    (lambda: AUC().matrix((3, 4)), ValueError, "labels"),
    (lambda: PairKernel.from_matrix(np.eye(3)).matrix(4), ValueError, "k = 3"),
    (lambda: GINI.matrix(Grid(edges=(0.0, 1.0))), ValueError, "bounded"),
    (lambda: GiniDiversity().matrix(UNIT), ValueError, "num_values"),
    (lambda: CollisionEntropy().matrix(UNIT), ValueError, "num_values"),
    # Data.
    (lambda: GINI.of_counts([1, -1]), ValueError, "counts"),
    (lambda: GINI.of_counts([0.5, 1]), ValueError, "counts"),
    (lambda: GINI.of_counts([[1, 1]]), ValueError, "axes"),
    (lambda: GINI.of_counts([1, 0]), ValueError, "2 users"),
    (lambda: GINI.of_counts([1, 2], values=[0.0, NAN]), ValueError, "values"),
    (lambda: GINI.of_counts([1, 2], values=[0.0]), ValueError, "values"),
    (lambda: GINI.of_counts([1, 2], values=["a", "b"]), TypeError, "values"),
    (lambda: GINI.of_values([]), ValueError, "x must"),
    (lambda: GINI.of_values(3.0), ValueError, "x must"),
    (lambda: GINI.of_values([[1.0, 2.0], [3.0, 4.0]]), ValueError, "values"),
    (lambda: KendallTau().of_values([1.0, 2.0]), ValueError, "values"),
    (lambda: KendallTau("b").of_counts([[1, 2]]), ValueError, "undefined"),
    (lambda: AUC().of_counts([[0, 0], [1, 2]]), ValueError, "undefined"),
    (lambda: AUC().of_values([[2.0, 0.1], [0.0, 0.2]]), ValueError, "labels"),
    (lambda: AUC(class_sizes=(1, 1)).of_counts([[1, 1], [1, 2]]), ValueError, "class_sizes"),
    (lambda: GINI.of_distribution([0.5, 0.4]), ValueError, "p must"),
    (lambda: GINI.of_distribution([1.5, -0.5]), ValueError, "p must"),
    (lambda: MatrixKernel(np.eye(2)).of_values([0.0, 1.0]), ValueError, "values"),
    # Grids.
    (lambda: Grid(edges=()), ValueError, "edges"),
    (lambda: Grid(edges=(1.0, 1.0)), ValueError, "increase"),
    (lambda: Grid(edges=(1.0, 0.0)), ValueError, "increase"),
    (lambda: Grid(edges=(1.0, 1.0 + 1e-12)), ValueError, "float32"),
    (lambda: Grid(edges=(0.0, NAN)), ValueError, "edges"),
    (lambda: Grid(edges=(0.0, 1e39)), ValueError, "edges"),
    (lambda: Grid(edges=(0.0, 1e-40)), ValueError, "edges"),
    (lambda: Grid(edges=0.5), TypeError, "edges"),
    (lambda: Grid(edges=(0.5,), low=0.6), ValueError, "increase"),
    (lambda: Grid(edges=(0.5,), high=0.5), ValueError, "increase"),
    (lambda: Grid.uniform(1), ValueError, "num_bins"),
    (lambda: Grid.uniform(3, 1.0, 0.0), ValueError, "low"),
    (lambda: Grid.uniform(2**26), ValueError, "num_bins"),
    (lambda: Grid.uniform(2**15, 1.0, 1.001), ValueError, "increase"),
    (lambda: ProductGrid((UNIT,)), ValueError, "axes"),
    (lambda: ProductGrid((UNIT, 3)), TypeError, "axes"),
    (lambda: ProductGrid(UNIT), TypeError, "axes"),
    (lambda: balanced_num_bins(1, 1.0, 1.0), ValueError, "num_users"),
    (lambda: balanced_num_bins(10, 0.0, 1.0), ValueError, "epsilon"),
    (lambda: balanced_num_bins(10, 1.0, 0.0), ValueError, "lipschitz"),
    # Protocols.
    (lambda: rr(np.eye(2)), TypeError, "kernel"),
    (lambda: rr(product, num_values=3), TypeError, "PairKernel"),
    *[
        (lambda e=e: rr(epsilon=e, num_values=3), ValueError, "epsilon")
        for e in (0, -1.0, NAN, INF)
    ],
    *[(lambda e=e: rr(epsilon=e, num_values=3), TypeError, "epsilon") for e in ("1", None, True)],
    (lambda: rr(epsilon=30.0, num_values=3), ValueError, "epsilon"),
    (
        lambda: jax.jit(lambda e: rr(epsilon=e, num_values=3).truth([1, 2, 3]))(1.0),
        TypeError,
        "eps",
    ),
    (rr, ValueError, "num_values"),
    (lambda: rr(num_values=1), ValueError, "num_values"),
    (lambda: rr(num_values=(2, 2)), ValueError, "axes"),
    (lambda: rr(num_values=3, grid=UNIT), ValueError, "num_values"),
    (lambda: rr(grid=(0.0, 1.0)), TypeError, "grid"),
    (lambda: rr(grid=Grid(edges=(0.5,))), ValueError, "bounded"),
    (lambda: rr(grid=UNIT, rounding="up"), ValueError, "rounding"),
    (lambda: rr(grid=UNIT, rule="points"), ValueError, "rule"),
    (lambda: rr(grid=UNIT, rounding="randomized", rule="average"), ValueError, "rule"),
    (lambda: rr(num_values=3, rounding="randomized"), ValueError, "rounding"),
    (lambda: rr(MatrixKernel(np.eye(3)), grid=UNIT, rounding="randomized"), ValueError, "rounding"),
    (lambda: rr(MatrixKernel(np.eye(4)), grid=UNIT), ValueError, "k = 4"),
    (lambda: rr(num_values=3, form="w"), ValueError, "form"),
    (lambda: rr(num_values=3).quantization_error(), ValueError, "grid"),
    # Predictions.
    (lambda: rr(num_values=3).truth([1, 2]), ValueError, "counts"),
    (lambda: rr(num_values=3).variance([1, 2, -1]), ValueError, "counts"),
    (lambda: rr(num_values=3).variance([1, 0, 0]), ValueError, "2 users"),
    (lambda: rr(num_values=3).truth([1, 2, 3], [0.0, 0.5, 1.0]), ValueError, "inputs"),
    (lambda: rr(grid=UNIT).truth([1, 2, 3]), ValueError, "inputs"),
    (lambda: rr(grid=UNIT).variance([1, 2], [0.5, NAN]), ValueError, "values"),
    (lambda: rr(num_values=3).worst_case_variance(1), ValueError, "num_users"),
    (lambda: rr(num_values=3).population_variance([0.5, 0.5, 0.0], 1), ValueError, "2 users"),
    (lambda: rr(num_values=3).population_variance([0.5, 0.6, 0.0], 9), ValueError, "p must"),
]


@pytest.mark.parametrize(("make", "error", "said"), BAD)
def test_invalid_arguments_are_named(make, error, said):
    with pytest.raises(error, match=said):
        make()


PLANE = rr(KendallTau(), grid=ProductGrid((Grid.uniform(2), Grid(edges=(0.0,), high=9.0))))
POPULATIONS = [
    (rr(num_values=3), lambda p: p.from_values([0, 1], num_values=2), "num_values"),
    (rr(num_values=3), lambda p: p.from_values(np.array([0.5, 0.2], np.float32)), "bins"),
    (rr(num_values=3), lambda p: p.from_values([1], num_values=3), "2 users"),
    (rr(grid=UNIT), lambda p: p.from_values([0, 1], num_values=3), "real"),
    (rr(grid=UNIT), lambda p: p.from_values(np.array([0.5, 1.2], np.float32)), "1.2"),
    (rr(grid=UNIT), lambda p: p.from_values(np.zeros((4, 2), np.float32)), "shape"),
    (PLANE, lambda p: p.from_values(np.zeros(4, np.float32)), "shape"),
    (PLANE, lambda p: p.from_values(np.full((4, 2), 1.5, np.float32)), "coordinate 0"),
    (PLANE, lambda p: p.from_values(np.array([[0.5, 1], [1, 10]], np.float32)), "coordinate 1"),
]


@pytest.mark.parametrize(("protocol", "make", "said"), POPULATIONS)
def test_populations_that_do_not_fit_are_refused(protocol, make, said, key):
    with pytest.raises(ValueError, match=said):
        jaxdp.run(protocol, make(jaxdp.Population), key)


def test_populations_that_fit_are_accepted(key):
    fits = jaxdp.Population.from_values(np.array([[0.5, -40.0], [1, 9]], np.float32))
    assert np.isfinite(jaxdp.run(PLANE, fits, key))
