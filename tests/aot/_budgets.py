"""What the hot programs may take, for each kind of accelerator."""

import dataclasses

from ._program import Measured

# fmt: off
_ROWS = {
    "cuda": {
        #                        users  blocks  ?  loop out cond atom coll  MiB    s
        "KRR 256, array":        (2**20,  1.0,  0,   8,   6,   0,   0,   0,   5,   3),
        "KRR 256, histogram":    (     0,   0,  1,  10,   6,   0,   0,   0,   1,   3),
        "KRR 256, distribution": (     0,   0,  1,   6,   6,   0,   0,   0,   1,   3),
        "UnaryEncoding 128":     (2**13, 64.0,  0,  10,   8,   0,   0,   0,   9,   3),
        "SubsetSelection 128":   (2**14, 44.3,  0,  28,   8,   0,   0,   0,   4,   4),
        "LocalHashing 128":      (2**18,  8.0,  0,  20,   8,   0,   0,   0,  17,   4),
        "HadamardResponse 256":  (2**19,  2.0,  0,   8,   6,   0,   0,   0,   7,   3),
        "DiscreteLaplace 128":   (2**20,  1.0,  0,   8,   6,   0,   0,   0,   9,   3),
        "Gaussian 64":           (2**13, 48.0,  1,  34,   8,   0,   0,   0,   8,   6),
        "PrivUnitG 64":          (2**13, 67.0,  0,  11,   8,   0,   0,   0,   5,   4),
        "Laplace":               (2**19,  2.0,  1,  38,  10,   0,   0,   0,  13,   4),
        "TwoRound 8":            (2**16, 12.0,  0,  32,  22,   0,   0,   0,   7,   8),
        "KRR 256, users on 4":   (2**20,  1.0,  0,   7,  16,   0,   0,   1,  21,   3),
        "KRR 256, trials on 4":  (     0,   0,  0,  16,   6,   0,   0,   1,   1,   3),
        "KRR 256, tally":        (     0,   0,  4,  24,  17,   0,   0,   0,   1,   6),
        "PrivUnitG 64, tally":   (     0,   0,  1,   6,  25,   0,   1,   0,   1,   6),
        "KRR 16, 1,000 tallies": (     0,   0,  4,  32,  18,   0,   0,   0,   2,   8),
        "fwht 4096":             (     0,   0,  0,   0,   7,   0,   0,   0,  33,   2),
        "gamma2 64":             (     0,   0,  2,  59,  40,   1,   0,   0,   1,   4),
        "simplex 256":           (     0,   0,  1,   5,   7,   0,   0,   0,   1,   2),
    },
    "tpu": {
        #                        users  blocks  ?  loop out cond atom coll  MiB    s
        "KRR 256, array":        (     0,   0,  0,   6,   6,   0,   0,   0,   1,   4),
        "KRR 256, histogram":    (     0,   0,  0,  21,   9,   0,   0,   0,   1,   4),
        "KRR 256, distribution": (     0,   0,  0,   9,   8,   0,   0,   0,   1,   3),
        "UnaryEncoding 128":     (     0,   0,  0,  19,   6,   0,   0,   0,   1,  10),
        "SubsetSelection 128":   (     0,   0,  0,  43,   6,   0,   0,   0,   1,   8),
        "LocalHashing 128":      (     0,   0,  0,  74,   6,   0,   0,   0,   2,  20),
        "HadamardResponse 256":  (     0,   0,  0,  10,   6,   0,   0,   0,   1,   5),
        "DiscreteLaplace 128":   (     0,   0,  0,  14,   4,   0,   0,   0,   1,   5),
        "Gaussian 64":           (     0,   0,  0,  83,   4,   0,   0,   0,   5,  10),
        "PrivUnitG 64":          (     0,   0,  0,  14,   6,   0,   0,   0,   1,   5),
        "Laplace":               (     0,   0,  0,  53,   2,   0,   0,   0,   5, 160),
        "TwoRound 8":            (     0,   0,  0,  55,  32,   0,   0,   0,   2,  25),
        "KRR 256, users on 4":   (     0,   0,  0,   6,   9,   0,   0,   1,   1,   5),
        "KRR 256, trials on 4":  (     0,   0,  0,  11,   8,   0,   0,   1,   1,   3),
        "KRR 256, tally":        (     0,   0,  0, 195,  97,   0,   0,   0,   6,  45),
        "PrivUnitG 64, tally":   (     0,   0,  0,  39, 117,   0,   0,   0,   5, 400),
        "KRR 16, 1,000 tallies": (     0,   0,  0, 143, 104,   0,   0,   0,   5,  70),
        "fwht 4096":             (     0,   0,  0,   0,  13,   0,   0,   0,   1,  25),
        "gamma2 64":             (     0,   0,  0,4553, 527,  18,   0,   0,  73, 220),
        "simplex 256":           (     0,   0,  0,   5,   6,   0,   0,   0,   1,   3),
    },
}
# fmt: on

BUDGETS = {
    platform: {name: Measured(*row) for name, row in rows.items()}
    for platform, rows in _ROWS.items()
}
"""The fewest users an iteration, and the most of all else, by platform and program."""


def exceeded(measured: Measured, budget: Measured) -> dict[str, tuple[float, float]]:
    """The measures that do not keep to a budget, each as its value and its bound."""
    found = {}
    for field in dataclasses.fields(Measured):
        value, bound = getattr(measured, field.name), getattr(budget, field.name)
        if value < bound if field.name == "users" else value > bound:
            found[field.name] = (value, bound)
    return found
