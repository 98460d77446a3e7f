"""How well a flight's departure foretells its arrival: a volume under the ROC surface, privately.

Every flight is a user (`jaxdp.data.load_flights`). Its arrival delay puts it in one of three
classes: early or on time, up to half an hour late, or later. Its score is the class of its
departure delay; the ten classes are merged into groups of neighbours, fixed before anyone's delay
is seen. The volume is the share of triples, one flight of each class, whose departures come in the
order of their arrivals, with ties broken at random: 1/6 by chance. Class and group are both
private; how many flights each class has is public. Each user sends one report of (class, group), by
one of three frequency oracles. This goes beyond Bell et al. (2020), who measure pairs.
"""

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxdp import figures
from jaxdp.data import load_flights
from jaxdp.pairwise import TripleStatistic, volume_under_roc
from jaxdp.randomizers import KRR, AffineSubsets, HadamardResponse
from jaxdp.sweep import Experiment, HistogramData, Settings, Simulation

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

NUM_SCORES = 10
ENDS = (4, 7)
"""The arrival delay classes at which the second and the third class begin: 0 and 30 minutes."""
GROUPS = (2, 5, 10)
ORACLES = {
    "KRR": KRR,
    "AffineSubsets": AffineSubsets,
    "HadamardResponse": HadamardResponse,
}


@functools.cache
def merged_table(groups: int) -> np.ndarray:
    """Flights by class and group of the departure delay, int64[3, groups]."""
    table = load_flights()["dep_arr_delay_table"].T.astype(np.int64)
    classes = np.add.reduceat(table, (0, *ENDS), axis=0)
    group = np.arange(NUM_SCORES) * groups // NUM_SCORES
    return np.stack([classes[:, group == g].sum(axis=1) for g in range(groups)], axis=1)


def protocol(oracle: str, groups: int, epsilon: float) -> TripleStatistic:
    """The protocol by one of the oracles."""
    sizes: Any = tuple(merged_table(groups).sum(axis=1).tolist())
    return TripleStatistic(volume_under_roc(groups, sizes), ORACLES[oracle](3 * groups, epsilon))


def cells(settings: Settings) -> list[Simulation]:
    """A cell for each oracle, number of groups and epsilon."""
    finest = protocol("KRR", NUM_SCORES, 1.0).truth(merged_table(NUM_SCORES).ravel())
    return [
        Simulation(
            protocol=protocol(oracle, groups, epsilon),
            data=HistogramData(merged_table(groups).ravel()),
            num_trials=settings.num_trials,
            seed=settings.seed,
            target=float(finest),
            labels={"oracle": oracle, "groups": groups, "epsilon": epsilon},
        )
        for oracle in ORACLES
        for groups in ((2, 5) if settings.quick else GROUPS)
        for epsilon in settings.epsilons
    ]


def figure(results: "pa.Table") -> "Figure":
    """RMSE against epsilon by oracle, a panel for each number of groups; measured on predicted."""
    rows = results.to_pylist()
    numbers = sorted({row["groups"] for row in rows})
    epsilons = sorted({row["epsilon"] for row in rows})
    canvas, panels = figures.panels(columns=len(numbers), height=3.4, sharey=True)
    for axis, groups in zip(panels[0], numbers, strict=True):
        users = merged_table(groups).ravel()
        for place, oracle in enumerate(ORACLES):
            mark = figures.mark(place)
            predicted = [math.sqrt(protocol(oracle, groups, e).variance(users)) for e in epsilons]
            measured = [r for r in rows if (r["groups"], r["oracle"]) == (groups, oracle)]
            columns = "epsilon", "rmse", "mse_stderr"
            axis.plot(epsilons, predicted, color=mark.color, linestyle=mark.linestyle)
            found = np.array([[row[c] for c in columns] for row in measured]).reshape(-1, 3)
            points, rmse, stderr = found.T  # none where the sweep has no cell yet
            axis.errorbar(
                points,
                rmse,
                stderr / rmse,  # two standard errors of a root
                color=mark.color,
                marker=mark.marker,
                linestyle="none",
                label=oracle if groups == numbers[0] else None,
            )
        axis.set(xscale="log", yscale="log", xlabel="ε", title=f"{groups} groups")
        figures.tidy(axis, x=epsilons)
    panels[0, 0].set_ylabel("root mean squared error")
    canvas.legend(loc="outside lower center", ncols=len(ORACLES))
    return canvas


EXPERIMENT = Experiment(
    name="vus-flights",
    summary="The volume under the ROC surface of the delays of 327,346 flights",
    cells=cells,
    settings=Settings(epsilons=(0.5, 1.0, 2.0, 4.0, 8.0), num_trials=1000),
    quick=Settings(epsilons=(1.0, 4.0), num_trials=200, quick=True),
    figure=figure,
)
