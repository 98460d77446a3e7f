"""Sweeps as a page: charts, tables, what was run, what failed."""

import base64
import collections
import dataclasses
import importlib.metadata
import importlib.resources
import json
import math
import os
import pathlib
import platform
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any
from urllib.parse import quote

from .. import figures
from .._version import __version__
from ._folder import Directory
from ._plot import NAMES
from ._report import rmse_stderr
from ._store import Manifest, Store, cell_file, figure_files
from ._summary import readable, summarize

# Columns that are drawn first, the first that there is.
_DRAWN = ("total_mse", "rmse", "mse", "error", "excess", "total_variance")
# What columns are called over a table, where a figure says it in full.
_HEADS = {
    "mse": "MSE",
    "rmse": "RMSE",
    "predicted_rmse": "predicted",
    "bound_rmse": "bound",
    "total_mse": "total MSE",
    "max_rmse": "largest RMSE",
    "tv": "TV",
}
# Columns of simulations that are not in the table at first.
_ASIDE = {
    *("target", "num_trials", "num_users", "method", "mse", "mse_stderr", "bias_stderr"),
    *("q05", "q25", "q50", "q75", "q95", "predicted_total_mse"),
}
_LONGEST = 24
"""Numbers of an array that are written out in a spec."""


@dataclasses.dataclass(frozen=True)
class _Sweep:
    """What a directory holds."""

    name: str
    store: Store
    manifest: Manifest
    tables: dict[str, Any]
    """The rows of each finished cell, by its fingerprint."""
    cells: dict[str, dict[str, Any]]
    """The JSON of each finished cell."""
    failures: dict[str, dict[str, str]]

    @property
    def missing(self) -> int:
        """How many cells are neither finished nor failed."""
        return len(self.manifest.cells) - len(self.tables) - len(self.failures)


def report(
    *outs: str | os.PathLike, to: str | os.PathLike | None = None, entries: bool = False
) -> str:
    """A page of one sweep, or of two side by side: one file of HTML that asks nothing of a server.

    Charts of any column against another, with error bars, predictions and bounds; a table to be
    sorted and filtered, whose filters the charts obey; the specs of the cells, with their seeds and
    the versions that computed them; failures with their tracebacks; and a link to each cell's file.

    Args:
      *outs: one or two directories that an experiment ran into.
      to: the file to write, to which links are relative; None to write none.
      entries: whether a row is one estimate, and not one cell, where cells have many.

    Returns:
      The page, text of HTML.

    Raises:
      ValueError: there are no or more than two directories, or one holds no sweep.
      OSError: the file cannot be written.
    """
    if len(outs) not in (1, 2):
        raise ValueError(f"outs must be one or two directories, got {len(outs)}.")
    sweeps = [_read(out, name) for out, name in zip(outs, _names(outs), strict=True)]
    folder = pathlib.Path.cwd() if to is None else pathlib.Path(to).absolute().parent
    page = _page(sweeps, folder, entries)
    if to is not None:
        pathlib.Path(to).write_text(page, encoding="utf-8")
    return page


def _names(outs: Sequence[str | os.PathLike]) -> list[str]:
    """What the sweeps are called: the last parts of their paths that tell them apart."""
    parts = [pathlib.Path(out).absolute().parts for out in outs]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    raise ValueError(f"outs must be different directories, got {outs[0]} twice.")


def _read(out: str | os.PathLike, name: str) -> _Sweep:
    store = Store(out)
    manifest = store.manifest()
    tables, cells = {}, {}
    for cell in manifest.cells:
        table, form = store.load(cell), store.form(cell)
        if table is not None and form is not None:
            tables[cell], cells[cell] = table, json.loads(form)
    known = set(manifest.cells) - set(tables)
    failures = {cell: told for cell, told in store.failures().items() if cell in known}
    return _Sweep(name, store, manifest, tables, cells, failures)


def _page(sweeps: Sequence[_Sweep], folder: pathlib.Path, entries: bool) -> str:
    titles = list(dict.fromkeys(s.manifest.experiment or s.name for s in sweeps))
    data = _data(sweeps, folder, entries)
    sections = []
    if data["rows"]:
        sections.append(_charts())
        if len(sweeps) == 2:
            sections.append(_side_by_side())
        sections.append(_table())
    sections += [_failures(sweeps), _run(sweeps), _drawn(sweeps)]
    return figures.page(
        title=" and ".join(titles),
        over="A sweep of simulations" if len(sweeps) == 1 else "Two sweeps side by side",
        key=figures.key_numbers(_key(sweeps)),
        sections=[part for part in sections if part],
        data=data,
        css=_file_text("report.css"),
        js=_file_text("report.js"),
    )


def _key(sweeps: Sequence[_Sweep]) -> list[tuple[str, str, str, str]]:
    """The numbers at the head."""
    found = []
    for sweep in sweeps:
        term = "cells" if len(sweeps) == 1 else sweep.name
        done, all_cells = len(sweep.tables), len(sweep.manifest.cells)
        notes = [f"of {all_cells:,} cells are done"]
        if sweep.failures:
            notes.append(f"{len(sweep.failures):,} failed")
        if sweep.missing:
            notes.append(f"{sweep.missing:,} are missing")
        found.append(("", term, f"{done:,}", ", ".join(notes)))
    for term, field, note in (("trials", "num_trials", "a cell"), ("seed", "seed", "of the keys")):
        values = _fields(sweeps, field)
        if len(values) == 1:
            found.append(("", term, f"{values[0]:,}" if field != "seed" else str(values[0]), note))
    return found


def _fields(sweeps: Sequence[_Sweep], name: str) -> list[Any]:
    """The values of a field of the cells."""
    specs = (form["cell"] for sweep in sweeps for form in sweep.cells.values())
    return list(dict.fromkeys(spec[name] for spec in specs if name in spec))


def _data(sweeps: Sequence[_Sweep], folder: pathlib.Path, entries: bool) -> dict[str, Any]:
    """What the script reads: columns, rows, and the cell of each row."""
    import pyarrow as pa

    tables = [table for sweep in sweeps for table in sweep.tables.values()]
    whole = pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})
    together = not entries and readable(whole) is not whole
    labels = list(dict.fromkeys(name for s in sweeps for name in s.manifest.labels))
    rows, cells = [], []
    for sweep in sweeps:
        for name, table in sweep.tables.items():
            cell = _cell_rows(table, together)
            for row in cell:
                rows.append({"sweep": sweep.name, **row, "": len(cells)})
            own = [f"{label}={cell[0].get(label)}" for label in sweep.manifest.labels]
            cells.append(
                {
                    "label": ", ".join(own),
                    "href": _link(sweep.store, name, folder),
                    "spec": json.dumps(_shortened(sweep.cells[name]["cell"]), indent=1),
                }
            )
    found = dict.fromkeys(name for row in rows for name in row if name)
    if len(sweeps) == 1:
        found.pop("sweep", None)
    columns = [_column(name, rows, [*labels, "sweep"]) for name in found]
    # What is None everywhere says nothing.
    columns = [c for c in columns if any(row.get(c["name"]) is not None for row in rows)]
    return {
        "sweeps": [sweep.name for sweep in sweeps],
        "columns": columns,
        "rows": [[_short(row.get(c["name"])) for c in columns] + [row[""]] for row in rows],
        "cells": cells,
        "first": _first(columns, rows) if rows else {},
    }


def _cell_rows(table: Any, together: bool) -> list[dict[str, Any]]:
    """The rows of a cell, without lists; those of simulations with the errors of their errors."""
    shown = summarize(table) if together else table
    rows = [
        {name: value for name, value in row.items() if not isinstance(value, list | dict)}
        for row in shown.to_pylist()
    ]
    for row in rows:
        if "entry" in row:
            row["rmse_stderr"] = rmse_stderr(row)
            if len(rows) == 1:  # the one estimate of a cell
                del row["entry"]
    return rows


def _column(name: str, rows: list[dict[str, Any]], labels: list[str]) -> dict[str, Any]:
    values = [row.get(name) for row in rows]
    number = all(
        isinstance(v, int | float) and not isinstance(v, bool) for v in values if v is not None
    )
    is_label = name in labels or name in ("entry", "entry_label")
    of = name.removesuffix("_stderr")  # beside which its standard error stands
    aside = name not in labels and (name in _ASIDE or (of != name and of in rows[0]))
    title = NAMES.get(name, name.replace("_", " "))
    return {
        "name": name,
        "title": title,
        "head": _HEADS.get(name, title),
        "number": number,
        "label": is_label,
        "shown": not aside,
    }


def _first(columns: list[dict[str, Any]], rows: list[dict[str, Any]]) -> dict[str, str]:
    """What is drawn at first."""
    counts = {c["name"]: len({row.get(c["name"]) for row in rows}) for c in columns}
    labels = [c["name"] for c in columns if c["label"] and counts[c["name"]] > 1]
    numbers = {c["name"] for c in columns if c["number"]}
    measured = [c["name"] for c in columns if c["number"] and not c["label"]]
    errors = [name for name in measured if f"{name}_stderr" in measured]
    y = next(
        (n for n in (*_DRAWN, *errors, *measured) if n in measured), measured[0] if measured else ""
    )
    # Of the labels that are numbers the one with the most values.
    across = sorted((n for n in labels if n in numbers), key=lambda n: -counts[n])
    x = (across or labels or [c["name"] for c in columns])[0]
    others = [name for name in labels if name != x]
    # Two sweeps differ in their marks first.
    others.sort(key=lambda name: name != "sweep")
    hue = next((n for n in others if counts[n] <= 14), "")
    col = next((n for n in others if n != hue and counts[n] <= 12), "")
    return {"x": x, "y": y or x, "hue": hue, "col": col}


def _short(value: Any) -> Any:
    """A value in few characters, for JSON."""
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else None
    return value if value is None or isinstance(value, int | str) else str(value)


def _shortened(form: Any) -> Any:
    """The JSON of a spec, without all numbers of large arrays."""
    if isinstance(form, dict):
        return {name: _shortened(part) for name, part in form.items()}
    if isinstance(form, str) and len(form) > 2000:
        return f"{form[:200]}… ({len(form):,} characters)"
    if isinstance(form, list):
        first = [_shortened(part) for part in form[:_LONGEST]]
        return first + ([f"… {len(form):,} in all"] if len(form) > _LONGEST else [])
    return form


_NO_SCRIPT = (
    '<noscript><p class="note">The charts and the table are drawn by a script.</p></noscript>\n'
)


def _charts() -> str:
    return figures.section(
        "s1",
        "Errors",
        f'{_NO_SCRIPT}<div class="pickers" id="axes"></div>\n'
        '<div class="pickers" id="filters"></div>\n<div id="panels"></div>\n<ul id="names"></ul>\n'
        '<p id="told" aria-live="polite"></p>\n',
        "Bars are two standard errors. Filters hold for the charts and the tables.",
    )


def _side_by_side() -> str:
    return figures.section(
        "s2",
        "Side by side",
        '<div class="wide" role="region" aria-labelledby="s2" tabindex="0">'
        '<table class="sheet" id="pairs"></table></div>\n'
        '<p class="more"><span id="pair-count"></span></p>\n',
        "Rows that have the same labels in both.",
    )


def _table() -> str:
    return figures.section(
        "s3",
        "Results",
        '<div class="wide" role="region" aria-labelledby="s3" tabindex="0">'
        '<table class="sheet" id="sheet"></table></div>\n'
        '<div class="more"><span id="count"></span>'
        '<button type="button" id="more">Show more</button>'
        '<label><input type="checkbox" id="wide" autocomplete="off"> all columns</label></div>\n'
        '<div id="cell" hidden><h3 id="cell-label"></h3><div class="text">'
        '<button type="button" class="copy" data-copy="cell-spec">Copy</button>'
        '<pre id="cell-spec" class="long" tabindex="0"></pre></div></div>\n',
        "Headings sort. A cell’s rows are a Parquet file; its spec is what was simulated.",
    )


def _failures(sweeps: Sequence[_Sweep]) -> str:
    parts = []
    for sweep in sweeps:
        where = "" if len(sweeps) == 1 else f"{sweep.name}: "
        for place, (cell, told) in enumerate(sweep.failures.items()):
            trace = figures.copied_text(f"failure-{cell}", told["traceback"])
            last = told["traceback"].strip().splitlines()[-1:] or [""]
            summary = f"{where}{told['cell']}: {last[0]}"
            opened = " open" if place == 0 else ""
            parts.append(
                f"<details{opened}><summary>{escape(summary)}</summary>{trace}</details>\n"
            )
    if not parts:
        return ""
    return figures.section("s4", "Failures", f'<div class="failed">{"".join(parts)}</div>\n')


def _run(sweeps: Sequence[_Sweep]) -> str:
    """Versions, seeds and machine."""
    facts: list[tuple[str, str]] = []
    for sweep in sweeps:
        of = "" if len(sweeps) == 1 else f"{sweep.name}: "
        facts.append((f"{of}directory", str(sweep.store.folder)))
        sets = collections.Counter(
            ", ".join(f"{name} {version}" for name, version in form["versions"].items())
            for form in sweep.cells.values()
        )
        for versions, number in sets.items():
            cells = "computed by" if len(sets) == 1 else f"{number:,} cells computed by"
            facts.append((f"{of}{cells}", versions))
        for term, field in (("seeds", "seed"), ("trials a cell", "num_trials")):
            values = _fields([sweep], field)
            if values:
                some = ", ".join(f"{value:,}" for value in values[:20])
                facts.append((f"{of}{term}", some + (", …" if len(values) > 20 else "")))
    facts.append(("this page by", _machine()))
    rows = "".join(
        f'<tr><th scope="row">{escape(term)}</th><td>{escape(text)}</td></tr>\n'
        for term, text in facts
    )
    return figures.section(
        "s5",
        "What was run",
        f'<div class="wide"><table class="facts"><tbody>\n{rows}</tbody></table></div>\n',
        "Versions of a package that cells are made of are a hash of its source. Cells are the same "
        "on any machine.",
    )


def _machine() -> str:
    jax = importlib.metadata.version("jax")
    return (
        f"jaxdp {__version__}, jax {jax}, Python {platform.python_version()} on "
        f"{platform.platform(terse=True)}, {platform.machine()}, {os.cpu_count()} processors"
    )


def _link(store: Store, name: str, folder: pathlib.Path) -> str:
    """Where a cell's file is, as seen from a folder; of an object store its URL."""
    place = store.folder
    if not isinstance(place, Directory):
        return place.at(cell_file(name))
    return quote(os.path.relpath((place.root / cell_file(name)).absolute(), folder))


def _drawn(sweeps: Iterable[_Sweep]) -> str:
    """The figure that an experiment draws of itself."""
    parts = []
    for sweep in sweeps:
        for file in figure_files(sweep.manifest.experiment):
            if file.endswith(".png") and sweep.store.folder.exists(file):
                image = base64.b64encode(sweep.store.folder.read(file)).decode()
                name = escape(f"The figure of {sweep.name}")
                parts.append(
                    f'<figure><img alt="{name}" src="data:image/png;base64,{image}">'
                    f"<figcaption>{escape(sweep.name)}</figcaption></figure>\n"
                )
    if not parts:
        return ""
    return figures.section(
        "s6", "The experiment’s own figure", f'<div class="own">{"".join(parts)}</div>\n'
    )


def _file_text(name: str) -> str:
    return importlib.resources.files("jaxdp.sweep").joinpath(name).read_text("utf-8")
