"""Marginals of binary features: privacy, what is released, errors."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats as laws

import jaxdp
from jaxdp import workloads
from jaxdp.central import _marginal_counts
from jaxdp.central._marginal_counts import MarginalCounts
from jaxdp.central._marginals import Marginals
from jaxdp.central._moment_set import MomentSet
from jaxdp.random import Count
from tests import stats

N, K = 5, 3
ROWS = ((np.arange(2**N)[:, None] >> np.arange(N)) & 1).astype(np.float32)
COUNTS = np.arange(2**N) % 7 * 10 + 1
SPARSE = ROWS[ROWS.sum(axis=1) <= 2]
SPECS = {
    "moments": Marginals(N, K, 0.5, 1e-6),
    "marginals": Marginals(N, K, 0.5, 1e-6, noise="marginals"),
    "parities": Marginals(N, K, 0.5, 1e-6, queries="parities"),
    "none": Marginals(N, K, 0.5, 1e-6, method="none"),
    "clip": Marginals(N, K, 0.5, 1e-6, method="clip"),
    "flattened": Marginals(N, 2, 0.5, 1e-6, method="flattened"),
    "sparse": Marginals(N, K, 0.5, 1e-6, sparsity=2),
    "largest": Marginals(N, K, 0.5, 1e-6, sparsity=2, method="largest"),
    "flat-sparse": Marginals(N, 2, 0.5, 1e-6, sparsity=2, method="flattened"),
}


def _some(*names):
    """Every spec, those not named as slow tests: each compiles a program of its own."""
    return [n if n in names else pytest.param(n, marks=pytest.mark.slow) for n in SPECS]


def users_of(spec):
    return ROWS if spec.sparsity is None else SPARSE


def population(spec, scale=1):
    rows = users_of(spec)
    return jaxdp.Population.from_histogram(COUNTS[: len(rows)] * scale, rows)


def answers_of(spec, rows, counts):
    """From the dense workload, which reads bit j of a value as feature j."""
    find = workloads.marginal if spec.queries == "marginals" else workloads.parity
    values = rows.astype(int) @ 2 ** np.arange(N)
    return find(N, spec.order)[:, values] @ (counts / counts.sum())


def test_noise_for_one_answer_is_not_private():
    """Negative control: the sensitivity of one marginal, not of all."""
    spec = SPECS["marginals"]
    weak = jaxdp.accounting.gaussian_sigma(spec.epsilon, spec.delta, 1.0)
    weak_delta = jaxdp.accounting.gaussian_delta(spec.epsilon, spec.sensitivity, weak)
    assert weak_delta > 1000 * spec.delta


@pytest.mark.parametrize("name", SPECS)
def test_truth_is_that_of_the_workload(name):
    spec = SPECS[name]
    rows = users_of(spec)
    counts = COUNTS[: len(rows)]
    expected = answers_of(spec, rows, counts)
    np.testing.assert_allclose(spec.truth(counts, rows), expected, atol=1e-12)
    law = counts / counts.sum()
    np.testing.assert_allclose(spec.population_truth(law, 9, rows), expected, atol=1e-12)


def test_tallies_count_users_exactly(rng):
    """Users one by one and at once give the same integers, those of the workload."""
    params = SPECS["none"].build().counts
    reports = ROWS > 0
    mask = rng.random(2**N) < 0.7
    marginals = workloads.marginal(N, K)
    found = jax.jit(params.tally)(reports, mask)
    np.testing.assert_array_equal(found.numpy(), marginals @ mask)
    large = COUNTS.astype(np.int64) * 10**12
    draw = jax.jit(lambda counts: params.sample_tally(jax.random.key(0), counts, ROWS))
    found = draw(Count.of(large))
    np.testing.assert_array_equal(found.numpy(), marginals.astype(np.int64) @ large)


def test_users_out_of_range_are_clamped():
    """NaN counts as 0, and of too many features the first ones stay."""
    value = jnp.array([1.0, jnp.nan, 0.9, 1.0, -3.0])
    dense, sparse = (SPECS[name].build().counts for name in ("none", "sparse"))
    assert dense.from_bits(None, value).tolist() == [True, False, True, True, False]
    assert sparse.from_bits(None, value).tolist() == [True, False, True, False, False]


@pytest.mark.parametrize("name", _some("parities", "sparse", "flat-sparse"))
def test_without_noise_the_release_is_the_truth(name):
    """A projection leaves data sets where they are."""
    spec = SPECS[name]
    rows = users_of(spec)
    counts = COUNTS[: len(rows)]
    tally = Count.of((workloads.marginal(N, spec.order) @ _histogram(rows, counts)).astype(int))
    params, noise = spec.build(), Count.zeros((spec.num_queries - 1,))
    with jax.enable_x64(True):
        release = jax.jit(lambda tally: params.release(params.perturb(tally, noise)))(tally)
    expected = answers_of(spec, rows, counts)
    np.testing.assert_allclose(release.noisy, expected, atol=1e-7)
    error = np.sum((np.asarray(release.answers) - expected) ** 2)
    norms = spec._row_norms(str(spec.noise)).sum()
    assert error <= float(release.gap) * norms + 1e-12
    assert bool(release.converged)


def _histogram(rows, counts):
    histogram = np.zeros(2**N)
    np.add.at(histogram, rows.astype(int) @ 2 ** np.arange(N), counts)
    return histogram


def releases(spec, rng, number):
    """Releases of one data set, of noise drawn anew each time."""
    rows = users_of(spec)
    counts = COUNTS[: len(rows)]
    tally = Count.of((workloads.marginal(N, spec.order) @ _histogram(rows, counts)).astype(int))
    params = spec.build()

    def release(key):
        noise = params.noise.draw(key, (spec.num_queries - 1,))
        return params.release(params.perturb(tally, noise))

    keys = jax.random.split(jax.random.key(int(rng.integers(2**31))), number)
    with jax.enable_x64(True):
        found = jax.jit(jax.vmap(release))(keys)
    found = jax.tree.map(np.asarray, found)
    return found, answers_of(spec, rows, counts), int(counts.sum())


@pytest.mark.parametrize("name", _some("none", "clip", "largest", "sparse"))
def test_errors_have_the_predicted_size(name, rng):
    """The noise has its law in every answer, and what is released its bounds."""
    spec = SPECS[name]
    found, truth, users = releases(spec, rng, 12 if spec.method == "moments" else 300)
    noise = np.asarray(found.noisy - truth)[:, 1:] / np.sqrt(spec.noise_variance(users)[1:])
    if spec.method != "moments":
        samples = noise.ravel() if spec.noise == spec.queries else noise[:, -1]
        stats.check_cdf(samples, laws.norm.cdf)
        stats.must_fail(stats.check_cdf, 5 * samples, laws.norm.cdf)  # 0.33 apart, 0.19 is seen
    errors = np.mean(np.asarray(found.answers - truth) ** 2, axis=0)
    bound = spec.variance([users])
    if spec.method not in ("none", "clip"):
        assert np.all(errors <= bound)
    if spec.method == "largest":
        assert errors.sum() <= spec.total_variance(users)
    assert np.all(bound <= spec.worst_case_variance(users))
    assert np.all(found.answers[:, 0] == 1)
    raw = np.mean(np.asarray(found.noisy - truth) ** 2, axis=0)
    if spec.method in ("clip", "moments") and spec.noise == spec.queries:
        assert errors.sum() <= raw.sum() + float(np.mean(found.gap))


@pytest.mark.parametrize("queries", ["marginals", "parities"])
def test_what_is_projected_is_noised_by_default(queries, rng):
    """In its own norm a projection on a convex set that holds the truth moves nothing away."""
    spec = Marginals(N, K, 0.5, 1e-6, queries=queries)
    assert spec.noise == queries
    assert Marginals(N, K, 0.5, 1e-6, queries=queries, method="none").noise == "parities"
    found, truth, _ = releases(spec, rng, 8)
    noisy, answers = (np.linalg.norm(x - truth, axis=1) for x in (found.noisy, found.answers))
    assert np.all(answers <= noisy + np.sqrt(found.gap) + 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("deviation", "factor"), [(0.1, 5), (0.3, 9)])
def test_odd_marginals_of_sparse_data_gain_much(deviation, factor, rng):
    """n = 10, k = 3: the summed squared error falls by 5 at 0.1 and by 9 at 0.3 noise per entry."""
    assert _gain(rng, 10, deviation, 0.15, "marginals") > factor


def test_uniform_parities_gain_nothing_at_little_noise(rng):
    """The truth is inside the set, away from its boundary; with much noise there is a gain."""
    assert _gain(rng, 8, 0.1, 0.5, "parities") < 1.4
    assert _gain(rng, 8, 0.3, 0.5, "parities") > 1.6


def _gain(rng, n, deviation, density, basis):
    """The summed squared error of the noisy answers over that of the projected ones."""
    spec = MomentSet(n, 3, basis)
    find = workloads.marginal if basis == "marginals" else workloads.parity
    users = (rng.random((500, n)) < density) @ 2 ** np.arange(n)
    truth = find(n, 3)[1:, users].mean(axis=1)
    before = after = 0.0
    with jax.enable_x64(True):
        for _ in range(2):
            noisy = truth + deviation * rng.normal(size=spec.shape)
            point = np.asarray(spec.project(noisy, tol=1e-2).point)
            before += np.sum((noisy - truth) ** 2)
            after += np.sum((point - truth) ** 2)
    return before / after


def test_conjunctions_and_tables_of_exact_answers():
    """With negations, in both bases, from the answers of a data set: its own shares."""
    law = COUNTS / COUNTS.sum()
    for name in ("none", "parities"):
        spec = SPECS[name]
        answers = spec.truth(COUNTS, ROWS)
        for chosen in itertools.permutations(range(N), K):
            table = spec.table(answers, chosen)
            expected = np.zeros([2] * K)
            np.add.at(expected, tuple(ROWS[:, f].astype(int) for f in chosen), law)
            np.testing.assert_allclose(table, expected, atol=1e-12)
        asked = [{}, {3: True}, {4: False, 0: True}, {1: 0, 2: 0, 3: 0}]
        shares = spec.conjunctions(np.stack([answers, answers]), asked)
        has = [np.ones(2**N, bool) for _ in asked]
        for query, found in zip(asked, has, strict=True):
            for feature, wanted in query.items():
                found &= ROWS[:, feature] == wanted
        np.testing.assert_allclose(shares, [[law @ h for h in has]] * 2, atol=1e-12)


@pytest.mark.slow
def test_consistency_tells_released_moments_from_noise():
    spec = Marginals(N, 2, 0.1, 1e-6, sparsity=2)
    release = spec.release(population(spec), jax.random.key(0))
    exact, good, bad = (
        dataclasses.astuple(spec.consistency(answers))
        for answers in (
            spec.truth(COUNTS[: len(SPARSE)], SPARSE),
            release.answers,
            release.noisy,
        )
    )
    assert min(exact) > -1e-12
    assert min(good[1:]) > -1e-12  # the cells of a table are not all known to be positive
    assert max(bad) < 0
    assert bool(release.converged)


def test_sparse_users_have_no_larger_sets(rng):
    """With t < k marginals of more than t features are 0 whatever the noise."""
    spec = MomentSet(4, 3, sparsity=1)
    with jax.enable_x64(True):
        point = np.asarray(spec.project(0.3 + 0.3 * rng.normal(size=spec.shape)).point)
    assert np.all(point[4:] == 0)
    assert 0 < point.sum() <= 1 + 1e-12


def test_guarantees_are_those_of_the_level():
    def of(order, **options):
        return Marginals(6, order, 1.0, 1e-6, **options)

    assert [of(k).guarantee for k in (1, 2, 3, 4)] == ["dense"] * 4
    assert [of(k).guaranteed_level for k in (1, 2, 3, 4, 5)] == [1, 1, 2, 2, 4]
    assert (of(5).guarantee, of(5).level) == ("none", 3)
    assert of(5, level=4).guarantee == "dense"
    sparse = of(3, sparsity=2)
    assert (sparse.guarantee, sparse.guaranteed_level) == ("sparse", 4)
    assert of(3, method="clip").guarantee == "none"


def test_bad_arguments():
    def make(**options):
        return Marginals(**{"num_features": N, "order": K, "epsilon": 1.0, "delta": 1e-6} | options)

    for options, name in (
        ({"num_features": 0}, "num_features"),
        ({"order": 6}, "order"),
        ({"order": 0}, "order"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"delta": float("nan")}, "delta"),
        ({"sparsity": 6}, "sparsity"),
        ({"sparsity": 0}, "sparsity"),
        ({"queries": "both"}, "queries"),
        ({"noise": "both"}, "noise"),
        ({"method": "exact"}, "method"),
        ({"method": "flattened"}, "order"),
        ({"method": "largest"}, "sparsity"),
        ({"method": "largest", "sparsity": 2, "queries": "parities"}, "queries"),
        ({"method": "none", "level": 2}, "level"),
        ({"level": 1}, "level"),
        ({"noise": "parities", "sparsity": 2}, "sparsity"),
        ({"tol": 0.0}, "tol"),
        ({"max_steps": 0}, "max_steps"),
        ({"num_features": 10_000, "method": "none"}, "bytes"),
        ({"num_features": 3000}, "bytes"),
    ):
        with pytest.raises(ValueError, match=name):
            make(**options)
    with pytest.raises(ValueError, match="features"):
        SPECS["none"].table(np.ones(26), (0, 0))
    with pytest.raises(ValueError, match="answers"):
        SPECS["none"].conjunctions(np.ones(3), [{0: 1}])


def test_users_that_do_not_fit_are_named():
    key = jax.random.key(0)
    for spec, rows, message in (
        (SPECS["sparse"], ROWS, "row 7 has 3"),
        (SPECS["none"], np.full((3, N), 0.5, np.float32), "row 0"),
        (SPECS["none"], np.full((3, N), 2, np.float32), r"\[0, 1\]"),
        (SPECS["none"], ROWS[:, :3], "shape"),
    ):
        with pytest.raises(ValueError, match=message):
            jaxdp.run(spec, jaxdp.Population.from_values(rows), key)
    with pytest.raises(ValueError, match="inputs"):
        SPECS["none"].truth(COUNTS)


def test_users_who_are_too_many_for_floats_are_added_in_parts(monkeypatch):
    params = MarginalCounts(N, K, None)
    reports = ROWS[np.arange(37) * 5 % 2**N] > 0.5
    mask = np.arange(37) % 3 > 0
    expected = params.tally(reports, mask).numpy()
    assert expected[0] == mask.sum()
    monkeypatch.setattr(_marginal_counts, "_MOST_ADDED", 4)
    np.testing.assert_array_equal(params.tally(reports, mask).numpy(), expected)
