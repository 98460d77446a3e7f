"""The page of a plan: its numbers, its texts, and what a browser makes of it."""

import html
import json
import math
import re

import numpy as np
import pytest

from jaxdp.design import (
    Change,
    Comparison,
    Histogram,
    LinearQueries,
    Marginals,
    Mean,
    PairStatistic,
    plan,
    rank,
    several,
)
from jaxdp.design._curves import curves_of
from jaxdp.design._reveal import channel_of, posterior, randomizer_of, support_of
from jaxdp.linear import HistogramQuery
from jaxdp.pairwise import GiniDiversity
from jaxdp.randomizers import KRR, BinaryResponse
from jaxdp.reports import Collection
from jaxdp.sweep._plan_command import Plan as Command
from jaxdp.sweep.cli import main
from jaxdp.workloads import parity
from tests.browser import driven

HOSTILE = ("<script>alert(1)</script>", "\"quoted\" & 'single'", "$title", "</pre>", "e")


@pytest.fixture(scope="module")
def found():
    return plan(Histogram(5), epsilon=1.0, error=0.01)


@pytest.fixture(scope="module")
def page(found):
    return found.to_html(labels=HOSTILE, seconds=600.0)  # the same grid on a busy machine


def texts(page):
    page = page.replace("<wbr>", "")  # a word that may be broken is one word
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())


def element(page, name):
    (content,) = re.findall(rf'<(?:pre|script)[^>]* id="{name}"[^>]*>(.*?)</', page, re.DOTALL)
    return html.unescape(content)


def test_numbers_are_those_of_the_plan(found, page):
    shown = texts(page)
    best = found.best
    assert f"users {best.num_users:,} who take part" in shown
    assert "epsilon 1 the privacy parameter" in shown
    assert " ".join(found.in_words().split("\n\n")[0].split()) in shown
    for option in found.options:
        assert " ".join(option.cells) in shown
    assert math.exp(best.protocol.exact_epsilon()) == pytest.approx(
        float(re.search(r"factor of e ε = ([\d.]+)", shown)[1]), rel=1e-3
    )


def test_curves_are_errors_of_the_plan(found, page):
    data = json.loads(element(page, "data"))
    low, high = data["axes"]["epsilon"][:2]
    assert math.sqrt(low * high) == pytest.approx(found.best.epsilon)
    users = np.sqrt(np.prod(data["axes"]["users"][:2]))
    assert users == pytest.approx(found.best.num_users)
    for place, grid in enumerate(data["errors"]):
        at = np.geomspace(low, high, len(grid))
        for i in (0, -1):
            assert grid[i][len(grid[0]) // 2] == pytest.approx(
                found.error(epsilon=at[i], users=found.best.num_users, option=place), rel=1e-4
            )


def test_what_is_deployed_can_be_read_again(found, page):
    collection = Collection.from_json(element(page, "spec"))
    assert collection.spec == found.best.protocol


def test_the_code_makes_the_plan_again(found, page):
    names = {}
    lines = element(page, "code").splitlines()
    exec("\n".join(line for line in lines if not line.startswith("print")), names)
    assert names["found"].best == found.best


def test_arrays_are_left_out_of_the_code():
    one = {"KRR": lambda e, _: HistogramQuery(KRR(4, e))}
    alone = dict(candidates=one, defaults=False, num_trials=20)
    given = plan(Histogram(4), users=1000, epsilon=1.0, data=[1, 2, 3, 4], **alone)
    code = element(given.to_html(), "code")
    assert "plan(Histogram(num_values=4), users=1000, epsilon=1.0, data=[1, 2, 3, 4], can" in code
    assert "candidates=..., defaults=False)" in code
    assert "# ... stands for what was given" in code
    queries = LinearQueries(parity(2, 1))
    one = {"SubsetSelection": queries.candidates()["SubsetSelection"]}
    found = plan(queries, users=1000, epsilon=1.0, candidates=one, defaults=False)
    assert "plan(LinearQueries(workload=...), users" in element(found.to_html(), "code")


def test_the_statement_is_for_reviewers(found, page):
    statement = found.statement()
    assert " ".join(statement.split()) == " ".join(element(page, "statement").split())
    words = " ".join(statement.split())
    epsilon = found.best.protocol.exact_epsilon()
    assert f"epsilon = {epsilon:.6g} and delta = 0" in words
    assert repr(found.best.protocol) in words
    assert "the epsilons add up" in words
    assert "operating system" in words
    bit = {"BinaryResponse": lambda e, _: BinaryResponse(e, 0.5)}
    alone = dict(candidates=bit, defaults=False, delta=1e-6)
    shuffled = plan(Mean(0, 1), users=10_000, epsilon=0.5, trust="shuffler", **alone)
    words = " ".join(shuffled.statement().split())
    realised = shuffled.best.protocol.exact_epsilon()
    assert 0.4999 < realised <= 0.5
    spent = f"approximate differential privacy with epsilon = {realised:.6g} and delta = 1e-06"
    assert spent in words
    assert "trust a shuffler" in words


def test_nothing_is_asked_of_a_server(page):
    assert re.findall(r"https?://[^\"' <]*", page).count("http://www.w3.org/2000/svg") == len(
        re.findall(r"https?://", page.replace(html.escape(element(page, "spec")), ""))
    )
    for forbidden in ('<link rel="stylesheet', " src=", "@import", "url(http", "fetch("):
        assert forbidden not in page
    assert "default-src 'none'" in page


def test_labels_are_texts(page):
    assert "<script>alert" not in page
    assert html.escape(HOSTILE[0][:15]) in page
    assert "$title" in page  # as a label, which no template fills in
    assert page.count("</pre>") == 3


def test_labels_are_as_many_as_answers(found):
    with pytest.raises(ValueError, match="labels must be 5, one for each answer, got 2"):
        found.to_html(labels=["a", "b"])
    with pytest.raises(ValueError, match="seconds"):
        found.to_html(seconds=0.0)


def test_a_page_is_written(found, page, tmp_path):
    path = tmp_path / "plan.html"
    assert (
        found.to_html(path, labels=HOSTILE, seconds=600.0)
        == path.read_text(encoding="utf-8")
        == page
    )


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0])
def test_odds_change_by_the_factor(epsilon):
    for prior in (0.01, 0.3, 0.99):
        low, high = posterior(prior, epsilon)
        odds = [p / (1 - p) for p in (low, prior, high)]
        assert odds[2] / odds[1] == pytest.approx(math.exp(epsilon), rel=1e-6)
        assert odds[1] / odds[0] == pytest.approx(math.exp(epsilon), rel=1e-6)


def test_channels_are_found_through_protocols():
    krr = KRR(4, 1.0)
    assert randomizer_of(HistogramQuery(krr)) == krr
    gini = PairStatistic(GiniDiversity(), 4).candidates()
    assert randomizer_of(gini["QuantizedRR"](1.0, 100)) == krr
    assert randomizer_of(gini["OneReport, PrivUnit"](1.0, 100)) is None
    listed = channel_of(krr, 0.0)
    assert listed.is_table
    np.testing.assert_allclose(listed.probabilities.sum(axis=1), 1.0)
    bits = channel_of(BinaryResponse(1.0, 50.0), 50.0)
    assert (bits.inputs, bits.reports) == (("0", "50", "100"), ("-1", "1"))
    assert channel_of(KRR(1000, 1.0), 0.0) is None
    assert support_of(krr) == tuple(map(float, krr.probabilities()))
    assert support_of(BinaryResponse(1.0)) is None


def test_many_reports_are_gathered():
    piecewise = Mean(0, 1).candidates()["Piecewise"](3.0, 100)
    listed = channel_of(piecewise, 0.5)
    assert listed.inputs == ("0", "0.5", "1")
    assert not listed.is_table
    assert listed.probabilities[0].argmax() < 24 < listed.probabilities[2].argmax()


def test_simulated_errors_are_drawn_where_there_is_time():
    one = {"KRR": lambda e, _: HistogramQuery(KRR(4, e))}
    given = dict(data="zipf", candidates=one, defaults=False, num_trials=20)
    found = plan(Histogram(4), users=1000, epsilon=1.0, **given)
    quick, slow = (curves_of(found, seconds) for seconds in (3.0, 300.0))
    kinds = [found.options[c.place].error.kind for c in quick.curves]
    assert [c.errors is None for c in quick.curves] == [kind == "simulated" for kind in kinds]
    for curve in slow.curves:
        assert curve.middle == pytest.approx(found.options[curve.place].error)
        assert np.all(np.diff(curve.by_users) < 0)


def test_shuffled_and_central_plans_have_pages():
    ranking = rank(Histogram(4), users=2000, epsilon=0.5, trust=["local", "central"])
    assert ranking.best.trust == "central"
    shown = texts(ranking.to_html())
    assert "have seen what is published?" in shown
    assert "for events of probability at most 1e-06" in shown
    assert "cannot be collected from real people" in shown


def test_a_plot_shows_the_plan(found):
    axes = found.plot()
    assert axes.get_xlabel() == "users"  # which were asked for
    (ring,) = axes.collections
    assert ring.get_offsets()[0].tolist() == [found.best.num_users, float(found.best.error)]
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == [o.name for o in found.options[:6]] + ["the plan"]
    other = plan(Histogram(5), users=1000, epsilon=1.0).plot(axes.figure.add_subplot())
    assert other.get_xlabel() == "ε"
    axes.figure.clear()


CSV = "city,age\nUlm,20\nBonn,30\nUlm,45\n<b>,70\nUlm,70\n"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(CSV)
    return path


def test_a_column_has_labels_and_counts(table):
    command = Command("histogram", data=str(table), column="city", users=500, epsilon=2.0)
    labels, counts = command._held()
    assert labels == ("<b>", "Bonn", "Ulm")
    assert counts.tolist() == [1, 1, 3]
    ages = Command("mean", data=str(table), column="age")._held()
    assert ages[0] is None
    assert ages[1].tolist() == [20, 30, 45, 70, 70]


@pytest.mark.slow
def test_a_column_is_planned_for(table, tmp_path, capsys):
    out = tmp_path / "plan.html"
    command = f"plan histogram --data {table} --column city --users 500 --epsilon 2 --html {out}"
    assert main(command.split()) == 0
    assert "A histogram of 3 values, from 500 users" in capsys.readouterr().out
    page = out.read_text(encoding="utf-8")
    assert "&lt;b&gt;" in page
    assert "treat it as you treat them" in page
    assert "<b>" not in page


def test_a_column_of_parquet_is_read(table, tmp_path, capsys):
    import pyarrow.csv
    import pyarrow.parquet

    path = tmp_path / "people.parquet"
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(table), path)
    for file in (table, path):
        command = f"plan mean --low 0 --high 100 --data {file} --column age --users 50 --epsilon 1"
        assert main([*command.split(), "--json"]) == 0
    first, second = capsys.readouterr().out.split("\n}\n{")
    assert first.removeprefix("{") == second.removesuffix("\n}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--data {file}", "--data FILE and --column go together"),
        ("--column city", "--data FILE and --column go together"),
        ("--data {file} --column town", "--column must be one of city, age, got 'town'"),
        ("--data {file}.gz --column city", "must be a .csv or .parquet file"),
        ("--data none.csv --column city", "--data must be a file that can be read"),
        ("--data {file} --column city --values 2", "--values N is for the values 0 to N - 1"),
        ("--values 3 --html {file}/x.html", "--html must be a file that can be written"),
        ("--values 3 --html x.html --seconds -1", "seconds must be"),
    ],
)
def test_mistakes_about_files_are_one_line(table, arguments, message, capsys):
    command = f"plan histogram --users 500 --epsilon 2 {arguments.format(file=table)}"
    assert main(command.split()) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


SCRIPT = """  const text = (id) => page.getElementById(id).textContent;
  const cell = () => page.querySelector('[data-error="0"]').textContent;
  const move = (id, value) => {
    page.getElementById(id).value = value;
    page.getElementById(id).dispatchEvent(new view.Event("input"));
  };
  const path = () => page.querySelector("#by-users .c0").getAttribute("d");
  const seen = {scripted: page.documentElement.className, before: cell(), path: path()};
  move("epsilon", 200);
  Object.assign(seen, {high: cell(), epsilon: text("epsilon-value"), moved: path() !== seen.path});
  page.getElementById("back").click();
  seen.back = cell();
  move("prior", 50);
  Object.assign(seen, {prior: text("prior-value"), sure: text("worked-high")});
  const chart = page.getElementById("by-users"), box = chart.getBoundingClientRect();
  chart.setPointerCapture = () => {};
  chart.dispatchEvent(new view.PointerEvent("pointerdown", {clientX: box.right, pointerId: 1}));
  Object.assign(seen, {users: text("users-value"), many: cell()});
"""


def test_a_browser_moves_the_sliders(found, page, tmp_path):
    seen = driven(page, SCRIPT, tmp_path)
    best = found.best
    axes = json.loads(element(page, "data"))["axes"]
    assert seen["scripted"] == "js"
    assert float(seen["before"]) == pytest.approx(best.error, rel=1e-3)
    assert seen["back"] == seen["before"]
    high = found.error(epsilon=axes["epsilon"][1], option=0)
    assert float(seen["high"]) == pytest.approx(high, rel=1e-3)
    assert float(seen["epsilon"]) == pytest.approx(axes["epsilon"][1], rel=1e-2)
    assert seen["moved"]
    most = round(axes["users"][1])
    assert float(seen["users"].replace(",", "")) == pytest.approx(most, rel=1e-2)
    assert float(seen["many"]) == pytest.approx(found.error(users=most, option=0), rel=1e-3)
    assert seen["prior"] == "50%"
    sure = 1 / (1 + math.exp(-best.protocol.exact_epsilon()))
    assert seen["sure"] == f"{sure:.1%}"
    assert seen["overflow"] <= 0  # nothing to scroll sideways at 390 px
    assert seen["small"] == 0


SEVERAL = {"transport": Histogram(3), "pay & <b>": Mean(0, 100)}


@pytest.fixture(scope="module")
def ways():
    return several(SEVERAL, epsilon=1.0, errors={"transport": 0.01, "pay & <b>": 1.0})


@pytest.fixture(scope="module")
def page_of_ways(ways):
    return ways.to_html(labels={"transport": HOSTILE[:3]})


def test_several_questions_have_a_page(ways, page_of_ways, tmp_path):
    shown, best = texts(page_of_ways), ways.best
    assert f"users {best.num_users:,} who take part" in shown
    for way in ways.ways:
        assert f"{way.name} {way.num_users:,} {way.epsilon:.4g}" in shown
    for name, option in best.options.items():
        assert f"{option.num_users:,} who answer it" in shown
        assert name in shown
        assert option.name in shown
    assert " ".join(ways.statement().split()) == " ".join(
        element(page_of_ways, "statement").split()
    )
    assert "<b>" not in page_of_ways
    assert "<script>alert" not in page_of_ways
    for place, option in enumerate(best.options.values()):
        assert Collection.from_json(element(page_of_ways, f"spec{place}")).spec == option.protocol
    with pytest.raises(ValueError, match="labels must be of 'transport'"):
        ways.to_html(labels={"age": ["a"]})
    with pytest.raises(ValueError, match="labels must be 3, one for each answer"):
        ways.to_html(labels={"transport": ["a"]})
    path = tmp_path / "several.html"
    assert ways.to_html(path, seconds=0.1) == path.read_text(encoding="utf-8")


def test_the_code_makes_the_ways_again(ways, page_of_ways):
    names = {}
    lines = element(page_of_ways, "code").splitlines()
    plain = (line for line in lines if not line.startswith(("print", "for", "    ")))
    exec("\n".join(plain), names)
    assert names["found"].best == ways.best


def test_ways_reveal_what_a_person_sends(ways):
    split = next(i for i, way in enumerate(ways.ways) if way.name == "split")
    assert ways.privacy[0] <= 1.0
    plans = ways.plans(split)
    assert sum(p.best.epsilon for p in plans.values()) == pytest.approx(1.0, rel=2e-3)
    simulated = ways.plans()["pay & <b>"].simulate(500)
    assert abs(simulated - 1.0) < 0.02 + 6.2 * simulated.stderr


@pytest.mark.parametrize(
    "question",
    [Comparison(Mean(10, 20)), Change(Histogram(4), 0.2), Marginals(3, 2)],
    ids=lambda question: type(question).__name__,
)
def test_pages_of_other_questions(question):
    shown = texts(plan(question, users=5000, epsilon=1.0).to_html(seconds=0.5))
    assert question.describe()[1:] in shown
    if isinstance(question, Comparison):
        assert "10 15 20" in shown  # what people hold, in the law of a report


SEVERAL_SCRIPT = """  const prior = page.getElementById("prior");
  prior.value = 50;
  prior.dispatchEvent(new view.Event("input"));
  const seen = {
    scripted: page.documentElement.className,
    sure: page.getElementById("worked-high").textContent,
    cursors: [...page.querySelectorAll(".cursor")].filter(
      (x) => view.getComputedStyle(x).visibility === "visible").length,
  };
"""


def test_a_browser_shows_several_questions(ways, page_of_ways, tmp_path):
    seen = driven(page_of_ways, SEVERAL_SCRIPT, tmp_path)
    assert seen["scripted"] == "js"
    assert seen["sure"] == f"{1 / (1 + math.exp(-ways.privacy[0])):.1%}"
    assert seen["cursors"] == 0
    assert seen["overflow"] <= 0
    assert seen["small"] == 0
