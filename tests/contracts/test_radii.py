"""Vectors that stand for values lie in the ball that their randomizer is private on, exactly."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest

from jaxdp.linear import EmbeddedRound
from tests.contracts.registry import PROTOCOLS


def _embedded(params, name):
    """Embeddings and the rounds that take them, of the params and of all parts of them."""
    inner = getattr(params, "inner", None)
    for field in dataclasses.fields(params):
        part = getattr(params, field.name)
        if field.name in ("embedding", "left", "right") and hasattr(inner, "radius"):
            yield f"{name}.{field.name}", np.asarray(part), inner
        if dataclasses.is_dataclass(part):
            yield from _embedded(part, f"{name}.{field.name}")


def test_no_vector_is_longer_than_its_radius():
    checked = 0
    for case in PROTOCOLS:
        for name, vectors, inner in _embedded(case.make(1.0).build(), case.name):
            assert vectors.dtype == np.float32
            square = Fraction(float(inner.radius)) ** 2
            longest = max(sum(Fraction(float(x)) ** 2 for x in row) for row in vectors)
            assert longest <= square, name
            checked += 1
    assert checked >= 20


@pytest.mark.parametrize("norm", [1, 2])
def test_a_radius_is_rounded_up_from_the_exact_norm(norm, rng):
    vectors = rng.normal(size=(200, 3)).astype(np.float32)
    for row in vectors:
        radius = Fraction(EmbeddedRound.radius_of(row[None], norm))
        length = sum(abs(Fraction(float(x))) ** norm for x in row)
        assert length <= radius**norm
        assert float(radius) <= math.nextafter(float(length) ** (1 / norm), 9) * (1 + 2**-23)
    assert EmbeddedRound.radius_of(np.eye(3, dtype=np.float32), norm) == 1.0
