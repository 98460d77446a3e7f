"""The contract: what the engine, audits and tests ask of every spec and of every params.

    Described ── Spec[P]            checked fields, on the host: build() -> P, exact_epsilon()
             └── Params[O]          a pytree: play(key, users, collect) -> O, estimate(O)
                    ├── Round[T]       one round: from_bits makes a report, tally exact sums of them
                    └── Interactive[O] several rounds: declares `rounds`, writes `play`
    TallyLaw[T]   what `round.law` is, or None: draws a tally at once
    Kernels[T]    what `round.kernels` is: a platform's own way to the same tally

Every ability has a default. One that may be missing is a property that holds an object or None, so
nothing is ever probed for. `T`, a tally, is a pytree of `Count`s.

What depends on fields is a property. A dataclass field may not implement a property of a base (with
a default it would hide it in silence, without one it fails): `params` refuses it.
"""

import abc
import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar, cast, dataclass_transform, final

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from jaxdp_kernels import register_dataclass
from jaxdp_kernels.randomize_and_tally import Counted, Draft
from jaxdp_kernels.threefry_words import StreamKey

from ._checked import Checked
from ._checks import Check
from ._prediction import Kind
from ._spec import Tree as Tree
from ._spec import check_key, is_traced
from .accounting import (
    PairLaw,
    ShuffleBracket,
    pair_shuffle_bracket,
    pair_shuffle_delta,
    shuffle_delta,
    shuffle_epsilon,
)
from .population import Population
from .random import Count, FlatWords, UserWords, merge, user_words

_NORMAL = "jaxdp.randomizers.Gaussian"  # whose shuffled reports are accounted for
_CHUNK = 2**22  # numbers of the tallies that are made at a time

T = TypeVar("T")  # a tally: a pytree of Counts
O = TypeVar("O")  # the outcome of a trial: a pytree  # noqa: E741
P_co = TypeVar("P_co", covariant=True)
C = TypeVar("C", bound=type)

Words = jax.Array | UserWords
"""A user's words: uint32[num_words], or made as they are read."""


def static(*, default: object = dataclasses.MISSING) -> Any:
    """A field of params that is part of their structure: it sets shapes, and recompiles."""
    return dataclasses.field(default=default, metadata={"static": True})


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field, static))
def params(cls: C) -> C:
    """Makes a class of params: a frozen dataclass, registered as a pytree.

    Raises:
      TypeError: a field has the name of a property of a base, which would hide it.
    """
    for name in inspect.get_annotations(cls):
        if any(isinstance(vars(base).get(name), property) for base in cls.__mro__[1:]):
            raise TypeError(
                f"{cls.__name__}.{name} must not be a field: a base has a property of this name. "
                "Name the field otherwise, and return it from the property."
            )
    return cast(C, register_dataclass(dataclasses.dataclass(frozen=True)(cls)))


def field(
    check: Check | None = None, *, default: object = dataclasses.MISSING, kw_only: bool = False
) -> Any:
    """A field of a spec, with the check that its value must pass.

    Args:
      check: from `(name, value)` to the value that is stored; raises a ValueError or TypeError that
        names the field, the value, what is allowed and the remedy. None to store it as it is.
      default: the default, checked like any other value.
      kw_only: whether the field is given by keyword alone.
    """
    return dataclasses.field(default=default, kw_only=kw_only, metadata={"check": check})


@dataclass_transform(frozen_default=True, field_specifiers=(field, dataclasses.field))
def spec(cls: C) -> C:
    """Makes a class of specs: a frozen, slotted dataclass whose fields are checked on creation."""
    made = dataclasses.dataclass(frozen=True, slots=True)(cls)
    # Slots make a new class; without this, `super()` in its methods would mean the old one.
    for member in vars(made).values():
        method = member.fget if isinstance(member, property) else member
        if not inspect.isfunction(method):
            continue
        for name, cell in zip(method.__code__.co_freevars, method.__closure__ or (), strict=True):
            if name == "__class__" and cell.cell_contents is cls:
                cell.cell_contents = made
    return cast(C, made)


@dataclasses.dataclass(frozen=True)
class Work:
    """The amount of work for which a cost is computed.

    Attributes:
      num_users: users of a trial.
      num_bins: bins of their histogram, or distinct inputs.
      platform: "cpu", "gpu" or "tpu".
      num_visited: users whom the per-user path visits: also those of other groups, whom it masks;
        None for as many as there are.
    """

    num_users: float
    num_bins: int
    platform: str = "cpu"
    num_visited: float | None = None

    # Measured on two CPU cores; on accelerators from compiled programs, to be measured.
    _WORD: ClassVar[dict[str, float]] = {"cpu": 1.0, "gpu": 0.005, "tpu": 0.05}
    _DRAW: ClassVar[dict[str, float]] = {"cpu": 200.0, "gpu": 1.0, "tpu": 200.0}  # on its host

    def of(self, share: float) -> "Work":
        """The same work for a group with a given share of the users."""
        return dataclasses.replace(self, num_users=self.num_users * share, num_visited=self.visits)

    @property
    def visits(self) -> float:
        """Users whom the per-user path visits."""
        return self.num_users if self.num_visited is None else self.num_visited

    def words(self, number: float) -> float:
        """Nanoseconds of as many random words, and of what is done with them."""
        return number * self._WORD.get(self.platform, 1.0)

    def draws(self, number: float) -> float:
        """Nanoseconds of as many exact binomial draws."""
        return number * self._DRAW.get(self.platform, 200.0)


@dataclasses.dataclass(frozen=True)
class Cost:
    """Nanoseconds of a trial over all rounds; `tally` is inf where a tally has no law."""

    per_user: float = 0.0
    tally: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.per_user + other.per_user, self.tally + other.tally)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Independent:
    """Users drawn independently from a distribution over bins.

    Attributes:
      size: Count[], how many.
      weights: Count[k], the probabilities of the bins, times any constant.
      inputs: what the bins stand for, a pytree of arrays; None for the bins.
    """

    size: Count
    weights: Count
    inputs: Tree = None


@dataclasses.dataclass(frozen=True)
class TallyLaw(Generic[T]):
    """Draws the tally of a round at once. Made by `Round.law` as it is asked for, never stored.

    Attributes:
      draw: `(key, counts, inputs) -> tally` for given users: `counts`, a Count[k], says how many
        hold each bin, `inputs` what the bins stand for. The key is folded, never turned into words.
      cost: nanoseconds, roughly.
      independent: `(key, users) -> tally` for `Independent` users, where there is a shorter way
        than to draw their counts first; None where there is none.
      distance: a proven bound on the total variation to the tally of the per-user path; 0 where the
        two are equal in law.
      padded: a round of more bins that draws the same; None where shapes depend on more than these.
      together: `(rounds, keys, counts) -> tallies` for several rounds of bins whose laws name this
        same function: what `draw` makes of each, by programs that they share, which compile in a
        fraction of the time. None where each has its own.
    """

    draw: Callable[[jax.Array, Count, Tree], T]
    cost: Callable[[Work], float]
    independent: Callable[[jax.Array, Independent], T] | None = None
    distance: float = 0.0
    padded: "Padded[T] | None" = None
    together: Callable[[Sequence[Any], Sequence[jax.Array], Sequence[Count]], list[T]] | None = None


@dataclasses.dataclass(frozen=True)
class Padded(Generic[T]):
    """A round of so many bins that rounds of fewer share its programs: none is compiled for each.

    Attributes:
      round: its law draws of users whose histogram ends with zeros what the law of the round that
        it stands for draws of them without these, and more zeros. Only its leaves depend on the
        number of bins that it stands for.
      cut: from its tally, with leading axes, to that of the round that it stands for.
    """

    round: "Round[T]"
    cut: Callable[[T], T]


TallyKernel = Callable[["Round[T]", StreamKey, jax.Array, jax.Array | None, Tree, jax.Array], T]
"""`(round, key, start, first, values, mask) -> tally`: `jaxdp_kernels.randomize_and_tally`."""

DrawKernel = Callable[["Round[T]", jax.Array, Count, Tree], T]
"""`(round, key, counts, inputs) -> tally`, as `TallyLaw.draw`."""


def _nothing_alone(words: FlatWords) -> Tree:
    del words
    return ()


@dataclasses.dataclass(frozen=True)
class Summed(Generic[T]):
    """Says that a tally is made of a sum of integers over users, and of how many these are.

    So an engine may add the integers itself, of all blocks at once. Made by `Round.summed` as it is
    asked for, before a loop over blocks: what it computes then is not computed anew by each.

    Attributes:
      numbers: `(words, values, alone) -> int32[n, m]`: what n users add, at most `bound` each, from
        `jaxdp.random.FlatWords`; the bits of `tally(vmap(from_bits)(..))` but for the order of
        sums of floats. It is arranged for many threads.
      size: m, static.
      bound: of their absolute values, static.
      tally: `(sums, users) -> tally`, from Count[m] and Count[].
      alone: `(words) -> tree of [n]`: the numbers of a user that need not be made for each entry.
    """

    numbers: Callable[[FlatWords, Tree, Tree], jax.Array]
    size: int
    bound: int
    tally: Callable[[Count, Count], T]
    alone: Callable[[FlatWords], Tree] = dataclasses.field(default_factory=lambda: _nothing_alone)


@dataclasses.dataclass(frozen=True)
class Kernels(Generic[T]):
    """A platform's own ways to the same bits (`tally`), or to the same law (`draw`).

    Attributes:
      tally: by platform, "cpu", "cuda", "rocm" or "tpu": reports and their tally over one block.
      draw: by platform: the tally of a whole round.
    """

    tally: Mapping[str, TallyKernel[T]] = dataclasses.field(default_factory=dict)
    draw: Mapping[str, DrawKernel[T]] = dataclasses.field(default_factory=dict)


class Collect(Protocol):
    """Runs one round of an interactive protocol."""

    def __call__(self, round: "Round[T]", users: Population, number: int | jax.Array, /) -> T:
        """The tally of what the users report.

        Args:
          round: what they run.
          users: who takes part.
          number: of the round. Equal numbers mean equal words: a second reading of the same
            reports. There is no default, for a round that forgot its number would reuse a user's
            randomness.
        """
        ...


@dataclasses.dataclass(frozen=True)
class Step:
    """A round of a protocol, for costs and abilities.

    Attributes:
      round: what its users run; where it depends on a broadcast, of any one.
      work: its users.
      times: how often it is run.
    """

    round: "Round[Any]"
    work: Work
    times: float = 1.0


@dataclasses.dataclass(frozen=True)
class Sent:
    """Reports that users send in a round of a protocol of several rounds, for shuffling.

    Attributes:
      reports: the spec whose `shuffle_delta` holds for these reports, whatever was broadcast
        before. It may be of other values than the users': of vectors, or of numbers.
      share: of the users who send them. 1 for all; less for a random group of users who send
        nothing else.
      times: how many of these reports, each in a round or a message of its own, a user sends.
    """

    reports: "Spec[Any]"
    share: float = 1.0
    times: int = 1


class Described(abc.ABC):
    """What `run`, `simulate` and reports ask of specs and params alike."""

    __slots__ = ()

    @abc.abstractmethod
    def build(self) -> Any:
        """Builds the params, which users and the analyst run."""

    @property
    def answers_bins(self) -> bool:
        """Whether entry v of the estimate is the number, or the share, of the users in bin v.

        The labels of a population's bins are then those of the entries; see `Trials.labels`.
        """
        return False

    def check_population(self, population: Population) -> None:
        """Raises ValueError where the users' values do not fit."""
        del population

    def truth(self, counts: ArrayLike, inputs: Tree = None) -> np.ndarray | None:
        """The target for given users; None where it is not known before a trial.

        Args:
          counts: int[k], how many users hold each bin.
          inputs: what the bins stand for; None for the bins.
        """
        del counts, inputs
        return None

    def population_truth(
        self, probabilities: ArrayLike, num_users: int, inputs: Tree = None
    ) -> np.ndarray | None:
        """The target for users drawn from a distribution; None where it is not known.

        Args:
          probabilities: float[k], of each bin.
          num_users: n.
          inputs: what the bins stand for; None for the bins.
        """
        del probabilities, num_users, inputs
        return None


class Spec(Described, Checked, Generic[P_co]):
    """Base of all specs: checked fields, hashable and JSON-able; exact questions on the host.

    A subclass is made by `spec`, its fields by `field`. P, what it builds, is a `Params`, or
    another pytree for a central mechanism that has no users.
    """

    __slots__ = ()

    embeds: ClassVar[bool] = False
    """Whether users send the `reporter` few of its values: what those attain is not known."""

    @abc.abstractmethod
    def build(self, word_bits: int = 32) -> P_co:
        """The params, made on the host; words of 8 bits make a twin that can be enumerated."""

    @property
    def built(self) -> P_co:
        """The params, built once."""
        return cast(Any, _built(self))

    @abc.abstractmethod
    def exact_epsilon(self) -> float:
        """The realised privacy parameter, rounded up; at most what was asked for."""

    def exact_delta(self) -> float:
        """The smallest delta at which `exact_epsilon()` holds; 0 where privacy is pure.

        By default that of the `reporter`, or 0.
        """
        return 0.0 if self.reporter is None else self.reporter.exact_delta()

    def composed_delta(self, num_reports: int, epsilon: float) -> float | None:
        """A proven delta at which several reports of one user are (epsilon, delta)-LDP together.

        None, the default, where none is known but by composing `exact_epsilon()` and
        `exact_delta()`.

        Args:
          num_reports: k, at least 1, each perhaps of another value.
          epsilon: of all of them, >= 0.
        """
        del num_reports, epsilon
        return None

    @property
    def reporter(self) -> "Spec[Any] | None":
        """The spec, such as an oracle, whose report determines all that a user sends; or None.

        What is proven of its reports holds of those of this protocol.
        """
        return None

    @property
    def sent(self) -> tuple[Sent, ...]:
        """What users send in each round; empty, the default, for one report of each user.

        What `jaxdp.trusted.Shuffled` accounts for protocols of several rounds by.
        """
        return () if self.reporter is None else self.reporter.sent

    def pair_laws(self) -> tuple[PairLaw, ...] | None:
        """The kinds of ordered pairs of values of a report, of which all are some, or hide more.

        None, the default, where they are not known.
        """
        return None

    def shuffle_bracket(self, num_users: int, delta: float) -> ShuffleBracket:
        """Bounds of the epsilon of the shuffled reports of `num_users`, of one report each.

        By default those of the `reporter`; or else what `pair_laws` prove, and the proven bound for
        all reports that are `exact_epsilon()`-private.

        Args:
          num_users: n, whose reports are shuffled together.
          delta: in (0, 1).

        Raises:
          TypeError: privacy is not pure, and nothing is known of these reports.
        """
        if self.reporter is not None:
            found = self.reporter.shuffle_bracket(num_users, delta)
            return ShuffleBracket(0.0, found.upper, math.inf) if self.embeds else found
        generic = shuffle_epsilon(self._pure_epsilon(), num_users, delta)
        if (pairs := self._shuffled_pairs()) is None:
            return ShuffleBracket(0.0, generic, math.inf)
        found = pair_shuffle_bracket(pairs, num_users, delta)
        return dataclasses.replace(found, upper=min(found.upper, generic))

    def shuffle_delta(self, num_users: int, epsilon: float) -> float:
        """A proven delta at which the shuffled reports of `num_users` are (epsilon, delta)-private.

        By default that of the `reporter`, or of `pair_laws`, or of all reports that are
        `exact_epsilon()`-private.

        Args:
          num_users: n, whose reports are shuffled together.
          epsilon: of the shuffled reports, >= 0.

        Raises:
          TypeError: privacy is not pure, and nothing is known of these reports.
        """
        if self.reporter is not None:
            return self.reporter.shuffle_delta(num_users, epsilon)
        generic = shuffle_delta(epsilon, self._pure_epsilon(), num_users)
        if (pairs := self._shuffled_pairs()) is None:
            return generic
        return min(pair_shuffle_delta(pairs, num_users, epsilon), generic)

    def _shuffled_pairs(self) -> Sequence[PairLaw] | None:
        """The pairs that shuffled reports are accounted by, if there are any."""
        return self.pair_laws()

    def _pure_epsilon(self) -> float:
        if self.exact_delta() > 0:
            raise TypeError(
                f"protocol must have reports with pure local privacy, or of {_NORMAL}, to be "
                f"shuffled, got {self!r}; give a pure randomizer."
            )
        return self.exact_epsilon()

    @property
    def variance_kind(self) -> Kind:
        """What the arrays of `variance` are: "exact", by the "delta" method, or a "bound".

        Predictions that are one number, such as `worst_case_variance`, are a `Prediction`, which
        says so itself.
        """
        return "exact"

    def reported_variance(self, outcome: Any, num_users: int) -> np.ndarray | None:
        """The variance of an unbiased estimate, as far as it can be told from its reports.

        Where reports cannot tell it, a bound on it. None, the default, where neither is known.

        Args:
          outcome: of a trial or of real reports, what `estimate` of the params takes.
          num_users: how many reported.

        Returns:
          float64 of the shape of the estimate.
        """
        del outcome, num_users
        return None


class Params(Described, Generic[O]):
    """Base of all params: pytrees of arrays with pure methods, run inside jit and outside.

    Leaves depend on epsilon; what sets shapes or abilities is static. A subclass is made by
    `params`; nothing is checked in its constructor, which jax calls on every unflattening.
    """

    def build(self) -> Self:
        """Returns the params themselves."""
        return self

    @property
    def traceable(self) -> bool:
        """Whether a whole trial can be compiled; False where `play` calls Python."""
        return True

    @abc.abstractmethod
    def rounds(self, work: Work) -> Sequence[Step]:
        """The rounds of a trial: from them follow its laws, its words and its costs."""

    @abc.abstractmethod
    def play(self, key: jax.Array, users: Population, collect: Collect) -> O:
        """Plays one trial and returns its outcome; `collect` runs a round.

        Args:
          key: the trial's key; never turned into words, see `jaxdp.random.stream`.
          users: bound to the trial.
          collect: runs a round.
        """

    @abc.abstractmethod
    def estimate(self, outcome: O, /) -> Any:
        """The estimate of an outcome."""

    @property
    def has_target(self) -> bool:
        """Whether the estimated quantity depends on the outcome; `target` then computes it."""
        return False

    def target(self, outcome: O, histogram: jax.Array, inputs: Tree, /) -> jax.Array:
        """The quantity that the estimate of an outcome estimates; only where `has_target`.

        Args:
          outcome: of a trial.
          histogram: float64[k], normalised, of the users or of their distribution.
          inputs: what the bins stand for, a pytree of arrays; None for the bins.
        """
        raise NotImplementedError(f"{type(self).__name__} has no target of its own.")

    def cost(self, work: Work) -> Cost:
        """Nanoseconds of a trial on both paths, roughly, over all rounds."""
        total = Cost()
        for step in self.rounds(work):
            law = step.round.law
            drawn = math.inf if law is None else step.times * law.cost(step.work)
            each = step.round.user_cost(step.work)
            total += Cost(step.times * step.work.visits * each, drawn)
        return total


class Interactive(Params[O]):
    """Base of the params of several rounds, or of a curator: `rounds` and `play` are its own."""

    def check_population(self, population: Population) -> None:
        """Raises ValueError where the users' values do not fit one of the rounds."""
        for step in self.rounds(work_of(population)):
            step.round.check_population(population)


class Round(Params[T]):
    """Base of the params of one round: what a user runs, and exact sums of what users report.

    Attributes:
      word_bits: words are uniform on [0, 2**word_bits); a static field of those with small twins.
    """

    word_bits: int = 32

    @property
    @abc.abstractmethod
    def num_words(self) -> int:
        """Words of a user's address space, static."""

    @abc.abstractmethod
    def from_bits(self, words: Words, value: Tree, /) -> Tree:
        """One user's report, a deterministic function of its words and its value.

        Args:
          words: uint32[num_words], or `UserWords`; indices and slices must end below `num_words`.
          value: one user's, of the shapes and dtypes of `value`; never refused, but moved into the
            domain, so that every report is private.
        """

    @abc.abstractmethod
    def tally(self, reports: Tree, mask: jax.Array | None = None, /) -> T:
        """Exact sums of reports, their number included; they merge in any order.

        Args:
          reports: a pytree of arrays [n, ...].
          mask: bool[n], which of them count; None for all.
        """

    @property
    def value(self) -> Tree:
        """The shape and dtype of a user's value: a pytree of `jax.ShapeDtypeStruct`."""
        return jax.ShapeDtypeStruct((), jnp.int32)

    @property
    @final
    def report(self) -> Tree:
        """The shape and dtype of a report: a pytree of `jax.ShapeDtypeStruct`."""
        words = jax.ShapeDtypeStruct((self.num_words,), jnp.uint32)
        return jax.eval_shape(self.from_bits, words, self.value)

    @property
    def num_bins(self) -> int | None:
        """The number of bins that a user's value is one of; None where it is no bin; static."""
        return None

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless the users' values are such bins, or have the shape of `value`.

        A spec may refuse more, such as classes that are too small for its noise.
        """
        value: Any = self.value
        if self.num_bins is not None:
            population.require_bins(self.num_bins, "num_values")
        elif isinstance(value, jax.ShapeDtypeStruct) and value.dtype == jnp.float32:
            population.require_reals(value.shape)

    @property
    def report_limits(self) -> tuple[Tree, Tree] | None:
        """The least and the largest value of each entry of a report, by which it is sent.

        Two pytrees of integers, or of arrays of them, of the report's structure and shapes. None,
        the default, where reports serve simulation only.
        """
        return None

    def extreme_reports(self, queries: np.ndarray | None = None) -> Tree | None:
        """Some reports, [r, ...], among which each query of the estimate has its extremes.

        That is the estimate from one report alone: at its least, and at its largest, over all
        reports within `report_limits`. None, the default, where they are not known.

        Args:
          queries: float64[m, ...], linear forms, each of the shape of the estimate; None for its
            entries.
        """
        del queries
        return None

    def extreme_tallies(self) -> Iterable[T] | None:
        """Tallies of single reports, [r, ...], some at a time; each entry has its extremes in one.

        Those of `extreme_reports`, or None. A subclass may know them where it cannot name reports.
        """
        reports = self.extreme_reports()
        if reports is None:
            return None
        tally = jax.jit(
            jax.vmap(lambda report: self.tally(jax.tree.map(lambda x: x[None], report)))
        )
        number = len(jax.tree.leaves(reports)[0])
        rows = max(_CHUNK // max(self.num_bins or 1, number), 1)
        return (
            tally(jax.tree.map(lambda x, at=begin: jnp.asarray(x[at : at + rows]), reports))
            for begin in range(0, number, rows)
        )

    @property
    def permanent_words(self) -> int:
        """Number of leading words that make the report which a user remembers; static.

        Its first report of a value draws them, later ones reuse them, with other words after them.
        0, the default, where nothing is remembered: each report costs epsilon anew.
        """
        return 0

    @property
    def lazy_words(self) -> bool:
        """Whether a user reads so few of its words that they are made one at a time; static."""
        return False

    @property
    def draft(self) -> Draft | None:
        """A quick way to nearly all reports, from a user's first words; the rest by `from_bits`."""
        return None

    @property
    def counted(self) -> Counted | None:
        """How kernels compute `tally` from the counts of reports; None if they cannot."""
        return None

    @property
    def summed(self) -> Summed[T] | None:
        """How accelerators compute `tally` from sums over users; None if not given."""
        return None

    @property
    def law(self) -> TallyLaw[T] | None:
        """Draws the tally at once; None where its law is not known."""
        return None

    @property
    def lawless(self) -> str:
        """Why the law is not known, as the end of an error message; empty if nobody asked."""
        return ""

    @property
    def kernels(self) -> Kernels[T]:
        """Kernels of each platform for the tally of a block, and for the draw of a whole tally."""
        return Kernels()

    @property
    def shared(self) -> "Round[T] | None":
        """A round of the same tallies, of which fewer fields set shapes, for programs of a CPU.

        So one program serves a grid of epsilons. Its blocks are whole tiles. None, the default,
        where a grid shares programs anyway, or cannot.
        """
        return None

    def user_cost(self, work: Work) -> float:
        """Nanoseconds that a user of the per-user path takes, roughly."""
        return work.words(1.0 + self.num_words)

    @property
    def num_sums(self) -> int:
        """Number of entries of a tally that a report is added to; 1 if reports are counted."""
        if self.counted is not None:
            return 1
        reports = jax.tree.map(
            lambda one: jax.ShapeDtypeStruct((1, *one.shape), one.dtype), self.report
        )
        leaves = jax.tree.leaves(jax.eval_shape(self.tally, reports))
        return sum(math.prod(leaf.shape) for leaf in leaves) // 2  # a Count has two leaves

    def rounds(self, work: Work) -> Sequence[Step]:
        """The one round."""
        return (Step(self, work),)

    def play(self, key: jax.Array, users: Population, collect: Collect) -> T:
        """The tally of the one round."""
        del key
        return collect(self, users, 0)

    @final
    def merge(self, first: T, second: T, /) -> T:
        """The tally of the users of two tallies; see `jaxdp.merge`."""
        return merge(first, second)

    @final
    def sample_tally(self, key: jax.Array, counts: Count, inputs: Tree = None) -> T:
        """The tally of given users, drawn at once by `law`; see `TallyLaw.draw`.

        Raises:
          ValueError: the law of the tally is not known.
        """
        if self.law is None:
            raise ValueError(
                f"{type(self).__name__} has no law of its tally; run it user by user, with "
                f"method='per_user'.{self.lawless}"
            )
        return self.law.draw(key, counts, inputs)

    @final
    def privatize(self, key: jax.Array, value: Tree) -> Tree:
        """One user's report, its words drawn from a key; see `from_bits`.

        Args:
          key: one typed threefry2x32 key, for this user alone.
          value: one user's value.

        Raises:
          ValueError: the value has another shape than one user's. One key makes one report: for
            many users draw a key each and use `jax.vmap`.
        """
        check_key(key)

        def fit(want: jax.ShapeDtypeStruct, got: ArrayLike) -> jax.Array:
            if np.shape(got) != want.shape:
                raise ValueError(
                    f"value must be one user's, of shape {list(want.shape)}, got shape "
                    f"{list(np.shape(got))}; for many users: "
                    "jax.vmap(params.privatize)(jax.random.split(key, n), values)."
                )
            return jnp.asarray(got, want.dtype)

        held = jax.tree.map(fit, self.value, value)
        return self.from_bits(user_words(key, 0, self.num_words)[:], held)


class Through(Round[T]):
    """Base of rounds in which users do what an inner round says; `estimate` is its own.

    A subclass has the field `inner`, or returns the inner round from a property of that name. One
    that makes other reports (`from_bits`, `value`) defines `law`, `kernels`, `draft` and
    `report_limits` as well: those of the inner round would be wrong for it. A TypeError says so
    where the class is made.
    """

    inner: Any  # Round[T]: a field or a property of the subclass

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        own = cls.__mro__[: cls.__mro__.index(Through)]  # this one itself has all of them
        said = {name for base in own for name in vars(base)}
        absent = {"law", "kernels", "draft", "report_limits"} - said
        if said & {"from_bits", "value"} and absent:
            raise TypeError(
                f"{cls.__name__} must define {', '.join(sorted(absent))}: its reports are not "
                "those of its inner round, whose laws and limits would be wrong for it; return "
                "None, or Kernels()."
            )

    @property
    def word_bits(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Bits of a word of the inner round."""
        return self.inner.word_bits

    @property
    def num_words(self) -> int:
        """Words of the inner round."""
        return self.inner.num_words

    @property
    def num_bins(self) -> int | None:
        """The bins of the inner round."""
        return self.inner.num_bins

    @property
    def report_limits(self) -> tuple[Tree, Tree] | None:
        """The limits of the inner round's reports."""
        return self.inner.report_limits

    @property
    def permanent_words(self) -> int:
        """The inner round's number of permanent words; 0 if the reports differ from its reports."""
        return self.inner.permanent_words if type(self).from_bits is Through.from_bits else 0

    @property
    def lazy_words(self) -> bool:
        """Whether the inner round reads words one at a time."""
        return self.inner.lazy_words

    @property
    def value(self) -> Tree:
        """The value of the inner round."""
        return self.inner.value

    @property
    def draft(self) -> Draft | None:
        """The draft of the inner round."""
        return self.inner.draft

    @property
    def counted(self) -> Counted | None:
        """The inner round's; None if the tally of this round differs."""
        return self.inner.counted if type(self).tally is Through.tally else None

    @property
    def summed(self) -> Summed[T] | None:
        """The inner round's; None if reports or tallies of this round differ."""
        same = type(self).from_bits is Through.from_bits and type(self).tally is Through.tally
        return self.inner.summed if same else None

    @property
    def law(self) -> TallyLaw[T] | None:
        """The law of the inner round."""
        return self.inner.law

    @property
    def lawless(self) -> str:
        """The inner round's reason."""
        return self.inner.lawless

    @property
    def kernels(self) -> Kernels[T]:
        """The kernels of the inner round."""
        return self.inner.kernels

    def user_cost(self, work: Work) -> float:
        """The cost of a user of the inner round."""
        return self.inner.user_cost(work)

    @property
    def num_sums(self) -> int:
        """The inner round's, unless the tally of this round differs."""
        if type(self).tally is Through.tally:
            return self.inner.num_sums
        return super().num_sums

    def from_bits(self, words: Words, value: Tree, /) -> Tree:
        """One user's report of the inner round."""
        return self.inner.from_bits(words, value)

    def tally(self, reports: Tree, mask: jax.Array | None = None, /) -> T:
        """The inner round's tally."""
        return self.inner.tally(reports, mask)


Runnable = Spec[Params[Any]] | Params[Any]
"""What `run` and `simulate` take."""


def spec_of(given: object) -> Spec[Any] | None:
    """An argument that is a spec; None where it is anything else."""
    return given if isinstance(given, Spec) else None


def round_of(given: object) -> Round[Any] | None:
    """An argument that is the params of one round; None where it is anything else."""
    return given if isinstance(given, Round) else None


def params_of(given: object) -> Params[Any] | None:
    """The params of a spec, built once, or params themselves; None of anything else."""
    # Specs are hashable and kept; params hold arrays, which no cache could find again.
    built = given.built if isinstance(given, Spec) else given
    return built if isinstance(built, Params) else None


@functools.lru_cache(maxsize=1024)
def _built(spec: Spec[Any]) -> object:
    with jax.ensure_compile_time_eval():  # what is kept may not belong to a program being traced
        return spec.build()


def work_of(users: Population) -> Work:
    """What the costs of a trial over these users are asked for."""
    # While tracing the number is not known: what is cheap for many users is taken.
    num_users = 2.0**31 if is_traced(users.size) else float(users.num_users)
    return Work(num_users, users.num_values or users.source.rows or 1, jax.default_backend())
