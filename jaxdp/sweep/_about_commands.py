"""The subcommands of `jaxdp` that tell of it: an experiment, the versions, words for the shell."""

import dataclasses
import inspect
import sys
from typing import Annotated, Literal

import tyro

from ._words import ExperimentName, Mistake, option


@dataclasses.dataclass(frozen=True)
class Describe:
    """Say what an experiment does, and what of it can be set."""

    name: ExperimentName

    def __call__(self) -> int:
        """Prints it."""
        from ._catalog import find_experiment
        from ._fingerprint import labels_of

        try:
            experiment = find_experiment(self.name)
        except ValueError as error:
            raise Mistake(str(error)) from None
        settings, quick = experiment.settings, experiment.quick
        cells = experiment.cells(settings)
        axes: dict[str, dict[str, None]] = {}
        for cell in cells:
            for name, label in labels_of(cell).items():
                axes.setdefault(name, {})[str(label)] = None
        print(f"{experiment.name}: {experiment.summary}\n")
        text = inspect.getdoc(sys.modules.get(experiment.cells.__module__)) or ""
        if about := "\n".join(text.splitlines()[1:]).strip():
            print(f"{about}\n")
        print(f"cells     {len(cells)}, of which --quick takes {len(experiment.cells(quick))}")
        for name, labels in axes.items():
            print(f"  {name}: {_shortened(list(labels))}")
        print(f"epsilons  {' '.join(f'{epsilon:g}' for epsilon in settings.epsilons)}")
        print(f"trials    {settings.num_trials} a cell, {quick.num_trials} with --quick")
        print(f"seed      {settings.seed}")
        print(f"figure    {'yes' if experiment.figure else 'none'}")
        print(f"\nto run it: jaxdp run {self.name}")
        return 0


def _shortened(labels: list[str], most: int = 12) -> str:
    rest = len(labels) - most
    return ", ".join(labels[:most]) + (f" and {rest} more" if rest > 0 else "")


@dataclasses.dataclass(frozen=True)
class Version:
    """Print the version."""

    verbose: Annotated[
        tyro.conf.FlagCreatePairsOff[bool],
        option("Print those of jax and Python, too, and the devices.", "default: jaxdp's alone"),
    ] = False

    def __call__(self) -> int:
        """Prints it."""
        from .._install import clash
        from .._version import __version__

        print(f"jaxdp {__version__}")
        if warning := clash():
            print(f"jaxdp: {warning}", file=sys.stderr)
        if self.verbose:
            import importlib.metadata
            import platform

            import jax

            from .._program_cache import enable_compilation_cache
            from .._spec import num_cores

            for name in ("jax", "jaxlib", "numpy", "optax", "pyarrow"):
                print(f"{name} {importlib.metadata.version(name)}")
            print(f"python {platform.python_version()} on {platform.platform()}")
            kinds = [device.device_kind for device in jax.devices()]
            counted = ", ".join(f"{kinds.count(kind)} x {kind}" for kind in dict.fromkeys(kinds))
            print(
                f"devices {counted} ({jax.default_backend()}), {num_cores()} cores for this process"
            )
            print(f"compiled programs {enable_compilation_cache() or 'not kept'}")
        return 0


@dataclasses.dataclass(frozen=True)
class Completion:
    """Print what makes a shell complete the words of `jaxdp`.

    Example, for bash: jaxdp completion bash > ~/.local/share/bash-completion/completions/jaxdp
    """

    shell: Annotated[
        tyro.conf.Positional[Literal["bash", "zsh", "tcsh"]],
        option("For which.", "required", metavar="bash|zsh|tcsh"),
    ]
