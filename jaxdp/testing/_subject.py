"""What is checked: a spec, some users, and what is claimed of it beyond what it says itself."""

import dataclasses
import functools
import zlib
from collections.abc import Callable
from typing import Any, Literal, TypeVar

import jax
import numpy as np
from numpy.typing import ArrayLike

from .._contract import Params, Round, Spec, Tree, Work, round_of
from ..engine import Trials, simulate
from ..population import Population
from ..random import TILE
from ..randomizers import FrequencyOracle, MeanRandomizer, Randomizer

Method = Literal["per_user", "tally"]
T = TypeVar("T")


def of_kind(kind: type[T], thing: object) -> T | None:
    """The thing, if it is of a kind, else None."""
    return thing if isinstance(thing, kind) else None


def given(ability: T | None) -> T:
    """An ability without which a check does not apply."""
    assert ability is not None, "the check does not apply"
    return ability


@dataclasses.dataclass(frozen=True, eq=False)
class Subject:
    """A spec, the users it is checked with, and claims about it.

    Attributes:
      spec: of a randomizer or of a protocol.
      counts: int[k], how many users have each value.
      inputs: what the bins of `counts` stand for, a pytree with k rows; None for the bins.
      key: for all that is random; each check folds it with its name.
      unbiased: whether the mean estimate is the target. `variance` is the mean squared error
        anyway.
      exact: whether `variance` is that error, rather than a bound on it; None for what the spec's
        `variance_kind` says.
      private: whether the mechanism has the privacy that its epsilon and delta say.
      floats: whether reports are rounded from floats, which programs of other shapes compute with
        other last bits.
      num_trials: how many runs a simulation has, at least 400.
    """

    spec: Spec[Any]
    counts: np.ndarray
    inputs: Tree
    key: jax.Array
    unbiased: bool = True
    exact: bool | None = None
    private: bool = True
    floats: bool = False
    num_trials: int = 4000

    @property
    def predicts_exactly(self) -> bool:
        """Whether `variance` is to be the mean squared error, rather than a bound on it."""
        return self.spec.variance_kind != "bound" if self.exact is None else self.exact

    @functools.cached_property
    def params(self) -> Params[Any]:
        """The params of the spec."""
        return self.spec.build()

    @property
    def round(self) -> Round[Any] | None:
        """The params, if the protocol is a single round."""
        return round_of(self.params)

    @property
    def randomizer(self) -> Randomizer[Any] | None:
        """The spec, if it is a randomizer's."""
        return of_kind(Randomizer, self.spec)

    @property
    def mean(self) -> MeanRandomizer[Any] | None:
        """The spec, if it is a randomizer's for means of numbers or vectors."""
        return of_kind(MeanRandomizer, self.spec)

    @property
    def oracle(self) -> FrequencyOracle[Any] | None:
        """The spec, if it is a frequency oracle's."""
        return of_kind(FrequencyOracle, self.spec)

    @functools.cached_property
    def paths(self) -> tuple[Method, ...]:
        """The paths that the protocol has."""
        steps = self.params.rounds(Work(float(self.counts.sum()), len(self.counts)))
        drawn = all(step.round.law is not None for step in steps)
        return ("per_user", "tally") if drawn else ("per_user",)

    @functools.cached_property
    def values(self) -> Tree:
        """One value for each bin, as a user holds it; rows of a pytree of int32 and float32."""
        if self.inputs is None:
            return np.arange(len(self.counts), dtype=np.int32)
        return jax.tree.map(_as_held, self.inputs)

    @property
    def rows(self) -> list[Tree]:
        """The values, one by one."""
        return [jax.tree.map(lambda x, i=i: x[i], self.values) for i in range(len(self.counts))]

    @property
    def population(self) -> Population:
        """The users, by their histogram."""
        return Population.from_histogram(self.counts, self.inputs)

    def alone(self, index: int) -> np.ndarray:
        """The histogram of one user."""
        return (np.arange(len(self.counts)) == index).astype(np.int64)

    def stream(self, name: str) -> jax.Array:
        """A key for a check."""
        # `hash` of a string would differ between processes.
        return jax.random.fold_in(self.key, zlib.crc32(name.encode()))

    @functools.cached_property
    def _trials(self) -> dict[Method, Trials]:
        return {}

    @property
    def _block_size(self) -> int | None:
        """A tile for users who fit into it, whose pairs would fill a small part of other blocks."""
        return TILE if self.counts.sum() <= TILE else None

    def simulated(self, method: Method) -> Trials:
        """Trials on a path, which the checks of laws share."""
        if method not in self._trials:
            self._trials[method] = simulate(
                self.spec,
                self.population,
                self.stream(method),
                num_trials=self.num_trials,
                method=method,
                block_size=self._block_size,
            )
        return self._trials[method]

    def close(
        self, actual: np.ndarray, expected: np.ndarray, relative: float = 1e-12, what: str = ""
    ) -> None:
        """Asserts equal numbers, relative to the largest; up to 2e-4 where `floats`.

        A report that is off by one for how floats are rounded moves an estimate of many by little.
        """
        relative = 2e-4 if self.floats else relative
        size = relative * np.max(np.abs(expected), initial=0.0)
        np.testing.assert_allclose(actual, expected, rtol=relative, atol=size, err_msg=what)

    def same(self, actual: np.ndarray, expected: np.ndarray, what: str = "") -> None:
        """Asserts the same bits; where `floats`, what `close` asserts."""
        if self.floats:
            self.close(actual, expected, what=what)
        else:
            np.testing.assert_array_equal(actual, expected, err_msg=what)


def _as_held(values: ArrayLike) -> np.ndarray:
    values = np.asarray(values)
    return values.astype(np.int32 if values.dtype.kind in "iu" else np.float32)


@dataclasses.dataclass(frozen=True)
class Check:
    """A named check.

    Attributes:
      name: what it proves.
      run: the check itself; its docstring says what it proves, and with what power.
      applies: whether it is about a subject.
      of: "randomizer" or "protocol"; randomizers are protocols too.
    """

    name: str
    run: Callable[..., None]
    applies: Callable[[Subject], bool]
    of: str

    def __call__(self, subject: Subject, **options: object) -> None:
        """Checks a subject.

        Raises:
          AssertionError: it fails; the message begins with the name of the check.
        """
        try:
            self.run(subject, **options)
        except AssertionError as error:
            raise AssertionError(f"{self.name}: {error}") from error

    @property
    def description(self) -> str:
        """Statement that the check proves."""
        return self.run.__doc__ or ""


CHECKS: dict[str, Check] = {}
"""All checks by name."""


def check(
    of: Literal["randomizer", "protocol"], applies: Callable[[Subject], bool] = lambda subject: True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Registers a function of a subject as a check.

    Args:
      of: what it is about.
      applies: to which subjects of these.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        CHECKS[function.__name__] = Check(function.__name__, function, applies, of)
        return function

    return register
