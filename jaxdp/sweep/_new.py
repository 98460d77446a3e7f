"""The experiment that `jaxdp new` writes, to be changed into one's own."""

import pathlib
import re

TEMPLATE = '''\
"""{title}: what it measures, in a line or two."""

from jaxdp import randomizers
from jaxdp.sweep import Experiment, HistogramData, Settings, Simulation, grid, plot, summarize

# The users: how many have each value. Those of a CSV file: pandas.read_csv(...)[...].value_counts()
DATA = HistogramData({{"never": 5200, "sometimes": 3100, "daily": 1700}})

# What is compared, by the name that tables and figures will have.
MECHANISMS = {{"k-RR": randomizers.KRR, "subset selection": randomizers.SubsetSelection}}


def cells(settings):
    """A simulation for each mechanism and epsilon; equal cells are computed once, ever."""
    return [
        Simulation(
            protocol=point.mechanism(3, point.epsilon),
            data=DATA,
            num_trials=settings.num_trials,
            seed=settings.seed,
            labels=point.labels,
        )
        for point in grid(mechanism=MECHANISMS, epsilon=settings.epsilons)
    ]


def figure(results):
    """Errors of each mechanism, all values together, beside the predicted ones."""
    return plot(summarize(results), x="epsilon", y="rmse", hue="mechanism")


# `--epsilons`, `--trials` and `--seed` change the settings; `--quick` takes the second ones.
EXPERIMENT = Experiment(
    name="{name}",
    summary="{title}",
    cells=cells,
    settings=Settings(epsilons=(0.5, 1.0, 2.0, 4.0), num_trials=200),
    quick=Settings(epsilons=(1.0,), num_trials=20, quick=True),
    figure=figure,
)
'''


def write_template(name: str) -> pathlib.Path:
    """Writes NAME.py, an experiment that runs as it is.

    Raises:
      ValueError: the name is none of a module, or the file is there.
    """
    module = name.removesuffix(".py").replace("-", "_")
    if not re.fullmatch(r"[A-Za-z_]\w*", module):
        raise ValueError(f"NAME must be letters, digits and '_', as a module's is, got {name!r}.")
    path = pathlib.Path(f"{module}.py")
    title = module.replace("_", " ").strip().capitalize() or module
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(TEMPLATE.format(name=module.replace("_", "-").strip("-"), title=title))
    except FileExistsError:
        raise ValueError(f"NAME must be that of a new file, but {path} exists.") from None
    return path
