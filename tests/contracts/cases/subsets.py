"""Reports that stand for sets of values: subset selection, local and affine hashing."""

from jaxdp.randomizers import AffineHashing, AffineSubsets, LocalHashing, SubsetSelection
from tests.contracts.case import Case

CASES = (
    Case(
        "subset-6",
        lambda e: SubsetSelection(6, e, subset_size=2),
        counts=(400, 0, 100, 200, 150, 150),
        epsilons=(0.5, 1.0, 3.0),
        bad=(
            (lambda: SubsetSelection(2**15, 1.0), "num_values"),
            (lambda: SubsetSelection(7, 1.0, 7), "subset_size"),
            (lambda: SubsetSelection(7, 25.0), "epsilon"),
            (lambda: SubsetSelection(7, 1e-9), "epsilon"),
        ),
    ),
    Case(
        "local-hashing-6",
        lambda e: LocalHashing(6, e, hash_range=4),
        counts=(400, 0, 100, 200, 100, 200),
        bad=(
            (lambda: LocalHashing(6, 23.0), "epsilon.*hash_range"),
            (lambda: LocalHashing(6, 1e-10), "epsilon"),
            (lambda: LocalHashing(6, 1.0).build(16), "word_bits"),
        ),
    ),
    Case(
        "affine-hashing-6",
        lambda e: AffineHashing(6, e, hash_range=4),
        counts=(400, 0, 100, 200, 100, 200),
        epsilons=(0.5, 1.0, 3.0),
        bad=(
            (lambda: AffineHashing(6, 23.0), "epsilon.*hash_range"),
            (lambda: AffineHashing(6, 1e-10), "epsilon"),
            (lambda: AffineHashing(6, 1.0, hash_range=9), "hash_range.*power of two"),
            (lambda: AffineHashing(2**20, 1.0, hash_range=1021), "hash_range.*too large"),
            (lambda: AffineHashing(2**12, 1.0).build(8), "word_bits"),
        ),
    ),
    Case(
        "affine-hashing-prime-6",
        lambda e: AffineHashing(6, e, hash_range=3),
        counts=(400, 0, 100, 200, 100, 200),
        epsilons=(0.5, 1.0, 3.0),
        variant=True,
    ),
    Case(
        "affine-subsets-6",
        lambda e: AffineSubsets(6, e, modulus=7, set_size=2),
        counts=(400, 0, 100, 200, 100, 200),
        epsilons=(0.5, 1.0, 3.0),
        bad=(
            (lambda: AffineSubsets(6, 25.0), "epsilon"),
            (lambda: AffineSubsets(6, 1e-11), "epsilon"),
            (lambda: AffineSubsets(6, 1.0, modulus=5), "modulus.*at least"),
            (lambda: AffineSubsets(6, 1.0, modulus=7, set_size=7), "set_size"),
            (lambda: AffineSubsets(2**16, 1.0, modulus=2**16 + 2), "modulus.*prime"),
            (lambda: AffineSubsets(6, 1.0).build(16), "word_bits"),
        ),
    ),
    Case(
        "affine-subsets-composite-6",
        lambda e: AffineSubsets(6, e, modulus=6, set_size=2),
        counts=(400, 0, 100, 200, 100, 200),
        epsilons=(0.5, 1.0, 3.0),
        variant=True,
    ),
)
