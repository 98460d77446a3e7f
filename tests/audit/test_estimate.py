"""The parts of `estimate_epsilon`: limits, events, inputs, refusals, and what the report shows."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import beta, binom

import jaxdp
from jaxdp.audit import AuditReport, estimate_epsilon
from jaxdp.audit._events import Statistic, learn
from jaxdp.audit._inputs import check_inputs, outside_inputs
from jaxdp.audit._intervals import lower_limit, mean_is_off, upper_limit
from jaxdp.audit._report import PairFinding
from jaxdp.audit._samples import finite, last_bits
from jaxdp.pairwise import GiniDiversity, TwoRound
from jaxdp.randomizers import KRR, BinaryResponse, PrivUnit
from tests import stats

LEVELS = (0.05, 1e-6, 1e-12)


@pytest.mark.parametrize("level", LEVELS)
def test_limits_are_valid_and_close_to_those_of_clopper_and_pearson(level):
    trials = np.array([1, 10, 1000, 10**6, 10**9])[:, None]
    successes = np.floor(trials * np.array([0.0, 0.001, 0.1, 0.5, 0.97, 1.0]))
    lower = lower_limit(successes, trials, -math.log(level))
    upper = upper_limit(successes, trials, -math.log(level))
    assert np.all((0 <= lower) & (lower <= successes / trials))
    assert np.all((successes / trials <= upper) & (upper <= 1))
    # validity: at the limit the data are in a tail of at most the level
    slack = 1 + 1e-6  # the tails of scipy
    assert np.all(binom.sf(successes - 1, trials, lower)[successes > 0] <= level * slack)
    assert np.all(binom.cdf(successes, trials, upper)[successes < trials] <= level * slack)
    # tightness: little is lost to the exact limits, nothing where all or none succeed
    exact = beta.isf(level, successes + 1, trials - successes)
    inside = (0 < successes) & (successes < trials)
    distance = (upper - successes / trials)[inside] / (exact - successes / trials)[inside]
    assert np.all((distance >= 1 - 1e-6) & (distance < (1.6 if level == 0.05 else 1.15)))
    np.testing.assert_allclose(upper[:, 0], 1 - level ** (1 / trials[:, 0]), rtol=1e-6)
    np.testing.assert_allclose(lower[:, -1], level ** (1 / trials[:, 0]), rtol=1e-9)


def test_statistics_of_any_value():
    """NaN and infinities count as numbers that have neighbours."""
    wild = np.array([math.nan, math.inf, -math.inf, 1.0, 3e38])
    assert np.all(np.isfinite(np.nextafter(finite(wild), np.inf)))
    values = np.tile(finite(wild), 2000)
    event, _ = learn(Statistic("s", (values, values)), 5000, 0.0, 20.0)
    assert event.count(values) <= values.size


def test_limits_cover(rng):
    """20,000 samples of 200 trials at level 0.05: at most 5 % of the limits may be wrong."""
    successes = rng.binomial(200, 0.3, 20_000)
    wrong = np.sum(lower_limit(successes, 200, -math.log(0.05)) > 0.3)
    stats.check_proportion(wrong, 20_000, 0.05, at_most=True)
    narrow = np.sum(lower_limit(successes, 200, -math.log(0.4)) > 0.3)
    stats.must_fail(stats.check_proportion, narrow, 20_000, 0.05, at_most=True)


def test_means(rng):
    """Heavy tails pass at their own mean; an offset of 8 standard errors and more is seen."""
    log_level = math.log(2e9)
    samples = rng.standard_t(3, (10_000, 2)) + np.array([0.0, 5.0])
    assert not mean_is_off(samples, np.array([0.0, 5.0]), 3.0, log_level).any()
    offset = 2 * math.sqrt(2 * log_level * 3.0 / 10_000)
    assert mean_is_off(samples, np.array([offset, 5.0]), 3.0, log_level).tolist() == [True, False]


def test_search_finds_the_best_event(rng):
    """A ratio of e**2 on one symbol in ten, and of the middle of a line against its ends.

    The counts are 7 standard errors and more within these ranges.
    """
    mine = rng.choice(10, 20_000, p=[0.2] + [0.8 / 9] * 9)
    other = rng.choice(10, 20_000, p=[0.2 / math.e**2] + [(1 - 0.2 / math.e**2) / 9] * 9)
    event, _ = learn(Statistic("s", (mine, other)), 10_000, 0.0, 20.0)
    assert str(event) == "s in {0}"
    assert event.count(mine) == np.sum(mine == 0)
    mine, other = rng.uniform(-1, 1, 20_000), rng.uniform(-4, 4, 20_000)
    event, _ = learn(Statistic("s", (mine, other)), 10_000, 0.0, 20.0)
    assert event.count(mine) > 0.8 * mine.size
    assert event.count(other) < 0.4 * other.size
    assert event.count(np.array([-3.0, 3.0])) == 0
    atom = np.where(mine > 0.5, 0.0, mine)  # a quarter of the values are 0 exactly
    event, _ = learn(Statistic("s", (atom, mine)), 10_000, 0.0, 20.0)
    assert str(event) == "s = 0"


def test_bound_grows_towards_the_truth(key):
    """20 times the samples: 0.5 to 0.12 away from epsilon = 3, by about 0.02; never beyond."""
    options: dict[str, Any] = dict(confidence=1 - 1e-9, inputs=np.array([0, 7]), outside=False)
    gaps = [
        3.0 - estimate_epsilon(KRR(8, 3.0), key, n, batch_size=n, **options).epsilon_lower
        for n in (10_000, 200_000)
    ]
    assert 0 < gaps[1] < gaps[0]
    assert gaps[1] < 0.25


def coin(key, value):
    """Randomized response with a key of its own for each report."""
    return jnp.where(jax.random.uniform(key) < 0.75, value, 1 - value)


def test_a_function_is_audited(key):
    """The truth is ln 3 = 1.0986, a claim of 0.9 is refuted."""
    report = estimate_epsilon(coin, key, 50_000, inputs=[0, 1], epsilon=0.9, confidence=1 - 1e-9)
    assert report.violates
    assert report.epsilon_lower <= math.log(3)
    assert report.decoding is None


USERS = jaxdp.Population.from_values([0, 1], 3)


def test_inputs_are_the_ends_of_the_domain():
    assert check_inputs(None, KRR(2, 1.0)).tolist() == [0, 1]
    assert check_inputs(None, KRR(9, 1.0)).tolist() == [0, 1, 4, 8]
    assert check_inputs(None, BinaryResponse(1.0, bound=3.0)).tolist() == [3, -3, 0]
    ball = check_inputs(None, PrivUnit(3, 1.0, radius=2.0))
    assert ball.tolist() == [[2, 0, 0], [-2, 0, 0], [0, 0, 0]]


def test_inputs_outside_of_the_domain():
    """None is in it, and all are of its shape and type."""
    assert outside_inputs(np.array([0, 2], np.int32), 3).tolist() == [-1, 3]
    far, broken, endless = outside_inputs(np.array([0, 2, -3], np.float32), None)
    assert (far, np.isnan(broken), endless) == (-300, True, np.inf)
    rows = outside_inputs(check_inputs(None, PrivUnit(2, 1.0)), None)
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows, [[100, 0], [np.nan, 0], [np.inf, 0]])


def test_they_are_compared_by_default_where_the_contract_promises(key):
    """Specs and rounds move every input into the domain; of functions nobody knows."""
    options: dict[str, Any] = dict(inputs=[0, 1], epsilon=1.0)
    for given, more in ((KRR(3, 1.0), {-1, 3}), (KRR(3, 1.0).build(), {-1, 3}), (coin, set())):
        report = estimate_epsilon(given, key, 1000, **options)
        assert {pair.value for pair in report.pairs} == {0, 1} | more
    report = estimate_epsilon(KRR(3, 1.0), key, 1000, outside=False, **options)
    assert {pair.value for pair in report.pairs} == {0, 1}


def test_last_bits():
    """Odd and even numbers, signed or not, and the last digit that a float uses."""
    parities = last_bits(np.array([[-3, 0, 5, 8]], np.int32)) & 1
    assert parities.tolist() == [[1, 0, 1, 0]]
    places = last_bits(np.array([[1.0, 3.0, 1.25, 2.5]], np.float32)) >> 3
    assert (places - places[0, 0]).tolist() == [[0, 0, -2, -1]]
    assert last_bits(np.array([[np.nan, np.inf, -0.0]], np.float32)).shape == (1, 3)


@pytest.mark.parametrize(
    ("randomizer", "options", "message"),
    [
        (KRR(3, 1.0), {"num_samples": 10}, "num_samples"),
        (KRR(3, 1.0), {"population": USERS, "outside": True}, "outside"),
        (KRR(3, 1.0), {"population": USERS, "inputs": [0.0, 1.0]}, "inputs"),
        (KRR(4, 1.0).build(), {"population": USERS, "inputs": [0, 3], "epsilon": 1.0}, "x must"),
        (KRR(3, 1.0), {"population": jaxdp.Population.from_distribution([1.0], 9)}, "population"),
        (KRR(3, 1.0), {"inputs": [0]}, "inputs"),
        (KRR(3, 1.0), {"inputs": 3}, "inputs"),
        (KRR(3, 1.0), {"inputs": list(range(40))}, "inputs"),
        (KRR(3, 1.0), {"inputs": [0.0, float("nan")]}, "inputs"),
        (KRR(3, 1.0), {"confidence": 1.0}, "confidence"),
        (KRR(3, 1.0), {"delta": 1.0}, "delta"),
        (KRR(3, 1.0), {"num_samples": 2**31}, "num_samples"),
        (KRR(3, 1.0), {"epsilon": -1.0}, "epsilon"),
        (KRR(3, 1.0), {"batch_size": 0}, "batch_size"),
        (KRR(3, 1.0).build(), {}, "epsilon must be given"),
        (coin, {"epsilon": 1.0}, "inputs must be given"),
    ],
)
def test_refusals(key, randomizer, options, message):
    with pytest.raises(ValueError, match=message):
        estimate_epsilon(randomizer, key, **options)


def test_refuses_other_types(key):
    with pytest.raises(TypeError, match="key"):
        estimate_epsilon(KRR(3, 1.0), 0)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="inputs"):
        estimate_epsilon(KRR(3, 1.0), key, inputs=["a", "b"])
    with pytest.raises(TypeError, match="population"):
        estimate_epsilon(
            KRR(3, 1.0),
            key,
            population=[0, 1],  # pyright: ignore[reportArgumentType]
        )
    with pytest.raises(TypeError, match="statistics must be"):
        estimate_epsilon(KRR(3, 1.0), key, statistics=3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match=r"statistics\[1\] must be"):
        estimate_epsilon(KRR(3, 1.0), key, statistics=[np.sum, "mean"])  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="delta must be"):
        estimate_epsilon(KRR(3, 1.0), key, delta=np.ones(2))  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="outside must be"):
        estimate_epsilon(KRR(3, 1.0), key, outside=np.ones(2), population=USERS)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="outside"):
        estimate_epsilon(KRR(3, 1.0), key, outside=2)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="randomizer must be a spec"):
        estimate_epsilon(coin, key, population=USERS, epsilon=1.0)
    rounds = TwoRound(GiniDiversity(), 1.0, num_values=3)
    for protocol in (rounds, rounds.build()):
        with pytest.raises(TypeError, match="population="):
            estimate_epsilon(protocol, key, epsilon=1.0)


def finding(value, other, bound, p, q):
    return PairFinding(value, other, bound, "report in {0}", p, q, p * 0.9, q * 1.1)


REPORT = AuditReport(
    randomizer="a randomizer",
    epsilon=1.0,
    delta=0.0,
    epsilon_lower=1.25,
    confidence=1 - 1e-6,
    num_samples=1000,
    pairs=(finding(0, 1, 1.25, 0.5, 0.1), finding(1, 0, 0.0, 0.5, 0.0)),
    decoding=(),
)


def test_report_as_text():
    lines = str(REPORT).splitlines()
    assert lines[:2] == [
        "a randomizer",
        "claimed epsilon = 1; found epsilon >= 1.2500 at confidence 1 - 1e-06: VIOLATES the claim",
    ]
    assert lines[3].split() == ["0", "|", "1", "1.2500", "1.6094", "report", "in", "{0}"]
    assert lines[4].split()[4] == "inf"
    assert REPORT.worst is REPORT.pairs[0]
    fine = dataclasses.replace(REPORT, epsilon=1.25)
    assert (fine.violates, fine.verdict) == (False, "consistent with the claim")


def test_report_as_a_plot():
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    axes: Any = REPORT.plot(Figure().subplots())
    assert [bar.get_width() for bar in axes.patches] == [1.25, 0.0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["0 | 1", "1 | 0"]
    claim = next(line for line in axes.lines if line.get_label() == "claim")
    assert list(claim.get_xdata()) == [1.0, 1.0]


def test_plot_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"jaxdp-local\[sweep\]"):
        REPORT.plot()
