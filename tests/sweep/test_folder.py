"""Where results lie: directories and object stores keep the same promises, and the same bytes."""

import subprocess
import sys
import threading

import pytest

from jaxdp import sweep
from jaxdp.sweep import _claims, _run
from jaxdp.sweep._fingerprint import fingerprint
from jaxdp.sweep._folder import Directory, folder_at

from .files import contents
from .naps import Nap, many_naps

NAPS = [Nap(1.0), Nap(4.0), Nap(9.0)]


@pytest.fixture
def memory():
    fsspec = pytest.importorskip("fsspec")
    yield "memory://sweeps"
    files = fsspec.filesystem("memory")
    if files.exists("memory://sweeps"):
        files.rm("memory://sweeps", recursive=True)


@pytest.fixture(scope="module")
def s3():
    """A server that speaks S3, and the variables by which its clients find it."""
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    given = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in given.items():
            patch.setenv(name, value)
        import fsspec

        fsspec.filesystem("s3").mkdir("sweeps")
        yield "s3://sweeps"
    server.stop()


@pytest.fixture(params=["directory", "file", "memory", "s3"])
def out(request, tmp_path):
    if request.param == "directory":
        return str(tmp_path / "out")
    if request.param == "file":
        return f"file://{tmp_path}/out"
    return f"{request.getfixturevalue(request.param)}/{request.node.originalname}"


def objects(out):
    """{name: bytes} of all there is below a place."""
    folder = folder_at(out)
    if isinstance(folder, Directory):
        return contents(folder.root)
    found = {n: folder.read(n) for n in ("experiment.json",) if folder.exists(n)}
    for under in ("cells", "failed", "claims", "workers"):
        found |= {f"{under}/{n}": folder.read(f"{under}/{n}") for n in folder.entries(under)}
    return found


def test_files(out):
    folder = folder_at(out)
    folder.make()
    assert str(folder).endswith(out.removeprefix("file://"))
    assert not folder.exists("cells/x")
    with pytest.raises(FileNotFoundError):
        folder.read("cells/x")
    assert folder.create("cells/x", b"one", "0" * 16)
    assert not folder.create("cells/x", b"two", "1" * 16)
    assert folder.mark("claims/y", b"mine")
    assert not folder.mark("claims/y", b"theirs")
    assert (folder.read("cells/x"), folder.read("claims/y")) == (b"one", b"mine")
    folder.replace("cells/x", b"three", "0" * 16)
    assert folder.read("cells/x") == b"three"
    (name,) = folder.entries("cells")
    assert (name, folder.entries("cells")[name].size) == ("x", 5)
    assert folder.entries("cells")[name].written > 1.7e9
    assert folder.entries("nothing") == {}
    for name in ("cells/x", "cells/x", "claims/y"):
        folder.remove(name)
    folder.prune("claims")
    assert folder.entries("cells") == {}


def test_of_many_that_create_a_file_one_does(out):
    if out.startswith("memory"):
        pytest.skip("fsspec's memory looks before it writes")
    folder = folder_at(out)
    folder.make()
    won = []
    barrier = threading.Barrier(8)

    def create(i):
        barrier.wait()
        for number in range(10):
            for way in (folder.create, lambda n, c, w: folder.mark(f"m{n}", c)):
                if way(f"f{number}", b"x", f"{i:016x}"):
                    won.append(number)

    threads = [threading.Thread(target=create, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == sorted(2 * list(range(10)))


def test_a_sweep_anywhere_has_the_same_bytes(out, tmp_path):
    cells = [*NAPS, Nap(-1.0)]
    sweep.run(NAPS, tmp_path / "whole", name="naps")
    found = sweep.run(cells, out, name="naps")
    assert (found.computed, len(found.failures)) == (3, 1)
    assert sweep.status(out).failed == ("value=-1.0",)
    assert sweep.collect(out).num_rows == 3
    again = sweep.run(NAPS, out, name="naps")
    assert (again.computed, again.reused) == (0, 3)
    assert {k: v for k, v in objects(out).items() if not k.startswith("failed")} == contents(
        tmp_path / "whole"
    )


def test_claims_are_taken_over_anywhere(out, monkeypatch):
    """By the next claim: the first one stays until the cell is done, then nothing is left."""
    monkeypatch.setattr(_claims, "SILENCE", 0.3)
    monkeypatch.setattr(_run, "_LOOK", 0.05)
    folder, name = folder_at(out), fingerprint(NAPS[0])
    folder.make()
    worker = "0123456789abcdef-1-elsewhere"
    folder.mark(f"claims/{name}.0", f"{worker}\nvalue=1.0".encode())
    folder.replace(f"workers/{worker}", b"{}", worker)
    seen = []
    rows = Nap.rows

    def look(cell):
        seen.extend(sorted(n for n in folder.entries("claims") if n.startswith(name)))
        return rows(cell)

    monkeypatch.setattr(Nap, "rows", look)
    assert sweep.run(NAPS, out).computed == 3
    assert f"{name}.1" in seen
    assert f"{name}.0" in seen
    assert set(objects(out)) == {"experiment.json"} | {
        f"cells/{fingerprint(cell)}.parquet" for cell in NAPS
    }


@pytest.mark.slow
def test_processes_share_an_object_store(s3, tmp_path):
    sweep.run(many_naps(), tmp_path / "whole", name="naps")
    script = "from tests.sweep.naps import main; main()"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, f"{s3}/shared", str(shard), "3"],
            stdout=subprocess.PIPE,
            text=True,
        )
        for shard in range(3)
    ]
    assert sum(int(process.communicate(timeout=300)[0]) for process in processes) == 80
    assert objects(f"{s3}/shared") == contents(tmp_path / "whole")


@pytest.mark.parametrize("url", ["nowhere://a/b", "s3://no-such-bucket-of-ours/x"])
def test_a_place_that_cannot_be_is_named(url, monkeypatch):
    if url.startswith("s3"):
        monkeypatch.setitem(sys.modules, "fsspec", None)
    else:
        pytest.importorskip("fsspec")
    with pytest.raises(ValueError, match="out must be"):
        folder_at(url)
