"""Test configuration: devices, strict modes, seeds, and counts of compilations.

Run from the repository root as `python -m pytest` (with `-n auto` under pytest-xdist). `tests` is a
package and so is every folder in it (an empty `__init__.py`): test modules say `from tests import
stats`, and two folders may hold files of the same name.

Environment:
    JAXDP_TEST_SEED: any string, mixed into every test's seed (default empty). Printed on failure.
    JAXDP_TEST_PLATFORMS: what JAX_PLATFORMS would be (default "cpu"); "cuda,cpu" runs on a GPU.
    JAXDP_TEST_CACHE: a folder for compiled programs, to be kept between runs (default none).
"""

import os

# Before numpy is loaded: the threads of its linear algebra spin, and tests' matrices are small.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import contextlib
import dataclasses
import gc
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import jax
import numpy as np
import pytest

# Through the configuration and not the environment: worker processes that tests start choose anew.
jax.config.update("jax_platforms", os.environ.get("JAXDP_TEST_PLATFORMS", "cpu"))
jax.config.update("jax_num_cpu_devices", int(os.environ.get("JAX_NUM_CPU_DEVICES", "8")))
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
# Nothing but the places of operations in the source, which take a tenth of the time to compile.
jax.config.update("jax_traceback_in_locations_limit", 0)
os.environ["JAXDP_CACHE"] = "off"  # of the command: nothing that a test runs needs a cold start
if cache := os.environ.get("JAXDP_TEST_CACHE"):
    # A folder for each pytest-xdist worker: jax does not write cache entries atomically.
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    jax.config.update("jax_compilation_cache_dir", os.path.join(cache, worker))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)

# Traced programs are many objects that live long, and each collection of garbage looks at them.
gc.freeze()
gc.set_threshold(200_000, 20, 100)

# Compilation makes the first example slow; derandomised, a failure is the same on every machine.
hypothesis.settings.register_profile("jaxdp", deadline=None, derandomize=True)
hypothesis.settings.load_profile("jaxdp")

START = time.monotonic()
SEED = pytest.StashKey[int]()
COUNTED = pytest.StashKey[float]()
KEPT = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("jaxdp")
    group.addoption("--share", metavar="TEXT/N", help="run one N-th of the tests, as TEXT decides")
    group.addoption("--members", metavar="A,B", help="run the contracts of these members only")
    group.addoption("--minutes", type=float, help="skip the tests that have not begun by then")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps the share of the tests that `--share` asks for: by the hashes of their names.

    Times are not compared there, beside other tests.
    """
    if not (share := config.getoption("--share")):
        return
    text, _, number = share.rpartition("/")
    chosen = zlib.crc32(text.encode()) % int(number)
    kept, left_out = [], []
    for item in items:
        mine = zlib.crc32(item.nodeid.encode()) % int(number) == chosen
        mine = mine and item.get_closest_marker("timed") is None
        (kept if mine else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


def pytest_runtest_setup(item: pytest.Item) -> None:
    minutes = item.config.getoption("--minutes")
    if minutes is not None and time.monotonic() - START > 60 * minutes:
        pytest.skip("the time for these tests is up")


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """uint32 of the test's name and JAXDP_TEST_SEED; never chosen to make a test pass."""
    name = request.node.nodeid + os.environ.get("JAXDP_TEST_SEED", "")
    request.node.stash[SEED] = zlib.crc32(name.encode())
    return request.node.stash[SEED]


@pytest.fixture
def key(seed: int) -> jax.Array:
    return jax.random.key(seed)


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Any:
    """What shares compiled programs runs in one worker: a file, or the contracts of one member.

    The tests of `tests/aot` share none. They run in the order in which they are collected, so that
    the last ones are the examples of single modules, and no worker waits long for another.
    """
    from xdist.scheduler import LoadScopeScheduling

    from tests.contracts.registry import PROTOCOLS

    names = sorted((case.name for case in PROTOCOLS), key=len, reverse=True)

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path, _, test = nodeid.partition("::")
            if "/aot/" in path:
                return nodeid
            if "/contracts/" in path:
                label = f"-{test.partition('[')[2].rstrip(']')}-"
                return next((name for name in names if f"-{name}-" in label), path)
            return path

    config.option.loadscopereorder = False
    return Scheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if report.failed and SEED in item.stash:
        variable = os.environ.get("JAXDP_TEST_SEED", "")
        report.sections.append(("seed", f"{item.stash[SEED]} (JAXDP_TEST_SEED={variable!r})"))
    return report


@pytest.fixture(autouse=True)
def unchanged_jax_flags() -> Iterator[None]:
    """Fails a test after which a global jax flag is not what it was before."""
    before = dict(jax.config.values)
    yield
    after = jax.config.values
    changed = {k: (before.get(k), after[k]) for k in after if before.get(k) != after[k]}
    for flag, (value, _) in changed.items():
        jax.config.update(flag, value)
    assert not changed, f"jax flags changed, as (before, after): {changed}"


MAX_MAPS = 40_000
"""Linux grants a process 65,530 memory maps; every compiled program takes some."""

MAX_BYTES = 5 * 2**30
"""Most bytes of a process, so that one a core fits into the memory of most machines."""


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Forgets compiled programs before they exhaust memory, or the process's maps of it.

    Between files if possible, so that the tests of a file may count on what it has compiled. Both
    are looked at every two seconds, for it takes a hundredth of that; a test may be longer.
    """
    leaves_file = nextitem is None or nextitem.path != item.path
    if not leaves_file and time.monotonic() < item.config.stash.get(COUNTED, START) + 2:
        return
    slack = 1.0 if leaves_file else 1.25
    # What is not given back is not held against the next programs.
    most = item.config.stash.get(KEPT, 0) + MAX_BYTES
    if _num_maps() > slack * MAX_MAPS or _num_bytes() > slack * most:
        jax.clear_caches()
        gc.collect()
        item.config.stash[KEPT] = max(_num_bytes() - MAX_BYTES // 2, 0)
    item.config.stash[COUNTED] = time.monotonic()


def _num_maps() -> int:
    try:
        with open("/proc/self/maps", "rb") as maps:
            return sum(1 for _ in maps)
    except OSError:  # not Linux
        return 0


def _num_bytes() -> int:
    """Number of bytes of memory that the process holds."""
    try:
        with open("/proc/self/statm", "rb") as pages:
            return int(pages.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # not Linux
        return 0


@dataclasses.dataclass
class Compilations:
    """Names of the jitted functions that were traced and compiled in a `count_compilations` block,
    and which threads compiled them.

    Operations outside of jit count too, under their own names; hits of a cache on disk count as
    compilations.
    """

    traced: list[str] = dataclasses.field(default_factory=list)
    compiled: list[str] = dataclasses.field(default_factory=list)
    threads: list[int] = dataclasses.field(default_factory=list)

    def __call__(self, event: str, duration_secs: float, **kwargs: str | int) -> None:
        name = str(kwargs.get("fun_name"))
        if event == "/jax/core/compile/jaxpr_trace_duration":
            self.traced.append(name)
        elif event == "/jax/core/compile/backend_compile_duration":
            self.compiled.append(name.removeprefix("jit(").removesuffix(")"))
            self.threads.append(threading.get_ident())


@pytest.fixture
def count_compilations() -> Callable[[], contextlib.AbstractContextManager[Compilations]]:
    """`with count_compilations() as seen: ...`, then `assert seen.compiled == []` or the like."""

    @contextlib.contextmanager
    def counting() -> Iterator[Compilations]:
        seen = Compilations()
        jax.monitoring.register_event_duration_secs_listener(seen)
        try:
            yield seen
        finally:
            jax.monitoring.unregister_event_duration_listener(seen)

    return counting
