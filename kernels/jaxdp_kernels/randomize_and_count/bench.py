"""`python -m jaxdp_kernels.randomize_and_count.bench`: blocks against all reports at once."""

from collections.abc import Iterator

import jax

from .._bench import Case, report
from .api import randomize_and_count
from .arg_specs import ARG_SPECS
from .ref import randomize_and_count_ref

MIN_WORDS = 2**16
"""Of fewer words, the call itself would take most of the time."""


def cases() -> Iterator[Case]:
    """The arguments that are timed; a user's words are counted as items."""
    whole = jax.jit(randomize_and_count_ref, static_argnums=4)
    for spec in ARG_SPECS:
        arguments = spec.arguments()
        words = spec.num_users * arguments[0].num_words
        if words < MIN_WORDS:
            continue
        yield Case(
            spec.name,
            words,
            "word",
            lambda a=arguments: jax.block_until_ready(randomize_and_count(*a)),
            lambda a=arguments: jax.block_until_ready(whole(*a)),
            "all reports at once",
        )


if __name__ == "__main__":
    report("randomize_and_count", cases())
