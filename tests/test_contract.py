"""The decorators of specs and params: what they make, and what they refuse."""

import dataclasses
import itertools
from typing import Any

import jax
import pytest

import jaxdp
from jaxdp.engine import Kernels, Round, Spec, Through, checks, field, params, spec, static
from jaxdp.random import Count, histogram
from jaxdp.randomizers import KRR, HadamardBit
from jaxdp_kernels import register_dataclass
from jaxdp_kernels.threefry_words import StreamKey
from jaxdp_kernels.threefry_words.ref import UserWords
from tests.contracts.registry import PROTOCOLS


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Halves:
    """Two leaves."""

    left: Any
    right: Any


@spec
class Base(Spec["Coin"]):
    """A spec of one checked field."""

    epsilon: float = field(checks.Epsilon())

    def build(self, word_bits: int = 32) -> "Coin":
        return Coin()

    def exact_epsilon(self) -> float:
        return self.epsilon


@spec
class Derived(Base):
    """A spec that adds to a method and to a property of its base."""

    def exact_epsilon(self) -> float:
        return super().exact_epsilon() / 2

    @property
    def half(self) -> float:
        return super().exact_epsilon() / 2


@params
class Coin(Round[Count]):
    """A round in which users report their bin."""

    num_values: int = static(default=2)

    @property
    def num_words(self) -> int:
        return 0

    def from_bits(self, words, value, /):
        return value

    def tally(self, reports, mask=None, /) -> Count:
        return histogram(reports, self.num_values, mask)

    def estimate(self, outcome, /):
        return outcome


def test_super_works_in_slotted_specs():
    assert Derived(3.0).exact_epsilon() == 1.5
    assert Derived(3.0).half == 1.5
    assert not hasattr(Derived(3.0), "__dict__")


def test_fields_are_checked_and_frozen():
    with pytest.raises(ValueError, match="epsilon must be"):
        Derived(-1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Derived(1.0).epsilon = 2.0  # pyright: ignore[reportAttributeAccessIssue]
    assert hash(Derived(1.0)) == hash(Derived(1.0))
    assert Derived(1.0) != Base(1.0)


def test_params_are_pytrees_and_build_to_themselves():
    coin = Coin()
    assert coin.build() is coin
    assert jax.tree.leaves(coin) == []
    assert jax.tree.structure(coin) != jax.tree.structure(Coin(3))


def test_a_field_may_not_hide_a_property():
    with pytest.raises(TypeError, match="lazy_words must not be a field"):

        @params
        class _Hiding(Coin):
            lazy_words: bool = static(default=True)


def test_other_reports_need_laws_of_their_own():
    """A `Through` that changes what is reported would inherit a wrong tally law in silence."""
    with pytest.raises(TypeError, match="must define draft, kernels, law, report_limits"):

        @params
        class _Half(Through[Count]):
            inner: Round[Count]

            def from_bits(self, words, value, /):
                return 1 - value

            def estimate(self, outcome, /):
                return outcome

    @params
    class Whole(Through[Count]):
        inner: Round[Count]

        @property
        def draft(self):
            return None

        @property
        def law(self):
            return None

        @property
        def kernels(self):
            return Kernels()

        @property
        def report_limits(self):
            return None

        def from_bits(self, words, value, /):
            return 1 - value

        def estimate(self, outcome, /):
            return outcome

    assert Whole(Coin()).law is None


def test_structures_name_the_class():
    """Else a compiled function might run, for one mechanism, what it has compiled for another."""
    members = [case.make(1.0).build() for case in PROTOCOLS]
    users = jaxdp.Population.from_histogram([3, 2])
    key = jax.random.key(0)
    members += [users.shuffle(key).source, users.pairs(key).source, Halves(1, 2), (1, 2)]
    members += [UserWords(1, 2, 3, 4, 5), StreamKey(1), KRR(5, 1.0).build()]
    members += [HadamardBit(5, 1.0).build()]
    for one, other in itertools.combinations(members, 2):
        same = jax.tree.structure(one) == jax.tree.structure(other)
        assert not same or type(one) is type(other), (type(one), type(other))


def test_dataclasses_are_pytrees():
    doubled = jax.tree.map(lambda x: 2 * x, {"here": Halves(1, Halves(2, None))})
    assert doubled == {"here": Halves(2, Halves(4, None))}
    assert jax.tree.unflatten(jax.tree.structure(Coin(7)), []) == Coin(7)
    ((path, leaf),), _ = jax.tree.flatten_with_path(Halves(None, 5))
    assert (jax.tree_util.keystr(path), leaf) == (".right", 5)


def test_fields_outside_of_a_pytree_have_their_defaults_after_it():
    @register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Named:
        number: Any
        name: str | None = dataclasses.field(default=None, metadata={"outside": True})

    one, other = Named(1, "one"), Named(2, "two")
    assert jax.tree.leaves(one) == [1]
    assert jax.tree.structure(one) == jax.tree.structure(other)
    assert jax.tree.map(lambda x: x + 1, one) == Named(2)
    assert dataclasses.replace(one, number=3) == Named(3, "one")
