"""Bad input: an error that names the argument, before any work; never a NaN or a silent clamp."""

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp import Population
from jaxdp.audit import estimate_epsilon
from jaxdp.random import Count
from jaxdp.randomizers import KRR, BinaryResponse
from tests.contracts.registry import PROTOCOLS, ids

BAD_SPECS = [
    pytest.param(make, name, id=f"{case.name}-{i}")
    for case in PROTOCOLS
    for i, (make, name) in enumerate(case.bad)
]


@pytest.mark.parametrize(("make", "name"), BAD_SPECS)
def test_bad_specs(make, name):
    with pytest.raises((ValueError, TypeError), match=name):
        make()


def _misfits(case):
    """Users of another domain: more bins, fewer, numbers; longer vectors, larger ones, bins."""
    counts, inputs = np.array(case.counts) * 10, case.inputs
    if inputs is None:
        yield "more bins", Population.from_histogram([*counts, 10])
        yield "fewer bins", Population.from_histogram(counts[:-1])
        yield "numbers", Population.from_histogram(counts, np.linspace(0, 1, len(counts)))
        return
    yield "bins", Population.from_histogram(counts)
    yield "longer", Population.from_histogram(counts, np.stack([inputs, inputs], axis=-1))
    yield "larger", Population.from_histogram(counts, inputs * 1000)


@pytest.mark.parametrize("case", PROTOCOLS, ids=ids)
def test_params_refuse_the_users_that_their_spec_refuses(case):
    """Params clamp what is beyond their domain, so that they would answer."""
    spec, params = case.make(1.0), case.subject().params
    params.check_population(case.population())
    if params.traceable:  # traced params are checked as far as they are known
        jax.eval_shape(lambda params: jaxdp.run(params, case.population(), KEY), params)
    refused = 0
    for what, population in _misfits(case):
        try:
            jaxdp.engine.outcome(spec, population, KEY)
        except ValueError:
            refused += 1
            with pytest.raises(ValueError, match=r"population's values|num_values|features|inputs"):
                jaxdp.run(params, population, KEY)
        else:
            print(f"{case.name} takes {what}")
    assert refused >= 2


POP = Population.from_histogram([3, 4])
KEY = jax.random.key(0)
SPEC = KRR(2, 1.0)

BAD_CALLS = {
    "protocol": lambda: jaxdp.run(1.0, POP, KEY),
    "population": lambda: jaxdp.run(SPEC, [0, 1], KEY),  # pyright: ignore[reportArgumentType]
    "key-int": lambda: jaxdp.run(SPEC, POP, 0),  # pyright: ignore[reportArgumentType]
    "key-legacy": lambda: jaxdp.run(SPEC, POP, jax.random.PRNGKey(0)),
    "key-rbg": lambda: jaxdp.run(SPEC, POP, jax.random.key(0, impl="rbg")),
    "key-batch": lambda: jaxdp.run(SPEC, POP, jax.random.split(KEY)),
    "method": lambda: jaxdp.run(SPEC, POP, KEY, method="magic"),  # pyright: ignore
    "mesh": lambda: jaxdp.run(SPEC, POP, KEY, mesh=8),  # pyright: ignore[reportArgumentType]
    "mesh-name": lambda: jaxdp.run(SPEC, POP, KEY, mesh="all"),  # pyright: ignore[reportArgumentType]
    "block_size": lambda: jaxdp.run(SPEC, POP, KEY, block_size=1000),
    "block_size-low": lambda: jaxdp.run(SPEC, POP, KEY, block_size=8),
    "block_size-float": lambda: jaxdp.run(SPEC, POP, KEY, block_size=2.0**16),  # pyright: ignore
    "num_values": lambda: jaxdp.run(KRR(3, 1.0), POP, KEY),
    "bins": lambda: jaxdp.run(SPEC, Population.from_values([0.5]), KEY),
    "real numbers": lambda: jaxdp.run(BinaryResponse(1.0), POP, KEY),
    r"\[-1, 1\]": lambda: jaxdp.run(BinaryResponse(1.0), Population.from_values([2.0]), KEY),
    "num_trials": lambda: jaxdp.simulate(SPEC, POP, KEY, num_trials=0),
    "num_trials-float": lambda: jaxdp.simulate(SPEC, POP, KEY, num_trials=10.0),  # pyright: ignore
    "trial_batch": lambda: jaxdp.simulate(SPEC, POP, KEY, num_trials=1, trial_batch=0),
    "truth": lambda: jaxdp.simulate(SPEC, POP, KEY, num_trials=1, truth="none"),
    "truth-shape": lambda: jaxdp.simulate(SPEC, POP, KEY, num_trials=2, truth=[1.0, 2.0, 3.0]),
    "truth-population": lambda: jaxdp.simulate(SPEC, POP, KEY, num_trials=1, truth="population"),
    "per_user": lambda: jaxdp.run(
        SPEC, Population.from_histogram([2**50, 1]), KEY, method="per_user"
    ),
    "specs": lambda: jaxdp.stack([]),
    "specs-shapes": lambda: jaxdp.stack([KRR(2, 1.0), KRR(3, 1.0)]),
    "x": lambda: Population.from_values([0, 2], num_values=2),
    "x-negative": lambda: Population.from_values([0, -1], num_values=2),
    "x-nan": lambda: Population.from_values([0.0, float("nan")]),
    "x-empty": lambda: Population.from_values([], num_values=2),
    "x-rank": lambda: Population.from_values([[0, 1]], num_values=2),
    "x-rank-3": lambda: Population.from_values(np.zeros((2, 2, 2))),
    "x-bool": lambda: Population.from_values([True, False], num_values=2),
    "x-text": lambda: Population.from_values(["a"], num_values=2),
    "x-float-bins": lambda: Population.from_values([0.0], num_values=2),
    "x-complex": lambda: Population.from_values([1j]),
    "num_values-missing": lambda: Population.from_values([0, 1]),
    "num_values-zero": lambda: Population.from_values([0], num_values=0),
    "counts": lambda: Population.from_histogram([1, -1]),
    "counts-fraction": lambda: Population.from_histogram([0.5, 0.5]),
    "counts-zero": lambda: Population.from_histogram([0, 0]),
    "counts-large": lambda: Population.from_histogram([2**53, 1]),
    "counts-empty": lambda: Population.from_histogram([]),
    "counts-nan": lambda: Population.from_histogram([float("nan")]),
    "values": lambda: Population.from_histogram([1, 1], values=[0.5]),
    "values-nan": lambda: Population.from_histogram([1], values=[float("nan")]),
    "p": lambda: Population.from_distribution([0.5, 0.6], 10),
    "p-negative": lambda: Population.from_distribution([1.5, -0.5], 10),
    "num_users": lambda: Population.from_distribution([1.0], 0),
    "num_users-large": lambda: Population.from_distribution([1.0], 2**54),
    "num_users-float": lambda: Population.from_distribution([1.0], 10.0),  # pyright: ignore
    "weights": lambda: POP.split(KEY, [0.5, 0.2]),
    "weights-negative": lambda: POP.split(KEY, [1.5, -0.5]),
    "pairs": lambda: Population.from_histogram([1]).pairs(KEY),
    "truth-nan": lambda: jaxdp.simulate(SPEC, POP, KEY, num_trials=2, truth=[np.nan, 1.0]),
    "users": lambda: POP.at(100),
    "users-negative": lambda: POP.at([0, -1]),
    "users-end": lambda: POP.block(5, 3),
    "size": lambda: POP.block(5, 0),
    "inputs": lambda: estimate_epsilon(SPEC, KEY, inputs=[0, 9]),
}


@pytest.mark.parametrize("label", BAD_CALLS)
def test_bad_calls(label):
    name = label if label.startswith(("\\", "real")) else label.split("-")[0]
    with pytest.raises((ValueError, TypeError), match=name) as error:
        BAD_CALLS[label]()
    assert len(str(error.value)) > 20


KEYED = {
    "split": lambda key: POP.split(key, [0.5, 0.5]),
    "shuffle": POP.shuffle,
    "pairs": POP.pairs,
    "bind": POP.bind,
    "counts": POP.counts,
    "privatize": lambda key: SPEC.build().privatize(key, 0),
    "stream": lambda key: jaxdp.random.stream(key, 0),
    "words": lambda key: jaxdp.random.words(key, Count.of(0), 1, 1),
    "words_at": lambda key: jaxdp.random.words_at(key, Count.of([0]), 1),
    "user_words": lambda key: jaxdp.random.user_words(key, 0, 1),
    "permute": lambda key: jaxdp.random.permute(key, [0], 1),
    "gamma": lambda key: jaxdp.random.gamma(key, 1),
    "binomial": lambda key: jaxdp.random.binomial(key, 1, 0.5),
    "multinomial": lambda key: jaxdp.random.multinomial(key, 1, [1.0]),
    "hypergeometric": lambda key: jaxdp.random.hypergeometric(key, 1, 0, 1),
    "multivariate": lambda key: jaxdp.random.multivariate_hypergeometric(key, [1], 1),
}
BAD_KEYS = (0, jax.random.PRNGKey(0), jax.random.key(0, impl="rbg"), jax.random.split(KEY))


@pytest.mark.parametrize("label", KEYED)
def test_keys_that_are_not_typed_threefry_keys(label):
    for key in BAD_KEYS:
        with pytest.raises((ValueError, TypeError), match=r"^key must be .*jax\."):
            KEYED[label](key)
        if not isinstance(key, int):
            with pytest.raises((ValueError, TypeError), match=r"^key must be .*jax\."):
                jax.eval_shape(KEYED[label], key)


def test_simulate_inside_jit_names_the_remedy():
    with pytest.raises(TypeError, match="vmap"):
        jax.jit(lambda k: jaxdp.simulate(SPEC, POP, k, num_trials=2).estimates)(KEY)


def test_estimates_of_a_single_user_are_finite(key):
    one = Population.from_histogram([0, 1])
    for method in ("per_user", "tally"):
        assert np.all(np.isfinite(jaxdp.run(SPEC, one, key, method=method)))
    trials = jaxdp.simulate(SPEC, one, key, num_trials=1)
    assert np.all(np.isinf(trials.mse_stderr))
    assert not np.any(np.isnan(trials.to_dict()["bias_stderr"]))
