"""`python -m jaxdp_kernels.threefry_words.bench`: times the words against `jax.random.bits`."""

from collections.abc import Iterator

import jax

from .._bench import Case, report, timed
from .api import threefry_words
from .arg_specs import ARG_SPECS

MIN_WORDS = 2**16
"""With fewer words, the call itself would take most of the time."""


def cases() -> Iterator[Case]:
    """The arguments that are timed; the words are summed, so that nothing is kept."""
    for spec in ARG_SPECS:
        shape = (spec.num_words, spec.num_users)
        num_words = spec.num_words * spec.num_users
        if num_words < MIN_WORDS:
            continue
        stream, start, *sizes = spec.arguments()
        key = jax.random.key(spec.seed)
        yield Case(
            spec.name,
            num_words,
            "word",
            timed(
                lambda key, at, sizes=sizes: threefry_words(key, at, *sizes).sum(), stream, start
            ),
            timed(lambda key, shape=shape: jax.random.bits(key, shape).sum(), key),
            "jax.random.bits",
        )


if __name__ == "__main__":
    report("threefry_words", cases())
