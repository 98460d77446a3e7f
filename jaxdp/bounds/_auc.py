"""Bounds of Bell, Bellet, Gascón, Kulkarni (2020) for the hierarchical estimate of the AUC.

All are for classes of `n-` and `n+` users, a tree of height alpha over `2**alpha` scores, and
unbiased estimates of the counts of its nodes with a variance of at most `V n` in a class of n,
uncorrelated between the nodes of a level. The paper writes `C alpha` for V. By one-bit Hadamard
reports C is c**2, `c = (e**eps + 1) / (e**eps - 1)`, where users are split over the levels, not
c**2 - 1 as equation (23) has it; and V is c**2 at the epsilon of a level where all report on all.
"""

import dataclasses
import math

import numpy as np

from .._spec import check_choice, check_int, check_real
from ..pairwise.auc import Pruning, threshold_of, worst_pruned_error


@dataclasses.dataclass(frozen=True)
class AUCSetting:
    """What the bounds on the error of the hierarchical AUC depend on.

    Attributes:
      num_negative: users of label 0, at least 1.
      num_positive: users of label 1, at least 1.
      height: alpha, the logarithm of the number of scores, at least 1.
      count_variance: V, the variance of an estimated count by the size of the class, > 0.
      discarded: what a discarded node counts, "half" of its pairs or "zero".
    """

    num_negative: int
    num_positive: int
    height: int
    count_variance: float
    discarded: str = "half"


def hierarchical_auc_threshold(setting: AUCSetting, rule: str = "optimal") -> float:
    """The threshold parameter a that makes Theorem 3 least, or the paper's approximation of it.

    With `r = kappa sqrt(2 n V) / n_min`, kappa = 21/8 or, for discarded nodes that count nothing,
    1/16, it solves `sqrt(a) (sqrt(a) - 1)**2 = r`; the approximation is `a = (1 + sqrt(r))**2`.
    In Corollary 4 the latter is misprinted: the exponent 1/4 belongs to `2 C n alpha / n_min**2`.

    Args:
      setting: the sizes.
      rule: "optimal" or "paper".

    Returns:
      a, above 1.

    Example:
      >>> from jaxdp.bounds import AUCSetting, hierarchical_auc_threshold
      >>> round(hierarchical_auc_threshold(AUCSetting(10**6, 10**6, 20, 93.7)), 4)
      1.4528

    References:
      Bell, Bellet, Gascón, Kulkarni (2020), Corollaries 4 and 5.
    """
    check_choice("rule", rule, ("optimal", "paper"))
    n, least, setting = _checked(setting)
    # Where the derivative of Theorem 3 in x = sqrt(a) is 0: 8 x n_min = 21 sqrt(2 n V) / (x - 1)**2
    # and for its variant 16 x n_min = sqrt(2 n V) / (x - 1)**2.
    scale = 21 / 8 if setting.discarded == "half" else 1 / 16
    return float(threshold_of(rule, scale * math.sqrt(2 * n * setting.count_variance) / least))


def hierarchical_auc_mse(setting: AUCSetting, threshold: float | None = None) -> float:
    """The largest mean squared error of the estimated area; as Theorem 3 states it.

    `V alpha / (n- n+) * (2 n + (4 a + 1) n_min + 21 sqrt(2 n V) / (sqrt(a) - 1))`, and for
    discarded nodes that count nothing `(8 a + 2) n_min + sqrt(2 n V) / (sqrt(a) - 1)`.

    Formal guarantees:
      A bound for independent levels: every user reports on all levels; or, users being split, about
      the area of the distribution they are drawn from. The printed proof bounds
      `E 1[p is discarded] h_p**2` by `4 v`, which is the maximum for a node discarded below
      `sqrt(v)`; nodes are discarded below `2 sqrt(a v)`, so that 4 should be
      `(2 sqrt(a) + 1)**2`, and 21 become `5 + 4 (2 sqrt(a) + 1)**2`. The statement with 21 is true
      by the proof of `jaxdp.pairwise.HierarchicalAUC` wherever `tight_hierarchical_auc_mse`, which
      evaluates it, is smaller. On a grid of sizes that is so wherever this bound is below 1000; not
      for V from about 100 times the smaller class, where neither says anything: for classes of 100
      and 10, alpha = 1, V = 10**4 and "zero" this one is 16,911 and the other 101,737.

    Args:
      setting: the sizes.
      threshold: a > 1; None for the minimiser.

    Returns:
      The bound; above 1 it says nothing.

    Example:
      >>> from jaxdp.bounds import AUCSetting, hierarchical_auc_mse
      >>> round(hierarchical_auc_mse(AUCSetting(4000, 6000, 6, 28.1)), 2)
      0.64

    References:
      Bell, Bellet, Gascón, Kulkarni (2020), Theorem 3 and the variant after it.
    """
    n, least, setting = _checked(setting)
    a = hierarchical_auc_threshold(setting) if threshold is None else threshold
    a = check_real("threshold", a, low=1.0)
    second = math.sqrt(2 * n * setting.count_variance) / (math.sqrt(a) - 1)
    if setting.discarded == "half":
        inner = 2 * n + (4 * a + 1) * least + 21 * second
    else:
        inner = 2 * n + (8 * a + 2) * least + second
    scale = setting.count_variance * setting.height
    return scale * inner / (setting.num_negative * setting.num_positive)


def hierarchical_auc_corollary(setting: AUCSetting) -> float:
    """The value of `hierarchical_auc_mse` at the paper's threshold: Corollaries 4 and 5.

    `V alpha / (n- n+) * (2 n + (4 a + 1) n_min + K (V n n_min**2)**(1/4))` with
    `K = sqrt(168) 2**(1/4) = 15.41`; the paper prints 14. For discarded nodes that count nothing
    `(8 a + 2) n_min + (512 V n n_min**2)**(1/4)`, as printed.

    Args:
      setting: the sizes.

    Returns:
      The bound.

    Example:
      >>> from jaxdp.bounds import AUCSetting, hierarchical_auc_corollary
      >>> round(hierarchical_auc_corollary(AUCSetting(10**6, 10**6, 20, 93.7)), 4)
      0.024

    References:
      Bell, Bellet, Gascón, Kulkarni (2020), Corollaries 4 and 5.
    """
    n, least, setting = _checked(setting)
    a = hierarchical_auc_threshold(setting, "paper")
    # The last term of Theorem 3 where sqrt(a) - 1 = sqrt(r) is 21 sqrt(8 / 21) 2**(1/4) of this.
    fourth = (setting.count_variance * n * least**2) ** 0.25
    if setting.discarded == "half":
        inner = 2 * n + (4 * a + 1) * least + math.sqrt(168) * 2**0.25 * fourth
    else:
        inner = 2 * n + (8 * a + 2) * least + 512**0.25 * fourth
    scale = setting.count_variance * setting.height
    return scale * inner / (setting.num_negative * setting.num_positive)


def tight_hierarchical_auc_mse(
    setting: AUCSetting, threshold: float | None = None, num_groups: int = 1
) -> float:
    """The largest mean squared error with constants proven here, for given users.

    See `jaxdp.pairwise.HierarchicalAUC`.

    Formal guarantees:
      Proven for every data set with public labels. Where users are split over the levels
      (`num_groups` of them) it holds about the area of the users at hand too, of the same order
      `alpha**2 / n_min`: Table 1 of the paper has `alpha**3 / n` there.

    Args:
      setting: the sizes.
      threshold: a, at least 0; None for `hierarchical_auc_threshold`.
      num_groups: alpha where users are split over the levels, 1 where all report on all.

    Returns:
      The bound; ties count nothing.

    References:
      Bell, Bellet, Gascón, Kulkarni (2020), Theorem 3.
    """
    _, _, setting = _checked(setting)
    a = hierarchical_auc_threshold(setting) if threshold is None else threshold
    a = check_real("threshold", a, low=0.0, open_ends=False)
    groups = check_int("num_groups", num_groups, low=1)
    sizes = np.array([setting.num_negative, setting.num_positive], np.float64)
    pruning = Pruning(setting.count_variance, a, groups, setting.discarded == "half")
    return worst_pruned_error(sizes, setting.height, 0.0, pruning)


def _checked(setting: AUCSetting) -> tuple[int, int, AUCSetting]:
    """Returns n, n_min and the setting, or raises unless its numbers are in range."""
    negative = check_int("num_negative", setting.num_negative, low=1)
    positive = check_int("num_positive", setting.num_positive, low=1)
    check_int("height", setting.height, low=1, high=24)
    check_real("count_variance", setting.count_variance, low=0.0)
    check_choice("discarded", setting.discarded, ("half", "zero"))
    return negative + positive, min(negative, positive), setting
