"""The most frequent items of a domain of up to 2**1024, found prefix by prefix."""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Float32, Int32, UInt32
from numpy.typing import ArrayLike

from jaxdp_kernels import register_dataclass

from .._checks import Epsilon, Integer, Maker, Optional, made_by
from .._contract import (
    Collect,
    Independent,
    Round,
    Sent,
    Spec,
    TallyLaw,
    Tree,
    Work,
    field,
    params,
    spec,
    static,
)
from .._queries import ORACLE, users_of
from .._spec import check_counts, check_int, is_traced
from .._x64 import compiled_in_float64
from ..engine import outcome
from ..population import Population
from ..random import Count
from ..randomizers import AffineHashing, FrequencyOracle, ProjectiveGeometryResponse
from ._encoded import EncodedRound
from ._items import children, integers_of, number_of_words, texts_of, upper_bits, words_of
from ._split_rounds import SplitRounds

OracleMaker = Callable[..., FrequencyOracle[Any]]
"""Makes the spec of a frequency oracle from num_values and epsilon."""

_MAKER = Optional(Maker("None or a callable such as SubsetSelection"))
_QUICK = (AffineHashing, ProjectiveGeometryResponse)  # nearly as precise as SubsetSelection
_STEP = 4.0  # nanoseconds of a word that the search for a prefix compares
_NONE_HELD = "users must hold items: make them with population(...), or give values=encode(items)"


@register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class FoundItems:
    """Items found in one run of `HeavyHitters`, the most frequent first; a pytree.

    Attributes:
      words: int32[k, w], the items; see `HeavyHitters.integers` and `texts`.
      frequencies: float32[k], their estimated frequencies among all users.
      users: Count[], how many users answered in the last round.
    """

    words: Any
    frequencies: Any
    users: Count


@spec
class HeavyHitters(Spec["HeavyHittersParams"]):
    """The most frequent items of a domain of 2**num_bits, in rounds: texts, addresses, hashes.

    Every user joins one of d rounds at random. Before round t a list of prefixes of items is
    broadcast; the users of the round report, by a frequency oracle, which of them their item begins
    with, or that it begins with none. The most frequent prefixes are kept, and the next list is
    made of all ways to continue them. The last round's prefixes are items.

    A list has `num_kept * 2**s` prefixes, s as large as `num_candidates` allows: the more of them,
    the fewer rounds there are, the more users each has, and the smaller the noise.

    Formal guarantees:
      * Privacy: pure epsilon-LDP, the oracle's; a user sends one report, in one round.
      * Frequencies of the last list are estimated without bias. Those of the items that are
        returned are the largest of them, and so a little too large on average where items are not
        much more frequent than the noise.
      * The noise of a round has the standard deviation `noise(num_users)`: items that are several
        times as frequent are found, where all of their prefixes are among the kept.

    Edge cases:
      ====================================  ======================================================
      items without users                   returned where fewer are frequent, with estimates about
                                            0: compare frequencies with `noise`
      2**num_bits at most num_candidates    one round: all items are candidates
      a population of bins                  ValueError that names `population`
      ====================================  ======================================================

    Args:
      num_bits: of an item, from 1 to 1,024; of texts eight for each byte.
      epsilon: privacy parameter, > 0.
      num_items: how many items are returned.
      num_kept: prefixes that are kept in a round, at least `num_items`; by default twice as many.
      num_candidates: the most prefixes of a list, at least twice `num_kept`.
      oracle: makes a `FrequencyOracle` from the keywords num_values, those of a list and one more,
        and epsilon. None for `AffineHashing` or `ProjectiveGeometryResponse`, whose variances are
        within 1 % of the least up to epsilon = 4: whichever draws its tally more quickly.

    Raises:
      ValueError: an argument is out of range, or numbers do not fit one another.
      TypeError: an argument is of the wrong kind.

    Example:
      >>> import jax, jaxdp
      >>> from jaxdp.linear import HeavyHitters
      >>> protocol = HeavyHitters(num_bits=64, epsilon=2.0, num_items=3)
      >>> users = protocol.population({"tea": 50_000, "coffee": 30_000, "milk": 20_000})
      >>> found = protocol.found(users, jax.random.key(0))
      >>> protocol.texts(found)
      ['tea', 'coffee', 'milk']
      >>> bool(abs(found.frequencies[0] - 0.5) < 5 * protocol.noise(users.num_users))
      True

    References:
      Wang, Li, Jha (2021), Locally differentially private heavy hitter identification, IEEE TDSC:
      PEM, whose users report a prefix by local hashing. Bassily, Nissim, Stemmer, Thakurta (2017),
      Practical locally private heavy hitters: TreeHist.
    """

    num_bits: int = field(Integer(1, 1024))
    epsilon: float = field(Epsilon())
    num_items: int = field(Integer(1, 2**16), default=32)
    num_kept: int | None = field(Optional(Integer(1, 2**16)), default=None)
    num_candidates: int = field(Integer(2, 2**20), default=4096)
    oracle: OracleMaker | None = field(_MAKER, default=None)

    def validate(self) -> None:
        """Raises unless the numbers fit one another, and the oracle counts."""
        kept = self.kept
        if kept < self.num_items:
            raise ValueError(
                f"num_kept must be at least num_items = {self.num_items}, got {kept}; leave it out."
            )
        if self.num_bits < 17 and kept > 2**self.num_bits:
            raise ValueError(
                f"num_items must be at most the 2**{self.num_bits} items that there are, got "
                f"{self.num_items}."
            )
        if self.num_candidates < 2 * kept and self.num_candidates < 2.0**self.num_bits:
            raise ValueError(
                f"num_candidates must be at least {2 * kept}, two for each of the {kept} prefixes "
                f"that are kept, got {self.num_candidates}."
            )
        ORACLE("oracle", self._oracle)

    @property
    def kept(self) -> int:
        """The prefixes that are kept in a round."""
        if self.num_kept is not None:
            return self.num_kept
        return min(2 * self.num_items, max(self.num_items, 2 ** min(self.num_bits, 17)))

    @property
    def depths(self) -> tuple[int, ...]:
        """The bits of the prefixes of each round; the last are `num_bits`."""
        whole = self.num_candidates.bit_length() - 1
        if self.num_bits <= whole:
            return (self.num_bits,)
        step = self._step
        # As many bits at first as leave a multiple of the step, and no more than lists have room.
        most = (self.kept << step).bit_length() - 1
        first = most - (most - self.num_bits) % step
        return tuple(range(first, self.num_bits + 1, step))

    @property
    def _step(self) -> int:
        return (self.num_candidates // self.kept).bit_length() - 1

    @property
    def _size(self) -> int:
        """The length of a list."""
        depths = self.depths
        return self.kept << self._step if len(depths) > 1 else 2**self.num_bits

    @property
    def _oracle(self) -> FrequencyOracle[Any]:
        size = self._size + 1
        if self.oracle is None:
            return _quickest(size, self.epsilon)
        wanted = "made from the keywords num_values and epsilon alone"
        sizes: dict[str, Any] = dict(num_values=size, epsilon=self.epsilon)
        return made_by("oracle", self.oracle, wanted, **sizes)

    @property
    def reporter(self) -> FrequencyOracle[Any]:
        """The oracle of a round: a user sends one of its reports."""
        return self._oracle

    @property
    def sent(self) -> tuple[Sent, ...]:
        """A report from each user, in one of the rounds."""
        rounds = len(self.depths)
        return (Sent(self._oracle, 1 / rounds),) * rounds if rounds > 1 else ()

    def exact_epsilon(self) -> float:
        """The realised privacy parameter of the oracle."""
        return self._oracle.exact_epsilon()

    def build(self, word_bits: int = 32) -> "HeavyHittersParams":
        """Builds the params, which users and the analyst run."""
        bits, depths, size = self.num_bits, self.depths, self._size
        first = np.zeros((size, number_of_words(bits)), np.uint32)
        first[: 2 ** depths[0]] = children(bits, depths[0], depths[0])
        masks = np.stack([upper_bits(bits, depth) for depth in depths])
        width = -(-size // self.kept)
        continued = np.zeros((len(depths), width, first.shape[1]), np.uint32)
        for row, depth in zip(continued, depths[1:], strict=False):
            row[:] = children(bits, depth, self._step)
        return HeavyHittersParams(
            PrefixRound(
                self._oracle.build(word_bits), first, masks[0], np.asarray(2 ** depths[0], np.int32)
            ),
            masks,
            continued,
            self.num_items,
            min(self.kept, size),
        )

    def encode(self, items: Iterable[Any]) -> Int32[np.ndarray, "n w"]:
        """Items as rows of 32-bit words, the values of users.

        Args:
          items: integers in [0, 2**num_bits), or texts (str or bytes) of at most `num_bits / 8`
            bytes.

        Raises:
          ValueError: an item is out of range or too long, or there are none.
          TypeError: items are of another kind, or of several.
        """
        return words_of(items, self.num_bits)

    def population(
        self, items: Iterable[Any] | Mapping[Any, int], counts: ArrayLike | None = None
    ) -> Population:
        """Users who hold items.

        Args:
          items: each user's item, as in `encode`; or a dict from items to numbers of users.
          counts: int[n], how many users hold each of the items; None for one each.

        Raises:
          ValueError: as `encode` raises, or counts do not fit.
        """
        if isinstance(items, Mapping):
            if counts is not None:
                raise ValueError("counts must be None where items is a dict, which holds them.")
            items, counts = list(items), list(items.values())
        words = self.encode(items)
        numbers = np.ones(len(words), np.int64) if counts is None else check_counts(counts)
        if numbers.shape != (len(words),):
            raise ValueError(
                f"counts must be a number for each of the {len(words)} items, got shape "
                f"{list(numbers.shape)}."
            )
        distinct, place = np.unique(words.view(np.uint32), axis=0, return_inverse=True)
        totals = np.zeros(len(distinct), np.int64)
        np.add.at(totals, place.ravel(), numbers)
        return Population.from_histogram(totals, values=distinct.view(np.int32))

    def found(
        self,
        population: Population,
        key: jax.Array,
        method: Literal["auto", "per_user", "tally"] = "auto",
    ) -> FoundItems:
        """The items that `run` with this key finds, whose frequencies it returns.

        Args:
          population: as in `jaxdp.run`.
          key: as in `jaxdp.run`.
          method: as in `jaxdp.run`.
        """
        return outcome(self, population, key, method=method)

    def integers(self, found: FoundItems) -> list[int]:
        """The items found, as integers."""
        return integers_of(found.words)

    def texts(self, found: FoundItems) -> list[str]:
        """The items found, as texts; bytes that are not UTF-8 are replaced."""
        return texts_of(found.words, self.num_bits)

    def noise(self, num_users: int) -> float:
        """The standard deviation of the estimated frequency of an item that nobody holds.

        Exact where all users of the last round hold none of the candidates, and for its expected
        number of users; about right wherever no item is very frequent.

        Args:
          num_users: of all rounds together.
        """
        users = check_int("num_users", num_users, low=1) / len(self.depths)
        counts = np.zeros(self._size + 1, np.int64)
        counts[-1] = 1
        return math.sqrt(float(self._oracle.variance(counts)[0]) / users)

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless the users' values are items of `num_bits`."""
        self.built.user.check_population(population)
        values = population.inputs
        if not is_traced(values):
            words = np.asarray(values).view(np.uint32)
            beyond = np.any(words & ~upper_bits(self.num_bits, self.num_bits), axis=1)
            if np.any(beyond):
                bad = integers_of(words[beyond][:1].view(np.int32))[0]
                raise ValueError(
                    f"items must be in [0, 2**{self.num_bits}), got {bad}; raise num_bits."
                )


@functools.lru_cache(maxsize=64)
def _quickest(num_values: int, epsilon: float) -> FrequencyOracle[Any]:
    """The oracle that takes the least time for the tally of any number of users."""

    def cost(oracle: FrequencyOracle[Any]) -> float:
        law = oracle.built.law
        return math.inf if law is None else law.cost(Work(2.0**31, num_values))

    return min((oracle(num_values, epsilon) for oracle in _QUICK), key=cost)


@params
class PrefixRound(EncodedRound[Tree]):
    """One round of `HeavyHitters`, in which users report a prefix of their item: a pytree.

    Attributes:
      inner: the params of the oracle; its last value is that of no prefix.
      candidates: uint32[c, w], prefixes in ascending order, filled up with zero bits.
      mask: uint32[w], the bits of a prefix.
      number: int32[], how many of the candidates there are.
    """

    inner: Any  # Round[Tree]
    candidates: UInt32[Array | np.ndarray, "c w"]
    mask: UInt32[Array | np.ndarray, " w"]
    number: Int32[Array | np.ndarray, ""]

    @property
    def value(self) -> Tree:
        """An item: its words."""
        return jax.ShapeDtypeStruct(self.mask.shape[-1:], jnp.int32)

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless the users' values are items of so many words."""
        values: Any = population.inputs
        size = self.mask.shape[-1]
        dtype, shape = getattr(values, "dtype", None), getattr(values, "shape", ())
        if dtype != jnp.int32 or len(shape) != 2 or shape[1] != size:
            raise ValueError(f"{_NONE_HELD}, int32[n, {size}]; got {population!r}.")

    def encode(self, values: Int32[Array, "*n w"]) -> Int32[Array, "*n"]:
        """The place of an item's prefix among the candidates; behind them if it is not there."""
        if values.ndim > 1:
            return jax.vmap(self.encode)(values)
        prefix = values.astype(jnp.uint32) & jnp.asarray(self.mask)
        candidates, number = jnp.asarray(self.candidates), jnp.asarray(self.number)
        place = jnp.int32(0)
        # The last candidate that is not above the prefix, found bit by bit.
        for bit in reversed(range((len(candidates) - 1).bit_length())):
            further = place + np.int32(1 << bit)
            probe = candidates[jnp.minimum(further, number - 1)]
            reached = (further < number) & _at_most(probe, prefix)
            place = jnp.where(reached, further, place)
        there = jnp.all(candidates[place] == prefix)
        return jnp.where(there, place, np.int32(len(candidates)))

    @property
    def law(self) -> TallyLaw[Tree] | None:
        """The law of the oracle, for the numbers of users with each prefix."""
        law, size = self.inner.law, len(self.candidates) + 1
        if law is None:
            return None

        def draw(key: jax.Array, counts: Count, inputs: Tree) -> Tree:
            return law.draw(key, counts.segment_sum(self.encode(inputs), size), None)

        def independent(key: jax.Array, users: Independent) -> Tree:
            weights = users.weights.segment_sum(self.encode(users.inputs), size)
            return law.independent(key, Independent(users.size, weights))

        def cost(work: Work) -> float:
            return 50.0 * work.num_bins + law.cost(dataclasses.replace(work, num_bins=size))

        drawn = None if law.independent is None else independent
        return TallyLaw(draw, cost, drawn, law.distance)

    def user_cost(self, work: Work) -> float:
        """The cost of the oracle, and of a search among the candidates."""
        places = math.log2(max(len(self.candidates), 2)) * self.mask.shape[-1]
        return self.inner.user_cost(work) + work.words(_STEP * places)

    def estimate(self, outcome: Tree, /) -> Float32[Array, " c"]:
        """The frequencies of the candidates among the users of the round; -inf of none.

        In float32: the last bits of float64 differ between programs, and would decide ties.
        """
        return _frequencies(self.inner, outcome, jnp.asarray(self.number))


def _at_most(first: UInt32[Array, " w"], second: UInt32[Array, " w"]) -> Array:
    """Whether a number of several words is at most another one."""
    found = jnp.bool_(True)
    for word in reversed(range(first.shape[0])):
        a, b = first[word], second[word]
        found = (a < b) | ((a == b) & found)
    return found


@compiled_in_float64
def _frequencies(inner: Round[Any], tally: Tree, number: jax.Array) -> Float32[Array, " c"]:
    shares = inner.estimate(tally)[:-1] / jnp.maximum(users_of(tally), 1.0)
    inside = lax.iota(jnp.int32, shares.shape[0]) < number
    return jnp.where(inside, shares, -jnp.inf).astype(jnp.float32)


@params
class HeavyHittersParams(SplitRounds[FoundItems]):
    """The params of `HeavyHitters`: a pytree.

    Attributes:
      user: the first round.
      masks: uint32[d, w], the bits of the prefixes of each round.
      children: uint32[d, 2**s, w], what continues the prefixes of a round; 0 after the last one.
      num_items: how many items are returned, static.
      num_kept: how many prefixes are kept, static.
    """

    user: PrefixRound
    masks: UInt32[Array | np.ndarray, "d w"]
    children: UInt32[Array | np.ndarray, "d c w"]
    num_items: int = static()
    num_kept: int = static()

    @property
    def num_rounds(self) -> int:
        """How many rounds there are."""
        return self.masks.shape[-2]

    def play(self, key: jax.Array, users: Population, collect: Collect) -> FoundItems:
        """All rounds."""

        def step(asked: PrefixRound, round: Any) -> tuple[PrefixRound, Any]:
            number, mask, continued = round
            asked = dataclasses.replace(asked, mask=mask)
            tally = collect(asked, self.users_of_round(users, key, number), number)
            frequencies, places = lax.top_k(asked.estimate(tally), self.num_kept)
            answered = (tally["users"] if isinstance(tally, dict) else tally).sum()
            best = FoundItems(asked.candidates[places], frequencies, answered)
            kept = asked.candidates[jnp.sort(places)]  # in ascending order, as their children
            lists = (kept[:, None] | continued[None]).reshape(-1, kept.shape[1])
            size = asked.candidates.shape[0]
            full = jnp.asarray(size, jnp.int32)
            return dataclasses.replace(asked, candidates=lists[:size], number=full), best

        numbers = lax.iota(jnp.int32, self.num_rounds)
        rounds = (numbers, jnp.asarray(self.masks), jnp.asarray(self.children))
        _, best = lax.scan(step, jax.tree.map(jnp.asarray, self.user), rounds)
        last: FoundItems = jax.tree.map(lambda x: x[-1], best)
        words = last.words[: self.num_items].astype(jnp.int32)
        return FoundItems(words, last.frequencies[: self.num_items], last.users)

    def estimate(self, outcome: FoundItems, /) -> Float[Array | np.ndarray, " k"]:
        """The frequencies of the items found, descending."""
        return outcome.frequencies

    @compiled_in_float64
    def target(
        self, outcome: FoundItems, histogram: jax.Array, inputs: Tree, /
    ) -> Float[Array, " k"]:
        """The true frequencies of the items found."""
        words, held = jnp.asarray(outcome.words), jnp.asarray(inputs)
        shares = jnp.asarray(histogram).astype(jnp.float64)

        def frequency(item: Int32[Array, " w"]) -> Float[Array, ""]:
            return jnp.sum(jnp.where(jnp.all(held == item[None], axis=1), shares, 0.0))

        return lax.map(frequency, words)
