"""Is a randomizer really private? Exact for finite channels, statistical for all."""

from ._estimate import estimate_epsilon as estimate_epsilon
from ._exact import AuditError as AuditError
from ._exact import exact_epsilon as exact_epsilon
from ._report import AuditReport as AuditReport
