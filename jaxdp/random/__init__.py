"""Words, streams, exact counts and exact draws."""

from jaxdp_kernels.threefry_words import TILE as TILE
from jaxdp_kernels.threefry_words import FlatWords as FlatWords
from jaxdp_kernels.threefry_words import UserWords as UserWords

from ._alias import AliasTable as AliasTable
from ._binomial import binomial as binomial
from ._binomial import binomials as binomials
from ._count import Count as Count
from ._count import merge as merge
from ._gamma import gamma as gamma
from ._gamma import normal as normal
from ._hypergeometric import hypergeometric as hypergeometric
from ._hypergeometric import multivariate_hypergeometric as multivariate_hypergeometric
from ._multinomial import multinomial as multinomial
from ._multinomial import multinomials as multinomials
from ._noise import NormalNoise as NormalNoise
from ._normal import standard_normal as standard_normal
from ._permutation import permute as permute
from ._tally import count_bits as count_bits
from ._tally import everyone as everyone
from ._tally import histogram as histogram
from ._tally import sum_integers as sum_integers
from ._tally import sum_squares as sum_squares
from ._words import Stream as Stream
from ._words import part_of as part_of
from ._words import stream as stream
from ._words import user_words as user_words
from ._words import words as words
from ._words import words_at as words_at
