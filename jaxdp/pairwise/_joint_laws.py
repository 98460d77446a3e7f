"""How two reports of one user together tell two values apart."""

import numpy as np

from ..accounting import PairLaw


def joint_law(one: PairLaw, other: PairLaw) -> PairLaw:
    """The law of a pair of values for two independent reports; nothing is said of the others.

    No values hide less where, in either report, each of a value's reports is as likely as whether
    it is in the value's cap, and the caps of this pair are disjoint. For given ratios a and b of
    the other report, one in the first cap alone tells `X = R a - e**eps b` in units of the blanket,
    in the second one `Y = a - e**eps R b`, in both R times what it tells in none; `X + Y` is the
    sum of these two, which are between X and Y. So caps with less in common spread what a report
    tells and keep its mean, as for one report: `jaxdp.randomizers._pair_laws.cap_pair_law`.
    """
    parts = ((one.first, other.first), (one.second, other.second), (one.least, other.least))
    first, second, least = (np.multiply.outer(a, b).ravel() for a, b in parts)
    return PairLaw(first, second, least, np.zeros((0, len(least))))
