"""What a report costs: operations that are known, and times that are measured."""

import pytest

from jaxdp.linear import HierarchicalQueries, HistogramQuery, Projected
from jaxdp.pairwise import GiniDiversity, QuantizedRR, TwoReport, TwoRound
from jaxdp.randomizers import KRR, HadamardResponse, Laplace, UnaryEncoding
from jaxdp.reports import report_cost
from jaxdp.reports._costs import _counted, _short
from jaxdp.workloads import prefix


@pytest.mark.parametrize(
    ("spec", "words", "sums"),
    [
        (KRR(100, 1.0), 2, 1),
        (HistogramQuery(KRR(100, 1.0)), 2, 1),
        (Projected(HistogramQuery(KRR(100, 1.0))), 2, 1),
        (HadamardResponse(100, 1.0), 3, 1),
        (UnaryEncoding(100, 1.0), 129, 101),
        (Laplace(1.0), 4, 3),
        (QuantizedRR(GiniDiversity(), 1.0, 4), 2, 1),
    ],
    ids=lambda given: type(given).__name__,
)
def test_operations_are_counted(spec, words, sums):
    found = report_cost(spec)
    assert abs(found.words - words) <= 1
    assert found.sums == sums
    assert (found.client_seconds, found.server_seconds) == (None, None)


def test_rounds_are_averaged_over_the_users():
    spec = TwoRound(GiniDiversity(), 1.0, 4)
    found = report_cost(spec, 1000)
    assert 1 < found.words < 1e4
    assert report_cost(TwoReport(GiniDiversity(), 1.0, 4)).words > 2
    assert report_cost(HierarchicalQueries(prefix(16), 1.0)).sums == 1


def test_times_are_measured(monkeypatch):
    monkeypatch.setattr("jaxdp.reports._costs._LONG", 1e-4)
    found = report_cost(KRR(10, 1.0), timed=True)
    assert 1e-10 < found.client_seconds < 1e-3
    assert 1e-11 < found.server_seconds < 1e-3
    assert found.words == report_cost(KRR(10, 1.0)).words
    assert found.cells[0].split()[1] in ("ns", "µs")


def test_numbers_are_short():
    assert _short(9.96e-7) == "1 µs"
    assert _short(1.234e-7) == "120 ns"
    assert _short(3e-11) == "0.03 ns"
    assert _short(2.0) == "2 s"
    assert (_counted(1, "sum"), _counted(1001, "sum")) == ("1 sum", "1,001 sums")
    assert _counted(34_567, "word") == "35,000 words"


def test_what_is_no_protocol_is_refused():
    with pytest.raises(TypeError, match="spec must be that of a randomizer"):
        report_cost(3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="num_users"):
        report_cost(KRR(3, 1.0), 0.0)
