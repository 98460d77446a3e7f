"""Compilers for accelerators that this machine does not have, and programs compiled by them."""

import dataclasses
import functools
import importlib.util
import os
import pathlib
import tempfile
import time
from typing import Any

import jax
import numpy as np
from jax.experimental import topologies
from jax.sharding import NamedSharding

PLATFORMS = ("cuda", "tpu")
_A_TPU = {
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # by processes that only compile
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_HOSTNAMES": "localhost",
}
"""What libtpu reads when it is loaded, or it looks for the machine that it runs on."""

H200 = pathlib.Path(__file__).with_name("h200.txtpb")
"""An H200 as XLA describes devices, for `xla_gpu_target_config`."""


def missing(platform: str) -> str | None:
    """Why nothing can be compiled for a platform, and the remedy; None if it can."""
    package = {"cuda": "jax_cuda13_plugin", "tpu": "libtpu"}[platform]
    if importlib.util.find_spec(package) is not None:
        return None
    return f"needs {package}: pip install -e '.[test,aot]' in an environment of its own"


@functools.cache
def devices(platform: str, number: int = 1) -> tuple[Any, ...]:
    """Devices to compile for: H200s on one host, or the first of four chips of a TPU v5e.

    Args:
      platform: one of `PLATFORMS`.
      number: how many; of TPUs four at most.
    """
    if platform == "cuda":
        described: Any = topologies.get_topology_desc(
            platform="cuda", target_config=H200.read_text(), topology=f"1x1x{number}"
        )
    else:
        for variable, value in _A_TPU.items():
            os.environ.setdefault(variable, value)
        described = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x2")
    return tuple(described.devices[:number])


def mesh_of(platform: str, *shape: int, names: tuple[str, ...]) -> jax.sharding.Mesh:
    """A mesh of such devices."""
    found = devices(platform, int(np.prod(shape)))
    return jax.sharding.Mesh(np.array(found).reshape(shape), names)


@dataclasses.dataclass(frozen=True)
class Compiled:
    """A compiled program.

    Attributes:
      platform: one of `PLATFORMS`.
      text: XLA's.
      ptx: the assembly of its kernels; empty but for CUDA.
      temporaries: bytes of memory for what is neither an argument nor a result.
      seconds: of the CPU, that tracing, lowering and compiling took.
    """

    platform: str
    text: str
    ptx: str
    temporaries: int
    seconds: float


def compile_for(
    platform: str,
    function: Any,
    *arguments: Any,
    where: jax.sharding.Mesh | None = None,
    **static: Any,
) -> Compiled:
    """Compiles a program.

    Args:
      platform: one of `PLATFORMS`.
      function: jitted.
      *arguments: its arguments, or their shapes; replicated over the mesh.
      where: the mesh of a program for several devices; None for one.
      **static: its static arguments.
    """
    where = mesh_of(platform, 1, names=("device",)) if where is None else where
    everywhere = NamedSharding(where, jax.P())

    def abstract(leaf: Any) -> jax.ShapeDtypeStruct:
        leaf = leaf if hasattr(leaf, "dtype") else jax.eval_shape(lambda: leaf)
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=everywhere)

    with tempfile.TemporaryDirectory() as folder:
        begin = time.process_time()
        lowered = function.trace(*jax.tree.map(abstract, arguments), **static).lower()
        compiled = lowered.compile({"xla_dump_to": folder} if platform == "cuda" else None)
        seconds = time.process_time() - begin
        ptx = "".join(path.read_text() for path in pathlib.Path(folder).glob("*.ptx"))
    temporaries = compiled.memory_analysis().temp_size_in_bytes
    return Compiled(platform, compiled.as_text(), ptx, temporaries, seconds)
