"""How long until something runs: the import, the command, and the main job, cold and warm.

    python -m benchmarks.startup            # six minutes
    python -m benchmarks.startup --quick    # does it run at all?

Every time is that of a process of its own, without a cache of compiled programs but where one is
named. Prints Markdown tables and, but for `--quick`, writes them with the machine and the versions
to benchmarks/results/startup/. `--only` runs some of them.
"""

import argparse
import functools
import json
import math
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from . import _first_calls
from ._report import Rows, rows_table, run_sections
from ._timing import interleave, timed

FOLDER = pathlib.Path(__file__).parent / "results" / "startup"
CODES = {
    "the interpreter alone": "pass",
    "import jax": "import jax",
    "import jaxdp": "import jaxdp",
    "every name of jaxdp": "import jaxdp; [getattr(jaxdp, name) for name in dir(jaxdp)]",
}
COMMANDS = {"--version": 40, "--help": 180, "list": 250, "run --help": 180}
"""Lines of the command that compute nothing, and the milliseconds that they may take."""

IMPORT_AIM = 1.5
"""Seconds that `python -c "import jaxdp"` may take."""

JOB_AIMS = {"cold": 20.0, "warm": 6.0}
"""Seconds that the main job may take on two idle cores, without compiled programs and with them."""

FIRST_CALL_AIM = 2.0
"""Seconds of a first call on two idle cores."""

JOB = "import sys; from jaxdp.sweep.cli import main; sys.exit(main())"


def imports(repeats: int = 9) -> Rows:
    """Seconds of a process that does nothing else, in turn; its files are in the disk's cache."""
    calls = {name: functools.partial(_python, code) for name, code in CODES.items()}
    times = interleave(calls, repeats)
    alone = times["the interpreter alone"]["median"]
    return [
        {
            "process": name,
            "median": f"{time['median']:.2f}",
            "fastest": f"{time['min']:.2f}",
            "more than the interpreter": f"{time['median'] - alone:.2f}",
            "aim": f"{IMPORT_AIM:g}" if name == "import jaxdp" else "",
        }
        for name, time in times.items()
    ]


def commands(repeats: int = 15) -> Rows:
    """Milliseconds of the `jaxdp` command where it computes nothing, in turn."""
    cpu = dict.fromkeys(COMMANDS, math.inf)

    def run(line: str) -> None:
        began = _children()
        _python(JOB, *line.split())
        cpu[line] = min(cpu[line], _children() - began)

    times = interleave({line: functools.partial(run, line) for line in COMMANDS}, repeats)
    return [
        {
            "command": f"jaxdp {line}",
            "median": f"{1e3 * time['median']:.0f}",
            "fastest": f"{1e3 * time['min']:.0f}",
            "least CPU": f"{1e3 * cpu[line]:.0f}",
            "aim": str(COMMANDS[line]),
        }
        for line, time in times.items()
    ]


def first_calls(names: Sequence[str] | None = None) -> Rows:
    """Seconds of a first `simulate`: 100 trials of 100,000 users, the spec made as well.

    Each is in a process of its own that has imported jaxdp, and compiles whatever it runs.
    """
    rows = []
    for name in _first_calls.examples() if names is None else names:
        found = _first_call(name)
        rows.append(
            {
                "what": name,
                "method": found["method"],
                "seconds": f"{found['seconds']:.1f}",
                "CPU seconds": f"{found['cpu']:.1f}",
                "of them the spec": f"{found['build']:.1f}",
                "XLA": f"{found['xla']:.1f}",
                "programs": str(found["programs"]),
                "called again": f"{found['again']:.3f}",
                "aim on two idle cores": f"{FIRST_CALL_AIM:g}",
            }
        )
    return rows


def main_job(options: Sequence[str] = ()) -> Rows:
    """Seconds of `jaxdp run kendall-flights` into an empty folder, without programs and with."""
    named = " ".join(["kendall-flights", *options])
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for state, aim in JOB_AIMS.items():
            command = ["run", "kendall-flights", "--out", f"{folder}/{state}", *options]
            run = functools.partial(_python, JOB, *command, cache=f"{folder}/programs")
            began = _children()
            _, seconds, _ = timed(run, first=lambda: None)
            rows.append(
                {
                    "experiment": named,
                    "compiled programs": {"cold": "none", "warm": "in the cache"}[state],
                    "seconds": f"{seconds:.1f}",
                    "CPU seconds": f"{_children() - began:.1f}",
                    "aim on two idle cores": "" if options else f"{aim:g}",
                }
            )
    return rows


def _first_call(name: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks._first_calls", name]
    done = subprocess.run(command, env=_environment(), check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def _children() -> float:
    """CPU seconds of all processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _python(code: str, *arguments: str, cache: str = "off") -> None:
    """Runs code in a fresh process, which must succeed; it may keep its compiled modules."""
    command = [sys.executable, "-c", code, *arguments]
    subprocess.run(command, env=_environment(cache), check=True, stdout=subprocess.DEVNULL)


def _environment(cache: str = "off") -> dict[str, str]:
    """The variables of a process that keeps its programs in a folder, or keeps none."""
    changed = {
        "JAX_COMPILATION_CACHE_DIR",
        "JAX_ENABLE_COMPILATION_CACHE",
        "PYTHONDONTWRITEBYTECODE",
    }
    kept = {name: value for name, value in os.environ.items() if name not in changed}
    return kept | {"JAXDP_CACHE": cache}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and writes the results; `--quick` prints them only."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    sections = {
        "imports": imports,
        "commands": commands,
        "first_calls": first_calls,
        "main_job": main_job,
    }
    parser.add_argument("--quick", action="store_true", help="a small part; nothing is written")
    parser.add_argument("--only", nargs="+", choices=sections, default=list(sections))
    parsed = parser.parse_args(arguments)
    if parsed.quick:
        quick = ("--quick", "--trials", "20", "--epsilons", "1")
        tables = imports(1), commands(1), first_calls(["KRR"]), main_job(quick)
        print(*map(rows_table, tables), sep="\n\n", flush=True)
        return
    run_sections(sections, parsed.only, FOLDER)


if __name__ == "__main__":
    main()
