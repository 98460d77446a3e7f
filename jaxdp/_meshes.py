"""Meshes whose axes are Explicit, as `jax.make_mesh` makes them by default.

On such axes the types of arrays tell how they lie on devices, and every operation has to say how
its results do. jaxdp leaves that to the compiler, as on axes of type Auto.
"""

import contextlib
import functools
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar, cast

import jax

from ._spec import Tree, is_traced

P = ParamSpec("P")
T = TypeVar("T")


def on_auto_axes(function: Callable[P, T]) -> Callable[P, T]:
    """`function`, for which axes are Auto: of the arrays it is given, and of `jax.set_mesh`.

    What is traced stays as it is; see `traced_on_auto_axes`.
    """

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        with _auto_context():
            placed = [moved(arg) for arg in args]
            return function(*placed, **{name: moved(arg) for name, arg in kwargs.items()})  # pyright: ignore[reportCallIssue]

    return wrapped


def _auto_context() -> contextlib.AbstractContextManager[object]:
    if not jax.sharding.get_abstract_mesh().explicit_axes:
        return contextlib.nullcontext()
    try:
        return jax.set_mesh(_auto(jax.sharding.get_mesh()))
    except ValueError:  # inside a transformation, where no mesh can be set
        return contextlib.nullcontext()


@functools.singledispatch
def moved(argument: Tree) -> Tree:
    """An argument on Auto axes; a class whose objects are more than pytrees registers its way."""
    # Lists and columns are of numbers or labels, and may be long.
    plain = isinstance(argument, Iterable) and not isinstance(argument, jax.Array)
    return argument if plain else jax.tree.map(_on_auto_axes, argument)


def _on_auto_axes(x: Tree) -> Tree:
    """An array where it is, but with a type that does not tell how it lies on a mesh."""
    lies = x.sharding if isinstance(x, jax.Array) and not is_traced(x) else None
    if not isinstance(lies, jax.NamedSharding) or not lies.mesh.explicit_axes:
        return x
    assert isinstance(lies.mesh, jax.sharding.Mesh), "an array lies on devices"
    return jax.device_put(x, jax.NamedSharding(_auto(lies.mesh), lies.spec))


def _auto(mesh: jax.sharding.Mesh) -> jax.sharding.Mesh:
    return jax.sharding.Mesh(mesh.devices, mesh.axis_names)


def traced_on_auto_axes(function: Callable[..., T], *arguments: Tree) -> T:
    """`function`, traced on arguments that may lie on Explicit axes; its results lie everywhere."""
    context = jax.sharding.get_abstract_mesh()
    meshes = [jax.typeof(x).sharding.mesh for x in jax.tree.leaves(arguments)]
    explicit = next((mesh for mesh in (context, *meshes) if mesh.explicit_axes), None)
    if explicit is None:
        return function(*arguments)
    everywhere = jax.P() if context.explicit_axes else jax.NamedSharding(explicit, jax.P())
    auto = jax.sharding.auto_axes(function, axes=explicit.explicit_axes, out_sharding=everywhere)
    return cast(T, auto(*arguments))
