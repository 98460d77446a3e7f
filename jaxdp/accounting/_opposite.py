"""A pair of laws that hides less than any pair of values of a channel."""

import numpy as np

from .._spec import as_float64, within_float64
from ._shuffle_channel import Channel, PairLaw, check_rows, told_apart

_MOST_RATIOS = 1000  # that the likelihoods relative to the blanket are taken to have
_RAISED = 1 + 1e-12  # more than the rounding errors of sums of numbers >= 0
_MOST_ROWS = 32  # that data sets are tried of


@within_float64
def opposite_pairs(channel: Channel, least: np.ndarray | None = None) -> list[PairLaw]:
    """Pairs that bracket the shuffled reports of a channel with too many pairs of values.

    With m the blanket, a value x tells by the ratios `P(y | x) / m(y)` alone how far its reports
    stand out. The first pair has the most spread law of ratios that the channel allows, twice, the
    largest of one value beside the smallest of the other one: the reports that speak most for one
    value speak least against the other. `pair_shuffle_bracket` and `pair_shuffle_delta` take it
    and the pairs after it, of some rows, which are there for the lower end.

    Formal guarantees:
      * Proven: no pair of values of the channel hides less than the first pair.
      * Exact, up to 1,000 different ratios, where a pair of values is as far apart: for k-ary
        response, Hadamard response, and noise on a line, whose ends are. Above that by a tenth for
        sets of values, and by a half where rows are random.

    Edge cases:
      =====================================  =====================================================
      a report that some values never send   ValueError: it has no ratio
      =====================================  =====================================================

    Args:
      channel: rows of probabilities, row x for the value x, as of `shuffle_bracket`.
      least: float64[m], a blanket, where `channel` has rows for some values alone: at most the
        probability of a report under any value. The ratios to it must have, for every value, the
        law that they have for one of the rows. None where all values have rows.

    Returns:
      At most 9 pairs.

    Raises:
      ValueError: rows do not sum to 1, or a report may never be sent, or `least` is above a row.

    Example:
      >>> from jaxdp.accounting import opposite_pairs, pair_shuffle_bracket
      >>> from jaxdp.randomizers import DiscreteLaplace
      >>> pairs = opposite_pairs(DiscreteLaplace(0, 100, 4.0).channel())
      >>> found = pair_shuffle_bracket(pairs, num_users=20_000, delta=1e-6)
      >>> print(f"{found.lower:.3f} {found.upper:.3f}")
      0.165 0.226

    References:
      Balle, Bell, Gascón, Nissim (2019), The privacy blanket of the shuffle model, for the
      blanket. That opposite values hide least is proven on the page on shuffling.
    """
    rows = check_rows(channel)
    if least is None:
        rows = rows[:, rows.max(axis=0) > 0]
        blanket = rows.min(axis=0)
    else:
        blanket = as_float64("least", least)
    if blanket.shape != rows.shape[1:] or not np.all(blanket <= rows * (1 + 1e-9)):
        raise ValueError(f"least must hold {rows.shape[1]} numbers, at most those of every row.")
    if not np.all(blanket > 0):
        raise ValueError("channel must have reports that every value may send, got a 0.")
    laws = facing(*_mean_excess(rows / blanket, blanket), float(blanket.sum()))
    some = np.round(np.linspace(0, len(rows) - 1, min(_MOST_ROWS, len(rows)))).astype(np.int64)
    opposite = PairLaw(*laws, np.zeros((0, len(laws[0]))))
    return [opposite, *told_apart(rows[some], blanket)]


def facing(
    points: np.ndarray, means: np.ndarray, total: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(first, second, least) of the worst pair that the spread of likelihood ratios allows.

    `h(t) = max over x of sum_y (P(y | x) - t m(y))_+` is convex. Linear interpolation of it is the
    mean excess of a law of ratios at the points t, at most which any value has.

    Args:
      points: t, increasing, from the smallest ratio of a report to the largest one.
      means: h(t), or more.
      total: of the blanket m.
    """
    atoms, weights = _law(points, means, total)
    # The largest first, beside the smallest: classes end where one of both laws changes. The second
    # half of them mirrors the first, so that tiny classes of large ratios keep their digits.
    ends = np.cumsum(weights[::-1])
    ends *= total / ends[-1]
    half = total / 2
    edges = np.unique(np.concatenate([[0.0, half], ends[ends < half], total - ends[ends > half]]))
    middles, sizes = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    large, small = (
        sizes * atoms[::-1][np.minimum(np.searchsorted(ends, at), len(ends) - 1)]
        for at in (middles, total - middles)
    )
    first, second, least = (
        np.append(one, other[::-1])
        for one, other in ((large, small), (small, large), (sizes, sizes))
    )
    return first, second, least


def _mean_excess(ratios: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points t from the smallest ratio to the largest, and h(t), rounded up."""
    points = np.unique(ratios)
    low, high = points[0], points[-1]
    if len(points) > _MOST_RATIOS:
        points = np.geomspace(low, high, _MOST_RATIOS)
        points[[0, -1]] = low, high
    means = np.zeros(len(points))
    for row in ratios:
        order = np.argsort(-row)
        sizes, masses = weights[order], (weights * row)[order]
        above = np.searchsorted(-row[order], -points)  # how many ratios exceed each point
        mass, size = (np.append(0.0, np.cumsum(part))[above] for part in (masses, sizes))
        means = np.maximum(means, mass - points * size)
    return points, means


def _law(points: np.ndarray, means: np.ndarray, total: float) -> tuple[np.ndarray, np.ndarray]:
    """Atoms and their weights, of sum `total` and mean 1, whose mean excess is at least `means`.

    Args:
      points: increasing.
      means: of the excess over each point, convex but for rounding errors.
      total: of the weights.
    """
    raised = means * _RAISED
    raised[0], raised[-1] = 1 - points[0] * total, 0.0
    kept = [0]
    slopes = [-total]
    for j in range(1, len(points)):
        # Points above the chord of their neighbours, by rounding errors, are left out: what is
        # below a convex function nowhere has no such hull either.
        slope = (raised[j] - raised[kept[-1]]) / (points[j] - points[kept[-1]])
        while len(kept) > 1 and slope < slopes[-1]:
            kept.pop()
            slopes.pop()
            slope = (raised[j] - raised[kept[-1]]) / (points[j] - points[kept[-1]])
        kept.append(j)
        slopes.append(min(max(slope, -total), 0.0))
    weights = np.diff(np.append(slopes, 0.0))
    return points[kept], np.maximum(weights, 0.0)
