"""Tallies of bins are drawn by programs that serve every number of bins up to a power of two."""

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

PROTOCOLS = {
    "krr": KRR,
    "unary": UnaryEncoding,
    "hadamard-bit": HadamardBit,
    "hadamard-response": lambda k, e: HadamardResponse(k, e, num_blocks=2),
    "subset": lambda k, e: SubsetSelection(k, e, subset_size=max(k // 4, 1)),
    "quantized": lambda k, e: QuantizedRR(GiniMeanDifference(), e, k),
}


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_next_number_of_values_has_the_programs_of_the_last(name, key, count_compilations):
    """What is compiled for it is the estimate alone; and trials are those of `run`."""
    for k in (9, 11, 13):
        protocol = PROTOCOLS[name](k, 1.0)
        users = jaxdp.Population.from_histogram(np.arange(k) * 10**6 + 50)
        with count_compilations() as seen:
            trials = jaxdp.simulate(protocol, users, key, num_trials=3, method="tally")
        if k > 9:
            assert seen.compiled == ["_finish_trials"]
        own = jaxdp.run(protocol, users, jax.random.fold_in(key, 2), method="tally")
        np.testing.assert_allclose(trials.estimates[2], own, rtol=1e-12)


@pytest.mark.parametrize("name", ["krr", "unary", "hadamard-bit", "hadamard-response", "subset"])
def test_padded_rounds_draw_the_same_tallies(name, key):
    for k in (2, 5, 64, 2048 if name != "subset" else 300, 5000):
        own = PROTOCOLS[name](k, 2.5 if k < 100 else 6.0).build()
        assert own.law is not None
        padded = own.law.padded
        if k == 5000:
            assert padded is None  # binomials of more values are drawn in parts
            continue
        counts = np.arange(k) * 10**7
        longer = np.pad(counts, (0, padded.round.num_bins - k))
        tally = padded.cut(padded.round.sample_tally(key, jaxdp.random.Count.of(longer)))
        expected = own.sample_tally(key, jaxdp.random.Count.of(counts))
        same = jax.tree.map(lambda x, y: bool((x == y).all()), tally, expected)
        assert all(jax.tree.leaves(same))
