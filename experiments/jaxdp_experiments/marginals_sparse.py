"""Marginals of sparse users: shopping baskets and mushrooms, with a promise of few features.

Baskets keep the 30 most frequent items and at most 4 of them, mushrooms the 30 most frequent of 119
features, which are not sparse: at most 20. What we find, as squared errors of all answers at
epsilon = 0.25: of 2,000 baskets the projection leaves 1/3.6, of all 88,162 it leaves 1/1.4, which
clipping does too, and of the 8,124 mushrooms 1/1.9. Flattening a moment matrix, which is cheaper,
leaves 1/3.6, 1/1.4 and 1/1.5; keeping the largest answers changes nothing, since m t^k is more than
there are. All methods see the same noise, three times.

The files `retail_baskets.npz` and `mushroom_fimi.npz` are read from the folder that the environment
variable JAXDP_DATA names.
"""

from jaxdp.sweep import Experiment, Settings
from jaxdp_experiments._marginals import MarginalsCell, draw

METHODS = ("none", "clip", "largest", "flattened", "moments")


def cells(settings: Settings) -> list[MarginalsCell]:
    """A cell for each data set, method and epsilon."""
    sets = (
        [("synthetic", 6, 2, 500)]
        if settings.quick
        else [("retail", 30, 4, 2_000), ("retail", 30, 4, 0), ("mushrooms", 30, 20, 0)]
    )
    return [
        MarginalsCell(
            *(data, width, 2, t, method, "marginals", epsilon),
            num_users=size,
            num_trials=settings.num_trials,
            seed=settings.seed,
        )
        for data, width, t, size in sets
        for method in METHODS
        for epsilon in settings.epsilons
    ]


EXPERIMENT = Experiment(
    name="marginals-sparse",
    summary="2-way marginals of sparse users: shopping baskets and mushrooms",
    cells=cells,
    settings=Settings(epsilons=(0.25, 1.0, 4.0), num_trials=3),
    quick=Settings(epsilons=(1.0,), num_trials=2, quick=True),
    figure=draw,
)
"""Run by `jaxdp run marginals-sparse`."""
