"""What malicious users can do: the largest shift of an answer, and simulations that show it."""

from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from .._checks import By, Instance, Integer
from .._contract import Round, Spec, Through, Tree, field, params, round_of, spec
from .._spec import MAX_USERS, as_array, check_int
from ..population import Population
from ..random import Count, merge


def influence(
    protocol: Spec[Any], num_malicious: int, num_users: int
) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
    """Exact bound on what m users who send anything can add to each entry of an estimate.

    An estimate is a sum of what single reports stand for, or their mean. An honest user adds 1 to
    the count of its value on average, and at most its value over n to a mean; a malicious one adds
    what the report stands for that moves the entry most, at small epsilon far more. Entries are
    looked at one by one: the same reports need not move all of them so far.

    Args:
      protocol: a randomizer, or a protocol of one round whose estimate is linear in its reports.
      num_malicious: m.
      num_users: n, the malicious ones among them.

    Returns:
      The least and the largest amount that the m can add to each entry, float64 of the estimate's
      shape; an estimate without them lies within these amounts of the one with them. Means and
      shares are those of all n reports.

    Raises:
      ValueError: a number is out of range, or the reports that move an entry most are not known.
      TypeError: an argument is of the wrong kind.

    Example:
      >>> from jaxdp.randomizers import KRR
      >>> from jaxdp.reports import influence
      >>> low, high = influence(KRR(10, 1.0), num_malicious=100, num_users=10_000)
      >>> print(low.round(1)[0], high.round(1)[0])
      -58.2 623.8

    References:
      Cheu, Smith, Ullman (2021), Manipulation attacks in local differential privacy; Cao, Jia, Gong
      (2021), Data poisoning attacks to local differential privacy protocols.
    """
    held, tallies = _linear_round(protocol)
    num_users = check_int("num_users", num_users, low=1, high=MAX_USERS)
    share = check_int("num_malicious", num_malicious, low=0, high=num_users) / num_users
    # The estimate of n equal reports is n times what one stands for, or it, where it is a mean.
    estimate = jax.jit(jax.vmap(held.estimate))
    found = []
    for part in tallies:
        with jax.enable_x64(True):
            found.append(np.asarray(estimate(_times(part, num_users))))
    every = share * np.concatenate(found)
    return every.min(axis=0), every.max(axis=0)


def _linear_round(protocol: object) -> tuple[Round[Any], Iterable[Tree]]:
    """The round of a protocol, and the tallies of its extreme reports, some at a time."""
    if not isinstance(protocol, Spec):
        raise TypeError(
            f"protocol must be a spec, such as KRR(10, 1.0), got {type(protocol).__name__}."
        )
    held = round_of(protocol.built)
    tallies = None if held is None else held.extreme_tallies()
    if held is None or tallies is None:
        raise ValueError(
            f"protocol must be of one round with known extreme reports, got {protocol!r}: which "
            "reports move its answers most is not known; simulate an attack with `Attacked`."
        )
    return held, tallies


def _times(tally: Tree, number: int) -> Tree:
    """The tally of each report so many times."""

    def repeated(count: Count) -> Count:
        values = count.numpy()
        if values.size and int(abs(values).max()) * number >= 2**63:
            raise ValueError(f"num_users must be smaller, got {number}: a sum would wrap.")
        return Count.of(values * number)

    return jax.tree.map(repeated, tally, is_leaf=lambda node: isinstance(node, Count))


_PROTOCOL = Instance(Spec, "a randomizer, or a protocol of one round")


def _check_report(name: str, value: Any) -> tuple[int, ...]:
    array = as_array(name, value)
    if array.dtype.kind not in "iu" or array.ndim > 1:
        raise ValueError(f"{name} must be one report, an integer or several, got {value!r}.")
    return tuple(map(int, array.ravel()))


@spec
class Attacked(Spec["AttackedParams"]):
    """A protocol under attack: malicious users send one report of their choice.

    The users of the population are honest, and the malicious ones come on top of them. The target
    is that of the honest ones, so that errors hold what the attack does.

    Formal guarantees:
      * Privacy: honest users run what they run without the attack.
      * Law: that of the protocol, with the tally of `num_malicious` equal reports added; both paths
        of `simulate` are exact.

    Args:
      protocol: a randomizer, or a protocol of one round.
      report: what the malicious users send: an integer, or the integers of a report.
      num_malicious: how many they are.

    Raises:
      ValueError: the report is not one of the protocol, or an argument is out of range.
      TypeError: an argument is of the wrong kind.

    Example:
      >>> import jax, jaxdp
      >>> from jaxdp.randomizers import KRR
      >>> from jaxdp.reports import Attacked
      >>> honest = jaxdp.Population.from_histogram([5000] * 10)
      >>> attacked = Attacked(KRR(10, 1.0), report=3, num_malicious=1000)
      >>> trials = jaxdp.simulate(attacked, honest, jax.random.key(0), num_trials=400)
      >>> bool(abs(trials.bias[3] - 6237.6) < 5 * trials.bias_stderr[3])
      True

    References:
      Cheu, Smith, Ullman (2021), Manipulation attacks in local differential privacy.
    """

    protocol: Spec[Any] = field(_PROTOCOL)
    report: tuple[int, ...] = field(By(_check_report, (0.5, [[1]], "a")))
    num_malicious: int = field(Integer(0, 2**53))

    def validate(self) -> None:
        """Raises ValueError unless the report is one of the protocol's."""
        held = round_of(self.protocol.built)
        if held is None or held.report_limits is None:
            raise ValueError(
                f"protocol must be of one round with reports to send, got {self.protocol!r}."
            )
        leaves = jax.tree.leaves(held.report)
        low, high = (jax.tree.leaves(limit) for limit in held.report_limits)
        if len(leaves) != 1 or len(self.report) != int(np.prod(leaves[0].shape)):
            raise ValueError(
                f"report must have the integers of one report, of shape "
                f"{[list(leaf.shape) for leaf in leaves]}, got {self.report}."
            )
        given = np.array(self.report).reshape(leaves[0].shape)
        if np.any(given < low[0]) or np.any(given > high[0]):
            raise ValueError(f"report must be from {low[0]} to {high[0]}, got {self.report}.")

    def build(self, word_bits: int = 32) -> "AttackedParams":
        """Builds the params, which users and the analyst run."""
        inner = self.protocol.build(word_bits)
        leaf = inner.report
        report = jnp.asarray(np.array(self.report).reshape(leaf.shape).astype(leaf.dtype))
        return AttackedParams(inner, _times(inner.tally(report[None]), self.num_malicious))

    def exact_epsilon(self) -> float:
        """Returns the exact epsilon of the protocol."""
        return self.protocol.exact_epsilon()

    def exact_delta(self) -> float:
        """Returns the exact delta of the protocol."""
        return self.protocol.exact_delta()

    @property
    def answers_bins(self) -> bool:
        """Whether the entries of the protocol's estimate are of bins."""
        return self.protocol.answers_bins

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless the honest users' values fit the protocol."""
        self.protocol.check_population(population)

    def truth(self, counts: ArrayLike, inputs: Tree = None) -> np.ndarray | None:
        """The target of the honest users."""
        return self.protocol.truth(counts, inputs)

    def population_truth(
        self, probabilities: ArrayLike, num_users: int, inputs: Tree = None
    ) -> np.ndarray | None:
        """The target of honest users who are drawn from a distribution."""
        return self.protocol.population_truth(probabilities, num_users, inputs)


@params
class AttackedParams(Through[Tree]):
    """The params of `Attacked`: a pytree.

    Attributes:
      inner: the params of the protocol, which honest users run.
      planted: the tally of the malicious users.
    """

    inner: Round[Tree]
    planted: Tree

    def estimate(self, outcome: Tree, /) -> Any:
        """The estimate of the reports of all users."""
        return self.inner.estimate(merge(outcome, self.planted))
