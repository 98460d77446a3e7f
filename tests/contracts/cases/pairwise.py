"""Protocols for pairwise statistics."""

from jaxdp.pairwise import GiniDiversity, GiniMeanDifference, Grid, KendallTau, QuantizedRR
from tests.contracts.case import Case

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
)
