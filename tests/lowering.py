"""Programs for an accelerator, lowered on any machine."""

from typing import Any

import jax


def lowered_for_h200(function: Any, *arguments: Any) -> str:
    """The text of a jitted function, lowered for an H200: Triton asks what device it is for."""
    device = jax.sharding.AbstractDevice(device_kind="NVIDIA H200", num_cores=132, platform="gpu")
    with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), (), abstract_device=device)):
        return function.trace(*arguments).lower(lowering_platforms=("cuda",)).as_text()
