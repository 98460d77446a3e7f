"""Every randomizer: users a second against its random words or normals alone, and exact tallies."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jaxdp
from jaxdp import randomizers as lib
from jaxdp_kernels.randomize_and_sum import randomize_and_sum
from jaxdp_kernels.standard_normal import standard_normal
from jaxdp_kernels.threefry_words import threefry_words

from . import _timing

EPSILON = 1.0
_BLOCK = 2**18  # words of a block of the limit
_TRIALS = 4
SHARE = 0.5
"""Of the rate of its words or normals, what a randomizer should reach."""

REASONS = {
    "BinaryResponse": "one word a user: fetching, clamping and counting a value weighs as much.",
    "DiscreteLaplace": "a word is searched for among the k - 1 thresholds, in log2 k steps.",
    "Gaussian": "the norm of each vector, and its sum block by block, in passes of their own.",
    "GaussianRejection": "normals are read twice, to keep or drop a report and to add it up; "
    "at d = 1 the work of a user outweighs its one normal.",
    "HadamardBit": "one word a user: parity and histogram weigh as much.",
    "HadamardResponse": "one word a user: parity and histogram weigh as much.",
    "KRR": "one word a user: the remainder and the histogram weigh as much.",
    "L2Ball": "normals are read three times: for the norm, for the side and for the sum.",
    "Laplace": "a logarithm for each word, which costs as much as the word.",
    "LocalHashing": "four words a user, and the tally hashes all k values for each report.",
    "Piecewise": "its two words are made and then read in steps of two, which does not vectorise.",
    "PrivUnit": "normals are read three times, for their norm, for the reflection and for the sum, "
    "and one coordinate is drawn by rejection.",
    "PrivUnitG": "normals are read twice: for the reflection and for the sum.",
    "ProjUnit": "as PrivUnit, with squares of further normals.",
    "ProjectiveGeometryResponse": "divisions of 64-bit numbers, which 32-bit ones make up.",
    "SubsetSelection": "the members of a set are picked one after another, each past the others.",
}
"""Why a randomizer may reach less than `SHARE`, by name."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """A randomizer to time.

    Attributes:
      spec: the randomizer's spec.
      size: k for bins, d for vectors, 0 for numbers.
      bins: whether users have bins.
      normals: how many normals a user draws; 0 where words decide directly.
    """

    spec: Any
    size: int
    bins: bool = False
    normals: int = 0

    @property
    def name(self) -> str:
        """The class."""
        return type(self.spec).__name__

    @property
    def draws(self) -> int:
        """Normals, or words, that a user takes."""
        return self.normals or self.spec.build().num_words

    def rows(self, count: int, seed: int) -> np.ndarray:
        """Values of as many users, or distinct inputs."""
        rng = np.random.default_rng(seed)
        if self.bins:
            return rng.integers(0, self.size, count, dtype=np.int32)
        if not self.size:
            return rng.uniform(-1, 1, count).astype(np.float32)
        vectors = rng.standard_normal((count, self.size), np.float32)
        norm = np.abs(vectors).sum(1) if self.name == "Laplace" else np.sqrt((vectors**2).sum(1))
        return vectors * (0.9 / norm)[:, None]

    def users(self, count: int, seed: int) -> jaxdp.Population:
        """A population given one by one."""
        return jaxdp.Population.from_values(
            self.rows(count, seed), self.size if self.bins else None
        )

    def histogram(self, count: int, inputs: int, seed: int) -> jaxdp.Population:
        """A population of as many users, given by counts; of distinct inputs where not of bins."""
        distinct = self.size if self.bins else inputs
        counts = np.bincount(np.arange(count) % distinct, minlength=distinct)
        return jaxdp.Population.from_histogram(
            counts, None if self.bins else self.rows(inputs, seed)
        )


def finite(k: int) -> Iterator[Setting]:
    """The randomizers of bins."""
    for spec in (
        lib.KRR(k, EPSILON),
        lib.HadamardResponse(k, EPSILON),
        lib.HadamardBit(k, EPSILON),
        lib.SubsetSelection(k, EPSILON),
        lib.UnaryEncoding(k, EPSILON),
        lib.LocalHashing(k, EPSILON),
        lib.ProjectiveGeometryResponse(k, EPSILON),
        lib.DiscreteLaplace(0, k - 1, EPSILON),
        lib.Rappor(k, EPSILON, num_bits=max(k // 2, 16)),
    ):
        yield Setting(spec, k, bins=True)


def numbers() -> Iterator[Setting]:
    """The randomizers of a number."""
    for spec in (lib.BinaryResponse(EPSILON), lib.Laplace(EPSILON), lib.Piecewise(EPSILON)):
        yield Setting(spec, 0)


def vectors(d: int) -> Iterator[Setting]:
    """The randomizers of a vector."""
    yield Setting(lib.Laplace(EPSILON, dim=d), d)
    for spec in (
        lib.Gaussian(d, EPSILON, 1e-6),
        lib.GaussianRejection(d, EPSILON),
        lib.L2Ball(d, EPSILON),
        lib.PrivUnit(d, EPSILON),
        lib.PrivUnitG(d, EPSILON),
    ):
        yield Setting(spec, d, normals=d)
    if d > 1:
        yield Setting(lib.ProjUnit(d, EPSILON, max(d // 4, 2)), d, normals=2 * d + 1)


def settings(
    num_bins: Sequence[int], dims: Sequence[int], names: Sequence[str] | None = None
) -> list[Setting]:
    """Every randomizer at every size, or those with the given names."""
    each = [s for k in num_bins for s in finite(k)] + list(numbers())
    each += [s for d in dims for s in vectors(d)]
    return [s for s in each if names is None or s.name in names]


@functools.partial(jax.jit, static_argnames=("make", "block"))
def draw(key_data: jax.Array, make: Callable | None, block: int, blocks: jax.Array) -> jax.Array:
    """The sum of as many blocks of words, or of what `make` makes of them, and no more."""

    def terms(start):
        words = threefry_words(key_data, start, block)
        return words if make is None else make(words)

    def add(number, total):
        first = jnp.asarray(number, jnp.int32).astype(jnp.uint32) * np.uint32(block)
        found = terms(jnp.stack([jnp.zeros_like(first), first]))
        return total + jnp.sum(found, dtype=found.dtype)

    dtype = jnp.uint32 if make is None else jnp.float32
    return lax.fori_loop(jnp.int32(0), blocks, add, jnp.zeros((), dtype))


def per_user(
    settings: Sequence[Setting], num_users: int, repeats: int, seconds: float
) -> list[dict[str, Any]]:
    """Users a second of each randomizer, and the share of its limit that it reaches.

    The params run, so no time goes into checking the same population again.

    Args:
      settings: what to time.
      num_users: users of a run, a power of two.
      repeats: timed runs of each, at most.
      seconds: after which no further run of a randomizer begins.

    Returns:
      A row for each.
    """
    key = jax.random.key(3)
    rows = []
    for setting in settings:
        population, params = setting.users(num_users, 0), setting.spec.build()
        times = _timing.interleave(
            {
                "ours": functools.partial(jaxdp.run, params, population, key, method="per_user"),
                "limit": _limit(key, setting.draws, num_users, normals=setting.normals > 0),
            },
            repeats,
            seconds,
        )
        ours, limit = (times[who]["median"] / num_users * 1e9 for who in ("ours", "limit"))
        row = {"name": setting.name, "size": setting.size, "users": num_users}
        row |= {"draws": setting.draws, "limit": "normals" if setting.normals else "words"}
        row |= {"ours_ns": ours, "limit_ns": limit, "share": limit / ours}
        row |= {"users_per_second": round(1e9 / ours), "met": limit / ours >= SHARE}
        rows.append(row if row["met"] else row | {"reason": REASONS.get(setting.name, "")})
    return rows


def _limit(key, draws: int, num_users: int, normals: bool) -> Callable[[], Any]:
    block = min(_BLOCK, num_users)
    blocks = jnp.int32(draws * num_users // block)
    make, data = standard_normal if normals else None, jax.random.key_data(key)
    return lambda: jax.block_until_ready(draw(data, make, block, blocks))


def private_sum(dim: int, num_users: int, repeats: int) -> dict[str, Any]:
    """`PrivUnitG` with its sum and that of a quadratic form, fused, against its normals.

    Args:
      dim: d.
      num_users: a power of two.
      repeats: timed runs.

    Returns:
      Nanoseconds a user of both.
    """
    setting = Setting(lib.PrivUnitG(dim, EPSILON), dim, normals=dim)
    key, values = jax.random.key(4), jnp.asarray(setting.rows(num_users, 0))
    signs = jnp.where(jnp.arange(dim) % 2 == 0, 1.0, -1.0).astype(jnp.float32)
    params, start = setting.spec.build(), jnp.zeros(2, jnp.uint32)

    def ours():
        data = jax.random.key_data(key)
        return jax.block_until_ready(randomize_and_sum(params, data, start, values, signs))

    limit = _limit(key, dim, num_users, normals=True)
    times = _timing.interleave({"ours": ours, "limit": limit}, repeats)
    each = {f"{who}_ns": time["median"] / num_users * 1e9 for who, time in times.items()}
    return {"dim": dim, "users": num_users, **each, "ratio": each["ours_ns"] / each["limit_ns"]}


def tallies(
    settings: Sequence[Setting], num_users: int, inputs: int, repeats: int, seconds: float
) -> list[dict[str, Any]]:
    """Milliseconds a trial of the exact tally of each randomizer that has one.

    Args:
      settings: what to time.
      num_users: users of a trial.
      inputs: distinct vectors or numbers.
      repeats: timed calls of each, at most.
      seconds: after which no further call begins.

    Returns:
      A row for each; a call makes 4 trials.
    """
    key, rows = jax.random.key(5), []
    for setting in settings:
        params = setting.spec.build()
        if not hasattr(params, "sample_tally"):
            continue
        population = setting.histogram(num_users, inputs, 0)
        batch = functools.partial(
            jaxdp.simulate, params, population, key, num_trials=_TRIALS, method="tally"
        )
        time = _timing.interleave({"tally": batch}, repeats, seconds)["tally"]
        row = {"name": setting.name, "size": setting.size, "users": num_users}
        distinct = setting.size if setting.bins else inputs
        per_trial = {f"{which}_ms": t / _TRIALS * 1e3 for which, t in time.items()}
        rows.append(row | {"inputs": distinct, **per_trial})
    return rows
