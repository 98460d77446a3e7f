"""What others write from public names alone works wherever jaxdp's members of the family do."""

import ast
import functools
import importlib
import inspect
import math
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from public_names import (  # pyright: ignore[reportMissingImports]
    public_names,
    public_packages,
)

import jaxdp
from jaxdp import audit, linear, pairwise, testing, trusted, workloads
from jaxdp.random import Count, Stream
from jaxdp.randomizers import KRR, PrivUnitG, SubsetSelection
from jaxdp_kernels import randomize_and_tally
from jaxdp_kernels.threefry_words import StreamKey
from tests import stats
from tests.marks import slow
from tests.third_party import kernel, oracle, protocol, vector
from tests.third_party.kernel import CorrelationIntegral
from tests.third_party.oracle import PaleyResponse
from tests.third_party.protocol import TwoRoundCollision, UnrelatedQuestion
from tests.third_party.vector import CoordinateSampling

MODULES = (oracle, vector, kernel, protocol)
PACKAGES = frozenset(public_packages())

ORACLE = PaleyResponse(num_values=6, epsilon=1.0)
VECTOR = CoordinateSampling(dim=3, epsilon=2.0, radius=2.0)
KERNEL = CorrelationIntegral(radius=1.0)
QUESTION = UnrelatedQuestion(asked=0.6, innocent=0.3)
COLLISION = TwoRoundCollision(num_values=3, epsilon=3.0)

COUNTS = np.array([20, 60, 10, 0, 30, 40])
BINS = jaxdp.Population.from_histogram(COUNTS)
POINTS = np.array([[2, 0, 0], [0, -1, 1], [0.3, 0.3, 0.3], [0, 0, 0]], np.float32)
VECTORS = jaxdp.Population.from_histogram([20, 70, 40, 10], POINTS)
ANSWERS = jaxdp.Population.from_histogram([150, 50])
THREE = jaxdp.Population.from_histogram([60, 30, 10])


# --- Only public names.


def not_public(source: str) -> Iterator[str]:
    """What a file takes from jaxdp that its public packages do not list."""

    def is_ours(module: str | None) -> bool:
        return (module or "").split(".")[0] in ("jaxdp", "jaxdp_kernels")

    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
            yield from (name for name in modules if is_ours(name) and name not in PACKAGES)
        elif isinstance(node, ast.ImportFrom) and (node.level or is_ours(node.module)):
            for alias in node.names:
                if not is_listed(node.module or ".", alias.name):
                    yield f"{node.module}.{alias.name}"


def is_listed(package: str, name: str) -> bool:
    """Whether a public package exports a name, or is the parent of a public package."""
    if package not in PACKAGES:
        return False
    exported = getattr(importlib.import_module(package), "__all__", ())
    return f"{package}.{name}" in PACKAGES or name in exported or name in public_names(package)


def private_attributes(source: str) -> Iterator[str]:
    """Attributes with an underscore that a file reads, and does not define."""
    tree = ast.parse(source)
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    yield from (name for name in names - defined if is_private(name))


def overridden(cls: type) -> Iterator[str]:
    """Names with an underscore that a class gives, and a base of it has."""
    bases = {name for base in cls.__mro__[1:] for name in vars(base)} - {"_abc_impl"}
    yield from (name for name in vars(cls) if is_private(name) and name in bases)


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.split(".")[-1])
def test_only_public_names(module):
    """They import no private module and no name that is not listed, and use and override none."""
    source = inspect.getsource(module)
    assert list(not_public(source)) == []
    assert list(private_attributes(source)) == []
    for _, cls in inspect.getmembers(module, inspect.isclass):
        if cls.__module__ == module.__name__:
            assert list(overridden(cls)) == [], cls


@pytest.mark.parametrize(
    "line",
    [
        "import jaxdp._contract",
        "import jaxdp.randomizers._support",
        "from jaxdp import _contract",
        "from jaxdp._contract import Round",
        "from jaxdp.randomizers._support import SupportOracle",
        "from jaxdp.randomizers import BinRandomizer",
        "from jaxdp_kernels._dispatch import pick",
        "from ..randomizers import x",
    ],
)
def test_private_names_are_seen(line):
    assert len(list(not_public(line))) == 1


def test_public_names_pass():
    lines = "import jax, jaxdp, jaxdp.randomizers\nfrom jaxdp.engine import checks, Round\n"
    assert list(not_public(lines + "from jaxdp import Population, linear")) == []


def test_private_attributes_and_overrides_are_seen():
    """`_owned` is defined by nobody here; `_sum`, which jaxdp's vector rounds give, by a base."""

    class Base:
        def _sum(self) -> int:
            return 0

    class Derived(Base):
        def _sum(self) -> int:
            return 1

        def _mine(self) -> int:
            return 2

    source = "def _mine(x): ...\nself._mine(self._owned(x=1))"
    assert list(private_attributes(source)) == ["_owned"]
    assert list(overridden(Derived)) == ["_sum"]


# --- Exact facts.


def test_privacy_is_exact():
    """The audits enumerate the channels, of 8-bit words too."""
    for spec in (ORACLE, PaleyResponse(100, 0.2), VECTOR, CoordinateSampling(16, 4.0)):
        assert audit.exact_epsilon(spec) == spec.exact_epsilon()
        assert 0.999 * spec.epsilon < spec.exact_epsilon() <= spec.epsilon
    assert audit.exact_epsilon(COLLISION) <= COLLISION.epsilon
    twin = QUESTION.build(word_bits=8)
    assert audit.exact_epsilon(twin, inputs=[0, 1]) == QUESTION.exact_epsilon(word_bits=8)


def test_paley_response_is_a_block_design():
    """On all values it has the errors of subsets of the same size, which are optimal."""
    paley, subsets = PaleyResponse(11, 0.2), SubsetSelection(11, 0.2, subset_size=5)
    counts = np.arange(11)
    np.testing.assert_allclose(paley.variance(counts), subsets.variance(counts), rtol=1e-5)


def test_errors_of_queries_follow_from_the_reports():
    """The mean and variance of one user's answers, over all its reports, are those predicted."""
    queries = linear.OracleQueries(workloads.prefix(6), ORACLE)
    table = np.array(ORACLE.channel(), np.float64)
    params, alone = queries.build(), Count.of(np.eye(table.shape[1], dtype=np.int64))
    with jax.enable_x64(True):
        answers = np.asarray(jax.vmap(params.estimate)(alone))
    mean = table @ answers
    np.testing.assert_allclose(mean.T, queries.matrix(), atol=1e-9)
    predicted = queries.contributions()[1]
    np.testing.assert_allclose((table @ answers**2 - mean**2).T, predicted, rtol=1e-7, atol=1e-7)


def test_moments_of_vector_noise_follow_from_the_reports():
    """`E[z^T D z z]` and `Var[z^T D z]` over all reports, which V-forms ask for."""
    weights = np.array([[1.0, 0.5, 0.0], [0.5, -2.0, 0.3], [0.0, 0.3, 0.7]])
    table = np.array(VECTOR.channel(inputs=POINTS), np.float64)
    decoded = np.asarray(VECTOR.build().decode(jnp.arange(table.shape[1], dtype=jnp.int32)))
    noise = decoded.astype(np.float64) - POINTS[:, None]
    squares = np.einsum("kri,ij,krj->kr", noise, weights, noise)
    moments = VECTOR.self_moments(POINTS.astype(np.float64), weights)
    third = np.einsum("kr,kr,kri->ki", table, squares, noise)
    np.testing.assert_allclose(moments.third, third, rtol=1e-4, atol=1e-3)
    fourth = np.sum(table * squares**2, axis=1) - np.sum(table * squares, axis=1) ** 2
    np.testing.assert_allclose(moments.fourth, fourth, rtol=1e-5)


def test_kernel_on_a_grid():
    """Averages and extremes are those of many points in each bin."""
    grid = pairwise.Grid((0.5, 1.25, 2.0), 0.0, 3.0)
    ends = grid.points.astype(np.float64)
    inside = ends[:-1, None] + np.diff(ends)[:, None] * (np.arange(200) + 0.5) / 200
    values = KERNEL(inside[:, None, :, None], inside[None, :, None, :])
    np.testing.assert_allclose(KERNEL.average(grid), values.mean(axis=(2, 3)), atol=0.01)
    low, high = KERNEL.extremes(grid)
    assert np.all(low <= values.min(axis=(2, 3)))
    assert np.all(high >= values.max(axis=(2, 3)))
    assert KERNEL.of_counts([2, 1, 0, 1]) == 3 / 6


# --- Runs, audits, kernels.


@pytest.mark.parametrize(
    ("spec", "users"),
    [(ORACLE, BINS), (VECTOR, VECTORS), (QUESTION, ANSWERS), slow(COLLISION, THREE)],
    ids=lambda value: type(value).__name__,
)
def test_variance_on_both_paths(spec, users, key):
    """On each path estimates have the target for their mean, and the predicted variance."""
    predicted = np.ravel(spec.variance(users.counts().numpy(), users.inputs))
    truth = np.ravel(spec.truth(users.counts().numpy(), users.inputs))
    for method in ("per_user", "tally"):
        trials = jaxdp.simulate(spec, users, key, num_trials=1500, method=method)
        estimates = trials.estimates.reshape(1500, -1)
        stats.check_mean(estimates, truth, variance=predicted)
        stats.check_variance(estimates, predicted, mean=truth, kurtosis=6.0)
        moved, wide = estimates + 0.3 * predicted**0.5, truth + 1.6 * (estimates - truth)
        stats.must_fail(stats.check_mean, moved, truth, variance=predicted)
        stats.must_fail(stats.check_variance, wide, predicted, mean=truth, kurtosis=6.0)


def test_two_rounds_run(key):
    """Within six standard deviations of the target."""
    estimate = jaxdp.run(COLLISION, THREE, key)
    counts = THREE.counts().numpy()
    assert abs(estimate - COLLISION.truth(counts)) < 6 * COLLISION.variance(counts) ** 0.5


def test_trial_is_a_run(key):
    """Bit for bit."""
    trials = jaxdp.simulate(ORACLE, BINS, key, num_trials=1500, method="per_user")
    alone = jaxdp.run(ORACLE, BINS, jax.random.fold_in(key, 3), method="per_user")
    np.testing.assert_array_equal(trials.estimates[3], alone)


@pytest.mark.parametrize("spec", [ORACLE, slow(VECTOR)], ids=lambda spec: type(spec).__name__)
def test_lower_bound_on_epsilon(spec, key):
    """From reports alone the audit proves most of epsilon, and no more than it."""
    report = audit.estimate_epsilon(spec, key, num_samples=50_000)
    assert 0.7 * spec.epsilon < report.epsilon_lower <= spec.epsilon
    assert not report.violates
    assert not report.biased


@pytest.mark.slow
def test_lower_bound_on_the_epsilon_of_params(key):
    """Params that are no randomizer's are audited by their reports too."""
    claim = QUESTION.exact_epsilon()
    report = audit.estimate_epsilon(QUESTION.build(), key, 50_000, inputs=[0, 1], epsilon=claim)
    assert 0.7 * claim < report.epsilon_lower <= claim


@pytest.mark.parametrize("spec", [ORACLE, slow(VECTOR)], ids=lambda spec: type(spec).__name__)
def test_tally_is_its_definition(spec, key):
    """The operation of `jaxdp_kernels` makes the tally that its definition makes, bit for bit."""
    params, stream = spec.build(), StreamKey.of(jax.random.fold_in(key, Stream.ROUND))
    bins = np.arange(3000, dtype=np.int32) % 4
    values = jnp.asarray(bins if spec is ORACLE else POINTS[bins])
    arguments = stream, jnp.zeros(2, jnp.uint32), None, values, jnp.asarray(bins != 1)
    fast, slow = (
        jax.jit(functools.partial(randomize_and_tally, implementation=name))(params, *arguments)
        for name in ("xla", "ref")
    )
    jax.tree.map(np.testing.assert_array_equal, fast, slow)


# --- Wherever members of the family go.

OF_ORACLES = {
    "histogram": lambda: linear.HistogramQuery(ORACLE),
    "queries": lambda: linear.OracleQueries(workloads.prefix(6), ORACLE),
    "hierarchy": lambda: linear.HierarchicalQueries(
        workloads.prefix(6), 1.0, branching=2, oracle=PaleyResponse
    ),
    "statistic": lambda: pairwise.OracleStatistic(KERNEL, ORACLE),
    "statistic, v": lambda: pairwise.OracleStatistic(KERNEL, ORACLE, form="v"),
}
OF_VECTORS = {
    "factorized": lambda: linear.FactorizedQueries(
        workloads.prefix(6), 1.0, randomizer=CoordinateSampling
    ),
    "columns": lambda: linear.ColumnQueries(
        workloads.prefix(6), 1.0, randomizer=CoordinateSampling
    ),
    "one report": lambda: pairwise.OneReport(KERNEL, 1.0, 6, randomizer=CoordinateSampling),
    "one report, v": lambda: pairwise.OneReport(
        KERNEL, 1.0, 6, form="v", randomizer=CoordinateSampling
    ),
    "two reports": lambda: pairwise.TwoReport(KERNEL, 1.0, 6, randomizer=CoordinateSampling),
    "two reports, v": lambda: pairwise.TwoReport(
        KERNEL, 1.0, 6, form="v", randomizer=CoordinateSampling
    ),
}
OF_KERNELS = {
    "quantized": lambda: pairwise.QuantizedRR(KERNEL, 1.0, 6),
    "all pairs": lambda: trusted.AllPairs(KERNEL, 1.0, num_users=160, num_values=6),
    "pair sampling": lambda: trusted.PairSampling(KERNEL, 1.0, num_values=6),
}
BOUNDED = {
    "one step": lambda: pairwise.OneStep(KERNEL, 1.0, 6, randomizer=CoordinateSampling),
    "two rounds": lambda: pairwise.TwoRound(KERNEL, 1.0, 6),
    "three rounds": lambda: pairwise.ThreeRound(KERNEL, 1.0, 6, randomizer=CoordinateSampling),
}
"""Protocols whose `variance` is a bound."""

EVERYWHERE = OF_ORACLES | OF_VECTORS | OF_KERNELS | BOUNDED


@pytest.mark.parametrize("make", EVERYWHERE.values(), ids=EVERYWHERE)
def test_errors_are_predicted_everywhere(make):
    """Each protocol is made, is as private as asked for, and predicts its errors."""
    spec = make()
    assert 0 < spec.exact_epsilon() <= 1.0
    here, worst = spec.variance(COUNTS), spec.worst_case_variance(int(COUNTS.sum()))
    assert np.all(np.isfinite(here))
    assert np.all(here <= worst * (1 + 1e-9))
    assert np.max(here) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERYWHERE)
def test_variance_is_as_predicted_everywhere(name, key):
    """On all paths that a protocol has."""
    checks = ["variance_is_as_predicted"]
    testing.check_protocol(EVERYWHERE[name](), BINS, checks=checks, key=key, num_trials=2000)


def test_tally_is_drawn_wherever_it_can_be():
    """What needs sums of squares, or moments of the noise, asks the randomizer for them."""
    for name in (*OF_ORACLES, "factorized", "columns", "one report", "one report, v"):
        assert EVERYWHERE[name]().build().law is not None, name


# --- Rankings.


def test_ranked_among_linear_protocols():
    """Candidates by name, a function of the workload and epsilon among them, and in a sequence."""
    ranking = linear.best(
        workloads.identity(11),
        10_000,
        0.2,
        candidates={
            "Paley": PaleyResponse(11, 0.2),
            "subsets": SubsetSelection(11, 0.2, subset_size=5),
            "randomized response": KRR(11, 0.2),
            "vectors": lambda workload, epsilon: linear.FactorizedQueries(
                workload, epsilon, randomizer=CoordinateSampling
            ),
        },
        defaults=False,
    )
    errors = {entry.name: entry.max_error for entry in ranking.entries}
    assert set(errors) == {"Paley", "subsets", "randomized response", "vectors"}
    assert math.isclose(errors["Paley"], errors["subsets"], rel_tol=1e-5)
    assert errors["Paley"] < errors["randomized response"]
    alone = linear.best(
        workloads.prefix(6), 1000, 1.0, candidates=[ORACLE], defaults=False
    ).entries[0]
    assert alone.name == "PaleyResponse, candidate 1"
    assert alone.protocol == OF_ORACLES["queries"]()


@pytest.mark.slow
def test_ranked_among_all_linear_protocols():
    """A design with as few reports as values comes close to the best there is for small epsilon."""
    ranking = linear.best(
        workloads.identity(11), 10_000, 0.2, candidates=[PaleyResponse(11, 0.2)], objective="mean"
    )
    place = next(e for e in ranking.entries if e.name == "PaleyResponse, candidate 1")
    assert place.mean_error <= ranking.entries[0].mean_error * (1 + 1e-5)


def test_ranked_among_statistics():
    """The oracle and the protocol of the vector randomizer, for the kernel."""
    ranking = pairwise.best(
        KERNEL,
        10_000,
        1.0,
        num_values=6,
        candidates={
            "Paley": ORACLE,
            "randomized response": KRR(6, 1.0),
            "coordinates": lambda kernel, epsilon: pairwise.OneReport(
                kernel, epsilon, 6, randomizer=CoordinateSampling
            ),
            "vectors": lambda kernel, epsilon: pairwise.OneReport(
                kernel, epsilon, 6, randomizer=PrivUnitG
            ),
        },
        defaults=False,
    )
    errors = {entry.name: entry.error for entry in ranking.entries}
    assert ranking.refused == ()
    assert errors["Paley"] == OF_ORACLES["statistic"]().worst_case_variance(10_000)
    assert errors["vectors"] < errors["coordinates"]


# --- The contracts.

EXACT_CHECKS = (
    "channel_is_private",
    "words_follow_the_channel",
    "estimator_inverts_the_channel",
    "variance_is_that_of_the_channel",
    "bad_fields_are_refused",
    "bad_counts_are_refused",
    "traced_epsilon_is_refused",
    "specs_are_values",
    "budget_is_spent",
    "hostile_values_are_moved_into_the_domain",
)


@pytest.mark.parametrize(
    ("spec", "users"), [(ORACLE, BINS), (VECTOR, VECTORS)], ids=["oracle", "vector"]
)
def test_contract_of_randomizers(spec, users, key):
    """The exact checks; a randomizer that is a little less private than it says is caught."""
    testing.check_randomizer(spec, users, checks=EXACT_CHECKS, key=key)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "users"), [(ORACLE, BINS), (VECTOR, VECTORS)], ids=["oracle", "vector"]
)
def test_whole_contract_of_randomizers(spec, users, key):
    testing.check_randomizer(spec, users, key=key, num_trials=2000)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "users"), [(QUESTION, ANSWERS), (COLLISION, THREE)], ids=["one round", "two rounds"]
)
def test_whole_contract_of_protocols(spec, users, key):
    testing.check_protocol(spec, users, key=key, num_trials=2000)


def test_a_wrong_oracle_is_caught(key):
    """One word in 2**32 too many for the reports that support a value."""

    class Greedy(PaleyResponse):
        __slots__ = ()

        def shares(self, word_bits: int) -> tuple[int, int]:
            high, low = PaleyResponse.shares(self, word_bits)
            d = self.num_places // 2
            return high + (d + 1), low - d

    with pytest.raises(AssertionError, match="channel_is_private: a ratio"):
        testing.check_randomizer(Greedy(6, 1.0), BINS, checks=["channel_is_private"], key=key)
