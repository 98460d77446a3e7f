"""Exact moments of quadratic forms in randomized responses.

User i becomes a symbol with distribution `L_i` (its bin, or a random rounding), and reports a
symbol r with distribution `pi_i = q + (p - q) L_i`. The debiased report `y_i = (e_r - q) / (p - q)`
has mean `L_i` and covariance `S_i = (diag(pi_i) - pi_i pi_i^T) / (p - q)**2`. The estimates of this
package are quadratic forms

    Q = sum_{i != j} y_i^T W y_j + sum_i d^T y_i.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int

_CHUNK = 2**22  # numbers held at a time


@dataclasses.dataclass(frozen=True)
class Users:
    """The distinct users: what they become, and how many they are.

    Attributes:
      symbols: the symbols that a user may become.
      weights: with which probabilities.
      counts: how many such users there are, or with which probability one is.
    """

    symbols: Int[np.ndarray, "m c"]
    weights: Float[np.ndarray, "m c"]
    counts: Float[np.ndarray, " m"]

    def histogram(self, num_symbols: int) -> Float[np.ndarray, " k"]:
        """The sum of the users' `L_i`."""
        shares = (self.counts[:, None] * self.weights).ravel()
        return np.bincount(self.symbols.ravel(), shares, num_symbols)

    def collected(self, num_symbols: int) -> "Users":
        """The same users, one row for each symbol; only where users become a certain symbol."""
        every = np.arange(num_symbols)[:, None]
        return Users(every, np.ones(every.shape), self.histogram(num_symbols))

    @property
    def certain(self) -> bool:
        """Whether every user becomes a certain symbol."""
        return self.symbols.shape[1] == 1

    def chunks(self, num_symbols: int) -> Iterator["Users"]:
        """The same users, as many at a time as fit in memory with a row of symbols each."""
        step = max(1, _CHUNK // num_symbols)
        for start in range(0, len(self.counts), step):
            part = slice(start, start + step)
            yield Users(self.symbols[part], self.weights[part], self.counts[part])

    def times(self, matrix: Float[np.ndarray, "k k"]) -> Float[np.ndarray, "m k"]:
        """`L matrix` for a symmetric matrix."""
        corners = zip(self.symbols.T, self.weights.T, strict=True)
        return sum((w[:, None] * matrix[s] for s, w in corners), start=np.zeros(()))

    def pick(self, rows: Float[np.ndarray, "m k"]) -> Float[np.ndarray, " m"]:
        """The mean over `L_i` of each user's row."""
        return np.sum(self.weights * np.take_along_axis(rows, self.symbols, axis=1), axis=1)

    def second_moment(self, num_symbols: int) -> Float[np.ndarray, "k k"]:
        """The sum of `L_i L_i^T`."""
        out = np.zeros((num_symbols, num_symbols))
        for s, w in zip(self.symbols.T, self.weights.T, strict=True):
            shares = self.counts[:, None] * w[:, None] * self.weights
            np.add.at(out, (s[:, None], self.symbols), shares)
        return out


def expectation(
    weights: Float[np.ndarray, "k k"], linear: Float[np.ndarray, " k"], users: Users
) -> float:
    """E Q for given users."""
    # sum_{i != j} L_i^T W L_j = s^T W s - sum_i L_i^T W L_i
    total = users.histogram(len(linear))
    alone = sum(c.counts @ c.pick(c.times(weights)) for c in users.chunks(len(linear)))
    return float(total @ weights @ total - alone + linear @ total)


def variance(
    weights: Float[np.ndarray, "k k"],
    linear: Float[np.ndarray, " k"],
    users: Users,
    p: float,
    q: float,
) -> float:
    """Var Q for given users; exact.

    With `s = sum L_i` and `g_i = 2 W (s - L_i) + d` it is
    `sum_i g_i^T S_i g_i + 2 sum_{i != j} tr(W S_i W S_j)`. As `S_i 1 = 0`, W may be centred in the
    second sum, after which the terms of `pi_i` and `sum S_i` that are constant in an index vanish.

    Args:
      weights: W, symmetric.
      linear: d.
      users: given users.
      p: the probability of reporting the user's symbol.
      q: the probability of reporting another given one.
    """
    k, gap = len(linear), p - q
    if users.certain:  # users of one symbol are alike: a row for each symbol stands for them
        users = users.collected(k)
    total = users.histogram(k)
    slope = 2 * weights @ total + linear
    centred = _centre(weights, np.full(k, 1 / k))
    squares = centred**2
    first, alone = 0.0, 0.0
    for part in users.chunks(k):
        g = slope - 2 * part.times(weights)
        g -= g.mean(axis=1, keepdims=True)
        # g^T S_i g is the variance of g[r] over (p - q)**2.
        mean = q * g.sum(axis=1) + gap * part.pick(g)
        second = q * np.sum(g**2, axis=1) + gap * part.pick(g**2)
        first += part.counts @ (second - mean**2)
        alone += part.counts @ _self_trace(part, centred, squares, gap, q)
    # (p - q)**2 sum_i S_i = diag(sum_i pi_i) - sum_i pi_i pi_i^T, but for constants in an index
    spread = q * users.counts.sum() + gap * total
    if users.certain:
        # pi_i pi_i^T is (p - q)**2 on the symbol's diagonal entry, but for constants in an index.
        product = centred * (spread - gap**2 * total)
    else:
        product = centred @ (np.diag(spread) - gap**2 * users.second_moment(k))
    trace = np.sum(product * product.T) - alone
    return float(first / gap**2 + 2 * trace / gap**4)


def iid_variance(
    weights: Float[np.ndarray, "k k"],
    linear: Float[np.ndarray, " k"],
    distribution: Float[np.ndarray, " k"],
    num_users: int,
    p: float,
    q: float,
) -> float:
    """Var Q for users drawn independently from a distribution over symbols; exact.

    Reports are then independent with `pi = q + (p - q) D`, and Q is a U-statistic of them. Its
    Hoeffding decomposition has a linear term with coefficients `(2 (n-1) W D + d) / (p - q)` and a
    degenerate one, W centred under pi, over `(p - q)**2`.

    References:
      Bell, Bellet, Gascón, Kulkarni (2020), Lemma 1.
    """
    n, gap = float(num_users), p - q
    reports = q + gap * distribution
    slope = 2 * (n - 1) * weights @ distribution + linear
    slope -= reports @ slope
    # zeta_2 minus twice zeta_1: W centred in both arguments, under the law of the reports
    degenerate = reports @ _centre(weights, reports) ** 2 @ reports
    return float(n * (reports @ slope**2) / gap**2 + 2 * n * (n - 1) * degenerate / gap**4)


def _self_trace(
    users: Users,
    centred: Float[np.ndarray, "k k"],
    squares: Float[np.ndarray, "k k"],
    gap: float,
    q: float,
) -> Float[np.ndarray, " m"]:
    """`tr(W S_i W S_i) (p - q)**4` for each user, with a centred W."""
    # tr(W S W S) for (p - q)**2 S = diag(pi) - pi pi^T is pi^T W**2 pi - 2 sum_r pi_r (W pi)_r**2 +
    # (pi^T W pi)**2, squares of W entrywise, with pi = q + (p - q) L and W 1 = 0.
    row = users.times(centred)
    product = users.times(squares)
    cross = q * np.sum(row**2, axis=1) + gap * users.pick(row**2)
    whole = q**2 * squares.sum() + 2 * q * gap * product.sum(axis=1)
    whole += gap**2 * users.pick(product)
    return whole - 2 * gap**2 * cross + gap**4 * users.pick(row) ** 2


def _centre(
    matrix: Float[np.ndarray, "k k"], weights: Float[np.ndarray, " k"]
) -> Float[np.ndarray, "k k"]:
    """The matrix minus its row means and column means under a distribution, plus its mean."""
    means = matrix @ weights
    return matrix - means[:, None] - means + weights @ means
