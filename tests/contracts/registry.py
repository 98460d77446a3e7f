"""Every randomizer and protocol that the contract suites run over.

A new member joins by one entry in the `CASES` of its family; an oracle joins by its line in
`FREQUENCY_ORACLES`. Until `python -m tests.contracts.test_checks` and `python -m
tests.contracts.test_digests` store what it is tested by and its results, both are found anew.
"""

import json
import pathlib

import pytest

from jaxdp.randomizers import FREQUENCY_ORACLES
from jaxdp.testing._run_checks import applicable
from tests.contracts.case import Case as Case
from tests.contracts.case import ids as ids
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
    memoised,
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

_LISTED = (
    basic.CASES
    + hadamard.CASES
    + subsets.CASES
    + unary.CASES
    + scalars.CASES
    + gaussian.CASES
    + vectors.CASES
    + finite_channel.CASES
    + memoised.CASES
)
_KINDS = {type(case.make(1.0)) for case in _LISTED}
RANDOMIZERS = _LISTED + tuple(
    Case(name, lambda e, make=make: make(5, e), counts=(400, 0, 100, 300, 200))
    for name, make in FREQUENCY_ORACLES.items()
    if type(make(5, 1.0)) not in _KINDS
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

STORED = pathlib.Path(__file__).with_name("applicable.json")
_STORED = {name: tuple(checks.split()) for name, checks in json.loads(STORED.read_text()).items()}
APPLICABLE: dict[str, tuple[str, ...]] = {
    case.name: _STORED[case.name] if case.name in _STORED else applicable(case.subject())
    for case in PROTOCOLS
}
"""The checks of `jaxdp.testing` that apply to each member."""

PATHS = [
    pytest.param(case, method, id=f"{method}-{case.name}")
    for case in PROTOCOLS
    for method in ("per_user", "tally")
    if method == "per_user" or "both_paths_have_one_law" in APPLICABLE[case.name]
]
"""Every member and simulation path that it has."""

_EXEMPLARS = {"krr-5", "binary", "laplace", "quantized-kendall"}
EXEMPLARS = tuple(case for case in PROTOCOLS if case.name in _EXEMPLARS)
"""One of each kind: what the properties of the engine, rather than of a member, are tested on."""
