"""Every randomizer and protocol that the contract suites run over.

A new member joins by one entry in the `CASES` of its family.
"""

from tests.contracts.case import Case as Case
from tests.contracts.case import ids as ids
from tests.contracts.cases import basic, pairwise

RANDOMIZERS = basic.CASES
PROTOCOLS = RANDOMIZERS + pairwise.CASES
