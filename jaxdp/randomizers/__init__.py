"""Local randomizers: what one user runs."""

from ._binary import BinaryResponse as BinaryResponse
from ._binary import BinaryResponseParams as BinaryResponseParams
from ._discrete_laplace import DiscreteLaplace as DiscreteLaplace
from ._discrete_laplace import DiscreteLaplaceParams as DiscreteLaplaceParams
from ._finite_channel import FiniteChannel as FiniteChannel
from ._finite_channel_params import FiniteChannelParams as FiniteChannelParams
from ._gaussian import Gaussian as Gaussian
from ._gaussian import GaussianParams as GaussianParams
from ._gaussian_rejection import GaussianRejection as GaussianRejection
from ._gaussian_rejection_params import GaussianRejectionParams as GaussianRejectionParams
from ._hadamard_bit import HadamardBit as HadamardBit
from ._hadamard_bit import HadamardBitParams as HadamardBitParams
from ._hadamard_response import HadamardResponse as HadamardResponse
from ._hadamard_response import HadamardResponseParams as HadamardResponseParams
from ._krr import KRR as KRR
from ._krr import KRRParams as KRRParams
from ._l2_ball import L2Ball as L2Ball
from ._l2_ball import L2BallParams as L2BallParams
from ._laplace import Laplace as Laplace
from ._laplace import LaplaceParams as LaplaceParams
from ._local_hashing import LocalHashing as LocalHashing
from ._local_hashing import LocalHashingParams as LocalHashingParams
from ._piecewise import Piecewise as Piecewise
from ._piecewise import PiecewiseParams as PiecewiseParams
from ._priv_unit import PrivUnit as PrivUnit
from ._priv_unit import PrivUnitParams as PrivUnitParams
from ._priv_unit_g import PrivUnitG as PrivUnitG
from ._priv_unit_g import PrivUnitGParams as PrivUnitGParams
from ._proj_unit import ProjUnit as ProjUnit
from ._proj_unit import ProjUnitParams as ProjUnitParams
from ._projective_geometry import ProjectiveGeometryResponse as ProjectiveGeometryResponse
from ._projective_geometry import (
    ProjectiveGeometryResponseParams as ProjectiveGeometryResponseParams,
)
from ._randomizer import Randomizer as Randomizer
from ._rappor import Rappor as Rappor
from ._rappor_params import RapporParams as RapporParams
from ._subset_selection import SubsetSelection as SubsetSelection
from ._subset_selection_params import SubsetSelectionParams as SubsetSelectionParams
from ._unary_encoding import UnaryEncoding as UnaryEncoding
from ._unary_encoding import UnaryEncodingParams as UnaryEncodingParams
