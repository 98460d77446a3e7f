"""`python -m benchmarks.gpu`: the suite, the kernels and the throughput table on a GPU.

Exits with 2 where there is no GPU, and with 1 where something is wrong on it.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdp_kernels.threefry_words import IMPLEMENTATIONS
from jaxdp_kernels.threefry_words.arg_specs import ARG_SPECS
from jaxdp_kernels.threefry_words.ref import threefry_words_ref

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
    kernels = check_kernels()
    sizes = throughput.QUICK if options.quick else throughput.Sizes(users=2**28)
    results = throughput.measure(sizes, rivals=False)
    results |= {"benchmark": "gpu", "suite": suite, "kernel_checks": kernels}
    name = re.sub(r"[^a-z0-9]+", "-", device.device_kind.lower()).strip("-")
    _report.save(results, options.out or _report.RESULTS / f"{results['date']}-{name}.json")
    print(_report.markdown(results))
    print(json.dumps({"suite": suite, "kernel_checks": kernels}, indent=1))
    ok = suite["exit_code"] == 0 and all(check["equal"] for check in kernels)
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


def check_kernels() -> list[dict[str, Any]]:
    """Compares every implementation on this device with its reference on the CPU, bit for bit."""
    cpu = jax.local_devices(backend="cpu")[0]
    checks = []
    for spec in ARG_SPECS:
        data = np.asarray(jax.random.key_data(jax.random.key(spec.seed)))
        start = np.array([spec.start >> 32, spec.start & 0xFFFFFFFF], np.uint32)
        with jax.default_device(cpu):
            expected = np.asarray(
                threefry_words_ref(jnp.asarray(data), jnp.asarray(start), spec.num_words)
            )
        for name, implementation in IMPLEMENTATIONS.items():
            compiled = jax.jit(implementation, static_argnums=2)
            words = np.asarray(compiled(data, start, spec.num_words))
            checks.append(
                {
                    "kernel": "threefry_words",
                    "implementation": name,
                    "arguments": spec.name,
                    "equal": bool(np.array_equal(words, expected)),
                }
            )
    return checks


if __name__ == "__main__":
    sys.exit(main())
