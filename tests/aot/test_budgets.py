"""The hot programs, compiled for accelerators, keep to their budgets: `python -m tests.aot`."""

import pytest

from ._budgets import BUDGETS, exceeded
from ._device import missing
from ._hot import PROGRAMS, measured

SLOW = {"HadamardResponse 256", "Laplace", "LocalHashing 128", "gamma2 64"}
"""What takes a minute or more to compile for a TPU."""


@pytest.mark.parametrize(
    ("platform", "program"),
    [
        pytest.param(
            platform,
            program,
            marks=pytest.mark.slow if platform == "tpu" and program in SLOW else [],
            id=f"{platform}-{program.replace(',', '').replace(' ', '-')}",
        )
        for platform in BUDGETS
        for program in BUDGETS[platform]
    ],
)
def test_budget(platform, program):
    if reason := missing(platform):
        pytest.skip(reason)
    assert exceeded(measured(program, platform), BUDGETS[platform][program]) == {}


def test_every_program_has_a_budget():
    assert BUDGETS["cuda"].keys() == PROGRAMS.keys() >= BUDGETS["tpu"].keys()
