"""Agnostic learning on real data: who serves on the ground, from four attributes.

Users are drawn at random from the 1,414,593 members of the US armed forces
(`jaxdp.data.load_military`). A user's point is the combination of grade, gender, race and Hispanic
origin, of which 79 occur; the label says whether the branch is the Army or the Marine Corps. The
concepts are the 160 conjunctions of at most two attributes and their negations. The best of them,
"male", misclassifies 44.5 % of the members; a constant guess misclassifies 46.4 %.

What we find: with 10**6 users and epsilon = 2 the concept learned by factorization misclassifies on
average 0.07 % of the members more than the best concept does, a tenth of the proven bound. Learning
from one random concept a user costs 0.3 %, and learning without privacy less than 0.01 %.
"""

import itertools

import numpy as np

from jaxdp.data import load_military
from jaxdp.sweep import Experiment, Settings
from jaxdp_experiments._learning import LearningCell, excess_figure, learning_cells

SIZES = (10**4, 10**5, 10**6, 10**7)
FEATURES = ("grade", "gender", "race", "hisp")
COLUMNS = ("grade", "branch", "gender", "race", "hisp", "rank")
GROUND = ("army", "marine corps")


def concept_class() -> tuple[np.ndarray, np.ndarray]:
    """The concept matrix float64[160, 79], and the counts of the labelled examples, int64[158]."""
    military = load_military()
    cells = military["cells"][:, [COLUMNS.index(name) for name in FEATURES]]
    points, index = np.unique(cells, axis=0, return_inverse=True)
    branch = military["levels_branch"][military["cells"][:, COLUMNS.index("branch")]]
    counts = np.zeros((2, len(points)), np.int64)
    # The label +1 comes first, as the columns of `signed_examples` do.
    np.add.at(counts, ((~np.isin(branch, GROUND)).astype(int), index.ravel()), military["counts"])
    literals = [
        points[:, j] == level
        for j, name in enumerate(FEATURES)
        for level in range(len(military[f"levels_{name}"]))
    ]
    attribute = [j for j, name in enumerate(FEATURES) for _ in military[f"levels_{name}"]]
    pairs = itertools.combinations(range(len(literals)), 2)
    conjunctions = [np.ones(len(points), bool), *literals]
    # Two levels of one attribute exclude each other.
    conjunctions += [literals[a] & literals[b] for a, b in pairs if attribute[a] != attribute[b]]
    matrix = 2.0 * np.array(conjunctions) - 1.0
    return np.concatenate([matrix, -matrix]), counts.ravel()


def cells(settings: Settings) -> list[LearningCell]:
    """A cell for each number of users, epsilon and learner."""
    concepts, counts = concept_class()
    sizes = SIZES[1:2] if settings.quick else SIZES
    labels = {"concepts": "military"}
    return learning_cells(concepts, counts / counts.sum(), sizes, settings, labels)


EXPERIMENT = Experiment(
    name="learning-military",
    summary="Excess risk of agnostic learners on 1,414,593 members of the US armed forces",
    cells=cells,
    settings=Settings(epsilons=(0.5, 2.0, 4.0), num_trials=100),
    quick=Settings(epsilons=(2.0,), num_trials=50, quick=True),
    figure=lambda results: excess_figure(results, ("concepts",)),
)
