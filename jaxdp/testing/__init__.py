"""The contracts of randomizers and protocols, as checks to run on those that you write.

`check_randomizer(spec)` and `check_protocol(spec, population)` run all that apply; `CHECKS` has
each by its name, and its `description` says what it proves, and with what power.
"""

from . import _channels, _laws, _refusals, _reports, _runs  # noqa: F401  # they fill CHECKS
from ._run_checks import check_protocol as check_protocol
from ._run_checks import check_randomizer as check_randomizer
from ._statistics import CheckFailed as CheckFailed
from ._statistics import check_frequencies as check_frequencies
from ._statistics import check_mean as check_mean
from ._statistics import check_two_samples as check_two_samples
from ._statistics import check_variance as check_variance
from ._statistics import must_fail as must_fail
from ._subject import CHECKS as CHECKS
from ._subject import Check as Check
from ._subject import Subject as Subject
