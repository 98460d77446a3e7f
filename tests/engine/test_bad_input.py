"""Arguments of the engine's functions that are refused by name."""

import pytest

import jaxdp
from jaxdp.randomizers import KRR

POPULATION = jaxdp.Population.from_histogram([3, 4, 5])


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        (None, "specs must be a sequence"),
        (KRR(3, 1.0), "specs must be a sequence"),
        ([KRR(3, 1.0), 3], r"specs\[1\] must be a spec"),
    ],
)
def test_what_is_no_sequence_of_specs_is_not_stacked(specs, message):
    with pytest.raises(TypeError, match=message):
        jaxdp.stack(specs)


@pytest.mark.parametrize("truth", [object(), 1j, [[1], [1, 2]], ["a"], 10**400])
def test_a_truth_is_of_numbers(truth, key):
    with pytest.raises(TypeError, match="truth must be an array of"):
        jaxdp.simulate(KRR(3, 1.0), POPULATION, key, num_trials=2, truth=truth)


def test_estimates_that_fit_into_no_memory_are_refused_before_any_work(key):
    with pytest.raises(ValueError, match="num_trials must be fewer"):
        jaxdp.simulate(KRR(3, 1.0), POPULATION, key, num_trials=2**32 - 1)
