"""Small protocols that the engine's tests run: what they tally is known to the tests exactly."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from jaxdp._x64 import in_float64


def static(default):
    """A field that is part of the structure, not a leaf."""
    return dataclasses.field(default=default, metadata={"static": True})


def mesh_of(devices: int) -> jax.sharding.Mesh:
    """The first so many devices, for users."""
    auto = (jax.sharding.AxisType.Auto,)
    return jax.make_mesh((devices,), ("users",), axis_types=auto, devices=jax.devices()[:devices])


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Visits:
    """Counts how often each index is visited; user i's value is i, or any other label."""

    num_labels: int = static(1)
    num_words: int = static(0)
    lazy_words = False

    def from_bits(self, words, value):
        del words
        return value

    def tally(self, reports, mask):
        return jax.ops.segment_sum(mask.astype(jnp.int32), reports, self.num_labels)

    @in_float64
    def estimate(self, tally):
        return tally.f64()


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Heavy:
    """Every user adds 2**16 times its bin: few users outgrow 32 bits, 2**14 of bin 1 do not."""

    num_words: int = static(0)
    lazy_words = False

    def from_bits(self, words, value):
        del words
        return value

    def tally(self, reports, mask):
        return {"sum": jnp.sum(jnp.where(mask, reports * np.int32(2**16), 0), dtype=jnp.int32)}

    @in_float64
    def estimate(self, tally):
        return tally["sum"].f64()


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Noisy:
    """A vector plus uniform noise on [-1, 1): the sum is a float tally."""

    num_words: int = static(3)
    lazy_words = False

    def noise(self, words):
        """float32[3], multiples of 2**-23."""
        top = (words >> np.uint32(8)).astype(jnp.int32) - np.int32(2**23)
        return top.astype(jnp.float32) * np.float32(2.0**-23)

    def from_bits(self, words, value):
        return value + self.noise(words)

    def tally(self, reports, mask):
        return {
            "sum": jnp.sum(jnp.where(mask[:, None], reports, 0), axis=0, dtype=jnp.float32),
            "users": jnp.sum(mask, dtype=jnp.int32),
        }

    @in_float64
    def estimate(self, tally):
        return jnp.append(tally["sum"].f64(), tally["users"].f64())


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LazyNoisy(Noisy):
    """The same reports, from words that are made when they are read, in another order."""

    lazy_words = True

    def noise(self, words):
        return super().noise(jax.numpy.stack([words[np.int32(j)] for j in (2, 1, 0)])[::-1])


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TwoRounds:
    """Half of the users say which bin is commonest; the others say whether they are in it."""

    first: object
    second: object

    @property
    def num_words(self) -> int:
        return 1

    @property
    def sample_tally(self):
        """Each round draws its own tally."""
        return self.first.sample_tally

    def play(self, key, population, collect):
        left, right = population.split(key, [0.5, 0.5])
        votes = self.first.estimate(collect(self.first, left, 0))
        winner = jnp.argmax(votes)
        confirmed = self.second.estimate(collect(self.second, right, 1))
        return jnp.stack([winner.astype(confirmed.dtype), confirmed[winner]])
