"""What a result of a plan would look like: one simulated collection."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from .._contract import Work
from .._prediction import Kind
from ..engine import outcome, simulate
from ..linear import PostProcessed
from ..reports import Answer
from ._option import estimator
from ._plan_numbers import PlanNumbers
from ._question import Users

SHOWN = 32
"""Answers that are drawn."""

_QUICK = 2e9  # nanoseconds of a run
_TRIALS = 64  # whose spread is shown where no formula has the standard errors


@dataclasses.dataclass(frozen=True, eq=False)
class Example:
    """A simulated result.

    Attributes:
      data: the name of the users' data; None for data that were given.
      answer: the estimate with standard errors, of the answers that are drawn.
      truth: float64[m].
      nearest: float64[m], the nearest answers that some users have; None where nothing is known.
      chosen: int[m], which of all answers these are.
      by_size: whether they are the largest ones, rather than some evenly spaced.
      kind: of the standard errors.
    """

    data: str | None
    answer: Answer
    truth: np.ndarray
    nearest: np.ndarray | None
    chosen: np.ndarray
    by_size: bool
    kind: Kind


def example_of(plan: PlanNumbers, labels: Sequence[str] | None, key: jax.Array) -> Example:
    """One collection by the best option, of the plan's own data if they are not the worst.

    Args:
      plan: of what.
      labels: what the answers are of; None for their numbers.
      key: of the randomness.
    """
    question, best = plan.question, plan.best
    data = plan.data
    if isinstance(data, str) and data == "worst":
        data = question.NAMED_DATA[-1]
    users = question.users(data, best.num_users)
    assert users is not None, "these are not the worst data"
    protocol: Any = estimator(best.protocol, best.trust)
    if isinstance(protocol, PostProcessed):
        protocol = protocol.protocol
    runs = question.runs(protocol, users)
    parts = [_run(protocol, some, jax.random.fold_in(key, i)) for i, (_, some) in enumerate(runs)]
    nothing = np.zeros(())
    scaled = [(factor, part) for (factor, _), part in zip(runs, parts, strict=True)]
    estimate = sum((f * question.answers(part.estimate) for f, part in scaled), nothing)
    truth = sum((f * question.answers(part.truth) for f, part in scaled), nothing)
    variance = sum((f**2 * question.answers(part.variance) for f, part in scaled), nothing)
    kind = parts[0].kind
    better = {} if best.trust in ("secure sum", "central") else question.postprocessed(protocol)
    nearest = None
    if "projected" in better:
        moved = better["projected"].built.estimate(parts[0].left)
        nearest = question.answers(np.asarray(moved, np.float64))
    size = max(estimate.size, 1)
    chosen = np.unique(np.linspace(0, size - 1, min(size, SHOWN)).round().astype(int))
    by_size = False
    if protocol.answers_bins:
        by_size, chosen = True, np.argsort(-np.ravel(truth), kind="stable")[:SHOWN]

    def shown(numbers: Any) -> np.ndarray:
        return np.ravel(np.asarray(numbers, np.float64))[chosen] + question.offset

    if labels is None:
        labels = question.answer_labels
    names = tuple(str(i) if labels is None else labels[i] for i in chosen) if size > 1 else ("",)
    errors = np.sqrt(np.broadcast_to(variance, estimate.shape))
    answer = Answer(
        shown(estimate), shown(errors) - question.offset, names, best.num_users, best.epsilon
    )
    return Example(
        data if isinstance(data, str) else None,
        answer,
        shown(truth),
        None if nearest is None else shown(nearest),
        chosen,
        by_size,
        kind,
    )


@dataclasses.dataclass(frozen=True, eq=False)
class _Run:
    """A simulated run of a protocol."""

    left: Any
    estimate: np.ndarray
    variance: np.ndarray
    truth: np.ndarray
    kind: Kind


def _run(protocol: Any, users: Users, key: jax.Array) -> _Run:
    cost = protocol.built.cost(Work(float(users.counts.sum()), len(users.counts)))
    # Of a single run most of the time goes into compiling, and users are less to compile than laws.
    method = "per_user" if cost.per_user < _QUICK else "auto"
    left = outcome(protocol, users.population, key, method=method)
    estimate = np.asarray(protocol.built.estimate(left), np.float64)
    variance, kind = (
        protocol.reported_variance(left, int(users.counts.sum())),
        protocol.variance_kind,
    )
    if variance is None and kind != "bound":
        variance = protocol.variance(users.counts, users.inputs)
    if variance is None:
        trials = simulate(protocol, users.population, key, num_trials=_TRIALS)
        variance, kind = trials.variance, "simulated"
    truth = np.asarray(protocol.truth(users.counts, users.inputs), np.float64)
    return _Run(left, estimate, np.broadcast_to(variance, estimate.shape), truth, kind)
