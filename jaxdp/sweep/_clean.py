"""What lies with the results of a sweep and is no part of them."""

import json
from typing import NamedTuple

from ._claims import is_gone
from ._fingerprint import hash_of
from ._store import Store


class Orphan(NamedTuple):
    """A file that no result needs: its name in the folder, its bytes, and why."""

    file: str
    size: int
    why: str


def orphans(store: Store) -> list[Orphan]:
    """The files in a sweep's folder that its results do not need.

    Raises:
      ValueError: there are no results, or processes are at work there.
    """
    folder, manifest = store.folder, store.manifest()
    wanted = set(manifest.cells)
    for worker in folder.entries("workers"):
        if not is_gone(worker):
            raise ValueError(
                f"out must be a directory in which nothing runs, but {folder} has a worker; wait "
                f"for it, or remove {folder.at(f'workers/{worker}')} if its machine has stopped."
            )
    missing = {name.partition("-")[0] for name in wanted - store.finished()}
    codes = {name.partition("-")[0]: name for name in wanted}
    found = []
    for file, entry in folder.entries("cells").items():
        name = file.removesuffix(".parquet")
        if name not in wanted:
            if _whole(store.form(name)) in missing:
                continue  # a part of what is not finished
            same = name.partition("-")[0] in codes
            why = "of other code" if same else "of other settings, or of other code"
        elif store.load(name) is None:
            why = "damaged"
        else:
            continue
        found.append(Orphan(f"cells/{file}", entry.size, why))
    for file, entry in folder.entries("failed").items():
        if file.removesuffix(".json") not in wanted:
            found.append(
                Orphan(f"failed/{file}", entry.size, "a failure of what is no longer part")
            )
    for under, why in (("claims", "a claim of a killed process"), ("workers", "a killed process")):
        found += [Orphan(f"{under}/{n}", e.size, why) for n, e in folder.entries(under).items()]
    for under in ("", "cells", "failed", "workers"):
        found += [Orphan(name, 0, "an unfinished file") for name in folder.leftovers(under)]
    return found


def _whole(form: str | None) -> str | None:
    """The hash of the cell that a stored cell is a part of, by its JSON; None if of none."""
    cell = json.loads(form)["cell"] if form else {}
    whole = cell.get("whole") if isinstance(cell, dict) else None
    return None if whole is None else hash_of(whole)
