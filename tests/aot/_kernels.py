"""What Mosaic's kernels do, read from their assembly."""

import collections
import dataclasses
import os
import pathlib
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp

from jaxdp_kernels.randomize_and_tally import Drawn
from jaxdp_kernels.randomize_and_tally.mosaic_gpu import randomize_and_tally_mosaic_gpu
from jaxdp_kernels.threefry_words import TILE, StreamKey

from ._device import compile_for

NUM_USERS = 2**26
_THREADS = 128  # of a block, which take a tile of users together
_LABEL = re.compile(r"^(\$\w+):")
_BRANCH = re.compile(r"^(?:@!?%\w+\s+)?bra(?:\.uni)?\s+(\$\w+);")
_INSTRUCTION = re.compile(r"^(?:@!?%\w+\s+)?([a-z][\w.:]*)\b.*;")


@dataclasses.dataclass(frozen=True)
class Kernel:
    """What a compiled kernel takes.

    Attributes:
      instructions: of PTX in one pass of its loop, for each user.
      counted: instructions of the loop, for each user, that add to shared memory.
      written: instructions of the loop that write elsewhere, or add to memory that blocks share.
      registers: of a thread.
      spilled: bytes of a thread's registers that lie in memory.
      mebibytes: of temporaries of the whole program.
      seconds: CPU seconds that tracing, lowering and compiling took.
    """

    instructions: float
    counted: float
    written: int
    registers: int
    spilled: int
    mebibytes: float
    seconds: float


def loop_of(ptx: str) -> list[str]:
    """The instructions of the longest loop of a kernel, by their names."""
    lines = [line.strip() for line in ptx.splitlines()]
    places = {m.group(1): i for i, line in enumerate(lines) if (m := _LABEL.match(line))}
    loops = [
        range(places[m.group(1)], i + 1)
        for i, line in enumerate(lines)
        if (m := _BRANCH.match(line)) and places.get(m.group(1), i) < i
    ]
    if not loops:
        raise ValueError("the kernel has no loop")
    longest = max(loops, key=len)
    return [m.group(1) for i in longest if (m := _INSTRUCTION.match(lines[i]))]


def read(ptx: str, report: str, mebibytes: float, seconds: float) -> Kernel:
    """What a kernel takes, from its assembly and the report of ptxas."""
    loop = collections.Counter(loop_of(ptx))
    users = TILE // _THREADS  # of a thread in one pass

    def number(pattern: str) -> int:
        return sum(n for name, n in loop.items() if re.match(pattern, name))

    shared = number(r"(red|atom)\.\S*shared")
    (registers,) = re.findall(r"Used (\d+) registers", report)
    return Kernel(
        instructions=sum(loop.values()) / users,
        counted=shared / users,
        written=number(r"(red|atom|st)\b") - shared,
        registers=int(registers),
        spilled=sum(map(int, re.findall(r"(\d+) bytes (?:stack frame|spill \w+)", report))),
        mebibytes=mebibytes,
        seconds=seconds,
    )


@contextmanager
def _dumped() -> Iterator[pathlib.Path]:
    """A folder for what Mosaic makes of kernels, with the library that it needs for that."""
    import jax_cuda13_plugin

    (root,) = jax_cuda13_plugin.__path__
    library = pathlib.Path(root) / "libmosaic_gpu_runtime.so"
    with tempfile.TemporaryDirectory() as folder:
        told = {"MOSAIC_GPU_DUMP_TO": folder, "MOSAIC_GPU_RUNTIME_LIB_PATH": str(library)}
        before = {name: os.environ.get(name) for name in told}
        os.environ.update(told)
        try:
            yield pathlib.Path(folder)
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})


def compiled(
    randomizer: Any,
    masked: bool = False,
    by_tile: bool = False,
    maker: Any = None,
    add: Callable[..., Any] | None = None,
) -> Kernel:
    """The kernel of a randomizer, compiled for an H200.

    Args:
      randomizer: the params.
      masked: whether a mask says who counts, rather than a number.
      by_tile: whether values are those of tiles, with a number of users for each.
      maker: what makes values from words, in place of an array of them.
      add: does more with the tally; for planted faults.
    """
    key = jax.eval_shape(lambda: StreamKey.of(jax.random.key(0)))
    start = jax.ShapeDtypeStruct((2,), jnp.uint32)
    rows = (NUM_USERS // TILE if by_tile else NUM_USERS,)
    values = jax.tree.map(lambda x: jax.ShapeDtypeStruct(rows, x.dtype), randomizer.value)
    if maker is not None:
        values = Drawn(maker, (key,) * maker.num_words, start, NUM_USERS)
    some, dtype = rows if masked or by_tile else (), jnp.bool_ if masked else jnp.uint32
    mask = jax.ShapeDtypeStruct(some, dtype)

    @jax.jit
    def tally(randomizer, key, start, values, mask):
        found = randomize_and_tally_mosaic_gpu(randomizer, key, start, None, values, mask)
        return found if add is None else add(found)

    with _dumped() as folder:
        program = compile_for("cuda", tally, randomizer, key, start, values, mask)
        (ptx,) = folder.glob("*.ptx")
        (report,) = folder.glob("*.ptxas")
        return read(
            ptx.read_text(), report.read_text(), program.temporaries / 2**20, program.seconds
        )
