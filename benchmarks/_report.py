"""Results as JSON, and the tables made of them."""

import datetime
import json
import pathlib
from typing import Any

RESULTS = pathlib.Path(__file__).parent / "results"


def today() -> str:
    """The date that results bear, in UTC."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def save(results: dict[str, Any], path: pathlib.Path) -> None:
    """Writes results as JSON, and beside them, as .md, the tables that the docs include."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n")
    path.with_suffix(".md").write_text(markdown(results))


def markdown(results: dict[str, Any]) -> str:
    """The tables of a throughput run."""
    machine, settings = results["machine"], results["settings"]
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    tally = results["tally"]
    parts = [
        f"{results['date']}; {machine['cpu']}, {machine['cores']} cores, load "
        f"{machine['load_before']:.1f} before the run; device of jax: {machine['device']}; "
        f"{versions}.",
        f"Nanoseconds a user of `KRR` at ε = {settings['epsilon']:g}, from the words to the "
        f"estimate, over {settings['users']:,} users: median of {settings['repeats']} interleaved "
        f"runs (fastest in brackets). Libraries that loop: {settings['loop_users']:,} users.",
        _end_to_end(results["end_to_end"], settings["num_values"]),
        f'`method="tally"`, {tally["users"]:,} users, k = {tally["num_values"]}: '
        f"{tally['median_ms']:.3f} ms a trial (fastest {tally['min_ms']:.3f}) in a batch of "
        f"{tally['trials']:,}.",
        _kernels(results["kernels"]),
    ]
    if results["aims"]:
        parts.append(_aims(results["aims"]))
    return "\n\n".join(parts) + "\n"


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
        return "does not import"
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
            str(row["num_values"]),
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
