"""Bounds on the error of private marginals: Theorem A.4 of perturb and project, and its baselines.

The error is the sum over all n^k entries of the tensor `T = mean of e^(tensor k)` of the squared
errors, on average; divide by n^k for Theorems 2.2 and 2.3. The text of the theorem that is in
circulation has lost its roots and exponents; they follow from its proof. Let the rows be scaled to
norm at most 1, e / sqrt(n) or e / sqrt(t). A user moves the mean by at most 2 / m, so the noise
has `sigma = sqrt(8 log(2 / delta)) / (epsilon m)`, and the projected error is at most sigma G with
the Gaussian complexity G of the set (Theorem 5.1, with the constant 1). Scaling back multiplies
squared errors by n^k or t^k.
"""

import math

from .._checked import Checked
from .._checks import Epsilon, Integer, Optional, Real
from .._contract import field, spec
from .._spec import check_int


@spec
class MarginalsBounds(Checked):
    """The bounds on the error of private marginals, summed over the n^k entries.

    Args:
      num_features: n >= 2.
      order: k in [1, n].
      num_users: m >= 1.
      epsilon: in (0, 1], the range of the paper's calibration.
      delta: in (0, 1).
      sparsity: t in [1, n], the most features a user has; None for any number.

    Raises:
      ValueError: an argument is out of range.

    Example:
      >>> from jaxdp.bounds import MarginalsBounds
      >>> dense = MarginalsBounds(1000, 3, 10**6, epsilon=1.0, delta=1e-6)
      >>> sparse = MarginalsBounds(1000, 3, 10**6, epsilon=1.0, delta=1e-6, sparsity=10)
      >>> f"{dense.theorem() / 1000**3:.1e} {sparse.theorem() / 1000**3:.1e}"
      '4.1e-03 1.6e-09'

      Projecting pays for few users:

      >>> few, many = (MarginalsBounds(100, 2, m, 1.0, 1e-6) for m in (10**3, 10**7))
      >>> few.theorem() < few.plain(), many.theorem() < many.plain()
      (True, False)

    References:
      Cohen-Addad et al. (2024), Theorems 2.2, 2.3, A.4 and A.5.
    """

    num_features: int = field(Integer(2))
    order: int = field(Integer(1))
    num_users: int = field(Integer(1))
    epsilon: float = field(Epsilon())
    delta: float = field(Real(0.0, 1.0))
    sparsity: int | None = field(Optional(Integer(1)), default=None)

    def validate(self) -> None:
        """Raises ValueError unless the order, the sparsity and epsilon are small enough."""
        check_int("order", self.order, low=1, high=self.num_features)
        if self.sparsity is not None:
            check_int("sparsity", self.sparsity, low=1, high=self.num_features)
        if self.epsilon > 1:
            raise ValueError(
                f"epsilon must be in (0, 1], got {self.epsilon!r}: the paper's noise is calibrated "
                "there."
            )

    @property
    def sigma(self) -> float:
        """The paper's calibration to a sensitivity of 2 / m, that of rows of norm at most 1."""
        return math.sqrt(8 * math.log(2 / self.delta)) / (self.epsilon * self.num_users)

    def theorem(self) -> float:
        """The mean squared error of Theorem A.4: `sigma tau`.

        With `sigma = sqrt(8 log(2 / delta)) / (epsilon m)` and

        ==========  =====================================  =======================================
        k           dense                                  at most t features a user
        ==========  =====================================  =======================================
        even        `n^(5 k / 4)`                          `t^(3 k / 2) sqrt(k log(n / t^2))`
        odd         `(n^(5 k) k log n)^(1/4)`              `(t^(3 k) k log n)^(1/2)`
        ==========  =====================================  =======================================

        tau is the least of the two where both are known.

        Formal guarantees:
          An order, not a bound: the theorem holds up to an absolute constant that the paper does
          not give. The sparse one for even k needs n > t^2, and is left out otherwise. For the
          bounds that are proven see `sparse` and `jaxdp.central.MomentSet`.

        References:
          Cohen-Addad et al. (2024), Theorems 2.2, 2.3 and A.4.
        """
        n, k, t = self.num_features, self.order, self.sparsity
        # n^k, for scaling back, times the complexity of the set: n^(k/4), or (n^k k log n)^(1/4)
        taus = [n ** (5 * k / 4) if k % 2 == 0 else (n ** (5 * k) * k * math.log(n)) ** 0.25]
        if t is not None:
            if k % 2:
                taus.append(math.sqrt(t ** (3 * k) * k * math.log(n)))
            elif n > t * t:
                taus.append(t ** (1.5 * k) * math.sqrt(k * math.log(n / t**2)))
        return self.sigma * min(taus)

    def sparse(self) -> float:
        """A proven bound for sparse users, any k: `sigma t^(3 k / 2) sqrt(2 log(2 n^k))`.

        Formal guarantees:
          A proven bound on the mean squared error of the projection on any convex set of tensors
          whose entries have absolute values that sum to at most t^k, which those of t-sparse data
          do: `<W, X> <= max |W| t^k`, and the largest of n^k absolute values of normals is on
          average at most `sqrt(2 log(2 n^k))`. No moment matrix is needed; Lemma A.6 gets the same
          for pseudo-distributions of degree 4 k - 4. Constant 1.

        Raises:
          ValueError: there is no sparsity.

        Example:
          >>> from jaxdp.bounds import MarginalsBounds
          >>> bounds = MarginalsBounds(1000, 2, 10**6, 1.0, 1e-6, sparsity=10)
          >>> f"{bounds.sparse() / 1000**2:.1e}"
          '5.8e-08'

        References:
          Cohen-Addad et al. (2024), Theorem A.5 and Lemma A.6.
        """
        if self.sparsity is None:
            raise ValueError("sparsity must be given: the bound is for users with few features.")
        n, k, t = self.num_features, self.order, self.sparsity
        # Tensors of rows e / sqrt(t) have an L1 norm of at most t^(k/2), and squares scale back by
        # t^k.
        return self.sigma * t ** (1.5 * k) * math.sqrt(2 * math.log(2 * n**k))

    def plain(self, *, keep_largest: bool = False) -> float:
        """The error of the plain Gaussian mechanism, or of its m t^k largest entries.

        The noise of n^k entries of rows of norm sqrt(n), or sqrt(t), is `sigma^2 n^k` times n^k, or
        t^k. The m t^k largest entries are the nearest tensor with so few to the noisy one, and the
        truth has as few: on the 2 m t^k places of the two they are at most twice as far from the
        truth as the noise is long. With E max W^2 <= (8 / 3) log(2 N) for N normals the squared
        error is at most `(64 / 3) m t^k sigma^2 t^k log(2 n^k)`.

        Formal guarantees:
          Exact for the plain mechanism; a proven bound for the largest entries, never above 4 times
          it.

        Args:
          keep_largest: whether all but the m t^k largest entries are removed; needs a sparsity.

        References:
          Cohen-Addad et al. (2024), Section 2.
        """
        n, k, m = self.num_features, self.order, self.num_users
        t = n if self.sparsity is None else self.sparsity
        noise = self.sigma**2 * float(t) ** k  # of an entry, scaled back
        plain = noise * float(n) ** k
        if not keep_largest:
            return plain
        if self.sparsity is None:
            raise ValueError("sparsity must be given with keep_largest: it says how many are kept.")
        # 2 m t^k places, at most twice as far each: 4 (2 m t^k) (8 / 3) log(2 n^k) times the noise
        return min(4 * plain, 64 / 3 * m * float(t) ** k * noise * math.log(2 * float(n) ** k))
