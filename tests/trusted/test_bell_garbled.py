"""The experiment `bell-garbled`: protocols whose pairs compute by garbled circuits."""

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp.pairwise import GiniDiversity
from jaxdp.random import Stream, stream, user_words
from jaxdp.trusted import AllPairs, PairSampling
from jaxdp_experiments.bell_garbled import (
    COUNTS,
    EXPERIMENT,
    cells,
    circuit_of,
    computed_runs,
    figure,
    secret_words,
)

USERS = jaxdp.Population.from_histogram(np.array(COUNTS))


def test_cells():
    """Each cell has a circuit of its noise; labels tell the cells apart."""
    full = cells(EXPERIMENT.settings)
    assert len({cell.labels for cell in full}) == len(full) == 6
    for cell in full:
        assert circuit_of(cell.protocol()).num_ands > 20


@pytest.mark.parametrize("protocol", ["matchings", "all pairs"])
def test_circuits_report_what_the_ideal_functionality_does(protocol):
    """Parties whose words add up to the engine's words: the estimate of `run`, bit for bit."""
    pytest.importorskip("cryptography")
    spec = {
        "matchings": PairSampling(GiniDiversity(), 3.0, 4, num_permutations=2, noise="krr"),
        "all pairs": AllPairs(
            GiniDiversity(), 20.0, 16, 4, noise="krr", delta=0.0, composition="basic"
        ),
    }[protocol]
    key = jax.random.key(7)

    def shared(matching, pair):
        words = user_words(stream(key, Stream.ROUND + matching), pair, spec.build().pair.num_words)
        mine, _ = secret_words(matching, pair)
        return mine, mine ^ int(words[0])

    found = computed_runs(spec, USERS, [key], words=shared)
    assert found.estimates[0] == float(jaxdp.run(spec, USERS, key, method="per_user"))
    assert found.pairs == (2 * 8 if protocol == "matchings" else 120)


@pytest.mark.slow
def test_rows_and_figure():
    """Ten computed trials of each cell are about as far off as predicted."""
    pytest.importorskip("cryptography")
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("matplotlib")
    rows = [row for cell in cells(EXPERIMENT.quick) for row in cell.rows()]
    for row in rows:
        assert 0.02 < row["computed"] / row["predicted"] < 8
        assert row["bytes_a_pair"] > 32 * row["ands"]
    assert len(figure(pa.Table.from_pylist(rows)).axes) == 1
