"""A client's own code, played on every outcome of its draws: its channel, exactly.

A client draws from `random`, from `numpy.random` or from a generator that it is given. Here all
three are replaced by `Draws`, which returns in turn every value that a draw can have, so that a
finite client is enumerated without being rewritten. A uniform float is never made: what it is
compared with decides, with the probability that a multiple of 2**-53 is on that side.
"""

import contextlib
import math
import types
from collections.abc import Callable, Hashable, Iterator, Sequence
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np

STEPS = 2**53  # of a uniform float of Python, of NumPy and of Numba
MANY = 2**20  # values, from which a draw is a seed
NUM_SEEDS = 16


class Draws:
    """All values of the draws of a client, one after the other, with their probabilities.

    Seeds, which are integers of a large range, are drawn from `NUM_SEEDS` of them: where a seed is
    part of the report, the channel that is found is that of the client, given that its seed is one
    of these, and its epsilon is a lower bound on the client's.
    """

    def __init__(self) -> None:
        self._choices: list[int] = []
        self._weights: list[tuple[int, ...]] = []
        self._depth = 0

    def channel(self, play: Callable[[], Hashable]) -> dict[Hashable, Fraction]:
        """The probability of each report of a function that draws from here."""
        found: dict[Hashable, Fraction] = {}
        self._choices, self._weights = [], []
        while True:
            self._depth = 0
            report = play()
            weight = Fraction(
                math.prod(w[c] for w, c in zip(self._weights, self._choices, strict=True)),
                math.prod(map(sum, self._weights)),
            )
            found[report] = found.get(report, Fraction(0)) + weight
            if not self._next():
                return found

    def _next(self) -> bool:
        """The next choices, in the order of a tree's leaves; False after the last ones."""
        while self._choices:
            choice, weights = self._choices.pop(), self._weights.pop()
            later = (c for c in range(choice + 1, len(weights)) if weights[c] > 0)
            if (following := next(later, None)) is not None:
                self._choices.append(following)
                self._weights.append(weights)
                return True
        return False

    def choose(self, weights: Sequence[int]) -> int:
        """An index, with probabilities in proportion to whole weights."""
        if self._depth == len(self._choices):
            self._choices.append(next(i for i, weight in enumerate(weights) if weight > 0))
            self._weights.append(tuple(weights))
        self._depth += 1
        return self._choices[self._depth - 1]

    def flip(self, p: float) -> int:
        """1 with probability p, to a multiple of 2**-53."""
        heads = min(max(math.ceil(Fraction(float(p)) * STEPS), 0), STEPS)
        return 1 - self.choose((heads, STEPS - heads))

    def below(self, number: int) -> int:
        """An integer in [0, number)."""
        if number < MANY:
            return self.choose((1,) * number)
        seeds = np.random.Generator(np.random.PCG64(0)).integers(number, size=NUM_SEEDS)
        return int(seeds[self.choose((1,) * NUM_SEEDS)])

    # The functions of `random`, of `numpy.random`, and of its generators.

    def random(self, size: Any = None) -> Any:
        """Uniform floats."""
        return self._each(size, lambda: Uniform(self))

    def rand(self, *shape: int) -> Any:
        """Uniform floats of this shape."""
        return self.random(shape or None)

    def randint(self, low: float, high: float) -> int:
        """An integer in [low, high], as of `random`."""
        return int(low) + self.below(int(high) - int(low) + 1)

    def integers(self, low: int, high: int | None = None, size: Any = None, dtype=None) -> Any:
        """Integers in [low, high), or in [0, low), as of NumPy."""
        del dtype
        low, high = (0, low) if high is None else (low, high)
        return self._each(size, lambda: low + self.below(high - low))

    def binomial(self, n: int, p: float, size: Any = None) -> Any:
        """Binomial numbers of n coins."""
        return self._each(size, lambda: sum(self.flip(p) for _ in range(n)))

    def choices(self, population: Sequence, weights: Sequence[float], k: int = 1) -> list[Any]:
        """Independent elements by weights, as of `random`."""
        exact = [Fraction(weight) for weight in weights]
        whole = math.lcm(*(weight.denominator for weight in exact))
        return [population[self.choose([int(w * whole) for w in exact])] for _ in range(k)]

    def choice(self, a: Any, size: Any = None, replace: bool = True, p: Any = None) -> Any:
        """Elements, as of NumPy."""
        options = list(range(a)) if isinstance(a, int | np.integer) else list(a)
        if replace:
            weights = [1] * len(options) if p is None else p
            return self._each(size, lambda: self.choices(options, weights)[0])
        assert p is None
        return self._each(size, lambda: options.pop(self.below(len(options))))

    def _each(self, size: Any, draw: Callable[[], Any]) -> Any:
        if size is None:
            return draw()
        values = [draw() for _ in range(math.prod(np.atleast_1d(size)))]
        return np.array(values, None if values else int).reshape(size)


class Uniform:
    """A uniform float in [0, 1), of which only what it is compared with is found out."""

    def __init__(self, draws: Draws) -> None:
        self._draws, self._low, self._high = draws, 0, STEPS

    def _is_below(self, steps: int) -> bool:
        """Whether it is one of the first `steps` multiples of 2**-53."""
        steps = min(max(steps, self._low), self._high)
        if self._draws.choose((steps - self._low, self._high - steps)) == 0:
            self._high = steps
            return True
        self._low = steps
        return False

    def __lt__(self, other: float) -> bool:
        return self._is_below(math.ceil(Fraction(float(other)) * STEPS))

    def __le__(self, other: float) -> bool:
        return self._is_below(math.floor(Fraction(float(other)) * STEPS) + 1)

    def __gt__(self, other: float) -> bool:
        return not self <= other

    def __ge__(self, other: float) -> bool:
        return not self < other


@contextlib.contextmanager
def replaced(
    draws: Draws, modules: Sequence[types.ModuleType] = (), owners: Sequence[object] = ()
) -> Iterator[None]:
    """Makes `random` and `numpy.random` draw from here, and these modules' Numba functions Python.

    Args:
      draws: what they draw from.
      modules: the modules of the client.
      owners: objects that have a generator of NumPy in their attribute `rng`.
    """
    names = {
        "random": ("random", "randint", "choices"),
        "numpy.random": ("random", "rand", "binomial", "choice"),
    }
    with contextlib.ExitStack() as stack:
        for module, functions in names.items():
            for name in functions:
                stack.enter_context(mock.patch(f"{module}.{name}", getattr(draws, name)))
        stack.enter_context(mock.patch("numpy.random.random_sample", draws.random))
        stack.enter_context(mock.patch("numpy.random.randint", draws.integers))
        for owner in owners:
            stack.enter_context(mock.patch.object(owner, "rng", draws))
        for module in modules:
            for name, value in vars(module).copy().items():
                if (plain := getattr(value, "py_func", None)) is not None:
                    stack.enter_context(mock.patch.object(module, name, plain))
        yield


def hashable(report: Any) -> Hashable:
    """A report as numbers, texts and tuples."""
    if isinstance(report, np.ndarray | np.generic):
        return hashable(report.tolist())
    if isinstance(report, list | tuple | zip):
        return tuple(map(hashable, report))
    return report
