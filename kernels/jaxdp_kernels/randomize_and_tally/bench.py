"""`python -m jaxdp_kernels.randomize_and_tally.bench`: against the definition, user by user."""

from collections.abc import Iterator

from .._bench import Case, report, timed
from .api import randomize_and_tally
from .arg_specs import ARG_SPECS
from .ref import randomize_and_tally_ref

MIN_WORDS = 2**16
"""With fewer words, the call itself would take most of the time."""


def cases() -> Iterator[Case]:
    """The arguments that are timed; a user's words are counted as items."""
    for spec in ARG_SPECS:
        arguments = spec.arguments()
        words = spec.num_users * arguments[0].num_words
        if words < MIN_WORDS:
            continue
        yield Case(
            spec.name,
            words,
            "word",
            timed(randomize_and_tally, *arguments),
            timed(randomize_and_tally_ref, *arguments),
            "each user's own words",
        )


if __name__ == "__main__":
    report("randomize_and_tally", cases())
