"""Query and pair matrices: dense ones in NumPy float64, structured ones as operators."""

from ._bits import marginal as marginal
from ._bits import parity as parity
from ._concepts import conjunctions as conjunctions
from ._concepts import decision_stumps as decision_stumps
from ._concepts import intervals as intervals
from ._concepts import rectangles as rectangles
from ._concepts import signed_examples as signed_examples
from ._concepts import thresholds as thresholds
from ._operators import Operator as Operator
from ._pairs import auc as auc
from ._pairs import from_function as from_function
from ._pairs import gini_diversity as gini_diversity
from ._pairs import kendall as kendall
from ._pairs import lipschitz as lipschitz
from ._pairs import sign as sign
from ._ranges import all_range as all_range
from ._ranges import identity as identity
from ._ranges import prefix as prefix
from ._ranges import rademacher as rademacher
from ._ranges import total as total
from ._ranges import width_range as width_range
