"""A client that speaks for many users makes the reports that theirs would."""

import subprocess
import sys

import numpy as np
import pytest

from jaxdp.randomizers import KRR, CandidateResponse, Gaussian, Laplace
from jaxdp.reports import Aggregate, Client, Collection
from tests.stats import check_multinomial, must_fail


def test_reports_of_many_have_the_law_of_one():
    labels = ("a", "b", "c")
    spec = KRR(3, 1.0)
    collection = Collection(spec, labels)
    reports = Client(collection.to_json()).reports(["b"] * 6000)
    assert reports.shape == (6000, 10)
    aggregate = Aggregate(collection)
    assert aggregate.add(reports).accepted == 6000
    law = [float(p) for p in spec.channel()[1]]
    check_multinomial(aggregate.tally.numpy(), law)
    must_fail(check_multinomial, aggregate.tally.numpy(), law[1:] + law[:1])
    assert len(np.unique(reports, axis=0)) == 3  # users differ in their words


def test_numbers_and_vectors_of_many():
    for spec, values in (
        (Laplace(20.0), np.linspace(-1, 1, 50)),
        (Gaussian(2, 20.0, 1e-6), np.eye(2)[[0, 1, 1]]),
        (CandidateResponse(2, 20.0), np.eye(2)[[0, 1, 1]]),
    ):
        collection = Collection(spec)
        aggregate = Aggregate(collection)
        assert aggregate.add(Client(collection.to_json()).reports(values)).accepted == len(values)
        answer = aggregate.estimate()
        assert np.all(np.abs(answer.values - values.mean(axis=0)) < 8 * answer.standard_errors)


@pytest.mark.parametrize(
    ("labels", "values", "message"),
    [
        (("a", "b"), ["a", "x", "y"], "values must be the labels .* got 'x' at 1, and 1 others"),
        (("a", "b"), ["a", None], "got None at 1, and 0 others"),
        (("a", "b"), ["a", float("nan")], "at 1, and 0 others"),
        (None, [0, 2], r"values must be integers in \[0, 2\), got .*2.* at 1"),
        (None, [-1, 0], "at 0"),
        (None, [0.5, 1.0], "at 0, and 1 others"),
        (None, [[0]], "values must be a sequence of labels or bins, got 2 axes"),
    ],
)
def test_values_that_are_none_are_refused(labels, values, message):
    client = Client(Collection(KRR(2, 1.0), labels).to_json())
    with pytest.raises(ValueError, match=message):
        client.reports(values)


def test_a_client_starts_without_jax(tmp_path):
    path = tmp_path / "collection.json"
    path.write_text(Collection(KRR(3, 1.0)).to_json())
    program = (
        "import sys; from jaxdp.reports import Client; "
        "print(len(Client(open(sys.argv[1]).read()).report(1)), 'jax' in sys.modules)"
    )
    found = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["10", "False"]
