"""Kernels: what a statistic averages over pairs of users, and the grids that values are put on."""

from ._auc import AUC as AUC
from ._exact import FORM as FORM
from ._exact import Form as Form
from ._exact import num_pairs as num_pairs
from ._gini import CollisionEntropy as CollisionEntropy
from ._gini import GiniCoefficient as GiniCoefficient
from ._gini import GiniDiversity as GiniDiversity
from ._gini import GiniMeanDifference as GiniMeanDifference
from ._grid import Grid as Grid
from ._grid import ProductGrid as ProductGrid
from ._grid import balanced_num_bins as balanced_num_bins
from ._kendall import KendallTau as KendallTau
from ._kernel import Kernel as Kernel
from ._kernel import check_matrix as check_matrix
from ._pair_kernel import KERNEL as KERNEL
from ._pair_kernel import NUM_VALUES as NUM_VALUES
from ._pair_kernel import MatrixKernel as MatrixKernel
from ._pair_kernel import PairKernel as PairKernel
from ._pair_kernel import as_kernel as as_kernel
