"""Exact checks of finite channels: no randomness, and no tolerance on probabilities."""

import functools
import math
from fractions import Fraction
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float64

from .._contract import Round, Tree
from ..audit import AuditError, exact_epsilon
from ..audit._exact import check_twin
from ._statistics import check_frequencies, must_fail
from ._subject import Subject, check, given

SHORT = 8  # bits of the words that are enumerated
SAMPLES = 100_000


class Listed(NamedTuple):
    """A channel that is listed.

    Attributes:
      rows: the probabilities, a row for each value.
      reports: the report of each column.
    """

    rows: list[list[Fraction]]
    reports: np.ndarray

    @property
    def table(self) -> Float64[np.ndarray, "k r"]:
        """The probabilities."""
        return np.array(self.rows, np.float64)


@functools.lru_cache(maxsize=8)  # the checks of a subject share them
def _listed(subject: Subject, word_bits: int = 32) -> Listed | None:
    """The channel of the values, if it can be listed."""
    spec = subject.randomizer
    rows = None if spec is None else spec.channel(word_bits, inputs=subject.values)
    if spec is None or rows is None:
        return None
    reports = spec.reports()
    return Listed(rows, np.arange(len(rows[0])) if reports is None else np.asarray(reports))


def is_listed(subject: Subject) -> bool:
    """Whether the randomizer lists its channel."""
    return _listed(subject) is not None


def channel(subject: Subject, word_bits: int = 32) -> Listed:
    """The channel of a subject that lists one."""
    return given(_listed(subject, word_bits))


@functools.lru_cache(maxsize=64)
def short_twin(subject: Subject) -> Round[Any] | None:
    """The params for words of 8 bits; None where words of 32 are needed."""
    try:
        return subject.spec.build(word_bits=SHORT)
    except ValueError:
        return None


@check("randomizer", is_listed)
def channel_is_private(subject: Subject) -> None:
    """Rows sum to 1, and no report is likelier than `exact_epsilon` allows; exact.

    So for words of 32 bits, and for those of 8 where there is such a twin.
    """
    spec = given(subject.randomizer)
    for word_bits in (32, SHORT) if short_twin(subject) else (32,):
        listed = channel(subject, word_bits)
        assert all(sum(row) == 1 for row in listed.rows), "a row does not sum to 1"
        worst, realised = exact_epsilon(listed.rows), spec.exact_epsilon(word_bits)
        assert worst <= spec.epsilon, f"a ratio of {math.exp(worst)} with {word_bits} bits"
        assert realised <= spec.epsilon, f"exact_epsilon is {realised} with {word_bits} bits"
        assert worst <= realised + 1e-12, f"exact_epsilon is {realised}"


@check("randomizer", is_listed)
def words_follow_the_channel(subject: Subject) -> None:
    """Params do what the channel says.

    Where the twin of 8-bit words reads at most two of them, all words are enumerated: exact.
    Otherwise 100,000 reports of each value are counted, at a false-alarm rate of 1e-9. The check
    also fails unless they would be rejected as reports of any value with another law.
    """
    twin = short_twin(subject)
    if twin is not None and twin.num_words <= 2:
        try:
            check_twin(given(subject.randomizer), subject.values)
        except AuditError as error:
            raise AssertionError(str(error)) from error
        return
    params, listed, number = given(subject.round), channel(subject), len(subject.counts)
    for index, value in enumerate(subject.rows):
        key = jax.random.fold_in(subject.stream("words_follow_the_channel"), index)
        words = jax.random.bits(key, (SAMPLES, params.num_words), jnp.uint32)
        seen = _counted(params, words, value, listed.reports)
        check_frequencies(seen, listed.table[index], cells=number)
        # Laws that are much closer would not be told apart by so many reports.
        for other in listed.table:
            if np.abs(other - listed.table[index]).sum() > 0.1:
                must_fail(check_frequencies, seen, other, cells=number)


@jax.jit
def _reports(params: Round[Any], words: jax.Array, value: Tree) -> jax.Array:
    return jax.vmap(params.from_bits, in_axes=(0, None))(words, value)


def _counted(params: Round[Any], words: jax.Array, value: Tree, listed: np.ndarray) -> np.ndarray:
    """How many words lead to each listed report."""
    # Bytes are keys for numbers and vectors alike, once both sides have one dtype.
    order = {report.tobytes(): column for column, report in enumerate(listed)}
    drawn = np.asarray(_reports(params, words, value)).astype(listed.dtype)
    rows, counts = np.unique(drawn, axis=0, return_counts=True)
    seen = np.zeros(len(listed), np.int64)
    for row, count in zip(rows, counts, strict=True):
        assert row.tobytes() in order, f"report {row} is not listed"
        seen[order[row.tobytes()]] = count
    return seen


@functools.lru_cache(maxsize=8)
def _decoded(subject: Subject) -> np.ndarray:
    """The estimate from each listed report of a single user, float64[r, ...]."""
    params, reports = given(subject.round), jnp.asarray(channel(subject).reports)
    tallies = jax.jit(jax.vmap(lambda report: params.tally(report[None])))(reports)
    with jax.enable_x64(True):  # as `run` estimates
        return np.asarray(jax.jit(jax.vmap(params.estimate))(tallies))


@check("randomizer", is_listed)
def estimator_inverts_the_channel(subject: Subject) -> None:
    """The mean of one user's estimate, over its reports, is its target; exact up to rounding.

    Numbers may be resolved to a share of 2**-23 of the largest.
    """
    spec, decoded = given(subject.randomizer), _decoded(subject)
    grid = 1e-9 if subject.mean is None else 2**-23 * subject.mean.largest_value
    for index, row in enumerate(channel(subject).table):
        target = spec.truth(subject.alone(index), subject.inputs)
        mean = np.tensordot(row, decoded, axes=1)
        np.testing.assert_allclose(mean, target, rtol=2**-24, atol=grid)


@check("randomizer", is_listed)
def variance_is_that_of_the_channel(subject: Subject) -> None:
    """For a single user `variance` is the second moment of its estimate's error; exact.

    And it is never above `worst_case_variance`.
    """
    spec, decoded = given(subject.randomizer), _decoded(subject)
    for index, row in enumerate(channel(subject).table):
        alone = subject.alone(index)
        target = spec.truth(alone, subject.inputs)
        second = np.tensordot(row, (decoded - target) ** 2, axes=1)
        claimed = spec.variance(alone, subject.inputs)
        np.testing.assert_allclose(claimed, second, rtol=1e-6, atol=1e-9)
        assert np.all(second <= spec.worst_case_variance(1) * (1 + 1e-12) + 1e-12)


@check("randomizer", lambda s: s.oracle is not None and is_listed(s))
def covariance_is_that_of_the_channel(subject: Subject) -> None:
    """`covariance` of each value is that of one user's estimate; exact up to rounding."""
    spec, decoded = given(subject.oracle), _decoded(subject)
    for value, row in zip(subject.rows, channel(subject).table, strict=True):
        centred = decoded - row @ decoded
        expected = np.einsum("r,ri,rj->ij", row, centred, centred)
        size = 1e-7 * np.abs(expected).max()
        np.testing.assert_allclose(spec.covariance(value), expected, rtol=1e-6, atol=size)


def _has_density(subject: Subject) -> bool:
    """Whether the channel is listed, and there is a density beside it."""
    if not is_listed(subject):
        return False
    report = channel(subject).reports[:1]
    return given(subject.randomizer).log_density(report, subject.rows[0]) is not None


@check("randomizer", _has_density)
def density_is_that_of_the_channel(subject: Subject) -> None:
    """`log_density` of each report is the logarithm of its probability."""
    spec, listed = given(subject.randomizer), channel(subject)
    for value, row in zip(subject.rows, listed.table, strict=True):
        density = given(spec.log_density(listed.reports, value))
        np.testing.assert_allclose(density, np.log(row), atol=1e-9)
