"""What the protocols of several rounds share: broadcasts, random groups and their exact moments.

Before a round a number f(v) for each value v is broadcast, and a user answers with that of its
value, randomized. As f is public, so are its largest and least values: users send
`(f(v) - middle) / tau`, which is in [-1, 1] when `tau` is half of the range of f, and nothing is
clipped.

A statistic that is a function of several averages is linearised at what the first round finds of
them, and f is that of the linear combination; see `tangent`.

Predictions for disjoint random groups rest on the averages of products of W over tuples of
different users, which are the same whichever users join which group; see `Averages`.
"""

import abc
import dataclasses
import functools
import math
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32
from numpy.typing import ArrayLike

from jaxdp_kernels import register_dataclass

from ..._checks import Choice, Optional, Real
from ..._contract import Interactive, Tree, params
from ..._prediction import Kind, Prediction
from ..._spec import check_counts, check_int, check_probabilities, check_real
from ..._x64 import as_float64, compiled_in_float64, dot
from ...linear import EmbeddedRound
from ...random import Count
from ...randomizers import BinaryResponse, Laplace, MeanRound
from .._protocol import PairwiseProtocol
from ..kernels._kernel import Link
from ..vectors._quadratic_factor import QuadraticFactor, signed_factor
from ..vectors._quadratic_form import shared_norms

SCALAR = Choice("bit", "laplace")
"""The field `scalar`, how numbers are randomized."""

TAU = Optional(Real(0.0))

_NODES = 40  # of the quadrature of a normal error
"""The field `tau`, the bound that numbers are clipped to."""

Number = float | np.ndarray | jax.Array
"""A number, or one for each of several sizes of groups."""


P_co = TypeVar("P_co", bound=Interactive[Any], covariant=True)


@register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class RoundsOutcome:
    """The broadcast of one run, and the users' answers to it; a pytree.

    Attributes:
      broadcasts: what the users of later rounds were sent, by name.
      tallies: what each round's users answered together, by name.
    """

    broadcasts: dict[str, Any]
    tallies: dict[str, Any]


class RoundsProtocol(PairwiseProtocol[P_co]):
    """Base of the specs of several rounds: one error for given, drawn, and any users."""

    __slots__ = ()

    tau: Any

    def validate(self) -> None:
        """Raises unless the kernel has a domain, and numbers a scale of their own."""
        PairwiseProtocol.validate(self)
        if not self.kernel.is_linear and self.tau is not None:
            raise ValueError(
                f"tau must be None for {self.kernel!r}, a function of several averages, got "
                f"{self.tau!r}: the scale of the numbers depends on what the first round finds."
            )

    @abc.abstractmethod
    def _error(
        self,
        users: Float[np.ndarray, " k"] | None,
        num_users: int,
        drawn: bool,
        slopes: Float[np.ndarray, " m"],
    ) -> Float[np.ndarray, ""]:
        """The error of a combination of the averages for counts, probabilities, or any users.

        Args:
          users: counts, or probabilities of drawn users; None for any users.
          num_users: n.
          drawn: whether users are drawn independently.
          slopes: the factors of the averages.
        """

    def _linearised_error(
        self, users: Float[np.ndarray, " k"], num_users: int, drawn: bool
    ) -> Float[np.ndarray, ""]:
        """The error of the statistic, that of its combination of averages being normal."""
        averages = self._averages(users, num_users, drawn)
        slopes = self.kernel.slopes(averages, num_users)
        error = self._error(users, num_users, drawn, slopes)
        if self.kernel.is_linear:
            return error
        return np.asarray(along_slopes(self.kernel.link, averages, slopes, float(error), num_users))

    def _averages(
        self, users: Float[np.ndarray, " k"], num_users: float, drawn: bool
    ) -> Float[np.ndarray, " m"]:
        """The averages that the statistic is a function of."""
        matrices, share = self.matrices(), users / users.sum()
        means = matrices @ share @ share
        if self.form == "u" and not drawn:  # without the pairs of a user with itself
            alone = np.diagonal(matrices, axis1=1, axis2=2) @ share
            means = (num_users * means - alone) / (num_users - 1)
        return means

    @property
    @abc.abstractmethod
    def _is_plug_in(self) -> bool:
        """Whether the error for given users is had from the law of what is broadcast."""

    @property
    def variance_kind(self) -> Kind:
        """The delta method where nothing is clipped; what clipping takes is bounded."""
        return "delta" if self._is_plug_in else "bound"

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> Float[np.ndarray, ""]:
        """The mean squared error for given users; the split of users is part of it.

        What it is worth the guarantees of the protocol and `variance_kind` say.

        Args:
          counts: int[k], the number of users with each value.
          inputs: None; values are bins.
        """
        counts = self._check_bins(check_counts(counts), inputs).astype(np.float64)
        return self._linearised_error(counts, int(counts.sum()), drawn=False)

    def population_variance(
        self, probabilities: ArrayLike, num_users: int, inputs: Tree = None
    ) -> Float[np.ndarray, ""]:
        """The mean squared error about the population's statistic, for independent users.

        Worth as much as `variance`.

        Args:
          probabilities: float[k], of each value.
          num_users: n.
          inputs: None; values are bins.
        """
        p = self._check_bins(check_probabilities(probabilities), inputs)
        return self._linearised_error(p, check_int("num_users", num_users, low=4), drawn=True)

    def worst_case_variance(self, num_users: int) -> Prediction:
        """A proven bound on the mean squared error over all data sets; inf by plug-in."""
        n = check_int("num_users", num_users, low=4)
        if not self.kernel.is_linear:
            return Prediction(math.inf, "bound")
        return Prediction(float(self._error(None, n, False, np.ones(1))), "bound")


@dataclasses.dataclass(frozen=True)
class Factors:
    """`W_j[v, w] = L_v^T diag(d_j) L_w + c_j` for the matrices of all averages.

    Attributes:
      columns: float32[k, l], the `L_v`: those of the averages one below the other.
      scales: float64[m, l], the d_j, 0 on the columns of other averages.
      constants: float64[m].
    """

    columns: np.ndarray
    scales: np.ndarray
    constants: np.ndarray

    def combined(self, slopes: Float[np.ndarray, " m"]) -> QuadraticFactor:
        """The factor of the matrix `sum_j slopes_j W_j`."""
        zero = np.zeros(self.scales.shape[1])
        return QuadraticFactor(
            self.columns, slopes @ self.scales, zero, float(slopes @ self.constants)
        )

    @property
    def diagonals(self) -> Float[np.ndarray, "m k"]:
        """The diagonals of the matrices, minus their constants."""
        each = np.eye(len(self.scales))
        return np.stack([np.diagonal(self.combined(row).centred) for row in each])


@functools.lru_cache(maxsize=32)
def rounded_factors(protocol: RoundsProtocol[Any], shift: bool = True) -> Factors:
    """The signed factors of the matrices, or of them minus constants, in one float32 vector."""
    factors = [signed_factor(matrix, shift) for matrix in protocol.matrices()]
    # gamma_2 of each, as its signs leave norms as they are
    squares = np.array([np.square(f.columns).sum(axis=1).max() for f in factors])
    norms = shared_norms(squares, np.ones(len(factors)))
    # Vectors of norm at most `norm`; of one average they stay as they are.
    norms = norms * np.sqrt(squares.max() / np.where(squares > 0, squares, 1.0))
    columns = np.concatenate([t * f.columns for t, f in zip(norms, factors, strict=True)], axis=1)
    sizes = [f.scales.size for f in factors]
    parts = np.repeat(np.eye(len(factors)), sizes, axis=1)
    scales = np.concatenate([f.scales for f in factors])
    lengths = np.repeat(np.where(norms > 0, norms, np.inf), sizes)
    return Factors(
        columns.astype(np.float32),
        parts * (scales / lengths**2),
        np.array([f.constant for f in factors]),
    )


def tangent(
    link: Link, averages: Float[Array, " m"], num_users: Float[Array, ""]
) -> dict[str, jax.Array]:
    """Where a statistic of several averages is linearised; inside an x64 block.

    Later rounds estimate one combination of the averages, by the slopes of the statistic at what
    the first round found: one step of Newton's method.

    Returns:
      {"averages": float32[m], "slopes": float32[m]}; {} for a single average.
    """
    if averages.shape == (1,):
        return {}
    slopes = jax.grad(link)(averages, num_users)
    return {"averages": averages.astype(jnp.float32), "slopes": slopes.astype(jnp.float32)}


def combined(point: dict[str, jax.Array], arrays: Float[Array, "m *l"]) -> Float[Array, "*l"]:
    """The combination of arrays of the averages by the slopes of a `tangent`."""
    return dot(point["slopes"].astype(arrays.dtype), arrays) if "slopes" in point else arrays[0]


def users_in(tallies: dict[str, Any]) -> Float[Array, ""]:
    """How many users answered in all rounds together; inside an x64 block."""
    return jnp.sum(jnp.stack([tally["users"].f64() for tally in tallies.values()]))


def linked(
    link: Link, point: dict[str, jax.Array], value: Float[Array, ""], num_users: Float[Array, ""]
) -> Float[Array, ""]:
    """The statistic where the combination of the averages has a value.

    The averages of the `tangent` are moved as little as gives the combination this value. To first
    order that is the linearised statistic, and the range of the statistic is kept.
    """
    if "slopes" not in point:
        return link(value[None], num_users)
    averages, slopes = as_float64(point["averages"], point["slopes"])
    missing = value - jnp.sum(slopes * averages)
    square = jnp.maximum(jnp.sum(slopes**2), 1e-300)  # 0 where the link is flat
    return link(averages + slopes * (missing / square), num_users)


def along_slopes(
    link: Link,
    averages: Float[np.ndarray, " m"],
    slopes: Float[np.ndarray, " m"],
    error: float,
    num_users: float,
) -> float:
    """The mean squared error of `linked` where the combination of the averages errs by a normal.

    That of the linearised statistic is `error`; the curve of the link is of second order.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    square = float(slopes @ slopes)
    if not square or not math.isfinite(error):
        return error
    steps = math.sqrt(error) * nodes[:, None] * slopes[None] / square
    with jax.enable_x64(True):
        n, truth = jnp.asarray(float(num_users)), jnp.asarray(averages)
        moved = jax.vmap(lambda step: link(truth + step, n))(jnp.asarray(steps))
        lost = np.asarray(moved - link(truth, n)) ** 2
    return float(weights @ lost / weights.sum())


def left_over(
    link: Link,
    found: Float[np.ndarray, "draws m"],
    averages: Float[np.ndarray, " m"],
    num_users: float,
) -> Float[np.ndarray, " draws"]:
    """How far `linked` is from the statistic where the combination of the averages is known.

    That is what a step of Newton's method leaves: of second order in the error of the first round.
    Later rounds are without bias given the first one, so that its square adds to their error.

    Args:
      link: the statistic.
      found: the averages that the first round finds.
      averages: the true ones.
      num_users: n.
    """
    if found.shape[1] == 1:
        return np.zeros(len(found))

    def error(point: Float[Array, " m"]) -> Float[Array, ""]:
        slopes = jax.grad(link)(point, n)
        moved = slopes * (
            jnp.sum(slopes * (truth - point)) / jnp.maximum(jnp.sum(slopes**2), 1e-300)
        )
        return link(point + moved, n) - link(truth, n)

    with jax.enable_x64(True):
        n, truth = jnp.asarray(num_users), jnp.asarray(averages)
        return np.asarray(jax.vmap(error)(jnp.asarray(found)))


@params
class LookupRound(EmbeddedRound):
    """A round in which users report the number or vector that a table has for their value.

    Attributes:
      inner: the params of the randomizer.
      embedding: float32[k, ...], the table.
    """

    inner: MeanRound
    embedding: Float32[Array | np.ndarray, "k ..."]

    def estimate(self, outcome: dict[str, Count], /) -> Float[Array, "..."]:
        """The estimated mean of the users' entries."""
        return self.inner.estimate(outcome)


def scalar_randomizer(kind: str, epsilon: float) -> BinaryResponse | Laplace:
    """The randomizer of a number in [-1, 1]."""
    return BinaryResponse(epsilon) if kind == "bit" else Laplace(epsilon)


def broadcast(
    values: Float[Array, " k"], tau: Float[Array | np.ndarray, ""] | None
) -> dict[str, jax.Array]:
    """What is broadcast before a scalar round; inside an x64 block.

    Rounded to float32 at last, so that the last bits of float64 sums, which differ between
    programs, do not show.

    Args:
      values: f.
      tau: the clipping bound, or None for half of the range.

    Returns:
      {"values": float32[k] in [-1, 1], "middle": float32[], "tau": float32[]}, such that f is
      `middle + tau * values` up to clipping.
    """
    if tau is None:
        high, low = jnp.max(values), jnp.min(values)
        middle = ((high + low) / 2).astype(jnp.float32)
        # A tau of 0, where f is constant, would divide by zero.
        tau = jnp.maximum((high - low) / 2, 1e-20).astype(jnp.float32)
    else:
        middle, tau = jnp.float32(0), jnp.asarray(tau).astype(jnp.float32)
    # Centred in float64: a difference of two close numbers would lose bits in float32.
    inside = (values - middle.astype(jnp.float64)) / tau.astype(jnp.float64)
    scaled = jnp.clip(inside, -1.0, 1.0).astype(jnp.float32)
    return {"values": scaled, "middle": middle, "tau": tau}


@compiled_in_float64
def answered(
    scalar: MeanRound, question: dict[str, jax.Array], tally: dict[str, Count]
) -> Float[Array, ""]:
    """The estimated mean of f over the users who answered a `broadcast`."""
    middle, tau = as_float64(question["middle"], question["tau"])
    return middle + tau * scalar.estimate(tally)


def check_shares(name: str, shares: object, count: int) -> tuple[float, ...]:
    """Returns the shares of the groups, or raises unless they are positive and of sum 1."""
    if not isinstance(shares, (tuple, list)) or len(shares) != count:
        raise TypeError(f"{name} must be a tuple of {count} numbers, got {shares!r}.")
    checked = tuple(check_real(name, share, low=0.0, high=1.0) for share in shares)
    if not math.isclose(sum(checked), 1.0, abs_tol=1e-9):
        raise ValueError(f"{name} must have the sum 1, got {shares!r}; divide by the sum.")
    return checked
