"""Protocols for statistics of pairs of users, and their kernels."""

from ._auc import AUC as AUC
from ._gini import CollisionEntropy as CollisionEntropy
from ._gini import GiniDiversity as GiniDiversity
from ._gini import GiniMeanDifference as GiniMeanDifference
from ._grid import Grid as Grid
from ._grid import ProductGrid as ProductGrid
from ._grid import balanced_num_bins as balanced_num_bins
from ._kendall import KendallTau as KendallTau
from ._kernel import Kernel as Kernel
from ._pair_kernel import MatrixKernel as MatrixKernel
from ._pair_kernel import PairKernel as PairKernel
from ._quantized_rr import QuantizedRR as QuantizedRR
from ._quantized_rr_params import QuantizedRRParams as QuantizedRRParams
