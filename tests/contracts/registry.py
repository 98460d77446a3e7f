"""Every randomizer and protocol that the contract suites run over.

A new member joins by one entry in the `CASES` of its family.
"""

from tests.contracts.case import Case as Case
from tests.contracts.case import ids as ids
from tests.contracts.case import paths as paths
from tests.contracts.cases import (
    auc,
    basic,
    central,
    finite_channel,
    gaussian,
    hadamard,
    learning,
    linear_oracles,
    linear_projected,
    linear_strategy,
    linear_vectors,
    one_report,
    oracle_statistic,
    pair_sampling,
    pairwise,
    product_means,
    rounds,
    scalars,
    shuffled,
    subsets,
    two_report,
    unary,
    vectors,
)

RANDOMIZERS = (
    basic.CASES
    + hadamard.CASES
    + subsets.CASES
    + unary.CASES
    + scalars.CASES
    + gaussian.CASES
    + vectors.CASES
    + finite_channel.CASES
)
PROTOCOLS = (
    RANDOMIZERS
    + pairwise.CASES
    + one_report.CASES
    + two_report.CASES
    + oracle_statistic.CASES
    + rounds.CASES
    + auc.CASES
    + pair_sampling.CASES
    + shuffled.CASES
    + linear_oracles.CASES
    + linear_strategy.CASES
    + linear_vectors.CASES
    + linear_projected.CASES
    + product_means.CASES
    + central.CASES
    + learning.CASES
)

PATHS = paths(PROTOCOLS)
_EXEMPLARS = {"krr-5", "binary", "laplace", "quantized-kendall"}
EXEMPLARS = tuple(case for case in PROTOCOLS if case.name in _EXEMPLARS)
"""One of each kind: what the properties of the engine, rather than of a member, are tested on."""
