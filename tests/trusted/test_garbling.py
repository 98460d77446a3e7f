"""The garbled circuits of `experiments/bell_appendix_c2.py`: gates, laws, a real computation."""

import itertools
import math
from fractions import Fraction

import jax
import numpy as np
import pytest

from jaxdp.pairwise import GiniMeanDifference
from jaxdp.randomizers import KRR, DiscreteLaplace
from jaxdp.trusted import PairSampling
from jaxdp_experiments import _garbling
from jaxdp_experiments._garbling import Circuit, bits_of, compute, number_of
from jaxdp_experiments.bell_appendix_c2 import (
    EXPERIMENT,
    Gates,
    bit_thresholds,
    cells,
    comparison,
    difference,
    figure,
    geometric_difference,
)


def in_clear(circuit, garbler, evaluator):
    """The output numbers of arrays of input numbers, each given with its bits: (array, width)."""

    def spread(numbers):
        return [(value >> i & 1).astype(bool) for value, width in numbers for i in range(width)]

    outputs = circuit.evaluate(spread(garbler), spread(evaluator))
    return sum(np.asarray(bit).astype(np.int64) << i for i, bit in enumerate(outputs))


def ascending(params):
    """The numbers of words with noise of at least D, .., 1."""
    return tuple(int(t) for t in np.asarray(params.tails)[::-1])


def noisy(number, word, thresholds, word_bits):
    """A number plus discrete Laplace noise, clamped: as many steps as thresholds above a word."""
    mirrored = 2**word_bits - 1 - word
    size = len(thresholds) - np.searchsorted(thresholds, np.minimum(word, mirrored), side="right")
    return np.clip(number + np.where(word < mirrored, size, -size), 0, len(thresholds))


def grid(*sizes):
    return np.meshgrid(*(np.arange(size) for size in sizes), indexing="ij")


@pytest.mark.parametrize("k", [1, 4])
def test_kernels_of_all_numbers(k):
    x, y = grid(2**k, 2**k)
    np.testing.assert_array_equal(in_clear(comparison(k), [(x, k)], [(y, k)]), x < y)
    np.testing.assert_array_equal(in_clear(difference(k), [(x, k)], [(y, k)]), abs(x - y))


@pytest.mark.parametrize("k", [8, 32, 64])
def test_gates_are_those_of_the_appendix(k):
    """A comparison; a subtraction and a summation, whose last carry is not needed."""
    assert comparison(k).num_ands == k
    assert difference(k).num_ands == 2 * k - 1
    assert comparison(k, keep=2**31 + 1).num_ands <= k + 31
    assert Gates("|x - y|", k, "geometric", 1.0).circuit().num_ands <= 67 * (k + 5)


def test_counting_and_limits():
    for size in range(1, 16):
        circuit = Circuit()
        circuit.outputs = circuit.count(circuit.input("garbler", size))
        (numbers,) = grid(2**size)
        found = in_clear(circuit, [(numbers, size)], [])
        np.testing.assert_array_equal(found, np.bitwise_count(numbers))
    for limit in range(-1, 10):
        circuit = Circuit()
        circuit.outputs = [circuit.below(circuit.input("garbler", 3), limit)]
        (numbers,) = grid(8)
        found = np.broadcast_to(in_clear(circuit, [(numbers, 3)], []), 8)
        np.testing.assert_array_equal(found, numbers < limit)


def test_randomized_response_has_the_simulated_law():
    """All inputs of two bits and all words of eight: the reports of `KRR`, word by word."""
    spec = KRR(2, 1.0)
    params = spec.build(word_bits=8)
    x, y, word = grid(4, 4, 256)
    zero = np.zeros_like(word)
    circuit = comparison(2, int(params.threshold), word_bits=8)
    found = in_clear(circuit, [(x, 2), (word, 8)], [(y, 2), (zero, 8)])
    reports = jax.vmap(params.from_bits)(
        word.ravel().astype(np.uint32)[:, None], (x < y).ravel().astype(np.int32)
    )
    np.testing.assert_array_equal(found.ravel(), reports)
    told = Fraction(int((found == (x < y))[0, 0].sum()), 256)
    assert told == spec.channel(word_bits=8)[0][0]


@pytest.mark.parametrize("k", [2, 3])
def test_laplace_noise_has_the_simulated_law(k):
    """All inputs and all words of eight bits: the channel of `DiscreteLaplace`, exactly."""
    size = 2**k
    spec = DiscreteLaplace(0, size - 1, 2.0)
    params = spec.build(word_bits=8)
    x, y, word = grid(size, size, 256)
    zero = np.zeros_like(word)
    thresholds = ascending(params)
    circuit = difference(k, thresholds, word_bits=8)
    found = in_clear(circuit, [(x, k), (word, 8)], [(y, k), (zero, 8)])
    np.testing.assert_array_equal(found, noisy(abs(x - y), word, thresholds, 8))
    channel = spec.channel(word_bits=8)
    for value in range(size):
        counts = np.bincount(found[value, 0], minlength=size)
        assert [Fraction(int(c), 256) for c in counts] == channel[value]


def test_geometric_noise_has_its_law():
    """Words of four bits, two of them a number: all 65,536 give the product law of the bits."""
    limits = bit_thresholds(0.8, 2, word_bits=4)
    circuit = geometric_difference(2, limits, word_bits=4)
    (words,) = grid(2**16)
    three, one, zero = (np.full_like(words, v) for v in (3, 1, 0))
    found = in_clear(circuit, [(three, 2), (words, 16)], [(one, 2), (zero, 16)])
    width = len(circuit.outputs)
    found = np.where(found >= 2 ** (width - 1), found - 2**width, found) - 2

    def chance(number):
        parts = [(t if number >> j & 1 else 16 - t) for j, t in enumerate(limits)]
        return Fraction(math.prod(parts), 16**2)

    law = {}
    for up, down in itertools.product(range(4), repeat=2):
        law[up - down] = law.get(up - down, 0) + chance(up) * chance(down)
    for noise, p in law.items():
        assert Fraction(int((found == noise).sum()), 2**16) == p


def test_the_bits_of_a_geometric_number_are_independent():
    """With fine words the product of the bits' laws is the geometric law, cut at 2**L."""
    decay, size = 0.3, 5
    shares = [t / 2**32 for t in bit_thresholds(decay, size)]
    for number in range(2**size):
        parts = [s if number >> j & 1 else 1 - s for j, s in enumerate(shares)]
        total = (1 - math.exp(-decay * 2**size)) / (1 - math.exp(-decay))
        assert math.prod(parts) == pytest.approx(math.exp(-decay * number) / total, rel=1e-7)


def test_garbled_pairs_report_what_simulated_pairs_do(rng):
    """Real computations, with oblivious transfers: their reports, word by word."""
    pytest.importorskip("cryptography")
    protocol = PairSampling(GiniMeanDifference(), 3.0, num_values=4, noise="discrete_laplace")
    pair = protocol.build().pair
    thresholds = ascending(pair.inner)
    circuit = difference(2, thresholds)
    differ = 0
    for number in range(8):
        x, y = (int(v) for v in rng.integers(4, size=2))
        mine, yours = (int(v) for v in rng.integers(2**32, size=2))
        inputs = [bits_of(v, 2) + bits_of(w, 32) for v, w in ((x, mine), (y, yours))]
        found = number_of(compute(circuit, *inputs, dealer=number > 0).outputs)
        assert found == noisy(abs(x - y), np.int64(mine ^ yours), thresholds, 32)
        differ += found != abs(x - y)
    assert differ > 0  # with probability 1 - 0.4**8


def test_a_wrong_label_opens_nothing():
    """Flip a bit of every garbled gate: the outputs get labels that the garbler never made."""
    pytest.importorskip("cryptography")
    circuit, key = difference(8), bytes(16)
    wrong = 0
    for _ in range(20):
        zero, offset, table = _garbling.garble(circuit, key)
        labels = {
            wire: zero[wire] ^ (offset if number % 3 else 0)
            for number, wire in enumerate(circuit.inputs["garbler"] + circuit.inputs["evaluator"])
        }
        right = _garbling.evaluate(circuit, labels, table, key)
        broken = [(first ^ 1, second ^ 1) for first, second in table]
        other = _garbling.evaluate(circuit, labels, broken, key)
        for wire in circuit.outputs:
            assert right[wire] in (zero[wire], zero[wire] ^ offset)
        wrong += any(
            other[wire] not in (zero[wire], zero[wire] ^ offset) for wire in circuit.outputs
        )
    assert wrong == 20


@pytest.mark.slow
def test_rows_and_figure():
    pytest.importorskip("cryptography")
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("matplotlib")
    found = [row for cell in cells(EXPERIMENT.quick) for row in cell.rows()]
    for row in found:
        assert row["gate_bytes"] == 32 * row["ands"]
        assert row["paper"] is None or 0 <= row["paper"] - row["ands"] <= 1
    assert len(figure(pa.Table.from_pylist(found)).axes) == 1
