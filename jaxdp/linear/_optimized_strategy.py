"""Linear queries: a channel found by optimization for the workload at hand."""

import dataclasses
import functools
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from .._checks import Epsilon, Integer
from .._contract import Round, Through, field, params, spec
from .._queries import WORKLOAD, AdditiveProtocol
from .._spec import FrozenArray, as_array, check_bool, check_int, check_probabilities
from .._x64 import compiled_in_float64
from ..random import Count
from ..randomizers import FiniteChannel
from ..randomizers._finite_channel import MAX_ENTRIES, check_table, left_inverse, split
from ._strategy_descent import optimize, worst_prior

_MAX_BIAS = 1e-6  # of the largest answer: beyond, the channel does not determine the answers


@spec
class OptimizedStrategy(AdditiveProtocol["OptimizedStrategyParams"]):
    """Users send one of a few hundred reports through a channel made for these queries.

    A search over all channels with m reports, none of them fixed in advance, for the least variance
    of the best unbiased linear decoder; see the reference. It costs seconds for 64 values and half
    a minute for 128, once, and no other protocol of the library has as little variance where it is
    affordable. Reports are small integers, and users look up one word in a table.

    The search runs when the channel is first needed, and its result is kept for the process. It is
    a descent from a random start: another `seed` or device gives another channel, some per mille
    better or worse. `optimized()` is the same spec with the channel in it, to be stored, sent and
    compared.

    Formal guarantees:
      * Privacy: pure epsilon-LDP, exactly, by a `FiniteChannel`, whose probabilities are integers
        over 2**32, whatever the search returns.
      * Estimate: `sum_y N_y V_y / n`, with the decoder `V = W (Q^T D^-1 Q)^+ Q^T D^-1` in float64,
        Q the realised channel, and D the law of a report of users with the law `prior()`. Without
        bias: no mean differs from the truth by more than rounding, about 1e-12 of it.
      * Variance: exact, from the realised channel and the decoder; the bias by rounding included.
      * Optimality: none is proven for the channel. Given the channel, no unbiased linear decoder
        has a lower objective, up to 1e-5.

    Edge cases:
      ====================================  ====================================================
      another channel than the best one     pass it as `channel`: only its decoder is optimized
      channel that does not determine `Wh`  ValueError
      epsilon or num_outputs out of range   ValueError; see `FiniteChannel`
      value outside the domain              ValueError from a Population; clamped inside jit
      ====================================  ====================================================

    Args:
      workload: W, float[q, k], a row for each query, k >= 2; or an `Operator`.
      epsilon: privacy parameter, > 0.
      num_outputs: the number of reports, at least 2; None for 4 k.
      objective: "worst", the variance summed over the queries for the worst data; "mean", its mean
        over the values; or float[k], its mean under a histogram of users, >= 0 and not all 0.
      num_steps: of the descent. A thousand are within 3 % of three thousand.
      seed: of the start, in [0, 2**32).
      channel: float[k, m], the probabilities of the reports of each value, instead of a search.
      progress: whether the search shows a bar; needs the extra `sweep`. Not part of what is
        compared.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is of the wrong kind, or is traced.

    Example:
      >>> import jaxdp
      >>> from jaxdp.linear import OptimizedStrategy
      >>> cdf = OptimizedStrategy(jaxdp.workloads.prefix(4), epsilon=1.0, num_steps=300)
      >>> cdf.exact_epsilon() <= 1.0
      True
      >>> cdf.worst_case_total_variance(num_users=100) < 0.062  # 0.082 with subset selection
      True

    References:
      McKenna, Maity, Mazumdar, Miklau (2020), A workload-adaptive mechanism for linear queries
      under local differential privacy.
    """

    workload: Any = field(WORKLOAD)  # stored as a FrozenArray
    epsilon: float = field(Epsilon())
    num_outputs: int | None = None
    objective: Any = "worst"  # a str, or stored as a FrozenArray
    num_steps: int = field(Integer(1), default=3000)
    seed: int = field(Integer(0, 2**32 - 1), default=0)
    channel: Any = None  # stored as a FrozenArray
    progress: bool = dataclasses.field(default=False, compare=False)

    def validate(self) -> None:
        """Raises unless the arguments fit together; settles the number of reports."""
        k = self.num_values
        if k < 2:
            raise ValueError("workload must have at least 2 columns: of one value all is known.")
        self.settle(objective=check_objective(self.objective, k))
        check_bool("progress", self.progress)
        outputs = 4 * k if self.num_outputs is None else self.num_outputs
        high = max(2, MAX_ENTRIES // k)
        outputs = check_int("num_outputs", outputs, low=2, high=high)
        if self.channel is not None:
            given = FiniteChannel(check_table("channel", self.channel), self.epsilon)
            if given.num_values != k:
                raise ValueError(
                    f"channel must have {k} rows, one for each column of the workload, got "
                    f"{given.num_values}."
                )
            if self.num_outputs not in (None, given.num_reports):
                raise ValueError(
                    f"num_outputs = {self.num_outputs!r} must be left out or be the number of "
                    f"columns of channel, {given.num_reports}."
                )
            self.settle(channel=given.table, num_outputs=given.num_reports)
            _solution(self)
        else:
            self.settle(num_outputs=outputs)

    @property
    def randomizer(self) -> FiniteChannel:
        """The randomizer that users run, which is searched for at first use."""
        return _solution(self)[0]

    def prior(self) -> Float[np.ndarray, " k"]:
        """The law of users for which the decoder has the least variance.

        For the worst case it is the one whose users are the hardest; otherwise the objective's.
        """
        return _solution(self)[1]

    def decoder(self) -> Float[np.ndarray, "q m"]:
        """V, what each report contributes to the answers."""
        return _solution(self)[2]

    def optimized(self) -> "OptimizedStrategy":
        """The same protocol with its channel written out, so that no search is left."""
        return dataclasses.replace(self, channel=self.randomizer.table)

    def build(self, word_bits: int = 32) -> "OptimizedStrategyParams":
        """Builds the params, which users and the analyst run."""
        channel = self.randomizer.build(word_bits)
        return OptimizedStrategyParams(dataclasses.replace(channel, decoder=split(self.decoder())))

    def exact_epsilon(self) -> float:
        """The realised privacy parameter of `randomizer`."""
        return self.randomizer.exact_epsilon()

    def contributions(self) -> tuple[Float[np.ndarray, "q k"], Float[np.ndarray, "q k"]]:
        return _moments(self)


def check_objective(objective: object, num_values: int) -> str | FrozenArray:
    """The objective: a name, or a law as a FrozenArray."""
    names = ("worst", "mean")
    if isinstance(objective, str):
        if objective in names:
            return objective
        law = np.zeros(0)
    else:
        law = as_array("objective", objective)  # pyright: ignore[reportArgumentType]
        law = law.astype(np.float64).ravel() if law.dtype.kind in "biuf" else np.zeros(0)
    if law.size != num_values or not np.all(np.isfinite(law) & (law >= 0)) or not np.any(law):
        raise ValueError(
            f"objective must be 'worst', 'mean', or a histogram of {num_values} numbers >= 0 that "
            f"are not all 0, got {objective!r}."
        )
    return FrozenArray(check_probabilities(law, "objective"))


def law_of(objective: str | FrozenArray, num_values: int) -> Float[np.ndarray, " k"] | None:
    """The law of the users whose mean variance an objective is; None for the worst case."""
    if isinstance(objective, str):
        return None if objective == "worst" else np.full(num_values, 1 / num_values)
    return objective.values


@functools.lru_cache(maxsize=64)
def _solution(protocol: OptimizedStrategy) -> tuple[FiniteChannel, np.ndarray, np.ndarray]:
    """The channel, the prior and the decoder."""
    workload = protocol.workload.values
    gram = workload.T @ workload
    law = law_of(protocol.objective, protocol.num_values)
    if protocol.channel is None:
        outputs = protocol.num_outputs or 0
        settings = protocol.epsilon, outputs, law, protocol.num_steps, protocol.seed
        table = _searched(gram, settings, protocol.progress)
    else:
        table = protocol.channel
    channel = FiniteChannel(table, protocol.epsilon)
    realised = channel.weights() / 2.0**32
    prior = worst_prior(realised, gram) if law is None else law
    decoder = workload @ left_inverse(realised, prior)
    bias = np.abs(decoder @ realised.T - workload).max(axis=1)
    if bias.max() > _MAX_BIAS * np.abs(workload).max():
        what = f"num_outputs = {protocol.num_outputs}" if protocol.channel is None else "channel"
        raise ValueError(
            f"{what} must determine the answers: row {int(bias.argmax())} of the workload is not a "
            "combination of the columns of the channel. That takes as many reports as the rank of "
            "the workload, k at most."
        )
    return channel, prior, decoder


def _searched(
    gram: Float[np.ndarray, "k k"], settings: tuple[Any, ...], progress: bool
) -> Float[np.ndarray, "k m"]:
    num_steps = settings[3]
    if not progress:
        return optimize(gram, *settings, report=lambda steps: None)
    from ..engine._progress import progress_bar

    bar = progress_bar(num_steps)
    try:
        return optimize(gram, *settings, report=bar.advance)
    finally:
        bar.close()


@functools.lru_cache(maxsize=64)
def _moments(protocol: OptimizedStrategy) -> tuple[np.ndarray, np.ndarray]:
    law = protocol.randomizer.weights().T / 2.0**32
    decoder = protocol.decoder()
    mean = decoder @ law
    # Var = E c**2 - (E c)**2; about the mean over the reports, which leaves less to cancel
    centred = decoder - decoder.mean(axis=1, keepdims=True)
    return mean, np.square(centred) @ law - np.square(centred @ law)


@params
class OptimizedStrategyParams(Through[Count]):
    """The params of `OptimizedStrategy`: a pytree.

    Attributes:
      inner: the params of its channel, whose decoder makes answers instead of counts.
    """

    inner: Round[Count]

    @compiled_in_float64
    def estimate(self, outcome: Count, /) -> Float[Array, " q"]:
        """The estimated answers."""
        return self.inner.estimate(outcome) / outcome.sum().f64()
