"""QuantizedRR: the channel, plug-in estimates, worst cases, and both paths of simulation."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp.bounds import u_statistic_variance
from jaxdp.data import load_flights
from jaxdp.pairwise import (
    AUC,
    CollisionEntropy,
    GiniCoefficient,
    GiniDiversity,
    GiniMeanDifference,
    Grid,
    KendallTau,
    PairKernel,
    ProductGrid,
    QuantizedRR,
)
from jaxdp.random import Count
from tests import stats
from tests.marks import slow
from tests.pairwise.enumeration import GOLDEN, LINEAR, laws_of


def test_reports_of_all_words_are_the_channel():
    protocol = QuantizedRR(GOLDEN, 1.0)
    params = protocol.build(word_bits=8)
    words = np.arange(256, dtype=np.uint32)[:, None]
    for value, row in enumerate(protocol.channel(word_bits=8)):
        reports = jax.vmap(params.from_bits, (0, None))(words, jnp.int32(value))
        counts = np.bincount(reports, minlength=3)
        assert counts.tolist() == [share * 256 for share in row]
    assert protocol.exact_epsilon(word_bits=8) <= 1.0
    assert protocol.exact_epsilon() <= 1.0


RATIOS = {
    "tau_b": (KendallTau("b"), (3, 3), [40, 10, 5, 12, 50, 9, 3, 8, 63]),
    "auc": (AUC(), (2, 4), [40, 30, 20, 10, 8, 12, 30, 50]),
    "entropy": (CollisionEntropy(), 4, [40, 30, 20, 110]),
    "coefficient": (GiniCoefficient(), 4, [40, 30, 20, 110]),
}


@pytest.mark.parametrize(("kernel", "num_values", "counts"), RATIOS.values(), ids=RATIOS)
def test_plug_in_estimates_are_the_statistic_without_noise(kernel, num_values, counts):
    """With negligible noise the estimate is the statistic, in whatever form; averages unbiased."""
    for form in ("u", "v"):
        protocol = QuantizedRR(kernel, 21.0, num_values=num_values, form=form)
        with jax.enable_x64(True):
            estimate = protocol.build().estimate(Count.of(np.array(counts)))
        assert float(estimate) == pytest.approx(float(protocol.truth(counts)), abs=1e-5)
        assert not kernel.is_linear
        assert protocol.worst_case_variance(200) == math.inf


@pytest.mark.slow
@pytest.mark.parametrize("case", ["auc", "entropy"])
def test_plug_in_variance_is_that_of_the_linearisation(case, key):
    """Many users, so that terms of higher order are far below what the check can see."""
    kernel, num_values, counts = RATIOS[case]
    protocol = QuantizedRR(kernel, 2.0, num_values=num_values)
    counts = np.array(counts) * 100_000
    pop = jaxdp.Population.from_histogram(counts)
    trials = jaxdp.simulate(protocol, pop, key, num_trials=1000, method="tally")
    truth, predicted = protocol.truth(counts), protocol.variance(counts)
    assert trials.truth == pytest.approx(truth)
    stats.check_variance(trials.estimates, predicted, kurtosis=3.1, mean=truth, cells=2)
    stats.check_mean(trials.estimates, truth, variance=predicted, cells=2)
    more = stats.detectable_variance(1000, 3.1, cells=2)
    stats.must_fail(
        stats.check_variance, trials.estimates, predicted / (1 + more), kurtosis=3.1, mean=truth
    )


def test_estimates_of_hopeless_data_stay_finite():
    """The floors of the divisors: no NaN when the reports say that no two users agree, or all."""
    for kernel, num_values, k in ((KendallTau("b"), (2, 2), 4), (AUC(), (2, 2), 4)):
        params = QuantizedRR(kernel, 0.5, num_values=num_values).build()
        tallies = np.array([t for t in itertools.product(range(4), repeat=k) if sum(t) >= 2])
        assert np.all(np.isfinite(jax.vmap(params.estimate)(Count.of(tallies))))
    entropy = QuantizedRR(CollisionEntropy(), 0.5, num_values=3).build()
    assert float(entropy.estimate(Count.of(np.array([5, 5, 5])))) == pytest.approx(
        math.log(15 * 14 / 2)
    )


@pytest.mark.parametrize("form", ["u", "v"])
@pytest.mark.parametrize("epsilon", [0.3, 2.0, 8.0])
def test_worst_case_variance_bounds_every_data_set(epsilon, form, rng):
    for n in (2, 5, 400):
        for _ in range(30):
            k = rng.integers(2, 6)
            matrix = rng.random((k, k)) ** rng.choice([0.1, 1, 10])
            matrix = np.round(matrix + matrix.T) if rng.random() < 0.5 else matrix + matrix.T
            if np.ptp(matrix) == 0:
                continue
            protocol = QuantizedRR(PairKernel.from_matrix(matrix), epsilon, form=form)
            law = rng.dirichlet(np.full(k, rng.choice([0.1, 1.0])))
            bound = protocol.worst_case_variance(n)
            assert protocol.variance(rng.multinomial(n, law)) <= bound * (1 + 1e-9)
            theorem = np.ptp(matrix) ** 2 * u_statistic_variance(n, int(k), epsilon)
            assert bound <= theorem * (1 + 1e-6)  # the built probabilities are not quite the ideal


def test_worst_case_variance_is_nearly_attained():
    """Two values, f = 1[x != y], and many users."""
    protocol = QuantizedRR(GiniDiversity(), 1.0, num_values=2)
    n = 10**6
    attained = max(float(protocol.variance([c, n - c])) for c in range(0, n, 50_000))
    assert attained >= 0.95 * protocol.worst_case_variance(n)


@pytest.mark.parametrize("rule", ["midpoint", "average", "points"])
def test_worst_case_error_includes_quantisation(rule, rng):
    rounding = "randomized" if rule == "points" else "simple"
    protocol = QuantizedRR(
        GiniMeanDifference(), 8.0, grid=Grid.uniform(4), rounding=rounding, rule=rule
    )
    for _ in range(50):
        values = rng.choice([0.0, 0.1249, 0.126, 0.2499, 0.25, 0.6, 1.0], 3)
        counts = rng.integers(1, 10**6, 3)
        found = protocol.variance(counts, values)
        assert found <= protocol.worst_case_variance(int(counts.sum()))


@pytest.mark.parametrize("case", ["grid", slow("random-boxes")])
def test_both_paths_have_the_exact_law(case, key):
    """One value's reports: a million users at once, and 2**14 one by one."""
    protocol, values = LINEAR[case]
    params = protocol.build()
    value = jnp.asarray(values[1], jnp.float32)
    p, q = map(float, protocol.randomizer.probabilities())
    law = q + (p - q) * laws_of(protocol, values)[1]
    drawn = jax.jit(params.sample_tally)(key, Count.of(np.array([10**6])), value[None])
    stats.check_multinomial(drawn.numpy(), law, cells=2)
    words = jax.random.bits(jax.random.fold_in(key, 7), (2**14, params.num_words))
    reports = jax.jit(jax.vmap(params.from_bits, (0, None)))(words, value)
    counts = params.tally(reports).numpy()
    stats.check_multinomial(counts, law, cells=2)
    stats.must_fail(stats.check_multinomial, counts, np.roll(law, 1), cells=2)


@pytest.mark.parametrize("method", [slow("tally"), "per_user"])
def test_errors_are_as_predicted_on_both_paths(method, key, rng):
    values = rng.random(200).astype(np.float32)
    protocol = QuantizedRR(GiniMeanDifference(), 2.0, grid=Grid.uniform(4))
    counts = np.ones(200, int)
    pop = jaxdp.Population.from_values(values)
    trials = jaxdp.simulate(protocol, pop, key, num_trials=1000, method=method)
    truth, error = protocol.truth(counts, values), protocol.variance(counts, values)
    quantised = QuantizedRR(PairKernel.from_matrix(protocol.kernel.matrix(protocol.grid)), 2.0)
    bins = laws_of(protocol, values).sum(axis=0).astype(int)
    mean, noise = quantised.truth(bins), quantised.variance(bins)
    assert error == pytest.approx(noise + (mean - truth) ** 2)
    stats.check_mean(trials.estimates, mean, variance=noise, cells=2)
    stats.check_variance(trials.estimates, noise, kurtosis=3.5, mean=mean, cells=2)
    off = stats.detectable_mean(1000, float(noise), cells=2)
    stats.must_fail(stats.check_mean, trials.estimates + off, mean, variance=noise, cells=2)


def test_a_grid_of_epsilons_is_one_program(key, count_compilations):
    specs = [QuantizedRR(KendallTau("b"), e, num_values=(3, 3)) for e in (0.5, 1.0, 2.0)]
    pop = jaxdp.Population.from_histogram(RATIOS["tau_b"][2])

    @jax.jit
    def all_of_them(params):
        return jax.vmap(lambda one: jaxdp.run(one, pop, key, method="per_user"))(params)

    with count_compilations() as seen:
        together = np.asarray(all_of_them(jaxdp.stack(specs)))
    assert seen.compiled.count("all_of_them") == 1
    alone = [float(jaxdp.run(spec, pop, key, method="per_user")) for spec in specs]
    assert together == pytest.approx(alone, rel=1e-5)


@pytest.mark.slow
def test_flights_have_the_predicted_error(key):
    table = load_flights()["dep_arr_delay_table"]
    protocol = QuantizedRR(KendallTau("b"), 4.0, num_values=(10, 10))
    pop = jaxdp.Population.from_histogram(table)
    trials = jaxdp.simulate(protocol, pop, key, num_trials=500)
    assert trials.truth == pytest.approx(0.527226, abs=5e-7)
    predicted, truth = protocol.variance(table), protocol.truth(table)
    stats.check_variance(trials.estimates, predicted, kurtosis=3.1, mean=truth)
    worse = QuantizedRR(KendallTau("b"), 2.0, num_values=(10, 10)).variance(table)
    stats.must_fail(stats.check_variance, trials.estimates, worse, kurtosis=3.1, mean=truth)


@pytest.mark.parametrize("form", ["u", "v"])
@pytest.mark.parametrize(
    ("rounding", "rule"), [("simple", None), ("simple", "average"), ("randomized", None)]
)
def test_on_a_grid_the_reported_error_covers_any_place_in_the_bins(form, rounding, rule):
    """With hardly any noise, so that what is off is the rounding."""
    options = dict(grid=Grid.uniform(3), form=form, rounding=rounding, rule=rule)
    protocol = QuantizedRR(GiniMeanDifference(), 21.0, **options)
    rng, params = np.random.default_rng(0), protocol.built
    run = jax.jit(params.sample_tally)
    for values in (rng.uniform(size=6), np.zeros(6), np.repeat([0.0, 1.0], 3), rng.uniform(size=6)):
        counts = rng.multinomial(60_000, np.full(6, 1 / 6))
        inputs = values.astype(np.float32)
        tally = run(jax.random.key(1), Count.of(counts), inputs)
        error = float(params.estimate(tally)) - float(protocol.truth(counts, inputs))
        assert error**2 <= protocol.reported_variance(tally, 60_000)
        assert protocol.reported_variance(tally, 60_000) < 4 / 9 + 1e-6


def test_on_a_grid_the_reported_error_is_attained():
    protocol = QuantizedRR(GiniMeanDifference(), 21.0, grid=Grid.uniform(3))
    tally = protocol.built.sample_tally(
        jax.random.key(1), Count.of(np.array([10**6])), jnp.zeros(1, jnp.float32)
    )
    # Users of one value, taken to be a sixth apart: half of the range of f on a bin.
    assert float(protocol.built.estimate(tally)) == pytest.approx(1 / 6, rel=1e-3)
    assert protocol.reported_variance(tally, 10**6) == pytest.approx(1 / 36, rel=1e-3)
    linked = QuantizedRR(CollisionEntropy(), 1.0, num_values=4)
    assert linked.reported_variance(Count.of(np.array([40, 30, 20, 10])), 100) > 0


def test_on_a_grid_a_ratio_has_no_known_error():
    grid = ProductGrid((Grid(edges=(0.5,)), Grid.uniform(2)))
    protocol = QuantizedRR(AUC(), 1.0, grid=grid)
    counts = Count.of(np.arange(1, protocol.built.inner.num_bins + 1))
    assert protocol.reported_variance(counts, int(counts.sum())) is None
