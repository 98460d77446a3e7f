"""The audits of other clients: their code is played on every draw, and what is missing is named."""

import json
import math
import random
import types
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from benchmarks import _clients, _plays, _report, _reporting, audits
from jaxdp.randomizers import KRR

HALF = Fraction(1, 2)


def played(report, **options):
    draws = _plays.Draws()
    with _plays.replaced(draws, **options):
        return draws.channel(lambda: _plays.hashable(report()))


def uniform_over(*reports):
    return dict.fromkeys(reports, Fraction(1, len(reports)))


PLAYS: dict[str, tuple[Any, dict]] = {
    "random": (lambda: random.random() < 0.25, {True: Fraction(1, 4), False: Fraction(3, 4)}),
    "randint": (lambda: random.randint(2, 4), uniform_over(2, 3, 4)),
    "choices": (
        lambda: random.choices("ab", weights=[0.25, 0.75]),
        {("a",): Fraction(1, 4), ("b",): Fraction(3, 4)},
    ),
    "numpy randint": (lambda: np.random.randint(1, 3), uniform_over(1, 2)),  # noqa: NPY002
    "numpy rand": (
        lambda: np.random.rand(2) < 0.5,  # noqa: NPY002
        uniform_over((True, True), (True, False), (False, True), (False, False)),
    ),
    "numpy choice": (
        lambda: np.random.choice(3, 2, replace=False),  # noqa: NPY002
        uniform_over((0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)),
    ),
    "numpy weights": (
        lambda: np.random.choice([1, 0], size=1, p=[0.75, 0.25]),  # noqa: NPY002
        {(1,): Fraction(3, 4), (0,): Fraction(1, 4)},
    ),
    "numpy binomial": (
        lambda: np.random.binomial(2, 0.5),  # noqa: NPY002
        {0: HALF**2, 1: HALF, 2: HALF**2},
    ),
    "nothing drawn": (list, {(): Fraction(1)}),
}


@pytest.mark.parametrize("name", PLAYS)
def test_all_values_of_a_draw_are_played(name):
    report, expected = PLAYS[name]
    assert played(report) == expected
    assert isinstance(random.random(), float)  # nothing stays replaced


def test_one_uniform_is_compared_several_times():
    """Its later comparisons are those of the same number."""

    def third():
        u = random.random()
        return "low" if u < 0.25 else "middle" if u <= 0.5 else "high" if u > 0.5 else "never"

    found = played(third)
    step = Fraction(1, 2**53)
    assert found == {"low": Fraction(1, 4), "middle": Fraction(1, 4) + step, "high": HALF - step}
    assert played(lambda: random.random() >= 1.0) == {False: Fraction(1)}


def test_a_generator_is_replaced():
    owner = types.SimpleNamespace(rng=np.random.default_rng(0))
    found = played(lambda: owner.rng.integers(0, 2, size=(1,)), owners=[owner])
    assert found == uniform_over((0,), (1,))
    assert isinstance(owner.rng, np.random.Generator)


def test_numba_functions_are_played_as_python():
    module = types.ModuleType("compiled")
    module.draw = lambda: "compiled"  # pyright: ignore
    module.draw.py_func = lambda: random.random() < 0.5  # pyright: ignore

    def report():
        return module.draw()

    assert played(report, modules=[module]) == uniform_over(True, False)
    assert module.draw() == "compiled"  # pyright: ignore


def test_seeds_are_some_of_all():
    found = played(lambda: random.randint(0, 2**63 - 1))
    assert set(found.values()) == {Fraction(1, _plays.NUM_SEEDS)}
    assert all(isinstance(seed, int) and 0 <= seed < 2**63 for seed in found)


def response(epsilon, k=4, listed=False):
    """k-ary randomized response, or subset selection of two with the own value first."""
    keep = (1 + listed) * math.exp(epsilon) / ((1 + listed) * math.exp(epsilon) + k - 1 - listed)

    def report(value):
        others = [x for x in range(k) if x != value]
        drawn = np.random.choice(others, 1 + listed, replace=False).tolist()  # noqa: NPY002
        if random.random() < keep:
            drawn[0] = value
        return drawn

    return report


def test_a_client_that_leaks_is_caught_and_its_twin_is_not():
    assert _clients.Client(response(1.0), range(4)).exact_epsilon() == pytest.approx(1, rel=1e-12)
    ordered = response(1.0, listed=True)
    assert _clients.Client(ordered, range(4)).exact_epsilon() == math.inf
    as_set = _clients.Client(lambda x: sorted(ordered(x)), range(4)).exact_epsilon()
    assert as_set == pytest.approx(1, rel=1e-12)


def test_only_neighbours_are_compared():
    """Values 0 and 2 differ most; of 0 and 1 alone the ratio is smaller."""
    chances = [0.2, 0.4, 0.8]
    client = {"report": lambda x: random.random() < chances[x], "inputs": range(3)}
    assert _clients.Client(**client).exact_epsilon() == pytest.approx(math.log(4))
    near = _clients.Client(**client, neighbours=[(0, 1)]).exact_epsilon()
    assert near == pytest.approx(math.log(2))


def missing():
    raise ImportError("No module named 'gone'")


def test_what_is_missing_is_named_and_the_rest_goes_on(monkeypatch, tmp_path, capsys):
    def clients():
        return [
            ("honest", "k = 4", lambda e: _clients.Client(response(e), range(4))),
            ("leaks", "k = 4", lambda e: _clients.Client(response(e + 1), range(4))),
        ]

    def reporting(excess):
        def reports(value, size):
            rng = np.random.default_rng(value)
            return np.where(rng.random(size) < 0.9, value, 1 - value)

        return [_reporting.Reporting("here", "coin", "k = 2", 1.0, 0.5, reports)]

    monkeypatch.setattr(_clients, "LIBRARIES", {"gone": missing, "here": clients})
    monkeypatch.setattr(_clients, "OURS", {"KRR": lambda e: KRR(4, e)})
    monkeypatch.setattr(_reporting, "LIBRARIES", {"gone": lambda _: missing(), "here": reporting})
    monkeypatch.setattr(_reporting, "reports_needed", lambda *_, **__: 20_000)
    _report.run_sections(audits.SECTIONS, ["enumerated", "sampled"], tmp_path)
    sections = json.loads((tmp_path / "results.json").read_text())["sections"]
    gone, honest, leaks, ours = sections["enumerated"]
    assert "not installed" in gone["client"]
    assert (honest["ε = 2"], leaks["ε = 2"], ours["ε = 2"]) == ("2.0000", "**3.0000**", "2.0000")
    assert "not installed" in sections["sampled"][0]["client"]
    assert sections["sampled"][1]["ε at least"].startswith("**")
    assert "not installed" in capsys.readouterr().out


def test_an_audit_takes_as_many_reports_as_show_five_percent():
    taken = []

    def reports(value, size):
        taken.append(size)
        return np.random.default_rng(value).integers(2, size=size)

    found = _reporting.Reporting("here", "coin", "k = 2", 2.0, 0.88, reports).audit()
    assert taken == [found.num_samples] * 2
    assert 10**5 < found.num_samples < 10**6
    assert not found.violates


@pytest.mark.parametrize("library", _clients.LIBRARIES)
def test_clients_of_installed_libraries(library):
    """Every one is listed and played; what is above its claim is as published."""
    try:
        listed = _clients.LIBRARIES[library]()
    except ImportError as error:
        pytest.skip(f"{library}: {error}")
    stored = json.loads((audits.FOLDER / "results.json").read_text())["sections"]["enumerated"]
    expected = {(r["client"], r["domain"]): r["ε = 1"] for r in stored if r["library"] == library}
    found = {
        (name, domain): audits.shown(make(1.0).exact_epsilon(), 1.0)
        for name, domain, make in listed
    }
    assert found == expected


def test_the_published_table_is_that_of_the_json():
    stored = json.loads((audits.FOLDER / "results.json").read_text())["sections"]
    tables = (audits.FOLDER / "tables.md").read_text()
    assert set(stored) == set(audits.SECTIONS)
    for name, section in audits.SECTIONS.items():
        assert f"{section.__doc__}\n\n{_report.rows_table(stored[name])}\n" in tables
