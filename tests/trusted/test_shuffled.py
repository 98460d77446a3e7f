"""Shuffle-model protocols: accounting against direct computations, and errors."""

import functools
import itertools
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

import jaxdp
from jaxdp.accounting import (
    PrivacyLoss,
    ShuffleBracket,
    gaussian_delta,
    pair_shuffle_bracket,
    sampled_pairs,
    shuffle_bracket,
    shuffle_epsilon,
)
from jaxdp.engine import Sent, Spec, Step, checks, field, spec
from jaxdp.linear import AdaptiveQueries, HeavyHitters, HistogramQuery, OracleQueries, Projected
from jaxdp.pairwise import (
    BilinearAUC,
    GiniDiversity,
    GiniMeanDifference,
    Grid,
    HierarchicalAUC,
    KendallTau,
    OneReport,
    OneStep,
    OnGrid,
    OracleStatistic,
    PairKernel,
    ProductGrid,
    QuantizedRR,
    QueriesFromPairs,
    ThreeRound,
    TwoReport,
    TwoRound,
)
from jaxdp.pairwise._joint_laws import joint_law
from jaxdp.random import Count
from jaxdp.randomizers import KRR, BinaryResponse, HadamardBit, SubsetSelection
from jaxdp.randomizers._pair_laws import cap_pair_law
from jaxdp.trusted import (
    AllPairs,
    PairSampling,
    Shuffled,
    ShuffledSum,
    _shuffled_sum,
    local_epsilon,
)
from jaxdp.workloads import prefix
from tests import stats
from tests.accounting.test_shuffle_bracket import exact_delta, histograms


@spec
class Again(Spec):
    """A protocol of two rounds in the second of which half of the users answer again."""

    says: str = field(checks.Choice("none", "some"))

    def exact_epsilon(self):
        return 2.0

    @property
    def sent(self):
        return (Sent(KRR(3, 1.0)), Sent(KRR(3, 1.0), 0.5)) if self.says == "some" else ()

    def build(self, word_bits=32):
        return self

    def rounds(self, work):
        return Step(self, work), Step(self, work.of(0.5))


COUNTS = np.array([400, 0, 100, 300, 200])
make = functools.partial(QuantizedRR, GiniDiversity(), num_values=5)


@pytest.mark.slow
def test_local_epsilon_is_the_inverse():
    for epsilon, n in ((0.1, 10**5), (1.0, 10**4)):
        found = local_epsilon(epsilon, n, 1e-6)
        assert shuffle_epsilon(found, n, 1e-6) <= epsilon
        assert shuffle_epsilon(found * 1.001, n, 1e-6) > epsilon
    assert local_epsilon(0.5, 1, 1e-9) == pytest.approx(0.5, rel=1e-3)


def test_calibration_uses_the_channel_of_the_reports():
    """Twice as good as what is enough for all reports, and the bracket is closed."""
    shuffled = Shuffled.calibrated(make, 0.5, num_users=20_000, delta=1e-6)
    generic = local_epsilon(0.5, 20_000, 1e-6)
    assert generic == pytest.approx(4.35, abs=0.01)
    assert shuffled.protocol.epsilon >= 5.0
    found = shuffled.bracket()
    assert 0.5 >= shuffled.exact_epsilon() == found.upper > 0.995 * 0.5
    assert found.lower > 0.99 * found.upper
    assert make(epsilon=generic).variance(20 * COUNTS) > 1.9 * shuffled.variance(20 * COUNTS)


@pytest.mark.parametrize(
    "maker",
    [
        lambda epsilon: HistogramQuery(SubsetSelection(20, epsilon)),
        lambda epsilon: OracleQueries(prefix(20), HadamardBit(20, epsilon)),
        lambda epsilon: Projected(HistogramQuery(KRR(20, epsilon))),
        lambda epsilon: OracleStatistic(GiniDiversity(), KRR(5, epsilon)),
        lambda epsilon: KRR(5, epsilon),
    ],
)
def test_protocols_ask_their_reporter(maker):
    shuffled = Shuffled.calibrated(maker, 0.5, num_users=20_000, delta=1e-6)
    assert 0.99 * 0.5 < shuffled.exact_epsilon() <= 0.5
    assert shuffled.local_epsilon() > local_epsilon(0.5, 20_000, 1e-6) + 0.5


@pytest.mark.parametrize(
    ("protocol", "error", "remedy"),
    [
        (BilinearAUC(8, 1.0), ValueError, "group_size must be given for public labels"),
        (HierarchicalAUC(8, 1.0), ValueError, "group_size must be given for public labels"),
        (OneStep(GiniDiversity(), 1.0, 3), ValueError, "group_size must be given.* will do"),
        (TwoRound(GiniDiversity(), 1.0, 3), ValueError, "group_size must be given"),
        (AdaptiveQueries(3, 1.0, 4, lambda *_: np.ones(3)), ValueError, "group_size must be given"),
        (
            OnGrid(BilinearAUC(4, 1.0), ProductGrid((Grid.uniform(2), Grid.uniform(4)))),
            ValueError,
            "group_size must be given for public labels",
        ),
        (ThreeRound(GiniDiversity(), 1.0, 3), ValueError, "group_size must be given"),
        (PairSampling(GiniDiversity(), 1.0, 3, num_permutations=4), TypeError, "report in pairs"),
        (AllPairs(GiniDiversity(), 1.0, 20, 3), TypeError, "report in pairs"),
        (Again("none"), TypeError, "must say by `sent`"),
        (Again("some"), TypeError, "in several rounds and others do not"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_reports_that_do_not_hide_among_all_are_refused(protocol, error, remedy):
    with pytest.raises(error, match=remedy):
        Shuffled(protocol, 10**5, 1e-6)


BUDGET = TwoRound(
    GiniDiversity(), 2.0, 2, sharing="budget", queries=lambda w, e: OracleQueries(w, KRR(2, e))
)


def adaptive_delta(n, epsilon):
    """The largest delta of `BUDGET`, whatever is asked in the second round; exact."""
    gap, worst = Fraction(math.exp(epsilon)), Fraction(0)
    rows = BUDGET.protocol.reporter.channel()
    # Numbers are 1 or -1, as each value's number was chosen from what the first round showed.
    answers = BUDGET.scalar_randomizer.channel(inputs=[-1.0, 1.0])
    questions = [(answers[a], answers[b]) for a, b in itertools.product((0, 1), repeat=2)]
    for others in itertools.combinations_with_replacement(range(2), n - 1):
        for x, y in ((0, 1), (1, 0)):
            first = [histograms([rows[v], *(rows[z] for z in others)]) for v in (x, y)]
            later = [
                [histograms([asked[v], *(asked[z] for z in others)]) for v in (x, y)]
                for asked in questions
            ]
            total = Fraction(0)
            for shown, p in first[0].items():
                q = first[1][shown]
                total += max(
                    sum(max(p * p2 - gap * q * two[key], Fraction(0)) for key, p2 in one.items())
                    for one, two in later
                )
            worst = max(worst, total)
    return worst


@pytest.mark.parametrize("n", [2, 4])
def test_rounds_that_depend_on_earlier_ones_by_enumeration(n):
    for delta in (0.01, 0.1):
        found = Shuffled(BUDGET, n, delta).bracket()
        assert found.lower == 0 < found.upper
        assert adaptive_delta(n, found.upper) <= delta
        assert adaptive_delta(n, 0.5 * found.upper) > delta
        # the control: as if each user answered once
        once = max(part.reports.shuffle_bracket(n, delta).upper for part in BUDGET.sent)
        assert adaptive_delta(n, once) > delta


def test_rounds_of_all_users_are_composed():
    """Each round has its shuffler: better than one of reports that travel together."""
    queries = QueriesFromPairs(OracleStatistic(GiniDiversity(), KRR(3, 1.0)))
    found = Shuffled(queries, 1000, 1e-6).exact_epsilon()
    exact = PrivacyLoss(functools.partial(KRR(3, 1.0).shuffle_delta, 1000)).compose(2)
    assert found == pytest.approx(exact.epsilon(1e-6), rel=2e-3)
    assert found < shuffle_epsilon(2.0, 1000, 1e-6)
    paper = ThreeRound(GiniDiversity(), 1.0, 3, form="v", variant="paper")
    parts = {part.reports: part.times for part in paper.sent}
    assert parts == {paper.vector_randomizer: 2, paper.scalar_randomizer: 2}
    assert Shuffled(paper, 1000, 1e-6).exact_epsilon() < shuffle_epsilon(1.0, 1000, 1e-6)
    few = Shuffled(paper, 10, 1e-6)
    assert few.exact_epsilon() <= paper.exact_epsilon()


@pytest.mark.slow
def test_rounds_of_all_users_are_calibrated():
    shuffled = Shuffled.calibrated(
        lambda epsilon: TwoRound(GiniDiversity(), epsilon, 3, sharing="budget"), 0.5, 10_000, 1e-6
    )
    assert 0.99 * 0.5 < shuffled.exact_epsilon() <= 0.5
    assert shuffled.local_epsilon() > 5


def test_rounds_of_groups_are_as_private_as_the_worst():
    """A user of a round of adaptive queries sends one bit, among the users of its round."""
    queries = AdaptiveQueries(3, 1.0, 4, lambda *_: np.ones(3))
    found = Shuffled(queries, 10**5, 1e-6, group_size=24_000)
    spent = 4 * float(binom.cdf(23_999, 10**5, 0.25))
    bit = queries.randomizer.shuffle_bracket(24_000, 1e-6 - spent)
    assert bit.upper <= found.exact_epsilon() <= 1.01 * bit.upper
    assert found.bracket().lower == 0
    heavy = Shuffled(HeavyHitters(64, 2.0), 10**5, 1e-6, group_size=2000)
    assert heavy.exact_epsilon() >= heavy.protocol.reporter.shuffle_bracket(2000, 1e-6).upper


def test_colluding_users_hide_nobody():
    """A tenth of the users work with the adversary: 9,000 are left, wherever the others are."""
    plain = Shuffled(HistogramQuery(KRR(5, 2.0)), 9000, 1e-6)
    fewer = Shuffled(HistogramQuery(KRR(5, 2.0)), 10_000, 1e-6, colluding=0.1)
    assert fewer.bracket() == plain.bracket()
    group = Shuffled(BilinearAUC(4, 1.0), 1000, 1e-6, group_size=300, colluding=0.2)
    alone = group.protocol.vector_randomizer.shuffle_bracket(100, 1e-6)
    assert group.exact_epsilon() == alone.upper < shuffle_epsilon(group.local_epsilon(), 100, 1e-6)
    with pytest.raises(ValueError, match="colluding must leave a user"):
        Shuffled(BilinearAUC(4, 1.0), 1000, 1e-6, group_size=300, colluding=0.3)
    split = Shuffled.calibrated(make, 0.5, num_users=20_000, delta=1e-6, colluding=0.5)
    assert split.exact_epsilon() <= 0.5
    assert split.local_epsilon() < Shuffled.calibrated(make, 0.5, 20_000, 1e-6).local_epsilon()


def test_reports_hide_in_their_class():
    public = Shuffled(BilinearAUC(4, 1.0), 1000, 1e-6, group_size=300)
    alone = public.protocol.vector_randomizer.shuffle_bracket(300, 1e-6)
    assert public.bracket() == ShuffleBracket(0.0, alone.upper, math.inf)
    public.check_population(jaxdp.Population.from_histogram([300, 0, 0, 0, 0, 0, 0, 700]))
    few = jaxdp.Population.from_histogram([299, 0, 0, 0, 0, 0, 0, 701])
    with pytest.raises(ValueError, match="smaller class has 299"):
        public.check_population(few)
    with pytest.raises(ValueError, match="smaller class has 250"):
        public.check_population(
            jaxdp.Population.from_distribution([0.25, 0, 0, 0, 0.75, 0, 0, 0], 1000)
        )
    private = Shuffled(BilinearAUC(4, 1.0, labels="private"), 1000, 1e-6)
    private.check_population(few)


@pytest.mark.parametrize("labels", ["public", "private", "randomized"])
def test_reports_on_a_level_by_enumeration(labels):
    """Of two users, over all scores, labels, levels and coefficients; the control has more bits."""
    spec = HierarchicalAUC(4, 2.0, labels=labels, threshold=0.0)
    bit = float(spec._bit.probabilities()[0])
    rows = []
    for label, score in itertools.product(range(2), range(4)):
        row = []
        for level in range(spec.num_levels):
            node, size = score >> max(1 - level, 0), 2 ** min(level + 1, 2)
            if labels == "private":  # the last level is that of the label alone
                node, size = (label, 2) if level == 2 else (label * size + node, 2 * size)
            for coefficient in range(size):
                sign = (node & coefficient).bit_count() % 2
                bits = np.array([1 - bit, bit] if sign else [bit, 1 - bit])
                row.append(bits / size / spec.num_levels)
        if labels == "randomized":
            truth = float(spec._label.probabilities()[0])
            row = np.multiply.outer([truth, 1 - truth][:: 1 - 2 * label], np.concatenate(row))
        rows.append(np.ravel(row))
    table = np.array(rows)[:4] if labels == "public" else np.array(rows)
    assert np.allclose(table.sum(axis=1), 1)
    for n in (2, 2000):
        for delta in (0.02, 1e-4):
            found = Shuffled(spec, n, delta, group_size=n).bracket()
            listed = shuffle_bracket(table, n, delta)
            assert listed.upper <= found.upper * (1 + 1e-4)
            assert found.upper <= 1.6 * listed.upper
            assert found.lower == 0
    less = HierarchicalAUC(4, 1.2, labels=labels, threshold=0.0)
    assert Shuffled(less, 2000, 1e-4, group_size=2000).exact_epsilon() < listed.upper
    basic = HierarchicalAUC(4, 2.0, split="basic", threshold=0.0)
    generic = shuffle_epsilon(basic.exact_epsilon(), 100, 1e-4)
    assert Shuffled(basic, 100, 1e-4, group_size=100).exact_epsilon() == generic


def blanks(rows, rate):
    """A channel whose users stay away with probability 1 - rate."""
    return [[*(rate * p for p in row), 1 - rate] for row in rows]


@pytest.mark.parametrize("n", [2, 3])
def test_users_who_may_stay_away_by_enumeration(n):
    """Whose reports have pairs, and whose have a proven delta alone; the control is all users."""
    rate = Fraction(1, 4)
    for randomizer in (KRR(3, 1.5), BinaryResponse(1.5)):
        rows = blanks(randomizer.channel(), rate)
        for delta in (0.02, 0.15):
            found = Shuffled(randomizer, n, delta, participation=0.25).bracket()
            assert exact_delta(rows, n, found.upper) <= delta
            assert found.lower == 0
            whole = Shuffled(randomizer, n, delta).exact_epsilon()
            assert found.upper <= whole * (1 + 1e-5)
            if found.upper < 0.99 * whole:
                assert exact_delta(randomizer.channel(), n, found.upper) > delta
    pairs = Shuffled(KRR(3, 1.5), n, 0.02, participation=0.25).exact_epsilon()
    assert pairs < 0.9 * Shuffled(KRR(3, 1.5), n, 0.02).exact_epsilon()


def test_users_who_may_stay_away():
    query = HistogramQuery(KRR(5, 1.0))
    found = Shuffled(query, 10_000, 1e-6, participation=0.1)
    pairs = sampled_pairs(KRR(5, 1.0).pair_laws(), 0.1)
    assert found.exact_epsilon() == pair_shuffle_bracket(pairs, 10_000, 1e-6).upper
    assert found.exact_epsilon() < 0.3 * Shuffled(query, 10_000, 1e-6).exact_epsilon()
    found.check_population(jaxdp.Population.from_histogram([200] * 5))  # who took part
    bits = BinaryResponse(2.0)
    general = Shuffled(bits, 10_000, 1e-6, participation=0.1).exact_epsilon()
    exact = shuffle_bracket(blanks(bits.channel(), Fraction(1, 10)), 10_000, 1e-6)
    assert exact.upper < general < 1.5 * exact.upper
    assert general < Shuffled(bits, 10_000, 1e-6).exact_epsilon()
    all_of_them = Shuffled.calibrated(make, 0.5, 20_000, 1e-6)
    few = Shuffled.calibrated(make, 0.5, 20_000, 1e-6, participation=0.2)
    assert few.exact_epsilon() <= 0.5
    assert few.local_epsilon() > all_of_them.local_epsilon() + 0.5
    with pytest.raises(TypeError, match="participation must be 1"):
        Shuffled(OneStep(GiniDiversity(), 1.0, 3), 10**5, 1e-6, 49_000, participation=0.5)
    with pytest.raises(TypeError, match="participation must be 1"):
        Shuffled(BilinearAUC(4, 1.0), 1000, 1e-6, group_size=300, participation=0.5)
    with pytest.raises(ValueError, match="participation must be above 0"):
        Shuffled(query, 1000, 1e-6, participation=0.0)


def test_two_vectors_of_a_user_travel_together():
    """Among pairs of six directions; the control is as if they were one report."""
    outside = 1 / 16
    for size in (2, 3):
        inside = (1 - (6 - size) * outside) / size
        rows = [[inside if (y - x) % 6 < size else outside for y in range(6)] for x in range(6)]
        pairs = [(0, 0), (3, 3), (0, 3), (1, 2), (2, 5), (1, 1)]
        table = np.array([np.multiply.outer(rows[x], rows[y]).ravel() for x, y in pairs])
        law = cap_pair_law(6 * inside, 6 * outside, size / 6)
        both = joint_law(law, law)
        for n in (3, 2000):
            listed = shuffle_bracket(table, n, 0.01)
            assert listed.upper <= pair_shuffle_bracket([both], n, 0.01).upper * (1 + 1e-4)
            assert listed.upper > 1.2 * pair_shuffle_bracket([law], n, 0.01).upper
    two = TwoReport(GiniDiversity(), 4.0, 3)
    found = Shuffled(two, 20_000, 1e-6).bracket()
    assert found.lower == 0
    assert found.upper < 0.6 * shuffle_epsilon(two.exact_epsilon(), 20_000, 1e-6)
    listed = TwoReport(GiniDiversity(), 1.0, 3, randomizer=jaxdp.randomizers.CandidateResponse)
    generic = shuffle_epsilon(listed.exact_epsilon(), 20_000, 1e-6)
    assert Shuffled(listed, 20_000, 1e-6).exact_epsilon() == generic


def test_gaussian_noise_is_shuffled():
    """In one report of each user; calibrated within a thousandth."""
    make = functools.partial(jaxdp.randomizers.Gaussian, delta=1e-6, steps=2**12)
    shuffled = Shuffled.calibrated(lambda epsilon: make(16, epsilon), 0.1, 20_000, 1e-6)
    assert 0.99 * 0.1 < shuffled.exact_epsilon() <= 0.1
    assert shuffled.local_epsilon() > 4
    pairs = OneReport(GiniDiversity(), 1.0, 4, randomizer=make)
    inside = pairs.reporter.shuffle_bracket(20_000, 1e-6)
    assert Shuffled(pairs, 20_000, 1e-6).exact_epsilon() == inside.upper < 0.01
    with pytest.raises(ValueError, match="delta must be larger, or num_users"):
        Shuffled.calibrated(lambda epsilon: make(16, epsilon), 0.1, 2, 1e-9)


def test_reports_hide_in_their_random_group():
    steps = OneStep(GiniDiversity(), 1.0, 3)
    with pytest.raises(ValueError, match="got 49999; 49") as refusal:
        Shuffled(steps, 10**5, 1e-6, group_size=49_999)
    size = int(str(refusal.value).split()[-3])
    split = Shuffled(steps, 10**5, 1e-6, group_size=size)
    chance = 2 * float(binom.cdf(size - 1, 10**5, 0.5))

    def worst(size, delta):
        parts = steps.vector_randomizer, steps.scalar_randomizer
        return max(part.shuffle_bracket(size, delta).upper for part in parts)

    alone = worst(size, 1e-6 - chance)
    assert alone <= split.exact_epsilon() <= 1.1 * alone  # Chernoff spends half of delta
    assert split.exact_epsilon() > 1.3 * worst(10**5, 1e-6)


@pytest.mark.slow
def test_shuffled_reports_are_the_protocol_with_more_privacy():
    shuffled = Shuffled.calibrated(make, 0.5, num_users=10**4, delta=1e-6)
    local = shuffled.protocol
    assert shuffled.exact_epsilon() <= 0.5 < 2.0 < shuffled.local_epsilon()
    assert float(shuffled.variance(COUNTS)) == float(local.variance(COUNTS))
    assert shuffled.worst_case_variance(10**4) == local.worst_case_variance(10**4)
    split = Shuffled(local, 10**4, 1e-6, group_size=10**3)
    assert split.exact_epsilon() > 2 * shuffled.exact_epsilon()  # fewer to hide among
    users = jaxdp.Population.from_histogram(20 * COUNTS)
    key = jax.random.key(0)
    assert float(jaxdp.run(shuffled, users, key)) == float(jaxdp.run(local, users, key))
    gain = make(epsilon=0.5).variance(20 * COUNTS) / shuffled.variance(20 * COUNTS)
    assert gain > 20


@pytest.mark.parametrize("epsilon", [1e-4, 1e-2, 1.0])
def test_shuffled_sum_keeps_its_promise(epsilon):
    spec = ShuffledSum(GiniDiversity(), epsilon, 1e-9, num_users=10**6, num_values=2)
    assert 0 < spec.exact_delta() <= 1e-9


def test_sums_of_large_messages_fit():
    """Each message of 2**20 users of a block may be as large as 2**27."""
    spec = ShuffledSum(GiniDiversity(), 1.0, 1e-6, num_users=1000, num_values=2)
    params = spec.build()
    messages = np.array([-(2**27), 2**27 - 1, -4096, -1, 77], np.int32).repeat(2**18)[:, None]
    total = params.tally(messages)["sum"]
    assert total.numpy().tolist() == [messages.astype(np.int64).sum()]


def excess(share):
    """By how much the sum of four rounded normals is less private than one normal, at most."""
    law = np.diff(ndtr((np.arange(-60, 61) - 0.5) / share))
    total = law
    for _ in range(3):
        total = np.convolve(total, law)
    found = []
    for shift in (1, 2, 3, 5, 8):
        pair = np.pad(total, (shift, 0)), np.pad(total, (0, shift))
        delta = math.fsum(np.maximum(pair[1] - math.exp(0.5) * pair[0], 0.0))
        found.append(delta - gaussian_delta(0.5, shift, 2 * share))
    return max(found)


@pytest.mark.parametrize("share", [1.0, 1.5, 4.0])
def test_the_sum_of_rounded_normals_is_as_private_as_one(share):
    assert excess(share) <= 1e-14


def test_the_sum_of_coarse_normals_is_not():
    """The control: with a normal of a fifth of a step, which rounds to almost nothing."""
    assert excess(0.2) > 0.01


@pytest.mark.parametrize("kernel", [GiniDiversity(), GiniMeanDifference()])
def test_rounding_adds_little_to_the_noise(kernel, monkeypatch):
    """Next to nothing to the mean squared error of 10**6 users; control: a grid of 2**-12."""
    counts = 1000 * COUNTS

    def excess():
        _shuffled_sum._plan.cache_clear()
        spec = ShuffledSum(kernel, 1.0, 1e-6, 10**6, num_values=5)
        noise = spec._noise_variance(counts / counts.sum(), 10**6) * spec._factor(10**6) ** 2
        return float(spec.variance(counts)) / noise - 1

    assert excess() <= 0.01
    monkeypatch.setattr(_shuffled_sum, "_FINE", 1e-9)
    assert excess() > 0.1
    _shuffled_sum._plan.cache_clear()


def test_rounding_to_a_coarse_grid_is_predicted(monkeypatch):
    """With a million users, little noise and steps of 2**-12, the error is the bias of the grid."""
    monkeypatch.setattr(_shuffled_sum, "_FINE", 1e-9)
    counts = 1000 * COUNTS
    squares = PairKernel.from_matrix(np.subtract.outer(np.arange(5), np.arange(5)) ** 2)
    spec = ShuffledSum(squares, 20.0, 1e-6, 10**6, form="v")
    users = jaxdp.Population.from_histogram(counts)
    trials = jaxdp.simulate(spec, users, jax.random.key(4), num_trials=200, method="tally")
    predicted, spread = float(spec.variance(counts)), float(np.var(trials.estimates))
    assert spread < predicted / 50
    # Var[(b + z)**2] = 4 b**2 s**2 + 2 s**4 of normal noise z.
    close = {"variance": 1.2 * (4 * predicted * spread + 2 * spread**2)}
    stats.check_mean(trials.errors**2, predicted, **close)
    stats.must_fail(stats.check_mean, trials.errors**2, 1.1 * predicted, **close)


def test_noise_is_that_of_the_sum():
    spec = ShuffledSum(GiniMeanDifference(), 0.5, 1e-6, num_users=1000, num_values=5)
    variance = float(spec.build().variance)  # of a user, in units
    assert spec.noise == pytest.approx(math.sqrt(1000 * variance), rel=1e-12)


@functools.lru_cache(maxsize=4)
def simulated(method):
    spec = ShuffledSum(GiniMeanDifference(), 0.5, 1e-6, num_users=1000, num_values=5)
    users = jaxdp.Population.from_histogram(COUNTS)
    trials = jaxdp.simulate(spec, users, jax.random.key(3), num_trials=2000, method=method)
    return spec, trials


@pytest.mark.slow
def test_shuffled_sum_has_the_predicted_error():
    spec, trials = simulated("tally")
    predicted = spec.variance(COUNTS)
    assert trials.truth is not None
    stats.check_mean(trials.estimates, trials.truth, variance=predicted)
    stats.check_variance(trials.estimates, predicted, kurtosis=6, mean=trials.truth)
    stats.must_fail(
        stats.check_variance, trials.estimates, predicted / 2, kurtosis=6, mean=trials.truth
    )
    assert predicted <= spec.worst_case_variance(1000)
    p = COUNTS / 1000
    population = spec.population_variance(p, 1000)
    assert population >= 2 * predicted  # sampling dominates


@pytest.mark.slow
def test_shuffled_sum_has_one_law_on_both_paths():
    (_, one), (_, two) = simulated("per_user"), simulated("tally")
    stats.check_two_samples(one.estimates, two.estimates)
    stats.must_fail(stats.check_two_samples, one.estimates, two.estimates * 1.2)


UNEVEN = np.array([[30.0, -1.0, 0.5], [-1.0, -20.0, 2.0], [0.5, 2.0, 10.0]])


@pytest.mark.parametrize("method", ["tally", "per_user"])
def test_a_diagonal_that_varies_is_shared_too(method):
    """Without the pairs of a user with itself the mean would be 18 standard errors off."""
    counts = np.array([70, 20, 10])
    loops = np.diagonal(UNEVEN) @ counts
    spec = ShuffledSum(UNEVEN, 4.0, 1e-6, num_users=100)
    assert spec.exact_delta() <= 1e-6
    predicted = spec.variance(counts)
    users = jaxdp.Population.from_histogram(counts)
    trials = jaxdp.simulate(spec, users, jax.random.key(5), num_trials=4000, method=method)
    truth = (counts @ UNEVEN @ counts - loops) / (100 * 99)
    assert trials.truth == pytest.approx(truth)
    stats.check_mean(trials.estimates, truth, variance=predicted)
    ignoring = trials.estimates + loops / (100 * 99)
    stats.must_fail(stats.check_mean, ignoring, truth, variance=predicted)
    stats.check_variance(trials.estimates, predicted, kurtosis=6, mean=truth)
    stats.must_fail(stats.check_variance, trials.estimates, predicted / 1.5, kurtosis=6, mean=truth)
    assert predicted <= spec.worst_case_variance(100)


@pytest.mark.parametrize("num_users", [10**2, 10**4, 10**6])
def test_the_diagonal_costs_next_to_nothing(num_users):
    """The error is within a few parts in sqrt(n) of that of the V-form, which needs none."""
    spec = ShuffledSum(UNEVEN, 4.0, 1e-6, num_users)
    plain = ShuffledSum(UNEVEN, 4.0, 1e-6, num_users, form="v")
    ratio = spec.worst_case_variance(num_users) / plain.worst_case_variance(num_users)
    assert 1 <= ratio <= (1 + 3 / math.sqrt(num_users)) ** 2


@pytest.mark.slow
def test_error_falls_as_one_over_n():
    """Squared errors gain a factor n on local reports."""

    def error(n):
        spec = ShuffledSum(KendallTau(), 1.0, 1e-6, num_users=n, num_values=(2, 3))
        counts = n // 6 * np.ones(6, int) + np.arange(6) % 2
        assert spec.exact_delta() <= 1e-6
        return float(spec.variance(counts))

    small, large = error(600), error(60_000)
    assert small / large == pytest.approx(10**4, rel=0.1)


def test_numbers_of_messages():
    """The published example: 32 bits, 10**4 users, security 40, 12 messages."""
    spec = ShuffledSum(GiniDiversity(), 1.0, 1e-6, num_users=10**4, num_values=5)
    hidden = math.log2(10**4) - math.log2(math.e)
    assert math.ceil(2 + (2 * 40 + 32) / hidden) == 12
    assert spec.num_messages == math.ceil(2 + (2 * spec.security + spec.message_bits) / hidden)
    assert (1 + math.e) * 5 * 2.0**-spec.security <= 1e-6 / 100
    assert 2.0 ** (spec.message_bits - 1) > 10**4 * 2**12
    assert ndtr(-12.0) < 2.0**-100


def test_bad_input():
    with pytest.raises(ValueError, match="num_users"):
        ShuffledSum(GiniDiversity(), 1.0, 1e-6, num_users=18, num_values=5)
    with pytest.raises(ValueError, match="epsilon must be larger"):
        ShuffledSum(GiniDiversity(), 1e-6, 1e-9, num_users=1000, num_values=5).build()
    with pytest.raises(ValueError, match="mean over pairs"):
        ShuffledSum(KendallTau("b"), 1.0, 1e-6, num_users=100, num_values=(2, 2))
    with pytest.raises(ValueError, match="delta"):
        ShuffledSum(GiniDiversity(), 1.0, 0.0, num_users=100, num_values=5)
    with pytest.raises(ValueError, match="group_size"):
        Shuffled(make(epsilon=1.0), 100, 1e-6, group_size=101)
    gaussian = functools.partial(jaxdp.randomizers.Gaussian, delta=1e-6)
    two = TwoReport(GiniDiversity(), 1.0, 3, randomizer=gaussian)
    with pytest.raises(TypeError, match="pure local privacy"):
        Shuffled(two, 100, 1e-6)
    rounds = ThreeRound(GiniDiversity(), 1.0, 3, form="v", variant="paper", randomizer=gaussian)
    with pytest.raises(TypeError, match="several rounds"):
        Shuffled(rounds, 100, 1e-6)
    few, shuffled = (
        jaxdp.Population.from_histogram([9] * 5),
        Shuffled(make(epsilon=1.0), 100, 1e-6),
    )
    with pytest.raises(ValueError, match="fewer than num_users"):
        shuffled.check_population(few)


def test_noise_of_all_users_has_the_variance_of_rounded_ones(monkeypatch):
    """A rounded normal number has 1/12 more; of a million users that is seen beside one draw."""
    params = ShuffledSum(GiniDiversity(), 20.0, 1e-9, num_users=10**6, num_values=2).build()
    monkeypatch.setattr(_shuffled_sum, "standard_normal", lambda words: jnp.ones(1, jnp.float32))
    counts = Count.of(np.array([600_000, 400_000]))
    jax.clear_caches()  # the draw may be compiled with other numbers
    drawn = params.sample_tally(jax.random.key(0), counts)["sum"].numpy()
    jax.clear_caches()
    exact = np.asarray(params.columns, np.float64).T @ counts.numpy()
    variance = 10**6 * (float(params.noise) ** 2 + 1 / 12)
    np.testing.assert_array_equal(drawn - exact, np.rint(np.sqrt(variance - 1 / 12)))
