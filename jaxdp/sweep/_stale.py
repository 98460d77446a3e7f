"""Cells that were stored by other code than the present one."""

import dataclasses
import json
from collections.abc import Collection, Mapping

from ._fingerprint import Cell, cell_json
from ._store import Store


@dataclasses.dataclass(frozen=True)
class Stale:
    """Stored cells that other code has computed, so that they are computed anew.

    Attributes:
      code: the hash of that code, for `accept_code`.
      cells: how many there are.
      differs: what of the code is another one now, in words.
    """

    code: str
    cells: int
    differs: str

    def __str__(self) -> str:
        them = "cell is" if self.cells == 1 else "cells are"
        return f"{self.cells} {them} of other code, {self.code} ({self.differs})"


def reconcile(
    store: Store, wanted: Mapping[str, Cell], codes: Collection[str]
) -> tuple[dict[str, str], list[str], tuple[Stale, ...]]:
    """What becomes of the stored cells that are wanted, but of other code.

    Args:
      store: where they are.
      wanted: the cells by name.
      codes: hashes of code whose cells a user accepts.

    Returns:
      The names of stored cells that are accepted, now or in a run before, by wanted name; which
      codes are accepted in place of which, for the manifest; and what is not accepted.

    Raises:
      ValueError: there are no cells of a code.
    """
    stored = store.finished()
    missing = {name.partition("-")[0]: name for name in wanted if name not in stored}
    found: dict[str, dict[str, str]] = {}
    for name, (cell, code) in sorted(store.codes(stored - set(wanted)).items()):
        if cell in missing:
            found.setdefault(code, {})[missing[cell]] = name
    if unknown := [code for code in codes if code not in found]:
        has = f"one of {', '.join(found)}" if found else "left out, since no cell is of other code"
        raise ValueError(f"accept_code must be {has}, got {unknown[0]!r}.")
    before = store.accepted() if found else []
    kept: dict[str, str] = {}
    pairs = set[str]()
    for code, names in found.items():
        for want, name in names.items():
            # What was accepted in place of some code is not in place of the next one.
            pair = f"{code}={want.rpartition('-')[2]}"
            accepted = code in codes or pair in before
            if accepted and want not in kept and store.load(name) is not None:
                kept[want] = name
                pairs.add(pair)
    stale = []
    for code, names in found.items():
        if left := [want for want in names if want not in kept]:
            form, now = store.form(names[left[0]]), cell_json(wanted[left[0]])
            stale.append(Stale(code, len(left), _difference(form, now)))
    return kept, sorted(pairs), tuple(stale)


def _difference(stored: str | None, wanted: str) -> str:
    """What differs in the code of two cells."""
    if stored is None:
        return "the file is damaged"
    before, now = json.loads(stored), json.loads(wanted)
    if before["format"] != now["format"]:
        return "the rows had another form"
    before, now = before["versions"], now["versions"]
    words = []
    for name in sorted({*before, *now}):
        old, new = before.get(name), now.get(name)
        if old == new:
            continue
        if old is None or new is None:
            words.append(f"{name} was {'not ' if old is None else ''}part of it")
        elif len(old) == len(new) == 24:  # hashes of sources
            words.append(f"{name} was edited")
        else:
            words.append(f"{name} {old}, now {new}")
    return ", ".join(words)
