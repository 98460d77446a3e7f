"""What is played under checked annotations: every contract case, and a control that must fail.

Reports, tallies, draws and estimates are traced and not compiled: tracers have shapes and dtypes.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

import jaxdp
from jaxdp._contract import Independent
from jaxdp.engine import Round
from jaxdp.random import Count
from jaxdp.randomizers import Randomizer
from jaxdp.testing import Subject
from tests.contracts.case import Case
from tests.contracts.registry import PROTOCOLS

KEY = jax.random.key(0)


def play(case: Case) -> None:
    """Uses the spec for the first time while tracing, then calculates with it on the host."""
    subject = case.subject()
    run = functools.partial(jaxdp.run, subject.spec, subject.population)
    jax.eval_shape(functools.partial(run, method="per_user"), KEY)
    if isinstance(subject.params, Round):
        trace(subject.params, subject.population)
    elif "tally" in subject.paths:
        jax.eval_shape(functools.partial(run, method="tally"), KEY)
    calculate(subject)


def calculate(subject: Subject) -> None:
    """The mathematics of a spec, on the host."""
    spec: Any = subject.spec
    counts, number = subject.counts, int(subject.counts.sum())
    inputs = () if subject.inputs is None else (subject.inputs,)
    arguments = {
        "exact_epsilon": (),
        "truth": (counts, *inputs),
        "variance": (counts, *inputs),
        "population_truth": (counts / number, number, *inputs),
        "population_variance": (counts / number, number, *inputs),
        "worst_case_variance": (number,),
    }
    if isinstance(spec, Randomizer):
        value = subject.rows[0] if inputs else 0
        arguments |= {"moments": (value,), "covariance": (value,), "channel": (32, subject.values)}
    for name in sorted(arguments.keys() & set(dir(spec))):
        getattr(spec, name)(*arguments[name])


def trace(params: Round[Any], users: jaxdp.Population) -> None:
    """Reports and their tally, draws of the tally, and the estimates from both."""
    report = jax.eval_shape(params.privatize, KEY, params.value)
    reports = jax.tree.map(lambda x: jax.ShapeDtypeStruct((7, *x.shape), x.dtype), report)
    tallies = [jax.eval_shape(params.tally, reports)]
    if params.law is not None:
        tallies += [jax.eval_shape(params.law.draw, KEY, users.counts(), users.inputs)]
        if params.law.independent is not None:
            drawn = Independent(Count.of(7), users.counts(), users.inputs)
            tallies += [jax.eval_shape(params.law.independent, KEY, drawn)]
    with jax.enable_x64(True):
        for tally in tallies:
            jax.eval_shape(params.estimate, tally)


def wrong_shape(numbers: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n 2"]:
    """Returns the axes in the wrong order."""
    return np.stack([numbers, numbers])


PLAYS: dict[str, Callable[[], Any]] = {
    case.name: functools.partial(play, case) for case in PROTOCOLS
}
PLAYS["control"] = functools.partial(wrong_shape, np.zeros(3))
