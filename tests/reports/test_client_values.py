"""The values that a client takes, and those that it refuses."""

import numpy as np
import pytest

from jaxdp.randomizers import Laplace
from jaxdp.reports import Client, Collection


@pytest.mark.parametrize("value", [1e39, -1e39, float("nan"), float("inf")])
def test_numbers_that_a_float_cannot_hold_are_refused(value):
    client = Client(Collection(Laplace(1.0)).document)
    with pytest.raises(ValueError, match="value must be finite in float32"):
        client.report(value)


def test_numbers_beyond_the_range_are_moved_to_its_end():
    collection = Collection(Laplace(1.0))
    client = Client(collection.document)
    words = np.zeros((3, collection.params.num_words), np.uint32)
    end, beyond, far = client.payloads(words, np.array([1.0, 1.5, 3e38], np.float32))
    assert end.tolist() == beyond.tolist() == far.tolist()
