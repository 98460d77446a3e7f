"""Checks that bad input is refused by name, before any work, and that specs are values."""

import dataclasses
import json
import pickle
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from .._checked import field_checks
from .._form import spec_from_json, spec_to_json
from ._subject import Subject, check, given


def _refused(name: str, function: Callable[..., object], *args: object, **kwargs: object) -> None:
    """Asserts a ValueError or TypeError whose message has the name."""
    arguments, message = f"{args} {kwargs}", None
    try:
        function(*args, **kwargs)
    except (ValueError, TypeError) as error:
        message = str(error)
    assert message is not None, f"{name} was not refused, for {arguments}"
    assert name in message, f"the error about {arguments} does not name {name}: {message}"


@check("protocol")
def bad_fields_are_refused(subject: Subject) -> None:
    """What the check of a field calls `bad` is refused, by a message that names the field.

    A field whose check has no `bad` values fails: then nothing would be tried.
    """
    spec: Any = subject.spec
    for name, each in field_checks(type(spec)):
        assert each.bad, f"the check of {name} lists no bad values"
        for bad in each.bad:
            _refused(name, dataclasses.replace, spec, **{name: bad})


def _has_epsilon(subject: Subject) -> bool:
    return any(name == "epsilon" for name, _ in field_checks(type(subject.spec)))


@check("protocol", _has_epsilon)
def traced_epsilon_is_refused(subject: Subject) -> None:
    """A spec that is made inside jit is refused, with the remedy: to build it outside."""
    spec: Any = subject.spec
    remake = jax.jit(lambda epsilon: dataclasses.replace(spec, epsilon=epsilon))
    _refused("build", remake, 1.0)


@check("protocol")
def specs_are_values(subject: Subject) -> None:
    """An equal spec is made by its fields, by pickling and by JSON, and has the same hash."""
    spec: Any = subject.spec
    stored = json.dumps(spec_to_json(spec))
    copies = {
        "its fields": dataclasses.replace(spec),
        "pickle": pickle.loads(pickle.dumps(spec)),
        "JSON": spec_from_json(json.loads(stored)),
    }
    for way, copy in copies.items():
        assert copy == spec, f"the copy by {way} differs"
        assert hash(copy) == hash(spec), f"the copy by {way} has another hash"


@check("randomizer")
def bad_counts_are_refused(subject: Subject) -> None:
    """Negative, fractional, NaN, empty, textual and boolean counts, and no users at all."""
    spec, good = given(subject.randomizer), subject.counts
    bad = (good - 10**6, good + 0.5, good * np.nan, good * 0, [], ["a"], good.astype(bool))
    for counts in bad:
        for function in (spec.variance, spec.truth):
            _refused("counts", function, counts, subject.inputs)
    if subject.inputs is None:
        _refused("counts", spec.variance, np.append(good, 1), None)
    _refused("num_users", spec.worst_case_variance, 0)


@check("randomizer", lambda s: s.mean is not None)
def bad_inputs_are_refused(subject: Subject) -> None:
    """Numbers and vectors out of the range, NaN, infinite, and of a wrong shape.

    Wherever a spec takes values; what float32 rounds over the bound is no offence.
    """
    spec, counts, good = given(subject.mean), subject.counts, np.asarray(subject.inputs)
    share, first = counts / counts.sum(), (0, *[0] * (good.ndim - 1))
    for wrong in (1.01 * spec.largest_value, np.nan, -np.inf):
        bad = np.array(good, np.float64)
        bad[first] = wrong
        for function in (spec.variance, spec.truth):
            _refused("inputs", function, counts, bad)
        _refused("inputs", spec.population_truth, share, 10, bad)
        _refused("value", spec.moments, bad[0])
        _refused("inputs", spec.check_values, "inputs", bad)
    for bad in (good[1:], good[:, None], np.zeros((len(good), 99))):
        for function in (spec.variance, spec.truth):
            _refused("inputs must have shape", function, counts, bad)
    _refused("inputs must give", spec.population_truth, share, 10)
    _refused("probabilities", spec.population_truth, 2 * share, 10, good)
    spec.moments(good[0] * (1 + 1e-7))


@check("randomizer", lambda s: s.inputs is None)
def bad_values_are_refused(subject: Subject) -> None:
    """Values that are no bins, words of a wrong length, and what is no distribution."""
    spec, k = given(subject.randomizer), len(subject.counts)
    if subject.oracle is not None:
        for bad in (k, -1, 1.5, 1.0, True):
            _refused("value", subject.oracle.covariance, bad)
    for bad in ([0, k], [-1, 0], [0.0, 1.0]):
        _refused("inputs", spec.check_values, "inputs", np.array(bad))
    for bad in (8.5, 40, 0):
        _refused("word_bits", spec.build, bad)
    share = np.full(k, 1 / k)
    for bad in (share[1:], -share, 2 * share, share * np.nan):
        _refused("probabilities", spec.population_truth, bad, 10)
