"""What randomizers know of their shuffled reports, against their channels."""

import itertools
import math
from fractions import Fraction

import jax
import numpy as np
import pytest

from jaxdp._bits import FRACTION
from jaxdp.accounting import (
    PairLaw,
    ShuffleBracket,
    channel_shuffle_delta,
    pair_shuffle_bracket,
    pair_shuffle_delta,
    shuffle_bracket,
    shuffle_epsilon,
)
from jaxdp.randomizers import (
    KRR,
    AffineHashing,
    AffineSubsets,
    BinaryResponse,
    CandidateResponse,
    DiscreteLaplace,
    Gaussian,
    GaussianRejection,
    HadamardBit,
    HadamardResponse,
    L2Ball,
    Laplace,
    LocalHashing,
    Memoised,
    Piecewise,
    PrivUnit,
    PrivUnitG,
    ProjectiveGeometryResponse,
    ProjUnit,
    Rappor,
    SubsetSelection,
    UnaryEncoding,
)
from jaxdp.randomizers._pair_laws import (
    cap_pair_law,
    filter_pair_laws,
    laplace_pair_laws,
    set_pair_law,
    symmetric_pair_law,
)
from tests.accounting.test_shuffle_bracket import exact_delta
from tests.marks import slow

N, DELTA = 1000, 1e-6

MAKERS = {
    "krr": KRR,
    "subsets of 2": lambda k, e: SubsetSelection(k, e, subset_size=2),
    "hadamard bit": HadamardBit,
    "one block": lambda k, e: HadamardResponse(k, e, num_blocks=1),
    "two blocks": lambda k, e: HadamardResponse(k, e, num_blocks=2),
    "unary": UnaryEncoding,
    "four blocks": lambda k, e: HadamardResponse(k, e, num_blocks=2 if k < 4 else 4),
    "geometry": ProjectiveGeometryResponse,
    "planes of order 2": lambda k, e: ProjectiveGeometryResponse(k, e, order=2),
    "affine": AffineHashing,
    "affine bits": lambda k, e: AffineHashing(k, e, hash_range=2),
    "affine thirds": lambda k, e: AffineHashing(k, e, hash_range=3),
    "affine subsets": AffineSubsets,
    "affine subsets of half": lambda k, e: AffineSubsets(k, e, modulus=k, set_size=k // 2),
    "affine subsets of most": lambda k, e: AffineSubsets(k, e, modulus=k, set_size=max(k - 2, 1)),
    "symmetric unary": lambda k, e: UnaryEncoding(k, e, kind="symmetric"),
}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("values", [5, slow(3), slow(4), slow(8)])
def test_kinds_of_pairs_are_those_of_the_channel(name, values):
    """Blankets of all pairs, and the worst of all values of the others."""
    for epsilon in (0.5, 2.0):
        spec = MAKERS[name](values, epsilon)
        assert spec.pair_laws() is not None
        known, listed = spec.shuffle_bracket(N, DELTA), shuffle_bracket(spec.channel(), N, DELTA)
        assert known.upper == pytest.approx(listed.upper, rel=1e-3)
        assert known.lower == pytest.approx(listed.lower, rel=2e-3)
        assert known.index_ratio == pytest.approx(listed.index_ratio, rel=1e-6)
        delta = spec.shuffle_delta(N, known.upper)
        assert delta == pytest.approx(
            channel_shuffle_delta(spec.channel(), N, known.upper), rel=0.02
        )
        assert delta <= DELTA


@pytest.mark.parametrize("design", [(4, 9, 3), (5, 11, 6), (4, 9, 4), (6, 13, 5)])
def test_sets_of_more_residues_than_values(design):
    """The blanket is taken as if no set held all values."""
    values, modulus, size = design
    spec = AffineSubsets(values, 2.0, modulus, size)
    known, listed = spec.shuffle_bracket(N, DELTA), shuffle_bracket(spec.channel(), N, DELTA)
    assert known.lower == pytest.approx(listed.lower, rel=2e-3)
    assert listed.upper * (1 - 1e-4) <= known.upper <= 1.02 * listed.upper


@pytest.mark.parametrize(
    "spec",
    [KRR(2, 1.0), SubsetSelection(2, 1.0), BinaryResponse(1.0)],
    ids=lambda spec: type(spec).__name__,
)
def test_two_values_are_exact(spec):
    found = spec.shuffle_bracket(N, DELTA)
    assert found.upper <= 1.001 * found.lower
    assert spec.shuffle_delta(N, found.upper) <= DELTA < spec.shuffle_delta(N, 0.99 * found.lower)


@pytest.mark.parametrize("values", [2, 3])
def test_hashes_by_enumeration(values):
    """All functions of a field of 16 elements, with the truth and all lies of k-ary response."""
    params = LocalHashing(values, 1.0, hash_range=4).build(4)
    words = np.indices((16,) * 4, np.uint32).reshape(4, -1)
    rows = []
    for value in range(values):
        report = jax.vmap(params.from_bits, in_axes=(1, None))(words, np.int32(value))
        column = np.asarray(report).astype(np.int64) @ [1024, 64, 4, 1]
        rows.append(np.bincount(column, minlength=2**14) / 2**16)
    listed = shuffle_bracket(np.array(rows), N, DELTA)
    p, other = (
        float(x) for x in LocalHashing(values, 1.0, hash_range=4)._response().probabilities(4)
    )
    pair = symmetric_pair_law((1.0, 1 / 4, 1 / 16 if values > 2 else None), 4.0, p, other)
    known = pair_shuffle_bracket([pair], N, DELTA)
    assert known.lower == pytest.approx(listed.lower, rel=1e-3)
    # The blanket is taken as if no bucket were the hash of all values.
    assert listed.upper <= known.upper * (1 + 1e-4)
    (own,) = LocalHashing(values, 1.0, hash_range=4).pair_laws()
    p, other = (
        float(x) for x in LocalHashing(values, 1.0, hash_range=4)._response().probabilities()
    )
    uniform = symmetric_pair_law((1.0, 1 / 4, 1 / 16 if values > 2 else None), 4.0, p, other)
    np.testing.assert_allclose(own.first, uniform.first, rtol=1e-8, atol=1e-15)


def overlapping(overlap):
    """Two caps of mass 0.3 with a common part, inside 6 / 5 likely and outside 32 / 35."""
    apart = np.array([[0.4 + overlap, 0.3 - overlap], [0.3 - overlap, overlap]])
    patterns = np.multiply.outer(apart, [1.0, 0.0])
    return set_pair_law(patterns, 6 / 5, 32 / 35, third=False)


@pytest.mark.parametrize("n", [1, 10, 1000])
def test_caps_that_overlap_hide_more(n):
    known = cap_pair_law(6 / 5, 32 / 35, 0.3)
    np.testing.assert_allclose(known.first, overlapping(0.0).first, rtol=1e-12)
    for epsilon in (0.0, 0.01, 0.1):
        found = [pair_shuffle_delta([overlapping(o)], n, epsilon) for o in (0.0, 0.1, 0.2, 0.299)]
        worst = pair_shuffle_delta([known], n, epsilon)
        assert all(delta <= worst * (1 + 1e-3) + 1e-15 for delta in found)
        assert found[-1] < 0.5 * worst or worst < 1e-12


@pytest.mark.parametrize("n", [2, 3, slow(4)])
def test_caps_by_enumeration(n):
    """Six directions on a circle, with a cap of two or three of them."""
    for size in (2, 3):
        outside = Fraction(1, 16)
        inside = (1 - (6 - size) * outside) / size
        rows = [[inside if (y - x) % 6 < size else outside for y in range(6)] for x in (0, 1, 2, 3)]
        law = cap_pair_law(float(6 * inside), float(6 * outside), size / 6)
        for delta in (0.02, 0.2):
            found = pair_shuffle_bracket([law], n, delta)
            assert exact_delta(rows, n, found.upper) <= delta
            assert exact_delta(rows, n, found.lower) > delta
            assert exact_delta(rows, n, 0.7 * found.upper) > delta  # the control


def test_vectors_of_caps():
    """Proven as opposite vectors are, and attained where the normal law makes caps independent."""
    for spec in (PrivUnit(8, 4.0), PrivUnitG(8, 4.0), L2Ball(8, 4.0)):
        found = spec.shuffle_bracket(20_000, DELTA)
        generic = shuffle_epsilon(spec.exact_epsilon(), 20_000, DELTA)
        assert 0 < found.lower <= found.upper < 0.72 * generic
        assert found.upper <= 1.01 * found.index_ratio * found.lower
        assert spec.shuffle_delta(20_000, found.upper) <= DELTA
    normal = PrivUnitG(8, 4.0).pair_laws()[0]
    p = PrivUnitG(8, 4.0).probabilities()[0]
    zero = normal.others[0]  # the vector 0, whose cap is across
    assert zero.sum() == pytest.approx(1)
    assert zero[1::2].sum() == pytest.approx(p)
    # 2-ary response, at the least, whatever the dimension
    ball = L2Ball(3, 1.0).pair_laws()[0]
    np.testing.assert_allclose(ball.first[ball.first > 0].max(), 1 / (1 + math.exp(-1)), rtol=1e-6)


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_ends_of_windows_hide_least(epsilon):
    """As all pairs do; and by enumeration, since the few data sets tried may be better ones."""
    spec = Piecewise(epsilon, steps=5)
    known, listed = spec.shuffle_bracket(N, DELTA), shuffle_bracket(all_levels(spec), N, DELTA)
    assert known.upper == pytest.approx(listed.upper, rel=1e-4)
    assert 0.999 * listed.lower <= known.lower <= known.upper
    small = Piecewise(epsilon, steps=2)
    rows = [[Fraction(p) for p in row] for row in all_levels(small)]
    found = small.shuffle_bracket(3, 0.02)
    assert exact_delta(rows, 3, found.upper) <= 0.02 < exact_delta(rows, 3, found.lower)
    assert Piecewise(4.0).shuffle_bracket(N, DELTA).upper < 0.67 * shuffle_epsilon(4.0, N, DELTA)


def test_candidates_hide_as_the_caps_that_they_stand_for():
    """Reports of one seed are as likely as whether they are near."""
    spec = CandidateResponse(8, 4.0)
    found = spec.shuffle_bracket(20_000, DELTA)
    assert 0.95 * found.upper < found.lower < found.upper
    # Caps of the same likelihood ratio, whose mass is that of the near ones.
    ranks = spec.ranks()
    near, all_near = ranks.num_high / ranks.num_candidates, ranks.threshold / 2**32
    law = cap_pair_law(all_near / near, (1 - all_near) / (1 - near), near, third=True)
    caps = pair_shuffle_bracket([law], 20_000, DELTA)
    assert found.upper == pytest.approx(caps.upper, rel=1e-4)
    assert found.lower == pytest.approx(caps.lower, rel=1e-4)
    assert found.upper < 0.64 * shuffle_epsilon(spec.exact_epsilon(), 20_000, DELTA)
    assert CandidateResponse(8, 20.0).pair_laws() is None


@pytest.mark.parametrize("case", [(1, 1.0, 8, 2), slow((1, 2.0, 4, 2)), slow((2, 3.0, 16, 2))])
def test_candidates_of_many_seeds(case):
    """The channel of 4096 seeds, for opposite vectors and zero. Control: of half the epsilon."""

    dim, epsilon, size, near = case

    def seen(spec):
        seed, number = np.divmod(np.arange(4096 * size), size)
        reports = np.stack([seed, number], axis=1).astype(np.uint32)
        values = [np.eye(dim)[0], -np.eye(dim)[0], np.zeros(dim)]
        rows = np.array([np.exp(spec.log_density(reports, x)) for x in values]) / 4096
        return shuffle_bracket(rows, N, DELTA)

    spec, quieter = (
        CandidateResponse(dim, e, num_candidates=size, num_high=near)
        for e in (epsilon, epsilon / 2)
    )
    found, listed = spec.shuffle_bracket(N, DELTA), seen(spec)
    assert found.lower == pytest.approx(listed.lower, rel=5e-3)
    assert found.upper == pytest.approx(listed.upper, rel=1e-4)
    assert seen(quieter).upper < found.lower


def test_many_values_have_opposite_pairs():
    """More values than all pairs of which could be shuffled."""
    spec = DiscreteLaplace(0, 99, 4.0)
    found = spec.shuffle_bracket(20_000, DELTA)
    generic = shuffle_epsilon(spec.exact_epsilon(), 20_000, DELTA)
    assert 0 < found.lower < found.upper < 0.56 * generic
    delta = spec.shuffle_delta(20_000, found.upper)
    assert 0.99 * DELTA < delta <= DELTA
    assert spec.shuffle_delta(20_000, spec.exact_epsilon()) == 0


def all_levels(spec):
    """The channel of all levels of a number."""
    size = spec.num_levels
    return np.array(spec.channel(inputs=np.arange(-size, size + 1) / size), float)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_laplace_by_enumeration(epsilon, n):
    """In rational arithmetic, over all data sets of levels and of what lies between them."""
    spec = Laplace(epsilon, steps=2)
    rows = spec.channel(inputs=[-1.0, -0.5, 0.0, 0.3, 1.0])
    # The control: reports of twice the epsilon are less private than that.
    looser = Laplace(2 * epsilon, steps=2).channel(inputs=[-1.0, 0.0, 1.0])
    assert rows is not None
    assert looser is not None
    for delta in (0.02, 0.2):
        found = spec.shuffle_bracket(n, delta)
        assert exact_delta(rows, n, found.upper) <= delta
        assert found.lower == 0 or exact_delta(rows, n, found.lower) > delta
        assert exact_delta(looser, n, found.upper) > delta


@pytest.mark.parametrize("epsilon", [0.3, 2.0, 5.0])
@pytest.mark.parametrize("n", [30, 10_000])
def test_ends_of_laplace_hide_least(epsilon, n):
    """The bracket of all pairs of levels is that of the ends."""
    spec = Laplace(epsilon, steps=6)
    known, listed = spec.shuffle_bracket(n, DELTA), shuffle_bracket(all_levels(spec), n, DELTA)
    assert known.upper == pytest.approx(listed.upper, rel=1e-4)
    assert known.lower == pytest.approx(listed.lower, rel=1e-3)
    assert known.index_ratio == pytest.approx(listed.index_ratio, rel=1e-6)
    assert spec.shuffle_delta(n, known.upper) <= DELTA < spec.shuffle_delta(n, 0.99 * known.lower)
    assert spec.shuffle_delta(n, spec.exact_epsilon()) == 0


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_vectors_along_an_axis_hide_least(epsilon):
    """All pairs of vectors of two entries, whose blanket is larger than the one that is taken."""
    spec, alone = Laplace(epsilon, dim=2, steps=2), Laplace(epsilon, steps=2)
    one, norms = all_levels(alone), [2, 1, 0, 1, 2]
    pairs = itertools.product(range(5), repeat=2)
    inside = [(i, j) for i, j in pairs if norms[i] + norms[j] <= 2]
    assert len(inside) == 13
    rows = np.array([np.multiply.outer(one[i], one[j]).ravel() for i, j in inside])
    known, listed = spec.shuffle_bracket(N, DELTA), shuffle_bracket(rows, N, DELTA)
    assert listed.upper <= known.upper * (1 + 1e-4)
    assert known.lower <= listed.lower * (1 + 1e-4)
    assert known.upper == pytest.approx(alone.shuffle_bracket(N, DELTA).upper, rel=1e-4)


def test_noise_that_is_off_counts_as_proof():
    """What a mass lacks of the ideal noise is exposed."""
    masses = Laplace(1.0, steps=4)._masses()
    inside, beyond = (np.array(part) / 2**64 for part in (masses.half[:-1], masses.tails()))
    exact, _ = laplace_pair_laws(1 / 8, inside, beyond, 1)
    assert exact.first[-2] < 1e-13
    inside[3] *= 0.999
    for dim in (1, 7):
        off, _ = laplace_pair_laws(1 / 8, inside, beyond, dim)
        assert off.first[-2] == pytest.approx(1 - 0.999**dim, rel=1e-6)
        assert (off.second[-2], off.least[-2]) == (0.0, 0.0)
        assert pair_shuffle_delta([off], N, 0.9) >= off.first[-2]


def test_laplace_of_many_levels_and_entries_is_quick():
    """The bound for all reports is a third to four fifths larger."""
    for spec, gain in ((Laplace(1.0), 0.72), (Laplace(4.0), 0.56), (Laplace(4.0, dim=2**10), 0.56)):
        found = spec.shuffle_bracket(20_000, DELTA)
        assert found.upper < gain * shuffle_epsilon(spec.exact_epsilon(), 20_000, DELTA)
        assert found.lower < found.upper <= 1.01 * found.index_ratio * found.lower


def test_gaussian_noise_on_a_grid_hides_numbers():
    """The channel of some numbers, whose reports are listed; the control has more noise."""
    spec = Gaussian(1, 1.0, DELTA, steps=64)
    reach = spec.build().largest_report
    reports = np.arange(-reach, reach + 1)[:, None]

    def channel(values):
        rows = [np.exp(spec.log_density(reports, [x])) for x in values]
        return np.array(rows) / np.sum(rows, axis=1, keepdims=True)

    listed = shuffle_bracket(channel([-1.0, -0.9, 0.0, 1.0]), N, DELTA)
    found = spec.shuffle_bracket(N, DELTA)
    assert 0 < found.lower <= listed.lower * (1 + 1e-3)
    assert listed.upper <= found.upper < 2 * listed.lower
    assert 0.99 * DELTA < spec.shuffle_delta(N, found.upper) <= DELTA
    close = Gaussian(1, 1.0, DELTA, diameter=1.0, steps=64)
    # Half the noise; but what is known of the set of vectors is a larger ball around it.
    assert close.shuffle_bracket(N, DELTA).lower == pytest.approx(found.lower, rel=0.05)
    assert close.shuffle_bracket(N, DELTA).upper > 1.2 * found.upper
    noisy = Gaussian(1, 0.5, DELTA, steps=2**12)
    assert noisy.shuffle_bracket(N, DELTA).upper < listed.lower


def test_ends_of_gaussian_noise_are_on_the_grid():
    """The vectors that attain the lower end are not rounded at random."""
    spec = Gaussian(3, 1.0, DELTA)
    step = spec.radius / (spec.radius / spec.sigma * spec.num_steps)
    end = math.floor(spec.radius / step) * step
    parts = spec._parts(np.array([[end, 0.0, 0.0], [-end, 0.0, 0.0]], np.float32))
    assert np.all(parts % FRACTION == 0)
    assert parts[0, 0] == -parts[1, 0] > 0


def test_finer_grids_of_gaussian_noise_prove_more():
    coarse, fine = (
        Gaussian(64, 1.0, DELTA, steps=steps).shuffle_bracket(20_000, DELTA)
        for steps in (2**8, 2**12)
    )
    assert fine.upper < 0.0105 < 0.85 * coarse.upper < 0.012
    alone = Gaussian(64, 1.0, DELTA)
    assert alone.shuffle_bracket(1, DELTA).upper == 1.0  # that of one report
    assert alone.shuffle_bracket(1, 1e-15).upper == math.inf
    many = alone.shuffle_bracket(10**10, 1e-9)  # whose tables are off by more than delta
    assert (many.lower, many.upper) == (0.0, math.inf)
    assert alone.shuffle_delta(10**10, 1.0) == alone.composed_delta(1, 1.0)
    wide = Gaussian(2**14, 4.0, DELTA, steps=2**15)
    assert wide.shuffle_bracket(1000, DELTA) == ShuffleBracket(0.0, 4.0, math.inf)


def seen_reports(spec, values):
    """The channel of some vectors, of reports on a coarse grid and of those that are dropped."""
    step = 2**6 if spec.dim > 1 else 2**4
    axis = np.arange(-5 * 2**10, 5 * 2**10 + 1, step)
    points = np.stack(np.meshgrid(*[axis] * spec.dim), axis=-1).reshape(-1, spec.dim)
    normal = np.exp(-np.sum((points / 2**10) ** 2, axis=1) / 2)
    kept = np.append(points, np.ones((len(points), 1), np.int64), axis=1)
    rows = [normal / normal.sum() * np.exp(spec.log_density(kept, x)) for x in values]
    return np.array([np.append(row, 1 - row.sum()) for row in rows])


@pytest.mark.parametrize(("dim", "noise"), [(1, 1 / 8), (2, 1 / 2)])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_vectors_that_are_kept_or_dropped(dim, noise, epsilon):
    """The channel of some vectors. The control: vectors of half of the epsilon."""
    spec = GaussianRejection(dim, epsilon, noise=noise)
    unit = np.eye(dim)
    values = [unit[0], -unit[0], unit[-1], 0 * unit[0], 0.6 * unit[0] - 0.3 * unit[-1]]
    found = spec.shuffle_bracket(N, DELTA)
    listed = shuffle_bracket(seen_reports(spec, values), N, DELTA)
    assert found.lower == pytest.approx(listed.lower, rel=0.01)
    assert listed.upper <= found.upper * (1 + 1e-3)
    assert found.upper < 1.6 * listed.lower
    quieter = GaussianRejection(dim, epsilon / 2, noise=noise)
    assert quieter.shuffle_bracket(N, DELTA).upper < listed.lower
    assert 0.99 * DELTA < spec.shuffle_delta(N, found.upper) <= DELTA


@pytest.mark.parametrize("noise", [1 / 16, 1 / 8, 1.0, 30.0])
def test_vectors_that_are_not_opposite_hide_more(noise):
    """Of some correlations of what is seen along both; more than opposite ones do not tell."""
    spec = GaussianRejection(4, 2.0, noise=noise)
    proven, attained = spec.pair_laws()
    level, slope, least, most = spec._clip()
    axis = np.linspace(-6, 6, 241)
    weights = np.exp(-(axis**2) / 2)
    joint = np.multiply.outer(weights, weights) / weights.sum() ** 2
    keep = np.clip(np.exp(level + slope * axis), least, most)
    kept = float(keep @ weights / weights.sum())
    for epsilon in (0.0, 0.01):
        most_told = pair_shuffle_delta([proven], 100, epsilon)
        assert pair_shuffle_delta([attained], 100, epsilon) <= most_told
        told = []
        for correlation in (-1.0, -0.7, 0.0, 0.9):
            across = math.sqrt(1 - correlation**2)
            along = correlation * axis[:, None] + across * axis
            laws = [
                np.append((joint * law).ravel(), 1 - kept)
                for law in (
                    np.broadcast_to(keep[:, None], joint.shape),
                    np.clip(np.exp(level + slope * along), least, most),
                    np.full(joint.shape, least),
                )
            ]
            laws[1][-1] += 1 - laws[1].sum()
            common = np.minimum(laws[2], laws[1])
            pair = PairLaw(laws[0], laws[1], common, np.stack(laws[:2]))
            told.append(pair_shuffle_delta([pair], 100, epsilon))
        assert told[0] == pytest.approx(most_told, rel=0.02)
        assert all(np.diff(told) < 0)
        assert told[-1] < 0.7 * most_told


def test_what_is_kept_of_vectors_is_quick():
    for epsilon in (0.01, 1.0, 12.0):
        spec = GaussianRejection(64, epsilon)
        found = spec.shuffle_bracket(20_000, DELTA)
        assert 0 < found.lower <= found.upper
        assert found.upper < shuffle_epsilon(spec.exact_epsilon(), 20_000, DELTA)
    assert GaussianRejection(3, 15.0).pair_laws() is None
    assert GaussianRejection(3, 1.0, variant="as_printed", num_users=100).pair_laws() is None


def test_projected_vectors_hide_as_their_projections():
    spec, inner = ProjUnit(64, 4.0, num_projected=4), PrivUnit(3, 4.0)
    assert spec.shuffle_bracket(N, DELTA) == inner.shuffle_bracket(N, DELTA)
    assert spec.shuffle_bracket(N, DELTA).upper < 0.75 * shuffle_epsilon(4.0, N, DELTA)


@pytest.mark.parametrize(
    ("args", "excess"),
    [
        ((8, 2.0, 8, 1, 2), 1e-3),
        ((5, 4.0, 8, 1, 1), 1e-3),
        # Few filters, whose bits are not all 1 next to never: a larger blanket than is taken.
        ((5, 1.0, 8, 2, 1), 0.05),
        ((2, 2.0, 4, 1, 2), 0.02),
        ((3, 2.0, 6, 2, 2), 0.5),
    ],
    ids=str,
)
def test_filters_by_enumeration(args, excess):
    """Permanent bits, which are sent as they are. Control: those of twice the epsilon."""
    spec = Rappor(*args, p=0.0, q=1.0)
    known, listed = spec.shuffle_bracket(N, DELTA), shuffle_bracket(spec.channel(), N, DELTA)
    assert known.lower == pytest.approx(listed.lower, rel=2e-3)
    assert listed.upper * (1 - 1e-4) <= known.upper <= (1 + excess) * listed.upper
    # Noisy ones tell less, in any number of rounds, of which the bracket is.
    values, epsilon, bits, hashes, cohorts = args
    rounds = 2 if bits == 4 else 1
    noisy = Rappor(*args, num_rounds=rounds, p=0.25, q=0.75)
    assert noisy.shuffle_bracket(N, DELTA) == known
    assert shuffle_bracket(noisy.channel(), N, DELTA).upper < known.lower
    looser = Rappor(values, 2 * epsilon, bits, hashes, cohorts, p=0.0, q=1.0)
    assert shuffle_bracket(looser.channel(), N, DELTA).lower > known.upper


@pytest.mark.parametrize("n", [1, 10, 1000])
def test_filters_that_share_bits_hide_more(n):
    """Values of one, two, and three bits; in half of the cohorts, and in all."""
    bits = np.arange(9).reshape(1, 3, 3)
    for h in (1, 2, 3):
        apart = np.repeat(bits[..., :h], 2, axis=0)
        worst, same = filter_pair_laws(apart, 0.3)
        for epsilon in (0.0, 0.01, 0.1):
            most = pair_shuffle_delta([worst], n, epsilon)
            assert pair_shuffle_delta([same], n, epsilon) == pytest.approx(most, rel=1e-3)
            for cohorts, shared in itertools.product((1, 2), range(1, h + 1)):
                together = apart.copy()
                together[:cohorts, 1:, :shared] = apart[:cohorts, :1, :shared]
                (_, law) = filter_pair_laws(together, 0.3)
                found = pair_shuffle_delta([law], n, epsilon)
                assert found <= most * (1 + 1e-3) + 1e-15
                assert found < 0.97 * most or most < 1e-12


def test_many_hashed_bits_of_many_values_are_quick():
    for args in ((64, 2.0, 64, 2, 8), (2**11, 4.0, 2**10, 8, 16), (20, 11.0, 64, 4, 64)):
        spec = Rappor(*args)
        found = spec.shuffle_bracket(10**6, DELTA)
        assert 0 < found.lower < found.upper
        assert found.upper < 0.6 * shuffle_epsilon(spec.exact_epsilon(), 10**6, DELTA)
        delta = spec.shuffle_delta(10**6, found.upper)
        assert 0.99 * DELTA < delta <= DELTA
    loud = Rappor(20, 16.0, num_bits=64, num_hashes=4)
    assert loud.pair_laws() is None
    assert loud.shuffle_bracket(N, DELTA).lower == 0


def test_repeated_reports_are_as_private_as_what_they_are_made_of():
    """Any number of collections, not one."""
    permanent = KRR(4, 2.0)
    memoised = Memoised(permanent, KRR(4, 1.0))
    assert memoised.shuffle_bracket(N, DELTA) == permanent.shuffle_bracket(N, DELTA)
    assert memoised.shuffle_delta(N, 0.1) == permanent.shuffle_delta(N, 0.1)


def test_large_domains_are_quick():
    """Nothing is listed: a million values, and sets that are too many."""
    for spec in (
        HadamardBit(2**20, 1.0),
        SubsetSelection(2**12, 2.0),
        UnaryEncoding(2**20, 1.0),
        HadamardResponse(2**20, 2.0),
        LocalHashing(2**20, 2.0),
        ProjectiveGeometryResponse(2**20, 2.0),
        AffineHashing(2**20, 2.0),
        AffineSubsets(2**20, 2.0),
    ):
        found = spec.shuffle_bracket(10**5, 1e-6)
        assert found.upper < shuffle_epsilon(spec.exact_epsilon(), 10**5, 1e-6)
        assert found.upper <= 1.03 * found.index_ratio * found.lower
