"""The `jaxdp` command: what it prints, where, and with which exit code."""

import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import jax
import pytest

import jaxdp
from jaxdp import _install, sweep
from jaxdp.sweep import _catalog, _fingerprint, cli
from tests.markdown import fenced

from .files import contents
from .naps import Nap

COMMAND = [sys.executable, "-c", "import sys; from jaxdp.sweep.cli import main; sys.exit(main())"]
ROOT = pathlib.Path(__file__).parents[2]
USERS = sweep.HistogramData([600, 300, 100])
CATALOG = _catalog.catalog


def krr_cells(settings):
    return [
        sweep.Simulation(
            protocol=jaxdp.randomizers.KRR(3, epsilon),
            data=USERS,
            num_trials=settings.num_trials,
            seed=settings.seed,
            labels={"epsilon": epsilon},
        )
        for epsilon in settings.epsilons
    ]


def draw(results):
    from matplotlib.figure import Figure

    figure = Figure()
    figure.subplots().plot(results["epsilon"].to_pylist(), results["rmse"].to_pylist(), "o")
    return figure


TOY = sweep.Experiment(
    name="toy",
    summary="A toy experiment",
    cells=krr_cells,
    settings=sweep.Settings(epsilons=(0.5, 1.0, 2.0), num_trials=20),
    quick=sweep.Settings(epsilons=(1.0,), num_trials=20, quick=True),
    figure=draw,
)


@dataclasses.dataclass(frozen=True)
class Known(_catalog.Entry):
    """The entry of an experiment that no module defines."""

    experiment: sweep.Experiment

    def load(self):
        return self.experiment


def known(experiment):
    return {"toy": Known("toy", experiment.summary, __name__, experiment)}


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    """A folder to run in, and the toy experiment among the known ones."""
    monkeypatch.chdir(tmp_path)
    everything = _catalog.catalog() | known(TOY)
    monkeypatch.setattr(_catalog, "catalog", lambda: everything)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("rnu toy", "there is no subcommand rnu; did you mean run?"),
        ("zzz toy", "zzz"),
        ("run toy --epsilon 1", "run has no option --epsilon; did you mean --epsilons?"),
        ("plan histogram --value 9", "plan has no option --value; did you mean --values?"),
        ("run toy --trials 1,2", "--num-trials/--trials must be one number, got '1,2'"),
        ("run toy --trials 1e-3", "--num-trials/--trials must be an integer, got '1e-3'"),
        ("describe toi", "did you mean toy?"),
        ("clean toy", "experiment.json"),
        ("clean .", "experiment.json"),
        ("completion fish", "fish"),
        ("run", "NAME"),
        ("run toi", "toy, got 'toi'; did you mean toy?"),
        ("run nothing-like-it", "toy, got 'nothing-like-it'"),
        ("run toy more", "more"),
        ("run toy --trails 3", "run has no option --trails; did you mean --trials?"),
        ("run toy --trials 0", "num_trials must be an integer >= 1, got 0"),
        ("run toy --trials -3", "num_trials must be an integer >= 1, got -3"),
        ("run toy --trials many", "--num-trials/--trials must be an integer, got 'many'"),
        ("run toy --trials 1.5", "--num-trials/--trials must be an integer, got '1.5'"),
        ("run toy --seed -1", "seed must be an integer in [0, 4294967295], got -1"),
        ("run toy --seed x", "--seed must be an integer, got 'x'"),
        ("run toy --workers 0", "workers must be an integer >= 1, got 0"),
        ("run toy --epsilons", "epsilons must be one or more different numbers > 0"),
        ("run toy --epsilons 1 1", "epsilons must be one or more different numbers > 0"),
        ("run toy --epsilons 1 0", "epsilons must be a finite number > 0, got 0.0"),
        ("run toy --epsilons 1 nan", "epsilons must be a finite number"),
        ("run toy --epsilons inf", "epsilons must be a finite number"),
        ("run toy --epsilons 1 x", "--epsilons must be numbers, got '1 x'"),
        ("run toy --epsilons 400", "epsilon must be at most"),
        ("run toy --out a-file", "--out must be a directory that can be written to, got 'a-file'"),
        ("show", "NAME|DIR"),
        ("show toi", "did you mean toy?"),
        ("show toy", "experiment.json"),
        ("show .", "experiment.json"),
        ("list all", "all"),
    ],
)
def test_mistakes_are_one_line(line, said, workplace, capsys):
    (workplace / "a-file").write_text("")
    assert cli.main(line.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("jaxdp: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    assert said in err
    assert [path.name for path in workplace.iterdir()] == ["a-file"]


def test_a_directory_in_use_is_a_mistake(workplace, capsys):
    assert cli.main("run toy --out used".split()) == 0
    capsys.readouterr()
    with sweep._claims.Claims(sweep._folder.Directory(pathlib.Path("used"))):
        assert cli.main("run toy --out used --trials 7".split()) == 2
    assert "no other experiment is running into, got used" in capsys.readouterr().err


def test_a_shard_computes_and_shows_all(workplace, capsys):
    assert cli.main("run toy --out shared --shard 1/3".split()) == 0
    assert "computed" in capsys.readouterr().out
    assert cli.main("status shared".split()) == 0
    assert "cells done\n" in capsys.readouterr().out


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"jaxdp {jaxdp.__version__}\n"


def test_missing_extras(capsys, monkeypatch):
    monkeypatch.setattr(cli, "EXTRAS", ("rich", "no_such_package"))
    assert cli.main(["list"]) == 2
    assert capsys.readouterr().err == f"jaxdp: needs no_such_package: {_install.install('sweep')}\n"


@pytest.mark.parametrize("line", ["", "--help", "run --help", "show --help", "list --help"])
def test_help(line, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(line.split())
    assert not stop.value.code
    out = capsys.readouterr().out
    for name, options in {
        "": ("run", "show", "list", "clean", "describe", "completion", "version"),
        "run --help": ("--out", "--trials", "--seed", "--workers", "--epsilons", "--quick", "NAME"),
        "show --help": ("NAME|DIR",),
    }.items():
        assert line != name or all(option in out for option in options)


def test_list(capsys):
    assert cli.main(["list"]) == 0
    out = capsys.readouterr().out
    assert re.search("^kendall-flights +Kendall's tau", out, re.MULTILINE)
    assert re.search("^toy +A toy experiment$", out, re.MULTILINE)


HEAVY = "jax jaxlib numpy pyarrow matplotlib rich jaxdp_kernels jaxdp_experiments".split()


@pytest.mark.parametrize(
    ("line", "banned"),
    [
        ("--version", [*HEAVY, "tyro", "re", "dataclasses", "importlib.metadata"]),
        ("list", [*HEAVY, "tyro"]),
        ("--help", HEAVY),
        ("run --help", HEAVY),
    ],
)
def test_what_computes_nothing_waits_for_nothing(line, banned):
    """What is imported, in place of the time that it takes."""
    probe = (
        "import atexit, sys; before = set(sys.modules); from jaxdp.sweep.cli import main; "
        "atexit.register(lambda: print(*set(sys.modules) - before)); sys.exit(main())"
    )
    command = [sys.executable, "-c", probe, *line.split()]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    *said, imported = ran.stdout.splitlines()
    assert said
    assert "jaxdp.sweep" in imported.split()
    assert set(imported.split()) & set(banned) == set()


def test_run_show_and_run_again(workplace, capsys):
    assert cli.main(["run", "toy"]) == 0
    first, progress = capsys.readouterr()
    assert "3 cells; begins with epsilon=0.5\n[1/3] " in progress
    assert re.search(r"\[2/3\] \d+ s, about \d+ s left  epsilon=", progress)
    assert "[3/3]" in progress
    assert "3 computed, 0 reused" in first
    root = workplace / "jaxdp-results" / "toy"
    files = contents(root)
    assert {"experiment.json", "toy.png", "toy.svg"} < set(files)

    assert cli.main(["run", "toy"]) == 0
    again, progress = capsys.readouterr()
    assert progress == ""
    assert "0 computed, 3 reused" in again
    assert again.splitlines()[:-1] == first.splitlines()[:-1]
    for target in ("toy", "jaxdp-results/toy"):
        assert cli.main(["show", target]) == 0
        assert capsys.readouterr().out.splitlines() == first.splitlines()[:-1]
    assert "toy.png" in first
    assert contents(root) == files

    assert cli.main(["run", "toy", "--force"]) == 0
    assert "3 computed, 0 reused" in capsys.readouterr().out
    assert contents(root) == files


def test_a_dry_run_computes_nothing(workplace, capsys):
    assert cli.main("run toy --dry-run".split()) == 0
    out = capsys.readouterr().out
    assert "3 cells, 0 there already, 3 to compute\n  epsilon=0.5\n" in out
    assert list(workplace.iterdir()) == []
    assert cli.main("run toy --epsilons 1".split()) == 0
    capsys.readouterr()
    before = contents(workplace)
    assert cli.main("run toy --dry-run".split()) == 0
    assert "1 there already, 2 to compute" in capsys.readouterr().out
    assert contents(workplace) == before


def test_quiet_says_nothing_but_failures(workplace, monkeypatch, capsys):
    assert cli.main("run toy --quiet".split()) == 0
    assert capsys.readouterr() == ("", "")
    broken = dataclasses.replace(TOY, cells=lambda settings: [Nap(1.0), Nap(-4.0)], figure=None)
    monkeypatch.setattr(_catalog, "catalog", lambda: known(broken))
    assert cli.main("run toy --quiet --out broken".split()) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "no root of -4.0" in err


def test_numbers_as_people_write_them(workplace, capsys):
    assert cli.main("run toy --trials 2e1 --epsilons 0.25,1 2".split()) == 0
    results = sweep.collect("jaxdp-results/toy")
    assert set(results["epsilon"].to_pylist()) == {0.25, 1.0, 2.0}
    assert set(results["num_trials"].to_pylist()) == {20}


def test_cells_of_other_code_are_said_and_kept(workplace, monkeypatch, capsys):
    monkeypatch.setattr(_fingerprint, "_versions", lambda modules: {"mine": "a"})
    assert cli.main("run toy".split()) == 0
    monkeypatch.setattr(_fingerprint, "_versions", lambda modules: {"mine": "b"})
    capsys.readouterr()
    assert cli.main("run toy --dry-run".split()) == 0
    (code,) = re.findall("--accept-code ([0-9a-f]{12}) would keep", capsys.readouterr().out)
    assert cli.main("run toy --epsilons 1".split()) == 0
    assert f"1 cell is of other code, {code} (mine a, now b)" in capsys.readouterr().err
    assert cli.main("run toy --accept-code 0123456789ab".split()) == 2
    assert f"accept_code must be one of {code}, got" in capsys.readouterr().err
    assert cli.main(["run", "toy", "--accept-code", code]) == 0
    assert "0 computed, 3 reused" in capsys.readouterr().out


def test_clean(workplace, monkeypatch, capsys):
    assert cli.main("run toy".split()) == 0
    assert cli.main("run toy --epsilons 1".split()) == 0
    whole = contents(workplace)
    capsys.readouterr()
    assert cli.main("clean toy --dry-run".split()) == 0
    assert capsys.readouterr().out.count("of other settings") == 2
    assert cli.main("clean toy".split()) == 2  # where nobody can be asked
    assert "say --yes" in capsys.readouterr().err
    assert contents(workplace) == whole
    root = workplace / "jaxdp-results" / "toy"
    (root / "workers").mkdir()
    worker = "0123456789abcdef-1-elsewhere"
    (root / "workers" / worker).touch()
    assert cli.main("clean toy --yes".split()) == 2
    assert "in which nothing runs" in capsys.readouterr().err
    (root / "workers" / worker).unlink()
    (root / "claims").mkdir()
    (root / "claims" / "left.0").touch()
    (root / "cells" / f".left.parquet.{worker}.tmp").touch()
    assert cli.main("clean toy --yes".split()) == 0
    assert len(contents(root / "cells")) == 1
    assert contents(root / "claims") == {}
    assert cli.main("show toy".split()) == 0
    capsys.readouterr()
    assert cli.main("clean toy".split()) == 0
    assert "nothing but its results" in capsys.readouterr().out


def test_describe(capsys):
    assert cli.main(["describe", "toy"]) == 0
    out = capsys.readouterr().out
    assert "toy: A toy experiment" in out
    assert "3, of which --quick takes 1" in out
    assert "epsilon: 0.5, 1.0, 2.0" in out
    assert "20 a cell" in out


def test_versions_and_devices(capsys):
    assert cli.main(["version"]) == 0
    assert capsys.readouterr().out == f"jaxdp {jaxdp.__version__}\n"
    assert cli.main(["version", "--verbose"]) == 0
    out = capsys.readouterr().out
    assert f"jax {jax.__version__}\n" in out
    assert "cpu" in out


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion(shell, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["completion", shell])
    assert not stop.value.code
    assert "accept-code" in capsys.readouterr().out


def test_settings_reach_the_cells(workplace, capsys):
    line = "run toy --num-trials 7 --seed 3 --epsilons 0.25 1 --out here --workers 1"
    assert cli.main(line.split()) == 0
    results = sweep.collect("here")
    assert set(results["epsilon"].to_pylist()) == {0.25, 1.0}
    assert set(results["num_trials"].to_pylist()) == {7}
    assert cli.main("run toy --quick --out here".split()) == 0
    assert set(sweep.collect("here")["epsilon"].to_pylist()) == {1.0}


def test_a_figure_of_other_settings_is_not_kept(workplace, capsys):
    assert cli.main("run toy --out here".split()) == 0
    before = contents(workplace / "here")["toy.png"]
    assert cli.main("run toy --out here --epsilons 4".split()) == 0
    assert contents(workplace / "here")["toy.png"] != before
    assert cli.main("run toy --out here".split()) == 0
    assert contents(workplace / "here")["toy.png"] == before


def test_failures_come_last_with_their_label(monkeypatch, capsys):
    def cells(settings):
        return [Nap(1.0), Nap(-4.0), Nap(2.0)]

    broken = dataclasses.replace(TOY, cells=cells)
    monkeypatch.setattr(_catalog, "catalog", lambda: known(broken))
    assert cli.main(["run", "toy"]) == 1
    out, err = capsys.readouterr()
    assert "1.41421" in out
    assert "1 of 3 cells are missing" in out
    assert not pathlib.Path("jaxdp-results/toy/toy.png").exists()
    assert re.search(r"\[\d/3\].*  FAILED value=-4.0\n", err)
    assert err.index("[3/3]") < err.index("cell value=-4.0 failed:") < err.index("no root of -4.0")
    assert err.endswith("1 of 3 cells failed\n")
    assert len(sweep.collect("jaxdp-results/toy")) == 2


def test_a_bug_keeps_its_traceback(monkeypatch):
    def figure(results):
        raise ValueError("a bug in drawing")

    broken = dataclasses.replace(TOY, figure=figure)
    monkeypatch.setattr(_catalog, "catalog", lambda: known(broken))
    with pytest.raises(ValueError, match="a bug in drawing"):
        cli.main(["run", "toy", "--quick"])


@pytest.fixture
def install(tmp_path, monkeypatch):
    """A function that installs the example of experiments/README.md as a package of its own."""
    ((_, code),) = fenced((ROOT / "experiments" / "README.md").read_text(), "python")

    def register(package, target):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
        (tmp_path / package / "_shared.py").write_text("raise AssertionError('not one to import')")
        (tmp_path / package / "my_table.py").write_text(code)
        about = tmp_path / f"{package}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[jaxdp.experiments]\nany = {target}\n")

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(_catalog, "catalog", CATALOG)
    before = set(sys.modules)
    yield register
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize("target", ["papers", "papers.my_table"])
def test_installed_packages_register_experiments(target, install, capsys):
    install("papers", target)
    assert cli.main(["list"]) == 0
    assert "my-table            Table 1 of the paper, one line\n" in capsys.readouterr().out
    assert "papers.my_table" not in sys.modules
    assert cli.main(["run", "my-table", "--quick", "--out", "out"]) == 0
    assert "1 computed" in capsys.readouterr().out


def test_all_experiments_are_what_their_sources_say():
    known = CATALOG()
    assert {"kendall-flights", "bell-fig3"} < set(known)
    for name, entry in known.items():
        experiment = entry.load()
        assert (name, entry.summary) == (experiment.name, experiment.summary)


LITERAL = "EXPERIMENT = Experiment(name='my-table', summary='One line')\n"


@pytest.mark.parametrize(
    "code",
    [
        LITERAL.replace("'my-table'", "'my-' + 'table'"),
        LITERAL.replace("Experiment(", "dict("),
        LITERAL + "EXPERIMENT = renamed(EXPERIMENT)\n",
        LITERAL + "if True:\n  from elsewhere import EXPERIMENT\n",
        "from elsewhere import *\n",
        "from elsewhere import EXPERIMENT\n",
        "EXPERIMENT = 1 +\n",
        "",
    ],
)
def test_what_a_source_does_not_say_is_not_guessed(code, tmp_path):
    path = tmp_path / "module.py"
    path.write_text(LITERAL)
    assert _catalog._described(str(path)) == ("my-table", "One line")
    path.write_text(code)
    assert _catalog._described(str(path)) is None


def test_experiments_with_computed_names_are_imported(install, tmp_path):
    install("papers", "papers")
    path = tmp_path / "papers" / "my_table.py"
    path.write_text(path.read_text().replace('"my-table"', '"-".join(["her", "table"])'))
    assert _catalog.find_experiment("her-table") is sys.modules["papers.my_table"].EXPERIMENT


def test_an_experiment_that_is_handed_on_is_known_once(install, tmp_path):
    install("papers", "papers")
    (tmp_path / "papers" / "again.py").write_text("from papers.my_table import EXPERIMENT")
    assert "my-table" in CATALOG()


def test_experiments_of_one_name_are_refused(install):
    install("papers", "papers")
    install("more_papers", "more_papers")
    with pytest.raises(ValueError, match=r"papers\.my_table defines another 'my-table'"):
        sweep.experiments()


def test_an_entry_point_without_a_module_is_named(install):
    install("papers", "no_papers")
    with pytest.raises(ModuleNotFoundError, match=r"'no_papers', an entry point of jaxdp\.exp"):
        CATALOG()


@pytest.mark.slow
def test_ctrl_c(tmp_path):
    # A background job of a shell, such as these tests may be, ignores the signal by inheritance.
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    process = subprocess.Popen(
        [*COMMAND[:2], heed + COMMAND[2], "run", "kendall-flights", "--out", "out"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "kernels")])},
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None and not (tmp_path / "out" / "experiment.json").exists():
        time.sleep(0.01)
    time.sleep(0.5)  # into the first cells
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.splitlines()[-1].endswith("to go on, jaxdp run kendall-flights --out out")
    assert "Traceback" not in err
