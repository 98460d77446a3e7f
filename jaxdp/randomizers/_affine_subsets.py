"""Affine subsets: subset selection from few sets, the images of base blocks under affine maps."""

import math
from fractions import Fraction
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int32, UInt32
from numpy.typing import ArrayLike

from .._checks import Epsilon, Integer, Optional
from .._contract import Tree, Words, Work, field, params, spec, static
from .._spec import check_int
from .._x64 import compiled_in_float64, dot
from ..accounting import PairLaw
from ..random import Count, everyone
from ._affine_designs import (
    Design,
    base_blocks,
    best_design,
    best_size,
    is_prime,
    most_triples,
    multipliers,
    needs_one_block,
)
from ._affine_maps import NUM_WORDS, AffineMaps, SumsOfSets
from ._count_noise import TableNoise
from ._exact import exp_lower, log_upper
from ._mixture import MixtureRound
from ._pair_laws import symmetric_pair_law
from ._randomizer import check_bins, listed_rows
from ._support import SupportOracle, SupportRound, table_noise

MAX_VALUES = 2**31
MAX_MODULUS = 3_215_031_750  # up to which primes are told by four witnesses
_MOST_COMPOSITE = 2**15
_MOST_COUNTED = 2**22  # reports that are counted one by one
_MOST_ASKED = 2**20  # values that a tally looks at unasked
_MOST_EXTREME = 2**12  # values of which each has an extreme report
_MOST_NUMBERS = 2**27  # of a table that covariances are computed from


@spec
class AffineSubsets(SupportOracle):
    """Affine subsets: report one of few sets of values, more often one that holds yours.

    Subset selection is the best frequency oracle at every k and epsilon, and its report takes k
    bits. Its variance follows from two facts: all sets have one size t, and any two values are in
    equally many sets. So any 2-design does as well as all `(k choose t)` sets. Here the sets are

        `{v : a v + b in T}`, modulo M,

    for each unit a and each shift b. For a prime M any t residues T make a 2-design: two values go
    to each pair of residues once. For another M several base blocks T make one together. M is k,
    or the least prime from k on where the sum of variances grows by at most 0.05 % with it. A
    report is a function, which says what T and a are, and b: `2 log2 M` bits for a prime, and
    about `3 log2 M` otherwise.

    A set that holds the user's value is `e**epsilon` times as likely as another one. The first
    word says whether the set holds it, two words pick its residue, in T or outside, and two the
    function, which does not depend on the value; b follows. A pair of words picks one of N numbers
    by its product with N, and is refused where it would favour one: the report is then a blank,
    with the same probability for every value, below N / 2**64.

    Designs of up to 2**22 reports are counted, and so few have an exact law of their tally. For
    more reports a tally looks at each value of each report: n k steps. For k above 2**20 it looks
    at those values alone that are asked for: `spec.at(values)`.

    Formal guarantees:
      * Privacy: pure epsilon-LDP, exactly: all reports but the blank have one of two
        probabilities, whose ratio is at most `e**epsilon`. It holds for every int32 input, since
        values outside the domain are clamped into it.
      * Estimate: `(N_v - n q) / (p - q)` counts the users with value v without bias, N_v being the
        number of reports that hold v. With P the probability of the first word, and but for
        blanks, `p = P` and `q = (t - P) / (M - 1)`.
      * Variance, exact for a fixed data set with counts c_v:
        `(c_v p (1 - p) + (n - c_v) q (1 - q)) / (p - q)**2`. For M = k it is that of
        `SubsetSelection` with sets of t values; their sum is at most 0.1 % above that with the best
        sets for every k to 2**31, but for what 32 bits of the first word leave open.

    Edge cases:
      ===================================  ======================================================
      epsilon too large or too small       ValueError: one word of 32 bits cannot realise it
      t = 1, `e**epsilon` above k or so    the report is that of randomized response
      value outside the domain             ValueError from a Population; the params clamp it
      k times the reports above 2**22      `channel()` raises ValueError
      more than 2**22 reports              no law of the tally; ValueError from what needs
                                           covariances, such as variances of sums of counts
      ===================================  ======================================================

    Args:
      num_values: k, the size of the domain {0, .., k-1}; 2 to 2**31.
      epsilon: privacy parameter, > 0.
      modulus: M, from k on: a prime, or at most 2**15. None for the best, together with the size.
      set_size: t, from 1 to M - 1. None for the one with the least sum of variances.

    Raises:
      ValueError: an argument is out of range, or no base blocks are found for a modulus of many
        divisors.
      TypeError: an argument is not a number, or is traced.

    Example:
      >>> from jaxdp.randomizers import AffineSubsets, SubsetSelection
      >>> few = AffineSubsets(num_values=1000, epsilon=1.0)
      >>> few.modulus, few.set_size, (few.num_reports - 1).bit_length()
      (1009, 271, 20)
      >>> best = SubsetSelection(1000, 1.0)
      >>> ratio = few.worst_case_total_variance(1) / best.worst_case_total_variance(1)
      >>> round(ratio, 4)
      1.0

      Of very many values, those are estimated that are asked for:

      >>> import jax, jaxdp
      >>> many = AffineSubsets(num_values=2**30, epsilon=2.0)
      >>> users = jaxdp.Population.from_values([7] * 500 + [10**9] * 500, num_values=2**30)
      >>> jaxdp.run(many.at([7, 8, 10**9]), users, jax.random.key(0)).shape
      (3,)

    References:
      Ye and Barg (2018), Optimal schemes for discrete distribution estimation under locally
      differential privacy, for the best sets; Pan (2026), Strict optimality of frequency and
      distribution estimation under local differential privacy, arXiv:2603.11523, that equal pairs
      suffice and k (k - 1) / 2 + 1 weighted sets exist, found by a linear programme in as many
      unknowns; Park, Nam and Lee (2024), Exactly optimal and communication-efficient private
      estimation via block designs, for 2-designs; Colbourn and Dinitz (2007), Handbook of
      combinatorial designs, for difference families; Lemire (2019), Fast random integer generation
      in an interval.
    """

    num_values: int = field(Integer(2, MAX_VALUES))
    epsilon: float = field(Epsilon())
    modulus: int | None = field(Optional(Integer(2, MAX_MODULUS)), default=None)
    set_size: int | None = field(Optional(Integer(1, MAX_MODULUS - 1)), default=None)

    def validate(self) -> None:
        """Settles the design; raises ValueError where there is none, or no words realise it."""
        k = self.num_values
        if self.modulus is None:
            if self.set_size is not None:
                raise ValueError("set_size must be given with modulus, or left out with it.")
            modulus, size = best_design(k, self.epsilon)
            self.settle(modulus=modulus, set_size=size)
        elif self.set_size is None:
            self.settle(set_size=best_size(k, self.modulus, self.epsilon))
        modulus, size = self.design
        if modulus < k:
            raise ValueError(f"modulus must be at least num_values = {k}, got {modulus}.")
        if size >= modulus:
            raise ValueError(f"set_size must be below modulus = {modulus}, got {size}.")
        if modulus > _MOST_COMPOSITE and not is_prime(modulus) and size > 1:
            raise ValueError(
                f"modulus must be a prime, or at most {_MOST_COMPOSITE}, got {modulus}; leave it "
                "out for the best one."
            )
        self._threshold(32)
        self._num_functions  # noqa: B018  # base blocks must be found

    @property
    def design(self) -> Design:
        """The modulus M and the size t of a set."""
        assert self.modulus is not None
        assert self.set_size is not None
        return Design(self.modulus, self.set_size)

    @property
    def _num_functions(self) -> int:
        """Pairs of a base block and a multiplier, F."""
        units = multipliers(self.design)
        blocks = 1 if needs_one_block(self.design) else len(base_blocks(self.design))
        return blocks * (self.design.modulus - 1 if units is None else len(units))

    @property
    def num_reports(self) -> int:
        """Number of distinct reports: M for each function, and the blank."""
        return self._num_functions * self.design.modulus + 1

    @property
    def counted(self) -> bool:
        """Whether reports are so few that they are counted one by one."""
        return self.num_reports <= _MOST_COUNTED

    def _threshold(self, word_bits: int) -> int:
        """The first words below it lead to a set that holds the user's value."""
        (modulus, size), space = self.design, 2**word_bits
        # The pairs of words that lead to each residue in T, and to each one outside.
        inside, outside = space**2 // size, space**2 // (modulus - size)
        likely = exp_lower(self.epsilon) * outside
        threshold = math.floor(likely * space / (inside + likely))
        if threshold * inside <= (space - threshold) * outside:
            raise ValueError(
                f"epsilon must be larger than {self.epsilon!r} for num_values = "
                f"{self.num_values}: no first word of {word_bits} bits would tell sets apart."
            )
        if threshold >= space - 1024 and word_bits == 32:
            raise ValueError(
                f"epsilon must be at most about {math.log(2**22 * (modulus - size) / size):.4g} "
                f"for num_values = {self.num_values}, got {self.epsilon!r}: the first word of 32 "
                "bits cannot realise it closely."
            )
        return min(threshold, space - 1)

    def _weights(self, word_bits: int) -> tuple[Fraction, Fraction]:
        """The probabilities of a report whose set holds the value, and of one that does not."""
        (modulus, size), space = self.design, 2**word_bits
        threshold, functions = self._threshold(word_bits), self._num_functions
        of_function = Fraction(space**2 // functions, space**2)
        inside = Fraction(threshold * (space**2 // size), space**3)
        outside = Fraction((space - threshold) * (space**2 // (modulus - size)), space**3)
        return of_function * inside, of_function * outside

    def build(self, word_bits: int = 32) -> "AffineSubsetsParams | AffineSupportParams":
        """The params; `word_bits=4` makes a twin whose five words can be enumerated."""
        word_bits = check_int("word_bits", word_bits, low=1, high=32)
        design, functions = self.design, self._num_functions
        if 8 < word_bits < 32 or max(design.modulus, functions) > 4**word_bits:
            raise ValueError(
                f"word_bits must be 32, or at most 8 with {max(design.modulus, functions)} of the "
                f"numbers that two words make, got {word_bits}."
            )
        blocks = None if needs_one_block(design) else base_blocks(design)
        maps = AffineMaps(
            threshold=np.asarray(self._threshold(word_bits), np.uint32),
            multipliers=multipliers(design),
            blocks=blocks,
            num_values=self.num_values,
            modulus=design.modulus,
            set_size=design.size,
            num_functions=functions,
            word_bits=word_bits,
        )
        if self.counted:
            return AffineSubsetsParams(maps, self.num_values, word_bits)
        asked = np.arange(self.num_values if self.num_values <= _MOST_ASKED else 0)
        return AffineSupportParams(maps, asked.astype(np.int32), self.num_values, word_bits)

    def probabilities(self, word_bits: int = 32) -> tuple[Fraction, Fraction]:
        """Exact probabilities (p, q) that a report's set holds the user's value, and another."""
        (modulus, size), functions = self.design, self._num_functions
        inside, outside = self._weights(word_bits)
        # Given the residue of one value, that of another is each of the M - 1 others equally often.
        pairs = Fraction(functions * size, modulus - 1)
        return functions * size * inside, pairs * ((size - 1) * inside + (modulus - size) * outside)

    def channel(
        self, word_bits: int = 32, inputs: ArrayLike | None = None
    ) -> list[list[Fraction]] | None:
        """The exact `Pr[report = y | x]`, row x of the inputs (of all values if None), column y."""
        rows = listed_rows(self.num_values, self.num_reports, inputs)
        if rows is None:
            return None
        inside, outside = self._weights(word_bits)
        modulus, size = self.design
        reports = self._num_functions * modulus
        held = reports // modulus * size
        blank = 1 - held * inside - (reports - held) * outside
        maps = self.build().maps
        function, shift = jnp.divmod(jnp.arange(reports, dtype=jnp.uint32), np.uint32(modulus))
        listed = []
        for value in rows:
            holds = np.asarray(maps.holds(function, shift, jnp.uint32(value))).tolist()
            listed.append([inside if hit else outside for hit in holds] + [blank])
        return listed

    def pair_laws(self) -> tuple[PairLaw, ...] | None:
        """One kind: any two values are in equally many sets, and a third one in as many as it can.

        What others hold matters to the lower end alone; see `most_triples`.
        """
        if self.num_values == 2:
            return None
        (modulus, size), inside, outside = self.design, *self._weights(32)
        reports, one = self._num_functions * modulus, Fraction(size, modulus)
        two, three = one * (size - 1) / (modulus - 1), most_triples(self.design, self.num_values)
        held = float(one), float(two), None if three is None else three / reports
        blank = 1 - reports * (one * inside + (1 - one) * outside)
        likelihoods = float(reports * inside), float(reports * outside)
        return (symmetric_pair_law(held, 1.0, *likelihoods, float(blank)),)

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter, of the two probabilities of a report, rounded up."""
        inside, outside = self._weights(word_bits)
        return log_upper(inside / outside)

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> np.ndarray:
        """The exact variance of each estimated count, float64.

        Args:
          counts: int[k], the number of users with each value; or of each of `inputs`.
          inputs: int[m], the values that users hold and whose variances are asked for; None for
            all k.
        """
        if inputs is None:
            return SupportOracle.variance(self, counts)
        values = self._checked(inputs)
        counts = check_bins(counts, values.size)
        user, other, gap = self._spreads()
        return (counts * user + (counts.sum() - counts) * other) / gap**2

    def at(self, values: ArrayLike) -> "AffineSupportParams":
        """Params for the counts of some values alone, n times as many steps for n users.

        Their reports are pairs, of a function and a shift, for any number of values.

        Args:
          values: int[m], distinct ones in [0, k).
        """
        asked = self._checked(values)
        maps = self.build().maps
        return AffineSupportParams(maps, asked.astype(np.int32), self.num_values)

    def _checked(self, values: ArrayLike) -> np.ndarray:
        """Distinct values, int64[m]; raises ValueError for others."""
        given = np.asarray(values)
        self.check_values("values", given)
        if np.unique(given).size != given.size:
            raise ValueError(f"values must be distinct, got {given!r}.")
        return given.astype(np.int64)

    def covariance(self, value: int) -> np.ndarray:
        """The exact covariance of the estimate from one user, float64[k, k].

        Args:
          value: the user's value, an int in [0, k).
        """
        k, size = self.num_values, self.design.size
        value = check_int("value", value, low=0, high=k - 1)
        functions, params = self._num_functions, self._small(k * self._num_functions * size)
        holding = np.asarray(params.members(jnp.array([value])))[0]
        modulus = np.uint32(self.design.modulus)
        function, shift = jnp.divmod(jnp.asarray(holding).astype(jnp.uint32), modulus)
        values = jnp.arange(k, dtype=jnp.uint32)
        members = np.asarray(params.maps.holds(function[:, None], shift[:, None], values), float)
        inside, outside = map(float, self._weights(32))
        both = functions * size * (size - 1) / (self.design.modulus - 1)
        both = np.where(np.eye(k, dtype=bool), functions * size, both)
        p, q = map(float, self.probabilities())
        mean = np.where(np.arange(k) == value, p, q)
        joint = outside * both + (inside - outside) * (members.T @ members)
        return (joint - np.outer(mean, mean)) / (p - q) ** 2

    def noise(self) -> TableNoise:
        """The moments of the noise, from the table of the reports."""
        return table_noise(self._small(self.num_values * self.num_reports), self.num_values)

    def _small(self, numbers: int) -> "AffineSubsetsParams":
        """The params of counted reports; refuses those that there are too many numbers for."""
        built = self.build()
        if not isinstance(built, AffineSubsetsParams) or numbers > _MOST_NUMBERS:
            raise ValueError(
                f"covariances of AffineSubsets({self.num_values}, {self.epsilon}) take too many "
                "numbers; SubsetSelection has nearly the same ones."
            )
        return built

    @property
    def _query_width(self) -> int:
        return self.num_reports

    def _forms(self, queries: np.ndarray) -> np.ndarray:
        params = self._small(0)
        p, q = map(float, self.probabilities())
        inside, outside = map(float, self._weights(32))
        modulus, size = self.design
        # A report decodes to the sum of a query over its set; all of them are shifted by their mean
        # over the sets, which has no variance.
        total = queries.sum(axis=1, keepdims=True)
        centre = total * (size / modulus)
        sums = SumsOfSets(params.maps)
        squares = (sums.over_sets(queries) - centre) ** 2
        blank = 1 - outside * squares.shape[1] - (inside - outside) * params.set_size
        second = (inside - outside) * sums.over_values(squares)
        second = second + outside * squares.sum(axis=1, keepdims=True) + blank * centre**2
        mean = (p - q) * queries + q * total - centre
        return (second - mean**2) / (p - q) ** 2


@params
class AffineSubsetsParams(MixtureRound):
    """The params of `AffineSubsets` of reports that are counted: a pytree.

    Attributes:
      maps: the sets, and how one is picked.
      num_values: k, static.
      word_bits: words are uniform on [0, 2**word_bits); static.
    """

    maps: AffineMaps
    num_values: int = static()
    word_bits: int = static(default=32)

    independent_stream: ClassVar[int] = 3

    @property
    def num_words(self) -> int:
        """Five; see `NUM_WORDS`."""
        return NUM_WORDS

    @property
    def _shape(self) -> tuple[int, int]:
        """Functions and shifts."""
        return self.maps.num_functions, self.maps.modulus

    @property
    def num_reports(self) -> int:
        """Number of distinct reports, F M and the blank."""
        return self.maps.num_functions * self.maps.modulus + 1

    def user_cost(self, work: Work) -> float:
        """Nanoseconds of a user, roughly: a base block is read, and looked through."""
        return work.words(12.0 if self.maps.blocks is None else 12.0 + 4.0 * self.maps.set_size)

    def from_bits(self, words: Words, value: Int32[Array, ""], /) -> Int32[Array, ""]:
        """One user's report, in [0, F M]; a value outside the domain is clamped into it."""
        function, shift, blank = self.maps.pick(words, value)
        report = function * np.uint32(self.maps.modulus) + shift
        return jnp.where(blank, np.uint32(self.num_reports - 1), report).astype(jnp.int32)

    def probabilities(self) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """The realised (p, q) as float64; only inside an x64 block."""
        return self.maps.probabilities()

    @compiled_in_float64
    def estimate(self, outcome: Count, /) -> Float[Array, "*batch k"]:
        """Unbiased counts of the users' values: `(N_v - n q) / (p - q)`."""
        p, q = self.probabilities()
        reports = outcome.f64()
        users = jnp.sum(reports, axis=-1, keepdims=True)
        rows = reports[..., :-1].reshape(-1, self.num_reports - 1)
        support = lax.map(self._through_values, rows).reshape(*outcome.shape[:-1], -1)
        return (support - users * q) / (p - q)

    def _images(self) -> Int32[Array, "F k"]:
        """Where the functions send the values."""
        function = jnp.arange(self.maps.num_functions, dtype=jnp.uint32)[:, None]
        values = jnp.arange(self.num_values, dtype=jnp.uint32)
        return self.maps.products(function, values).astype(jnp.int32)

    def _windows(self, numbers: Float[Array, "F M"]) -> Float[Array, "F M"]:
        """The sum of the numbers of each function over its base block, moved by each shift."""
        modulus, size, blocks = self.maps.modulus, self.maps.set_size, self.maps.blocks
        if blocks is None:
            after = jnp.concatenate([numbers, numbers[:, : size - 1]], axis=1)
            sums = jnp.pad(jnp.cumsum(after, axis=1), ((0, 0), (1, 0)))
            return sums[:, size:] - sums[:, :modulus]
        place = jnp.arange(modulus, dtype=jnp.int32)
        rows = numbers.reshape(blocks.shape[0], self.maps.num_multipliers, modulus)

        def add_up(block_and_rows):
            block, row = block_and_rows
            member = jnp.zeros(modulus).at[block].set(1.0)
            moved = member[(place[:, None] - place[None]) % np.int32(modulus)]
            return dot(row, moved)  # of integers exact

        return lax.map(add_up, (jnp.asarray(blocks), rows)).reshape(self._shape)

    def _through_values(self, numbers: Float[Array, " reports"]) -> Float[Array, " k"]:
        """The sum of the numbers of the reports whose sets hold each value, but for the blank."""
        windows = self._windows(numbers.reshape(self._shape))
        place = -self._images() % np.int32(self.maps.modulus)
        return jnp.sum(jnp.take_along_axis(windows, place, axis=1), axis=0)

    def _in_sets(self, numbers: Float[Array, " k"]) -> Float[Array, " reports"]:
        """The sum of the numbers of the values in each report's set, but for the blank."""
        images, shape = self._images(), self._shape
        rows = jnp.arange(shape[0], dtype=jnp.int32)[:, None]
        moved = jnp.zeros(shape).at[rows, images].set(jnp.broadcast_to(numbers, images.shape))
        windows = self._windows(moved)
        return jnp.concatenate([windows[:, :1], windows[:, :0:-1]], axis=1).ravel()

    @property
    def set_size(self) -> int:
        """The reports whose sets hold a value, F t."""
        return self.maps.num_functions * self.maps.set_size

    def set_probability(self) -> Float[Array, ""]:
        """The set holds the value for certain with probability F t (h - m)."""
        inside, outside = self.maps.shares()
        return self.set_size * (inside - outside)

    def report_weights(self) -> Float[Array, " K"]:
        """1 for each report, and what the blank has of their probability."""
        _, outside = self.maps.shares()
        return jnp.ones(self.num_reports).at[-1].set(self.maps.blank() / outside)

    def members(self, values: Int32[Array, " m"]) -> Int32[Array, "m s"]:
        """The reports whose sets hold the values."""
        maps, size = self.maps, self.maps.set_size
        function = jnp.arange(maps.num_functions, dtype=jnp.uint32)
        values = jnp.clip(values, 0, self.num_values - 1).astype(jnp.uint32)
        if maps.blocks is None:
            rows = jnp.broadcast_to(jnp.arange(size, dtype=jnp.int32), (function.size, size))
        else:
            rows = maps.rows(function)
        images = maps.products(function, values[:, None]).astype(jnp.int32)
        shifts = (rows[None] - images[..., None]) % np.int32(maps.modulus)
        first = function.astype(jnp.int32) * np.int32(maps.modulus)
        reports = first[None, :, None] + shifts
        return reports.reshape(values.size, -1)

    def report_law(self, law: Float[Array, " k"]) -> Float[Array, " K"]:
        inside, outside = self.maps.shares()
        total = jnp.sum(law)
        reports = outside * total + (inside - outside) * self._in_sets(law)
        return jnp.append(reports, self.maps.blank() * total)

    @property
    def transform_cost(self) -> float:
        sums = 3 if self.maps.blocks is None else self.maps.set_size
        return (4.0 + 2.0 * sums) * self.num_reports

    def over_reports(self, numbers: Float[Array, " K"]) -> Float[Array, " k"]:
        inside, outside = self.maps.shares()
        holding = self._through_values(numbers[:-1])
        others = outside * jnp.sum(numbers[:-1]) + self.maps.blank() * numbers[-1]
        return others + (inside - outside) * holding


@params
class AffineSupportParams(SupportRound):
    """The params of `AffineSubsets` of some values, or of too many reports to count: a pytree.

    Attributes:
      maps: the sets, and how one is picked.
      asked: int32[m], the values whose counts are estimated.
      num_values: k, static.
      word_bits: words are uniform on [0, 2**word_bits); static.
    """

    maps: AffineMaps
    asked: Int32[Array | np.ndarray, " m"]
    num_values: int = static()
    word_bits: int = static(default=32)

    @property
    def num_words(self) -> int:
        """Five; see `NUM_WORDS`."""
        return NUM_WORDS

    @property
    def report_limits(self) -> tuple[np.ndarray, np.ndarray]:
        """A function and a shift; the shift M is a blank."""
        most = [self.maps.num_functions - 1, self.maps.modulus]
        return np.zeros(2, np.int64), np.array(most, np.int64)

    def extreme_reports(self, queries: np.ndarray | None = None) -> np.ndarray | None:
        """A blank, and for each value a set that holds it; None for queries, or too many values."""
        if queries is not None or self.asked.size > _MOST_EXTREME:
            return None
        first = 0 if self.maps.blocks is None else int(self.maps.blocks[0, 0])
        product = self.maps.products(jnp.zeros(self.asked.size, jnp.uint32), self._asked())
        shift = (first - np.asarray(product, np.int64)) % self.maps.modulus
        reports = np.stack([np.zeros_like(shift), shift], axis=1)
        return np.append(reports, [[0, self.maps.modulus]], axis=0).astype(np.uint32)

    def _asked(self) -> UInt32[Array, " m"]:
        return jnp.asarray(self.asked).astype(jnp.uint32)

    def from_bits(self, words: Words, value: Int32[Array, ""], /) -> UInt32[Array, "2"]:
        """One user's function and shift; a value outside the domain is clamped into it."""
        function, shift, blank = self.maps.pick(words, value)
        function = jnp.where(blank, np.uint32(0), function)
        return jnp.stack([function, jnp.where(blank, np.uint32(self.maps.modulus), shift)])

    def user_cost(self, work: Work) -> float:
        """Nanoseconds of a user, roughly: each asked value is sent through its function."""
        members = 0 if self.maps.blocks is None else self.maps.set_size
        return work.words(12.0 + 4.0 * members + (10.0 + members) * self.asked.size)

    def probabilities(self) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """The realised (p, q) as float64; only inside an x64 block."""
        return self.maps.probabilities()

    def tally(
        self, reports: UInt32[Array, "n 2"], mask: Bool[Array, " n"] | None = None, /
    ) -> dict[str, Count]:
        """{"support": Count[m], the sets that hold each asked value, "users": Count[]}.

        Raises:
          ValueError: the values are too many to look at, and none are asked for.
        """
        if not self.asked.size:
            raise ValueError(
                f"a tally cannot look at all of num_values = {self.num_values} values; ask for "
                "some: spec.at(values)."
            )
        counted = everyone(reports, mask)
        function, shift = reports.T

        def count(value):
            return jnp.sum(self.maps.holds(function, shift, value) & counted, dtype=jnp.int32)

        support = lax.map(count, self._asked())
        users = jnp.sum(counted, dtype=jnp.int32)
        return {"support": Count.of(support), "users": Count.of(users)}
