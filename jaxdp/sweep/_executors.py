"""Where `jaxdp run` computes cells: threads, processes, dask, Ray, or jobs of SLURM."""

import contextlib
import importlib
import pathlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .._install import install
from ._run import Executor

KINDS = ("threads", "processes", "dask://HOST:PORT", "ray", "ray://HOST:PORT", "slurm")


@contextlib.contextmanager
def opened(
    kind: str, workers: int, options: Mapping[str, str], folder: pathlib.Path
) -> Iterator[tuple[Executor, int]]:
    """An executor, and how many cells to give it at a time; what has not begun ends with it.

    Args:
      kind: one of `KINDS`.
      workers: how many threads, processes or jobs; dask and Ray have as many as their cluster.
      options: of jobs, as submitit's `update_parameters` takes them.
      folder: where jobs keep their logs.

    Raises:
      ValueError: the kind is unknown, its package is missing, or there are options for no job.
    """
    if options and kind != "slurm":
        raise ValueError(f"job must be left out but for --executor slurm, got {dict(options)}.")
    if kind in ("threads", "processes"):
        import concurrent.futures
        import multiprocessing

        if kind == "threads":
            pool = concurrent.futures.ThreadPoolExecutor(workers)
        else:  # jax does not survive a fork
            context = multiprocessing.get_context("spawn")
            pool = concurrent.futures.ProcessPoolExecutor(workers, mp_context=context)
        try:
            yield pool, workers
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # Ctrl-C waits for no cell
    elif kind == "slurm":
        submitit = _package("submitit", "slurm")
        cluster = options.get("cluster")
        jobs = submitit.AutoExecutor(folder=str(folder), cluster=cluster)
        given = {name: _number(value) for name, value in options.items() if name != "cluster"}
        jobs.update_parameters(**given)
        yield jobs, workers
    elif kind.startswith("dask://"):
        distributed = _package("distributed", "distributed")
        with distributed.Client(f"tcp://{kind.removeprefix('dask://')}") as client:
            # A few for each core, so that none waits for this process.
            yield client, 4 * max(sum(client.ncores().values()), 1)
    elif kind == "ray" or kind.startswith("ray://"):
        ray = _package("ray", "ray")
        with warnings.catch_warnings():  # what Ray forks becomes another program at once
            warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
            context = ray.init(address=None if kind == "ray" else kind, log_to_driver=False)
        with context:
            yield RayExecutor(), 4 * max(int(ray.cluster_resources().get("CPU", 1)), 1)
    else:
        raise ValueError(f"executor must be one of {', '.join(KINDS)}, got {kind!r}.")


class RayExecutor:
    """Has Ray compute: `submit` returns futures, as those of other executors do.

    Ray is initialised by whoever makes it, or by itself, on this machine.
    """

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
        """Has a function called by a worker of Ray."""
        ray = _package("ray", "ray")
        return ray.remote(_call).remote(function, *arguments).future()


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)  # Ray takes no partial function


def _package(name: str, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ValueError(
            f"executor must be one whose package is installed: {install(extra)}."
        ) from None


def _number(text: str) -> str | int:
    return int(text) if text.isdecimal() else text
