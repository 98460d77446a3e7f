"""What the params of every randomizer have, and those whose reports are counted."""

import abc
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from .._spec import check_key
from .._x64 import compiled_in_float64
from ..random import Count, multinomial, user_words


class RandomizerParams(abc.ABC):
    """Base of the params of randomizers: pytrees with the functions that run inside jit."""

    lazy_words: ClassVar[bool] = False
    """Whether a user reads so few of its words that they are made one at a time."""

    value_dtype: ClassVar[Any] = jnp.int32
    """The dtype of a user's value."""

    @property
    @abc.abstractmethod
    def num_words(self) -> int:
        """Words per user."""

    @abc.abstractmethod
    def from_bits(self, words, value):
        """One user's report."""

    def privatize(self, key, value):
        """One user's report, its words drawn from `key`; see `from_bits`.

        Values outside the domain are moved into it, inside jit and outside alike, so that every
        report is private: params never refuse a value. Specs and populations do.

        Args:
          key: one typed threefry2x32 key.
          value: a user's value.
        """
        check_key(key)
        words = user_words(key, 0, self.num_words)[:]
        return self.from_bits(words, jnp.asarray(value, self.value_dtype))


class CountedParams(RandomizerParams):
    """Base of params whose reports are one of `num_reports`, and are counted."""

    @property
    @abc.abstractmethod
    def num_reports(self) -> int:
        """How many reports there are; static."""

    def tally(self, reports, mask):
        """The number of each report among the masked ones.

        Args:
          reports: int32[n] in [0, num_reports).
          mask: bool[n].

        Returns:
          int32[num_reports]; its sum is the number of users.
        """
        if self.num_reports == 2:
            ones = jnp.sum(mask & (reports == 1), dtype=jnp.int32)
            return jnp.stack([jnp.sum(mask, dtype=jnp.int32) - ones, ones])
        return jax.ops.segment_sum(mask.astype(jnp.int32), reports, self.num_reports)


class IndependentUsersParams(CountedParams):
    """Base of params that know the law of a report of users drawn from a distribution.

    Attributes:
      iid_stream: what the key of `sample_tally_iid` is folded with.
    """

    iid_stream: ClassVar[int]

    @abc.abstractmethod
    def report_law(self, law):
        """The probability of each report, times any constant; only inside an x64 block.

        Args:
          law: float64[k], the probabilities of a user's values.

        Returns:
          float64[num_reports].
        """

    @compiled_in_float64
    def sample_tally_iid(self, key, num_users: Count, weights: Count) -> Count:
        """The tally of users drawn independently from a distribution: one multinomial.

        Args:
          key: a key; it is folded.
          num_users: Count[].
          weights: Count[k], the probabilities of a user's values, times any constant.

        Returns:
          Count[num_reports].
        """
        law = weights.f64() / jnp.sum(weights.f64())
        stream = jax.random.fold_in(key, self.iid_stream)
        return multinomial(stream, num_users, self.report_law(law))
