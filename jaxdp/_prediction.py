"""What a predicted error is worth."""

from collections.abc import Iterable
from typing import Literal

Kind = Literal["exact", "delta", "bound", "simulated"]

_BEST_KNOWN_FIRST: tuple[Kind, ...] = ("exact", "delta", "simulated", "bound")


def least_known(kinds: Iterable[Kind]) -> Kind:
    """What a number that depends on several predictions is: the kind that says the least."""
    return max(kinds, key=_BEST_KNOWN_FIRST.index)


class Prediction(float):
    """A predicted mean squared error that says what it is.

    A float in arithmetic, whose results are plain floats: what becomes of an error that is bounded
    is for whoever computes with it to say.

    ============  ================================================================================
    `kind`        the mean squared error is
    ============  ================================================================================
    "exact"       this
    "delta"       that of the linearised statistic: this, up to terms of higher order in 1/n
    "bound"       at most this, and it may be far less
    "simulated"   this, up to a few times `stderr`
    ============  ================================================================================

    Attributes:
      kind: see the table.
      stderr: the standard error of a simulated prediction; 0 for other kinds.

    Example:
      >>> import jaxdp
      >>> krr = jaxdp.randomizers.KRR(num_values=2, epsilon=1.0)
      >>> error = krr.worst_case_variance(num_users=100)
      >>> error.kind, round(error, 2)
      ('exact', 92.07)
    """

    __slots__ = ("kind", "stderr")

    kind: Kind
    stderr: float

    def __new__(cls, value: float, kind: Kind = "exact", stderr: float = 0.0) -> "Prediction":
        """A prediction of that value and kind."""
        prediction = super().__new__(cls, value)
        prediction.kind, prediction.stderr = kind, float(stderr)
        return prediction

    def __repr__(self) -> str:
        """The value and its kind."""
        spread = f", stderr={self.stderr!r}" if self.stderr else ""
        return f"Prediction({float(self)!r}, {self.kind!r}{spread})"

    __str__ = float.__repr__

    def __reduce__(self) -> tuple[type["Prediction"], tuple[float, Kind, float]]:
        """What a copy is made of."""
        return Prediction, (float(self), self.kind, self.stderr)

    @classmethod
    def of(cls, value: float) -> "Prediction":
        """A prediction as it is; another number as an exact one, which it then claims to be."""
        return value if isinstance(value, cls) else cls(value)

    def scaled(self, factor: float) -> "Prediction":
        """The prediction of an error that is a constant times this one, of the same kind."""
        return Prediction(self * factor, self.kind, self.stderr * abs(factor))
