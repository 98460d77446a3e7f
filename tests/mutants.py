"""Plants faults in the library, one at a time, and runs the default tests nearest to each.

    python -m tests.mutants --number 300 --jobs 2   # hours on two cores; prints what survives
    python -m tests.mutants --number 5 --only _krr

A mutant is one changed node of the syntax tree of a method that decides what is reported, added up,
estimated, drawn or predicted: an operator, a comparison, a constant, an index of a key that is
folded, the two branches of a choice. It is killed by a test that fails, or by an error: so let
the default tests pass on the commit first. The nearest tests are those of the file's own name, and
the contract suites of the members that it is part of; where there are neither, also those nearest
to the files that import it. Programs that a fault leaves as they were are compiled once.
"""

import argparse
import ast
import concurrent.futures
import copy
import dataclasses
import os
import pathlib
import queue
import random
import shutil
import subprocess
import sys
import tempfile
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
LEFT_OUT = {"arg_specs"}
"""Files that decide nothing of this: the arguments that kernels are timed with."""
PACKAGES = ("randomizers", "linear", "pairwise", "central", "learning", "trusted")
PLACES = (*(f"jaxdp/{package}" for package in PACKAGES), *WHOLE)
SAME = {
    "rows = max(min(_CHUNK // (d + 1), d + 1), 1)": "how many inputs are drawn at once",
    "if len(reports) > 2**23:  # up to 2**24 float32 counts exactly": "of 2**23 users in a block",
    "sides = [jax.tree.map(lambda limb, i=i: limb[i], outcome) for i in (0, 1)]": (
        "2 for 1: jax clamps an index beyond the end"
    ),
}
"""Lines where a fault may change nothing that users see, and why."""
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

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.before}  ->  {self.after}"


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in the place of a node."""
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
            new.value = value + 1
            yield new
        case ast.Call(func=ast.Attribute(attr="where"), args=[_, first, second]):
            new.args[1:] = [second, first]
            yield new
        case ast.Call(func=ast.Attribute(attr="fold_in"), args=[_, number]):
            if not (isinstance(number, ast.Constant) and number.value == 0):
                new.args[1] = ast.Constant(0)
                yield new


def mutants_of(path: pathlib.Path) -> Iterator[Mutant]:
    """All faults that can be planted in a file."""
    source = path.read_text()
    whole = any(str(path.relative_to(ROOT)).startswith(part) for part in WHOLE)
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef) or not (whole or function.name in FUNCTIONS):
            continue
        for statement in function.body:  # neither defaults nor annotations
            for node in ast.walk(statement):
                for new in changes(node):
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


def nearest(path: pathlib.Path) -> tuple[list[str], list[str]]:
    """The tests nearest to a file, those first that see the most; and the members to test."""
    stem = path.stem.lstrip("_")
    own, files = named(stem), members(path)
    cases = list(files)[:4]  # of a base, a few of those that derive from it
    for case in cases:
        own += named(files[case])
    folders = ["kernels", "random", "engine"]
    shared = "kernels" in path.parts or path.relative_to(ROOT).parts[1] in folders
    if shared and not cases:
        cases = ["krr-5", "laplace", "subset-6"]
    tests = ["tests/contracts/test_digests.py", *own, "tests/contracts"] if cases else own
    if "randomizers" in path.parts:
        tests = [*tests, "tests/pairwise/test_oracle_statistic.py"]  # the moments of noise
    if shared:
        folders.sort(key=lambda folder: folder not in path.parts)
        tests += [f"tests/{folder}" for folder in folders]
    if not cases and not any(f"test_{stem}." in test for test in own):
        for other in importers(path):
            more, others = nearest(other)
            tests, cases = tests + more, cases + others
    return list(dict.fromkeys(tests)), list(dict.fromkeys(cases))[:4]


def survives(
    mutant: Mutant, tests: list[str], cases: list[str], seconds: float, cache: str
) -> bool:
    """Whether the nearest tests pass on a copy of the tree with the fault in it."""
    with tempfile.TemporaryDirectory() as folder:
        copy_root = pathlib.Path(folder)
        for part in ("jaxdp", "kernels", "experiments", "tests", "docs/_ext"):
            shutil.copytree(ROOT / part, copy_root / part)  # with the bytecode
        shutil.copy(ROOT / "pyproject.toml", copy_root)
        (copy_root / mutant.path.relative_to(ROOT)).write_text(mutant.text)
        paths = os.pathsep.join(str(copy_root / part) for part in ("", "kernels", "experiments"))
        environment = os.environ | {"PYTHONPATH": paths, "JAXDP_TEST_CACHE": cache}
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        command += [f"--members={','.join(cases)}"] if cases else []
        try:
            done = subprocess.run(
                [*command, *tests], cwd=copy_root, env=environment, timeout=seconds,
                capture_output=True, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return False  # a hang is seen
        return done.returncode in (0, 5)  # 5: no test was chosen


def main() -> None:
    """Plants faults and prints the share that is killed, and every survivor."""
    parser = argparse.ArgumentParser(description="Plants faults and runs the nearest tests.")
    parser.add_argument("--number", type=int, default=300, help="faults to plant")
    parser.add_argument("--seed", default="0", help="which ones")
    parser.add_argument("--only", default="", help="in files whose path has this text")
    parser.add_argument("--minutes", type=float, default=10.0, help="for the tests of one fault")
    parser.add_argument("--jobs", type=int, default=1, help="faults at a time")
    options = parser.parse_args()
    files = [path for path in map(ROOT.joinpath, PLACES) if path.suffix]
    folders = [path for path in map(ROOT.joinpath, PLACES) if not path.suffix]
    files += [path for folder in folders for path in sorted(folder.rglob("*.py"))]
    files = [p for p in files if options.only in str(p) and p.stem not in LEFT_OUT]
    every = sorted((mutant for path in files for mutant in mutants_of(path)), key=str)
    chosen = random.Random(options.seed).sample(every, min(options.number, len(every)))
    print(f"{len(chosen)} of {len(every)} faults in {len(files)} files", flush=True)
    runs = {path: nearest(path) for path in sorted({mutant.path for mutant in chosen})}

    survivors = []
    with (
        tempfile.TemporaryDirectory() as caches,
        concurrent.futures.ThreadPoolExecutor(options.jobs) as pool,
    ):
        idle = queue.SimpleQueue()  # caches that no job uses
        for job in range(options.jobs):
            idle.put(f"{caches}/{job}")

        def alive(mutant: Mutant) -> bool:
            cache = idle.get()
            try:
                return survives(mutant, *runs[mutant.path], 60 * options.minutes, cache)
            finally:
                idle.put(cache)

        for number, (mutant, lives) in enumerate(
            zip(chosen, pool.map(alive, chosen), strict=True), 1
        ):
            survivors += [mutant] if lives else []
            print(f"{number:4d} {'SURVIVES' if lives else 'killed  '} {mutant}", flush=True)
    killed = len(chosen) - len(survivors)
    print(f"killed {killed} of {len(chosen)}: {killed / max(len(chosen), 1):.1%}")
    for mutant in survivors:
        line = mutant.path.read_text().splitlines()[mutant.line - 1].strip()
        print(f"survives: {mutant}: {SAME.get(line, 'FOR NO KNOWN REASON')}")


if __name__ == "__main__":
    main()
