"""`python -m benchmarks.gpu`: what jaxdp reaches on a GPU, in parts of ten minutes at most.

Each row goes into a JSON file when it is made, and a later call goes on where the last one was
stopped. Exits with 0 when all chosen rows are there, with 1 where one of them is wrong, with 2
where there is no GPU or a package is missing, and with 3 where rows are left: then run it again.
"""

import argparse
import functools
import hashlib
import importlib.util
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

MEASURED = ("hot", "kernels", "randomizers", "solvers", "projections", "trials")
SLICES = 8
TESTED = tuple(f"tests-{number}" for number in range(1, SLICES + 1))
PARTS = (*MEASURED, *TESTED)
"""The parts, in the order in which they run."""

REPOSITORY = pathlib.Path(__file__).parents[1]
NEEDED = ("jax", "numpy", "chex", "optax", "jaxtyping", "pytest")
NEEDED_BY_TESTS = ("hypothesis",)
"""What must be installed; what single tests need besides skips those."""

QUICK_TESTS = ("kernels/jaxdp_kernels/threefry_words/api.py", "tests/test_oracles.py")
REFUSED, LEFT = 2, 3
"""Exit codes."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Makes the chosen rows that are not there yet, and returns the exit code."""
    options = _parser().parse_args(arguments)
    parts = options.part or (MEASURED if options.only else PARTS)
    if missing := _missing(parts):
        print(
            f"not installed: {', '.join(missing)}. benchmarks/README.md says how to bring packages "
            "to a machine without a network.",
            file=sys.stderr,
        )
        return REFUSED
    # Tests run in processes of their own on the same device: take memory only as needed.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax

    from . import _report, _rows

    if options.table:
        print(_report.markdown(_report.load(options.out or _newest("*"))))
        return 0
    device = jax.devices()[0]
    if device.platform != "gpu" and not options.allow_cpu:
        print(
            f"no GPU: jax computes on {device.device_kind!r}. Install jax[cuda13] on a machine "
            "with an NVIDIA GPU, or pass --allow-cpu to try this script on the CPU.",
            file=sys.stderr,
        )
        return REFUSED
    end = time.monotonic() + 60 * options.minutes
    path, head = options.out or _path_for(device, options.quick), _head(device, options.quick)
    print(f"rows go to {path}", flush=True)
    left = []
    for part in parts:
        try:
            file = _rows.RowFile(path, head)
        except ValueError as error:
            print(error, file=sys.stderr)
            return REFUSED
        make = run_tests if part in TESTED else measure
        left += [part] * (not make(part, file, options, end))
    results = _report.load(path)
    path.with_suffix(".md").write_text(_report.markdown(results))
    wrong = [row for row in results["rows"] if row["part"] in parts and _report.is_wrong(row)]
    for row in wrong:
        print(f"wrong: {row['part']}: {row['name']}: {_report.remarks(row)}")
    print(f"rows are left in {', '.join(left)}: run this again" if left else "all rows are there")
    return 1 if wrong else LEFT if left else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument(
        "--part", nargs="+", choices=PARTS, metavar="PART", help=f"of {', '.join(PARTS)}; or all"
    )
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="measure rows with this in their names alone"
    )
    parser.add_argument("--again", action="store_true", help="make rows that are there anew")
    parser.add_argument(
        "--minutes", type=float, default=9, help="after which no row or test begins (default 9)"
    )
    parser.add_argument(
        "--workers",
        type=int,
        help="processes for tests, of pytest-xdist (default: where that is installed and there is "
        "a GPU, half of the cores, at most 8)",
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it run at all?")
    parser.add_argument("--allow-cpu", action="store_true", help="go on where there is no GPU")
    parser.add_argument("--out", type=pathlib.Path, help="JSON file; its table goes beside it")
    parser.add_argument("--table", action="store_true", help="print the rows of a file, and stop")
    return parser


def _missing(parts: Sequence[str]) -> list[str]:
    """Packages that these parts need and that are not installed."""
    needed = NEEDED + NEEDED_BY_TESTS * any(part in TESTED for part in parts)
    return [name for name in needed if importlib.util.find_spec(name) is None]


def _newest(device: str) -> pathlib.Path:
    """The newest results of a device by name, or of any device but CPUs; else new ones."""
    from . import _report

    named = re.compile(r"\d{4}-\d\d-\d\d-(?!cpu\.)")
    known = [path for path in _report.RESULTS.glob(f"*-{device}.json") if named.match(path.name)]
    return max(known, default=_report.RESULTS / f"{_report.today()}-{device}.json")


def _path_for(device: Any, quick: bool) -> pathlib.Path:
    """Where rows go if nothing is said: trials, and what CPUs do, are no results."""
    if quick or device.platform == "cpu":
        return pathlib.Path(tempfile.mkdtemp()) / "rows.json"
    return _newest(re.sub(r"[^a-z0-9]+", "-", device.device_kind.lower()).strip("-"))


def _head(device: Any, quick: bool) -> dict[str, Any]:
    """What the rows of a file have in common, and where and when the first was made."""
    from . import _report, _timing

    return {
        "benchmark": "gpu",
        "device": device.device_kind,
        "quick": quick,
        "versions": _timing.versions(),
        "date": _report.today(),
        "machine": _timing.machine(),
        "driver": " ".join(device.client.platform_version.split()),
    }


def _stamp() -> dict[str, str]:
    """When a row was made, and of what: eight digits of a hash of the code."""
    from . import _report

    return {"date": _report.today(), "source": _source()}


@functools.cache
def _source() -> str:
    text = hashlib.sha256()
    for folder in ("jaxdp", "kernels"):
        for path in sorted((REPOSITORY / folder).rglob("*.py")):
            text.update(str(path.relative_to(REPOSITORY)).encode() + path.read_bytes())
    return text.hexdigest()[:8]


def measure(part: str, file: Any, options: argparse.Namespace, end: float) -> bool:
    """Makes the rows of a part that are not there; returns whether all are.

    The rates that limit a program come first. A row that was begun before and did not end comes
    last; one that raises says so, and the next one is made.
    """
    import jax

    from . import _device, _device_rows, _report

    scale, roofs = _device.Scale(options.quick), list(_device.ROOFLINES)
    rows = _device_rows.PARTS[part](scale)
    rows = [*_device.rooflines(scale), *(row for row in rows if options.only in row.name)]
    anew = [row.name for row in rows if not (options.only and row.name in roofs)]
    rows = [
        row
        for row in rows
        if file.find(part, row.name) is None or (options.again and row.name in anew)
    ]
    rows.sort(key=lambda row: (row.name not in roofs, file.was_begun(part, row.name)))
    for row in rows:
        if time.monotonic() > end:
            return False
        if not options.quick:  # so that each row counts all that it compiles
            jax.clear_caches()
        file.begin(part, row.name)
        try:
            found = row.measure()
        except Exception as error:
            traceback.print_exc()
            found = {"error": f"{type(error).__name__}: {error}".split("\n")[0][:300]}
        rates = {name: file.find(part, name) or {} for name in roofs}
        rates = {name: rate["seconds"] for name, rate in rates.items() if "seconds" in rate}
        made = {"part": part, "name": row.name, **_device.against(found, rates), **_stamp()}
        file.add(made)
        print(f"{part}: {row.name}: {_report.line(made)}", flush=True)
        if "error" in made and not _device.alive():
            print("the device does not answer any more; a new process goes on", file=sys.stderr)
            return False
    return True


def run_tests(part: str, file: Any, options: argparse.Namespace, end: float) -> bool:
    """Runs the tests of a slice that have no rows, in a process of its own.

    Returns:
      Whether all of them have ended.
    """
    import jax

    from . import _device_tests, _rows

    if options.again:
        file.drop(lambda row: row["part"] == part)
    seconds = end - time.monotonic()
    if file.find(part, _device_tests.PASSED) or seconds <= 0:
        return file.find(part, _device_tests.PASSED) is not None
    file.save()
    platform = jax.default_backend()
    with tempfile.TemporaryDirectory() as folder:
        snapshot = shutil.copy(file.path, folder)
        settings = _device_tests.Settings(part, str(file.path.resolve()), snapshot, _stamp())
        command = [sys.executable, "-m", "pytest", "-q", "-p", "benchmarks._device_tests"]
        command += ["-p", "no:benchmark"]  # warns of pytest-xdist, and warnings are errors
        command += ["--share", _share(part), "--minutes", f"{seconds / 60:.2f}"]
        command += _workers(options.workers, platform)
        command += QUICK_TESTS if options.quick else ()
        environment = os.environ | settings.environment() | _as_installed(folder)
        environment["JAXDP_TEST_PLATFORMS"] = "cpu" if platform == "cpu" else "cuda,cpu"
        if platform != "cpu":
            cache = pathlib.Path(tempfile.gettempdir()) / "jaxdp-device-tests"
            environment.setdefault("JAXDP_TEST_CACHE", str(cache))
        try:
            done = subprocess.run(
                command,
                cwd=REPOSITORY,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=seconds + 50,
            )
        except subprocess.TimeoutExpired:
            print(f"{part}: a test does not end", file=sys.stderr)
            return False
    print(f"{part}: {(done.stdout.strip().splitlines() or [''])[-1].strip('= ')}", flush=True)
    if done.returncode:
        print(done.stdout[-4000:], done.stderr[-4000:], file=sys.stderr)
    return _rows.RowFile(file.path).find(part, _device_tests.PASSED) is not None


def _share(part: str) -> str:
    """A text that pytest's `--share` hashes to this slice, and the number of slices."""
    texts: Iterator[str] = map(str, itertools.count())
    number = TESTED.index(part)
    return next(f"{t}/{SLICES}" for t in texts if zlib.crc32(t.encode()) % SLICES == number)


def _workers(number: int | None, platform: str) -> list[str]:
    """Options of pytest for as many processes."""
    if number is None:
        there = importlib.util.find_spec("xdist") is not None and platform == "gpu"
        number = min((os.cpu_count() or 1) // 2, 8) if there else 0
    return ["-n", str(number)] if number else []


def _as_installed(folder: str) -> dict[str, str]:
    """The environment in which this checkout counts as an installed jaxdp."""
    import tomllib

    from jaxdp import __version__

    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    about = pathlib.Path(folder) / f"jaxdp-{__version__}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Name: jaxdp\nVersion: {__version__}\n")
    groups = [("console_scripts", project["scripts"]), *project["entry-points"].items()]
    text = "".join(
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in entries.items())
        for group, entries in groups
    )
    (about / "entry_points.txt").write_text(text)
    roots = [str(REPOSITORY / root) for root in (".", "kernels", "experiments")]
    return {"PYTHONPATH": os.pathsep.join([*roots, folder, os.environ.get("PYTHONPATH", "")])}


if __name__ == "__main__":
    sys.exit(main())
