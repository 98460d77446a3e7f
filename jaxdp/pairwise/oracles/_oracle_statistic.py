"""Statistics of pairs from the counts of any frequency oracle."""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from numpy.typing import ArrayLike

from ..._contract import Kernels, Round, TallyLaw, Through, Tree, field, params, spec, static
from ..._plausible import plausible_counts
from ..._prediction import Prediction
from ..._queries import ORACLE, num_counted_reports, users_of
from ..._spec import check_counts, check_int, check_probabilities
from ..._x64 import as_float64, compiled_in_float64, dot
from ...random import Count, everyone
from ...randomizers import CountNoise, FrequencyOracle
from .._protocol import PairwiseProtocol
from ..kernels._exact import FORM, Form, num_pairs
from ..kernels._kernel import Kernel, Link, linearised_error
from ..kernels._pair_kernel import KERNEL, NUM_VALUES


@spec
class OracleStatistic(PairwiseProtocol["OracleStatisticParams"]):
    """A statistic of pairs from one report of any frequency oracle per user.

    The oracle estimates the counts of the values by `c = sum_i y_i`, where y_i estimates the
    indicator `e_x` of the user's value x. With u the means of the rows of the kernel's matrix minus
    their own mean w, and W what is left of the matrix without `u_v + u_v' + w`,

        `(c^T W c - sum_i y_i^T W y_i) / (n (n - 1)) + 2 u^T c / n + w`

    is an unbiased U-statistic of the reports; the sum of the estimated counts, which need not be n,
    has no part in it. The V-statistic adds `sum_v W_vv c_v` to the numerator, and divides by n**2.
    What is subtracted for the pairs of a user with itself is

    * exactly that sum, where `oracle.noise()` knows `y^T W y` of each report, since the oracle
      counts its reports (`KRR`, `HadamardBit`, `HadamardResponse`, `ProjectiveGeometryResponse`,
      `FiniteChannel`);
    * else `sum_v c_v E[y^T W y | v]`, which has the same mean, where `oracle.noise()` knows its
      error (`UnaryEncoding` and `SubsetSelection`);
    * else exactly that sum again (`LocalHashing`, `Rappor`): what reports add to two entries of the
      oracle's tally is tallied as well.

    Where the statistic is a function of several averages (`kernel.is_linear` is false), the
    estimate is that function of their unbiased estimates; those are `params.u_statistics(tally)`.
    With `KRR` the protocol is `QuantizedRR` on bins.

    Formal guarantees:
      * Privacy: that of the oracle, `oracle.exact_epsilon()`; users send nothing else.
      * Bias: none for linear kernels, in exact arithmetic with the realised probabilities; others
        are consistent.
      * `variance(counts)`: exact for linear kernels. With S_v the covariance of a report of value
        v, and `g_i = 2 W (c - e_x) + 2 (n - 1) u` (for the V-statistic 2 n u and the diagonal of W
        are added instead), it is
        `sum_i g_i^T S_i g_i + 2 sum_{i != j} tr(W S_i W S_j)`, over the square of the number of
        pairs; with the second kind of correction, the first sum has the variance of
        `g_i^T y_i + y_i^T W y_i - a^T y_i`, `a_v = E[y^T W y | v]`. For other kernels the delta
        method, exact up to terms of higher order in 1/n.
      * `worst_case_variance(n)`: a proven bound for linear kernels; inf for others.

    Edge cases:
      ===============================  ==========================================================
      one user, `form="u"`             ValueError
      oracle and kernel do not fit     ValueError that names both sizes
      pairs of entries are tallied     per-user simulation only: `LocalHashing`, `Rappor`
      value outside the domain         ValueError from a Population; clamped inside jit
      ===============================  ==========================================================

    Args:
      kernel: the statistic, or a matrix float[k, k].
      oracle: a frequency oracle on k values. The estimate from a tally must be the sum of the
        estimates from single reports, as a linear function of it is.
      num_values: the shape of the table whose cells are the values, row by row; None for k.
      form: "u" for pairs of different users, "v" to average over all pairs, self pairs included.

    Raises:
      ValueError: an argument is out of range, or the kernel does not fit the domain.
      TypeError: `oracle` is not the spec of a frequency oracle.

    Example:
      >>> from jaxdp.pairwise import GiniDiversity, OracleStatistic
      >>> from jaxdp.randomizers import KRR, HadamardResponse
      >>> counts = [100] * 64
      >>> for oracle in (KRR(64, 1.0), HadamardResponse(64, 1.0)):
      ...     print(round(float(OracleStatistic(GiniDiversity(), oracle).variance(counts)), 5))
      0.00161
      7e-05

    References:
      Bell, Bellet, Gascón, Kulkarni (2020), Algorithm 1, with any oracle for k-ary randomized
      response.
    """

    kernel: Kernel = field(KERNEL)
    oracle: FrequencyOracle[Any] = field(ORACLE)
    num_values: int | tuple[int, ...] | None = field(NUM_VALUES, default=None)
    form: Form = field(FORM, default="u")

    def validate(self) -> None:
        """Raises ValueError unless the kernel and the oracle have one domain."""
        if self.num_values is None:
            self.settle(num_values=self.oracle.num_values)
        if self.num_bins != self.oracle.num_values:
            raise ValueError(
                f"num_values is {self.num_values}, so {self.num_bins} values, but the oracle has "
                f"num_values = {self.oracle.num_values}; both must name one domain."
            )
        PairwiseProtocol.validate(self)
        _noise(self.oracle)

    @property
    def epsilon(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The realised privacy parameter, `exact_epsilon()`."""
        return self.exact_epsilon()

    def build(self, word_bits: int = 32) -> "OracleStatisticParams":
        """Builds the params, which users and the analyst run."""
        oracle, noise = self.oracle.build(word_bits), _noise(self.oracle)
        matrices, linear, constant = self._forms()
        forms = matrices, linear, constant, self.kernel.link, self.form
        # What is taken out for y^T W y of each user: exactly, where a report determines it;
        if noise.by_report(matrices[0]) is not None:
            pairs = np.array([noise.by_report(w) for w in matrices])
            return OracleStatisticParams(oracle, *forms, pairs, by_report=True)
        # its mean given the value, estimated by the counts, where the error of that is known;
        if noise.self_moments(matrices[0]) is not None:
            pairs = np.array([_self_means(noise, w) for w in matrices])
            return OracleStatisticParams(oracle, *forms, pairs, by_report=False)
        # and else exactly: by report, or by products of what a report adds to entries of the tally.
        decoder, offset = _decoder(oracle)
        turned = matrices @ decoder
        if num_counted_reports(oracle) is not None:
            pairs = np.sum(decoder * turned, axis=1)
            return OracleStatisticParams(oracle, *forms, pairs, by_report=True)
        pairs, mixed, fixed = decoder.T @ turned, 2 * offset @ turned, matrices @ offset @ offset
        return PairedStatisticParams(oracle, *forms, pairs, False, mixed, fixed)

    def _forms(
        self,
    ) -> tuple[Float[np.ndarray, "m k k"], Float[np.ndarray, "m k"], Float[np.ndarray, " m"]]:
        """W, u and w of each average."""
        matrices = self.matrices()
        rows = matrices.mean(axis=-1)
        constant = rows.mean(axis=-1)
        linear = rows - constant[:, None]
        centred = matrices - linear[:, :, None] - linear[:, None, :] - constant[:, None, None]
        return centred, linear, constant

    @property
    def reporter(self) -> FrequencyOracle[Any]:
        """The oracle."""
        return self.oracle

    def exact_epsilon(self) -> float:
        """The realised privacy parameter, the oracle's."""
        return self.oracle.exact_epsilon()

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> Float[np.ndarray, ""]:
        """The mean squared error for given users.

        Exact for linear kernels; for others that of the linearised statistic (delta method).

        Args:
          counts: int[k], the number of users with each value.
          inputs: None; values are bins.
        """
        users, truth = self._check_bins(check_counts(counts), inputs), float(self.truth(counts))
        counts, n = users.astype(np.float64), int(users.sum())
        noise, without_self = _noise(self.oracle), float(self.form == "u")
        means = [
            counts @ w @ counts - without_self * (np.diagonal(w) @ counts) for w in self.matrices()
        ]

        def spread(w: np.ndarray, d: np.ndarray) -> float:
            # sum_i g_i^T S_i g_i, g_i = (2 W c + d) - 2 W e_x, and 2 sum_{i != j} tr(W S_i W S_j)
            part = _SinglePart.of(noise, w)
            single = part.variances((2 * w @ counts + d)[None], part.shift - 2 * w)[0]
            cross = noise.cross_traces(w)
            pairs = counts @ cross @ counts - counts @ np.diagonal(cross)
            return float(counts @ single + 2 * pairs)

        return self._mean_squared_error(np.array(means), n, truth, spread)

    def reported_variance(self, outcome: Tree, num_users: int) -> Float[np.ndarray, ""]:
        """The mean squared error for the users nearest to the estimated ones."""
        counts = np.asarray(self.built.users(outcome))
        return self.variance(plausible_counts(counts, num_users))

    def population_variance(
        self, probabilities: ArrayLike, num_users: int, inputs: Tree = None
    ) -> Float[np.ndarray, ""]:
        """The mean squared error about `population_truth` for independent users.

        Sampling is included. Exact for linear kernels; for others the delta method.

        Args:
          probabilities: float[k], of each value.
          num_users: n.
          inputs: None; values are bins.
        """
        p = self._check_bins(check_probabilities(probabilities), inputs)
        n, noise = check_int("num_users", num_users, low=1), _noise(self.oracle)
        num_pairs(n, self.form)
        with_self = float(self.form == "v")
        means = [
            n * (n - 1) * (p @ w @ p) + with_self * n * (np.diagonal(w) @ p)
            for w in self.matrices()
        ]

        def spread(w: np.ndarray, d: np.ndarray) -> float:
            part, slope = _SinglePart.of(noise, w), 2 * (n - 1) * w @ p + d
            single = p @ part.variances(slope[None], part.shift)[0]
            single += p @ np.square(slope - p @ slope)
            # tr(W T W T) for the covariance T = sum_v p_v S_v + Cov e_v of a random user's report.
            rows = w @ p
            centred = w - rows[:, None] - rows + p @ rows
            mixed = p @ (noise.forms(w) @ p) - (noise.forms(rows[None]) @ p)[0]
            pair = p @ noise.cross_traces(w) @ p + 2 * mixed + p @ centred**2 @ p
            return float(n * single + 2 * n * (n - 1) * pair)

        truth = float(self.population_truth(p, n))
        return self._mean_squared_error(np.array(means), n, truth, spread)

    def worst_case_variance(self, num_users: int) -> Prediction:
        """A proven bound on the mean squared error over all data sets of a size; inf by plug-in.

        Both parts of the variance are bounded apart. A user's part is convex in the histogram of
        the others, so largest where those hold one value; the part of a pair of users is largest
        for some pair of values. Attained where all users are best to hold the same value.
        """
        n = check_int("num_users", num_users, low=1 if self.form == "v" else 2)
        if not self.kernel.is_linear:
            return Prediction(math.inf, "bound")
        noise, (matrices, rows, _) = _noise(self.oracle), self._forms()
        w, d = matrices[0], self._slope(matrices[0], rows[0], n)
        part = _SinglePart.of(noise, w)
        # The n - 1 others hold one value u: g = 2 (n - 1) W e_u + d, a row for each u
        single = float(part.variances(2 * (n - 1) * w + d, part.shift).max())
        pair = 2 * (n - 1) * max(float(noise.cross_traces(w).max()), 0.0)
        return Prediction(n * (single + pair) / num_pairs(n, self.form) ** 2, "bound")

    def _slope(
        self, weights: Float[np.ndarray, "k k"], rows: Float[np.ndarray, " k"], num_users: int
    ) -> Float[np.ndarray, " k"]:
        """What is linear in the counts, in the numerator over all pairs."""
        if self.form == "u":
            return 2 * (num_users - 1) * rows
        return 2 * num_users * rows + np.diagonal(weights)

    def _mean_squared_error(
        self,
        means: Float[np.ndarray, " m"],
        num_users: int,
        truth: float,
        spread: Callable[[np.ndarray, np.ndarray], float],
    ) -> Float[np.ndarray, ""]:
        """The error given the means of the sums over pairs.

        `spread(W, d)` is the variance of `c^T W c + d^T c` without pairs of a user with itself.
        """
        pairs = float(num_pairs(num_users, self.form))

        def combined(slopes: Float[np.ndarray, " m"]) -> float:
            weights, rows = (np.tensordot(slopes, x, axes=1) for x in self._forms()[:2])
            linear = self._slope(weights, rows, num_users)
            # Rounding may leave a variance of 0 a little below it.
            return max(spread(weights, linear), 0.0) / pairs**2

        return linearised_error(self.kernel, means / pairs, num_users, truth, combined)


@functools.lru_cache(maxsize=16)
def _noise(oracle: FrequencyOracle[Any]) -> CountNoise:
    return oracle.noise()


def _self_means(noise: CountNoise, weights: Float[np.ndarray, "k k"]) -> Float[np.ndarray, " k"]:
    """a, the expected `y^T W y` of a user with each value."""
    return noise.traces(weights) + np.diagonal(weights)


class _SinglePart(NamedTuple):
    """The noise of what a single user adds to the numerator, `g^T y` and maybe the correction.

    Where `a^T y` is subtracted for `y^T W y`, the user adds `y^T W y - a^T y` too. With `y = e_v +
    z` that is `z^T W z + (2 W e_v - a)^T z` and a constant.

    Attributes:
      noise: the moments of z.
      shift: the latter slope for each value v, a row each; 0 where the pair is subtracted exactly.
      moments: `E[z^T W z z]` and `Var[z^T W z]`; None where the pair is subtracted exactly.
    """

    noise: CountNoise
    shift: Float[np.ndarray, "k k"]
    moments: tuple[Float[np.ndarray, "k k"], Float[np.ndarray, " k"]] | None

    @classmethod
    def of(cls, noise: CountNoise, weights: Float[np.ndarray, "k k"]) -> "_SinglePart":
        """What the correction for the kernel's matrix W adds."""
        moments = None if noise.by_report(weights) is not None else noise.self_moments(weights)
        if moments is None:
            return cls(noise, np.zeros(weights.shape), None)
        return cls(noise, 2 * weights - _self_means(noise, weights), moments)

    def variances(
        self, base: Float[np.ndarray, "m k"], shift: Float[np.ndarray, "k k"]
    ) -> Float[np.ndarray, "m k"]:
        """The variance by value v for the slopes `base[u] + shift[v]`."""
        moved = self.noise.times(shift)
        # (b + s_v)^T S_v (b + s_v), and with q = z^T W z: 2 E[q z] (b + s_v) + Var q
        total = self.noise.forms(base) + 2 * base @ moved.T + np.sum(shift * moved, axis=1)
        if self.moments is None:
            return total
        third, variance = self.moments
        return total + 2 * (base @ third.T + np.sum(shift * third, axis=1)) + variance


@params
class OracleStatisticParams(Through[Tree]):
    """The params of `OracleStatistic`: a pytree. Users do what the oracle says.

    Attributes:
      inner: the params of the frequency oracle.
      matrices: the kernels of the averages on the values, rows of mean 0.
      linear: what was subtracted from both arguments of the kernels.
      constant: what was subtracted besides.
      link: the statistic as a function of the averages, static.
      form: "u" or "v", static.
      self_pairs: the expected `y^T W y` of a user, by report or by value.
      by_report: whether `self_pairs` is by report, static.
    """

    inner: Any  # Round of a frequency oracle
    matrices: Float[Array | np.ndarray, "m k k"]
    linear: Float[Array | np.ndarray, "m k"]
    constant: Float[Array | np.ndarray, " m"]
    link: Link = static()
    form: Form = static()
    self_pairs: Float[Array | np.ndarray, "m ..."]
    by_report: bool = static()

    def _correction(self, tally: Tree, users: Float[Array, " k"]) -> Float[Array, " m"]:
        """The sum of `y^T W y` over the users, or an estimate of it."""
        (self_pairs,) = as_float64(self.self_pairs)
        return dot(self_pairs, tally.f64() if self.by_report else users)

    def _counts(self, tally: Tree) -> Tree:
        """The oracle's tally."""
        return tally

    def users(self, outcome: Tree) -> Float[Array, " k"]:
        """The estimated numbers of users with each value."""
        return self.inner.estimate(self._counts(outcome))

    @compiled_in_float64
    def u_statistics(self, tally: Tree) -> Float[Array, " m"]:
        """Unbiased estimates of the averages that the statistic is a function of."""
        users = self.users(tally)
        n = users_of(self._counts(tally))
        matrices, linear, constant = as_float64(self.matrices, self.linear, self.constant)
        total = dot(dot(matrices, users), users) - self._correction(tally, users)
        shifted = 2 * dot(linear, users) / n + constant
        if self.form == "u":
            return total / (n * (n - 1)) + shifted
        diagonal = jnp.diagonal(matrices, axis1=-2, axis2=-1)
        return (total + dot(diagonal, users)) / n**2 + shifted

    @compiled_in_float64
    def estimate(self, outcome: Tree, /) -> Float[Array, ""]:
        """The estimated statistic."""
        return self.link(self.u_statistics(outcome), users_of(self._counts(outcome)))


@params
class PairedStatisticParams(OracleStatisticParams):
    """Params for an oracle of whose reports too few moments are known: pairs are tallied too.

    With t what a report adds to the T entries of the oracle's tally, `y = A t + b`. The tally is
    {"oracle": the oracle's tally, "pairs": Count[T, T], the sum of `t t^T`}.

    Attributes:
      self_pairs: float64[m, T, T], `A^T W A`.
      mixed: `2 A^T W b`.
      fixed: `b^T W b`.
    """

    mixed: Float[Array | np.ndarray, "m T"]
    fixed: Float[Array | np.ndarray, " m"]

    @property
    def law(self) -> TallyLaw[Tree] | None:
        """None: the law of the pairs is not known."""
        return None

    @property
    def kernels(self) -> Kernels[Tree]:
        """None: the oracle's do not tally pairs."""
        return Kernels()

    def tally(self, reports: Tree, mask: Bool[Array, " n"] | None = None, /) -> dict[str, Tree]:
        """The oracle's tally, and the sums of products of what a report adds to its entries."""

        def entries(report: Tree) -> Count:
            return _entries(self.inner.tally(jax.tree.map(lambda x: x[None], report)))

        counted = everyone(jax.tree.leaves(reports)[0], mask)
        pairs = _products(jax.vmap(entries)(reports), counted)
        return {"oracle": self.inner.tally(reports, mask), "pairs": pairs}

    def _counts(self, tally: Tree) -> Tree:
        return tally["oracle"]

    def _correction(self, tally: Tree, users: Float[Array, " k"]) -> Float[Array, " m"]:
        # y^T W y = t^T A^T W A t + 2 b^T W A t + b^T W b for y = A t + b
        squares, mixed, fixed = as_float64(self.self_pairs, self.mixed, self.fixed)
        both = dot(squares.reshape(len(squares), -1), tally["pairs"].f64().reshape(-1))
        counts = self._counts(tally)
        return both + dot(mixed, _entries(counts).f64()) + users_of(counts) * fixed


def _parts(tally: Tree) -> Tree:
    """What differs from report to report: not "users", where that is one number."""
    if isinstance(tally, dict) and not tally["users"].ndim:
        return {name: part for name, part in tally.items() if name != "users"}
    return tally


def _entries(tally: Tree) -> Count:
    """The entries of `_parts`, Count[T]."""
    flat = [part.reshape(-1) for part in jax.tree.leaves(_parts(tally), is_leaf=_is_count)]
    return jax.tree.map(lambda *limbs: jnp.concatenate(limbs), *flat)


def _is_count(x: Tree) -> bool:
    return isinstance(x, Count)


@compiled_in_float64
def _products(rows: Count, counted: Bool[Array, " n"]) -> Count:
    """The sum of `t t^T` over the counted rows t, Count[T, T]; exact below 2**53."""
    numbers = jnp.where(counted[:, None], rows.f64(), 0.0)
    return Count.from_float(dot(numbers.T, numbers))


def _decoder(oracle: Round[Any]) -> tuple[Float[np.ndarray, "k T"], Float[np.ndarray, " k"]]:
    """A and b of `PairedStatisticParams`: the estimates of each entry alone, and of one user."""
    (size,) = jax.eval_shape(_entries, _tally_shape(oracle)).shape
    with jax.enable_x64(True):
        units = Count.of(np.eye(size + 1, size, dtype=np.int64))
        users = Count.of(np.eye(size + 1, dtype=np.int64)[-1])
        estimates = np.asarray(_decoded(oracle, units, users))
    return estimates[:-1].T, estimates[-1]


def _tally_shape(oracle: Round[Any]) -> Tree:
    """The tally of one report, as shapes."""
    with jax.enable_x64(False):  # as users run it
        one = oracle.report
        reports = jax.tree.map(lambda x: jax.ShapeDtypeStruct((1, *x.shape), x.dtype), one)
        return jax.eval_shape(oracle.tally, reports)


@jax.jit
def _decoded(oracle: Round[Any], entries: Count, users: Count) -> Float[Array, "n k"]:
    """The estimates of n tallies, from their entries, Count[n, T], and their numbers of users.

    The oracle is an argument, so that a grid of epsilons is one program.
    """
    tally = _tally_shape(oracle)
    shapes, structure = jax.tree.flatten(_parts(tally), is_leaf=_is_count)
    ends = np.cumsum([math.prod(shape.shape) for shape in shapes])

    def estimate(entries: Count, users: Count) -> jax.Array:
        parts = [
            entries[end - math.prod(shape.shape) : end].reshape(shape.shape)
            for end, shape in zip(ends, shapes, strict=True)
        ]
        whole = jax.tree.unflatten(structure, parts)
        return oracle.estimate(whole if _parts(tally) is tally else {**whole, "users": users})

    return jax.vmap(estimate)(entries, users)
