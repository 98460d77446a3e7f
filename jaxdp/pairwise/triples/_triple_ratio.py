"""Statistics of triples among those triples that meet a condition, which is private too."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from ..._contract import Spec, Through, Tree, field, params, spec
from ..._plausible import plausible_counts
from ..._prediction import Kind, Prediction
from ..._queries import ORACLE
from ..._spec import check_counts, check_int, check_probabilities, check_real
from ..._x64 import as_float64, compiled_in_float64
from ...population import Population
from ...random import Count
from ...randomizers import FrequencyOracle
from ._tensors import KERNEL
from ._triple_protocol import num_triples
from ._triple_statistic import TripleStatistic, TripleStatisticParams

_ROUNDING = 1e-14  # of a sum over triples, which may be left where it is 0


@spec
class TripleRatio(Spec["TripleRatioParams"]):
    """The mean of a kernel over the triples of users that meet a condition, from one report each.

    It is `A = mean T / mean B` over all triples of different users, with B the condition, 1 where a
    triple counts and 0 elsewhere, or a weight. Both means are estimated as by `TripleStatistic`,
    from the same reports, and the estimate is their ratio. So the volume under the ROC surface is
    estimated where the sizes of the classes are private: `volume_under_roc(d)` among triples of one
    user of each class.

    Formal guarantees:
      * Privacy: that of the oracle, `oracle.exact_epsilon()`; users send nothing else.
      * Bias: that of a ratio of two unbiased estimates, O(1/n).
      * `variance(counts)`: the delta method. To first order the error is that of the unbiased
        estimate of the mean of `T - A B`, which is 0, over the mean of B: its exact variance, in
        all of Hoeffding's parts, over the square of that mean.
      * `worst_case_variance(n, share)`: a proven bound on that over all data sets in which the mean
        of B is at least `share`.

    Edge cases:
      ====================================  ======================================================
      no triple meets the condition         ValueError: the statistic is undefined
      its estimated share is not positive   taken as that of three users: the estimate is large and
                                            says nothing; rare where `relative_error` is below 0.2
      a kernel that is not 0 where B is     ValueError
      oracle and kernel do not fit          as `TripleStatistic`
      ====================================  ======================================================

    Args:
      kernel: T, float[k, k, k] with k at most 64, averaged over the orders of its arguments; 0
        where the condition is.
      condition: B >= 0, float[k, k, k], averaged likewise; not 0 everywhere.
      oracle: a frequency oracle on k values whose reports are counted, such as `KRR`,
        `AffineSubsets` or `HadamardResponse`.

    Raises:
      ValueError: an argument is out of range, or the kernels do not fit each other or the oracle.
      TypeError: `oracle` is not the spec of a frequency oracle.

    Example:
      >>> import jax, jaxdp
      >>> from jaxdp.pairwise import TripleRatio, one_of_each_class, volume_under_roc
      >>> from jaxdp.randomizers import KRR
      >>> volume = TripleRatio(volume_under_roc(2), one_of_each_class(2), KRR(6, 2.0))
      >>> counts = [30_000, 10_000, 20_000, 20_000, 10_000, 30_000]  # of each class, scores 0 and 1
      >>> users = jaxdp.Population.from_histogram(counts)
      >>> estimate = jaxdp.run(volume, users, jax.random.key(0))
      >>> error = abs(float(estimate) - float(volume.truth(counts)))
      >>> error < 4 * float(volume.variance(counts)) ** 0.5
      True

    References:
      As `TripleStatistic`.
    """

    kernel: Any = field(KERNEL)
    condition: Any = field(KERNEL)
    oracle: FrequencyOracle[Any] = field(ORACLE)

    def validate(self) -> None:
        """Raises ValueError unless the kernels and the oracle fit each other."""
        tensor, among = self.kernel.values, self.condition.values
        if among.shape != tensor.shape:
            raise ValueError(
                f"condition must have the shape of kernel, {tensor.shape}, got {among.shape}."
            )
        if among.min() < 0 or among.max() <= 0:
            raise ValueError(
                "condition must be at least 0, and above it for some triple, got entries from "
                f"{among.min()} to {among.max()}."
            )
        if np.any(tensor[among == 0]):
            raise ValueError(
                "kernel must be 0 wherever condition is: multiply it by the condition, of triples "
                "that count alone."
            )
        _ = self._numerator  # checks the oracle

    @property
    def num_values(self) -> int:
        """k, the number of values."""
        return len(self.kernel.values)

    @property
    def epsilon(self) -> float:
        """The realised privacy parameter, `exact_epsilon()`."""
        return self.exact_epsilon()

    @property
    def reporter(self) -> FrequencyOracle[Any]:
        """The oracle."""
        return self.oracle

    @property
    def variance_kind(self) -> Kind:
        """The delta method."""
        return "delta"

    def exact_epsilon(self) -> float:
        """The realised privacy parameter, the oracle's."""
        return self.oracle.exact_epsilon()

    def build(self, word_bits: int = 32) -> "TripleRatioParams":
        """The params."""
        numerator = self._numerator.build(word_bits)
        return TripleRatioParams(
            numerator.inner,
            numerator,
            self._denominator.build(word_bits),
            np.asarray(6 * self._least),
        )

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless the users' values are bins, and enough for a triple."""
        self._numerator.check_population(population)

    def truth(self, counts: ArrayLike, inputs: Tree = None) -> Float[np.ndarray, ""]:
        """The target: the mean of the kernel over the triples of users that meet the condition.

        Args:
          counts: int[k], the number of users with each value.
          inputs: None; values are bins.
        """
        users = check_counts(counts)
        return np.asarray(self._numerator.truth(users, inputs) / self._share(users, inputs))

    def population_truth(
        self, probabilities: ArrayLike, num_users: int, inputs: Tree = None
    ) -> Float[np.ndarray, ""]:
        """The target for users drawn from a distribution: the mean over three new users that count.

        Args:
          probabilities: float[k], of each value.
          num_users: n; the target does not depend on it.
          inputs: None; values are bins.
        """
        p = check_probabilities(probabilities)
        above = self._numerator.population_truth(p, num_users, inputs)
        return np.asarray(above / self._population_share(p, inputs))

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> Float[np.ndarray, ""]:
        """The variance for given users by the delta method, in O(k**5) steps.

        Args:
          counts: int[k], the number of users with each value.
          inputs: None; values are bins.
        """
        users = check_counts(counts)
        below = self._share(users, inputs)
        linear = self._linear(float(self.truth(users, inputs)))
        return np.asarray(linear.variance(users, inputs) / below**2)

    def population_variance(
        self, probabilities: ArrayLike, num_users: int, inputs: Tree = None
    ) -> Float[np.ndarray, ""]:
        """The variance about `population_truth` for independent users, by the delta method.

        Args:
          probabilities: float[k], of each value.
          num_users: n.
          inputs: None; values are bins.
        """
        p = check_probabilities(probabilities)
        below = self._population_share(p, inputs)
        linear = self._linear(float(self.population_truth(p, num_users, inputs)))
        return np.asarray(linear.population_variance(p, num_users, inputs) / below**2)

    def relative_error(self, counts: ArrayLike) -> float:
        """The exact relative error of the estimated share of triples that meet the condition.

        The delta method holds where it is small; at 0.2 the share is 5 deviations from 0.

        Args:
          counts: int[k], the number of users with each value.
        """
        users = check_counts(counts)
        error = float(self._denominator.variance(users)) ** 0.5
        return error / self._share(users, None)

    def reported_variance(self, outcome: Tree, num_users: int) -> Float[np.ndarray, ""] | None:
        """The variance for the users nearest to the estimated ones; None where none would count."""
        estimate = np.asarray(self.oracle.built.estimate(outcome))
        try:
            return self.variance(plausible_counts(estimate, num_users))
        except ValueError:  # none counts
            return None

    def worst_case_variance(self, num_users: int, share: float | None = None) -> Prediction:
        """A proven bound on `variance` over the data sets of a size in which enough triples count.

        Args:
          num_users: n, at least 3.
          share: the least mean of the condition, in (0, its largest entry]; None for the least
            that is not 0, of one triple.
        """
        n = check_int("num_users", num_users, low=3)
        among = self.condition.values
        if share is None:
            share = 6 * self._least / num_triples(n)
        share = check_real("share", share, low=0.0, high=float(among.max()), open_ends=False)
        if share == 0:
            raise ValueError("share must be above 0, got 0: then the statistic is undefined.")
        # The variance is a convex function of A, which is between the extremes of T / B.
        ratios = self.kernel.values[among > 0] / among[among > 0]
        ends = {float(ratios.min()), float(ratios.max())}
        worst = max(float(self._linear(end).worst_case_variance(n)) for end in ends)
        return Prediction(worst / share**2, "bound")

    @property
    def _least(self) -> float:
        """The least entry of the condition that is not 0."""
        among = self.condition.values
        return float(among[among > 0].min())

    @property
    def _numerator(self) -> TripleStatistic:
        return TripleStatistic(self.kernel.values, self.oracle)

    @property
    def _denominator(self) -> TripleStatistic:
        return TripleStatistic(self.condition.values, self.oracle)

    def _linear(self, ratio: float) -> TripleStatistic:
        """The statistic of `T - A B`, whose mean is 0 at the ratio A."""
        return TripleStatistic(self.kernel.values - ratio * self.condition.values, self.oracle)

    def _share(self, counts: np.ndarray, inputs: Tree) -> float:
        """The mean of the condition over triples of users, or raises where none meets it."""
        denominator = self._denominator
        below = float(denominator.truth(counts, inputs))
        # Triples of fewer than three users were subtracted, and leave their rounding.
        return _positive(
            below, _ROUNDING * float(denominator.population_truth(counts / counts.sum(), 3))
        )

    def _population_share(self, probabilities: np.ndarray, inputs: Tree) -> float:
        return _positive(float(self._denominator.population_truth(probabilities, 3, inputs)), 0.0)


def _positive(share: float, rounding: float) -> float:
    if share <= rounding:
        raise ValueError(
            "counts must be of users some triple of whom meets the condition: the statistic is "
            "undefined."
        )
    return share


@params
class TripleRatioParams(Through[Count]):
    """The params of `TripleRatio`: a pytree. Users do what the oracle says.

    Attributes:
      inner: the params of the frequency oracle.
      numerator: those of the kernel.
      denominator: those of the condition.
      least: what a set of three users adds at least to the sum over triples, if it counts.
    """

    inner: Any  # Round of a frequency oracle
    numerator: TripleStatisticParams
    denominator: TripleStatisticParams
    least: Float[Array | np.ndarray, ""]

    @compiled_in_float64
    def estimate(self, outcome: Count, /) -> Float[Array, ""]:
        """The estimated ratio, from the counts of the reports."""
        (least,) = as_float64(self.least)
        n = jnp.sum(outcome.f64())
        share = self.denominator.estimate(outcome)
        # Where reports say that less than one set of three counts, one does.
        return self.numerator.estimate(outcome) / jnp.maximum(
            share, least / (n * (n - 1) * (n - 2))
        )
