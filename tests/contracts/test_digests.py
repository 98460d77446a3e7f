"""Results for a key are part of the interface: those of every member are stored, path by path.

Where a change to them is meant, `python -m tests.contracts.test_digests` writes them anew; the
CHANGELOG then says what changed for a key, and why. Those of a new member are stored before it is
released.
"""

import hashlib
import json
import pathlib

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp.engine import outcome
from tests.contracts.registry import PATHS

STORED = pathlib.Path(__file__).with_name("digests.json")
SHOWN = 3  # numbers of an estimate that are stored


def population_of(case) -> jaxdp.Population:
    """Three tiles of users and a few more, or as many as the member takes."""
    counts = np.array(case.counts)
    scale = max(6500 // counts.sum(), 1) if case.any_size else 1
    return jaxdp.Population.from_histogram(counts * scale, case.inputs)


def _values(param) -> tuple:
    return param.values


def digest(case, method) -> dict:
    """The integers of an outcome as a hash, and the first numbers of the estimate."""
    spec, population, key = case.make(1.0), population_of(case), jax.random.key(2026)
    leaves = jax.tree.leaves(outcome(spec, population, key, method=method))
    integers = [np.asarray(leaf) for leaf in leaves if np.asarray(leaf).dtype.kind in "iu"]
    text = hashlib.sha256()
    for leaf in integers:
        text.update(str(leaf.shape).encode() + leaf.astype(np.int64).tobytes())
    estimate = np.ravel(jaxdp.run(spec, population, key, method=method))
    shown = [float(f"{x:.7g}") for x in estimate[:SHOWN]]
    return {"tally": text.hexdigest()[:16] if integers else None, "estimate": shown}


def _stored() -> dict:
    return json.loads(STORED.read_text())


@pytest.mark.slow
def test_all_members_are_stored():
    assert set(_stored()) == {f"{method}-{case.name}" for case, method in map(_values, PATHS)}


@pytest.mark.parametrize(("case", "method"), PATHS)
def test_results_for_a_key_are_the_stored_ones(case, method):
    stored, found = _stored().get(f"{method}-{case.name}"), digest(case, method)
    if stored is None:
        pytest.skip("the results of a new member are stored before it is released")
    close = 1e-4 if case.floats else 1e-6
    size = close * max(map(abs, stored["estimate"]))
    np.testing.assert_allclose(found["estimate"], stored["estimate"], rtol=close, atol=size)
    if not case.floats:
        assert found["tally"] == stored["tally"]


if __name__ == "__main__":
    cases = [_values(param) for param in PATHS]
    table = {f"{method}-{case.name}": digest(case, method) for case, method in cases}
    lines = [f"  {json.dumps(name)}: {json.dumps(table[name])}" for name in sorted(table)]
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
