"""Cells: JSON form, names, keys, rows, bad input."""

import dataclasses
import json

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp._form import spec_from_json, spec_to_json
from jaxdp.engine import _simulate
from jaxdp.pairwise import KendallTau, QuantizedRR
from jaxdp.sweep import HistogramData, Simulation
from jaxdp.sweep._fingerprint import describe, fingerprint
from jaxdp_experiments.kendall_flights import EXPERIMENT, bound_rmse

KENDALL = Simulation(
    protocol=QuantizedRR(KendallTau(), 1.0, num_values=(2, 3)),
    data=HistogramData([[30, 20, 10], [5, 15, 40]]),
    num_trials=20,
    seed=7,
    target=0.25,
    bound=bound_rmse,
    labels={"grid": "2×3", "epsilon": 1.0},
)
KRR = Simulation(
    protocol=jaxdp.randomizers.KRR(3, 1.0), data=HistogramData([6, 3, 1]), num_trials=10
)


@pytest.mark.parametrize("cell", [KENDALL, KRR, EXPERIMENT.cells(EXPERIMENT.quick)[0]])
def test_json_round_trip(cell):
    again = spec_from_json(json.loads(json.dumps(spec_to_json(cell))))
    assert again == cell
    assert fingerprint(again) == fingerprint(cell)


def test_every_field_is_part_of_the_name():
    changes = dict(
        protocol=QuantizedRR(KendallTau(), 2.0, num_values=(2, 3)),
        data=HistogramData([[31, 20, 10], [5, 15, 40]]),
        num_trials=21,
        seed=8,
        method="per_user",
        rounds=13,
        target=None,
        bound=None,
        labels={"grid": "2×3", "epsilon": 2.0},
    )
    assert set(changes) == {field.name for field in dataclasses.fields(Simulation)}
    cells = [KENDALL, *(dataclasses.replace(KENDALL, **{k: v}) for k, v in changes.items())]
    assert len({fingerprint(cell) for cell in cells}) == len(cells)


def test_key_depends_on_seed_and_labels_only():
    def bits(**changes):
        return jax.random.key_data(dataclasses.replace(KENDALL, **changes).key).tolist()

    assert bits() == bits(num_trials=3) == bits(method="per_user")
    assert bits() != bits(seed=8)
    assert bits() != bits(labels={"grid": "2×3", "epsilon": 2.0})


def test_description():
    assert describe(KENDALL) == "grid=2×3, epsilon=1.0"


def test_row_of_a_number():
    (row,) = KENDALL.rows()
    protocol, counts = KENDALL.protocol, KENDALL.data.counts.values
    trials = jaxdp.simulate(
        protocol, KENDALL.data.population(), KENDALL.key, num_trials=KENDALL.num_trials
    )
    assert row["estimates"] == trials.estimates.tolist()
    assert row["grid"] == "2×3"
    assert row["target"] == 0.25
    assert row["truth"] == protocol.truth(counts)
    assert row["rmse"] == trials.rmse
    assert row["bias"] == trials.bias
    assert row["predicted_rmse"] == np.sqrt(protocol.variance(counts))
    assert row["bound_rmse"] > row["predicted_rmse"]
    assert row["q05"] <= row["q50"] <= row["q95"]
    assert (row["num_trials"], row["num_users"]) == (20, 120)


def test_rounds_are_those_of_the_trials():
    cell = dataclasses.replace(KRR, method="per_user", rounds=13)
    (row, *_) = cell.rows()
    options = {"num_trials": 10, "method": "per_user"}
    population = cell.data.population()
    fewer, more = (
        jaxdp.simulate(cell.protocol, population, cell.key, rounds=rounds, **options)
        for rounds in (13, 20)
    )
    assert row["estimates"] == fewer.estimates[:, 0].tolist() != more.estimates[:, 0].tolist()


def test_trials_run_on_all_devices(monkeypatch):
    """Each of the eight has its share of them, and the rows are those of one."""
    split = []

    def record(*arguments):
        split.append(config := for_trials(*arguments))
        return config

    for_trials = _simulate.for_trials
    monkeypatch.setattr(_simulate, "for_trials", record)
    rows = KRR.rows()
    assert [config.num_shares for config in split] == [jax.local_device_count()] == [8]
    alone = jaxdp.simulate(
        KRR.protocol, KRR.data.population(), KRR.key, num_trials=KRR.num_trials, method=KRR.method
    )
    np.testing.assert_array_equal([row["estimates"] for row in rows], alone.estimates.T)


def test_a_row_for_each_number_of_an_estimate():
    rows = KRR.rows()
    assert [row["entry"] for row in rows] == [0, 1, 2]
    assert [row["truth"] for row in rows] == [6.0, 3.0, 1.0]
    assert {row["bound_rmse"] for row in rows} == {None}
    assert {len(row["estimates"]) for row in rows} == {10}


@pytest.mark.parametrize(
    ("change", "error", "named"),
    [
        (dict(num_trials=0), ValueError, "num_trials"),
        (dict(num_trials=2.5), TypeError, "num_trials"),
        (dict(seed=-1), ValueError, "seed"),
        (dict(seed=2**32), ValueError, "seed"),
        (dict(method="fast"), ValueError, "method"),
        (dict(rounds=12), ValueError, "rounds"),
        (dict(data=[1, 2]), TypeError, "data"),
        (dict(labels="epsilon"), TypeError, "labels"),
        (dict(labels={"epsilon": None}), TypeError, "labels"),
        (dict(bound=lambda protocol, num_users: 1.0), TypeError, "JSON"),
    ],
)
def test_bad_input(change, error, named):
    with pytest.raises(error, match=named):
        dataclasses.replace(KRR, **change)


@pytest.mark.parametrize(
    ("counts", "error"),
    [([], ValueError), ([-1, 2], ValueError), ([0.5, 1], ValueError), (["a"], TypeError)],
)
def test_bad_counts(counts, error):
    with pytest.raises(error, match="counts"):
        HistogramData(counts)


def test_values_must_fit_the_counts():
    with pytest.raises(ValueError, match="values"):
        HistogramData([1, 2], values=np.zeros(3, np.float32))
