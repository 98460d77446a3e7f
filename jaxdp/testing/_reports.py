"""Checks of single reports: density, moments, words, and values out of the domain."""

import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._contract import Round, Tree
from ..random import AliasTable
from ._statistics import check_mean, must_fail
from ._subject import Subject, check, given, of_kind

SAMPLES = 20_000
DRAFTS = 2**16
FEW = 0.01  # share of the reports that rounding of floats may change


def is_pure(subject: Subject) -> bool:
    """Whether it claims to be private with delta = 0."""
    return subject.randomizer is not None and subject.private and subject.spec.exact_delta() == 0


def has_density(subject: Subject) -> bool:
    """Whether the randomizer gives its density."""
    spec, params = subject.randomizer, subject.round
    if spec is None or params is None:
        return False
    none = jax.tree.map(lambda x: np.zeros((1, *x.shape), x.dtype), params.report)
    return spec.log_density(none, subject.rows[0]) is not None


@check("randomizer", is_pure)
def budget_is_spent(subject: Subject) -> None:
    """`exact_epsilon` is at most epsilon, and rounding takes less than 0.1 % of it."""
    spec = given(subject.randomizer)
    assert 0.999 * spec.epsilon < spec.exact_epsilon() <= spec.epsilon, spec.exact_epsilon()


@functools.lru_cache(maxsize=8)  # the checks of a subject share them
def _sampled(subject: Subject) -> list[np.ndarray]:
    """Reports of every value."""
    params = given(subject.round)
    sample = jax.jit(jax.vmap(params.privatize, in_axes=(0, None)))
    number = len(subject.counts)
    keys = jax.random.split(subject.stream("reports"), (number, SAMPLES))
    return [np.asarray(sample(k, value)) for k, value in zip(keys, subject.rows, strict=True)]


def _log_ratios(subject: Subject, reports: Tree, value: Tree, other: Tree) -> np.ndarray:
    spec = given(subject.randomizer)
    return given(spec.log_density(reports, value)) - given(spec.log_density(reports, other))


@check("randomizer", lambda s: is_pure(s) and has_density(s))
def density_ratios_are_bounded(subject: Subject) -> None:
    """In 20,000 reports of each value no density ratio exceeds `exact_epsilon`, and some nears it.

    The largest is above 0.9 of it for some two values.
    """
    samples, values, most = (
        _sampled(subject),
        subject.rows,
        given(subject.randomizer).exact_epsilon(),
    )
    worst = max(
        np.abs(_log_ratios(subject, reports, value, other)).max()
        for reports in samples
        for value, other in itertools.combinations(values, 2)
    )
    assert 0.9 * most < worst <= most + 1e-5, f"the largest log-ratio is {worst}"


@check("randomizer", lambda s: s.private and has_density(s))
def density_is_that_of_the_sampler(subject: Subject) -> None:
    """Under reports of x the density ratio of x' to x has mean 1, cut or not.

    For bounded g it is `E_x[g(y) f_x'(y) / f_x(y)] = E_x'[g(y)]`: tested for g = 1 where ratios are
    bounded, and for the overlap `E_x[min(1, f_x' / f_x)] = E_x'[min(1, f_x / f_x')]` of any two
    laws. The false-alarm rate is 1e-9 for each pair. The check also fails unless an overlap of 1
    would be rejected for the first and the last value.
    """
    samples, values, half = _sampled(subject), subject.rows, SAMPLES // 2
    epsilon = given(subject.randomizer).epsilon
    for i, j in itertools.permutations(range(len(values)), 2):
        ratio = np.exp(_log_ratios(subject, samples[i], values[j], values[i]))
        if is_pure(subject):
            bounds = (np.exp(-epsilon) * 0.999, np.exp(epsilon) * 1.001)
            check_mean(ratio[:, None], 1.0, bounds=bounds)
        back = np.exp(_log_ratios(subject, samples[j], values[i], values[j]))
        # Independent draws, one from each law: the difference has mean 0 where the overlaps agree.
        difference = np.minimum(ratio, 1.0)[:half] - np.minimum(back, 1.0)[:half]
        check_mean(difference[:, None], 0.0, bounds=(-1.0, 1.0))
    distinct = np.exp(_log_ratios(subject, samples[0], values[-1], values[0]))
    wrong = np.minimum(distinct, 1.0)[:half] - 1.0
    must_fail(check_mean, wrong[:, None], 0.0, bounds=(-1.0, 1.0))


@check("randomizer", lambda s: s.mean is not None)
def moments_give_the_variance(subject: Subject) -> None:
    """For a single user the mean squared error is the spread plus the squared bias of `moments`.

    And it is at most `worst_case_variance`; the mean is the value where the claim is `unbiased`.
    """
    spec = given(subject.mean)
    for index, value in enumerate(subject.rows):
        mean, covariance = spec.moments(value)
        spread = np.diag(covariance) if np.ndim(covariance) == 2 else covariance
        expected = spread + (np.asarray(mean) - value) ** 2
        claimed = spec.variance(subject.alone(index), subject.inputs)
        np.testing.assert_allclose(claimed, expected, rtol=1e-9)
        assert np.all(expected <= spec.worst_case_variance(1) * (1 + 1e-9))
        if subject.unbiased:
            size = 1e-6 * (1 + np.abs(value).max())
            np.testing.assert_allclose(mean, value, atol=size)


@check("randomizer", lambda s: s.mean is not None and s.mean.always_reports)
def single_reports_decode_to_estimates(subject: Subject) -> None:
    """`decode` of a report is the estimate from this report alone, to float32."""
    params, key = given(subject.mean).build(), subject.stream("single_reports_decode_to_estimates")
    value = subject.rows[0]
    keys = jax.random.split(key, 64)
    reports = jax.jit(jax.vmap(params.privatize, in_axes=(0, None)))(keys, value)
    tallies = jax.jit(jax.vmap(lambda report: params.tally(report[None])))(reports)
    with jax.enable_x64(True):
        alone = np.asarray(jax.jit(jax.vmap(params.estimate))(tallies))
    size = 1e-6 * np.abs(alone).max()
    np.testing.assert_allclose(jax.jit(params.decode)(reports), alone, rtol=1e-5, atol=size)


@check("protocol", lambda s: s.round is not None and s.round.draft is not None)
def drafts_are_reports(subject: Subject) -> None:
    """Where a draft is sure, its report is that of all words, bit for bit; and it nearly always is.

    On 2**16 rows of random words; in three quarters of them one of the words that the draft reads
    is where a table of the params has a tie, or one step beside it. A draft that is sure at ties is
    caught.
    """
    params = given(subject.round)
    draft = given(params.draft)
    key = subject.stream("drafts_are_reports")
    rng = np.random.default_rng(jax.random.bits(key, (4,), jnp.uint32).tolist())
    words = rng.integers(2**32, size=(DRAFTS, params.num_words), dtype=np.uint32)
    # Uniform words nearly never tie, and a draft is wrong at ties first.
    ties = _tie_words(params)
    touched = rng.random(DRAFTS) < (0.75 if ties.size else 0.0)
    column = rng.integers(draft.num_words, size=DRAFTS)[touched]
    words[touched, column] = rng.choice(ties, touched.sum()) if ties.size else 0
    whole = jax.jit(jax.vmap(params.from_bits, in_axes=(0, None)))
    quick = jax.jit(draft.reports)
    for value in subject.rows:
        held = jax.tree.map(jnp.asarray, value)
        reports = whole(jnp.asarray(words), held)
        everyone = jax.tree.map(lambda x: jnp.broadcast_to(x, (DRAFTS, *x.shape)), held)
        drafts = quick(jnp.asarray(words[:, : draft.num_words].T), everyone)
        # Users are along the last axis of a draft.
        leaves = [np.moveaxis(np.asarray(leaf), -1, 0) for leaf in jax.tree.leaves(drafts)]
        sure = np.ones(DRAFTS, bool)
        for leaf in leaves if not draft.complete else []:
            sure &= np.all(leaf != draft.UNSURE, axis=tuple(range(1, leaf.ndim)))
        for mine, other in zip(leaves, jax.tree.leaves(reports), strict=True):
            np.testing.assert_array_equal(mine[sure], np.asarray(other)[sure])
        assert sure[~touched].mean() > 0.999, f"sure of {sure[~touched].mean():.4f} of the reports"


@check("protocol", lambda s: s.round is not None and s.round.report_limits is not None)
def reports_are_within_their_limits(subject: Subject) -> None:
    """Every entry of a report is at least its least value, and at most its largest.

    In 2**12 reports of each value, of random words and of words that are all 0 or all ones.
    """
    params = given(subject.round)
    key = subject.stream("reports_are_within_their_limits")
    rng = np.random.default_rng(jax.random.bits(key, (4,), jnp.uint32).tolist())
    words = rng.integers(2**32, size=(2**12, params.num_words), dtype=np.uint32)
    words[0], words[1] = 0, 2**params.word_bits - 1
    report = jax.jit(jax.vmap(params.from_bits, in_axes=(0, None)))
    least, largest = given(params.report_limits)
    for value in subject.rows:
        reports = report(jnp.asarray(words), jax.tree.map(jnp.asarray, value))
        # Limits are plain numbers where all entries share them.
        assert jax.tree.structure(reports) == jax.tree.structure(least)
        assert jax.tree.structure(reports) == jax.tree.structure(largest)
        leaves = map(jax.tree.leaves, (reports, least, largest))
        for leaf, low, high in zip(*leaves, strict=True):
            entries = np.asarray(leaf).astype(np.int64)
            assert np.all(entries >= low), f"a report is below its limits: {entries.min()} < {low}"
            assert np.all(entries <= high), f"a report is above: {entries.max()} > {high}"


@check("protocol", lambda s: s.round is not None and s.round.extreme_tallies() is not None)
def extreme_reports_are_extreme(subject: Subject) -> None:
    """No report moves an entry of the estimate further than one of `extreme_tallies` does.

    Of 2**10 reports of each value, estimated one by one.
    """
    params, key = given(subject.round), subject.stream("extreme_reports_are_extreme")
    rng = np.random.default_rng(jax.random.bits(key, (4,), jnp.uint32).tolist())
    words = rng.integers(2**32, size=(2**10, params.num_words), dtype=np.uint32)
    report = jax.jit(jax.vmap(params.from_bits, in_axes=(0, None)))
    tally = jax.jit(jax.vmap(lambda one: params.tally(jax.tree.map(lambda x: x[None], one))))
    estimate = jax.jit(jax.vmap(params.estimate))

    def alone(tallies: Tree) -> np.ndarray:
        return np.asarray(estimate(tallies), np.float64)

    ends = np.concatenate([alone(part) for part in given(params.extreme_tallies())])
    low, high = ends.min(axis=0), ends.max(axis=0)
    slack = 1e-9 * np.maximum(abs(low), abs(high))
    for value in subject.rows:
        found = alone(tally(report(jnp.asarray(words), jax.tree.map(jnp.asarray, value))))
        assert np.all(found >= low - slack), f"an entry is {found.min()}, below {low}"
        assert np.all(found <= high + slack), f"an entry is {found.max()}, above {high}"


def _tie_words(params: Round[Any]) -> np.ndarray:
    """Words at the thresholds of all alias tables in the params, and one step beside; uint32[m]."""
    found = [np.zeros(0, np.uint32)]
    for leaf in jax.tree.leaves(params, is_leaf=lambda x: of_kind(AliasTable, x) is not None):
        if table := of_kind(AliasTable, leaf):
            # Column j ties where the upper bits are its threshold's and the low bits are j.
            low = np.uint32(2**table.column_bits - 1)
            at = (np.asarray(table.packed) & ~low) | np.arange(low + 1, dtype=np.uint32)
            step = np.uint32(2**table.column_bits)
            with np.errstate(over="ignore"):
                found += [at, at, at + step, at - step]
    return np.concatenate(found)


@check("randomizer")
def hostile_values_are_moved_into_the_domain(subject: Subject) -> None:
    """A value out of the domain leads to the reports of one of `extreme_inputs`, for all words.

    Bins beyond both ends; NaN, infinities and 1e30 for numbers and vectors. Of reports that are
    rounded from floats one in a hundred may differ. On 4,096 rows of words: inputs whose reports
    differ for a share s of them pass for each other with probability (1 - s)**4096.
    """
    spec, params = given(subject.randomizer), given(subject.round)
    edges = [jnp.asarray(x) for x in spec.extreme_inputs()]
    key = subject.stream("hostile_values_are_moved_into_the_domain")
    words = jax.random.bits(key, (2**12, params.num_words), jnp.uint32)
    reports = jax.jit(jax.vmap(params.from_bits, in_axes=(0, None)))
    allowed = [_flat(reports(words, edge)) for edge in edges]
    for value in _hostile(subject):
        found = _flat(reports(words, jnp.asarray(value)))
        share = max(np.all(found == edge, axis=1).mean() for edge in allowed)
        least = 1 - FEW if subject.floats else 1.0
        assert share >= least, f"{value!r} has reports of its own, {1 - share:.2%} of them"
    if len(edges) > 1:  # or all values would pass
        assert not np.array_equal(allowed[0], allowed[1]), "all values have the same reports"


def _hostile(subject: Subject) -> list[Tree]:
    """Values out of the domain."""
    spec = subject.mean
    if spec is None:
        last = np.max(given(subject.randomizer).extreme_inputs())
        number = max(len(subject.counts), int(last) + 1)
        return [np.int32(x) for x in (number, number + 5, 2**31 - 1, -1, -(2**31))]
    first = (0,) * len(spec.value_shape)
    values = []
    for far in (np.nan, np.inf, -np.inf, 1e30, -1e30):
        value = np.full(spec.value_shape, np.nan if np.isnan(far) else 0.0, np.float32)
        value[first] = far
        values.append(value)
    return values


def _flat(reports: Tree) -> np.ndarray:
    """The entries of each report, as one row."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(reports)]
    return np.concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves], axis=1)
