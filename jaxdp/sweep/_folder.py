"""Where a sweep's files lie: a directory, or a prefix in an object store.

Whichever it is, a file is whole or not there, and of several processes that create the same one,
one succeeds. There are no locks and no renames, which object stores and network file systems lack.
"""

import abc
import contextlib
import importlib
import os
import pathlib
import re
from typing import Any, NamedTuple

from .._files import publish, temporary_of, write_atomically


class Entry(NamedTuple):
    """A file that is listed: seconds since 1970 when it was written, and its bytes."""

    written: float
    size: int


class Folder(abc.ABC):
    """A place for files, which are named by paths relative to it."""

    @abc.abstractmethod
    def __str__(self) -> str:
        """How people name the place."""

    @abc.abstractmethod
    def at(self, name: str) -> str:
        """How people name a file in it."""

    @abc.abstractmethod
    def make(self) -> None:
        """Makes the place, or raises an OSError where nothing can be written."""

    @abc.abstractmethod
    def read(self, name: str) -> bytes:
        """What a file holds; a FileNotFoundError if it is not there."""

    @abc.abstractmethod
    def exists(self, name: str) -> bool:
        """Whether a file is there."""

    @abc.abstractmethod
    def entries(self, under: str) -> dict[str, Entry]:
        """The files directly in a folder, by name."""

    @abc.abstractmethod
    def mark(self, name: str, content: bytes) -> bool:
        """Creates a small file that may be lost in a power cut; False if it is there already."""

    @abc.abstractmethod
    def create(self, name: str, content: bytes, worker: str) -> bool:
        """Creates a file, for good; False if it is there already."""

    @abc.abstractmethod
    def replace(self, name: str, content: bytes, worker: str = "") -> None:
        """Writes a file, in place of one that is there."""

    @abc.abstractmethod
    def remove(self, name: str) -> None:
        """Removes a file, if it is there."""

    def leftovers(self, under: str) -> dict[str, str]:
        """What killed workers were writing in a folder: names of files, with their worker."""
        return {}

    def prune(self, under: str) -> None:
        """Removes a folder that is empty."""
        return None


class Directory(Folder):
    """A directory of a file system."""

    def __init__(self, root: pathlib.Path):
        self.root = root

    def __str__(self) -> str:
        return str(self.root)

    def at(self, name: str) -> str:
        return str(self.root / name)

    def make(self) -> None:
        (self.root / "cells").mkdir(parents=True, exist_ok=True)

    def read(self, name: str) -> bytes:
        return (self.root / name).read_bytes()

    def exists(self, name: str) -> bool:
        return (self.root / name).exists()

    def entries(self, under: str) -> dict[str, Entry]:
        found = {}
        with contextlib.suppress(FileNotFoundError), os.scandir(self.root / under) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                    if not entry.name.startswith("."):
                        status = entry.stat()
                        found[entry.name] = Entry(status.st_mtime, status.st_size)
        return found

    def mark(self, name: str, content: bytes) -> bool:
        path = self.root / name
        try:
            with open(path, "xb") as file:
                file.write(content)
        except FileExistsError:
            return False
        except FileNotFoundError:  # nobody has been here, or whoever left last has pruned it
            path.parent.mkdir(exist_ok=True)
            return self.mark(name, content)
        return True

    def create(self, name: str, content: bytes, worker: str) -> bool:
        return publish(self.root / name, content, worker)

    def replace(self, name: str, content: bytes, worker: str = "") -> None:
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, content, worker)

    def remove(self, name: str) -> None:
        (self.root / name).unlink(missing_ok=True)

    def leftovers(self, under: str) -> dict[str, str]:
        found = {}
        for path in sorted((self.root / under).glob(".*.tmp")):
            if match := re.fullmatch(r"\.(.+)\.([0-9a-f]{16}-\d+-\w+)\.tmp", path.name):
                name, worker = match.groups()
                assert temporary_of(path.with_name(name), worker) == path
                found[str(path.relative_to(self.root))] = worker
        return found

    def prune(self, under: str) -> None:
        with contextlib.suppress(OSError):  # others are there still
            (self.root / under).rmdir()


class Objects(Folder):
    """A prefix in an object store, or whatever else fsspec reaches by a URL.

    The store must create objects exclusively: S3 and those that are compatible with its
    `If-None-Match`, Google's, Azure's.
    """

    def __init__(self, url: str):
        self._url = url.rstrip("/")
        self._files: Any
        try:
            fsspec = importlib.import_module("fsspec")
            # Others write there, so nothing that was listed before may be believed.
            self._files, self._root = fsspec.url_to_fs(self._url, use_listings_cache=False)
        except ImportError as error:
            raise ValueError(
                f"out must be of a kind whose package is installed, got {url!r} ({error}): "
                "pip install fsspec, with s3fs for s3://, gcsfs for gs://, adlfs for abfs://."
            ) from None
        except ValueError as error:  # fsspec knows no such scheme
            raise ValueError(
                f"out must be a directory or a URL of fsspec, got {url!r}: {error}."
            ) from None

    def __str__(self) -> str:
        return self._url

    def at(self, name: str) -> str:
        return f"{self._url}/{name}"

    def make(self) -> None:
        self._list("cells")  # where there is no bucket, or no access, it is known now

    def read(self, name: str) -> bytes:
        return self._files.cat_file(self._path(name))

    def exists(self, name: str) -> bool:
        return bool(self._files.exists(self._path(name)))

    def entries(self, under: str) -> dict[str, Entry]:
        return {
            entry["name"].rpartition("/")[2]: Entry(_written(entry), entry["size"] or 0)
            for entry in self._list(under)
            if entry["type"] == "file"
        }

    def mark(self, name: str, content: bytes) -> bool:
        return self.create(name, content, "")

    def create(self, name: str, content: bytes, worker: str) -> bool:
        try:
            self._files.pipe_file(self._path(name), content, mode="create")
        except FileExistsError:
            return False
        return True

    def replace(self, name: str, content: bytes, worker: str = "") -> None:
        self._files.pipe_file(self._path(name), content)

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._files.rm_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _list(self, under: str) -> list[dict[str, Any]]:
        try:
            return self._files.ls(self._path(under), detail=True, refresh=True)
        except FileNotFoundError:
            return []


def folder_at(out: str | os.PathLike) -> Folder:
    """The folder that a user names: a path, or a URL such as "s3://bucket/sweep".

    Raises:
      ValueError: fsspec, or the package for the URL's scheme, is not installed.
    """
    text = os.fspath(out)
    if "://" not in text or text.startswith("file://"):
        return Directory(pathlib.Path(text.removeprefix("file://")))
    return Objects(text)


def _written(entry: dict[str, Any]) -> float:
    """When an object was written, which each file system of fsspec calls by a name of its own."""
    for name in ("LastModified", "mtime", "last_modified", "updated", "created"):
        value: Any = entry.get(name)
        if hasattr(value, "timestamp"):
            return value.timestamp()
        if isinstance(value, int | float):
            return float(value)
    return 0.0
