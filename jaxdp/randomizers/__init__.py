"""Local randomizers: what one user runs.

The classes without a mechanism of their own are bases: a randomizer written from them works
wherever one of ours does.
"""

from .. import _hints
from ._affine_hashing import AffineHashing as AffineHashing
from ._affine_subsets import AffineSubsets as AffineSubsets
from ._binary import BinaryResponse as BinaryResponse
from ._candidate import CandidateResponse as CandidateResponse
from ._count_noise import CountNoise as CountNoise
from ._count_noise import TableNoise as TableNoise
from ._discrete_laplace import DiscreteLaplace as DiscreteLaplace
from ._exact import exp_lower as exp_lower
from ._exact import log_upper as log_upper
from ._finite_channel import FiniteChannel as FiniteChannel
from ._gaussian import Gaussian as Gaussian
from ._gaussian_rejection import GaussianRejection as GaussianRejection
from ._hadamard_bit import HadamardBit as HadamardBit
from ._hadamard_response import HadamardResponse as HadamardResponse
from ._krr import KRR as KRR
from ._l2_ball import L2Ball as L2Ball
from ._laplace import Laplace as Laplace
from ._local_hashing import LocalHashing as LocalHashing
from ._mean import MeanRandomizer as MeanRandomizer
from ._mean import MeanRound as MeanRound
from ._mean import SelfMoments as SelfMoments
from ._mean import Tail as Tail
from ._memoised import Memoised as Memoised
from ._oracles import FREQUENCY_ORACLES as FREQUENCY_ORACLES
from ._oracles import frequency_oracles as frequency_oracles
from ._params import CountedRound as CountedRound
from ._piecewise import Piecewise as Piecewise
from ._priv_unit import PrivUnit as PrivUnit
from ._priv_unit_g import PrivUnitG as PrivUnitG
from ._proj_unit import ProjUnit as ProjUnit
from ._projective_geometry import ProjectiveGeometryResponse as ProjectiveGeometryResponse
from ._randomizer import Randomizer as Randomizer
from ._rappor import Rappor as Rappor
from ._subset_selection import SubsetSelection as SubsetSelection
from ._support import FrequencyOracle as FrequencyOracle
from ._support import LinearOracle as LinearOracle
from ._support import SupportOracle as SupportOracle
from ._support import SupportRound as SupportRound
from ._unary_encoding import UnaryEncoding as UnaryEncoding
from ._vector import VectorRandomizer as VectorRandomizer
from ._vector import VectorRound as VectorRound


def __getattr__(name: str) -> object:
    raise _hints.missing(__name__, name)
