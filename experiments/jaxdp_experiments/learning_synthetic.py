"""Agnostic learning of synthetic concepts with random labels: excess risk against the users.

Points are uniform; labels follow one concept of the class and are flipped at a given rate. Each
learner is compared with empirical risk minimisation on the same number of users without privacy.

What we find: the excess risk of factorization is below its bound everywhere, by a factor of 2 to 10
where learning has hardly begun and by orders of magnitude later. Excess risks come in steps of 1/64
for thresholds, 1/16 for intervals and 1/2 for parities, times 1 - 2 noise; with enough users they
are 0 in every trial, while the bound is still some hundredths. For thresholds and intervals
factorization is ahead of learning from one random concept a user. Parities are orthogonal and have
the largest factorization norm of any class of their size; there the two learners do equally well.
"""

import numpy as np

from jaxdp import workloads
from jaxdp.sweep import Experiment, Settings
from jaxdp_experiments._learning import LearningCell, excess_figure, learning_cells

SIZES = (10**3, 10**4, 10**5, 10**6)
NOISE = (0.0, 0.2, 0.4)


def classes() -> dict[str, tuple[np.ndarray, int]]:
    """Concept matrices by name, and the concept that labels follow."""
    intervals = workloads.intervals(16)
    target = np.where(np.arange(16) // 6 == 1, 1.0, -1.0)  # [6, 11]
    return {
        "thresholds": (workloads.thresholds(64), 40),
        "intervals": (intervals, int(np.argmax(intervals @ target))),
        "parities": (workloads.parity(8, 2), 20),
    }


def distribution(labels: np.ndarray, noise: float) -> np.ndarray:
    """Uniform points with labels that are wrong at a rate, float64[2 k]."""
    right = np.concatenate([labels > 0, labels < 0])
    return np.where(right, 1 - noise, noise) / labels.size


def cells(settings: Settings) -> list[LearningCell]:
    """A cell for each class, noise rate, number of users, epsilon and learner."""
    return [
        cell
        for name, (concepts, target) in classes().items()
        for noise in (NOISE[1:2] if settings.quick else NOISE)
        for cell in learning_cells(
            concepts,
            distribution(concepts[target], noise),
            SIZES[1:2] if settings.quick else SIZES,
            settings,
            {"concepts": name, "noise": noise},
        )
    ]


EXPERIMENT = Experiment(
    name="learning-synthetic",
    summary="Excess risk of agnostic learners for thresholds, intervals and parities, with noise",
    cells=cells,
    settings=Settings(epsilons=(0.5, 2.0), num_trials=200),
    quick=Settings(epsilons=(1.0,), num_trials=100, quick=True),
    figure=lambda results: excess_figure(results, ("concepts", "noise")),
)
