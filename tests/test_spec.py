"""What specs share: checks with messages, hashable arrays, and the JSON form."""

import copy
import dataclasses
import json
import pickle
from fractions import Fraction

import jax
import numpy as np
import pytest

from jaxdp import _spec
from jaxdp._spec import FrozenArray, spec_from_json, spec_to_json


def test_arrays_are_values():
    source = np.array([[1.0, 2.0], [3.0, 4.0]])
    array = FrozenArray(source)
    source[0, 0] = 9
    assert array.values[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        array.values[0, 0] = 5
    same = FrozenArray([[1.0, 2.0], [3.0, 4.0]])
    assert array == same
    assert hash(array) == hash(same)
    for other in (FrozenArray([1.0, 2.0, 3.0, 4.0]), FrozenArray([[1, 2], [3, 4]]), array.values):
        assert not (isinstance(other, FrozenArray) and array == other)
    assert array != "array"
    for again in (copy.copy(array), pickle.loads(pickle.dumps(array)), FrozenArray(array)):
        assert again == array
    np.testing.assert_array_equal(np.asarray(array, np.float32), array.values)
    assert repr(FrozenArray([1, 2])).startswith("FrozenArray(int64[2]")


@pytest.mark.parametrize("value", [1, 1.5, np.float32(2), np.array(3.0), Fraction(1, 3)])
def test_real_numbers(value):
    assert _spec.check_real("x", value) == float(value)


@pytest.mark.parametrize("value", ["1", None, True, np.bool_(True), [1.0], np.ones(2), 1j])
def test_not_real_numbers(value):
    with pytest.raises(TypeError, match="x must be a real number"):
        _spec.check_real("x", value)


def test_ends_of_a_range():
    assert _spec.check_real("x", 1.0, low=1.0, open_ends=False) == 1.0
    with pytest.raises(ValueError, match=r"x must be a finite number in \(1, inf\), got 1.0"):
        _spec.check_real("x", 1.0, low=1.0)
    with pytest.raises(ValueError, match="finite"):
        _spec.check_real("x", float("nan"))
    with pytest.raises(ValueError, match="finite"):
        _spec.check_real("x", float("inf"), open_ends=False)


def test_integers():
    assert _spec.check_int("n", np.int32(7), low=1) == 7
    assert type(_spec.check_int("n", np.uint8(7), low=1)) is int
    for wrong in (7.0, True, "7", None):
        with pytest.raises(TypeError, match="n must be an integer"):
            _spec.check_int("n", wrong, low=1)
    with pytest.raises(ValueError, match=r"n must be an integer in \[1, 5\], got 6"):
        _spec.check_int("n", 6, low=1, high=5)
    with pytest.raises(ValueError, match=">= 1, got 0"):
        _spec.check_int("n", 0, low=1)


def test_choices():
    assert _spec.check_choice("c", "a", ("a", "b")) == "a"
    with pytest.raises(ValueError, match="c must be one of 'a', 'b', got 'z'"):
        _spec.check_choice("c", "z", ("a", "b"))


def test_counts():
    found = _spec.check_counts([[1.0, 2.0], [0.0, 2.0**52]])
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, [[1, 2], [0, 2**52]])
    assert _spec.check_counts([2**53]).sum() == 2**53
    for wrong, words in (
        ([2**53, 1], "2\\*\\*53"),
        ([2**62, 2**62], "2\\*\\*53"),
        (np.array([2**64 - 1], np.uint64), "2\\*\\*53"),
        ([1e300], "2\\*\\*53"),
        ([-1, 2], ">= 0"),
        ([0.5], "from_distribution"),
        ([float("inf")], "finite"),
        ([0], "at least one"),
        ([], "empty"),
    ):
        with pytest.raises(ValueError, match=words):
            _spec.check_counts(wrong)
    for wrong in (["a"], [True], [None], [1j]):
        with pytest.raises(TypeError, match="whole numbers"):
            _spec.check_counts(wrong)


def test_traced_values_are_refused():
    for check in (
        lambda x: _spec.check_real("x", x),
        lambda x: _spec.check_int("x", x, low=0),
        _spec.check_epsilon,
        _spec.check_counts,
    ):
        with pytest.raises(TypeError, match="outside jit"):
            jax.jit(check)(1.0)


def test_keys():
    key = jax.random.key(3)
    assert _spec.check_key(key) is key
    for wrong in (3, jax.random.PRNGKey(3), jax.random.key(3, impl="rbg")):
        with pytest.raises(TypeError, match="key must be"):
            _spec.check_key(wrong)
    with pytest.raises(ValueError, match="vmap"):
        _spec.check_key(jax.random.split(key))


@dataclasses.dataclass(frozen=True, slots=True)
class Inner:
    table: FrozenArray
    function: object = None


@dataclasses.dataclass(frozen=True, slots=True)
class Outer:
    name: str
    inner: Inner
    several: tuple = ()
    derived: int = dataclasses.field(init=False, default=0)


def test_nested_specs_round_trip_through_json():
    inner = Inner(FrozenArray(np.arange(6, dtype=np.float32).reshape(2, 3)), np.linalg.norm)
    outer = Outer("a", inner, (1, 2.5, None, True, Inner(FrozenArray([1]))))
    data = json.loads(json.dumps(spec_to_json(outer)))
    again = spec_from_json(data)
    assert again == outer
    assert hash(again.inner.table) == hash(outer.inner.table)
    assert again.inner.function is np.linalg.norm
    assert "derived" not in data


def test_what_has_no_json_form_is_refused():
    def closure(x):
        return x

    for wrong in (lambda x: x, closure, object(), {1: 2}, [1]):
        with pytest.raises(TypeError, match="no JSON form"):
            spec_to_json(Inner(FrozenArray([1]), wrong))
