"""Mechanisms of the central model, where a trusted curator holds the users' values."""

from ._convex_set import ConvexSet as ConvexSet
from ._convex_set import Intersection as Intersection
from ._cosine_similarity import CosineSet as CosineSet
from ._cosine_similarity import CosineSimilarity as CosineSimilarity
from ._cosine_similarity import neighbor_recall as neighbor_recall
from ._factorization_mechanism import FactorizationMechanism as FactorizationMechanism
from ._marginals import Marginals as Marginals
from ._marginals import MarginalsRelease as MarginalsRelease
from ._moment_set import MomentSet as MomentSet
from ._parities import MarginalsConsistency as MarginalsConsistency
from ._parities import marginals_from_parities as marginals_from_parities
from ._parities import parities_from_marginals as parities_from_marginals
from ._perturb_and_project import PerturbAndProject as PerturbAndProject
from ._perturb_and_project import Release as Release
