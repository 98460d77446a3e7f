"""What the hot programs may take, for each kind of accelerator.

A TPU leaves tallies that are drawn at once, and estimates, to its host.
"""

import dataclasses

from ._program import Measured

# fmt: off
_ROWS = {
    "cuda": {
        #                        users  blocks  ?  loop  out cond atom coll   MiB    s
        "KRR 256, array":        (2**24,   1.0,  0,    5,   5,   0,   0,   0,    2,    3),
        "KRR 256, histogram":    (2**24,  1.01,  0,    5,  16,   0,   0,   0,    3,    3),
        "KRR 256, distribution": (2**24,   2.0,  0,    6,   9,   0,   0,   0,   71,    4),
        "UnaryEncoding 128":     (2**20,  64.0,  0,   16,   8,   0,   0,   0,   84,   26),
        "SubsetSelection 128":   (2**20,  34.1,  0,   29,   8,   0,   0,   0,  165,    5),
        "LocalHashing 128":      (2**22,   2.0,  0,   25,   8,   0,   0,   0,  250,    5),
        "HadamardResponse 256":  (2**23,   1.0,  0,    9,   5,   0,   0,   0,  106,    3),
        "DiscreteLaplace 128":   (2**24,   1.0,  0,    7,   5,   0,   0,   0,   71,    3),
        "Gaussian 64":           (2**20, 192.0,  0,   12,  17,   0,   0,   0,  850,    6),
        "PrivUnitG 64":          (2**20,  67.0,  0,    6,  18,   0,   0,   0,  280,    8),
        "Laplace":               (2**23,   1.5,  0,   15,  10,   0,   0,   0,  270,    4),
        "TwoRound 8":            (2**20,  14.0,  0,   13,  37,   0,   0,   0,   88,   14),
        "KRR 256, users on 4":   (2**24,   1.0,  0,    5,  13,   0,   0,   1,  282,    3),
        "KRR 256, trials on 4":  (    0,     0,  0,    0,   7,   0,   0,   0,    1,    4),
        "KRR 256, tally":        (    0,     0,  4,   26,  23,   0,   0,   0,    1,    9),
        "PrivUnitG 64, tally":   (    0,     0,  4,   42,  40,   0,   0,   0,    1,   10),
        "KRR 16, 1,000 tallies": (    0,     0,  4,   27,  22,   0,   0,   0,    3,   12),
        "fwht 4096":             (    0,     0,  0,    0,   7,   0,   0,   0,   36,    3),
        "gamma2 64":             (    0,     0,  2,   59,  63,   1,   0,   0,    1,    6),
        "projected_gradient 256": (   0,     0,  0,   52,  84,   0,   0,   0,    6,    5),
        "simplex 256":           (    0,     0,  1,    5,   7,   0,   0,   0,    1,    3),
    },
    "tpu": {
        #                        users  blocks  ?  loop  out cond atom coll   MiB    s
        "KRR 256, array":        (    0,     0,  0,    5,   8,   0,   0,   0,   71,   10),
        "KRR 256, histogram":    (    0,     0,  0,   15, 102,   0,   0,   0,  143,   25),
        "KRR 256, distribution": (    0,     0,  0,   13,   8,   0,   0,   0,   72,   61),
        "UnaryEncoding 128":     (    0,     0,  0,   40,  11,   0,   0,   0,    3,   26),
        "SubsetSelection 128":   (    0,     0,  0,   87,   8,   0,   0,   0,  150,   32),
        "LocalHashing 128":      (    0,     0,  0,   83,   8,   0,   0,   0,   89,  130),
        "HadamardResponse 256":  (    0,     0,  0,   17,   8,   0,   0,   0,  106,  210),
        "DiscreteLaplace 128":   (    0,     0,  0,   14,   8,   0,   0,   0,  142,   25),
        "Gaussian 64":           (    0,     0,  0,   76,   8,   0,   0,   0, 2120,   45),
        "PrivUnitG 64":          (    0,     0,  0,   21,   8,   0,   0,   0,  570,   55),
        "Laplace":               (    0,     0,  0,   19,   6,   0,   0,   0,  290,  305),
        "TwoRound 8":            (    0,     0,  0,   66,  50,   0,   0,   0,  570,   55),
        "KRR 256, users on 4":   (    0,     0,  0,    7,  12,   0,   0,   1,  360,   10),
        "KRR 256, trials on 4":  (    0,     0,  0,   23,  19,   0,   0,   0,    4,   25),
        "fwht 4096":             (    0,     0,  0,    0,  13,   0,   0,   0,    1,   35),
        "gamma2 64":             (    0,     0,  0, 4249, 695,  18,   0,   0,   80,  345),
        "simplex 256":           (    0,     0,  0,    5,   6,   0,   0,   0,    1,    3),
    },
}
# fmt: on

SHARED = 3.0
"""How many times the seconds of an idle machine a compilation may take.

A CPU second is worth less where others share the cores and their caches: the same program has taken
8 and 15. What makes a program slow to compile, such as a loop unrolled, takes more than this.
"""

BUDGETS = {
    platform: {name: Measured(*row) for name, row in rows.items()}
    for platform, rows in _ROWS.items()
}
"""The fewest users an iteration, and the most of all else, by platform and program.

The seconds are those of an idle machine.
"""


def exceeded(measured: Measured, budget: Measured) -> dict[str, tuple[float, float]]:
    """The measures that do not keep to a budget, each as its value and its bound."""
    found = {}
    for field in dataclasses.fields(Measured):
        value, bound = getattr(measured, field.name), getattr(budget, field.name)
        if field.name == "seconds":
            bound *= SHARED
        if value < bound if field.name == "users" else value > bound:
            found[field.name] = (value, bound)
    return found
