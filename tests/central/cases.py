"""What the contract suite of the central model needs to know of one mechanism.

A new member joins by one entry in `CASES`.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdp import workloads
from jaxdp.central import (
    CosineSet,
    CosineSimilarity,
    FactorizationMechanism,
    Intersection,
    Marginals,
    PerturbAndProject,
)
from jaxdp.factorization import explicit
from jaxdp.projections import l2_ball
from jaxdp.random import Count

Noise = Callable[[Any, int, np.random.Generator], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Case:
    """One mechanism, with an account of its own of what a user can move.

    Attributes:
      name: shown in test ids.
      make: epsilon to mechanism.
      moves: mechanism and generator to float64[moves, ...], the differences of what is noised for
        neighbouring data sets, found by a search that does not use the declared sensitivity.
      slack: by how much, relatively, the search may miss the largest move.
      noise: mechanism, number and generator to float64[number, ...], the noise of so many releases;
        None where another case draws the same.
    """

    name: str
    make: Callable[[float], Any]
    moves: Callable[[Any, np.random.Generator], np.ndarray]
    slack: float = 1e-9
    noise: Noise | None = None


def ids(case: Case) -> str:
    """The name of a case, for pytest."""
    return case.name


def _keys(rng, number):
    return jax.random.split(jax.random.key(int(rng.integers(2**31))), number)


# --- factorization: the noise is added to right @ counts


W = workloads.prefix(6)


def replaced(mechanism, rng):
    """One user has another value, or for "add_remove" is there or not."""
    del rng
    right = mechanism.right
    if mechanism.adjacency == "add_remove":
        return right.T
    pairs = itertools.permutations(range(right.shape[1]), 2)
    return np.stack([right[:, x] - right[:, y] for x, y in pairs])


def factor_noise(mechanism, number, rng):
    """The noise of the answers, taken back through the left factor."""
    counts = np.array([100, 50, 20, 0, 5, 60])
    params, tally = mechanism.build(), Count.of(counts)

    def release(key):
        noise = params.noise.draw(key, (len(mechanism.right),))
        return params.estimate(params.perturb(tally, noise))

    with jax.enable_x64(True):
        answers = jax.jit(jax.vmap(release))(_keys(rng, number))
    noise = (np.asarray(answers) - mechanism.truth(counts)) * counts.sum()
    assert np.linalg.matrix_rank(mechanism.left) == len(mechanism.right)
    return np.linalg.lstsq(mechanism.left.T, noise.T, rcond=None)[0].T


def _factorization(name, noise: Noise | None = None, epsilon_delta=1e-6, **options):
    return Case(
        f"factorization-{name}",
        lambda e: FactorizationMechanism(W, e, epsilon_delta, **options),
        replaced,
        noise=noise,
    )


FACTORIZATION = (
    _factorization("max", factor_noise),
    _factorization("mean", norm="gamma_f"),
    _factorization("approximate", epsilon_delta=1e-5, alpha=0.2),
    _factorization("tree", epsilon_delta=1e-9, factorization=explicit.hierarchical_prefix(6)),
    _factorization("counts", factorization=np.eye(6)),
    _factorization("removal", adjacency="add_remove"),
    _factorization("removal-mean", norm="gamma_f", adjacency="add_remove"),
)


# --- marginals: the noise is added to the sums over the users of all marginals, or parities


N = 5
ROWS = ((np.arange(2**N)[:, None] >> np.arange(N)) & 1).astype(np.float32)


def other_rows(mechanism, rng):
    """One user has other features: all pairs of rows, by the workload that is dense."""
    del rng
    find = workloads.marginal if mechanism.noise == "marginals" else workloads.parity
    rows = ROWS[ROWS.sum(axis=1) <= (mechanism.sparsity or N)]
    columns = find(N, mechanism.order)[1:, rows.astype(int) @ 2 ** np.arange(N)]
    pairs = itertools.combinations(range(len(rows)), 2)
    return np.stack([columns[:, i] - columns[:, j] for i, j in pairs])


def answer_noise(mechanism, number, rng):
    """The noise of the answers, which are what is noised."""
    assert mechanism.noise == mechanism.queries
    counts = np.arange(2**N) % 7 * 10 + 1
    tally = Count.of((workloads.marginal(N, mechanism.order) @ counts).astype(int))
    params = mechanism.build()

    def release(key):
        noise = params.noise.draw(key, (mechanism.num_queries - 1,))
        return params.release(params.perturb(tally, noise)).noisy

    with jax.enable_x64(True):
        found = jax.jit(jax.vmap(release))(_keys(rng, number))
    truth = mechanism.truth(counts, ROWS)
    return (np.asarray(found) - truth)[:, 1:] * counts.sum()


def _marginals(name, order=3, noise_of: Noise | None = None, **options):
    return Case(
        f"marginals-{name}",
        lambda e: Marginals(N, order, e, 1e-6, **options),
        other_rows,
        noise=noise_of,
    )


MARGINALS = (
    _marginals("moments"),
    _marginals("on-marginals", noise_of=answer_noise, noise="marginals", method="none"),
    _marginals("on-parities", noise="parities", queries="parities"),
    _marginals("none", method="none"),
    _marginals("clip", method="clip"),
    _marginals("flattened", 2, method="flattened"),
    _marginals("sparse", sparsity=2),
    _marginals("largest", sparsity=2, method="largest"),
    _marginals("flat-sparse", 2, sparsity=2, method="flattened"),
)


# --- perturb and project: the noise is added to the target


USERS, DIMENSION, ITEMS = 50, 6, 8


def mean_moves(mechanism, rng):
    """The target is a mean of vectors in the unit ball: one of them becomes another."""
    del mechanism
    first = rng.standard_normal((20, DIMENSION))
    second = np.concatenate([rng.standard_normal((19, DIMENSION)), -first[-1:]])
    unit = [v / np.linalg.norm(v, axis=1, keepdims=True) for v in (first, second)]
    return (unit[0] - unit[1]) / USERS


def gram_moves(mechanism, rng):
    """The target is all cosine similarities: one vector becomes another.

    Random vectors, and the best answer to each other's: |V (u - w)| is largest for the others along
    u - w, and u = -w along their first axis.
    """
    found = []
    with jax.enable_x64(True):
        for _ in range(10):
            before = _unit(rng.standard_normal((ITEMS, 3)))
            other = _unit(rng.standard_normal((1, 3)))[0]
            for _ in range(3):
                after = before.copy()
                after[0] = other
                move = mechanism.similarities(before) - mechanism.similarities(after)
                found.append(np.asarray(move))
                gap = _unit(before[:1] - other)[0]
                before[1:], before[0], other = gap, gap, -gap
    return np.stack(found)


def _unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def target_noise(mechanism, number, rng):
    """The noise on a target of zeros."""
    params = mechanism.build()
    params = getattr(params, "mechanism", params)
    zeros = jnp.zeros(params.set.shape)
    noise = jax.jit(jax.vmap(lambda key: params.perturb(key, zeros)))(_keys(rng, number))
    if params.set.symmetric:
        np.testing.assert_array_equal(noise, jnp.swapaxes(noise, 1, 2))
    return np.asarray(noise, np.float64)


BALL = Intersection((DIMENSION,), (l2_ball,), 1.0)
ROW = CosineSimilarity.row_sensitivity(ITEMS)


def _project(**arguments):
    good = {"set": BALL, "sensitivity": 0.1, "epsilon": 1.0, "delta": 1e-6}
    return PerturbAndProject(**good | arguments)


def _cosine(**arguments):
    good = {"num_items": ITEMS, "sensitivity": 0.1, "epsilon": 1.0, "delta": 1e-6}
    return CosineSimilarity(**good | arguments)


PROJECTIONS = (
    Case(
        "perturb-and-project",
        lambda e: _project(sensitivity=2 / USERS, epsilon=e),
        mean_moves,
        noise=target_noise,
    ),
    Case(
        "perturb-and-project-symmetric",
        lambda e: _project(set=CosineSet(ITEMS), sensitivity=ROW, epsilon=e),
        lambda mechanism, rng: gram_moves(_cosine(), rng),
    ),
    Case(
        "cosine-similarity",
        lambda e: _cosine(sensitivity=ROW, epsilon=e),
        gram_moves,
        noise=target_noise,
    ),
)

CASES = FACTORIZATION + MARGINALS + PROJECTIONS


@functools.cache
def mechanism_of(case: Case, epsilon: float = 1.0) -> Any:
    """The mechanism of a case, made once: some solve for their factors."""
    return case.make(epsilon)
