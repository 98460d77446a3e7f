"""Several questions on one budget, and several reports of a person."""

import dataclasses

import numpy as np
import pytest

import jaxdp
from jaxdp.accounting import gaussian_composition, gaussian_delta, optimal_composition
from jaxdp.design import Histogram, LinearQueries, Mean, Quantiles, plan, several
from jaxdp.linear import candidates
from jaxdp.randomizers import Gaussian

ASKED = {"transport": Histogram(8), "age": Mean(18, 100)}
ERRORS = {"transport": 0.01, "age": 1.0}


def test_shares_add_up_to_the_budget():
    found = several(ASKED, epsilon=1.0, errors=ERRORS)
    ways = {way.name: way for way in found.ways}
    assert set(ways) == {"groups", "split"}
    assert dict(found.refused)["shared"] == "the questions are not about the same values."
    groups, split = ways["groups"], ways["split"]
    assert sum(o.num_users for o in groups.options.values()) == groups.num_users
    assert {o.epsilon for o in groups.options.values()} == {1.0}
    assert 1.0 * (1 - 2e-3) < sum(o.epsilon for o in split.options.values()) <= 1.0 + 1e-9
    assert {o.num_users for o in split.options.values()} == {split.num_users}
    for way in found.ways:
        for name, option in way.options.items():
            assert ERRORS[name] * (1 - 2e-3) < option.error <= ERRORS[name]
            assert (
                float(option.error) == option.protocol.worst_case_variance(option.num_users) ** 0.5
                or name == "transport"
            )


def test_each_of_the_three_is_solved_for():
    users = several(ASKED, epsilon=1.0, errors=ERRORS).best
    epsilon = several(ASKED, users=users.num_users, errors=ERRORS).best
    assert epsilon.name == users.name == "groups"
    assert epsilon.epsilon == pytest.approx(1.0, rel=2e-3)
    asked = several(ASKED, users=users.num_users, epsilon=1.0)
    assert asked.solved == "errors"
    for way in asked.ways:
        ratios = [o.error / ASKED[name].typical for name, o in way.options.items()]
        assert max(ratios) <= way.largest * (1 + 1e-9)
        assert min(ratios) > way.largest * (1 - 5e-3)
    assert "| groups |" in str(asked)


def test_one_report_answers_questions_of_the_same_values():
    asked = {"shares": Histogram(16), "quantiles": Quantiles(16)}
    found = several(asked, users=50_000, epsilon=1.0)
    shared = next(way for way in found.ways if way.name == "shared")
    oracles = [o.protocol.oracle for o in shared.options.values()]
    assert oracles[0] == oracles[1]
    assert found.best.name == "shared"
    split = next(way for way in found.ways if way.name == "split")
    assert shared.options["shares"].error < split.options["shares"].error


@pytest.mark.parametrize(
    ("questions", "given", "message"),
    [
        (ASKED, dict(users=100), "got 1 of them"),
        ({"one": Histogram(3)}, dict(users=100, epsilon=1.0), "two at least"),
        (ASKED, dict(users=100, errors={"age": 1.0}), "errors must have the names"),
        (ASKED, dict(users=100, errors=-1.0), "errors of 'transport' must be"),
        (ASKED, dict(users=10, errors=1e-9), "no protocol reaches|no way reaches"),
    ],
)
def test_bad_arguments_are_named(questions, given, message):
    with pytest.raises(ValueError, match=message):
        several(questions, **given)


def test_questions_are_asked():
    with pytest.raises(TypeError, match="questions must be a mapping"):
        several([Histogram(3)], users=10, epsilon=1.0)  # pyright: ignore[reportArgumentType]


def test_reports_of_a_person_are_composed():
    """Pure ones by their sum, or as well as can be with delta; Gaussian ones exactly."""
    asked = LinearQueries(jaxdp.workloads.prefix(4))
    for delta in (None, 1e-6):
        makers = candidates(jaxdp.workloads.prefix(4), delta)
        some = {
            name: makers[name] for name in ("SubsetSelection", "GaussianQueries") if name in makers
        }
        given = dict(candidates=some, defaults=False, users=10_000, epsilon=2.0, delta=delta)
        once, often = plan(asked, **given), plan(asked, **given, num_reports=9)
        by_name = {option.name: option for option in often.options}
        one = by_name["SubsetSelection"].protocol.exact_epsilon()
        if delta is None:
            assert one <= 2.0 / 9
        else:
            assert optimal_composition(one, 9, delta).epsilon <= 2.0 * (1 + 1e-9)
            assert one > 2.0 / 9
            noise = by_name["GaussianQueries"].protocol.encoding().randomizer
            assert noise.composed_delta(9, 2.0) <= delta
            assert (
                dataclasses.replace(noise, epsilon=1.02 * noise.epsilon).composed_delta(9, 2.0)
                > delta
            )
            alone = next(o for o in once.options if o.name == "GaussianQueries").error
            assert by_name["GaussianQueries"].error == pytest.approx(3 * alone, rel=0.01)
        assert "9 times over the collections" in " ".join(often.in_words().split())
    with pytest.raises(ValueError, match=r"trust must be 'local' for 2 reports"):
        plan(Histogram(4), users=100, epsilon=1.0, delta=1e-6, num_reports=2, trust="central")


def test_composed_deltas_are_those_of_one_mechanism():
    noise = Gaussian(3, 0.5, 1e-6)
    assert noise.composed_delta(1, 0.5) == pytest.approx(noise.exact_delta(), rel=1e-9)
    for k in (2, 10):
        ideal = gaussian_delta(1.0, 2 * k**0.5, noise.sigma)
        assert ideal < noise.composed_delta(k, 1.0) < 1.2 * ideal


def test_gaussians_compose_as_one():
    ratios = np.array([0.3, 0.1, 0.25])
    epsilon = gaussian_composition(ratios, 1e-7)
    norm = float(np.linalg.norm(ratios))
    assert gaussian_delta(epsilon, norm, 1.0) <= 1e-7
    assert gaussian_delta(epsilon * (1 - 1e-6), norm, 1.0) > 1e-7
    assert gaussian_composition([1e-9], 0.1) == 0.0
    with pytest.raises(ValueError, match="ratios must be positive numbers"):
        gaussian_composition([0.0], 1e-6)
