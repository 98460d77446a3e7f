"""Values that a program of draws computes once, on a CPU."""

import jax
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

_stored = Primitive("stored")


def stored(array: jax.Array) -> jax.Array:
    """The same array, which the engine's programs of draws on a CPU store before it is read.

    XLA writes what makes an array into each of the kernels that read it: all rounds of threefry and
    a quantile function, a dozen times over. On accelerators, where such kernels are wanted, and in
    a program that XLA compiles by its own rules (`engine._play` has ours) nothing changes.
    """
    return _stored.bind(array)


_stored.def_impl(lambda array: array)
_stored.def_abstract_eval(lambda array: array)
batching.defvectorized(_stored)
mlir.register_lowering(_stored, mlir.lower_fun(lambda array: array, multiple_results=False))
mlir.register_lowering(
    _stored, mlir.lower_fun(lax.optimization_barrier, multiple_results=False), platform="cpu"
)
