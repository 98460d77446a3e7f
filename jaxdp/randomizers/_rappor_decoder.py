"""Least squares from the bits of Bloom filters to the counts of values."""

import functools

import numpy as np

from ._bloom import BloomDesign, bloom_filters

_MAX_CONDITION = 1e6


@functools.lru_cache(maxsize=16)
def solution(design: BloomDesign) -> np.ndarray:
    """The matrix that solves for the counts.

    Let X hold the filters as k columns of C B bits. A user is in each cohort with probability
    `1 / C`, so the numbers of users with a bit have mean `X counts / C`. Least squares gives
    `C (X'X)^-1 X' bits`: without bias for any bits of that mean.

    Args:
      design: the family of filters.

    Returns:
      float64[k, k], read-only: `C (X'X)^-1`.

    Raises:
      ValueError: X does not have full rank, or nearly.
    """
    filters = bloom_filters(design).transpose(1, 0, 2)
    columns = filters.reshape(design.num_values, -1).astype(np.float64)
    gram = columns @ columns.T
    eigenvalues = np.linalg.eigvalsh(gram)
    if eigenvalues[0] * _MAX_CONDITION < eigenvalues[-1]:
        raise ValueError(
            f"num_bits = {design.num_bits} in {design.num_cohorts} cohorts do not tell "
            f"{design.num_values} values apart: some combination of their filters is zero, or "
            "nearly; take more bits or cohorts, or another seed."
        )
    inverse = design.num_cohorts * np.linalg.inv(gram)
    inverse.setflags(write=False)
    return inverse


def _weights(design: BloomDesign) -> tuple[np.ndarray, np.ndarray]:
    """The least-squares weight of each bit, float64[k, C, B], and the filters, float64[C, k, B]."""
    filters = bloom_filters(design).astype(np.float64)
    return np.einsum("vx,cxb->vcb", solution(design), filters), filters


def user_variances(design: BloomDesign, zero: float, one: float) -> np.ndarray:
    """The variance of entry v of the estimate of one user of value x.

    The estimate is `sum_b weights[v, c, b] (noisy bit b)` in the user's random cohort c. Its second
    moments in the cohorts are averaged; its mean is 1 for v = x, else 0.

    Args:
      design: the family of filters.
      zero: the variance of a noisy bit whose filter has a 0.
      one: the same for a 1.

    Returns:
      float64[k, k], row v, column x.
    """
    weights, filters = _weights(design)
    squares = weights**2
    noise = zero * squares.sum(axis=(1, 2))[:, None]
    noise = noise + (one - zero) * np.einsum("vcb,cxb->vx", squares, filters, optimize=True)
    means = np.einsum("vcb,cxb->vcx", weights, filters, optimize=True)
    return (noise + (means**2).sum(axis=1)) / design.num_cohorts - np.eye(design.num_values)


def user_covariance(design: BloomDesign, zero: float, one: float, value: int) -> np.ndarray:
    """The covariance of the estimate of one user, float64[k, k]; see `user_variances`."""
    weights, filters = _weights(design)
    own = filters[:, value]
    noise = np.einsum("vcb,cb,wcb->vw", weights, np.where(own, one, zero), weights, optimize=True)
    means = np.einsum("vcb,cb->vc", weights, own)
    second = (noise + means @ means.T) / design.num_cohorts
    second[value, value] -= 1.0
    return second
