"""Arguments on which `threefry_words` is tested and timed."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class ArgSpec:
    """One set of arguments: a seed, a first index, a number of words."""

    name: str
    seed: int
    start: int
    num_words: int


ARG_SPECS = (
    ArgSpec("one", 0, 0, 1),
    ArgSpec("odd", 1, 5, 1001),
    ArgSpec("block", 2, 0, 2**16),
    ArgSpec("carry", 3, 2**32 - 300, 1024),
    ArgSpec("high", 4, 2**53 - 7, 4096),
    ArgSpec("large", 5, 2**40, 2**22),
)
