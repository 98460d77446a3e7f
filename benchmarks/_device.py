"""What a device can do at most, and rows that say how near to it something comes."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jaxdp
from jaxdp.engine._fused import WORTHWHILE
from jaxdp_kernels.standard_normal import standard_normal
from jaxdp_kernels.threefry_words.ref import threefry2x32

from . import _timing
from ._randomizers import Setting

T = TypeVar("T")

KEY = 17
"""Seed of what is timed."""

INPUTS = 64
"""Distinct vectors or numbers of a population given by counts."""


@dataclasses.dataclass(frozen=True)
class Row:
    """One measurement.

    Attributes:
      name: of the row, alone in its part.
      measure: makes it. Of the entries of what it returns, "seconds" is the time of one "unit", and
        "needs" the fewest of each of `ROOFLINES` that such a one takes: it becomes the entries
        "limit", "limit_s" and "share".
    """

    name: str
    measure: Callable[[], dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Scale:
    """How large things are.

    Attributes:
      quick: whether to try everything on tiny sizes.
    """

    quick: bool = False

    def __call__(self, full: T, quick: T) -> T:
        """The size to take."""
        return quick if self.quick else full

    def slope(
        self, prepare: Callable[[int], Callable[[], Any]], start: int, most: int
    ) -> dict[str, Any]:
        """`_timing.slope`, over a tenth of a second at least where `most` allows it."""
        if self.quick:
            return _timing.slope(prepare, min(start, 2), 0, 0.0, repeats=1)
        return _timing.slope(prepare, start, most, 0.1)


@jax.jit
def _copy(x: jax.Array) -> jax.Array:
    return x + np.float32(1)


@functools.partial(jax.jit, static_argnames=("blocks", "normals"))
def _draws(key_data: jax.Array, blocks: int, normals: bool) -> jax.Array:
    """The sum of the words of threefry blocks, or of their normals, and no more."""
    counter = lax.iota(jnp.uint32, blocks)
    first, second = threefry2x32((key_data[0], key_data[1]), (jnp.zeros_like(counter), counter))
    if normals:
        return jnp.sum(standard_normal(first) + standard_normal(second))
    return jnp.sum(first ^ second, dtype=jnp.uint32)


def _copying(scale: Scale) -> dict[str, Any]:
    """Reading and writing an array far larger than all caches."""
    x = jnp.zeros(scale(2**28, 2**10), jnp.float32)
    return {"unit": "byte", **calls(_copy, (x,), scale, 2 * x.nbytes)}


def _drawing(scale: Scale, normals: bool = False) -> dict[str, Any]:
    """Making words or normals, and adding them up in registers."""
    blocks, data = scale(2**28, 2**10), jax.random.key_data(jax.random.key(KEY))
    make = functools.partial(_draws, blocks=blocks, normals=normals)
    return {"unit": "normal" if normals else "word", **calls(make, (data,), scale, 2 * blocks)}


ROOFLINES: Mapping[str, Callable[[Scale], dict[str, Any]]] = {
    "bytes": _copying,
    "words": _drawing,
    "normals": functools.partial(_drawing, normals=True),
}
"""What limits a program, and how its rate is measured: bytes read or written, words, normals."""


def alive() -> bool:
    """Whether the device still computes; after some errors it does not, in the same process."""
    try:
        return float(_copy(jnp.ones(1))[0]) == 2
    except Exception:
        return False


def rooflines(scale: Scale) -> list[Row]:
    """The first rows of each part."""
    return [Row(name, functools.partial(find, scale)) for name, find in ROOFLINES.items()]


def against(row: dict[str, Any], rates: Mapping[str, float]) -> dict[str, Any]:
    """A row's "needs" as "limit", "limit_s" and "share", given the seconds of one of each."""
    row = dict(row)
    needs = row.pop("needs", {})
    needs = {what: number * rates[what] for what, number in needs.items() if what in rates}
    if not needs:
        return row
    limit = max(needs, key=lambda what: needs[what])
    return row | {
        "limit": limit,
        "limit_s": needs[limit],
        "share": needs[limit] / row["seconds"],
    }


def calls(
    function: Callable[..., Any], arguments: tuple[Any, ...], scale: Scale, items: int = 1
) -> dict[str, Any]:
    """Seconds an item of a jitted function that is called again and again, and waited for once."""

    def prepare(number: int) -> Callable[[], Any]:
        def queue() -> Any:
            found = None
            for _ in range(number):
                found = function(*arguments)
            return found

        return queue

    row = scale.slope(prepare, 1, 2**16)
    return row | {"seconds": row["seconds"] / items}


def per_user(setting: Setting, kind: str, scale: Scale, rounds: Literal[13, 20] = 20) -> Row:
    """A randomizer over a population, user by user from the words to the estimate.

    The params run, so no time goes into checking the population again.

    Args:
      setting: the randomizer.
      kind: of the population: "array", "histogram" or, of bins, "distribution".
      scale: how large.
      rounds: of the cipher; the limit of words is that of 20, times as many twentieths.
    """
    width = 4 if setting.bins else 4 * max(setting.size, 1)

    def population(users: int) -> jaxdp.Population:
        if kind == "array":
            return setting.users(users, 0)
        if kind == "histogram":
            return setting.histogram(users, INPUTS, 0)
        weights = np.full(setting.size, 1 / setting.size)
        return jaxdp.Population.from_distribution(weights, num_users=users)

    def measure() -> dict[str, Any]:
        params, key = setting.spec.build(), jax.random.key(KEY)
        draws = {"normals" if setting.normals else "words": setting.draws * rounds / 20}

        def prepare(users: int) -> Callable[[], Any]:
            run = functools.partial(
                jaxdp.run, method="per_user", rounds=rounds, implementation=served
            )
            return functools.partial(run, params, population(users), key)

        start = 2 ** max(22 - setting.draws.bit_length(), 10)
        served: Literal["kernel"] | None = None
        if jax.default_backend() == "gpu":
            if params.counted is not None:
                # So many as one kernel serves, or N and 2 N users would be of two programs.
                start = WORTHWHILE
            elif params.summed is not None:
                served = "kernel"
        most = min(2**31 // width, 2**29) if kind == "array" else 2**44
        bytes_read = {"bytes": float(width)} if kind == "array" else {}
        return {"unit": "user", **scale.slope(prepare, start, most), "needs": draws | bytes_read}

    size = f"({setting.size})" if setting.size else ""
    few = f", {rounds} rounds" if rounds < 20 else ""
    return Row(f"{setting.name}{size}, {kind}{few}", measure)
