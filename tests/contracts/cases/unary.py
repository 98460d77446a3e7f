"""Randomized bits: unary encodings and RAPPOR."""

from jaxdp.randomizers import Rappor, UnaryEncoding
from tests.contracts.case import Case


def rappor(epsilon: float, **options) -> Rappor:
    defaults = dict(num_values=3, num_bits=4, num_hashes=1, num_cohorts=2)
    return Rappor(epsilon=epsilon, **(defaults | options))  # pyright: ignore[reportArgumentType]


CASES = (
    Case(
        "oue-2",
        lambda e: UnaryEncoding(2, e),
        counts=(700, 300),
        epsilons=(0.5, 1.0),
        bad=(
            (lambda: UnaryEncoding(4, 22.5), "epsilon"),
            (lambda: UnaryEncoding(4, 1e-10), "epsilon"),
        ),
    ),
    Case(
        "sue-5",
        lambda e: UnaryEncoding(5, e, kind="symmetric"),
        counts=(400, 0, 100, 300, 200),
        epsilons=(0.5, 1.0, 3.0),
        bad=((lambda: UnaryEncoding(4, 45.0, kind="symmetric"), "epsilon"),),
        variant=True,
    ),
    Case(
        "rappor-3",
        rappor,
        counts=(500, 100, 400),
        epsilons=(0.5, 1.0, 3.0),
        bad=(
            (lambda: rappor(1.0, num_values=40), "num_bits"),
            (lambda: rappor(1.0, num_rounds=2**15), "num_rounds"),
            (lambda: rappor(1.0, p=0.75), "p must be below q"),
            (lambda: rappor(50.0), "epsilon"),
            (lambda: rappor(1e-10), "epsilon"),
        ),
    ),
)
