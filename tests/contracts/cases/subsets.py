"""Reports that stand for sets of values: subset selection and local hashing."""

from jaxdp.randomizers._local_hashing import LocalHashing
from jaxdp.randomizers._subset_selection import SubsetSelection
from tests.contracts.case import Case, bad_epsilons

CASES = (
    Case(
        "subset-6",
        lambda e: SubsetSelection(6, e, subset_size=2),
        counts=(400, 0, 100, 200, 150, 150),
        epsilons=(0.5, 1.0, 3.0),
        bad=(
            *bad_epsilons(lambda e: SubsetSelection(7, e)),
            (lambda: SubsetSelection(1, 1.0), "num_values"),
            (lambda: SubsetSelection(7.0, 1.0), "num_values"),  # pyright: ignore[reportArgumentType]
            (lambda: SubsetSelection(2**21, 1.0), "num_values"),
            (lambda: SubsetSelection(2**15, 1.0), "num_values"),
            (lambda: SubsetSelection(7, 1.0, 0), "subset_size"),
            (lambda: SubsetSelection(7, 1.0, 7), "subset_size"),
            (lambda: SubsetSelection(7, 25.0), "epsilon"),
            (lambda: SubsetSelection(7, 1e-9), "epsilon"),
            (lambda: SubsetSelection(64, 1.0).channel(), "num_values"),
        ),
    ),
    Case(
        "local-hashing-6",
        lambda e: LocalHashing(6, e, hash_range=4),
        counts=(400, 0, 100, 200, 100, 200),
        finite=False,
        has_law=False,
        bad=(
            *bad_epsilons(lambda e: LocalHashing(6, e)),
            (lambda: LocalHashing(1, 1.0), "num_values"),
            (lambda: LocalHashing(6.0, 1.0), "num_values"),  # pyright: ignore[reportArgumentType]
            (lambda: LocalHashing(2**21, 1.0), "num_values"),
            (lambda: LocalHashing(6, 1.0, 1), "hash_range"),
            (lambda: LocalHashing(6, 1.0, 2**17), "hash_range"),
            (lambda: LocalHashing(6, 23.0), "epsilon.*hash_range"),
            (lambda: LocalHashing(6, 1e-10), "epsilon"),
            (lambda: LocalHashing(6, 1.0).build(16), "word_bits"),
            (lambda: LocalHashing(6, 1.0).channel(), "probabilities"),
        ),
    ),
)
