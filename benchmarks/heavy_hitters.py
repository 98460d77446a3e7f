"""Frequent items found by prefixes, beside the published code of PEM and TreeHist.

    python -m benchmarks.heavy_hitters    # twelve minutes, nearly all of it that of pure-ldp

Prints a Markdown table and writes it, with the machine and the versions, to
benchmarks/results/heavy_hitters/. pure-ldp comes with the extra `bench`; it is the package of
Cormode, Maddock and Maple (2021), Frequency estimation under local differential privacy.
"""

import importlib
import math
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import jaxdp
from jaxdp.linear import HeavyHitters

from ._report import RESULTS, Rows, choose_sections

FOLDER = RESULTS / "heavy_hitters"
BITS, STEP = 12, 4  # of an item, and of what a round adds
HELD, SOUGHT = 200, 8  # items that somebody holds, by Zipf's law, and those that are sought
USERS = 10_000
EPSILONS = (1.0, 2.0, 4.0)
THEIR_TRIALS, OUR_TRIALS = 4, 200

Find = Callable[[float, np.ndarray], set[int]]


def law() -> tuple[np.ndarray, np.ndarray]:
    """The items, the most frequent first, and their frequencies."""
    items = np.random.default_rng(0).choice(2**BITS, HELD, replace=False)
    weights = 1 / np.arange(1, HELD + 1)
    return items, weights / weights.sum()


def pem(epsilon: float, people: np.ndarray) -> set[int]:
    """What pure-ldp's prefix extending method returns, of two rounds of lengths 8 and 12."""
    library = importlib.import_module("pure_ldp.heavy_hitters.prefix_extending")
    arguments = epsilon, STEP, BITS, STEP
    return _found(library.PEMClient(*arguments), library.PEMServer(*arguments), people)


def tree_hist(epsilon: float, people: np.ndarray) -> set[int]:
    """What pure-ldp's TreeHist returns, with half of the budget for the whole item."""
    oracles = importlib.import_module("pure_ldp.frequency_oracles.local_hashing")
    library = importlib.import_module("pure_ldp.heavy_hitters.treehistogram")
    # Its own choice of an oracle does not run in version 1.2.0.
    client = oracles.LHClient(epsilon / 2, 2**BITS, use_olh=True)
    server = oracles.LHServer(epsilon / 2, 2**BITS, use_olh=True)
    return _found(
        library.TreeHistClient(epsilon, STEP, BITS, fo_client=client),
        library.TreeHistServer(epsilon, BITS, STEP, fo_server=server),
        people,
    )


def _found(client: Any, server: Any, people: np.ndarray) -> set[int]:
    for item in people.tolist():
        server.aggregate(client.privatise(format(item, f"0{BITS}b")))
    return {int(text, 2) for text in server.find_heavy_hitters(k=SOUGHT)[0]}


def beside() -> Rows:
    """Recall of the 8 most frequent of 200 items in a domain of 12 bits, 10,000 users.

    ± is one standard error of the trials. PEM and TreeHist are those of pure-ldp, which asks user
    by user; jaxdp draws the tallies of the rounds.
    """
    rows: Rows = []
    for name, find in (("pure-ldp, PEM", pem), ("pure-ldp, TreeHist", tree_hist)):
        try:
            rows.append({"by": name} | _theirs(find))
        except ImportError as error:
            rows.append({"by": name, "ε = 1": f"not installed: {error}"})
    for name, candidates in (("two rounds of 256 candidates", 256), ("one round", 4096)):
        rows.append({"by": f"jaxdp, {name}"} | _ours(candidates))
    return rows


def _theirs(find: Find) -> dict[str, str]:
    items, p = law()
    sought, rng, start = set(items[:SOUGHT].tolist()), np.random.default_rng(1), time.perf_counter()
    row = {}
    for epsilon in EPSILONS:
        recalls = [
            len(sought & find(epsilon, rng.choice(items, USERS, p=p))) / SOUGHT
            for _ in range(THEIR_TRIALS)
        ]
        row[f"ε = {epsilon:g}"] = _shown(np.array(recalls))
    seconds = (time.perf_counter() - start) / (len(EPSILONS) * THEIR_TRIALS)
    return row | {"seconds a trial": f"{seconds:.3g}"}


def _ours(candidates: int) -> dict[str, str]:
    items, p = law()
    row, seconds = {}, []
    for epsilon in EPSILONS:
        protocol = HeavyHitters(
            BITS, epsilon, num_items=SOUGHT, num_kept=2 * SOUGHT, num_candidates=candidates
        )
        words = protocol.encode(items.tolist())
        users = jaxdp.Population.from_distribution(p, USERS, values=words)
        recalls, elapsed = np.zeros(0), 0.0
        for attempt in range(2):  # the first one compiles
            start = time.perf_counter()
            trials = jaxdp.simulate(
                protocol,
                users,
                jax.random.key(attempt),
                num_trials=OUR_TRIALS,
                method="tally",
                truth="population",
            )
            recalls = np.mean(np.asarray(trials.truth) >= p[SOUGHT - 1] * (1 - 1e-6), axis=1)
            elapsed = time.perf_counter() - start
        seconds.append(elapsed / OUR_TRIALS)
        row[f"ε = {epsilon:g}"] = _shown(recalls)
    return row | {"seconds a trial": f"{np.mean(seconds):.3g}"}


def _shown(recalls: np.ndarray) -> str:
    return f"{recalls.mean():.2f} ± {recalls.std(ddof=1) / math.sqrt(len(recalls)):.2f}"


SECTIONS = {"beside": beside}

if __name__ == "__main__":
    choose_sections(__doc__, SECTIONS, FOLDER)
