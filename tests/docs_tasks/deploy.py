"""Devices without jax report to two servers; their tallies are merged and answered."""

import pathlib
import subprocess
import sys
import tempfile

import numpy as np

from jaxdp.randomizers import HadamardResponse
from jaxdp.reports import Aggregate, Client, Collection, influence

labels = ("never", "weekly", "daily")
oracle = HadamardResponse(num_values=3, epsilon=1.0)
document = Collection(oracle, labels, purpose="how often?").to_json()
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "collection.json").write_text(document)

DEVICE = """
import sys
sys.modules["jax"] = None  # importing it would fail
from jaxdp.reports import Client
report = Client(open(sys.argv[1]).read()).report("daily")
open(sys.argv[2], "wb").write(report)
"""
command = [sys.executable, "-c", DEVICE, folder / "collection.json", folder / "device"]
assert subprocess.run(command, check=False).returncode == 0

truth = np.array([6000, 3000, 1000])
users = np.repeat(labels, truth)
first, second = (Aggregate(Collection.from_json(document)) for _ in range(2))
first.add(Client(document).reports(users[:7000]))
second.add(Client(document).reports(users[7000:]))
second.add([str(folder / "device")])
assert second.add([b"no report"]).refused == {"length": 1}

both = first.merge(second)
assert both.num_users == 10_001
answer = both.estimate(confidence=0.95)
assert np.all(np.abs(answer.values - truth - [0, 0, 1]) < 7 * answer.standard_errors)
low, high = influence(oracle, num_malicious=10, num_users=10_001)
assert float(low[0]) < 0 < float(high[0])
