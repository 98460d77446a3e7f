"""Points and hyperplanes of a projective space over a finite field, numbered cyclically.

The points of PG(t-1, Q) are the powers a**i of a primitive element of the field of Q**t elements,
up to factors in the field of Q elements: i runs over {0, .., K-1}, `K = (Q**t - 1) / (Q - 1)`. A
hyperplane is a set D of `(Q**(t-1) - 1) / (Q - 1)` numbers, and the K hyperplanes are its cyclic
shifts `D - v` (Singer). Any two of them share `(Q**(t-2) - 1) / (Q - 1)` points.
"""

import functools
import itertools

import numpy as np

MAX_POINTS = 2**24


def num_points(order: int, dimension: int) -> int:
    """1 + Q + .. + Q**(t-1), the points of PG(t-1, Q); 0 for t = 0."""
    return (order**dimension - 1) // (order - 1)


def dimension_for(order: int, points: int) -> int:
    """The least t >= 2 with at least so many points."""
    return next(t for t in itertools.count(2) if num_points(order, t) >= points)


def prime_powers(limit: int) -> list[int]:
    """The prime powers from 2 to `limit`, in order."""
    sieve = np.ones(limit + 1, bool)
    sieve[:2] = False
    for i in range(2, int(limit**0.5) + 1):
        sieve[i * i :: i] = False
    powers = []
    for p in np.flatnonzero(sieve).tolist():
        power = p
        while power <= limit:
            powers.append(power)
            power *= p
    return sorted(powers)


def prime_factors(number: int) -> list[int]:
    """The distinct primes that divide a number, by trial division."""
    factors, p = [], 2
    while p * p <= number:
        if number % p == 0:
            factors.append(p)
            while number % p == 0:
                number //= p
        p += 1
    return factors + [number] * (number > 1)


@functools.lru_cache(maxsize=32)
def difference_set(order: int, dimension: int) -> np.ndarray:
    """A hyperplane D of PG(t-1, Q), int32, sorted, read-only.

    Args:
      order: Q, a prime power p**e.
      dimension: t, at least 2.

    Returns:
      The i with f(a**i) = 0, where f is a linear form over the field of Q elements.
    """
    (p,) = prime_factors(order)
    e = round(np.log(order) / np.log(p))
    polynomial = _primitive_polynomial(p, e, dimension)
    points = num_points(order, dimension)
    inside = np.ones(points, bool)
    # Powers of a**K, which generates the subfield, are a basis of it over the prime field: f(x) = 0
    # where x, a**K x, .., a**(K (e-1)) x all have a last coefficient of 0.
    for j in range(e):
        inside &= _last_coefficients(polynomial, p, j * points, points) == 0
    members = np.flatnonzero(inside).astype(np.int32)
    assert members.size == num_points(order, dimension - 1)
    members.setflags(write=False)
    return members


def _last_coefficients(polynomial: np.ndarray, p: int, start: int, length: int) -> np.ndarray:
    """The last coefficients of x**i modulo the polynomial, for i from `start` on, int64[length]."""
    m = polynomial.size
    power = _power(polynomial, p, start)
    first = []
    for _ in range(m):
        first.append(power[-1])
        power = _times_x(power, polynomial, p)
    last = np.array(first)
    while last.size < length:  # x**(i + n) = sum_j r_j x**(i + j) for x**n = sum_j r_j x**j
        shift = _power(polynomial, p, last.size)
        windows = np.lib.stride_tricks.sliding_window_view(last, m)
        last = np.concatenate([last, windows @ shift % p])
    return last[:length]


def _primitive_polynomial(p: int, e: int, t: int) -> np.ndarray:
    """Coefficients c, int64[e t], of a primitive polynomial `x**m - sum_j c_j x**j` over F_p."""
    m, order = e * t, p**e
    size = order**t - 1
    primes = sorted({*prime_factors(order - 1), *prime_factors(num_points(order, t))})
    one = np.eye(m, dtype=np.int64)[0]
    for number in itertools.count(1):
        digits = number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128  # scattered, always the same
        c = np.array([digits // p**j % p for j in range(m)])
        if not _is_primitive_root((-1) ** (m + 1) * int(c[0]) % p, p):
            continue  # the norm of a primitive element is one of F_p
        # x has order p**m - 1: its power is 1, and it is not for any proper divisor.
        if all(np.any(_power(c, p, size // r) != one) for r in primes):
            if np.array_equal(_power(c, p, size), one):
                return c
    raise AssertionError


def _is_primitive_root(g: int, p: int) -> bool:
    return g != 0 and all(pow(g, (p - 1) // r, p) != 1 for r in prime_factors(p - 1))


def _times_x(a: np.ndarray, polynomial: np.ndarray, p: int) -> np.ndarray:
    shifted = np.roll(a, 1)
    shifted[0] = 0
    return (shifted + a[-1] * polynomial) % p


def _power(polynomial: np.ndarray, p: int, exponent: int) -> np.ndarray:
    """x**exponent modulo the polynomial, by squaring; int64[m], the lowest coefficient first."""
    m = polynomial.size
    high = [polynomial]  # x**m, x**(m+1), .. modulo the polynomial
    for _ in range(m - 2):
        high.append(_times_x(high[-1], polynomial, p))
    reduce = np.array(high)
    power = np.eye(m, dtype=np.int64)[0]
    for bit in bin(exponent)[2:]:
        square = np.convolve(power, power) % p
        power = (square[:m] + square[m:] @ reduce) % p
        if bit == "1":
            power = _times_x(power, polynomial, p)
    return power
