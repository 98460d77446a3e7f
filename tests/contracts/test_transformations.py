"""One randomizer under jit, eager, vmap and a loop; one compilation for a grid of epsilons."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp.random import user_words
from tests.contracts.registry import EXEMPLARS, PATHS, PROTOCOLS, RANDOMIZERS, ids


@pytest.mark.parametrize("case", PROTOCOLS, ids=ids)
def test_reports_agree_under_every_transformation(case, key):
    params = case.make(1.0).build()
    held = case.user_values()
    value = jnp.asarray(held[np.arange(40) % len(held)])
    words = jax.random.bits(key, (40, params.num_words), jnp.uint32)
    batched = jax.jit(jax.vmap(params.from_bits))(words, value)
    looped = jax.lax.map(lambda wv: params.from_bits(*wv), (words, value))
    check_same_reports(batched, looped)
    if case in EXEMPLARS:  # without jit every operation is a program of its own
        check_same_reports(batched, jax.vmap(params.from_bits)(words, value))
        check_same_reports(batched[0], params.from_bits(words[0], value[0]))


def check_same_reports(one, other):
    """Equal integers; floats up to how programs of different shapes round them."""
    if jnp.issubdtype(one.dtype, jnp.floating):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6 * np.abs(one).max())
    else:
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("case", RANDOMIZERS, ids=ids)
def test_privatize_is_from_bits_on_the_keys_words(case, key):
    params = case.make(1.0).build()
    value = case.user_values()[-1]
    words = user_words(key, 0, params.num_words)[:]
    report = jax.jit(params.from_bits)(words, jnp.asarray(value))
    check_same_reports(report, jax.jit(params.privatize)(key, value))
    if case in EXEMPLARS:
        check_same_reports(report, params.privatize(key, value))


@pytest.mark.parametrize(("case", "method"), PATHS)
def test_run_agrees_inside_jit_and_vmap(case, method, key):
    spec, population = case.make(1.0), case.population()
    keys = jax.random.split(key, 3)
    eager = np.stack([jaxdp.run(spec, population, k, method=method) for k in keys])

    def once(population, key):
        return jaxdp.run(spec, population, key, method=method)

    inside = [jax.jit(jax.vmap(once, in_axes=(None, 0)))(population, keys)]
    if case in EXEMPLARS:
        inside.append(jax.vmap(once, in_axes=(None, 0))(population, keys))
        inside.append(jnp.stack([jax.jit(once)(population, k) for k in keys]))
    for found in inside:
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, eager, rtol=1e-6, atol=1e-6 * np.abs(eager).max())


@pytest.mark.parametrize("case", PROTOCOLS, ids=ids)
def test_results_do_not_depend_on_the_x64_flag(case, key):
    spec, population = case.make(1.0), case.population()
    narrow = jaxdp.run(spec, population, key)
    with jax.enable_x64(True):
        wide = jaxdp.run(spec, population, key)
    assert narrow.dtype == wide.dtype == np.float64
    np.testing.assert_array_equal(narrow, wide)


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

    spec = case.make(1.0)
    cost = getattr(spec.build(), "tally_cost", lambda n, k: 0.0)
    quick = method == "tally" and cost(10**12, len(case.counts)) < 1e9  # nanoseconds
    scales = [1, 30, 10**9 if quick and case.any_size else 100]
    jaxdp.run(spec, population(scales[0]), key, method=method)
    with count_compilations() as seen:
        for scale in scales[1:]:
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
        np.testing.assert_allclose(row, alone, rtol=1e-6, atol=1e-6 * np.abs(alone).max())


@pytest.mark.parametrize("case", PROTOCOLS, ids=ids)
def test_specs_are_values(case):
    spec = case.make(1.0)
    assert spec == case.make(1.0)
    assert spec != case.make(1.5)
    assert len({spec, case.make(1.0)}) == 1


@pytest.mark.parametrize("case", PROTOCOLS, ids=ids)
def test_specs_round_trip_through_json(case):
    import json

    from jaxdp._spec import spec_from_json, spec_to_json

    spec = case.make(1.0)
    assert spec_from_json(json.loads(json.dumps(spec_to_json(spec)))) == spec
