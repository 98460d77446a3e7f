"""Grids of specs: one compilation for all epsilons and numbers of users, and stacked params."""

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp._contract import Work
from tests.contracts.registry import EXEMPLARS, PATHS, PROTOCOLS, ids


def structure(spec) -> tuple:
    """What jit knows a program by: the tree of built params, shapes and dtypes of its leaves."""
    leaves, tree = jax.tree.flatten(spec.build())
    return tree, [jax.typeof(leaf) for leaf in leaves]


@pytest.mark.parametrize("case", PROTOCOLS, ids=ids)
def test_a_grid_of_epsilons_has_one_structure(case):
    """So that a grid is one program; the next test counts the programs of some."""
    assert structure(case.make(0.7)) == structure(case.make(1.3))


def test_another_structure_is_seen():
    subsets = [jaxdp.randomizers.SubsetSelection(20, epsilon) for epsilon in (0.7, 1.3)]
    assert structure(subsets[0]) != structure(subsets[1])


@pytest.mark.parametrize(("case", "method"), PATHS)
def test_one_compilation_for_a_grid_of_epsilons(case, method, key, count_compilations):
    population = case.population()
    grid = [0.7, 0.9, 1.1, 1.3]
    jaxdp.run(case.make(grid[0]), population, key, method=method)
    with count_compilations() as seen:
        for epsilon in grid[1:]:
            jaxdp.run(case.make(epsilon), population, key, method=method)
    assert seen.compiled == []


@pytest.mark.parametrize(
    ("case", "method", "kind"),
    [
        pytest.param(*param.values, kind, id=f"{kind}-{param.id}")
        for kind in ("histogram", "distribution")
        for param in PATHS
        if kind == "histogram" or param.values[0] in EXEMPLARS
    ],
)
def test_one_compilation_for_any_number_of_users(case, method, kind, key, count_compilations):
    def population(scale):
        counts = np.array(case.counts) * scale
        if kind == "histogram":
            return jaxdp.Population.from_histogram(counts, case.inputs)
        p = counts / counts.sum()
        return jaxdp.Population.from_distribution(p, int(counts.sum()), case.inputs)

    # Users of a distribution have tables of 32 bits, and of 64 where they are many: two programs.
    programs = 1 if kind == "histogram" else 2
    spec = case.make(1.0)
    cost = spec.build().cost(Work(1e12, len(case.counts)))
    quick = method == "tally" and cost.tally < 1e9  # nanoseconds
    scales = [1, 30, 10**6 if quick and case.any_size else 100]
    for scale in scales[:programs]:
        jaxdp.run(spec, population(scale), key, method=method)
    with count_compilations() as seen:
        for scale in scales[programs:]:
            jaxdp.run(spec, population(scale), key, method=method)
    assert seen.compiled == []


@pytest.mark.parametrize("case", PROTOCOLS, ids=ids)
def test_stacked_grid_is_vmapped(case, key):
    population = case.population()
    specs = [case.make(epsilon) for epsilon in (0.5, 1.0, 2.0)]
    together = jax.vmap(lambda p: jaxdp.run(p, population, key, method="per_user"))(
        jaxdp.stack(specs)
    )
    for spec, row in zip(specs, together, strict=True):
        alone = jaxdp.run(spec, population, key, method="per_user")
        case.subject().close(row, alone, 1e-6)
