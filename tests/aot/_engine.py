"""The engine's programs as they are for an accelerator, traced on any machine."""

from typing import Any

import jax

from jaxdp import Population
from jaxdp.engine._config import Config, bounded

_NAMES = {"cuda": "gpu", "tpu": "tpu"}


def configured(
    population: Population,
    platform: str,
    method: str,
    mesh: jax.sharding.Mesh | None = None,
    **options: Any,
) -> tuple[Population, Config]:
    """Users as a platform's programs take them, and the configuration of these programs."""
    config = Config(method, mesh, None, platform=_NAMES[platform], **options)
    return bounded(population, config), config
