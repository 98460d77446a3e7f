"""The parts of the error of `TwoRound`."""

import functools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._queries import LinearProtocol
from ..linear._encoded import EncodedProtocol, covariance_form
from ..linear._tails import Tail, tail_of
from ._rounds import Averages, averages, clipped, mean_square, square_of_target, squared_range

if TYPE_CHECKING:
    from ._two_round import TwoRound


class _Answers(NamedTuple):
    """How an estimate of W h by vectors errs.

    Attributes:
      decoder: R, float64[k, l], a row for each query.
      seen: `R L`, float64[k, k], a column for each value, less any offset.
      isotropic: a, and
      along: b of the covariance `a I + b x x^T` of a report.
      tail: of a report, or None.
    """

    decoder: np.ndarray
    seen: np.ndarray
    isotropic: float
    along: float
    tail: Tail | None


@functools.lru_cache(maxsize=32)
def _answers(protocol: LinearProtocol) -> _Answers | None:
    """Of a protocol on vectors, unbiased and with a covariance of that form; None for others."""
    if not isinstance(protocol, EncodedProtocol):
        return None
    code, workload = protocol.code(), protocol.workload.values
    form = covariance_form(code.randomizer)
    error = np.abs(protocol.contributions()[0] - workload).max()
    if form is None or error > 1e-6 * np.abs(workload).max():
        return None
    columns = code.columns.astype(np.float64)
    decoder = np.eye(columns.shape[1]) if code.decoder is None else code.decoder
    return _Answers(decoder, decoder @ columns.T, *form, tail_of(code.randomizer))


class Model:
    """The parts of the error of `TwoRound`, for given sizes of the groups, float64[2, m]."""

    def __init__(self, spec: "TwoRound", users: np.ndarray | None, n: float, drawn: bool):
        self.spec, self.users, self.n, self.drawn = spec, users, n, drawn
        self.matrix = spec.matrices()[0]
        self.own = np.diagonal(self.matrix)
        self.raw: Averages | None = None
        if users is not None:
            self.raw = averages(self.matrix, self.own, users, drawn)
        self.protocol = spec.protocol
        self.answers = _answers(self.protocol)
        self.biased = self.answers is None
        self.split_users = spec.sharing == "users"
        if self.split_users:  # the factors of z and of the diagonal in f
            self.factors = (1.0, 0.0) if spec.form == "u" else (1 - 1 / n, 1 / n)
        else:
            self.factors = (n / (n - 1), -1 / (n - 1)) if spec.form == "u" else (1.0, 0.0)

    def split(self, sizes: np.ndarray) -> np.ndarray:
        """The error without any noise: that of who joins which group, and of who is drawn."""
        step, own = self.factors
        target = square_of_target(self.spec.form, self.n)
        if self.split_users:
            terms = [(step, ("T", 0, 1)), (own, ("d", 1))]
            products = mean_square(terms, sizes) - (0.0 if self.drawn else target)
        else:
            products = target if self.drawn else np.zeros((7, 1))
        if self.raw is None or self.users is None:
            half = float(np.ptp(self.matrix)) / 2
            return np.abs(products).sum(axis=0) * half**2
        middle = self.raw.pair
        centred = averages(self.matrix - middle, self.own - middle, self.users, self.drawn)
        return np.maximum(centred.of(products), 0.0)

    def noise(self, sizes: np.ndarray) -> np.ndarray:
        """What the noise of the answers adds."""
        a, b = sizes
        square = self.factors[0] ** 2
        if self.answers is None:
            return square * self._worst(a)
        r, seen = self.answers.decoder, self.answers.seen
        if self.users is None:
            largest = np.sum(r**2, axis=1).max()
            across, along = largest, np.square(seen).max()
        else:
            share = self.users / self.users.sum()
            norms, whole = share @ np.sum(r**2, axis=1), np.sum((share @ r) ** 2)
            apart = whole if self.drawn else (self.n * whole - norms) / (self.n - 1)
            across = norms / b + (1 - 1 / b) * apart
            along = self._column_squares(seen, b)
        return square * (self.answers.isotropic * across + self.answers.along * along) / a

    def scalar(self, sizes: np.ndarray) -> np.ndarray:
        """The noise of one number of the second round."""
        unit, (a, _) = float(self.spec.scalar_randomizer.worst_case_variance(1)), sizes
        if self.spec.tau is not None:
            exact = self.spec.scalar == "bit" and self.raw is not None and not self.biased
            square = self._square_of_answers(a) if exact else 0.0
            return unit * self.spec.tau**2 - square + np.zeros_like(a)
        if self.answers is None or self.answers.tail is None:
            high, low, _ = self._ranges(float(a.min()))
            wide = (high.max() - low.min()) / 2 + np.sqrt(high.size * self._worst(a))
            return unit * (self.factors[0] * wide) ** 2
        return unit * np.array([squared_range(*self._ranges(x)) for x in a])

    def clipping(self, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Bounds on what clipping takes, averaged over users: of f, and of f**2."""
        tau, found = self.spec.tau, []
        assert tau is not None
        for a in sizes[0]:
            high, low, tails = self._ranges(a)
            size = np.maximum(np.abs(high), np.abs(low))
            if self.answers is None or self.answers.tail is None:
                spread = self.factors[0] ** 2 * float(self._worst(np.array([a]))[0])
                spread = spread + np.array([tail.variance for tail in tails])
                each = np.where(size <= tau, spread, np.inf)
                both = each, each + 2 * tau * np.sqrt(each)
            else:
                both = clipped(size, tau, tails)
            share = np.ones_like(size) if self.users is None else self.users
            held = [x[share > 0] for x in both]
            weights = share[share > 0] / share.sum()
            found.append([x.max() if self.users is None else weights @ x for x in held])
        return tuple(np.array(found).T)

    def _worst(self, a: np.ndarray) -> np.ndarray:
        """The largest mean squared error of an answer."""
        return np.array([self.protocol.worst_case_variance(int(x)) for x in a])

    def _ranges(self, a: float):
        """Bounds on the means of f, and the tails of the rest, by value."""
        step, own = self.factors
        width = np.ptp(self.matrix, axis=1)
        if self.users is None:
            highs, lows, sampling = self.matrix.max(axis=1), self.matrix.min(axis=1), 0.0 * width
        else:
            highs = lows = self.matrix @ self.users / self.users.sum()
            random = self.split_users or self.drawn
            sampling = width**2 / (4 * a) if random else 0.0 * width  # Hoeffding's lemma
        slack = abs(step) * width / max(self.n - 1, 1.0) if self.split_users else 0.0
        tail = self.answers.tail if self.answers is not None else None
        if tail is None:
            tails = [Tail(step**2 * s, 0.0) for s in sampling]
        else:
            assert self.answers is not None
            norms = np.linalg.norm(self.answers.decoder, axis=1)
            tails = [
                Tail(step**2 * (r**2 * tail.variance / a + s), abs(step) * r * tail.scale / a)
                for r, s in zip(norms, sampling, strict=True)
            ]
        return step * highs + own * self.own + slack, step * lows + own * self.own - slack, tails

    def _square_of_answers(self, a: np.ndarray) -> np.ndarray:
        """The mean square of what users of the second round answer, before it is randomized."""
        raw, answers, n = self.raw, self.answers, self.n
        assert raw is not None
        assert answers is not None
        assert self.users is not None
        share = self.users / self.users.sum()
        squares = share @ np.square(answers.seen) @ share
        if self.split_users:
            step, own = self.factors
            slopes = raw.shared * (1 - 1 / a) + raw.same / a
        else:
            step, own = (1.0, 0.0) if self.spec.form == "u" else (1 - 1 / n, 1 / n)
            slopes = raw.shared * (1 - 1 / (n - 1)) + raw.same / (n - 1)
        loop = share @ np.diagonal(answers.seen) ** 2
        if self.split_users and not self.drawn:
            squares = (n * squares - loop) / (n - 1)
        elif not self.split_users and self.drawn:
            squares = (1 - 1 / n) * squares + loop / n
        norms = share @ np.sum(answers.decoder**2, axis=1)
        noise = (answers.isotropic * norms + answers.along * squares) / a
        mean = step**2 * slopes + 2 * step * own * raw.own_in + own**2 * raw.own_same
        return mean + self.factors[0] ** 2 * noise

    def _column_squares(self, seen: np.ndarray, b: np.ndarray) -> np.ndarray:
        """The mean over users i of the first round of `(h_B^T M e_i)**2`, M = `seen`."""
        users, n = self.users, self.n
        assert users is not None
        total = users.sum()
        share, diagonal = users / total, np.diagonal(seen)
        whole, squares = share @ seen, share @ np.square(seen)  # over j, by i
        if self.drawn:
            apart, same, mixed = share @ whole**2, share @ squares, share @ (whole * diagonal)
        else:
            others = n * whole - diagonal
            rest = n * squares - diagonal**2
            same, mixed = share @ rest / (n - 1), share @ (others * diagonal) / (n - 1)
            apart = share @ (others**2 - rest) / ((n - 1) * (n - 2))
        if self.split_users:
            return (1 - 1 / b) * apart + same / b
        pairs = (n - 1) * (n - 2) * apart + (n - 1) * same
        return (pairs + 2 * (n - 1) * mixed + share @ diagonal**2) / n**2 + 0 * b
