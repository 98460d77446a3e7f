"""The hierarchical AUC whose users are split evenly over the levels, at random.

The users of each class are put in random order and dealt out to the levels, so that all levels have
as many of them, give or take one. Which level a user is dealt does not depend on its score, and is
public: the analyst tells the user. Users of one cell are alike, so a simulation draws how many of
each are dealt each level, exactly in law, and its users are visited by level and node.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from ..._contract import Collect, Cost, Interactive, Step, Work, params
from ..._x64 import compiled_in_float64
from ...population import HistogramSource, Population
from ...random import Count, Stream, multivariate_hypergeometric, stream
from ._hierarchical_auc_round import HierarchicalAUCParams, group_size

_DEAL = 7  # of the keys of `Stream.DRAWS`; populations have the others


@params
class EvenHierarchicalAUCParams(Interactive[Count]):
    """The params of `HierarchicalAUC` whose users are dealt evenly over the levels: a pytree.

    Attributes:
      tree: the params of the one round, in which a user's value is a slot of its level.
    """

    tree: HierarchicalAUCParams

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless the users' values are cells."""
        population.require_bins(2 * self.tree.num_scores, "2 * num_scores")

    def rounds(self, work: Work) -> tuple[Step, ...]:
        """The one round, of users by slot."""
        return (Step(self.tree, dataclasses.replace(work, num_bins=self.tree.num_slots)),)

    def cost(self, work: Work) -> Cost:
        """What the round costs, and dealing out its users."""
        draws = work.draws(len(self.tree.levels) * 2 ** (self.tree.height + 1))
        return super().cost(work) + Cost(draws, draws)

    def play(self, key: jax.Array, users: Population, collect: Collect) -> Count:
        """The tally of the one round."""
        return collect(self.tree, dealt_out(self.tree, key, users), 0)

    def estimate(self, outcome: Count, /) -> Float[Array, ""]:
        """The estimated area."""
        return self.tree.estimate(outcome)


def dealt_out(tree: HierarchicalAUCParams, key: jax.Array, users: Population) -> Population:
    """The users by slot, dealt evenly over the levels; themselves where levels are not dealt.

    Args:
      tree: the params of the round.
      key: the trial's.
      users: whose values are cells.
    """
    if not tree.dealt:
        return users
    draws = jax.random.fold_in(stream(key, Stream.DRAWS), _DEAL)
    histogram, ends, size = _slots(tree, draws, users.counts())
    return Population(HistogramSource(histogram, ends, size, most=users.source.most))


@compiled_in_float64
def _slots(
    tree: HierarchicalAUCParams, key: jax.Array, counts: Count
) -> tuple[Count, Count, Count]:
    """How many users have each slot, its cumulative sums, and the number of users."""
    pad = [(0, 0), (0, 2**tree.height - tree.num_scores)]
    table: Count = jax.tree.map(lambda limb: jnp.pad(limb, pad), counts.reshape(2, -1))
    num_levels, sizes = len(tree.levels), table.sum(1).f64()

    def deal(left: Count, place: jax.Array) -> tuple[Count, Count]:
        group = Count.from_float(group_size(sizes, num_levels, place.astype(jnp.float64)))
        drawn = multivariate_hypergeometric(jax.random.fold_in(key, place), left, group)
        return left - drawn, drawn

    _, dealt = lax.scan(deal, table, jnp.arange(num_levels, dtype=np.uint32))
    # Level l has the slots 2**(l + 1) .. 2**(l + 2) - 1, from the first one on
    nodes = [
        dealt[place].reshape(2, 2**level, -1).sum(2).reshape(-1)
        for place, level in enumerate(tree.levels)
    ]
    slots: Count = jax.tree.map(lambda *limbs: jnp.concatenate(limbs), Count.zeros((4,)), *nodes)
    ends = jnp.cumsum(slots.f64())
    return slots, Count.from_float(ends), Count.from_float(ends[-1])
