"""Queries chosen from earlier answers: one law on every path, exact predictions, no overfitting."""

import dataclasses
import functools
import itertools
import math
import pickle
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp.linear import AdaptiveQueries, QueryError
from jaxdp.linear._adaptive_queries import mean_inverse
from jaxdp.population import RoundSource
from jaxdp.random import Count
from jaxdp.sweep._fingerprint import fingerprint
from jaxdp_experiments.adaptive import ATTACKS, EXPERIMENT, FIXED, Contest, Overfitter
from tests import stats
from tests.marks import slow

FIRST = np.array([1.0, -0.5], np.float32)
SECOND = np.array([[0.25, 1.0], [-1.0, 0.0]], np.float32)


def follow(round, answers):
    """Two rounds; the second query depends on the sign of the first answer. For both paths."""
    seen = jnp.where(answers[0] > 0, SECOND[1], SECOND[0])
    return jnp.where(round == 0, FIRST, seen)


def follow_on_host(round, answers):
    assert isinstance(round, int)
    assert answers.shape == (2,)
    assert answers.dtype == np.float64
    assert not answers[round:].any()
    return FIRST if round == 0 else SECOND[int(answers[0] > 0)]


HOST = AdaptiveQueries(2, 1.0, 2, follow_on_host)
TRACED = AdaptiveQueries(2, 1.0, 2, follow, traceable=True)


@functools.cache
def chances(value):
    """The probabilities of a user's two reports."""
    return [float(p) for p in TRACED.randomizer.channel(inputs=[value])[0]]


def law(users):
    """The exact law of the two answers over B, as {(y_0, y_1): probability}.

    Args:
      users: tuples of the users' values, with their probabilities.
    """
    found = {}
    for values, weight in users:
        n = len(values)
        for joined, reports in itertools.product(itertools.product((0, 1), repeat=n), repeat=2):
            answers = [Fraction(0)] * 2
            for t in (0, 1):
                said = [2 * b - 1 for b, j in zip(reports, joined, strict=True) if j == t]
                answers[t] = Fraction(sum(said), max(len(said), 1))
            queries = FIRST, SECOND[int(answers[0] > 0)]
            p = weight / 2**n
            for value, t, b in zip(values, joined, reports, strict=True):
                p *= chances(queries[t][value])[b]
            found[tuple(answers)] = found.get(tuple(answers), 0.0) + p
    return found


P = (0.25, 0.75)
USERS = {
    "given": [((0, 1, 1), 1.0)],
    "drawn": [(v, math.prod(P[x] for x in v)) for v in itertools.product((0, 1), repeat=3)],
}


@pytest.mark.parametrize(
    ("method", "kind", "truth"),
    [
        ("per_user", "given", None),
        slow("tally", "given", None),
        ("tally", "drawn", None),
        slow("tally", "drawn", "sample"),
        slow("per_user", "drawn", "sample"),
    ],
)
def test_three_users_in_two_rounds(method, kind, truth, key):
    """The joint law of the answers is the enumerated one, on every path, and the host's bits too.

    30,000 trials: a probability of 0.1 that is off by 0.015 is detected.
    """
    population = {
        "given": lambda: jaxdp.Population.from_values([0, 1, 1], num_values=2),
        "drawn": lambda: jaxdp.Population.from_distribution(P, 3),
    }[kind]()
    options = dict(method=method, truth=truth)
    trials = jaxdp.simulate(TRACED, population, key, num_trials=30_000, **options)
    expected = law(USERS[kind])
    index = {place: i for i, place in enumerate(expected)}
    relative = trials.estimates / TRACED.randomizer.magnitude
    counts = np.zeros(len(index), int)
    for row, times in zip(*np.unique(relative.round(6), axis=0, return_counts=True), strict=True):
        counts[index[tuple(Fraction(y).limit_denominator(3) for y in row)]] += times
    stats.check_multinomial(counts, list(expected.values()))
    wrong = law(USERS["given" if kind == "drawn" else "drawn"])
    stats.must_fail(stats.check_multinomial, counts, [wrong.get(y, 0.0) for y in expected])

    asked = SECOND[(trials.estimates[:, 0] > 0).astype(int)]
    if truth is None:
        p = np.array(P if kind == "drawn" else (1 / 3, 2 / 3))
        aims = np.stack([np.full(30_000, FIRST @ p), asked @ p], axis=1)
        np.testing.assert_allclose(trials.truth, aims, rtol=1e-6)
    else:
        assert len(set(trials.truth[:, 0])) == 4  # as many as there are samples

    host = jaxdp.simulate(HOST, population, key, num_trials=3, **options)
    np.testing.assert_array_equal(host.estimates, trials.estimates[:3])
    np.testing.assert_allclose(host.truth, trials.truth[:3], rtol=1e-12)
    for t in range(3):
        script = HOST.transcript(population, jax.random.fold_in(key, t), method=method)
        if (method, truth) != ("tally", "sample"):  # which draws the sample first
            np.testing.assert_array_equal(script.answers, host.estimates[t])
            np.testing.assert_array_equal(script.queries, [FIRST, asked[t]])
        assert script.users.sum() == 3


@pytest.mark.parametrize("method", ["per_user", "tally"])
def test_nothing_is_compiled_for_a_round_or_an_analyst(method, key, count_compilations):
    population = jaxdp.Population.from_histogram([300, 500])
    answers = jaxdp.run(HOST, population, key, method=method)
    assert answers.dtype == np.float64
    script = HOST.transcript(population, key, method=method)
    np.testing.assert_array_equal(script.answers, answers)
    assert script.users.sum() == 800
    truth = script.queries @ np.array([300, 500]) / 800
    np.testing.assert_allclose(script.truth([300, 500]), truth, rtol=1e-6)
    assert script.max_error([3, 5]) == pytest.approx(np.abs(answers - truth).max())
    other = AdaptiveQueries(2, 2.0, 2, lambda round, answers: np.array([round, -1.0]))
    few = jaxdp.Population.from_histogram([30, 7])
    with count_compilations() as seen:
        jaxdp.run(other, few, key, method=method)
        trials = jaxdp.simulate(HOST, population, key, num_trials=2, method=method)
    assert [name for name in seen.compiled if name in ("_collect", "_answer")] == []
    script = HOST.transcript(population, jax.random.fold_in(key, 1), method=method)
    np.testing.assert_array_equal(trials.estimates[1], script.answers)
    assert trials.max_error[1] == pytest.approx(script.max_error([300, 500]))
    with pytest.raises(ValueError, match="truth must have the shape"):
        jaxdp.simulate(HOST, few, key, num_trials=1, method=method, truth=[1.0, 2.0, 3.0])


def test_inside_jit_and_vmap(key):
    population = jaxdp.Population.from_values([0, 1, 1], num_values=2)
    keys = jax.vmap(lambda t: jax.random.fold_in(key, t))(jnp.arange(3))
    alone = np.stack([jaxdp.run(HOST, population, k, method="per_user") for k in keys])
    inside = jax.vmap(lambda k: jaxdp.run(TRACED, population, k, method="per_user"))(keys)
    assert inside.dtype == np.float32
    np.testing.assert_allclose(inside, alone, rtol=1e-6)
    with pytest.raises(TypeError, match="traceable=True"):
        jax.jit(lambda k: jaxdp.run(HOST, population, k))(key)


# Predictions


def exact_error(protocol, values, query):
    """The mean squared error of round 0 about the users at hand, by enumeration."""
    truth = np.mean([query[v] for v in values])
    d, total = protocol.num_rounds, 0.0
    bit = protocol.randomizer
    chances = [float(bit.channel(inputs=[query[v]])[0][1]) for v in values]
    for joined in itertools.product((False, True), repeat=len(values)):
        p = math.prod(1 / d if j else 1 - 1 / d for j in joined)
        group = [c for c, j in zip(chances, joined, strict=True) if j]
        for reports in itertools.product((0, 1), repeat=len(group)):
            q = math.prod(c if b else 1 - c for c, b in zip(group, reports, strict=True))
            answer = bit.magnitude * (2 * np.mean(reports) - 1) if group else 0.0
            total += p * q * (answer - truth) ** 2
    return total


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_variances_are_those_of_enumeration(rounds):
    protocol = AdaptiveQueries(3, 0.7, rounds, follow, bound=2.0)
    queries = np.array([[2.0, -1.0, 0.3], [0.0, 0.0, 0.0], [-2.0, -2.0, -2.0]], np.float32)
    for values in [(0,), (0, 1), (2, 2, 0, 1)]:
        expected = [exact_error(protocol, values, query) for query in queries]
        counts = np.bincount(values, minlength=3)
        np.testing.assert_allclose(protocol.variance(counts, queries), expected, rtol=1e-6)
    p = np.array([0.5, 0.3, 0.2])
    tuples = list(itertools.product(range(3), repeat=3))
    for query in queries:  # about the distribution: the error about the sample and the sample's
        errors = [protocol.variance(np.bincount(v, minlength=3), query) for v in tuples]
        weights = [math.prod(p[x] for x in v) for v in tuples]
        means = np.array([np.mean(query[list(v)]) for v in tuples])
        empty = (1 - 1 / rounds) ** 3
        # An answer is unbiased for the sample but where it is 0, so that cross terms are known.
        cross = -2 * empty * means * (means - query @ p)
        expected = np.dot(weights, np.array(errors) + (means - query @ p) ** 2 + cross)
        assert protocol.population_variance(p, 3, query) == pytest.approx(expected, rel=1e-6)
        assert expected <= protocol.worst_case_variance(3) * (1 + 1e-9)
    zero = protocol.population_variance(p, 3, queries[1])
    nothing = protocol.bound**2 * (1 - 1 / rounds) ** 3
    assert protocol.worst_case_variance(3) == pytest.approx(zero + nothing, rel=1e-6)


@pytest.mark.parametrize("p", [1.0, 0.5, 0.01, 1e-4])
@pytest.mark.parametrize("n", [1, 7, 3000])
def test_mean_inverse_is_the_sum(n, p):
    m = np.arange(1, n + 1)
    logs = np.array([math.lgamma(n + 1) - math.lgamma(x + 1) - math.lgamma(n - x + 1) for x in m])
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = np.where(m == n, 0.0, (n - m) * np.log1p(-p))
    expected = np.sum(np.exp(logs + m * np.log(p) + rest) / m)
    inverse, empty = mean_inverse(n, p)
    assert inverse == pytest.approx(expected, rel=1e-9)
    assert empty == pytest.approx((1 - p) ** n, rel=1e-11)


@pytest.mark.parametrize("p", [0.9, 0.3, 1e-9])
def test_mean_inverse_sum_and_series_meet(p):
    """On both sides of a mean of 1,000, a smooth function: its second difference is as expected."""
    n = round(1000 / p)
    step = max(n // 200, 1)
    values = [mean_inverse(n + i * step, p)[0] * (n + i * step) * p for i in (-2, -1, 0, 1)]
    assert abs(np.diff(values, 3)[0]) < 1e-9
    assert mean_inverse(2**53, p)[0] * p * 2**53 == pytest.approx(1 + (1 - p) / (p * 2**53))


# Rounds


@pytest.mark.parametrize("num_rounds", [5, 2**16])
def test_every_user_is_in_one_round(num_rounds, key):
    base = jaxdp.Population.from_values(np.zeros(300, np.int32), num_values=1).source
    rounds = np.arange(5) * (num_rounds // 5)

    @jax.jit
    @jax.vmap
    def members(round):
        source = RoundSource(base, key, round, num_rounds)
        return source.reader(300, Count.zeros(), tiled=True)(Count.zeros())[1]

    assign = jaxdp.random.stream(key, jaxdp.random.Stream.ASSIGN)
    word = np.asarray(jaxdp.random.words(assign, Count.zeros(), 300, 1)[0])
    joined = word.astype(np.uint64) * np.uint64(num_rounds) >> np.uint64(32)
    found = np.asarray(members(rounds.astype(np.int32)))
    np.testing.assert_array_equal(found, joined[None, :] == rounds[:, None])


@pytest.mark.slow
def test_drawn_rounds_share_all_users_and_are_multinomial(key):
    """Two users of one value and one of another over three rounds, 20,000 draws of all rounds."""
    base = jaxdp.Population.from_histogram([2, 0, 1]).source

    def draw(key):
        one = jax.vmap(lambda r: RoundSource(base, key, r, 3).counts())
        return one(jnp.arange(3, dtype=jnp.int32))

    found = jax.jit(jax.vmap(draw))(jax.random.split(key, 20_000)).numpy()
    np.testing.assert_array_equal(found.sum(axis=1), np.tile([2, 0, 1], (20_000, 1)))
    code = found[:, 0, 0] * 9 + found[:, 1, 0] * 3 + np.argmax(found[:, :, 2], axis=1)
    expected = np.zeros(27)
    for a, b, c in itertools.product(range(3), repeat=3):
        expected[9 * ((a == 0) + (b == 0)) + 3 * ((a == 1) + (b == 1)) + c] += 1 / 27
    counts = np.bincount(code, minlength=27)
    stats.check_multinomial(counts, expected)
    stats.must_fail(stats.check_multinomial, counts, np.roll(expected, 1))


# Bad input


def ask(query):
    """An analyst whose third query is this one."""
    return lambda round, answers: query if round == 2 else np.zeros(2)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (np.zeros(3), r"shape \(2,\).*got \(3,\)"),
        (0.5, r"shape \(2,\).*got \(\)"),
        ([0.0, np.nan], r"\[-1, 1\], got nan at value 1"),
        ([0.0, -np.inf], "got -inf at value 1"),
        ([1.001, 0.0], "got 1.00.* at value 0"),
        ([1j, 0.0], "complex"),
        (["a", "b"], "real numbers"),
    ],
)
def test_a_bad_query_names_its_round_and_keeps_the_answers(query, message, key):
    protocol = AdaptiveQueries(2, 1.0, 4, ask(query))
    population = jaxdp.Population.from_histogram([300, 500])
    good = dataclasses.replace(protocol, analyst=ask(np.zeros(2)))
    answers = jaxdp.run(good, population, key, method="per_user")
    for attempt in (
        lambda: jaxdp.run(protocol, population, key, method="per_user"),
        lambda: protocol.transcript(population, key, method="per_user"),
    ):
        with pytest.raises(QueryError, match=f"round 2.*{message}") as caught:
            attempt()
        np.testing.assert_array_equal(caught.value.answers, answers[:2])
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    np.testing.assert_array_equal(again.answers, answers[:2])


def test_a_traced_query_is_made_one(key):
    """Wrong values are projected, as what was asked tells; a wrong shape raises."""
    wrong = np.array([np.nan, 7.0], np.float32)
    population = jaxdp.Population.from_histogram([300, 500])
    protocol = AdaptiveQueries(2, 1.0, 2, lambda round, answers: wrong, bound=2.0, traceable=True)
    script = protocol.transcript(population, key, method="per_user")
    np.testing.assert_array_equal(script.queries, [[0.0, 2.0]] * 2)
    short = AdaptiveQueries(2, 1.0, 2, lambda round, answers: answers[:1], traceable=True)
    with pytest.raises(ValueError, match=r"shape \(2,\).*got \(1,\)"):
        jaxdp.run(short, population, key)


def test_analysts_cannot_change_the_answers(key):
    def vandal(round, answers):
        answers[:] = 1e9
        return np.zeros(2)

    population = jaxdp.Population.from_histogram([300, 500])
    protocol = AdaptiveQueries(2, 1.0, 2, vandal)
    assert np.abs(jaxdp.run(protocol, population, key, method="per_user")).max() < 1e3


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"num_values": 0}, ValueError, "num_values"),
        ({"epsilon": -1.0}, ValueError, "epsilon"),
        ({"num_rounds": 0}, ValueError, "num_rounds"),
        ({"num_rounds": 2**16 + 1}, ValueError, "num_rounds"),
        ({"num_rounds": 2.0}, TypeError, "num_rounds"),
        ({"bound": 0.0}, ValueError, "bound"),
        ({"analyst": None}, TypeError, "analyst must be a function"),
        ({"analyst": np.vectorize(abs)}, None, ""),
        ({"traceable": 1}, TypeError, "traceable"),
    ],
)
def test_bad_arguments(change, error, message):
    if error is None:
        assert dataclasses.replace(HOST, **change)
        return
    with pytest.raises(error, match=message):
        dataclasses.replace(HOST, **change)


def test_an_analyst_that_cannot_be_hashed():
    @dataclasses.dataclass
    class Stateful:
        seen: list

        def __call__(self, round, answers):
            return np.zeros(2)

    with pytest.raises(TypeError, match="analyst must be hashable"):
        AdaptiveQueries(2, 1.0, 2, Stateful([]))


def test_bad_users_and_queries(key):
    with pytest.raises(ValueError, match="num_values"):
        jaxdp.run(HOST, jaxdp.Population.from_histogram([1, 2, 3]), key)
    with pytest.warns(UserWarning, match="num_rounds = 2 rounds share 1 users"):
        answers = jaxdp.run(HOST, jaxdp.Population.from_histogram([0, 1]), key, method="per_user")
    assert 0.0 in answers
    with pytest.raises(ValueError, match="num_values = 2"):
        HOST.variance([1, 2], [[1.0, 2.0, 3.0]])
    with pytest.raises(ValueError, match="num_values = 2"):
        HOST.variance([1, 2, 3], [1.0, 0.0])
    with pytest.raises(ValueError, match=r"queries must be in \[-1, 1\]"):
        HOST.population_variance([0.5, 0.5], 10, [1.0, np.nan])
    with pytest.raises(TypeError, match="queries"):
        HOST.variance([1, 2], None)
    with pytest.raises(ValueError, match="probabilities"):
        HOST.population_variance([0.5, -0.5], 10, [1.0, 0.0])
    assert HOST.exact_epsilon() <= 1.0


# Overfitting


def test_a_hundred_analysts_attack():
    cells = EXPERIMENT.cells(EXPERIMENT.settings)
    assert len({fingerprint(cell) for cell in cells}) == len(cells)
    one = [c for c in cells if (c.num_rounds, c.epsilon) == (64, 1.0) and c.attack != FIXED]
    analysts = [analyst for cell in one for analyst in cell.analysts()]
    assert len(set(analysts)) == 100


def test_attacks_are_fitted_to_the_answers():
    """With the data off at one value only, an attack at the end has that value's sign."""
    ask = jax.jit(lambda analyst, round, answers: analyst(round, answers))
    for name, how in ATTACKS.items():
        analyst = Overfitter(3, num_values=16, num_rounds=16, **how(16))
        fixed = dataclasses.replace(analyst, first=16)
        probes = np.stack([ask(fixed, r, np.zeros(16, np.float32)) for r in range(16)])
        np.testing.assert_allclose(probes @ probes.T, 16 * np.eye(16))
        for sign in (1, -1):
            off = sign * 0.1 * np.eye(16)[5]
            query = ask(analyst, 15, (probes.mean(axis=1) + probes @ off).astype(np.float32))
            assert np.all(np.abs(query) == 1)
            if how(16)["first"] == 15:
                assert query[5] == sign
            assert name != FIXED or np.array_equal(query, probes[15])


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS)
def test_reuse_is_broken_and_splitting_is_not(attack):
    contest = Contest(
        attack=attack, num_rounds=64, epsilon=1.0, num_analysts=20, num_trials=10, seed=5
    )
    split, reused, empirical = contest.rows()
    assert [row["answers"] for row in (split, reused, empirical)] == [
        "split",
        "reused",
        "empirical",
    ]
    assert split["broken"] == 0
    assert reused["broken"] == (0 if attack == FIXED else 20)


@pytest.mark.parametrize("protocol", [TRACED, HOST], ids=["traced", "host"])
def test_results_for_a_key_of_independent_users(protocol):
    """Drawn without the users' counts, from a stream of each round."""
    users = jaxdp.Population.from_distribution([0.3, 0.7], 10_000)
    found = jaxdp.run(protocol, users, jax.random.key(2026), method="tally")
    np.testing.assert_allclose(found, [-0.08113747, 0.77947463], rtol=1e-7)
