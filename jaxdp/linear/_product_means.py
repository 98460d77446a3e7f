"""Means of products of the users' features, from vector reports, projected onto a convex set."""

import abc
import dataclasses
import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from .._features import mean_products
from .._spec import check_counts, check_epsilon, check_int, check_probabilities, check_real
from .._x64 import compiled_in_float64
from ..projections import IntersectionProjection
from ..random import Count
from ..randomizers._params import RandomizerParams
from ..randomizers._priv_unit_g import PrivUnitG
from ..randomizers._vector import MAX_DIM
from ._encoded import VectorParams

_SPREAD = math.sqrt(2.0)  # root of the variance of a - b for the a, b of `total_variance`


@dataclasses.dataclass(frozen=True)
class ProductCode:
    """How a row of features becomes a vector, and a mean of vectors becomes answers.

    Attributes:
      sets: int32[N, w], the features that each entry is the product of; n stands for none.
      shift: float32[N], subtracted from the products.
      weight: float32[N], what the difference is multiplied with.
      place: int32[...], which entry each answer is; None if all are, in their order.
      radius: a bound on the norm of a user's vector.
    """

    sets: np.ndarray
    shift: np.ndarray
    weight: np.ndarray
    place: np.ndarray | None
    radius: float


class ProductMeans(abc.ABC):
    """Base class of the protocols whose users report the products of their features.

    Attributes:
      epsilon: privacy parameter.
      onto: what the estimate is projected onto, a compact convex set; None for the raw estimate.
      tol: relative accuracy of the projection.
    """

    __slots__ = ()

    epsilon: float
    onto: Any
    tol: float

    @property
    @abc.abstractmethod
    def kind(self) -> str:
        """What users multiply, see `ProductMeansParams`."""

    @property
    @abc.abstractmethod
    def span(self) -> float:
        """The largest difference of two values of an answer."""

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of the estimate."""

    @abc.abstractmethod
    def code(self) -> ProductCode:
        """How users and answers are encoded; cached."""

    @abc.abstractmethod
    def factors(self, inputs) -> np.ndarray:
        """What is multiplied, float64[rows, n], or raises unless the rows are users' values."""

    def _check(self, name: str, entries: int) -> None:
        """Validates the fields that every subclass has.

        Args:
          name: the argument that the number of entries of a user's vector is due to.
          entries: that number.
        """
        if entries > MAX_DIM:
            raise ValueError(
                f"{name} must be such that a user reports at most {MAX_DIM:,} products, got "
                f"{getattr(self, name)!r}, with which there are {entries:,}."
            )
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "tol", check_real("tol", self.tol, low=0.0, high=1.0))
        if self.onto is not None:
            if not callable(getattr(self.onto, "project", None)):
                raise TypeError(
                    "onto must be None or a convex set such as jaxdp.central.MomentSet or "
                    f"CosineSet, with a method `project`, got {self.onto!r}."
                )
            if tuple(self.onto.shape) != self.shape:
                raise ValueError(
                    f"onto must be a set of points of shape {self.shape}, got one of shape "
                    f"{tuple(self.onto.shape)}."
                )
        self.randomizer  # noqa: B018  validates epsilon and the dimension

    @property
    def randomizer(self) -> PrivUnitG:
        """What users report their vectors with."""
        code = self.code()
        return PrivUnitG(len(code.sets), self.epsilon, code.radius)

    def exact_epsilon(self) -> float:
        """The realised privacy parameter: that of `randomizer`."""
        return self.randomizer.exact_epsilon()

    def build(self, word_bits: int = 32) -> "ProductMeansParams":
        """The params; the reports need words of 32 bits."""
        vector, code = self.randomizer.build(word_bits), self.code()
        leaves = (code.sets, code.shift, code.weight, code.place)
        return ProductMeansParams(vector, *leaves, self.kind, self.onto, self.tol)

    def check_population(self, population) -> None:
        """Raises ValueError unless users hold such rows, and are few enough to be added."""
        population.require_reals((self._num_features,), low=-1.0, high=1.0)
        self.factors(population.inputs)
        self.randomizer.check_total(population)

    @property
    @abc.abstractmethod
    def _num_features(self) -> int:
        """N."""

    def truth(self, counts, inputs=None) -> np.ndarray:
        """The target: the answers for given users, float64 of the shape of the estimate.

        Args:
          counts: int[rows], the number of users with each row of features.
          inputs: float[rows, n].
        """
        counts = check_counts(counts).ravel()
        return self._answers(counts / counts.sum(), inputs)

    def population_truth(self, probabilities, num_users: int, inputs=None) -> np.ndarray:
        """The answers for the distribution that users are drawn from."""
        del num_users
        return self._answers(check_probabilities(probabilities), inputs)

    def _answers(self, weights: np.ndarray, inputs) -> np.ndarray:
        code = self.code()
        means = mean_products(weights, self.factors(inputs), code.sets)
        return means if code.place is None else means[code.place]

    def raw_variance(self, num_users: int) -> np.ndarray:
        """The exact variance of each raw estimate, the same for all data sets.

        `sigma**2 / n` for the sigma of `randomizer`, less where an entry was weighted.

        Args:
          num_users: n.
        """
        n, code = check_int("num_users", num_users, low=1), self.code()
        each = self.randomizer.worst_case_variance(n) / code.weight.astype(np.float64) ** 2
        return each if code.place is None else each[code.place]

    def total_variance(self, num_users: int) -> float:
        """The mean squared error summed over the answers: exact if raw, else a proven bound.

        The least of three, for a truth A in the set. With the noise z of the raw estimate, the
        projection P has `|P - A|**2 <= |z|**2`, at most `(2 radius)**2`, and at most `<z, P - A>`,
        whose mean is that of `<z, P>`. A report is sigma times `g + (a - b) u` for independent
        normals g, the user's vector u over r, of norm at most 1, b their part along u with its
        padding, and a of variance 1 independent of g. So, with the Gaussian complexity G of the
        set, `E max <z, P> <= sigma (G + sqrt(2) radius) / sqrt(n)`. The tolerance of the projection
        comes on top.

        Args:
          num_users: n.
        """
        raw = float(self.raw_variance(num_users).sum())
        radius = getattr(self.onto, "radius", None)
        if self.onto is None or radius is None:
            return raw
        complexity = getattr(self.onto, "complexity_bound", lambda: math.inf)()
        noise = math.sqrt(self.randomizer.worst_case_variance(num_users))
        return min(raw, (2 * radius) ** 2, noise * (complexity + _SPREAD * radius))

    def variance(self, counts, inputs=None) -> np.ndarray:
        """The mean squared error of each answer for given users: exact if raw, else a proven bound.

        With a projection the least of `total_variance` and the squared range of an answer.

        Args:
          counts: int[rows], the number of users with each row of features.
          inputs: unused: the noise does not depend on the users.
        """
        del inputs
        return self._bounds(int(check_counts(counts).sum()))

    def worst_case_variance(self, num_users: int) -> float:
        """The largest entry of `variance`, which holds for every data set."""
        return float(self._bounds(num_users).max())

    def _bounds(self, num_users: int) -> np.ndarray:
        raw = self.raw_variance(num_users)
        if self.onto is None:
            return raw
        return np.full_like(raw, min(self.total_variance(num_users), self.span**2))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ProductMeansParams(VectorParams, RandomizerParams):
    """The params of `MarginalQueries` and `GramQueries`: a pytree.

    Attributes:
      vector: the params of the randomizer.
      sets, shift, weight, place: arrays, see `ProductCode`.
      kind: what users multiply: their "marginals" features, 0 or 1; "parities" 1 - 2 times them;
        "gram" numbers in [-1, 1]. Static.
      onto, tol: of the projection; static.
    """

    vector: Any
    sets: jax.Array | np.ndarray
    shift: jax.Array | np.ndarray
    weight: jax.Array | np.ndarray
    place: jax.Array | np.ndarray | None
    kind: str = dataclasses.field(metadata={"static": True})
    onto: Any = dataclasses.field(metadata={"static": True})
    tol: float = dataclasses.field(metadata={"static": True})

    value_dtype: ClassVar[Any] = jnp.float32

    @property
    def num_words(self) -> int:
        """Those of the randomizer."""
        return self.vector.num_words

    def vectors(self, rows: jax.Array) -> jax.Array:
        """What users randomize, float32[..., N] of float32[..., n].

        Features count as 1 above 1/2; numbers are clamped to [-1, 1]; NaN counts as 0.
        """
        if self.kind == "gram":
            held = jnp.clip(jnp.nan_to_num(rows), -1.0, 1.0)
        else:
            held = (rows > 0.5).astype(jnp.float32)
            held = 1 - 2 * held if self.kind == "parities" else held
        ones = jnp.ones((*held.shape[:-1], 1), held.dtype)
        chosen = jnp.concatenate([held, ones], axis=-1)[..., jnp.asarray(self.sets)]
        products = jnp.prod(chosen, axis=-1)
        shift, weight = (
            jnp.broadcast_to(jnp.asarray(x), products.shape) for x in (self.shift, self.weight)
        )
        return (products - shift) * weight

    def from_bits(self, words, value):
        """One user's report.

        Args:
          words: uint32[num_words].
          value: float32[n]; see `vectors`.

        Returns:
          As that of the randomizer.
        """
        return self.vector.from_bits(words, self.vectors(value))

    def tally(self, reports, mask):
        """The sum of the masked reports and the number of users; as the randomizer's."""
        return self.vector.tally(reports, mask)

    def sample_tally(self, key, counts: Count, inputs=None):
        """A tally drawn at once, exact in law.

        Args:
          key: a key; it is folded.
          counts: Count[rows], the number of users with each row of features.
          inputs: float32[rows, n].

        Returns:
          As `tally`, of Fixed and Count.
        """
        return self.vector.sample_tally(key, counts, self.vectors(jnp.asarray(inputs)))

    def tally_cost(self, num_users: int, num_bins: int) -> float:
        """Nanoseconds of `sample_tally`, roughly."""
        return self.vector.tally_cost(num_users, num_bins)

    @compiled_in_float64
    def raw(self, tally):
        """The unbiased estimate, before any projection."""
        mean = self.vector.estimate(tally) / jnp.asarray(self.weight).astype(jnp.float64)
        mean = mean + jnp.asarray(self.shift).astype(jnp.float64)
        return mean if self.place is None else mean[jnp.asarray(self.place)]

    @compiled_in_float64
    def projection(self, tally) -> IntersectionProjection:
        """The projection with its certified gap; only with a set."""
        if self.onto is None:
            raise ValueError("onto is None: there is nothing to project on; see `raw`.")
        return self.onto.project(self.raw(tally), tol=self.tol)

    def estimate(self, tally):
        """The projected estimate, or the raw one without a set."""
        return self.raw(tally) if self.onto is None else self.projection(tally).point
