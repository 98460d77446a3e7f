"""Real data that ships with the package: counts only, no record of anyone."""

from ._flights import load_flights as load_flights
