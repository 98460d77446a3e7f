"""Experiments of one's own: grids, files, and what `jaxdp new` writes."""

import dataclasses
import sys

import numpy as np
import pytest

from jaxdp import randomizers, sweep
from jaxdp.sweep import cli

from .naps import Nap


def test_a_grid_has_every_combination():
    points = sweep.grid(mechanism={"a": randomizers.KRR, "b": None}, n=np.array([1, 2]))
    assert [point.labels for point in points] == [
        {"mechanism": m, "n": n} for m in "ab" for n in (1, 2)
    ]
    assert points[0].mechanism is randomizers.KRR
    assert type(points[0].n) is int
    with pytest.raises(AttributeError, match="mechanism, n, and not 'epsilon'"):
        _ = points[0].epsilon


@pytest.mark.parametrize(
    ("axes", "error", "said"),
    [
        ({}, ValueError, "axes"),
        ({"labels": [1]}, ValueError, "labels"),
        ({"n": []}, ValueError, "n must have one or more"),
        ({"n": [1, 1]}, ValueError, "different"),
        ({"n": 3}, TypeError, "n must be several"),
        ({"n": "abc"}, TypeError, "n must be several"),
        ({"protocol": [randomizers.KRR(2, 1.0)]}, TypeError, "mapping of labels"),
    ],
)
def test_bad_grids(axes, error, said):
    with pytest.raises(error, match=said):
        sweep.grid(**axes)


@dataclasses.dataclass(frozen=True)
class Bare(Nap):
    """A cell whose rows do not say which cell they are of."""

    def rows(self):
        return [{"root": self.value**0.5}]


def test_rows_have_the_labels_of_their_cell(tmp_path):
    sweep.run([Bare(4.0), Bare(9.0)], tmp_path)
    assert sweep.collect(tmp_path).to_pylist() == [
        {"value": 4.0, "root": 2.0},
        {"value": 9.0, "root": 3.0},
    ]


def test_a_new_experiment_runs_as_it_is(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert cli.main(["new", "my-survey"]) == 0
    assert "jaxdp run my_survey.py" in capsys.readouterr().out
    assert cli.main(["new", "my-survey"]) == 2
    assert "exists" in capsys.readouterr().err
    assert cli.main(["run", "my_survey.py", "--quick"]) == 0
    assert "2 computed" in capsys.readouterr().out
    assert (tmp_path / "jaxdp-results" / "my-survey" / "my-survey.png").stat().st_size > 10_000
    assert cli.main(["run", "my_survey:EXPERIMENT", "--quick"]) == 0
    assert "2 reused" in capsys.readouterr().out
    assert cli.main(["status", "my_survey.py"]) == 0
    assert "2 of 2 cells done" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere.py", "not there"),
        ("empty.py", "defines EXPERIMENT"),
        ("no_such_module:EXPERIMENT", "imported"),
        ("empty:OTHER", "defines OTHER"),
    ],
)
def test_what_is_no_experiment(name, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "empty.py").write_text("")
    assert cli.main(["run", name]) == 2
    assert said in capsys.readouterr().err
