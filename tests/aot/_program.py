"""What a compiled program does, read from XLA's text of it."""

import collections
import dataclasses
import functools
import math
import re
from collections.abc import Iterable
from typing import Any

_NO_KERNEL = frozenset(
    "after-all bitcast call conditional constant get-tuple-element parameter partition-id "
    "replica-id tuple while".split()
)
"""Operations that start no kernel; what a call, a branch or a loop holds is counted by itself."""

_BRANCHES = ("branch_computations", "true_computation", "false_computation")
_COLLECTIVE = re.compile(r"(all-|reduce-scatter|collective-|ragged-all)")
_FLOAT = re.compile(r"b?f\d")
_ROUNDS = 20  # of threefry, each with one exclusive or
_STREAM = 1024  # threefry blocks at once that are users' words, rather than a key


@dataclasses.dataclass(frozen=True)
class Measured:
    """What budgets are about.

    Attributes:
      users: users that one iteration of the loop over them serves, the fewest of all rounds; all,
        where there is no loop; 0 if its trip count is unknown or no users are streamed.
      blocks: threefry blocks made a user, of which each holds two words; 0 where `users` is.
      unknown: loops whose trip count the compiler does not know.
      kernels: started by one iteration of every loop, all loops together.
      outside: kernels started outside of loops.
      conditionals: branches taken at run time.
      host: places where the device waits for its host: on a GPU each unknown loop, whose predicate
        is read in every iteration, each conditional, and each callback.
      atomics: scatters of floats, whose sums depend on the order.
      collectives: operations between devices.
      mebibytes: of temporaries.
      seconds: CPU seconds that tracing, lowering and compiling took.
    """

    users: int
    blocks: float
    unknown: int
    kernels: int
    outside: int
    conditionals: int
    host: int
    atomics: int
    collectives: int
    mebibytes: float
    seconds: float


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One operation, the type and the elements of its (first) result, and what follows these."""

    opcode: str
    dtype: str
    size: int
    text: str

    def called(self, *attributes: str) -> list[str]:
        """The computations that some attributes name."""
        found = []
        for attribute in attributes:
            names = re.search(rf"\b{attribute}=(\{{[^}}]*\}}|%?[\w.\-]+)", self.text)
            found += re.findall(r"[\w.\-]+", names.group(1)) if names else []
        return found


@dataclasses.dataclass(frozen=True)
class Loop:
    """A loop: its body's name, and how often it runs, if that is known."""

    body: str
    trips: int | None


class Program:
    """The computations of a compiled program."""

    def __init__(self, text: str, platform: str):
        self.platform = platform
        self.computations: dict[str, list[Instruction]] = {}
        lines: list[Instruction] | None = None
        for line in text.splitlines():
            if head := re.match(r"(ENTRY )?%?([\w.\-]+) \(.*\{\s*$", line):
                lines = self.computations.setdefault(head.group(2), [])
                if head.group(1):
                    self.entry = head.group(2)
            elif line.startswith("}"):
                lines = None
            elif lines is not None and (instruction := _parse(line)):
                lines.append(instruction)

    @functools.cached_property
    def everything(self) -> list[Instruction]:
        """The operations of all computations."""
        return [i for instructions in self.computations.values() for i in instructions]

    def executed(self, name: str) -> list[Instruction]:
        """What one pass through a computation executes: with calls and branches, without loops."""
        found = []
        for instruction in self.computations[name]:
            found.append(instruction)
            if instruction.opcode in ("call", "async-start"):
                inner = instruction.called("to_apply", "calls")
            elif instruction.opcode == "conditional":
                inner = instruction.called(*_BRANCHES)
            else:
                continue
            for computation in inner:
                found += self.executed(computation)
        return found

    def loops(self, instructions: Iterable[Instruction]) -> list[Loop]:
        """The loops among some operations."""
        found = []
        for instruction in instructions:
            if instruction.opcode == "while":
                trips = re.search(r'"known_trip_count":\s*\{"n":"(\d+)"', instruction.text)
                (body,) = instruction.called("body")
                found.append(Loop(body, int(trips.group(1)) if trips else None))
        return found

    def kernels(self, name: str) -> int:
        """How many kernels one pass through a computation starts, without the loops in it."""
        return sum(map(self._is_kernel, self.executed(name)))

    def _is_kernel(self, instruction: Instruction) -> bool:
        if instruction.opcode in _NO_KERNEL or instruction.opcode.endswith("-done"):
            return False
        scalar = instruction.size <= 1 and instruction.opcode != "fusion"
        return not (scalar and self.platform == "tpu")  # whose scalar unit starts nothing for these

    def blocks(self, name: str) -> int:
        """Threefry blocks that one pass through a computation makes, keys' and loops' left out."""
        rounds, instructions = 0, self.executed(name)
        while instructions:
            instruction = instructions.pop()
            if instruction.opcode == "fusion":
                (fused,) = instruction.called("calls")
                instructions += self.computations[fused]
            elif instruction.opcode == "xor" and instruction.dtype == "u32":
                rounds += instruction.size if instruction.size >= _STREAM else 0
        return rounds // _ROUNDS

    def streams(self, name: str, passes: int | None = 1) -> list[tuple[int | None, int]]:
        """For each loop over users, how often it runs in all, and its blocks an iteration.

        A loop over users is one whose body makes their words; a loop around such a loop alone
        multiplies. A computation that makes words itself counts as run `passes` times.
        """
        if blocks := self.blocks(name):
            return [(passes, blocks)]
        found = []
        for loop in self.loops(self.executed(name)):
            known = passes is not None and loop.trips is not None
            found += self.streams(loop.body, passes * loop.trips if known else None)
        return found


def _parse(line: str) -> Instruction | None:
    named = re.match(r"\s+(?:ROOT )?%?[\w.\-]+ = (.*)$", line)
    if named is None:
        return None
    text = named.group(1)
    end = _closing(text) if text.startswith("(") else text.find(" ")
    result, rest = text[:end], text[end:]
    opcode = re.match(r"\s*([\w\-]+)\(", rest)
    shape = re.match(r"\(*(\w+)\[([\d,]*)\]", result)
    if opcode is None:
        return None
    sizes = [int(n) for n in shape.group(2).split(",") if n] if shape else []
    return Instruction(opcode.group(1), shape.group(1) if shape else "", math.prod(sizes), rest)


def _closing(text: str) -> int:
    """Where a tuple of shapes ends, whose layouts may hold brackets too."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return place + 1
    raise ValueError(f"no closing bracket in {text!r}")


def measure(compiled: Any, platform: str, seconds: float, num_users: int = 0) -> Measured:
    """What a program does.

    Args:
      compiled: by jax.
      platform: "cuda" or "tpu".
      seconds: that compiling it took.
      num_users: whom one device serves in one run of every round, 0 if users are not streamed.
    """
    program = Program(compiled.as_text(), platform)
    number = collections.Counter(i.opcode.removesuffix("-start") for i in program.everything)
    loops = program.loops(program.everything)
    unknown = sum(loop.trips is None for loop in loops)
    calls = sum(map(_is_host_call, program.everything))
    streams = program.streams(program.entry) if num_users else []
    known = [(passes, blocks) for passes, blocks in streams if passes is not None]
    users, blocks = 0, 0.0
    if streams and len(known) == len(streams):
        users = num_users // max(passes for passes, _ in known)
        blocks = max(passes * blocks for passes, blocks in known) / num_users
    return Measured(
        users=users,
        blocks=blocks,
        unknown=unknown,
        kernels=sum(program.kernels(loop.body) for loop in loops),
        outside=program.kernels(program.entry),
        conditionals=number["conditional"],
        host=calls + (unknown + number["conditional"] if platform == "cuda" else 0),
        atomics=sum(map(_is_float_atomic, program.everything)),
        collectives=sum(
            n
            for opcode, n in number.items()
            if _COLLECTIVE.match(opcode) and not opcode.endswith("-done")
        ),
        mebibytes=compiled.memory_analysis().temp_size_in_bytes / 2**20,
        seconds=seconds,
    )


def _is_host_call(instruction: Instruction) -> bool:
    if instruction.opcode in ("infeed", "outfeed", "send", "recv"):
        return True
    return instruction.opcode == "custom-call" and "callback" in instruction.text


def _is_float_atomic(instruction: Instruction) -> bool:
    return (
        instruction.opcode == "scatter"
        and _FLOAT.match(instruction.dtype) is not None
        and "unique_indices=true" not in instruction.text
    )
