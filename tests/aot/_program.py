"""What a compiled program does, read from XLA's text of it."""

import collections
import dataclasses
import functools
import math
import re
from collections.abc import Iterable

from ._device import Compiled

_NO_KERNEL = frozenset(
    "after-all bitcast call conditional constant get-tuple-element parameter partition-id "
    "replica-id tuple while".split()
)
"""Operations that start no kernel; what a call, a branch or a loop holds is counted by itself."""

_CALLS = {
    "async-start": ("calls",),
    "call": ("to_apply",),
    "conditional": ("branch_computations", "true_computation", "false_computation"),
    "fusion": ("calls",),
}
"""Operations that run other computations, and the attributes that name these."""

_COLLECTIVE = re.compile(r"(all-|reduce-scatter|collective-|ragged-all)")
_FLOAT_ATOMIC = re.compile(r"^\s*(?:@\S+\s+)?(?:atom|red)\.\S*\.b?f\d", re.MULTILINE)
_ROUNDS = 20  # of threefry2x32 in a block
_STREAM = 1024  # threefry blocks at once that are users' words, rather than a key


@dataclasses.dataclass(frozen=True)
class Measured:
    """What budgets are about.

    Attributes:
      users: users that one iteration of the loop over them serves, the fewest of all rounds; all,
        where there is no loop; 0 if its trip count is unknown or no users are streamed.
      blocks: threefry blocks made a user in all rounds, each of two words; 0 where `users` is.
      unknown: loops whose trip count the compiler does not know: a GPU waits for its host to read
        the predicate, each time. (TPUs run their loops themselves, and XLA's text for them tells no
        trip counts: all three are 0.)
      kernels: started by one iteration of every loop, all loops together.
      outside: kernels started outside of loops.
      conditionals: branches, for each of which a GPU waits too.
      atomics: places where a GPU adds floats to memory in an order that nobody knows: instructions
        for it, or scatters, which XLA also writes with a compare and swap.
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
    atomics: int
    collectives: int
    mebibytes: float
    seconds: float


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One operation, the type and the elements of its (first) result, and what follows these."""

    name: str
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

    def computed(self, name: str, *, fused: bool) -> list[list[Instruction]]:
        """The computations that one pass through one runs: calls, branches, no loops.

        Args:
          name: of the computation.
          fused: whether what kernels hold is listed too.
        """
        found = [self.computations[name]]
        for instruction in self.computations[name]:
            if fused or instruction.opcode != "fusion":
                for inner in instruction.called(*_CALLS.get(instruction.opcode, ())):
                    found += self.computed(inner, fused=fused)
        return found

    def executed(self, name: str) -> list[Instruction]:
        """What one pass through a computation executes, one after the other."""
        return [i for instructions in self.computed(name, fused=False) for i in instructions]

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
        return sum(map(_threefry_rounds, self.computed(name, fused=True))) // _ROUNDS

    def float_atomics(self, ptx: str) -> int:
        """How often floats are added to memory in no order."""
        scatters = 0
        for instruction in self.everything:
            if instruction.opcode == "scatter" and re.match(r"b?f\d", instruction.dtype):
                (update,) = instruction.called("to_apply")
                adds = any(i.opcode != "parameter" for i in self.computations[update])
                scatters += adds and "unique_indices=true" not in instruction.text
        return max(scatters, len(_FLOAT_ATOMIC.findall(ptx)))

    def streams(self) -> list[tuple[int | None, int]]:
        """For each loop over users, how often it runs, and its threefry blocks an iteration.

        A loop over users is one whose body makes their words; a loop around such loops multiplies.
        What makes words outside of all loops is a loop that runs once.
        """
        blocks = self.blocks(self.entry)
        return self._streams_within(self.entry, 1) + ([(1, blocks)] if blocks else [])

    def _streams_within(self, name: str, passes: int | None) -> list[tuple[int | None, int]]:
        found = []
        for loop in self.loops(self.executed(name)):
            trips = None if passes is None or loop.trips is None else passes * loop.trips
            blocks = self.blocks(loop.body)
            found += [(trips, blocks)] if blocks else self._streams_within(loop.body, trips)
        return found


def _threefry_rounds(instructions: list[Instruction]) -> int:
    """Numbers that a computation takes through a round: `x ^ (y << r | y >> 32 - r)`."""
    rotated = {i.name for i in instructions if i.opcode == "or"}
    rounds = 0
    for instruction in instructions:
        if instruction.opcode == "xor" and instruction.size >= _STREAM:
            operands = re.findall(r"[\w.\-]+", instruction.text.partition(")")[0])
            rounds += instruction.size if rotated.intersection(operands) else 0
    return rounds


def _parse(line: str) -> Instruction | None:
    named = re.match(r"\s+(?:ROOT )?%?([\w.\-]+) = (.*)$", line)
    if named is None:
        return None
    name, text = named.groups()
    end = _closing(text) if text.startswith("(") else text.find(" ")
    result, rest = text[:end], text[end:]
    opcode = re.match(r"\s*([\w\-]+)\(", rest)
    shape = re.match(r"\(*(\w+)\[([\d,]*)\]", result)
    if opcode is None:
        return None
    sizes = [int(n) for n in shape.group(2).split(",") if n] if shape else []
    return Instruction(
        name, opcode.group(1), shape.group(1) if shape else "", math.prod(sizes), rest
    )


def _closing(text: str) -> int:
    """Where a tuple of shapes ends, whose layouts may hold brackets too."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return place + 1
    raise ValueError(f"no closing bracket in {text!r}")


def measure(compiled: Compiled, num_users: int = 0) -> Measured:
    """What a program does.

    Args:
      compiled: the program.
      num_users: whom one device serves in one run of every round, 0 if users are not streamed.
    """
    program = Program(compiled.text, compiled.platform)
    number = collections.Counter(i.opcode.removesuffix("-start") for i in program.everything)
    loops, on_gpu = program.loops(program.everything), compiled.platform == "cuda"
    unknown = sum(loop.trips is None for loop in loops) if on_gpu else 0
    streams = program.streams() if num_users else []
    known = [(passes, blocks) for passes, blocks in streams if passes is not None]
    users, blocks = 0, 0.0
    if streams and len(known) == len(streams):
        users = num_users // max(passes for passes, _ in known)
        blocks = sum(passes * blocks for passes, blocks in known) / num_users
    return Measured(
        users=users,
        blocks=blocks,
        unknown=unknown,
        kernels=sum(program.kernels(loop.body) for loop in loops),
        outside=program.kernels(program.entry),
        conditionals=number["conditional"],
        atomics=program.float_atomics(compiled.ptx) if on_gpu else 0,
        collectives=sum(
            n
            for opcode, n in number.items()
            if _COLLECTIVE.match(opcode) and not opcode.endswith("-done")
        ),
        mebibytes=compiled.temporaries / 2**20,
        seconds=compiled.seconds,
    )
