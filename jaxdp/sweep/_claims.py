"""Who computes which cell, among any number of processes that share a folder and nothing else.

    OUT/claims/NAME.0    made by whoever computes the cell: that worker, and the labels
    OUT/claims/NAME.1    made by whoever takes the cell over
    OUT/workers/WORKER   made by every process, and counts up while it lives

There is no coordinator, no lock, and no clock that two machines would have to agree on. A claim is
a file that only one process can make. The claim of a dead worker is taken over by making the next
one: the worker's process is gone from this machine, or its file has not counted up for `SILENCE`
seconds of the observer's own time. A worker that only stood still may lose its claims so. Then a
cell is computed twice, to the same bytes, and published once.
"""

import contextlib
import json
import os
import re
import socket
import threading
import time
import uuid
from typing import Any, Self

from ._folder import Folder

BEAT = 10.0
"""Seconds after which a worker counts up."""

SILENCE = 60.0
"""Seconds after which a worker that has not counted up is taken for dead."""


class Claims:
    """The claims of this process on the cells in a folder; a context manager.

    Args:
      folder: that exists.
    """

    def __init__(self, folder: Folder):
        self._folder = folder
        # Whoever lists the workers knows of this machine's without reading a file.
        self.worker = f"{uuid.uuid4().hex[:16]}-{os.getpid()}-{_host()}"
        self._mine: dict[str, int] = {}
        self._latest: dict[str, int] = {}  # the number of the last claim on a cell, by `look`
        self._next: dict[str, int] = {}  # the number of the next claim on a cell, by `abandoned`
        self._before: set[tuple[str, int]] = set()  # those of the look before
        self._holders: dict[tuple[str, int], str] = {}  # of others' claims that were read
        # Of others who have not left: when they last counted up, by their file, and by our clock.
        self._heard: dict[str, tuple[float, float]] = {}
        self._stop = threading.Event()
        self._since = time.strftime("%Y-%m-%d %H:%M:%S%z")  # for people to read

    def __enter__(self) -> Self:
        self._beat(0)
        threading.Thread(target=self._count, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for name in list(self._mine):
            self.release(name)
        self._folder.remove(f"workers/{self.worker}")
        for under in ("claims", "workers"):  # the last one leaves nothing behind
            self._folder.prune(under)

    def take(self, name: str, label: str = "") -> bool:
        """Claims a cell, which people know by its label; False if somebody else has.

        Of a cell that `abandoned` has named, it makes the next claim.
        """
        number = self._next.get(name, 0)
        if not self._folder.mark(_path(name, number), f"{self.worker}\n{label}".encode()):
            return False
        self._mine[name] = number
        return True

    def release(self, name: str) -> None:
        """Gives a claim of this process up, with those that it was taken over from."""
        # From the first one on: while one of them is left, others know what comes next.
        for number in range(self._mine.pop(name) + 1):
            self._folder.remove(_path(name, number))

    def look(self) -> set[str]:
        """The cells that somebody claims."""
        self._before = set(self._latest.items())
        self._latest = _latest(self._folder)
        return set(self._latest)

    def abandoned(self, names: set[str]) -> set[str]:
        """Which of some cells, claimed in the last two looks, have a dead worker."""
        claims = {(name, self._latest[name]) for name in names} & self._before
        self._holders = {c: w for c, w in self._holders.items() if c in claims}
        for claim in claims - set(self._holders):  # nobody else gets it: it is read once
            worker, _ = _read(self._folder, *claim)
            if worker is not None:  # else it was given up
                self._holders[claim] = worker
        if self._holders:
            self._listen()
        holders = self._holders.items()
        self._next = {name: i + 1 for (name, i), worker in holders if self._is_dead(worker)}
        return set(self._next)

    def forget_dead(self) -> None:
        """Removes the claims of dead workers, and what they have said and were writing.

        Only when all cells are done: until then others must see whom they take a cell over from.
        """
        self._listen()
        for name, number in _latest(self._folder).items():
            worker, _ = _read(self._folder, name, number)
            if worker is not None and self._is_dead(worker):
                for each in range(number + 1):
                    self._folder.remove(_path(name, each))
        for worker in list(self._heard):
            if self._is_dead(worker):
                self._folder.remove(f"workers/{worker}")
        for under in ("", "cells", "failed", "workers"):
            for name, worker in self._folder.leftovers(under).items():
                if self._is_dead(worker):
                    self._folder.remove(name)

    def others(self) -> list[str]:
        """Other workers on this folder that may live."""
        self._listen()
        return [worker for worker in sorted(self._heard) if not self._is_dead(worker)]

    def dead(self, workers: set[str]) -> set[str]:
        """Which of some workers are known not to run any more."""
        if workers:
            self._listen()
        return {worker for worker in workers if self._is_dead(worker)}

    def _listen(self) -> None:
        """Notes which of the others have counted up."""
        now, found = time.monotonic(), self._folder.entries("workers")
        found.pop(self.worker, None)
        known = self._heard
        self._heard = {
            worker: known[worker]
            if worker in known and known[worker][0] == entry.written
            else (entry.written, now)
            for worker, entry in found.items()
        }

    def _is_dead(self, worker: str) -> bool:
        """Whether a worker is known not to run any more, as of when it was last listened to."""
        if worker == self.worker:
            return False
        if worker not in self._heard or is_gone(worker):
            return True
        return time.monotonic() - self._heard[worker][1] > SILENCE

    def _count(self) -> None:
        number = 0
        while not self._stop.wait(BEAT):
            number += 1
            with contextlib.suppress(OSError):  # a full disk: the next one may do
                self._beat(number)

    def _beat(self, number: int) -> None:
        state = {
            "host": socket.gethostname(),
            "process": os.getpid(),
            "since": self._since,
            "count": number,
        }
        self._folder.replace(f"workers/{self.worker}", json.dumps(state).encode(), self.worker)


def _path(name: str, number: int) -> str:
    return f"claims/{name}.{number}"


def _latest(folder: Folder) -> dict[str, int]:
    """The number of the last claim on each cell that is claimed."""
    found: dict[str, int] = {}
    for path in folder.entries("claims"):
        name, _, number = path.rpartition(".")
        if number.isdecimal():
            found[name] = max(int(number), found.get(name, 0))
    return found


def _read(folder: Folder, name: str, number: int) -> tuple[str | None, str]:
    """The worker that has a claim, "" if it was killed in making it, and the label; or None."""
    try:
        worker, _, label = folder.read(_path(name, number)).decode().partition("\n")
        return worker, label
    except FileNotFoundError:
        return None, ""


def _host() -> str:
    return re.sub(r"\W", "_", socket.gethostname())


def is_gone(worker: str) -> bool:
    """Whether the process of a worker has ended, as far as this machine can tell."""
    _, process, host = worker.split("-") if worker.count("-") == 2 else ("", "", "")
    if os.name != "posix" or host != _host():
        return False
    try:
        os.kill(int(process), 0)  # sends nothing
    except ProcessLookupError:
        return True
    except PermissionError:  # another user's
        pass
    return False


def running(folder: Folder) -> list[tuple[str, dict[str, Any]]]:
    """The labels of claimed cells in a folder, with what their worker says; of live ones."""
    found = []
    for name, number in sorted(_latest(folder).items()):
        worker, label = _read(folder, name, number)
        if worker and not is_gone(worker):
            with contextlib.suppress(FileNotFoundError, ValueError):  # it has left
                found.append((label, json.loads(folder.read(f"workers/{worker}"))))
    return found
