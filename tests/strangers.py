"""Randomizers by somebody else, written from public names alone: they serve as ours do."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdp.engine import Through, checks, field, params, spec, static
from jaxdp.random import Count, everyone
from jaxdp.randomizers import KRR, CountedRound, FrequencyOracle, MeanRound, VectorRandomizer


@spec
class Stranger(FrequencyOracle):
    """Randomized response whose noise is known by its covariance alone.

    `counted` tells its tally: of each report; or a report r adds 2 to entry r and -1 to the next.
    """

    num_values: int = field(checks.Integer(2))
    counted: bool = True
    epsilon: float = 1.0

    @property
    def krr(self):
        return KRR(self.num_values, self.epsilon)

    def build(self, word_bits=32):
        inner = self.krr.build(word_bits)
        return StrangerCountedParams(inner) if self.counted else StrangerParams(inner)

    def exact_epsilon(self, word_bits=32):
        return self.krr.exact_epsilon(word_bits)

    def covariance(self, value):
        return self.krr.covariance(value)

    def channel(self, word_bits=32, inputs=None):
        return self.krr.channel(word_bits, inputs)

    def variance(self, counts, inputs=None):
        return self.krr.variance(counts)

    def worst_case_variance(self, num_users):
        return self.krr.worst_case_variance(num_users)


@params
class StrangerCountedParams(CountedRound):
    inner: Any

    num_words = 1

    @property
    def num_reports(self):
        return self.inner.num_values

    def from_bits(self, words, value, /):
        return self.inner.from_bits(words, value)

    def estimate(self, outcome, /):
        return self.inner.estimate(outcome)


@params
class StrangerParams(Through):
    inner: Any

    law = None

    def tally(self, reports, mask=None, /):
        k, counted = self.inner.num_values, everyone(reports, mask)
        entries = 2 * jax.nn.one_hot(reports, k) - jax.nn.one_hot((reports + 1) % k, k)
        sums = jnp.sum(jnp.where(counted[:, None], entries, 0), axis=0)
        return {"entries": Count.from_float(sums), "users": Count.of(jnp.sum(counted))}

    def estimate(self, outcome, /):
        k = self.inner.num_values
        p, q = self.inner.probabilities()
        # The sums are 2 N_v - N_{v-1} of the numbers N of reports.
        matrix = jnp.asarray(np.linalg.inv(2 * np.eye(k) - np.roll(np.eye(k), 1, axis=0)))
        reports = jnp.sum(matrix * outcome["entries"].f64()[None], axis=-1)
        return (reports - outcome["users"].f64() * q) / (p - q)


@spec
class OneCoordinate(VectorRandomizer):
    """One bit on one coordinate, drawn at random: `dim c radius` times +e_j or -e_j.

    Its mean is the vector x, and its covariance `dim (c radius)**2 I - x x^T`.
    """

    dim: int = field(checks.Integer(1))
    epsilon: float = 1.0
    radius: float = 1.0

    @property
    def gain(self):
        """c."""
        return 1 / math.tanh(self.epsilon / 2)

    def build(self, word_bits=32):
        unit = np.asarray(self.dim * self.gain * self.radius)
        scale = np.asarray(1 / (2 * self.gain * self.radius), np.float32)
        return OneCoordinateParams(unit, scale, self.dim)

    def exact_epsilon(self, word_bits=32):
        return self.epsilon

    def second_moments(self):
        return self.dim * self.gain**2, self.dim * self.gain**2


@params
class OneCoordinateParams(MeanRound):
    unit: Any
    scale: Any
    dim: int = static()

    num_words = 2
    largest_report = 1

    @property
    def value_shape(self):
        return (self.dim,)

    def from_bits(self, words, value, /):
        j = (words[0] % np.uint32(self.dim)).astype(jnp.int32)
        # 24 bits, which float32 holds exactly.
        threshold = (0.5 + self.scale * value[j]) * np.float32(2**24)
        sign = jnp.where((words[1] >> 8).astype(jnp.float32) < threshold, 1, -1)
        return sign * (jnp.arange(self.dim, dtype=jnp.int32) == j).astype(jnp.int32)
