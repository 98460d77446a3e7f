"""Answers say how well they know: intervals hold the truth as often as they claim, and no wider."""

import html
import json
import math
import statistics

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp.randomizers import KRR, FiniteChannel
from jaxdp.reports import Aggregate, Answer, Collection
from tests.browser import driven
from tests.contracts.registry import APPLICABLE
from tests.reports.made import CASES, bins, drawn, sent
from tests.stats import check_proportion, must_fail

TRIALS = 400
WIDE = {"binary": 1.12, "binary-wide": 1.12}
"""How much wider intervals may be than the best: reports do not tell these how values spread."""


DRAWN = [
    pytest.param(case, id=case.name, marks=[pytest.mark.slow] * case.variant)
    for case in CASES
    if "both_paths_have_one_law" in APPLICABLE[case.name] and case.unbiased and case.exact
]
"""Those with unbiased estimates whose tallies of many users can be drawn."""


def trials_of(case, number: int):
    """(spec, params, tallies of many trials, truth, exact standard errors, users)."""
    spec = case.make(1.0)
    population = case.population(50 if case.any_size else 1)
    counts, inputs = population.counts(), population.inputs
    params = spec.built
    tallies = jax.jit(jax.vmap(lambda key: params.sample_tally(key, counts, inputs)))(
        jax.random.split(jax.random.key(11), number)
    )
    truth = np.asarray(spec.truth(counts.numpy(), inputs))
    exact = np.sqrt(np.asarray(spec.variance(counts.numpy(), inputs)))
    return spec, params, tallies, truth, exact, population.num_users


def measured(case, number: int, shrunk: float = 1.0):
    """(which trials' intervals hold each entry, widths of the first few to the best)."""
    spec, params, tallies, truth, exact, users = trials_of(case, number)
    estimates = np.asarray(jax.jit(jax.vmap(params.estimate))(tallies))
    few = 8
    widths = []
    for trial in range(few):
        variance = spec.reported_variance(jax.tree.map(lambda x, t=trial: x[t], tallies), users)
        if variance is None:
            return None, None
        widths.append(np.sqrt(variance) / exact)
    # Widths hardly differ from trial to trial: those of a few serve for all.
    half = statistics.NormalDist().inv_cdf(0.975) * np.mean(widths, axis=0) * exact * shrunk
    return np.abs(estimates - truth) <= half, np.array(widths)


@pytest.mark.parametrize("case", DRAWN)
def test_intervals_are_as_wide_as_they_must_be(case):
    inside, widths = measured(case, TRIALS)
    if inside is None:
        pytest.skip("reports do not tell the error")
    # Of statistics of pairs the error is estimated to a few percent, of the others much closer.
    assert np.all(widths >= 0.9), widths.min()
    assert np.all(widths.mean(axis=0) >= 0.97), widths.min()
    assert np.all(widths.mean(axis=0) <= WIDE.get(case.name, 1.1)), widths.max()
    covered = inside.sum(axis=0)
    check_proportion(TRIALS - covered, TRIALS, 0.05, at_most=True, cells=covered.size)


def test_intervals_that_are_too_narrow_are_seen():
    case = next(case for case in CASES if case.name == "krr-5")
    inside, _ = measured(case, TRIALS, shrunk=0.6)
    covered = inside.sum(axis=0)
    must_fail(check_proportion, TRIALS - covered, TRIALS, 0.05, at_most=True, cells=covered.size)


def answer_of(number: int = 2000, k: int = 5, **options) -> Answer:
    collection = Collection(KRR(k, 1.0), **options)
    aggregate = Aggregate(collection)
    aggregate.add(sent(collection, drawn(collection, bins(collection, number))))
    return aggregate.estimate()


def test_standard_errors_are_those_of_the_nearest_data_set():
    collection = Collection(KRR(4, 1.0))
    aggregate = Aggregate(collection)
    aggregate.add(sent(collection, np.array([0] * 700 + [1] * 200 + [2] * 90 + [3] * 10, np.int32)))
    answer = aggregate.estimate()
    assert answer.values[3] < 0  # so that the nearest data set has nobody there
    assert answer.values.sum() == pytest.approx(1000)
    shares = np.maximum(answer.values - np.sort(answer.values)[::-1][:2].sum() / 2 + 500, 0)
    counts = np.rint(shares).astype(int)
    counts[0] += 1000 - counts.sum()
    expected = np.sqrt(collection.spec.variance(counts))
    np.testing.assert_allclose(answer.standard_errors, expected, rtol=0.02)


def test_intervals_are_normal_ones():
    answer = Answer(np.array([1.0, 2.0, 5.0]), np.array([1.0, 0.5, 0.0]), None, 9, 1.0, 0.9)
    z = 1.6448536269514722
    expected = [[1 - z, 1 + z], [2 - z / 2, 2 + z / 2], [5, 5]]
    np.testing.assert_allclose(answer.intervals, expected)
    wider = answer.simultaneous_intervals
    each = statistics.NormalDist().inv_cdf(1 - 0.1 / 6)
    np.testing.assert_allclose(wider[:, 1] - answer.values, [each, each / 2, 0])
    scalar = Answer(np.float64(3.0), np.float64(1.0), None, 9, 1.0, 0.9)
    np.testing.assert_allclose(scalar.simultaneous_intervals, scalar.intervals)
    for confidence in (0, 1, -1, math.nan, "a"):
        with pytest.raises((ValueError, TypeError), match="confidence must be"):
            Answer(np.zeros(1), None, None, 9, 1.0, confidence)


def test_an_answer_without_errors_says_so():
    answer = Answer(np.zeros(2), None, ("a", "b"), 9, 1.0)
    with pytest.raises(ValueError, match="standard errors of this protocol's estimate"):
        _ = answer.intervals
    assert str(answer).splitlines() == ["9 users, epsilon = 1", "   value", "a      0", "b      0"]
    assert answer.to_dict()["standard_errors"] is None


def test_an_answer_is_a_readable_table():
    text = str(answer_of(labels=tuple("abcde"), purpose="which letter"))
    lines = text.splitlines()
    assert lines[0] == "which letter"
    assert lines[1].startswith("2,000 users, epsilon = 1, confidence 95 %")
    assert lines[2].split() == ["value", "standard", "error", "low", "high"]
    assert [line.split()[0] for line in lines[3:]] == list("abcde")
    assert len({len(line) for line in lines[2:]}) == 1
    many = str(answer_of(k=50)).splitlines()
    assert (len(many), many[-1]) == (23, "... (50 rows)")


def test_an_answer_is_plain_data():
    answer = answer_of(labels=tuple("abcde"))
    held = json.loads(json.dumps(answer.to_dict()))
    assert held["labels"] == list("abcde")
    np.testing.assert_array_equal(held["values"], answer.values)
    assert held["num_users"] == 2000


def test_an_answer_is_a_data_frame():
    pytest.importorskip("pandas")
    answer = answer_of(labels=tuple("abcde"))
    frame = answer.to_pandas()
    assert list(frame.index) == list("abcde")
    assert list(frame.columns) == ["value", "standard error", "low", "high"]
    np.testing.assert_array_equal(frame["value"], answer.values)


@pytest.mark.parametrize("k", [5, 60])
def test_an_answer_is_a_figure(k, tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    axes = answer_of(k=k, purpose="letters").plot()
    assert axes.get_title().startswith("letters\n2,000 users, ε = 1")
    axes.figure.savefig(tmp_path / "answer.png")
    matplotlib.pyplot.close(axes.figure)


@pytest.mark.parametrize("k", [2, 5, 300])
def test_an_answer_is_a_page(k, tmp_path):
    labels = ("<b>", *map(str, range(1, k)))
    answer = answer_of(k=k, labels=labels, purpose="letters & <i>")
    page = answer.to_html(tmp_path / "answer.html")
    assert (tmp_path / "answer.html").read_text("utf-8") == page
    assert "<h1>letters &amp; &lt;i&gt;</h1>" in page
    assert "<b>" not in page
    assert page.count('class="interval"') == min(k, 200)
    for row in answer.table()[1:]:
        assert all(f">{html.escape(cell)}<" in page for cell in row)
    assert len(answer.table(3)) == min(k, 3) + 1


def test_an_answer_without_errors_is_a_page():
    page = Answer(np.array([1.0, 2.0]), None, None, 10, None).to_html()
    assert "What the reports say" in page
    assert "standard error" not in page


def test_a_page_fits_a_telephone(tmp_path):
    answer = answer_of(k=30, labels=tuple(f"a label of some length, {i}" for i in range(30)))
    script = """  const seen = {over: Math.max(page.documentElement.scrollWidth - 390, 0),
    marks: page.querySelectorAll(".estimate").length, script: page.documentElement.className};
"""
    seen = driven(answer.to_html(), script, tmp_path)
    assert seen.pop("overflow") <= 0
    assert seen.pop("small") == 0
    assert seen == {"over": 0, "marks": 30, "script": "js"}


def test_labels_are_those_of_bins_alone():
    channel = np.full((2, 3), 0.25) + 0.25 * np.eye(2, 3)
    collection = Collection(FiniteChannel(channel), labels=("x", "y"))
    assert collection.labels == ("x", "y")
    for labels in (("x",), ("x", "x"), ("x", "y", "z")):
        with pytest.raises(ValueError, match="labels must be 2 different texts"):
            Collection(FiniteChannel(channel), labels=labels)


def test_trials_give_the_answer_of_one_run():
    counts = {"a": 700, "b": 200, "c": 100}
    population = jaxdp.Population.from_histogram(counts)
    spec = KRR(3, 1.0)
    trials = jaxdp.simulate(spec, population, jax.random.key(0), num_trials=500)
    answer = Answer.from_trials(trials, epsilon=1.0)
    assert answer.labels == ("a", "b", "c")
    exact = np.sqrt(spec.variance([700, 200, 100]))
    np.testing.assert_allclose(answer.standard_errors, exact, rtol=0.2)
    assert np.all(np.abs(answer.values - [700, 200, 100]) < 5 * exact / np.sqrt(500))
    assert str(Answer.from_trials(trials)).startswith("1,000 users, confidence 95 %")
