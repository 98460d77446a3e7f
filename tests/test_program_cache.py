"""Compiled programs on disk: where, how many, shared with workers, and never in the way."""

import concurrent.futures
import multiprocessing
import os
import pathlib
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

import jaxdp
from jaxdp import _program_cache, sweep
from jaxdp.sweep import _catalog, cli
from tests.sweep.files import contents

NAMES = "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs"


@pytest.fixture(autouse=True)
def no_cache(monkeypatch, tmp_path):
    """A process without a cache, whose user has an empty home."""
    before = {name: jax.config.values[name] for name in NAMES}
    jax.config.update(NAMES[0], None)
    compilation_cache.reset_cache()
    monkeypatch.delenv("JAXDP_CACHE")
    monkeypatch.setattr(pathlib.Path, "home", lambda: tmp_path / "home")
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def estimate(epsilon=1.0):
    """A run in a process that has compiled nothing."""
    jax.clear_caches()
    users = jaxdp.Population.from_histogram([600, 300, 100])
    return jaxdp.run(jaxdp.randomizers.KRR(3, epsilon), users, jax.random.key(0), method="per_user")


def entries(folder):
    return sorted(path for path in folder.iterdir() if path.name.endswith("-cache"))


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {}, "home/.cache/jaxdp/programs"),
        ("linux", {"XDG_CACHE_HOME": "{}/xdg"}, "xdg/jaxdp/programs"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "home/.cache/jaxdp/programs"),
        ("darwin", {}, "home/Library/Caches/jaxdp/programs"),
        ("win32", {}, "home/AppData/Local/jaxdp/programs"),
        ("win32", {"LOCALAPPDATA": "{}/local"}, "local/jaxdp/programs"),
        ("linux", {"JAXDP_CACHE": "{}/named"}, "named"),
        ("linux", {"JAXDP_CACHE": ""}, "home/.cache/jaxdp/programs"),
    ],
)
def test_where(platform, variables, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", platform)
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(tmp_path))
    folder = jaxdp.enable_compilation_cache()
    assert folder == tmp_path / expected
    assert jax.config.values[NAMES[0]] == str(folder)
    if os.name == "posix":
        assert folder.stat().st_mode & 0o777 == 0o700
    assert jaxdp.enable_compilation_cache() == folder


def test_an_argument_is_stronger_than_the_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("JAXDP_CACHE", "off")
    assert jaxdp.enable_compilation_cache() is None
    assert jax.config.values[NAMES[0]] is None
    assert jaxdp.enable_compilation_cache(tmp_path / "given") == tmp_path / "given"


def test_the_users_own_cache_of_jax_is_left_as_it_is(tmp_path):
    jax.config.update(NAMES[0], str(tmp_path / "own"))
    before = dict(jax.config.values)
    assert jaxdp.enable_compilation_cache() == tmp_path / "own"
    assert dict(jax.config.values) == before
    assert not (tmp_path / "home").exists()
    assert jaxdp.enable_compilation_cache(tmp_path / "other") == tmp_path / "other"


def test_jax_without_a_cache_stays_without(monkeypatch):
    jax.config.update("jax_enable_compilation_cache", False)
    try:
        assert jaxdp.enable_compilation_cache() is None
        assert jax.config.values[NAMES[0]] is None
    finally:
        jax.config.update("jax_enable_compilation_cache", True)


@pytest.mark.parametrize(("wrong", "error"), [(-1, ValueError), (0.5, TypeError)])
def test_a_wrong_bound(wrong, error, tmp_path):
    with pytest.raises(error, match="max_bytes must be an integer"):
        jaxdp.enable_compilation_cache(tmp_path, max_bytes=wrong)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.warns(UserWarning, match=r"not kept \(.*file.*JAXDP_CACHE"):
        assert jaxdp.enable_compilation_cache(tmp_path / "file" / "folder") is None
    assert jax.config.values[NAMES[0]] is None


def test_the_same_bits_from_a_warm_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(_program_cache, "MIN_SECONDS", 0.0)
    expected = estimate()
    folder = jaxdp.enable_compilation_cache(tmp_path)
    hits = []

    def listen(event, **kwargs):
        hits.append(event == "/jax/compilation_cache/cache_hits")

    jax.monitoring.register_event_listener(listen)
    try:
        np.testing.assert_array_equal(estimate(), expected)
        assert entries(folder)
        assert not any(hits)
        np.testing.assert_array_equal(estimate(), expected)
        assert any(hits)
    finally:
        jax.monitoring.unregister_event_listener(listen)


@pytest.mark.parametrize("spoil", [lambda b: b[:-5], lambda b: b"", lambda b: b"x" * len(b)])
def test_damaged_programs_are_compiled_again(spoil, tmp_path, monkeypatch):
    monkeypatch.setattr(_program_cache, "MIN_SECONDS", 0.0)
    folder = jaxdp.enable_compilation_cache(tmp_path)

    @jax.jit
    def double(x):
        return 2 * x

    def four():
        jax.clear_caches()
        return int(double(jnp.int32(2)))

    assert four() == 4
    (entry,) = (path for path in entries(folder) if "double" in path.name)
    content = entry.read_bytes()
    entry.write_bytes(spoil(content))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert four() == 4
    jaxdp.enable_compilation_cache(tmp_path)  # as the next process does
    if spoil(content)[:1] != b"x":
        assert not entry.exists()
        assert four() == 4
        assert entry.exists()


def named(name):
    """How jax calls the file of a program."""
    return f"{name}-{'0f' * 32}-cache"


def test_the_folder_is_bounded(tmp_path):
    jaxdp.enable_compilation_cache(tmp_path)  # from now on, older files are not read
    for age, name in enumerate(["new", "used", "old", "older"]):
        path = tmp_path / named(name)
        path.write_bytes(bytes([age]) + b"1" * 999)
        os.utime(path, (10**9 - 1000 * age, 10**9 - 1000 * age))
    os.utime(tmp_path / named("used"), (2 * 10**9, 10**9 - 1000))
    jaxdp.enable_compilation_cache(tmp_path, max_bytes=10_000)
    assert len(entries(tmp_path)) == 4
    jaxdp.enable_compilation_cache(tmp_path, max_bytes=2500)
    assert {path.name for path in entries(tmp_path)} == {named("new"), named("used")}
    jaxdp.enable_compilation_cache(tmp_path, max_bytes=1000)
    assert {path.name for path in entries(tmp_path)} == {named("used")}
    jaxdp.enable_compilation_cache(tmp_path, max_bytes=0)
    assert entries(tmp_path) == []


def test_other_files_are_kept(tmp_path):
    (tmp_path / "folder").mkdir()
    for name in ("letter.txt", "my-cache", ".lockfile", f"folder/{named('deep')}"):
        (tmp_path / name).touch()
    before = {*contents(tmp_path)}
    jaxdp.enable_compilation_cache(tmp_path, max_bytes=0)
    assert {*contents(tmp_path)} == before | {".checked"}


def cells():
    return [
        sweep.Simulation(
            protocol=jaxdp.randomizers.KRR(3, 1.0),
            data=sweep.HistogramData([600, 300, 100]),
            num_trials=20,
            method="per_user",
            labels={"epsilon": 1.0},
        )
    ]


def test_worker_processes_share_the_cache(tmp_path):
    folder = jaxdp.enable_compilation_cache(tmp_path / "programs")
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn) as workers:
        sweep.run(cells(), tmp_path / "workers", workers)
        at_work = workers.submit(_program_cache.settings).result()
    assert at_work == _program_cache.settings() == {NAMES[0]: str(folder), NAMES[1]: 0.05}
    assert entries(folder)
    jax.config.update(NAMES[0], None)
    sweep.run(cells(), tmp_path / "here")
    assert contents(tmp_path / "workers") == contents(tmp_path / "here")


def test_the_command_keeps_programs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAXDP_CACHE", "programs")
    settings = sweep.Settings(epsilons=(1.0,), num_trials=20)
    toy = sweep.Experiment(
        name="toy", summary="A toy", cells=lambda _: cells(), settings=settings, quick=settings
    )
    monkeypatch.setattr(_catalog, "find_experiment", lambda name: toy)
    jax.clear_caches()
    assert cli.main("run toy --out cold".split()) == 0
    assert entries(tmp_path / "programs")
    for entry in entries(tmp_path / "programs"):
        entry.write_bytes(b"damaged")  # of which the command says nothing
    jax.clear_caches()
    assert cli.main("run toy --out again".split()) == 0
    assert contents(tmp_path / "again") == contents(tmp_path / "cold")
    assert "Error" not in capsys.readouterr().err
