"""Two- and three-way marginals of the 17 page categories that 989,818 visitors of msnbc.com saw.

What we find, as squared errors of all answers: of 1,000 users' 3-way marginals the projection
leaves 1/27 at epsilon = 0.25 and 1/10 at 4, of 30,000 users' 1/7 and 1/1.7. All users gain little
from a projection, and a factor 2 from better noise, that of parities: their noise is far below the
distance of the truth from the boundary of what the projections know.

The projection is the nearest point in the basis of the noise. With noise on parities, which is
less, the error of all parities falls, but that of the marginals, which is drawn here, may rise. Of
order 2 it never does; of order 3 it is 2.0 times that of the noise for 30,000 users at epsilon =
0.25 and 1.8 times at 1, while 1,000 users gain a factor of 17 and of 3.

All methods with noise in one basis see the same noise, three times.

The file `msnbc_page_sets.npz` is read from the folder that the environment variable JAXDP_DATA
names.
"""

from jaxdp.sweep import Experiment, Settings
from jaxdp_experiments._marginals import MarginalsCell, draw

METHODS = (
    ("none", "marginals"),
    ("none", "parities"),
    ("clip", "marginals"),
    ("moments", "marginals"),
    ("moments", "parities"),
)


def cells(settings: Settings) -> list[MarginalsCell]:
    """A cell for each size of the data, order, method and epsilon."""
    data, width = ("synthetic", 6) if settings.quick else ("msnbc", 17)
    sizes = (500,) if settings.quick else (1_000, 30_000, 0)
    return [
        MarginalsCell(
            data, width, k, None, method, noise, epsilon, size, settings.num_trials, settings.seed
        )
        for size in sizes
        for k in ((3,) if settings.quick else (2, 3))
        for method, noise in METHODS
        for epsilon in settings.epsilons
    ]


EXPERIMENT = Experiment(
    name="marginals-msnbc",
    summary="2- and 3-way marginals of the page categories of 989,818 visitors",
    cells=cells,
    settings=Settings(epsilons=(0.25, 1.0, 4.0), num_trials=3),
    quick=Settings(epsilons=(1.0,), num_trials=2, quick=True),
    figure=draw,
)
"""Run by `jaxdp run marginals-msnbc`."""
