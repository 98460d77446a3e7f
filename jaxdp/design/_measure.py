"""The error of a protocol, in the terms that a plan is made in."""

import dataclasses
import math
from typing import Any

import jax

from .._prediction import Prediction
from ._option import Goal, Trust, estimator
from ._question import Data, Question


@dataclasses.dataclass(frozen=True)
class Measure:
    """Definition of an error: a question's answers, a goal that combines them, and the data.

    Attributes:
      question: what is asked.
      goal: how errors of answers become one number.
      data: what users hold.
      key: of all simulations, so that they have their random numbers in common.
    """

    question: Question
    goal: Goal
    data: Data
    key: jax.Array

    def predicted(self, protocol: Any, num_users: int, trust: Trust = "local") -> Prediction:
        """Computes the error by the protocol's formulas.

        Raises:
          ValueError: they have no finite error.
        """
        users = self.question.users(self.data, num_users)
        found = self.goal.of(self.question.errors(estimator(protocol, trust), num_users, users))
        if not math.isfinite(found):
            raise ValueError("predicts no finite error.")
        return found

    def simulated(self, protocol: Any, num_users: int, num_trials: int) -> Prediction:
        """Simulates the error; the data must be given."""
        users = self.question.users(self.data, num_users)
        assert users is not None, "the worst data are not simulated"
        return self.goal.of_trials(self.question.trials(protocol, users, self.key, num_trials))
