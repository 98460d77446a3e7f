"""Means of products of the users' features, from vector reports, projected onto a convex set."""

import abc
import dataclasses
import functools
import operator
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Int32
from numpy.typing import ArrayLike

from .._checks import Epsilon, Instance, Optional, Real
from .._contract import Spec, Tree, params, static
from .._features import check_binary_rows, mean_products
from .._prediction import Kind, Prediction
from .._spec import check_counts, check_int, check_probabilities, is_traced
from .._x64 import as_float64, compiled_in_float64
from ..engine import SimulatedErrors
from ..population import Population
from ..projections import IntersectionProjection
from ..random import Count
from ..randomizers import MeanRandomizer, MeanRound
from ._encoded import EncodedRound, VectorMaker, make_randomizer

_MOST_PRODUCTS = 2**20  # that a user reports


@runtime_checkable
class ProjectionSet(Protocol):
    """A compact convex set that estimates are projected on, such as a `jaxdp.central.ConvexSet`.

    It must be hashable: it is static under jit.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a point."""
        ...

    @property
    def radius(self) -> float:
        """A bound on the Euclidean norm of a point."""
        ...

    def complexity_bound(self) -> float:
        """A proven bound on the Gaussian complexity `E max <X, W>` over points X, W of normals."""
        ...

    def project(self, x: jax.Array, *, tol: float = ...) -> IntersectionProjection:
        """The nearest point."""
        ...


ONTO = Optional(
    Instance(
        ProjectionSet,
        "None or a convex set such as jaxdp.central.MomentSet or CosineSet, with its methods",
    )
)
"""The check of a field that holds a set to project on."""

EPSILON, TOLERANCE = Epsilon(), Real(0.0, 1.0)


@dataclasses.dataclass(frozen=True)
class ProductEncoding:
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


class ProductMeans(Spec["ProductMeansParams"], SimulatedErrors):
    """Base of the protocols whose users report the products of their features.

    Attributes:
      epsilon: privacy parameter.
      onto: what the estimate is projected onto, a compact convex set; None for the raw estimate.
      tol: relative accuracy of the projection.
      randomizer: makes the randomizer of the users' vectors.
    """

    __slots__ = ()

    epsilon: float
    onto: ProjectionSet | None
    tol: float
    randomizer: VectorMaker

    @property
    @abc.abstractmethod
    def kind(self) -> str:
        """What users multiply, see `ProductMeansParams`."""

    @property
    @abc.abstractmethod
    def num_features(self) -> int:
        """n, the numbers that a user holds."""

    @property
    @abc.abstractmethod
    def span(self) -> float:
        """The largest difference of two values of an answer."""

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of the estimate."""

    @abc.abstractmethod
    def encoding(self) -> ProductEncoding:
        """How users and answers are encoded; cached."""

    @abc.abstractmethod
    def factors(self, inputs: Tree) -> Float[np.ndarray, "rows n"]:
        """What is multiplied, or raises unless the rows are users' values."""

    def _check_products(self, name: str, argument: int, products: int) -> None:
        """Raises unless a user's products are few enough, and the set is one of estimates.

        Args:
          name: the argument that their number is due to.
          argument: its value.
          products: their number.
        """
        if products > _MOST_PRODUCTS:
            raise ValueError(
                f"{name} must be such that a user reports at most {_MOST_PRODUCTS:,} products, got "
                f"{argument!r}, with which there are {products:,}."
            )
        if self.onto is not None and tuple(self.onto.shape) != self.shape:
            raise ValueError(
                f"onto must be a set of points of shape {self.shape}, got one of shape "
                f"{tuple(self.onto.shape)}."
            )
        if self.vector_randomizer.covariance_form() is None:  # made, so epsilon is one that it has
            raise TypeError(
                "randomizer must make unbiased reports with a `covariance_form`, as PrivUnitG, "
                f"CandidateResponse and Gaussian do, got one that makes {self.vector_randomizer!r}."
            )

    @property
    def vector_randomizer(self) -> MeanRandomizer:
        """What users report their vectors with."""
        encoding = self.encoding()
        return make_randomizer(self.randomizer, len(encoding.sets), self.epsilon, encoding.radius)

    def exact_epsilon(self) -> float:
        """The realised privacy parameter of the randomizer."""
        return self.vector_randomizer.exact_epsilon()

    def exact_delta(self) -> float:
        """The smallest delta at which `exact_epsilon()` holds; 0 of a pure randomizer."""
        return self.vector_randomizer.exact_delta()

    def composed_delta(self, num_reports: int, epsilon: float) -> float | None:
        """The delta of several reports, as the randomizer computes it."""
        return self.vector_randomizer.composed_delta(num_reports, epsilon)

    def build(self, word_bits: int = 32) -> "ProductMeansParams":
        """The params; the reports need words of 32 bits."""
        inner, encoding = self.vector_randomizer.build(word_bits), self.encoding()
        leaves = (encoding.sets, encoding.shift, encoding.weight, encoding.place)
        return ProductMeansParams(inner, *leaves, self.num_features, self.kind, self.onto, self.tol)

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless users hold such rows, and are few enough to be added."""
        population.require_reals((self.num_features,), low=-1.0, high=1.0)
        self.factors(population.inputs)
        self.vector_randomizer.check_total(population)

    def truth(self, counts: ArrayLike, inputs: Tree = None) -> Float[np.ndarray, "..."]:
        """The target: the answers for given users.

        Args:
          counts: int[rows], the number of users with each row of features.
          inputs: float[rows, n].
        """
        counts = check_counts(counts).ravel()
        return self._answers(counts / counts.sum(), inputs)

    def population_truth(
        self, probabilities: ArrayLike, num_users: int, inputs: Tree = None
    ) -> Float[np.ndarray, "..."]:
        """The answers for the distribution that users are drawn from."""
        del num_users
        return self._answers(check_probabilities(probabilities), inputs)

    def _answers(self, weights: np.ndarray, inputs: Tree) -> np.ndarray:
        encoding = self.encoding()
        # Exact means of the products, without the rounding of the encoding
        means = mean_products(weights, self.factors(inputs), encoding.sets)
        return means if encoding.place is None else means[encoding.place]

    def raw_variance(self, num_users: int) -> Float[np.ndarray, "..."]:
        """The largest variance of each raw estimate over all data sets.

        With `PrivUnitG` and `Gaussian` it is the same for all of them: `sigma**2 / n` for the noise
        sigma of the randomizer, over the squared weight of the entry.

        Args:
          num_users: n.
        """
        n = check_int("num_users", num_users, low=1)
        each = self.vector_randomizer.worst_case_variance(n)
        return self._decoded(np.full(len(self.encoding().sets), each))

    def _decoded(self, variances: Float[np.ndarray, " N"]) -> Float[np.ndarray, "..."]:
        """Variances of answers, from those of the entries of the mean vector."""
        encoding = self.encoding()
        each = variances / encoding.weight.astype(np.float64) ** 2
        return each if encoding.place is None else each[encoding.place]

    @property
    def variance_kind(self) -> Kind:
        """Exact where the estimate is raw; of a projection a bound."""
        return "exact" if self.onto is None else "bound"

    @property
    def _worst_kind(self) -> Kind:
        """Exact where the noise is the same for all users, and nothing is projected."""
        return "exact" if self.onto is None and self._form[1] == 0 else "bound"

    @property
    def _form(self) -> tuple[float, float]:
        """(a, b) of the covariance `a I + b x x^T` of a report of x."""
        form = self.vector_randomizer.covariance_form()
        assert form is not None, "checked by `_check_products`"
        return form

    def total_variance(self, num_users: int) -> Prediction:
        """The largest sum of the answers' mean squared errors over all data sets, or a bound on it.

        Raw, that of `raw_variance`. Projected, the least of three bounds, for a truth A in the set.
        With the noise z of the raw estimate, the projection P has `|P - A|**2 <= |z|**2`, at most
        `(2 radius)**2`, and at most `<z, P - A>`, of the same mean as `<z, P>`, which `PrivUnitG`
        bounds by the Gaussian complexity of the set (`expected_largest`). The tolerance of the
        projection comes on top.

        Args:
          num_users: n.
        """
        raw = float(self.raw_variance(num_users).sum())
        if self.onto is None:
            return Prediction(raw, self._worst_kind)
        radius = self.onto.radius
        complexity = self.onto.complexity_bound()
        width = self.vector_randomizer.expected_largest(complexity, radius, num_users)
        return Prediction(min(raw, (2 * radius) ** 2, width), "bound")

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> Float[np.ndarray, "..."]:
        """The mean squared error of each answer for given users: exact if raw, else a proven bound.

        With a projection the least of `total_variance` and the squared range of an answer.

        Args:
          counts: int[rows], the number of users with each row of features.
          inputs: float[rows, n]; not needed where the noise does not depend on the users.
        """
        counts = check_counts(counts).ravel()
        n = int(counts.sum())
        across, along = self._form
        if self.onto is not None or along == 0:
            return self._bounds(n)
        encoding, factors = self.encoding(), self.factors(inputs)
        mean, square = (
            mean_products(counts / n, factors**power, encoding.sets) for power in (1, 2)
        )
        # The report of a user's entry, (product - shift) weight, has the variance a + b entry**2
        shift, weight = (x.astype(np.float64) for x in (encoding.shift, encoding.weight))
        entry = (square - 2 * shift * mean + shift**2) * weight**2
        return self._decoded((across + along * entry) / n)

    def reported_variance(self, outcome: Tree, num_users: int) -> Float[np.ndarray, "..."] | None:
        """The largest variance of each raw estimate; None where the estimate is projected."""
        del outcome
        return self.raw_variance(num_users) if self.onto is None else None

    def worst_case_variance(self, num_users: int) -> Prediction:
        """The largest entry of `variance`, which holds for every data set."""
        return Prediction(self._bounds(num_users).max(), self._worst_kind)

    def _bounds(self, num_users: int) -> np.ndarray:
        raw = self.raw_variance(num_users)
        if self.onto is None:
            return raw
        return np.full_like(raw, min(self.total_variance(num_users), self.span**2))


@params
class ProductMeansParams(EncodedRound[dict[str, Count]]):
    """The params of `MarginalQueries` and `GramQueries`: a pytree.

    Attributes:
      inner: the params of the randomizer.
      sets: see `ProductEncoding`.
      shift: see `ProductEncoding`.
      weight: see `ProductEncoding`.
      place: see `ProductEncoding`.
      num_features: n, static.
      kind: what users multiply: their "marginals" features, 0 or 1; "parities" 1 - 2 times them;
        "gram" numbers in [-1, 1]. Static.
      onto: what the estimate is projected onto; static.
      tol: of the projection; static.
    """

    inner: MeanRound
    sets: Int32[Array | np.ndarray, "N w"]
    shift: Float32[Array | np.ndarray, " N"]
    weight: Float32[Array | np.ndarray, " N"]
    place: Int32[Array | np.ndarray, "..."] | None
    num_features: int = static()
    kind: str = static()
    onto: ProjectionSet | None = static()
    tol: float = static()

    @property
    def value(self) -> Tree:
        """A row of features."""
        return jax.ShapeDtypeStruct((self.num_features,), jnp.float32)

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless users hold such rows, and are few enough to be added."""
        population.require_reals((self.num_features,), low=-1.0, high=1.0)
        if self.kind != "gram" and not is_traced(population.inputs):
            check_binary_rows(population.inputs, self.num_features, None)
        self.inner.check_total(population)

    def encode(self, values: Float[Array, "*rows n"]) -> Float32[Array, "*rows N"]:
        """What users randomize.

        Features count as 1 above 1/2; numbers are clamped to [-1, 1]; NaN counts as 0.
        """
        rows = jnp.asarray(values)
        if self.kind == "gram":
            factors = jnp.clip(jnp.nan_to_num(rows), -1.0, 1.0)
        else:
            factors = (rows > 0.5).astype(jnp.float32)
            factors = 1 - 2 * factors if self.kind == "parities" else factors
        ones = jnp.ones((*factors.shape[:-1], 1), factors.dtype)  # what n in a set stands for
        chosen = jnp.concatenate([factors, ones], axis=-1)[..., jnp.asarray(self.sets)]
        # One factor after the other, which a client without jax can do
        products = functools.reduce(operator.mul, jnp.moveaxis(chosen, -1, 0))
        shift, weight = (
            jnp.broadcast_to(jnp.asarray(x), products.shape) for x in (self.shift, self.weight)
        )
        return (products - shift) * weight

    @compiled_in_float64
    def raw(self, outcome: dict[str, Count]) -> Float[Array, "..."]:
        """The unbiased estimate, before any projection."""
        weight, shift = as_float64(self.weight, self.shift)
        mean = self.inner.estimate(outcome) / weight + shift
        return mean if self.place is None else mean[jnp.asarray(self.place)]

    @compiled_in_float64
    def projection(self, outcome: dict[str, Count]) -> IntersectionProjection:
        """The projection with its certified gap; only with a set."""
        if self.onto is None:
            raise ValueError("onto is None: there is nothing to project on; see `raw`.")
        return self.onto.project(self.raw(outcome), tol=self.tol)

    def estimate(self, outcome: dict[str, Count], /) -> Float[Array, "..."]:
        """The projected estimate, or the raw one without a set."""
        return self.raw(outcome) if self.onto is None else self.projection(outcome).point
