"""`python -m benchmarks.throughput`: users a second, against the limit and other means.

Everything in a row was measured in one run, in turn. On an idle machine with two cores all of it
takes some minutes; `--only` measures a part and writes no file unless told where.
"""

import argparse
import dataclasses
import functools
import importlib
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxdp
from jaxdp.randomizers import KRR, AffineHashing, LocalHashing
from jaxdp_kernels import OPERATIONS

from . import _native, _randomizers, _report, _rivals, _timing

EPSILON = 1.0
OURS = ("array", "histogram", "distribution")
BY_HAND = "C++ by hand"
PARTS = ("krr", "hashing", "randomizers", "tally", "kernels")
JOB = 1_139_000_000, 266
"""Users and values of a simulation of local hashing that others gave up for its loops."""

HASHING_AIMS = {
    "`LocalHashing`, per_user": 40,
    "`AffineHashing`, per_user": 6,
    "`AffineHashing`, tally": 0.1,
}
"""Seconds of all users of `JOB`."""


@dataclasses.dataclass(frozen=True)
class Sizes:
    """How much is measured.

    Attributes:
      users: users of a run, a power of two.
      num_values: the k to go through.
      repeats: timed runs of each candidate.
      loop_users: users of the libraries that go user by user.
      hashing_users: users of local hashing, a power of two; one in 512 of the libraries.
      trials: trials of the batch of tallies of `KRR`.
      names: the randomizers to go through; None for all.
      num_bins: their k.
      dims: their d.
      each_draws: words or normals of a run of each of them, roughly; a power of two.
      tally: (users, k, d, distinct inputs) of their tallies.
      seconds: for each of them and each size.
    """

    users: int = 2**24
    num_values: tuple[int, ...] = (2, 16, 256, 4096)
    repeats: int = 9
    loop_users: int = 2**16
    hashing_users: int = 2**21
    trials: int = 1000
    names: tuple[str, ...] | None = None
    num_bins: tuple[int, ...] = (16, 128)
    dims: tuple[int, ...] = (1, 64)
    each_draws: int = 2**24
    tally: tuple[int, int, int, int] = (10**6, 1024, 64, 1000)
    seconds: float = 3.0


QUICK = Sizes(
    users=2**12,
    num_values=(2,),
    repeats=1,
    loop_users=2**8,
    hashing_users=2**11,
    trials=2,
    names=("KRR", "Gaussian"),
    num_bins=(16,),
    dims=(4,),
    each_draws=2**12,
    tally=(1000, 16, 4, 10),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, prints the tables and writes them with the JSON."""
    options = _parser().parse_args(arguments)
    full = Sizes(users=options.users, repeats=options.repeats)
    parts = (options.only,) if options.only else PARTS
    results = measure(QUICK if options.quick else full, parts)
    print(_report.markdown(results))
    if options.out or not options.only:
        _report.save(results, options.out or _report.RESULTS / f"{results['date']}-cpu.json")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.throughput", description=__doc__)
    parser.add_argument("--users", type=_power_of_two, default=Sizes.users, help="a power of two")
    parser.add_argument(
        "--repeats", type=int, default=Sizes.repeats, help="timed runs of each candidate"
    )
    parser.add_argument("--only", choices=PARTS, help="measure this part alone")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it run at all?")
    parser.add_argument("--out", type=pathlib.Path, help="JSON file; its table goes beside it")
    return parser


def _power_of_two(text: str) -> int:
    value = int(text)
    if value < 2 or value & (value - 1) or value > 2**30:
        raise argparse.ArgumentTypeError(f"must be a power of two in [2, 2**30], got {value}")
    return value


def measure(sizes: Sizes, parts: Sequence[str]) -> dict[str, Any]:
    """All measurements of one run.

    Args:
      sizes: how much to measure.
      parts: of `PARTS`: `KRR` and local hashing by several means, every randomizer, every exact
        tally, the kernels.

    Returns:
      A dict of plain values, the JSON; a part that was left out has no entry.
    """
    results = {
        "benchmark": "throughput",
        "date": _report.today(),
        "machine": _timing.machine(),
        "versions": _timing.versions(),
        "settings": {
            "users": sizes.users,
            "epsilon": EPSILON,
            "num_values": list(sizes.num_values),
            "repeats": sizes.repeats,
            "loop_users": sizes.loop_users,
        },
    }
    if "krr" in parts:
        results["end_to_end"] = _end_to_end(sizes)
        results["tally"] = tally(sizes.trials, min(sizes.repeats, 5))
    if "hashing" in parts:
        results["hashing"] = hashing(sizes.hashing_users, min(sizes.repeats, 5))
    if "randomizers" in parts:
        settings = _randomizers.settings(sizes.num_bins, sizes.dims, sizes.names)
        results["randomizers"] = _randomizers.per_user(
            settings, sizes.each_draws, sizes.repeats, sizes.seconds
        )
    if "tally" in parts:
        users, k, d, inputs = sizes.tally
        results["tallies"] = _randomizers.tallies(
            _randomizers.settings([k], [d], sizes.names), users, inputs, 3, sizes.seconds
        )
    if "kernels" in parts:
        results["kernels"] = kernels(sizes.repeats, sizes.users)
    results["aims"] = aims(results)
    return results


def _end_to_end(sizes: Sizes) -> list[dict[str, Any]]:
    """`KRR` from the words to the estimate, for each k, by all means."""
    rows = []
    for k in sizes.num_values:
        spec = KRR(num_values=k, epsilon=EPSILON)
        values = np.random.default_rng(k).integers(0, k, sizes.users, dtype=np.int32)
        by_hand = functools.partial(_native.krr, spec, values, 1)
        rows += _timed(candidates(spec, values), by_hand, k, sizes.users, sizes.repeats)
        few = values[: sizes.loop_users].tolist()
        rows += _loops(spec, few, min(sizes.repeats, 3))
    return rows


def candidates(spec: KRR, values: np.ndarray) -> dict[str, Callable[[], Any]]:
    """What is timed over the same users, by name; each call ends with the estimate on the host."""
    k, users = spec.num_values, values.size
    key = jax.random.key(1)
    device_values = jnp.asarray(values)
    populations = (
        jaxdp.Population.from_values(values, num_values=k),
        jaxdp.Population.from_histogram(np.bincount(values, minlength=k)),
        jaxdp.Population.from_distribution(np.full(k, 1 / k), num_users=users),
    )

    def ours(population):
        return lambda: jaxdp.run(spec, population, key, method="per_user")

    def on_jax(one_word):
        return lambda: np.asarray(_rivals.jax_random(spec, device_values, key, one_word))

    found: dict[str, Callable[[], Any]] = {
        "raw words": lambda: np.asarray(_rivals.raw_words(key, users))
    }
    found |= {name: ours(pop) for name, pop in zip(OURS, populations, strict=True)}
    found["jax.random, one word"] = on_jax(True)
    found["jax.random, uniform and randint"] = on_jax(False)
    threads = os.cpu_count() or 1
    found["NumPy"] = lambda: _rivals.numpy_krr(spec, values, 1)
    found["NumPy, a thread a core"] = lambda: _rivals.numpy_krr(spec, values, 1, threads)
    return found


def _timed(
    ours: dict[str, Callable[[], Any]],
    by_hand: Callable[[], Any],
    k: int,
    users: int,
    repeats: int,
) -> list[dict[str, Any]]:
    """Rows of what is timed in turn with the C++, which says why where it is missing."""
    reason = _native.missing()
    found = ours if reason else ours | {BY_HAND: by_hand}
    times = _timing.interleave(found, repeats)
    rows = [_row(name, k, users, time) for name, time in times.items()]
    return [*rows, {"name": BY_HAND, "num_values": k, "error": reason}] if reason else rows


def _row(name: str, k: int, users: int, time: dict[str, float]) -> dict[str, Any]:
    nanoseconds = {f"{which}_ns": seconds / users * 1e9 for which, seconds in time.items()}
    rate = round(users / time["median"])
    row: dict[str, Any] = {"name": name, "num_values": k, "users": users}
    return row | nanoseconds | {"users_per_second": rate}


def hashing(users: int, repeats: int) -> list[dict[str, Any]]:
    """Local hashing of the values of `JOB`: some users one by one, and all of them by a tally."""
    everyone, k = JOB
    key = jax.random.key(3)
    values = np.random.default_rng(k).integers(0, k, users, dtype=np.int32)
    array = jaxdp.Population.from_values(values, num_values=k)
    drawn = jaxdp.Population.from_distribution(np.full(k, 1 / k), num_users=everyone)
    ours = {"LocalHashing": LocalHashing(k, EPSILON), "AffineHashing": AffineHashing(k, EPSILON)}

    def run(spec, population, method):
        return lambda: jaxdp.run(spec, population, key, method=method)

    found = {f"`{name}`, per_user": run(spec, array, "per_user") for name, spec in ours.items()}
    by_hand = functools.partial(_native.local_hashing, values, k, EPSILON, 1)
    rows = _timed(found, by_hand, k, users, repeats)
    few = values[: max(users // 512, 2)].tolist()
    rows += _loops(LocalHashing(k, EPSILON), few, 1, _rivals.HASHING_LOOPS)
    at_once = {f"`AffineHashing`, {way}": way for way in ("tally", "auto")}
    tallies = {name: run(ours["AffineHashing"], drawn, way) for name, way in at_once.items()}
    times = _timing.interleave(tallies, repeats)
    rows += [_row(name, k, everyone, time) for name, time in times.items()]
    for row in rows:
        if "median_ns" in row:
            row["job_s"] = row["median_ns"] * everyone / 1e9
    return rows


def _loops(
    spec: Any,
    values: list[int],
    repeats: int,
    loops: Mapping[str, _rivals.Loop] = _rivals.LOOPS,
) -> list[dict[str, Any]]:
    """The libraries that go user by user; one that does not import says why instead."""
    k, rows, runs = spec.num_values, {}, {}
    for name, make in loops.items():
        try:
            runs[name] = make(spec)
        except ImportError as error:
            rows[name] = {"name": name, "num_values": k, "error": f"does not import: {error}"}
    times = _timing.interleave({n: (lambda f=f: f(values)) for n, f in runs.items()}, repeats)
    rows |= {name: _row(name, k, len(values), time) for name, time in times.items()}
    return [rows[name] for name in loops]


def many_users(num_values: int) -> jaxdp.Population:
    """10^12 users, v + 1 of value v for each of value 0."""
    weights = np.arange(1, num_values + 1)
    counts = 10**12 * weights // weights.sum()
    counts[-1] += 10**12 - counts.sum()
    return jaxdp.Population.from_histogram(counts)


def tally(trials: int, repeats: int, num_values: int = 1024) -> dict[str, Any]:
    """Milliseconds a trial of `simulate` by tallies, with 10^12 users."""
    population = many_users(num_values)
    spec, key = KRR(num_values=num_values, epsilon=EPSILON), jax.random.key(2)

    def batch():
        return jaxdp.simulate(spec, population, key, num_trials=trials, method="tally")

    time = _timing.interleave({"tally": batch}, repeats)["tally"]
    per_trial = {f"{which}_ms": seconds / trials * 1e3 for which, seconds in time.items()}
    return {"users": 10**12, "num_values": num_values, "trials": trials, **per_trial}


def kernels(repeats: int, most: int) -> list[dict[str, Any]]:
    """Nanoseconds of each kernel an item, and of what it is measured against.

    Args:
      repeats: timed runs of each.
      most: items of the largest arguments to time; a kernel's smallest are timed in any case.

    Returns:
      A row for each kernel and its arguments.
    """
    rows = []
    for operation in OPERATIONS:
        bench = importlib.import_module(f"jaxdp_kernels.{operation}.bench")
        cases = sorted(bench.cases(), key=lambda case: case.items)
        for case in [cases[0], *(case for case in cases[1:] if case.items <= most)]:
            both = {"ours": case.ours, "baseline": case.baseline}
            times = _timing.interleave(both, repeats)
            row = {"kernel": operation, "arguments": case.arguments, "items": case.items}
            row |= {"unit": case.unit, "baseline": case.against}
            rows.append(
                row | {f"{who}_ns": t["median"] / case.items * 1e9 for who, t in times.items()}
            )
    return rows


def aims(results: dict[str, Any]) -> list[dict[str, Any]]:
    """What was aimed at on a CPU, what was measured (medians), and whether it was met."""
    found = []

    def judge(aim, k, measured, met):
        ok = measured is not None and bool(met(measured))
        found.append({"aim": aim, "num_values": k, "measured": measured, "met": ok})

    if "end_to_end" in results:
        _judge_krr(results, judge)
    if "hashing" in results:
        users, k = JOB
        job = {row["name"]: row.get("job_s") for row in results["hashing"]}
        for name, most in HASHING_AIMS.items():
            judge(f"{name}, {users:,} users ≤ {most:g} s", k, job[name], lambda x, m=most: x <= m)
    return found


def _judge_krr(results: dict[str, Any], judge: Callable[..., None]) -> None:
    """The aims of `KRR`."""
    rows = results["end_to_end"]
    time: dict[tuple[str, int], Any] = {
        (row["name"], row["num_values"]): row.get("median_ns") for row in rows
    }
    for k in results["settings"]["num_values"]:
        array = time["array", k]

        def against(name, array=array, k=k):
            other = time[name, k]
            return None if other is None else other / array

        judge("array ≤ 2 × raw words", k, array / time["raw words", k], lambda x: x <= 2)
        for name, factor in (
            ("jax.random, one word", 5),
            ("jax.random, uniform and randint", 5),
            ("NumPy", 3),
            *((loop, 1000) for loop in _rivals.LOOPS),
        ):
            aim = f"array ≥ {factor:,} × as fast as {name}"
            judge(aim, k, against(name), lambda x, factor=factor: x >= factor)
        if k >= 16:
            by_hand = time.get((BY_HAND, k))
            ratio = None if by_hand is None else array / by_hand
            judge(f"array ≤ 1.7 × {BY_HAND}", k, ratio, lambda x: x <= 1.7)
        judge("histogram ≤ 5 ns a user", k, time["histogram", k], lambda x: x <= 5)
    one = results["tally"]
    judge("tally < 1 ms a trial", one["num_values"], one["median_ms"], lambda x: x < 1)


if __name__ == "__main__":
    main()
