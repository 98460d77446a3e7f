"""The subcommand of `jaxdp` that removes what no result needs."""

import dataclasses
import sys
from typing import Annotated

import tyro

from ._words import Mistake, ResultsName, option


@dataclasses.dataclass(frozen=True)
class Clean:
    """Remove what an experiment's results do not need.

    Those are cells of other settings or of other code, damaged ones, failures of cells that are no
    longer part of it, and what killed processes have left. It lists them first, and asks.
    """

    name: ResultsName
    yes: Annotated[
        tyro.conf.FlagCreatePairsOff[bool], option("Remove them unasked.", "default: ask")
    ] = False
    dry_run: Annotated[
        tyro.conf.FlagCreatePairsOff[bool], option("List them only.", "default: ask")
    ] = False

    def __call__(self) -> int:
        """Lists and removes them."""
        from ._clean import orphans
        from ._commands import results_of
        from ._store import Store

        try:
            store = Store(results_of(self.name))
            found = orphans(store)
        except ValueError as error:
            raise Mistake(str(error)) from None
        for orphan in found:
            print(f"{store.folder.at(orphan.file)}  {orphan.size / 1e3:.1f} kB  {orphan.why}")
        if not found:
            print(f"{store.folder} holds nothing but its results")
            return 0
        print(f"{len(found)} files, {sum(orphan.size for orphan in found) / 1e3:.1f} kB")
        if self.dry_run:
            return 0
        if not self.yes:
            if not sys.stdin.isatty():
                raise Mistake("clean asks before it removes: say --yes, or --dry-run to list only")
            if input("remove them? [y/N] ").strip().lower() not in ("y", "yes"):
                return 0
        for orphan in found:
            store.folder.remove(orphan.file)
        return 0
