"""Arguments of the wrong kind are refused by their own names, before any work is done."""

import jax
import numpy as np
import pytest

from jaxdp.learning import AgnosticLearner
from jaxdp.linear import (
    ColumnQueries,
    FactorizedQueries,
    HierarchicalQueries,
    HistogramQuery,
    OptimizedStrategy,
    Projected,
    ProjectionMechanism,
    best,
)
from jaxdp.random import Count
from jaxdp.randomizers import KRR

W = np.eye(3)
CONCEPTS = np.array([[1.0, -1.0], [1.0, 1.0]])


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("shift", lambda: FactorizedQueries(W, 1.0, shift=W)),
        ("shift", lambda: ColumnQueries(W, 1.0, shift=[])),
        ("shift", lambda: ProjectionMechanism(W, 1.0, shift="no")),
        ("randomizer", lambda: FactorizedQueries(W, 1.0, randomizer=int)),
        ("randomizer", lambda: AgnosticLearner(CONCEPTS, 1.0, randomizer=int)),
        ("oracle", lambda: HierarchicalQueries(W, 1.0, oracle=len)),
        ("level_weights", lambda: HierarchicalQueries(W, 1.0, branching=3, level_weights=3.0)),
        ("channel", lambda: OptimizedStrategy(W, 1.0, channel=True)),
        ("num_outputs", lambda: OptimizedStrategy(W, 1.0, num_outputs=W)),
        ("objective", lambda: OptimizedStrategy(W, 1.0, objective=jax.random.key(0))),
        ("progress", lambda: OptimizedStrategy(W, 1.0, progress=W)),
        ("below", lambda: Projected(HistogramQuery(KRR(3, 1.0)), below=[1])),
        ("below", lambda: Projected(HistogramQuery(KRR(3, 1.0)), below="1")),
        ("candidates", lambda: best(W, 10, 1.0, candidates=3)),
        ("candidates", lambda: best(W, 10, 1.0, candidates=KRR(3, 1.0))),
        ("defaults", lambda: best(W, 10, 1.0, defaults=W)),
        ("optimize", lambda: best(W, 10, 1.0, optimize=jax.random.key(0))),
    ],
)
def test_other_kinds_are_refused_by_name(name, call):
    with pytest.raises(TypeError, match=f"{name} must be"):
        call()


def test_numbers_beyond_a_float_are_refused_by_name():
    with pytest.raises(ValueError, match="below must be"):
        Projected(HistogramQuery(KRR(3, 1.0)), below=10**400)


def test_a_histogram_of_the_largest_and_the_least_numbers_is_an_objective():
    for size in (1e308, 1e-320):
        spec = OptimizedStrategy(W, 1.0, objective=np.full(3, size))
        assert np.allclose(spec.objective.values, 1 / 3)


def test_counts_end():
    assert [int(x) for x in Count.of([3, 4])] == [3, 4]
    with pytest.raises(TypeError, match="one number"):
        iter(Count.of(3))
