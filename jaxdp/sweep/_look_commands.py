"""The subcommands that look at results: as a table, as a figure, as a page."""

import contextlib
import csv
import dataclasses
import json
import math
import pathlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from ._commands import results_of
from ._words import Mistake, OptionalInteger, OptionalNumber, ResultsName, option

if TYPE_CHECKING:
    import pyarrow as pa


Where = Annotated[
    str,
    option(
        "Only rows that meet a condition: \"epsilon <= 1 and mechanism == 'k-RR'\".",
        "default: all",
        metavar="CONDITION",
    ),
]


@dataclasses.dataclass(frozen=True)
class Show:
    """Show the results of an experiment again.

    Where cells have more than 16 estimates each, a row is a cell, with the errors of all of them
    together; --entries shows them one by one.

    Example: jaxdp show kendall-flights --where "epsilon == 1" --csv > one.csv
    """

    name: ResultsName
    where: Where = ""
    limit: Annotated[OptionalInteger, option("At most so many rows.", "default: all")] = None
    entries: Annotated[
        tyro.conf.FlagCreatePairsOff[bool],
        option("A row for each estimate; with --json, also those of all trials.", "default: no"),
    ] = False
    csv: Annotated[
        tyro.conf.FlagCreatePairsOff[bool], option("As comma-separated values.", "default: no")
    ] = False
    json: Annotated[
        tyro.conf.FlagCreatePairsOff[bool], option("As a list in JSON.", "default: no")
    ] = False

    def __call__(self) -> int:
        """Prints the table, and where the files are."""
        from ._report import print_results, print_sweep
        from ._store import Store

        if self.csv and self.json:
            raise Mistake("--csv and --json are two forms: choose one of them")
        if self.limit is not None and self.limit < 0:
            raise Mistake(f"--limit must be at least 0, got {self.limit}")
        store = Store(results_of(self.name))
        results, missing = looked_up(store)
        table = chosen(results, self.where, self.entries)
        if self.limit is not None:
            table = table.slice(0, self.limit)
        if self.csv or self.json:
            if not (self.json and self.entries):
                table = table.select(plain_columns(table))
            (_write_json if self.json else _write_csv)(table)
            return 0
        if table.num_rows:
            print_results(table, store.manifest().labels)
        else:
            print("no rows")
        print_sweep(store, missing)
        return 0


@dataclasses.dataclass(frozen=True)
class Plot:
    """Draw the results of an experiment: its own figure again, or one column against another.

    Example: jaxdp plot kendall-flights --x epsilon --y rmse --hue grid --out errors.pdf
    """

    name: ResultsName
    out: Annotated[
        str, option("Where to: .png, .svg or .pdf.", "default: NAME.png", metavar="FILE")
    ] = ""
    x: Annotated[str, option("The horizontal axis.", "default: that of its own figure")] = ""
    y: Annotated[str, option("The vertical axis.", "default: that of its own figure")] = ""
    hue: Annotated[str, option("The column whose values are series.", "default: none")] = ""
    col: Annotated[str, option("The column whose values are panels.", "default: none")] = ""
    where: Where = ""
    entries: Annotated[
        tyro.conf.FlagCreatePairsOff[bool], option("Of each estimate.", "default: of each cell")
    ] = False
    width: Annotated[
        OptionalNumber,
        option("Inches: 3.3 for a column, 6.9 for a page.", "default: what it needs"),
    ] = None
    theme: Annotated[Literal["light", "dark"], option("The ground.", "default: light")] = "light"
    transparent: Annotated[
        tyro.conf.FlagCreatePairsOff[bool], option("No ground.", "default: no")
    ] = False

    def __call__(self) -> int:
        """Writes the file."""
        from .. import figures
        from ._store import Store

        if bool(self.x) != bool(self.y):
            raise Mistake("--x and --y go together: one column against another")
        store = Store(results_of(self.name))
        results, _ = looked_up(store)
        name = str(store.folder).rstrip("/").rpartition("/")[2]
        path = pathlib.Path(self.out or f"{name}.png")
        kind = path.suffix[1:]
        if kind not in ("png", "svg", "pdf"):
            raise Mistake(f"--out must end in .png, .svg or .pdf, got {self.out!r}")
        with figures.style(self.theme, transparent=self.transparent):
            figure = self._figure(results, store)
            content = figures.encode(figure, [kind], name=path.stem)[kind]
        with _written(path):
            path.write_bytes(content)
        return 0

    def _figure(self, results: "pa.Table", store: Any) -> Any:
        from ._catalog import find_experiment
        from ._plot import plot

        if self.x:
            try:
                return plot(
                    chosen(results, self.where, self.entries),
                    x=self.x,
                    y=self.y,
                    hue=self.hue or None,
                    col=self.col or None,
                    width=self.width,
                    theme=self.theme,
                    transparent=self.transparent,
                )
            except ValueError as error:
                raise Mistake(str(error)) from None
        try:
            experiment = find_experiment(store.manifest().experiment or self.name)
        except ValueError:
            experiment = None
        if experiment is None or experiment.figure is None:
            raise Mistake("it has no figure of its own: give --x COLUMN and --y COLUMN")
        figure = experiment.figure(chosen(results, self.where, entries=True))
        if self.width is not None:
            figure.set_size_inches(
                self.width, figure.get_figheight() * self.width / figure.get_figwidth()
            )
        return figure


@dataclasses.dataclass(frozen=True)
class Report:
    """Write a page of a sweep: charts, sortable and filterable tables, specs, failures.

    The page is one file that asks nothing of any server. Of two sweeps, such as before and after a
    change, it shows both side by side.

    Example: jaxdp report kendall-flights
    """

    names: Annotated[
        tyro.conf.Positional[tuple[str, ...]],
        option(
            "Experiments, or directories with results.", "one or two", metavar="NAME|DIR [NAME|DIR]"
        ),
    ]
    out: Annotated[str, option("Where to.", "default: DIR/report.html", metavar="FILE")] = ""
    entries: Annotated[
        tyro.conf.FlagCreatePairsOff[bool],
        option("A row for each estimate.", "default: for each cell, where it has many"),
    ] = False

    def __call__(self) -> int:
        """Writes the file."""
        from ._page import report

        if len(self.names) not in (1, 2):
            raise Mistake(f"NAME|DIR must be one or two, got {len(self.names)}")
        roots = [results_of(name) for name in self.names]
        beside = pathlib.Path("" if "://" in roots[0] else roots[0])
        path = pathlib.Path(self.out or beside / "report.html")
        with _written(path):
            try:
                report(*roots, to=path, entries=self.entries)
            except ValueError as error:
                raise Mistake(str(error)) from None
        return 0


@contextlib.contextmanager
def _written(path: pathlib.Path) -> Iterator[None]:
    """Says which file is written, or why it cannot be."""
    try:
        yield
    except OSError as error:
        raise Mistake(
            f"--out must be a file that can be written, got {str(path)!r}: {error.strerror}"
        ) from None
    print(path)


def looked_up(store: Any) -> "tuple[pa.Table, int]":
    """The results, and how many cells are missing."""
    from ._store import collect_counting

    try:
        return collect_counting(store)
    except ValueError as error:
        raise Mistake(str(error)) from None


def chosen(results: "pa.Table", where: str, entries: bool) -> "pa.Table":
    """What is looked at: cells or entries, of which some are left out."""
    from ._summary import readable
    from ._where import condition

    table = results if entries else readable(results)
    if not where:
        return table
    columns = plain_columns(table)
    try:
        meets = condition(where, columns)
    except ValueError as error:
        raise Mistake(str(error)) from None
    rows = table.select(columns).to_pylist()
    return table.filter([meets(row) for row in rows])


def plain_columns(table: "pa.Table") -> list[str]:
    """The columns that are no lists."""
    import pyarrow.types as types

    return [n for n in table.column_names if not types.is_nested(table.schema.field(n).type)]


def _write_csv(table: "pa.Table") -> None:
    writer = csv.DictWriter(sys.stdout, table.column_names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(table.to_pylist())


def _write_json(table: "pa.Table") -> None:
    lines = [json.dumps(_finite(row), ensure_ascii=False) for row in table.to_pylist()]
    print("[" + ",\n ".join(lines) + "]")


def _finite(value: Any) -> Any:
    """A value with None for the numbers that JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    return [_finite(part) for part in value] if isinstance(value, list) else value
