"""Programs that rounds share: those of up to a power of two of bins, and those of all sizes."""

import threading

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp.pairwise import GiniMeanDifference, QuantizedRR
from jaxdp.randomizers import (
    KRR,
    HadamardBit,
    HadamardResponse,
    SubsetSelection,
    UnaryEncoding,
)
from tests.marks import slow

PROTOCOLS = {
    "krr": KRR,
    "unary": UnaryEncoding,
    "hadamard-bit": HadamardBit,
    "hadamard-response": lambda k, e: HadamardResponse(k, e, num_blocks=2),
    "subset": lambda k, e: SubsetSelection(k, e, subset_size=max(k // 4, 1)),
    "quantized": lambda k, e: QuantizedRR(GiniMeanDifference(), e, k),
}


def test_estimates_are_compiled_beside_draws(key, count_compilations):
    """By another thread, for the call that follows: there is one compilation."""
    users = jaxdp.Population.from_histogram(np.arange(211))
    with count_compilations() as seen:
        jaxdp.simulate(KRR(211, 1.0), users, key, num_trials=3, method="tally")
    compiled = zip(seen.compiled, seen.threads, strict=True)
    (thread,) = [at for name, at in compiled if name == "_finish_trials"]
    assert thread != threading.get_ident()


@pytest.mark.parametrize("name", [slow(n) if n == "subset" else n for n in PROTOCOLS])
def test_the_next_number_of_values_has_the_programs_of_the_last(name, key, count_compilations):
    """What is compiled for it is the estimate alone; and trials are those of `run`."""
    for k in (9, 11):
        protocol = PROTOCOLS[name](k, 1.0)
        users = jaxdp.Population.from_histogram(np.arange(k) * 10**6 + 50)
        with count_compilations() as seen:
            trials = jaxdp.simulate(protocol, users, key, num_trials=3, method="tally")
    assert seen.compiled == ["_finish_trials"]
    own = jaxdp.run(protocol, users, jax.random.fold_in(key, 2), method="tally")
    np.testing.assert_allclose(trials.estimates[2], own, rtol=1e-12)


DRAWN = [name for name in PROTOCOLS if name != "quantized"]


SIZES = [(name, k) for name in DRAWN for k in (2, 5, 64, 300 if name == "subset" else 2048)]


@pytest.mark.parametrize(
    ("name", "k"), [slow(n, k) if n == "subset" or k in (2, 64) else (n, k) for n, k in SIZES]
)
def test_padded_rounds_draw_the_same_tallies(name, k, key):
    own = PROTOCOLS[name](k, 2.5 if k < 100 else 6.0).build()
    assert own.law is not None
    padded = own.law.padded
    counts = np.arange(k) * 10**7
    longer = np.pad(counts, (0, padded.round.num_bins - k))
    tally = padded.cut(padded.round.sample_tally(key, jaxdp.random.Count.of(longer)))
    expected = own.sample_tally(key, jaxdp.random.Count.of(counts))
    same = jax.tree.map(lambda x, y: bool((x == y).all()), tally, expected)
    assert all(jax.tree.leaves(same))


@pytest.mark.parametrize("name", DRAWN)
def test_binomials_of_more_values_are_drawn_in_parts(name):
    own = PROTOCOLS[name](5000, 6.0).build()
    assert own.law is not None
    assert own.law.padded is None


SHARED = {
    "subset of 1": lambda: SubsetSelection(70, 1.0, subset_size=1),
    "subset of 2": lambda: SubsetSelection(70, 1.0, subset_size=2),
    "subset of 9": lambda: SubsetSelection(20, 1.0, subset_size=9),
    "subset of all but one": lambda: SubsetSelection(33, 1.0, subset_size=32),
    "subset of many values": lambda: SubsetSelection(4096, 1.0, subset_size=11),
    "one block": lambda: HadamardResponse(7, 1.0, num_blocks=1),
    "blocks of two rows": lambda: HadamardResponse(7, 1.0, num_blocks=4),
    "two words": lambda: HadamardResponse(300, 1.0, num_blocks=2),
}


@pytest.mark.parametrize(
    "name", [name if name in ("subset of 9", "one block") else slow(name) for name in SHARED]
)
def test_shared_rounds_make_the_same_reports(name, key):
    """Three tiles of users and some more; `run` plays the round itself."""
    spec = SHARED[name]()
    assert spec.built.shared is not None
    counts = np.full(spec.num_values, 6500 // spec.num_values + 1)
    users = jaxdp.Population.from_histogram(counts)
    seen = []
    found = jaxdp.simulate(spec, users, key, num_trials=2, method="per_user").estimates
    for trial in range(2):
        own = jax.random.fold_in(key, trial)
        seen.append(jaxdp.run(spec, users, own, method="per_user"))
    np.testing.assert_array_equal(found, seen)
