"""Exact variances of linear combinations of the counts that a frequency oracle estimates."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np

from jaxdp_kernels.fwht import fwht

from ..randomizers import (
    KRR,
    HadamardBit,
    HadamardResponse,
    LocalHashing,
    ProjectiveGeometryResponse,
    Rappor,
    SubsetSelection,
    UnaryEncoding,
)
from ..randomizers._bloom import bloom_filters
from ..randomizers._rappor_decoder import solution
from ..randomizers._support import FrequencyOracle, SupportOracle

_CHUNK = 2**22  # numbers of an array that is made on the way
_USERS = 2**52


def expected_variances(oracle: FrequencyOracle, probabilities: np.ndarray) -> np.ndarray:
    """The mean variance of each entry of one user's estimate, the value being random.

    Args:
      oracle: the frequency oracle.
      probabilities: float64[k] of sum 1, of each value.

    Returns:
      float64[k]; up to rounding the probabilities to multiples of 2**-52.
    """
    counts = np.rint(probabilities * _USERS).astype(np.int64)
    return oracle.variance(counts) / counts.sum()


def worst_total(oracle: FrequencyOracle) -> float:
    """The largest sum of the variances of one user's estimate over the user's value."""
    if isinstance(oracle, (SupportOracle, HadamardResponse)):  # value 0 is as bad as any other
        first = np.zeros(oracle.num_values, np.int64)
        first[0] = 1
        return float(oracle.variance(first).sum())
    return float(query_variances(oracle, np.eye(oracle.num_values)).sum(axis=0).max())


def query_variances(oracle: FrequencyOracle, queries: np.ndarray) -> np.ndarray:
    """The variance of each query's answer from one user's estimate, by the user's value.

    `w^T S_v w` for each query w, S_v being the oracle's covariance for value v. No S_v is formed
    where the oracle is one of this package: reports that support values symmetrically have four
    different covariances, transforms over XOR and cyclic shifts do the others.

    Args:
      oracle: the frequency oracle.
      queries: float64[m, k].

    Returns:
      float64[m, k]: row w, column v.
    """
    if isinstance(oracle, (KRR, UnaryEncoding, HadamardBit, SubsetSelection, LocalHashing)):
        found = _symmetric(oracle, queries)
    elif isinstance(oracle, HadamardResponse):
        found = _by_chunks(_hadamard_response, oracle, queries, oracle.num_values)
    elif isinstance(oracle, ProjectiveGeometryResponse):
        found = _by_chunks(_projective_geometry, oracle, queries, oracle.num_points)
    elif isinstance(oracle, Rappor):
        found = _rappor(oracle, queries)
    else:
        found = by_covariance(oracle, queries)
    return np.maximum(found, 0.0)  # rounded, it may be below 0


def by_covariance(oracle: FrequencyOracle, queries: np.ndarray) -> np.ndarray:
    """`query_variances` of any oracle that has `covariance(value)`, from its definition."""
    columns = []
    for value in range(oracle.num_values):
        covariance = oracle.covariance(value)  # pyright: ignore[reportAttributeAccessIssue]
        columns.append(np.sum((queries @ covariance) * queries, axis=1))
    return np.stack(columns, axis=1)


def _by_chunks(function, oracle, queries, width):
    rows = max(_CHUNK // width, 1)
    pieces = [function(oracle, queries[i : i + rows]) for i in range(0, len(queries), rows)]
    return np.concatenate(pieces)


def _joint_support(oracle: SupportOracle) -> tuple[Fraction, Fraction]:
    """How often a report supports one's own value and another one, and how often two others.

    For oracles where it does not depend on the values.
    """
    p, q = oracle.probabilities()
    if isinstance(oracle, KRR):
        return Fraction(0), Fraction(0)
    if isinstance(oracle, LocalHashing):
        return oracle.pair_probabilities()
    if isinstance(oracle, SubsetSelection):
        k, d = oracle.num_values, oracle.subset_size
        assert d is not None
        sent = (p + (k - 1) * q) / d  # of the sets that are not empty
        pairs = p * (d - 1) * (d - 2) + (sent - p) * d * (d - 1)
        return p * (d - 1) / (k - 1), pairs / ((k - 1) * (k - 2)) if k > 2 else Fraction(0)
    return p * q, q * q


def _symmetric(oracle, queries: np.ndarray) -> np.ndarray:
    p, q = oracle.probabilities()
    with_own, others = _joint_support(oracle)
    covariances = p * (1 - p), with_own - p * q, q * (1 - q), others - q * q
    own, mixed, other, pair = (float(c / (p - q) ** 2) for c in covariances)
    squares = queries**2
    rest = queries.sum(axis=1, keepdims=True) - queries
    rest_squares = squares.sum(axis=1, keepdims=True) - squares
    single = own * squares + other * rest_squares
    return single + 2 * mixed * queries * rest + pair * (rest**2 - rest_squares)


def _hadamard_response(oracle: HadamardResponse, queries: np.ndarray) -> np.ndarray:
    """Entries of one block covary where their rows add up, as XOR, to the row of the value."""
    m, k = queries.shape
    blocks, size = oracle.num_blocks, oracle.block_size
    assert blocks is not None
    own, other = oracle.probabilities()
    moved = float((own - other) * size / 2)
    rest = float(other * size)  # of each block, for reports that are not moved
    padded = np.pad(queries, ((0, 0), (0, blocks * (size - 1) - k)))
    rows = np.zeros((m, blocks, size))  # row 0 is of no value
    rows[..., 1:] = padded.reshape(m, size - 1, blocks).swapaxes(1, 2)
    with jax.enable_x64(True):
        sums = np.asarray(fwht(fwht(jnp.asarray(rows)) ** 2)) / size
    near = np.square(rows).sum(axis=-1, keepdims=True) + sums
    near = near[..., 1:].swapaxes(1, 2).reshape(m, -1)[:, :k]
    total = np.square(queries).sum(axis=1, keepdims=True)
    return rest / moved**2 * total + near / moved - queries**2


def _projective_geometry(oracle: ProjectiveGeometryResponse, queries: np.ndarray) -> np.ndarray:
    """A report decodes to the sum of a query over the values whose hyperplane it is in."""
    params = oracle.build()
    inside, shared, points = params.hyperplane.shape[0], params.num_shared, oracle.num_points
    p, q = oracle.probabilities()
    high = p / inside
    low = (q - shared * high) / (inside - shared)
    hyperplane = np.zeros(points)
    hyperplane[np.asarray(params.hyperplane)] = 1
    shifted = np.fft.rfft(hyperplane)

    def in_hyperplanes(numbers):
        return np.fft.irfft(shifted * np.conj(np.fft.rfft(numbers, points)), points)

    total = queries.sum(axis=1, keepdims=True)
    centre = total * (inside / points)
    decoded = in_hyperplanes(queries) - centre
    squares = decoded**2
    second = float(high - low) * in_hyperplanes(squares)[:, : oracle.num_values]
    second = second + float(low) * squares.sum(axis=1, keepdims=True)
    mean = float(p - q) * queries + float(q) * total - centre
    return (second - mean**2) / float(p - q) ** 2


def _rappor(oracle: Rappor, queries: np.ndarray) -> np.ndarray:
    """Given the cohort, the bits of a report are independent."""
    filters = bloom_filters(oracle.design).astype(np.float64)
    weights = queries @ solution(oracle.design)
    zero, one = oracle._bit_variances()
    second = np.zeros(queries.shape)
    for cohort in filters:
        bits = weights @ cohort
        noise = zero * np.square(bits).sum(axis=1, keepdims=True)
        second += noise + (one - zero) * bits**2 @ cohort.T + (bits @ cohort.T) ** 2
    return second / len(filters) - queries**2
