"""The 32 most frequent of 88,496 first names, found without a list of names.

Each of n people is drawn from the 322,402,727 born in the United States from 1880 to 2010, and
holds a first name. Names are spelled letter by letter: in 75 bits, five for each of 15 letters, or
as text in 120 bits, eight for each. No list of names is given; `HeavyHitters` asks for longer and
longer prefixes, in rounds that each have their own users.

We measure the recall: how many of the 32 most frequent names are among the 32 returned, on average
over ten trials. With ten million people at epsilon = 2 it is 80 % for 75 bits in 12 rounds, 49 %
for text in 19 rounds, and 51 % in 35 rounds of 256 candidates each: fewer rounds leave more users,
and so less noise, for each. A tenth of the people need twice the epsilon for the same recall. The
32nd name has a frequency of 0.0035; once that is 5 times the noise of a frequency,
`HeavyHitters.noise`, nine tenths of the 32 are found. The others lose to names just behind: the
33rd is less than 1 % rarer than the 32nd.

The file `ssa_babynames_1880_2010_counts.csv.gz` is read from the folder that the environment
variable JAXDP_DATA names.
"""

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

import numpy as np

import jaxdp
from jaxdp import figures
from jaxdp.data import load_names
from jaxdp.linear import HeavyHitters
from jaxdp.sweep import Experiment, Settings, plot
from jaxdp_experiments._cells import coordinates, key_of
from jaxdp_experiments._data import data_folder

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

FILE = "ssa_babynames_1880_2010_counts.csv.gz"
LETTERS = 15  # of the longest name
NUM_ITEMS = 32
SPELLINGS = {"5 bits a letter": 5 * LETTERS, "text": 8 * LETTERS}
WAYS = (("5 bits a letter", 4096), ("5 bits a letter", 256), ("text", 4096))
"""How names are spelled, and how many candidates a round has."""


@functools.cache
def names(data: str) -> tuple[tuple[str, ...], np.ndarray]:
    """Names and their frequencies: those of the file, or 500 made up ones by Zipf's law."""
    if data == "names":
        found = load_names(data_folder(FILE) / FILE)
        return tuple(found["names"]), found["counts"] / found["counts"].sum()
    letters = np.random.default_rng(0).integers(0, 26, (500, 4)) + ord("a")
    made = sorted({"".join(map(chr, row)) for row in letters})
    weights = 1 / np.arange(1, len(made) + 1)
    return tuple(made), weights / weights.sum()


def spelled(name: str, spelling: str) -> str | int:
    """The item that stands for a name."""
    if spelling == "text":
        return name
    places = enumerate(name.lower())
    return sum((ord(letter) - 96) << 5 * (LETTERS - 1 - place) for place, letter in places)


@dataclasses.dataclass(frozen=True, slots=True)
class NamesCell:
    """One way of asking, number of users and epsilon.

    Args:
      data: "names" or "synthetic".
      spelling: a name in `SPELLINGS`.
      num_candidates: of `HeavyHitters`.
      epsilon: privacy parameter.
      num_users: n.
      num_trials: how many trials are simulated.
      seed: an integer.
    """

    data: str
    spelling: str
    num_candidates: int
    epsilon: float
    num_users: int
    num_trials: int
    seed: int

    @property
    def labels(self) -> tuple[tuple[str, Any], ...]:
        """The coordinates of the cell."""
        return coordinates(self, "data", "spelling", "num_candidates", "epsilon", "num_users")

    @property
    def protocol(self) -> HeavyHitters:
        """The protocol."""
        bits = SPELLINGS[self.spelling]
        return HeavyHitters(bits, self.epsilon, NUM_ITEMS, num_candidates=self.num_candidates)

    def rows(self) -> list[dict[str, Any]]:
        """One row.

        Returns:
          The labels, `recall`: the share of the most frequent names that is found, in the mean over
          trials, `recall_stderr`: its standard error, `rounds`, and `noise`: the standard deviation
          of the frequency of a name that nobody has, over that of the last name that is sought.
        """
        protocol, (held, p) = self.protocol, names(self.data)
        words = protocol.encode([spelled(name, self.spelling) for name in held])
        users = jaxdp.Population.from_distribution(p, self.num_users, values=words)
        key = key_of(self.seed, repr(self.labels))
        trials = jaxdp.simulate(
            protocol, users, key, num_trials=self.num_trials, method="tally", truth="population"
        )
        last = np.sort(p)[-NUM_ITEMS]
        recall = np.mean(trials.truth >= last * (1 - 1e-9), axis=1)
        error = recall.std(ddof=1) / np.sqrt(len(recall))
        measured = {"recall": float(recall.mean()), "recall_stderr": float(error)}
        rounds, noise = len(protocol.depths), protocol.noise(self.num_users) / last
        return [dict(self.labels) | measured | {"rounds": rounds, "noise": float(noise)}]


def cells(settings: Settings) -> list[NamesCell]:
    """A cell for each way of asking, epsilon and number of users."""
    data, sizes = "names", (10**5, 10**6, 10**7, 10**8)
    if settings.quick:
        data, sizes = "synthetic", (10**5, 10**7)
    return [
        NamesCell(data, *way, epsilon, n, settings.num_trials, settings.seed)
        for way in (WAYS[1:2] if settings.quick else WAYS)
        for epsilon in settings.epsilons
        for n in sizes
    ]


def figure(results: "pa.Table") -> "Figure":
    """Recall against users, a panel for each epsilon."""
    import pyarrow as pa

    rows = [
        {"of": f"{row['spelling']}, {row['num_candidates']:,} candidates", **row}
        for row in results.to_pylist()
    ]
    table, width = pa.Table.from_pylist(rows), figures.PAGE
    canvas = plot(table, x="num_users", y="recall", hue="of", col="epsilon", width=width)
    for axes in canvas.axes:
        axes.set_yscale("linear")
        axes.set_ylim(-0.05, 1.05)
    return canvas


EXPERIMENT = Experiment(
    name="heavy-hitters",
    summary="The 32 most frequent of 88,496 first names, letter by letter",
    cells=cells,
    settings=Settings(epsilons=(1.0, 2.0, 4.0), num_trials=10),
    quick=Settings(epsilons=(4.0,), num_trials=2, quick=True),
    figure=figure,
)
"""Run by `jaxdp run heavy-hitters`."""
