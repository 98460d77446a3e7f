"""Is a randomizer really private? Exact for finite channels, statistical for all."""

from ._estimate import estimate_epsilon as estimate_epsilon
from ._exact import AuditError as AuditError
from ._exact import exact_epsilon as exact_epsilon
from ._from_counts import estimate_epsilon_from_counts as estimate_epsilon_from_counts
from ._from_reports import estimate_epsilon_from_reports as estimate_epsilon_from_reports
from ._from_reports import reports_needed as reports_needed
from ._report import AuditReport as AuditReport
