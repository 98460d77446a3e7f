"""`python -m jaxdp_kernels.threefry_words.bench`: times the words against `jax.random.bits`."""

import time

import jax
import jax.numpy as jnp

from .api import threefry_words
from .arg_specs import ARG_SPECS


def _seconds(function, *args, repeats: int = 10) -> float:
    jax.block_until_ready(function(*args))
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        jax.block_until_ready(function(*args))
        best = min(best, time.perf_counter() - begin)
    return best


def main() -> None:
    """Prints nanoseconds a word for both, summed into one number so that nothing is kept."""
    print(f"{'arguments':12s} {'words':>9s} {'ours ns':>9s} {'jax ns':>9s} {'ratio':>7s}")
    for spec in ARG_SPECS:
        n = spec.num_words
        key = jax.random.key(spec.seed)
        start = jnp.array([spec.start >> 32, spec.start & 0xFFFFFFFF], jnp.uint32)
        ours = jax.jit(lambda data, at, n=n: threefry_words(data, at, n).sum())
        theirs = jax.jit(lambda key, n=n: jax.random.bits(key, (n,)).sum())
        a = _seconds(ours, jax.random.key_data(key), start) / n * 1e9
        b = _seconds(theirs, key) / n * 1e9
        print(f"{spec.name:12s} {n:9d} {a:9.2f} {b:9.2f} {b / a:7.2f}")


if __name__ == "__main__":
    main()
