"""Factorizations in closed form: for sizes beyond any solver, for starting points and tests.

Every function returns a `Factorization` whose `upper` is attained by its factors and whose `lower`
is proven by its dual witness; `gap` says how far the construction may be from optimal.
"""

from ._circulant import circulant as circulant
from ._combine import kronecker as kronecker
from ._lipschitz import lipschitz_thresholds as lipschitz_thresholds
from ._lipschitz import lipschitz_tree as lipschitz_tree
from ._orthogonal import gini_diversity as gini_diversity
from ._orthogonal import identity as identity
from ._orthogonal import orthogonal_rows as orthogonal_rows
from ._prefix import hierarchical_prefix as hierarchical_prefix
from ._prefix import toeplitz_prefix as toeplitz_prefix
from ._semidefinite import semidefinite as semidefinite
