"""One worker of pytest-xdist runs all the contracts of a member, and compiles it once."""

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
}
"""Tests that take long to compile: by default on the exemplars, with `-m slow` on the others."""


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Groups the tests of the contract suites by member, and marks the slow ones."""
    for item in items:
        params = getattr(getattr(item, "callspec", None), "params", {})
        if not isinstance(case := params.get("case"), Case):
            continue
        item.add_marker(pytest.mark.xdist_group(case.name))
        exhaustive = item.name.partition("[")[0] in EXHAUSTIVE
        if (case.variant and item.path.stem in SIMULATIONS) or (
            exhaustive and case not in EXEMPLARS and params.get("kind") != "values"
        ):
            item.add_marker(pytest.mark.slow)
