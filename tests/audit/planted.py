"""The table of planted faults: what each is, how it is audited, and the verdict."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

import jaxdp
from jaxdp.audit import AuditReport, estimate_epsilon, exact_epsilon
from jaxdp.engine import _stream
from jaxdp.randomizers import KRR, BinaryResponse, GaussianRejection, LocalHashing
from tests.audit import faults

CONFIDENCE = 1 - 1e-9
ALONE = jaxdp.Population.from_values([0], num_values=2)
TWO_BLOCKS = jaxdp.Population.from_values([0] * 32, num_values=2)
NOT_FULL = jaxdp.Population.from_values([0] * 17, num_values=2)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What an audit says: of claims that are refuted, means that are wrong, inputs not used."""

    violates: bool = False
    biased: bool = False
    spends_nothing: bool = False
    bound: float = 0.0


@dataclasses.dataclass(frozen=True)
class Fault:
    """A planted fault.

    Attributes:
      name: of the test.
      audit: the verdict, given a key, on what has the fault (True) or its sound twin (False).
      caught: what must be true of the verdict on the fault, and false of that on the twin.
      least: the bound on epsilon that is reached at least, where the claim is violated.
    """

    name: str
    audit: Callable[[jax.Array, bool], Verdict]
    caught: str = "violates"
    least: float = 1.0


def of_report(report: AuditReport) -> Verdict:
    """The verdict of a report."""
    flags = report.violates, report.biased, report.spends_nothing
    return Verdict(*flags, bound=report.epsilon_lower)


def sampled(
    planted: object, sound: object, num_samples: int = 20_000, **options: Any
) -> Callable[[jax.Array, bool], Verdict]:
    """Audits one of the two by samples; the claim is epsilon = 1 unless a spec has its own."""

    def audit(key: jax.Array, faulty: bool) -> Verdict:
        given: Any = planted if faulty else sound
        claim: dict[str, Any] = {} if isinstance(given, KRR | LocalHashing) else {"epsilon": 1.0}
        chosen = claim | {"confidence": CONFIDENCE, "batch_size": num_samples} | options
        return of_report(estimate_epsilon(given, key, num_samples, **chosen))

    return audit


def proved(planted: Any, sound: Any) -> Callable[[jax.Array, bool], Verdict]:
    """Enumerates one of the two."""

    def audit(key: jax.Array, faulty: bool) -> Verdict:
        del key
        given = planted if faulty else sound
        found = exact_epsilon(given)
        return Verdict(violates=found > given.epsilon, bound=found)

    return audit


def in_blocks(key: jax.Array, faulty: bool) -> Verdict:
    """Runs of two blocks of users, by an engine that may repeat the words of the first."""
    krr = KRR(2, 1.0).build()
    options: dict[str, Any] = dict(population=TWO_BLOCKS, epsilon=1.0, confidence=CONFIDENCE)
    if not faulty:
        return of_report(estimate_epsilon(faults.Lawless(krr), key, 10_000, **options))
    right = _stream._block_tally

    def first_block(round, users, key, read, place, row, plan):
        counter, within = jax.tree.map(jnp.zeros_like, (place.counter, place.first))
        first = place._replace(counter=counter, first=within)
        return right(round, users, key, read, first, row, plan)

    with mock.patch.object(_stream, "_block_tally", first_block):
        repeated = faults.InRepeatedBlocks(krr)
        return of_report(estimate_epsilon(repeated, key, 10_000, **options))


def product(reports: np.ndarray) -> np.ndarray:
    """A statistic that a user of the audit adds."""
    return reports[:, 0] * reports[:, 1]


_END = np.full(16, 0.25)
_BITS: dict[str, Any] = dict(inputs=[0, 1])
_ENDS: dict[str, Any] = dict(inputs=[-1.0, 1.0])
_RUN: dict[str, Any] = dict(population=ALONE, num_samples=10_000)
_krr = KRR(2, 1.0).build()
_questions = functools.partial(faults.TwoQuestions.make, 1 / 3, 2 / 3)

FAULTS = (
    Fault(
        "own-value-first",
        sampled(faults.OrderedSubset.make(8, 1.0, 2), KRR(8, 1.0), inputs=[0, 3]),
        least=3.5,
    ),
    Fault("input-not-used", sampled(faults.Blind(4, 1.0), KRR(4, 1.0)), caught="spends_nothing"),
    Fault("threshold-one-step", proved(faults.KeepsOneMore(3, 1.0), KRR(3, 1.0))),
    Fault("scale-one-ulp", proved(faults.ScalesByOneUlpMore(1.0), BinaryResponse(1.0))),
    Fault(
        "rejection-as-printed",
        sampled(
            faults.PrintedRejection.make(2, epsilon=1.0, num_users=10**4),
            GaussianRejection(2, 1.0),
            inputs=[[1.0, 0.0], [0.0, 0.0]],
        ),
        least=2.3,
    ),
    Fault(
        "half-the-sensitivity",
        sampled(
            faults.HalfSensitivity.make(16, 1.0, 0.01, sensitivity=1.0),
            faults.HalfSensitivity.make(16, 1.0, 0.01, sensitivity=2.0),
            num_samples=50_000,
            inputs=[_END, -_END],
            delta=0.01,
        ),
        least=1.3,
    ),
    Fault(
        "sign-of-a-product",
        sampled(
            faults.SignOfProduct(0.1), faults.SignOfProduct(0.3), statistics=(product,), **_BITS
        ),
        least=1.7,
    ),
    Fault(
        "no-clipping",
        sampled(
            faults.GridLaplace(2.0, clips=False), faults.GridLaplace(2.0), outside=True, **_ENDS
        ),
        least=5.0,
    ),
    Fault(
        "nan-passes",
        sampled(
            faults.GridLaplace(2.0, knows_nan=False), faults.GridLaplace(2.0), outside=True, **_ENDS
        ),
        least=5.0,
    ),
    Fault(
        "last-bits-of-a-sum",
        sampled(faults.GridLaplace(2.0, grid=False), faults.GridLaplace(2.0), inputs=[0.0, 1.0]),
        least=3.3,
    ),
    Fault(
        "last-mantissa-bit",
        sampled(faults.LastMantissaBit(0.0), faults.LastMantissaBit(0.3), **_ENDS),
        least=5.0,
    ),
    Fault(
        "parity-of-a-vector",
        sampled(faults.ParityOfVector(0.0), faults.ParityOfVector(0.3), **_BITS),
        least=5.0,
    ),
    Fault(
        "hash-coefficient",
        sampled(faults.ForgetsCoefficient(6, 1.0), LocalHashing(6, 1.0), inputs=[0, 1]),
        caught="biased",
    ),
    Fault(
        "hash-shares-a-word",
        sampled(faults.SharesAWord(6, 1.0), LocalHashing(6, 1.0), inputs=[0, 1]),
        least=4.5,
    ),
    Fault("equal-words-in-blocks", in_blocks, least=4.5),
    Fault(
        "equal-words-in-rounds",
        sampled(_questions(number=0), _questions(), epsilon=1.0, **_RUN),
        least=1.9,
    ),
    Fault(
        "budget-not-split",
        sampled(faults.TwoQuestions.make(1.0, 1.0), _questions(), **_RUN),
        least=1.3,
    ),
    Fault("true-counts-kept", sampled(_questions(raw=True), _questions(), **_RUN), least=4.5),
    Fault(
        "law-of-another-round",
        sampled(faults.OtherLaw(_krr, KRR(2, 2.0).build()), faults.OtherLaw(_krr, _krr), **_RUN),
        least=1.5,
    ),
    Fault(
        "mask-ignored",
        sampled(
            faults.Unmasked(2, 1.0),
            faults.Unmasked(2, 1.0, counts_all=False),
            population=NOT_FULL,
            num_samples=10_000,
        ),
        caught="biased",
    ),
)
