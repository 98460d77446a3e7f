"""Linear queries from a secure sum: users send noisy vectors, and only their sum is seen."""

import dataclasses
import functools
import math
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64, Int32, UInt32

from .._bits import FRACTION, rounded
from .._checks import Choice, Epsilon, Integer, Real
from .._contract import Draft, Round, TallyLaw, Tree, Words, Work, field, params, spec
from .._queries import WORKLOAD, AdditiveProtocol
from .._spec import check_int, check_real
from .._x64 import as_float64, compiled_in_float64, dot
from ..accounting import dithered_gaussian_delta, gaussian_sigma
from ..central import FactorizationMechanism
from ..population import Population
from ..random import Count, NormalNoise, normal, sum_integers
from ._shuffled import check_enough

_STEPS = (2**6, 2**8, 2**10, 2**12)  # in the standard deviation of a user's noise
_LARGEST = 2**30  # of a report, in steps
_TAIL = 13.0  # deviations beyond which a sum has a probability of 2**-120


@spec
class SecureSum(AdditiveProtocol["SecureSumParams"]):
    """Linear queries from the sum of users' noisy vectors, of which nobody sees more.

    With W = L^T R + u 1^T as in `jaxdp.central.FactorizationMechanism`, a user with value v rounds
    column v of R to whole steps s, at random and without bias, and adds to each entry a share of
    the noise: a normal of standard deviation `sigma / sqrt(n)`, rounded to whole steps, from a
    table of exact masses. The sum S, modulo a power of two, is all that a protocol of secure
    aggregation shows. The answers are

        `s L^T S / n + u`,

    with the error of a curator's mechanism at the same (epsilon, delta), though nobody is trusted
    with a value. The local model has sqrt(n) times that error.

    Formal guarantees:
      * Privacy: (epsilon, exact_delta())-DP in the value of one user, for whoever sees the sum, if
        `num_users` users add their noise; `exact_delta() <= delta`. The sum of n rounded normals
        has the law of one normal with sigma plus n - 1 numbers uniform on [-1/2, 1/2], rounded
        once: the two differ by what the characteristic function of a normal of 64 steps is beyond
        pi, less than 1e-8000. So the sum is post-processing of Gaussian noise with sigma, whose
        exact delta counts, see `jaxdp.accounting.dithered_gaussian_delta` for the rounding of
        columns; the tables' distance from rounded normals counts `n l (1 + e**epsilon)` times.
      * Users who collude know their own noise: let `num_users` be how many do not.
      * Bias: none, but 2**-17 steps of a column's rounding.
      * Variance of the answers, exact: `s**2 (T**2 + 1/12 + f (1 - f)) |L_j|**2 / n`, where T =
        sigma / (s sqrt(n)), and f is what is rounded off a column.
      * Wrap-around: entries of the sum stay within `modulus_bits` but with probability 2**-100.

    Edge cases:
      ==================================  =======================================================
      columns of the workload all equal   ValueError: the answers are known
      delta below about 1e-16 n l e**eps  ValueError: the tables of the noise are not fine enough
      fewer users than `num_users`        ValueError from a Population: too little noise
      more users than `num_users`         more noise than is needed
      values outside the domain           ValueError from a Population; the nearest one inside jit
      ==================================  =======================================================

    Args:
      workload: float[m, k], one query a row, or an `Operator`.
      epsilon: privacy parameter of the sum, > 0.
      delta: in (0, 1).
      num_users: n, how many users share the noise; 1 to 2**31.
      norm: "gamma2" for the least maximal error, "gamma_f" for the least mean squared error.
      factorization: None for the best one, or what `FactorizationMechanism` takes.

    Raises:
      ValueError: an argument is out of range, or no grid fits the noise.
      TypeError: an argument is of the wrong kind, or is traced.

    Example:
      >>> import jaxdp
      >>> from jaxdp.central import FactorizationMechanism
      >>> from jaxdp.trusted import SecureSum
      >>> cdf = jaxdp.workloads.prefix(8)
      >>> summed = SecureSum(cdf, epsilon=1.0, delta=1e-6, num_users=10_000)
      >>> curator = FactorizationMechanism(cdf, epsilon=1.0, delta=1e-6)
      >>> ratio = summed.worst_case_variance(10_000) / curator.worst_case_variance(10_000)
      >>> print(round(float(ratio), 2))
      1.0

    References:
      Edmonds, Nikolov, Ullman (2020), The power of factorization mechanisms in local and central
      differential privacy; Kairouz, Liu, Steinke (2021), The distributed discrete Gaussian
      mechanism; Bonawitz et al. (2017), Practical secure aggregation. The law of the sum is derived
      here.
    """

    workload: Any = field(WORKLOAD)
    epsilon: float = field(Epsilon())
    delta: float = field(Real(0.0, 1.0))
    num_users: int = field(Integer(1, 2**31))
    norm: Literal["gamma2", "gamma_f"] = field(Choice("gamma2", "gamma_f"), default="gamma2")
    factorization: Any = field(
        FactorizationMechanism.__dataclass_fields__["factorization"].metadata["check"], default=None
    )

    def validate(self) -> None:
        """Raises ValueError where factors miss the workload, or no grid fits the noise."""
        if np.all(self.workload.values == self.workload.values[:, :1]):
            raise ValueError(
                "workload must have columns that differ: answers that are the same for all users "
                "are known without them."
            )
        if self.factorization is not None:
            _plan(self)

    def build(self, word_bits: int = 32) -> "SecureSumParams":
        """The params; the noise needs words of 32 bits."""
        check_int("word_bits", word_bits, low=32, high=32)
        plan = _plan(self)
        return SecureSumParams(
            plan.noise,
            (plan.parts >> 16).astype(np.int32),
            (plan.parts % FRACTION).astype(np.int32),
            plan.left,
            plan.shift,
            np.asarray(plan.step),
        )

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise in each entry of the sum, before it is rounded."""
        plan = _plan(self)
        return plan.noise.steps * plan.step * math.sqrt(self.num_users)

    @property
    def step(self) -> float:
        """s, what one unit of a report stands for."""
        return _plan(self).step

    @property
    def modulus_bits(self) -> int:
        """The bits of an entry of the sum: it stays within them but with probability 2**-100."""
        plan = _plan(self)
        largest = self.num_users * (np.abs(plan.parts).max() / FRACTION + 1)
        # A rounded normal is sub-Gaussian with T**2 + 1/12, see the law of the sum.
        tail = _TAIL * math.sqrt(self.num_users * (plan.noise.steps**2 + 1)) + 1
        return math.ceil(math.log2(2 * (largest + tail) + 1))

    def exact_epsilon(self) -> float:
        """The epsilon at which `exact_delta()` holds: `epsilon` itself."""
        return self.epsilon

    def exact_delta(self, epsilon: float | None = None) -> float:
        """A proven delta at which the sum is (epsilon, delta)-private.

        Args:
          epsilon: >= 0; the protocol's own for None.
        """
        epsilon = self.epsilon if epsilon is None else epsilon
        epsilon = check_real("epsilon", epsilon, low=0.0, open_ends=False)
        plan = _plan(self)
        return _sum_delta(
            epsilon, plan.distance, plan.step, plan.noise, len(plan.left), self.num_users
        )

    def contributions(self) -> tuple[Float64[np.ndarray, "m k"], Float64[np.ndarray, "m k"]]:
        """The mean and the variance of one user's contribution to each answer; exact."""
        plan = _plan(self)
        share = plan.parts % FRACTION / FRACTION
        entries = plan.step**2 * (plan.noise.variance + share * (1 - share))
        mean = plan.left.T @ (plan.parts / FRACTION * plan.step) + plan.shift[:, None]
        return mean, np.square(plan.left).T @ entries

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless the users hold bins of the domain, and are enough."""
        AdditiveProtocol.check_population(self, population)
        check_enough(population, self.num_users)


@dataclasses.dataclass(frozen=True)
class _Plan:
    """What a spec computes once.

    Attributes:
      left: float64[l, m].
      shift: float64[m].
      parts: int64[l, k], the columns in parts of a step.
      step: of the grid, in the unit of the columns.
      noise: of a user, in steps.
      distance: the largest of two columns, as they are rounded to parts.
    """

    left: np.ndarray
    shift: np.ndarray
    parts: np.ndarray
    step: float
    noise: NormalNoise
    distance: float


@functools.lru_cache(maxsize=64)
def _plan(spec: SecureSum) -> _Plan:
    central = FactorizationMechanism(
        spec.workload, spec.epsilon, spec.delta, norm=spec.norm, factorization=spec.factorization
    )
    right, n = central.right, spec.num_users
    dim, size = len(right), central.sensitivity
    noises = [NormalNoise.of(number) for number in _STEPS]
    tables = [_table_delta(spec.epsilon, noise, dim, n) for noise in noises]
    if tables[0] > spec.delta / 2:
        raise ValueError(
            f"delta must be at least {2 * tables[0]:.2g} for epsilon = {spec.epsilon:g}, {n} users "
            f"and {dim} entries of noise, whose tables have 63 bits, got {spec.delta!r}; lower "
            "epsilon."
        )
    fitting = [(noise, t) for noise, t in zip(noises, tables, strict=True) if t <= spec.delta / 2]
    for noise, table in fitting:
        least = gaussian_sigma(spec.epsilon, spec.delta - table, 1.0) * size
        total = noise.steps * math.sqrt(n)

        def bound(factor: float, noise: NormalNoise = noise, unit: float = least / total) -> float:
            step = factor * unit
            apart = size + math.sqrt(dim) * step / FRACTION
            return _sum_delta(spec.epsilon, apart, step, noise, dim, n)

        # A finer grid costs larger numbers, and the tables' distances.
        most = 2.0 if noise is fitting[-1][0] else 1.001
        if bound(most) <= spec.delta:
            low, high = 1.0, most
            while high - low > 1e-9:
                middle = (low + high) / 2
                low, high = (low, middle) if bound(middle) <= spec.delta else (middle, high)
            step = high * least / total
            break
    else:
        raise ValueError(
            f"epsilon must be larger for so few users: {spec.epsilon:g} asks each of {n} users for "
            "noise beside which rounding to its grid matters; or raise delta, or num_users."
        )
    if np.abs(right).max() / step + noise.reach > _LARGEST:
        raise ValueError(
            f"epsilon must be smaller for so many users: {spec.epsilon:g} leaves each of {n} users "
            "so little noise that reports would not fit 31 bits."
        )
    parts = np.rint(right / step * FRACTION).astype(np.int64)
    columns = parts.T / FRACTION * step
    distance = max(
        float(np.linalg.norm(columns[i + 1 :] - row, axis=1).max(initial=0.0))
        for i, row in enumerate(columns)
    )
    return _Plan(central.left, central.shift, parts, step, noise, distance * (1 + 1e-12))


def _sum_delta(
    epsilon: float, distance: float, step: float, noise: NormalNoise, dim: int, n: int
) -> float:
    """The delta of the sum of n users' noise, for columns so far apart, rounded at random."""
    sigma = noise.steps * step * math.sqrt(n)
    normal = dithered_gaussian_delta(epsilon, distance, sigma, step, dim)
    return min(normal + _table_delta(epsilon, noise, dim, n), 1.0)


def _table_delta(epsilon: float, noise: NormalNoise, dim: int, n: int) -> float:
    """What the distance of all users' tables from rounded normals adds to delta."""
    return (1 + math.exp(min(epsilon, 700.0))) * n * dim * noise.distance


@params
class SecureSumParams(Round[dict[str, Count]]):
    """The params of `SecureSum`: a pytree.

    Attributes:
      noise: of a user, in steps.
      whole: int32[l, k], the columns in steps, rounded down.
      share: int32[l, k], what is left of them, in parts of 2**-16 steps.
      left: float64[l, m].
      shift: float64[m].
      step: float64[], of the grid.
    """

    bit_private: ClassVar[bool] = True

    noise: NormalNoise
    whole: Int32[Array | np.ndarray, "l k"]
    share: Int32[Array | np.ndarray, "l k"]
    left: Float[Array | np.ndarray, "l m"]
    shift: Float[Array | np.ndarray, " m"]
    step: Float[Array | np.ndarray, ""]

    @property
    def num_bins(self) -> int:
        """The bins of the domain."""
        return self.whole.shape[-1]

    @property
    def num_entries(self) -> int:
        """l, the entries of a report."""
        return self.whole.shape[-2]

    @property
    def num_words(self) -> int:
        """For each entry one for its noise, one for a tie, and half of one for its rounding."""
        return 2 * self.num_entries + self._dither_words

    @property
    def _dither_words(self) -> int:
        return -(-self.num_entries // 2)

    def user_cost(self, work: Work) -> float:
        """Nanoseconds of a user, roughly: table draws cost about what words do."""
        return work.words(2.0 + 2.0 * self.num_entries)

    def from_bits(self, words: Words, value: Int32[Array, ""], /) -> Int32[Array, " l"]:
        """One user's vector."""
        size, ties = self.num_entries, self.num_entries + self._dither_words
        noise = self.noise.draw(words[0:size][None], words[ties : ties + size][None])
        return self._column(value, words[size:ties]) + noise

    @property
    def draft(self) -> Draft:
        """Without the words for ties."""
        return Draft(self.num_entries + self._dither_words, self._draft)

    def _draft(self, words: UInt32[Array, "w n"], values: Int32[Array, " n"]) -> jax.Array:
        size = self.num_entries
        noise, sure = self.noise.draft(words[0:size][None])
        return jnp.where(sure, self._column(values, words[size:]) + noise, Draft.UNSURE)

    def _column(self, values: jax.Array, words: jax.Array) -> jax.Array:
        """The columns of values, in steps, rounded at random."""
        bins = jnp.clip(values, 0, self.num_bins - 1)
        return jnp.asarray(self.whole)[:, bins] + rounded(jnp.asarray(self.share)[:, bins], words)

    def tally(self, reports: Int32[Array, "n l"], mask: Any = None, /) -> dict[str, Count]:
        """{"sum": Count[l], "users": Count[]}."""
        users = sum_integers(jnp.ones(reports.shape[0], jnp.int32), 1, mask)
        return {"sum": sum_integers(reports, _LARGEST, mask), "users": users}

    @compiled_in_float64
    def estimate(self, outcome: dict[str, Count], /) -> Float[Array, " m"]:
        """The answers."""
        left, shift, step = as_float64(self.left, self.shift, self.step)
        return dot(left.T, outcome["sum"].f64()) * step / outcome["users"].f64() + shift

    @property
    def law(self) -> TallyLaw[dict[str, Count]]:
        """A normal of the exact mean and variance of the sum.

        Its characteristic function differs from the sum's by the cumulants of roundings alone: an
        entry's total variation is at most 0.02 over the cube of the steps of a user's noise.
        """
        distance = 0.02 * self.num_entries / self.noise.steps**3
        return TallyLaw(self._draw, self._cost, distance=distance)

    @compiled_in_float64
    def _draw(self, key: jax.Array, counts: Count, inputs: Tree) -> dict[str, Count]:
        del inputs
        users, each = counts.sum(), counts.f64()
        whole, share = (jnp.asarray(x).astype(jnp.float64) for x in (self.whole, self.share))
        share = share / FRACTION
        mean = dot(whole, each) + dot(share, each)
        spread = jnp.sqrt(users.f64() * self.noise.variance + dot(share * (1 - share), each))
        total = mean + spread * normal(jax.random.fold_in(key, 0), (self.num_entries,))
        return {"sum": Count.from_float(jnp.rint(total)), "users": users}

    def _cost(self, work: Work) -> float:
        return work.words((100.0 + work.num_bins) * self.num_entries)
