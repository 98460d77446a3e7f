"""Protocols for pairwise statistics."""

from jaxdp.pairwise import (
    GiniDiversity,
    GiniMeanDifference,
    Grid,
    GridKernel,
    KendallTau,
    OneReport,
    OneStep,
    OnGrid,
    QuantizedRR,
)
from tests.contracts.case import Case

GRID = Grid.uniform(4)
KERNEL = GridKernel(GiniMeanDifference(), GRID)

CASES = (
    Case(
        "quantized-gini-diversity",
        lambda e: QuantizedRR(GiniDiversity(), e, num_values=5),
        counts=(400, 0, 100, 300, 200),
        variant=True,
    ),
    Case(
        "quantized-kendall",
        lambda e: QuantizedRR(KendallTau(), e, num_values=(2, 3)),
        counts=(300, 100, 50, 20, 180, 350),
    ),
    Case(
        "quantized-gini",
        lambda e: QuantizedRR(GiniMeanDifference(), e, grid=Grid.uniform(8)),
        counts=(300, 200, 400, 100),
        values=(0.0, 0.26, 0.6, 1.0),
        unbiased=False,
    ),
    *(
        Case(
            f"on-grid-{name}",
            lambda e, protocol=protocol: OnGrid(protocol(KERNEL, e), GRID),
            counts=(3000, 2000, 4000, 1000),
            values=(0.0, 0.26, 0.6, 1.0),
            bad=(
                (lambda: OnGrid(OneReport(KERNEL, 1.0), Grid.uniform(3)), "grid"),
                (lambda: OnGrid(OneReport(KERNEL, 1.0), Grid.uniform(4, high=2.0)), "grid"),
                (lambda: OnGrid(OneReport((KERNEL,) * 2, 1.0), GRID), "protocol"),
                (lambda: OnGrid(QuantizedRR(KERNEL, 1.0), GRID), "protocol"),
                (lambda: GridKernel(KERNEL, GRID), "kernel"),
            ),
            unbiased=False,
            floats=True,
        )
        for name, protocol in (("vectors", OneReport), ("rounds", OneStep))
    ),
)
