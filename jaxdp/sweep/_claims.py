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
        self.worker = uuid.uuid4().hex[:16]
        self._mine: dict[str, int] = {}
        self._latest: dict[str, int] = {}  # the number of the last claim on a cell, by `look`
        self._holders: dict[tuple[str, int], str] = {}  # of others' claims that were read
        self._seen: dict[str, tuple[Any, float]] = {}  # of others: a count, and since when
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
        number = self._latest.get(name, -1) + 1
        if not self._folder.mark(_path(name, number), f"{self.worker}\n{label}".encode()):
            return False
        self._mine[name] = number
        return True

    def release(self, name: str) -> None:
        """Gives a claim of this process up, with those that it was taken over from."""
        # From the first one on: while one of them is left, others know what comes next.
        for number in range(self._mine.pop(name) + 1):
            self._folder.remove(_path(name, number))
        self._latest.pop(name, None)

    def look(self) -> set[str]:
        """The cells that somebody claims."""
        self._latest = _latest(self._folder)
        return set(self._latest)

    def abandoned(self, names: set[str]) -> set[str]:
        """Those of some cells, claimed when last looked at, whose worker is dead."""
        found, dead = set(), dict[str, bool]()
        for name in sorted(names):
            claim = name, self._latest[name]
            if claim not in self._holders:
                worker, _ = _read(self._folder, *claim)
                if worker is None:  # it was given up
                    continue
                self._holders[claim] = worker
            worker = self._holders[claim]
            if worker not in dead:
                dead[worker] = worker != self.worker and self.is_dead(worker)
            if dead[worker]:
                found.add(name)
        self._holders = {c: w for c, w in self._holders.items() if c in self._latest.items()}
        return found

    def forget_dead(self) -> None:
        """Removes the claims of dead workers, and what they have said of themselves.

        Only when all cells are done: until then others must see whom they take a cell over from.
        """
        claimed = self.look()
        for name in self.abandoned(claimed):
            for number in range(self._latest[name] + 1):
                self._folder.remove(_path(name, number))
        for worker in self._folder.entries("workers"):
            if worker != self.worker and self.is_dead(worker):
                self._folder.remove(f"workers/{worker}")
        for under in ("", "cells", "failed", "workers"):
            for name, worker in self._folder.leftovers(under).items():
                if worker != self.worker and self.is_dead(worker):
                    self._folder.remove(name)

    def others(self) -> list[str]:
        """Other workers on this folder that may live."""
        names = sorted(self._folder.entries("workers"))
        return [n for n in names if n != self.worker and not self.is_dead(n)]

    def is_dead(self, worker: str) -> bool:
        """Whether a worker is known not to run any more."""
        state = state_of(self._folder, worker) if worker else None
        if state is None or is_gone(state):
            return True
        now = time.monotonic()
        known, since = self._seen.get(worker, (None, now))
        if state["count"] != known:
            self._seen[worker] = state["count"], now
            return False
        return now - since > SILENCE

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


def state_of(folder: Folder, worker: str) -> dict[str, Any] | None:
    """What a worker says of itself; None if it has left."""
    try:
        return json.loads(folder.read(f"workers/{worker}"))
    except (FileNotFoundError, ValueError):
        return None


def is_gone(state: dict[str, Any]) -> bool:
    """Whether the process of a worker has ended, as far as this machine can tell."""
    if os.name != "posix" or state["host"] != socket.gethostname():
        return False
    try:
        os.kill(state["process"], 0)  # sends nothing
    except ProcessLookupError:
        return True
    except PermissionError:  # another user's
        pass
    return False


def running(folder: Folder) -> list[tuple[str, dict[str, Any]]]:
    """The labels of claimed cells in a folder, with the state of their worker; of live ones."""
    found = []
    for name, number in sorted(_latest(folder).items()):
        worker, label = _read(folder, name, number)
        state = state_of(folder, worker) if worker else None
        if state and not is_gone(state):
            found.append((label, state))
    return found
