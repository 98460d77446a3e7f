"""The hierarchical AUC in little memory: walks over reports, passes over users, many scores."""

import dataclasses

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp.pairwise import HierarchicalAUC
from jaxdp.pairwise.auc._hierarchical_auc_walk import HierarchicalAUCPassParams
from tests.marks import slow


@pytest.mark.parametrize(
    "spec",
    [
        HierarchicalAUC(12, 3.0),
        HierarchicalAUC(12, 3.0, labels="private", threshold=0.3, ties="zero"),
        HierarchicalAUC(5, 6.0, split="basic", discarded="zero"),
        HierarchicalAUC(12, 4.0, labels="randomized", threshold=0.3),
    ],
    ids=["users", "private", "basic", "randomized"],
)
def test_the_walk_in_little_memory_finds_the_same(spec, rng):
    params = spec.build()
    values = rng.integers(0, 2 * spec.num_scores, 3000).astype(np.int32)
    words = rng.integers(0, 2**32, (3000, params.num_words), np.uint32)
    reports = jax.jit(jax.vmap(params.from_bits))(words, values)
    small = dataclasses.replace(spec, memory=1024)
    assert spec.tree_bytes > 1024
    assert small.estimate_reports(reports) == pytest.approx(spec.estimate_reports(reports), 1e-5)
    with pytest.raises(ValueError, match="reports"):
        spec.estimate_reports(np.zeros(0, np.int32))
    with pytest.raises(ValueError, match="reports"):
        spec.estimate_reports(np.asarray(reports) + 2 * params.num_slots)


MANY_NODES = dict(num_scores=24, epsilon=5.0, threshold=0.1)


@pytest.mark.parametrize(
    "spec",
    [
        slow(HierarchicalAUC(**MANY_NODES, labels="randomized")),
        HierarchicalAUC(**MANY_NODES),
        HierarchicalAUC(**MANY_NODES, labels="private"),
        slow(HierarchicalAUC(**MANY_NODES, split="basic")),
        HierarchicalAUC(**MANY_NODES, split="even"),
    ],
    ids=lambda spec: f"{spec.labels}-{spec.split}",
)
def test_a_run_in_passes_finds_the_same(spec, key):
    """The same users report the same; without memory for it the tree is not held."""
    # By default one level is left to passes: each compiles.
    small = dataclasses.replace(spec, memory=2**12 if spec.labels == "randomized" else 2**11)
    assert isinstance(small.build(), HierarchicalAUCPassParams)
    assert small.build().deepest == (4 if spec.labels == "randomized" else 3)
    counts = np.zeros(48, int)
    counts[[0, 1, 3, 9, 20, 23]] = counts[[24, 30, 31, 46, 47]] = 300
    population = jaxdp.Population.from_histogram(counts)
    expected = jaxdp.run(spec, population, key, method="per_user")
    assert float(jaxdp.run(small, population, key)) == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.slow
def test_two_to_the_24_scores(key):
    """The flat tally of the full tree, and passes of less memory, which are the default there."""
    size = 2**24
    low = HierarchicalAUC(size, 4.0)
    full = HierarchicalAUC(size, 4.0, memory=low.tree_bytes)
    assert isinstance(low.build(), HierarchicalAUCPassParams)
    assert low.memory < low.tree_bytes == 40 * 2**26
    values = np.repeat([0, size // 3, size + size // 2, 2 * size - 1], 50_000).astype(np.int32)
    population = jaxdp.Population.from_values(values, num_values=2 * size)
    found = [jaxdp.run(spec, population, key, method="per_user") for spec in (low, full)]
    assert found[0] == pytest.approx(float(found[1]), rel=1e-5)
    assert abs(float(found[0]) - 1.0) < 0.3
