"""Checks of the law of estimates, by simulation; false alarms have a probability of 1e-9 each."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from .._contract import Tree
from ..engine import simulate
from ..population import Population
from ._statistics import check_mean, check_two_samples, check_variance, must_fail
from ._subject import Method, Subject, check

KURTOSIS = 6.0  # a bound for estimates of many users; 3 for a normal


@runtime_checkable
class Predicts(Protocol):
    """A spec that predicts its error."""

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> np.ndarray:
        """The mean squared error for given users, or a bound on it."""
        ...


def _coarser(subject: Subject) -> float:
    """How much larger the offsets are that are seen, than in the 4,000 trials of docstrings."""
    return (4000 / subject.num_trials) ** 0.5


def _flat(subject: Subject, estimates: np.ndarray) -> np.ndarray:
    return estimates.reshape(subject.num_trials, -1)


@check("protocol", lambda s: isinstance(s.spec, Predicts))
def variance_is_as_predicted(subject: Subject, *, methods: Sequence[Method] = ()) -> None:
    """On each path the mean estimate is the truth, and its mean squared error is `variance`.

    In 4,000 trials, at a false-alarm rate of 1e-9, an offset of 0.13 standard deviations and a
    variance off by a quarter are seen with probability 0.999; in fewer trials those that are larger
    by the root of the ratio. The check also fails unless these data, moved by a quarter or with
    2.25 times the variance, would be rejected. Where `variance` is a bound, only larger errors
    fail; where the estimate is biased, only its error counts.

    Args:
      subject: what is checked.
      methods: the paths; all of them if there are none given.
    """
    assert isinstance(subject.spec, Predicts)
    variance = np.ravel(subject.spec.variance(subject.counts, subject.inputs))
    for method in methods or subject.paths:
        trials = subject.simulated(method)
        assert trials.truth is not None, "the spec gives no truth"
        estimates, truth = _flat(subject, trials.estimates), np.ravel(trials.truth)
        noisy = variance > 0
        exact = estimates[:, ~noisy] == truth[~noisy]  # such as the share of all users
        assert np.all(exact), "what has variance 0 is not exact"
        estimates, truth, spread = estimates[:, noisy], truth[noisy], variance[noisy]
        if subject.unbiased:
            check_mean(estimates, truth, variance=spread)
            moved = estimates + 0.25 * _coarser(subject) * np.sqrt(spread)
            must_fail(check_mean, moved, truth, variance=spread)
        options: Any = dict(mean=truth, kurtosis=KURTOSIS, at_most=not subject.predicts_exactly)
        check_variance(estimates, spread, **options)
        errors = estimates - truth
        if not subject.predicts_exactly:  # as large as they may be
            errors = errors * np.sqrt(spread / np.square(errors).mean(axis=0))
        wide = np.sqrt(1 + 1.25 * _coarser(subject))
        must_fail(check_variance, truth + wide * errors, spread, **options)


@check("protocol", lambda s: len(s.paths) == 2)
def both_paths_have_one_law(subject: Subject) -> None:
    """Four random projections of the estimate, and its largest entry, have one law on both paths.

    With 4,000 trials a Kolmogorov distance of about 0.12 is seen with probability 0.999, and the
    check also fails unless a move of half a standard deviation would be; with fewer, distances and
    moves that are larger by the root of the ratio.
    """
    one, two = (_flat(subject, subject.simulated(method).estimates) for method in subject.paths)
    # Projections see correlations, which entries one by one would not.
    weights = np.random.default_rng(0).normal(size=(one.shape[1], 4))
    joint = [np.concatenate([x @ weights, x.max(1, keepdims=True)], axis=1) for x in (one, two)]
    check_two_samples(*joint)
    must_fail(
        check_two_samples, joint[0], joint[1] + 0.5 * _coarser(subject) * joint[1].std(axis=0)
    )


@check("protocol", lambda s: s.unbiased)
def independent_users_have_the_population_truth(
    subject: Subject, *, methods: Sequence[Method] = ()
) -> None:
    """For users drawn from a distribution the mean estimate is `population_truth`, on each path.

    Offsets of 0.15 standard deviations are seen with probability 0.999 in 4,000 trials, and the
    check also fails unless one of 0.3 would be; in fewer, those larger by the root of the ratio.

    Args:
      subject: what is checked.
      methods: the paths; all of them if there are none given.
    """
    p = subject.counts / subject.counts.sum()
    size = min(int(subject.counts.sum()), 1000)
    population = Population.from_distribution(p, size, subject.inputs)
    for method in methods or subject.paths:
        key = subject.stream(f"independent {method}")
        number = subject.num_trials
        trials = simulate(subject.spec, population, key, num_trials=number, method=method)
        assert trials.truth is not None, "the spec gives no population_truth"
        errors = _flat(subject, trials.errors)
        noisy = np.any(errors != 0, axis=0)  # but not such as the share of all users
        errors = errors[:, noisy]
        # An upper bound: 0.3 is eight standard errors in 4,000 trials, for a kurtosis up to 6.
        spread = errors.var(axis=0) * (1 + 0.3 * _coarser(subject))
        zero = np.zeros(errors.shape[1])
        check_mean(errors, zero, variance=spread)
        moved = errors + 0.3 * _coarser(subject) * np.sqrt(spread)
        must_fail(check_mean, moved, zero, variance=spread)
