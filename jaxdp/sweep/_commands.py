"""The subcommands of `jaxdp`, with their arguments as tyro reads them.

What a subcommand computes with is imported when it runs: `--help` and `list` wait for neither jax
nor numpy.
"""

import dataclasses
import gc
import os
import pathlib
import sys
import time
import warnings
from typing import TYPE_CHECKING, Annotated

import tyro
from tyro.constructors import PrimitiveConstructorSpec

from ._shard import read_shard, shard_of
from ._words import ExperimentName, Mistake, OptionalInteger, ResultsName, numbers, option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._experiment import Experiment, Settings
    from ._fingerprint import Cell
    from ._store import Store

RESULTS = pathlib.Path("jaxdp-results")


OptionalShard = Annotated[
    tuple[int, int | None] | None,
    PrimitiveConstructorSpec(
        nargs=1,
        metavar="i/N",
        instance_from_str=lambda words: read_shard(words[0]),
        is_instance=lambda value: value is None or isinstance(value, tuple),
        str_from_instance=lambda value: ["" if value is None else f"{value[0]}/{value[1]}"],
    ),
]
OptionalNumbers = Annotated[tuple[float, ...] | None, numbers(float, "X [X ...]", "*")]


@dataclasses.dataclass(frozen=True)
class List:
    """List the experiments."""

    def __call__(self) -> int:
        """Prints a line for each."""
        from ._catalog import print_catalog

        return print_catalog()


@dataclasses.dataclass(frozen=True)
class New:
    """Write an experiment of your own, NAME.py, that runs as it is."""

    name: Annotated[
        tyro.conf.Positional[str], option("What to call it.", "required", metavar="NAME")
    ]

    def __call__(self) -> int:
        """Writes the file."""
        from ._new import write_template

        try:
            path = write_template(self.name)
        except ValueError as error:
            raise Mistake(str(error)) from None
        print(f"{path} is written; change what it compares, and run it:\n\n  jaxdp run {path}")
        return 0


@dataclasses.dataclass(frozen=True)
class Run:
    """Run an experiment: store its cells, print a table, draw a figure.

    What is there already is not computed again. So after Ctrl-C, a kill or a power cut the same
    command goes on where it stopped, and ends with the same files, byte for byte. The same command
    may run in any number of shells, or as a SLURM array, with one DIR: each cell is computed by one
    of them, and what a killed one leaves by another. `jaxdp status DIR` watches. Compiled programs
    are kept for later runs, in the folder that JAXDP_CACHE names; JAXDP_CACHE=off keeps none.

    Example: jaxdp run kendall-flights --trials 200 --epsilons 0.5 1 2
    """

    name: ExperimentName
    out: Annotated[
        str,
        option(
            "Where to put results: a directory, or a URL such as s3://bucket/sweep.",
            "default: jaxdp-results/NAME",
            metavar="DIR",
        ),
    ] = ""
    trials: Annotated[
        OptionalInteger,
        option("Trials a cell.", "default: the experiment's", aliases=["--num-trials"]),
    ] = None
    seed: Annotated[
        OptionalInteger, option("What random keys are made from.", "default: the experiment's")
    ] = None
    epsilons: Annotated[
        OptionalNumbers, option("Privacy parameters of the grid.", "default: the experiment's")
    ] = None
    workers: Annotated[
        OptionalInteger,
        option(
            "How many cells to compute at a time.",
            "default: the number of processors; 64 jobs with --executor slurm",
        ),
    ] = None
    executor: Annotated[
        str,
        option(
            "What computes cells: threads, processes, dask://HOST:PORT, ray, ray://HOST:PORT, or "
            "slurm, a job a cell.",
            "default: threads",
            metavar="KIND",
        ),
    ] = "threads"
    job: Annotated[
        tuple[str, ...],
        option(
            "What each job asks for, as submitit names it: timeout_min=60 cpus_per_task=2 ...",
            "default: none",
            metavar="NAME=VALUE",
        ),
    ] = ()
    shard: Annotated[
        OptionalShard,
        option(
            "Which of several processes that share DIR this is, from 0/N on: where it begins.",
            "default: that of a SLURM array, an indexed job, or MPI",
        ),
    ] = None
    split: Annotated[
        OptionalInteger,
        option(
            "Trials at a time: the processes and workers share a cell of more.",
            "default: 16384",
        ),
    ] = None
    quick: Annotated[
        tyro.conf.FlagCreatePairsOff[bool],
        option("Run a small part of it.", "default: the whole"),
    ] = False
    accept_code: Annotated[
        tyro.conf.UseAppendAction[tuple[str, ...]],
        option(
            "Keep stored cells that this other code has computed, as a run names it.",
            "default: compute them anew",
            metavar="HASH",
        ),
    ] = ()
    dry_run: Annotated[
        tyro.conf.FlagCreatePairsOff[bool],
        option("Say what would be computed, and compute nothing.", "default: run it"),
    ] = False
    quiet: Annotated[
        tyro.conf.FlagCreatePairsOff[bool],
        option("Print nothing but failures.", "default: progress and a table"),
    ] = False
    force: Annotated[
        tyro.conf.FlagCreatePairsOff[bool],
        option("Compute everything anew.", "default: reuse what is there"),
    ] = False

    def __call__(self) -> int:
        """Runs it."""
        began = time.perf_counter()
        # Traced programs are many objects that live long, and each collection looks at them.
        gc.set_threshold(200_000, 20, 100)
        from .._program_cache import enable_compilation_cache
        from .._spec import check_int, num_cores
        from ._catalog import find_experiment
        from ._claims import Claims
        from ._executors import opened
        from ._figure import save_figure
        from ._report import print_results, print_sweep
        from ._run import run
        from ._split import MOST_TRIALS
        from ._store import Store, collect_counting, figure_files
        from ._summary import readable

        # A program that cannot be loaded is compiled, one that cannot be stored is not kept.
        warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")
        enable_compilation_cache()
        try:
            experiment = find_experiment(self.name)
            cells = experiment.cells(self._settings(experiment))
            usual = 64 if self.executor == "slurm" else num_cores()
            workers = usual if self.workers is None else self.workers
            workers = check_int("workers", workers, low=1)
            shard = shard_of(os.environ) if self.shard is None else self.shard
            store = Store(self.out or RESULTS / experiment.name)
            if self.dry_run:
                return self._foretell(store, cells)
            store.folder.make()  # so that it is known to be possible
        except ValueError as error:
            raise Mistake(str(error)) from None
        except OSError as error:
            raise Mistake(
                f"--out must be a directory that can be written to, got {self.out!r}: "
                f"{error.strerror}"
            ) from None
        # Most of the time goes into compiling, which threads do side by side; processes would each
        # have to start jax, and to compile what another one has compiled already.
        try:
            logs = RESULTS if "://" in self.out else pathlib.Path(str(store.folder))
            with opened(self.executor, workers, self._job(), logs / "jobs") as (
                pool,
                at_once,
            ):
                outcome = run(
                    cells,
                    str(store.folder),
                    pool,
                    name=experiment.name,
                    shard=shard,
                    at_once=at_once,
                    split=MOST_TRIALS if self.split is None else self.split,
                    force=self.force,
                    accept_code=self.accept_code,
                    progress=not self.quiet,
                )
        except (OSError, ValueError) as error:
            raise Mistake(str(error)) from None
        if outcome.computed + outcome.reused:
            results, missing = collect_counting(store)
            drawn = all(store.folder.exists(file) for file in figure_files(experiment.name))
            if experiment.figure and not missing and (self.force or not drawn):
                with Claims(store.folder) as claims:
                    if claims.take("figure"):  # else another process draws it
                        save_figure(experiment, results, store)
            if not self.quiet:
                print_results(readable(results), store.manifest().labels)
                print_sweep(store, missing)
        if not self.quiet:
            took = f"{time.perf_counter() - began:.1f} s"
            print(f"cells    {outcome.computed} computed, {outcome.reused} reused, in {took}")
        # The table comes before the tracebacks where both go into one file.
        sys.stdout.flush()
        for label, trace in outcome.failures:
            print(f"\ncell {label} failed:\n{trace}", file=sys.stderr, end="")
        if outcome.failures:
            print(f"\n{len(outcome.failures)} of {len(cells)} cells failed", file=sys.stderr)
        return 1 if outcome.failures else 0

    def _foretell(self, store: "Store", cells: "Sequence[Cell]") -> int:
        """Says what a run would do."""
        from ._fingerprint import cells_by_name, describe
        from ._stale import reconcile

        wanted = cells_by_name(cells)
        kept, _, stale = ({}, [], ()) if self.force else reconcile(store, wanted, self.accept_code)
        done = set() if self.force else (store.finished() & set(wanted)) | set(kept)
        left = [cell for name, cell in wanted.items() if name not in done]
        print(
            f"{store.folder}: {len(cells)} cells, {len(done)} there already, {len(left)} to compute"
        )
        for each in stale:
            print(f"{each}: --accept-code {each.code} would keep them")
        for cell in left:
            print(f"  {describe(cell)}")
        return 0

    def _job(self) -> dict[str, str]:
        if wrong := [word for word in self.job if "=" not in word]:
            raise ValueError(f"job must be NAME=VALUE, got {wrong[0]!r}.")
        return dict(word.split("=", 1) for word in self.job)

    def _settings(self, experiment: "Experiment") -> "Settings":
        given = {"epsilons": self.epsilons, "num_trials": self.trials, "seed": self.seed}
        given = {name: value for name, value in given.items() if value is not None}
        return dataclasses.replace(experiment.quick if self.quick else experiment.settings, **given)


@dataclasses.dataclass(frozen=True)
class Status:
    """Show how far an experiment is, whichever processes run it.

    On a terminal the table follows what happens until all cells are done, or Ctrl-C.
    """

    name: ResultsName

    def __call__(self) -> int:
        """Prints the table."""
        import rich.console
        import rich.live

        from ._status import status, table

        root = results_of(self.name)
        console = rich.console.Console(highlight=False, markup=False)
        try:
            state = status(root)
            if console.is_terminal and state.running:
                with rich.live.Live(table(state), console=console) as shown:
                    while state.running or state.waiting:
                        time.sleep(1)
                        shown.update(table(state := status(root)))
            else:
                console.print(table(state))
        except ValueError as error:
            raise Mistake(str(error)) from None
        return 0


def results_of(name: str) -> str:
    """The directory of an experiment, the one that is named, or a URL, as commands take it."""
    from ._catalog import find_experiment

    if "://" in name or pathlib.Path(name).is_dir():
        return name
    try:
        return str(RESULTS / find_experiment(name).name)
    except ValueError as error:
        raise Mistake(str(error)) from None
