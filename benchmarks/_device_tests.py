"""A pytest plugin: tests on a device of its own, their outcomes as rows of a file.

`benchmarks.gpu` runs it, and says by the environment where the rows go. A test that asks for a
mesh of more devices than there are, or imports a package that is not installed, is skipped with
that reason; with a module that does not import for this, so is what stands for its tests.
"""

import dataclasses
import importlib.util
import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest

from ._rows import RowFile

SETTINGS = "JAXDP_DEVICE_TESTS"
"""The environment variable that holds the `Settings`."""

TIME_IS_UP = "the time for these tests is up"
"""Why pytest's `--minutes` skips a test, which then has no row."""

PASSED = "passed"
"""The row of the tests that passed, once all tests of a part have an outcome."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is run, and where outcomes go.

    Attributes:
      part: of which each row is.
      rows: the file of rows.
      snapshot: a copy of it from before; tests that have rows in it are left out.
      stamp: what each row says besides.
    """

    part: str
    rows: str
    snapshot: str
    stamp: dict[str, str]

    def environment(self) -> dict[str, str]:
        """The variable by which a process is told."""
        return {SETTINGS: json.dumps(dataclasses.asdict(self))}

    @classmethod
    def told(cls) -> "Settings":
        """The settings that this process was started with."""
        return cls(**json.loads(os.environ[SETTINGS]))


def pytest_configure(config: pytest.Config) -> None:
    """Records outcomes where they come together, not in the workers of pytest-xdist."""
    jax.make_mesh = _skipping(jax.make_mesh)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(), "jaxdp-device-rows")


def _skipping(make_mesh: Any) -> Any:
    """`jax.make_mesh`, which skips a test that wants more devices than there are."""

    def skipping(axis_shapes: Any, *arguments: Any, **options: Any) -> jax.sharding.Mesh:
        wanted, there = int(np.prod(axis_shapes)), jax.device_count()
        if wanted > there:
            pytest.skip(f"needs {wanted} devices; there is {there}")
        return make_mesh(axis_shapes, *arguments, **options)

    return skipping


def _missing(error: BaseException | None) -> str:
    """Why a test is skipped that ended so; empty where it is not for want of a package."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return ""
    package = error.name.partition(".")[0]
    ours = package.startswith("jaxdp") or package in ("tests", "benchmarks")
    if ours or importlib.util.find_spec(package) is not None:
        return ""
    return f"needs {package}, which is not installed"


class Unimportable(pytest.Item):
    """What stands for the tests of a module that needs a package which is not installed."""

    reason = ""

    def runtest(self) -> None:
        """Skips."""
        pytest.skip(self.reason)

    def reportinfo(self) -> tuple[pathlib.Path, None, str]:
        """Where it stands."""
        return self.path, None, self.name


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """Puts an `Unimportable` in the place of a module's tests."""
    report: Any = yield
    error = report.call.excinfo.value if report.failed and report.call.excinfo else None
    if reason := _missing(error and (error.__cause__ or error)):
        stand_in = Unimportable.from_parent(collector, name="import")
        stand_in.reason = reason
        report.outcome, report.longrepr, report.result = "passed", None, [stand_in]
        report.call.excinfo = None
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Iterator[None]:
    """Turns a failure for want of a package into a skip."""
    report: Any = yield
    if report.failed and (reason := _missing(call.excinfo and call.excinfo.value)):
        report.outcome, report.longrepr = "skipped", (str(item.path), 0, f"Skipped: {reason}")
    return report


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the tests that have rows; those that were begun and did not end come last."""
    settings = Settings.told()
    file, part = RowFile(pathlib.Path(settings.snapshot)), settings.part
    done = {row["name"] for row in file.rows if row["part"] == part}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in done])
    items[:] = [item for item in items if item.nodeid not in done]
    items.sort(key=lambda item: file.was_begun(part, item.nodeid))


class Recorder:
    """Writes a row for each test that ended."""

    def __init__(self) -> None:
        settings = Settings.told()
        self.file = RowFile(pathlib.Path(settings.rows))
        self.part, self.stamp = settings.part, settings.stamp
        self.out_of_time = False

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Puts on record that a test was begun."""
        self.file.begin(self.part, nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A row for the phase that decides: the call, or one that did not pass."""
        if report.passed and report.when != "call":
            return
        row = {"part": self.part, "name": report.nodeid, "outcome": report.outcome, **self.stamp}
        if report.skipped:
            text = str(
                report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
            )
            row["reason"] = text.removeprefix("Skipped: ")
            if TIME_IS_UP in text:
                self.out_of_time = True
                self.file.end(self.part, report.nodeid)
                return
        elif report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            text = crash.message if crash else str(report.longrepr)
            row["reason"] = " ".join(text.split())[:300]
        self.file.add(row | {"seconds": round(report.duration, 2)})

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Where all tests of the part have ended, one row stands for those that passed."""
        done = pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED
        if self.out_of_time or exitstatus not in done:
            return
        passed = [
            row for row in self.file.rows if row["part"] == self.part and row["outcome"] == PASSED
        ]
        seconds = sum(row["seconds"] for row in passed)
        row = {"part": self.part, "name": PASSED, "outcome": PASSED, **self.stamp}
        names = {row["name"] for row in passed}
        self.file.drop(lambda old: old["part"] == self.part and old["name"] in names)
        self.file.add(row | {"tests": len(passed), "seconds": round(seconds, 1)})
