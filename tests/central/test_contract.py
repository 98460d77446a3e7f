"""Contracts of every mechanism of the central model: sensitivity, calibration, law of the noise."""

import dataclasses
import math

import jax
import numpy as np
import pytest
from scipy import integrate
from scipy import stats as laws

from jaxdp._checked import field_checks
from jaxdp.accounting import gaussian_delta, gaussian_sigma
from jaxdp.central import CosineSet, MomentSet
from tests import stats
from tests.central.cases import BALL, CASES, ids, mechanism_of

DRAWS = 3000


def sizes(moves):
    return np.linalg.norm(moves.reshape(len(moves), -1), axis=1)


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_sensitivity_is_the_largest_move_of_one_user(case, rng):
    """No neighbouring data sets that a search finds are further apart, and some are as far."""
    mechanism = mechanism_of(case)
    largest = sizes(case.moves(mechanism, rng)).max()
    assert largest <= mechanism.sensitivity * (1 + 1e-12)
    assert largest >= mechanism.sensitivity * (1 - case.slack)


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_delta_is_the_divergence_of_the_worst_neighbours(case, rng):
    """The hockey-stick divergence of two normal laws that far apart, by quadrature.

    As far apart as neighbours are, and what the rounding to whole steps adds, next to nothing.
    """
    mechanism = mechanism_of(case)
    largest = sizes(case.moves(mechanism, rng)).max()
    gap = mechanism.rounded_sensitivity / mechanism.sigma
    assert largest * (1 - 1e-12) <= mechanism.rounded_sensitivity <= largest * (1 + 2e-4)
    plain = gaussian_sigma(mechanism.epsilon, mechanism.delta, largest)
    assert plain * (1 - 1e-12) <= mechanism.sigma <= plain * (1 + 1e-3)
    for epsilon in (0.0, 0.3, mechanism.epsilon):
        start = epsilon / gap + gap / 2  # where the likelihood ratio is e**epsilon
        delta, _ = integrate.quad(
            lambda x, e=epsilon: laws.norm.pdf(x - gap) - math.exp(e) * laws.norm.pdf(x),
            start,
            start + 12,
            epsabs=1e-16,
            epsrel=1e-10,
        )
        tables = (1 + math.exp(epsilon)) * 3e-15 * mechanism.num_entries
        assert mechanism.exact_delta(epsilon) == pytest.approx(delta, rel=1e-5, abs=tables)
    assert mechanism.exact_epsilon() == mechanism.epsilon == 1.0
    assert 0.99 * mechanism.delta < mechanism.exact_delta() <= mechanism.delta
    # negative control: less noise than for the whole distance is not private
    weak = gaussian_delta(mechanism.epsilon, mechanism.sensitivity, 0.8 * mechanism.sigma)
    assert weak > 5 * mechanism.delta


@pytest.mark.parametrize("case", [case for case in CASES if case.noise], ids=ids)
def test_noise_is_normal_along_what_a_user_moves(case, rng):
    """Its deviation is sigma in the direction of the largest moves, so the divergence is theirs.

    Power 0.999 to see a deviation that is 15 % off.
    """
    mechanism = mechanism_of(case)
    moves = case.moves(mechanism, rng)
    worst = moves[np.argsort(-sizes(moves))[:3]].reshape(3, -1)
    noise = case.noise(mechanism, DRAWS, rng).reshape(DRAWS, -1)
    along = noise @ (worst / np.linalg.norm(worst, axis=1, keepdims=True)).T / mechanism.sigma
    law = {"mean": np.zeros(3), "kurtosis": 3.0}
    stats.check_variance(along, np.ones(3), **law)
    stats.must_fail(stats.check_variance, along / 1.15, np.ones(3), **law)
    stats.check_cdf(along[:, 0], laws.norm.cdf)


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_traced_epsilon_is_refused_with_the_remedy(case):
    with pytest.raises(TypeError, match=r"epsilon.*build"):
        jax.jit(case.make)(1.0)


SPECS = {type(case.make(1.0)): case.make(1.0) for case in reversed(CASES)}
SETS = {type(each): each for each in (BALL, CosineSet(3), MomentSet(4, 2))}
FIELDS = [
    pytest.param(spec, name, check, id=f"{cls.__name__}-{name}")
    for cls, spec in (SPECS | SETS).items()
    for name, check in field_checks(cls)
]


@pytest.mark.parametrize(("spec", "name", "check"), FIELDS)
def test_bad_fields(spec, name, check):
    """What the check of a field says it refuses is refused, by a message that names the field."""
    for bad in check.bad:
        with pytest.raises((ValueError, TypeError), match=name):
            dataclasses.replace(spec, **{name: bad})
