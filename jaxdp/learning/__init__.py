"""Agnostic PAC learning: the losses of all concepts of a class, estimated privately."""

from ._agnostic import AgnosticLearner as AgnosticLearner
from ._learner import Learner as Learner
from ._random_concept import RandomConcept as RandomConcept
