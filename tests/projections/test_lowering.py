"""Every projection and its gradient inside of a 32-bit program, for other platforms."""

import jax
import numpy as np
import pytest

from jaxdp import projections as pj

VERTICES = np.random.default_rng(0).normal(size=(6, 9)).astype(np.float32)
_VECTORS = ("simplex", "l1_ball", "l2_ball", "box")
_MATRICES = ("column_norm_ball", "frobenius_ball", "psd", "spectraplex", "nuclear_ball")
CLOSED = {name: getattr(pj, name) for name in (*_VECTORS, *_MATRICES)}
SOLVERS = {
    "hull": lambda x: pj.hull(x, VERTICES),
    "hull, away steps": lambda x: pj.hull(x, VERTICES, method="frank_wolfe"),
    "symmetric_polytope": lambda x: pj.symmetric_polytope(x, VERTICES),
    "correlation": pj.correlation,
    "bounded_diagonal": pj.bounded_diagonal,
    "dykstra": lambda x: pj.dykstra(x, (pj.psd, pj.simplex)),
    "alternating_average": lambda x: pj.alternating_average(x, (pj.psd, pj.simplex)),
}


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
@pytest.mark.parametrize("name", [*CLOSED, *SOLVERS])
def test_lowers_inside_of_a_32_bit_program(name, platform):
    def size(x):
        point = CLOSED[name](2 * x) if name in CLOSED else SOLVERS[name](2 * x).point
        return (point**2).sum()

    wanted = size if name == "alternating_average" else jax.value_and_grad(size)
    shape = jax.ShapeDtypeStruct((6, 6), np.float32)
    exported = jax.export.export(jax.jit(wanted), platforms=[platform])(shape)
    assert exported.mlir_module_serialized
    assert {aval.dtype for aval in exported.out_avals} == {np.dtype(np.float32)}
