"""Small protocols that the engine's tests run: what they tally is known to the tests exactly."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdp._x64 import in_float64
from jaxdp.engine import Interactive, Round, Step, Work, params, static
from jaxdp.population import Population
from jaxdp.random import Count, everyone, histogram, sum_integers


def mesh_of(devices: int) -> jax.sharding.Mesh:
    """The first so many devices, for users."""
    auto = (jax.sharding.AxisType.Auto,)
    return jax.make_mesh((devices,), ("users",), axis_types=auto, devices=jax.devices()[:devices])


@params
class Visits(Round[Count]):
    """Counts how often each index is visited; user i's value is i, or any other label."""

    num_labels: int = static(default=1)

    @property
    def num_words(self) -> int:
        return 0

    def from_bits(self, words, value, /):
        del words
        return value

    def tally(self, reports, mask=None, /) -> Count:
        return histogram(reports, self.num_labels, mask)

    @in_float64
    def estimate(self, outcome: Count, /):
        return outcome.f64()


@params
class Heavy(Round[Count]):
    """Every user adds 2**16 times its bin: few users outgrow 32 bits, 2**14 of bin 1 do not."""

    @property
    def num_words(self) -> int:
        return 0

    def from_bits(self, words, value, /):
        del words
        return value * np.int32(2**16)

    def tally(self, reports, mask=None, /) -> Count:
        return sum_integers(reports, 2**16, mask)

    @in_float64
    def estimate(self, outcome: Count, /):
        return outcome.f64()


@params
class Noisy(Round[dict[str, Count]]):
    """A vector of three whole numbers up to 2**27, plus uniform noise of 24 bits."""

    @property
    def num_words(self) -> int:
        return 3

    @property
    def value(self) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((3,), jnp.float32)

    def read(self, words) -> jax.Array:
        """The user's three words."""
        return words[0:3]

    def from_bits(self, words, value, /):
        noise = (self.read(words) >> np.uint32(8)).astype(jnp.int32) - np.int32(2**23)
        return value.astype(jnp.int32) + noise

    def tally(self, reports, mask=None, /) -> dict[str, Count]:
        users = sum_integers(everyone(reports, mask), 1)
        return {"sum": sum_integers(reports, 2**28, mask), "users": users}

    @in_float64
    def estimate(self, outcome: dict[str, Count], /):
        return jnp.append(outcome["sum"].f64(), outcome["users"].f64())


@params
class LazyNoisy(Noisy):
    """The same reports, from words that are made when they are read, in another order."""

    @property
    def lazy_words(self) -> bool:
        return True

    def read(self, words) -> jax.Array:
        return jnp.stack([words[np.int32(j)] for j in (2, 1, 0)])[::-1]


@params
class TwoRounds(Interactive[jax.Array]):
    """Half of the users say which bin is commonest; the others say whether they are in it."""

    first: Round[Count]
    second: Round[Count]

    def rounds(self, work: Work) -> tuple[Step, ...]:
        return Step(self.first, work.of(0.5)), Step(self.second, work.of(0.5))

    def play(self, key, users: Population, collect) -> jax.Array:
        left, right = users.split(key, [0.5, 0.5])
        votes: Any = self.first.estimate(collect(self.first, left, 0))
        winner = jnp.argmax(votes)
        confirmed: Any = self.second.estimate(collect(self.second, right, 1))
        return jnp.stack([winner.astype(confirmed.dtype), confirmed[winner]])

    def estimate(self, outcome: jax.Array, /) -> jax.Array:
        return outcome
