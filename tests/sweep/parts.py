"""Cells of many trials, importable by the processes that tests start."""

import sys

import jaxdp
from jaxdp import sweep

SPLIT = 7  # 29 parts of a cell, the last one of 4 trials


def cells():
    return [
        sweep.Simulation(
            protocol=jaxdp.randomizers.KRR(3, epsilon),
            data=sweep.HistogramData({"a": 60, "b": 30, "c": 10}),
            num_trials=200,
            method="per_user",
            labels={"epsilon": epsilon},
        )
        for epsilon in (0.5, 2.0)
    ]


def main():
    """Runs them, split, into the folder that is named first, as the shard that is named next."""
    shard = int(sys.argv[2]), int(sys.argv[3])
    print(sweep.run(cells(), sys.argv[1], name="parts", shard=shard, split=SPLIT).computed)
