"""A protocol in two rounds, of which the second depends on the first."""

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp.engine import Interactive, Round, Step, params
from jaxdp.random import Count
from jaxdp.randomizers import KRR
from tests import stats
from tests.engine.probes import TwoRounds, mesh_of

COUNTS = np.array([100, 3000, 700, 200])


@pytest.fixture(scope="module")
def protocol() -> TwoRounds:
    return TwoRounds(KRR(4, 2.0).build(), KRR(4, 2.0).build())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["array", "distribution"])
def test_bits_do_not_depend_on_devices(kind, protocol, key):
    n = int(COUNTS.sum())
    population = {
        "array": lambda: jaxdp.Population.from_values(np.repeat(np.arange(4), COUNTS), 4),
        "distribution": lambda: jaxdp.Population.from_distribution(COUNTS / n, n),
    }[kind]()
    winner, confirmed = jaxdp.run(protocol, population, key, method="per_user")
    assert winner == 1
    assert 1000 < confirmed < 2000
    for devices in (1, 4):
        found = jaxdp.run(protocol, population, key, method="per_user", mesh=mesh_of(devices))
        np.testing.assert_array_equal(found, [winner, confirmed])


@pytest.mark.slow
def test_both_paths_have_one_law(protocol, key):
    """Half of the users of bin 1, plus noise of known variance, in the second round."""
    population = jaxdp.Population.from_histogram(COUNTS)
    p, q = map(float, KRR(4, 2.0).probabilities())
    n, own = COUNTS.sum(), COUNTS[1]

    def per_user(chance):  # a user in the group adds (1 - q)/(p - q) or -q/(p - q), others nothing
        mean = chance - q
        second = chance * (1 - q) ** 2 + (1 - chance) * q**2
        return 0.5 * second - (0.5 * mean) ** 2

    variance = (own * per_user(p) + (n - own) * per_user(q)) / (p - q) ** 2
    for number, method in enumerate(("per_user", "tally")):
        trials = jaxdp.simulate(
            protocol,
            population,
            jax.random.fold_in(key, number),
            num_trials=400,
            method=method,
        )
        np.testing.assert_array_equal(trials.estimates[:, 0], 1)
        confirmed = trials.estimates[:, 1]
        stats.check_mean(confirmed, own / 2, variance=variance, cells=4)
        stats.check_variance(confirmed, variance, mean=own / 2, kurtosis=3.1, cells=4)
        stats.must_fail(
            stats.check_mean, confirmed + 0.75 * variance**0.5, own / 2, variance=variance, cells=4
        )


@pytest.mark.parametrize("method", ["per_user", pytest.param("tally", marks=pytest.mark.slow)])
def test_inside_jit_and_vmap(method, protocol, key):
    population = jaxdp.Population.from_histogram(COUNTS)
    keys = jax.random.split(key, 3)
    eager = [jaxdp.run(protocol, population, k, method=method) for k in keys]
    inside = jax.jit(
        jax.vmap(lambda p, pop, k: jaxdp.run(p, pop, k, method=method), in_axes=(None, None, 0))
    )(protocol, population, keys)
    np.testing.assert_allclose(inside, np.stack(eager), rtol=1e-6)


def test_rounds_have_words_of_their_own(protocol, key):
    """The same users asked the same question in two rounds answer with fresh randomness."""
    krr = protocol.first
    population = jaxdp.Population.from_histogram(COUNTS)
    words = [
        jaxdp.random.user_words(jaxdp.random.stream(key, jaxdp.random.Stream.ROUND + r), 0, 8)[:]
        for r in (0, 1)
    ]
    assert not np.any(np.asarray(words[0]) == np.asarray(words[1]))
    both = TwiceAsked(krr)
    first, second = jaxdp.run(both, population, key, method="per_user")
    assert np.any(first != second)
    alone = jaxdp.run(krr, population, key, method="per_user")
    np.testing.assert_array_equal(first, alone)


@params
class TwiceAsked(Interactive[jax.Array]):
    """All users report in round 0 and again in round 1."""

    krr: Round[Count]

    def rounds(self, work):
        return (Step(self.krr, work, times=2),)

    def estimate(self, outcome, /):
        return outcome

    def play(self, key, population, collect):
        del key
        return jax.numpy.stack(
            [self.krr.estimate(collect(self.krr, population, r)) for r in (0, 1)]
        )


@params
class Confirmed(Interactive[np.ndarray]):
    """A `TwoRounds` whose analyst is Python: it reads the votes, and asks about the winner."""

    krr: Round[Count]

    @property
    def traceable(self) -> bool:
        return False

    def rounds(self, work):
        return (Step(self.krr, work),)

    def estimate(self, outcome, /):
        return outcome

    def play(self, key, population, collect):
        left, right = population.split(key, [0.5, 0.5])
        votes = collect(self.krr, left, 0)
        assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(votes))
        winner = int(np.argmax(votes.numpy()))
        assert jax.numpy.ones(1).dtype == np.float32  # Python runs in the caller's precision
        confirmed = collect(self.krr, right, 1).numpy()
        return np.array([winner, confirmed[winner]])


def test_python_between_rounds(protocol, key, count_compilations, capsys):
    pytest.importorskip("rich")
    population = jaxdp.Population.from_values(np.repeat(np.arange(4), COUNTS), 4)
    host = Confirmed(protocol.first)
    found = jaxdp.run(host, population, key, method="per_user")
    winner, confirmed = jaxdp.run(protocol, population, key, method="per_user")
    assert winner == found[0] == 1
    krr = protocol.first  # whose estimate of the second round is that of the compiled protocol
    p, q = (float(x) for x in KRR(4, 2.0).probabilities())
    users = jaxdp.run(SecondRound(krr), population, key, method="per_user").sum()
    assert (found[1] - users * q) / (p - q) == pytest.approx(confirmed, rel=1e-6)

    with count_compilations() as seen:
        trials = jaxdp.simulate(
            host, population, key, num_trials=3, method="per_user", progress=True
        )
    assert "_collect" not in seen.compiled
    assert "3/3" in capsys.readouterr().out
    for t in range(3):
        alone = jaxdp.run(host, population, jax.random.fold_in(key, t), method="per_user")
        np.testing.assert_array_equal(trials.estimates[t], alone)
    assert trials.truth is None
    over_devices = jaxdp.run(host, population, key, method="per_user", mesh=mesh_of(4))
    np.testing.assert_array_equal(over_devices, found)
    with pytest.raises(TypeError, match="Confirmed calls Python between its rounds"):
        jax.vmap(lambda k: jaxdp.run(host, population, k))(jax.random.split(key, 2))


@params
class SecondRound(Confirmed):
    """The whole tally of the second round."""

    def play(self, key, population, collect):
        return collect(self.krr, population.split(key, [0.5, 0.5])[1], 1).numpy()
