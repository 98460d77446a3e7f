"""Users made on the fly need no memory each."""

import os
import pathlib
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
ROOT = pathlib.Path(__file__).parents[2]


def peak_memory(num_users: int) -> int:
    """Bytes at most resident in a process of its own."""
    script = pathlib.Path(__file__).with_name("memory_worker.py")
    roots = [str(ROOT), str(ROOT / "kernels"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(roots)}
    command = [sys.executable, str(script), str(num_users)]
    out = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert out.returncode == 0, out.stderr
    return int(out.stdout)


def test_a_hundred_million_users_need_no_memory_each():
    """An array of their values alone, int32, would take 0.4 GB on top of 0.3 GB for the program."""
    assert peak_memory(10**8) < 0.6e9
