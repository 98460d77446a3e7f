"""Protocols with few users, and the exact moments of their estimates by enumeration."""

import itertools

import jax
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
)
from jaxdp.random import Count

GOLDEN = PairKernel.from_matrix([[0, 0.3, 1], [0.3, 0.2, 0.7], [1, 0.7, 0.1]])


def estimates_of_all_reports(params, num_users, num_symbols):
    """Every vector of reports, int[k**n, n], and the estimate it leads to."""
    reports = np.array(list(itertools.product(range(num_symbols), repeat=num_users)))
    tallies = np.stack([np.sum(reports == r, axis=1) for r in range(num_symbols)], axis=1)
    with jax.enable_x64(True):
        found = jax.jit(jax.vmap(params.estimate))(Count.of(tallies))
    return reports, np.asarray(found)


def exact_moments(protocol, laws):
    """Mean and mean square of the estimate, by enumeration, for users with these symbol laws."""
    p, q = map(float, protocol.randomizer.probabilities())
    reports, found = estimates_of_all_reports(protocol.build(), *laws.shape)
    report_laws = q + (p - q) * laws
    weights = np.prod(report_laws[np.arange(len(laws)), reports], axis=1)
    assert weights.sum() == pytest.approx(1)
    return weights @ found, weights @ found**2


TENT = PairKernel(lambda x, y: np.minimum(x, y) * (1 - np.maximum(x, y)))
PLANE = PairKernel(lambda x, y: np.sum(x * y, axis=-1) ** 2, dim=2)
SMALL = ProductGrid((Grid(edges=(0.4,), low=0.0, high=1.0), Grid.uniform(2)))
LINE = [0.05, 0.33, 0.34, 0.99]
SQUARE = [[0.1, 0.9], [0.4, 0.2], [0.8, 0.7]]

LINEAR = {
    "bins": (QuantizedRR(GOLDEN, 0.7), [0, 1, 1, 2, 2]),
    "bins-v": (QuantizedRR(GOLDEN, 0.7, form="v"), [0, 1, 1, 2, 2]),
    "kendall": (QuantizedRR(KendallTau(), 1.5, num_values=(2, 2)), [0, 1, 2, 3, 3]),
    "auc-public": (
        QuantizedRR(AUC(class_sizes=(2, 3)), 1.0, num_values=(2, 2)),
        [0, 1, 2, 3, 3],
    ),
    "grid": (QuantizedRR(GiniMeanDifference(), 1.0, grid=Grid.uniform(3)), LINE),
    "grid-v": (QuantizedRR(TENT, 1.0, grid=Grid.uniform(3), rule="average", form="v"), LINE),
    "grid-of-a-matrix": (QuantizedRR(GOLDEN, 1.0, grid=Grid.uniform(3)), LINE),
    "random": (QuantizedRR(TENT, 1.0, grid=Grid.uniform(2), rounding="randomized"), LINE),
    "random-v": (
        QuantizedRR(TENT, 1.0, grid=Grid.uniform(2), rounding="randomized", form="v"),
        LINE,
    ),
    "auc-on-a-grid": (
        QuantizedRR(
            AUC(class_sizes=(2, 2)), 2.0, grid=ProductGrid((Grid(edges=(0.5,)), Grid.uniform(2)))
        ),
        [[0, 0.1], [0, 0.6], [1, 0.3], [1, 0.7]],
    ),
    "boxes": (QuantizedRR(PLANE, 2.0, grid=SMALL), SQUARE),
    "random-boxes": (QuantizedRR(PLANE, 2.0, grid=SMALL, rounding="randomized"), SQUARE),
}


def laws_of(protocol, values):
    """The law of each user's symbol, float64[n, k]."""
    k = protocol.randomizer.num_values
    inputs = None if protocol.grid is None else np.asarray(values, np.float64)
    if inputs is None:
        return np.eye(k)[np.asarray(values)]
    symbols = protocol._symbols
    _, inputs = symbols.check_inputs(np.ones(len(inputs)), inputs)
    users = symbols.users(np.ones(len(inputs)), inputs)
    laws = np.zeros((len(inputs), k))
    np.add.at(laws, (np.arange(len(inputs))[:, None], users.symbols), users.weights)
    return laws


def as_counts(protocol, values):
    if protocol.grid is None:
        return np.bincount(values, minlength=protocol.randomizer.num_values), None
    return np.ones(len(values), int), np.array(values)
