"""50,000 people answer one of three things. How far off are the counts at ε = 1, and at ε = 2?"""

import collections

import jax
import numpy as np

import jaxdp

survey = collections.Counter(tea=31_000, coffee=19_000)
users = jaxdp.Population.from_histogram(survey, labels=["coffee", "tea", "water"])
assert users.num_users == 50_000

one, two = (jaxdp.randomizers.KRR(num_values=3, epsilon=epsilon) for epsilon in (1.0, 2.0))
assert one.exact_epsilon() <= 1.0
predicted = one.variance([19_000, 31_000, 0]) ** 0.5
assert np.all(two.variance([19_000, 31_000, 0]) ** 0.5 < predicted / 2)

trials = jaxdp.simulate(one, users, jax.random.key(0), num_trials=1000)
assert tuple(trials.labels) == ("coffee", "tea", "water")
assert np.all(np.abs(trials.bias) < 6 * trials.bias_stderr)
assert np.all(np.abs(trials.rmse / predicted - 1) < 0.15)
