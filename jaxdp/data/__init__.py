"""Real data that ships with the package: counts only, no record of anyone."""

from ._adult import load_adult as load_adult
from ._flights import load_flights as load_flights
from ._military import load_military as load_military
