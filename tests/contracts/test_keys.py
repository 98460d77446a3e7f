"""The draws of a tally have keys of their own."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend import core

from jaxdp.random import Count
from tests.contracts.case import Case, ids
from tests.contracts.jaxprs import inner_jaxprs
from tests.contracts.registry import APPLICABLE, PROTOCOLS
from tests.stats import CheckFailed, must_fail

_INLINED = ("jaxpr", "call_jaxpr")


def folds(jaxpr: Any, known: dict[Any, Any]) -> Iterator[tuple[Any, ...]]:
    """Every key and number that are folded; bodies of loops and branches have keys of their own.

    A key is named by how it was made, so that one that is made twice has one name.
    """

    def name(atom: Any) -> Any:
        if isinstance(atom, core.Literal):
            return np.asarray(atom.val).tobytes()
        return known.setdefault(atom, object())

    for eqn in jaxpr.eqns:
        given = tuple(map(name, eqn.invars))
        inner = next((eqn.params[k] for k in _INLINED if k in eqn.params), None)
        if eqn.primitive.name == "random_fold_in":
            yield given
        if inner is not None and eqn.primitive.name != "scan":
            body = getattr(inner, "jaxpr", inner)
            inside = dict(zip(body.invars, given, strict=True))
            yield from folds(body, inside)
            known |= (
                (x, inside.get(y))
                for x, y in zip(eqn.outvars, body.outvars, strict=True)
                if not isinstance(y, core.Literal) and y in inside
            )
            continue
        for body in inner_jaxprs(eqn):
            yield from folds(body, {})
        made = eqn.primitive.name, str(sorted(map(str, eqn.params.items()))), given
        known |= {x: (*made, i) for i, x in enumerate(eqn.outvars)}


def check_folds(draw: Any, counts: Count) -> None:
    """No number is folded twice into one key."""
    closed = jax.make_jaxpr(draw)(jax.random.key(0), counts)
    found = list(folds(closed.jaxpr, {}))
    twice = {each[1:] for each in found if found.count(each) > 1}
    if twice:
        raise CheckFailed(f"folded more than once into a key: {twice}")


DRAWN = [
    case
    for case in PROTOCOLS
    if {"both_paths_have_one_law", "outcome_is_the_tally_of_the_reports"}
    <= set(APPLICABLE[case.name])
]


@pytest.mark.parametrize("case", DRAWN, ids=ids)
def test_draws_of_a_tally_have_keys_of_their_own(case: Case):
    law = case.make(1.0).build().law  # of members of one round, which the second check is for
    counts = Count.of(np.array(case.counts))
    check_folds(lambda key, counts: law.draw(key, counts, case.inputs), counts)


def test_one_key_for_two_draws_is_seen():
    def draw(key, counts):
        keys = [jax.jit(jax.random.fold_in)(key, jnp.uint32(i)) for i in (1, 1)]
        return [jax.random.bits(each) for each in keys], counts

    must_fail(check_folds, draw, Count.of(np.array([1])))
