"""`method="auto"` takes the quicker path, or one that is nearly as quick: measured.

On an idle machine with one device, as users have it: `JAX_NUM_CPU_DEVICES=1 pytest -m timed`. Of
eight devices each has one thread: streams of users then take twice as long, draws a third.
"""

import time

import jax
import pytest

import jaxdp
from jaxdp.engine._config import configure
from tests.contracts.registry import APPLICABLE, PROTOCOLS, Case, ids

TINY = 0.02  # seconds in which a run's fixed costs, and other processes, outweigh the paths
BOTH = [case for case in PROTOCOLS if "both_paths_have_one_law" in APPLICABLE[case.name]]


def population(case: Case, number: int) -> jaxdp.Population:
    """About as many users, where the case takes any number, in the proportions of the case."""
    return case.population(max(round(number / sum(case.counts)), 1) if case.any_size else 100)


def seconds(case: Case, users: jaxdp.Population, method: jaxdp.engine._config.Method) -> float:
    """The least of three runs, after one that compiles; of one run where it is long."""
    best = float("inf")
    for trial in range(4):
        began = time.perf_counter()
        jaxdp.run(case.make(1.0), users, jax.random.key(trial), method=method)
        took = time.perf_counter() - began
        best = min(best, took) if trial else best
        if trial and took > 1.0:
            break
    return best


@pytest.mark.slow
@pytest.mark.timed
@pytest.mark.parametrize("number", [10**3, 10**6])
@pytest.mark.parametrize("case", BOTH, ids=ids)
def test_auto_takes_the_quicker_path(case, number):
    users = population(case, number)
    chosen = configure(case.make(1.0).build(), users, "auto", None, None).method
    times = {method: seconds(case, users, method) for method in ("per_user", "tally")}
    assert times[chosen] <= max(1.5 * min(times.values()), TINY), (chosen, times)
