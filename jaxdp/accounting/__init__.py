"""Privacy accounting: noise calibration, composition, amplification by shuffling.

All functions work on the host, in float64. What is a guarantee is rounded up.
"""

from ._composition import Guarantee as Guarantee
from ._composition import advanced_composition as advanced_composition
from ._composition import basic_composition as basic_composition
from ._composition import optimal_composition as optimal_composition
from ._composition import optimal_delta as optimal_delta
from ._composition import parallel_composition as parallel_composition
from ._composition import split_epsilon as split_epsilon
from ._gaussian import dithered_gaussian_delta as dithered_gaussian_delta
from ._gaussian import gaussian_composition as gaussian_composition
from ._gaussian import gaussian_delta as gaussian_delta
from ._gaussian import gaussian_sigma as gaussian_sigma
from ._gaussian_pairs import gaussian_pairs as gaussian_pairs
from ._opposite import opposite_pairs as opposite_pairs
from ._privacy_loss import PrivacyLoss as PrivacyLoss
from ._sampled import sampled_pairs as sampled_pairs
from ._sampled import sampled_shuffle_delta as sampled_shuffle_delta
from ._shuffle import shuffle_amplification as shuffle_amplification
from ._shuffle import shuffle_delta as shuffle_delta
from ._shuffle import shuffle_epsilon as shuffle_epsilon
from ._shuffle_channel import PairLaw as PairLaw
from ._shuffle_channel import ShuffleBracket as ShuffleBracket
from ._shuffle_channel import channel_shuffle_delta as channel_shuffle_delta
from ._shuffle_channel import pair_shuffle_bracket as pair_shuffle_bracket
from ._shuffle_channel import pair_shuffle_delta as pair_shuffle_delta
from ._shuffle_channel import shuffle_bracket as shuffle_bracket
