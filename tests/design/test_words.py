"""What a plan says in words, and the command that prints it."""

import json

import pytest

from jaxdp._form import spec_from_json
from jaxdp.design import Change, Comparison, Histogram, Marginals, Mean, plan
from jaxdp.sweep.cli import main


def test_words_name_the_numbers():
    words = " ".join(plan(Histogram(1000), users=50_000, error=0.01).in_words().split())
    assert words.startswith("A histogram of 1,000 values, from 50,000 users, with an error of 0.01")
    assert "needs an epsilon of 0.866, with AffineSubsets" in words
    assert "no report is more than 2.38 times as likely" in words
    assert "at most 70.4% sure" in words  # 2.38 / 3.38
    assert "The error is exact" in words
    assert "AffineSubsets(num_values=1000, epsilon=0.866" in words


def test_a_curator_is_sent_values():
    found = plan(Histogram(5), users=1000, epsilon=1.0, delta=1e-6, trust="central")
    words = " ".join(found.in_words().split())
    assert "every person sends their value once. People trust a curator" in words
    assert "simulation only" not in words


def test_units_are_said():
    found = plan(Mean(0, 1), users=1000, epsilon=1.0, confidence=0.95, relative=True)
    words = " ".join(found.in_words().split())
    assert "half of a 0.95 confidence interval, relative to an average answer" in words
    assert "has an error of" in words


def test_simulated_errors_have_a_standard_error():
    found = plan(Histogram(5), users=1000, epsilon=1.0, data="zipf", num_trials=50)
    words = found.in_words()
    assert found.best.error.kind == "simulated"
    assert "Its standard error is" in words
    assert "for zipf data" in " ".join(words.split())


def test_the_command_prints_words(capsys):
    pytest.importorskip("tyro")
    assert main("plan histogram --values 1000 --users 50000 --error 0.01".split()) == 0
    assert capsys.readouterr().out.rstrip() == (
        plan(Histogram(1000), users=50_000, error=0.01).in_words()
    )


def test_the_command_prints_what_to_deploy(capsys):
    pytest.importorskip("tyro")
    assert main("plan mean --low 0 --high 1 --users 50000 --error 0.01 --json".split()) == 0
    document = json.loads(capsys.readouterr().out)
    best = plan(Mean(0.0, 1.0), users=50_000, error=0.01).best
    assert spec_from_json(document["protocol"]) == best.protocol
    assert document["epsilon"] == best.epsilon


@pytest.mark.parametrize(
    ("arguments", "question", "given"),
    [
        ("marginals --features 4", Marginals(4, 2), {}),
        ("marginals --features 4 --order 1", Marginals(4, 1), {}),
        ("mean --low 0 --high 1 --groups 0.3", Comparison(Mean(0.0, 1.0), 0.3), {}),
        ("histogram --values 5 --reports 4", Histogram(5), {"num_reports": 4}),
        ("histogram --values 5 --changed 0.1", Change(Histogram(5), 0.1), {}),
        (
            "histogram --values 5 --response 0.5 --design-effect 1.5",
            Histogram(5),
            {"response": 0.5, "design_effect": 1.5},
        ),
        (
            "histogram --values 5 --reports 4 --delta 1e-6",
            Histogram(5),
            {"num_reports": 4, "delta": 1e-6},
        ),
        (
            "histogram --values 5 --delta 1e-6 --trust local shuffler secure-sum",
            Histogram(5),
            {"delta": 1e-6, "trust": ["local", "shuffler", "secure sum"]},
        ),
    ],
)
def test_the_command_asks_what_it_is_told(arguments, question, given, capsys):
    pytest.importorskip("tyro")
    assert main(f"plan {arguments} --users 5000 --epsilon 1".split()) == 0
    expected = plan(question, users=5000, epsilon=1.0, **given).in_words()
    assert capsys.readouterr().out.rstrip() == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("plan marginals --users 9 --epsilon 1", "marginals need --features"),
        ("plan top --values 9 --users 9 --epsilon 1", "needs --top"),
        ("plan top --values 9 --top 2 --users 9 --epsilon 1", "data must be given"),
        ("plan mean --users 100 --error 0.1", "a mean needs --low and --high"),
        ("plan histogram --users 100 --error 0.1", "needs --values"),
        ("plan histogram --values x --users 100 --error 0.1", "--values must be an integer"),
        (
            "plan histogram --values 9 --users 100",
            "users, epsilon and error must all be given but one",
        ),
        ("plan histogram --values 9 --users 100 --error -1", "error must be"),
        (
            "plan histogram --values 9 --users 99 --epsilon 1 --groups 0.5 --changed 0.1",
            "--groups and --changed are two questions",
        ),
        ("plan histogram --values 9 --users 99 --epsilon 1 --response 2", "response must be"),
        (
            "plan histogram --values 9 --users 99 --epsilon 1 --trust shuffler",
            "delta must be given for trust='shuffler'",
        ),
    ],
)
def test_mistakes_are_one_line(arguments, message, capsys):
    pytest.importorskip("tyro")
    assert main(arguments.split()) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_progress_says_what_is_solved(capsys):
    plan(Mean(0, 1), users=100, epsilon=1.0, progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    with pytest.raises(TypeError, match="progress must be"):
        plan(Mean(0, 1), users=100, epsilon=1.0, progress="yes")  # pyright: ignore[reportArgumentType]
