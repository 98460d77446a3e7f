"""Annotations are true: no contract case breaks one while it is played."""

import json
import subprocess
import sys

import pytest

from tests.contracts.registry import PROTOCOLS
from tests.marks import slow

PLAY = "from tests.contracts import typed; typed.main()"
FEW = """
    affine-hashing-6 bilinear-auc central-prefix discrete-laplace finite-channel hierarchical-auc
    hierarchical-prefix on-grid-vectors oracle-statistic-hadamard quantized-gini subset-6
    three-round triple-statistic two-round
""".split()
"""A third of the members, which together call three quarters of the functions that all call."""

EVERY = [case.name for case in PROTOCOLS]


@pytest.mark.parametrize(("names", "least"), [(FEW, 350), slow(EVERY, 400)], ids=["few", "all"])
def test_annotations_hold_while_cases_are_played(names, least):
    command = [sys.executable, "-c", PLAY, *names, "control"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    control = found["errors"].pop("control", "")
    assert "TypeCheckError" in control, "an annotation with a wrong shape was not refused"
    assert not found["errors"], "\n".join(found["errors"].values())
    assert found["called"] > least, f"of {found['shaped']} functions with shapes"
