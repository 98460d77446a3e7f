"""Every member's program, on both paths, is one that GPUs and TPUs can run, and repeat.

Lowered, not compiled: no accelerator and no compiler for one is needed. `tests/aot` compiles some.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp import factorization, projections
from jaxdp.engine._simulate import _estimate_compiled, _play_compiled
from tests.aot._engine import configured
from tests.contracts.jaxprs import inner_jaxprs
from tests.contracts.registry import PATHS

PLATFORMS = ("cuda", "tpu")
KEY = jax.random.key(0)


def lower(function, *arguments, apart=False, **static):
    """Lowers a jitted function for both kinds of accelerators, and returns the trace of it.

    At once, which is quicker, or apart: at once jax lowers what is for one of them for both.
    """
    traced = function.trace(*arguments, **static)
    for platforms in [(platform,) for platform in PLATFORMS] if apart else [PLATFORMS]:
        traced.lower(lowering_platforms=platforms)
    return traced.jaxpr


@functools.partial(jax.jit, static_argnames="config")
def run(params, population, key, config):
    """As `jaxdp.run` is inside of a caller's jit."""
    outcome, _ = _play_compiled(params, population, key, config)
    return _estimate_compiled(params, outcome)


def unordered_sums(jaxpr):
    """The scatters that add floats: a GPU does so in any order."""
    found = []
    for equation in jaxpr.eqns:
        if equation.primitive.name in ("scatter-add", "scatter-mul"):
            (out,) = equation.outvars
            if jnp.issubdtype(out.aval.dtype, jnp.floating):
                found += [] if equation.params["unique_indices"] else [out.aval]
        for inner in inner_jaxprs(equation):
            found += unordered_sums(inner)
    return found


@pytest.mark.parametrize(("case", "method"), PATHS)
def test_lowers_without_sums_in_any_order(case, method):
    subject = case.subject()
    users, config = configured(subject.population, "cuda", method)
    program = lower(run, subject.params, users, KEY, config=config)
    assert unordered_sums(program) == []


SOLVERS = {
    "gamma2": factorization.gamma2,
    "gamma2-shift": functools.partial(factorization.gamma2, shift=True),
    "gamma-f": factorization.gamma_f,
    "gamma2-approx": lambda x: factorization.gamma2_approx(x, 0.1),
    "zeta": lambda x: factorization.zeta(x, num_users=1000, epsilon=1.0),
    "signed": lambda x: factorization.signed(x + x.T),
    "dual": factorization.gamma2_dual,
    "simplex": projections.simplex,
    "correlation": lambda x: projections.correlation(x + x.T),
    "polytope": lambda x: projections.symmetric_polytope(x[0], x),
}


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
def test_solver_lowers_without_sums_in_any_order(solver):
    program = lower(jax.jit(solver), np.tril(np.ones((8, 8), np.float32)), apart=True)
    assert unordered_sums(program) == []


def test_what_an_accelerator_lacks_is_noticed():
    with pytest.raises(NotImplementedError, match=r"(?s)eig.*(tpu|cuda)"):
        lower(jax.jit(jnp.linalg.eig), np.eye(3, dtype=np.float32))


@pytest.mark.parametrize(("dtype", "sums"), [(np.float32, 1), (np.int32, 0)])
def test_sums_in_any_order_are_noticed(dtype, sums):
    def count(bins):
        return jnp.zeros(4, dtype).at[bins].add(1)

    program = lower(jax.jit(lambda all_bins: jax.lax.map(count, all_bins)), np.zeros((2, 9), int))
    assert len(unordered_sums(program)) == sums
