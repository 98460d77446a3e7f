"""Seconds until something runs: the import, and the main job from a cold start.

    python -m benchmarks.startup            # a minute
    python -m benchmarks.startup --quick    # does it run at all?

Every time is that of a process of its own, without a cache of compiled programs. Prints Markdown
tables and, but for `--quick`, writes them with the machine and the versions to
benchmarks/results/startup/.
"""

import argparse
import functools
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from ._report import Rows, rows_table, run_sections
from ._timing import interleave, timed

FOLDER = pathlib.Path(__file__).parent / "results" / "startup"
CODES = {
    "the interpreter alone": "pass",
    "import jax": "import jax",
    "import jaxdp": "import jaxdp",
    "every name of jaxdp": "import jaxdp; [getattr(jaxdp, name) for name in dir(jaxdp)]",
}
IMPORT_AIM, JOB_AIM = 1.5, 60.0
"""Seconds that `python -c "import jaxdp"` may take, and the main job on two cores."""

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


def main_job(options: Sequence[str] = ()) -> Rows:
    """Seconds of `jaxdp run kendall-flights` into an empty folder, compilation included."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["run", "kendall-flights", "--out", f"{folder}/results", *options]
        run = functools.partial(_python, JOB, *command)
        _, seconds, _ = timed(run, first=lambda: None)
    aim = "" if options else f"{JOB_AIM:g}"
    named = " ".join(["kendall-flights", *options])
    return [{"experiment": named, "seconds": f"{seconds:.1f}", "aim on two cores": aim}]


def _python(code: str, *arguments: str) -> None:
    """Runs code in a fresh process, which must succeed."""
    cached = {"JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE"}
    kept = {name: value for name, value in os.environ.items() if name not in cached}
    command = [sys.executable, "-c", code, *arguments]
    subprocess.run(command, env=kept, check=True, stdout=subprocess.DEVNULL)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and writes the results; `--quick` prints them only."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small part; nothing is written")
    if parser.parse_args(arguments).quick:
        quick = ("--quick", "--trials", "20", "--epsilons", "1")
        print(rows_table(imports(1)), rows_table(main_job(quick)), sep="\n\n", flush=True)
        return
    run_sections({"imports": imports, "main_job": main_job}, ["imports", "main_job"], FOLDER)


if __name__ == "__main__":
    main()
