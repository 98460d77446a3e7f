"""What specs share: checks with messages, hashable arrays, and the JSON form."""

import copy
import dataclasses
import functools
import json
import pickle
import sys
from fractions import Fraction

import jax
import numpy as np
import pytest

from jaxdp import Population, _spec, factorization, projections
from jaxdp._form import FrozenArray, spec_from_json, spec_to_json
from jaxdp.linear import FactorizedQueries, OracleQueries
from jaxdp.random import Count
from jaxdp.randomizers import KRR, BinaryResponse, FiniteChannel, Gaussian


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


def test_sums_of_counts_do_not_wrap():
    """In int64 these sums are 1000, and 1024."""
    for counts in (np.append(np.full(2**24, 2**40), 1000), np.append(np.full(2**11, 2**53), 1024)):
        with pytest.raises(ValueError, match=r"^counts must sum to at most 2\*\*53"):
            Population.from_histogram(counts)
    table = np.full((2, 2**11 + 1), 2**53)
    table[:, -1] = 1024
    with pytest.raises(ValueError, match=r"^table .* at most 2\*\*53"):
        FiniteChannel(table)


@pytest.mark.parametrize("big", [2**31, 2**40 + 5, -(2**31) - 1, np.uint64(2**63 + 5)])
def test_values_of_bins_do_not_wrap(big):
    with pytest.raises(ValueError, match=r"^values must be in \[-2\*\*31, 2\*\*31\)"):
        Population.from_histogram([1, 2], values=np.full(2, big))


def test_counts_of_64_bits_do_not_wrap():
    assert int(Count.of(np.uint64(2**63 - 1))) == 2**63 - 1
    with pytest.raises(ValueError, match=r"^value must be below 2\*\*63"):
        Count.of(np.uint64(2**63))


MASKED = np.ma.array([1, 0, 1], mask=[False, True, False])
TAKE_ARRAYS = {
    "counts": Population.from_histogram,
    "x": lambda array: Population.from_values(array, num_values=2),
    "p": lambda array: Population.from_distribution(array / 2, 10),
    "values": lambda array: Population.from_histogram([1, 1, 1], values=array),
    "weights": lambda array: Population.from_histogram([1]).split(jax.random.key(0), array),
    "value": Count.of,
    "workload": lambda array: OracleQueries(array[None], KRR(3, 1.0)),
    "matrix": lambda array: factorization.gamma2(array[None]),
    "x of a projection": lambda array: projections.simplex(array * 1.0),
    "table": lambda array: FiniteChannel(array[None]),
    "inputs": lambda array: BinaryResponse(1.0).variance([1, 1, 1], array),
}


@pytest.mark.parametrize("label", TAKE_ARRAYS)
def test_masked_arrays_are_refused(label):
    """NumPy would count masked entries as any others."""
    with pytest.raises(TypeError, match=f"^{label.split()[0]} must be a plain array"):
        TAKE_ARRAYS[label](MASKED)


def test_traced_values_are_refused():
    for check in (
        lambda x: _spec.check_real("x", x),
        lambda x: _spec.check_int("x", x, low=0),
        _spec.check_epsilon,
        _spec.check_counts,
    ):
        with pytest.raises(TypeError, match="outside jit"):
            jax.jit(check)(1.0)


def test_vmap_over_epsilons_names_the_remedy():
    with pytest.raises(TypeError, match=r"jaxdp\.stack"):
        jax.vmap(lambda epsilon: KRR(3, epsilon).build())(np.array([1.0, 2.0]))


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


def test_partials_of_specs_are_values():
    def made(delta):
        randomizer = functools.partial(Gaussian, delta=delta)
        return FactorizedQueries(np.eye(2), 1.0, randomizer=randomizer)

    spec = made(1e-6)
    again = spec_from_json(json.loads(json.dumps(spec_to_json(spec))))
    assert spec == made(1e-6) == again != made(1e-5)
    assert hash(spec) == hash(made(1e-6)) == hash(again)
    assert spec.exact_delta() == again.exact_delta() > 0
    assert "functools.partial(" in repr(spec)


@pytest.mark.parametrize(
    "data",
    [
        {
            "spec": "jaxdp._checks:Given",
            "function": {"function": "numpy:savez"},
            "keywords": {"tuple": [{"tuple": ["file", "stolen"]}]},
        },
        {"spec": "os:system", "command": "true"},
        {"spec": "subprocess:CompletedProcess", "args": "true", "returncode": 0},
        {"spec": "antigravity:x"},
        {"spec": "numpy:ones", "shape": 3},
        {"spec": "jaxdp._spec:sys.exit"},
        {"spec": "jaxdp.randomizers:KRR", "num_values": 3, "epsilon": 1.0},
        {"function": "os:system"},
        {"function": "subprocess:run"},
        {"function": "jaxdp._spec:importlib.import_module"},
        {"function": "jaxdp.random._words:Stream"},
        {"spec": "jaxdp.randomizers._krr:KRR.build"},
        {"spec": 7},
    ],
)
def test_json_calls_nothing_but_specs(data):
    with pytest.raises(ValueError, match="must name"):
        spec_from_json(data)
    assert "antigravity" not in sys.modules


def test_what_has_no_json_form_is_refused():
    def closure(x):
        return x

    for wrong in (lambda x: x, closure, object(), {1: 2}, [1]):
        with pytest.raises(TypeError, match="no JSON form"):
            spec_to_json(Inner(FrozenArray([1]), wrong))
