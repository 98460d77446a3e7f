"""Hostile values for the arguments of the public callables: an answer, or an error that names one.

Also failures: any other exception, an answer of NaN from finite values, the answer of an integer's
lower bits, a hang, 4 GiB of memory.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import hostile
from tests.hostile import VALUES, Subject, verdict

NAMES = sorted(hostile.subjects())
QUICK = [
    name
    for name in NAMES
    if name.startswith(("Operator", "Population", "accounting", "randomizers", "workloads"))
]
"""What is asked by default: those that compile little."""

replaced = st.data()


def _judge(data: st.DataObject, names: list[str]) -> None:
    subject = hostile.subjects()[data.draw(st.sampled_from(names), label="callable")]
    arguments = st.sampled_from(sorted(subject.good))
    chosen = data.draw(st.lists(arguments, min_size=1, max_size=2, unique=True), label="arguments")
    labels = {name: data.draw(st.sampled_from(sorted(VALUES)), label=name) for name in chosen}
    wrong = verdict(subject, labels)
    assert wrong is None, wrong


@given(replaced)
@settings(max_examples=2000, suppress_health_check=list(HealthCheck), database=None)
def test_hostile_values_are_refused_by_name(data):
    _judge(data, QUICK)


@pytest.mark.slow
@given(replaced)
@settings(max_examples=5000, suppress_health_check=list(HealthCheck), database=None)
def test_hostile_values_for_everything_are_refused_by_name(data):
    _judge(data, NAMES)


@pytest.mark.parametrize(
    ("wrong", "call"),
    [
        ("raises", lambda x: {}["x"]),
        ("names no argument", lambda x: int("z")),
        ("answers NaN", lambda x: float("nan")),
        ("hangs", lambda x: iter(int, 1).__class__ and [1 for _ in iter(int, 1)]),
    ],
)
def test_the_judge_convicts(wrong, call, monkeypatch):
    monkeypatch.setattr(hostile, "SECONDS", 0.05)
    assert wrong in str(verdict(Subject("broken", call, {"x": 1}), {"x": "seven"}))
    assert verdict(Subject("sound", lambda x: x, {"x": 1}), {"x": "seven"}) is None


def test_the_judge_convicts_what_loses_upper_bits():
    broken = Subject("broken", lambda x: 2 * (x % 2**32), {"x": 1})
    assert "wraps" in str(verdict(broken, {"x": "users"}))
    for sound in (lambda x: 2 * x, lambda x: 3, lambda x: x > 2**31):
        assert verdict(Subject("sound", sound, {"x": 1}), {"x": "users"}) is None
