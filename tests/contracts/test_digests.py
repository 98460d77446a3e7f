"""Results for a key are part of the interface: those of every member are stored, path by path.

Of one run with three tiles of users, the tally; of the trials that the checks of laws simulate, the
estimates, which `test_checks` compares where they are simulated. Where a change to them is meant,
`python -m tests.contracts.test_digests NAME ..` writes those of some members anew, and without a
name those of all; the CHANGELOG then says what changed for a key, and why. Those of a new member
are stored before it is released.
"""

import hashlib
import json
import os
import pathlib
import sys
from collections.abc import Callable

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp._contract import Work
from jaxdp.engine import outcome
from jaxdp.testing import Subject
from tests.contracts.case import FEW
from tests.contracts.registry import PATHS, PROTOCOLS

STORED = pathlib.Path(__file__).with_name("digests.json")
TRIALS = pathlib.Path(__file__).with_name("trials.json")
SHOWN = 3  # numbers of an estimate that are stored


def population_of(case, independent: bool) -> jaxdp.Population:
    """Three tiles of users and a few more, or as many as the member takes."""
    counts = np.array(case.counts)
    counts *= max(6500 // counts.sum(), 1) if case.any_size else 1
    if independent:
        size = int(counts.sum())
        return jaxdp.Population.from_distribution(counts / size, size, case.inputs)
    return jaxdp.Population.from_histogram(counts, case.inputs)


def _values(param) -> tuple:
    return param.values


def draws_independent(subject: Subject) -> bool:
    """Whether the tally of independent users is drawn without their counts, in some round."""
    steps = subject.params.rounds(Work(float(subject.counts.sum()), len(subject.counts)))
    laws = [step.round.law for step in steps]
    return any(law is not None and law.independent is not None for law in laws)


def paths_of_independent_users() -> list:
    """The members whose tallies of independent users are drawn without their counts."""
    names = [name.partition("independent-")[2] for name in json.loads(STORED.read_text())]
    return [
        pytest.param(case, "independent", id=f"independent-{case.name}")
        for case in PROTOCOLS
        if case.name in names
    ]


def digest(case, method) -> dict:
    """The integers of an outcome as a hash, and the first numbers of the estimate."""
    spec, key = case.make(1.0), jax.random.key(2026)
    population = population_of(case, method == "independent")
    method = "tally" if method == "independent" else method
    leaves = jax.tree.leaves(outcome(spec, population, key, method=method))
    integers = [np.asarray(leaf) for leaf in leaves if np.asarray(leaf).dtype.kind in "iu"]
    text = hashlib.sha256()
    for leaf in integers:
        text.update(str(leaf.shape).encode() + leaf.astype(np.int64).tobytes())
    estimate = np.ravel(jaxdp.run(spec, population, key, method=method))
    shown = [float(f"{x:.7g}") for x in estimate[:SHOWN]]
    return {"tally": text.hexdigest()[:16] if integers else None, "estimate": shown}


def trials(case, method) -> np.ndarray:
    """The estimates that the checks of laws share by default, [trials, numbers]."""
    return case.subject(1.0, FEW).simulated(method).estimates.reshape(FEW, -1)


def weighted(estimates: np.ndarray) -> float:
    """A sum over all trials and numbers with weights that differ, so that none can be swapped."""
    return float(np.vdot(np.cos(np.arange(estimates.size)), estimates))


def _stored(path: pathlib.Path, case, method) -> dict:
    table = json.loads(path.read_text())
    if f"{method}-{case.name}" not in table:
        pytest.skip("the results of a new member are stored before it is released")
    return table[f"{method}-{case.name}"]


@pytest.mark.slow
def test_all_members_are_stored():
    names = {f"{method}-{case.name}" for case, method in map(_values, PATHS)}
    assert set(json.loads(TRIALS.read_text())) == names
    names |= {f"independent-{case.name}" for case in PROTOCOLS if draws_independent(case.subject())}
    assert set(json.loads(STORED.read_text())) == names


FRAGILE = "three-round", "two-round-budget"
"""Sums of floats, which differ between machines, decide what the last round of these draws."""


def check_trials(case, method) -> None:
    """One report that differs, of one user in one trial, moves the sum by far more than 1e-10."""
    if "JAXDP_TEST_SEED" in os.environ:
        pytest.skip("the stored trials are those of the default seed")
    if method == "tally" and case.name in FRAGILE:
        return
    stored, found = _stored(TRIALS, case, method), trials(case, method)
    close = 1e-4 if case.floats else 1e-10
    first = found[0, :SHOWN]
    np.testing.assert_allclose(first, stored["first"], rtol=1e-4, atol=1e-4 * np.abs(first).max())
    size = np.abs(found).sum()
    np.testing.assert_allclose(weighted(found), stored["sum"], rtol=0, atol=close * size)


@pytest.mark.parametrize(("case", "method"), PATHS + paths_of_independent_users())
def test_results_for_a_key_are_the_stored_ones(case, method):
    stored, found = _stored(STORED, case, method), digest(case, method)
    close = 1e-4 if case.floats else 1e-6
    size = close * max(map(abs, stored["estimate"]))
    np.testing.assert_allclose(found["estimate"], stored["estimate"], rtol=close, atol=size)
    if not case.floats:
        assert found["tally"] == stored["tally"]


def digest_of_trials(case, method) -> dict:
    """The first numbers of the first trial, and the weighted sum of all."""
    found = trials(case, method)
    return {"first": [float(f"{x:.7g}") for x in found[0, :SHOWN]], "sum": weighted(found)}


def write(path: pathlib.Path, paths: list[tuple], results: Callable[..., dict]) -> None:
    """Stores the results of some paths of members, a line each, and leaves those of others."""
    names = {case.name for case, _ in paths}
    table = json.loads(path.read_text())
    table = {name: x for name, x in table.items() if name.partition("-")[2] not in names}
    table |= {f"{method}-{case.name}": results(case, method) for case, method in paths}
    lines = [f"  {json.dumps(name)}: {json.dumps(table[name])}" for name in sorted(table)]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    given = set(sys.argv[1:]) or {case.name for case in PROTOCOLS}
    if missing := given - {case.name for case in PROTOCOLS}:
        sys.exit(f"no such members: {sorted(missing)}")
    chosen = [(case, method) for case, method in map(_values, PATHS) if case.name in given]
    write(TRIALS, chosen, digest_of_trials)
    chosen += [
        (case, "independent")
        for case in PROTOCOLS
        if case.name in given and draws_independent(case.subject())
    ]
    write(STORED, chosen, digest)
