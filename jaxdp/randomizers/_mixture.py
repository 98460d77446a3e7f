"""Tallies of reports that are of a set of the value or, with the other probability, of any."""

import abc
import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int32

from .._contract import TallyLaw, Tree, Work
from .._x64 import compiled_in_float64
from ..random import Count, merge, multinomial, multinomials
from ._butterfly import thin_each
from ._params import BinRound, DrawnCountsRound

_MOST_CELLS = 2**14  # that multinomials draw side by side


class MixtureRound(BinRound[Count], DrawnCountsRound):
    """Base of counted params with reports of a mixture of two uniform laws.

    With some probability a report is certainly in the set S_v of the user's value v, all sets being
    of one size s, and uniform on it; else it is uniform on all K reports.
    """

    @property
    @abc.abstractmethod
    def set_size(self) -> int:
        """s; static."""

    @abc.abstractmethod
    def set_probability(self) -> Float[Array, ""]:
        """The probability that a report is certainly in S_v; only inside an x64 block."""

    @abc.abstractmethod
    def members(self, values: Int32[Array, " m"]) -> Int32[Array, "m s"]:
        """The reports in S_v of each value v; of values beyond the domain any."""

    def report_weights(self) -> Float[Array, " K"]:
        """1 for each report, or 0 for one that there is not; only inside an x64 block."""
        return jnp.ones(self.num_reports)

    @property
    def law(self) -> TallyLaw[Count]:
        """O(k s + K) draws, by one program for all rounds of this base."""
        return dataclasses.replace(super().law, together=draw_mixtures)

    def _draw(self, key: jax.Array, counts: Count, inputs: Tree) -> Count:
        del inputs
        return draw_mixtures([self], [key], [counts])[0]

    def _cost(self, work: Work) -> float:
        spread = work.num_bins * self.set_size if self.set_size > 1 else 0
        return work.draws(2.0 * (work.num_bins + spread + self.num_reports))

    def _steps(self) -> tuple[int, int]:
        """In how many steps members are drawn, and of how many values each."""
        rows = min(max(_MOST_CELLS // self.set_size, 1), self.num_values)
        return -(-self.num_values // rows), rows

    def _count_members(self, members: Count, values: Int32[Array, " m"]) -> Count:
        """The number of each report, from that of each member, Count[m, s]."""
        reports = self.members(values).ravel()
        return members.reshape(-1).segment_sum(reports, self.num_reports)


@compiled_in_float64
def draw_mixtures(
    rounds: Sequence[MixtureRound], keys: Sequence[jax.Array], counts: Sequence[Count]
) -> list[Count]:
    """The tally of each round, the same whichever others are drawn with it.

    A binomial for each value says how many reports are certainly in its set; a multinomial spreads
    them over it, and one the others over all reports.
    """

    def streams(number: int) -> list[jax.Array]:
        return [jax.random.fold_in(key, number) for key in keys]

    chances = [round.set_probability() for round in rounds]
    inside = thin_each(list(zip(streams(0), counts, chances, strict=True)))
    rest = [users.sum() - certain.sum() for users, certain in zip(counts, inside, strict=True)]
    uniform = multinomials(
        [
            (key, n, round.report_weights())
            for key, n, round in zip(streams(1), rest, rounds, strict=True)
        ]
    )
    spread = _spread(rounds, streams(2), inside)
    return [merge(a, b) for a, b in zip(uniform, spread, strict=True)]


def _spread(
    rounds: Sequence[MixtureRound], keys: Sequence[jax.Array], inside: Sequence[Count]
) -> list[Count]:
    """The reports of the users who are certainly in the set of their value."""
    members = [users.reshape(-1, 1) for users in inside]  # of sets of one report
    short = [i for i, r in enumerate(rounds) if r.set_size > 1 and r._steps()[0] == 1]
    drawn = multinomials(
        [(jax.random.fold_in(keys[i], 0), inside[i], jnp.ones(rounds[i].set_size)) for i in short]
    )
    for i, cells in zip(short, drawn, strict=True):
        members[i] = cells
    return [
        _spread_in_steps(round, key, users)
        if round.set_size > 1 and round._steps()[0] > 1
        else round._count_members(cells, jnp.arange(round.num_values, dtype=jnp.int32))
        for round, key, users, cells in zip(rounds, keys, inside, members, strict=True)
    ]


def _spread_in_steps(round: MixtureRound, key: jax.Array, inside: Count) -> Count:
    """`_spread` of one round, some values at a time."""
    steps, rows = round._steps()
    cells, values = jnp.ones(round.set_size), jnp.arange(steps * rows, dtype=jnp.int32)
    padded = jnp.pad(inside.f64(), (0, steps * rows - round.num_values))

    def add(total, step):
        number, users, value = step
        drawn = multinomial(jax.random.fold_in(key, number), Count.from_float(users), cells)
        return total + round._count_members(drawn, value), None

    numbers = jnp.arange(steps, dtype=jnp.int32)
    each = (numbers, padded.reshape(steps, rows), values.reshape(steps, rows))
    return lax.scan(add, Count.zeros((round.num_reports,)), each)[0]
