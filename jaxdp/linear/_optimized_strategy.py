"""Linear queries: a channel found by optimization for the workload at hand."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._queries import AdditiveProtocol, check_workload
from .._spec import FrozenArray, check_epsilon, check_int
from .._x64 import compiled_in_float64, dot
from ..random import Count
from ..randomizers._finite_channel import MAX_ENTRIES, FiniteChannel, left_inverse, thresholds
from ..randomizers._finite_channel_params import FiniteChannelParams, joined, split
from ._strategy_descent import optimize, worst_prior

_MAX_BIAS = 1e-6  # of the largest answer: beyond, the channel does not determine the answers


@dataclasses.dataclass(frozen=True, slots=True)
class OptimizedStrategy(AdditiveProtocol):
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
      * Privacy: pure epsilon-LDP, exactly: that of the `FiniteChannel`, whose probabilities are
        integers over 2**32, whatever the search found.
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
      progress: whether the search shows a bar; needs `jaxdp[sweep]`. Not part of what is compared.

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

    workload: Any  # a FrozenArray, once constructed
    epsilon: float
    num_outputs: int | None = None
    objective: Any = "worst"  # a str or a FrozenArray, once constructed
    num_steps: int = 3000
    seed: int = 0
    channel: Any = None  # None or a FrozenArray, once constructed
    progress: bool = dataclasses.field(default=False, compare=False)

    def __post_init__(self):
        object.__setattr__(self, "workload", check_workload(self.workload))
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        k = self.num_values
        if k < 2:
            raise ValueError("workload must have at least 2 columns: of one value all is known.")
        check_int("num_steps", self.num_steps, low=1)
        check_int("seed", self.seed, low=0, high=2**32 - 1)
        object.__setattr__(self, "objective", _check_objective(self.objective, k))
        if self.channel is not None:
            given = FiniteChannel(self.channel, self.epsilon)
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
            object.__setattr__(self, "channel", given.table)
            object.__setattr__(self, "num_outputs", given.num_reports)
            _solution(self)
        else:
            outputs = 4 * k if self.num_outputs is None else self.num_outputs
            high = max(2, MAX_ENTRIES // k)
            object.__setattr__(
                self, "num_outputs", check_int("num_outputs", outputs, low=2, high=high)
            )

    @property
    def randomizer(self) -> FiniteChannel:
        """What a user runs; it is searched for at first use."""
        return _solution(self)[0]

    def prior(self) -> np.ndarray:
        """The law of users for which the decoder has the least variance, float64[k].

        For the worst case it is the one whose users are the hardest; otherwise the objective's.
        """
        return _solution(self)[1]

    def decoder(self) -> np.ndarray:
        """V, what each report contributes to the answers, float64[q, m]."""
        return _solution(self)[2]

    def optimized(self) -> "OptimizedStrategy":
        """The same protocol with its channel written out: nothing is left to search."""
        return dataclasses.replace(self, channel=self.randomizer.table)

    def build(self, word_bits: int = 32) -> "OptimizedStrategyParams":
        """The params."""
        cumulative = thresholds(self.randomizer, word_bits)
        return OptimizedStrategyParams(cumulative, split(self.decoder()), word_bits)

    def exact_epsilon(self) -> float:
        """The realised privacy parameter: that of `randomizer`."""
        return self.randomizer.exact_epsilon()

    def contributions(self) -> tuple[np.ndarray, np.ndarray]:
        """The mean and the variance of one user's contribution to each answer; exact.

        Returns:
          float64[q, k] and float64[q, k]: column v for a user who holds v.
        """
        return _moments(self)


def _check_objective(objective: Any, num_values: int) -> Any:
    """The objective: a name, or a law as a FrozenArray."""
    names = ("worst", "mean")
    if isinstance(objective, str):
        if objective in names:
            return objective
        law = np.zeros(0)
    else:
        values = objective.values if isinstance(objective, FrozenArray) else objective
        law = np.asarray(values)
        law = law.astype(np.float64).ravel() if law.dtype.kind in "biuf" else np.zeros(0)
    if law.size != num_values or not np.all(np.isfinite(law) & (law >= 0)) or law.sum() <= 0:
        raise ValueError(
            f"objective must be 'worst', 'mean', or a histogram of {num_values} numbers >= 0 that "
            f"are not all 0, got {objective!r}."
        )
    return FrozenArray(law / law.sum())


def _law(objective: Any, num_values: int) -> np.ndarray | None:
    if objective == "worst":
        return None
    if objective == "mean":
        return np.full(num_values, 1 / num_values)
    return objective.values


@functools.lru_cache(maxsize=64)
def _solution(protocol: OptimizedStrategy) -> tuple[FiniteChannel, np.ndarray, np.ndarray]:
    """The channel, the prior and the decoder."""
    workload = protocol.workload.values
    gram = workload.T @ workload
    law = _law(protocol.objective, protocol.num_values)
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
            f"{what} must determine the answers: row {int(bias.argmax())} of the workload is no "
            "combination of the columns of the channel; that takes as many reports as the rank of "
            "the workload, k at most."
        )
    return channel, prior, decoder


def _searched(gram: np.ndarray, settings: tuple, progress: bool) -> np.ndarray:
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
    centred = decoder - decoder.mean(axis=1, keepdims=True)
    return mean, np.square(centred) @ law - np.square(centred @ law)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class OptimizedStrategyParams(FiniteChannelParams):
    """The params of `OptimizedStrategy`: those of its channel, whose decoder gives answers.

    Attributes:
      thresholds: uint32[k, m - 1], the cumulative weights of each row but for the last.
      decoder: float32[2, q, m], the sum of which makes answers of the reports' shares.
      word_bits: words are uniform on [0, 2**word_bits); static, 32 but for enumerable twins.
    """

    @compiled_in_float64
    def estimate(self, tally: Count):
        """The estimated answers, float[q]."""
        assert self.decoder is not None
        reports = tally.f64()
        return dot(joined(self.decoder), reports) / jnp.sum(reports)
