"""Labels of values: found in what people have, kept from populations to trials, and never wrong."""

import collections
import decimal
import fractions
import importlib
import itertools
import json
import math
import sys
import threading
import time
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp import Population
from jaxdp.linear import HistogramQuery, OracleQueries, Projected
from jaxdp.population import _labels, labels_and_codes, labels_and_counts
from jaxdp.randomizers import KRR, BinaryResponse, DiscreteLaplace
from jaxdp.sweep import HistogramData, Simulation
from jaxdp.trusted import Shuffled
from tests.contracts.registry import PROTOCOLS

KIND = np.array(["b", "a", "c", "a", "a", "b"])
CODES = [1, 0, 2, 0, 0, 1]
KRR3 = KRR(3, 1.0)


@pytest.fixture(scope="module")
def pandas() -> types.ModuleType:
    return pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def arrow() -> types.ModuleType:
    return pytest.importorskip("pyarrow")


@pytest.mark.parametrize(
    "make",
    [
        list,
        tuple,
        np.asarray,
        lambda x: x.tolist(),
        lambda x: np.asarray(x, object),
        collections.deque,
        np.char.encode,
        lambda x: x.astype(np.dtypes.StringDType()),
    ],
    ids="list tuple array texts objects deque bytes strings".split(),
)
def test_sequences_of_texts_are_bins(make):
    population = Population.from_values(make(KIND))
    np.testing.assert_array_equal(population.at(range(6)), CODES)
    assert population.num_values == 3
    assert [x.decode() if isinstance(x, bytes) else x for x in population.labels] == ["a", "b", "c"]


def test_labels_found_are_sorted_where_they_can_be():
    assert labels_and_codes([("b", 1), ("a", 2)])[0] == (("a", 2), ("b", 1))
    labels, codes = labels_and_codes(["x", 7, "a", 7])
    assert (labels, codes.tolist()) == (("x", 7, "a"), [0, 1, 2, 1])
    assert [type(x) for x in labels_and_codes(np.array([3, 1]))[0]] == [int, int]
    days = np.array(["2024-02-01", "2024-01-01"], "M8[ns]")
    assert labels_and_codes(days)[1].tolist() == [1, 0]


def test_flags_have_both_labels():
    for flags in ([True, True], np.array([True, True]), jnp.array([True, True])):
        population = Population.from_values(flags)
        assert population.labels == (False, True)
        assert population.counts().numpy().tolist() == [0, 2]


def test_a_given_domain_is_the_domain():
    population = Population.from_values(KIND, labels=["c", "z", "b", "a"])
    assert population.labels == ("c", "z", "b", "a")
    assert population.counts().numpy().tolist() == [1, 0, 2, 3]
    numbers = Population.from_values(np.array([30, 10, 30]), labels=(10, 20, 30))
    assert numbers.at([0, 1, 2]).tolist() == [2, 0, 2]
    assert numbers.labels == (10, 20, 30)
    floats = Population.from_values(jnp.array([0.5, 2.0]), labels=np.array([0.5, 2.0]))
    assert floats.labels == (0.5, 2.0)


def test_labels_name_the_bins_of_codes():
    population = Population.from_values([0, 2, 2], num_values=3, labels=["a", "b", "c"])
    assert population.labels == ("a", "b", "c")
    assert population.counts().numpy().tolist() == [1, 0, 2]
    assert Population.from_histogram([[1, 2]], labels=["xy", "z"]).labels == ("xy", "z")
    assert Population.from_distribution([0.5, 0.5], 10, labels=["x", "y"]).labels == ("x", "y")


def test_what_is_missing_is_refused_with_its_place():
    for x in (["a", None, "b", None], ["a", math.nan, "b", math.nan]):
        with pytest.raises(
            ValueError, match=r"x has 2 missing values, the first in row 1;.*missing="
        ):
            Population.from_values(x)
    with pytest.raises(ValueError, match="values has 1 missing value, in row 2;"):
        labels_and_codes(np.array(["2020", "2021", "NaT"], "M8[Y]"))
    for floats in ([0.5, math.nan], np.array([[0.5, 1.0], [math.nan, 1.0]])):
        with pytest.raises(ValueError, match="x has 1 missing value, in row 1; drop"):
            Population.from_values(floats)


def test_what_is_missing_can_be_a_category():
    population = Population.from_values(["b", None, "a", math.nan], missing="unknown")
    assert population.labels == ("a", "b", "unknown")
    assert population.at(range(4)).tolist() == [1, 2, 0, 2]
    # The domain does not tell whether anything is missing.
    assert Population.from_values(["b", "a"], missing="unknown").labels == population.labels
    given = labels_and_codes(["a", None], labels=["unknown", "a"], missing="unknown")
    assert (given[0], given[1].tolist()) == (("unknown", "a"), [1, 0])
    nothing = labels_and_codes([None, None], missing="unknown")
    assert (nothing[0], nothing[1].tolist()) == (("unknown",), [0, 0])
    numbers = labels_and_codes([1.0, math.nan], labels=[1, 2], missing=0)
    assert (numbers[0], numbers[1].tolist()) == ((1, 2, 0), [0, 2])


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (
            ValueError,
            "labels.*'c', the first in row 2; add",
            lambda: labels_and_codes(KIND, ["a", "b"]),
        ),
        (ValueError, "labels.*'a' twice", lambda: labels_and_codes(KIND, ["a", "b", "a"])),
        (ValueError, "labels must be one or more", lambda: labels_and_codes(KIND, [])),
        (ValueError, "labels must be one or more", lambda: labels_and_codes(KIND, ["a", None])),
        (TypeError, "labels must be a sequence", lambda: labels_and_codes(KIND, "abc")),
        (TypeError, "labels must be a sequence", lambda: labels_and_codes(KIND, {"a", "b"})),
        (TypeError, "labels.*hashable", lambda: labels_and_codes(KIND, [["a"]])),
        (TypeError, "values.*sequence of labels", lambda: labels_and_codes("abc")),
        (TypeError, "values.*sequence of labels", lambda: labels_and_codes({"a": 1})),
        (TypeError, "values.*hashable", lambda: labels_and_codes([["a"], ["b"]])),
        (ValueError, "values must have one axis", lambda: labels_and_codes(KIND.reshape(2, 3))),
        (ValueError, "missing.*'a' is also", lambda: labels_and_codes(KIND, missing="a")),
        (ValueError, "missing must be a label", lambda: labels_and_codes(KIND, missing=math.nan)),
        (TypeError, "missing must be a label", lambda: labels_and_codes(KIND, missing=["a"])),
        (ValueError, "x must hold at least one", lambda: Population.from_values([], labels=["a"])),
        (TypeError, "num_values", lambda: Population.from_values(KIND.tolist(), num_values=3)),
        (TypeError, "x must be", lambda: Population.from_values(KIND, num_values=3)),
        (ValueError, "missing.*num_values", lambda: Population.from_values([0], 2, missing="a")),
        (ValueError, "labels must be 2", lambda: Population.from_values([0], 2, labels=["a"])),
        (ValueError, "num_values is required.*labels", lambda: Population.from_values([0, 1])),
        (TypeError, "x must hold.*labels", lambda: Population.from_values([1, None], missing="a")),
        (
            TypeError,
            "x must hold.*float",
            lambda: Population.from_values([fractions.Fraction(1, 2), decimal.Decimal(1)]),
        ),
        (ValueError, "counts.*'b'", lambda: Population.from_histogram({"b": 1}, labels=["a"])),
        (ValueError, "counts.*missing", lambda: Population.from_histogram({None: 1, "a": 2})),
        (ValueError, "missing is for", lambda: Population.from_histogram([1, 2], missing="a")),
        (ValueError, "labels must be 2", lambda: Population.from_histogram([1, 2], labels=["a"])),
        (ValueError, "counts must not be empty", lambda: Population.from_histogram({})),
        (ValueError, "counts must be >= 0", lambda: Population.from_histogram({"a": -1})),
        (TypeError, "counts must be", lambda: Population.from_histogram({"a": "b"})),
        (ValueError, "one number for each", lambda: Population.from_histogram({"a": [1, 2]})),
        (ValueError, "p must sum to 1", lambda: Population.from_distribution({"a": 0.5}, 10)),
    ],
)
def test_bad_labels_are_refused(error, message, call):
    with pytest.raises(error, match=message):
        call()


def test_messages_show_few_labels():
    with pytest.raises(
        ValueError, match=r"got 'a', 'bbbbbbbbbbbbbbbbbbbb\.\.\., 'c', \.\.\., the first"
    ):
        labels_and_codes(["a", "b" * 1000, "c", "d"], labels=["x"])


def test_traced_values_have_no_labels():
    with pytest.raises(TypeError, match="x must be known"):
        jax.jit(lambda x: Population.from_values(x, labels=[0, 1]).counts())(jnp.array([0, 1]))


def test_counts_by_label():
    counter = collections.Counter("abracadabra")
    for counts in (counter, dict(counter), types.MappingProxyType(counter)):
        population = Population.from_histogram(counts)
        assert population.labels == ("a", "b", "r", "c", "d")
        assert population.counts().numpy().tolist() == [5, 2, 2, 1, 1]
    labels, counts = labels_and_counts(counter, list("rdczab"))
    assert (labels, counts.tolist()) == (tuple("rdczab"), [2, 1, 1, 0, 5, 2])
    drawn = Population.from_distribution({"x": 0.25, "y": 0.75}, 100, labels=["y", "z", "x"])
    assert drawn.labels == ("y", "z", "x")
    assert drawn.probabilities().tolist() == [0.75, 0.0, 0.25]
    lost = Population.from_histogram({"a": 3, None: 2, math.nan: 1}, missing="?")
    assert (lost.labels, lost.counts().numpy().tolist()) == (("a", "?"), [3, 3])
    valued = Population.from_histogram({"low": 3, "high": 2}, values=[0.0, 1.0])
    assert valued.at([0, 4]).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("dtype", ["object", "str", "string", "category"])
def test_columns_of_texts(pandas, dtype):
    column = pandas.Series([*KIND, None], dtype=dtype, index=range(10, 17))
    frame = pandas.DataFrame({"kind": column})
    with pytest.raises(ValueError, match="x has 1 missing value, in row 6"):
        Population.from_values(frame["kind"])
    population = Population.from_values(frame["kind"], missing="none")
    assert population.labels == ("a", "b", "c", "none")
    assert population.at(range(7)).tolist() == [*CODES, 3]
    for held in (frame["kind"].array, pandas.Index(column)):
        labels, codes = labels_and_codes(held, missing="none")
        assert (labels, codes.tolist()) == (population.labels, [*CODES, 3])
    with pytest.raises(ValueError, match="x must be one column"):
        Population.from_values(frame)


def test_categoricals_keep_their_order_and_what_nobody_has(pandas):
    kinds = pandas.Categorical(KIND, categories=["c", "z", "b", "a"], ordered=True)
    for held in (kinds, pandas.Series(kinds), pandas.CategoricalIndex(kinds)):
        population = Population.from_values(held)
        assert population.labels == ("c", "z", "b", "a")
        assert population.counts().numpy().tolist() == [1, 0, 2, 3]
    chosen, codes = labels_and_codes(kinds, labels=["a", "b", "c"])  # "z" does not occur
    assert (chosen, codes.tolist()) == (("a", "b", "c"), CODES)
    with pytest.raises(ValueError, match="labels, got 'c', the first in row 2"):
        labels_and_codes(kinds, labels=["a", "b"])
    numbers = Population.from_values(pandas.Categorical([30, 10, 30]))
    assert numbers.labels == (10, 30)
    bands = pandas.cut(pandas.Series([1, 5, 9]), [0, 4, 8, 12])
    assert [x.right for x in Population.from_values(bands).labels] == [4, 8, 12]


def test_columns_of_numbers_and_flags(pandas):
    for dtype in ("int64", "Int64", "UInt8"):
        column = pandas.Series([0, 2, 1], dtype=dtype)
        assert Population.from_values(column, num_values=3).at(range(3)).tolist() == [0, 2, 1]
        assert Population.from_values(column, labels=[2, 1, 0]).at(range(3)).tolist() == [2, 0, 1]
    for dtype in ("float64", "Float32"):
        column = pandas.Series([0.5, 2.0], dtype=dtype)
        assert Population.from_values(column).at(range(2)).tolist() == [0.5, 2.0]
        with pytest.raises(ValueError, match="x has 1 missing value, in row 1"):
            Population.from_values(pandas.Series([0.5, None], dtype=dtype))
    with pytest.raises(ValueError, match="x has 1 missing value, in row 1"):
        Population.from_values(pandas.Series([1, None], dtype="Int64"), num_values=2)
    for dtype in ("bool", "boolean"):
        flags = Population.from_values(pandas.Series([True, True], dtype=dtype))
        assert flags.labels == (False, True)
    frame = pandas.DataFrame({"x": [0.5, 1.0], "y": [2.0, 3.0]})
    assert Population.from_values(frame).at(1).tolist() == [1.0, 3.0]


def test_value_counts_are_understood_by_their_index(pandas):
    column = pandas.Series([*KIND, None])
    population = Population.from_histogram(column.value_counts())
    assert dict(zip(population.labels, population.counts().numpy(), strict=True)) == {
        "a": 3,
        "b": 2,
        "c": 1,
    }
    assert population.labels[0] == "a"  # the order is kept
    domain = ["c", "z", "b", "a"]
    ordered = Population.from_histogram(column.value_counts(), labels=domain)
    assert ordered.counts().numpy().tolist() == [1, 0, 2, 3]
    assert ordered.labels == tuple(domain)
    shares = Population.from_distribution(column.value_counts(normalize=True), 60, labels=domain)
    np.testing.assert_allclose(shares.probabilities(), [1 / 6, 0, 2 / 6, 3 / 6], atol=1e-9)
    kinds = pandas.Series(pandas.Categorical(KIND, categories=domain))
    assert set(Population.from_histogram(kinds.value_counts()).labels) == set(domain)
    with pytest.raises(ValueError, match="counts has a missing value"):
        Population.from_histogram(column.value_counts(dropna=False))
    lost = Population.from_histogram(column.value_counts(dropna=False), missing="?")
    assert dict(zip(lost.labels, lost.counts().numpy(), strict=True))["?"] == 1
    nullable = Population.from_histogram(column.astype("string").value_counts())
    assert nullable.counts().numpy().tolist() == [3, 2, 1]
    plain = Population.from_histogram(pandas.Series([3, 4]))
    assert plain.labels is None
    assert plain.counts().numpy().tolist() == [3, 4]
    with pytest.raises(ValueError, match=r"counts.*'a' twice"):
        Population.from_histogram(pandas.Series([1, 2], index=["a", "a"]))


def test_tables_have_pairs_of_labels(pandas):
    frame = pandas.DataFrame({"sex": ["f", "m", "f"], "vote": ["no", "no", "yes"]})
    table = Population.from_histogram(pandas.crosstab(frame["sex"], frame["vote"]))
    assert table.labels == (("f", "no"), ("f", "yes"), ("m", "no"), ("m", "yes"))
    assert table.counts().numpy().tolist() == [1, 1, 1, 0]
    rows = Population.from_histogram(frame.value_counts())
    assert set(rows.labels) == {("f", "no"), ("f", "yes"), ("m", "no")}
    plain = Population.from_histogram(pandas.DataFrame([[1, 2], [3, 4]]))
    assert (plain.labels, plain.counts().numpy().tolist()) == (None, [1, 2, 3, 4])


def test_arrays_of_arrow(arrow):
    texts = arrow.array([*KIND, None])
    chunks = arrow.chunked_array([list(KIND[:4]), [*KIND[4:], None]])
    for held in (texts, chunks, arrow.table({"kind": chunks})["kind"]):
        labels, codes = labels_and_codes(held, missing="none")
        assert (labels, codes.tolist()) == (("a", "b", "c", "none"), [*CODES, 3])
        with pytest.raises(ValueError, match="x has 1 missing value, in row 6"):
            Population.from_values(held)
    words = arrow.DictionaryArray.from_arrays(arrow.array([1, 0, None]), ["z", "a"])
    labels, codes = labels_and_codes(words, missing="none")
    assert (labels, codes.tolist()) == (("z", "a", "none"), [1, 0, 2])
    assert Population.from_values(arrow.array([1, 0]), num_values=2).at([0]).tolist() == [1]
    assert Population.from_values(arrow.array([0.5, 2.0])).at([1]).tolist() == [2.0]
    assert Population.from_values(arrow.array([True])).labels == (False, True)
    with pytest.raises(ValueError, match="x has 1 missing value, in row 1"):
        Population.from_values(arrow.array([0.5, None]))


def labelled(labels=("no", "yes", "unsure")) -> Population:
    return Population.from_histogram([60, 30, 10], labels=labels)


def test_derived_populations_keep_labels(key):
    for population in (labelled(), Population.from_distribution({"a": 0.5, "b": 0.5}, 100)):
        labels = population.labels
        groups = population.split(key, [0.5, 0.5])
        assert [group.labels for group in groups] == [labels, labels]
        assert population.shuffle(key).labels == labels
        assert population.bind(key).labels == labels
        assert population.pairs(key).labels == tuple(itertools.product(labels, repeat=2))
        assert population.bind(key).shuffle(key).split(key, [1.0])[0].labels == labels
    many = Population.from_histogram(np.ones(257, int), labels=range(257))
    assert many.pairs(key).labels is None
    assert Population.from_histogram([1, 2]).pairs(key).labels is None


def test_transformations_return_no_labels(key):
    """Rather than those of the population that a program was compiled for."""
    through = jax.jit(lambda users: (users, users.shuffle(key)))
    for labels in (("a", "b", "c"), ("x", "y", "z")):
        population = labelled(labels)
        for returned in (*through(population), jax.tree.map(lambda x: x, population)):
            assert returned.labels is None
            assert returned.num_users == 100
        seen = []
        jax.jit(lambda users: (seen.append(users.labels), users.counts())[1])(population)  # noqa: B023
        assert seen == [None]


@pytest.mark.parametrize("method", ["tally", "per_user"])
def test_labels_change_no_result_and_compile_nothing(method, key, count_compilations):
    plain = Population.from_histogram([60, 30, 10])
    want = jaxdp.simulate(KRR3, plain, key, num_trials=5, method=method)
    once = jaxdp.run(KRR3, plain, key, method=method)
    assert want.labels is None
    with count_compilations() as seen:
        for labels in (("a", "b", "c"), ("x", "y", "z"), (1, 2, 3)):
            population = labelled(labels)
            trials = jaxdp.simulate(KRR3, population, key, num_trials=5, method=method)
            assert trials.labels == labels
            np.testing.assert_array_equal(trials.estimates, want.estimates)
            np.testing.assert_array_equal(trials.truth, want.truth)
            np.testing.assert_array_equal(jaxdp.run(KRR3, population, key, method=method), once)
    assert (seen.traced, seen.compiled) == ([], [])


def test_callers_programs_are_traced_once(key):
    traces = []

    @jax.jit
    def estimate(users, key):
        traces.append(users.labels)
        return jaxdp.run(KRR3, users, key, method="tally")

    first, second = (estimate(labelled(x), key) for x in (("a", "b", "c"), ("x", "y", "z")))
    np.testing.assert_array_equal(first, second)
    assert traces == [None]


def test_labels_survive_explicit_axes(key):
    mesh = jax.make_mesh((4,), ("users",), axis_types=(jax.sharding.AxisType.Explicit,))
    with jax.set_mesh(mesh):
        x = jax.device_put(jnp.zeros(8, jnp.int32), jax.NamedSharding(mesh, jax.P("users")))
        population = Population.from_values(x, num_values=3, labels=["a", "b", "c"])
        trials = jaxdp.simulate(KRR3, population, key, num_trials=2, method="per_user")
    assert trials.labels == ("a", "b", "c")


def test_trials_have_labels_where_entries_are_of_bins(key):
    query, labels = HistogramQuery(KRR3), ("no", "yes", "unsure")
    answering = [
        KRR3,
        query,
        Projected(query, "simplex"),
        OracleQueries(np.eye(3), KRR3),
        Shuffled(KRR3, 100, 1e-6),
    ]
    for protocol in answering:
        assert protocol.answers_bins
        assert jaxdp.simulate(protocol, labelled(), key, num_trials=2).labels == labels
    prefixes = OracleQueries(np.tri(3), KRR3)
    assert jaxdp.simulate(prefixes, labelled(), key, num_trials=2).labels is None
    (group, _) = labelled().split(key, [0.5, 0.5])
    assert jaxdp.simulate(KRR3, group, key, num_trials=2, truth=np.ones(3)).labels == labels
    numbers = Population.from_histogram({"low": 1, "high": 2}, values=[0.0, 1.0])
    assert jaxdp.simulate(BinaryResponse(1.0), numbers, key, num_trials=2).labels is None
    assert not DiscreteLaplace(0, 3, 1.0).answers_bins


@pytest.mark.parametrize("case", PROTOCOLS, ids=lambda case: case.name)
def test_specs_that_answer_bins_aim_at_the_histogram(case):
    spec = case.make(1.0)
    counts = np.arange(3, 3 + np.size(case.counts))
    try:
        found = np.asarray(spec.truth(counts, case.inputs), float)
    except (ValueError, TypeError):
        found = np.zeros(())
    shares = counts / counts.sum()
    aims = found.shape == shares.shape and np.allclose(found / found.sum(), shares, atol=1e-12)
    assert spec.answers_bins == aims


def test_summaries_and_dictionaries_show_labels(key):
    trials = jaxdp.simulate(KRR3, labelled(), key, num_trials=20)
    head, columns, *rows = trials.summary().splitlines()
    assert head.startswith("20 trials of 100 users")
    assert columns.split() == ["mean", "truth", "bias", "mse", "rmse"]
    assert [row.split()[0] for row in rows] == ["no", "yes", "unsure"]
    assert [float(row.split()[2]) for row in rows] == [60.0, 30.0, 10.0]
    assert len({len(row) for row in (columns, *rows)}) == 1
    assert json.loads(json.dumps(trials.to_dict()))["labels"] == ["no", "yes", "unsure"]
    unknown = jaxdp.simulate(KRR3.build(), labelled(), key, num_trials=2)  # params, not a spec
    assert (unknown.labels, "labels" in unknown.to_dict()) == (None, False)
    labels = [("a", 1), "b" * 100, *range(8)]
    many = jaxdp.simulate(
        KRR(10, 1.0), Population.from_histogram(range(1, 11), labels=labels), key, num_trials=2
    )
    lines = many.summary().splitlines()
    assert lines[-1] == "... (10 bins)"
    assert lines[2].startswith("('a', 1) ")
    assert lines[3].startswith("b" * 29 + "... ")
    assert many.to_dict()["labels"][:3] == ["('a', 1)", "b" * 100, 0]


def test_cells_of_sweeps_have_labels():
    data = HistogramData({"no": 60, "[yes]": 30, 7: 10})
    assert data.population().labels == ("no", "[yes]", 7)
    assert HistogramData(data.counts, labels=data.labels) == data
    assert hash(data) != hash(HistogramData([60, 30, 10]))
    cell = Simulation(protocol=KRR3, data=data, num_trials=3, labels={"epsilon": 1.0})
    rows = cell.rows()
    assert [row["entry_label"] for row in rows] == ["no", "[yes]", "7"]
    plain = Simulation(
        protocol=KRR3, data=HistogramData([60, 30, 10]), num_trials=3, labels={"epsilon": 1.0}
    ).rows()
    assert [row["estimates"] for row in rows] == [row["estimates"] for row in plain]
    assert "entry_label" not in plain[0]
    with pytest.raises(TypeError, match="labels must be texts or numbers"):
        HistogramData([1], labels=[("a", "b")])


def test_tables_of_sweeps_show_labels(arrow, capsys):
    pytest.importorskip("rich")
    from jaxdp.sweep._report import print_results

    data = HistogramData({"no": 60, "[yes]": 30, 7: 10})
    cell = Simulation(protocol=KRR3, data=data, num_trials=3, labels={"epsilon": 1.0})
    print_results(arrow.Table.from_pylist(cell.rows()), ["epsilon"])
    text = " ".join(capsys.readouterr().out.split())
    for label in ("no 60", "[yes] 30", "7 10"):
        assert label in text


def test_repr_is_one_readable_line(key):
    letters = Population.from_histogram(collections.Counter("abracadabra"))
    vectors = Population.from_values(np.ones((10_000, 64)))
    drawn = Population.from_distribution([0.5, 0.5], 10**12)
    expected = {
        letters: "11 users, 5 bins 'a', 'b', 'r', ..., histogram",
        vectors: "10,000 users, float32[64] values, array",
        drawn: "1,000,000,000,000 users, 2 bins, distribution",
        drawn.bind(key).shuffle(key): "1,000,000,000,000 users, 2 bins, shuffled distribution",
        vectors.pairs(key): "5,000 users, float32[64] values, pairs of array",
        vectors.split(key, [1.0])[0]: "10,000 users, float32[64] values, group of array",
        Population.from_values([0], num_values=1): "1 user, 1 bin, array",
        Population.from_values([0.5]): "1 user, float32 values, array",
        Population.from_histogram([1], values={"x": np.ones(1), "y": np.ones((1, 2), int)}): (
            "1 user, float32, int32[2] values, histogram"
        ),
    }
    for population, text in expected.items():
        assert repr(population) == f"Population({text})"
    seen = []
    jax.jit(lambda users: seen.append(repr(users)))(letters)
    jax.jit(lambda: seen.append(repr(letters.pairs(key))))()
    jax.vmap(lambda size: seen.append(repr(Population.from_values(size, 3))))(
        jnp.zeros((2, 3), int)
    )
    assert seen[0] == "Population(a traced number of users, 5 bins, histogram)"
    assert seen[1].startswith("Population(5 users, 25 bins ('a', 'a'), ")
    for strange in (
        jax.tree.map(lambda x: jax.P(), letters),
        jax.eval_shape(lambda x: x, letters),
        jax.eval_shape(lambda x: x, letters.pairs(key)),
        jax.tree.map(lambda x: x[None], letters),
    ):
        assert repr(strange).startswith("Population(")
    long = Population.from_histogram({"line\nbreak" * 100: 1})
    assert len(repr(long).splitlines()) == 1
    assert len(repr(long)) < 100
    deleted = Population.from_values(jnp.zeros(3, jnp.int32), num_values=2)
    for leaf in jax.tree.leaves(deleted):
        leaf.delete()
    assert repr(deleted) == "Population(users, 2 bins, array)"


def test_a_module_that_another_thread_imports_is_waited_for(tmp_path, monkeypatch):
    (tmp_path / "slowly_imported.py").write_text("import time\ntime.sleep(0.3)\nSeries = list\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert _labels._imported("slowly_imported") is None
    other = threading.Thread(target=importlib.import_module, args=("slowly_imported",))
    other.start()
    while "slowly_imported" not in sys.modules:
        time.sleep(0.001)
    assert not hasattr(sys.modules["slowly_imported"], "Series")
    assert _labels._imported("slowly_imported").Series is list
    other.join()
    monkeypatch.delitem(sys.modules, "slowly_imported")
