"""`python -m jaxdp_kernels.fwht.bench`: times the transform against one butterfly a bit."""

import math
from collections.abc import Iterator

from .._bench import Case, report, timed
from .api import fwht
from .arg_specs import ARG_SPECS
from .ref import fwht_ref

MIN_ENTRIES = 2**16
"""With fewer entries, the call itself would take most of the time."""


def cases() -> Iterator[Case]:
    """The arguments that are timed."""
    for spec in ARG_SPECS:
        entries = math.prod(spec.shape)
        if entries < MIN_ENTRIES:
            continue
        (x,) = spec.arguments()
        ours, baseline = timed(fwht, x), timed(fwht_ref, x)
        yield Case(spec.name, entries, "entry", ours, baseline, "one butterfly a bit")


if __name__ == "__main__":
    report("fwht", cases())
