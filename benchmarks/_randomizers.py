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
from jaxdp_kernels.standard_normal import standard_normal
from jaxdp_kernels.threefry_words import StreamKey, threefry_words

from . import _timing

EPSILON = 1.0
_BLOCK = 2**18  # words of a block of the limit
_MOST_USERS = 2**22
_TRIALS = 64  # of a call; a few where these take long
_FEW, _LONG = 4, 20.0  # seconds of all
SHARE = 0.5
"""Share of the rate of its words or normals that a randomizer should reach."""

REASONS = {
    "AffineHashing": "two words a user: the product in the field, and the count by function and "
    "bucket, weigh as much.",
    "AffineSubsets": "two products of 64 bits, and in blocks a look at every member of the set.",
    "BinaryResponse": "one word a user: fetching, clamping and counting a value weighs as much.",
    "CandidateResponse": "a user ranks all candidates, and the reported one is made again.",
    "DiscreteLaplace": "one word a user: the look-up in a table and the histogram weigh as much.",
    "FiniteChannel": "one word a user: the look-up in a table and the histogram weigh as much.",
    "Gaussian": "one and a half words an entry and a look-up in a table, where a normal has one "
    "word; and passes for the norm, the rounding and the sum.",
    "GaussianRejection": "at d = 1, the loops over a user's three words, two normals and "
    "exponential are not vectorised.",
    "HadamardBit": "one word a user: parity and histogram weigh as much.",
    "HadamardResponse": "one word a user: parity and histogram weigh as much.",
    "KRR": "one word a user: the remainder and the histogram weigh as much.",
    "L2Ball": "at d = 1, a second word and passes for the projection and the sum over blocks of "
    "few users.",
    "Laplace": "for vectors, passes for the L1 norm, the projection and the two sums, entry by "
    "entry.",
    "LocalHashing": "each report's steps in the field take as long as its words, twice, and so do "
    "the look-ups for all k values.",
    "Memoised": "two words a user: the remainders of both reports and the histogram weigh as much.",
    "Piecewise": "two words a user: the arithmetic of both pieces, and the sum over blocks of few "
    "users, weigh as much.",
    "PrivUnit": "at d = 1, a coordinate drawn by rejection: all users of a block take the rounds "
    "of the slowest, of two words and a truncated normal each.",
    "PrivUnitG": "at d = 1, two more words and a truncated normal, which costs two others.",
    "ProjUnit": "as PrivUnit, with squares of further normals.",
    "ProjectiveGeometryResponse": "a product, a look-up and the histogram weigh as much as the "
    "one word that most users read.",
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
        """Values of as many users, or distinct inputs; repeated after 2**20."""
        rng, few = np.random.default_rng(seed), min(count, 2**20)
        if self.bins:
            return np.resize(rng.integers(0, self.size, few, dtype=np.int32), count)
        if not self.size:
            return np.resize(rng.uniform(-1, 1, few).astype(np.float32), count)
        vectors = rng.standard_normal((few, self.size), np.float32)
        norm = np.abs(vectors).sum(1) if self.name == "Laplace" else np.sqrt((vectors**2).sum(1))
        return np.resize(vectors * (0.9 / norm)[:, None], (count, self.size))

    def users(self, count: int, seed: int) -> jaxdp.Population:
        """A population given one by one."""
        return jaxdp.Population.from_values(
            self.rows(count, seed), self.size if self.bins else None
        )

    def histogram(self, count: int, inputs: int, seed: int) -> jaxdp.Population:
        """A population of as many users, given by counts; of distinct inputs where not of bins."""
        distinct = self.size if self.bins else inputs
        counts = count // distinct + (np.arange(distinct) < count % distinct)
        return jaxdp.Population.from_histogram(
            counts, None if self.bins else self.rows(inputs, seed)
        )


def _responses(k: int) -> np.ndarray:
    """The table of randomized response."""
    weights = np.ones((k, k)) + np.expm1(EPSILON) * np.eye(k)
    return weights / weights.sum(axis=1, keepdims=True)


def finite(k: int) -> Iterator[Setting]:
    """The randomizers of bins: those of the list of oracles, each once, and the others."""
    oracles: dict[type, lib.FrequencyOracle] = {}
    for oracle in lib.frequency_oracles(k, EPSILON).values():
        oracles.setdefault(type(oracle), oracle)
    for spec in (
        *oracles.values(),
        lib.DiscreteLaplace(0, k - 1, EPSILON),
        lib.FiniteChannel(_responses(k), EPSILON),
        lib.Memoised(lib.KRR(k, 2 * EPSILON), lib.KRR(k, EPSILON)),
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
    candidates = lib.CandidateResponse(d, EPSILON, num_candidates=256)
    yield Setting(candidates, d, normals=128 * (d + 1))
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
def draw(key: StreamKey, make: Callable | None, block: int, blocks: jax.Array) -> jax.Array:
    """The sum of as many blocks of words, or of what `make` makes of them, and no more."""

    def terms(start):
        words = threefry_words(key, start, block, 1)
        return words if make is None else make(words)

    def add(number, total):
        first = jnp.asarray(number, jnp.int32).astype(jnp.uint32) * np.uint32(block)
        found = terms(jnp.stack([jnp.zeros_like(first), first >> np.uint32(1)]))
        return total + jnp.sum(found, dtype=found.dtype)

    dtype = jnp.uint32 if make is None else jnp.float32
    return lax.fori_loop(jnp.int32(0), blocks, add, jnp.zeros((), dtype))


def users_for(draws: int, each: int) -> int:
    """The largest power of two of users, up to 2**22, who take at most so many draws, or 1."""
    return 2 ** (min(max(draws // each, 1), _MOST_USERS).bit_length() - 1)


def per_user(
    settings: Sequence[Setting], draws: int, repeats: int, seconds: float
) -> list[dict[str, Any]]:
    """Users a second of each randomizer, and the share of its limit that it reaches.

    The params run, so no time goes into checking the same population again.

    Args:
      settings: what to time.
      draws: words or normals of a run, roughly: see `users_for`.
      repeats: timed runs of each, at most.
      seconds: after which no further run of a randomizer begins.

    Returns:
      A row for each.
    """
    key = jax.random.key(3)
    rows = []
    for setting in settings:
        num_users = users_for(draws, setting.draws)
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
    make, stream = standard_normal if normals else None, StreamKey.of(key)
    return lambda: jax.block_until_ready(draw(stream, make, block, blocks))


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
      A row for each; a call makes 64 trials, or 4 where these would take more than 20 seconds.
    """
    key, rows = jax.random.key(5), []
    for setting in settings:
        params = setting.spec.build()
        if params.law is None:
            continue
        population = setting.histogram(num_users, inputs, 0)

        def play(number: int, params: Any = params, population: Any = population) -> Any:
            return jaxdp.simulate(params, population, key, num_trials=number, method="tally")

        few = _timing.interleave({"tally": functools.partial(play, _FEW)}, 1)["tally"]["min"]
        number = _TRIALS if few / _FEW * _TRIALS < _LONG else _FEW
        batch = functools.partial(play, number)
        time = _timing.interleave({"tally": batch}, repeats, seconds)["tally"]
        row = {"name": setting.name, "size": setting.size, "users": num_users}
        distinct = setting.size if setting.bins else inputs
        per_trial = {f"{which}_ms": t / number * 1e3 for which, t in time.items()}
        rows.append(row | {"inputs": distinct, "trials": number, **per_trial})
    return rows
