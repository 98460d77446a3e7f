"""Frequency oracles, end to end, by other means: mostly k-ary randomized response."""

import concurrent.futures
import functools
import importlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdp.randomizers import KRR
from jaxdp_kernels.threefry_words import StreamKey, threefry_words

Loop = Callable[[Any], Callable[[list[int]], Any]]

BLOCK = 2**20  # users of a block on a device
CHUNK = 2**15  # users of a NumPy chunk: its few arrays fit into a core's second-level cache


@functools.partial(jax.jit, static_argnames="num_users")
def raw_words(key: jax.Array, num_users: int) -> jax.Array:
    """The sum of one word a user and no more, uint32[]: the limit of any such simulation."""
    stream = StreamKey.of(key)
    block = min(BLOCK, num_users)

    def add(number, total):
        first = jnp.asarray(number, jnp.int32).astype(jnp.uint32) * np.uint32(block)
        start = jnp.stack([jnp.zeros_like(first), first >> np.uint32(1)])
        return total + jnp.sum(threefry_words(stream, start, block, 1), dtype=jnp.uint32)

    return lax.fori_loop(0, num_users // block, add, jnp.zeros((), jnp.uint32))


@functools.partial(jax.jit, static_argnames=("spec", "one_word"))
def jax_random(spec: KRR, values: jax.Array, key: jax.Array, one_word: bool) -> jax.Array:
    """The protocol on `jax.random`: a scan over blocks with a key for each.

    Args:
      spec: k and epsilon.
      values: int32[n], n a multiple of the block or less than one.
      key: a key.
      one_word: whether a user decides by one word from `jax.random.bits`, as in jaxdp, or by
        `uniform` and `randint`, as it is mostly written.

    Returns:
      Estimated counts, float32[k].
    """
    k, params = spec.num_values, spec.build()
    p, q = map(float, spec.probabilities())

    def report(key, value):
        if one_word:
            words = jax.random.bits(key, (value.size, 1))
            return jax.vmap(params.from_bits)(words, value)
        lie, which = jax.random.split(key)
        truthful = jax.random.uniform(lie, value.shape) < np.float32(p)
        if k == 2:
            return jnp.where(truthful, value, 1 - value)
        other = jax.random.randint(which, value.shape, 0, k - 1)
        return jnp.where(truthful, value, jnp.where(other >= value, other + 1, other))

    def step(total, block):
        number, value = block
        reports = report(jax.random.fold_in(key, number), value)
        return total + jax.ops.segment_sum(jnp.ones_like(reports), reports, k), None

    blocks = values.reshape(-1, min(BLOCK, values.size))
    numbers = jnp.arange(blocks.shape[0], dtype=jnp.uint32)
    counts, _ = lax.scan(step, jnp.zeros(k, jnp.int32), (numbers, blocks))
    return (counts.astype(jnp.float32) - np.float32(values.size * q)) / np.float32(p - q)


def numpy_krr(spec: KRR, values: np.ndarray, seed: int, threads: int = 1) -> np.ndarray:
    """The protocol in vectorised NumPy with PCG64, in chunks that stay in cache.

    Args:
      spec: k and epsilon.
      values: int32[n].
      seed: seeds one generator for each thread.
      threads: threads that share the users.

    Returns:
      Estimated counts, float64[k].
    """
    p, q = map(float, spec.probabilities())
    seeds = np.random.SeedSequence(seed).spawn(threads)
    shares = np.array_split(values, threads)
    if threads == 1:
        counts = _numpy_counts(spec.num_values, p, shares[0], seeds[0])
    else:
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            count = functools.partial(_numpy_counts, spec.num_values, p)
            counts = np.sum(list(pool.map(count, shares, seeds)), axis=0)
    return (counts - values.size * q) / (p - q)


def _numpy_counts(k: int, p: float, values: np.ndarray, seed) -> np.ndarray:
    rng = np.random.Generator(np.random.PCG64(seed))
    uniform = np.empty(CHUNK, np.float32)
    counts = np.zeros(k, np.int64)
    for begin in range(0, values.size, CHUNK):
        reports = values[begin : begin + CHUNK].copy()
        draws = uniform[: reports.size]
        rng.random(dtype=np.float32, out=draws)
        lies = np.flatnonzero(draws >= np.float32(p))
        truth = reports[lies]
        if k == 2:
            reports[lies] = 1 - truth
        else:
            other = rng.integers(0, k - 1, lies.size, dtype=np.int32)
            reports[lies] = other + (other >= truth)
        counts += np.bincount(reports, minlength=k)
    return counts


def _multi_freq_ldpy(name: str) -> Loop:
    """multi-freq-ldpy's client for each user and its aggregator, of an oracle by its name there."""

    def make(spec):
        oracle = importlib.import_module(f"multi_freq_ldpy.pure_frequency_oracles.{name}")
        client, server = (getattr(oracle, f"{name}_{part}") for part in ("Client", "Aggregator_MI"))

        def estimate(values):
            reports = [client(value, spec.num_values, spec.epsilon) for value in values]
            return server(reports, spec.num_values, spec.epsilon) * len(values)

        return estimate

    return make


def _pure_ldp(module: str, name: str, **options: Any) -> Loop:
    """pure-ldp's client for each user and its server, of an oracle by its names there."""

    def make(spec):
        oracle = importlib.import_module(f"pure_ldp.frequency_oracles.{module}")
        parts = [getattr(oracle, f"{name}{part}") for part in ("Client", "Server")]
        settings = options | {"epsilon": spec.epsilon, "d": spec.num_values}

        def estimate(values):
            client, server = (part(index_mapper=lambda value: value, **settings) for part in parts)
            for value in values:
                server.aggregate(client.privatise(value))
            return server.estimate_all(range(spec.num_values), suppress_warnings=True)

        return estimate

    return make


def _opendp(spec: KRR) -> Callable[[list[int]], Any]:
    """OpenDP's randomized response for each user, whose reports are counted."""
    prelude = importlib.import_module("opendp.prelude")
    prelude.enable_features("contrib")
    p, q = map(float, spec.probabilities())
    privatise = prelude.m.make_randomized_response(list(range(spec.num_values)), p)

    def estimate(values):
        reports = np.bincount([privatise(value) for value in values], minlength=spec.num_values)
        return (reports - len(values) * q) / (p - q)

    return estimate


LOOPS: dict[str, Loop] = {
    "multi-freq-ldpy": _multi_freq_ldpy("GRR"),
    "pure-ldp": _pure_ldp("direct_encoding", "DE"),
    "opendp": _opendp,
}
"""Libraries that go user by user: from a spec to a function of a list of values."""

HASHING_LOOPS: dict[str, Loop] = {
    "multi-freq-ldpy": _multi_freq_ldpy("LH"),
    "pure-ldp": _pure_ldp("local_hashing", "LH", use_olh=True),
}
"""The same for local hashing."""
