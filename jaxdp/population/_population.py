"""The users of a simulation."""

import dataclasses
import functools
import math
import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Literal, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import ArrayLike

from jaxdp_kernels import register_dataclass

from .._meshes import moved, on_auto_axes
from .._spec import (
    MAX_USERS,
    Tree,
    as_float32,
    as_float64,
    as_int32,
    check_counts,
    check_int,
    check_key,
    is_traced,
)
from .._x64 import one_program
from ..random import Count
from ._derived import GroupSource, PairSource, ShuffledSource
from ._distribution import DistributionSource, _integer_weights
from ._labels import (
    LABEL_KINDS,
    Labels,
    as_numbers,
    checked_labels,
    coded,
    described,
    is_categorical,
    labelled,
    only_numbers,
    pairs_of,
    surely_labels,
)
from ._source import ArraySource, HistogramSource, Source, bin_values, check_users

T = TypeVar("T")


@register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Population:
    """The users of a simulation: where their values come from, and how many there are.

    Made by `from_values`, `from_histogram` or `from_distribution`. A population is a pytree and may
    be passed into jit; its size is a leaf, so that another number of users of a histogram or of a
    distribution does not recompile.

    A value is an int32 bin in [0, num_values), a float32 number or vector, or a pytree of these.

    Bins may have labels, which trials carry along. Labels are no part of the pytree: programs are
    not compiled anew for others, and a population that has passed through a transformation, such as
    jit or `jax.tree.map`, has none.

    Attributes:
      source: where the values come from; an implementation detail.
      labels: what the bins stand for, in their order: a tuple of hashable objects, or None.
    """

    source: Source
    labels: Labels | None = dataclasses.field(default=None, metadata={"outside": True})

    def __repr__(self) -> str:
        """One line; of arrays nothing is read but the number of users."""
        leaves, kind = jax.tree.leaves(self.source), self.source.kind
        if not all(isinstance(x, jax.Array | np.ndarray | jax.ShapeDtypeStruct) for x in leaves):
            return f"Population({kind})"  # of what `jax.tree.map` puts in place of arrays
        return f"Population({_users(self.source)}, {_values(self)}, {kind})"

    @classmethod
    @on_auto_axes
    def from_values(
        cls,
        x: ArrayLike | Iterable[Hashable],
        num_values: int | None = None,
        *,
        labels: Iterable[Hashable] | None = None,
        missing: Hashable = None,
    ) -> "Population":
        """Users given one by one.

        ================================  ========================================================
        x                                 values
        ================================  ========================================================
        integers, and `num_values`        bins, which `labels` may name
        floats                            real numbers, or vectors
        texts, flags, other hashables     bins: those of `labels`, or of the values that occur
        Categorical, Arrow's dictionary   bins: its categories in their order, unused ones included
        anything, and `labels`            bins: the place of each value among the labels
        ================================  ========================================================

        Lists and arrays may hold them, and a Series, an Index, or a column of a DataFrame or of
        Arrow. Of labels that are found in x, `jaxdp.population.labels_and_codes` says the order.

        Args:
          x: int[n] in [0, num_values), or float[n] or float[n, d] (kept as float32); may be sharded
            over devices. Traced arrays are accepted inside jit and not checked there. Or n labels.
          num_values: k, the number of bins; required for integers, absent for all else.
          labels: what the bins stand for, all different. Without `num_values`, x holds such labels.
          missing: the label under which missing values (None, NaN, NaT, `pandas.NA`) are counted,
            as a category of their own, the last one. None to refuse them.

        Returns:
          A population of n users.

        Raises:
          ValueError: x is empty, of the wrong rank, out of range, not finite, or not among the
            labels; or values are missing.
          TypeError: x is neither of integers, nor of floats, nor of what can be labels.

        Example:
          >>> import jaxdp
          >>> jaxdp.Population.from_values([0, 2, 2, 1], num_values=3).counts().numpy().tolist()
          [1, 1, 2]
          >>> jaxdp.Population.from_values(["tea", "coffee", None, "tea"], missing="no answer")
          Population(4 users, 3 bins 'coffee', 'tea', 'no answer', array)
        """
        if num_values is None:
            if labels is not None or missing is not None or surely_labels(x):
                return cls._from_labels(x, labels, missing)
        elif missing is not None:
            raise ValueError("missing is for values that are labels; leave num_values out.")
        elif surely_labels(x):
            raise TypeError(
                "x must be of integers when num_values is given, got labels; leave num_values out."
            )
        given, x = x, x if isinstance(x, jax.Array) else as_numbers("x", x)
        if x.ndim == 0 or x.shape[0] == 0:
            raise ValueError(f"x must hold at least one user, got shape {x.shape}.")
        if num_values is None and x.dtype.kind in LABEL_KINDS:
            return cls._from_labels(given, labels, missing)
        # Rows are addressed by int32.
        if x.shape[0] >= 2**31:
            raise ValueError(
                f"x must have fewer than 2**31 rows, got {x.shape[0]}; use from_histogram or "
                "from_distribution for more users."
            )
        if x.dtype == bool or x.dtype == object:
            raise TypeError(f"x must be of integers or floats, got dtype {x.dtype}.")
        if jnp.issubdtype(x.dtype, jnp.integer):
            if num_values is None:
                raise ValueError(
                    "num_values is required for integer values; for real numbers give floats, and "
                    "for categories their labels, such as labels=sorted(set(x))."
                )
            num_values = check_int("num_values", num_values, low=1, high=2**30)
            if x.ndim != 1:
                raise ValueError(f"x must have shape [n] for integer values, got {x.shape}.")
            if not is_traced(x):
                low, high = int(x.min()), int(x.max())
                if low < 0 or high >= num_values:
                    bad = low if low < 0 else high
                    raise ValueError(
                        f"x must be in [0, {num_values}), got a value {bad}; recode the values, or "
                        "raise num_values."
                    )
            # On the device where it is there already: an array may be sharded over devices.
            values = jnp.asarray(x if isinstance(x, jax.Array) else as_int32("x", x), jnp.int32)
        elif jnp.issubdtype(x.dtype, jnp.floating):
            if num_values is not None:
                raise TypeError(
                    f"x must be of integers when num_values is given, got dtype {x.dtype}; convert "
                    "with x.astype(int), or leave num_values out for real numbers."
                )
            if x.ndim > 2:
                raise ValueError(f"x must have shape [n] or [n, d], got {x.shape}.")
            values = jnp.asarray(x if isinstance(x, jax.Array) else as_float32("x", x), jnp.float32)
            if not is_traced(values) and not bool(jnp.all(jnp.isfinite(values))):
                raise ValueError("x must be finite in float32, got NaN or inf; drop those rows.")
        else:
            raise TypeError(f"x must be of integers or floats, got dtype {x.dtype}.")
        named = None if labels is None else checked_labels(labels, num_values, "x")
        return cls(ArraySource(values, Count.of(np.int64(x.shape[0])), num_values), named)

    @classmethod
    def _from_labels(
        cls, x: Any, labels: Iterable[Hashable] | None, missing: Hashable
    ) -> "Population":
        found, codes = coded("x", x, labels, missing)
        if codes.size == 0:
            raise ValueError("x must hold at least one user, got none.")
        if labels is None and not is_categorical(x) and only_numbers(found, missing):
            raise TypeError(
                "x must hold integers, floats or labels, got numbers of another dtype, or some "
                "that are missing; convert them to float, or list the categories as labels."
            )
        source = ArraySource(jnp.asarray(codes), Count.of(np.int64(codes.size)), len(found))
        return cls(source, found)

    @classmethod
    @on_auto_axes
    def from_histogram(
        cls,
        counts: ArrayLike | Mapping[Any, Any],
        values: Tree = None,
        *,
        labels: Iterable[Hashable] | None = None,
        missing: Hashable = None,
    ) -> "Population":
        """Users given by how many have each value.

        Users are ordered by bin. No memory is used per user: 10**12 users are as good as ten.

        Args:
          counts: whole numbers of any shape and of sum 1 to 2**53; bins are numbered row by row. Or
            by label: a dict, a Counter, a Series such as `value_counts()`, or a DataFrame such as
            `pandas.crosstab`, whose labels are pairs.
          values: what a user's value is in each bin: an array or a list, or a pytree of arrays,
            with as many rows as there are bins. None means that a user's value is its bin.
          labels: what the bins are called, all different. Of counts by label: which bins there are,
            in which order; 0 users have a label that is not counted.
          missing: what a missing label of the counts (None, NaN) is called; it becomes the last.
            None to refuse it.

        Returns:
          A population of `counts.sum()` users.

        Raises:
          ValueError: counts are negative, fractional, not finite, all zero or too many; their
            labels are missing, equal, or not among those given; or values do not fit them.
          TypeError: counts are not numbers.

        Example:
          >>> import jaxdp
          >>> jaxdp.Population.from_histogram([10**12, 3]).num_users
          1000000000003
          >>> jaxdp.Population.from_histogram({"tea": 700, "coffee": 300}).labels
          ('tea', 'coffee')
        """
        named, array = labelled("counts", counts, labels, missing, check_counts)
        flat = array.ravel()
        return cls(HistogramSource.make(flat, bin_values(values, flat.size, "counts")), named)

    @classmethod
    @on_auto_axes
    def from_distribution(
        cls,
        p: ArrayLike | Mapping[Any, Any],
        num_users: int,
        values: Tree = None,
        *,
        labels: Iterable[Hashable] | None = None,
        missing: Hashable = None,
    ) -> "Population":
        """Users drawn independently from a distribution, new ones in every trial.

        The simulated error is then the error about the distribution, sampling included.

        Args:
          p: probabilities of any shape, bins numbered row by row. They must sum to 1 within 1e-6,
            and are realised as multiples of 2**-62; `probabilities` tells them. Of 2**-32 where
            users are so few that this changes the law of all their values by at most 1e-6. Or by
            label, as in `from_histogram`: a dict, or a Series, `value_counts(normalize=True)`.
          num_users: how many users, 1 to 2**53.
          values: as in `from_histogram`.
          labels: as in `from_histogram`.
          missing: as in `from_histogram`.

        Returns:
          A population of `num_users` users.

        Raises:
          ValueError: p is negative, not finite, or does not sum to 1; its labels are missing, equal
            or not among those given; num_users is out of range; or values do not fit p.
          TypeError: p is not of numbers, or num_users is not an integer.

        Example:
          >>> import jaxdp
          >>> jaxdp.Population.from_distribution([0.25, 0.75], num_users=10**9).probabilities()
          array([0.25, 0.75])
        """
        named, array = labelled("p", p, labels, missing, lambda x: as_float64("p", x))
        flat = array.ravel()
        if flat.size == 0 or not np.all(np.isfinite(flat)) or np.any(flat < 0):
            raise ValueError("p must be a non-empty array of finite probabilities >= 0.")
        if abs(flat.sum() - 1) > 1e-6:
            raise ValueError(
                f"p must sum to 1, got {flat.sum():.9g}; divide by the sum, or use from_histogram "
                "for numbers of users."
            )
        num_users = check_int("num_users", num_users, low=1, high=MAX_USERS)
        source = DistributionSource.make(flat, num_users, bin_values(values, flat.size, "p"))
        return cls(source, named)

    @property
    def num_users(self) -> int:
        """The number of users, an int; of a group of a split, that of the population it is from."""
        if is_traced(self.size):
            raise TypeError("num_users is not known while tracing; use the Count `size`.")
        return int(self.size)

    @property
    def size(self) -> Count:
        """The number of users, Count[], also while tracing."""
        return self.source.size

    @property
    def num_values(self) -> int | None:
        """The number of bins, or None when the values are not bins."""
        return self.source.num_values

    @property
    def is_random(self) -> bool:
        """Whether the users' values differ from trial to trial."""
        return self.source.is_random

    @property
    def inputs(self) -> Tree:
        """The values that the bins of `counts` stand for; None if a value is the bin itself."""
        return self.source.inputs

    def probabilities(self) -> np.ndarray:
        """The realised distribution of a population made by `from_distribution`, float64[k]."""
        if not isinstance(self.source, DistributionSource):
            raise TypeError("only a population made by from_distribution has probabilities.")
        return self.source.probabilities()

    def bind(self, key: jax.Array) -> "Population":
        """This population with its random values fixed by a trial's key."""
        return self._of(self.source.bind(check_key(key)))

    @on_auto_axes
    def at(self, users: Count | ArrayLike) -> Tree:
        """The values of users by index.

        Args:
          users: Count[...], or integers in [0, size). Traced ones beyond it are not refused, and
            have no meaning.

        Returns:
          A pytree with the leading axes of `users`.
        """
        users = Count.of(users, "users")
        check_users(users, 1, self.size)
        return _values_at(self.source, users)

    @on_auto_axes
    def block(self, start: Count | ArrayLike, size: int) -> tuple[Tree, jax.Array]:
        """The values of consecutive users, and which of these users belong to the population.

        Args:
          start: Count[], or an integer, the first index; see `at`.
          size: how many, at least 1, static; none may lie beyond the end.

        Returns:
          A pytree of values with `size` rows, and bool[size].
        """
        start = Count.of(start, "start")
        size = check_int("size", size, low=1, high=2**31 - 1)
        if start.ndim:
            raise ValueError(f"start must be one index, got shape {start.shape}.")
        check_users(start, size, self.size, f"start with size = {size}: users")
        return _values_of_block(self.source, start, size)

    @on_auto_axes
    def counts(self, key: jax.Array | None = None) -> Count:
        """The number of users with each value, Count[k]; flat, whatever the shape given.

        Of real values given one by one, every row counts once and `inputs` are the rows.

        Args:
          key: for a random population that is not bound yet, the trial's key.
        """
        return (self if key is None else self.bind(key)).source.counts()

    def split(self, key: jax.Array, weights: ArrayLike) -> tuple["Population", ...]:
        """Splits users into groups, each user independently.

        Args:
          key: the trial's key; the assignment has a stream of its own under it. Of a population
            that was itself split, shuffled or paired with this key, derive another with `fold_in`.
          weights: the groups' probabilities, positive, of sum 1 within 1e-6; realised as multiples
            of 2**-32.

        Returns:
          One population a group. They share the users' indices; the groups' sizes are random, and
          are known from what their users report.

        Raises:
          ValueError: weights are not positive or do not sum to 1.
        """
        check_key(key)
        share = as_float64("weights", weights)
        if share.ndim != 1 or share.size == 0 or not np.all(share > 0):
            raise ValueError(f"weights must be a vector of positive numbers, got {weights!r}.")
        if not math.isclose(share.sum(), 1, abs_tol=1e-6):
            raise ValueError(f"weights must sum to 1, got {share.sum():.9g}; divide by the sum.")
        # Rounded once and for all, so that words and drawn counts realise the same probabilities.
        realised = _integer_weights(share)
        if not np.all(realised > 0):
            raise ValueError(
                f"weights must be at least 2**-32, or a group would be empty, got {share.min():g}."
            )
        return tuple(
            self._of(GroupSource(self.source, key, Count.of(realised), jnp.asarray(g, jnp.int32)))
            for g in range(share.size)
        )

    def shuffle(self, key: jax.Array) -> "Population":
        """The same users in a pseudorandom order, a keyed permutation of their indices.

        Args:
          key: the trial's key; see `split` on using one key twice.

        Raises:
          ValueError: this is a group of a split, whose indices are those of everyone.
        """
        self._require_everyone("shuffle")
        return self._of(ShuffledSource(self.source, check_key(key)))

    def pairs(self, key: jax.Array) -> "Population":
        """Random pairs of users, as the users of a new population of half the size.

        A value is the tuple of the two users' values; `counts` is the k x k table of pairs, flat.
        So labels are tuples of two; none where there would be more than 2**16.
        Of an odd number of users one, chosen at random, is left out.

        Args:
          key: the trial's key; see `split` on using one key twice.

        Raises:
          ValueError: there are fewer than two users, or this is a group of a split.
        """
        self._require_everyone("pairs")
        if not is_traced(self.size) and self.num_users < 2:
            raise ValueError("pairs needs at least 2 users, got 1.")
        return Population(PairSource(self.source, check_key(key)), pairs_of(self.labels))

    def _of(self, source: Source) -> "Population":
        """These users, of equal bins, as another source has them."""
        return dataclasses.replace(self, source=source)

    def _require_everyone(self, name: str) -> None:
        if isinstance(self.source, GroupSource):
            raise ValueError(
                f"{name} needs all users, not a group of a split: call {name} first, then split."
            )

    def require_bins(self, num_values: int, name: str = "num_values") -> None:
        """Raises ValueError unless the users' values are bins of a domain of this size."""
        if self.num_values is None or self.inputs is not None:
            raise ValueError(
                f"the population's values must be bins in [0, {name} = {num_values}), but they are "
                "not bins; make it with from_values(x, num_values=...), or quantise the values."
            )
        if self.num_values != num_values:
            raise ValueError(
                f"the population has num_values = {self.num_values}, but {name} = {num_values}; "
                "both must name one domain."
            )

    def require_reals(
        self, shape: tuple[int, ...], *, low: float = -math.inf, high: float = math.inf
    ) -> None:
        """Raises ValueError unless values are floats of this shape within [low, high]."""
        inputs = self.inputs
        if inputs is None or not isinstance(inputs, (jax.Array, np.ndarray)):
            raise ValueError(
                "the population's values must be real numbers; make it with from_values(floats), "
                "or give from_histogram and from_distribution the values of their bins."
            )
        if not jnp.issubdtype(inputs.dtype, jnp.floating) or inputs.shape[1:] != shape:
            raise ValueError(
                f"the population's values must be floats of shape {shape}, got "
                f"{inputs.dtype} of shape {inputs.shape[1:]}."
            )
        if is_traced(inputs) or (low, high) == (-math.inf, math.inf):
            return
        with jax.ensure_compile_time_eval():  # values that a trace closes over
            smallest, largest = map(float, _extremes(inputs))
        if smallest < low or largest > high:
            bad = smallest if smallest < low else largest
            raise ValueError(
                f"the population's values must be in [{low:g}, {high:g}], got {bad:g}; rescale or "
                "clip them, or widen the protocol's range."
            )

    def require_ball(
        self, dim: int, radius: float, *, order: Literal[1, 2] = 2, name: str = "radius"
    ) -> None:
        """Raises ValueError unless values are float vectors of this dimension and L1 or L2 norm.

        Args:
          dim: of the vectors.
          radius: the largest norm.
          order: 1 or 2, which norm.
          name: of the field that the radius comes from, for the message.
        """
        self.require_reals((dim,))
        inputs = self.inputs
        if is_traced(inputs):
            return
        with jax.ensure_compile_time_eval():
            norm = float(_largest_norm[order](inputs))
        # Norms in float32: a vector that was scaled to the radius may come out a little longer.
        if norm > radius * (1 + 1e-6):
            with jax.ensure_compile_time_eval():
                worst = int(jnp.argmax(_norms(inputs, order)))
            raise ValueError(
                f"the population's values must have an L{order} norm of at most {name} = "
                f"{radius:g}, but row {worst} has {norm:g}; scale or clip the vectors, or raise "
                f"{name}."
            )


@moved.register
def _(population: Population) -> Population:
    # As a mere pytree it would lose its labels.
    return dataclasses.replace(population, source=moved(population.source))


def _users(source: Source) -> str:
    """How many users there are, for people."""
    arrays = [x for x in jax.tree.leaves(source) if isinstance(x, jax.Array)]
    readable = [is_traced(x) or (x.is_fully_addressable and not x.is_deleted()) for x in arrays]
    if not arrays or not all(readable):
        return "users"
    with jax.ensure_compile_time_eval():  # users that a trace closes over
        size = source.size
        if is_traced(size):
            return "a traced number of users"
        return "users" if size.ndim else f"{int(size):,} user{'' if int(size) == 1 else 's'}"


def _values(population: Population) -> str:
    """What a value is, for people."""
    held = population.source.held
    if held is None:
        number = population.num_values
        labels = "" if population.labels is None else f" {described(population.labels)}"
        return f"{number:,} bin{'' if number == 1 else 's'}{labels}"
    shapes = ", ".join(
        f"{x.dtype}{list(x.shape[1:]) if x.ndim > 1 else ''}" for x in jax.tree.leaves(held)
    )
    return f"{shapes} values"


@one_program
def _values_at(source: Source, users: Count):
    return source.at(users)


@functools.partial(one_program, static_argnums=2)
def _values_of_block(source: Source, start: Count, size: int):
    users = start + Count.of(lax.iota(jnp.uint32, size))
    return source.at(users), source.members(users)


def _remembered(function: Callable[[jax.Array], T]) -> Callable[[Any], T]:
    """`function` of an array, computed once: jax's arrays do not change while they live."""
    found: dict[int, T] = {}

    def look_up(array: jax.Array | np.ndarray) -> T:
        if not isinstance(array, jax.Array):
            return function(jnp.asarray(array))
        if id(array) not in found:
            found[id(array)] = function(array)
            weakref.finalize(array, found.pop, id(array))
        return found[id(array)]

    return look_up


@_remembered
@jax.jit
def _extremes(values):
    """The smallest and the largest entry."""
    return jnp.min(values), jnp.max(values)


def _norms(rows: jax.Array, order: int) -> jax.Array:
    return jnp.linalg.norm(rows, order, axis=1)


# A remembered function is of an array alone.
_largest_norm = {
    order: _remembered(jax.jit(lambda rows, order=order: jnp.max(_norms(rows, order))))
    for order in (1, 2)
}
