"""What results look like: together or one by one, filtered, as text, as a figure."""

import csv
import io
import itertools
import json

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")

import jaxdp  # noqa: E402
from jaxdp import figures, sweep  # noqa: E402
from jaxdp.sweep import cli  # noqa: E402
from jaxdp.sweep._where import condition  # noqa: E402

COUNTS = {3: [600, 300, 100], 20: [50] * 20}


def simulation(size, epsilon, num_trials=30):
    return sweep.Simulation(
        protocol=jaxdp.randomizers.KRR(size, epsilon),
        data=sweep.HistogramData(COUNTS[size]),
        num_trials=num_trials,
        labels={"size": size, "epsilon": epsilon},
    )


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("look")
    sweep.run([simulation(k, e) for k in COUNTS for e in (0.5, 1.0, 2.0)], folder, name="look")
    return folder


@pytest.fixture(scope="module")
def results(out):
    return sweep.collect(out)


def test_a_summary_is_of_all_entries(results):
    rows = sweep.summarize(results).to_pylist()
    assert [(row["size"], row["epsilon"]) for row in rows] == [
        *itertools.product(COUNTS, (0.5, 1.0, 2.0))
    ]
    for row in rows:
        own = [
            r
            for r in results.to_pylist()
            if (r["size"], r["epsilon"]) == (row["size"], row["epsilon"])
        ]
        errors = np.array([np.array(r["estimates"]) - r["truth"] for r in own])
        squares = (errors**2).sum(axis=0)
        assert row["entries"] == row["size"] == len(own)
        assert row["total_mse"] == pytest.approx(squares.mean())
        assert row["total_mse_stderr"] == pytest.approx(squares.std(ddof=1) / np.sqrt(30))
        assert row["rmse"] ** 2 * row["size"] == pytest.approx(row["total_mse"])
        assert row["max_rmse"] == max(r["rmse"] for r in own)
        assert row["max_error"] == pytest.approx(np.abs(errors).max(axis=0).mean())
        assert row["tv"] == pytest.approx(np.abs(errors).sum(axis=0).mean() / 2 / 1000)
        exact = jaxdp.randomizers.KRR(row["size"], row["epsilon"]).variance(COUNTS[row["size"]])
        assert row["predicted_total_mse"] == pytest.approx(exact.sum())


def test_a_summary_of_part_of_the_rows(results):
    """Cells are told apart by their labels, and entries where labels are missing."""
    odd = results.filter(pa.compute.equal(results["entry"], 1))
    assert sweep.summarize(odd)["entries"].to_pylist() == [1] * 6
    assert sweep.summarize(odd)["tv"].to_pylist() == [None] * 6  # no histogram any more
    alike = results.drop_columns(["size", "epsilon"])
    assert sweep.summarize(alike)["entries"].to_pylist() == [3, 3, 3, 20, 20, 20]


def test_a_summary_without_trials(results):
    bare = sweep.summarize(results.drop_columns(["estimates"])).to_pylist()
    whole = sweep.summarize(results).to_pylist()
    for a, b in zip(bare, whole, strict=True):
        assert a["total_mse"] == b["total_mse"]
        assert a["max_error"] is a["tv"] is a["rmse_stderr"] is None
    other = pa.Table.from_pylist([{"a": 1}])
    assert sweep.summarize(other) is other


def test_results_are_a_data_frame(results):
    pandas = pytest.importorskip("pandas")
    frame = results.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    means = frame[frame["size"] == 3].groupby("epsilon")["rmse"].mean()
    assert list(means.index) == [0.5, 1.0, 2.0]


ROWS = [
    {"epsilon": 0.5, "name": "k-RR", "n": 10, "bound": None},
    {"epsilon": 1.0, "name": "RAPPOR", "n": 20, "bound": 3.0},
    {"epsilon": 2.0, "name": "k-RR", "n": 30, "bound": 1.0},
]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("epsilon == 1", [1]),
        ("epsilon != 1", [0, 2]),
        ("0.5 < epsilon <= 2", [1, 2]),
        ("name == 'k-RR' and n > 10", [2]),
        ("name == 'k-RR' or n == 20", [0, 1, 2]),
        ("not (name == 'k-RR')", [1]),
        ("name in ('RAPPOR', 'x')", [1]),
        ("epsilon not in [0.5, 1]", [2]),
        ("'RR' in name", [0, 2]),
        ("bound > 2", [1]),  # what is missing is not larger
        ("bound == None", [0]),
        ("n > -1", [0, 1, 2]),
        ("n * 1 > 2", None),
        ("name == RAPPOR", None),
        ("__import__('os').system('true')", None),
        ("name.upper() == 'x'", None),
        ("(lambda: 1)() == 1", None),
        ("[n for n in 'ab'] == n", None),
        ("n", None),
        ("n = 3", None),
        ("", None),
        ("(" * 500 + "n" + ")" * 500, None),
        ("not " * 5000 + "n == 1", None),
        ("n == 1\x00", None),
        ("name == f'{n}'", None),
        ("name == b'x'", None),
    ],
)
def test_conditions(text, places):
    if places is None:
        with pytest.raises(ValueError, match=r"^where must"):
            condition(text, list(ROWS[0]))
    else:
        meets = condition(text, list(ROWS[0]))
        assert [i for i, row in enumerate(ROWS) if meets(row)] == places


def test_a_wrong_column_is_named():
    with pytest.raises(ValueError, match="columns: epsilon, name, n, bound; got 'eps'"):
        condition("eps == 1", list(ROWS[0]))


def shown(capsys, *arguments):
    assert cli.main(["show", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_many_entries_are_shown_together(out, capsys):
    text = shown(capsys, out)
    assert "largest RMSE" in text
    assert "TV ± s.e." in text
    assert "entries" in text
    assert len(text.splitlines()) < 20
    assert len(shown(capsys, out, "--entries").splitlines()) > 69
    few = shown(capsys, out, "--where", "size == 3 and epsilon == 1", "--limit", 1)
    assert few.count("0.5") == 0
    assert "no rows" in shown(capsys, out, "--where", "size == 4")


def test_values_are_whole_in_csv_and_json(out, results, capsys):
    for rows in (
        list(csv.DictReader(io.StringIO(shown(capsys, out, "--csv")))),
        json.loads(shown(capsys, out, "--json")),
    ):
        assert [float(r["rmse"]) for r in rows] == sweep.summarize(results)["rmse"].to_pylist()
    entries = json.loads(shown(capsys, out, "--json", "--entries", "--limit", 25))
    assert entries == results.slice(0, 25).to_pylist()
    table = csv.DictReader(io.StringIO(shown(capsys, out, "--csv", "--entries")))
    assert "estimates" not in table.fieldnames
    assert len(list(table)) == 69
    assert json.loads(shown(capsys, out, "--json", "--where", "size == 4")) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--where n==1", "where must name columns: size, epsilon, entries"),
        ("--where size=1", "where must be a condition"),
        ("--csv --json", "--csv and --json are two forms"),
        ("--limit -1", "--limit must be at least 0"),
        ("--limit x", "--limit must be an integer, got 'x'"),
    ],
)
def test_mistakes_of_show_are_one_line(out, arguments, said, capsys):
    assert cli.main(["show", str(out), *arguments.split()]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_plot_shows_points_and_predictions(results):
    summary = sweep.summarize(results)
    figure = sweep.plot(summary, x="epsilon", y="rmse", hue="size")
    (axes,) = figure.axes
    assert axes.get_xscale() == "log"
    assert axes.get_ylabel() == "root mean squared error"
    assert [text.get_text() for text in axes.get_xticklabels()] == ["0.5", "1", "2"]
    assert figure.get_figwidth() == figures.COLUMN
    for container, size in zip(axes.containers, COUNTS, strict=True):
        own = [row for row in summary.to_pylist() if row["size"] == size]
        points, _, (bars,) = container.lines
        np.testing.assert_array_equal(
            points.get_xydata(), [(row["epsilon"], row["rmse"]) for row in own]
        )
        for segment, row in zip(bars.get_segments(), own, strict=True):
            assert segment[1, 1] - segment[0, 1] == pytest.approx(4 * row["rmse_stderr"])
    dashed = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert [list(line.get_ydata()) for line in dashed] == [
        [row["predicted_rmse"] for row in summary.to_pylist() if row["size"] == size]
        for size in COUNTS
    ]
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["size = 3", "size = 20", "predicted"]


def test_errors_of_single_estimates_have_bars(results):
    one = results.filter(pa.compute.equal(results["entry"], 0))
    figure = sweep.plot(one, x="epsilon", y="rmse", col="size", bound=False)
    assert len(figure.axes) == 2
    assert figure.get_figwidth() == figures.PAGE
    assert all(axes.containers[0].has_yerr for axes in figure.axes)
    assert [axes.get_title() for axes in figure.axes] == ["size = 3", "size = 20"]


def test_texts_stand_side_by_side():
    rows = [
        {"data": d, "way": w, "error": 1.0 + i + j, "predicted": 1.0}
        for i, d in enumerate("abc")
        for j, w in enumerate("xy")
    ]
    figure = sweep.plot(pa.Table.from_pylist(rows), x="data", y="error", hue="way")
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_xticklabels()] == list("abc")
    assert axes.get_yscale() == "linear"
    x = [container.lines[0].get_xdata() for container in axes.containers]
    assert np.all(np.abs(x[0] - np.arange(3)) < 0.5)
    assert np.all(x[0] < x[1])


def test_values_that_are_missing_are_left_out():
    rows = [{"n": n, "mse": None if n == 100 else 1 / n, "bound": 2 / n} for n in (1, 10, 100)]
    (axes,) = sweep.plot(pa.Table.from_pylist(rows), x="n", y="mse").axes
    assert list(axes.containers[0].lines[0].get_xdata()) == [1, 10]
    assert axes.get_yscale() == axes.get_xscale() == "log"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (dict(x="eps", y="rmse"), "columns must be among size, epsilon.*, got 'eps'"),
        (dict(x="epsilon", y="estimates"), "got 'estimates'"),
        (dict(x="epsilon", y="method"), "y must be a column of numbers, got 'method', of string"),
        (dict(x="epsilon", y="rmse"), "differ in entry, truth,.* sweep.summarize"),
        (dict(x="epsilon", y="rmse", hue="size", predicted="p"), "got 'p'"),
    ],
)
def test_what_cannot_be_drawn_is_refused(results, options, said):
    with pytest.raises(ValueError, match=said):
        sweep.plot(results, **options)


def test_a_figure_of_nothing_is_refused(results):
    with pytest.raises(ValueError, match="theme must be"):
        sweep.plot(sweep.summarize(results), x="epsilon", y="tv", hue="size", theme="grey")
    with pytest.raises(ValueError, match="table must have rows"):
        sweep.plot(results.slice(0, 0), x="epsilon", y="rmse")


def test_plots_by_the_command(out, tmp_path, capsys):
    path = tmp_path / "figure.pdf"
    line = f"plot {out} --x epsilon --y tv --hue size --width 3.3 --theme dark --out {path}"
    assert cli.main(line.split()) == 0
    assert capsys.readouterr().out == f"{path}\n"
    assert path.read_bytes().startswith(b"%PDF")
    for arguments, said in (
        ("", "it has no figure of its own"),
        ("--x epsilon", "--x and --y go together"),
        ("--x epsilon --y tau", "got 'tau'"),
        ("--x epsilon --y tv", "differ in size"),
        ("--x epsilon --y tv --hue size --out a.gif", "--out must end in"),
        ("--x epsilon --y tv --hue size --out no/a.png", "--out must be a file"),
    ):
        assert cli.main(["plot", str(out), *arguments.split()]) == 2
        assert said in capsys.readouterr().err
