"""Which contracts of a member are tested by default, and which with `-m slow`."""

from typing import Any

import pytest

from tests.contracts.case import Case
from tests.contracts.registry import EXEMPLARS, RANDOMIZERS

SIMULATIONS = ("test_determinism", "test_digests", "test_law", "test_transformations")
"""Suites that a variant of another case is left out of by default."""

OF_THE_ENGINE = {
    "test_bits_do_not_depend_on_devices_or_blocks",
    "test_independent_users_have_the_population_truth",
    "test_one_compilation_for_a_grid_of_epsilons",
    "test_one_compilation_for_any_number_of_users",
    "test_run_agrees_inside_jit_and_vmap",
    "test_stacked_grid_is_vmapped",
    "test_trials_are_runs_with_folded_keys",
}
"""Tests of what the engine does with any member: by default on two, of either kind of tally."""

COUNTS_AND_SUMS = {"binary": "tally", "laplace": "per_user"}
"""These two, and the path that each takes where a test is about one path."""

TRANSFORMED = {"binary", "krr-5", "laplace", "priv-unit-g", "rappor-3"}
"""The randomizers whose reports are compared under every transformation by default."""

EXHAUSTIVE = {
    "test_results_do_not_depend_on_the_x64_flag",
    "test_given_and_counted_users_are_the_same_users",
    "test_two_paths_one_law",
    "test_unbiased_with_the_predicted_variance",
}
"""Tests that take long to compile: by default on the exemplars, with `-m slow` on the others."""

DEAR = {
    "bilinear-auc",
    "hierarchical-auc",
    "hierarchical-prefix",
    "one-step",
    "oracle-statistic-hadamard",
    "pairs-krr",
    "quantized-gini",
    "three-round",
    "two-report",
    "two-round",
}
"""Protocols that take long to compile and whose own tests enumerate their errors."""


def is_slow(test: str, module: str, params: dict[str, Any]) -> bool:
    """Whether a contract of a member is tested with `-m slow` only."""
    case = params["case"]
    if test == "test_every_path_is_traced":
        return not is_slow("test_unbiased_with_the_predicted_variance", "test_law", params)
    if test == "test_reports_agree_under_every_transformation":
        return case.name not in TRANSFORMED  # of protocols: those of their randomizers
    if case.variant and module in SIMULATIONS:
        return True
    if test == "test_unbiased_with_the_predicted_variance" and case not in RANDOMIZERS:
        # A protocol is simulated on one path. Randomizers have exact tests of their laws.
        other_path = case not in EXEMPLARS and case.has_law and params["method"] == "per_user"
        return other_path or case.name in DEAR
    if test == "test_results_for_a_key_are_the_stored_ones":
        return case.name in DEAR
    if test == "test_bits_do_not_depend_on_devices_or_blocks":
        return (case.name, params["kind"]) not in {("binary", "histogram"), ("laplace", "values")}
    if test in OF_THE_ENGINE:
        path = COUNTS_AND_SUMS.get(case.name)
        return path != params.get("method", path) or path is None
    return test in EXHAUSTIVE and case not in EXEMPLARS


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the slow ones."""
    for item in items:
        params = getattr(getattr(item, "callspec", None), "params", {})
        if not isinstance(params.get("case"), Case):
            continue
        if is_slow(item.name.partition("[")[0], item.path.stem, params):
            item.add_marker(pytest.mark.slow)
