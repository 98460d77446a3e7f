"""Plants faults in the library, one at a time, and runs the default tests nearest to each.

    python -m tests.mutants --number 300 --jobs 2   # hours on two cores; prints what survives
    python -m tests.mutants --number 5 --only _krr

A mutant is one changed node of the syntax tree of a method that decides what is reported, added up,
estimated, drawn or predicted: an operator, a comparison, a constant, an index of a key that is
folded, the two branches of a choice. It is killed by a test that fails, or by an error: so let
the default tests pass on the commit first. The nearest tests are those of the file's own name,
those that import it by name, and the contract suites of the members that it is part of; where there
are none, also those nearest to the files that import it. Programs that a fault leaves as they were
are compiled once.
"""

import argparse
import ast
import concurrent.futures
import copy
import dataclasses
import multiprocessing
import os
import pathlib
import queue
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parents[1]
FUNCTIONS = {
    "from_bits", "tally", "estimate", "variance", "covariance", "report_law", "decode", "vector",
    "_draw", "_draw_independent", "_sum", "_draft", "_sets", "play", "noise",
}  # fmt: skip
WHOLE = (
    "jaxdp/random/_alias.py",
    "jaxdp/random/_count.py",
    "jaxdp/random/_tally.py",
    "jaxdp/random/_words.py",
    "jaxdp/engine/_plan.py",
    "jaxdp/engine/_stream.py",
    "kernels/jaxdp_kernels/randomize_and_tally",
    "kernels/jaxdp_kernels/threefry_words",
)
"""Files of which every function is changed: exact counts, words, blocks."""
COSTS = {"_default_block", "check_block_size", "check_num_users"}
"""Functions of these that decide how long a run takes, or whether it is begun."""
LEFT_OUT = {"arg_specs", "mosaic_gpu"}
"""Files that decide nothing of this: the arguments that kernels are timed with; and the body of a
kernel that jax 0.10 only compiles."""
PACKAGES = ("randomizers", "linear", "pairwise", "central", "learning", "trusted")
PLACES = (*(f"jaxdp/{package}" for package in PACKAGES), *WHOLE)
SAME = {
    "rows = max(min(_CHUNK // (d + 1), d + 1), 1)": "how many inputs are drawn at once",
    "if len(reports) > _MOST_ADDED:": "how many users are added at once",
    'unit, wide = TILE if even > TILE else 1, platform != "cpu"': "how many users a block has",
    "jnp.where(value < 0, negative.hi, positive.hi),": "minus zero is zero",
    "jnp.where(value < 0, negative.lo, positive.lo),": "minus zero is zero",
    "numbered = jnp.int32(0)": "every user has a level",
    "if all(leaf.ndim == 2 for leaf in jax.tree.leaves(reports)):": "tile by tile or all at once",
    "half = number // 2": "in which order tallies are merged",
    "elif size <= LANES or num_words == 1 or (draft is None and num_words <= FEW_WORDS):": (
        "which way to make the same words"
    ),
    "if num_words <= FEW_WORDS:  # a choice: what reads concatenated halves is not vectorised": (
        "which way to make the same words"
    ),
    "if num_blocks > 1 or (wide and source.rows is None):": "how many users a block has",
    "even = max(-(-share // num_blocks), 1)": "how many users a block has",
    "counts = collect(self._values, users, 0)": "values are no reports, and take no words",
    "carries.append((a & b) | (c & (a ^ b)))": "where both are 1 the carry is 1 anyway",
    "empty = [()] if self._empty(32) or self._empty(8) else []": (
        "which moduli divide the words' number does not depend on their length, but for k > 256"
    ),
    "cell = cells + (label << level) if private else cells": (
        "both differ in a bit that no place has"
    ),
    "bits = min(32 - (terms - 1).bit_length(), 16)": "more limbs than are needed",
    "if self._num_cohorts <= _FEW_COHORTS:": "a cohort after the other, or all at once",
    "if row < _FEWEST_ROW or plan.block * summed.size >= 2**32:  # places of 32 bits": (
        "whether the loop adds integers alone"
    ),
    "tiled = block % TILE == 0": "tile by tile or all at once",
    ")[0]": "1 for 0: jax clamps an index beyond the end",
    "return _bind(equation, x, _chosen(within, by, np.asarray(31, by.dtype)))": (
        "where there is no GPU: a shift by 32 is one by 31"
    ),
    "return np.asarray(drawn + average(noise) / self.num_reports(n) + bias**2)": (
        "the bias is of rounding, below 1e-9"
    ),
    "return squares + mixed + sum_integers(low * low, 2**30, mask)": "a larger bound",
    "if bound**2 < 2**31:": "which way to add the same squares",
    "a = max((array.shape[-1] - 1).bit_length(), 1)": "more columns than are needed",
    "if num_users <= LANES:": "which way to make the same words",
    "words = [first_words(users_words(key, self.start, users, 1), 1)[0] for key in self.keys]": (
        "more words than are read"
    ),
    "first = jnp.min(place, initial=users.shape[1], where=held)": (
        "places without users draw nothing"
    ),
    "if self.share is None or self.share % self.block == 0:": "clipped twice is clipped once",
    "noise = self.noise.draw(words[0]) - np.int32(d)": (
        "1 for 0: jax clamps an index beyond the end"
    ),
    "value = jnp.clip(value.astype(jnp.int32), 0, self.right.shape[-2] - 1)": (
        "jax clamps an index beyond the end"
    ),
    "users = sum_integers(jnp.ones(reports.shape[0], jnp.int32), 1, mask)": "a larger bound",
    "mixed = sum_integers(high * low, most * 2**15, mask).times(2**16)": "a larger bound",
    "line = line.reshape([-1 if i == axis else 1 for i in range(len(shape))])": (
        "NumPy takes any negative size for what is left"
    ),
    "return np.asarray(np.sum(counts * spread) / counts.sum() ** 2 + bias**2)": (
        "the bias is of rounding, below 1e-9"
    ),
    "return jnp.where(words[0] < threshold, jnp.abs(x), -jnp.abs(x)), across, accepted": (
        "one word of 2**32, in a draw of all users"
    ),
    "if all(leaf.size <= tiles * width for leaf in leaves):": "whether reports are stored",
    "certain = v * large >= (z2 - 3) ** 2 / 12 + 2 / large": "which lanes the exact test is spared",
    "ratio = jnp.exp(jnp.where(good, log_ratio, np.float32(0))) * np.float32(WORDS / 2)": (
        "of reports that the next line drops"
    ),
    "half = len(reports) // 2": "where users are cut",
    "row = 2 ** ((2**31 // (bound + 1)).bit_length() - 1)": "a larger bound",
    "row = min(2 ** ((2**31 // (summed.bound + 1)).bit_length() - 1), ROW)": "a larger bound",
    "noise = jnp.rint(jnp.sqrt(jnp.maximum(total - 1 / 12, 0.0)) * normal)": (
        "at most a two-thousandth of the noise's variance, of 19 users"
    ),
    "rows = 8 if users >= 128 else 1  # up to 128 users are added in a byte": (
        "how many users are added in a byte, which holds fifteen rows of them"
    ),
}
"""Lines where a fault may change nothing that users see, and why: the longest tests are spared."""
_MEMORY = 2**33  # bytes that the tests of one fault may take
SOUND = (ROOT / "jaxdp/randomizers/_krr.py", ROOT / "jaxdp/engine/_stream.py")
"""Files whose nearest tests must pass on a copy without a fault."""
CONTRACTS = sorted((ROOT / "tests/contracts").glob("test_*.py"))
PROCESSES = multiprocessing.get_context("forkserver")
"""Copies of a process that has imported what every test needs, but nothing of the library."""
# Not hypothesis: pytest warns that it cannot rewrite a plugin's assertions afterwards.
PROCESSES.set_forkserver_preload(["chex", "jax", "optax", "pytest", "scipy.stats"])
ARITHMETIC = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult,
              ast.FloorDiv: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
              ast.BitXor: ast.BitOr, ast.RShift: ast.LShift, ast.LShift: ast.RShift}  # fmt: skip
COMPARISONS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
               ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One fault: where it is, and the text of the file that has it."""

    path: pathlib.Path
    line: int
    before: str
    after: str
    text: str

    def place(self, seed: str) -> tuple[int, str]:
        """Where it comes in the order of a seed, which changes elsewhere leave as it is."""
        fault = f"{seed} {self.path.relative_to(ROOT)} {self.text.splitlines()[self.line - 1]}"
        return zlib.crc32(fault.encode()), str(self)

    @property
    def same(self) -> str | None:
        """Why it may change nothing that users see."""
        return SAME.get(self.path.read_text().splitlines()[self.line - 1].strip())

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.before}  ->  {self.after}"


def changes(node: ast.AST, index: bool) -> Iterator[ast.AST]:
    """What may stand in the place of a node, which may be part of an index."""
    new = copy.deepcopy(node)
    match new:
        case ast.BinOp() if type(new.op) in ARITHMETIC:
            new.op = ARITHMETIC[type(new.op)]()
            yield new
        case ast.Compare() if type(new.ops[0]) in COMPARISONS:
            new.ops[0] = COMPARISONS[type(new.ops[0])]()
            yield new
        case ast.UnaryOp(op=ast.USub() | ast.Invert()):
            yield new.operand
        case ast.Constant(value=value) if type(value) in (int, float):
            # Not beyond the end, where jax clamps: the entry would be the same.
            new.value = value - 1 if index and value >= 1 else value + 1
            yield new
        case ast.Call(func=ast.Attribute(attr="where"), args=[_, first, second]):
            new.args[1:] = [second, first]
            yield new
        case ast.Call(func=ast.Attribute(attr="fold_in"), args=[_, number]):
            if not (isinstance(number, ast.Constant) and number.value == 0):
                new.args[1] = ast.Constant(0)
                yield new


def sources() -> list[pathlib.Path]:
    """The files in which faults are planted."""
    files = [path for path in map(ROOT.joinpath, PLACES) if path.suffix]
    folders = [path for path in map(ROOT.joinpath, PLACES) if not path.suffix]
    files += [path for folder in folders for path in sorted(folder.rglob("*.py"))]
    return [path for path in files if path.stem not in LEFT_OUT]


def mutants_of(path: pathlib.Path) -> Iterator[Mutant]:
    """All faults that can be planted in a file."""
    source = path.read_text()
    whole = any(str(path.relative_to(ROOT)).startswith(part) for part in WHOLE)
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef) or not (whole or function.name in FUNCTIONS):
            continue
        if function.name in COSTS:
            continue
        inside = [node for statement in function.body for node in ast.walk(statement)]
        indices = {n for x in inside if isinstance(x, ast.Subscript) for n in ast.walk(x.slice)}
        hints = {n for x in inside if isinstance(x, ast.AnnAssign) for n in ast.walk(x.annotation)}
        for node in inside:
            if node not in hints:
                for new in changes(node, node in indices):
                    yield from _planted(path, source, node, new)


def _planted(path: pathlib.Path, source: str, node: ast.AST, new: ast.AST) -> Iterator[Mutant]:
    assert isinstance(node, ast.expr)
    before, after = ast.get_source_segment(source, node), f"({ast.unparse(new)})"
    if before is None or "\n" in before:  # faults of one line are told apart at a glance
        return
    lines = source.splitlines(keepends=True)
    row = lines[node.lineno - 1].encode()  # columns are counted in bytes
    changed = row[: node.col_offset] + after.encode() + row[node.end_col_offset :]
    text = "".join([*lines[: node.lineno - 1], changed.decode(), *lines[node.lineno :]])
    yield Mutant(path, node.lineno, before, after, text)


def members(path: pathlib.Path) -> dict[str, str]:
    """The contract cases whose spec or params, or a base of theirs, is in a file; their files."""
    from tests.contracts.registry import PROTOCOLS

    name = str(path.relative_to(ROOT).with_suffix("")).replace("/", ".")
    found = {}
    for case in PROTOCOLS:
        spec = case.make(1.0)
        kinds = {*type(spec).__mro__, *type(spec.build()).__mro__}
        if any(kind.__module__ == name for kind in kinds):
            found[case.name] = type(spec).__module__.rpartition("._")[2]
    return found


def importers(path: pathlib.Path) -> list[pathlib.Path]:
    """The files beside a file that import from it."""

    def imports(other: pathlib.Path) -> bool:
        nodes = ast.walk(ast.parse(other.read_text()))
        return any(isinstance(node, ast.ImportFrom) and node.module == path.stem for node in nodes)

    return [other for other in sorted(path.parent.glob("_[a-z]*.py")) if imports(other)]


def named(stem: str) -> list[str]:
    """The tests of a file of this name, or of the part of it that comes before an underscore."""
    while stem and not (found := sorted((ROOT / "tests").rglob(f"test_{stem}*.py"))):
        stem = stem.rpartition("_")[0]
    return [str(test.relative_to(ROOT)) for test in found]


def importing(path: pathlib.Path) -> list[str]:
    """The tests that name a private file."""
    names = re.compile(rf"import.*\b{path.stem}\b|\.{path.stem} import")
    tests = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(test.relative_to(ROOT)) for test in tests if names.search(test.read_text())]


@dataclasses.dataclass(frozen=True)
class Tests:
    """The tests nearest to a file.

    Attributes:
      stages: files and folders, those first that see the most in the least time; each stage is run
        if all tests of those before it pass.
      members: the contract cases to test, a few of those that the file is part of.
    """

    stages: tuple[tuple[str, ...], ...]
    members: tuple[str, ...]

    def runs(self) -> Iterator[list[str]]:
        """The arguments of pytest, stage by stage."""
        options = [f"--members={','.join(self.members)}"] if self.members else []
        seen: set[str] = set()
        for stage in self.stages:
            if new := [path for path in dict.fromkeys(stage) if path not in seen]:
                yield [*options, *new]
            seen |= set(new)


def nearest(path: pathlib.Path) -> Tests:
    """The tests nearest to a file."""
    stem = path.stem.lstrip("_")
    own, files = named(stem) + importing(path), members(path)
    cases = list(files)[:4]  # of a base, a few of those that derive from it
    for case in cases:
        own += named(files[case])
    folders = ["kernels", "random", "engine"]
    shared = "kernels" in path.parts or path.relative_to(ROOT).parts[1] in folders
    if shared and not cases:
        cases = ["krr-5", "laplace", "subset-6"]
    stored, suites = [], []
    if cases:
        stored = ["tests/contracts/test_digests.py", "tests/contracts/test_checks.py::test_law"]
        suites = [
            f"tests/contracts/{file.name}" for file in CONTRACTS if file.name not in stored[0]
        ]
    if "randomizers" in path.parts:
        suites.append("tests/pairwise/test_oracle_statistic.py")  # the moments of noise
        suites.append("tests/linear/test_oracle_queries.py")  # and its covariances
    if shared:
        folders.sort(key=lambda folder: folder not in path.parts)
        suites += [f"tests/{folder}" for folder in folders]
    if not cases and not any(f"test_{stem}." in test for test in own):
        for other in map(nearest, importers(path)):
            suites += [test for stage in other.stages for test in stage]
            cases += other.members
    return Tests((tuple(stored), tuple(own), tuple(suites)), tuple(dict.fromkeys(cases))[:4])


def run_tests(root: str, tests: Tests, cache: str) -> None:
    """Ends this process with the number of the stage that fails in a copy of the tree, or 0."""
    sources = ("", "kernels", "experiments")
    original = {ROOT / source for source in sources}
    roots = [os.path.join(root, source) for source in sources]
    sys.path[:] = roots + [path for path in sys.path if pathlib.Path(path) not in original]
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]  # imported with this function
    os.environ |= {"PYTHONPATH": os.pathsep.join(roots), "JAXDP_TEST_CACHE": cache}
    os.chdir(root)
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))  # a fault may ask for all of it
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    import pytest

    for number, arguments in enumerate(tests.runs(), 1):
        if pytest.main(["-q", "-x", "-p", "no:cacheprovider", *arguments]) not in (0, 5):
            os._exit(number)  # 5: no test was chosen
    os._exit(0)


def killed_by(mutant: Mutant, tests: Tests, seconds: float, cache: str) -> int | None:
    """The stage of tests that fails on a copy of the tree with the fault in it, 0 if none does.

    None is a hang, which is seen too.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder, "tree")
        shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(".*", "_build"))  # with bytecode
        (root / mutant.path.relative_to(ROOT)).write_text(mutant.text)
        process = PROCESSES.Process(target=run_tests, args=(str(root), tests, cache))
        process.start()
        process.join(seconds)
        if process.exitcode is None:
            process.kill()
            process.join()
            return None
        return process.exitcode


def main() -> None:
    """Plants faults and prints the share that is killed, and every survivor."""
    parser = argparse.ArgumentParser(description="Plants faults and runs the nearest tests.")
    parser.add_argument("--number", type=int, default=300, help="faults to plant")
    parser.add_argument("--seed", default="0", help="which ones")
    parser.add_argument("--skip", type=int, default=0, help="the first of them, run before")
    parser.add_argument("--only", default="", help="in files whose path has this pattern")
    parser.add_argument("--minutes", type=float, default=10.0, help="for the tests of one fault")
    parser.add_argument("--jobs", type=int, default=1, help="faults at a time")
    parser.add_argument(
        "--sound",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="also run the tests of two files without a fault",
    )
    options = parser.parse_args()
    files = [path for path in sources() if re.search(options.only, str(path))]
    every = [mutant for path in files for mutant in mutants_of(path)]
    every.sort(key=lambda mutant: mutant.place(options.seed))
    chosen = every[options.skip : options.skip + options.number]
    print(f"{len(chosen)} of {len(every)} faults in {len(files)} files", flush=True)
    runs = {path: nearest(path) for path in sorted({*SOUND, *(mutant.path for mutant in chosen)})}

    # Tests are rewritten by pytest once, and their bytecode copied with the tree.
    collect = [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests"]
    kept = {name: x for name, x in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(collect, cwd=ROOT, env=kept, stdout=subprocess.DEVNULL, check=True)
    survivors: list[Mutant] = []
    with (
        tempfile.TemporaryDirectory() as caches,
        concurrent.futures.ThreadPoolExecutor(options.jobs) as pool,
    ):
        idle: queue.SimpleQueue[str] = queue.SimpleQueue()  # caches that no job uses
        for job in range(options.jobs):
            idle.put(f"{caches}/{job}")

        def attempt(mutant: Mutant) -> int | None:
            tests = runs[mutant.path]
            if mutant.same:
                tests = dataclasses.replace(tests, stages=tests.stages[:-1])
            cache = idle.get()
            try:
                return killed_by(mutant, tests, 60 * options.minutes, cache)
            finally:
                idle.put(cache)

        sound = [Mutant(path, 0, "", "", path.read_text()) for path in SOUND]
        passed = pool.map(attempt, sound if options.sound else [])
        found = pool.map(attempt, chosen)
        for mutant, stage in zip(sound, passed, strict=False):
            if stage != 0:
                pool.shutdown(wait=False, cancel_futures=True)
                said = "hang" if stage is None else f"fail in stage {stage}"
                raise SystemExit(f"tests nearest to {mutant.path} {said} without a fault")
        for number, (mutant, stage) in enumerate(zip(chosen, found, strict=True), 1):
            survivors += [mutant] if stage == 0 else []
            said = "survives" if stage == 0 else f"killed by {stage}" if stage else "hangs"
            print(f"{number:4d} {said:11} {mutant}", flush=True)
    same = sum(mutant.same is not None for mutant in survivors)
    changing, killed = len(chosen) - same, len(chosen) - len(survivors)
    print(f"killed {killed} of {changing} that change anything: {killed / max(changing, 1):.1%}")
    for mutant in survivors:
        print(f"survives: {mutant}: {mutant.same or 'FOR NO KNOWN REASON'}")


if __name__ == "__main__":
    main()
