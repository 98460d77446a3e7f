"""What the randomizers of a mean share: users hold numbers or vectors, and reports are added."""

import abc
import math
from typing import Any, ClassVar, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, Int32, Integer
from numpy.typing import ArrayLike

from .._contract import Population, Round, TallyLaw, Tree
from .._spec import as_float64, check_counts, check_real, is_traced
from .._x64 import compiled_in_float64
from ..random import Count, everyone, sum_integers, sum_squares
from ._randomizer import Randomizer, check_law

_SLACK = 1 + 1e-6  # of float32 numbers and vectors that were scaled to the bound
_LARGEST, _SMALLEST = 1e20, 1e-20  # scales whose squares float32 can hold

P_co = TypeVar("P_co", bound="MeanRound", covariant=True)


class Tail(NamedTuple):
    """A noise z with `log E exp(t <z, u>) <= t**2 variance / (2 (1 - scale t))` for unit vectors u.

    For every input, every u and 0 <= t < 1 / scale; z is a decoded report minus its mean.

    Attributes:
      variance: at least that of `<z, u>`.
      scale: 0 for sub-Gaussian noise.
    """

    variance: float
    scale: float

    def of_mean(self, num_users: float) -> "Tail":
        """Tail of the mean of `num_users` independent copies."""
        return Tail(self.variance / num_users, self.scale / num_users)

    def largest(self, count: int, norm: float = 1.0) -> float:
        """A bound on `E max <z, w>` over `count` vectors w of at most this norm.

        `norm (sqrt(2 variance log(count)) + scale log(count))`: Boucheron, Lugosi, Massart (2013),
        Corollary 2.6.
        """
        log = math.log(count)
        return norm * (math.sqrt(2 * self.variance * log) + self.scale * log)


class SelfMoments(NamedTuple):
    """Moments of `q = z^T D z`, z the noise of one decoded report, for each of k inputs.

    Attributes:
      third: E[q z], float64[k, d].
      fourth: Var q, float64[k].
    """

    third: np.ndarray
    fourth: np.ndarray


class MeanRandomizer(Randomizer[P_co]):
    """Base of the specs whose estimate is the mean of the users' numbers or vectors."""

    __slots__ = ()

    @property
    @abc.abstractmethod
    def value_shape(self) -> tuple[int, ...]:
        """The shape of a user's value: () for a number, (dim,) for a vector."""

    @abc.abstractmethod
    def moments(self, value: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """The mean and the covariance of one decoded report of a value, in float64.

        Args:
          value: float[] or float[d].

        Returns:
          float64[] and float64[] for numbers, float64[d] and float64[d, d] for vectors.
        """

    def report_variances(self, values: np.ndarray) -> np.ndarray:
        """The variance of each entry of one decoded report of each value.

        Args:
          values: `float64[k, *value_shape]`, in the range.

        Returns:
          `float64[k, *value_shape]`.
        """
        return np.stack([self.variance([1], value[None]) for value in values])

    @property
    def always_reports(self) -> bool:
        """Whether the estimate is the mean over all users, rather than over those who report."""
        return True

    def covariance_form(self) -> tuple[float, float] | None:
        """The (a, b) for which an unbiased report of x has covariance `a I + b x x^T`.

        None where the covariance has no such form, or reports are biased.
        """
        return None

    def tail(self) -> Tail | None:
        """A proven exponential tail of one report's noise; None where none is known."""
        return None

    def expected_largest(self, complexity: float, radius: float, num_users: int) -> float:
        """A proven bound on `E max <z, P>` over the points P of a set, z the noise of the mean.

        inf, the default, where none is known.

        Args:
          complexity: the Gaussian complexity of the set, `E max <g, P>` for independent normals g.
          radius: the largest norm of a point.
          num_users: n, over whom the mean is taken.
        """
        del complexity, radius, num_users
        return math.inf

    def self_moments(self, means: np.ndarray, weights: np.ndarray) -> SelfMoments | None:
        """The moments of `z^T D z` for the noise z of a report; None where they are not known.

        They are needed where a report is used twice, as in the V-form of a quadratic form, which
        asks for `E[z^T D z]` to be the same for all inputs besides.

        Args:
          means: float64[k, d], the inputs.
          weights: D, symmetric float64[d, d].
        """
        del means, weights
        return None

    def check_values(self, name: str, values: np.ndarray) -> None:
        """Raises ValueError unless values are finite, of the shape of one, and in the range."""
        if values.shape[1:] != self.value_shape:
            raise ValueError(
                f"{name} must have shape {(len(values), *self.value_shape)}, one value a row, got "
                f"{values.shape}."
            )
        self._checked(name, values.astype(np.float64))

    @property
    @abc.abstractmethod
    def largest_value(self) -> float:
        """The largest norm or absolute value of an input."""

    def extreme_inputs(self) -> np.ndarray:
        """The two ends of the range along the first axis, and 0."""
        ends = np.zeros((3, *self.value_shape), np.float32)
        first = (0,) * len(self.value_shape)
        ends[(0, *first)], ends[(1, *first)] = self.largest_value, -self.largest_value
        return ends

    def one_user(self, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One user, and its value."""
        return np.ones(1, np.int64), value[None]

    def reported_variance(self, outcome: Tree, num_users: int) -> np.ndarray:
        """The largest variance of an entry of the mean: reports do not show users' squares."""
        del outcome
        return np.full(self.value_shape, self.worst_case_variance(num_users))

    @abc.abstractmethod
    def check_range(self, name: str, values: np.ndarray) -> None:
        """Raises ValueError unless finite values, `float64[..., *value_shape]`, are in the range.

        Args:
          name: what the message calls them.
          values: numbers or vectors.
        """

    def truth(self, counts: ArrayLike, inputs: Tree = None) -> np.ndarray:
        """The target: the mean of the users' values, float64 of the shape of a value."""
        counts, inputs = self.check_inputs(counts, inputs)
        return np.tensordot(counts, inputs, axes=1) / counts.sum()

    def population_truth(
        self, probabilities: ArrayLike, num_users: int, inputs: Tree = None
    ) -> np.ndarray:
        """The mean of the distribution that users are drawn from."""
        del num_users
        p = check_law(probabilities, np.size(probabilities))
        return np.tensordot(p, self._fitting(p, inputs), axes=1)

    def check_inputs(
        self, counts: ArrayLike, inputs: ArrayLike | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Counts and inputs as float64[k] and float64[k, ...], or raises unless they fit.

        Args:
          counts: int[k], the number of users with each input.
          inputs: `float[k, *value_shape]`; finite, in the range of the randomizer.
        """
        counts = check_counts(counts).ravel()
        return counts.astype(np.float64), self._fitting(counts, inputs)

    def check_value(self, value: ArrayLike) -> np.ndarray:
        """A value as float64, or raises unless it is finite and in the range.

        Args:
          value: float[d] where values are vectors; where they are numbers, float[...], an array of
            values.
        """
        value = as_float64("value", value)
        if self.value_shape and value.shape != self.value_shape:
            raise ValueError(f"value must have shape {self.value_shape}, got {value.shape}.")
        return self._checked("value", value)

    def _checked(self, name: str, values: np.ndarray) -> np.ndarray:
        # First, for NaN would pass any comparison of `check_range`.
        if not np.all(np.isfinite(values)):
            raise ValueError(f"{name} must be finite, got NaN or inf.")
        self.check_range(name, values)
        return values

    def _fitting(self, counts: np.ndarray, inputs: ArrayLike | None) -> np.ndarray:
        """The inputs of as many bins, checked."""
        if inputs is None:
            raise ValueError(
                "inputs must give the value that each bin of counts stands for; make the "
                "population with Population.from_histogram(counts, values=inputs)."
            )
        inputs = as_float64("inputs", inputs)
        if inputs.shape != (counts.size, *self.value_shape):
            raise ValueError(
                f"inputs must have shape {(counts.size, *self.value_shape)}, one value for each of "
                f"the {counts.size} counts, got {inputs.shape}."
            )
        return self._checked("inputs", inputs)

    def check_total(self, population: Population, squares: int = 0) -> None:
        """Raises ValueError unless sums of as many reports fit 63 bits; see `MeanRound`."""
        self.build().check_total(population, squares)


class MeanRound(Round[dict[str, Count]]):
    """Base of params whose reports are integers, in units of one size, and are added.

    A subclass has the leaf `unit`, what 1 in a report stands for.

    Attributes:
      bit_private: whether a report is private bit by bit, and any point of its grid.
    """

    unit: Float[Array | np.ndarray, ""]
    bit_private: ClassVar[bool] = False

    @property
    @abc.abstractmethod
    def largest_report(self) -> int:
        """The largest absolute value of an entry of a report; static."""

    @property
    def largest_added(self) -> int:
        """The most that a user adds to one sum of the tally; static."""
        return self.largest_report

    @property
    def report_limits(self) -> tuple[Tree, Tree] | None:
        """The grid's; None where reports are rounded from floats, and serve simulation only."""
        ends = self._corners()
        return (ends[0], ends[1]) if self.bit_private else None

    def extreme_reports(self, queries: np.ndarray | None = None) -> Tree | None:
        """Two corners of the grid, of each query; None where not all of the grid is reported."""
        if not self.bit_private:
            return None
        low, high = self._corners().astype(np.int32)
        if queries is None:
            return np.stack([low, high])
        above = np.concatenate([queries < 0, queries > 0])
        return np.where(above, high, low)

    def _corners(self) -> np.ndarray:
        """The least and the largest value of every entry of a report."""
        most = np.full(self.value_shape, self.largest_report, np.int64)
        return np.stack([-most, most])

    @property
    def value_shape(self) -> tuple[int, ...]:
        """The shape of a user's value, and of what is summed of a report."""
        return ()

    @property
    def largest_value(self) -> Float[Array | np.ndarray, ""] | None:
        """The largest absolute value or L2 norm of a user's value; None where there is none."""
        return None

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless the users' values are in the range, and few enough to be added.

        The range is that of the spec up to rounding, and is not known of traced params.
        """
        super().check_population(population)
        self.check_total(population)
        if not is_traced(self) and self.largest_value is not None:
            self.check_size(population, float(self.largest_value) * _SLACK)

    def check_size(self, population: Population, most: float) -> None:
        """Raises ValueError where numbers are beyond a bound, or vectors longer."""
        if self.value_shape:
            population.require_ball(self.value_shape[0], most)
        else:
            population.require_reals((), low=-most, high=most)

    def check_total(self, population: Population, squares: int = 0) -> None:
        """Raises ValueError unless sums of as many reports fit 63 bits.

        Args:
          population: of the users.
          squares: how many squares or products of entries a user adds to one sum; 0 for none.
        """
        if is_traced(population.size):
            return
        most = 2**63 // (squares * self.largest_report**2 if squares else self.largest_added)
        if population.num_users > most:
            raise ValueError(
                f"the population must have at most {most} users for {type(self).__name__}, got "
                f"{population.num_users}: sums of reports are kept in 63 bits."
            )

    @property
    def value(self) -> Tree:
        """Numbers or vectors."""
        return jax.ShapeDtypeStruct(self.value_shape, jnp.float32)

    def summands(self, reports: Int32[Array, "n ..."]) -> Int32[Array, "n ..."]:
        """The numbers of a report that are summed: the report itself."""
        return reports

    def tally(
        self, reports: Integer[Array, "n ..."], mask: Bool[Array, " n"] | None = None, /
    ) -> dict[str, Count]:
        """{"sum": Count[...] in units, "users": Count[]}."""
        numbers, users_last = self.summands(reports), not self.lazy_words
        total = sum_integers(numbers, self.largest_report, mask, users_last=users_last)
        return {"sum": total, "users": count_users(reports, mask)}

    def squares(self, reports: Int32[Array, "n d"], mask: Bool[Array, " n"] | None = None) -> Count:
        """The sums of the squares of the entries, Count[d] in squared units."""
        return sum_squares(self.summands(reports), self.largest_report, mask)

    @property
    def squares_law(self) -> TallyLaw[dict[str, Count]] | None:
        """Draws {"sum", "users", "squares"} jointly; None where their law is not known."""
        return None

    @property
    def products_law(self) -> TallyLaw[dict[str, Any]] | None:
        """Draws {"left", "right", "products"} of users who make two reports; None if not known.

        That is the tallies of the first and of the second reports, which are independent given the
        users' values, and the sum over users and entries of the products of both, Count[] in
        squared units. The inputs are a pair, those of the first and of the second.
        """
        return None

    @compiled_in_float64
    def estimate(self, outcome: dict[str, Count], /) -> Float[Array, "..."]:
        """The estimated mean of the users' values."""
        unit = jnp.asarray(self.unit).astype(jnp.float64)
        return outcome["sum"].f64() * (unit / outcome["users"].f64())

    def decode(self, reports: Int32[Array, "*n m"]) -> Float[Array, "*n d"]:
        """The unbiased estimates that single reports stand for, in float32."""
        return self.summands(reports).astype(jnp.float32) * jnp.asarray(self.unit, jnp.float32)


def added_up(sums: Count, users: Count) -> dict[str, Count]:
    """The tally of reports that are added."""
    return {"sum": sums, "users": users}


def count_users(reports: Tree, mask: Bool[Array, " n"] | None) -> Count:
    """The number of users in the mask, Count[]; of all, if there is none."""
    return Count.of(jnp.sum(everyone(jax.tree.leaves(reports)[0], mask), dtype=jnp.int32))


def over_rows(weights: Float[Array, "*k"], rows: Float[Array, "..."]) -> Float[Array, "..."]:
    """The weighted sum over the first axis: a float64 dot that vmap may transform in a 32-bit jit.

    The batching rule of a dot runs outside of the x64 block, where jax refuses float64.
    """
    return jnp.sum(weights.reshape(weights.shape + (1,) * (rows.ndim - 1)) * rows, axis=0)


def check_interval(name: str, values: np.ndarray, bound: float) -> None:
    """Raises ValueError unless numbers, float64[...], are in [-bound, bound], up to rounding."""
    if np.any(np.abs(values) > bound * _SLACK):
        worst = values.flat[np.argmax(np.abs(values))]
        raise ValueError(
            f"{name} must be in [{-bound:g}, {bound:g}], got {worst:g}; rescale or clip the "
            "numbers, or raise bound."
        )


def check_norms(name: str, values: np.ndarray, field: str, most: float, order: int = 2) -> None:
    """Raises ValueError unless vectors, float64[..., d], have at most a norm, up to rounding.

    Args:
      name: what the message calls them.
      values: the vectors.
      field: the field of the spec that holds the largest norm.
      most: the largest norm.
      order: 1 or 2.
    """
    # An infinite norm is refused as any other that is too large.
    with np.errstate(over="ignore"):
        worst = np.max(np.linalg.norm(values, order, axis=-1))
    if worst > most * _SLACK:
        raise ValueError(
            f"{name} must have an L{order} norm of at most {field} = {most:g}, got {worst:g}; "
            f"scale or clip the vectors, or raise {field}."
        )


def check_scale(name: str, value: object) -> float:
    """Returns a bound on values rounded to float32, or raises unless float32 can scale by it."""
    scale = float(np.float32(check_real(name, value, low=0.0)))
    if not _SMALLEST <= scale <= _LARGEST:
        raise ValueError(
            f"{name} must be between {_SMALLEST:g} and {_LARGEST:g} so that float32 can scale "
            f"values by it, got {value!r}; change the unit of the values."
        )
    return scale


def into_unit_ball(
    values: Float[Array, "*k d"], radius: Float[Array | np.ndarray, ""]
) -> Float32[Array, "*k d"]:
    """Vectors over the radius, scaled down to norm 1 where it is larger; NaN counts as 0.

    Entries beyond 1e15 radii count as that many.
    """
    # The squares of 2**20 such entries sum to 1e36: float32 can hold the norm.
    far = np.float32(1e15)
    scaled = jnp.nan_to_num(values.astype(jnp.float32)) * (np.float32(1) / jnp.asarray(radius))
    scaled = jnp.clip(scaled, -far, far)
    norm = jnp.sqrt(jnp.sum(scaled * scaled, axis=-1, keepdims=True))
    return scaled / jnp.maximum(norm, np.float32(1))
