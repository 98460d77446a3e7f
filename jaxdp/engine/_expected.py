"""Errors that have no closed form, by simulation for a prior."""

import abc
from typing import Any, Literal

import jax
from numpy.typing import ArrayLike

from .._prediction import Prediction
from .._spec import check_choice, check_int, check_key
from ..population import Population
from ._simulate import simulate


class SimulatedErrors(abc.ABC):
    """Base of the specs whose estimate is post-processed, so that its error has no closed form.

    What `variance` and its kin say of it is a bound; `expected_error` is the error itself, for
    users that are like a prior.
    """

    __slots__ = ()

    @abc.abstractmethod
    def prior_users(self, prior: ArrayLike | str, num_users: int) -> Population:
        """So many users of whom a prior is true.

        Args:
          prior: as of `expected_error`.
          num_users: n.
        """

    def expected_error(
        self,
        prior: ArrayLike | str,
        num_users: int,
        *,
        objective: Literal["mean", "max"] = "mean",
        num_trials: int = 400,
        key: jax.Array | None = None,
    ) -> Prediction:
        """The mean squared error for users like these, by a batch of simulated trials.

        Args:
          prior: what the users hold. Of bins: float[k] >= 0, in any proportion, such as an earlier
            histogram; "zipf", shares in proportion to one over the number of the value; "uniform",
            the maximum-entropy prior if nothing is known. If means or other sums of shares are
            known, the prior is `jaxdp.population.maximum_entropy`. Of binary features: float[2**n]
            for the rows of features in binary order, first feature first; float[m, n], rows that
            are equally frequent; or "uniform", for up to 12 features.
          num_users: n. The prior is rounded to whole users, the same in every trial.
          objective: "mean" over the answers, or "max" for the answer with the largest error.
          num_trials: at least 2. The relative standard error is about `sqrt(2 / num_trials)` for
            one answer, and far less for the mean of many.
          key: a typed key; None for a fixed one, so that protocols are compared on common random
            numbers.

        Returns:
          A `Prediction` of kind "simulated", with its standard error `stderr`.

        Raises:
          ValueError: the prior does not fit, or a number is out of range.
          TypeError: an argument is of the wrong kind.
        """
        check_choice("objective", objective, ("mean", "max"))
        num_trials = check_int("num_trials", num_trials, low=2)
        key = jax.random.key(0) if key is None else check_key(key)
        users = self.prior_users(prior, check_int("num_users", num_users, low=1))
        protocol: Any = self
        return simulate(protocol, users, key, num_trials=num_trials).error(objective)
