"""Several processes on one folder: each cell computed by one of them, whoever is killed."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from jaxdp import sweep
from jaxdp._files import write_atomically
from jaxdp.sweep import _claims, _executors, _run
from jaxdp.sweep._fingerprint import fingerprint
from jaxdp.sweep._folder import Directory
from jaxdp.sweep._shard import read_shard, shard_of
from tests.sweep.files import contents
from tests.sweep.naps import Nap, many_naps

ROOT = pathlib.Path(__file__).parents[2]
NAPS = [Nap(1.0), Nap(4.0), Nap(9.0)]


def start(out, shard=0, number=1, cells="naps"):
    script = f"from tests.sweep.{cells} import main; main()"
    command = [sys.executable, "-c", script, str(out), str(shard), str(number)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_processes_share_the_cells(tmp_path):
    sweep.run(many_naps(), tmp_path / "whole", name="naps")
    processes = [start(tmp_path / "shared", shard, 3) for shard in range(3)]
    computed = [int(process.communicate(timeout=120)[0]) for process in processes]
    assert sum(computed) == 80
    assert [process.returncode for process in processes] == [0] * 3
    assert contents(tmp_path / "shared") == contents(tmp_path / "whole")


def kill_at_random(out, rng, kills, shards, cells="naps", most=0.3):
    """Kills processes that share a folder, each time another begins; ends when one gets through."""
    running = [start(out, shard, shards, cells) for shard in range(shards)]
    killed = 0
    while killed < kills:
        time.sleep(rng.uniform(0.0, most))
        place = int(rng.integers(shards))
        running[place].send_signal(signal.SIGKILL)
        killed += running[place].wait(timeout=60) == -signal.SIGKILL
        running[place].stdout.close()
        running[place] = start(out, place, shards, cells)
    for process in running:
        process.communicate(timeout=300)
        assert process.returncode == 0


@pytest.mark.parametrize(
    ("kills", "shards"), [(4, 2), pytest.param(100, 8, marks=pytest.mark.slow)]
)
def test_killed_processes_lose_and_double_nothing(kills, shards, tmp_path, rng):
    sweep.run(many_naps(), tmp_path / "whole", name="naps")
    kill_at_random(tmp_path / "killed", rng, kills, shards)
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


ELSEWHERE = "0123456789abcdef-1-elsewhere"


def left_behind(root, name, worker, alive):
    """A claim on a cell by a worker, which has left or not."""
    (root / "claims").mkdir(parents=True, exist_ok=True)
    (root / "workers").mkdir(exist_ok=True)
    (root / "claims" / f"{name}.0").write_text(f"{worker}\nvalue=1.0")
    if alive:
        says(root, worker)


def says(root, worker, count=0):
    content = json.dumps({"host": "", "process": 1, "since": "", "count": count}).encode()
    write_atomically(root / "workers" / worker, content)


@pytest.mark.parametrize(
    ("worker", "alive"),
    [
        (ELSEWHERE, False),
        (f"0123456789abcdef-{2**22 + 1}-{_claims._host()}", True),  # above every number
        (ELSEWHERE, True),
    ],
    ids=["it has left", "its process has ended", "it does not count up"],
)
def test_claims_of_dead_workers_are_taken_over(worker, alive, tmp_path, monkeypatch):
    monkeypatch.setattr(_claims, "SILENCE", 0.2)
    monkeypatch.setattr(_run, "_LOOK", 0.05)
    left_behind(tmp_path, fingerprint(NAPS[0]), worker, alive)
    assert sweep.run(NAPS, tmp_path).computed == 3
    assert set(contents(tmp_path)) == {"experiment.json"} | {
        f"cells/{fingerprint(cell)}.parquet" for cell in NAPS
    }


def test_claims_of_live_workers_are_not(tmp_path, monkeypatch):
    """The control: a worker elsewhere that counts up keeps its cell, until it leaves."""
    monkeypatch.setattr(_claims, "SILENCE", 1.0)
    monkeypatch.setattr(_run, "_LOOK", 0.05)
    name = fingerprint(NAPS[0])
    found = []
    left_behind(tmp_path, name, ELSEWHERE, alive=True)
    runs = threading.Thread(target=lambda: found.append(sweep.run(NAPS, tmp_path)))
    runs.start()
    for count in range(1, 30):
        says(tmp_path, ELSEWHERE, count)
        time.sleep(0.1)
    assert runs.is_alive()
    assert len(list((tmp_path / "cells").glob("*.parquet"))) == 2
    (tmp_path / "workers" / ELSEWHERE).unlink()
    runs.join(timeout=30)
    assert found[0].computed == 3


def test_a_claim_is_one_process_s(tmp_path):
    folder = Directory(tmp_path)
    with _claims.Claims(folder) as first, _claims.Claims(folder) as second:
        assert first.take("cell", "x=1")
        assert not second.take("cell", "x=1")
        assert second.look() == {"cell"}
        assert second.look() == {"cell"}
        assert second.abandoned({"cell"}) == set()
        assert not second.take("cell", "x=1")
        assert [label for label, _ in _claims.running(Directory(tmp_path))] == ["x=1"]
        first.release("cell")
        assert second.look() == set()
        assert second.take("cell", "x=1")
    assert contents(tmp_path) == {}


def test_other_cells_wait_for_their_turn(tmp_path):
    sweep.run(NAPS[:2], tmp_path)
    with _claims.Claims(Directory(tmp_path)):
        with pytest.raises(ValueError, match="no other experiment"):
            sweep.run(NAPS, tmp_path)
        sweep.run(NAPS[:2], tmp_path)
    assert sweep.run(NAPS, tmp_path).computed == 1


def test_a_failure_is_known_to_all_and_tried_again_later(tmp_path):
    cells = [Nap(-1.0), Nap(4.0)]
    with _claims.Claims(Directory(tmp_path)) as other:
        other.take(fingerprint(cells[0]))
        (tmp_path / "failed").mkdir()
        record = {"cell": "value=-1.0", "traceback": "of another process", "worker": other.worker}
        (tmp_path / "failed" / f"{fingerprint(cells[0])}.json").write_text(json.dumps(record))
        found = sweep.run(cells, tmp_path)
        assert (found.computed, found.failures) == (1, (("value=-1.0", "of another process"),))
        assert sweep.status(tmp_path).failed == ("value=-1.0",)
    assert "no root" in sweep.run(cells, tmp_path).failures[0][1]


def test_status(tmp_path):
    out = tmp_path / "out"
    with pytest.raises(ValueError, match="results"):
        sweep.status(out)
    sweep.run(NAPS, out)
    assert sweep.status(out) == sweep.Status(3, 3, (), (), None)
    for cell in NAPS[1:]:
        (out / "cells" / f"{fingerprint(cell)}.parquet").unlink()
    with _claims.Claims(Directory(out)) as claims:
        claims.take(fingerprint(NAPS[1]), "value=4.0")
        found = sweep.status(out)
    ((label, worker),) = found.running
    assert (found.done, found.waiting, label, worker["process"]) == (1, 1, "value=4.0", os.getpid())


@pytest.mark.parametrize("number", [1, 3, 64, None])
def test_shards_share_all_cells(number):
    names = [str(i) for i in range(50)]
    shares = [_run._shared(names, (shard, number)) for shard in range(number or 7)]
    for mine, others in shares:
        assert sorted(mine + others) == sorted(names)
    begun = {mine[0] for mine, _ in shares if mine}
    assert len(begun) == min(number or 7, 50)


class Anyones:
    """An executor that promises no more than `submit` and `result`."""

    class Job:
        def __init__(self, function, *arguments):
            self.call = lambda: function(*arguments)

        def result(self):
            return self.call()

    def submit(self, function, /, *arguments):
        return self.Job(function, *arguments)


def test_any_executor(tmp_path):
    cells = [*NAPS, Nap(-1.0)]
    first, second = sweep.run(cells, tmp_path / "a"), sweep.run(cells, tmp_path / "b", Anyones())
    assert (second.computed, len(second.failures)) == (first.computed, 1) == (3, 1)
    cells = {"a": {}, "b": {}}
    for out in cells:
        sweep.run(NAPS, tmp_path / out)
        cells[out] = contents(tmp_path / out / "cells")
    assert cells["a"] == cells["b"]


@pytest.mark.parametrize(
    ("environment", "shard"),
    [
        ({}, (0, 1)),
        ({"SLURM_ARRAY_TASK_ID": "5", "SLURM_ARRAY_TASK_COUNT": "8"}, (5, 8)),
        (
            {
                "SLURM_ARRAY_TASK_ID": "8",
                "SLURM_ARRAY_TASK_COUNT": "8",
                "SLURM_ARRAY_TASK_MIN": "1",
            },
            (7, 8),
        ),
        ({"SLURM_ARRAY_TASK_ID": "30", "SLURM_ARRAY_TASK_COUNT": "8"}, (6, 8)),  # 0-70:10
        ({"JOB_COMPLETION_INDEX": "3"}, (3, None)),
        ({"RANK": "1", "WORLD_SIZE": "4"}, (1, 4)),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "RANK": "0"}, (2, 4)),
        ({"RANK": "first"}, (0, 1)),
    ],
)
def test_shard_of_a_scheduler(environment, shard):
    assert shard_of(environment) == shard


@pytest.mark.parametrize("text", ["4/4", "1", "a/b", "-1/4", "1/4/5", ""])
def test_bad_shards(text):
    assert read_shard("3/4") == (3, 4)
    with pytest.raises(ValueError, match="i/N"):
        read_shard(text)


def local_cluster(folder):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster:
        address = cluster.scheduler_address.removeprefix("tcp://")
        with _executors.opened(f"dask://{address}", 1, {}, folder) as found:
            yield found


def local_jobs(folder):
    pytest.importorskip("submitit")
    options = {"cluster": "local", "timeout_min": "5"}
    with _executors.opened("slurm", 4, options, folder) as found:
        yield found


def local_ray(folder):
    pytest.importorskip("ray")
    with _executors.opened("ray", 2, {}, folder) as found:
        yield found


def processes(folder):
    with _executors.opened("processes", 2, {}, folder) as found:
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("engine", [processes, local_cluster, local_jobs, local_ray])
def test_engines(engine, tmp_path, monkeypatch):
    """Those whose packages are installed."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    sweep.run(NAPS, tmp_path / "whole")
    with contextlib.contextmanager(engine)(tmp_path / "jobs") as (executor, at_once):
        found = sweep.run([*NAPS, Nap(-1.0)], tmp_path / "out", executor, at_once=at_once)
    assert (found.computed, len(found.failures)) == (3, 1)
    assert contents(tmp_path / "out" / "cells") == contents(tmp_path / "whole" / "cells")


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [("cloud", {}, "executor"), ("threads", {"timeout_min": "5"}, "job")],
)
def test_bad_executors(kind, options, said, tmp_path):
    with pytest.raises(ValueError, match=said), _executors.opened(kind, 1, options, tmp_path):
        pass
