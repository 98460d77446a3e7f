"""Two real processes over one mesh: the bits of one process, and failures that are reported."""

import os
import pathlib
import runpy
import socket
import subprocess
import sys
import time
from collections.abc import Callable

import jax
import numpy as np
import pytest

import jaxdp
from tests.engine import process_worker

DEADLINE = 120.0
ROOT = pathlib.Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_two(folder: pathlib.Path, arguments: Callable[[str, int], list]) -> list[tuple[int, str]]:
    """Exit code and error output of two processes; none is left running.

    Args:
      folder: where they run.
      arguments: of Python, from a port and the number of the process.
    """
    roots = [str(ROOT), str(ROOT / "kernels"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(roots), "JAX_PLATFORMS": "cpu"}
    port = str(free_port())
    workers, ended = [], []
    try:
        for process in range(2):
            command = [sys.executable, *map(str, arguments(port, process))]
            workers.append(
                subprocess.Popen(command, stderr=subprocess.PIPE, env=environment, cwd=folder)
            )
        end = time.monotonic() + DEADLINE
        for worker in workers:
            _, errors = worker.communicate(timeout=max(end - time.monotonic(), 1.0))
            ended.append((worker.returncode, errors.decode(errors="replace")))
    finally:
        for worker in workers:
            if worker.poll() is None:
                worker.kill()
                worker.communicate()
    return ended


def run_workers(out: pathlib.Path, failing: str = "none") -> list[tuple[int, str]]:
    worker = process_worker.__file__
    return run_two(out.parent, lambda port, me: [worker, me, 2, port, 2, out, failing])


def test_the_program_of_the_guide(tmp_path):
    """In two processes, with the default mesh over their devices, and in this one alone."""
    program = ROOT / "docs" / "guide" / "many_hosts.py"
    for code, errors in run_two(tmp_path, lambda port, me: [program, f"localhost:{port}", 2, me]):
        assert code == 0, errors
    alone = jax.make_mesh((1,), ("users",), devices=jax.devices()[:1])
    expected = runpy.run_path(str(program))["simulate"](alone)
    with np.load(tmp_path / "found.npz") as found:
        assert sorted(found) == sorted(expected)
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.slow
def test_two_processes_give_the_bits_of_one(tmp_path):
    """2 processes of 2 devices each, for every kind of population, in one run and in trials."""
    out = tmp_path / "found.npz"
    for code, errors in run_workers(out):
        assert code == 0, errors
    expected = process_worker.results(jax, jaxdp, None, np.asarray)
    with np.load(out) as found:
        assert sorted(found) == sorted(expected)
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value, err_msg=name)
    assert len({value.tobytes() for name, value in expected.items() if "run" in name}) == 3


@pytest.mark.slow
def test_a_process_that_fails_is_reported(tmp_path):
    """The other one fails too, and does not wait for it until the end of time."""
    out = tmp_path / "found.npz"
    survivor, failed = run_workers(out, failing="1")
    assert failed[0] == 1
    assert "fails on purpose" in failed[1]
    assert survivor[0] != 0
    assert not out.exists()
