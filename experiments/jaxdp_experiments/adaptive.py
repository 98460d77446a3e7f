"""Analysts who overfit, against three ways of answering the linear queries that they choose.

Each user holds one of k values, uniformly at random. An analyst asks d queries with values ±1. Most
are probes: signed Walsh functions whose true answers the analyst knows, so that the error of an
answer reveals something of the noise and of the sample. The others are attacks built from these
errors: at each value, the sign of the sum of the probes, each weighted by the error of its answer.
If the same data answer all queries, the errors of d answers add up in an attack; if every query has
its own users, nothing carries over.

The answers come from

  * `split`: `AdaptiveQueries`, where each round has users of its own;
  * `reused`: one epsilon-private report from every user, by `HadamardBit`. It gives a histogram
    that answers all queries, with the same privacy and the same number of users;
  * `empirical`: the users' own histogram, without privacy.

Errors are with respect to the distribution of the users, and the largest of the d errors counts.
Theorem 5.2 of Bassily (2019) bounds its expectation for `split`, whatever the analyst asks.
"""

import dataclasses
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from jaxdp import Population, figures, simulate
from jaxdp.bounds import adaptive_max_error
from jaxdp.linear import AdaptiveQueries
from jaxdp.randomizers import HadamardBit
from jaxdp.sweep import Experiment, Settings
from jaxdp_experiments._cells import key_of
from jaxdp_kernels import register_dataclass

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

NUM_VALUES = 256
NUM_USERS = 10**6
ROUNDS = (16, 32, 64, 128, 256)
FIXED = "no attack"
ATTACKS = {
    FIXED: lambda d: {"first": d},
    "at the end": lambda d: {"first": d - 1},
    "at the end, by signs": lambda d: {"first": d - 1, "power": 0.0},
    "at the end, by squares": lambda d: {"first": d - 1, "power": 2.0},
    "second half": lambda d: {"first": d // 2, "chance": 1 / 16},
    "every other round": lambda d: {"first": 1, "every": 2, "chance": 1 / 16},
}
"""What `Overfitter`s do in d rounds."""


ANSWERS = {
    "reused": "one private report, reused",
    "split": "AdaptiveQueries",
    "empirical": "users' histogram, not private",
}
"""What answers, as it is called in the figure."""


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Overfitter:
    """An analyst who fits queries to the errors of earlier answers; a pytree.

    Attributes:
      seed: of the signs of the probes, and of what is left to chance.
      first: the first round of an attack.
      every: the rounds from one attack to the next.
      power: of the error of an answer, the weight of its probe.
      chance: the share of an attack's values whose sign is flipped, so that attacks differ.
      num_values: k, a power of two, static.
      num_rounds: d, at most k, static.
    """

    seed: int
    first: int
    every: int = 1
    power: float = 1.0
    chance: float = 0.0
    num_values: int = dataclasses.field(default=NUM_VALUES, metadata={"static": True})
    num_rounds: int = dataclasses.field(default=64, metadata={"static": True})

    def __call__(self, round, answers):
        """The query of a round, float32[k]."""
        rounds = jnp.arange(self.num_rounds)
        attacks = (rounds >= self.first) & ((rounds - self.first) % self.every == 0)
        probes = self._probes()
        off = answers - probes.mean(axis=1)  # users are uniform
        weights = jnp.where((rounds < round) & ~attacks, jnp.abs(off) ** self.power, 0)
        found = jnp.where((weights * jnp.sign(off)) @ probes >= 0, 1.0, -1.0)
        flipped = jax.random.uniform(self._key(1 + round), found.shape) < self.chance
        return jnp.where(attacks[round], jnp.where(flipped, -found, found), probes[round])

    def _key(self, number):
        return jax.random.fold_in(jax.random.key(self.seed), number)

    def _probes(self):
        """Orthogonal queries of ±1, float32[d, k]."""
        values = jnp.arange(self.num_values, dtype=jnp.uint32)
        # Walsh functions: the parity of the bits in common. The same signs for all leave them
        # orthogonal.
        shared = values[: self.num_rounds, None] & values[None, :]
        odd = (jax.lax.population_count(shared) & np.uint32(1)).astype(jnp.float32)
        signs = jax.random.rademacher(self._key(0), (self.num_values,), jnp.float32)
        return (1 - 2 * odd) * signs[None, :]


def _converse(analyst: Overfitter, histogram):
    """The largest error about uniform users where one histogram answers all queries, float[]."""

    def step(answers, round):
        query = analyst(round, answers)
        answer = jnp.dot(query, histogram, precision="highest")
        return answers.at[round].set(answer), jnp.abs(answer - query.mean())

    rounds = jnp.arange(analyst.num_rounds)
    return jax.lax.scan(step, jnp.zeros(analyst.num_rounds), rounds)[1].max()


_converse_trials = jax.jit(jax.vmap(_converse, in_axes=(None, 0)))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """A cell: one kind of attack on all three, by analysts of several seeds.

    Args:
      attack: one of `ATTACKS`.
      num_rounds: d.
      epsilon: privacy parameter.
      num_analysts: how many seeds.
      num_trials: trials for each analyst.
      seed: of the trials.
    """

    attack: str
    num_rounds: int
    epsilon: float
    num_analysts: int
    num_trials: int
    seed: int

    @property
    def labels(self):
        """The coordinates of this cell."""
        return (("attack", self.attack), ("epsilon", self.epsilon), ("rounds", self.num_rounds))

    def analysts(self) -> list[Overfitter]:
        """One for each seed."""
        how = ATTACKS[self.attack](self.num_rounds)
        return [Overfitter(s, num_rounds=self.num_rounds, **how) for s in range(self.num_analysts)]

    def rows(self):
        """A row for each way of answering.

        Returns:
          Rows with the labels, `answers`, `error`: the largest error of a run, in the mean over
          analysts and trials, `stderr`: its standard error, `worst_error`: the mean over trials for
          the analyst for whom it is largest, `bound`: Theorem 5.2, and `broken`: for how many of
          the `analysts` the mean over trials is above the bound.
        """
        bound = adaptive_max_error(NUM_USERS, self.num_rounds, self.epsilon, simple=True)
        trials = [self._errors(analyst) for analyst in self.analysts()]
        rows = []
        for name in trials[0]:
            errors = np.stack([found[name] for found in trials])
            means = errors.mean(axis=1)
            result = {
                "answers": name,
                "error": float(means.mean()),
                "stderr": float(errors.std() / np.sqrt(errors.size)),
                "worst_error": float(means.max()),
                "bound": bound,
                "broken": int(np.sum(means > bound)),
                "analysts": self.num_analysts,
            }
            rows.append(dict(self.labels) | result)
        return rows

    def _errors(self, analyst: Overfitter) -> dict[str, np.ndarray]:
        """The largest error of each trial, for each way of answering."""
        users = Population.from_distribution(np.full(NUM_VALUES, 1 / NUM_VALUES), NUM_USERS)
        key = key_of(self.seed, repr((self.labels, analyst.seed)))
        split = AdaptiveQueries(NUM_VALUES, self.epsilon, self.num_rounds, analyst, traceable=True)
        oracle = HadamardBit(NUM_VALUES, self.epsilon)
        once = simulate(
            oracle,
            users,
            key,
            num_trials=self.num_trials,
            method="tally",
            mesh="local",
            truth="sample",
        )
        # Errors are about the sample, so this is what the users hold.
        held = once.estimates - once.errors
        histograms = np.stack([once.estimates, held]).astype(np.float32) / NUM_USERS
        return {
            "split": simulate(
                split, users, key, num_trials=self.num_trials, method="tally", mesh="local"
            ).max_error,
            "reused": np.asarray(_converse_trials(analyst, histograms[0])),
            "empirical": np.asarray(_converse_trials(analyst, histograms[1])),
        }


def cells(settings: Settings) -> list[Contest]:
    """A cell for each attack, epsilon and number of rounds."""
    return [
        Contest(
            attack=attack,
            num_rounds=rounds,
            epsilon=epsilon,
            num_analysts=4 if settings.quick else 20,
            num_trials=settings.num_trials,
            seed=settings.seed,
        )
        for attack in (list(ATTACKS)[:2] if settings.quick else ATTACKS)
        for epsilon in settings.epsilons
        for rounds in (ROUNDS[1:4] if settings.quick else ROUNDS)
    ]


def figure(results: "pa.Table") -> "Figure":
    """The largest error against the number of rounds: under attack solid, of fixed queries dashed.

    The markers of an attack are the analyst for whom the error is largest.
    """
    from matplotlib.lines import Line2D

    rows = results.to_pylist()
    epsilons = sorted({row["epsilon"] for row in rows})
    canvas, grid = figures.panels(len(epsilons), height=3.0, sharey=True)
    looks = {name: figures.mark(place) for place, name in enumerate(ANSWERS)}
    for axes, epsilon in zip(grid[0], epsilons, strict=True):
        here = [row for row in rows if row["epsilon"] == epsilon]
        rounds = sorted({row["rounds"] for row in here})
        bounds = [next(r["bound"] for r in here if r["rounds"] == d) for d in rounds]
        axes.plot(rounds, bounds, color=figures.LIGHT.ink, linestyle=":")
        for name, look in looks.items():
            for fixed in (True, False):
                lines = [
                    [
                        row["error" if fixed else "worst_error"]
                        for row in here
                        if row["answers"] == name
                        and row["rounds"] == d
                        and (row["attack"] == FIXED) == fixed
                    ]
                    for d in rounds
                ]
                style = "--" if fixed else "-"
                axes.plot(rounds, [max(line) for line in lines], style, color=look.color)
                if not fixed:
                    for d, line in zip(rounds, lines, strict=True):
                        axes.plot([d] * len(line), line, look.marker, color=look.color)
        axes.set(xscale="log", yscale="log", xlabel="rounds d", title=f"ε = {epsilon:g}")
        figures.tidy(axes, x=rounds)
    grid[0, 0].set_ylabel("largest error of d answers")
    quiet = figures.LIGHT.quiet
    kinds = [
        Line2D([], [], color=look.color, marker=look.marker, label=ANSWERS[name])
        for name, look in looks.items()
    ]
    kinds += [
        Line2D([], [], color=figures.LIGHT.ink, linestyle=":", label="bound of Theorem 5.2"),
        Line2D([], [], color=quiet, marker="o", label="under attack, worst analyst"),
        Line2D([], [], color=quiet, linestyle="--", label="queries fixed before"),
    ]
    figures.legend(canvas, kinds)
    return canvas


EXPERIMENT = Experiment(
    name="adaptive",
    summary="100 analysts who overfit, against AdaptiveQueries and against reused answers",
    cells=cells,
    settings=Settings(epsilons=(0.5, 1.0, 2.0), num_trials=20),
    quick=Settings(epsilons=(1.0,), num_trials=5, quick=True),
    figure=figure,
)
