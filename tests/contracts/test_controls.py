"""Negative controls: for each check of `jaxdp.testing` a randomizer with the fault that it sees."""

import dataclasses
import functools
import inspect
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp._checked import field_checks
from jaxdp._checks import By
from jaxdp._contract import Draft, TallyLaw, field, params, spec
from jaxdp.population import Population
from jaxdp.random import Count
from jaxdp.randomizers import KRR, BinaryResponse, Laplace, PrivUnit
from jaxdp.testing import (
    CHECKS,
    CheckFailed,
    Subject,
    check_frequencies,
    check_protocol,
    check_randomizer,
    must_fail,
)
from tests.audit.faults import Blind, KeepsOneMore

NUMBERS = np.float32([-1.0, -0.3, 1.0])
VECTORS = np.float32([[0.6, 0.8], [0.0, 0.0], [-1.0, 0.0]])
COUNTS = np.array([40, 60, 30])


def altered(base: Any, params_methods: dict[str, Any] | None = None, **methods: Any) -> Any:
    """A spec like `base`, with other methods, whose params have other methods too."""
    cls, built = type(base), base.build()
    space = dict(__doc__="Altered.", __module__=__name__)
    kind = params(type("AlteredParams", (type(built),), space | (params_methods or {})))

    def build(self, word_bits: int = 32) -> Any:
        whole = cls.build(self, word_bits)
        return kind(*(getattr(whole, f.name) for f in dataclasses.fields(whole)))

    made = spec(type("Altered", (cls,), space | {"build": build} | methods))
    return made(*(getattr(base, f.name) for f in dataclasses.fields(base)))


def subject(spec: Any, inputs: Any = None, **claims: Any) -> Subject:
    return Subject(spec, COUNTS, inputs, jax.random.key(5), num_trials=1000, **claims)


KRR3, BINARY, LAPLACE, UNIT = KRR(3, 1.0), BinaryResponse(1.0), Laplace(1.0), PrivUnit(2, 1.0)
krr, binary, laplace, unit = (type(each.build()) for each in (KRR3, BINARY, LAPLACE, UNIT))
NUMBER = itertools.count()


def impure(method: Any) -> Any:
    """A method whose result depends on how often it was traced."""

    @functools.wraps(method)
    def changed(self, *args):
        return method(self, *args) + next(NUMBER) % 97

    return changed


def times(method: Any, factor: float) -> Any:
    return lambda self, *args, **kwargs: factor * method(self, *args, **kwargs)


def sure_at_ties(self) -> Draft:
    draft = laplace.draft.fget(self)

    def reports(words, values):
        drafted = draft.reports(words, values)
        return jnp.where(drafted == Draft.UNSURE, 0, drafted)

    return Draft(draft.num_words, reports)


def padded_tally(self, reports, mask=None) -> Count:
    """Counts users that are not in the mask as reports of 0."""
    counts = krr.tally(self, reports, mask)
    missing = 0 if mask is None else jnp.sum(~mask, dtype=jnp.int32)
    return counts + Count.of(jnp.zeros(3, jnp.int32).at[0].set(missing))


def moved_law(self) -> TallyLaw:
    law = krr.law.fget(self)

    def draw(key, counts, inputs):
        return law.draw(key, counts[::-1], inputs)

    return TallyLaw(draw, law.cost)


def slow_in_64_bits(self, work) -> float:
    return 1e9 if jax.config.jax_enable_x64 else 0.0


def raw_values(self, words, value):
    """The value's square decides about reports of values beyond the domain."""
    report = krr.from_bits(self, words, value)
    return jnp.where((value < 0) | (value > 2), np.int32(1), report)


@spec
class Unchecked(KRR):
    """Takes anything as epsilon, though the check names bad values."""

    epsilon: float = field(By(lambda name, value: value, (-1.0,)))

    def validate(self) -> None:
        pass


@spec
class Counted(KRR):
    """Every one that is made differs."""

    number: int = field(By(lambda name, value: next(NUMBER), (None,)), default=0)


def no_check(self, *args) -> None:
    pass


def unchecked_variance(self, counts, inputs=None) -> np.ndarray:
    return np.ones(3)


FAULTS = {
    "channel_is_private": subject(KeepsOneMore(3, 1.0)),
    "words_follow_the_channel": subject(Blind(3, 1.0)),
    "estimator_inverts_the_channel": subject(altered(KRR3, truth=times(KRR.truth, 1.01))),
    "variance_is_that_of_the_channel": subject(altered(KRR3, variance=times(KRR.variance, 1.01))),
    "covariance_is_that_of_the_channel": subject(
        altered(KRR3, covariance=times(KRR.covariance, 1.01))
    ),
    "density_is_that_of_the_channel": subject(
        altered(LAPLACE, log_density=times(Laplace.log_density, 1.01)), NUMBERS
    ),
    "budget_is_spent": subject(altered(KRR3, exact_epsilon=lambda self, word_bits=32: 0.9)),
    "density_ratios_are_bounded": subject(
        altered(LAPLACE, log_density=times(Laplace.log_density, 1.01)), NUMBERS
    ),
    "density_is_that_of_the_sampler": subject(
        altered(UNIT, log_density=lambda self, y, x: PrivUnit(2, 0.5).log_density(y, x)), VECTORS
    ),
    "moments_give_the_variance": subject(
        altered(BINARY, variance=times(BinaryResponse.variance, 1.01)), NUMBERS
    ),
    "single_reports_decode_to_estimates": subject(
        altered(BINARY, {"decode": times(binary.decode, 1.01)}), NUMBERS
    ),
    "drafts_are_reports": subject(altered(LAPLACE, {"draft": property(sure_at_ties)}), NUMBERS),
    "reports_are_within_their_limits": subject(
        altered(KRR3, {"report_limits": property(lambda self: (0, 1))})
    ),
    "extreme_reports_are_extreme": subject(
        altered(KRR3, {"extreme_reports": lambda self, queries=None: np.zeros(1, np.int32)})
    ),
    "hostile_values_are_moved_into_the_domain": subject(altered(KRR3, {"from_bits": raw_values})),
    "bad_fields_are_refused": subject(Unchecked(3, 1.0)),
    "traced_epsilon_is_refused": subject(Unchecked(3, 1.0)),
    "specs_are_values": subject(Counted(3, 1.0)),
    "bad_counts_are_refused": subject(altered(KRR3, variance=unchecked_variance)),
    "bad_inputs_are_refused": subject(altered(BINARY, check_range=no_check), NUMBERS),
    "bad_values_are_refused": subject(altered(KRR3, check_values=no_check)),
    "tallies_merge": subject(altered(KRR3, {"tally": padded_tally})),
    "outcome_is_the_tally_of_the_reports": subject(altered(KRR3, {"tally": padded_tally})),
    "estimate_is_that_of_the_outcome": subject(altered(KRR3, {"estimate": impure(krr.estimate)})),
    "bits_do_not_depend_on_blocks_and_devices": subject(altered(KRR3, {"tally": padded_tally})),
    "given_users_are_the_counted_ones": subject(altered(KRR3, {"tally": padded_tally})),
    "trials_are_runs": subject(altered(KRR3, {"estimate": impure(krr.estimate)})),
    "runs_agree_inside_jit_and_vmap": subject(altered(KRR3, {"estimate": impure(krr.estimate)})),
    "results_do_not_depend_on_the_x64_flag": subject(altered(KRR3, {"user_cost": slow_in_64_bits})),
    "runs_agree_however_they_are_made": subject(altered(KRR3, {"tally": padded_tally})),
    "reports_agree_under_every_transformation": subject(
        altered(KRR3, {"from_bits": impure(krr.from_bits)})
    ),
    "variance_is_as_predicted": subject(altered(KRR3, variance=times(KRR.variance, 2.0))),
    "both_paths_have_one_law": subject(altered(KRR3, {"law": property(moved_law)})),
    "independent_users_have_the_population_truth": subject(
        altered(KRR3, population_truth=times(KRR.population_truth, 2.0))
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_check_sees_a_fault(name):
    with pytest.raises(AssertionError, match=f"^{name}: "):
        CHECKS[name](FAULTS[name])


def test_every_check_has_a_control_and_says_what_it_proves():
    assert set(FAULTS) == set(CHECKS)
    for check in CHECKS.values():
        assert len(inspect.cleandoc(check.description).splitlines()[0]) > 30, check.name


def test_reports_that_cannot_be_enumerated_are_counted():
    """The statistical part of a check that is exact where words are few."""

    def other(self, word_bits=32, inputs=None):
        return Laplace(1.2).channel(word_bits, inputs)

    with pytest.raises(CheckFailed):
        CHECKS["words_follow_the_channel"].run(subject(altered(LAPLACE, channel=other), NUMBERS))


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (altered(KRR3, {"estimate": impure(krr.estimate)}), "per_user"),
        (altered(KRR3, truth=lambda self, counts, inputs=None: np.zeros(2)), "the shape"),
    ],
    ids=["impure estimate", "truth of another shape"],
)
def test_runs_that_differ_otherwise_are_seen(fault, said):
    name = "runs_agree_however_they_are_made"
    with pytest.raises(AssertionError, match=f"(?s)^{name}: .*{said}"):
        CHECKS[name](subject(fault))


def test_a_biased_mean_is_seen():
    base = altered(KRR3, {"estimate": lambda self, outcome: krr.estimate(self, outcome) + 5.0})
    with pytest.raises(AssertionError, match=r"^variance_is_as_predicted: check_mean"):
        CHECKS["variance_is_as_predicted"](subject(base))


@pytest.mark.slow
def test_a_sound_randomizer_passes_what_its_faulty_kin_fail():
    for name, faulty in FAULTS.items():
        sound = {"Laplace": LAPLACE, "PrivUnit": UNIT, "BinaryResponse": BINARY}
        kin = next(
            (sound[c.__name__] for c in type(faulty.spec).__mro__ if c.__name__ in sound), KRR3
        )
        if name not in ("variance_is_as_predicted", "both_paths_have_one_law"):
            CHECKS[name](subject(kin, faulty.inputs, floats=kin is UNIT))


def test_checks_are_chosen_by_name():
    check_randomizer(KRR3, checks=["channel_is_private", "specs_are_values"])
    check_randomizer(BINARY, checks=["moments_give_the_variance", "bad_inputs_are_refused"])
    population = Population.from_histogram(COUNTS)
    check_protocol(KRR3, population, checks=["bad_fields_are_refused"])
    for bad in ("channel", "drafts_are_reports"):
        with pytest.raises(ValueError, match=f"checks must be among those that apply.*{bad}"):
            check_randomizer(KRR3, checks=[bad])
    with pytest.raises(AssertionError, match=r"^words_follow_the_channel"):
        check_randomizer(Blind(3, 1.0))


def test_frequencies():
    p = np.array([0.5, 0.3, 0.2, 0.0])
    check_frequencies([500, 300, 200, 0], p)
    must_fail(check_frequencies, [500, 300, 200, 1], p)
    must_fail(check_frequencies, [600, 200, 200, 0], p)


def test_fields_without_bad_values_are_seen():
    @spec
    class Silent(KRR):
        epsilon: float = field(By(lambda name, value: value))

    assert dict(field_checks(Silent))["epsilon"].bad == ()
    with pytest.raises(AssertionError, match="the check of epsilon lists no bad values"):
        CHECKS["bad_fields_are_refused"](subject(Silent(3, 1.0)))
