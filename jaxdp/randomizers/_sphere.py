"""Constants of cap mechanisms: which cap a report's law is tilted towards, and by how much.

A cap mechanism on a rotation-symmetric law with coordinate X reports from the cap {X >= gamma}
with probability p and from its complement otherwise. With `q = Pr[X >= gamma]` and
`h = E[X 1{X >= gamma}]` its mean is `m = h (p/q - (1-p)/(1-q))` in units of the true direction. Of
all pairs (gamma, p) of privacy `e**epsilon = p (1-q) / (q (1-p))` the one with the largest m has
`m = gamma`, and there the noise is isotropic. Solved for epsilon and p that condition reads
`e**epsilon - 1 = gamma / (h - gamma q)` and `1 - p = (1-q) (h - gamma q) / h`, so the optimum of
every epsilon lies on an explicit curve. All of this is float64 on the host.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
from jaxtyping import Float

T = TypeVar("T", float, np.ndarray)
WORDS = 2**32
MIN_EPSILON, MAX_EPSILON = 1e-4, 30.0
_ROUNDING = 2e-12  # more than what float64 loses in an exact_epsilon, and than 2**-64 of failures


@dataclasses.dataclass(frozen=True)
class Cap:
    """A cap {X >= gamma} of a rotation-symmetric law.

    Attributes:
      gamma: the threshold, in (0, 1) on the sphere.
      mass: q, the probability of the cap.
      moment: h, the mean of X over the cap.
    """

    gamma: float
    mass: float
    moment: float

    @property
    def excess(self) -> float:
        """`h - gamma q`, the mean of max(X - gamma, 0)."""
        return self.moment - self.gamma * self.mass

    @property
    def epsilon(self) -> float:
        """The privacy parameter whose optimum this cap is."""
        return math.log1p(self.gamma / self.excess)

    @property
    def outside(self) -> float:
        """1 - p at that optimum: how often a report comes from outside the cap."""
        return (1 - self.mass) * self.excess / self.moment

    def realised_epsilon(self, threshold: int) -> float:
        """The log-ratio of the two densities where p = threshold / 2**32, rounded up."""
        odds = math.log(threshold / (WORDS - threshold)) + math.log((1 - self.mass) / self.mass)
        return odds + _ROUNDING * (1 + abs(odds))


@dataclasses.dataclass(frozen=True)
class Solution:
    """The optimal cap whose p is a multiple of 2**-32.

    Attributes:
      level: where the cap lies on its curve; see `sphere_cap` and `gaussian_cap`.
      cap: the cap; its m is gamma.
      threshold: p * 2**32.
      epsilon: the realised privacy parameter, rounded up.
    """

    level: float
    cap: Cap
    threshold: int
    epsilon: float


def half_ratio(dim: int) -> float:
    """Gamma((dim + 1) / 2) / Gamma(dim / 2): the mean norm of a Gaussian vector, over sqrt(2)."""
    a = dim / 2
    if dim < 60:
        return math.gamma(a + 0.5) / math.gamma(a)
    series = -1 / (8 * a) + 1 / (192 * a**3) - 1 / (640 * a**5) + 17 / (14336 * a**7)
    return math.sqrt(a) * math.exp(series)  # the next term is below 1e-16


def sphere_cap(dim: int, level: float) -> Cap:
    """The cap of the unit sphere in R^dim, dim >= 2, with `1 - gamma**2 = e**-level`.

    `h = e**(-a level) / (2 a B)` with `a = (dim - 1) / 2`, `B = Beta(1/2, a)`; the mass is half of
    a regularised incomplete beta function, by the continued fraction of the shorter side.
    """
    a = (dim - 1) / 2
    square = -math.expm1(-level)
    gamma = math.sqrt(square)
    moment = math.exp(-a * level) * half_ratio(dim - 1) / (2 * a * math.sqrt(math.pi))
    if 1 - square < (a + 1) / (a + 2.5):
        mass = gamma * moment * _beta_fraction(a, 0.5, 1 - square)
    else:
        mass = 0.5 - 2 * a * gamma * moment * _beta_fraction(0.5, a, square)
    return Cap(gamma, mass, moment)


def gaussian_cap(level: float) -> Cap:
    """The half-space of a standard normal with `gamma = sqrt(level)`."""
    gamma = math.sqrt(level)
    moment = math.exp(-level / 2) / math.sqrt(2 * math.pi)
    return Cap(gamma, math.erfc(gamma / math.sqrt(2)) / 2, moment)


@functools.lru_cache(maxsize=1024)
def solve(dim: int | None, epsilon: float) -> Solution:
    """The optimum for the largest p, of 32 bits, whose realised epsilon is at most `epsilon`.

    Args:
      dim: of the space of the sphere, at least 2; None for the Gaussian law.
      epsilon: in [1e-4, 30]; it and p grow with the level.
    """

    def curve(level: float) -> Cap:
        return gaussian_cap(level) if dim is None else sphere_cap(dim, level)

    level = _root(lambda t: math.log(curve(t).epsilon / epsilon))
    threshold = math.floor((1 - curve(level).outside) * WORDS)
    while True:
        outside = (WORDS - threshold) / WORDS
        level = _root(lambda t, outside=outside: math.log(outside / curve(t).outside))
        cap = curve(level)
        realised = cap.realised_epsilon(threshold)
        if realised <= epsilon:
            return Solution(level, cap, threshold, realised)
        threshold -= 1


def _root(function: Callable[[float], float]) -> float:
    """The level at which an increasing function is zero, by bisection to the last bit."""
    low, high = 1e-14, 80.0
    while True:
        middle = math.sqrt(low * high)
        if not low < middle < high:
            return middle
        if function(middle) < 0:
            low = middle
        else:
            high = middle


def regularized_beta(a: float, b: float, x: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """I_x(a, b) for x in [0, 1]: the chance that a beta variable is below x; see `_beta_fraction`.

    JAX's would be a program to compile.
    """
    swapped = x >= (a + 1) / (a + b + 2)  # 1 - I_{1-x}(b, a), whose fraction converges faster
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    found = np.empty_like(x)
    for part, p, q, y in ((~swapped, a, b, x), (swapped, b, a, 1 - x)):
        with np.errstate(divide="ignore"):  # at 0 and 1
            front = np.exp(p * np.log(y[part]) + q * np.log1p(-y[part]) - log_beta) / p
        found[part] = front * _beta_fractions(p, q, y[part])
    return np.where(swapped, 1 - found, found)


def _beta_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of `a B(a, b) I_x(a, b) / (x**a (1 - x)**b)`, by Lentz's method."""
    tiny = 1e-300
    d = 1 / ((1 - (a + b) * x / (a + 1)) or tiny)
    c, value = 1.0, d
    for terms in _beta_terms(a, b, x):
        for term in terms:
            d = 1 / ((1 + term * d) or tiny)
            c = (1 + term / c) or tiny
            value *= c * d
        if abs(c * d - 1) < 1e-16:
            break
    return value


def _beta_fractions(a: float, b: float, x: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """`_beta_fraction` of many x: NumPy would slow down the one, and Python the many."""
    tiny = 1e-300
    d = 1 - (a + b) * x / (a + 1)
    d[d == 0] = tiny
    np.reciprocal(d, out=d)
    c, value = np.ones_like(x), d.copy()
    for terms in _beta_terms(a, b, x):
        for term in terms:
            d *= term
            d += 1
            d[d == 0] = tiny
            np.reciprocal(d, out=d)
            np.divide(term, c, out=c)
            c += 1
            c[c == 0] = tiny
            value *= c * d
        if np.all(np.abs(c * d - 1) < 1e-15):
            break
    return value


def _beta_terms(a: float, b: float, x: T) -> Iterator[tuple[T, T]]:
    """The numerators of the fraction, two by two."""
    for m in range(1, 10_000):
        yield (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        )
