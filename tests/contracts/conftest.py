"""Which contracts of a member are tested by default, and which with `-m slow`."""

import pytest

from tests.contracts.case import Case
from tests.contracts.registry import EXEMPLARS

SIMULATIONS = ("test_determinism", "test_law", "test_transformations")
"""Suites that a variant of another case is left out of by default."""

EXHAUSTIVE = {
    "test_bits_do_not_depend_on_devices_or_blocks",
    "test_one_compilation_for_a_grid_of_epsilons",
    "test_one_compilation_for_any_number_of_users",
    "test_results_do_not_depend_on_the_x64_flag",
    "test_run_agrees_inside_jit_and_vmap",
    "test_stacked_grid_is_vmapped",
    "test_trials_are_runs_with_folded_keys",
    "test_given_and_counted_users_are_the_same_users",
}
"""Tests that take long to compile: by default on the exemplars, with `-m slow` on the others."""

IMPLIED = {"test_unbiased_with_the_predicted_variance"}
"""Tests whose per-user path follows from the drawn one, as the two are compared anyway."""


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the slow ones."""
    for item in items:
        params = getattr(getattr(item, "callspec", None), "params", {})
        if not isinstance(case := params.get("case"), Case):
            continue
        test = item.name.partition("[")[0]
        exhaustive = test in EXHAUSTIVE or (
            test in IMPLIED and params["method"] == "per_user" and case.has_law
        )
        if (case.variant and item.path.stem in SIMULATIONS) or (
            exhaustive and case not in EXEMPLARS
        ):
            item.add_marker(pytest.mark.slow)
