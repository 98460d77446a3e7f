"""Agnostic PAC learning: the losses of all concepts of a class, estimated privately."""

from ._agnostic import AgnosticLearner as AgnosticLearner
from ._examples import check_concepts as check_concepts
from ._examples import labelled as labelled
from ._examples import labelled_histogram as labelled_histogram
from ._learner import Learner as Learner
from ._learner import select as select
from ._random_concept import RandomConcept as RandomConcept
