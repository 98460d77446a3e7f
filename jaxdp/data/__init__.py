"""Real data that ships with the package: counts only, no record of anyone."""

from ._adult import load_adult as load_adult
from ._baskets import load_msnbc as load_msnbc
from ._baskets import load_mushrooms as load_mushrooms
from ._baskets import load_retail as load_retail
from ._diabetes import load_diabetes_scores as load_diabetes_scores
from ._flights import load_flights as load_flights
from ._glove import load_glove as load_glove
from ._military import load_military as load_military
from ._names import load_names as load_names
from ._tripadvisor import load_tripadvisor as load_tripadvisor
