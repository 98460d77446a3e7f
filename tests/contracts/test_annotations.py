"""Annotations are true: no contract case breaks one while it is played."""

import json
import subprocess
import sys

PLAY = "from tests.contracts import typed; typed.main()"


def test_annotations_hold_while_every_case_is_played():
    done = subprocess.run([sys.executable, "-c", PLAY], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    control = found["errors"].pop("control", "")
    assert "TypeCheckError" in control, "an annotation with a wrong shape was not refused"
    assert not found["errors"], "\n".join(found["errors"].values())
    assert found["called"] > 400, f"of {found['shaped']} functions with shapes"
