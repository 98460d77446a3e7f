"""The checks of `jaxdp.testing` on every randomizer and protocol.

Which checks apply to a member is stored, so that none is lost in silence. Where a change is meant,
`python -m tests.contracts.test_checks` writes it anew.
"""

import json

import pytest

from jaxdp.testing import CHECKS
from jaxdp.testing._run_checks import applicable
from tests.contracts.registry import APPLICABLE, EXEMPLARS, PROTOCOLS, STORED, ids

AT_EACH_EPSILON = {
    "budget_is_spent",
    "channel_is_private",
    "covariance_is_that_of_the_channel",
    "estimator_inverts_the_channel",
    "variance_is_that_of_the_channel",
}
BY_METHOD = {"variance_is_as_predicted", "independent_users_have_the_population_truth"}
PLAIN = [
    pytest.param(case, name, epsilon, id=f"{name}-{case.name}-{epsilon:g}")
    for case in PROTOCOLS
    for name in APPLICABLE[case.name]
    if name not in BY_METHOD
    for epsilon in (case.epsilons if name in AT_EACH_EPSILON else (1.0,))
]
LAWS = [
    pytest.param(case, name, method, id=f"{name}-{method}-{case.name}")
    for case in PROTOCOLS
    for name in APPLICABLE[case.name]
    if name in BY_METHOD
    for method in ("per_user", "tally")
    if method == "per_user" or "both_paths_have_one_law" in APPLICABLE[case.name]
]
SHARES = [
    ("values", (2**16,), (2, 8)),
    ("histogram", (2**17,), (4,)),
    ("distribution", (2**15,), (1,)),
]
"""Kinds of populations, and the block sizes and numbers of devices that are tested by default."""


@pytest.mark.slow
def test_all_members_are_stored():
    """Before a release: for a while, the checks of a new member may be those it happens to have."""
    assert set(json.loads(STORED.read_text())) == {case.name for case in PROTOCOLS}


@pytest.mark.parametrize("case", PROTOCOLS, ids=ids)
def test_the_checks_that_apply_are_the_stored_ones(case):
    assert applicable(case.subject()) == APPLICABLE[case.name]


@pytest.mark.parametrize(("case", "name", "epsilon"), PLAIN)
def test_check(case, name, epsilon):
    CHECKS[name](case.subject(epsilon))


@pytest.mark.parametrize(("case", "name", "method"), LAWS)
def test_law(case, name, method):
    CHECKS[name](case.subject(), methods=(method,))


@pytest.mark.parametrize("case", EXEMPLARS, ids=ids)
@pytest.mark.parametrize(("kind", "block_sizes", "devices"), SHARES)
def test_bits(case, kind, block_sizes, devices):
    check = CHECKS["bits_do_not_depend_on_blocks_and_devices"]
    check(case.subject(), kinds=(kind,), block_sizes=block_sizes, devices=devices)


@pytest.mark.parametrize("case", EXEMPLARS, ids=ids)
def test_reports_are_the_same_without_jit(case):
    CHECKS["reports_agree_under_every_transformation"](case.subject(), without_jit=True)


if __name__ == "__main__":
    lines = [
        f"  {json.dumps(case.name)}: {json.dumps(' '.join(applicable(case.subject())))}"
        for case in sorted(PROTOCOLS, key=ids)
    ]
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
