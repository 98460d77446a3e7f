"""The checks of `jaxdp.testing` on every randomizer and protocol.

Which checks apply to a member is stored, so that none is lost in silence. Where a change is meant,
`python -m tests.contracts.test_checks` writes it anew.
"""

import json
import zlib

import pytest

from jaxdp.testing import CHECKS
from jaxdp.testing._run_checks import applicable
from tests.contracts.case import FEW, MANY, Case
from tests.contracts.conftest import is_slow
from tests.contracts.registry import APPLICABLE, EXEMPLARS, PROTOCOLS, STORED, ids
from tests.contracts.test_digests import check_trials

BITS = "bits_do_not_depend_on_blocks_and_devices"

AT_EACH_EPSILON = {
    "budget_is_spent",
    "channel_is_private",
    "covariance_is_that_of_the_channel",
    "estimator_inverts_the_channel",
    "variance_is_that_of_the_channel",
}

LAWS = {
    "both_paths_have_one_law": (),
    "independent_users_have_the_population_truth": ("per_user", "tally"),
    "runs_agree_however_they_are_made": ("per_user", "tally"),
    "variance_is_as_predicted": ("per_user", "tally"),
}
"""What is checked by simulation, and the paths that are checked one by one."""


def sizes(case: Case, name: str, method: str | None) -> tuple[int, ...]:
    """How many trials there are: of laws few by default, many with `-m slow`; of others once."""
    if name in {"both_paths_have_one_law", "variance_is_as_predicted"}:
        return FEW, MANY
    late = is_slow(name, {"case": case, "method": method})
    return (MANY,) if late else (FEW,)  # simulated for the laws already


PLAIN = [
    pytest.param(case, name, epsilon, id=f"{name}-{case.name}-{epsilon:g}")
    for case in PROTOCOLS
    for name in APPLICABLE[case.name]
    if name not in LAWS
    for epsilon in (case.epsilons if name in AT_EACH_EPSILON else (1.0,))
]
SIMULATED = [
    pytest.param(case, name, method, num_trials, id="-".join(filter(None, label)))
    for case in PROTOCOLS
    for name in APPLICABLE[case.name]
    if name in LAWS
    for method in LAWS[name] or (None,)
    if method != "tally" or "both_paths_have_one_law" in APPLICABLE[case.name]
    for num_trials in sizes(case, name, method)
    for label in [(name, method, case.name, str(num_trials))]
]


@pytest.mark.slow
def test_all_members_are_stored():
    """Before a release: for a while, the checks of a new member may be those it happens to have."""
    assert set(json.loads(STORED.read_text())) == {case.name for case in PROTOCOLS}


@pytest.mark.parametrize("case", PROTOCOLS, ids=ids)
def test_the_checks_that_apply_are_the_stored_ones(case):
    assert applicable(case.subject()) == APPLICABLE[case.name]


def kind_of_users(case: Case) -> str:
    """One kind of population; where a member's users come from is not its concern, but `test_bits`
    tries all kinds on some.
    """
    return ("histogram", "distribution", "values")[zlib.crc32(case.name.encode()) % 3]


@pytest.mark.parametrize(("case", "name", "epsilon"), PLAIN)
def test_check(case, name, epsilon):
    options = {"kinds": (kind_of_users(case),)} if name == BITS else {}
    CHECKS[name](case.subject(epsilon), **options)


@pytest.mark.parametrize(("case", "name", "method", "num_trials"), SIMULATED)
def test_law(case, name, method, num_trials):
    options = {} if method is None else {"methods": (method,)}
    CHECKS[name](case.subject(1.0, num_trials), **options)
    if name == "variance_is_as_predicted" and num_trials == FEW:
        check_trials(case, method)  # of the same simulation


@pytest.mark.parametrize("case", EXEMPLARS, ids=ids)
@pytest.mark.parametrize("kind", ["values", "histogram", "distribution"])
def test_bits(case, kind):
    CHECKS[BITS](case.subject(), kinds=(kind,))


@pytest.mark.parametrize("case", EXEMPLARS, ids=ids)
def test_reports_are_the_same_without_jit(case):
    CHECKS["reports_agree_under_every_transformation"](case.subject(), without_jit=True)


if __name__ == "__main__":
    lines = [
        f"  {json.dumps(case.name)}: {json.dumps(' '.join(applicable(case.subject())))}"
        for case in sorted(PROTOCOLS, key=ids)
    ]
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
