"""Every solver inside of a 32-bit program, for platforms that this machine is not."""

import functools

import jax
import numpy as np
import pytest

from jaxdp import factorization as fz

NORMS = {
    "gamma2": fz.gamma2,
    "gamma2 shifted": functools.partial(fz.gamma2, shift=True),
    "gamma_f": fz.gamma_f,
    "gamma_f shifted": functools.partial(fz.gamma_f, shift=True),
    "signed": fz.signed,
    "signed shifted": functools.partial(fz.signed, shift=True),
    "gamma2_dual": fz.gamma2_dual,
    "gamma2_approx": functools.partial(fz.gamma2_approx, alpha=0.1),
    "gamma_f_approx": functools.partial(fz.gamma_f_approx, alpha=0.1),
    "zeta": functools.partial(fz.zeta, weight=2.0),
}
SEARCHES = {
    "gamma2_rank": functools.partial(fz.gamma2_rank, rank=3, alpha=0.1),
    "projected_gradient": functools.partial(fz.projected_gradient, rank=3, alpha=0.1),
    "johnson_lindenstrauss": lambda w: fz.johnson_lindenstrauss(w, fz.gamma2(w), rank=3),
}


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
@pytest.mark.parametrize("solver", [*NORMS, *SEARCHES])
def test_lowers_inside_of_a_32_bit_program(solver, platform):
    """The norms with their gradients, next to what the caller computes in float32."""
    program = {**NORMS, **SEARCHES}[solver]

    def bound(w):
        return program(2 * w).upper

    wanted = jax.value_and_grad(bound) if solver in NORMS else bound
    shape = jax.ShapeDtypeStruct((6, 6), np.float32)
    exported = jax.export.export(jax.jit(wanted), platforms=[platform])(shape)
    assert exported.mlir_module_serialized
    assert {aval.dtype for aval in exported.out_avals} == {np.dtype(np.float32)}
