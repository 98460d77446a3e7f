"""`python -m benchmarks.gpu`: the suite, the kernels and the throughput table on a GPU.

Exits with 2 where there is no GPU, and with 1 where something is wrong on it.
"""

import argparse
import functools
import importlib
import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jaxdp_kernels import OPERATIONS

from . import _report, throughput

REPOSITORY = pathlib.Path(__file__).parents[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Checks and measures, writes the JSON and its tables; returns the exit code."""
    options = _parser().parse_args(arguments)
    # The suite runs in a process of its own on the same device: take memory only as needed.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    device = jax.devices()[0]
    if device.platform != "gpu" and not options.allow_cpu:
        print(
            f"no GPU: jax computes on {device.device_kind!r}. Install jax[cuda13] on a machine "
            "with an NVIDIA GPU, or pass --allow-cpu to try this script on the CPU.",
            file=sys.stderr,
        )
        return 2
    suite = run_suite(options.tests, cpu=device.platform == "cpu")
    kernels = check_kernels(2 if options.quick else None)
    sizes = throughput.QUICK if options.quick else throughput.Sizes(users=2**28)
    results = throughput.measure(sizes, rivals=False)
    results |= {"benchmark": "gpu", "suite": suite, "kernel_checks": kernels}
    name = re.sub(r"[^a-z0-9]+", "-", device.device_kind.lower()).strip("-")
    _report.save(results, options.out or _report.RESULTS / f"{results['date']}-{name}.json")
    print(_report.markdown(results))
    print(json.dumps({"suite": suite, "kernel_checks": kernels}, indent=1))
    ok = suite["exit_code"] == 0 and all(check.get("equal", True) for check in kernels)
    return 0 if ok else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--tests", nargs="*", default=["tests", "kernels"], help="for pytest")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it run at all?")
    parser.add_argument("--allow-cpu", action="store_true", help="go on where there is no GPU")
    parser.add_argument("--out", type=pathlib.Path, help="JSON file; its table goes beside it")
    return parser


def run_suite(tests: Sequence[str], *, cpu: bool) -> dict[str, Any]:
    """Runs tests with their arrays on the GPU, in a process of its own.

    Args:
      tests: paths for pytest, from the root of the repository.
      cpu: whether to stay on the CPU.

    Returns:
      The exit code, and the last line, which counts what passed and what did not.
    """
    platforms = "cpu" if cpu else "cuda,cpu"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *tests],
        cwd=REPOSITORY,
        env=os.environ | {"JAXDP_TEST_PLATFORMS": platforms},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        print(done.stdout[-4000:], done.stderr[-4000:], file=sys.stderr)
    lines = done.stdout.strip().splitlines()
    return {
        "platforms": platforms,
        "exit_code": done.returncode,
        "summary": lines[-1].strip("= ") if lines else "",
    }


def check_kernels(specs: int | None = None) -> list[dict[str, Any]]:
    """Compares every implementation on this device with its definition on the CPU.

    Integers must be equal bit for bit, and floats to a few roundings. An implementation that
    refuses arguments or device says why.

    Args:
      specs: how many of each kernel's argument specs to go through; None for all.

    Returns:
      For each kernel, argument spec and implementation, whether they are equal.
    """
    cpu = jax.local_devices(backend="cpu")[0]
    checks = []
    for operation in OPERATIONS:
        folder = f"jaxdp_kernels.{operation}"
        api, ref, arg_specs = (
            importlib.import_module(f"{folder}.{part}") for part in ("api", "ref", "arg_specs")
        )
        for spec in arg_specs.ARG_SPECS[:specs]:
            arguments = spec.arguments()
            static = [i for i, x in enumerate(arguments) if isinstance(x, int)]
            define = jax.jit(getattr(ref, f"{operation}_ref"), static_argnums=static)
            expected = define(
                *(x if i in static else jax.device_put(x, cpu) for i, x in enumerate(arguments))
            )
            for name in api.IMPLEMENTATIONS:
                run = functools.partial(getattr(api, operation), implementation=name)
                check = {"kernel": operation, "implementation": name, "arguments": spec.name}
                try:
                    got = jax.jit(run, static_argnums=static)(*arguments)
                except ValueError as error:
                    checks.append(check | {"refused": str(error)})
                else:
                    checks.append(check | {"equal": _equal(got, expected)})
    return checks


def _equal(got: Any, expected: Any) -> bool:
    """Whether two pytrees of arrays are equal, floats to a few roundings of the largest entry."""

    def same(a: np.ndarray, b: np.ndarray) -> bool:
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return False
        if a.dtype.kind != "f":
            return np.array_equal(a, b)
        return np.allclose(a, b, rtol=0, atol=1e-5 * np.max(np.abs(b), initial=0))

    pairs = zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True)
    return all(same(np.asarray(a), np.asarray(b)) for a, b in pairs)


if __name__ == "__main__":
    sys.exit(main())
