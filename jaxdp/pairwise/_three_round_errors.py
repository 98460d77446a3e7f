"""Bounds on the error of `ThreeRound`, and on its numbers."""

import math
from typing import TYPE_CHECKING

import numpy as np

from ..linear._tails import Tail, tail_of
from ._rounds import averages, clipped, mean_square, square_of_target, squared_range

if TYPE_CHECKING:
    from ._three_round import ThreeRound

_BEYOND = 1e-9  # the largest probability that a number is beyond its data-independent bound


def data_free_bound(spec: "ThreeRound") -> tuple[float, float]:
    """The x and t such that no number of "tuned" is beyond `x + t / sqrt(b)`, whatever the data.

    With W less its constant, both `<L_v, D mu>`, mu in the hull of the columns, and the mean of
    W[v, w] over the b users of the second round are at most |W|; the noise of their y adds one that
    is sub-Gaussian of variance `|L_v|**2 s / b`. It is beyond `sqrt(2 log(2 / p) s / b) |L_v|` with
    probability p at most.
    """
    tail = tail_of(spec.randomizer)
    assert tail is not None
    assert tail.scale == 0
    margin = spec.factor.radius * math.sqrt(2 * math.log(2 / _BEYOND) * tail.variance)
    return 2 * float(np.abs(spec.factor.rest).max()), margin


def _off_mean(spec: "ThreeRound", num_users, num_vertices: int):
    """A bound on `E |mu - R h|**2`, h of the users of the first round.

    That of the raw mean, or `E max <z, w>` over the vertices, whichever is less; see `Projected`.
    """
    tail = tail_of(spec.randomizer)
    assert tail is not None
    raw = spec.factor.scales.size * spec.randomizer.worst_case_variance(1) / num_users
    width = np.array([tail.of_mean(n).largest(num_vertices, spec.factor.radius) for n in num_users])
    return np.minimum(raw, width)


def _sampled(spec: "ThreeRound", users, products: np.ndarray) -> np.ndarray:
    """The mean square whose coefficients on the averages of W less a constant are given."""
    matrix = spec.factor.rest
    if users is None:
        return np.abs(products).sum(axis=0) * (float(np.ptp(matrix)) / 2) ** 2
    counts, drawn = users
    own = np.diagonal(matrix)
    middle = averages(matrix, own, counts, drawn).pair
    return np.maximum(averages(matrix - middle, own - middle, counts, drawn).of(products), 0.0)


def paper_error(spec: "ThreeRound", users: np.ndarray | None, n: float, drawn: bool) -> float:
    """The Laplace noise, that of y, the users' sampling if drawn, and what clipping takes."""
    assert spec.clip is not None
    (tau, _), radius, matrix = spec.clip, spec.factor.radius, spec.factor.rest
    scalar = float(spec.scalar_randomizer.worst_case_variance(1)) / n
    total = scalar * (spec.norm**2 + tau**2)
    off = float(_off_mean(spec, np.array([n]), 2 * len(matrix))[0])
    total += float(spec.randomizer.worst_case_variance(1)) / n * off
    if drawn:
        total += float(_sampled(spec, (users, True), square_of_target("v", n))[0])
    tail = tail_of(spec.randomizer)
    assert tail is not None
    noise = Tail(
        4 * radius**2 * tail.variance / n, 2 * radius * tail.scale / n
    )  # |R_v - mu| <= 2 C
    size = np.full(len(matrix), 2 * float(np.abs(matrix).max()))
    share = np.full(len(matrix), 1 / len(matrix))
    if users is not None:
        share = users / users.sum()
        if not drawn:
            answers = np.abs(matrix @ share)
            size = answers + answers.max()
    second, _ = clipped(size, tau, [noise] * len(matrix))
    lost = second.max() if users is None else share[share > 0] @ second[share > 0]
    return (math.sqrt(total) + math.sqrt(lost)) ** 2


def tuned_error(spec: "ThreeRound", users, n: float, sizes: np.ndarray, drawn: bool):
    """For given sizes of the groups A, B, S: the error without clipping, and what clipping takes.

    With o = mu - R h_A, the error is that of `h_S W h_A + h_B W h_S - h_B W h_A` for the split,
    plus `<L h_S - L h_B, o>`, of mean 0 given A and variance at most `|o|**2 C**2 (1/b + 1/s)` up
    to a factor for draws without replacement, plus the noise of y times `R (h_S - h_A) - o`.
    """
    first, second, third = sizes
    factor, matrix = spec.factor, spec.factor.rest
    columns, own = factor.columns.astype(np.float64), np.diagonal(matrix)
    step, extra = (1.0, 0.0) if spec.form == "u" else (1 - 1 / n, 1 / n)
    terms = [
        (step, ("T", 0, 2)),
        (step, ("T", 1, 2)),
        (-step, ("T", 0, 1)),
        (extra, ("d", 2)),
    ]
    products = mean_square(terms, sizes) - (0.0 if drawn else square_of_target(spec.form, n))
    split = _sampled(spec, None if users is None else (users, drawn), products)
    off = step**2 * _off_mean(spec, first, len(matrix))
    square = factor.radius**2
    rest = second + third
    across = off * square * (1 / second + 1 / third) * rest / (rest - 1)
    spread = square * n / (n - 1)
    if users is not None:
        share = users / users.sum()
        centred = columns - share @ columns
        spread = share @ np.sum(centred**2, axis=1) * (1.0 if drawn else n / (n - 1))
    seen = (np.sqrt(step**2 * spread * (1 / first + 1 / third)) + np.sqrt(off)) ** 2
    t = float(spec.randomizer.worst_case_variance(1))
    total = (np.sqrt(split) + np.sqrt(across)) ** 2 + t * seen / second

    unit, clip = float(spec.scalar_randomizer.worst_case_variance(1)), spec.clip
    tail = tail_of(spec.randomizer)
    assert tail is not None
    norms, width = np.linalg.norm(columns, axis=1), np.ptp(matrix, axis=1)
    highs, lows = matrix.max(axis=1), matrix.min(axis=1)
    high, low = 2 * highs, 2 * lows
    if users is not None:  # mu is in the hull, so that <L_v, mu> is between the entries of a row
        high, low = (matrix @ share + x for x in (highs, lows))
        slack = width / (n - 1)
        high, low = high + slack, low - slack
    high, low = step * high + extra * own, step * low + extra * own
    taus, lost = np.zeros_like(second), np.zeros_like(second)
    for i, size in enumerate(second):
        sampling = 0.0 * width if users is None else width**2 / (4 * size)
        tails = [
            Tail(step**2 * (r**2 * tail.variance / size + s), step * r * tail.scale / size)
            for r, s in zip(norms, sampling, strict=True)
        ]
        if clip is None:
            taus[i] = squared_range(high, low, tails)
            if users is not None:  # or mu is near R h, by the mean square `off`
                means = 2 * step * matrix @ share + extra * own
                near = [  # of the sum of two dependent means, by the inequality of Cauchy
                    Tail(x.variance + (step * w) ** 2 * (2 / first[i] + 1 / size) / 4, x.scale)
                    for x, w in zip(tails, width, strict=True)
                ]
                close = squared_range(means + 2 * step * slack, means - 2 * step * slack, near)
                lost_range = math.sqrt(float(off[i]) * square)
                taus[i] = min(taus[i], (math.sqrt(close) + lost_range) ** 2)
            continue
        tau = clip[0] + clip[1] / math.sqrt(size)
        taus[i] = tau**2
        reach = np.maximum(np.abs(high), np.abs(low))
        if spec.tau == "bound":  # what no data set exceeds, but for the noise
            reach = np.full(len(norms), clip[0])
            tails = [Tail(r**2 * tail.variance / size, r * tail.scale / size) for r in norms]
        each, _ = clipped(reach, tau, tails)
        lost[i] = each.max() if users is None else share[share > 0] @ each[share > 0]
    return total + unit * taus / third, lost
