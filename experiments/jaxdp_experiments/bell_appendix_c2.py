"""Appendix C.2 of Bell et al. (2020), carried out: noisy kernels of pairs as garbled circuits.

`PairSampling` and `AllPairs` simulate an ideal functionality that gives out a randomized kernel
value. Here two parties compute it, of fixed-point numbers of k bits, by the garbled circuits of
`_garbling`; every random word is the XOR of a word of each party, which neither knows, and only the
analyst learns the result. Circuits of both kernels, with noise inside:

  * x < y, of which AUC is made, with randomized response: one word against a public threshold.
  * `|x - y|`, Gini's mean difference, with discrete Laplace noise clamped to the range: one word
    against 2**k - 1 thresholds, for small k. Its law is, exactly, that of the simulated
    `PairSampling(..., noise="discrete_laplace")`, which reads the same numbers from a table.
  * `|x - y|` with two-sided geometric noise for any k: a geometric number has independent bits, the
    j-th being 1 with probability a**(2**j) / (1 + a**(2**j)); two such numbers are subtracted. They
    are cut at a probability of 2**-40, and the bits' probabilities rounded to words: the law is
    the geometric one up to a total variation of about k 2**-32, which adds that to delta.

What the paper says, and what we count in AND gates (others are free): "a single comparison", k; "a
subtraction and a summation", 2 k - 1; noise by "log(k) biased random bits", of 31 gates each with
words of 32 bits. At 32 bytes a gate a comparison of 32 bits with randomized response sends 2 KB of
garbled gates, and `|x - y|` with geometric noise 60 KB. The transfers of the evaluator's inputs
send more than that here, 288 bytes a bit, where extended transfers would send some 32.
"""

import dataclasses
import math
import secrets
from typing import TYPE_CHECKING

import numpy as np

from jaxdp import figures
from jaxdp.randomizers import KRR, DiscreteLaplace
from jaxdp.sweep import Experiment, Settings, plot
from jaxdp_experiments._cells import coordinates
from jaxdp_experiments._garbling import Bit, Circuit, compute

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

WORD_BITS = 32
CUT_BITS = 40  # a geometric number is cut where it is larger with a probability of 2**-40
SIZES = (8, 16, 32, 64)
SMALL = (2, 3, 4)
MOST_TRANSFERS = 128  # real ones; beyond, a dealer hands out labels and the bytes are counted


def comparison(num_bits: int, keep: int | None = None, word_bits: int = WORD_BITS) -> Circuit:
    """Whether x < y, flipped unless a random word is below `keep`, where that is given.

    Input bits are x, then a random word, of the garbler; y, and a word, of the evaluator.
    """
    circuit = Circuit()
    x, y = circuit.input("garbler", num_bits), circuit.input("evaluator", num_bits)
    found = circuit.greater(y, x)
    if keep is not None:
        truthful = circuit.below(circuit.random(word_bits), keep)
        found = circuit.xor(found, circuit.invert(truthful))
    circuit.outputs = [found]
    return circuit


def difference(
    num_bits: int, thresholds: tuple[int, ...] = (), word_bits: int = WORD_BITS
) -> Circuit:
    """The difference `|x - y|`; with thresholds, plus discrete Laplace noise and clamped.

    The range is {0, .., 2**k - 1}. The noise is what `DiscreteLaplaceParams.from_bits` makes of the
    word: its size is the number of thresholds above the word's distance to the nearer end, and its
    upper bit the sign.

    Args:
      num_bits: k.
      thresholds: 2**k - 1 numbers of words, ascending, or none.
      word_bits: bits of a random word.
    """
    circuit = Circuit()
    x, y = circuit.input("garbler", num_bits), circuit.input("evaluator", num_bits)
    found = circuit.absolute_difference(x, y)
    if thresholds:
        *low, minus = circuit.random(word_bits)
        end = [circuit.xor(bit, minus) for bit in low]
        size = circuit.count([circuit.below(end, limit) for limit in thresholds])
        found = _clamped(circuit, _add_signed(circuit, found, size, minus), num_bits)
    circuit.outputs = found
    return circuit


def _add_signed(circuit: Circuit, value: list[Bit], size: list[Bit], minus: Bit) -> list[Bit]:
    """The sum value + size, or value - size, in two's complement of two more bits."""
    width = max(len(value), len(size)) + 2
    # −s is the complement of s plus 1, and that 1 is the carry.
    term = [circuit.xor(bit, minus) for bit in size] + [minus] * (width - len(size))
    padded = [*value, *[False] * (width - len(value))]
    return circuit.add(padded, term, carry=minus)[:width]


def _clamped(circuit: Circuit, number: list[Bit], num_bits: int) -> list[Bit]:
    """A number in two's complement clamped to {0, .., 2**k - 1}; it is below 2**(k + 1)."""
    # Bit k of a number below 2**(k + 1) says whether it is above the range.
    over, negative = number[num_bits], number[-1]
    kept = circuit.invert(negative)
    return [circuit.both(circuit.either(bit, over), kept) for bit in number[:num_bits]]


def bit_thresholds(decay: float, num_bits: int, word_bits: int = WORD_BITS) -> list[int]:
    """How many words make each bit of a geometric number below 2**num_bits a 1.

    `Pr[G = g]` is proportional to `e**(-decay g)`; rounded to words.
    """
    odds = [math.exp(-decay * 2.0**j) for j in range(num_bits)]
    return [round(2**word_bits * o / (1 + o)) for o in odds]


def geometric_difference(
    num_bits: int, thresholds: list[int], word_bits: int = WORD_BITS
) -> Circuit:
    """The number `|x - y|` + G - G', in two's complement, for bits of G of the given thresholds."""
    circuit = Circuit()
    x, y = circuit.input("garbler", num_bits), circuit.input("evaluator", num_bits)
    value = circuit.absolute_difference(x, y)
    up, down = (
        [circuit.below(circuit.random(word_bits), limit) for limit in thresholds] for _ in range(2)
    )
    *sum_of_both, carry = circuit.add(_wide(value, up), _wide(up, value))
    circuit.outputs = _add_signed(circuit, [*sum_of_both, carry], down, True)
    return circuit


def _wide(number: list[Bit], other: list[Bit]) -> list[Bit]:
    return [*number, *[False] * (len(other) - len(number))]


@dataclasses.dataclass(frozen=True, slots=True)
class Gates:
    """A cell: the size of one circuit, and what computing it sends.

    Args:
      kernel: "x < y" or "|x - y|".
      num_bits: k.
      noise: "none", "randomized response", "discrete Laplace" or "geometric".
      epsilon: of the noise, for the whole range of the kernel.
    """

    kernel: str
    num_bits: int
    noise: str
    epsilon: float

    @property
    def labels(self) -> tuple[tuple[str, str | int | float], ...]:
        """The coordinates of the cell."""
        return coordinates(self, "kernel", "noise", "num_bits", "epsilon")

    def circuit(self) -> Circuit:
        """The circuit."""
        k, largest = self.num_bits, 2**self.num_bits - 1
        if self.kernel == "x < y":
            noisy = self.noise != "none"
            return comparison(k, int(KRR(2, self.epsilon).build().threshold) if noisy else None)
        if self.noise == "discrete Laplace":
            params = DiscreteLaplace(0, largest, self.epsilon).build()
            return difference(k, tuple(int(t) for t in np.asarray(params.tails)[::-1]))
        if self.noise == "geometric":
            decay = self.epsilon / largest
            # Pr[G >= 2**size] = e**(-decay 2**size), which is at most 2**-CUT_BITS.
            size = math.ceil(math.log2(CUT_BITS * math.log(2) / decay))
            return geometric_difference(k, bit_thresholds(decay, size))
        return difference(k)

    def rows(self):
        """One row, of a computation on random inputs whose result is checked in the clear.

        Returns:
          A row with the labels, `ands` and `free` gates, `paper`: the AND gates that its words come
          to, for kernels without noise, and the bytes of each kind that were sent; `transfers` says
          whether labels were transferred or dealt out.
        """
        circuit = self.circuit()
        given = [
            [bool(secrets.randbits(1)) for _ in circuit.inputs[party]]
            for party in ("garbler", "evaluator")
        ]
        dealer = len(given[1]) > MOST_TRANSFERS
        found = compute(circuit, *given, dealer=dealer)
        if found.outputs != circuit.evaluate(*given):
            raise AssertionError("the garbled circuit and the circuit in the clear differ.")
        paper = {"x < y": self.num_bits, "|x - y|": 2 * self.num_bits}[self.kernel]
        result = {
            "ands": circuit.num_ands,
            "free": len(circuit.gates) - circuit.num_ands,
            "paper": paper if self.noise == "none" else None,
            "gate_bytes": found.table_bytes,
            "label_bytes": found.label_bytes,
            "transfer_bytes": found.transfer_bytes,
            "output_bytes": found.output_bytes,
            "transfers": "dealt out" if dealer else "oblivious",
        }
        return [dict(self.labels) | result]


def cells(settings: Settings) -> list[Gates]:
    """A cell for each circuit and size."""
    sizes = SIZES[:2] if settings.quick else SIZES
    kinds = [("x < y", "none", sizes), ("x < y", "randomized response", sizes)]
    kinds += [("|x - y|", "none", sizes), ("|x - y|", "geometric", sizes)]
    kinds += [("|x - y|", "discrete Laplace", SMALL[:1] if settings.quick else SMALL)]
    return [
        Gates(kernel, size, noise, epsilon)
        for kernel, noise, several in kinds
        for size in several
        for epsilon in settings.epsilons
    ]


def figure(results: "pa.Table") -> "Figure":
    """AND gates against the bits of an input, for each kernel and kind of noise."""
    import pyarrow as pa

    noises = {"none": "no noise", "geometric": "geometric noise"}
    rows = [
        row | {"of": f"{row['kernel']}, {noises.get(row['noise'], row['noise'])}"}
        for row in results.drop_columns(
            ["label"] if "label" in results.column_names else []
        ).to_pylist()
    ]
    names = {"num_bits": "bits of an input", "ands": "AND gates"}
    table = pa.Table.from_pylist(rows)
    return plot(table, x="num_bits", y="ands", hue="of", names=names, width=figures.PAGE * 0.75)


EXPERIMENT = Experiment(
    name="bell-appendix-c2",
    summary="Bell et al.'s Appendix C.2: gates and bytes of kernels with noise, computed in secret",
    cells=cells,
    settings=Settings(epsilons=(1.0,), num_trials=1),
    quick=Settings(epsilons=(1.0,), num_trials=1, quick=True),
    figure=figure,
)
