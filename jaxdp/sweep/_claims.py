"""Who computes which cell, among any number of processes that share a folder and nothing else.

    OUT/claims/HASH      made by whoever computes the cell: the name of that worker, and the labels
    OUT/workers/WORKER   made by every process, and counts up while it lives

There is no coordinator, no lock, and no clock that two machines would have to agree on. A claim is
a file that only one process can make. The claim of a dead worker is taken over: its process is gone
from this machine, or its file has not counted up for `SILENCE` seconds of the observer's own time.
A worker that only stood still may lose its claims so. Then a cell is computed twice, to the same
bytes, and published once.
"""

import contextlib
import json
import os
import pathlib
import socket
import threading
import time
import uuid
from typing import Any, Self

from .._files import write_atomically

BEAT = 10.0
"""Seconds after which a worker counts up."""

SILENCE = 60.0
"""Seconds after which a worker that has not counted up is taken for dead."""


class Claims:
    """The claims of this process on the cells in a folder; a context manager.

    Args:
      root: the folder, which exists.
    """

    def __init__(self, root: pathlib.Path):
        self._claims, self._workers = root / "claims", root / "workers"
        self.worker = uuid.uuid4().hex[:16]
        self._mine: set[str] = set()
        self._holders: dict[str, str] = {}  # of others' claims that were read
        self._seen: dict[str, tuple[Any, float]] = {}  # of others: a count, and since when
        self._stop = threading.Event()
        self._since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())  # for people to read

    def __enter__(self) -> Self:
        self._claims.mkdir(exist_ok=True)
        self._beat(0)
        threading.Thread(target=self._count, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for name in list(self._mine):
            self.release(name)
        (self._workers / self.worker).unlink(missing_ok=True)
        for folder in (self._claims, self._workers):  # the last one leaves nothing behind
            with contextlib.suppress(OSError):
                folder.rmdir()

    def take(self, name: str, label: str = "") -> bool:
        """Claims a cell, which people know by its label; False if somebody else has."""
        try:
            with open(self._claims / name, "x", encoding="utf-8") as file:
                file.write(f"{self.worker}\n{label}")
        except FileExistsError:
            return False
        except FileNotFoundError:  # whoever left last has removed the folder
            self._claims.mkdir(exist_ok=True)
            return self.take(name, label)
        self._mine.add(name)
        return True

    def release(self, name: str) -> None:
        """Gives a claim of this process up, unless it was taken over."""
        self._mine.discard(name)
        if _read(self._claims / name)[0] == self.worker:
            (self._claims / name).unlink(missing_ok=True)

    def taken(self) -> set[str]:
        """The cells that somebody claims."""
        with contextlib.suppress(FileNotFoundError):
            return {path.name for path in self._claims.iterdir()}
        return set()

    def end(self, names: list[str]) -> dict[str, str]:
        """Ends those of others' claims whose worker is dead.

        Args:
          names: claimed cells.

        Returns:
          The workers of the claims that have ended, by cell.
        """
        ended, dead = {}, dict[str, bool]()
        for name in names:
            path = self._claims / name
            worker = self._holders[name] if name in self._holders else _read(path)[0]
            if worker is None or worker == self.worker:
                continue
            self._holders[name] = worker  # nobody else gets a claim but through its end
            if worker not in dead:
                dead[worker] = self.is_dead(worker)
            if dead[worker]:
                del self._holders[name]
                # Of several that see the worker dead one moves its claim away.
                away = path.with_name(f"{name}.{worker}.{self.worker}")
                with contextlib.suppress(FileNotFoundError):
                    os.replace(path, away)
                    ended[name] = worker
                away.unlink(missing_ok=True)
        self._holders = {n: w for n, w in self._holders.items() if n in set(names)}
        return ended

    def forget_dead(self) -> None:
        """Removes what dead workers have said of themselves."""
        with contextlib.suppress(FileNotFoundError):
            for path in self._workers.iterdir():
                worker = path.name.removeprefix(".").removesuffix(".tmp")
                if worker != self.worker and self.is_dead(worker):
                    path.unlink(missing_ok=True)

    def others(self) -> list[str]:
        """Other workers on this folder that may live."""
        with contextlib.suppress(FileNotFoundError):
            names = [path.name for path in self._workers.iterdir() if path.suffix != ".tmp"]
            return [n for n in sorted(names) if n != self.worker and not self.is_dead(n)]
        return []

    def is_dead(self, worker: str) -> bool:
        """Whether a worker is known not to run any more."""
        state = state_of(self._workers / worker) if worker else None
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
        self._workers.mkdir(exist_ok=True)  # whoever left last may have removed it
        write_atomically(self._workers / self.worker, json.dumps(state).encode())


def _read(claim: pathlib.Path) -> tuple[str | None, str]:
    """The worker that has a claim, "" if it was killed in making it, and the label; or None."""
    try:
        worker, _, label = claim.read_text(encoding="utf-8").partition("\n")
        return worker, label
    except FileNotFoundError:
        return None, ""


def state_of(worker: pathlib.Path) -> dict[str, Any] | None:
    """What a worker says of itself; None if it has left."""
    try:
        return json.loads(worker.read_bytes())
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


def running(root: pathlib.Path) -> list[tuple[str, dict[str, Any]]]:
    """The labels of claimed cells in a folder, with the state of their worker; of live ones."""
    found = []
    with contextlib.suppress(FileNotFoundError):
        for claim in sorted((root / "claims").iterdir()):
            worker, label = _read(claim)
            state = state_of(root / "workers" / worker) if worker else None
            if state and not is_gone(state):
                found.append((label, state))
    return found
