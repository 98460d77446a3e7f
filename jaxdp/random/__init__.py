"""Words, streams, exact counts and exact draws."""

from jaxdp_kernels.threefry_words import TILE as TILE
from jaxdp_kernels.threefry_words import UserWords as UserWords

from ._binomial import binomial as binomial
from ._count import Count as Count
from ._count import Fixed as Fixed
from ._count import from_limbs as from_limbs
from ._count import limbs as limbs
from ._count import merge as merge
from ._count import mul_32x32 as mul_32x32
from ._gamma import gamma as gamma
from ._hypergeometric import hypergeometric as hypergeometric
from ._hypergeometric import multivariate_hypergeometric as multivariate_hypergeometric
from ._multinomial import multinomial as multinomial
from ._normal import standard_normal as standard_normal
from ._permutation import permute as permute
from ._words import ASSIGN as ASSIGN
from ._words import DRAWS as DRAWS
from ._words import ORDER as ORDER
from ._words import POPULATION as POPULATION
from ._words import PUBLIC as PUBLIC
from ._words import ROUND as ROUND
from ._words import TALLY as TALLY
from ._words import part_of as part_of
from ._words import stream as stream
from ._words import user_words as user_words
from ._words import words as words
from ._words import words_at as words_at
