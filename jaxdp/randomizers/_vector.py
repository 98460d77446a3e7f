"""What the randomizers of vectors in an L2 ball share: checks, moments, tallies, the mean."""

import abc

import jax
import jax.numpy as jnp
import numpy as np

from .._spec import check_counts, check_epsilon, check_int, check_real
from .._x64 import in_float64
from ._randomizer import Randomizer
from ._sphere import MAX_EPSILON, MIN_EPSILON

MAX_DIM = 2**20
_SLACK = 1 + 1e-6  # norms of float32 vectors that were scaled to the radius


class VectorRandomizer(Randomizer):
    """Base class of the unbiased randomizers of vectors in the L2 ball of a radius.

    A report leads to a vector Y; for an input x = radius * rho * u, |u| = 1, its mean is x and its
    covariance `radius**2 (across I + (along - across - 1) rho**2 u u^T)`, where (along, across) are
    the second moments of Y / radius along and across the direction of an input of norm `radius`.
    """

    __slots__ = ()

    dim: int
    epsilon: float
    radius: float

    def _check(self) -> None:
        """Validates the three fields that every subclass has."""
        dim = check_int("dim", self.dim, low=1, high=MAX_DIM)
        epsilon = check_epsilon(self.epsilon)
        if not MIN_EPSILON <= epsilon <= MAX_EPSILON:
            raise ValueError(
                f"epsilon must be in [{MIN_EPSILON:g}, {MAX_EPSILON:g}], got {self.epsilon!r}: "
                "beyond these a word of 32 bits is too coarse for its probabilities."
            )
        radius = float(np.float32(check_real("radius", self.radius, low=0.0)))
        if not 1e-30 <= radius <= 1e30:
            raise ValueError(
                f"radius must be between 1e-30 and 1e30 so that float32 can scale it, got "
                f"{self.radius!r}; change the unit of the vectors."
            )
        for name, value in (("dim", dim), ("epsilon", epsilon), ("radius", radius)):
            object.__setattr__(self, name, value)

    @abc.abstractmethod
    def second_moments(self) -> tuple[float, float]:
        """The second moments (along, across) of a decoded report of an input of norm 1, radius 1.

        `E[Y Y^T] = along u u^T + across (I - u u^T)` for the unit input u.
        """

    @abc.abstractmethod
    def log_density(self, reports, value) -> np.ndarray:
        """The log-density of reports, relative to a law that does not depend on the value.

        Args:
          reports: float[n, m], as `privatize` returns them.
          value: float[dim].

        Returns:
          float64[n].
        """

    def moments(self, value) -> tuple[np.ndarray, np.ndarray]:
        """The exact mean float64[dim] and covariance float64[dim, dim] of one decoded report.

        Args:
          value: float[dim], the user's vector.
        """
        value = np.asarray(value, np.float64)
        _, (value,) = self._check_inputs([1], [value])
        along, across = self.second_moments()
        covariance = across * self.radius**2 * np.eye(self.dim)
        return value, covariance + (along - across - 1) * np.outer(value, value)

    def variance(self, counts, inputs=None) -> np.ndarray:
        """The exact variance of each entry of the estimated mean, float64[dim].

        Args:
          counts: int[k], the number of users with each vector.
          inputs: float[k, dim], the vectors; needed, since the bins alone say nothing of them.
        """
        counts, inputs = self._check_inputs(counts, inputs)
        along, across = self.second_moments()
        n = float(counts.sum())
        squares = counts @ np.square(inputs)
        return across * self.radius**2 / n + (along - across - 1) * squares / n**2

    def worst_case_variance(self, num_users: int) -> float:
        """The largest variance of an entry of the estimated mean over all data sets; exact."""
        n = check_int("num_users", num_users, low=1)
        along, across = self.second_moments()
        return self.radius**2 * max(across, along - 1) / n

    def truth(self, counts, inputs=None) -> np.ndarray:
        """The target: the mean of the users' vectors, float64[dim]."""
        counts, inputs = self._check_inputs(counts, inputs)
        return counts @ inputs / counts.sum()

    def population_truth(self, probabilities, num_users: int, inputs=None) -> np.ndarray:
        """The mean of the distribution that users are drawn from, float64[dim]."""
        del num_users
        return np.asarray(probabilities, np.float64).ravel() @ np.asarray(inputs, np.float64)

    def check_population(self, population) -> None:
        """Raises unless the users' values are vectors in the ball."""
        population.require_ball(self.dim, self.radius)

    def _check_inputs(self, counts, inputs) -> tuple[np.ndarray, np.ndarray]:
        counts = check_counts(counts).ravel()
        if inputs is None:
            raise ValueError(
                "inputs must give the vector that each bin of counts stands for; make the "
                "population with Population.from_histogram(counts, values=inputs)."
            )
        inputs = np.asarray(inputs, np.float64)
        if inputs.shape != (counts.size, self.dim):
            raise ValueError(
                f"inputs must have shape [{counts.size}, dim = {self.dim}], one vector for each "
                f"count, got {list(inputs.shape)}."
            )
        norms = np.sqrt(np.square(inputs).sum(axis=1))
        if not norms.max() <= self.radius * _SLACK:
            raise ValueError(
                f"inputs must have an L2 norm of at most radius = {self.radius:g}, got "
                f"{norms.max():g}; scale or clip the vectors, or raise radius."
            )
        return counts, inputs


class VectorParams:
    """Base class of the params of vector randomizers: pytrees with these fields.

    Attributes:
      radius: float32[], of the ball.
      scale: float64[], what a unit of a report stands for.
      dim: static.
    """

    radius: jax.Array | np.ndarray
    scale: jax.Array | np.ndarray
    dim: int

    num_words: int
    lazy_words = True  # also without rejection: the words then fuse into the normals

    def from_bits(self, words, value):
        """One user's report; see the subclass."""
        raise NotImplementedError

    def privatize(self, key, value):
        """One user's report, its words drawn from `key`; see `from_bits`."""
        words = jax.random.bits(key, (self.num_words,), jnp.uint32)
        return self.from_bits(words, jnp.asarray(value, jnp.float32))

    def decode(self, reports):
        """The unbiased vectors that reports stand for.

        Args:
          reports: float32[..., m].

        Returns:
          float32[..., dim], each of mean the user's vector. A protocol that needs more than their
          sum, such as the sum of y^T D y, tallies functions of these.
        """
        return reports[..., : self.dim] * jnp.asarray(self.scale).astype(jnp.float32)

    def tally(self, reports, mask):
        """The sum of the masked reports, in units of `scale`, and their number.

        Args:
          reports: float32[n, m].
          mask: bool[n].

        Returns:
          {"sum": float32[dim], "users": int32[]}.
        """
        kept = jnp.where(mask[:, None], reports[:, : self.dim], np.float32(0))
        return {"sum": jnp.sum(kept, axis=0), "users": jnp.sum(mask, dtype=jnp.int32)}

    @in_float64
    def estimate(self, tally):
        """The unbiased estimate of the mean of the users' vectors, float[dim]."""
        users = tally["users"].f64()
        scale = jnp.asarray(self.scale).astype(jnp.float64)
        return tally["sum"].f64() * (scale / users)[..., None]


def require_words(word_bits: int) -> None:
    """Raises unless words have 32 bits: samplers of floats have no enumerable twin."""
    if word_bits != 32:
        raise ValueError(
            f"word_bits must be 32 for a randomizer of float vectors, got {word_bits!r}: its law "
            "is checked by its density and its moments, not by enumeration."
        )
