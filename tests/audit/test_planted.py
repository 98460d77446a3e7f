"""Every planted fault is caught, and no sound twin is accused."""

import pytest

from tests.audit.planted import FAULTS

NAMES = [fault.name for fault in FAULTS]


def test_the_table_is_whole():
    assert len(set(NAMES)) == len(FAULTS) == 20


@pytest.mark.parametrize("fault", FAULTS, ids=NAMES)
def test_is_caught(fault, key):
    """With the fault the verdict and the bound; without it, neither of the two that accuse."""
    found = fault.audit(key, True)
    assert getattr(found, fault.caught), found
    if fault.caught == "violates":
        assert found.bound > fault.least
    sound = fault.audit(key, False)
    assert not sound.violates
    assert not sound.biased
    assert not getattr(sound, fault.caught), sound
