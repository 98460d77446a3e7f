"""Marks of single parameters."""

import pytest


def slow(*values):
    """A parameter set that is tested with `-m slow`, not by default."""
    return pytest.param(*values, marks=pytest.mark.slow)
