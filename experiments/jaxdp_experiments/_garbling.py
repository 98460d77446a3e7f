"""A compact garbled-circuit computation between two semi-honest parties.

Boolean circuits of XOR, NOT and AND gates; half-gates garbling (two ciphertexts of 16 bytes an AND
gate), free XOR, point-and-permute; the hash of labels is built on fixed-key AES of the package
`cryptography`. The evaluator gets the labels of its inputs by Naor and Pinkas's oblivious transfer
over the 2048-bit MODP group of RFC 3526. The output is opened to a third party, the analyst, alone:
the garbler sends it the colours of the outputs' labels for 0, the evaluator those it arrived at.

It is written to count gates and bytes, and to compare laws, not to be deployed: it is not constant
time, and one process plays both parties. For many transfers one would extend a few of them.

References:
  Zahur, Rosulek, Evans (2015), Two halves make a whole; Kolesnikov, Schneider (2008), Improved
  garbled circuit: free XOR gates and applications; Guo, Katz, Wang, Yu (2020), Efficient and secure
  multiparty computation from fixed-key block ciphers; Naor, Pinkas (2001), Efficient oblivious
  transfer protocols; Kolesnikov, Sadeghi, Schneider (2009), Improved garbled circuit building
  blocks.
"""

import dataclasses
import hashlib
import secrets
from collections.abc import Sequence
from typing import Any

Bit = int | bool
"""A wire by number, or a constant."""

LABEL_BYTES = 16
GROUP_BYTES = 256
_PRIME = int(
    "FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B139B22514A08798E3404"
    "DDEF9519B3CD3A431B302B0A6DF25F14374FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406"
    "B7EDEE386BFB5A899FA5AE9F24117C4B1FE649286651ECE45B3DC2007CB8A163BF0598DA48361C55D39A69163FA8FD"
    "24CF5F83655D23DCA3AD961C62F356208552BB9ED529077096966D670C354E4ABC9804F1746C08CA18217C32905E46"
    "2E36CE3BE39E772C180E86039B2783A2EC07A28FB5C55DF06F4C52C9DE2BCBF6955817183995497CEA956AE515D226"
    "1898FA051015728E5A8AACAA68FFFFFFFFFFFFFFFF",
    16,
)
# Short exponents: twice the 128 bits of security, since logarithms take the root of a search.
_EXPONENT_BITS = 256


class Circuit:
    """A Boolean circuit under construction: wires are numbered, constants are folded.

    Attributes:
      inputs: for each party the wires of its input bits.
      gates: (kind, wire, wire, output) in an order in which they can be evaluated.
      outputs: the wires, or constants, of the output bits.
    """

    def __init__(self):
        self.inputs: dict[str, list[int]] = {"garbler": [], "evaluator": []}
        self.gates: list[tuple[str, int, int, int]] = []
        self.outputs: list[Bit] = []
        self._size = 0

    @property
    def num_ands(self) -> int:
        """The number of AND gates, which alone cost communication."""
        return sum(kind == "and" for kind, *_ in self.gates)

    @property
    def num_wires(self) -> int:
        """The number of wires."""
        return self._size

    def input(self, party: str, num_bits: int) -> list[Bit]:
        """New input bits of a party, least significant first."""
        wires = [self._wire() for _ in range(num_bits)]
        self.inputs[party] += wires
        return list(wires)

    def random(self, num_bits: int) -> list[Bit]:
        """Uniform bits that neither party knows: the XOR of a bit of each, which is free."""
        pairs = zip(self.input("garbler", num_bits), self.input("evaluator", num_bits), strict=True)
        return [self.xor(a, b) for a, b in pairs]

    def _wire(self) -> int:
        self._size += 1
        return self._size - 1

    def _gate(self, kind: str, a: int, b: int) -> int:
        out = self._wire()
        self.gates.append((kind, a, b, out))
        return out

    def invert(self, a: Bit) -> Bit:
        """NOT; free."""
        return (not a) if isinstance(a, bool) else self._gate("not", a, a)

    def xor(self, a: Bit, b: Bit) -> Bit:
        """XOR; free."""
        if isinstance(a, bool):
            a, b = b, a
        if isinstance(b, bool):
            return self.invert(a) if b else a
        return self._gate("xor", a, b)

    def both(self, a: Bit, b: Bit) -> Bit:
        """The conjunction of two bits: one gate where both are wires."""
        if isinstance(a, bool):
            a, b = b, a
        if isinstance(b, bool):
            return a if b else False
        return self._gate("and", a, b)

    def either(self, a: Bit, b: Bit) -> Bit:
        """OR, by one AND."""
        return self.invert(self.both(self.invert(a), self.invert(b)))

    def add(self, x: Sequence[Bit], y: Sequence[Bit], carry: Bit = False) -> list[Bit]:
        """The sum of two numbers of k bits and a carry, k + 1 bits: k ANDs."""
        found = []
        for a, b in zip(x, y, strict=True):
            # The carry is the majority of three bits, c xor (a xor c)(b xor c): one AND.
            left, right = self.xor(a, carry), self.xor(b, carry)
            found.append(self.xor(left, b))
            carry = self.xor(carry, self.both(left, right))
        return [*found, carry]

    def greater(self, x: Sequence[Bit], y: Sequence[Bit]) -> Bit:
        """Whether x > y, of unsigned numbers of k bits; the second may be constant: k ANDs."""
        found: Bit = False
        for a, b in zip(x, y, strict=True):
            if isinstance(b, bool):  # no more than one AND, and none before the first 0 bit
                found = self.both(a, found) if b else self.either(a, found)
            else:
                # From the least bit on: a where the two differ, else what was found before.
                found = self.xor(a, self.both(self.xor(a, found), self.xor(b, found)))
        return found

    def below(self, x: Sequence[Bit], limit: int) -> Bit:
        """Whether x < limit, a public number: one AND a bit at most."""
        if not 0 < limit < 2 ** len(x):
            return limit > 0
        return self.invert(self.greater(x, bits_of(limit - 1, len(x))))

    def absolute_difference(self, x: Sequence[Bit], y: Sequence[Bit]) -> list[Bit]:
        """|x - y| of unsigned numbers of k bits: a subtraction and a conditional negation.

        With z = x - y and s its sign replicated it is `(z xor s) + s`, after the paper, of which
        the last carry is not needed: 2 k - 1 ANDs.
        """
        *low, no_borrow = self.add(x, [self.invert(b) for b in y], carry=True)
        sign = self.invert(no_borrow)
        found, carry = [], sign
        for number, bit in enumerate(self.xor(b, sign) for b in low):
            found.append(self.xor(bit, carry))
            if number < len(low) - 1:
                carry = self.both(bit, carry)
        return found

    def count(self, items: Sequence[Bit]) -> list[Bit]:
        """How many bits are 1, by a tree of adders."""
        if len(items) == 1:
            return list(items)
        if len(items) == 2:
            return self.add(items[:1], items[1:])
        half = (len(items) - 1) // 2
        left, right = self.count(items[:half]), self.count(items[half : 2 * half])
        rest = items[2 * half :]
        # A bit that is left over goes in as the carry, which costs no gate of its own.
        total = self.add(left, right, carry=rest[0])
        for more in rest[1:]:
            total = self.add(total, [more, *[False] * (len(total) - 1)])
        return total

    def evaluate(self, garbler: Sequence[Any], evaluator: Sequence[Any]) -> list[Any]:
        """The output bits in the clear; inputs are bits, or NumPy arrays of bools of one shape."""
        values: dict[int, Any] = {}
        for party, given in (("garbler", garbler), ("evaluator", evaluator)):
            values |= dict(zip(self.inputs[party], given, strict=True))
        for kind, a, b, out in self.gates:
            one, two = values[a], values[b]
            values[out] = one & two if kind == "and" else one ^ (True if kind == "not" else two)
        return [w if isinstance(w, bool) else values[w] for w in self.outputs]


def bits_of(number: int, num_bits: int) -> list[bool]:
    """The bits of a number, least significant first."""
    return [bool(number >> i & 1) for i in range(num_bits)]


def number_of(bits: Sequence[Any]) -> int:
    """The number of these bits, least significant first."""
    return sum(int(bit) << i for i, bit in enumerate(bits))


@dataclasses.dataclass(frozen=True)
class Transcript:
    """What a two-party computation gave out, and what it sent.

    Attributes:
      outputs: the output bits, as the analyst reads them.
      table_bytes: garbled gates.
      label_bytes: labels of the garbler's inputs.
      transfer_bytes: the oblivious transfers of the evaluator's inputs.
      output_bytes: colours of the outputs, from both parties to the analyst.
    """

    outputs: list[bool]
    table_bytes: int
    label_bytes: int
    transfer_bytes: int
    output_bytes: int


class _Hash:
    """H(x, i) = P(P(x) xor i) xor P(x) with P = AES under a fixed key: correlation robust."""

    def __init__(self, key: bytes):
        from cryptography.hazmat.primitives.ciphers import (  # pyright: ignore[reportMissingImports]
            Cipher,
            algorithms,
            modes,
        )

        self._encrypt = Cipher(algorithms.AES(key), modes.ECB()).encryptor().update

    def _permute(self, x: int) -> int:
        return int.from_bytes(self._encrypt(x.to_bytes(LABEL_BYTES, "big")), "big")

    def __call__(self, label: int, tweak: int) -> int:
        once = self._permute(label)
        return self._permute(once ^ tweak) ^ once


def garble(circuit: Circuit, key: bytes) -> tuple[list[int], int, list[tuple[int, int]]]:
    """The labels of all wires for 0, the offset to those for 1, and two ciphertexts an AND gate.

    Args:
      circuit: what is computed.
      key: of AES, 16 public bytes.
    """
    hashed = _Hash(key)
    offset = secrets.randbits(128) | 1  # the last bit of a label is its colour
    zero = [0] * circuit.num_wires
    for wires in circuit.inputs.values():
        for wire in wires:
            zero[wire] = secrets.randbits(128)
    table = []
    for kind, a, b, out in circuit.gates:
        if kind == "xor":
            zero[out] = zero[a] ^ zero[b]
        elif kind == "not":
            zero[out] = zero[a] ^ offset
        else:
            # Two half gates: a and colour(b), which the garbler knows, and a and (b xor colour(b)),
            # of which the evaluator sees the second.
            tweak, colour_a, colour_b = 2 * len(table), zero[a] & 1, zero[b] & 1
            left, right = hashed(zero[a], tweak), hashed(zero[b], tweak + 1)
            first = left ^ hashed(zero[a] ^ offset, tweak) ^ (offset if colour_b else 0)
            second = right ^ hashed(zero[b] ^ offset, tweak + 1) ^ zero[a]
            table.append((first, second))
            known = left ^ (first if colour_a else 0)
            zero[out] = known ^ right ^ (second ^ zero[a] if colour_b else 0)
    return zero, offset, table


def evaluate(circuit: Circuit, labels: dict[int, int], table, key: bytes) -> dict[int, int]:
    """One label of every wire, from those of the inputs."""
    hashed, labels, number = _Hash(key), dict(labels), 0
    for kind, a, b, out in circuit.gates:
        if kind == "xor":
            labels[out] = labels[a] ^ labels[b]
        elif kind == "not":
            labels[out] = labels[a]
        else:
            (first, second), tweak = table[number], 2 * number
            left = hashed(labels[a], tweak) ^ (first if labels[a] & 1 else 0)
            right = hashed(labels[b], tweak + 1) ^ (second ^ labels[a] if labels[b] & 1 else 0)
            labels[out] = left ^ right
            number += 1
    return labels


def transfer_bytes(number: int) -> int:
    """What so many oblivious transfers send: two elements, and for each a key and two messages."""
    return 2 * GROUP_BYTES + number * (GROUP_BYTES + 2 * LABEL_BYTES) if number else 0


def transfer(messages: Sequence[tuple[int, int]], choices: Sequence[bool]) -> list[int]:
    """Naor and Pinkas's oblivious transfers: of each pair the chosen message.

    The sender publishes a group element C. The receiver sends for each choice b one of two keys
    whose product is C and of which it knows the logarithm of key b alone. The sender encrypts each
    message to its key.
    """
    common = pow(2, secrets.randbits(_EXPONENT_BITS), _PRIME)
    shared = secrets.randbits(_EXPONENT_BITS)
    head = pow(2, shared, _PRIME)
    received = []
    for number, (pair, choice) in enumerate(zip(messages, choices, strict=True)):
        logarithm = secrets.randbits(_EXPONENT_BITS)
        known = pow(2, logarithm, _PRIME)
        other = common * pow(known, -1, _PRIME) % _PRIME
        keys = (other, known) if choice else (known, other)
        second = common * pow(keys[0], -1, _PRIME) % _PRIME  # the receiver sends the first alone
        sent = [
            message ^ _mask(pow(public, shared, _PRIME), 2 * number + side)
            for side, (message, public) in enumerate(zip(pair, (keys[0], second), strict=True))
        ]
        mask = _mask(pow(head, logarithm, _PRIME), 2 * number + int(choice))
        received.append(sent[choice] ^ mask)
    return received


def _mask(element: int, number: int) -> int:
    content = element.to_bytes(GROUP_BYTES, "big") + number.to_bytes(8, "big")
    return int.from_bytes(hashlib.sha256(content).digest()[:LABEL_BYTES], "big")


def compute(
    circuit: Circuit, garbler: Sequence[bool], evaluator: Sequence[bool], *, dealer: bool = False
) -> Transcript:
    """Runs the protocol between a garbler and an evaluator with these input bits.

    Args:
      circuit: what is computed.
      garbler: one party's input bits.
      evaluator: the other's.
      dealer: whether a trusted dealer hands the evaluator its labels in place of the oblivious
        transfers, which take milliseconds each; their bytes are counted all the same.
    """
    key = secrets.token_bytes(16)
    zero, offset, table = garble(circuit, key)

    def label(wire, bit):
        return zero[wire] ^ (offset if bit else 0)

    wires = circuit.inputs
    labels = {w: label(w, bit) for w, bit in zip(wires["garbler"], garbler, strict=True)}
    pairs = [(zero[w], zero[w] ^ offset) for w in wires["evaluator"]]
    chosen = [pair[bit] for pair, bit in zip(pairs, evaluator, strict=True)]
    if not dealer:
        chosen = transfer(pairs, evaluator)
    labels |= dict(zip(wires["evaluator"], chosen, strict=True))
    reached = evaluate(circuit, labels, table, key)
    # The label that was reached and the label for 0 differ in colour where the bit is 1.
    outputs = [
        w if isinstance(w, bool) else bool((reached[w] ^ zero[w]) & 1) for w in circuit.outputs
    ]
    return Transcript(
        outputs,
        2 * LABEL_BYTES * len(table),
        LABEL_BYTES * len(wires["garbler"]),
        transfer_bytes(len(pairs)),
        2 * -(-len(outputs) // 8),
    )
