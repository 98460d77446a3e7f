"""Lower bounds: every constant against enumerated channels, and bounds near what is attained."""

import itertools
import math

import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp import bounds, workloads
from jaxdp import factorization as fz
from jaxdp.factorization import _lower_bounds
from jaxdp.randomizers import SubsetSelection

EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
WORKLOADS = {
    "identity": workloads.identity(8),
    "prefix": workloads.prefix(8),
    "parity": workloads.parity(3, 3),
    "marginals": workloads.marginal(3, 2),
}


def staircases(size, epsilon):
    """The extreme ε-private channels whose reports are exchangeable, and RR of every halving."""
    likely = math.exp(epsilon)
    for chosen in range(1, size):
        sets = np.array(list(itertools.combinations(range(size), chosen)))
        law = np.ones((size, len(sets)))
        law[sets.T, np.arange(len(sets))] = likely
        yield law / law.sum(axis=1, keepdims=True)
    for code in range(1, 2 ** (size - 1)):
        inside = (code >> np.arange(size) & 1).astype(bool)
        law = np.where(inside[:, None] == np.array([True, False]), likely, 1.0)
        yield law / (likely + 1)


def lines_of(matrix, base, width):
    """The lines of a γ2 witness, written out: middle populations, directions, prior, length."""
    result = fz.gamma2(matrix, shift=True, tol=1e-6)
    p, q = np.asarray(result.row_weights), np.asarray(result.col_weights)
    witness = np.asarray(result.dual) - np.sum(result.dual, axis=1, keepdims=True) * q
    answers = np.sum(matrix * witness, axis=1)
    kept = answers > 1e-6 * answers.max()
    directions = witness[kept] / answers[kept, None]
    sizes = np.abs(directions).sum(axis=1, keepdims=True)
    middle = base * q + (1 - base) * np.abs(directions) / sizes
    prior = answers[kept] ** 2 / p[kept]
    length = width * (1 - base) * 2 / sizes.max()
    return middle, directions, prior / prior.sum(), length


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 5.0])
def test_reports_of_no_channel_are_further_apart(epsilon):
    """The affinity of the reports of a user, for every pair on a grid, and a bound that is used."""
    matrix = workloads.prefix(5)
    line = max(fz.hard_lines(matrix, tol=1e-6), key=lambda line: -line.length)
    nearest = 0.0
    for base, width in itertools.product((0.0, 0.5, 0.9), (0.5, 0.9, 1.0)):
        middle, directions, prior, length = lines_of(matrix, base, width)
        assert length >= width * (1 - base) * line.length * (1 - 1e-6)
        for share in (0.02, 0.3, 1.0):
            distance = share * width * (1 - base) * line.length
            allowed = float(line.exponents(np.array([distance]), epsilon, base, width)[0])
            for law in staircases(5, epsilon):
                for start in (-0.5, -share / 2, 0.5 - share):
                    one = np.maximum(middle + start * distance / share * directions, 0) @ law
                    other = one + distance * directions @ law
                    affinity = np.sum(np.sqrt(one * np.maximum(other, 0)), axis=1)
                    found = prior @ -np.log(affinity)
                    assert found <= allowed * (1 + 1e-5)
                    nearest = max(nearest, found / allowed)
    assert nearest > 0.3  # the bound is of the right size


def test_a_dirichlet_prior_hides_what_is_said(rng):
    """κ, by simulated populations: for every subset that is likely, and random directions."""
    for total, epsilon in itertools.product((12.0, 60.0), (0.5, 3.0)):
        mean = rng.dirichlet(np.ones(5)) * 0.5 + 0.1
        populations = rng.dirichlet(total * mean, size=20_000)
        allowed = _lower_bounds._private_information(epsilon, total)
        ratios = []
        for code in range(1, 2**5 - 1):
            law = np.where(code >> np.arange(5) & 1, math.exp(epsilon), 1.0)
            law /= mean @ law
            for _ in range(3):
                direction = rng.normal(size=5)
                direction -= direction.sum() * mean
                size = np.sum(direction**2 / mean)
                told = (direction @ law) ** 2 / (populations @ law)
                assert told.mean() / size <= allowed + 6 * told.std() / size / math.sqrt(20_000)
                ratios.append(told.mean() / size)
        assert max(ratios) > 0.1 * allowed


@pytest.mark.parametrize("power", [1, 2])
def test_error_of_one_bit(power):
    """Below randomized response of one bit, and not far below, for its exact error."""
    line = max(fz.hard_lines([[1.0, -1.0]]), key=lambda line: line.length)
    for epsilon, n in itertools.product((0.2, 1.0, 3.0), (10, 400)):
        keep = 1 / (1 + math.exp(-epsilon))
        worst = 0.0
        for share in np.linspace(0, 1, 21):
            ones = share * keep + (1 - share) * (1 - keep)
            log = [
                math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1)
                for i in range(n + 1)
            ]
            count = np.arange(n + 1)
            law = np.exp(log + count * math.log(ones) + (n - count) * math.log1p(-ones))
            answers = np.clip((2 * count / n - 1) / (2 * keep - 1), -1, 1)
            worst = max(worst, float(law @ np.abs(answers - (2 * share - 1)) ** power))
        assert 0.15 * worst < line.error(n, epsilon, power=power) < worst


@pytest.mark.parametrize("power", [1, 2])
def test_users_and_errors_are_inverse(power):
    for line in fz.hard_lines(workloads.prefix(8)):
        for epsilon in (0.5, 8.0):
            error = line.error(1000.0, epsilon, power=power) ** (1 / power)
            found = line.min_users(epsilon, error, power=power)
            assert found == pytest.approx(1000, rel=0.01) or error < 1e-12
            assert line.min_users(epsilon, line.length / 2, power=power) == 0.0


def test_limits_of_small_errors():
    """0.39 and 1 of γ2²/(κ·error²), and 2 − 2·ln 2 of the lines for squares: from below."""
    matrix, epsilon = WORKLOADS["parity"], 0.5
    scale = 7 / math.sinh(epsilon / 2) ** 2  # γ2² of 8 orthogonal queries, one of them constant
    lines = fz.hard_lines(matrix)

    def squares(error):
        return max(line.min_users(epsilon, error, power=2) for line in lines)

    for bound, limit in (
        (lambda error: fz.local_lower_bound(matrix, epsilon, error), 0.391),
        (squares, 2 - 2 * math.log(2)),
        (lambda error: fz.local_lower_bound(matrix, epsilon, error, power=2), 1.0),
    ):
        found = [bound(error) * error**2 / scale for error in (1e-2, 1e-3, 1e-4)]
        assert found[0] < found[1] < found[2] < limit
        assert found[2] > 0.93 * limit


def test_tolerance_may_be_an_array():
    """The lines are remembered by it, and an array is no key."""
    assert fz.hard_lines(np.eye(3), tol=jnp.float32(0.25)) == fz.hard_lines(np.eye(3), tol=0.25)


@pytest.mark.parametrize("name", WORKLOADS)
def test_what_the_worst_query_needs_the_mean_one_may_not(name):
    """Repeating the easiest query changes the mean error, and no bound on the largest one."""
    matrix, epsilon, error = WORKLOADS[name], 1.0, 0.01
    easiest = matrix[[int(np.argmin(np.ptp(matrix, axis=1)))]]
    more = np.concatenate([matrix, np.repeat(easiest, 20, axis=0)])
    once, often = (fz.local_lower_bound(w, epsilon, error, power=2) for w in (matrix, more))
    assert often == pytest.approx(once, rel=0.03)
    mean, diluted = (
        fz.local_lower_bound(w, epsilon, error, norm="gamma_f") for w in (matrix, more)
    )
    assert mean <= once * 1.01
    assert diluted < 0.9 * mean or name == "identity"


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("size", [8, 64])
def test_subset_selection_is_near_the_bound_in_mean_square(size, epsilon):
    """RMSE of the identity: above the bound, and at most 4 times."""
    error = 0.1 / size
    bound = fz.local_lower_bound(np.eye(size), epsilon, error, norm="gamma_f")
    chosen = SubsetSelection(size, epsilon).subset_size
    likely = math.exp(epsilon) * chosen / (math.exp(epsilon) * chosen + size - chosen)
    other = (likely * (chosen - 1) + (1 - likely) * chosen) / (size - 1)
    # The sum of the variances is concave in the population, and largest for the uniform one.
    share = other + (likely - other) / size
    needed = share * (1 - share) / (likely - other) ** 2 / error**2
    assert needed / 4 < bound <= needed


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", WORKLOADS)
def test_bounds_hold_at_every_epsilon(name, epsilon):
    """At least a user, at least three and six times the paper's constants, never above without."""
    matrix, error = WORKLOADS[name], 0.02
    found = fz.local_lower_bound(matrix, epsilon, error)
    in_mean = fz.local_lower_bound(matrix, epsilon, error, norm="gamma_f")
    assert found >= 1
    assert in_mean >= 1
    # Without privacy the mean of n users has a variance of at most (range/2)²/n.
    without = (np.ptp(matrix, axis=1).max() / 2 / error) ** 2
    if epsilon == 8.0:
        assert found < len(matrix) * without
        assert in_mean < without
    hard = fz.hardest(matrix, fz.gamma2(matrix, shift=True), symmetric=False)
    ratio = hard.separation / (hard.spread * math.expm1(epsilon) * error)
    assert found > (6 if epsilon >= 1 else 3) * ratio**2 / 32


def test_learning_holds_at_every_epsilon():
    concepts = workloads.thresholds(8)
    found = [bounds.learning_lower_bound(concepts, e, 0.05, 0.01) for e in EPSILONS]
    assert np.all(np.diff(found) < 0)
    assert found[-1] >= 1


BAD = [
    (lambda: fz.local_lower_bound(np.eye(2), 0.0, 0.1), "epsilon"),
    (lambda: fz.local_lower_bound(np.eye(2), 1.0, -0.1), "error"),
    (lambda: fz.local_lower_bound(np.eye(2), 1.0, 0.1, norm="zeta"), "norm"),
    (lambda: fz.local_lower_bound(np.eye(2), 1.0, 0.1, power=3), "power"),
    (lambda: fz.hard_lines(np.ones(3)), "matrix"),
    (lambda: fz.hard_lines(np.eye(2), tol=-1.0), "tol"),
    (lambda: fz.hard_lines(np.eye(2), tol=[0.1, 0.1]), "tol"),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
