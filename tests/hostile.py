"""Hostile values for every argument of the public callables: what is called, and the verdict.

    python -m tests.hostile --number 20000          # an hour; prints every wrong verdict
    python -m tests.hostile --number 500 --first 200 --only linear.best

A call replaces one or two good arguments of a callable by hostile values. It is right to answer,
and to raise a ValueError or TypeError that names an argument. Calls are numbered, and each is drawn
from the seed and its number alone: processes share the work by seeds or by numbers.
"""

import argparse
import collections
import contextlib
import dataclasses
import decimal
import fractions
import functools
import inspect
import os
import random
import re
import resource
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

import jaxdp
from jaxdp import central, engine, pairwise, projections, workloads
from jaxdp.accounting import PairLaw
from jaxdp.design import Histogram
from jaxdp.linear import HistogramQuery
from jaxdp.random import Count
from jaxdp.randomizers import KRR, PrivUnitG
from tests.contracts.registry import PROTOCOLS

RIGHT = ("answered", "refused", "stopped")
SECONDS = 30  # rankings of all protocols for pairs compile for half as many
GIBIBYTES = 4

VALUES: dict[str, Any] = {
    "none": None,
    "true": True,
    "text": "1",
    "empty text": "",
    "bytes": b"1",
    "object": object(),
    "dict": {},
    "set": {1, 2},
    "range": range(3),
    "function": len,
    "class": int,
    "nan": float("nan"),
    "inf": float("inf"),
    "-inf": -float("inf"),
    "zero": 0,
    "zero float": 0.0,
    "-0.0": -0.0,
    "minus one": -1,
    "half": 0.5,
    "one": 1,
    "two": 2,
    "three float": 3.0,
    "seven": 7,
    "million": 10**6,
    "int32": 2**31,
    "users": 2**53 + 1,
    "uint64": 2**64,
    "huge": 10**400,
    "minus huge": -(10**400),
    "denormal": 1e-320,
    "small": 1e-12,
    "large": 1e6,
    "largest float32": 3e38,
    "largest": 1.7e308,
    "minus largest": -1.7e308,
    "complex": 1j,
    "fraction": fractions.Fraction(1, 3),
    "huge fraction": fractions.Fraction(10**400),
    "small fraction": fractions.Fraction(1, 10**400),
    "decimal": decimal.Decimal("0.1"),
    "numpy": np.float64(0.3),
    "numpy wrap": np.uint64(2**63 + 5),
    "numpy bool": np.bool_(True),
    "half precision": np.float16(0.5),
    "small integer": np.int8(-128),
    "long double": np.longdouble("1e4000"),
    "bfloat16": jax.numpy.bfloat16(0.5),
    "jax nan": jax.numpy.float32(np.nan),
    "jax": jax.numpy.float32(0.5),
    "jax key": jax.random.key(0),
    "old key": jax.random.PRNGKey(0),
    "list": [1, 2, 3],
    "empty list": [],
    "ragged": [[1], [1, 2]],
    "texts": ["a", "b"],
    "nested": [[1.0, 2.0], [3.0, 4.0]],
    "flags": np.array([True, False, True]),
    "bytes array": np.array([b"a", b"b"]),
    "long": np.ones(10**5),
    "jax matrix": jax.numpy.ones((3, 3)),
    "nan array": np.array([1.0, np.nan]),
    "inf matrix": np.full((3, 3), np.inf),
    "large array": np.full(3, 1e308),
    "large matrix": np.full((3, 3), 1e308),
    "small matrix": np.full((3, 3), 1e-320),
    "zeros": np.zeros(3),
    "zero matrix": np.zeros((3, 3)),
    "negative array": np.array([-1.0, 2.0, 0.0]),
    "integers": np.array([2**62, 2**62, 2**62]),
    "wrapping": np.array([2**63 + 5, 1, 1], np.uint64),
    "masked": np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0]),
    "masked matrix": np.ma.array(np.eye(3), mask=np.eye(3)),
    "empty array": np.zeros((0, 3)),
    "four axes": np.ones((1, 2, 1, 2)),
    "structured": np.zeros(2, [("a", int)]),
    "dates": np.array(["2020-01-01"], "M8[D]"),
    "objects": np.array([None, 1], object),
    "count": Count.of([1, 2]),
    "spec": KRR(3, 1.0),
    "params": KRR(3, 1.0).build(),
}

WRAPPED: dict[str, tuple[Any, ...]] = {
    "int32": (-(2**31),),
    "users": (1,),
    "uint64": (0,),
    "huge": (0,),
    "numpy wrap": (5, 5 - 2**63),
    "integers": (np.zeros(3, int),),
    "wrapping": (np.array([5, 1, 1]), np.array([5 - 2**63, 1, 1])),
}
"""What integers of `VALUES` would be if they lost their upper bits: another answer is expected."""

_KEY = jax.random.key(1)
_MATRIX = np.array([[1.0, 0.5, 0.0], [0.25, 1.0, 0.5], [0.0, 0.25, 1.0]])
_SYMMETRIC = (_MATRIX + _MATRIX.T) / 2

GOOD: dict[str, Any] = {
    "epsilon": 1.0,
    "epsilon0": 1.0,
    "epsilons": [0.5, 1.0],
    "total_epsilon": 1.0,
    "delta": 1e-6,
    "delta_slack": 1e-6,
    "sensitivity": 1.0,
    "sigma": 1.0,
    "variance": 1.0,
    "noise_multiplier": 1.0,
    "error": 0.1,
    "num_users": 1000,
    "num_rounds": 3,
    "num_values": 4,
    "num_scores": 4,
    "num_negative": 100,
    "num_positive": 100,
    "num_negatives": 100,
    "num_positives": 100,
    "num_permutations": 1,
    "num_items": 3,
    "num_features": 3,
    "num_bins": 4,
    "num_bits": 3,
    "num_rows": 2,
    "num_cols": 2,
    "num_queries": 2,
    "num_samples": 16,
    "num_words": 2,
    "num_reports": 4,
    "order": 2,
    "width": 2,
    "seed": 0,
    "height": 3,
    "count_variance": 1.0,
    "norm": 1.0,
    "gamma2": 1.0,
    "rank": 2,
    "alpha": 0.1,
    "separation": 0.1,
    "spread": 1.0,
    "linear": 0.1,
    "lipschitz": 1.0,
    "complexity": 1.0,
    "size": 3,
    "matrix": _MATRIX,
    "workload": np.eye(3),
    "concepts": np.array([[1.0, -1.0], [1.0, 1.0]]),
    "x": np.array([0.5, 0.25, 2.0]),
    "y": np.array([0.5, 0.25, 2.0]),
    "a": _MATRIX,
    "key": _KEY,
    "protocol": KRR(3, 1.0),
    "randomizer": KRR(3, 1.0),
    "population": jaxdp.Population.from_histogram([3, 4, 5]),
    "specs": [KRR(3, 1.0), KRR(3, 2.0)],
    "num_trials": 2,
    "kernel": pairwise.GiniDiversity(),
    "convex_set": central.CosineSet(3),
    "set": central.CosineSet(3),
    "n": 10,
    "p": 0.5,
    "good": 3,
    "bad": 4,
    "draws": 2,
    "shape": (2,),
    "counts": [3, 4, 5],
    "weights": [0.25, 0.75],
    "ids": [0, 1],
    "user": 0,
    "users": 0,
    "first_user": 0,
    "name": 0,
    "ratio": fractions.Fraction(3, 2),
    "rows": [0.0, 0.5],
    "function": np.maximum,
    "edges": (0.0, 0.5, 1.0),
    "axes": (pairwise.Grid((0.0, 0.5, 1.0)),),
    "projections": (projections.psd, projections.psd),
    "table": [[0.6, 0.4], [0.4, 0.6]],
    "beta": 0.1,
    "truth": _SYMMETRIC,
    "estimate": _SYMMETRIC,
}
"""Good arguments by name, for what has them under no other meaning."""


@dataclasses.dataclass(frozen=True)
class Subject:
    """A public callable and good arguments, of which any is replaced.

    Attributes:
      name: of the callable.
      call: it; of a class of specs, it and what its specs are asked.
      good: arguments by name.
    """

    name: str
    call: Callable[..., Any]
    good: dict[str, Any]

    def __repr__(self) -> str:
        return self.name


def _asked(make: Callable[..., Any]) -> Callable[..., Any]:
    """The exact questions that specs answer, without a simulation."""

    @functools.wraps(make)
    def call(**arguments: Any) -> Any:
        spec = make(**arguments)
        if not isinstance(spec, engine.Spec):
            return spec
        return spec.build(), spec.exact_epsilon(), spec.exact_delta()

    return call


# Of the same name, but with another meaning.
_SPECIAL: dict[str, dict[str, Any]] = {
    "bounds.mean_queries_error": {"randomizer": PrivUnitG(4, 1.0)},
    "bounds.projected_queries_error": {"randomizer": PrivUnitG(4, 1.0)},
    "bounds.quadratic_form_lower_bound": {"matrix": _SYMMETRIC},
    "bounds.rounds_separation": {"matrix": _SYMMETRIC},
    "factorization.signed": {"matrix": _SYMMETRIC},
    "factorization.zeta": {"weight": 0.1},
    "pairwise.best": {"num_values": 4},
    "pairwise.candidates": {"num_values": 4},
    "accounting.gaussian_composition": {"ratios": [0.5, 1.0]},
    "accounting.shuffle_bracket": {"channel": [[0.6, 0.2, 0.2], [0.2, 0.6, 0.2]]},
    "accounting.channel_shuffle_delta": {"channel": [[0.6, 0.2, 0.2], [0.2, 0.6, 0.2]]},
    "accounting.opposite_pairs": {"channel": [[0.6, 0.2, 0.2], [0.2, 0.6, 0.2]]},
    "accounting.gaussian_pairs": {"dim": 3, "radius": 1.0, "sigma": 8.0},
    "accounting.pair_shuffle_bracket": {
        "pairs": [PairLaw([0.6, 0.4], [0.4, 0.6], [0.4, 0.4], [[0.5, 0.5]])]
    },
    "accounting.pair_shuffle_delta": {
        "pairs": [PairLaw([0.6, 0.4], [0.4, 0.6], [0.4, 0.4], [[0.5, 0.5]])]
    },
    "accounting.sampled_pairs": {
        "pairs": [PairLaw([0.6, 0.4], [0.4, 0.6], [0.4, 0.4], [[0.5, 0.5]])],
        "rate": 0.1,
    },
    "accounting.sampled_shuffle_delta": {"delta_of": KRR(3, 1.0).shuffle_delta, "rate": 0.1},
    "accounting.dithered_gaussian_delta": {"step": 0.01, "dim": 4},
    "bounds.kendall_mse": {"num_values": (2, 2)},
    "bounds.optimal_num_bins": {"lipschitz": 1.0},
    "bounds.quantization_error": {"lipschitz": 1.0},
    "bounds.quantized_u_statistic_mse": {"lipschitz": 1.0},
    "bounds.gaussian_complexity": {"num_samples": 2, "max_steps": 20},
    "central.neighbor_recall": {"num_neighbors": 1},
    "central.marginals_from_parities": {"answers": np.ones(7)},
    "central.parities_from_marginals": {"answers": np.ones(7)},
    "audit.estimate_epsilon": {"num_samples": 1000},
    "audit.estimate_epsilon_from_counts": {
        "counts": {0: [[400, 200], [350, 250]], 1: [[200, 400], [250, 350]]},
        "epsilon": 1.0,
    },
    "audit.estimate_epsilon_from_reports": {
        "reports": {0: np.arange(1000) % 3, 1: np.arange(1000) % 2},
        "epsilon": 1.0,
    },
    "audit.reports_needed": {"epsilon": 1.0, "probability": 0.5, "num_tests": 6},
    "design.plan": {"question": Histogram(4), "users": 100, "epsilon": 1.0},
    "design.rank": {
        "question": Histogram(4),
        "users": 100,
        "epsilon": 1.0,
        "trust": ("local",),
    },
    "design.several": {
        "questions": {"a": Histogram(4), "b": Histogram(3)},
        "users": 100,
        "epsilon": 1.0,
    },
    "design.Comparison": {"question": Histogram(4)},
    "design.Marginals": {"num_features": 3, "order": 2},
    "design.TopK": {"num_values": 4, "top": 1},
    "design.Mean": {"low": -1.0, "high": 1.0},
    "design.PairStatistic": {"num_values": 4},
    "design.pooled": {
        "question": Histogram(4),
        "epsilons": {"a": 0.5, "b": 1.0},
        "shares": {"a": 1, "b": 2},
        "users": 100,
    },
    "design.Change": {"question": Histogram(4)},
    "linear.best": {"objective": "max"},
    "linear.optimal_channel": {"objective": "mean"},
    "linear.post_processed": {"protocol": HistogramQuery(KRR(3, 1.0))},
    "linear.candidates": {"norm": "max"},
    "pairwise.PairKernel": {"f": lambda x, y: abs(x - y)},
    "pairwise.MatrixKernel": {"weights": _SYMMETRIC},
    "pairwise.GridKernel": {
        "kernel": pairwise.GiniMeanDifference(),
        "grid": pairwise.Grid.uniform(3),
    },
    "pairwise.OnGrid": {
        "protocol": pairwise.OneReport(_SYMMETRIC, 1.0),
        "grid": pairwise.Grid.uniform(len(_SYMMETRIC)),
    },
    "pairwise.TripleStatistic": {"kernel": np.ones((3, 3, 3)), "oracle": KRR(3, 1.0)},
    "pairwise.TripleForm": {"kernel": np.arange(27.0).reshape(3, 3, 3)},
    "pairwise.TripleRatio": {
        "kernel": np.ones((3, 3, 3)),
        "condition": np.ones((3, 3, 3)),
        "oracle": KRR(3, 1.0),
    },
    "pairwise.volume_under_roc": {"num_scores": 2, "class_sizes": (2, 3, 4)},
    "pairwise.one_of_each_class": {"num_scores": 2},
    "pairwise.third_l_moment": {"values": [0.0, 1.0, 3.0]},
    "pairwise.mean_range": {"values": [0.0, 1.0, 3.0]},
    "pairwise.triangles": {"adjacency": np.eye(3)},
    "pairwise.balanced_num_bins": {"lipschitz": 1.0},
    "factorization.gamma2_approx": {"max_steps": 50},
    "factorization.gamma2_rank": {"num_steps": 20},
    "factorization.projected_gradient": {"num_steps": 20, "num_reweights": 1},
    "reports.Attacked": {"protocol": KRR(3, 1.0), "report": 1, "num_malicious": 10},
    "reports.Collection": {"spec": KRR(3, 1.0)},
    "reports.report_bytes": {"spec": KRR(3, 1.0)},
    "reports.report_cost": {"spec": KRR(3, 1.0)},
    "reports.influence": {"protocol": KRR(3, 1.0), "num_malicious": 10, "num_users": 100},
    "reports.base_cut": {"stderr": 1.0},
    "reports.maximum_likelihood": {"channel": np.eye(3) / 2 + 1 / 6, "tally": [3, 4, 5]},
    "reports.expectation_maximization": {"channel": np.eye(3) / 2 + 1 / 6, "tally": [3, 4, 5]},
    "projections.psd": {"x": _SYMMETRIC},
    "projections.spectraplex": {"x": _SYMMETRIC},
    "projections.correlation": {"x": _SYMMETRIC},
    "projections.bounded_diagonal": {"x": _SYMMETRIC},
    "projections.dykstra": {"x": _SYMMETRIC},
    "projections.alternating_average": {"x": _SYMMETRIC},
    "projections.nuclear_ball": {"x": _MATRIX},
    "projections.frobenius_ball": {"x": _MATRIX},
    "projections.column_norm_ball": {"x": _MATRIX},
    "random.multinomial": {"weights": [0.5, 0.5]},
    "random.multivariate_hypergeometric": {"counts": [3, 4]},
    "random.gamma": {"shape": 2},
    "random.permute": {"n": 10, "num_users": 10},
    "random.stream": {"name": 0},
    "random.AliasTable.of": {"masses": (1, 3), "bits": 2},
    "workloads.from_function": {"function": np.maximum},
    "workloads.lipschitz": {"function": np.sqrt},
}

# What takes the results of others, or functions, and checks nothing by design.
_RESULTS = re.compile(
    r"(Release|Outcome|Prediction|Plan|Option|Goal|Measure|Errors|Users|TwoGroups|Panel|Pooled|Sensitivity|ReportCost|Several|Way|Ranking|Ranked\w+|Transcript|Report|Guarantee|Source|Projection|Consistency"
    r"|Factorization|PrefixNorm|Distributions|Lines|Certificate|Encoding|AnswerRound|Trials|Count"
    r"|FoundItems|OptimalChannel|AliasTable|NormalNoise|UserWords|Stream|Tail|SelfMoments|TableNoise|Error|Sent|Step|Work|Cost|Independent"
    r"|ShuffleBracket|PairLaw|Added|Answer|Fit|Kernels|TallyLaw|Padded|Summed|FlatWords|Draft|Counted|Census|Population|Operator|Grid)$"
)
_INTERNAL = {
    # decorators and parts of randomizers: programs are written with them, no data is given to them
    *(f"engine.{name}" for name in ("field", "params", "spec", "static")),
    *(
        f"random.{name}"
        for name in ("everyone", "histogram", "merge", "normal", "part_of", "standard_normal")
    ),
    *(
        f"random.{name}"
        for name in ("binomials", "multinomials")  # they check as those of one do
    ),
    *(
        f"random.{name}"
        for name in ("count_bits", "sum_integers", "sum_squares", "words", "words_at")
    ),
    # of results of other functions
    *(f"factorization.{name}" for name in ("certify", "hard_distributions", "hardest")),
    "factorization.johnson_lindenstrauss",
    # written by users: their functions fail as they fail
    "central.Intersection",
    "linear.AdaptiveQueries",
}
_PACKAGES = (
    *("accounting", "audit", "bounds", "central", "design", "engine", "factorization", "learning"),
    *("linear", "pairwise", "projections", "random", "randomizers", "reports", "trusted"),
    "workloads",
)
_POPULATION: dict[str, list[dict[str, Any]]] = {
    "from_values": [
        {"x": [0, 1, 2], "num_values": 3, "labels": None},
        {"x": ["a", "b", None], "labels": ["a", "b"], "missing": "c"},
    ],
    "from_histogram": [
        {"counts": [3, 4, 5], "values": [0.5, 1.0, 2.0], "labels": None},
        {"counts": {"a": 3, None: 2}, "labels": ["a", "b"], "missing": "c"},
    ],
    "from_distribution": [
        {"p": [0.25, 0.75], "num_users": 10, "values": [1, 2]},
        {"p": {"a": 0.5, None: 0.5}, "num_users": 10, "labels": ["a", "b"], "missing": "c"},
    ],
}
_METHODS: dict[str, dict[str, Any]] = {
    "at": {"users": [0, 1]},
    "block": {"start": 0, "size": 2},
    "split": {"key": _KEY, "weights": [0.25, 0.75]},
    "shuffle": {"key": _KEY},
    "pairs": {"key": _KEY},
    "bind": {"key": _KEY},
    "counts": {"key": _KEY},
}
_OPERATORS: dict[str, dict[str, Any]] = {
    "prefix": {"num_values": 4},
    "difference": {"num_values": 4},
    "all_range": {"num_values": 4},
    "parity": {"num_bits": 3},
    "from_matrix": {"matrix": _MATRIX},
}


def _abstract(thing: object) -> bool:
    # `ABC`s, protocols and generic bases are derived from, not called.
    return inspect.isabstract(thing) or getattr(thing, "_is_protocol", False)


def _callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    for package in _PACKAGES:
        face = getattr(jaxdp, package)
        for name in dir(face):
            thing = getattr(face, name)
            if name.startswith("_") or not callable(thing) or inspect.ismodule(thing):
                continue
            yield f"{package}.{name}", thing


def _fields(spec: object) -> dict[str, Any]:
    return {
        f.name: getattr(spec, f.name)
        for f in dataclasses.fields(spec)  # pyright: ignore[reportArgumentType]
        if f.init
    }


_WORK = {
    ("audit.estimate_epsilon", "num_samples"),
    ("bounds.gaussian_complexity", "num_samples"),
    ("engine.simulate", "num_trials"),
    ("factorization.prefix_norm", "num_values"),
}
"""(callable, argument) for work by number: it takes as long as it takes, but stops when told to."""


@functools.cache
def subjects() -> dict[str, Subject]:
    """Everything with arguments, by name; an AssertionError names what lacks good ones."""
    found: dict[str, Subject] = {}
    specs = {}
    for case in PROTOCOLS:
        spec = case.make(1.0)
        specs.setdefault(type(spec), spec)
    lacking = []
    for name, thing in _callables():
        if thing in specs:
            found[name] = Subject(name, _asked(thing), _fields(specs[thing]))
            continue
        if name in _INTERNAL or _abstract(thing) or _RESULTS.search(name):
            continue
        if inspect.isclass(thing) and not dataclasses.is_dataclass(thing):
            continue
        known = {**GOOD, **(_SPECIAL.get(name) or {})}
        good, special = {}, _SPECIAL.get(name) or {}
        for parameter in inspect.signature(thing).parameters.values():
            if parameter.default is parameter.empty or parameter.name in special:
                if parameter.name in known:
                    good[parameter.name] = known[parameter.name]
                else:
                    lacking.append(f"{name}({parameter.name})")
            else:
                good[parameter.name] = parameter.default
        found[name] = Subject(name, _asked(thing) if inspect.isclass(thing) else thing, good)
    people = jaxdp.Population.from_histogram([3, 4, 5])
    for name, calls in _POPULATION.items():
        for number, good in enumerate(calls):
            label = f"Population.{name}" + (" by label" if number else "")
            found[label] = Subject(label, getattr(jaxdp.Population, name), good)
    for name, good in _METHODS.items():
        found[f"Population.{name}"] = Subject(f"Population.{name}", getattr(people, name), good)
    for name, good in _OPERATORS.items():
        found[f"Operator.{name}"] = Subject(
            f"Operator.{name}", getattr(workloads.Operator, name), good
        )
    assert not lacking, f"no good argument is known for {', '.join(lacking)}"
    return {name: subject for name, subject in found.items() if subject.good}


class _Hang(BaseException):
    pass


@contextlib.contextmanager
def _within(seconds: float) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise _Hang

    # Seconds of this process on a core: on a busy machine others take as many as they like.
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _numbers(tree: object) -> Iterator[np.ndarray]:
    for leaf in jax.tree.leaves(tree):
        if isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            continue
        if isinstance(leaf, (float, np.ndarray, np.floating, jax.Array)):
            array = np.asarray(leaf)
            if array.dtype.kind == "f":
                yield array


def _finite(value: object) -> bool:
    try:
        return all(np.all(np.isfinite(x)) for x in _numbers(value))
    except (TypeError, ValueError):
        return True


def _parts(answer: object) -> tuple[object, list[np.ndarray]]:
    """What an answer says: its structure, and the bits of all numbers in it."""
    leaves, structure = jax.tree.flatten(answer)
    numbers = []
    for leaf in leaves:
        if isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        if isinstance(leaf, (int, float, np.ndarray, np.generic, jax.Array)):
            numbers.append(np.asarray(leaf))
    return structure, numbers


def _same(first: object, second: object) -> bool:
    (one, numbers), (other, others) = _parts(first), _parts(second)
    return (
        one == other
        and len(numbers) == len(others) > 0
        and all(
            x.dtype == y.dtype and x.tobytes() == y.tobytes()
            for x, y in zip(numbers, others, strict=True)
        )
    )


def _wraps(subject: Subject, given: dict[str, Any], labels: dict[str, str], answer: object) -> bool:
    """Whether a huge integer is answered as its lower bits are, and not as another huge integer."""
    for name, label in labels.items():
        for lower in WRAPPED.get(label, ()):
            try:
                if not _same(answer, subject.call(**(subject.good | given | {name: lower}))):
                    continue
                huge = given[name]
                other = {name: huge + 3 * (huge > 2**30)}  # of an array, the huge entries alone
                if not _same(answer, subject.call(**(subject.good | given | other))):
                    return True
            except Exception:  # refused: the answer was not of the lower bits
                continue
    return False


def judged(subject: Subject, labels: dict[str, str]) -> tuple[str, str]:
    """How hostile values end, and what there is to say of it.

    Args:
      subject: what is called.
      labels: for each replaced argument the label of the value.

    Returns:
      One of `RIGHT`, or the class of what is wrong; and its description.
    """
    given = {name: VALUES[label] for name, label in labels.items()}
    said = f"{subject.name}({', '.join(f'{k}={v!r}' for k, v in labels.items())})"
    before, start = _peak(), time.process_time()
    try:
        with _within(SECONDS), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer = jax.tree.map(
                lambda x: x, subject.call(**(subject.good | given))
            )  # leaves are made
            numbers = list(_numbers(answer))
            wraps = _wraps(subject, given, labels, answer)
    except (ValueError, TypeError) as error:
        if any(re.search(rf"\b{re.escape(name)}\b", str(error)) for name in subject.good):
            return "refused", said
        return "unnamed", f"{said} names no argument: {type(error).__name__}: {str(error)[:200]}"
    except _Hang:
        late = time.process_time() - start > 2 * SECONDS
        asked = any((subject.name, name) in _WORK for name in labels)
        return ("stopped", said) if asked and not late else ("hangs", f"{said} hangs")
    except Exception as error:
        return "raises", f"{said} raises {type(error).__name__}: {str(error)[:200]}"
    if _peak() > max(before, 2**30) + GIBIBYTES * 2**30:
        return "memory", f"{said} takes {_peak() - before:.2g} bytes"
    if all(map(_finite, given.values())) and any(np.any(np.isnan(x)) for x in numbers):
        return "nan", f"{said} answers NaN"
    if wraps:
        return "wraps", f"{said} wraps: its lower bits have the same answer"
    return "answered", said


def verdict(subject: Subject, labels: dict[str, str]) -> str | None:
    """What is wrong with the answer to hostile values, or None; see `judged`."""
    kind, said = judged(subject, labels)
    return None if kind in RIGHT else said


def drawn(seed: str, number: int, names: list[str]) -> tuple[Subject, dict[str, str]]:
    """The call of a number: a callable, and the labels of the values of one or two arguments."""
    generator = random.Random(f"{seed} {number}")
    subject = subjects()[generator.choice(names)]
    count = min(generator.choice((1, 2)), len(subject.good))
    chosen = generator.sample(sorted(subject.good), count)
    return subject, {name: generator.choice(sorted(VALUES)) for name in chosen}


@contextlib.contextmanager
def _last_resort(said: str) -> Iterator[None]:
    # Compiled code hears no signal; a thread ends the process.
    def end() -> None:
        print(f"  HARD {said} does not even stop", flush=True)
        os._exit(3)

    timer = threading.Timer(6 * SECONDS, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def main() -> None:
    """Makes calls, and prints every wrong verdict and how many calls ended how."""
    parser = argparse.ArgumentParser(description="Calls everything with hostile values.")
    parser.add_argument("--number", type=int, default=1000, help="calls to make")
    parser.add_argument("--first", type=int, default=0, help="number of the first call")
    parser.add_argument("--seed", default="0", help="which calls")
    parser.add_argument("--only", default="", help="of callables whose name matches this pattern")
    parser.add_argument("--gibibytes", type=int, default=12, help="of address space, at most")
    options = parser.parse_args()
    names = [name for name in sorted(subjects()) if re.search(options.only, name)]
    limit = options.gibibytes * 2**30
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    counts: collections.Counter[str] = collections.Counter()
    for number in range(options.first, options.first + options.number):
        subject, labels = drawn(options.seed, number, names)
        start = time.monotonic()
        with _last_resort(f"{number} {subject.name} {labels}"):
            kind, said = judged(subject, labels)
        counts[kind] += 1
        if kind not in RIGHT:
            print(f"{number:6d} {kind:8s} {said}", flush=True)
        elif time.monotonic() - start > SECONDS / 4:
            print(f"{number:6d} slow     {said}: {time.monotonic() - start:.0f} s", flush=True)
        if number % 200 == 199:
            print(f"{number + 1:6d} so far   {dict(counts)}", flush=True)
    print(f"{options.number} calls of {len(names)} callables: {dict(counts)}")


if __name__ == "__main__":
    main()
