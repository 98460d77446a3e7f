"""The page of sweeps: what it says, and what a browser makes of it."""

import dataclasses
import html
import json
import math
import re

import pytest

pytest.importorskip("pyarrow")

import jaxdp
from jaxdp import sweep
from jaxdp.sweep import cli
from tests.browser import driven

HOSTILE = "<b>$x</script>"
USERS = sweep.HistogramData([600, 300, 100])


@dataclasses.dataclass(frozen=True)
class Broken:
    """A cell that has no rows."""

    why: str

    @property
    def labels(self):
        return (("mechanism", self.why), ("epsilon", 1.0))

    def rows(self):
        raise RuntimeError(self.why)


def cells(num_trials, seed=0, epsilons=(0.5, 1.0, 2.0)):
    kinds = {"k-RR": jaxdp.randomizers.KRR, HOSTILE: jaxdp.randomizers.SubsetSelection}
    return [
        sweep.Simulation(
            protocol=point.mechanism(3, point.epsilon),
            data=USERS,
            num_trials=num_trials,
            seed=seed,
            labels=point.labels,
        )
        for point in sweep.grid(mechanism=kinds, epsilon=epsilons)
    ]


@pytest.fixture(scope="module")
def outs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    assert sweep.run(cells(20), folder / "before", name="toy").failures == ()
    others = [*cells(40, seed=7, epsilons=(1.0, 2.0, 4.0)), Broken("no <such> luck")]
    assert len(sweep.run(others, folder / "after", name="toy").failures) == 1
    return folder / "before", folder / "after"


@pytest.fixture(scope="module")
def page(outs):
    return sweep.report(outs[0], to=outs[0] / "report.html")


@pytest.fixture(scope="module")
def pair(outs):
    return sweep.report(*outs)


def texts(page):
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())


def data(page):
    (content,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    return json.loads(content)


def test_rows_are_those_of_the_sweep(outs, page):
    found = data(page)
    names = [column["name"] for column in found["columns"]]
    rows = sweep.collect(outs[0]).to_pylist()
    assert len(found["rows"]) == len(rows) == 18
    for row, own in zip(found["rows"], rows, strict=True):
        for name in ("mechanism", "epsilon", "entry", "rmse", "predicted_rmse", "num_trials"):
            value = row[names.index(name)]
            assert value == (
                own[name]
                if isinstance(own[name], str | int)
                else pytest.approx(own[name], rel=1e-6)
            )
    assert found["first"] == {"x": "epsilon", "y": "rmse", "hue": "mechanism", "col": "entry"}
    assert "estimates" not in names
    assert "target" not in names  # None in all rows


def test_links_lead_to_the_cells(outs, page):
    found = data(page)["cells"]
    assert len(found) == 6
    for cell in found:
        assert (outs[0] / cell["href"]).is_file()
        assert json.loads(cell["spec"])["seed"] == 0
    assert found[0]["label"] == "mechanism=k-RR, epsilon=0.5"
    assert (outs[0] / "report.html").read_text("utf-8") == page


def test_it_says_what_was_run(outs, page, pair):
    shown = texts(page)
    assert "6 of 6 cells are done" in shown
    assert "trials 20 a cell" in shown
    for part in (f"directory {outs[0]}", "jax ", "numpy ", "Python 3", "processors", "seeds 0"):
        assert part in shown
    assert "Failures" not in shown
    shown = texts(pair)
    assert "before 6 of 6 cells are done" in shown
    assert "after 6 of 7 cells are done, 1 failed" in shown
    assert "RuntimeError: no <such> luck" in shown
    assert "Traceback (most recent call last)" in shown
    assert "before: seeds 0" in shown
    assert "after: seeds 7" in shown


def test_any_text_is_text(page, pair):
    for one in (page, pair):
        assert HOSTILE not in one
        assert "<such>" not in one
        assert one.count("</script>") == 2


def test_nothing_is_asked_of_a_server(page):
    assert set(re.findall(r"https?://[^\"' <]*", page)) == {"http://www.w3.org/2000/svg"}
    for forbidden in ('<link rel="stylesheet', " src=", "@import", "url(http", "fetch("):
        assert forbidden not in page
    assert "default-src 'none'" in page


def test_large_arrays_are_not_written_out(tmp_path):
    many = sweep.Simulation(
        protocol=jaxdp.randomizers.KRR(300, 1.0),
        data=sweep.HistogramData([5] * 300),
        num_trials=3,
        labels={"epsilon": 1.0},
    )
    sweep.run([many], tmp_path)
    page = sweep.report(tmp_path)
    assert "300 in all" in data(page)["cells"][0]["spec"]
    assert len(data(page)["rows"]) == 1
    assert len(data(sweep.report(tmp_path, entries=True))["rows"]) == 300


def test_a_sweep_that_has_only_failed_has_a_page(tmp_path):
    sweep.run([Broken("nothing")], tmp_path)
    page = sweep.report(tmp_path)
    assert "0 of 1 cells are done, 1 failed" in texts(page)
    assert data(page)["rows"] == []


def test_what_has_no_page_is_refused(tmp_path, outs, capsys):
    with pytest.raises(ValueError, match="outs must be one or two directories, got 0"):
        sweep.report()
    with pytest.raises(ValueError, match="outs must be different directories"):
        sweep.report(outs[0], outs[0])
    for arguments, said in (
        ([tmp_path], "experiment.json"),
        ([], "NAME|DIR"),
        ([outs[0]] * 3, "NAME|DIR must be one or two, got 3"),
        ([outs[0], "--out", tmp_path / "no" / "x.html"], "--out must be a file"),
    ):
        assert cli.main(["report", *map(str, arguments)]) == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
    assert cli.main(["report", str(outs[0]), "--out", str(tmp_path / "x.html")]) == 0
    assert (tmp_path / "x.html").stat().st_size > 10_000


SCRIPT = """  const get = (id) => page.getElementById(id);
  const all = (selector) => [...page.querySelectorAll(selector)];
  const pick = (id, value) => {
    if (!("value" in get(id))) throw id;
    get(id).value = value;
    get(id).dispatchEvent(new view.Event(get(id).type === "search" ? "input" : "change"));
  };
  const count = () => ({points: all(".point").length, panels: all("#panels svg").length,
    rows: all("#sheet tbody tr").length, count: get("count").textContent});
  const column = (n) => all(`#sheet tbody tr td:nth-child(${n})`).map((x) => x.textContent);
  const seen = {first: count(), heads: all("#sheet th").map((x) => x.textContent)};
  pick("only-epsilon", "1");
  seen.filtered = count();
  pick("only-epsilon", "");
  pick("search", "k-rr");
  seen.searched = count();
  pick("search", "");
  const heads = all("#sheet th button");
  const rmse = seen.heads.indexOf("RMSE");
  heads[rmse].click();
  seen.up = column(rmse + 1);
  all("#sheet th button")[rmse].click();
  seen.down = column(rmse + 1);
  seen.sort = all("#sheet th")[rmse].getAttribute("aria-sort");
  pick("pick-col", "");
  seen.one = count();
  const mark = page.querySelector(".point").getBoundingClientRect();
  const at = {clientX: mark.x + 3, clientY: mark.y + 3};
  page.querySelector("#panels svg").dispatchEvent(new view.PointerEvent("pointermove", at));
  seen.told = get("told").textContent;
  pick("pick-x", "mechanism");
  seen.texts = all("#panels svg text").map((x) => x.textContent);
  pick("pick-y", "bias");
  seen.logs = [get("log-x").checked, get("log-y").checked];
  page.querySelector("#sheet tbody button").click();
  seen.spec = get("cell-spec").textContent;
  seen.pairs = all("#pairs tbody tr").map((row) => [...row.cells].map((x) => x.textContent));
  seen.numbers = all("#panels svg path, #panels svg line, #panels svg text").filter(
    (x) => [...x.attributes].some((a) => a.value.includes("NaN"))).length;
"""


def test_a_browser_draws_filters_and_sorts(outs, page, tmp_path):
    seen = driven(page, SCRIPT, tmp_path)
    assert seen["first"] == {"points": 18, "panels": 3, "rows": 18, "count": "18 of 18 rows"}
    few = {"points": 6, "panels": 3, "rows": 6, "count": "6 of 6 rows, 18 without filters"}
    assert seen["filtered"] == few
    assert seen["searched"] == few | {
        "points": 9,
        "rows": 9,
        "count": "9 of 9 rows, 18 without filters",
    }
    errors, bars = zip(*(map(float, text.split(" ± ")) for text in seen["up"]), strict=True)
    assert list(errors) == sorted(errors)
    true = sorted(sweep.collect(outs[0])["rmse"].to_pylist())
    # Both numbers end with the second digit of the standard error.
    assert all(abs(x - t) <= 0.051 * bar for x, t, bar in zip(errors, true, bars, strict=True))
    assert seen["down"] == seen["up"][::-1]
    assert seen["sort"] == "descending"
    assert seen["one"]["panels"] == 1
    assert re.match(
        r"mechanism .*, ε [\d.]+, entry \d: root mean squared error [\d.]+ ± ", seen["told"]
    )
    assert "k-RR" in seen["texts"]
    assert seen["logs"] == [False, False]  # biases have both signs
    assert json.loads(seen["spec"])["num_trials"] == 20
    assert seen["numbers"] == 0
    assert seen["overflow"] <= 0
    assert seen["small"] == 0


def test_a_browser_shows_two_sweeps(outs, pair, tmp_path):
    seen = driven(pair, SCRIPT, tmp_path)
    assert seen["first"]["rows"] == 36
    (before, after) = (sweep.collect(out).to_pylist() for out in outs)
    assert len(seen["pairs"]) == 12  # two epsilons are in both
    mechanism, epsilon, entry, a, b, ratio, off = seen["pairs"][0]
    (one,) = (
        r
        for r in before
        if (r["mechanism"], r["epsilon"], r["entry"]) == (mechanism, float(epsilon), int(entry))
    )
    (two,) = (
        r
        for r in after
        if (r["mechanism"], r["epsilon"], r["entry"]) == (mechanism, float(epsilon), int(entry))
    )
    assert float(a) == pytest.approx(one["bias"], rel=1e-3)
    assert float(b) == pytest.approx(two["bias"], rel=1e-3)
    assert float(ratio) == pytest.approx(two["bias"] / one["bias"], rel=1e-3)
    error = math.hypot(one["bias_stderr"], two["bias_stderr"])
    assert float(off) == pytest.approx((two["bias"] - one["bias"]) / error, abs=0.06)
