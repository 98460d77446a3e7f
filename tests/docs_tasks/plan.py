"""20,000 people name one of 30 stops, whose shares are wanted to 0.01. Which ε does it take?"""

import numpy as np

from jaxdp.design import Histogram, plan
from jaxdp.reports import Aggregate, Client, Collection

found = plan(Histogram(30), users=20_000, error=0.01)
option = found.best
assert 0.5 < option.epsilon < 3
assert option.error.kind == "exact"
assert found.least_error <= 0.01

simulated = found.simulate(1000)
assert abs(simulated / 0.01 - 1) < 0.02 + 5 * simulated.stderr / 0.01

collection = Collection(option.protocol.oracle, purpose="stops")
people = np.random.default_rng(0).integers(30, size=option.num_users)
aggregate = Aggregate(collection)
aggregate.add(Client(collection.to_json()).reports(people))
answer = aggregate.estimate()
truth = np.bincount(people, minlength=30)
assert np.all(np.abs(answer.values - truth) < 7 * answer.standard_errors)
