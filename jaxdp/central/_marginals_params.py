"""The params of `Marginals`."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._subsets import num_subsets, rank, sizes, subsets
from .._x64 import compiled_in_float64
from ..random import ROUND, Count, stream, user_words
from ..random._gamma import normal_of
from ..randomizers._params import RandomizerParams
from ._flattened import project_flattened
from ._moment_set import MomentSet, project
from ._parities import marginals_of, parities_of


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MarginalsRelease:
    """What the curator publishes, all of it private.

    Attributes:
      answers: float[N], by size of the set of features, then lexicographically, 1 first.
      noisy: float[N], the answers of the plain Gaussian mechanism: unbiased.
      gap: float[], `|point - projection|**2 <= gap` in the norm of what was noised; 0 where there
        is a closed form. Of "flattened", the squared distance from the answers that the exact
        projection of the matrix has.
      residual: float[], see `MomentSet.project`; 0 for other methods than "moments".
      converged: bool[], whether the tolerance was reached.
      num_steps: int32[].
    """

    answers: Any
    noisy: Any
    gap: Any
    residual: Any
    converged: Any
    num_steps: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MarginalsParams(RandomizerParams):
    """The params of `Marginals`: a pytree.

    Users send their features as they are: it is the curator that adds noise, in `play`.

    Attributes:
      sigma: float64[], the standard deviation of the noise on sums over the users.
      num_features, order, sparsity, level, noise, queries, method, tol, max_steps: as resolved by
        the spec.
    """

    sigma: jax.Array | np.ndarray
    num_features: int = dataclasses.field(metadata={"static": True})
    order: int = dataclasses.field(metadata={"static": True})
    sparsity: int | None = dataclasses.field(metadata={"static": True})
    level: int | None = dataclasses.field(metadata={"static": True})
    noise: str = dataclasses.field(metadata={"static": True})
    queries: str = dataclasses.field(metadata={"static": True})
    method: str = dataclasses.field(metadata={"static": True})
    tol: float = dataclasses.field(metadata={"static": True})
    max_steps: int = dataclasses.field(metadata={"static": True})

    value_dtype: ClassVar[Any] = jnp.float32

    @property
    def num_words(self) -> int:
        """0: users do not randomize."""
        return 0

    @property
    def num_answers(self) -> int:
        """N, the number of sets of at most k features, the empty one included."""
        return num_subsets(self.num_features, self.order)

    def from_bits(self, words, value):
        """The features: those above 1/2, of which a sparse user keeps the first t.

        Args:
          words: uint32[0].
          value: float32[n]; NaN counts as 0.

        Returns:
          bool[n].
        """
        del words
        has = value > 0.5
        if self.sparsity is None:
            return has
        return has & (jnp.cumsum(has.astype(jnp.int32)) <= self.sparsity)

    def tally(self, reports, mask):
        """How many users have all the features in each set.

        Args:
          reports: bool[m, n].
          mask: bool[m].

        Returns:
          int32[N]; the entry of the empty set is the number of users.
        """
        return self._count(reports, mask.astype(jnp.float32)).astype(jnp.int32)

    @compiled_in_float64
    def sample_tally(self, key, counts: Count, inputs=None) -> Count:
        """The tally of users given by how many have each of some rows of features.

        Args:
          key: unused.
          counts: Count[rows].
          inputs: float32[rows, n].
        """
        del key
        reports = jax.vmap(lambda value: self.from_bits(None, value))(jnp.asarray(inputs))
        return Count.from_float(self._count(reports, counts.f64()))

    def tally_cost(self, num_users: int, num_bins: int) -> float:
        """Nanoseconds of `sample_tally`, roughly."""
        del num_users
        return 0.1 * num_bins * self.num_answers

    def _count(self, reports, weights):
        """The sum of the weights of those who have all of each set: all but one, times one."""
        last = self._last()
        features = jnp.concatenate([jnp.ones((len(reports), 1), bool), reports], axis=1)
        has = jnp.ones((len(reports), 1), bool)
        level, first = has, 0
        for size in range(1, self.order):
            rows = slice(first + level.shape[1], num_subsets(self.num_features, size))
            level = level[:, last[0][rows] - first] & features[:, last[1][rows]]
            first, has = rows.start, jnp.concatenate([has, level], axis=1)
        weighted = has.astype(weights.dtype) * weights[:, None]
        table = lax.dot_general(
            weighted,
            features.astype(weights.dtype),
            (((0,), (0,)), ((), ())),
            precision=lax.Precision.HIGHEST,
        )
        return table[last[0], last[1]]

    def _last(self) -> tuple[np.ndarray, np.ndarray]:
        """Each set without its last feature, as an index, and 1 + that feature; 0, 0 if empty."""
        n = self.num_features
        rows = subsets(n, self.order)
        size = sizes(n, self.order)
        place = np.maximum(size - 1, 0)
        index = np.arange(len(rows))
        last = np.where(size > 0, rows[index, place], -1) + 1
        rows[index, place] = n
        return rank(rows, n), last

    def play(self, key, population, collect):
        """One release: the sums over the users, and the words of the curator's noise.

        Args:
          key: the trial's key; the noise has the stream of round 1.
          population: the users.
          collect: collects the users' features.

        Returns:
          (Count[N], uint32[N - 1, 2]).
        """
        words = user_words(stream(key, ROUND + 1), 0, 2 * (self.num_answers - 1))
        return collect(self, population), words[:].reshape(-1, 2)

    def estimate(self, outcome):
        """The answers, float[N].

        Args:
          outcome: of `play`.
        """
        return self.release(outcome).answers

    @compiled_in_float64
    def release(self, outcome) -> MarginalsRelease:
        """The answers with their certificate.

        Args:
          outcome: of `play`.
        """
        counts, words = outcome
        users = counts.f64()[0]
        sums = self._change(counts.f64() / users, "marginals", self.noise)
        scale = jnp.asarray(self.sigma).astype(jnp.float64) / users
        noisy = sums[1:] + scale * normal_of(words)
        plain = self._change(_with_one(noisy), self.noise, self.queries)
        zero, done = jnp.zeros_like(users), (jnp.bool_(True), jnp.int32(0))
        if self.method == "moments":
            energy = scale**2 * noisy.size
            found = project(self._set(), noisy, self.tol**2 * energy, self.max_steps)
            # A gap above the energy of the noise proves nothing: the noisy answers are as good.
            useful = (found.gap <= energy)[..., None]
            point = self._change(found.point[: noisy.size + 1], self.noise, self.queries)
            point = self._clip(jnp.where(useful, point, plain))
            quality = (found.gap, found.residual, found.converged, found.num_steps)
            return MarginalsRelease(point, plain, *quality)
        if self.method == "flattened":
            size = (self.num_features, self.order)
            found = project_flattened(
                _with_one(noisy), *size, self.noise, self.sparsity, self.max_steps
            )
            point = self._clip(self._change(found.point, self.noise, self.queries))
            quality = (found.gap, found.residual, found.converged, found.num_steps)
            return MarginalsRelease(point, plain, *quality)
        if self.method == "largest":
            point = _with_one(self._keep(plain[1:], users))
        elif self.method == "clip":
            point = self._clip(plain)
        else:
            point = plain
        return MarginalsRelease(point, plain, zero, zero, *done)

    def _set(self) -> MomentSet:
        basis = "marginals" if self.noise == "marginals" else "parities"
        return MomentSet(self.num_features, self.order, basis, self.level, self.sparsity)

    def _change(self, answers, source: str, target: str):
        if source == target:
            return answers
        change = parities_of if target == "parities" else marginals_of
        return change(answers, self.num_features, self.order)

    def _clip(self, answers):
        return jnp.clip(answers, 0.0 if self.queries == "marginals" else -1.0, 1.0)

    def _keep(self, noisy, users):
        """The entries that are largest, as many as the users can have with t features each."""
        assert self.sparsity is not None
        kept = users * float(self.sparsity) ** self.order
        place = jnp.argsort(jnp.argsort(-jnp.abs(noisy))).astype(noisy.dtype)
        return jnp.where(place < kept, noisy, 0.0)


def _with_one(answers):
    return jnp.concatenate([jnp.ones(1, answers.dtype), answers])
