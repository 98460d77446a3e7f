"""Compiled programs on disk, for later processes: jax's persistent cache, in a bounded folder."""

import os
import pathlib
import re
import sys
import time
import warnings
import zlib

import jax

from ._spec import check_int

VARIABLE = "JAXDP_CACHE"
MAX_BYTES = 2**28
"""Bytes of compiled programs that are kept: those of some thousand programs."""

MIN_SECONDS = 0.05
"""Programs that take less to compile are not kept: their files would cost about as much."""

_CHECKED = ".checked"
_ENTRY = re.compile(r".+-[0-9a-f]{64}-cache")  # a program's name and key, by which jax calls a file
_DIRECTORY = "jax_compilation_cache_dir"
_SECONDS = "jax_persistent_cache_min_compile_time_secs"


def enable_compilation_cache(
    folder: str | os.PathLike | None = None, *, max_bytes: int = MAX_BYTES
) -> pathlib.Path | None:
    """Keeps compiled programs on disk, from which later processes load them.

    A first call compiles for seconds; from the cache it takes a fraction, with the same bits. The
    `jaxdp` command does this by itself, the library only when this is called, before the first
    program if all are to be kept. This is jax's persistent compilation cache: it serves all of the
    process's programs, and finds one by its operations, the versions of jax and XLA, the options of
    the compiler, and the devices with the features of their processor, so machines may share a
    folder.

    The folder is trimmed at each such call: programs that were not used for longest go until the
    rest fits, and those that a killed process left unfinished; no other file is touched. In between
    it may outgrow its bound by what running processes compile.

    Args:
      folder: where; None for the folder that the environment variable `JAXDP_CACHE` names, else
        for jax's own `jax_compilation_cache_dir` if that is set, which is then left as it is, and
        else for `jaxdp/programs` in the user's folder of caches: `XDG_CACHE_HOME` or `~/.cache`,
        `~/Library/Caches` on macOS, `%LOCALAPPDATA%` on Windows. It is made if necessary, for its
        owner alone. Programs are code: whoever can write to the folder can run code as you.
      max_bytes: how much of it is kept, at least 0.

    Returns:
      The folder; None if nothing is kept, because `JAXDP_CACHE=off`, because jax's cache is turned
      off (`JAX_ENABLE_COMPILATION_CACHE=0`), or, with a warning, because the folder cannot be
      written to.

    Raises:
      ValueError, TypeError: `max_bytes` is negative, or no integer.

    Example:
      >>> import jaxdp
      >>> jaxdp.enable_compilation_cache()  # doctest: +SKIP
      PosixPath('/home/me/.cache/jaxdp/programs')
    """
    check_int("max_bytes", max_bytes, low=0)
    named = os.environ.get(VARIABLE) if folder is None else folder
    own = jax.config.values[_DIRECTORY]
    if not jax.config.values["jax_enable_compilation_cache"] or named == "off":
        return None
    if not named and own:
        return pathlib.Path(own)
    try:
        root = pathlib.Path(named or _default_folder()).expanduser().absolute()
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        _trim(root, max_bytes)
    except (OSError, RuntimeError) as error:  # such as no home
        warnings.warn(
            f"compiled programs are not kept ({error}); set {VARIABLE} to a folder that can be "
            "written to, or to 'off'",
            stacklevel=2,
        )
        return None
    adopt({_DIRECTORY: str(root), _SECONDS: MIN_SECONDS})
    return root


def settings() -> dict[str, str | float]:
    """What a worker process has to `adopt` to share the cache; empty if there is none."""
    if not jax.config.values[_DIRECTORY]:
        return {}
    return {name: jax.config.values[name] for name in (_DIRECTORY, _SECONDS)}


def adopt(options: dict[str, str | float]) -> None:
    """Uses the cache of these `settings`, as far as it is not in use already."""
    own = jax.config.values[_DIRECTORY]
    if not options or own == options[_DIRECTORY]:
        return
    if own:  # jax goes on with the folder that it has opened
        from jax.experimental.compilation_cache import compilation_cache

        compilation_cache.reset_cache()
    for name, value in options.items():
        jax.config.update(name, value)


def _default_folder() -> pathlib.Path:
    """Where the platform keeps what can be made again."""
    home = pathlib.Path.home
    if sys.platform == "win32":
        caches = os.environ.get("LOCALAPPDATA") or home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        caches = home() / "Library" / "Caches"
    else:  # the convention has relative paths ignored
        named = os.environ.get("XDG_CACHE_HOME", "")
        caches = named if os.path.isabs(named) else home() / ".cache"
    return pathlib.Path(caches, "jaxdp", "programs")


def _trim(root: pathlib.Path, max_bytes: int) -> None:
    """Removes unfinished programs, and those not used for longest until the rest fits.

    Raises:
      OSError: the folder cannot be written to.
    """
    stamp, began = root / _CHECKED, time.time()
    checked = stamp.stat().st_mtime if stamp.exists() else 0.0
    files = []
    for path in root.iterdir():
        if not _ENTRY.fullmatch(path.name):  # whoever names a folder with other files keeps them
            continue
        try:
            status = path.stat()
            # jax would warn of an unfinished file whenever it is needed, and never replace it.
            # Older files have been looked at, and reading them would count as their use.
            if status.st_mtime >= checked - 60 and _unfinished(path):
                path.unlink()
            else:
                files.append((max(status.st_atime, status.st_mtime), status.st_size, path))
        except OSError:  # another process removes it as well
            continue
    excess = sum(size for _, size, _ in files) - max_bytes
    for _, size, path in sorted(files):
        if excess <= 0:
            break
        try:
            path.unlink()
            excess -= size
        except OSError:  # another process has it open, on Windows, or was faster
            continue
    stamp.touch()
    os.utime(stamp, (began, began))


def _unfinished(path: pathlib.Path) -> bool:
    """Whether the file is empty, or a compressed program of which the end is missing or wrong.

    jax writes entries in place, so one is unfinished after a kill, or on a full disk.
    """
    content = path.read_bytes()
    if not content.startswith(b"\x78"):  # zlib's, which jax uses unless zstandard is installed
        return not content
    try:
        zlib.decompress(content)
    except zlib.error:
        return True
    return False
