"""Alias tables of integer masses: rebuilt from their thresholds, drawn at their edges."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp.random import AliasTable
from jaxdp.random._noise import normal_masses
from jaxdp.randomizers._laplace import laplace_masses
from tests.tables import drawn_at_thresholds, rebuilt

TABLES = {
    "geometric": (laplace_masses(1.0, 4, False).whole, 64),
    "two": ((3 * 2**62, 2**62), 64),
    "uneven": ((1, 2**63 - 3, 0, 2), 63),
    "normal": (normal_masses(64), 63),
    "one word": ((5, 2**31, 2**31 - 9, 0, 4), 32),
    "flat": ((2**29,) * 8, 32),
    "bit": ((1, 1), 1),
    "byte": ((1, 6, 2, 10, 2, 22, 195, 8, 10), 8),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_holds_its_masses(name):
    masses, bits = TABLES[name]
    found = rebuilt(AliasTable.of(masses, bits), bits)
    assert found[: len(masses)] == list(masses)
    assert not any(found[len(masses) :])


def test_tables_of_random_masses(rng):
    """Many rows at once, of random masses with gaps, ties and full columns."""
    for cells, bits in itertools.product((1, 2, 7, 32), (8, 32, 63)):
        cuts = np.sort(rng.integers(0, 2**16 + 1, (20, cells - 1)), axis=1) // 2**12 * 2**12
        cuts[::2] = np.sort(rng.integers(0, 2**16 + 1, (10, cells - 1)), axis=1)
        if bits == 8:
            cuts = cuts // 2**8 * 2**8
        edges = np.pad(cuts, ((0, 0), (1, 1)), constant_values=((0, 0), (0, 2**16)))
        rows = np.diff(edges, axis=1).astype(object) * 2**bits // 2**16
        table = AliasTable.of(rows, bits)
        for number, row in enumerate(rows.tolist()):
            lower = None if table.lower is None else table.lower[number]
            found = rebuilt(AliasTable(table.packed[number], lower), bits)
            assert found[:cells] == row
            assert not any(found[cells:])


@pytest.mark.parametrize(
    ("masses", "bits", "most", "number"),
    [((1,) * 300, 8, 8, 300), ((2**34 // 8,) * 8, 34, 2, 8)],
    ids=["one word", "two words"],
)
def test_more_masses_than_words_are_refused(masses, bits, most, number):
    said = rf"at most 2\*\*{most}, which words of {most} bits tell apart, got {number}"
    with pytest.raises(ValueError, match=said):
        AliasTable.of(masses, bits)
    AliasTable.of((2**bits // 2**most,) * 2**most, bits)  # as many as there are words


@pytest.mark.parametrize("bits", [2, 40])
@pytest.mark.parametrize(
    ("masses", "error"),
    [
        ((0.5, 0.5), TypeError),
        (((1, 3), (4,)), TypeError),
        ((None, 1), TypeError),
        ((1, 2), ValueError),
        ((-1, 2**40 + 1), ValueError),
        ((2**63, 2**63), ValueError),
        (4, ValueError),
    ],
)
def test_masses_of_another_sum_are_refused(masses, error, bits):
    with pytest.raises(error, match="masses must be"):
        AliasTable.of(masses, bits)


@pytest.mark.parametrize("name", TABLES)
def test_draws_at_the_thresholds(name):
    """Each column's threshold, and the words one below and one above, with and without a tie."""
    masses, bits = TABLES[name]
    table, spare = AliasTable.of(masses, bits), max(64 - bits, 0) if bits > 32 else 0
    if table.lower is None:
        words, expected = drawn_at_thresholds(table, bits)
        np.testing.assert_array_equal(jax.jit(table.draw)(words), expected)
        return
    a, rows = table.column_bits, []
    for column, (packed, lower) in enumerate(zip(table.packed, table.lower, strict=True)):
        upper, alias = int(packed) >> a, int(packed) & (2**a - 1)
        for first, second, drawn in (
            (upper - 1, 2**32 - 1, column),
            (upper, int(lower) - 1, column),
            (upper, int(lower), alias),
            (upper + 1, 0, alias),
        ):
            if 0 <= first < 2 ** (32 - spare - a) and second >= 0:
                rows.append((first << a | column, second, drawn))
    words, seconds, expected = (
        jnp.asarray(np.array(x, np.uint32)) for x in zip(*rows, strict=True)
    )
    found = jax.jit(lambda w, s: table.draw(w, s, spare=spare))(words, seconds)
    np.testing.assert_array_equal(found, expected)
    draft, sure = jax.jit(lambda w: table.draft(w, spare=spare))(words)
    np.testing.assert_array_equal(draft[sure], expected[sure])
    assert not np.all(sure)
    if name != "two":  # there first words decide all
        swapped = jax.jit(lambda w, s: table.draw(w, ~s, spare=spare))(words, seconds)
        assert np.any(np.asarray(swapped) != np.asarray(expected))


def test_draws_from_rows_are_those_of_each_table(rng):
    """With more rows than columns, the column takes only the bits that a row's columns need."""
    rows = rng.multinomial(2**16, np.ones(3) / 3, 9).astype(object) * 2**16
    table = AliasTable.of(rows, 32)
    assert (table.packed.shape, table.column_bits) == ((9, 4), 2)
    words = jnp.asarray(rng.integers(0, 2**32, (9, 500), np.uint32))
    words = words.at[:, :250].set(
        (words[:, :250] & np.uint32(3)) | (words[:, 250:] << np.uint32(2))
    )
    found = table.draw(words, row=jnp.arange(9, dtype=jnp.int32)[:, None])
    for number, masses in enumerate(rows):
        alone = AliasTable.of(masses, 32)
        np.testing.assert_array_equal(found[number], alone.draw(words[number]))
        if number:
            assert np.any(np.asarray(found[number]) != np.asarray(found[0]))
