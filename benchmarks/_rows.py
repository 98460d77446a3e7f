"""A file of measured rows that grows as they are made, and that any later call goes on with."""

import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

HEAD = "benchmark", "device", "versions", "quick"
"""What all rows of a file have in common."""


class RowFile:
    """Rows in a JSON file, one a line; a row is known by its `part` and its `name`.

    Every change replaces the file at once, so whoever is stopped leaves a whole file. A row that
    was begun and never ended is on record too: the next call leaves it to the end.

    Attributes:
      path: the file; made with the first change.
      content: what it holds: the head, "begun" and "rows".
    """

    def __init__(self, path: pathlib.Path, head: dict[str, Any] | None = None):
        """Opens a file, or prepares one.

        Args:
          path: where it is.
          head: what `HEAD` names, and what else a new file is to say; None for a file that exists.

        Raises:
          ValueError: the file exists and was made on another device or with other versions.
        """
        self.path = path
        exists = path.exists()
        self.content: dict[str, Any] = json.loads(path.read_text()) if exists else dict(head or {})
        self.content.setdefault("begun", [])
        self.content.setdefault("rows", [])
        for name in HEAD if head else ():
            found, expected = self.content[name], (head or {})[name]
            if found != expected:
                raise ValueError(
                    f"{path} holds rows of {name} {found}, and this is {expected}; name another "
                    "file with --out."
                )

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows, in the order in which they were made."""
        return self.content["rows"]

    def find(self, part: str, name: str) -> dict[str, Any] | None:
        """The row of this part and name, if it was made."""
        return next((row for row in self.rows if (row["part"], row["name"]) == (part, name)), None)

    def was_begun(self, part: str, name: str) -> bool:
        """Whether this row was begun, and has not ended."""
        return [part, name] in self.content["begun"]

    def begin(self, part: str, name: str) -> None:
        """Puts on record that this row is being made."""
        if not self.was_begun(part, name):
            self.content["begun"].append([part, name])
            self.save()

    def end(self, part: str, name: str) -> None:
        """Takes back that a row was begun, where it is not to be."""
        self._forget(part, name)
        self.save()

    def add(self, row: dict[str, Any]) -> None:
        """Adds a row, in the place of the one that there may be."""
        part, name = row["part"], row["name"]
        self._forget(part, name)
        rows = [old for old in self.rows if (old["part"], old["name"]) != (part, name)]
        self.content["rows"] = [*rows, row]
        self.save()

    def drop(self, unwanted: Callable[[dict[str, Any]], bool]) -> None:
        """Drops the rows of which `unwanted` is true."""
        kept = [row for row in self.rows if not unwanted(row)]
        if len(kept) < len(self.rows):
            self.content["rows"] = kept
            self.save()

    def _forget(self, part: str, name: str) -> None:
        self.content["begun"] = [one for one in self.content["begun"] if one != [part, name]]

    def save(self) -> None:
        """Writes the file."""
        lists = {"begun", "rows"}
        lines = [f" {json.dumps(k)}: {_dump(v)}" for k, v in self.content.items() if k not in lists]
        if self.content["begun"]:
            lines.append(f' "begun": {_dump(self.content["begun"])}')
        rows = ",\n".join(f"  {_dump(row)}" for row in self.rows)
        lines.append(f' "rows": [\n{rows}\n ]')
        self.path.parent.mkdir(parents=True, exist_ok=True)
        written = self.path.with_name(f"{self.path.name}.{os.getpid()}.tmp")
        written.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        written.replace(self.path)


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
