"""Reports that another client made: bounds that hold, leaks that are seen, and refusals."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp.audit import estimate_epsilon_from_reports, reports_needed
from tests import stats

CONFIDENCE = 1 - 1e-9


def audited(reports, epsilon=1.0, **options):
    return estimate_epsilon_from_reports(reports, epsilon, confidence=CONFIDENCE, **options)


def responses(rng, epsilon, size=40_000, k=4):
    """k-ary randomized response of the values 0 and k / 2."""
    keep = math.exp(epsilon) / (math.exp(epsilon) + k - 1)
    return {
        x: np.where(rng.random(size) < keep, x, (x + rng.integers(1, k, size)) % k)
        for x in (0, k // 2)
    }


KINDS = {
    "numbers": lambda x: x,
    "list of numbers": lambda x: x.tolist(),
    "texts": lambda x: [f"answer {i}" for i in x],
    "bytes": lambda x: np.array([b"%d" % i for i in x]),
    "tuples": lambda x: [(int(i), "a") for i in x],
    "floats": lambda x: x / 3,
    "jax": lambda x: jnp.asarray(x, jnp.bfloat16),
    "one-hot": lambda x: x[:, None] == np.arange(4),
    "parts": lambda x: (x // 2, x % 2),
    "named parts": lambda x: {"high": x // 2, "low": [str(i) for i in x % 2]},
}


@pytest.mark.parametrize("kind", KINDS)
def test_reports_of_every_kind_are_read(kind, rng):
    """The truth is 2, 1 is claimed: refuted by about 1.8. A twin with 1 is not accused of 1."""
    form = KINDS[kind]
    leaky, honest = (
        audited({x: form(batch) for x, batch in responses(rng, epsilon).items()})
        for epsilon in (2.0, 1.0)
    )
    assert leaky.violates
    assert 1.5 < leaky.epsilon_lower <= 2.0
    assert not honest.violates
    assert 0.7 < honest.epsilon_lower
    assert (leaky.worst.value, leaky.worst.other) in ((0, 2), (2, 0))


def test_the_order_of_a_report_counts(rng):
    """A subset whose first entry is the user's value, three times in four, and the same sorted."""

    def client(x, size=20_000):
        others = np.argsort(rng.random((size, 7)), axis=1)[:, :3]
        rows = others + (others >= x)
        rows[rng.random(size) < 0.75, 0] = x
        return rows

    listed = {x: client(x) for x in (0, 3)}
    assert audited(listed, 3.0).violates
    as_sets = audited({x: np.sort(rows, axis=1) for x, rows in listed.items()}, 3.0)
    assert 1.0 < as_sets.epsilon_lower < 3.0


def test_a_seed_needs_a_statistic(rng):
    """Whether the bucket is the one that the seed gives the value: of parts and as one function."""

    def bucket(seed, x):
        return (seed * 2654435761 + x * 40503 >> 16) % 4

    def client(x, size=40_000):
        seeds = rng.integers(2**31, size=size)
        keep = rng.random(size) < 0.9
        return np.where(keep, bucket(seeds, x), rng.integers(4, size=size)), seeds

    def agrees(reports):
        buckets, seeds = reports
        return 1.0 * (buckets == bucket(seeds, 0)) - (buckets == bucket(seeds, 3))

    reports = {x: client(x) for x in (0, 3)}
    assert audited(reports).epsilon_lower < 0.5
    found = audited(reports, statistics=(agrees,))
    assert found.violates
    assert found.worst.event.startswith("agrees")


def test_noise_on_floats_is_refuted(rng):
    """1 plus Laplace noise is a multiple of what 1 can resolve, in float64."""
    noise = {x: x + rng.laplace(0.0, 2.0, 40_000) for x in (0.0, 1.0)}
    found = audited(noise)
    assert found.violates
    assert found.worst.event.startswith("last bits of report")
    on_a_grid = {x: np.rint(2**10 * batch).astype(int) for x, batch in noise.items()}
    assert not audited(on_a_grid).violates


def test_more_reports_of_one_input(rng):
    reports = responses(rng, 2.0)
    reports[0] = reports[0][:5000]
    found = audited(reports)
    assert (found.num_samples, found.violates) == (5000, True)
    assert str(found).startswith("reports of 2 inputs\n")


def test_bounds_hold(rng):
    """Of 60 audits at confidence 0.5, at most half may have a bound above the truth of 1."""
    wrong = sum(
        estimate_epsilon_from_reports(responses(rng, 1.0, 2000), 1.0, confidence=0.5).violates
        for _ in range(60)
    )
    stats.check_proportion(wrong, 60, 0.5, at_most=True)
    caught = sum(
        estimate_epsilon_from_reports(responses(rng, 2.5, 2000), 1.0, confidence=0.5).violates
        for _ in range(60)
    )
    stats.must_fail(stats.check_proportion, caught, 60, 0.5, at_most=True)


def test_enough_reports_have_the_power_that_is_said(rng):
    """An excess of 20 % is shown in 99 % of all audits, and in few by a tenth of the reports."""
    keep = math.exp(1.2) / (1 + math.exp(1.2))
    options: dict[str, Any] = dict(confidence=0.999, num_tests=6)
    size = reports_needed(1.0, keep, excess=0.2, **options)

    def missed(size):
        return sum(
            not estimate_epsilon_from_reports(
                responses(rng, 1.2, size, k=2), 1.0, confidence=0.999
            ).violates
            for _ in range(100)
        )

    stats.check_proportion(missed(size), 100, 0.01, at_most=True)
    stats.must_fail(stats.check_proportion, missed(size // 10), 100, 0.01, at_most=True)


def test_more_is_needed_for_less():
    """By about the squares; of a rare event in proportion."""
    base = reports_needed(1.0, 0.5)
    assert 3.5 < reports_needed(1.0, 0.5, excess=0.025) / base < 4.5
    assert 1.2 < reports_needed(1.0, 0.25) / base < 4
    assert reports_needed(1.0, 0.5, num_tests=2) < base < reports_needed(1.0, 0.5, power=0.9999)


_TWO: dict[str, Any] = {"a": np.zeros(1000, int), "b": np.ones(1000, int)}


@pytest.mark.parametrize(
    ("reports", "options", "message"),
    [
        ({"a": _TWO["a"]}, {}, "2 to 16 inputs"),
        (dict.fromkeys(range(17), _TWO["a"]), {}, "2 to 16 inputs"),
        ({"a": _TWO["a"], "b": _TWO["b"][:999]}, {}, "1000 of each"),
        ({"a": _TWO["a"], "b": ["x"] * 1000}, {}, "one kind and shape"),
        ({"a": _TWO["a"], "b": np.zeros((1000, 2))}, {}, "one kind and shape"),
        ({"a": _TWO["a"], "b": (_TWO["b"], _TWO["b"])}, {}, "same parts"),
        ({"a": _TWO["a"], "b": 3}, {}, r"reports\['b'\]"),
        ({"a": _TWO["a"], "b": np.zeros((1000, 0))}, {}, r"reports\['b'\]"),
        (_TWO, {"epsilon": -1.0}, "epsilon"),
        (_TWO, {"delta": 1.0}, "delta"),
        (_TWO, {"confidence": 1.0}, "confidence"),
        (_TWO, {"statistics": (np.sum,)}, r"sum \(0\) returned 1 for 1000"),
        ({"a": (), "b": ()}, {}, "same parts"),
        ({"a": _TWO["a"][:0], "b": _TWO["b"]}, {}, r"reports\['a'\]"),
    ],
)
def test_refusals(reports, options, message):
    with pytest.raises(ValueError, match=message):
        estimate_epsilon_from_reports(reports, **({"epsilon": 1.0} | options))


@pytest.mark.parametrize(
    ("reports", "options", "message"),
    [
        ([_TWO["a"], _TWO["b"]], {}, "reports must be a dict"),
        ({x: [[1], []] * 500 for x in "ab"}, {}, "hashable"),
        ({"a": np.zeros(1000, complex), "b": np.zeros(1000)}, {}, r"reports\['a'\]"),
        ({"a": None, "b": np.zeros(1000)}, {}, r"reports\['a'\]"),
        (_TWO, {"statistics": 3}, "statistics must be"),
        (_TWO, {"statistics": ["mean"]}, r"statistics\[0\]"),
    ],
)
def test_refuses_other_types(reports, options, message):
    with pytest.raises(TypeError, match=message):
        estimate_epsilon_from_reports(reports, 1.0, **options)


@pytest.mark.parametrize("name", ["epsilon", "probability", "excess", "power", "confidence"])
def test_numbers_of_reports_refuse(name):
    with pytest.raises(ValueError, match=name):
        reports_needed(**({"epsilon": 1.0, "probability": 0.5} | {name: -1.0}))  # pyright: ignore
    with pytest.raises(ValueError, match=r"2\*\*62"):
        reports_needed(1e-9, 0.5, excess=1e-9)
