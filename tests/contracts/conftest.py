"""One worker of pytest-xdist runs all the contracts of a member, and compiles it once."""

import pytest

from tests.contracts.case import Case

COSTLY = ("test_determinism", "test_law", "test_transformations")


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Groups the tests of the contract suites by member; what is costly of variants is slow."""
    for item in items:
        params = getattr(getattr(item, "callspec", None), "params", {})
        if isinstance(case := params.get("case"), Case):
            item.add_marker(pytest.mark.xdist_group(case.name))
            if case.variant and item.path.stem in COSTLY:
                item.add_marker(pytest.mark.slow)
