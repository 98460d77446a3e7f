"""What a report costs: the device that makes it, and the server that adds it to the others."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._contract import Round, Spec, Work, params_of
from .._spec import check_bool, check_real

_BATCH, _MOST = 2**10, 2**18  # users of the first batch that is timed, and of the largest
_LONG = 0.02  # seconds that a timed batch takes at least, unless it is the largest
_RUNS = 3  # of which the least counts
_UNITS = (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")


@dataclasses.dataclass(frozen=True)
class ReportCost:
    """Cost of a report for a client and a server, in operations and, if timed, in seconds.

    Attributes:
      words: how many 32-bit random words a client draws, or makes from a seed, for a report.
      sums: how many numbers of its tally a server adds a report to.
      client_seconds: of a core, to make a report; None if not timed.
      server_seconds: of a core, to add a report; None if not timed.
    """

    words: float
    sums: float
    client_seconds: float | None = None
    server_seconds: float | None = None

    @property
    def cells(self) -> tuple[str, str]:
        """Both as texts for a table: times if there are some, otherwise operations."""
        if self.client_seconds is None or self.server_seconds is None:
            return _counted(self.words, "word"), _counted(self.sums, "sum")
        return _short(self.client_seconds), _short(self.server_seconds)


def report_cost(
    spec: Spec[Any], num_users: float = 1e6, *, timed: bool = False
) -> ReportCost | None:
    """Cost of making a report on a client, and of adding it to others on a server.

    In operations, which compile nothing and are the same on every machine. A word with what is done
    with it takes a compiled client between one and some tens of nanoseconds; a sum takes a server
    about one. What the estimate costs, once, is not in it.

    Args:
      spec: a randomizer or protocol. Of one of several rounds, the mean over the users.
      num_users: n, over whom the costs of rounds are averaged.
      timed: whether to measure times on this machine, too: those of the compiled program of this
        package, for a report among many, by all cores that jax uses for one program. Compiling
        takes seconds.

    Returns:
      The cost.

    Raises:
      TypeError: `spec` is no randomizer or protocol.

    Example:
      >>> from jaxdp.randomizers import KRR, UnaryEncoding
      >>> from jaxdp.reports import report_cost
      >>> for oracle in (KRR(100, 1.0), UnaryEncoding(100, 1.0)):
      ...     print(report_cost(oracle).cells)
      ('2 words', '1 sum')
      ('129 words', '101 sums')
    """
    params = params_of(spec)
    if params is None:
        raise TypeError(f"spec must be that of a randomizer or protocol, got {spec!r}.")
    num_users = check_real("num_users", num_users, low=1.0, open_ends=False)
    timed = check_bool("timed", timed)
    total = np.zeros(4)
    for step in params.rounds(Work(num_users, 1)):
        work = dataclasses.replace(step.work, platform="cpu")
        words = step.round.user_cost(work) / work.words(1.0)
        seconds = _timed(step.round) if timed else (0.0, 0.0)
        share = step.times * step.work.num_users / num_users
        total += share * np.array([words, step.round.num_sums, *seconds])
    words, sums, *seconds = total.tolist()
    return ReportCost(words, sums, *(seconds if timed else ()))


def _timed(round: Round[Any]) -> tuple[float, float]:
    """Seconds of a report, and of its place in the tally, in large batches on this machine."""
    make, add = jax.jit(jax.vmap(round.privatize)), jax.jit(round.tally)

    def made(number: int) -> tuple[Any, ...]:
        values = jax.tree.map(lambda s: jnp.zeros((number, *s.shape), s.dtype), round.value)
        return jax.random.split(jax.random.key(0), number), values

    reports = make(*made(_BATCH))

    def repeated(number: int) -> tuple[Any, ...]:
        times = number // _BATCH
        return (jax.tree.map(lambda x: jnp.concatenate([x] * times), reports),)

    return _seconds_each(make, made), _seconds_each(add, repeated)


def _seconds_each(call: Callable[..., Any], arguments: Callable[[int], tuple[Any, ...]]) -> float:
    """Seconds of a call over the size of the batch, which is made long enough."""
    number = _BATCH
    while True:
        given = arguments(number)
        jax.block_until_ready(call(*given))  # compiled
        least = np.inf
        for _ in range(_RUNS):
            began = time.perf_counter()
            jax.block_until_ready(call(*given))
            least = min(least, time.perf_counter() - began)
        if least >= _LONG or number >= _MOST:
            return least / number
        number *= 4


def _counted(number: float, what: str) -> str:
    """Two digits, or all of them below ten thousand if it is whole, and what it is of."""
    whole = number < 1e4 and round(number) == number
    text = f"{number:,.0f}" if whole else f"{float(f'{number:.2g}'):,.12g}"
    return f"{text} {what}{'' if number == 1 else 's'}"


def _short(seconds: float) -> str:
    """Two digits and a unit."""
    known = (each for each in _UNITS if seconds >= 0.995 * each[0])
    size, unit = next(known, _UNITS[-1])
    return f"{float(f'{seconds / size:.2g}'):g} {unit}"
