"""Results as JSON, and the tables made of them."""

import argparse
import datetime
import inspect
import json
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ._timing import machine, versions

Rows = list[dict[str, Any]]

RESULTS = pathlib.Path(__file__).parent / "results"


def today() -> str:
    """The date that results bear, in UTC."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def load(path: pathlib.Path) -> dict[str, Any]:
    """The results in a file."""
    return json.loads(path.read_text())


def save(results: dict[str, Any], path: pathlib.Path) -> None:
    """Writes results as JSON, and beside them, as .md, the tables that the docs include."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n")
    path.with_suffix(".md").write_text(markdown(results))


def choose_sections(
    text: str | None,
    sections: Mapping[str, Callable[[], Rows]],
    folder: pathlib.Path,
    usual: Iterable[str] | None = None,
) -> None:
    """The command of a script of sections: runs one by `--only`, or the usual ones.

    Args:
      text: the script's docstring.
      sections: as of `run_sections`.
      folder: as of `run_sections`.
      usual: the names of those that run without `--only`; None for all.
    """
    parser = argparse.ArgumentParser(description=(text or "").splitlines()[0])
    parser.add_argument("--only", choices=list(sections), help="one section")
    only = parser.parse_args().only
    run_sections(sections, [only] if only else list(usual or sections), folder)


def run_sections(
    sections: Mapping[str, Callable[[], Rows]], chosen: Iterable[str], folder: pathlib.Path
) -> None:
    """Runs some sections, prints their tables, and keeps the last results of the others.

    Args:
      sections: by name, what measures; its docstring stands above its table.
      chosen: the names of those to run.
      folder: where `results.json` and `tables.md` are.
    """
    data = folder / "results.json"
    report: dict[str, Any] = json.loads(data.read_text()) if data.exists() else {"sections": {}}
    report |= {"date": today(), "machine": machine(), "versions": versions()}
    folder.mkdir(parents=True, exist_ok=True)

    def section(name: str) -> str:
        return f"{inspect.getdoc(sections[name])}\n\n{rows_table(report['sections'][name])}"

    for name in chosen:
        report["sections"][name] = sections[name]()
        print(f"\n{section(name)}", flush=True)
        data.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    host, found = report["machine"], report["versions"]
    measured = (
        f"{report['date']}; {host['cpu']}, {host['cores']} cores, load {host['load_before']:.1f} "
        "before the run; " + ", ".join(f"{k} {v}" for k, v in found.items()) + "."
    )
    parts = [measured, *(section(name) for name in sections if name in report["sections"])]
    (folder / "tables.md").write_text("\n\n".join(parts) + "\n")


def rows_table(rows: Rows) -> str:
    """A table of rows, a column for each name that one of them has."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines = [columns, ["---"] * len(columns)]
    lines += [[str(row.get(name, "")) for name in columns] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def markdown(results: dict[str, Any]) -> str:
    """The tables of a run on a device or of one for throughput, of the parts that there are."""
    if results["benchmark"] == "gpu":
        return _device(results)
    machine, settings = results["machine"], results["settings"]
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    parts = [
        f"{results['date']}; {machine['cpu']}, {machine['cores']} cores, load "
        f"{machine['load_before']:.1f} before the run; device of jax: {machine['device']}; "
        f"{versions}."
    ]
    if "end_to_end" in results:
        tally = results["tally"]
        parts += [
            f"Nanoseconds a user of `KRR` at ε = {settings['epsilon']:g}, from the words to the "
            f"estimate, over {settings['users']:,} users: median of {settings['repeats']} "
            f"interleaved runs (fastest in brackets). Libraries that loop: "
            f"{settings['loop_users']:,} users.",
            _end_to_end(results["end_to_end"], settings["num_values"]),
            f'`method="tally"`, {tally["users"]:,} users, k = {tally["num_values"]}: '
            f"{tally['median_ms']:.3f} ms a trial (fastest {tally['min_ms']:.3f}) in a batch of "
            f"{tally['trials']:,}.",
        ]
    if "hashing" in results:
        parts += _hashing(results["hashing"], settings["epsilon"])
    if "randomizers" in results:
        parts += _randomizers(results["randomizers"], settings["epsilon"])
    if "tallies" in results:
        parts += _tallies(results["tallies"])
    if "kernels" in results:
        parts.append(_kernels(results["kernels"]))
    if results["aims"]:
        parts.append(_aims(results["aims"]))
    return "\n\n".join(parts) + "\n"


def _hashing(rows: list[dict[str, Any]], epsilon: float) -> list[str]:
    users = max(row.get("users", 0) for row in rows)
    text = (
        f"Local hashing at ε = {epsilon:g} of k = {rows[0]['num_values']} values, from the words "
        "to the estimate: nanoseconds a user (fastest in brackets), and from the median what "
        f"{users:,} users take. Tallies draw all of them."
    )
    body = []
    for row in rows:
        job = [f"{row['users']:,}", duration(row["job_s"])] if "job_s" in row else ["", ""]
        body.append([row["name"], _cell(row), *job])
    return [text, _table(["", "ns a user", "users", f"{users:,} users"], body)]


def _randomizers(rows: list[dict[str, Any]], epsilon: float) -> list[str]:
    users = sorted(row["users"] for row in rows)
    text = (
        f"Every randomizer at ε = {epsilon:g}, user by user from the words to the estimate, over "
        f"an array of {users[0]:,} to {users[-1]:,} users (fewer where a user takes more draws), "
        "against the sum of its random words or normals and no more, in turn. The size is k of "
        "bins, d of vectors."
    )
    header = ["randomizer", "size", "users a second", "ns a user", "limit, ns a user", "share"]
    body = [
        [
            f"`{row['name']}`",
            str(row["size"]) if row["size"] else "number",
            f"{row['users_per_second']:,}",
            f"{row['ours_ns']:.1f}",
            f"{row['limit_ns']:.1f}, {row['draws']} {row['limit']}",
            f"{row['share']:.0%}",
        ]
        for row in rows
    ]
    why = dict.fromkeys((row["name"], row["reason"]) for row in rows if not row["met"])
    reasons = "\n".join(f"* `{name}`: {reason}" for name, reason in why)
    parts = [text, _table(header, body)]
    return [*parts, "Why some reach less than half:", reasons] if why else parts


def _tallies(rows: list[dict[str, Any]]) -> list[str]:
    users = f"{rows[0]['users']:,}"
    text = f"Exact tallies of {users} users, milliseconds a trial (fastest in brackets)"
    if "trials" in rows[0]:  # results of before 28 November are of calls of 4
        text += " of a call with 64 trials, or with 4 where that would take more than 20 seconds"
    text += "."
    body = [
        [
            f"`{row['name']}`",
            str(row["size"]) if row["size"] else "number",
            f"{row['inputs']:,}",
            f"{row['median_ms']:,.2f} ({row['min_ms']:,.2f})",
        ]
        for row in rows
    ]
    return [text, _table(["randomizer", "size", "distinct inputs", "ms a trial"], body)]


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _end_to_end(rows: list[dict[str, Any]], num_values: list[int]) -> str:
    cells = {(row["name"], row["num_values"]): row for row in rows}
    names = list(dict.fromkeys(row["name"] for row in rows))
    body = [[name, *(_cell(cells[name, k]) for k in num_values)] for name in names]
    return _table(["", *(f"k = {k}" for k in num_values)], body)


def _cell(row: dict[str, Any]) -> str:
    if "error" in row:
        return "not there"
    return f"{row['median_ns']:,.2f} ({row['min_ns']:,.2f})"


def _kernels(rows: list[dict[str, Any]]) -> str:
    body = [
        [
            f"`{row['kernel']}`, {row['arguments']}, {row['items']:,} × {row['unit']}",
            f"{row['ours_ns']:.2f}",
            f"{row['baseline_ns']:.2f}",
            row["baseline"],
        ]
        for row in rows
    ]
    return _table(["kernel, ns an item", "ours", "other", "what the other is"], body)


def _aims(rows: list[dict[str, Any]]) -> str:
    body = [
        [
            row["aim"],
            "" if row["num_values"] is None else str(row["num_values"]),
            _amount(row["measured"]),
            "yes" if row["met"] else "no",
        ]
        for row in rows
    ]
    return _table(["aim", "k", "measured", "met"], body)


def _amount(value: float | None) -> str:
    if value is None:
        return "not measured"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def _device(results: dict[str, Any]) -> str:
    """The tables of a run on a device: what was measured part by part, and the tests."""
    machine, rows = results["machine"], results["rows"]
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    dates = sorted({row["date"] for row in rows})
    sources = ", ".join(sorted({row["source"] for row in rows}))
    when = " to ".join(dict.fromkeys(dates[:1] + dates[-1:]))
    parts = [
        f"{when}; {results['device']}; {machine['cpu']}, {machine['cores']} cores; {versions}; "
        f"code {sources}." + (" Tiny sizes: these times mean nothing." if results["quick"] else "")
    ]
    names = list(dict.fromkeys(row["part"] for row in rows))
    for name in names:
        measured = [row for row in rows if row["part"] == name and "outcome" not in row]
        if measured:
            header = ["time", "limit", "share", "first call", "compiled", "remarks"]
            cells = [[row["name"], *cells_of(row)] for row in measured]
            parts.append(_table([name, *header], cells))
    tests = [row for row in rows if "outcome" in row]
    return "\n\n".join(parts + (_tests(tests) if tests else [])) + "\n"


def cells_of(row: dict[str, Any]) -> list[str]:
    """What was measured: time, limit, share, first call, compilation, remarks."""
    return [
        f"{duration(row['seconds'])} a {row['unit']}" if "seconds" in row else "",
        f"{duration(row['limit_s'])}, {row['limit']}" if "limit" in row else "",
        f"{row['share']:.2g}" if "share" in row else "",
        duration(row["first_s"]) if "first_s" in row else "",
        f"{row['programs']} in {duration(row['compile_s'])}" if "programs" in row else "",
        remarks(row),
    ]


def line(row: dict[str, Any]) -> str:
    """What was measured, in one line."""
    time, limit, share, first, compiled, said = cells_of(row)
    share = f"{share} of the limit, {limit}" if share else ""
    first = f"first call {first}, compiled {compiled}" if first else ""
    return "; ".join(text for text in (time, share, first, said) if text)


def remarks(row: dict[str, Any]) -> str:
    """What else a row says: whether bits are right, how a solver ended, what went wrong."""
    found = []
    if "equal" in row:
        found.append("the CPU's bits" if row["equal"] else "OTHER BITS than the CPU's")
    if not row.get("same_bits", True):
        found.append("OTHER BITS in the second call")
    if "gap" in row:
        found.append(f"gap {row['gap']:.1e} after {row['steps']} steps")
    if row.get("bound"):
        found.append("at most, too short to tell")
    for name in ("message", "refused", "reason"):
        if name in row:
            found.append(f"refused: {row[name]}" if name == "refused" else row[name])
    if "error" in row:
        found.append(f"ERROR {row['error']}")
    return "; ".join(found).replace("|", "\\|")


def is_wrong(row: dict[str, Any]) -> bool:
    """Whether a row tells of a failure."""
    right = row.get("equal", True) and row.get("same_bits", True)
    return not right or "error" in row or row.get("outcome") == "failed"


def _tests(rows: list[dict[str, Any]]) -> list[str]:
    """How many tests passed in each slice, and by name those that failed or were skipped."""
    outcomes = ("passed", "failed", "skipped")
    body = []
    for name in dict.fromkeys(row["part"] for row in rows):
        mine = [row for row in rows if row["part"] == name]
        numbers = [
            sum(row.get("tests", 1) for row in mine if row["outcome"] == o) for o in outcomes
        ]
        body.append([name, *map(str, numbers), f"{sum(row['seconds'] for row in mine):.0f}"])
    parts = [_table(["tests", *outcomes, "seconds"], body)]
    for outcome in outcomes[1:]:
        reasons: dict[str, list[str]] = {}
        for row in rows:
            if row["outcome"] == outcome:
                reasons.setdefault(remarks(row), []).append(f"`{row['name']}`")
        if reasons:
            lines = [f"* {reason}: {', '.join(names)}" for reason, names in reasons.items()]
            parts.append(f"{outcome.capitalize()}:\n\n" + "\n".join(lines))
    return parts


def duration(seconds: float) -> str:
    """Seconds in a readable unit."""
    units = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"), (1e-12, "ps"))
    size, unit = next((u for u in units if seconds >= u[0]), units[-1])
    return f"{seconds / size:.3g} {unit}"
