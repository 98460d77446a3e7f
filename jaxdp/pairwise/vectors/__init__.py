"""Statistics of pairs from one or two vectors that each user reports."""

from ._one_report import OneReport as OneReport
from ._quadratic_factor import best_factor as best_factor
from ._two_report import TwoReport as TwoReport
