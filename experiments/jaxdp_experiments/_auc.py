"""What the experiments on the area under the ROC curve share: one measured cell, one picture."""

import dataclasses
from typing import Any

import jax
import numpy as np

import jaxdp
from jaxdp.pairwise import HierarchicalAUC
from jaxdp_experiments._cells import key_of


@dataclasses.dataclass(frozen=True, slots=True)
class Users:
    """Users given one by one, for the path that visits each of them.

    Attributes:
      scores: int[n], in [0, num_scores).
      labels: int[n], 0 or 1.
      num_scores: d.
      target: the area that the estimate is compared with.
    """

    scores: np.ndarray
    labels: np.ndarray
    num_scores: int
    target: float

    @property
    def counts(self) -> np.ndarray:
        """How many users hold each cell, int64[2 d]."""
        return np.bincount(self.cells, minlength=2 * self.num_scores)

    @property
    def cells(self) -> np.ndarray:
        """The users' values, int32[n]."""
        return (self.labels * self.num_scores + self.scores).astype(np.int32)


def trials_of(protocol: HierarchicalAUC, users: Users, key: jax.Array, num_trials: int):
    """Trials that visit every user, with errors about the users' target."""
    return jaxdp.simulate(
        protocol,
        jaxdp.Population.from_values(users.cells, num_values=2 * users.num_scores),
        key,
        num_trials=num_trials,
        method="per_user",
        mesh="local",
        block_size=_block_size(protocol, len(users.scores)),
        truth=users.target,
    )


def measured(
    protocol: HierarchicalAUC, users: Users, num_trials: int, seed: int, name: str
) -> dict[str, Any]:
    """The errors of a protocol about the users' target, and the one predicted about their cells'.

    The randomness of a cell depends on the seed and its name alone.
    """
    trials = trials_of(protocol, users, key_of(seed, name), num_trials)
    estimates = np.asarray(trials.estimates, np.float64).ravel()
    absolute = np.abs(estimates - users.target)
    squares = np.square(absolute)
    rmse = float(np.sqrt(squares.mean()))
    counts = users.counts
    return {
        "rmse": rmse,
        "rmse_stderr": float(squares.std() / np.sqrt(num_trials) / (2 * rmse)),
        "absolute": float(absolute.mean()),
        "absolute_sd": float(absolute.std()),
        "bias": float(estimates.mean() - users.target),
        "lost_in_cells": float(protocol.truth(counts) - users.target),
        "predicted_rmse": float(np.sqrt(protocol.variance(counts))),
        "num_trials": num_trials,
        "estimates": estimates.tolist(),
    }


def _block_size(protocol: HierarchicalAUC, num_users: int) -> int | None:
    """Users in a block; all of them where adding up the blocks' tallies would take longest."""
    if protocol.num_scores < num_users // 16:
        return None
    return min(2 ** (num_users - 1).bit_length(), 2**22)
