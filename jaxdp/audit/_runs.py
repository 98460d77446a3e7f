"""Whole runs of a protocol on neighbouring populations, as samples."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from .._contract import Collect, Params, Step, Tree, Work, params, params_of, spec_of, work_of
from ..engine import simulate
from ..population import Population
from ._samples import (
    MAX_DECODED,
    REAL_COLUMNS,
    SYMBOL_COLUMNS,
    Samples,
    apply,
    finite,
    hashed,
    input_directions,
    last_bits,
)

Method = Literal["per_user", "tally"]

BLOCK = 16  # users in a block: the fewest that the engine allows, so that few users make several


@params
class Exposed(Params[Tree]):
    """A protocol whose estimate is all that its analyst learns: the outcome, then the estimate."""

    inner: Params[Any]

    @property
    def traceable(self) -> bool:
        """Whether the protocol is."""
        return self.inner.traceable

    def rounds(self, work: Work) -> Sequence[Step]:
        """The rounds of the protocol."""
        return self.inner.rounds(work)

    def play(self, key: jax.Array, users: Population, collect: Collect) -> Tree:
        """The outcome of the protocol."""
        return self.inner.play(key, users, collect)

    def estimate(self, outcome: Tree, /) -> jax.Array:
        """The number of entries of the estimate, then these, then the outcome's; float[entries]."""
        found = _flat(self.inner.estimate(outcome))
        size = jnp.full(1, found.size, found.dtype)
        return jnp.concatenate([size, found, _flat(outcome)])


def _flat(tree: Tree) -> jax.Array:
    """The first entries of a tree, as floats: the lower limbs of its Counts, signed, come first."""
    leaves = [jnp.ravel(leaf) for leaf in jax.tree.leaves(tree)]
    # Upper limbs say nothing of few users, and columns beyond the first are not looked at singly.
    leaves.sort(key=lambda leaf: leaf.dtype == jnp.int32)
    leaves = [leaf.astype(jnp.int32) if leaf.dtype == jnp.uint32 else leaf for leaf in leaves]
    return jnp.concatenate([x.astype(jnp.result_type(float)) for x in leaves])[:MAX_DECODED]


def run_samples(
    protocol: object,
    neighbours: Sequence[Population],
    inputs: np.ndarray,
    statistics: Sequence[Callable],
    key: jax.Array,
    num_samples: int,
) -> dict[str, list[Samples]]:
    """What the analyst learns in as many trials, by the path, for each of the populations.

    Args:
      protocol: a spec or params.
      neighbours: populations in which one user holds each of the inputs.
      inputs: the inputs.
      statistics: further functions of outcomes, float64[n, entries], to float[n].
      key: it is folded.
      num_samples: how many trials.

    Raises:
      TypeError: it is no protocol.
    """
    params = params_of(protocol)
    if params is None:
        raise TypeError(
            f"randomizer must be a spec or its params to be run on a population, got {protocol!r}."
        )
    described = spec_of(protocol) or params  # a spec may refuse more users than its params do
    for population in neighbours:
        described.check_population(population)
    rounds = [step.round for step in params.rounds(work_of(neighbours[0]))]
    methods: list[Method] = ["per_user"]
    if all(round.law is not None for round in rounds):
        methods.append("tally")
    groups = {}
    for number, method in enumerate(methods):
        rows = [
            simulate(
                Exposed(params),
                population,
                # Trials of one key share words: each population has its own, on each path.
                jax.random.fold_in(jax.random.fold_in(key, number), i),
                num_trials=num_samples,
                method=method,
                block_size=BLOCK,
            ).estimates
            for i, population in enumerate(neighbours)
        ]
        groups[f"{method} "] = [_samples(f"{method} ", x, inputs, statistics) for x in rows]
    return groups


def _samples(
    path: str, rows: np.ndarray, inputs: np.ndarray, statistics: Sequence[Callable]
) -> Samples:
    size = int(rows[0, 0])
    found, learnt = rows[:, 1 : 1 + size], rows[:, 1 + size :] + 0.0  # -0.0 is 0.0 as a symbol
    whole = np.clip(np.floor(finite(learnt)), -(2.0**53), 2.0**53).astype(np.int64)
    last, name = last_bits(whole), f"{path}outcome"
    names = [f"{name}[{j}]" for j in range(learnt.shape[1])]
    reals = dict(zip(names[:REAL_COLUMNS], finite(learnt).T, strict=False))
    for j, column in enumerate(finite(found).T[:REAL_COLUMNS]):
        reals[f"{path}estimate[{j}]"] = column
    reals |= apply(statistics, learnt, path)
    # Equal numbers have equal bits: as symbols they may be of any size.
    bits = np.ascontiguousarray(learnt).view(np.int64)
    symbols = dict(zip(names[:SYMBOL_COLUMNS], bits.T, strict=False))
    lows = [f"last bits of {n}" for n in names[:REAL_COLUMNS]]
    symbols.update(zip(lows, last.T, strict=False))
    symbols[f"{name} as a whole"] = hashed(bits)
    symbols[f"parity of {name}"] = np.bitwise_xor.reduce(last & 1, axis=1)
    directions = input_directions(inputs, size)
    fits = None if directions is None else finite(found) @ directions
    return Samples(reals, symbols, {}, fits, None, None)
