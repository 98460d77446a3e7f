"""Long programs run in halves as they do whole, and the halves compile side by side."""

import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxdp
from jaxdp import linear, pairwise, random, workloads
from jaxdp._stored import stored
from jaxdp.engine import _halves, _programs
from tests.marks import slow

USERS = jaxdp.Population.from_histogram(np.arange(1, 21))
LONG = {
    "laplace-queries": linear.LaplaceQueries(workloads.prefix(20), 1.0),
    "one-report": pairwise.OneReport(pairwise.GiniMeanDifference(), 1.0, num_values=20),
}


@pytest.fixture
def fresh(monkeypatch):
    """Nothing has been cut yet, and programs of so many equations are long."""

    def of(size: int) -> None:
        monkeypatch.setattr(_halves, "_LONG", size)
        monkeypatch.setattr(_programs, "_halves", weakref.WeakKeyDictionary())

    return of


def are_cut() -> bool:
    return any(halves is not None for halves in _programs._halves.values())


def steps(table, x, y):
    """What halves must keep: values read late, constants, results of all kinds."""
    first = stored(jnp.sin(x) + table)
    total, second = lax.scan(lambda carry, row: (carry + row, carry * row), 0.0 * y, first)
    third = jnp.sort(second) * y + first + total * table
    return third @ third, first, x, jnp.float32(3), third @ third, second


def test_halves_return_what_the_program_does(fresh):
    fresh(1)
    table = np.arange(8, dtype=np.float32)
    x, y = jnp.linspace(0, 1, 8), jnp.float32(0.5)
    halves = _halves.cut(jax.make_jaxpr(lambda x, y: steps(table, x, y))(x, y), "steps", None)
    assert halves is not None
    want = jax.jit(lambda x, y: steps(table, x, y))(x, y)
    for function in (halves, halves.compile()):
        for ours, theirs in zip(function([x, y]), want, strict=True):
            np.testing.assert_array_equal(ours, theirs)
            assert ours.dtype == theirs.dtype


def test_a_program_is_cut_where_least_crosses():
    """And never far from the middle, or where a kernel would have to end."""

    def long(x):  # 8 equations: after the fourth 8 numbers cross, after the sixth one
        x = stored(stored(x))
        x = stored(jnp.sin(x))
        x = stored(jnp.sum(x))
        return stored(stored(x))

    def between(x):
        return stored(jnp.cos(jnp.sin(jnp.cos(jnp.sin(jnp.cos(jnp.sin(stored(x))))))))

    x = jnp.ones(8)
    program = jax.make_jaxpr(long)(x)
    assert [eqn.primitive.name for eqn in program.jaxpr.eqns][4] == "reduce_sum"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_halves, "_LONG", 1)
        assert _halves._place(program.jaxpr) == 4
        patch.setattr(_halves, "_MIDDLE", (0.35, 0.8))
        assert _halves._place(program.jaxpr) == 6
        assert _halves._place(jax.make_jaxpr(between)(x).jaxpr) is None


def test_short_programs_and_those_with_effects_are_not_cut(fresh):
    def plain(x):
        return jnp.cos(stored(jnp.sin(x)))

    def shown(x):
        jax.debug.callback(lambda _: None, x)
        return plain(x)

    x = jnp.ones(3)
    assert _halves.cut(jax.make_jaxpr(plain)(x), "f", None) is None
    fresh(1)
    assert _halves.cut(jax.make_jaxpr(plain)(x), "f", None) is not None
    assert _halves.cut(jax.make_jaxpr(shown)(x), "f", None) is None
    assert _halves.cut(jax.make_jaxpr(lambda x: x)(x), "f", None) is None


def test_a_draw_weighs_what_it_will_be():
    program = jax.make_jaxpr(random.binomial)(jax.random.key(0), 100, 0.5)
    assert sum(map(_halves._weight, program.jaxpr.eqns)) > _halves._OF_A_DRAW


@pytest.mark.parametrize("cores_share", [False, True])
@pytest.mark.parametrize("name", ["laplace-queries", slow("one-report")])
def test_trials_are_the_same_in_halves(name, cores_share, fresh, key, monkeypatch):
    if cores_share:
        monkeypatch.setattr("jaxdp.engine._simulate._LONG", 0.0)

    def simulated():
        return jaxdp.simulate(LONG[name], USERS, key, num_trials=7, method="tally").estimates

    fresh(10**9)
    whole = simulated()
    assert not are_cut()
    fresh(300)
    np.testing.assert_array_equal(simulated(), whole)
    assert are_cut()


def test_halves_compile_once_and_side_by_side(fresh, key, count_compilations):
    fresh(300)

    def simulated():
        with count_compilations() as seen:
            jaxdp.simulate(LONG["laplace-queries"], USERS, key, num_trials=3, method="tally")
        return seen

    seen = simulated()
    compiled = zip(seen.compiled, seen.threads, strict=True)
    threads = {name: thread for name, thread in compiled if "_play_trials" in name}
    assert set(threads) == {"_play_trials_0", "_play_trials_1"}
    assert threads["_play_trials_0"] != threads["_play_trials_1"]
    again = simulated()
    assert again.compiled == again.traced == []


def test_arguments_on_a_device_have_a_whole_program(fresh, key):
    fresh(300)
    there = jax.device_put((USERS, key), jax.devices()[-1])
    spec = LONG["laplace-queries"]
    found = jaxdp.simulate(spec, *there, num_trials=3, method="tally")
    assert not are_cut()
    here = jaxdp.simulate(spec, USERS, key, num_trials=3, method="tally")
    assert are_cut()
    np.testing.assert_array_equal(found.estimates, here.estimates)


def test_halves_go_with_their_program(fresh):
    fresh(1)
    table = np.arange(8, dtype=np.float32)
    program = jax.make_jaxpr(lambda x, y: steps(table, x, y))(jnp.ones(8), jnp.float32(0.5))
    _programs._halves[program] = _halves.cut(program, "steps", None)
    assert are_cut()
    del program
    gc.collect()
    assert not len(_programs._halves)
