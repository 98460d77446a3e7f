"""The privacy of Gaussian noise on something that one user moves by a known distance."""

from ..accounting import gaussian_delta, gaussian_sigma


class GaussianPrivacy:
    """Base class of the mechanisms that add Gaussian noise once; all else is post-processing.

    Attributes:
      epsilon: privacy parameter.
      delta: in (0, 1).
      sensitivity: the largest Euclidean distance by which one user moves what is noised; with 0
        there is no noise, and nothing to hide.
    """

    __slots__ = ()

    epsilon: float
    delta: float
    sensitivity: float

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise: the least that is private."""
        size = self.sensitivity
        return gaussian_sigma(self.epsilon, self.delta, size) if size > 0 else 0.0

    def exact_epsilon(self) -> float:
        """The epsilon at which `exact_delta()` holds: `epsilon` itself."""
        return self.epsilon

    def exact_delta(self, epsilon: float | None = None) -> float:
        """The smallest delta at which the mechanism is (epsilon, delta)-private.

        Args:
          epsilon: >= 0; the mechanism's own for None.
        """
        size = self.sensitivity
        epsilon = self.epsilon if epsilon is None else epsilon
        return gaussian_delta(epsilon, size, self.sigma) if size > 0 else 0.0
