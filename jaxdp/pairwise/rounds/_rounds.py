"""What the protocols of several rounds share: broadcasts, random groups and their exact moments.

Before a round a number f(v) for each value v is broadcast, and a user answers with that of its
value, randomized. As f is public, so are its largest and least values: users send
`(f(v) - middle) / tau`, which is in [-1, 1] when `tau` is half of the range of f, and nothing is
clipped.

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
from ..._x64 import as_float64, compiled_in_float64
from ...linear import EmbeddedRound
from ...random import Count
from ...randomizers import BinaryResponse, Laplace, MeanRound
from .._protocol import PairwiseProtocol
from ..vectors._quadratic_factor import QuadraticFactor, signed_factor

SCALAR = Choice("bit", "laplace")
"""The field `scalar`, how numbers are randomized."""

TAU = Optional(Real(0.0))
"""The field `tau`, the bound that numbers are clipped to."""

Number = float | np.ndarray | jax.Array
"""A number, or one for each of several sizes of groups."""


P_co = TypeVar("P_co", bound=Interactive[Any], covariant=True)


@register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class RoundsOutcome:
    """What was broadcast in one run, and what users answered; a pytree.

    Attributes:
      broadcasts: what the users of later rounds were sent, by name.
      tallies: what each round's users answered together, by name.
    """

    broadcasts: dict[str, Any]
    tallies: dict[str, Any]


class RoundsProtocol(PairwiseProtocol[P_co]):
    """Base of the specs of several rounds: one error for given, drawn, and any users."""

    __slots__ = ()

    def validate(self) -> None:
        """Raises unless the statistic is itself an average over pairs of bins."""
        PairwiseProtocol.validate(self)
        if not self.kernel.is_linear:
            raise ValueError(
                f"kernel must be linear for {type(self).__name__}, but {self.kernel!r} is a "
                "function of several averages; estimate each of them, or use QuantizedRR."
            )

    @abc.abstractmethod
    def _error(
        self, users: Float[np.ndarray, " k"] | None, num_users: int, drawn: bool
    ) -> Float[np.ndarray, ""]:
        """The error for counts, probabilities, or any users at all.

        Args:
          users: counts, or probabilities of drawn users; None for any users.
          num_users: n.
          drawn: whether users are drawn independently.
        """

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
        return self._error(counts, int(counts.sum()), drawn=False)

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
        return self._error(p, check_int("num_users", num_users, low=4), drawn=True)

    def worst_case_variance(self, num_users: int) -> Prediction:
        """A proven bound on the mean squared error over all data sets of a size."""
        n = check_int("num_users", num_users, low=4)
        return Prediction(float(self._error(None, n, drawn=False)), "bound")


@functools.lru_cache(maxsize=32)
def rounded_factor(protocol: RoundsProtocol[Any], shift: bool = True) -> QuadraticFactor:
    """The signed factor of the protocol's matrix, or of it minus a constant, in float32."""
    return signed_factor(protocol.matrices()[0], shift).rounded()


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
