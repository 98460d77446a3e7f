"""Arguments of the wrong kind or size are refused by their own names, before any work is done."""

import jax
import numpy as np
import pytest

from jaxdp.central import (
    CosineSet,
    CosineSimilarity,
    FactorizationMechanism,
    PerturbAndProject,
    marginals_from_parities,
    neighbor_recall,
)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("float64", lambda: CosineSimilarity(3, 1.0, 1.0, 1e-6, float64=np.ones(2))),
        ("float64", lambda: PerturbAndProject(CosineSet(3), 1.0, 1.0, 1e-6, float64="yes")),
        ("factorization", lambda: FactorizationMechanism(np.eye(3), 1.0, 1e-6, factorization={})),
        ("truth", lambda: neighbor_recall([[1], [1, 2]], np.eye(3), 1)),
        ("estimate", lambda: neighbor_recall(np.eye(3), jax.random.key(0), 1)),
    ],
)
def test_other_kinds_are_refused_by_name(name, call):
    with pytest.raises(TypeError, match=f"{name} must be"):
        call()


def test_entries_beyond_float32_are_refused():
    with pytest.raises(ValueError, match="estimate must be within"):
        neighbor_recall(np.eye(3), np.full((3, 3), 1e308), 1)


@pytest.mark.parametrize(
    ("num_features", "order"), [(3, 1), (2**53 + 1, 2**31), (10**6, 10**6), (3, 3)]
)
def test_sets_are_not_counted_beyond_the_answers(num_features, order):
    with pytest.raises(ValueError, match="answers must have an entry"):
        marginals_from_parities(np.ones(7), num_features, order)
