"""Test vectors for clients: what a collection, words and a value make of a report.

They are the files of `docs/_static/test_vectors`, one a randomizer, for clients in any language;
the README there says what they hold. Here both of ours compute each anew: `from_bits` under jax,
and the program in NumPy, which are compared for many other words as well. Where a change is meant,
`python -m tests.reports.test_vectors NAME ..` writes those of some randomizers anew, and without a
name those of all.
"""

import copy
import functools
import json
import pathlib
import sys
import zlib
from typing import Any

import jax
import numpy as np
import pytest

from jaxdp._contract import round_of
from jaxdp.linear import MarginalQueries
from jaxdp.randomizers import Laplace
from jaxdp.reports import Client, Collection
from jaxdp.reports._interpreter import Program
from jaxdp.reports._lowering import lower
from tests.contracts.case import Case, ids
from tests.contracts.cases.product_means import FEW
from tests.contracts.registry import RANDOMIZERS

FOLDER = pathlib.Path(__file__).parents[2] / "docs" / "_static" / "test_vectors"
NUM_REPORTS = 16
MAX_BYTES = 30_000
LONG = {"rappor-3": 50_000, "gaussian": 60_000}  # 801 instructions, and a table of 39 KB
LABELS = {"krr-5": ("Sonne", "nuages", "grêle", "雪", "fog 🌫")}


def has_reports(case: Case) -> bool:
    params = round_of(case.make(1.0).build())
    return case.private and params is not None and params.report_limits is not None


CASES = tuple(filter(has_reports, RANDOMIZERS))


@functools.lru_cache(maxsize=2)  # the tests of a case follow one another
def collection_of(case: Case) -> Collection:
    return Collection(case.make(1.0), LABELS.get(case.name), f"test vectors of {case.name}")


def words_of(case: Case, num_users: int) -> np.ndarray:
    """The first two users' bits are all 0, and all 1."""
    rng = np.random.Generator(np.random.PCG64(zlib.crc32(case.name.encode())))
    size = (num_users, collection_of(case).params.num_words)
    words = rng.integers(0, 2**32, size, np.uint32)
    words[0], words[1] = 0, 2**32 - 1
    return words


def values_of(case: Case, num_users: int) -> np.ndarray:
    """Bins in turn, or decimals, of which some are beyond the range of the randomizer."""
    num_bins = collection_of(case).params.num_bins
    if num_bins is not None:
        return np.arange(num_users) % num_bins
    rng = np.random.Generator(np.random.PCG64(zlib.crc32(case.name.encode()) + 1))
    given = np.array(case.values)
    others = rng.normal(size=(num_users, *given.shape[1:])) * np.abs(given).max() * 0.6
    return np.round(np.concatenate([given, 3 * given, others])[:num_users], 4)


def reports_of(collection: Collection, words: np.ndarray, values: np.ndarray) -> list[np.ndarray]:
    """The leaves of reports by `from_bits`, [n, ...]."""
    params = collection.params
    kinds, structure = jax.tree.flatten(params.value)
    value = jax.tree.unflatten(structure, [values.astype(kind.dtype) for kind in kinds])
    reports = jax.jit(jax.vmap(params.from_bits))(words, value)
    return [np.asarray(leaf) for leaf in jax.tree.leaves(reports)]


def encoded(document: dict[str, Any], payloads: np.ndarray) -> list[str]:
    header = f"{document['jaxdp_collection']:02x}{document['fingerprint']}"
    return [header + payload.tobytes().hex() for payload in payloads]


def vectors_of(case: Case) -> dict[str, Any]:
    """What is stored of a randomizer."""
    collection = collection_of(case)
    document = collection.document
    words, values = words_of(case, NUM_REPORTS), values_of(case, NUM_REPORTS)
    shown = [collection.labels[v] for v in values] if collection.labels else values.tolist()
    payloads = collection.layout.encode(reports_of(collection, words, values))
    columns = zip(words.tolist(), shown, encoded(document, payloads), strict=True)
    reports = [dict(zip(("words", "value", "report"), row, strict=True)) for row in columns]
    return {"collection": document, "reports": reports}


def wrong(vectors: dict[str, Any]) -> tuple[list[int], list[int]]:
    """The numbers of the reports that `from_bits`, and the program in NumPy, make otherwise."""
    document, reports = vectors["collection"], vectors["reports"]
    collection = Collection.from_json(json.dumps(document))
    words = np.array([each["words"] for each in reports], np.uint32)
    shown = [each["value"] for each in reports]
    labels = collection.labels
    values = np.array([labels.index(label) for label in shown] if labels else shown)
    payloads = collection.layout.encode(reports_of(collection, words, values))
    client = Client(document, {})
    leaf = values.astype(collection.params.value.dtype)
    stored = [each["report"] for each in reports]
    return tuple(
        [i for i, (x, y) in enumerate(zip(stored, made, strict=True)) if x != y]
        for made in (encoded(document, payloads), encoded(document, client.payloads(words, leaf)))
    )


def stored(case: Case) -> dict[str, Any]:
    return json.loads((FOLDER / f"{case.name}.json").read_text(encoding="utf-8"))


def test_every_randomizer_with_reports_has_vectors():
    assert {path.stem for path in FOLDER.glob("*.json")} == {case.name for case in CASES}
    for path in FOLDER.glob("*.json"):
        assert path.stat().st_size < LONG.get(path.stem, MAX_BYTES), path


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_both_clients_make_the_stored_reports(case):
    """The stored program may be one that another version of jax traced."""
    vectors = stored(case)
    collection = collection_of(case)
    assert Collection.from_json(json.dumps(vectors["collection"])) == collection
    assert vectors["collection"]["report"] == collection.layout.to_json()
    assert [each["words"] for each in vectors["reports"]] == words_of(case, NUM_REPORTS).tolist()
    assert wrong(vectors) == ([], [])


def test_a_changed_report_is_seen():
    vectors = copy.deepcopy(stored(CASES[0]))
    report = bytearray.fromhex(vectors["reports"][3]["report"])
    report[-1] ^= 1
    vectors["reports"][3]["report"] = report.hex()
    assert wrong(vectors) == ([3], [3])


def differing(case: Case, num_users: int, epsilon: float = 1.0) -> int:
    """How many users' reports are others under jax and in the program of some epsilon."""
    collection = collection_of(case)
    words, values = words_of(case, num_users), values_of(case, num_users)
    program = Program.from_json(Collection(case.make(epsilon)).document["program"])
    made = program(words, values.astype(collection.params.value.dtype))
    found = np.zeros(num_users, bool)
    for expected, leaf in zip(reports_of(collection, words, values), made, strict=True):
        assert leaf.dtype == expected.dtype
        found |= (leaf != expected).reshape(num_users, -1).any(axis=1)
    return int(found.sum())


def most_differing(case: Case, num_users: int) -> int:
    """None where all is of integers; processors round the last bit of a float otherwise."""
    return 1 + num_users // 100_000 if case.floats else 0


def test_programs_equal_from_bits_of_long_vectors():
    """A norm is added up in one order everywhere: entries are on the same level, whatever runs."""
    params, n = Laplace(1.0, dim=64).built, 20_000
    rng = np.random.default_rng(1)
    words = rng.integers(0, 2**32, (n, params.num_words), np.uint32)
    values = rng.normal(size=(n, 64)).astype(np.float32)
    values /= np.abs(values).sum(axis=1, keepdims=True) * rng.uniform(0.5, 1.2, (n, 1))
    values = values.astype(np.float32)
    (made,) = lower(params, "Laplace")(words, values)
    np.testing.assert_array_equal(made, jax.jit(jax.vmap(params.from_bits))(words, values))


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_programs_equal_from_bits(case):
    assert differing(case, 20_000) <= most_differing(case, 20_000)


def test_programs_equal_from_bits_on_the_sphere():
    """All users' vectors are as long as the radius: what is left of a unit vector is rounding."""
    params = MarginalQueries(3, 2, 1.0, randomizer=FEW).built
    rows = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]], np.float32)
    rng = np.random.default_rng(1)
    words = rng.integers(0, 2**32, (20_000, params.num_words), np.uint32)
    values = rows[rng.integers(4, size=20_000)]
    (made,) = lower(params, "MarginalQueries")(words, values)
    np.testing.assert_array_equal(made, jax.jit(jax.vmap(params.from_bits))(words, values))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=ids)
def test_programs_equal_from_bits_a_million_times(case):
    assert differing(case, 1_000_000) <= most_differing(case, 1_000_000)


def test_a_program_of_another_epsilon_is_seen():
    (case,) = (case for case in CASES if case.name == "laplace-l1")
    assert differing(case, 20_000, epsilon=1.001) > most_differing(case, 20_000)


def write(case: Case) -> None:
    """Stores the vectors of a randomizer, a report a line."""
    vectors = vectors_of(case)
    reports = ",\n".join(f"  {json.dumps(each, ensure_ascii=False)}" for each in vectors["reports"])
    document = json.dumps(vectors["collection"], ensure_ascii=False, sort_keys=True)
    text = f'{{\n"collection": {document},\n"reports": [\n{reports}\n]\n}}\n'
    (FOLDER / f"{case.name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    given = set(sys.argv[1:]) or {case.name for case in CASES}
    if missing := given - {case.name for case in CASES}:
        sys.exit(f"no such randomizers with reports: {sorted(missing)}")
    for case in CASES:
        if case.name in given:
            write(case)
