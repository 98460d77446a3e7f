"""Reports of reports that are remembered."""

from jaxdp.randomizers import KRR, Memoised, Rappor, UnaryEncoding
from tests.contracts.case import Case
from tests.contracts.cases.finite_channel import channel


def krr(epsilon: float) -> Memoised:
    return Memoised(KRR(4, epsilon), KRR(4, epsilon))


CASES = (
    Case(
        "memoised-krr-4",
        krr,
        counts=(500, 0, 300, 200),
        epsilons=(0.5, 1.0, 4.0),
        bad=(
            (lambda: Memoised(KRR(4, 1.0), KRR(5, 1.0)), "instantaneous"),
            (lambda: Memoised(UnaryEncoding(4, 1.0), KRR(4, 1.0)), "permanent"),
            (lambda: Memoised(Rappor(4, 1.0), KRR(4, 1.0)), "permanent"),
        ),
    ),
    Case(
        "memoised-bits-3",
        lambda e: Memoised(channel(e), UnaryEncoding(5, e)),
        counts=(500, 300, 200),
        epsilons=(0.5, 1.0),
        variant=True,
    ),
)
