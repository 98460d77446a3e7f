"""Which contracts of a member are tested by default, and which with `-m slow`."""

from typing import Any

import pytest

from tests.contracts.case import MANY, Case
from tests.contracts.registry import EXEMPLARS, RANDOMIZERS

SIMULATIONS = {
    "bits_do_not_depend_on_blocks_and_devices",
    "estimate_is_that_of_the_outcome",
    "given_users_are_the_counted_ones",
    "independent_users_have_the_population_truth",
    "outcome_is_the_tally_of_the_reports",
    "reports_agree_under_every_transformation",
    "results_do_not_depend_on_the_x64_flag",
    "runs_agree_however_they_are_made",
    "runs_agree_inside_jit_and_vmap",
    "tallies_merge",
    "test_one_compilation_for_a_grid_of_epsilons",
    "test_one_compilation_for_any_number_of_users",
    "test_stacked_grid_is_vmapped",
    "trials_are_runs",
}
"""Checks and tests that a variant of another case is left out of by default."""

OF_THE_ENGINE = {
    "independent_users_have_the_population_truth",
    "runs_agree_inside_jit_and_vmap",
    "test_one_compilation_for_a_grid_of_epsilons",
    "test_one_compilation_for_any_number_of_users",
    "test_stacked_grid_is_vmapped",
    "trials_are_runs",
}
"""What the engine does with any member: by default on two, of either kind of tally."""

COUNTS_AND_SUMS = {"binary": "tally", "laplace": "per_user"}
"""These two, and the path that each takes where a test is about one path."""

OF_INDEPENDENT_USERS = frozenset(
    "discrete-laplace finite-channel hadamard-bit-5 hadamard-response-7 hierarchical-prefix "
    "projective-geometry-6 random-concept".split()
)
"""Beside the exemplars, those that draw tallies of independent users in a way of their own."""

TRANSFORMED = {"binary", "krr-5", "laplace", "priv-unit-g", "rappor-3"}
"""The randomizers whose reports are compared under every transformation, and added up by hand, by
default."""

EXHAUSTIVE = {
    "estimate_is_that_of_the_outcome",
    "given_users_are_the_counted_ones",
    "results_do_not_depend_on_the_x64_flag",
}
"""What takes long to compile: by default on the exemplars, with `-m slow` on the others."""


SIMULATED_ELSEWHERE = {
    "on-grid-rounds": ("per_user", "tally"),  # bit by bit in tests/pairwise/test_on_grid.py
    "on-grid-vectors": ("tally",),
    "one-step": ("tally",),  # with the default range, in the files of these under tests/pairwise
    "three-round": ("tally",),
    "two-round": ("tally",),
}
"""The paths of protocols whose programs take ten seconds to compile and are simulated by other
default tests, too."""


LAWS = {"variance_is_as_predicted", "runs_agree_however_they_are_made"}
"""What looks at the simulations of one path."""


def is_slow(test: str, params: dict[str, Any]) -> bool:
    """Whether a contract of a member is tested with `-m slow` only.

    Args:
      test: the name of the check, or of the test.
      params: of the test; "case" is one of them.
    """
    case, method = params["case"], params.get("method")
    if params.get("num_trials") == MANY:
        return True
    if test == "bits_do_not_depend_on_blocks_and_devices":
        return True
    if test in {"outcome_is_the_tally_of_the_reports", "reports_agree_under_every_transformation"}:
        return case.name not in TRANSFORMED  # of protocols: those of their randomizers
    if test == "test_bits":
        return (case.name, params["kind"]) not in {("binary", "histogram"), ("laplace", "values")}
    elsewhere = SIMULATED_ELSEWHERE.get(case.name, ())
    if elsewhere and (test == "both_paths_have_one_law" or (test in LAWS and method in elsewhere)):
        return True
    if case.variant and test in SIMULATIONS:
        return True
    if case.variant and test == "variance_is_as_predicted":
        # A law is tested of the other case, and plug-in errors in tests/pairwise/test_plug_in.py.
        return method == "tally" or case.name.endswith("-plug-in")
    if case.variant and case not in RANDOMIZERS:  # the round is one that another case has
        if test in {"both_paths_have_one_law", "test_lowers_without_sums_in_any_order"}:
            return True
    if test == "test_results_for_a_key_are_the_stored_ones":
        own = method == "independent" and case.name in OF_INDEPENDENT_USERS
        return case not in EXEMPLARS and not own  # of all, there are the stored trials
    if test == "runs_agree_however_they_are_made" and method == "tally":
        return True
    if test == "tallies_merge":  # those of protocols are of their randomizers
        return case not in RANDOMIZERS
    if test in OF_THE_ENGINE:
        path = COUNTS_AND_SUMS.get(case.name)
        return path is None or method not in (None, path)
    return test in EXHAUSTIVE and case not in EXEMPLARS


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the slow ones; leaves out what is not about the members of `--members`."""
    members, left_out = config.getoption("--members"), set()
    for item in items:
        params = getattr(getattr(item, "callspec", None), "params", {})
        case = params.get("case")
        if isinstance(case, Case):
            test = params.get("name", item.name.partition("[")[0])
            if is_slow(test, params):
                item.add_marker(pytest.mark.slow)
        if members and item.path.parent.name == "contracts":
            if not isinstance(case, Case) or case.name not in members.split(","):
                left_out.add(item)
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]
