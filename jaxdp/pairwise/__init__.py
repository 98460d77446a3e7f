"""Protocols for statistics of pairs and triples of users, and their kernels."""

from .. import _hints
from ._auc_protocol import AUCProtocol as AUCProtocol
from ._best import RankedStatistic as RankedStatistic
from ._best import StatisticRanking as StatisticRanking
from ._best import best as best
from ._candidates import candidates as candidates
from ._on_grid import OnGrid as OnGrid
from ._protocol import PairwiseProtocol as PairwiseProtocol
from .auc._bilinear_auc import BilinearAUC as BilinearAUC
from .auc._hierarchical_auc import HierarchicalAUC as HierarchicalAUC
from .kernels._auc import AUC as AUC
from .kernels._gini import CollisionEntropy as CollisionEntropy
from .kernels._gini import GiniCoefficient as GiniCoefficient
from .kernels._gini import GiniDiversity as GiniDiversity
from .kernels._gini import GiniMeanDifference as GiniMeanDifference
from .kernels._grid import Grid as Grid
from .kernels._grid import ProductGrid as ProductGrid
from .kernels._grid import balanced_num_bins as balanced_num_bins
from .kernels._grid_kernel import GridKernel as GridKernel
from .kernels._kendall import KendallTau as KendallTau
from .kernels._kernel import Kernel as Kernel
from .kernels._pair_kernel import MatrixKernel as MatrixKernel
from .kernels._pair_kernel import PairKernel as PairKernel
from .oracles._oracle_statistic import OracleStatistic as OracleStatistic
from .oracles._quantized_rr import QuantizedRR as QuantizedRR
from .oracles._queries_from_pairs import QueriesFromPairs as QueriesFromPairs
from .rounds._one_step import OneStep as OneStep
from .rounds._rounds import RoundsOutcome as RoundsOutcome
from .rounds._three_round import ThreeRound as ThreeRound
from .rounds._two_round import TwoRound as TwoRound
from .triples._tensors import mean_range as mean_range
from .triples._tensors import one_of_each_class as one_of_each_class
from .triples._tensors import third_l_moment as third_l_moment
from .triples._tensors import triangles as triangles
from .triples._tensors import volume_under_roc as volume_under_roc
from .triples._triple_form import TripleForm as TripleForm
from .triples._triple_ratio import TripleRatio as TripleRatio
from .triples._triple_statistic import TripleStatistic as TripleStatistic
from .vectors._one_report import OneReport as OneReport
from .vectors._two_report import TwoReport as TwoReport


def __getattr__(name: str) -> object:
    raise _hints.missing(__name__, name)
